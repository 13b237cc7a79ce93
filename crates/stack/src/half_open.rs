//! Half-open connections: their SYNs were answered, and the answers are not acknowledged.
//!
//! Owns [`HalfOpens`], where each is a small record beside the sockets: a flood of SYNs
//! fills a queue of these. A block and a socket are made when the handshake is complete.
//! `passive` adds one for a SYN that a listener accepts; `tcp_input` and `input` bring
//! segments and errors of them, [`handle_timeouts`](Stack::handle_timeouts) their timers. A
//! listener has the key of its queue; its session's programs do not know of them. The queue
//! of a listener that is over is given up, and its connections are reset some in each turn
//! ([`settle`](Stack::settle)): there may be thousands.

mod on_data;

use on_data::OnData;

use crate::Stack;
use crate::account::SocketShare;
use crate::address_pair::AddressPair;
use crate::at_work::AtWork;
use crate::cookies::Sides;
use crate::demux::Flow;
use crate::slab::Slab;
use crate::socket::{Kind, Options, Socket};
use crate::tcp_input::Response;
use crate::timers::{Alarm, Wheel};
use longshore_tcp::{DropReason, IcmpError, Instant, Segment, State, Tcb};
use longshore_wire::SeqNumber;
use longshore_wire::tcp::TcpFlags;
use std::collections::VecDeque;

/// A half-open connection.
#[derive(Debug)]
pub(crate) struct HalfOpen {
    pub(crate) record: longshore_tcp::HalfOpen,
    pub(crate) flow: Flow,
    /// The queue that it is in, and where.
    queue: u32,
    place: u32,
    /// Counts it among the sockets of its user.
    share: Option<SocketShare>,
    on_data: OnData,
    pub(crate) alarm: Alarm,
}

impl HalfOpen {
    /// When there is something to do for it though nothing comes.
    fn deadline(&self) -> Instant {
        self.on_data.until().unwrap_or(self.record.retransmit_at())
    }
}

/// Half-open connections that are reset in one turn once their listener is over.
const RESETS_A_TURN: usize = 64;

/// The half-open connections of one listener.
#[derive(Debug)]
struct Queue {
    /// None once it is over, and they are to be reset.
    listener: Option<u32>,
    keys: Vec<u32>,
}

/// All half-open connections, with their deadlines.
pub(crate) struct HalfOpens {
    slab: Slab<HalfOpen>,
    queues: Slab<Queue>,
    /// Queues whose listeners are over.
    given_up: VecDeque<u32>,
    wheel: Wheel<u32>,
    /// Those whose deadlines are being looked at; kept for its memory.
    due: Vec<u32>,
}

