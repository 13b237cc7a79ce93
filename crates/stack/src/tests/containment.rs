//! A panic in the work for a half-open connection ends no session: that connection alone is
//! forgotten, whatever the panic has left half done. One that comes while a session is taken out
//! for the panic before it ends what it is about, and no more.

use super::off_path::accepted;
use super::single::{FIRST_PORT, SERVER, Single, header};
use crate::Account;
use crate::at_work::AtWork;
use crate::counters::Notice;
use crate::requests::From;
use crate::testing::{
    Wanted, panic_as_half_open_is_listed, panic_as_it_is_listed, panic_as_it_parts,
    panic_in_half_open, panic_no_more,
};
use longshore_hostif::DatagramRecord;
use longshore_hostif::adapter::Immediate;
use longshore_hostif::{ACCEPT_RECORD, Arena, BlockFlags, EdgeFlags, Features, SocketState};
use longshore_hostif::{Geometry, OpenFlags, OptionName, Request, SocketId, SocketKind};
use longshore_wire::SeqNumber;
use longshore_wire::tcp::TcpFlags;
use std::net::{Ipv4Addr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

const GEOMETRY: Geometry = Geometry {
    channels: 64,
    waiters: 64,
    sockets: 64,
    snd_chunks: 8,
    rcv_chunks: 64,
    workers: 1,
};
const HALF_OPEN: u16 = 200;

/// A turn in which a panic that was wanted is contained; whether there was one.
fn turn(single: &mut Single) -> bool {
    let Err(panic) = catch_unwind(AssertUnwindSafe(|| single.turn())) else {
        return false;
    };
    if !panic.is::<Wanted>() {
        resume_unwind(panic);
    }
    assert_eq!(single.stack.contain_panic(), Some(Vec::new()), "no session");
    single.stack.check().unwrap();
    true
}

#[test]
fn a_panic_while_half_open_connections_are_reset_ends_no_session() {
    for step in [0, 1, 2, 3, 7, 126, 127, 128, 399] {
        let mut single = Single::new(GEOMETRY, 1);
        let listener = single.listen();
        (0..HALF_OPEN).for_each(|n| single.bring(n, TcpFlags::SYN, SeqNumber(0)));
        single.close(listener);
        // Another listener has the port, and connections of its own.
        single.listen();
        (300..310).for_each(|n| single.bring(n, TcpFlags::SYN, SeqNumber(0)));
        single.sent();
        panic_in_half_open(step);
        let (mut panics, mut resets) = (0, 0);
        while single.stack.has_work_left() {
            panics += u32::from(turn(&mut single));
            let sent = single.sent();
            resets += sent
                .iter()
                .filter(|s| s.flags.contains(TcpFlags::RST))
                .count();
        }
        panic_no_more();
        assert_eq!(panics, 1, "step {step}");
        assert_eq!(single.stack.counters.sessions.contained_panics, 1);
        assert_eq!(single.stack.status().half_open_count(), 10, "step {step}");
        assert_eq!(resets, usize::from(HALF_OPEN), "step {step}");
        // The session goes on.
        let next = single.connect(400);
        single.segment(&next, b"served");
        single.turn_after(100_000);
        let answer = single.sent().pop().expect("it is acknowledged");
        assert_eq!(
            answer.ack,
            header(400, TcpFlags::ACK, next.seq.add(6), next.ack).seq
        );
    }
}

const SOCKETS: u16 = 5;

/// A session of another program, with [`SOCKETS`] that are bound from this port on.
fn other_session(single: &mut Single, port: u16) -> u32 {
    let (session, arena) = single.add_session(GEOMETRY, Features::empty());
    for i in 0..SOCKETS {
        let socket = open(single, session, &arena, SocketKind::Datagram);
        let bind = Request::Bind {
            socket,
            tag: 1,
            waiter: None,
            local: SocketAddr::new(SERVER.into(), port + i).into(),
        };
        ask(single, session, &bind);
    }
    session
}

fn ask(single: &mut Single, session: u32, request: &Request) {
    let from = From {
        session,
        channel: 0,
    };
    let stack = &mut single.stack;
    stack.handle_request(from, request, &Immediate::default());
}

fn open(single: &mut Single, session: u32, arena: &Arena, kind: SocketKind) -> SocketId {
    let free = &arena.header().free_sockets;
    let index = free.pop(arena.socket_links()).unwrap().unwrap();
    let generation = arena
        .block(index)
        .begin(SocketState::Open, BlockFlags::empty());
    let socket = SocketId { index, generation };
    let open = Request::Open {
        socket,
        kind,
        flags: OpenFlags::empty(),
    };
    ask(single, session, &open);
    socket
}

/// A panic in the work for a session, and another while that is contained; which sessions end.
fn contained(single: &mut Single, session: u32, wanted: impl FnOnce()) -> Vec<u32> {
    wanted();
    single.stack.endpoints.sessions.at_work = AtWork::Session(session);
    let contained = catch_unwind(AssertUnwindSafe(|| single.stack.contain_panic()));
    assert_eq!(panic_no_more(), None, "it has come to that");
    let ended = contained
        .expect("it is contained")
        .expect("it is somebody's");
    single.stack.check().unwrap();
    ended
}

/// The first session goes on, with connections that it had and new ones.
fn goes_on(single: &mut Single, number: u16, had: &longshore_wire::tcp::TcpHeader) {
    for client in [had.clone(), single.connect(number)] {
        single.sent();
        single.segment(&client, b"served");
        single.turn_after(100_000);
        let answer = single.sent().pop().expect("it is acknowledged");
        assert_eq!(answer.ack, client.seq.add(6));
    }
}

#[test]
fn a_panic_as_lists_are_made_anew_ends_the_session_that_it_is_about_as_well() {
    for at in 0..u32::from(SOCKETS) {
        let mut single = Single::new(GEOMETRY, 1);
        single.listen();
        let had = single.connect(7);
        let ill = other_session(&mut single, 2_000);
        let next = other_session(&mut single, 3_000);
        let well = other_session(&mut single, 4_000);
        let ended = contained(&mut single, ill, || panic_as_it_is_listed(next, at));
        assert_eq!(ended, [ill, next]);
        assert_eq!(single.stack.counters.sessions.contained_panics, 2);
        let of_well = single
            .stack
            .endpoints
            .sockets
            .iter()
            .filter(|(_, s)| s.session == well);
        assert_eq!(of_well.count(), usize::from(SOCKETS));
        goes_on(&mut single, 8, &had);
    }
}

#[test]
fn a_panic_as_half_open_connections_are_listed_anew_ends_no_other_session() {
    for at in 0..5 {
        let mut single = Single::new(GEOMETRY, 1);
        single.listen();
        let had = single.connect(7);
        (300..305).for_each(|n| single.bring(n, TcpFlags::SYN, SeqNumber(0)));
        let ill = other_session(&mut single, 2_000);
        let ended = contained(&mut single, ill, || panic_as_half_open_is_listed(at));
        assert_eq!(ended, [ill]);
        assert_eq!(single.stack.counters.sessions.contained_panics, 2);
        assert_eq!(
            single.stack.status().half_open_count(),
            4,
            "one is forgotten"
        );
        single.sent();
        single.turn_after(1_100_000);
        let again = single.sent().into_iter();
        let again = again.filter(|sent| sent.flags.contains(TcpFlags::SYN));
        assert_eq!(again.count(), 4, "the others' SYN-ACKs are sent again");
        goes_on(&mut single, 8, &had);
    }
}

#[test]
fn a_panic_as_others_let_go_of_a_session_that_has_ended_ends_none_of_them() {
    for at in 0..u32::from(SOCKETS) {
        let mut single = Single::new(GEOMETRY, 1);
        single.listen();
        let had = single.connect(7);
        let ill = other_session(&mut single, 2_000);
        let ended = contained(&mut single, ill, || panic_as_it_parts(ill, at));
        assert_eq!(ended, [ill]);
        assert_eq!(single.stack.counters.sessions.contained_panics, 2);
        goes_on(&mut single, 8, &had);
    }
}

/// Whoever is connected to what is taken out is told, on the wire and in other sessions.
#[test]
fn the_other_ends_of_what_is_taken_out_are_reset() {
    let mut single = Single::new(GEOMETRY, 1);
    let listener = single.listen();
    single.turn();
    single.connect(7);
    single.turn();
    accepted(&mut single, listener, 0);
    let (other, arena) = single.add_session(GEOMETRY, Features::empty());
    let client = open(&mut single, other, &arena, SocketKind::Stream);
    let connect = Request::Connect {
        socket: client,
        tag: 1,
        waiter: None,
        peer: SocketAddr::new(SERVER.into(), 80).into(),
    };
    ask(&mut single, other, &connect);
    single.turn();
    single.sent();
    let is_over = |single: &Single| {
        let mut of_other = single.stack.endpoints.sockets.iter();
        let found = of_other.find(|(_, s)| s.session == other);
        found.expect("it lives on").1.kind.is_over()
    };
    assert!(!is_over(&single));
    let ill = single.session();
    assert_eq!(contained(&mut single, ill, || ()), [ill]);
    assert!(is_over(&single));
    let sent = single.sent();
    let is_reset = |h: &longshore_wire::tcp::TcpHeader| {
        h.dst_port == FIRST_PORT + 7 && h.flags.contains(TcpFlags::RST)
    };
    assert!(sent.iter().any(is_reset), "{sent:?}");
}

/// What nobody has bound stays held by the connections of those that go on.
#[test]
fn connections_hold_their_ports_after_a_panic_of_others() {
    const ADDRESS_IN_USE: u16 = 98;
    let mut single = Single::new(GEOMETRY, 1);
    let listener = single.listen();
    single.turn();
    single.connect(7);
    single.turn();
    accepted(&mut single, listener, 0);
    single.edges(listener, ACCEPT_RECORD as u64, EdgeFlags::empty());
    single.close(listener);
    single.turn();
    let ill = other_session(&mut single, 2_000);
    for panics in [false, true] {
        if panics {
            assert_eq!(contained(&mut single, ill, || ()), [ill]);
        }
        single.discard_completions();
        let socket = single.bind(SocketKind::Stream, 80);
        // An address that is in use may be free soon: the caller says so.
        for late in single.stack.late_binds().take() {
            assert!(!single.stack.late_binds().bind_again(&late), "{panics}");
            single.stack.endpoints.sessions.give_bind_up(&late);
        }
        single.turn();
        assert_eq!(single.answer(), Some(ADDRESS_IN_USE), "{panics}");
        single.close(socket);
    }
}

/// The operator hears of each panic, and one in the work for a session that is not there is
/// nobody's.
#[test]
fn a_panic_is_told_of_and_is_somebodys() {
    let mut single = Single::new(GEOMETRY, 1);
    let ill = other_session(&mut single, 2_000);
    assert_eq!(contained(&mut single, ill, || ()), [ill]);
    let told = |single: &mut Single| std::mem::take(&mut single.stack.counters.notices);
    let is_of = |notice: &Notice| matches!(notice, Notice::Panic { session } if *session == ill);
    assert!(told(&mut single).iter().any(is_of));
    single.listen();
    single.bring(3, TcpFlags::SYN, SeqNumber(0));
    let (_, key) = (0..64)
        .map(|key| (single.stack.endpoints.half_open.get(key).is_some(), key))
        .find(|(is_there, _)| *is_there)
        .expect("a half-open connection");
    single.stack.endpoints.sessions.at_work = AtWork::HalfOpen(key);
    assert_eq!(single.stack.contain_panic(), Some(Vec::new()));
    let is_half_open = |notice: &Notice| matches!(notice, Notice::PanicAtHalfOpen);
    assert!(told(&mut single).iter().any(is_half_open));
    for at_work in [AtWork::Nobodys, AtWork::Session(99), AtWork::Socket(9_999)] {
        single.stack.endpoints.sessions.at_work = at_work;
        assert_eq!(single.stack.contain_panic(), None);
    }
}

/// What a session had beside its sockets goes with it: the groups that these were in, and what was
/// still to be answered.
#[test]
fn nothing_is_left_of_a_session_that_was_taken_out() {
    const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 2, 3);
    let mut single = Single::new(GEOMETRY, 1);
    single.listen();
    let (ill, arena) = single.add_session(GEOMETRY, Features::empty());
    let (tag, waiter) = (1, None);
    let socket = open(&mut single, ill, &arena, SocketKind::Datagram);
    let join = Request::Group {
        socket,
        tag,
        waiter,
        group: SocketAddr::new(GROUP.into(), 0).into(),
        join: true,
    };
    ask(&mut single, ill, &join);
    let socket = open(&mut single, ill, &arena, SocketKind::Stream);
    let bind = Request::Bind {
        socket,
        tag,
        waiter,
        local: SocketAddr::new(SERVER.into(), 80).into(),
    };
    ask(&mut single, ill, &bind);
    let is_member = |single: &Single| single.stack.link().groups.v4.contains(GROUP);
    assert!(is_member(&single) && single.stack.late_binds().are_any());
    assert_eq!(contained(&mut single, ill, || ()), [ill]);
    assert!(!is_member(&single));
    assert!(!single.stack.late_binds().are_any());
}

