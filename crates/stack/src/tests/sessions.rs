//! Sessions beside each other: which are polled, what each user has of a turn, and what
//! programs are told of the stack.

use super::off_path::GEOMETRY;
use super::single::{CLIENT, Single};
use crate::requests::From;
use crate::{Account, Of};
use longshore_hostif::adapter::{Batching, Immediate};
use longshore_hostif::{
    Arena, BlockFlags, CONGESTION_NAMES, DatagramRecord, Features, HostChannel, HostSession,
    OpenFlags, Request, SocketId, SocketKind, SocketState,
};
use longshore_tcp::Congestion;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Sessions that are polled however little they ask, and turns before one is parked.
const KEPT: usize = 2;
const IDLE_TURNS: u64 = 256;

/// A session that asks for nothing is parked after a while, where there are more than a few, and
/// is polled again when something is done for it.
#[test]
fn idle_sessions_are_parked() {
    let mut single = Single::new(GEOMETRY, 1);
    let (second, _) = single.add_session(GEOMETRY, Features::empty());
    assert!(!single.stack.endpoints.sessions.polls_many());
    let (third, _) = single.add_session(GEOMETRY, Features::empty());
    let all = [single.session(), second, third];
    let sessions = |single: &Single| {
        let sessions = &single.stack.endpoints.sessions;
        (sessions.len(), sessions.parked(), sessions.polled().len())
    };
    assert_eq!(sessions(&single), (3, 0, 3));
    assert_eq!(single.stack.endpoints.sessions.keys().len(), 3);
    assert!(
        single.stack.endpoints.sessions.polls_many() && !single.stack.endpoints.sessions.is_empty()
    );
    for _ in 0..IDLE_TURNS - 10 {
        single.turn();
    }
    let next_idle = |single: &mut Single| {
        let turn = single.stack.counters.event_loop.turns;
        (0..3).find_map(|_| single.stack.endpoints.sessions.next_idle(turn))
    };
    assert_eq!(next_idle(&mut single), None, "not yet");
    (0..20).for_each(|_| single.turn());
    let idle = next_idle(&mut single).expect("one of them");
    assert!(all.contains(&idle));
    assert!(single.stack.endpoints.sessions.park(idle));
    assert!(single.stack.endpoints.sessions.park(idle), "it is");
    assert_eq!(sessions(&single), (3, 1, KEPT));
    assert!(!single.stack.endpoints.sessions.polled().contains(&idle));
    assert!(!single.stack.endpoints.sessions.park(99), "there is none");
    assert_eq!(next_idle(&mut single), None, "so few are kept");
    // It is polled from when something is asked on, and not idle for a while.
    let turn = single.stack.counters.event_loop.turns;
    single.stack.endpoints.sessions.poll(idle, turn);
    single.stack.endpoints.sessions.poll(idle, turn);
    assert_eq!(sessions(&single), (3, 0, 3));
    // What is done for a parked one has it polled, too.
    for key in all {
        assert!(single.stack.endpoints.sessions.park(key));
    }
    assert_eq!(sessions(&single), (3, 3, 0));
    single.stack.endpoints.sessions.get_mut(second);
    single.turn();
    assert_eq!(single.stack.endpoints.sessions.polled(), [second]);
    // With one that is taken out, its place is.
    assert!(single.stack.lifecycle().close_session(second).is_some());
    assert!(single.stack.lifecycle().close_session(second).is_none());
    assert_eq!(sessions(&single), (2, 2, 0));
}

/// A user's share of a turn's output is for all its sessions together; what is above it waits, and
/// others do not.
#[test]
fn a_user_has_its_share_of_output() {
    const SOCKETS: u16 = 8;
    const EACH: usize = 100;
    let mut single = Single::new(GEOMETRY, 1);
    let account = Arc::new(Account::new(1_000));
    single.in_stack_mut().account = Some(account.clone());
    let peer = SocketAddr::new(CLIENT.into(), 9);
    let stream = DatagramRecord::new(0, peer.into()).encode().repeat(EACH);
    let sockets: Vec<_> = (0..SOCKETS)
        .map(|number| single.bind(SocketKind::Datagram, 1_000 + number))
        .collect();
    single.turn();
    for socket in sockets {
        single.write(socket, 0, &stream);
    }
    let mut turns = Vec::new();
    while turns.iter().sum::<usize>() < usize::from(SOCKETS) * EACH {
        single.turn();
        turns.push(single.packets().len());
        assert!(turns.len() < 100, "{turns:?}");
    }
    // Two units for a datagram, of five hundred, and what one socket has at once besides.
    assert!(turns.iter().all(|sent| *sent <= 250 + 64), "{turns:?}");
    assert!(turns.len() >= 3, "{turns:?}");
    assert!(single.stack.counters.waits.output > 0);
    let turn = single.stack.counters.event_loop.turns;
    assert!(account.spent.left(Of::Output, turn) < 500);
    assert_eq!(account.spent.left(Of::Output, turn + 1), 500);
}