impl HalfOpens {
    /// None yet; deadlines count from `now`.
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            slab: Slab::new(),
            queues: Slab::new(),
            given_up: VecDeque::new(),
            wheel: Wheel::new(now),
            due: Vec::new(),
        }
    }

    /// An empty queue for this listener; its key.
    pub(crate) fn begin_queue(&mut self, listener: u32) -> u32 {
        let keys = Vec::new();
        self.queues.insert(Queue {
            listener: Some(listener),
            keys,
        })
    }

    /// The connections in a queue.
    pub(crate) fn in_queue(&self, queue: u32) -> &[u32] {
        self.queues.get(queue).map_or(&[], |queue| &queue.keys)
    }

    /// The listener of a half-open connection, unless it is over.
    pub(crate) fn listener_of(&self, half: &HalfOpen) -> Option<u32> {
        self.queues.get(half.queue)?.listener
    }

    /// Whether the listener of a half-open connection is over.
    pub(crate) fn is_given_up(&self, key: u32) -> bool {
        let half = self.slab.get(key);
        half.is_some_and(|half| self.listener_of(half).is_none())
    }

    /// Whether some are to be reset as their listeners are over.
    #[inline]
    pub(crate) fn are_given_up(&self) -> bool {
        !self.given_up.is_empty()
    }

    /// The listener of a queue is over.
    fn give_up(&mut self, queue: u32) {
        if let Some(q) = self.queues.get_mut(queue)
            && q.listener.take().is_some()
        {
            self.given_up.push_back(queue);
        }
    }

    /// One of those that are to be reset.
    fn next_given_up(&mut self) -> Option<u32> {
        while let Some(queue) = self.given_up.front().copied() {
            // From the end, where none has to move up.
            if let Some(last) = self.queues.get(queue).and_then(|q| q.keys.last()) {
                return Some(*last);
            }
            self.queues.remove(queue);
            self.given_up.pop_front();
        }
        None
    }

    /// Takes one out, of the table and of its queue.
    fn remove(&mut self, key: u32) -> Option<HalfOpen> {
        #[cfg(all(any(test, feature = "testing"), not(feature = "counted")))]
        crate::testing::half_open_goes();
        let half = self.slab.remove(key)?;
        #[cfg(all(any(test, feature = "testing"), not(feature = "counted")))]
        crate::testing::half_open_goes();
        let keys = &mut self.queues.get_mut(half.queue)?.keys;
        keys.swap_remove(half.place as usize);
        if let Some(moved) = keys.get(half.place as usize)
            && let Some(moved) = self.slab.get_mut(*moved)
        {
            moved.place = half.place;
        }
        Some(half)
    }

    pub(crate) fn get(&self, key: u32) -> Option<&HalfOpen> {
        self.slab.get(key)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &HalfOpen)> {
        self.slab.iter()
    }

    pub(crate) fn len(&self) -> usize {
        self.slab.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The first deadline, or one before it.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        if self.is_empty() {
            return None;
        }
        self.wheel.next()
    }

    /// Adds one. The wheel stands still while there is none, and what it then still names
    /// is gone.
    fn insert(&mut self, half: HalfOpen, now: Instant) -> Option<u32> {
        if self.is_empty() {
            self.wheel.advance(now, &mut self.due);
            self.due.clear();
        }
        let keys = &mut self.queues.get_mut(half.queue)?.keys;
        let place = keys.len() as u32;
        let key = self.slab.insert(HalfOpen { place, ..half });
        keys.push(key);
        Some(key)
    }

    /// What was done for a connection has left it so.
    fn keep(&mut self, key: u32, record: longshore_tcp::HalfOpen) {
        if let Some(half) = self.slab.get_mut(key) {
            half.record = record;
            let deadline = half.deadline();
            self.wheel.set(&mut half.alarm, key, deadline);
        }
    }

    /// Whether the timer of a connection that the wheel has named has gone off.
    fn is_due(&mut self, key: u32, now: Instant) -> bool {
        let half = self.slab.get_mut(key);
        half.is_some_and(|half| self.wheel.is_due(&mut half.alarm, key, now))
    }

    /// The keys of all.
    pub(crate) fn keys(&self) -> Vec<u32> {
        self.slab.keys()
    }

    /// Takes a connection out of the table, though queues and timers still name it: they are
    /// made anew.
    pub(crate) fn drop_unlisted(&mut self, key: u32) {
        self.slab.remove(key);
    }

    /// Queues and timers without any connection, which is put there by
    /// [`list_anew`](Self::list_anew).
    pub(crate) fn begin_lists_anew(&mut self, now: Instant) {
        self.wheel = Wheel::new(now);
        for (_, queue) in self.queues.iter_mut_with_keys() {
            queue.keys.clear();
        }
    }

    /// A connection is in its queue, and its timer set.
    pub(crate) fn list_anew(&mut self, key: u32) {
        let Some(half) = self.slab.get_mut(key) else {
            return;
        };
        #[cfg(all(any(test, feature = "testing"), not(feature = "counted")))]
        crate::testing::lists_half_open_anew();
        half.alarm = Alarm::OFF;
        let deadline = half.deadline();
        self.wheel.set(&mut half.alarm, key, deadline);
        if let Some(queue) = self.queues.get_mut(half.queue) {
            half.place = queue.keys.len() as u32;
            queue.keys.push(key);
        }
    }
}

impl Stack {
    /// A listener has accepted a SYN, which `tcb` is to answer: that is done, and a record
    /// of it kept.
    pub(crate) fn begin_handshake(
        &mut self,
        listener: u32,
        options: &Options,
        (local, remote): Sides,
        mut tcb: Tcb,
    ) {
        self.send_all_of(options, (local, remote), &mut tcb);
        let Some(record) = tcb.half_open() else {
            return;
        };
        let Some(session) = self.sockets.get(listener).map(|s| s.session) else {
            return;
        };
        let share = self.take_socket_share(session).flatten();
        let Some(Kind::Listener(l)) = self.sockets.get_mut(listener).map(|s| &mut s.kind) else {
            return;
        };
        let flow = Flow::new(local, remote);
        let half = HalfOpen {
            record,
            flow,
            queue: l.half_open,
            place: 0,
            share,
            on_data: OnData::NotYet,
            alarm: Alarm::OFF,
        };
        let Some(key) = self.half_open.insert(half, self.now) else {
            return;
        };
        l.listener.on_half_open();
        self.half_open.keep(key, record);
        self.demux.insert_half_open(flow, key);
    }

