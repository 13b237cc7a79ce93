//! One end: a block, a program that writes and reads, and the bytes themselves.
//!
//! The bytes of a stream are a function of their offset, so that a byte in the wrong
//! place cannot go unnoticed.

use crate::linux::LinuxPaws;
use crate::rng::Rng;
use crate::wire::{Packet, Wire};
use longshore_tcp::{Disposition, Events, Instant, Place, SavedTcb, Segment, State, Tcb, Transmit};
use longshore_wire::SeqNumber;
use longshore_wire::tcp::TcpFlags;
use std::cell::Cell;

/// The byte at `offset` of the stream `salt`.
pub(crate) fn byte(salt: u64, offset: u64) -> u8 {
    let x = (offset ^ salt).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (x >> 56) as u8
}

/// What the program does.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Program {
    /// Bytes to write in all.
    pub(crate) total: u64,
    /// Bytes of one write at most.
    pub(crate) write: u64,
    /// Unacknowledged and unsent bytes at most.
    pub(crate) sndbuf: u64,
    /// Bytes of one read at most.
    pub(crate) read: u64,
    /// Time between two actions.
    pub(crate) pause_us: u64,
    /// How much one segment handed out may carry.
    pub(crate) max_payload: usize,
    /// Merged segments travel whole.
    pub(crate) merged: bool,
    /// The end drops by timestamps what Linux would.
    pub(crate) paws_of_linux: bool,
}

pub(crate) struct Endpoint {
    pub(crate) name: &'static str,
    pub(crate) tcb: Tcb,
    pub(crate) program: Program,
    pub(crate) salt: u64,
    pub(crate) peer_salt: u64,
    pub(crate) received: Vec<u8>,
    pub(crate) checked: u64,
    pub(crate) written: u64,
    pub(crate) acts_at: Instant,
    pub(crate) rng: Rng,
    pub(crate) events: Events,
    pub(crate) linux: Option<LinuxPaws>,
    /// Answers to what Linux has dropped, not sent yet.
    answers: Vec<Packet>,
    /// Highest edge (ack + window) that has reached us, as distance from the ISS.
    peer_edge: Option<u64>,
    peer_scale: u8,
    closed: bool,
    pub(crate) sent_packets: u64,
    pub(crate) retransmissions: u64,
    last_timer: (Instant, u32),
    /// The sequence number of offset 0, from our SYN.
    base: Cell<u32>,
    /// `LONGSHORE_TRACE` is set: print what goes in and out.
    traced: bool,
}

impl Endpoint {
    pub(crate) fn new(
        name: &'static str,
        tcb: Tcb,
        program: Program,
        salts: (u64, u64),
        seed: u64,
    ) -> Endpoint {
        Endpoint {
            name,
            tcb,
            program,
            salt: salts.0,
            peer_salt: salts.1,
            received: Vec::new(),
            checked: 0,
            written: 0,
            acts_at: Instant(0),
            rng: Rng::new(seed),
            events: Events::empty(),
            linux: program.paws_of_linux.then(LinuxPaws::default),
            answers: Vec::new(),
            peer_edge: None,
            peer_scale: 0,
            closed: false,
            sent_packets: 0,
            retransmissions: 0,
            last_timer: (Instant(0), 0),
            base: Cell::new(0),
            traced: std::env::var_os("LONGSHORE_TRACE").is_some(),
        }
    }

    /// A packet has come.
    pub(crate) fn receive(&mut self, packet: &Packet, now: Instant) -> Disposition {
        self.learn_window(packet);
        if let Some(linux) = &mut self.linux
            && linux.drops(packet)
        {
            self.answers.extend(linux.answer());
            return Disposition::default();
        }
        let segment = Segment {
            gso_size: packet.gso_size,
            ecn: packet.ecn,
            ..Segment::new(&packet.header, packet.payload.len() as u32)
        };
        let before = self.tcb.rcv_edge();
        let disposition = self.tcb.on_segment(&segment, now);
        if self.traced {
            let h = &packet.header;
            eprintln!(
                "{now:?} {} <- {:?} seq {} len {} ack {} win {} {:?} {:?}",
                self.name,
                h.flags,
                h.seq,
                packet.payload.len(),
                h.ack,
                h.window,
                h.options.sack.as_slice(),
                disposition,
            );
        }
        if let Some(place) = disposition.place {
            assert!(
                place.stream_offset >= before,
                "{}: delivered bytes rewritten",
                self.name
            );
            self.place(packet, place);
        }
        self.check();
        disposition
    }

