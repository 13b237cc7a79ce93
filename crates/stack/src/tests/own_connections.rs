//! Connections between two sockets of the engine, as their hosts see them: what each end is told,
//! when, and what becomes of the other when one writes, waits or shuts a half down.

use super::off_path::{GEOMETRY, accepted};
use super::own_ends::{Own, flags, last_of};
use super::single::{SERVER, Single};
use super::streams::copy_out;
use crate::counters::EngineDrop;
use crate::pair_end::{PIECE, PIECES_A_TURN};
use crate::socket::Kind;
use longshore_hostif::adapter::Immediate;
use longshore_hostif::{
    BlockFlags, CHUNK, Completion, EdgeFlags, Edges, Features, OpenFlags, OptionName, Request,
    SocketId, SocketKind, SocketState,
};
use std::net::SocketAddr;
use std::sync::atomic::Ordering;

/// How long less than a piece is held back, and after how long what was not told is told all the
/// same; what a timer may be late.
const HOLD_US: u64 = 200_000;
const QUIET_US: u64 = 100_000;
const TICK_US: u64 = 1_100;

const REFUSED: u16 = 111;
const CANCELED: u16 = 125;

#[test]
fn both_ends_are_told_of_the_connection_and_know_each_other() {
    let mut single = Single::new(GEOMETRY, 1);
    let listener = single.listen();
    let client = single.open(SocketKind::Stream);
    single.connect_to_own(client);
    single.turn();
    let reported = single.told_of(client).expect("it waits for that");
    assert_eq!((reported.flags, reported.errno), (EdgeFlags::CONNECTED, 0));
    let server = accepted(&mut single, listener, 0);
    let block = |socket: SocketId| single.arena.block(socket.index);
    assert_eq!(block(client).other_end(), Some(server.index));
    assert_eq!(block(server).other_end(), Some(client.index));
    let tcp = &single.stack.counters.tcp;
    assert_eq!((tcp.active_opens, tcp.passive_opens), (1, 1));
}

/// Another program's end is not named: its arena is another.
#[test]
fn the_ends_of_two_programs_do_not_know_each_other() {
    let mut single = Single::new(GEOMETRY, 1);
    let listener = single.listen();
    let (other, arena) = single.add_session(GEOMETRY, Features::LENT_CHUNKS);
    let index = arena.header().free_sockets.pop(arena.socket_links());
    let index = index.unwrap().unwrap();
    let generation = arena
        .block(index)
        .begin(SocketState::Open, BlockFlags::empty());
    let socket = SocketId { index, generation };
    let from = crate::requests::From {
        session: other,
        channel: 0,
    };
    let none = Immediate::default();
    let open = Request::Open {
        socket,
        kind: SocketKind::Stream,
        flags: OpenFlags::empty(),
    };
    single.stack.handle_request(from, &open, &none);
    let connect = Request::Connect {
        socket,
        tag: 1,
        waiter: None,
        peer: SocketAddr::new(SERVER.into(), 80).into(),
    };
    single.stack.handle_request(from, &connect, &none);
    single.turn();
    let server = accepted(&mut single, listener, 0);
    assert_eq!(single.arena.block(server.index).other_end(), None);
    assert_eq!(arena.block(index).other_end(), None);
    // Nor is anything read where it was written, however much it is.
    let bytes = vec![5; 100_000];
    let edges = Request::Edges {
        socket,
        snd_edge: super::streams::append(&arena, index, 0, &bytes),
        rcv_consumed: 0,
        flags: EdgeFlags::PUSH,
        immediate: 0,
    };
    single.stack.handle_request(from, &edges, &none);
    (0..2).for_each(|_| single.turn());
    let told = single.told_of(server).map(|edges| edges.rcv_edge);
    assert_eq!(told, Some(bytes.len() as u64));
    let mut got = vec![0; bytes.len()];
    copy_out(&single.arena, server.index, 0, &mut got);
    assert!(got == bytes);
    assert_eq!(single.stack.counters.own_bytes.lent, 0);
}

/// So many pieces go over in a turn, and the next in the turn after it.
#[test]
fn much_goes_over_in_some_turns() {
    const A_TURN: u64 = PIECES_A_TURN as u64 * PIECE;
    let mut own = Own::new();
    let all = A_TURN + 1_000;
    own.single.write(own.client, 0, &vec![1; all as usize]);
    for expected in [A_TURN, all, all] {
        own.single.turn();
        let counters = &own.single.stack.counters;
        assert_eq!(counters.own_bytes.cut_through, expected);
    }
}

