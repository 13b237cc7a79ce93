//! What a program has left to send when it ends waits for the other program to read, if that is
//! on the same stack, too; but not for ever.

use super::off_path::accepted;
use super::single::{SERVER, Single};
use super::streams::append;
use crate::pair_end::{BROKEN_PIPE, RESET};
use crate::requests::From;
use longshore_hostif::adapter::Immediate;
use longshore_hostif::{
    BlockFlags, EdgeFlags, Features, Geometry, OpenFlags, Request, SocketId, SocketKind,
    SocketState,
};
use std::net::SocketAddr;

const GEOMETRY: Geometry = Geometry {
    channels: 64,
    waiters: 8,
    sockets: 64,
    snd_chunks: 16,
    rcv_chunks: 512,
    workers: 1,
};
const MINUTE_US: u64 = 60_000_000;

/// The program has read so much of what this socket received, and minutes pass; how it stands
/// then.
fn read(single: &mut Single, socket: SocketId, rcv_consumed: u64, minutes: u64) -> Option<u16> {
    single.ask(
        0,
        &Request::Edges {
            socket,
            snd_edge: 0,
            rcv_consumed,
            flags: EdgeFlags::empty(),
            immediate: 0,
        },
    );
    for _ in 0..minutes {
        single.turn_after(MINUTE_US);
    }
    let key = single
        .stack
        .endpoints
        .key_of(single.session(), socket)
        .unwrap();
    single.stack.endpoints.sockets.pair_mut(key).unwrap().dead
}

#[test]
fn what_nobody_reads_is_given_up_after_its_program() {
    let mut single = Single::new(GEOMETRY, 1);
    let listener = single.listen();
    // Of another program, whose memory the first cannot read.
    let (session, arena) = single.add_session(GEOMETRY, Features::empty());
    let (from, none) = (
        From {
            session,
            channel: 0,
        },
        Immediate::default(),
    );
    let index = arena
        .header()
        .free_sockets
        .pop(arena.socket_links())
        .unwrap()
        .unwrap();
    let generation = arena
        .block(index)
        .begin(SocketState::Open, BlockFlags::empty());
    let socket = SocketId { index, generation };
    let open = Request::Open {
        socket,
        kind: SocketKind::Stream,
        flags: OpenFlags::empty(),
    };
    let connect = Request::Connect {
        socket,
        tag: 1,
        waiter: None,
        peer: SocketAddr::new(SERVER.into(), 80).into(),
    };
    for request in [open, connect] {
        single.stack.handle_request(from, &request, &none);
    }
    single.turn();
    let reader = accepted(&mut single, listener, 0);
    let close = Request::Close {
        socket,
        snd_edge: append(&arena, index, 0, &[7; 900_000]),
        rcv_consumed: 0,
        linger: None,
    };
    single.stack.handle_request(from, &close, &none);
    single.turn();
    // Something is read now and then.
    for rcv_consumed in [1, 100_000, 200_000] {
        assert_eq!(read(&mut single, reader, rcv_consumed, 3), None);
    }
    assert_eq!(single.stack.endpoints.sockets.len(), 3);
    // Nothing is.
    assert_eq!(read(&mut single, reader, 200_000, 2), Some(RESET));
    assert_eq!(
        single.stack.endpoints.sockets.len(),
        2,
        "the listener's and the reader"
    );
}

/// A client writes, and its server answers and closes, both in one turn, in which the client is
/// looked at first: how far the client's stream comes, and why it is dead.
fn answered_and_closed(writes_first: bool) -> (u64, Option<u16>) {
    let mut single = Single::new(GEOMETRY, 1);
    let listener = single.listen();
    let client = single.open(SocketKind::Stream);
    single.connect_to_own(client);
    single.turn();
    let server = accepted(&mut single, listener, 0);
    single.edges(client, 0, EdgeFlags::PUSH);
    let write = Request::Edges {
        socket: client,
        snd_edge: append(&single.arena, client.index, 0, &[1; 7]),
        rcv_consumed: 0,
        flags: EdgeFlags::PUSH,
        immediate: 0,
    };
    let close = Request::Close {
        socket: server,
        snd_edge: append(&single.arena, server.index, 0, &[2; 20]),
        rcv_consumed: 0,
        linger: None,
    };
    let mut requests = [&close, &write];
    if writes_first {
        requests.reverse();
    }
    for request in requests {
        single.ask(0, request);
    }
    single.turn();
    let key = single
        .stack
        .endpoints
        .key_of(single.session(), client)
        .unwrap();
    let end = single.stack.endpoints.sockets.pair_mut(key).unwrap();
    (end.rcv.edge(), end.dead)
}

#[test]
fn what_a_closed_end_has_sent_comes_before_the_reset() {
    // Its end, too, unless it was closed with data unread.
    assert_eq!(answered_and_closed(false), (20, Some(BROKEN_PIPE)));
    assert_eq!(answered_and_closed(true), (20, Some(RESET)));
}
