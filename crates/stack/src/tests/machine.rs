//! A machine of the simulation: a stack, one program beside it, and the turn that joins
//! them as the engine's loop does.

use super::observer::Observer;
use super::plug::{Link, Plug};
use super::program::Program;
use super::responses::Response;
use crate::host::{Defaults, Host};
use crate::link::automatic::Automatic;
use crate::requests::From;
use crate::secrets::Secrets;
use crate::session::Session;
use crate::testing::dhcp_server::DhcpServer;
use crate::testing::{self, Wanted};
use crate::{Interface, Received, Settings, Stack};
use longshore_frames::{RecvBuffer, RxChecksum, RxMeta, TxFrame};
use longshore_hostif::adapter::{AdapterSession, Delays, Due, Next, OfferedFile};
use longshore_hostif::agent::{Peer, Processes};
use longshore_hostif::{Agreed, Arena, Crossings, Geometry, Loopback, Meter, Request, Versions};
use longshore_net::Cidr;
use longshore_ports::sim::SimPort;
use longshore_ring::EventfdSignaler;
use longshore_tcp::{FastOpenKey, Instant};
use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

/// Few sockets and little memory, so that both run out at times.
const GEOMETRY: Geometry = Geometry {
    channels: 64,
    waiters: 8,
    sockets: 64,
    snd_chunks: 64,
    rcv_chunks: 400,
    workers: 1,
};
/// Frames and requests taken in a turn.
const BURST: usize = 64;
/// How long requests wait, as the engine has it.
const DELAYS: Delays = Delays {
    soon: 50,
    held_back: 2_000,
};
/// How often fragments that did not come together are looked for, in microseconds.
const MAINTENANCE_US: u64 = 1_000_000;

/// A machine with settings of nobody's, where it is always the same time of day.
pub(super) struct Alone;

impl Host for Alone {
    fn defaults(&mut self, _now: Instant) -> Option<Defaults> {
        None
    }

    fn fast_open_keys(&self) -> Option<(Option<FastOpenKey>, Option<FastOpenKey>)> {
        None
    }

    fn time_of_day_ns(&self) -> u64 {
        0
    }
}

/// A stack and its program.
pub(super) struct Machine {
    pub(super) stack: Stack,
    pub(super) program: Program,
    session: u32,
    processes: Processes,
    channel: Option<u16>,
    buffer: RecvBuffer,
    maintenance_at: Instant,
    link: Link,
    /// Frames of nobody on the wire.
    brought: Vec<Vec<u8>>,
    /// Which access to its sockets panics, if one does.
    panics: Option<u32>,
    /// How often its link has come back.
    pub(super) returns: u64,
    /// Its stack has the addresses that its program needs.
    has_begun: bool,
    /// Answers what comes for it before the stack sees it.
    pub(super) dhcp_server: Option<DhcpServer>,
    /// How many frames it has received.
    frames: u64,
    /// The frames that it has received, all of them in one number.
    trace: DefaultHasher,
    /// Sees what the stack and the program write to what they share, if anybody does.
    pub(super) observer: Option<Observer>,
    /// When requests are due that wait.
    requests_at: Option<Instant>,
}