/// What is less than its share goes in its turn.
#[test]
fn what_is_less_than_a_share_is_sent_at_once() {
    const SOCKETS: u16 = 8;
    let mut single = Single::new(GEOMETRY, 1);
    single.in_stack_mut().account = Some(Arc::new(Account::new(1_000)));
    let peer = SocketAddr::new(CLIENT.into(), 9);
    let record = DatagramRecord::new(0, peer.into()).encode();
    for number in 0..SOCKETS {
        let socket = single.bind(SocketKind::Datagram, 1_000 + number);
        single.write(socket, 0, &record);
    }
    single.turn();
    assert_eq!(single.packets().len(), usize::from(SOCKETS));
    assert_eq!(single.stack.counters.waits.output, 0);
}

/// A program of this session, by what its engine knows of it.
struct Other {
    from: From,
    arena: Arc<Arena>,
}

impl Other {
    fn new(single: &mut Single) -> Self {
        let (session, arena) = single.add_session(GEOMETRY, Features::empty());
        let from = From {
            session,
            channel: 0,
        };
        Self { from, arena }
    }

    fn ask(&self, single: &mut Single, request: &Request) {
        let none = Immediate::default();
        single.stack.handle_request(self.from, request, &none);
    }

    fn open(&self, single: &mut Single) -> SocketId {
        let free = &self.arena.header().free_sockets;
        let index = free.pop(self.arena.socket_links()).unwrap().unwrap();
        let block = self.arena.block(index);
        let generation = block.begin(SocketState::Open, BlockFlags::empty());
        let socket = SocketId { index, generation };
        let (kind, flags) = (SocketKind::Stream, OpenFlags::empty());
        let open = Request::Open {
            socket,
            kind,
            flags,
        };
        self.ask(single, &open);
        socket
    }

    fn connect(&self, single: &mut Single, socket: SocketId) {
        let connect = Request::Connect {
            socket,
            tag: 1,
            waiter: None,
            peer: SocketAddr::new(CLIENT.into(), 9).into(),
        };
        self.ask(single, &connect);
    }
}

/// Sockets that wait for their user's share are nobody's as their session is over, and are forgotten.
#[test]
fn sockets_that_wait_for_output_go_with_their_session() {
    let mut single = Single::new(GEOMETRY, 1);
    single.in_stack_mut().account = Some(Arc::new(Account::new(1_000)));
    let peer = SocketAddr::new(CLIENT.into(), 9);
    let stream = DatagramRecord::new(0, peer.into()).encode().repeat(200);
    let sockets: Vec<_> = (0..8)
        .map(|number| single.bind(SocketKind::Datagram, 1_000 + number))
        .collect();
    single.turn();
    for socket in sockets {
        single.write(socket, 0, &stream);
    }
    single.turn();
    assert!(!single.in_stack().postponed.is_empty());
    let keys = single.stack.endpoints.sockets.iter().map(|(key, _)| key);
    let keys: Vec<u32> = keys.collect();
    assert_eq!(keys.len(), 8);
    for key in keys {
        single.stack.lifecycle().close_unheld(key);
    }
    let session = single.session();
    assert!(single.stack.lifecycle().close_session(session).is_some());
    single.turn();
    single.turn();
    assert_eq!(single.stack.endpoints.sockets.len(), 0);
}

