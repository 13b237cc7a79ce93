//! One stack with one session, and the other end of its wire in the hands of the test, which
//! sends what no stack would. `bounds` and `off_path` use it.

use super::machine::Alone;
use crate::link::automatic::Automatic;
use crate::requests::From;
use crate::secrets::Secrets;
use crate::session::Session;
use crate::{Interface, Settings, Stack};
use longshore_frames::{Port, RxChecksum, RxMeta, TxFrame};
use longshore_hostif::adapter::{AdapterSession, Immediate, Next};
use longshore_hostif::{
    Agreed, Arena, BlockFlags, Completion, Crossings, EdgeFlags, Edges, Features, Geometry,
    HostChannel, Loopback, OpenFlags, OptionName, Request, SocketId, SocketKind, SocketState,
};
use longshore_ports::memory::{MemoryConfig, MemoryPort, pair};
use longshore_ring::{Doorbell, EventfdSignaler};
use longshore_tcp::Instant;
use longshore_testbed::packets;
use longshore_wire::SeqNumber;
use longshore_wire::icmpv4::{self, Icmpv4, unreachable};
use longshore_wire::ipv4::{HEADER_LEN, protocol};
use longshore_wire::tcp::{TcpFlags, TcpHeader, TcpOptions};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

pub(super) const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
pub(super) const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
/// What a narrow path takes, as errors say.
pub(super) const NARROW: u16 = 600;
/// The most half-open connections that a listener has.
pub(super) const HALF_OPEN: usize = 4_096;
/// The first sequence number of each client.
pub(super) const ISN: SeqNumber = SeqNumber(7);
/// Where the first client is; the others follow.
pub(super) const FIRST_PORT: u16 = 1_024;

/// A segment that was sent.
pub(super) struct Sent {
    pub(super) header: TcpHeader,
    pub(super) payload: Vec<u8>,
}

/// A stack with one session, and the other end of its wire.
pub(super) struct Single {
    pub(super) stack: Stack,
    pub(super) arena: Arc<Arena>,
    pub(super) session: u32,
    /// What process 0 hears by.
    channel: HostChannel,
    doorbell: Doorbell,
    pub(super) wire: MemoryPort,
    pub(super) now: Instant,
}

/// A port of bare packets that cuts and sums nothing, and the other end of its wire.
fn ends() -> (Box<dyn Port>, MemoryPort) {
    let (port, wire) = pair(&MemoryConfig {
        ethernet: false,
        offloads: false,
        depth: 10_000,
        ..MemoryConfig::default()
    });
    (Box::new(port), wire)
}

impl Single {
    /// A session of so many processes, whose payload crosses apart from descriptors.
    pub(super) fn new(geometry: Geometry, processes: u16) -> Self {
        Self::with_features(geometry, processes, Features::empty())
    }

    /// As `new`, with these features besides.
    pub(super) fn with_features(geometry: Geometry, processes: u16, more: Features) -> Self {
        Self::at(&["10.0.0.1/24"], geometry, processes, more)
    }

    /// As `with_features`, with these addresses.
    pub(super) fn at(
        addresses: &[&str],
        geometry: Geometry,
        processes: u16,
        more: Features,
    ) -> Self {
        Self::over(ends(), addresses, false, geometry, processes, more)
    }

    /// A stack that has the loopback addresses, too.
    pub(super) fn with_loopback(addresses: &[&str], geometry: Geometry) -> Self {
        let settings = Settings::new(Box::new(Alone), Loopback::Engine, 0, true);
        let addresses = (addresses, &Automatic::default());
        Self::with_settings(ends(), addresses, settings, geometry, 1, Features::empty())
    }

    /// As `at`, with a port of bare packets and the other end of its wire;
    /// `has_one_session`: there is no other session than this.
    pub(super) fn over(
        ends: (Box<dyn Port>, MemoryPort),
        addresses: &[&str],
        has_one_session: bool,
        geometry: Geometry,
        processes: u16,
        more: Features,
    ) -> Self {
        let automatic = (addresses, &Automatic::default());
        Self::finding_out(ends, automatic, has_one_session, geometry, processes, more)
    }

    /// As `over`, with addresses that are found out besides.
    pub(super) fn finding_out(
        ends: (Box<dyn Port>, MemoryPort),
        addresses: (&[&str], &Automatic),
        has_one_session: bool,
        geometry: Geometry,
        processes: u16,
        more: Features,
    ) -> Self {
        let mut settings = Settings::new(Box::new(Alone), Loopback::Kernel, 0, true);
        settings.has_one_session = has_one_session;
        Self::with_settings(ends, addresses, settings, geometry, processes, more)
    }

