//! What waits between two sockets of the engine, and for how long: a sender with a pace, data that
//! a listener waits for, a client in line; and what is counted of the bytes that go over.

use super::off_path::{GEOMETRY, accepted};
use super::own_ends::{Own, flags, last_of};
use super::single::Single;
use super::streams::{append, copy_out};
use longshore_hostif::{
    BlockFlags, EdgeFlags, Geometry, OptionName, Request, SocketId, SocketKind,
};

const TICK_US: u64 = 1_100;
const RESET: u16 = 104;

/// A client that is connected to a listener of its own engine, with these options; both ends.
fn connected(options: &[(OptionName, u64)]) -> (Single, SocketId, SocketId) {
    let Own {
        single,
        client,
        server,
    } = Own::with(&[], options);
    (single, client, server)
}

/// SO_MAX_PACING_RATE holds within the engine, too.
#[test]
fn a_paced_sender_takes_its_time() {
    const RATE: u64 = 1_000_000;
    const LEN: usize = 500_000;
    let (mut single, client, server) = connected(&[(OptionName::MaxPacingRate, RATE)]);
    let begun = single.now;
    single.write(client, 0, &vec![1; LEN]);
    let mut edge = 0;
    while edge < LEN as u64 {
        single.turn_after(1_000);
        if let Some(reported) = single.told_of(server) {
            let passed = single.now.since(begun);
            edge = reported.rcv_edge;
            // A little may go at once.
            assert!(
                edge <= 20_000 + RATE * passed / 1_000_000,
                "{edge} in {passed} us"
            );
            single.edges(server, edge, EdgeFlags::empty());
        }
        assert!(single.now.since(begun) < 2_000_000, "{edge}");
    }
    let took = single.now.since(begun);
    assert!((400_000..700_000).contains(&took), "{took}");
}

/// TCP_CORK that was set before the connection holds from its first byte.
#[test]
fn a_cork_that_was_set_before_holds() {
    let (mut single, client, server) = connected(&[(OptionName::Cork, 1)]);
    let arena = single.arena.clone();
    let snd_edge = append(&arena, client.index, 0, b"little");
    single.edges(client, 0, EdgeFlags::empty());
    let says = |single: &mut Single, flags| {
        single.ask(
            0,
            &Request::Edges {
                socket: client,
                snd_edge,
                rcv_consumed: 0,
                flags,
                immediate: 0,
            },
        );
        single.turn();
        single.turn();
    };
    says(&mut single, EdgeFlags::PUSH | EdgeFlags::CORK);
    assert_eq!(single.told_of(server), None);
    // Set once more, it holds still.
    single.set(client, OptionName::Cork, 1);
    single.turn();
    assert_eq!(single.told_of(server), None);
    says(&mut single, EdgeFlags::PUSH);
    assert_eq!(
        single.told_of(server).map(|reported| reported.rcv_edge),
        Some(6)
    );
}

/// A listener that defers connections for two seconds, and a client within the engine that has just
/// called it.
fn deferred() -> (Single, SocketId, SocketId) {
    let mut single = Single::new(GEOMETRY, 1);
    let listener = single.listen();
    single.set(listener, OptionName::DeferAccept, 2);
    let client = single.open(SocketKind::Stream);
    single.connect_to_own(client);
    single.turn();
    single.discard_completions();
    (single, listener, client)
}

/// TCP_DEFER_ACCEPT counts in seconds.
#[test]
fn a_deferred_end_is_handed_over_after_its_seconds() {
    let (mut single, listener, client) = deferred();
    for _ in 0..19 {
        single.turn_after(100_000);
        assert_eq!(single.told_of(listener), None);
    }
    single.turn_after(100_000 + TICK_US);
    single.turn();
    assert!(single.told_of(listener).is_some());
    let server = accepted(&mut single, listener, 0);
    // It was not told that its other end is here, so nothing of it is read where it lies.
    single.write(client, 0, &vec![1; 50_000]);
    single.turn();
    single.turn();
    assert_eq!(
        single.told_of(server).map(|reported| reported.rcv_edge),
        Some(50_000)
    );
    assert_eq!(single.stack.counters.own_bytes.lent, 0);
}

