//! The machine as a stack that scripts lead: a listener, one connection, and the few
//! answers that the engine and the program's side would give for them.

use longshore_script::{Call, Sent, Stack};
use longshore_tcp::{
    Config, Events, Instant, ListenVerdict, Listener, SavedTcb, Segment, State, Tcb, reset_for,
};
use longshore_wire::SeqNumber;
use longshore_wire::tcp::TcpHeader;
use std::collections::VecDeque;
use std::time::Duration;

const START: Instant = Instant(10_000_000);
/// Our initial sequence number: our stream soon wraps.
const ISS: u32 = u32::MAX - 500;
const MSS: u16 = 1460;

/// A listener and one connection, which may come from it.
#[derive(Debug)]
pub(crate) struct Core {
    now: Instant,
    listener: Option<Listener>,
    tcb: Option<Tcb>,
    /// The program holds the connection.
    held: bool,
    /// What is due to segments of no connection.
    resets: VecDeque<TcpHeader>,
    error_told: bool,
    /// The handshake came to its end.
    connected: bool,
    /// The end of the urgent data whose last byte was read apart; 0 if none was.
    urgent_read: u64,
    /// The connection is saved, and another one restored of it, before each thing that
    /// happens to it.
    moves: bool,
}

impl Core {
    pub(crate) fn new() -> Core {
        Core {
            now: START,
            listener: None,
            tcb: None,
            held: false,
            resets: VecDeque::new(),
            error_told: false,
            connected: false,
            urgent_read: 0,
            moves: false,
        }
    }

    /// With a connection that moves all the time.
    pub(crate) fn moving(mut self) -> Core {
        self.moves = true;
        self
    }

    fn move_on(&mut self) {
        if let Some(tcb) = self.tcb.as_mut().filter(|_| self.moves) {
            *tcb = SavedTcb::of(tcb)
                .restore(self.now)
                .expect("what was saved is a connection");
        }
    }

    /// A segment that belongs to no connection.
    fn arrives_for_nobody(&mut self, segment: &Segment<'_>, iss: SeqNumber) {
        let Some(listener) = &mut self.listener else {
            self.resets.extend(reset_for(segment));
            return;
        };
        match listener.on_segment(segment, self.now) {
            ListenVerdict::Accept => {
                let config = Config::default();
                self.tcb = Some(Tcb::accept(&config, segment, MSS, iss, 0, self.now));
            }
            ListenVerdict::Reset(reset) => self.resets.push_back(reset),
            ListenVerdict::Drop(_) => {}
            verdict => panic!("one connection calls for no {verdict:?}"),
        }
    }

    fn state(&self) -> &'static str {
        match self.tcb.as_ref().map(Tcb::state) {
            None | Some(State::Closed) if self.listener.is_some() => "LISTEN",
            None | Some(State::Closed) => "CLOSED",
            Some(State::Established) => "ESTABLISHED",
            Some(State::SynReceived) => "SYN-RECEIVED",
            Some(other) => other.name(),
        }
    }

    fn write(&mut self, bytes: u32, urgent: bool) -> String {
        if let Some(error) = self.take_error() {
            return error;
        }
        match self.connection() {
            Some(tcb) if tcb.state().may_write() && !tcb.send_status().is_shut() => {
                let edge = tcb.snd_edge() + u64::from(bytes);
                tcb.set_snd_edge(edge, true);
                if urgent {
                    tcb.send_stream().set_urgent(edge);
                }
                bytes.to_string()
            }
            _ => "EPIPE".into(),
        }
    }

    fn read(&mut self, most: u32) -> String {
        let now = self.now;
        let Some(tcb) = self.connection() else {
            return "ENOTCONN".into();
        };
        let mut unread = tcb.rcv_edge() - tcb.rcv_consumed();
        let mark = tcb.receive_status().urgent().checked_sub(1);
        if unread > 0 && mark == Some(tcb.rcv_consumed()) {
            // Reads in order skip the urgent byte.
            tcb.set_rcv_consumed(tcb.rcv_consumed() + 1, now);
            unread -= 1;
        }
        if let Some(before) = mark.and_then(|mark| mark.checked_sub(tcb.rcv_consumed())) {
            unread = unread.min(before);
        }
        if unread > 0 {
            let taken = unread.min(u64::from(most));
            tcb.set_rcv_consumed(tcb.rcv_consumed() + taken, now);
            return taken.to_string();
        }
        let waits = tcb.state().may_receive_data()
            || matches!(tcb.state(), State::SynSent | State::SynReceived);
        match self.take_error() {
            Some(error) => error,
            None if waits => "EAGAIN".into(),
            None => "0".into(),
        }
    }

    /// The end of the urgent data that the program has not come past.
    fn urgent(&mut self) -> Option<(u64, &mut Tcb)> {
        let tcb = self.connection()?;
        let urgent = tcb.receive_status().urgent();
        (urgent > tcb.rcv_consumed()).then_some((urgent, tcb))
    }

    fn read_urgent(&mut self) -> String {
        let read = self.urgent_read;
        match self.urgent() {
            Some((urgent, _)) if urgent == read => "EINVAL".into(),
            Some((urgent, tcb)) if urgent <= tcb.rcv_edge() => {
                self.urgent_read = urgent;
                "1".into()
            }
            Some(_) => "EAGAIN".into(),
            None => "EINVAL".into(),
        }
    }

    fn at_mark(&mut self) -> String {
        let at_mark = |(urgent, tcb): (u64, &mut Tcb)| urgent - 1 == tcb.rcv_consumed();
        u8::from(self.urgent().is_some_and(at_mark)).to_string()
    }

    fn take_error(&mut self) -> Option<String> {
        let error = self.connection()?.error()?;
        let first = !std::mem::replace(&mut self.error_told, true);
        first.then(|| name_of(error.errno()).to_owned())
    }

    /// What the program holds.
    fn connection(&mut self) -> Option<&mut Tcb> {
        self.tcb.as_mut().filter(|_| self.held)
    }

    fn shut_down(&mut self, shut: impl FnOnce(&mut Tcb)) -> String {
        match self.connection() {
            Some(tcb) if !matches!(tcb.state(), State::Closed | State::TimeWait) => {
                shut(tcb);
                "0".into()
            }
            _ => "ENOTCONN".into(),
        }
    }

    fn release(&mut self, end: impl FnOnce(&mut Tcb)) -> String {
        match self.tcb.as_mut() {
            Some(tcb) if self.held => end(tcb),
            _ => self.listener = None,
        }
        self.held = false;
        "0".into()
    }

    fn accept(&mut self) -> String {
        match &self.tcb {
            Some(_) if self.connected && !self.held => {
                self.held = true;
                "0".into()
            }
            _ => "EAGAIN".into(),
        }
    }
}

