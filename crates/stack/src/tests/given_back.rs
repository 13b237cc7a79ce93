//! What a connection gives back when it is over, whether or not its program holds it still: its port,
//! and what it was about to pass on of another. And what is asked of a socket after its close.

use super::binding::connects;
use super::forgotten::is_free;
use super::forwards::{forwarded, received};
use super::groups;
use super::off_path::{GEOMETRY, accepted};
use super::single::{CLIENT, FIRST_PORT, ISN, Single, header};
use crate::at_work::AtWork;
use longshore_hostif::{ACCEPT_RECORD, EdgeFlags, LEAST_FORWARD, Request, SocketId, SocketKind};
use longshore_wire::tcp::{TcpFlags, TcpHeader};
use std::net::SocketAddr;

const PORT: u16 = 5_000;

fn key(single: &Single, socket: SocketId) -> u32 {
    let key = single.stack.endpoints.key_of(single.session(), socket);
    key.expect("a socket")
}

/// The port that a socket has.
fn port(single: &Single, socket: SocketId) -> u16 {
    let key = key(single, socket);
    let socket = single.stack.endpoints.sockets.get(key);
    let local = socket.expect("a socket").bound.local();
    local.expect("it is bound").port()
}

/// A connection to a peer of a socket that nobody has bound, and what the peer sends next.
fn connected() -> (Single, SocketId, TcpHeader) {
    let mut single = Single::new(GEOMETRY, 1);
    let socket = single.open(SocketKind::Stream);
    let peer = SocketAddr::new(CLIENT.into(), FIRST_PORT);
    assert_eq!(connects(&mut single, socket, peer.into()).0, 0);
    let syn = single.sent().pop().expect("a SYN");
    let answer = TcpHeader {
        src_port: syn.dst_port,
        dst_port: syn.src_port,
        ..header(0, TcpFlags::SYN | TcpFlags::ACK, ISN, syn.seq.add(1))
    };
    single.segment(&answer, &[]);
    single.turn();
    single.sent();
    let next = TcpHeader {
        seq: ISN.add(1),
        flags: TcpFlags::ACK,
        ..answer
    };
    (single, socket, next)
}

fn comes(single: &mut Single, next: &TcpHeader, flags: TcpFlags, of_ours: u32) {
    let segment = TcpHeader {
        ack: next.ack.add(of_ours),
        flags: flags | TcpFlags::ACK,
        ..next.clone()
    };
    single.segment(&segment, &[]);
    single.turn();
}

/// A port that the program has not chosen is free when the connection was reset.
#[test]
fn the_port_of_a_connection_that_was_reset_is_free() {
    let (mut single, socket, next) = connected();
    let port = port(&single, socket);
    assert!(!is_free(&mut single, SocketKind::Stream, port));
    comes(&mut single, &next, TcpFlags::RST, 0);
    assert!(is_free(&mut single, SocketKind::Stream, port));
}

/// So it is when the connection was in TIME-WAIT for as long as it must be, though its program holds
/// the socket still.
#[test]
fn the_port_of_a_connection_in_time_wait_is_free_when_that_is_over() {
    let (mut single, socket, next) = connected();
    let port = port(&single, socket);
    single.edges(socket, 0, EdgeFlags::SHUT_WR);
    single.turn();
    comes(&mut single, &next, TcpFlags::FIN, 1);
    assert_eq!(single.stack.status().wait_count(), 1);
    assert!(!is_free(&mut single, SocketKind::Stream, port));
    for _ in 0..70 {
        single.turn_after(1_000_000);
    }
    assert_eq!(single.stack.status().wait_count(), 0);
    assert!(is_free(&mut single, SocketKind::Stream, port));
    assert!(single.in_stack().key(socket.index).is_some(), "it is held");
}

/// A listener that was shut down keeps a port that its program has chosen alone.
#[test]
fn the_port_of_a_listener_that_was_shut_down_is_free_unless_it_was_chosen() {
    for chosen in [false, true] {
        let mut single = Single::new(GEOMETRY, 1);
        let socket = single.open(SocketKind::Stream);
        if chosen {
            single.bind_to(socket, PORT);
        }
        single.listen_at(socket, 5);
        single.turn();
        let port = port(&single, socket);
        assert!(!is_free(&mut single, SocketKind::Stream, port));
        single.edges(socket, 0, EdgeFlags::SHUT_RD);
        single.turn();
        assert_eq!(is_free(&mut single, SocketKind::Stream, port), !chosen);
    }
}