/// Two clients connect to a listener that has room for one; what they are told is thrown away.
fn two_call(single: &mut Single, listener: SocketId) -> [SocketId; 2] {
    single.listen_at(listener, 0);
    let clients = [(); 2].map(|()| {
        let client = single.open(SocketKind::Stream);
        single.connect_to_own(client);
        single.turn();
        client
    });
    single.discard_completions();
    clients
}

/// Linux: a connection whose first data finds the accept queue full enters it when there is room. Until
/// then its client may close, or is reset if the listener goes.
#[test]
fn a_deferred_end_stands_in_line_for_room() {
    #[derive(Debug, PartialEq)]
    enum Then {
        HasRoom,
        Closes,
        LosesListener,
    }
    for then in [Then::HasRoom, Then::Closes, Then::LosesListener] {
        let mut single = Single::new(GEOMETRY, 1);
        let listener = single.bind(SocketKind::Stream, 80);
        single.set(listener, OptionName::DeferAccept, 2);
        let clients = two_call(&mut single, listener);
        let edges = clients.map(|client| {
            let edge = single.write(client, 0, b"a question");
            (0..2).for_each(|_| single.turn());
            edge
        });
        let told = single.reported();
        assert_eq!(
            last_of(&told, listener).map(|edges| edges.rcv_edge),
            Some(64)
        );
        assert!(!flags(last_of(&told, clients[1])).contains(EdgeFlags::DEAD));
        // It has no time to wait for any more, and stands in line once, whatever else it says.
        let edges = [edges[0], single.write(clients[1], edges[1], b", and more")];
        single.turn_after(3_000_000);
        assert_eq!(single.stack.next_timeout(), None);
        match then {
            Then::HasRoom => {}
            Then::Closes => {
                let close = Request::Close {
                    socket: clients[1],
                    snd_edge: edges[1],
                    rcv_consumed: 0,
                    linger: None,
                };
                single.ask(0, &close);
                single.turn();
            }
            Then::LosesListener => {
                single.close(listener);
                (0..2).for_each(|_| single.turn());
                let told = single.told_of(clients[1]).expect("it is reset");
                assert_eq!(
                    (told.flags & EdgeFlags::DEAD, told.errno),
                    (EdgeFlags::DEAD, RESET)
                );
                continue;
            }
        }
        single.edges(listener, 64, EdgeFlags::empty());
        (0..2).for_each(|_| single.turn());
        let told = single.told_of(listener).expect("it has entered");
        assert_eq!(told.rcv_edge, 128, "{then:?}");
        let flags_of = single.arena.block(listener.index).flags();
        assert!(!flags_of.contains(BlockFlags::HAS_ENTERING), "{then:?}");
        let server = accepted(&mut single, listener, 1);
        let mut got = [0; 20];
        copy_out(&single.arena, server.index, 0, &mut got);
        assert_eq!(&got, b"a question, and more", "{then:?}");
        single.edges(listener, 128, EdgeFlags::empty());
        (0..2).for_each(|_| single.turn());
        single.write(server, 0, b"an answer");
        (0..2).for_each(|_| single.turn());
        let (client, server) = {
            let told = single.reported();
            (last_of(&told, clients[1]), last_of(&told, server))
        };
        match then {
            Then::Closes => assert!(flags(server).contains(EdgeFlags::DEAD)),
            _ => assert_eq!(client.map(|edges| edges.rcv_edge), Some(9)),
        }
    }
}

/// A listener may be told to wait for data while clients stand in line: one that has its turn is connected
/// then, and waits.
#[test]
fn a_client_that_stood_in_line_may_be_deferred() {
    let mut single = Single::new(GEOMETRY, 1);
    let listener = single.bind(SocketKind::Stream, 80);
    let clients = two_call(&mut single, listener);
    single.set(listener, OptionName::DeferAccept, 2);
    single.edges(listener, 64, EdgeFlags::empty());
    (0..2).for_each(|_| single.turn());
    let told = single.reported();
    let of_client = flags(last_of(&told, clients[1]));
    assert_eq!(of_client, EdgeFlags::CONNECTED);
    assert_eq!(last_of(&told, listener), None);
    single.write(clients[1], 0, b"a question");
    (0..2).for_each(|_| single.turn());
    assert_eq!(
        single.told_of(listener).map(|edges| edges.rcv_edge),
        Some(128)
    );
}

