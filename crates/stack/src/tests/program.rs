//! The program of a machine: it connects and listens, writes and reads what both ends know,
//! and never waits inside a call.
//!
//! Owns [`Program`], the host's half of the interface as small as it gets. `talk.rs` has what
//! it does on one connection.

use super::datagrams::{self, Arrived, Datagrams};
use super::relay::Relay;
use super::streams::copy_out;
use super::talk::{Outcome, Plan, Talk};
use longshore_hostif::{
    ACCEPT_RECORD, AcceptRecord, Arena, BlockFlags, Completion, EdgeFlags, FileId, HostChannel,
    Hurry, OpenFlags, Request, SocketId, SocketKind, SocketState,
};
use longshore_ring::Doorbell;
use longshore_tcp::Instant;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
/// Requests and completions that are on their way at once: fewer than the rings hold.
const AT_ONCE: usize = 200;

/// The program.
pub(super) struct Program {
    arena: Arc<Arena>,
    channel: HostChannel,
    doorbell: Doorbell,
    tags: u32,
    listener: Option<SocketId>,
    listener_edge: u64,
    accepted: u64,
    listens: bool,
    talks: Vec<Talk>,
    /// Where to the connections with these numbers are passed on.
    pub(super) onward: BTreeMap<u16, SocketAddr>,
    pub(super) relays: Vec<Relay>,
    datagrams: Option<Datagrams>,
    arrived: Arrived,
    pub(super) answers: BTreeMap<u32, u16>,
    pub(super) plans: Vec<Plan>,
    send_chunks: u32,
    is_served: bool,
    /// When what it asks in this step is to be fetched.
    pub(super) hurry: Hurry,
    /// The file that it answers with.
    pub(super) file: Option<FileId>,
}

impl Program {
    pub(super) fn new(arena: Arc<Arena>, channel: u16) -> Self {
        let send_chunks = arena.geometry().snd_chunks;
        Self {
            channel: HostChannel::new(arena.clone(), channel.into()),
            arena,
            doorbell: Doorbell::new().unwrap(),
            tags: 0,
            listener: None,
            listener_edge: 0,
            accepted: 0,
            listens: false,
            talks: Vec::new(),
            onward: BTreeMap::new(),
            relays: Vec::new(),
            datagrams: None,
            arrived: Arrived::default(),
            answers: BTreeMap::new(),
            plans: Vec::new(),
            send_chunks,
            is_served: false,
            hurry: Hurry::Now,
            file: None,
        }
    }

    /// It is about to sleep.
    pub(super) fn flush(&mut self) {
        self.channel.hurry(&self.doorbell);
        self.is_served = true;
    }

    pub(super) fn arena(&self) -> &Arc<Arena> {
        &self.arena
    }

    /// Free chunks of send streams, and all there are.
    pub(super) fn send_chunks(&self) -> (u32, u32) {
        let (cold, warm) = self.arena.free_snd_chunks();
        (cold + warm, self.send_chunks)
    }

    pub(super) fn put(&mut self, request: Request) {
        self.channel.put(&request).unwrap();
    }

    pub(super) fn tag(&mut self) -> u32 {
        self.tags += 1;
        self.tags
    }

    pub(super) fn open(&mut self, kind: SocketKind, ipv6: bool) -> Option<SocketId> {
        let free = &self.arena.header().free_sockets;
        let index = free.pop(self.arena.socket_links()).unwrap()?;
        let block = self.arena.block(index);
        let generation = block.begin(SocketState::Open, BlockFlags::empty());
        let socket = SocketId { index, generation };
        self.arena.set_held(self.channel.index(), index, true);
        let mut flags = OpenFlags::REUSE_ADDRESS;
        flags.set(OpenFlags::IPV6, ipv6);
        self.put(Request::Open {
            socket,
            kind,
            flags,
        });
        Some(socket)
    }

