//! The handshakes of connections that come in.
//!
//! Owns [`Handshakes`], which borrows the half-open connections and what a handshake needs
//! beside them. A block and a socket are made when the handshake is complete. `passive` adds
//! a half-open connection for a SYN that a listener accepts; `tcp_input` and `icmp` bring
//! segments and errors of them, and [`handle_timeouts`](crate::Stack::handle_timeouts) their timers.

use crate::address_pair::Sides;
use crate::at_work::AtWork;
use crate::demux::Flow;
use crate::endpoints::Endpoints;
use crate::half_open::HalfOpen;
use crate::responder::{Responder, Response};
use crate::socket::{Kind, Options};
use longshore_tcp::{Disposition, DropReason, IcmpError, Instant, Segment, State, Tcb};
use longshore_wire::SeqNumber;
use longshore_wire::tcp::TcpFlags;

/// Half-open connections that are reset in one turn once their listener is over.
const RESETS_A_TURN: usize = 64;

/// What has become of a handshake by a segment.
#[derive(Debug)]
pub(crate) enum Advanced {
    /// It is not complete, and this is asked for.
    Remains(Response),
    /// It is complete: the connection is the socket of this key, and has handled the segment so.
    Complete(u32, Disposition),
}

/// Advances the handshakes of connections that come in. It borrows the half-open connections, their
/// listeners among the sockets, the tables that find them, and what answers their segments. The
/// stack makes one for each segment, error and timer of theirs.
pub(crate) struct Handshakes<'a> {
    pub(crate) endpoints: &'a mut Endpoints,
    pub(crate) responder: Responder<'a>,
}