/// A deferred end that is reset has never been there for its listener, and one whose listener is gone is
/// reset as soon as it would be let through.
#[test]
fn a_deferred_end_may_be_reset_before_it_is_handed_over() {
    for listener_goes in [false, true] {
        let (mut single, listener, client) = deferred();
        if listener_goes {
            single.close(listener);
            single.turn();
            single.write(client, 0, b"hello?");
            single.turn();
            let told = single.told_of(client).expect("it is reset");
            assert_eq!(
                (told.flags & EdgeFlags::DEAD, told.errno),
                (EdgeFlags::DEAD, RESET)
            );
            single.turn_after(3_000_000);
        } else {
            single.reset(client);
            (0..3).for_each(|_| single.turn_after(1_000_000 + TICK_US));
            assert_eq!(single.told_of(listener), None);
            assert_eq!(single.stack.endpoints.sockets.len(), 1);
        }
        assert_eq!(single.stack.next_timeout(), None, "{listener_goes}");
    }
}

/// A deferred end that was handed over is one like any other: what is written to it when its other end is
/// gone is answered by a reset, and it has nothing to wait for.
#[test]
fn a_deferred_end_that_was_handed_over_may_lose_its_other_end() {
    let mut single = Single::new(GEOMETRY, 1);
    let listener = single.listen();
    single.set(listener, OptionName::DeferAccept, 2);
    let client = single.open(SocketKind::Stream);
    single.connect_to_own(client);
    (0..3).for_each(|_| single.turn_after(1_000_000 + TICK_US));
    let server = accepted(&mut single, listener, 0);
    single.edges(listener, 64, EdgeFlags::empty());
    single.turn();
    assert_eq!(single.stack.next_timeout(), None);
    single.close(server);
    single.turn();
    single.discard_completions();
    single.write(client, 0, b"hello?");
    single.turn();
    assert!(flags(single.told_of(client)).contains(EdgeFlags::DEAD));
}

/// As on Linux, shutting a half down ends an attempt to connect.
#[test]
fn an_attempt_ends_when_a_half_is_shut() {
    for half in [EdgeFlags::SHUT_WR, EdgeFlags::SHUT_RD] {
        let mut single = Single::new(GEOMETRY, 1);
        let listener = single.bind(SocketKind::Stream, 80);
        let clients = two_call(&mut single, listener);
        single.edges(clients[1], 0, half);
        single.turn();
        let reported = single.told_of(clients[1]).expect("it is over");
        assert!(reported.flags.contains(EdgeFlags::DEAD));
        assert_eq!(reported.errno, RESET);
        // And nobody enters in its place.
        single.edges(listener, 64, EdgeFlags::empty());
        single.turn();
        single.turn();
        assert_eq!(single.told_of(listener), None);
    }
}

/// What a session has no memory for goes over as soon as there is some, and then there is nothing more to
/// wait for. That it had none is counted once for each attempt.
#[test]
fn what_there_is_no_memory_for_goes_over_later() {
    const AGAIN_US: u64 = 10_000;
    // For the stream of the listener, and one of the connections.
    let geometry = Geometry {
        rcv_chunks: 2,
        ..GEOMETRY
    };
    let mut single = Single::new(geometry, 1);
    let listener = single.listen();
    let clients = [(); 2].map(|()| {
        let client = single.open(SocketKind::Stream);
        single.connect_to_own(client);
        single.turn();
        client
    });
    let servers = [0, 1].map(|which| accepted(&mut single, listener, which));
    single.write(clients[0], 0, &[1; 300]);
    single.turn();
    assert_eq!(
        single.told_of(servers[0]).map(|edges| edges.rcv_edge),
        Some(300)
    );
    let full = |single: &Single| single.dropped("arena_full");
    assert_eq!((single.free_chunks(), full(&single)), (0, 0));
    single.write(clients[1], 0, &[2; 300]);
    single.turn();
    assert_eq!(full(&single), 1);
    for attempt in 2..5 {
        (0..3).for_each(|_| single.turn());
        assert_eq!(full(&single), attempt - 1);
        single.turn_after(AGAIN_US + TICK_US);
        assert_eq!(full(&single), attempt);
    }
    assert_eq!(single.told_of(servers[1]), None);
    single.edges(servers[0], 300, EdgeFlags::empty());
    (0..2).for_each(|_| single.turn_after(AGAIN_US + TICK_US));
    assert_eq!(
        single.told_of(servers[1]).map(|edges| edges.rcv_edge),
        Some(300)
    );
    // The chunks of what was sent are taken back when it is quiet.
    (0..3).for_each(|_| single.turn_after(1_000_000));
    let (cold, warm) = single.arena.free_snd_chunks();
    assert_eq!(cold + warm, GEOMETRY.snd_chunks);
    assert_eq!(single.stack.next_timeout(), None);
}