    /// Copies payload where it belongs.
    pub(crate) fn place(&mut self, packet: &Packet, place: Place) {
        let (skip, len) = (place.skip as usize, place.len as usize);
        assert!(
            len > 0 && skip + len <= packet.payload.len(),
            "{}: {place:?}",
            self.name
        );
        let end = place.stream_offset + u64::from(place.len);
        assert!(
            end <= self.tcb.receive_status().limit(),
            "{}: beyond the window",
            self.name
        );
        let at = place.stream_offset as usize;
        if self.received.len() < at + len {
            self.received.resize(at + len, 0);
        }
        self.received[at..at + len].copy_from_slice(&packet.payload[skip..skip + len]);
    }

    /// The window as a wire-tapper sees it, to hold what is sent against.
    fn learn_window(&mut self, packet: &Packet) {
        let h = &packet.header;
        if h.flags.contains(TcpFlags::RST) {
            return;
        }
        let syn = h.flags.contains(TcpFlags::SYN);
        if syn {
            self.peer_scale = h.options.window_scale.unwrap_or(0);
        }
        let info = self.tcb.info(Instant(0));
        let scale = if syn || !info.window_scaling {
            0
        } else {
            self.peer_scale
        };
        let edge = if h.flags.contains(TcpFlags::ACK) {
            let acked = self.tcb.snd_acked();
            // The stream offset that the number stands for, nearest to what is acked.
            let una = self.seq_of(acked);
            let delta = i64::from(h.ack.0.wrapping_sub(una) as i32);
            (acked as i64 + delta).max(0) as u64 + (u64::from(h.window) << scale)
        } else {
            u64::from(h.window)
        };
        self.peer_edge = Some(self.peer_edge.unwrap_or(0).max(edge));
    }

    /// The sequence number of a stream offset.
    fn seq_of(&self, offset: u64) -> u32 {
        self.base.get().wrapping_add(offset as u32)
    }

    fn check(&mut self) {
        let t = &self.tcb;
        assert_eq!(t.check(), Ok(()), "{}: {t:?}", self.name);
        assert!(
            t.snd_acked() <= t.send_status().sent(),
            "{}: acked beyond sent",
            self.name
        );
        assert!(
            t.send_status().sent() <= t.snd_edge(),
            "{}: sent beyond written",
            self.name
        );
        assert!(t.rcv_consumed() <= t.rcv_edge(), "{}", self.name);
        assert!(
            t.send_status().cwnd() >= u32::from(t.mss()),
            "{}: cwnd {}",
            self.name,
            t.send_status().cwnd()
        );
        let info = t.info(Instant(0));
        assert!(
            info.sacked + info.lost <= info.unacked && info.retrans <= info.unacked,
            "{}: {info:?}",
            self.name
        );
        assert!(
            info.unacked == 0 || t.state() == State::Closed || t.deadline().is_some(),
            "{}: in flight, and no timer runs: {info:?}",
            self.name
        );
        let edge = t.rcv_edge();
        assert!(edge as usize <= self.received.len() || edge == 0);
        for offset in self.checked..edge {
            assert_eq!(
                self.received[offset as usize],
                byte(self.peer_salt, offset),
                "{}: byte {offset} is wrong",
                self.name
            );
        }
        self.checked = self.checked.max(edge);
        let unread = edge - t.rcv_consumed();
        // Out-of-order ranges lie in the window, so this bounds the buffer.
        assert!(
            t.receive_status().limit() - t.rcv_consumed().min(t.receive_status().limit())
                <= u64::from(t.receive_status().buffer_size()).max(unread) + 1,
            "{}: more promised than the buffer holds: {} {} {}",
            self.name,
            t.receive_status().limit(),
            t.rcv_consumed(),
            t.receive_status().buffer_size()
        );
    }