impl Handshakes<'_> {
    /// A listener has accepted a SYN, which `tcb` is to answer: that is done, and a record
    /// of it kept.
    pub(crate) fn begin_handshake(
        &mut self,
        listener: u32,
        options: &Options,
        (local, remote): Sides,
        mut tcb: Tcb,
    ) {
        self.responder
            .send_all_of(options, (local, remote), &mut tcb);
        let Some(record) = longshore_tcp::HalfOpen::of(&tcb) else {
            return;
        };
        let Some(session) = self.endpoints.sockets.get(listener).map(|s| s.session) else {
            return;
        };
        let share = self
            .endpoints
            .sessions
            .take_socket_share(session, self.responder.counters)
            .flatten();
        let Some(Kind::Listener(l)) = self
            .endpoints
            .sockets
            .get_mut(listener)
            .map(|s| &mut s.kind)
        else {
            return;
        };
        let flow = Flow::new(local, remote);
        let half = HalfOpen::new(record, flow, l.half_open, share);
        let Some(key) = self.endpoints.half_open.insert(half, self.responder.now) else {
            return;
        };
        l.listener.on_half_open();
        self.endpoints.half_open.keep(key, record);
        self.endpoints.demux.insert_half_open(flow, key);
    }

    /// A half-open connection goes on by a segment that came at `at`.
    pub(crate) fn advance(
        &mut self,
        key: u32,
        segment: &Segment<'_>,
        payload: &[u8],
        at: Instant,
    ) -> Advanced {
        let Some((options, sides, mut tcb)) = self.open_again(key) else {
            return Advanced::Remains(Response::Nothing);
        };
        let disposition = tcb.on_segment(segment, at);
        if tcb.state().is_synchronized() {
            let Some((half, Some(listener))) = self.take_half_open(key) else {
                return Advanced::Remains(Response::Nothing);
            };
            let share = half.share;
            let made = self.enter_connection(listener, options, sides, share, tcb);
            return Advanced::Complete(made, disposition);
        }
        self.responder.counters.prediction.missed_data += u64::from(!payload.is_empty());
        if let Some(reason) = disposition.drop {
            self.responder.counters.drop_tcp(reason);
        }
        self.put_back(key, &options, sides, tcb);
        Advanced::Remains(Response::of(&disposition))
    }

    /// An ICMP error about the SYN-ACK with sequence number `seq`.
    pub(crate) fn error_for_half_open(&mut self, key: u32, kind: IcmpError, seq: SeqNumber) {
        if let Some((options, sides, mut tcb)) = self.open_again(key) {
            tcb.on_icmp(kind, seq);
            self.put_back(key, &options, sides, tcb);
        }
    }

    /// The timer of a half-open connection has gone off: its SYN-ACK is retransmitted.
    pub(crate) fn time_out(&mut self, key: u32) {
        if let Some((options, sides, mut tcb)) = self.open_again(key) {
            tcb.on_timer(self.responder.now);
            self.put_back(key, &options, sides, tcb);
        }
    }

    /// The path of a half-open connection takes segments of `mss` bytes.
    pub(crate) fn set_path_of_half_open(&mut self, key: u32, mss: u16) {
        if let Some((options, sides, mut tcb)) = self.open_again(key) {
            tcb.segment_size().set_path_mss(mss);
            self.put_back(key, &options, sides, tcb);
        }
    }

    /// Resets some of those whose listeners are over.
    #[inline(never)]
    pub(crate) fn reset_some_half_open(&mut self) {
        for _ in 0..RESETS_A_TURN {
            let Some(key) = self.endpoints.half_open.next_given_up() else {
                break;
            };
            self.endpoints.sessions.at_work = AtWork::HalfOpen(key);
            self.abort_half_open(key);
        }
        self.endpoints.sessions.at_work = AtWork::Nobodys;
    }

    /// Resets a half-open connection.
    pub(crate) fn abort_half_open(&mut self, key: u32) {
        let Some(half) = self.endpoints.half_open.get(key) else {
            return;
        };
        let (local, remote) = half.flow.sides();
        // What the listener has set is of no account to a reset.
        let mut tcb = half.record.open(&longshore_tcp::Config::default());
        tcb.abort();
        if let Some(reset) = tcb.poll_transmit(self.responder.now, 0) {
            let header = reset.header(local.port(), remote.port());
            self.responder.send_reset(local, remote, &header);
        }
        let _ = self.take_half_open(key);
    }

    /// Whether a segment for a half-open connection has to be dropped, because the
    /// connection must not be established now.
    pub(crate) fn is_held_back(&mut self, key: u32, segment: &Segment<'_>) -> bool {
        let Some(half) = self.endpoints.half_open.get(key) else {
            return true;
        };
        let flags = segment.header.flags;
        if flags.intersects(TcpFlags::RST | TcpFlags::SYN) || !flags.contains(TcpFlags::ACK) {
            return false;
        }
        let listener = self.endpoints.half_open.listener_of(half);
        let Some(socket) = listener.and_then(|key| self.endpoints.sockets.get(key)) else {
            return true;
        };
        let Kind::Listener(l) = &socket.kind else {
            return true;
        };
        let bare = segment.payload_len == 0 && !flags.contains(TcpFlags::FIN);
        let reason = if !l.listener.may_establish() {
            Some(DropReason::AcceptQueueFull)
        } else if bare && l.listener.defers_accept(half.record.repeats()) {
            Some(DropReason::DeferAccept)
        } else {
            None
        };
        let resets = l.listener.aborts_on_overflow();
        if let Some(reason) = reason {
            self.responder.counters.drop_tcp(reason);
            if resets && reason == DropReason::AcceptQueueFull {
                self.endpoints.sessions.at_work = listener.map_or(AtWork::Nobodys, AtWork::Socket);
                self.abort_half_open(key);
            }
            return true;
        }
        let session = socket.session;
        !self
            .endpoints
            .sessions
            .has_room_to_accept(session, self.responder.counters)
    }

    /// The block of a half-open connection, with its listener's options. All that follows
    /// is work for the listener.
    fn open_again(&mut self, key: u32) -> Option<(Options, Sides, Tcb)> {
        let half = self.endpoints.half_open.get(key)?;
        let listener = self.endpoints.half_open.listener_of(half)?;
        self.endpoints.sessions.at_work = AtWork::Socket(listener);
        let options = self.endpoints.sockets.get(listener)?.options;
        let sides = half.flow.sides();
        let tcb = half.record.open(&options.tcp_to(sides.1));
        Some((options, sides, tcb))
    }

    /// The block of a half-open connection is done with: what it sends is sent, and a
    /// record of it kept, unless it is over.
    fn put_back(&mut self, key: u32, options: &Options, sides: Sides, mut tcb: Tcb) {
        self.responder.send_all_of(options, sides, &mut tcb);
        match longshore_tcp::HalfOpen::of(&tcb) {
            Some(record) => self.endpoints.half_open.keep(key, record),
            None => {
                debug_assert_eq!(tcb.state(), State::Closed, "a block is put away half-done");
                let _ = self.take_half_open(key);
            }
        }
    }

    /// A half-open connection is one no longer: its record, which tables and its queue do not
    /// know any more, and its listener, unless that is over.
    pub(crate) fn take_half_open(&mut self, key: u32) -> Option<(HalfOpen, Option<u32>)> {
        let half = self.endpoints.half_open.remove(key)?;
        self.endpoints.demux.remove(&half.flow);
        let listener = self.endpoints.half_open.listener_of(&half);
        let socket = listener.and_then(|key| self.endpoints.sockets.get_mut(key));
        if let Some(Kind::Listener(l)) = socket.map(|s| &mut s.kind) {
            l.listener.on_half_open_gone();
        }
        Some((half, listener))
    }
}
