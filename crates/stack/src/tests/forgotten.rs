//! What is left of a socket that was closed, by what it was then: its block and its port are free, and
//! the stack knows nothing of it.

use super::binding::bind;
use super::off_path::{GEOMETRY, accepted};
use super::single::{CLIENT, FIRST_PORT, ISN, SERVER, Single, header};
use crate::socket::Kind;
use longshore_hostif::{ACCEPT_RECORD, EdgeFlags, Request, SocketId, SocketKind};
use longshore_wire::SeqNumber;
use longshore_wire::tcp::{TcpFlags, TcpHeader};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

const ANY: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
const PORT: u16 = 5_000;

/// What a socket is as it is closed.
#[derive(Debug, Clone, Copy)]
enum Was {
    Opened(SocketKind),
    Bound(SocketKind),
    Listening,
    /// Its SYN has no answer.
    Connecting,
    /// The peer has refused it.
    Refused,
    /// The peer has reset it.
    Reset,
}

const ALL: [Was; 8] = [
    Was::Opened(SocketKind::Stream),
    Was::Opened(SocketKind::Datagram),
    Was::Bound(SocketKind::Stream),
    Was::Bound(SocketKind::Datagram),
    Was::Listening,
    Was::Connecting,
    Was::Refused,
    Was::Reset,
];

/// A socket that was that.
fn made(single: &mut Single, was: Was) -> SocketId {
    let kind = match was {
        Was::Opened(kind) | Was::Bound(kind) => kind,
        _ => SocketKind::Stream,
    };
    let socket = single.open(kind);
    if !matches!(was, Was::Opened(_)) {
        assert_eq!(bind(single, socket, ANY, PORT).0, 0, "{was:?}");
    }
    match was {
        Was::Opened(_) | Was::Bound(_) => {}
        Was::Listening => single.listen_at(socket, 5),
        Was::Connecting | Was::Refused | Was::Reset => connect(single, socket, was),
    }
    single.turn();
    socket
}

fn connect(single: &mut Single, socket: SocketId, was: Was) {
    let (tag, waiter) = (1, None);
    let peer = SocketAddr::new(CLIENT.into(), FIRST_PORT).into();
    single.ask(
        0,
        &Request::Connect {
            socket,
            tag,
            waiter,
            peer,
        },
    );
    single.turn();
    let syn = single.sent().pop().expect("a SYN");
    let answers = |single: &mut Single, flags: TcpFlags, seq| {
        let answer = TcpHeader {
            src_port: syn.dst_port,
            dst_port: syn.src_port,
            ..header(0, flags | TcpFlags::ACK, seq, syn.seq.add(1))
        };
        single.segment(&answer, &[]);
        single.turn();
    };
    match was {
        Was::Refused => answers(single, TcpFlags::RST, ISN),
        Was::Reset => {
            answers(single, TcpFlags::SYN, ISN);
            answers(single, TcpFlags::RST, ISN.add(1));
        }
        _ => {}
    }
}

/// Whether this port is free, without a wait.
pub(super) fn is_free(single: &mut Single, kind: SocketKind, port: u16) -> bool {
    let socket = single.open(kind);
    single.bind_to(socket, port);
    let is_free = !single.stack.late_binds().are_any();
    for late in single.stack.late_binds().take() {
        single.stack.endpoints.sessions.give_bind_up(&late);
    }
    single.close(socket);
    single.turn();
    is_free
}

#[test]
fn nothing_is_left_of_what_was_closed() {
    for was in ALL {
        let mut single = Single::new(GEOMETRY, 1);
        single.listen();
        single.turn();
        let before = single.stack.endpoints.sockets.len();
        // More of them than there are blocks.
        for _ in 0..2 * GEOMETRY.sockets {
            let socket = made(&mut single, was);
            single.close(socket);
            single.turn();
        }
        let left = single.stack.endpoints.sockets.len();
        assert_eq!(left, before, "{was:?}");
        for kind in [SocketKind::Stream, SocketKind::Datagram] {
            assert!(is_free(&mut single, kind, PORT), "{was:?} {kind:?}");
        }
    }
}