impl Machine {
    /// A machine with these addresses, and one more from a DHCP server if it `asks_dhcp`.
    pub(super) fn new(
        port: SimPort,
        addresses: &[Cidr],
        asks_dhcp: bool,
        seed: u64,
        now: Instant,
    ) -> Self {
        let secrets = Secrets::from_seed(seed);
        let automatic = Automatic {
            dhcp: asks_dhcp.then(|| b"\xffsimulated".to_vec()),
            routers: None,
        };
        let (plug, link) = Plug::new(port);
        let interface = Interface {
            port: Box::new(plug),
            addresses,
            gateways: &[],
            automatic: &automatic,
        };
        let mut settings = Settings::new(Box::new(Alone), Loopback::Kernel, 0, true);
        settings.has_one_session = true;
        let mut stack = Stack::new(interface, settings, &secrets, now).unwrap();
        let agreed = Agreed {
            features: Versions::OURS.features,
            ..Agreed::OURS
        };
        let arena = Arc::new(Arena::create_for(GEOMETRY, agreed).unwrap());
        let signaler = Arc::new(EventfdSignaler::for_one());
        let mut host = AdapterSession::new(arena.clone(), signaler);
        let mut processes = Processes::of(&host, 0);
        let peer = Peer {
            pid: 1,
            pidfd: None,
        };
        let channel = processes.attach(peer).unwrap().channel;
        host.open_channel(channel);
        let session = stack.lifecycle().open_session(Session::new(host, 0), None);
        Self {
            stack,
            program: Program::new(arena, channel),
            session,
            processes,
            channel: Some(channel),
            buffer: RecvBuffer::new(),
            maintenance_at: now,
            link,
            brought: Vec::new(),
            panics: None,
            returns: 0,
            has_begun: false,
            dhcp_server: None,
            frames: 0,
            trace: DefaultHasher::new(),
            observer: None,
            requests_at: None,
        }
    }

    /// Its program answers with a file, which the stack has.
    pub(super) fn lend(&mut self, response: &Response) {
        let (fd, id) = response.file();
        let session = self.stack.endpoints.sessions.get_mut(self.session).unwrap();
        let file = OfferedFile::check(fd).unwrap();
        assert!(session.host.send.lend_file(file, 0).is_ok());
        self.program.file = Some(id);
    }

    /// From now on it is seen what crosses.
    pub(super) fn observe(&mut self) {
        let before = self.crossings().to_host;
        let arena = self.program.arena().clone();
        self.observer = Some(Observer::new(arena, before));
    }

    /// The program has had its step.
    pub(super) fn note_step(&mut self) {
        if let Some(observer) = &mut self.observer {
            observer.note_step();
        }
    }

    /// Frames that it has received.
    pub(super) fn frames(&self) -> u64 {
        self.frames
    }

    /// What crossed, by the meter.
    pub(super) fn crossings(&self) -> Meter {
        let session = self.stack.endpoints.sessions.get(self.session).unwrap();
        session.host.crossings()
    }

    /// Each socket has the descriptors that were seen to be about it, and all together have no
    /// more than the session.
    fn compare_sockets(&self) {
        let (Some(observer), Some(session)) = (
            &self.observer,
            self.stack.endpoints.sessions.get(self.session),
        ) else {
            return;
        };
        let mut all = Meter::default();
        for (_, socket) in self.stack.status().sockets(0) {
            all.add(&socket.meter);
        }
        for (_, socket) in self
            .stack
            .endpoints
            .sockets
            .iter()
            .filter(|(_, s)| s.has_block())
        {
            let counted = session.host.meter.of(socket.id);
            let seen = observer.of_socket(socket.id);
            assert_eq!(counted.to_adapter.descriptors, seen.to_adapter);
            assert_eq!(counted.to_host.descriptors, seen.to_host);
        }
        let crossed = session.host.crossings();
        for (all, crossed) in [
            (all.to_adapter, crossed.to_adapter),
            (all.to_host, crossed.to_host),
        ] {
            let of = |c: &Crossings| [c.descriptors.moved(), c.payload, c.control];
            for (some, whole) in of(&all).into_iter().zip(of(&crossed)) {
                assert!(some.transfers <= whole.transfers && some.bytes <= whole.bytes);
                assert!(some.words <= whole.words);
            }
            assert!(all.wakeups <= crossed.wakeups);
        }
    }

    /// One turn of the loop; frames of a wire that is cut are lost. Says whether anything
    /// was to be done.
    pub(super) fn turn(&mut self, now: Instant, is_cut: bool) -> bool {
        self.contained(|machine| machine.turn_through(now, is_cut))
    }

    /// From now on, access `left` of those to its sockets panics.
    pub(super) fn panic_after(&mut self, left: u32) {
        self.panics = Some(left);
    }

