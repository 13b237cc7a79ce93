//! What programs ask of their sockets, and what they are answered at the end of the turn: TCP_INFO,
//! what the send stream holds, the path's MTU, the congestion control; and whoever waits for an
//! answer gets one.

use super::off_path::{GEOMETRY, accepted};
use super::single::{CLIENT, SERVER, Single};
use longshore_hostif::{
    Completion, EdgeFlags, OptionName, Query, Request, SendQueue, SocketId, SocketKind,
};
use longshore_tcp::LINUX_TCP_INFO_LEN;
use longshore_wire::tcp::TcpFlags;
use std::net::SocketAddr;

/// The tag of a question.
const TAG: u32 = 77;

/// A question about a socket, for whose answer nobody waits.
pub(super) fn question(socket: SocketId, query: Query) -> Request {
    Request::Query {
        socket,
        tag: TAG,
        waiter: None,
        query,
    }
}

/// The answer to a question: an errno, and what is in the mailbox.
pub(super) fn asks(single: &mut Single, socket: SocketId, query: Query) -> (u16, Vec<u8>) {
    single.discard_completions();
    single.ask(0, &question(socket, query));
    single.turn();
    let answered = |completion: &Completion| match completion {
        Completion::Done {
            tag: TAG,
            errno,
            value,
            ..
        } => Some((*errno, *value as usize)),
        _ => None,
    };
    let answers: Vec<_> = single.reported().iter().filter_map(answered).collect();
    assert_eq!(answers.len(), 1, "one answer");
    let (errno, len) = answers[0];
    let mailbox = single.arena.control(0).read_mailbox();
    (errno, mailbox[..len].to_vec())
}

fn info(single: &mut Single, socket: SocketId) -> Vec<u8> {
    let (errno, bytes) = asks(single, socket, Query::TcpInfo);
    assert_eq!((errno, bytes.len()), (0, LINUX_TCP_INFO_LEN));
    bytes
}

fn queue(single: &mut Single, socket: SocketId) -> (u64, u64) {
    let (errno, bytes) = asks(single, socket, Query::SendQueue);
    assert_eq!(errno, 0);
    let queue = SendQueue::decode(&bytes.try_into().unwrap());
    (queue.unacked, queue.unsent)
}

/// Where the fields of Linux's `struct tcp_info` are.
fn word(info: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(info[at..at + 4].try_into().unwrap())
}

fn long(info: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(info[at..at + 8].try_into().unwrap())
}

const OPTIONS: usize = 5;
const SND_MSS: usize = 16;
const RCV_MSS: usize = 20;
const BYTES_ACKED: usize = 120;
const BYTES_RECEIVED: usize = 128;
const SEGS_OUT: usize = 136;
const NOTSENT: usize = 144;

/// The states by Linux's numbers: of sockets without a connection, and of one between two of our
/// own in the course of its life.
#[test]
fn tcp_info_says_the_state() {
    const ESTABLISHED: u8 = 1;
    const SYN_SENT: u8 = 2;
    const FIN_WAIT_2: u8 = 5;
    const CLOSED: u8 = 7;
    const CLOSE_WAIT: u8 = 8;
    const LISTEN: u8 = 10;
    let mut single = Single::new(GEOMETRY, 1);
    let idle = single.open(SocketKind::Stream);
    assert_eq!(info(&mut single, idle)[0], CLOSED);
    let listener = single.bind(SocketKind::Stream, 80);
    single.listen_at(listener, 0);
    assert_eq!(info(&mut single, listener)[0], LISTEN);
    let client = single.open(SocketKind::Stream);
    single.connect_to_own(client);
    let waits = single.open(SocketKind::Stream);
    single.connect_to_own(waits);
    single.turn();
    let server = accepted(&mut single, listener, 0);
    assert_eq!(info(&mut single, waits)[0], SYN_SENT);
    let states = |single: &mut Single| (info(single, client)[0], info(single, server)[0]);
    assert_eq!(states(&mut single), (ESTABLISHED, ESTABLISHED));
    single.edges(client, 0, EdgeFlags::SHUT_WR);
    single.turn();
    assert_eq!(states(&mut single), (FIN_WAIT_2, CLOSE_WAIT));
    single.edges(server, 0, EdgeFlags::SHUT_WR);
    single.turn();
    // The socket has left it to TIME-WAIT.
    assert_eq!(states(&mut single), (CLOSED, CLOSED));
    let datagrams = single.bind(SocketKind::Datagram, 90);
    assert_eq!(asks(&mut single, datagrams, Query::TcpInfo).0, 22);
}