impl Stack for Core {
    const TIMEOUT: Duration = Duration::ZERO;
    const SILENCE: Duration = Duration::ZERO;
    const EARLY: Duration = Duration::ZERO;

    fn now(&self) -> Duration {
        Duration::from_micros(self.now.since(START))
    }

    fn pass(&mut self, time: Duration) {
        self.move_on();
        let end = self.now.after_us(time.as_micros() as u64);
        if let Some(tcb) = &mut self.tcb {
            while let Some(deadline) = tcb.deadline().filter(|deadline| *deadline <= end) {
                tcb.on_timer(deadline.max(self.now));
            }
        }
        self.now = end;
    }

    fn arrives(&mut self, header: &TcpHeader, payload_len: u32) {
        self.move_on();
        let segment = Segment::new(header, payload_len);
        let alive = |tcb: &&mut Tcb| tcb.state() != State::Closed;
        let Some(tcb) = self.tcb.as_mut().filter(alive) else {
            return self.arrives_for_nobody(&segment, SeqNumber(ISS));
        };
        let disposition = tcb.on_segment(&segment, self.now);
        self.connected |= tcb.take_events().contains(Events::CONNECTED);
        if let Some(place) = disposition.place {
            assert!(place.skip + place.len <= payload_len, "{place:?}");
        }
        if disposition.reset {
            self.resets.extend(reset_for(&segment));
        }
        if let Some(iss_after) = disposition.reopen {
            self.tcb = None;
            self.arrives_for_nobody(&segment, SeqNumber(iss_after.0.wrapping_add(1)));
        }
    }

    fn sends(&mut self, wait: Duration) -> Option<Sent> {
        self.move_on();
        let end = self.now.after_us(wait.as_micros() as u64);
        if let Some(header) = self.resets.pop_front() {
            return Some(Sent {
                header,
                payload_len: 0,
            });
        }
        while let Some(tcb) = &mut self.tcb {
            if let Some(transmit) = tcb.poll_transmit(self.now, usize::from(tcb.mss())) {
                return Some(Sent {
                    header: transmit.header(0, 0),
                    payload_len: transmit.payload_len() as u32,
                });
            }
            let Some(deadline) = tcb.deadline().filter(|deadline| *deadline <= end) else {
                break;
            };
            self.now = self.now.max(deadline);
            tcb.on_timer(self.now);
        }
        self.now = self.now.max(end);
        None
    }

    fn call(&mut self, call: Call) -> String {
        self.move_on();
        let now = self.now;
        match call {
            Call::Connect => {
                let config = Config::default();
                self.tcb = Some(Tcb::connect(&config, MSS, SeqNumber(ISS), 0, now));
                self.held = true;
                "EINPROGRESS".into()
            }
            Call::Listen => {
                self.listener = Some(Listener::new(10));
                "0".into()
            }
            Call::Accept => self.accept(),
            Call::Write(bytes) => self.write(bytes, false),
            Call::WriteUrgent(bytes) => self.write(bytes, true),
            Call::Read(most) => self.read(most),
            Call::ReadUrgent => self.read_urgent(),
            Call::AtMark => self.at_mark(),
            Call::ShutdownWrite => self.shut_down(Tcb::shutdown_send),
            Call::ShutdownRead => self.shut_down(|tcb| tcb.closing().shutdown_recv()),
            Call::Close => self.release(|tcb| tcb.close(now)),
            Call::Abort => self.release(Tcb::abort),
            Call::Error => self.take_error().unwrap_or_else(|| "0".into()),
            Call::State => self.state().into(),
        }
    }
}

fn name_of(errno: u16) -> &'static str {
    match errno {
        32 => "EPIPE",
        103 => "ECONNABORTED",
        104 => "ECONNRESET",
        110 => "ETIMEDOUT",
        111 => "ECONNREFUSED",
        other => panic!("no script speaks of errno {other}"),
    }
}