    /// The program writes and reads, if it is time.
    pub(crate) fn act(&mut self, now: Instant) {
        if now < self.acts_at {
            return;
        }
        self.acts_at = now.after_us(self.program.pause_us.max(1));
        let p = self.program;
        let held = self.written - self.tcb.snd_acked();
        if self.written < p.total && held < p.sndbuf && self.tcb.state().may_write() {
            let most = (p.total - self.written).min(p.sndbuf - held).min(p.write);
            self.written += self.rng.range(1, most);
            let push = self.rng.permille(900) || self.written == p.total;
            self.tcb.set_snd_edge(self.written, push);
        }
        if self.written == p.total
            && self.tcb.state().is_synchronized()
            && !self.tcb.send_status().is_shut()
        {
            self.tcb.shutdown_send();
        }
        let unread = self.tcb.rcv_edge() - self.tcb.rcv_consumed();
        if unread > 0 {
            let n = self.rng.range(1, unread.min(p.read));
            self.tcb.set_rcv_consumed(self.tcb.rcv_consumed() + n, now);
        }
        let all_read =
            self.tcb.receive_status().is_closed() && self.tcb.rcv_edge() == self.tcb.rcv_consumed();
        if all_read && self.tcb.send_status().is_shut() && !self.closed {
            self.closed = true;
            self.tcb.close(now);
        }
        self.check();
    }

    /// When the program acts next, if it has anything to do.
    pub(crate) fn acts_next(&self) -> Option<Instant> {
        let p = self.program;
        let writes = self.written < p.total
            && self.written - self.tcb.snd_acked() < p.sndbuf
            && self.tcb.state().may_write();
        let shuts = self.written == p.total
            && self.tcb.state().is_synchronized()
            && !self.tcb.send_status().is_shut();
        let reads = self.tcb.rcv_edge() > self.tcb.rcv_consumed();
        let closes = self.tcb.receive_status().is_closed()
            && self.tcb.send_status().is_shut()
            && !self.closed;
        (writes || reads || closes || shuts).then_some(self.acts_at)
    }

    /// The connection goes on as one that was restored of it.
    pub(crate) fn move_on(&mut self, wire: &mut Wire, now: Instant) {
        let saved = SavedTcb::of(&self.tcb);
        let before = (self.tcb.state(), self.tcb.rcv_edge(), self.tcb.snd_acked());
        self.tcb = saved.restore(now).expect("what was saved is a connection");
        let after = (self.tcb.state(), self.tcb.rcv_edge(), self.tcb.snd_acked());
        assert_eq!(before, after, "{}", self.name);
        self.check();
        self.flush(wire, now);
    }

    pub(crate) fn timer(&mut self, now: Instant) {
        if let Some(deadline) = self.tcb.deadline()
            && deadline <= now
        {
            if self.last_timer.0 == now {
                self.last_timer.1 += 1;
                assert!(
                    self.last_timer.1 < 10,
                    "{}: a timer that does not rest",
                    self.name
                );
            } else {
                self.last_timer = (now, 0);
            }
            self.tcb.on_timer(now);
            self.check();
        }
    }

    /// Sends all there is.
    pub(crate) fn flush(&mut self, wire: &mut Wire, now: Instant) {
        for answer in self.answers.drain(..) {
            wire.send(answer, now);
        }
        let mut count = 0;
        loop {
            let sacked = self.tcb.info(now).sacked;
            let Some(t) = self.tcb.poll_transmit(now, self.program.max_payload) else {
                break;
            };
            count += 1;
            assert!(count < 100_000, "{}: sends without end", self.name);
            if t.flags.contains(TcpFlags::SYN) {
                self.base.set(t.seq.0.wrapping_add(1));
            }
            if self.traced {
                eprintln!(
                    "{now:?} {} -> {:?} seq {} {:?} ack {} win {} cwnd {} {:?}{}",
                    self.name,
                    t.flags,
                    t.seq,
                    t.payload,
                    t.ack,
                    t.window,
                    self.tcb.send_status().cwnd(),
                    t.options.sack.as_slice(),
                    if t.retransmission { " again" } else { "" },
                );
            }
            self.check_transmit(&t, sacked);
            if let Some(linux) = &mut self.linux {
                linux.on_sent(&t);
            }
            self.retransmissions += u64::from(t.retransmission);
            self.cut(&t, wire, now);
            self.check();
        }
        self.events |= self.tcb.take_events();
    }