/// Of a listener: how many connections wait, and how many may.
#[test]
fn tcp_info_of_a_listener_says_how_many_wait() {
    const WAITING: usize = 24;
    const BACKLOG: usize = 28;
    let mut single = Single::new(GEOMETRY, 1);
    let listener = single.bind(SocketKind::Stream, 80);
    single.listen_at(listener, 5);
    for waiting in 0..3 {
        let said = info(&mut single, listener);
        assert_eq!((word(&said, WAITING), word(&said, BACKLOG)), (waiting, 5));
        let client = single.open(SocketKind::Stream);
        single.connect_to_own(client);
        single.turn();
    }
}

/// Of a connection within the engine: what went across, in segments of what was set, and what
/// both would have agreed on.
#[test]
fn tcp_info_of_a_connection_of_our_own_counts_its_bytes() {
    for (set, mss) in [(0, 65_495), (1_000, 1_000)] {
        let mut single = Single::new(GEOMETRY, 1);
        let listener = single.listen();
        let client = single.open(SocketKind::Stream);
        if set != 0 {
            single.set(client, OptionName::MaxSegment, set);
        }
        single.connect_to_own(client);
        single.turn();
        let server = accepted(&mut single, listener, 0);
        single.write(client, 0, &[1; 2_500]);
        single.turn();
        let of_client = info(&mut single, client);
        let of_server = info(&mut single, server);
        assert_eq!(word(&of_client, SND_MSS), mss);
        assert_eq!(word(&of_server, RCV_MSS), mss);
        assert_eq!(long(&of_client, BYTES_ACKED), 2_500);
        assert_eq!(long(&of_server, BYTES_RECEIVED), 2_500);
        assert_eq!(long(&of_server, BYTES_ACKED), 0);
        assert_eq!(word(&of_client, SEGS_OUT), 2_500_u32.div_ceil(mss));
        assert_eq!(of_client[OPTIONS] & 7, 7, "timestamps, SACK, window scale");
    }
}

/// What is written and not sent, or not acknowledged (SIOCOUTQ, SIOCOUTQNSD), by kind.
#[test]
fn the_send_queue_is_what_is_not_done_with() {
    // Over the wire: of what was written one segment fits into the window, and then the rest.
    const MSS: u16 = 536;
    let mut single = Single::new(GEOMETRY, 1);
    let listener = single.listen();
    single.turn();
    let next = single.connect(0);
    single.turn();
    let socket = accepted(&mut single, listener, 0);
    assert_eq!(queue(&mut single, socket), (0, 0));
    assert_eq!(queue(&mut single, listener), (0, 0));
    let closed = longshore_wire::tcp::TcpHeader {
        window: MSS,
        ..next.clone()
    };
    single.segment(&closed, &[]);
    single.write(socket, 0, &[1; 1_000]);
    single.turn();
    let rest = 1_000 - u64::from(MSS);
    assert_eq!(queue(&mut single, socket), (1_000, rest));
    let mut acknowledgment = next.clone();
    acknowledgment.ack = next.ack.add(MSS.into());
    single.segment(&acknowledgment, &[]);
    single.turn();
    assert_eq!(queue(&mut single, socket), (rest, 0));
    assert_eq!(word(&info(&mut single, socket), NOTSENT), 0);

    // Between two of our own: what the other end has no room for.
    let client = single.open(SocketKind::Stream);
    single.set(client, OptionName::SendBuffer, 160_000);
    single.connect_to_own(client);
    single.turn();
    single.write(client, 0, &vec![1; 60_000]);
    single.turn();
    single.turn();
    assert_eq!(queue(&mut single, client), (10_000, 10_000));
    assert_eq!(word(&info(&mut single, client), NOTSENT), 10_000);
}

#[test]
fn the_path_and_the_congestion_control_are_told() {
    let mut single = Single::new(GEOMETRY, 1);
    let datagrams = single.bind(SocketKind::Datagram, 90);
    assert_eq!(asks(&mut single, datagrams, Query::PathMtu), (0, vec![]));
    let connect = Request::Connect {
        socket: datagrams,
        tag: 2,
        waiter: None,
        peer: SocketAddr::new(CLIENT.into(), 9).into(),
    };
    single.ask(0, &connect);
    let mtu = 1_500_u32.to_ne_bytes().to_vec();
    assert_eq!(asks(&mut single, datagrams, Query::PathMtu), (0, mtu));
    let stream = single.open(SocketKind::Stream);
    for name in [b"reno\0\0\0\0", b"cubic\0\0\0", b"bbr\0\0\0\0\0"] {
        single.set(stream, OptionName::Congestion, u64::from_le_bytes(*name));
        let expected = name.split(|byte| *byte == 0).next().unwrap().to_vec();
        assert_eq!(asks(&mut single, stream, Query::Congestion), (0, expected));
    }
    assert_eq!(asks(&mut single, stream, Query::PathMtu), (0, vec![]));
}