/// What follows bytes that were copied is copied to the end of their chunk, and what lies in the next
/// chunks is read there.
#[test]
fn what_follows_a_copy_is_lent_from_the_next_chunk_on() {
    let mut own = Own::new();
    let chunk = CHUNK as u64;
    let edge = own.writes(own.client, 0, &[1; 1_000]);
    let all = own.single.write(own.client, edge, &vec![2; 2 * CHUNK]);
    (0..2).for_each(|_| own.single.turn());
    assert_eq!(own.reported().1.map(|edges| edges.rcv_edge), Some(all));
    let counters = &own.single.stack.counters;
    assert_eq!(counters.own_bytes.lent, all - chunk);
    let read = own.reads(own.server, 1_000, 2 * CHUNK);
    assert!(read.iter().all(|byte| *byte == 2));
}

/// What the other end has read of what was lent to it is the writer's, though what that has written since
/// is held back.
#[test]
fn what_was_read_is_done_with_while_more_is_held_back() {
    const LEN: usize = 45_000;
    let mut own = Own::with(&[], &[(OptionName::SendBuffer, 160_000)]);
    let (client, server) = (own.client, own.server);
    let edge = own.writes(client, 0, &vec![1; LEN]);
    assert_eq!(own.single.stack.counters.own_bytes.lent, edge);
    let arena = own.single.arena.clone();
    let next = super::streams::append(&arena, client.index, edge, b"little");
    own.says(client, next, 0, EdgeFlags::MORE);
    own.reported();
    own.says(server, 0, edge, EdgeFlags::empty());
    own.single.turn();
    let (of_client, of_server) = own.reported();
    assert_eq!(of_client.map(|edges| edges.snd_acked), Some(edge));
    assert_eq!(of_server, None, "it is held back");
}

/// A program that has written what names no memory of its own sends nothing, which is counted, and keeps
/// nobody from anything.
#[test]
fn what_lies_nowhere_does_not_go_over() {
    for before in [0, 1] {
        let mut own = Own::new();
        let (client, server) = (own.client, own.server);
        let at = before * CHUNK as u64;
        own.writes(client, 0, &vec![1; at as usize]);
        own.single.turn();
        own.reported();
        let entry = own.single.arena.snd_directory(client.index).entry(before);
        entry.store(u32::MAX, Ordering::Release);
        own.says(client, at + 40_000, 0, EdgeFlags::PUSH);
        own.single.turn();
        assert_eq!(own.reported().1, None, "{before}");
        assert_eq!(
            own.single.dropped(EngineDrop::BadStream.name()),
            1,
            "{before}"
        );
        // It is tried again, now and then.
        own.single.turn_after(20_000);
        assert_eq!(
            own.single.dropped(EngineDrop::BadStream.name()),
            2,
            "{before}"
        );
        own.closes(client, (at + 40_000, 0), Some(0));
        assert!(flags(own.reported().1).contains(EdgeFlags::DEAD));
        own.closes(server, (0, at), None);
        assert_eq!(own.sockets(), 1);
    }
}

#[test]
fn bytes_go_over_in_the_turn_and_the_end_after_them() {
    let mut own = Own::new();
    let (client, server) = (own.client, own.server);
    let edge = own.writes(client, 0, b"request");
    let (_, to_server) = own.reported();
    assert_eq!(to_server.map(|edges| edges.rcv_edge), Some(7));
    assert_eq!(own.reads(server, 0, 7), b"request");
    own.says(server, 0, 7, EdgeFlags::empty());
    own.writes(server, 0, b"answer");
    let (to_client, _) = own.reported();
    assert_eq!(to_client.map(|edges| edges.rcv_edge), Some(6));
    assert_eq!(own.reads(client, 0, 6), b"answer");
    // One half ends, and the other goes on.
    own.says(client, edge, 6, EdgeFlags::SHUT_WR);
    let (to_client, to_server) = own.reported();
    assert_eq!(flags(to_server), EdgeFlags::CONNECTED | EdgeFlags::PEER_FIN);
    assert!(!flags(to_client).intersects(EdgeFlags::PEER_FIN | EdgeFlags::DEAD));
    own.writes(server, 6, b" and more");
    let (to_client, _) = own.reported();
    assert_eq!(to_client.map(|edges| edges.rcv_edge), Some(15));
    own.says(server, 15, 7, EdgeFlags::SHUT_WR);
    let (to_client, to_server) = own.reported();
    assert_eq!(flags(to_client), EdgeFlags::CONNECTED | EdgeFlags::PEER_FIN);
    assert_eq!(flags(to_server), EdgeFlags::empty(), "it was told before");
}

