//! Connections of programs to the engine's own addresses that are refused: they are in no
//! table of connections, and take nobody out of one when their sockets end or are used again.

use super::single::{SERVER, Single};
use crate::demux::{Flow, Found};
use longshore_hostif::{Geometry, OptionName, Request, SocketId, SocketKind};
use std::net::SocketAddr;

const GEOMETRY: Geometry = Geometry {
    channels: 64,
    waiters: 8,
    sockets: 64,
    snd_chunks: 8,
    rcv_chunks: 512,
    workers: 1,
};
/// Where the clients are bound, all of them.
const PORT: u16 = 5_000;

fn set(single: &mut Single, socket: SocketId, name: OptionName, value: u64) {
    single.ask(
        0,
        &Request::SetOption {
            socket,
            name,
            value,
        },
    );
}

/// A socket at this port, which several may have.
fn bind(single: &mut Single, port: u16) -> SocketId {
    let socket = single.open(SocketKind::Stream);
    set(single, socket, OptionName::ReusePort, 1);
    single.bind_to(socket, port);
    socket
}

fn client(single: &mut Single) -> SocketId {
    bind(single, PORT)
}

fn listen(single: &mut Single, socket: SocketId) {
    single.ask(
        0,
        &Request::Listen {
            socket,
            tag: 1,
            waiter: None,
            backlog: 10,
        },
    );
}

fn connect(single: &mut Single, socket: SocketId, port: u16) {
    let peer = SocketAddr::new(SERVER.into(), port).into();
    single.ask(
        0,
        &Request::Connect {
            socket,
            tag: 1,
            waiter: None,
            peer,
        },
    );
    single.turn();
}

fn close(single: &mut Single, socket: SocketId) {
    single.ask(
        0,
        &Request::Close {
            socket,
            snd_edge: 0,
            rcv_consumed: 0,
            linger: None,
        },
    );
    single.turn();
}

/// The socket of the connection from [`PORT`] to port 80.
fn connected(single: &Single) -> Option<Found> {
    let at = |port| SocketAddr::new(SERVER.into(), port);
    single
        .stack
        .endpoints
        .demux
        .peek(&Flow::new(at(PORT), at(80)))
}

#[test]
fn a_refused_connection_is_in_no_table() {
    let mut single = Single::new(GEOMETRY, 1);
    let refused = client(&mut single);
    connect(&mut single, refused, 80);
    assert_eq!(connected(&single), None);
    // What another has connected since then stays when the first tries again, or closes.
    single.listen();
    let other = client(&mut single);
    connect(&mut single, other, 80);
    let found = connected(&single);
    assert!(found.is_some());
    connect(&mut single, refused, 80);
    assert_eq!(connected(&single), found);
    close(&mut single, refused);
    assert_eq!(connected(&single), found);
    close(&mut single, other);
    assert_eq!(connected(&single), None);
}

/// A connection that its listener has not heard of has the four-tuple that the other end of
/// one in the other direction would have. One of the two is there.
#[test]
fn two_that_meet_do_not_take_each_others_place() {
    let mut single = Single::new(GEOMETRY, 1);
    let deferring = client(&mut single);
    set(&mut single, deferring, OptionName::DeferAccept, 10);
    let plain = bind(&mut single, 80);
    for listener in [deferring, plain] {
        listen(&mut single, listener);
    }
    let one = bind(&mut single, 80);
    connect(&mut single, one, PORT);
    let other = client(&mut single);
    connect(&mut single, other, 80);
    assert_eq!(connected(&single), None, "it is refused");
    // The listener is told of the first.
    single.turn_after(10_000_000);
    let found = connected(&single);
    assert!(found.is_some());
    close(&mut single, other);
    assert_eq!(connected(&single), found);
    close(&mut single, one);
    for listener in [deferring, plain] {
        close(&mut single, listener);
    }
    assert_eq!(single.stack.endpoints.sockets.len(), 0);
    assert_eq!(single.stack.endpoints.demux.flows(), 0);
}

/// An attempt that was refused gives its place up, and so does the next: that one may be
/// impossible.
#[test]
fn the_next_attempt_may_be_impossible() {
    let mut single = Single::new(GEOMETRY, 1);
    let listener = single.listen();
    let refused = client(&mut single);
    connect(&mut single, refused, 80);
    assert!(connected(&single).is_some());
    close(&mut single, listener);
    connect(&mut single, refused, 0);
    assert_eq!(connected(&single), None);
    close(&mut single, refused);
    assert_eq!(single.stack.endpoints.sockets.len(), 0);
}

/// The other end of the first connection was reset, or has come to its end, and its program has
/// not closed it.
#[test]
fn a_client_that_has_ended_its_connection_makes_another_from_its_port() {
    for linger in [Some(0), None] {
        makes_another(linger);
    }
}

fn makes_another(linger: Option<u32>) {
    let mut single = Single::new(GEOMETRY, 1);
    single.listen();
    let first = client(&mut single);
    connect(&mut single, first, 80);
    single.ask(
        0,
        &Request::Close {
            socket: first,
            snd_edge: 0,
            rcv_consumed: 0,
            linger,
        },
    );
    single.turn();
    assert_eq!(
        single.stack.endpoints.sockets.len(),
        2,
        "the listener and that end"
    );
    let again = client(&mut single);
    connect(&mut single, again, 80);
    assert!(connected(&single).is_some());
    assert_eq!(single.stack.endpoints.sockets.len(), 4);
    single.turn();
    assert!(connected(&single).is_some());
}