    /// As `finding_out`, with what the operator has chosen.
    pub(super) fn with_settings(
        (port, wire): (Box<dyn Port>, MemoryPort),
        (addresses, automatic): (&[&str], &Automatic),
        settings: Settings,
        geometry: Geometry,
        processes: u16,
        more: Features,
    ) -> Self {
        let addresses: Vec<_> = addresses.iter().map(|a| a.parse().unwrap()).collect();
        let now = Instant(1_000_000);
        let interface = Interface {
            port,
            addresses: &addresses,
            gateways: &[],
            automatic,
        };
        let mut stack = Stack::new(interface, settings, &Secrets::from_seed(1), now).unwrap();
        let agreed = Agreed {
            features: Features::LENT_CHUNKS | Features::FORWARDS | more,
            ..Agreed::OURS
        };
        let arena = Arc::new(Arena::create_for(geometry, agreed).unwrap());
        let mut host = AdapterSession::new(arena.clone(), Arc::new(EventfdSignaler::for_one()));
        (0..processes).for_each(|channel| host.open_channel(channel));
        let session = stack.lifecycle().open_session(Session::new(host, 0), None);
        Self {
            stack,
            channel: HostChannel::new(arena.clone(), 0),
            doorbell: Doorbell::new().unwrap(),
            arena,
            session,
            wire,
            now,
        }
    }

    /// A session of another program, with one process.
    pub(super) fn add_session(
        &mut self,
        geometry: Geometry,
        features: Features,
    ) -> (u32, Arc<Arena>) {
        let agreed = Agreed {
            features,
            ..Agreed::OURS
        };
        let arena = Arc::new(Arena::create_for(geometry, agreed).unwrap());
        let mut host = AdapterSession::new(arena.clone(), Arc::new(EventfdSignaler::for_one()));
        host.open_channel(0);
        let session = self
            .stack
            .lifecycle()
            .open_session(Session::new(host, 0), None);
        (session, arena)
    }

    /// The program connects one of its sockets.
    pub(super) fn connect_to(&mut self, socket: SocketId, peer: SocketAddr) {
        self.ask(
            0,
            &Request::Connect {
                socket,
                tag: 1,
                waiter: None,
                peer: peer.into(),
            },
        );
    }

    /// The same, to port 80 of its own engine.
    pub(super) fn connect_to_own(&mut self, socket: SocketId) {
        self.connect_to(socket, SocketAddr::new(SERVER.into(), 80));
    }

    pub(super) fn ask(&mut self, channel: u16, request: &Request) {
        let from = From {
            session: self.session,
            channel,
        };
        self.stack
            .handle_request(from, request, &Immediate::default());
    }

    /// A socket of process 0.
    pub(super) fn open(&mut self, kind: SocketKind) -> SocketId {
        let free = &self.arena.header().free_sockets;
        let index = free.pop(self.arena.socket_links()).unwrap().unwrap();
        let block = self.arena.block(index);
        let generation = block.begin(SocketState::Open, BlockFlags::empty());
        let socket = SocketId { index, generation };
        let flags = OpenFlags::empty();
        self.ask(
            0,
            &Request::Open {
                socket,
                kind,
                flags,
            },
        );
        socket
    }

    /// Binds a socket of process 0 to this port.
    pub(super) fn bind_to(&mut self, socket: SocketId, port: u16) {
        self.ask(
            0,
            &Request::Bind {
                socket,
                tag: 1,
                waiter: None,
                local: SocketAddr::new(SERVER.into(), port).into(),
            },
        );
    }

    /// A socket of process 0 at this port.
    pub(super) fn bind(&mut self, kind: SocketKind, port: u16) -> SocketId {
        let socket = self.open(kind);
        self.bind_to(socket, port);
        socket
    }

    /// A listener of process 0 at port 80.
    pub(super) fn listen(&mut self) -> SocketId {
        let socket = self.bind(SocketKind::Stream, 80);
        self.listen_at(socket, HALF_OPEN as u32);
        socket
    }

    /// Process 0 calls `listen` on this socket.
    pub(super) fn listen_at(&mut self, socket: SocketId, backlog: u32) {
        let (tag, waiter) = (1, None);
        self.ask(
            0,
            &Request::Listen {
                socket,
                tag,
                waiter,
                backlog,
            },
        );
    }

    /// Process 0 closes this socket, on which nothing was written or read.
    pub(super) fn close(&mut self, socket: SocketId) {
        self.close_and_linger(socket, None);
    }

    /// The same without lingering (SO_LINGER of 0): by a reset.
    pub(super) fn reset(&mut self, socket: SocketId) {
        self.close_and_linger(socket, Some(0));
    }

    fn close_and_linger(&mut self, socket: SocketId, linger: Option<u32>) {
        let close = Request::Close {
            socket,
            snd_edge: 0,
            rcv_consumed: 0,
            linger,
        };
        self.ask(0, &close);
    }