/// The tables of connections are those of the connections that there are: one between two sockets of
/// the engine has its addresses still, and one that is over does not have them again.
#[test]
fn the_addresses_of_connections_are_theirs_after_a_panic_of_others() {
    const NOT_AVAILABLE: u16 = 99;
    let mut single = Single::new(GEOMETRY, 1);
    single.listen();
    single.turn();
    // Its program holds it still.
    let next = single.connect(7);
    single.turn();
    let reset = longshore_wire::tcp::TcpHeader {
        flags: TcpFlags::RST,
        ..next
    };
    single.segment(&reset, &[]);
    single.turn();
    let ill = other_session(&mut single, 2_000);
    let connects = |single: &mut Single| {
        let socket = single.open(SocketKind::Stream);
        single.set(socket, OptionName::ReuseAddress, 1);
        single.bind_to(socket, 5_000);
        single.discard_completions();
        single.connect_to_own(socket);
        single.turn();
        let refused = single.answer().filter(|errno| *errno != 0);
        single.close(socket);
        refused
    };
    let client = single.open(SocketKind::Stream);
    single.set(client, OptionName::ReuseAddress, 1);
    single.bind_to(client, 5_000);
    single.connect_to_own(client);
    single.turn();
    assert_eq!(connects(&mut single), Some(NOT_AVAILABLE));
    assert_eq!(contained(&mut single, ill, || ()), [ill]);
    single.turn();
    assert_eq!(connects(&mut single), Some(NOT_AVAILABLE));
    single.sent();
    single.bring(7, TcpFlags::SYN, SeqNumber(0));
    assert!(single.answered().is_some(), "a connection anew");
}