/// A process that waits is answered, though the socket is not there, or is another by now.
#[test]
fn a_question_about_no_socket_is_answered() {
    let mut single = Single::new(GEOMETRY, 1);
    let socket = single.open(SocketKind::Stream);
    let gone = SocketId {
        generation: socket.generation + 1,
        ..socket
    };
    assert_eq!(asks(&mut single, gone, Query::TcpInfo).0, 9);
    assert_eq!(asks(&mut single, gone, Query::SendQueue).0, 9);
    // Closed before the end of the turn in which it was asked.
    single.discard_completions();
    single.ask(0, &question(socket, Query::TcpInfo));
    single.close(socket);
    single.turn();
    assert_eq!(single.answer(), Some(9));
}

/// An address in use is waited for: it is tried again, and given up.
#[test]
fn an_address_in_use_may_be_given_up() {
    let mut single = Single::new(GEOMETRY, 1);
    single.bind(SocketKind::Stream, 5_000);
    let second = single.open(SocketKind::Stream);
    single.turn();
    single.discard_completions();
    single.bind_to(second, 5_000);
    let late = single
        .stack
        .late_binds()
        .take()
        .pop()
        .expect("it is in use");
    assert!(!single.stack.late_binds().are_any());
    assert!(!single.stack.late_binds().bind_again(&late));
    single.stack.late_binds().put_off(late);
    let late = single.stack.late_binds().take().pop().expect("put off");
    single.turn();
    assert_eq!(single.answer(), None);
    single.stack.endpoints.sessions.give_bind_up(&late);
    single.turn();
    assert_eq!(single.answer(), Some(98));
    // One that goes has its late ones answered as well.
    single.bind_to(second, 5_000);
    let late = single
        .stack
        .late_binds()
        .take()
        .pop()
        .expect("in use still");
    single.close(second);
    assert!(
        single.stack.late_binds().bind_again(&late),
        "there is no such socket"
    );
    single.turn();
    assert_eq!(single.answer(), Some(9));
}

/// A request that makes no sense is the session's fault, and counted.
#[test]
fn requests_without_sense_are_counted() {
    let mut single = Single::new(GEOMETRY, 1);
    let bad = |single: &Single| {
        let session = single.stack.endpoints.sessions.get(single.session());
        session.unwrap().host.meter.bad_descriptors()
    };
    let open = |index| Request::Open {
        socket: SocketId {
            index,
            generation: 1,
        },
        kind: SocketKind::Stream,
        flags: longshore_hostif::OpenFlags::empty(),
    };
    let socket = single.open(SocketKind::Stream);
    assert_eq!(bad(&single), 0);
    single.ask(0, &open(socket.index));
    assert_eq!(bad(&single), 1, "it is open");
    single.ask(0, &open(GEOMETRY.sockets));
    assert_eq!(bad(&single), 2, "there is no such block");
    single.edges(socket, 0, EdgeFlags::PUSH);
    assert_eq!(bad(&single), 3, "it has no streams");
}

/// What operators see of sockets (`longshore ss`).
#[test]
fn sockets_stand_as_they_do() {
    let mut single = Single::new(GEOMETRY, 1);
    let listener = single.listen();
    single.turn();
    let next = single.connect(0);
    single.turn();
    let socket = accepted(&mut single, listener, 0);
    single.segment(&next, b"unread");
    single.write(socket, 0, &[1; 100]);
    single.bring(1, TcpFlags::SYN, longshore_wire::SeqNumber(0));
    single.turn();
    let at = |ip: std::net::Ipv4Addr, port| Some(SocketAddr::new(ip.into(), port));
    let all: Vec<_> = single.stack.status().sockets(0).map(|(_, s)| s).collect();
    assert_eq!(all.len(), 2);
    let of_listener = &all[0];
    assert_eq!(of_listener.state, "LISTEN");
    assert_eq!(
        (of_listener.local, of_listener.peer),
        (at(SERVER, 80), None)
    );
    assert_eq!((of_listener.recv_q, of_listener.send_q), (1, 4_096));
    let connection = &all[1];
    assert_eq!(connection.state, "ESTAB");
    assert_eq!(connection.block, Some(socket.index));
    assert_eq!(connection.peer, at(CLIENT, next.src_port));
    assert_eq!((connection.recv_q, connection.send_q), (6, 100));
    assert!(connection.tcp.is_some());
    let (name, after) = connection.timer.expect("a retransmission is due");
    assert!(!name.is_empty() && (1..3_000_000).contains(&after));
    let half: Vec<_> = single.stack.status().half_open(0).map(|(_, h)| h).collect();
    assert_eq!(half.len(), 1);
    assert_eq!((Some(half[0].local), half[0].repeats), (at(SERVER, 80), 0));
    assert!((900_000..1_100_000).contains(&half[0].retransmitted_in));
    // From a key on.
    let (key, _) = single.stack.status().sockets(0).last().unwrap();
    assert_eq!(single.stack.status().sockets(key).count(), 1);
    assert_eq!(single.stack.status().sockets(key + 1).count(), 0);
    assert_eq!(single.stack.status().wait_count(), 0);
}