    /// Does what may panic, if that is wanted, and contains that.
    fn contained(&mut self, work: impl FnOnce(&mut Self) -> bool) -> bool {
        if let Some(left) = self.panics {
            testing::panic_in(self.session, left);
        }
        let worked = catch_unwind(AssertUnwindSafe(|| work(self)));
        self.panics = testing::panic_no_more();
        match worked {
            Ok(worked) => worked,
            Err(panic) if !panic.is::<Wanted>() => resume_unwind(panic),
            Err(_) => {
                let ended = self.stack.contain_panic();
                assert_eq!(ended, Some(vec![self.session]), "a panic in nobody's work");
                assert_eq!(self.stack.endpoints.sockets.len(), 0);
                self.stack.check().unwrap();
                self.channel = None;
                true
            }
        }
    }

    fn turn_through(&mut self, now: Instant, is_cut: bool) -> bool {
        self.stack.begin_turn(now);
        let mut worked = self.take_due_requests(now);
        worked |= self.receive_brought();
        worked |= self.receive(is_cut);
        worked |= self.stack.take_own_packets() != 0;
        worked |= self.stack.handle_timeouts();
        if self.maintenance_at <= now {
            self.stack.expire_fragments();
            self.maintenance_at = now.after_us(MAINTENANCE_US);
        }
        self.stack.relieve_memory_pressure();
        worked |= self.stack.flush();
        self.stack.answer_questions();
        self.stack.publish();
        self.stack.port_mut().flush().unwrap();
        if let Some(observer) = &mut self.observer {
            observer.note_turn();
            self.compare_sockets();
        }
        worked | self.stack.has_work_left()
    }

    /// Takes requests if they are due.
    fn take_due_requests(&mut self, now: Instant) -> bool {
        self.requests_at = None;
        let Some(session) = self.stack.endpoints.sessions.get_mut(self.session) else {
            return false;
        };
        match session.host.requests_due(now.0, DELAYS) {
            Due::Now => return self.take_requests(),
            Due::Soon => self.requests_at = Some(now.after_us(1)),
            Due::At(until) => self.requests_at = Some(Instant(until)),
            Due::Never => {}
        }
        false
    }

    /// Takes those that are to be taken before a frame.
    fn take_requests_before_frames(&mut self) {
        let session = self.stack.endpoints.sessions.get(self.session);
        if session.is_some_and(|s| s.host.pending.has_any_before_frames()) {
            self.take_requests();
        }
    }

    fn take_requests(&mut self) -> bool {
        let Some(channel) = self.channel else {
            return false;
        };
        if let Some(session) = self.stack.endpoints.sessions.get_mut(self.session) {
            session.host.pending.begin();
        }
        let from = From {
            session: self.session,
            channel,
        };
        self.stack.report_rest(from);
        let mut taken = 0;
        while let Some(session) = self.stack.endpoints.sessions.get_mut(self.session)
            && let Next::Request(message, immediate) = session.host.next_request(channel, 8)
        {
            taken += 1;
            let request = Request::decode(&message).expect("the program makes sense");
            self.stack.handle_request(from, &request, &immediate);
        }
        if taken != 0
            && let Some(session) = self.stack.endpoints.sessions.get_mut(self.session)
        {
            session.host.channels.note_taken(channel);
        }
        taken != 0
    }

    /// Its link goes down or comes back, unless it is so already.
    pub(super) fn set_link(&mut self, is_up: bool, now: Instant) {
        if self.link.is_up() != is_up {
            self.link.set(is_up);
            self.returns += u64::from(is_up);
            self.stack.set_now(now);
            self.stack.handle_port_change();
        }
    }

    /// A frame comes that nobody on the wire has sent.
    pub(super) fn bring(&mut self, frame: Vec<u8>) {
        self.brought.push(frame);
    }

    fn receive_brought(&mut self) -> bool {
        let any = !self.brought.is_empty();
        for frame in std::mem::take(&mut self.brought) {
            let meta = RxMeta {
                len: frame.len(),
                checksum: RxChecksum::Unknown,
                gso: None,
            };
            self.stack.frame_in(&frame, &meta);
        }
        any
    }