/// Whoever stands in line before a listener that is taken out hears that nobody is there.
#[test]
fn who_stands_in_line_is_refused_after_a_panic() {
    const CLIENTS: usize = 3;
    let mut single = Single::new(GEOMETRY, 1);
    let listener = single.bind(SocketKind::Stream, 80);
    single.listen_at(listener, 0);
    single.turn();
    let (other, arena) = single.add_session(GEOMETRY, Features::empty());
    for _ in 0..CLIENTS {
        let socket = open(&mut single, other, &arena, SocketKind::Stream);
        let connect = Request::Connect {
            socket,
            tag: 1,
            waiter: None,
            peer: SocketAddr::new(SERVER.into(), 80).into(),
        };
        ask(&mut single, other, &connect);
    }
    single.turn();
    let over = |single: &Single| {
        let of_other = single.stack.endpoints.sockets.iter();
        let of_other = of_other.filter(|(_, s)| s.session == other);
        of_other.filter(|(_, s)| s.kind.is_over()).count()
    };
    assert_eq!(over(&single), 0);
    let ill = single.session();
    assert_eq!(contained(&mut single, ill, || ()), [ill]);
    while single.stack.has_work_left() {
        single.turn();
    }
    assert_eq!(over(&single), CLIENTS);
}

/// What its user's share has left for later turns is sent after a panic of others, as it would have been.
#[test]
fn what_waits_for_its_turn_is_sent_after_a_panic_of_others() {
    const SENDERS: u16 = 8;
    const EACH: usize = 64;
    let mut single = Single::new(GEOMETRY, 1);
    single.in_stack_mut().account = Some(Arc::new(Account::new(1_000)));
    let ill = other_session(&mut single, 2_000);
    let peer = SocketAddr::new(Ipv4Addr::new(10, 0, 0, 2).into(), 9);
    let records = DatagramRecord::new(0, peer.into()).encode().repeat(EACH);
    for port in 0..SENDERS {
        let socket = single.bind(SocketKind::Datagram, 3_000 + port);
        single.write(socket, 0, &records);
    }
    single.turn();
    let sent = |single: &Single| single.stack.counters.datagrams.sent;
    let all = EACH as u64 * u64::from(SENDERS);
    assert!((1..all).contains(&sent(&single)), "{}", sent(&single));
    assert_eq!(contained(&mut single, ill, || ()), [ill]);
    (0..9).for_each(|_| single.turn());
    assert_eq!(sent(&single), all);
}