    /// Process 0 has read so far of this socket, on which nothing was written.
    pub(super) fn edges(&mut self, socket: SocketId, rcv_consumed: u64, flags: EdgeFlags) {
        self.says(socket, 0, rcv_consumed, flags);
    }

    /// Process 0 says where the streams of this socket are.
    pub(super) fn says(
        &mut self,
        socket: SocketId,
        snd_edge: u64,
        rcv_consumed: u64,
        flags: EdgeFlags,
    ) {
        let edges = Request::Edges {
            socket,
            snd_edge,
            rcv_consumed,
            flags,
            immediate: 0,
        };
        self.ask(0, &edges);
    }

    /// A turn, so many microseconds after the last.
    pub(super) fn turn_after(&mut self, us: u64) {
        self.now = self.now.after_us(us);
        self.stack.begin_turn(self.now);
        self.stack.handle_timeouts();
        self.stack.relieve_memory_pressure();
        self.stack.flush();
        self.stack.answer_questions();
        self.stack.publish();
        self.stack.check().unwrap();
    }

    /// Process 0 takes its completions, whatever they say.
    pub(super) fn discard_completions(&mut self) {
        self.reported();
    }

    /// Process 0 takes its completions: these.
    pub(super) fn reported(&mut self) -> Vec<Completion> {
        let (mut is_more, mut reported) = (false, Vec::new());
        while let Some(completion) = self.channel.get().unwrap() {
            is_more |= matches!(completion, Some(Completion::More));
            reported.extend(completion);
        }
        self.channel.release();
        if is_more {
            self.channel.ask_for_more(&self.doorbell);
        }
        reported
    }

    /// Process 0 takes its completions: the last edges of this socket's streams among them.
    pub(super) fn told_of(&mut self, socket: SocketId) -> Option<Edges> {
        let of = |completion: &Completion| match completion {
            Completion::Edges { socket: id, edges } if *id == socket => Some(*edges),
            _ => None,
        };
        self.reported().iter().rev().find_map(of)
    }

    /// Process 0 takes its completions: the error of the last answer among them.
    pub(super) fn answer(&mut self) -> Option<u16> {
        let of = |completion: &Completion| match completion {
            Completion::Done { errno, .. } => Some(*errno),
            _ => None,
        };
        self.reported().iter().rev().find_map(of)
    }

    /// Process 0 writes to this socket, to which it has written up to `from`; how far now.
    pub(super) fn write(&mut self, socket: SocketId, from: u64, bytes: &[u8]) -> u64 {
        let snd_edge = super::streams::append(&self.arena, socket.index, from, bytes);
        let edges = Request::Edges {
            socket,
            snd_edge,
            rcv_consumed: 0,
            flags: EdgeFlags::PUSH,
            immediate: 0,
        };
        self.ask(0, &edges);
        snd_edge
    }

    /// Process 0 has written to this socket up to `snd_edge`, and says so with the last of it, so many
    /// bytes, beside.
    pub(super) fn says_with_data(&mut self, socket: SocketId, snd_edge: u64, immediate: u16) {
        let edges = Request::Edges {
            socket,
            snd_edge,
            rcv_consumed: 0,
            flags: EdgeFlags::PUSH,
            immediate,
        };
        self.channel.put(&edges).unwrap();
        self.channel.publish(&self.doorbell, false);
        let host = &mut self.in_stack_mut().host;
        let Next::Request(message, immediate) = host.next_request(0, 8) else {
            panic!("it was put")
        };
        let (session, channel) = (self.session, 0);
        let request = Request::decode(&message).unwrap();
        let from = From { session, channel };
        self.stack.handle_request(from, &request, &immediate);
    }

    /// Process 0 sets an option of this socket.
    pub(super) fn set(&mut self, socket: SocketId, name: OptionName, value: u64) {
        let option = Request::SetOption {
            socket,
            name,
            value,
        };
        self.ask(0, &option);
    }

    pub(super) fn turn(&mut self) {
        self.turn_after(10);
    }

    /// A packet comes.
    pub(super) fn packet(&mut self, protocol: u8, payload: &[u8]) {
        let packet = packets::packet((CLIENT.into(), SERVER.into()), protocol, payload);
        self.frame_in(&packet);
    }

    /// A packet goes over the wire.
    pub(super) fn carry(&mut self, packet: &[u8]) {
        self.wire.send(&TxFrame::whole(packet)).unwrap();
    }

    /// A packet comes as it is.
    pub(super) fn frame_in(&mut self, packet: &[u8]) {
        let meta = RxMeta {
            len: packet.len(),
            checksum: RxChecksum::Unknown,
            gso: None,
        };
        self.stack.frame_in(packet, &meta);
    }

    /// A segment with this payload comes.
    pub(super) fn segment(&mut self, header: &TcpHeader, payload: &[u8]) {
        let between = (CLIENT.into(), SERVER.into());
        self.frame_in(&packets::segment(between, header, payload));
    }

