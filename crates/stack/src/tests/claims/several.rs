//! Sockets that more than one process has, and data for which there was no room.

use super::*;

/// What process `channel` is told of a socket, the last.
fn last_edges(channel: &mut HostChannel, socket: SocketId) -> Option<Edges> {
    let mut last = None;
    while let Some(completion) = channel.get().unwrap() {
        if let Some(Completion::Edges { socket: id, edges }) = completion
            && id == socket
        {
            last = Some(edges);
        }
    }
    channel.release();
    last
}

/// A process that gets a socket is told at once where its streams stand; all that have it are told
/// what happens, and that another has shut a half down.
#[test]
fn all_processes_that_have_a_socket_are_told() {
    let mut wire = Wire::new();
    let mut second = HostChannel::new(wire.single.arena.clone(), 1);
    wire.comes(0, 0, TcpFlags::PSH, b"hello");
    wire.reported();
    assert_eq!(last_edges(&mut second, wire.socket), None);
    let subscribe = Request::Subscribe {
        socket: wire.socket,
    };
    wire.single.ask(1, &subscribe);
    wire.single.turn();
    assert_eq!(
        last_edges(&mut second, wire.socket).map(|reported| reported.rcv_edge),
        Some(5)
    );
    assert_eq!(wire.reported(), None, "it knows");
    wire.comes(5, 0, TcpFlags::PSH, b"all");
    for reported in [wire.reported(), last_edges(&mut second, wire.socket)] {
        assert_eq!(reported.map(|reported| reported.rcv_edge), Some(8));
    }
    // The first shuts a half down: the other looks at the block.
    wire.says(0, 0, EdgeFlags::SHUT_WR);
    assert!(last_edges(&mut second, wire.socket).is_some());
    // One that has it no longer is told of nothing.
    let unsubscribe = Request::Unsubscribe {
        socket: wire.socket,
    };
    wire.single.ask(1, &unsubscribe);
    wire.comes(8, 1, TcpFlags::PSH, b"last");
    assert_eq!(wire.reported().map(|reported| reported.rcv_edge), Some(12));
    assert_eq!(last_edges(&mut second, wire.socket), None);
    // Alone again, it need not be told what it says itself.
    wire.says(0, 12, EdgeFlags::SHUT_RD);
    assert_eq!(last_edges(&mut second, wire.socket), None);
}

/// Little data cross in the descriptor to the one process that has the socket, and are counted
/// and placed for a second one.
#[test]
fn data_that_cross_in_a_descriptor_are_placed_for_a_second_process() {
    let mut wire = Wire::with(Features::IMMEDIATE_DATA, &[]);
    let payload = |wire: &Wire| wire.single.to_host().payload.bytes;
    let before = payload(&wire);
    wire.comes(0, 0, TcpFlags::PSH, b"short");
    assert_eq!(wire.reported().map(|reported| reported.rcv_edge), Some(5));
    let in_descriptors = payload(&wire) - before;
    let mut second = HostChannel::new(wire.single.arena.clone(), 1);
    wire.single.ask(
        1,
        &Request::Subscribe {
            socket: wire.socket,
        },
    );
    wire.single.turn();
    assert_eq!(
        last_edges(&mut second, wire.socket).map(|reported| reported.rcv_edge),
        Some(5)
    );
    let placed = payload(&wire) - before;
    assert_eq!((in_descriptors, placed), (0, 5));
    let of_socket = |wire: &Wire| {
        let all = wire.single.stack.status().sockets(0);
        let mut own = all.filter(|(_, status)| status.block == Some(wire.socket.index));
        own.next()
            .map(|(_, status)| status.meter.to_host.payload.bytes)
    };
    assert_eq!(of_socket(&wire), Some(5));
    let mut got = [0; 5];
    copy_out(&wire.single.arena, wire.socket.index, 0, &mut got);
    assert_eq!(&got, b"short");
    // And what comes now is placed at once.
    wire.comes(5, 0, TcpFlags::PSH, b" too");
    assert_eq!(payload(&wire) - before, 9);
    for reported in [wire.reported(), last_edges(&mut second, wire.socket)] {
        assert_eq!(reported.map(|reported| reported.rcv_edge), Some(9));
    }
}

/// A peer that was told of little room is told of more when the program has read.
#[test]
fn a_reader_opens_the_window() {
    let mut wire = Wire::with(Features::empty(), &[(OptionName::ReceiveBuffer, 8_192)]);
    let mut at = 0;
    // As much as it takes.
    while at < 100_000 {
        wire.comes(at, 0, TcpFlags::NONE, &[1; 1_000]);
        let reported = wire
            .reported()
            .map_or(0, |reported| reported.rcv_edge as u32);
        if reported <= at {
            break;
        }
        at = reported;
    }
    assert!((4_000..20_000).contains(&at), "{at}");
    wire.single.turn_after(TICK_US);
    let window = |wire: &mut Wire| wire.single.sent().pop().map(|h| h.window);
    assert!(window(&mut wire).is_some_and(|left| left < 1_000));
    wire.says(0, at.into(), EdgeFlags::empty());
    assert!(
        window(&mut wire).is_some_and(|open| open >= 2_000),
        "a window update"
    );
}

/// What does not fit into a process's ring is told when that has taken what is there: of each
/// socket once, and where it stands by then.
#[test]
fn what_did_not_fit_is_told_when_there_is_room() {
    const CONNECTIONS: u16 = 400;
    const ROUNDS: u32 = 6;
    let geometry = Geometry {
        rcv_chunks: SPARE_CHUNKS + 500,
        ..GEOMETRY
    };
    let mut single = Single::new(geometry, 1);
    let listener = single.listen();
    single.turn();
    let mut all = Vec::new();
    for number in 0..CONNECTIONS {
        let next = single.connect(number);
        single.turn();
        let socket = accepted(&mut single, listener, number.into());
        let read = (u64::from(number) + 1) * ACCEPT_RECORD as u64;
        single.edges(listener, read, EdgeFlags::empty());
        single.turn();
        all.push((next, socket));
    }
    single.discard_completions();
    for at in 0..ROUNDS {
        for (next, _) in &all {
            let segment = TcpHeader {
                seq: next.seq.add(at),
                ..next.clone()
            };
            single.segment(&segment, b"x");
        }
        single.turn();
    }
    let from = crate::requests::From {
        session: single.session(),
        channel: 0,
    };
    let mut edges = std::collections::BTreeMap::new();
    let mut rounds = 0;
    loop {
        let reported = single.reported();
        let is_more = reported.contains(&Completion::More);
        for completion in &reported {
            if let Completion::Edges { socket, edges: e } = completion {
                edges.insert(socket.index, e.rcv_edge);
            }
        }
        if !is_more {
            break;
        }
        rounds += 1;
        single.stack.report_rest(from);
        single.turn();
    }
    assert!(rounds >= 1, "there were too many for the ring");
    for (_, socket) in &all {
        assert_eq!(edges.get(&socket.index), Some(&ROUNDS.into()), "{socket:?}");
    }
    // And nothing is owed any more.
    single.stack.report_rest(from);
    single.turn();
    assert_eq!(single.reported(), []);
}