    /// A segment of a half-open connection.
    pub(crate) fn segment_for_half_open(
        &mut self,
        key: u32,
        segment: &Segment<'_>,
        payload: &[u8],
    ) -> Response {
        if let Some(connection) = self.end_hold_before(key, segment) {
            return self.segment_for(connection, segment, payload);
        }
        if self.is_held_back(key, segment) || self.is_held_for_data(key, segment) {
            return Response::Nothing;
        }
        self.advance(key, segment, payload, self.now)
    }

    /// A half-open connection goes on by a segment that came at `at`.
    fn advance(
        &mut self,
        key: u32,
        segment: &Segment<'_>,
        payload: &[u8],
        at: Instant,
    ) -> Response {
        let Some((options, sides, mut tcb)) = self.open_again(key) else {
            return Response::Nothing;
        };
        let disposition = tcb.on_segment(segment, at);
        if tcb.state().is_synchronized() {
            let Some((half, Some(listener))) = self.take_half_open(key) else {
                return Response::Nothing;
            };
            let share = half.share;
            let made = self.enter_connection(listener, options, sides, share, tcb);
            return self.handshake_done(made, &disposition, payload);
        }
        self.counters.unpredicted_data += u64::from(!payload.is_empty());
        if let Some(reason) = disposition.drop {
            self.counters.drop_tcp(reason);
        }
        self.put_back(key, &options, sides, tcb);
        Response::of(&disposition)
    }

    /// An ICMP error about the SYN-ACK with sequence number `seq`.
    pub(crate) fn error_for_half_open(&mut self, key: u32, kind: IcmpError, seq: SeqNumber) {
        if let Some((options, sides, mut tcb)) = self.open_again(key) {
            tcb.on_icmp(kind, seq, self.now);
            self.put_back(key, &options, sides, tcb);
        }
    }

    /// The path of a half-open connection takes segments of `mss` bytes.
    pub(crate) fn set_path_of_half_open(&mut self, key: u32, mss: u16) {
        if let Some((options, sides, mut tcb)) = self.open_again(key) {
            tcb.set_path_mss(mss);
            self.put_back(key, &options, sides, tcb);
        }
    }

    /// Retransmits the SYN-ACKs that are due; says whether any was.
    pub(crate) fn retransmit_syn_acks(&mut self) -> bool {
        if self.half_open.is_empty() {
            return false;
        }
        let now = self.now;
        let mut due = std::mem::take(&mut self.half_open.due);
        self.half_open.wheel.advance(now, &mut due);
        let any = !due.is_empty();
        for key in due.drain(..) {
            self.sessions.at_work = AtWork::HalfOpen(key);
            if !self.half_open.is_due(key, now) || self.end_hold(key) {
                continue;
            }
            if let Some((options, sides, mut tcb)) = self.open_again(key) {
                tcb.on_timer(now);
                self.put_back(key, &options, sides, tcb);
            }
        }
        self.half_open.due = due;
        any
    }

    /// A listener is over: its half-open connections are reset, as far as resets may be sent
    /// to who has not proved its address.
    pub(crate) fn give_up_half_open(&mut self, listener: u32) {
        if let Some(Kind::Listener(l)) = self.sockets.get(listener).map(|s| &s.kind) {
            self.half_open.give_up(l.half_open);
        }
    }

    /// A listener listens no longer, and may do so again.
    pub(crate) fn renew_half_open(&mut self, listener: u32) {
        self.give_up_half_open(listener);
        if let Some(Kind::Listener(l)) = self.sockets.get_mut(listener).map(|s| &mut s.kind) {
            l.half_open = self.half_open.begin_queue(listener);
            l.listener.on_half_open_given_up();
        }
    }

    /// Resets some of those whose listeners are over.
    #[inline(never)]
    pub(crate) fn reset_some_half_open(&mut self) {
        for _ in 0..RESETS_A_TURN {
            let Some(key) = self.half_open.next_given_up() else {
                break;
            };
            self.sessions.at_work = AtWork::HalfOpen(key);
            self.abort_half_open(key);
        }
        self.sessions.at_work = AtWork::Nobodys;
    }