    fn bind(&mut self, kind: SocketKind, local: SocketAddr) -> SocketId {
        let socket = self.open(kind, local.is_ipv6()).unwrap();
        let tag = self.tag();
        self.put(Request::Bind {
            socket,
            tag,
            waiter: None,
            local: local.into(),
        });
        socket
    }

    /// From `at` on it will send datagrams to the other end, whose address is `to`; this is
    /// end 0 or 1.
    pub(super) fn exchange(&mut self, end: u32, to: IpAddr, plan: datagrams::Plan, at: Instant) {
        let local = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), datagrams::PORT);
        let socket = self.bind(SocketKind::Datagram, local);
        let to = SocketAddr::new(to, datagrams::PORT);
        self.datagrams = Some(Datagrams::new(socket, end, to, plan, at));
        self.channel.publish(&self.doorbell, true);
    }

    /// The first connection with this number that comes is passed on to `to`.
    pub(super) fn pass_on_to(&mut self, number: u16, to: SocketAddr) {
        self.onward.insert(number, to);
    }

    /// Whether nothing that it passes on is under way.
    pub(super) fn has_passed_all_on(&self) -> bool {
        self.relays.iter().all(Relay::is_over)
    }

    /// Whether it has no datagram left to send.
    pub(super) fn has_sent_all(&self) -> bool {
        self.datagrams.as_ref().is_none_or(Datagrams::is_done)
    }

    /// The datagrams that have come.
    pub(super) fn arrived(&self) -> Arrived {
        self.arrived
    }

    /// Takes no more datagrams; whether it did until now.
    pub(super) fn stop_exchange(&mut self) -> bool {
        let Some(datagrams) = self.datagrams.take() else {
            return false;
        };
        self.leave(datagrams.socket);
        self.put(datagrams.close());
        self.channel.publish(&self.doorbell, true);
        true
    }

    /// Listens at `local`, where those come of whom each plan has one.
    pub(super) fn listen(&mut self, local: SocketAddr, plans: Vec<Plan>) {
        let socket = self.bind(SocketKind::Stream, local);
        let tag = self.tag();
        self.put(Request::Listen {
            socket,
            tag,
            waiter: None,
            backlog: 8,
        });
        self.listens = true;
        self.plans = plans;
        self.listener = Some(socket);
        self.channel.publish(&self.doorbell, true);
    }

    /// From `at` on it will connect to `to`.
    pub(super) fn connect(&mut self, number: u16, plan: Plan, to: SocketAddr, at: Instant) {
        self.talks.push(Talk::begun_at(at, number, plan, to));
    }

    /// Takes no more connections, and what waits is reset; whether it did until now.
    pub(super) fn stop_listening(&mut self) -> bool {
        let Some(socket) = self.listener.take() else {
            return false;
        };
        self.leave(socket);
        self.put(Request::Close {
            socket,
            snd_edge: 0,
            rcv_consumed: self.accepted * ACCEPT_RECORD as u64,
            linger: None,
        });
        self.channel.publish(&self.doorbell, true);
        true
    }

    /// How each of its connections ended, by its number.
    pub(super) fn outcomes(&self) -> impl Iterator<Item = (u16, Outcome)> + '_ {
        self.talks
            .iter()
            .map(|talk| (talk.number(), talk.outcome()))
    }

    /// When it does something by itself.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        let due = self.talks.iter().filter_map(Talk::next_timeout);
        let datagrams = self.datagrams.as_ref().and_then(Datagrams::next_timeout);
        let relays = self.relays.iter().filter_map(Relay::next_timeout);
        due.chain(datagrams).chain(relays).min()
    }

    /// Takes what the stack has said, and goes on; says whether it has asked for anything.
    pub(super) fn step(&mut self, now: Instant) -> bool {
        self.is_served = false;
        self.take_completions(now);
        self.accept(now);
        let mut talks = std::mem::take(&mut self.talks);
        for talk in &mut talks {
            if self.channel.staged() as usize >= AT_ONCE {
                break;
            }
            self.go_on(talk, now);
        }
        talks.append(&mut self.talks);
        talks.retain(|talk| !talk.is_passed_on());
        self.talks = talks;
        let mut relays = std::mem::take(&mut self.relays);
        for relay in &mut relays {
            if self.channel.staged() as usize >= AT_ONCE {
                break;
            }
            self.relay(relay, now);
        }
        self.relays = relays;
        if let Some(datagrams) = &mut self.datagrams
            && let Some(request) = datagrams.step(&self.arena, now)
        {
            self.arrived = datagrams.arrived;
            self.put(request);
        }
        let asked = self.channel.staged() != 0;
        let hurry = std::mem::replace(&mut self.hurry, Hurry::Now);
        self.channel.publish_for(hurry, &self.doorbell, true);
        asked || self.is_served
    }

    fn take_completions(&mut self, now: Instant) {
        let mut is_more = false;
        while let Some(completion) = self.channel.get().unwrap() {
            self.is_served = true;
            match completion.expect("the stack makes sense") {
                Completion::Done { tag, errno, .. } => {
                    self.answers.insert(tag, errno);
                }
                Completion::Edges { socket, edges } if Some(socket) == self.listener => {
                    self.listener_edge = self.listener_edge.max(edges.rcv_edge);
                }
                Completion::Edges { socket, edges }
                    if let Some(datagrams) = &mut self.datagrams
                        && datagrams.socket == socket =>
                {
                    datagrams.take_edges(&edges);
                }
                Completion::Edges { socket, edges } => {
                    for relay in &mut self.relays {
                        if relay.take_edges(socket, &edges, now) {
                            let half = &self.arena.block(socket.index).snd;
                            half.done.fetch_max(edges.snd_acked, Ordering::AcqRel);
                        }
                    }
                    let mut talks = self.talks.iter_mut();
                    if let Some(talk) = talks.find(|t| t.socket == socket) {
                        talk.take_edges(&edges, now);
                        let half = &self.arena.block(socket.index).snd;
                        half.done.fetch_max(edges.snd_acked, Ordering::AcqRel);
                    }
                }
                Completion::More => is_more = true,
            }
        }
        self.channel.release();
        if is_more {
            self.channel.ask_for_more(&self.doorbell);
        }
    }

    fn accept(&mut self, now: Instant) {
        let record_len = ACCEPT_RECORD as u64;
        while let Some(listener) = self.listener
            && self.listener_edge >= (self.accepted + 1) * record_len
        {
            let mut record = [0; ACCEPT_RECORD];
            copy_out(
                &self.arena,
                listener.index,
                self.accepted * record_len,
                &mut record,
            );
            let record = AcceptRecord::decode(&record);
            self.accepted += 1;
            if self.file.is_some() {
                self.hurry = Hurry::First;
            }
            let index = record.socket.index;
            let block = self.arena.block(index);
            let begun = block.begin_accepted(&record, self.arena.block(listener.index));
            assert!(begun, "it is there until it is closed");
            self.arena.set_held(self.channel.index(), index, true);
            self.put(Request::Subscribe {
                socket: record.socket,
            });
            let read = Request::Edges {
                socket: listener,
                snd_edge: 0,
                rcv_consumed: self.accepted * record_len,
                flags: EdgeFlags::empty(),
                immediate: 0,
            };
            self.channel.put_accepted(&read, record.socket).unwrap();
            // The client's port says nothing; its first byte names the connection.
            let plan = self.plans.first().copied().unwrap();
            self.talks.push(Talk::accepted(record.socket, plan, now));
        }
    }

    /// No process has a socket any more.
    pub(super) fn leave(&self, socket: SocketId) {
        let own = self.channel.index();
        self.arena.set_held(own, socket.index, false);
        let block = self.arena.block(socket.index);
        block.set_flags(BlockFlags::CLOSED);
    }
}