/// A connection between two of our own gives its port back when both ends are closed, whichever was
/// first, and when it was reset, though its program holds the end still.
#[test]
fn the_port_of_an_own_connection_is_free() {
    #[derive(Debug, Clone, Copy)]
    enum Ends {
        ClientFirst,
        ServerFirst,
        Reset,
    }
    for ends in [Ends::ClientFirst, Ends::ServerFirst, Ends::Reset] {
        let mut single = Single::new(GEOMETRY, 1);
        let listener = single.listen();
        let client = single.open(SocketKind::Stream);
        single.connect_to_own(client);
        single.turn();
        let server = accepted(&mut single, listener, 0);
        single.edges(listener, ACCEPT_RECORD as u64, EdgeFlags::empty());
        single.turn();
        let port = port(&single, client);
        assert!(!is_free(&mut single, SocketKind::Stream, port), "{ends:?}");
        let in_turn = match ends {
            Ends::ClientFirst => vec![client, server],
            Ends::ServerFirst => vec![server, client],
            Ends::Reset => {
                single.reset(server);
                vec![]
            }
        };
        for socket in in_turn {
            single.close(socket);
            single.turn();
        }
        single.turn();
        single.turn();
        assert!(is_free(&mut single, SocketKind::Stream, port), "{ends:?}");
    }
}

/// What a connection was about to pass on of another counts as read there when its peer has reset it:
/// nobody waits for it any more, though its program holds it still.
#[test]
fn what_a_reset_connection_was_to_pass_on_counts_as_read() {
    let (mut single, [source, _], to) = forwarded();
    assert_eq!(received(&single, source), Some((0, LEAST_FORWARD)));
    comes(&mut single, &to, TcpFlags::RST, 0);
    let all = (LEAST_FORWARD, LEAST_FORWARD);
    assert_eq!(received(&single, source), Some(all));
}

/// A program may ask for something of a socket that it has closed, before that is gone: it keeps no
/// port and no group by that.
#[test]
fn what_is_asked_after_a_close_leaves_nothing() {
    let mut single = Single::new(GEOMETRY, 1);
    let socket = single.open(SocketKind::Datagram);
    assert_eq!(groups::change(&mut single, socket, groups::GROUP, true), 0);
    single.close(socket);
    single.bind_to(socket, PORT);
    let key = key(&single, socket);
    let bound = |single: &Single| {
        let socket = single.stack.endpoints.sockets.get(key);
        socket.map(|socket| socket.bound.local().is_some())
    };
    assert_eq!(bound(&single), Some(true), "it was not gone");
    let (tag, waiter) = (1, None);
    let group = SocketAddr::new(groups::GROUP.into(), 0).into();
    let join = Request::Group {
        socket,
        tag,
        waiter,
        group,
        join: true,
    };
    single.ask(0, &join);
    assert!(single.stack.link().groups.v4.contains(groups::GROUP));
    single.turn();
    assert_eq!(bound(&single), None);
    assert!(!single.stack.link().groups.v4.contains(groups::GROUP));
    assert!(is_free(&mut single, SocketKind::Datagram, PORT));
}

/// The work for a socket is that of its session still when the socket was forgotten in it, and no
/// other's: a panic then ends that session.
#[test]
fn work_for_a_socket_that_was_forgotten_is_its_sessions() {
    let mut single = Single::new(GEOMETRY, 1);
    let sockets = [0; 3].map(|_| single.open(SocketKind::Stream));
    single.turn();
    let [one, another, stays] = sockets.map(|socket| AtWork::Socket(key(&single, socket)));
    let of_session = AtWork::Session(single.session());
    for (gone, at_work, then) in [(one, one, of_session), (another, stays, stays)] {
        let AtWork::Socket(gone) = gone else {
            panic!("{gone:?}");
        };
        single.stack.endpoints.sessions.at_work = at_work;
        let mut flush = single.stack.flushing();
        flush.admission().endings().forget(gone);
        assert_eq!(single.stack.endpoints.sessions.at_work, then);
    }
}