/// Where a program has no more sockets, nobody can connect to it, and nothing is left of who tries.
#[test]
fn who_finds_no_socket_left_is_refused() {
    const REFUSED: u16 = 111;
    let mut single = Single::new(GEOMETRY, 1);
    single.listen();
    let others = (2..GEOMETRY.sockets).map(|_| single.open(SocketKind::Stream));
    assert_eq!(others.count() as u32, GEOMETRY.sockets - 2);
    let client = single.open(SocketKind::Stream);
    single.turn();
    let before = single.stack.endpoints.sockets.len();
    single.connect_to_own(client);
    single.turn();
    assert_eq!(single.told_of(client).map(|told| told.errno), Some(REFUSED));
    assert_eq!(single.dropped("no_socket_left"), 1);
    assert_eq!(single.stack.endpoints.sockets.len(), before);
    assert_eq!(single.stack.endpoints.demux.flows(), 0);
}

/// Bytes that are copied cross, to the engine and from it; those that are read where they lie do
/// not.
#[test]
fn what_is_copied_is_counted() {
    let (mut single, client, server) = connected(&[]);
    let counts = |single: &Single| {
        let crossings = single.in_stack().host.crossings();
        (
            crossings.to_adapter.payload.bytes,
            crossings.to_host.payload.bytes,
        )
    };
    let before = counts(&single);
    let edge = single.write(client, 0, &[1; 1_000]);
    single.turn();
    let after = counts(&single);
    assert_eq!((after.0 - before.0, after.1 - before.1), (1_000, 1_000));
    let meters: Vec<u64> = single
        .stack
        .status()
        .sockets(0)
        .map(|(_, status)| status.meter.to_host.payload.bytes)
        .collect();
    assert!(meters.contains(&1_000), "{meters:?}");
    single.edges(server, edge, EdgeFlags::empty());
    single.turn();
    // A chunk of its own: nothing is copied into it.
    let lent = single.write(client, edge, &vec![2; 60_000]);
    single.turn();
    single.turn();
    let last = counts(&single);
    assert_eq!(
        single.told_of(server).map(|reported| reported.rcv_edge),
        Some(lent)
    );
    assert_eq!(last, after);
    assert_eq!(single.stack.counters.own_bytes.lent, 60_000);
}

/// While nobody has read the record of a connection, no process can have it.
#[test]
fn a_connection_is_unread_until_its_record_is() {
    for over_the_wire in [true, false] {
        let mut single = Single::new(GEOMETRY, 1);
        let listener = single.listen();
        single.turn();
        for number in 0..2 {
            if over_the_wire {
                single.connect(number);
            } else {
                let client = single.open(SocketKind::Stream);
                single.connect_to_own(client);
            }
            single.turn();
        }
        let sockets = [0, 1].map(|which| accepted(&mut single, listener, which));
        let are_unread = |single: &Single| {
            sockets.map(|socket| {
                let key = single
                    .stack
                    .endpoints
                    .key_of(single.session(), socket)
                    .unwrap();
                single.stack.status().is_unread(key)
            })
        };
        let key = single
            .stack
            .endpoints
            .key_of(single.session(), listener)
            .unwrap();
        assert!(!single.stack.status().is_unread(key));
        assert_eq!(are_unread(&single), [true, true]);
        single.edges(listener, 64, EdgeFlags::empty());
        single.turn();
        assert_eq!(are_unread(&single), [false, true]);
        single.edges(listener, 128, EdgeFlags::empty());
        single.turn();
        assert_eq!(are_unread(&single), [false, false]);
    }
}