    /// Resets a half-open connection.
    pub(crate) fn abort_half_open(&mut self, key: u32) {
        let Some(half) = self.half_open.get(key) else {
            return;
        };
        let (local, remote) = half.flow.sides();
        // What the listener has set is of no account to a reset.
        let mut tcb = half.record.open(&longshore_tcp::Config::default());
        tcb.abort();
        if let Some(reset) = tcb.poll_transmit(self.now, 0) {
            let header = reset.header(local.port(), remote.port());
            self.send_reset(local, remote, &header);
        }
        let _ = self.take_half_open(key);
    }

    /// Whether a segment for a half-open connection has to be dropped, because the
    /// connection must not be established now.
    fn is_held_back(&mut self, key: u32, segment: &Segment<'_>) -> bool {
        let Some(half) = self.half_open.get(key) else {
            return true;
        };
        let flags = segment.header.flags;
        if flags.intersects(TcpFlags::RST | TcpFlags::SYN) || !flags.contains(TcpFlags::ACK) {
            return false;
        }
        let listener = self.half_open.listener_of(half);
        let Some(socket) = listener.and_then(|key| self.sockets.get(key)) else {
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
            self.counters.drop_tcp(reason);
            if resets && reason == DropReason::AcceptQueueFull {
                self.sessions.at_work = listener.map_or(AtWork::Nobodys, AtWork::Socket);
                self.abort_half_open(key);
            }
            return true;
        }
        let session = socket.session;
        !self.has_room_to_accept(session)
    }

    /// The block of a half-open connection, with its listener's options. All that follows
    /// is work for the listener.
    fn open_again(&mut self, key: u32) -> Option<(Options, Sides, Tcb)> {
        let half = self.half_open.get(key)?;
        let listener = self.half_open.listener_of(half)?;
        self.sessions.at_work = AtWork::Socket(listener);
        let options = self.sockets.get(listener)?.options;
        let sides = half.flow.sides();
        let tcb = half.record.open(&options.tcp_to(sides.1));
        Some((options, sides, tcb))
    }

    /// The block of a half-open connection is done with: what it sends is sent, and a
    /// record of it kept, unless it is over.
    fn put_back(&mut self, key: u32, options: &Options, sides: Sides, mut tcb: Tcb) {
        self.send_all_of(options, sides, &mut tcb);
        match tcb.half_open() {
            Some(record) => self.half_open.keep(key, record),
            None => {
                debug_assert_eq!(tcb.state(), State::Closed, "a block is put away half-done");
                let _ = self.take_half_open(key);
            }
        }
    }

    /// A half-open connection is one no longer: its record, which tables and its queue do not
    /// know any more, and its listener, unless that is over.
    pub(crate) fn take_half_open(&mut self, key: u32) -> Option<(HalfOpen, Option<u32>)> {
        let half = self.half_open.remove(key)?;
        self.demux.remove(&half.flow);
        let listener = self.half_open.listener_of(&half);
        let socket = listener.and_then(|key| self.sockets.get_mut(key));
        if let Some(Kind::Listener(l)) = socket.map(|s| &mut s.kind) {
            l.listener.on_half_open_gone();
        }
        Some((half, listener))
    }

    fn send_all_of(&mut self, options: &Options, (local, remote): Sides, tcb: &mut Tcb) {
        let Some(addresses) = AddressPair::new(local.ip(), remote.ip()) else {
            return;
        };
        let service = options.headers.service(addresses.to()).without_ecn();
        while let Some(segment) = tcb.poll_transmit(self.now, 0) {
            let header = segment.header(local.port(), remote.port());
            self.counters.retransmissions += u64::from(segment.retransmission);
            let service = service.marked(segment.ecn as u8);
            self.send_alone(&addresses, service, &header);
        }
    }
}

/// What the stack's own memory of one half-open connection takes, in bytes, tables left out.
pub const HALF_OPEN_BYTES: usize = size_of::<Option<HalfOpen>>();

// A flood fills a queue of these; a socket takes more than ten times as much.
const _: () = assert!(HALF_OPEN_BYTES <= 208 && 10 * HALF_OPEN_BYTES < size_of::<Socket>());