    fn check_transmit(&self, t: &Transmit, sacked_before: u64) {
        if t.payload.is_empty() {
            return;
        }
        if t.flags.contains(TcpFlags::SYN) {
            // Fast Open: nothing is known of the peer yet.
            return assert_eq!(t.payload.start, 0, "{}", self.name);
        }
        assert_eq!(t.seq.0, self.seq_of(t.payload.start), "{}", self.name);
        assert!(t.payload.end <= self.written, "{}", self.name);
        assert!(t.payload.start >= self.tcb.snd_acked(), "{}", self.name);
        // Only a probe of the path's MTU may be longer, in one packet.
        let probe = t.payload_len() == usize::from(t.mss);
        assert!(
            t.payload_len() <= self.program.max_payload || probe,
            "{}",
            self.name
        );
        assert!(t.mss > 0);
        let info = self.tcb.info(Instant(0));
        // A scoreboard that is full forgets a report for what is sent.
        let forgot = info.sacked < sacked_before;
        // A tail loss probe goes whatever the congestion window says, which may have
        // come down since (a SYN-ACK that was lost, with data after it).
        let probe = info.tail_probes > 0 && t.payload_len() <= usize::from(t.mss);
        if info.sack && !t.retransmission && !forgot && !probe {
            let pipe = info.unacked - info.sacked - info.lost;
            let most = u64::from(info.snd_cwnd.max(info.snd_mss)) + u64::from(info.snd_mss) + 1;
            assert!(
                pipe <= most,
                "{}: {pipe} in the network, {info:?}",
                self.name
            );
        }
        let edge = self.peer_edge.expect("no window is known yet");
        // Data on a SYN went before any window was known; a closed one is probed with
        // them. It counts as closed if less than a unit of the scale is left (RFC 7323
        // section 2.4: by rounding, a window may shrink that far).
        let scaled = info.window_scaling;
        let unit = if scaled { 1 << self.peer_scale } else { 1 };
        // And it counts as closed if the word of another is in a segment that was
        // overtaken: by its number it is the older one (RFC 9293 section 3.10.7.4).
        let closed = edge < t.payload.start + unit || info.snd_wnd == 0;
        let probes = t.retransmission && closed;
        assert!(
            t.payload.end <= edge || (probes && t.payload.start == self.tcb.snd_acked()),
            "{}: {:?} goes beyond the peer's window {edge}",
            self.name,
            t.payload
        );
    }

    /// What TSO does, or nothing if segments travel whole.
    fn cut(&mut self, t: &Transmit, wire: &mut Wire, now: Instant) {
        let whole = t.header(1, 2);
        let size = if self.program.merged {
            usize::MAX
        } else {
            usize::from(t.mss)
        };
        let mut start = t.payload.start;
        loop {
            let len = ((t.payload.end - start) as usize).min(size) as u64;
            let last = start + len == t.payload.end;
            let mut header = whole.clone();
            if start > t.payload.start {
                // As Linux's, whatever the bit means.
                header.flags = header.flags & !TcpFlags::CWR;
            }
            header.seq.0 = whole.seq.0.wrapping_add((start - t.payload.start) as u32);
            if !last {
                header.flags = header.flags & !(TcpFlags::FIN | TcpFlags::PSH);
            }
            let payload: Vec<u8> = (start..start + len).map(|o| byte(self.salt, o)).collect();
            let gso_size = if len > u64::from(t.mss) { t.mss } else { 0 };
            self.sent_packets += 1;
            wire.send(
                Packet {
                    header,
                    payload,
                    gso_size,
                    ecn: t.ecn,
                },
                now,
            );
            start += len;
            if last {
                break;
            }
        }
    }

    /// The connection is over here, as far as it can be.
    pub(crate) fn is_done(&self) -> bool {
        matches!(self.tcb.state(), State::Closed | State::TimeWait)
    }
}

impl Endpoint {
    /// A router says what would have passed, of a packet that it quotes.
    pub(crate) fn take_report(&mut self, seq: u32, limit: u16) {
        if self.tcb.send_status().is_in_flight(SeqNumber(seq)) {
            self.tcb.segment_size().set_path_mss(limit);
        }
    }

    /// The SYN that made us.
    pub(crate) fn take_syn(&mut self, packet: &Packet) {
        self.learn_window(packet);
        if let Some(linux) = &mut self.linux {
            linux.drops(packet);
        }
    }
}