/// Connections that nobody has accepted are given up with their listener, some in each turn, and
/// forgotten with their session: the next one, which has the same key, has sockets with the same
/// blocks, which are others.
#[test]
fn what_a_session_has_given_up_is_nothing_of_the_next() {
    const MANY: u16 = 200;
    let mut single = Single::new(GEOMETRY, 1);
    let listener = single.listen();
    single.turn();
    for number in 0..MANY {
        single.connect(number);
    }
    single.turn();
    let sockets = single.stack.endpoints.sockets.iter();
    let connections = sockets.filter(|(_, socket)| socket.id != listener);
    let connections: Vec<_> = connections.map(|(key, socket)| (key, socket.id)).collect();
    assert_eq!(connections.len(), usize::from(MANY));
    single.close(listener);
    for (key, _) in &connections {
        single.stack.lifecycle().reset_unheld(*key);
    }
    single.turn();
    assert_eq!(single.stack.endpoints.sockets.len(), 0);
    assert!(single.stack.endpoints.sockets.given_up.are_any());
    let session = single.session();
    assert!(single.stack.lifecycle().close_session(session).is_some());
    let next = Other::new(&mut single);
    assert_eq!(next.from.session, session);
    let opened: Vec<_> = (0..=MANY).map(|_| next.open(&mut single)).collect();
    let same = connections.iter().filter(|(_, id)| opened.contains(id));
    assert_eq!(same.count(), usize::from(MANY), "their blocks");
    for socket in &opened {
        next.connect(&mut single, *socket);
    }
    while single.stack.endpoints.sockets.given_up.are_any() {
        single.turn();
    }
    for socket in opened {
        let key = single.stack.endpoints.key_of(session, socket);
        let connects = key.and_then(|key| single.stack.endpoints.sockets.get(key));
        let is_over = connects.is_none_or(|socket| socket.kind.is_over());
        assert!(!is_over, "it was reset");
    }
}

/// What new sessions are told waits for more, where the operator has chosen that.
#[test]
fn descriptors_of_new_sessions_cross_in_batches_where_that_is_chosen() {
    for batching in [None, Batching::fixed(8, 5_000)] {
        let mut single = Single::new(GEOMETRY, 1);
        single.stack.settings.batching = batching;
        let program = Other::new(&mut single);
        let mut channel = HostChannel::new(program.arena.clone(), 0);
        let socket = program.open(&mut single);
        program.connect(&mut single, socket);
        single.turn();
        let is_told = channel.get().unwrap().is_some();
        assert_eq!(is_told, batching.is_none());
    }
}

/// Programs find in their memory which destinations are the engine's, how long packets may be, and
/// how their sockets begin.
#[test]
fn programs_are_told_of_the_stack() {
    let mut single = Single::new(GEOMETRY, 1);
    let (own, peer): (IpAddr, IpAddr) = ([10, 0, 0, 1].into(), [10, 0, 0, 7].into());
    let host = HostSession::of(&single.arena);
    let routes: Vec<_> = host.routes().iter().collect();
    let of = |ip: IpAddr| {
        let best = routes.iter().filter(|route| route.contains(ip));
        best.max_by_key(|route| route.prefix_len).copied()
    };
    let ours = of(own).expect("our address");
    assert!(ours.local && ours.prefix_len == 32);
    assert!(of(peer).is_some_and(|route| !route.local));
    assert_eq!(
        host.routes().own_address(1).map(|route| route.address),
        Some(own)
    );
    assert_eq!(host.routes().link_mtu(peer), 1_500);
    assert!(!host.routes().has_narrow_paths());
    assert!(!host.is_alone());
    // What is chosen later, for all and for one.
    let name = |host: &HostSession| CONGESTION_NAMES[host.congestion() as usize];
    assert_eq!(name(&host), Congestion::default().name());
    single.stack.settings.congestion = Some(Congestion::Bbr);
    single.stack.publish_congestion();
    assert_eq!(name(&host), "bbr");
    let session = single.session();
    let reno = CONGESTION_NAMES.iter().position(|name| *name == "reno");
    single.in_stack_mut().congestion = Some(Congestion::ALL[reno.unwrap()]);
    single.stack.publish_congestion();
    assert_eq!(name(&host), "reno");
    single.stack.settings.kernel_too = false;
    let (_, arena) = single.add_session(GEOMETRY, Features::empty());
    let other = HostSession::of(&arena);
    assert!(other.is_alone());
    assert_eq!(name(&other), "bbr");
    assert!(!other.is_closed());
    assert!(single.stack.lifecycle().close_session(session).is_some());
    assert!(host.is_closed() && !other.is_closed());
}