    /// An ICMP error about a packet of ours of `protocol` to `to`, of which it quotes these first
    /// bytes.
    pub(super) fn error_about(&mut self, protocol: u8, to: Ipv4Addr, quoted: &[u8], code: u8) {
        let is_narrow = code == unreachable::FRAGMENTATION_NEEDED;
        let error = Icmpv4::Unreachable {
            code,
            next_hop_mtu: if is_narrow { NARROW } else { 0 },
        };
        let mut message = vec![0; icmpv4::HEADER_LEN];
        message.extend(packets::header_v4(
            (SERVER, to),
            protocol,
            packets::HOPS,
            1_400,
        ));
        message.extend(quoted);
        error.emit(&mut message);
        self.packet(protocol::ICMP, &message);
    }

    /// A segment of client `number` comes, a SYN or what follows it.
    pub(super) fn bring(&mut self, number: u16, flags: TcpFlags, ack: SeqNumber) {
        let seq = ISN.add(u32::from(!flags.contains(TcpFlags::SYN)));
        self.segment(&header(number, flags, seq, ack), &[]);
    }

    /// Client `number` connects; what it sends next.
    pub(super) fn connect(&mut self, number: u16) -> TcpHeader {
        self.connect_with(number, TcpOptions::default())
    }

    /// As [`connect`](Self::connect), with these options on the SYN.
    pub(super) fn connect_with(&mut self, number: u16, options: TcpOptions) -> TcpHeader {
        let syn = TcpHeader {
            options,
            ..header(number, TcpFlags::SYN, ISN, SeqNumber(0))
        };
        self.segment(&syn, &[]);
        let ack = self.answered().expect("a SYN-ACK").add(1);
        self.bring(number, TcpFlags::ACK, ack);
        header(number, TcpFlags::ACK, ISN.add(1), ack)
    }

    /// The headers of the segments that were sent.
    pub(super) fn sent(&mut self) -> Vec<TcpHeader> {
        let all = self.sent_with_payload().into_iter();
        all.map(|sent| sent.header).collect()
    }

    /// The packets that were sent, whatever they are.
    pub(super) fn packets(&mut self) -> Vec<Vec<u8>> {
        let (mut frame, mut all) = (vec![0; 70_000], Vec::new());
        while let Some(meta) = self.wire.recv(&mut frame).unwrap() {
            all.push(frame[..meta.len].to_vec());
        }
        all
    }

    /// The segments that were sent, with their payload.
    pub(super) fn sent_with_payload(&mut self) -> Vec<Sent> {
        let (mut frame, mut all) = (vec![0; 2_000], Vec::new());
        while let Some(meta) = self.wire.recv(&mut frame).unwrap() {
            if (frame[0] >> 4, frame[9]) != (4, protocol::TCP) {
                continue;
            }
            let segment = &frame[HEADER_LEN..meta.len];
            let (header, len) = TcpHeader::parse(segment).unwrap();
            let payload = segment[len..].to_vec();
            all.push(Sent { header, payload });
        }
        all
    }

    /// The sequence number of the SYN-ACK that was sent last, if that was the last of all.
    pub(super) fn answered(&mut self) -> Option<SeqNumber> {
        let last = self.sent().pop()?;
        last.flags.contains(TcpFlags::SYN).then_some(last.seq)
    }

    pub(super) fn session(&self) -> u32 {
        self.session
    }

    /// What the stack has of the session.
    pub(super) fn in_stack(&self) -> &Session {
        self.stack.endpoints.sessions.get(self.session).unwrap()
    }

    /// As `in_stack`, to be changed.
    pub(super) fn in_stack_mut(&mut self) -> &mut Session {
        self.stack.endpoints.sessions.get_mut(self.session).unwrap()
    }

    /// What has crossed to the host.
    pub(super) fn to_host(&self) -> Crossings {
        self.in_stack().host.crossings().to_host
    }

    /// Chunks of the session's receive slab that are free.
    pub(super) fn free_chunks(&self) -> u32 {
        self.in_stack().host.receive.available()
    }

    /// How often this was a reason to drop something.
    pub(super) fn dropped(&self, name: &str) -> u64 {
        let found = self.stack.counters.drops().find(|(n, _)| *n == name);
        found.map_or(0, |(_, count)| count)
    }
}

/// The header of a segment of client `number` to port 80.
pub(super) fn header(number: u16, flags: TcpFlags, seq: SeqNumber, ack: SeqNumber) -> TcpHeader {
    TcpHeader {
        src_port: FIRST_PORT + number,
        dst_port: 80,
        seq,
        ack,
        flags,
        window: 60_000,
        urgent: 0,
        options: TcpOptions::default(),
    }
}
