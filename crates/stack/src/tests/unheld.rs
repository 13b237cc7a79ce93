//! Sockets of processes that have ended: what becomes of what they wrote.

use super::off_path::{self, GEOMETRY};
use super::single::Single;
use longshore_hostif::{SocketId, SocketKind};
use longshore_wire::tcp::TcpFlags;
use std::sync::atomic::Ordering;

/// A connection of the session's program, and its key.
fn connection() -> (Single, SocketId, u32) {
    let mut single = Single::new(GEOMETRY, 1);
    let (socket, _) = off_path::connection(&mut single);
    let session = single.session();
    let key = single.stack.endpoints.key_of(session, socket);
    (single, socket, key.expect("it is open"))
}

/// As Linux has it, what a process wrote before it died is delivered; it may not have come to tell
/// of it.
#[test]
fn what_was_written_is_sent_with_the_fin() {
    let (mut single, socket, key) = connection();
    let edge = super::streams::append(&single.arena, socket.index, 0, b"the last words");
    let block = single.arena.block(socket.index);
    block.snd.edge.store(edge, Ordering::Release);
    single.stack.lifecycle().close_unheld(key);
    single.turn();
    let sent = single.sent_with_payload();
    let payload: Vec<u8> = sent.iter().flat_map(|s| s.payload.clone()).collect();
    assert_eq!(payload, b"the last words");
    let last = &sent.last().expect("it is sent").header;
    assert!(last.flags.contains(TcpFlags::FIN), "{last:?}");
    assert!(sent.iter().all(|s| !s.header.flags.contains(TcpFlags::RST)));
}

/// Where nothing is to be delivered any more, as of an engine that ends, the peer is told at once.
#[test]
fn what_was_written_is_given_up_with_a_reset() {
    let (mut single, socket, key) = connection();
    single.write(socket, 0, b"not acknowledged");
    single.turn();
    single.sent();
    single.stack.lifecycle().reset_unheld(key);
    single.turn();
    let sent = single.sent();
    let is_reset = |h: &longshore_wire::tcp::TcpHeader| h.flags.contains(TcpFlags::RST);
    assert!(sent.iter().any(is_reset), "{sent:?}");
    assert!(single.stack.endpoints.sockets.get(key).is_none());
}

/// Linux: SO_LINGER of 0 holds, too, where the process ends instead of closing.
#[test]
fn what_nobody_holds_is_closed_as_its_program_has_noted() {
    // Seconds plus 1, and 0 for none.
    for (noted, is_reset) in [(0, false), (1, true), (6, false)] {
        let (mut single, socket, key) = connection();
        let block = single.arena.block(socket.index);
        block.linger.store(noted, Ordering::Relaxed);
        single.stack.lifecycle().close_unheld(key);
        single.turn();
        let last = single.sent().pop().expect("it ends");
        assert_eq!(last.flags.contains(TcpFlags::RST), is_reset, "{noted}");
        assert_eq!(last.flags.contains(TcpFlags::FIN), !is_reset, "{noted}");
    }
}

/// What has nothing to deliver is gone with its port.
#[test]
fn listeners_and_datagram_sockets_are_gone_at_once() {
    for kind in [SocketKind::Stream, SocketKind::Datagram] {
        for is_reset in [false, true] {
            let mut single = Single::new(GEOMETRY, 1);
            let socket = match kind {
                SocketKind::Stream => single.listen(),
                SocketKind::Datagram => single.bind(kind, 80),
            };
            single.turn();
            let session = single.session();
            let key = single.stack.endpoints.key_of(session, socket);
            let key = key.expect("it is open");
            match is_reset {
                false => single.stack.lifecycle().close_unheld(key),
                true => single.stack.lifecycle().reset_unheld(key),
            }
            // Its port is free for whoever binds next, in this turn.
            let demux = &single.stack.endpoints.demux;
            let ports = match kind {
                SocketKind::Stream => &demux.tcp,
                SocketKind::Datagram => &demux.udp,
            };
            assert!(ports.is_free(80), "{kind:?} {is_reset}");
            single.turn();
            let sockets = &single.stack.endpoints.sockets;
            assert!(sockets.get(key).is_none(), "{kind:?} {is_reset}");
        }
    }
}

/// The same of what its process had closed before, and is still being delivered.
#[test]
fn what_is_being_delivered_is_given_up_with_a_reset() {
    let (mut single, socket, key) = connection();
    let snd_edge = single.write(socket, 0, b"not acknowledged");
    single.ask(
        0,
        &longshore_hostif::Request::Close {
            socket,
            snd_edge,
            rcv_consumed: 0,
            linger: None,
        },
    );
    single.turn();
    let is = |all: &[longshore_wire::tcp::TcpHeader], flag: TcpFlags| {
        all.iter().any(|header| header.flags.contains(flag))
    };
    let sent = single.sent();
    assert!(is(&sent, TcpFlags::FIN) && !is(&sent, TcpFlags::RST));
    single.stack.lifecycle().reset_unheld(key);
    single.turn();
    assert!(is(&single.sent(), TcpFlags::RST));
    assert!(single.stack.endpoints.sockets.get(key).is_none());
}