/// Nobody waits for a connection whose program has closed it before it was made: its SYN is not
/// repeated, and one that comes at last is refused.
#[test]
fn an_attempt_that_was_closed_is_over() {
    let mut single = Single::new(GEOMETRY, 1);
    let socket = made(&mut single, Was::Connecting);
    single.close(socket);
    single.turn();
    single.sent();
    for _ in 0..30 {
        single.turn_after(1_000_000);
    }
    assert!(single.sent().is_empty());
    assert_eq!(single.stack.endpoints.sockets.len(), 0);
    let late = TcpHeader {
        src_port: FIRST_PORT,
        dst_port: PORT,
        ..header(0, TcpFlags::SYN | TcpFlags::ACK, ISN, SeqNumber(9))
    };
    single.segment(&late, &[]);
    let answer = single.sent().pop().expect("a reset");
    assert!(answer.flags.contains(TcpFlags::RST));
}

/// The port of a datagram socket is free as soon as that is closed, whatever it has still to send.
#[test]
fn the_port_of_datagrams_is_free_at_once() {
    let mut single = Single::new(GEOMETRY, 1);
    let socket = made(&mut single, Was::Bound(SocketKind::Datagram));
    single.close(socket);
    assert!(is_free(&mut single, SocketKind::Datagram, PORT));
}

/// Linux: a socket that was bound to a port alone keeps the address of a connection that was made when
/// that is reset, also if it is shut down then.
#[test]
fn the_address_of_a_connection_that_was_made_stays() {
    let mut single = Single::new(GEOMETRY, 1);
    let socket = made(&mut single, Was::Reset);
    for flags in [EdgeFlags::empty(), EdgeFlags::SHUT_RD | EdgeFlags::SHUT_WR] {
        single.edges(socket, 0, flags);
        single.turn();
        let key = single.stack.endpoints.key_of(single.session(), socket);
        let found = single.stack.endpoints.sockets.get(key.expect("a socket"));
        let found = found.expect("a socket");
        assert!(matches!(&found.kind, Kind::Stream(c) if c.is_over));
        let expected = SocketAddr::new(SERVER.into(), PORT);
        assert_eq!(found.bound.local(), Some(expected), "{flags:?}");
    }
}

/// A listener that is closed has its program's accepted connections go on, and their port is theirs
/// until they are over.
#[test]
fn connections_outlive_their_listener() {
    let mut single = Single::new(GEOMETRY, 1);
    let listener = single.listen();
    single.turn();
    let next = single.connect(7);
    single.turn();
    let socket = accepted(&mut single, listener, 0);
    single.edges(listener, ACCEPT_RECORD as u64, EdgeFlags::empty());
    single.close(listener);
    single.turn();
    assert!(!is_free(&mut single, SocketKind::Stream, 80));
    single.close(socket);
    single.turn();
    let end = |flags: TcpFlags, at: u32| TcpHeader {
        seq: next.seq.add(at),
        ack: next.ack.add(1),
        flags: flags | TcpFlags::ACK,
        ..next.clone()
    };
    single.segment(&end(TcpFlags::FIN, 0), &[]);
    single.turn();
    assert_eq!(single.stack.endpoints.sockets.len(), 0);
    assert_eq!(single.stack.status().wait_count(), 1);
    // Linux: an address in TIME-WAIT is in use for who does not share it, and free after it.
    single.turn_after(70_000_000);
    single.turn();
    assert_eq!(single.stack.status().wait_count(), 0);
    assert!(is_free(&mut single, SocketKind::Stream, 80));
}

/// Linux: an attempt that its program ends before it has an answer, by `shutdown` of either half, leaves
/// the address that was chosen for it.
#[test]
fn an_attempt_that_is_shut_down_leaves_its_address() {
    for (flags, ip) in [
        (EdgeFlags::empty(), SERVER.into()),
        (EdgeFlags::SHUT_RD, ANY),
        (EdgeFlags::SHUT_WR, ANY),
    ] {
        let mut single = Single::new(GEOMETRY, 1);
        let socket = made(&mut single, Was::Connecting);
        single.edges(socket, 0, flags);
        single.turn();
        let key = single.stack.endpoints.key_of(single.session(), socket);
        let found = single.stack.endpoints.sockets.get(key.expect("a socket"));
        let local = found.expect("a socket").bound.local();
        assert_eq!(local, Some(SocketAddr::new(ip, PORT)), "{flags:?}");
    }
}