/// What is written after the end was said is of no stream any more.
#[test]
fn nothing_follows_the_end() {
    let mut own = Own::new();
    let (client, server) = (own.client, own.server);
    let edge = own.writes(client, 0, b"all");
    own.says(client, edge, 0, EdgeFlags::SHUT_WR);
    own.reported();
    own.writes(client, edge, b"more");
    assert_eq!(own.reported().1, None);
    assert_eq!(own.reads(server, 0, 3), b"all");
}

/// By a quarter of the buffer the writer is told that it has room again; by less when the stream
/// is quiet, and then its chunks are taken back as well.
#[test]
fn a_writer_is_told_of_a_quarter_of_its_buffer() {
    const BUFFER: u64 = 80_000;
    let mut own = Own::with(&[], &[(OptionName::SendBuffer, BUFFER)]);
    let (client, server) = (own.client, own.server);
    let quarter = BUFFER / 4;
    let edge = own.writes(client, 0, &vec![1; quarter as usize - 1]);
    own.says(server, 0, edge, EdgeFlags::empty());
    let (to_client, to_server) = own.reported();
    assert_eq!(to_server.map(|edges| edges.rcv_edge), Some(edge));
    assert_eq!(to_client, None, "one byte less");
    let edge = own.writes(client, edge, &[2]);
    own.says(server, 0, edge, EdgeFlags::empty());
    let (to_client, _) = own.reported();
    assert_eq!(to_client.map(|edges| edges.snd_acked), Some(edge));
    // Counted from what it was told last.
    let next = own.writes(client, edge, &vec![3; quarter as usize - 1]);
    own.says(server, 0, next, EdgeFlags::empty());
    assert_eq!(own.reported().0, None);
    let all = own.writes(client, next, &[4]);
    own.says(server, 0, all, EdgeFlags::empty());
    assert_eq!(own.reported().0.map(|edges| edges.snd_acked), Some(all));
}

/// An end holds what its room is, and the rest when its host has read; and that is asked to say
/// so by a quarter of that.
#[test]
fn a_writer_waits_for_the_reader() {
    const BUFFER: u64 = 160_000;
    const ROOM: u64 = BUFFER * 5 / 16;
    let mut own = Own::with(&[], &[(OptionName::SendBuffer, BUFFER)]);
    let (client, server) = (own.client, own.server);
    let asks = |own: &Own, socket: SocketId| {
        let block = own.single.arena.block(socket.index);
        u64::from(block.unreported_limit.load(Ordering::Relaxed))
    };
    assert_eq!(asks(&own, server), ROOM / 4);
    let edge = own.writes(client, 0, &vec![1; 2 * ROOM as usize]);
    let rcv_edge = |edges: Option<Edges>| edges.map(|edges| edges.rcv_edge);
    assert_eq!(rcv_edge(own.reported().1), Some(ROOM));
    (0..3).for_each(|_| own.single.turn());
    assert_eq!(own.reported().1, None);
    own.says(server, 0, 1_000, EdgeFlags::empty());
    own.single.turn();
    assert_eq!(rcv_edge(own.reported().1), Some(ROOM + 1_000));
    own.says(server, 0, ROOM + 1_000, EdgeFlags::empty());
    own.single.turn();
    assert_eq!(rcv_edge(own.reported().1), Some(edge));
    // With another buffer, another room.
    own.single.set(client, OptionName::SendBuffer, 2 * BUFFER);
    assert_eq!(asks(&own, server), 2 * ROOM / 4);
}