    /// Whether the program runs: it begins when the stack has its addresses.
    pub(super) fn is_running(&mut self) -> bool {
        self.has_begun |= self.stack.status().missing_addresses().is_none();
        self.has_begun && self.is_alive()
    }

    fn receive(&mut self, is_cut: bool) -> bool {
        for count in 0..BURST {
            let received = if !is_cut && self.stack.expects_bulk() {
                self.stack.receive_bulk(&mut self.buffer, count == 0)
            } else {
                Received::Usual(self.stack.port_mut().recv_single(&mut self.buffer))
            };
            let meta = match received {
                Received::Usual(received) => received.unwrap(),
                Received::InPlace(meta) => {
                    self.frames += 1;
                    self.trace.write_usize(meta.len);
                    self.trace.write_u64(self.stack.now().0);
                    continue;
                }
            };
            let Some(meta) = meta else {
                return count != 0;
            };
            if is_cut {
                continue;
            }
            self.stack.note_received(meta.len);
            self.frames += 1;
            if count == 0 {
                self.take_requests_before_frames();
            }
            let frame = self.buffer.frame(meta.len);
            self.trace.write(frame);
            self.trace.write_u64(self.stack.now().0);
            let server = self.dhcp_server.as_mut();
            if let Some(answer) =
                server.and_then(|s| s.answer(frame, self.stack.link().output.device.mac()))
            {
                self.stack
                    .port_mut()
                    .send(&TxFrame::whole(&answer))
                    .unwrap();
                continue;
            }
            self.stack.frame_in(frame, &meta);
        }
        true
    }

    /// Its program dies, and takes part in nothing any more.
    pub(super) fn kill(&mut self) {
        self.contained(|machine| {
            machine.let_die();
            true
        });
    }

    fn let_die(&mut self) {
        // What it published before it died still counts.
        self.take_requests();
        let Some(channel) = self.channel.take() else {
            return;
        };
        let Some(session) = self.stack.endpoints.sessions.get_mut(self.session) else {
            return;
        };
        let Some(ended) = self.processes.take_ended(channel) else {
            return;
        };
        session.host.close_channel(channel);
        session.host.wakeups.free_waiters_of(ended.name);
        for index in session.sockets_among(0..session.blocks()) {
            let key = self.stack.endpoints.sessions.socket_of(self.session, index);
            let key = key.expect("its session knows it");
            self.stack.lifecycle().forget_subscriber(key, channel);
            if !self.stack.status().is_orphan(key) {
                self.stack.lifecycle().close_unheld(key);
            }
        }
        self.processes.free_channel(channel);
    }

    pub(super) fn is_alive(&self) -> bool {
        self.channel.is_some()
    }

    /// When something is to be done, if nothing comes.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        let program = self
            .program
            .next_timeout()
            .filter(|_| self.has_begun && self.is_alive());
        let fragments = self
            .stack
            .status()
            .has_fragments()
            .then_some(self.maintenance_at);
        let all = [
            self.stack.next_timeout(),
            program,
            fragments,
            self.requests_at,
        ];
        all.into_iter().flatten().min()
    }

    /// Whether nothing is left of what was done.
    pub(super) fn assert_empty(&self) {
        let stack = &self.stack;
        assert_eq!(stack.endpoints.sockets.len(), 0, "sockets are left");
        assert_eq!(
            stack.endpoints.demux.waiting_count(),
            0,
            "TIME-WAIT is for ever"
        );
        let session = stack.endpoints.sessions.get(self.session).unwrap();
        assert_eq!(session.sockets(), 0);
        if !session.is_condemned() {
            assert_eq!(session.host.receive.in_use(), 0, "chunks are lost");
            let (free, all) = self.program.send_chunks();
            assert_eq!(free, all, "chunks of send streams are lost");
        }
        assert_eq!(session.host.meter.bad_descriptors(), 0);
        assert!(!stack.status().has_fragments(), "fragments wait for ever");
    }

    /// What it has received, and when, in one number.
    pub(super) fn trace(&self) -> u64 {
        self.trace.finish()
    }
}