/// What the writer says of more to come, or a cork, holds less than a piece back, until it is
/// said otherwise, the time is over, the stream ends or there is something urgent.
#[test]
fn a_cork_holds_little_back_for_a_while() {
    let more = EdgeFlags::MORE;
    let corked = EdgeFlags::PUSH | EdgeFlags::CORK;
    type Release = (&'static str, fn(&mut Own, u64));
    let releases: [Release; 5] = [
        ("more was written", |own, edge| {
            let client = own.client;
            own.says(client, edge, 0, EdgeFlags::PUSH);
        }),
        ("the time is over", |own, _| {
            own.single.turn_after(2_000 + TICK_US);
        }),
        ("the stream ends", |own, edge| {
            let client = own.client;
            own.says(client, edge, 0, EdgeFlags::SHUT_WR);
        }),
        ("it is urgent", |own, edge| {
            let socket = own.client;
            let (snd_edge, rcv_consumed) = (edge, 0);
            own.single.ask(
                0,
                &Request::Urgent {
                    socket,
                    snd_edge,
                    rcv_consumed,
                },
            );
            own.single.turn();
        }),
        ("the cork is out", |own, _| {
            let client = own.client;
            own.single.set(client, OptionName::Cork, 0);
            own.single.turn();
        }),
    ];
    for how in [more, corked] {
        for (why, release) in releases {
            let mut own = Own::new();
            let (client, server) = (own.client, own.server);
            let arena = own.single.arena.clone();
            let edge = super::streams::append(&arena, client.index, 0, b"little");
            own.says(client, edge, 0, how);
            assert_eq!(own.reported().1, None, "{how:?}: it waits");
            own.single.turn_after(HOLD_US - 2_000);
            assert_eq!(own.reported().1, None, "{how:?}: it waits still");
            release(&mut own, edge);
            // The other end has its turn after this one.
            own.single.turn();
            let reported = own.reported().1.map(|edges| edges.rcv_edge);
            assert_eq!(reported, Some(edge), "{how:?}, {why}");
            assert_eq!(own.reads(server, 0, 6), b"little");
        }
    }
    // What was held back for its whole time is no reason to hold the next for less.
    let mut own = Own::new();
    let (client, arena) = (own.client, own.single.arena.clone());
    let edge = super::streams::append(&arena, client.index, 0, b"first");
    own.says(client, edge, 0, more);
    own.single.turn_after(HOLD_US + TICK_US);
    own.single.turn();
    assert_eq!(own.reported().1.map(|edges| edges.rcv_edge), Some(edge));
    let next = super::streams::append(&arena, client.index, edge, b"second");
    own.says(client, next, 0, more);
    own.single.turn_after(HOLD_US - 2_000);
    assert_eq!(own.reported().1, None);
    own.single.turn_after(2_000 + TICK_US);
    own.single.turn();
    assert_eq!(own.reported().1.map(|edges| edges.rcv_edge), Some(next));
    // A whole piece waits for nothing.
    let mut own = Own::new();
    let (client, arena) = (own.client, own.single.arena.clone());
    let edge = super::streams::append(&arena, client.index, 0, &[1; 65_536]);
    own.says(client, edge, 0, more);
    assert_eq!(own.reported().1.map(|edges| edges.rcv_edge), Some(edge));
}

/// The host of a socket that lingers is told when the other end has all of it.
#[test]
fn a_lingering_end_is_told_when_all_has_arrived() {
    for lingers in [false, true] {
        let mut own = Own::new();
        let client = own.client;
        own.says(client, 0, 0, EdgeFlags::PUSH);
        let edge = own.writes(client, 0, b"last words");
        let mut how = EdgeFlags::SHUT_WR;
        how.set(EdgeFlags::LINGERS, lingers);
        own.says(client, edge, 0, how);
        let reported = flags(own.reported().0);
        assert_eq!(reported.contains(EdgeFlags::FIN_ACKED), lingers);
    }
    // While the other end has no room for the rest, it has not.
    let mut own = Own::with(&[], &[(OptionName::SendBuffer, 160_000)]);
    let (client, server) = (own.client, own.server);
    let edge = own.writes(client, 0, &vec![1; 100_000]);
    own.says(client, edge, 0, EdgeFlags::SHUT_WR | EdgeFlags::LINGERS);
    assert!(!flags(own.reported().0).contains(EdgeFlags::FIN_ACKED));
    own.says(server, 0, 50_000, EdgeFlags::empty());
    own.single.turn();
    assert!(flags(own.reported().0).contains(EdgeFlags::FIN_ACKED));
}

/// Where the last urgent byte is goes ahead of it, and is told once.
#[test]
fn urgent_data_is_told_of_once() {
    let mut own = Own::new();
    let (client, server) = (own.client, own.server);
    let urgent = |own: &mut Own, edge| {
        own.single.ask(
            0,
            &Request::Urgent {
                socket: client,
                snd_edge: edge,
                rcv_consumed: 0,
            },
        );
        own.single.turn();
    };
    let arena = own.single.arena.clone();
    let edge = super::streams::append(&arena, client.index, 0, b"now");
    urgent(&mut own, edge);
    let reported = own.reported().1.expect("it is urgent");
    assert_eq!((reported.rcv_edge, reported.rcv_urgent), (3, 3));
    urgent(&mut own, edge);
    assert_eq!(own.reported().1, None, "nothing is new");
    let edge = super::streams::append(&arena, client.index, edge, b"again");
    urgent(&mut own, edge);
    let reported = own.reported().1.expect("another");
    assert_eq!((reported.rcv_edge, reported.rcv_urgent), (8, 8));
    own.writes(client, edge, b"as ever");
    let reported = own.reported().1.expect("data");
    assert_eq!((reported.rcv_edge, reported.rcv_urgent), (15, 8));
    assert_eq!(own.reads(server, 0, 15), b"nowagainas ever");
    // Also where there is no room for it.
    let mut own = Own::with(&[], &[(OptionName::SendBuffer, 160_000)]);
    let (client, server) = (own.client, own.server);
    let edge = own.writes(client, 0, &vec![1; 60_000]);
    own.single.turn();
    assert_eq!(own.reported().1.map(|edges| edges.rcv_edge), Some(50_000));
    let edge = super::streams::append(&own.single.arena, client.index, edge, b"!");
    let urgent = Request::Urgent {
        socket: client,
        snd_edge: edge,
        rcv_consumed: 0,
    };
    // Also if this end has been looked at before.
    own.single.says(server, 0, 0, EdgeFlags::empty());
    own.single.ask(0, &urgent);
    (0..2).for_each(|_| own.single.turn());
    let reported = own.reported().1.expect("it is on its way");
    assert_eq!((reported.rcv_edge, reported.rcv_urgent), (50_000, edge));
    own.says(server, 0, 20_000, EdgeFlags::empty());
    own.single.turn();
    let reported = own.reported().1.expect("it is here");
    assert_eq!((reported.rcv_edge, reported.rcv_urgent), (edge, edge));
}

/// A socket that connects to the port where it is itself, and nobody listens, reads what it
/// writes.
#[test]
fn a_socket_that_meets_itself_reads_what_it_writes() {
    let mut single = Single::new(GEOMETRY, 1);
    let socket = single.bind(SocketKind::Stream, 80);
    single.connect_to_own(socket);
    single.turn();
    assert_eq!(
        single.told_of(socket).map(|reported| reported.flags),
        Some(EdgeFlags::CONNECTED)
    );
    let limit = &single.arena.block(socket.index).unreported_limit;
    assert_ne!(limit.load(Ordering::Relaxed), 0);
    // Its program sees that what it writes is on its way to itself.
    let other = single.arena.block(socket.index).other_end();
    assert_eq!(other, Some(socket.index));
    single.write(socket, 0, b"echo");
    single.turn();
    assert_eq!(
        single.told_of(socket).map(|reported| reported.rcv_edge),
        Some(4)
    );
    let mut got = [0; 4];
    copy_out(&single.arena, socket.index, 0, &mut got);
    assert_eq!(&got, b"echo");
    single.edges(socket, 4, EdgeFlags::empty());
    single.close(socket);
    single.turn();
    assert_eq!(single.stack.endpoints.sockets.len(), 0);
}

/// A client that finds the accept queue full stands in line, which the listener's block says; it
/// enters when there is room, may end its attempt, and is refused when the listener goes.
#[test]
fn those_in_line_enter_leave_or_are_refused() {
    let mut single = Single::new(GEOMETRY, 1);
    let listener = single.bind(SocketKind::Stream, 80);
    single.listen_at(listener, 0);
    single.turn();
    let clients: Vec<SocketId> = (0..4)
        .map(|_| {
            let client = single.open(SocketKind::Stream);
            single.connect_to_own(client);
            single.turn();
            client
        })
        .collect();
    let has_entering = |single: &Single| {
        let block = single.arena.block(listener.index);
        block.flags().contains(BlockFlags::HAS_ENTERING)
    };
    let reported = single.reported();
    let flags_of = |id| flags(last_of(&reported, id));
    let connected = clients.iter().map(|client| flags_of(*client));
    let connected: Vec<bool> = connected
        .map(|flags| flags.contains(EdgeFlags::CONNECTED))
        .collect();
    assert_eq!(connected, [true, false, false, false]);
    assert!(has_entering(&single));
    // The second gives it up, once.
    let cancel = |single: &mut Single| {
        single.ask(
            0,
            &Request::Cancel {
                socket: clients[1],
                tag: 7,
                waiter: None,
            },
        );
    };
    cancel(&mut single);
    single.turn();
    let reported = single.reported();
    let dead = last_of(&reported, clients[1]).expect("it is told");
    assert!(dead.flags.contains(EdgeFlags::DEAD));
    assert_eq!(dead.errno, CANCELED);
    // And then answered.
    assert!(matches!(
        reported.last(),
        Some(Completion::Done { errno: 0, .. })
    ));
    cancel(&mut single);
    single.turn();
    assert_eq!(single.answer(), Some(2), "none is under way");
    // One is accepted, and the third enters.
    single.edges(listener, 64, EdgeFlags::empty());
    single.turn();
    let reported = single.told_of(clients[2]).expect("it has entered");
    assert_eq!(reported.flags, EdgeFlags::CONNECTED);
    assert!(has_entering(&single));
    single.edges(listener, 128, EdgeFlags::SHUT_RD);
    single.turn();
    single.turn();
    let reported = single.told_of(clients[3]).expect("it has not");
    assert!(reported.flags.contains(EdgeFlags::DEAD));
    assert_eq!(reported.errno, REFUSED);
    assert!(!has_entering(&single));
}

/// A listener that waits for data is told of an end when there are some, or the time is over; the
/// client is connected at once.
#[test]
fn an_end_that_waits_for_data_is_handed_over_with_them_or_later() {
    const WITHIN_MS: u64 = 50;
    for has_data in [true, false] {
        let mut single = Single::new(GEOMETRY, 1);
        let listener = single.listen();
        single.set(listener, OptionName::AcceptOnData, WITHIN_MS);
        single.turn();
        let client = single.open(SocketKind::Stream);
        single.connect_to_own(client);
        single.turn();
        let reported = single.reported();
        assert_eq!(flags(last_of(&reported, client)), EdgeFlags::CONNECTED);
        assert_eq!(last_of(&reported, listener), None);
        single.turn_after(1_000 * WITHIN_MS - 2_000);
        assert_eq!(single.told_of(listener), None);
        if has_data {
            single.write(client, 0, b"GET /");
            single.turn();
            single.turn();
        } else {
            single.turn_after(2_000 + TICK_US);
            single.turn();
        }
        let reported = single.told_of(listener).expect("its record");
        assert_eq!(reported.rcv_edge, 64);
        let server = accepted(&mut single, listener, 0);
        if has_data {
            let mut got = [0; 5];
            copy_out(&single.arena, server.index, 0, &mut got);
            assert_eq!(&got, b"GET /");
        }
        // No second time.
        single.turn_after(1_000 * WITHIN_MS + TICK_US);
        assert_eq!(single.told_of(listener), None);
    }
}

/// Large pieces are read where they were written, and are the writer's again when they were read.
#[test]
fn what_is_lent_is_done_with_when_it_was_read() {
    const LEAST: usize = 32 * 1_024;
    for (len, lent) in [(LEAST - 1, 0), (LEAST, LEAST as u64)] {
        let mut own = Own::new();
        let (client, server) = (own.client, own.server);
        let edge = own.writes(client, 0, &vec![5; len]);
        assert_eq!(own.single.stack.counters.own_bytes.lent, lent);
        assert_eq!(own.single.stack.counters.own_bytes.cut_through, len as u64);
        let done = |own: &Own| {
            let key = own
                .single
                .stack
                .endpoints
                .sessions
                .socket_of(own.single.session(), client.index);
            match &own
                .single
                .stack
                .endpoints
                .sockets
                .get(key.unwrap())
                .unwrap()
                .kind
            {
                Kind::Pair(p) => p.snd.done(),
                _ => panic!("it is a connection of our own"),
            }
        };
        assert_eq!(done(&own), if lent == 0 { edge } else { 0 });
        own.says(server, 0, edge / 2, EdgeFlags::empty());
        own.single.turn();
        assert_eq!(done(&own), if lent == 0 { edge } else { edge / 2 });
        own.says(server, 0, edge, EdgeFlags::empty());
        own.single.turn();
        assert_eq!(done(&own), edge);
        own.single.turn_after(QUIET_US + TICK_US);
        assert_eq!(own.reported().0.map(|edges| edges.snd_acked), Some(edge));
    }
}
