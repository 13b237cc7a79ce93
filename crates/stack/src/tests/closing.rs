//! How connections over the wire end: in TIME-WAIT, which answers for them, at once, or when the
//! peer says nothing more; what is free then, and what is still there.

use super::off_path::{GEOMETRY, connection};
use super::single::{ISN, Single, header};
use super::streams::append;
use longshore_hostif::{EdgeFlags, OptionName, Request, SocketId, SocketKind};
use longshore_wire::SeqNumber;
use longshore_wire::tcp::{TcpFlags, TcpHeader};

const FIN: TcpFlags = TcpFlags(TcpFlags::FIN.0 | TcpFlags::ACK.0);

/// A stack with an accepted connection, and what the peer sends next.
fn connected() -> (Single, SocketId, TcpHeader) {
    let mut single = Single::new(GEOMETRY, 1);
    let (socket, next) = connection(&mut single);
    (single, socket, next)
}

fn close(single: &mut Single, socket: SocketId) {
    single.close(socket);
    single.turn();
}

fn comes(single: &mut Single, next: &TcpHeader, at: u32, of_ours: u32, flags: TcpFlags) {
    let segment = TcpHeader {
        seq: next.seq.add(at),
        ack: next.ack.add(of_ours),
        flags,
        ..next.clone()
    };
    single.segment(&segment, &[]);
    single.turn();
}

/// Closed by us, and then by the peer: its address pair is kept for a minute.
fn in_time_wait() -> (Single, TcpHeader) {
    let (mut single, socket, next) = connected();
    close(&mut single, socket);
    let fin = single.sent().pop().expect("a FIN");
    assert!(fin.flags.contains(TcpFlags::FIN));
    comes(&mut single, &next, 0, 1, TcpFlags::ACK);
    assert_eq!(
        (
            single.stack.status().wait_count(),
            single.stack.endpoints.sockets.len()
        ),
        (0, 2)
    );
    comes(&mut single, &next, 0, 1, FIN);
    let acknowledgment = single.sent().pop().expect("its acknowledgment");
    assert_eq!(acknowledgment.ack, next.seq.add(1));
    assert_eq!(single.stack.status().wait_count(), 1);
    (single, next)
}

#[test]
fn time_wait_takes_no_socket_and_ends() {
    let (mut single, next) = in_time_wait();
    assert_eq!(single.stack.endpoints.sockets.len(), 1, "the listener");
    let wait = single.stack.status().waits().next().unwrap();
    assert_eq!((wait.local.port(), wait.peer.port()), (80, next.src_port));
    assert!((50_000_000..=60_000_000).contains(&wait.lasts));
    // The FIN once more is acknowledged once more, and it lasts as long again.
    single.turn_after(30_000_000);
    comes(&mut single, &next, 0, 1, FIN);
    let again = single.sent().pop().expect("an acknowledgment");
    assert_eq!((again.seq, again.ack), (next.ack.add(1), next.seq.add(1)));
    let wait = single.stack.status().waits().next().unwrap();
    assert!(wait.lasts > 50_000_000, "{}", wait.lasts);
    single.turn_after(wait.lasts + 2_000_000);
    single.turn();
    assert_eq!(single.stack.status().wait_count(), 0);
    // Then nobody knows of it.
    comes(&mut single, &next, 1, 1, TcpFlags::ACK);
    assert!(single.sent().pop().unwrap().flags.contains(TcpFlags::RST));
}

/// The same where the SYN comes in the turn in which the connection has ended, and is in TIME-WAIT itself
/// yet; what came last is counted.
#[test]
fn a_later_syn_in_the_turn_of_the_end_begins_a_connection() {
    const LEN: u32 = 100;
    let (mut single, socket, next) = connected();
    let crossed = |single: &Single| single.to_host().payload.bytes;
    let before = crossed(&single);
    for at in [0, LEN / 2] {
        let part = TcpHeader {
            seq: next.seq.add(at),
            ..next.clone()
        };
        single.turn();
        single.segment(&part, &[7; LEN as usize / 2]);
    }
    let close = Request::Close {
        socket,
        snd_edge: 0,
        rcv_consumed: LEN.into(),
        linger: None,
    };
    single.ask(0, &close);
    let fin = TcpHeader {
        seq: next.seq.add(LEN),
        ack: next.ack.add(1),
        flags: FIN,
        ..next.clone()
    };
    single.segment(&fin, &[]);
    single.sent();
    let later = header(0, TcpFlags::SYN, ISN.add(1_000), SeqNumber(0));
    single.segment(&later, &[]);
    let answer = single.sent().pop().expect("a SYN-ACK");
    assert!(answer.flags.contains(TcpFlags::SYN));
    assert_eq!(answer.ack, ISN.add(1_001));
    assert_eq!(crossed(&single) - before, u64::from(LEN));
    single.turn();
    assert_eq!(single.stack.endpoints.sockets.len(), 1, "the listener");
    assert_eq!(single.stack.status().half_open_count(), 1);
    assert_eq!(single.stack.status().wait_count(), 0);
    single.bring(0, TcpFlags::RST, SeqNumber(0));
    let reset = header(0, TcpFlags::RST, ISN.add(1_001), SeqNumber(0));
    single.segment(&reset, &[]);
    single.turn();
    assert_eq!(single.stack.endpoints.demux.flows(), 0);
}

/// A host that says of a socket what cannot be has closed it all the same.
#[test]
fn a_close_with_edges_that_cannot_be_is_one() {
    let close = |single: &mut Single, socket| {
        let close = Request::Close {
            socket,
            snd_edge: 0,
            rcv_consumed: 1 << 40,
            linger: None,
        };
        single.ask(0, &close);
        single.turn();
    };
    let (mut single, socket, next) = connected();
    single.segment(&next, b"unread");
    single.turn();
    single.sent();
    close(&mut single, socket);
    assert!(single.sent().pop().unwrap().flags.contains(TcpFlags::RST));
    assert_eq!(single.stack.endpoints.sockets.len(), 1, "the listener");
    let datagrams = single.bind(SocketKind::Datagram, 90);
    single.turn();
    close(&mut single, datagrams);
    assert_eq!(single.stack.endpoints.sockets.len(), 1, "the listener");
    let client = single.open(SocketKind::Stream);
    single.connect_to_own(client);
    single.turn();
    close(&mut single, client);
    assert_eq!(single.stack.endpoints.sockets.len(), 2, "and the other end");
}

/// RFC 6191, RFC 9293 section 3.6.1: a SYN of a later connection begins it; an older one does not.
#[test]
fn a_later_syn_ends_time_wait() {
    let (mut single, _) = in_time_wait();
    let old = header(
        0,
        TcpFlags::SYN,
        SeqNumber(ISN.0.wrapping_sub(50)),
        SeqNumber(0),
    );
    single.segment(&old, &[]);
    single.turn();
    let answer = single.sent().pop();
    assert!(answer.is_none_or(|h| !h.flags.contains(TcpFlags::SYN)));
    assert_eq!(single.stack.status().wait_count(), 1);
    let later = header(0, TcpFlags::SYN, ISN.add(1_000), SeqNumber(0));
    single.segment(&later, &[]);
    single.turn();
    let answer = single.sent().pop().expect("a SYN-ACK");
    assert!(answer.flags.contains(TcpFlags::SYN));
    assert_eq!(answer.ack, ISN.add(1_001));
    assert_eq!(
        (
            single.stack.status().wait_count(),
            single.stack.status().half_open_count()
        ),
        (0, 1)
    );
}

/// The peer's payload meets a connection that its program has closed in the same turn: the answer
/// has left by then, with the end of the stream, and the peer takes both before the reset.
#[test]
fn an_answer_leaves_before_what_comes_in_the_turn_of_the_close() {
    let (mut single, socket, next) = connected();
    let close = Request::Close {
        socket,
        snd_edge: append(&single.arena, socket.index, 0, b"the answer"),
        rcv_consumed: 0,
        linger: None,
    };
    single.ask(0, &close);
    single.segment(&next, b"more of the question");
    single.turn();
    let sent = single.sent_with_payload();
    let flags: Vec<_> = sent.iter().map(|s| s.header.flags).collect();
    assert_eq!(flags.len(), 2, "{flags:?}");
    assert_eq!(
        (sent[0].header.seq, &sent[0].payload[..]),
        (next.ack, &b"the answer"[..])
    );
    assert!(flags[0].contains(TcpFlags::FIN) && flags[1].contains(TcpFlags::RST));
}

/// The end that closes second waits for nothing, and its socket is gone with the last acknowledgment.
#[test]
fn who_closes_second_is_gone_at_once() {
    let (mut single, socket, next) = connected();
    comes(&mut single, &next, 0, 0, FIN);
    let reported = single.told_of(socket).expect("the end");
    assert!(reported.flags.contains(EdgeFlags::PEER_FIN));
    close(&mut single, socket);
    assert_eq!(single.stack.endpoints.sockets.len(), 2);
    comes(&mut single, &next, 1, 1, TcpFlags::ACK);
    assert_eq!(
        (
            single.stack.status().wait_count(),
            single.stack.endpoints.sockets.len()
        ),
        (0, 1)
    );
    assert_eq!(single.stack.endpoints.demux.flows(), 0);
    // The block is another's.
    let free = single
        .arena
        .header()
        .free_sockets
        .pop(single.arena.socket_links());
    assert!(free.unwrap().is_some());
}

/// What was written before the close is sent again until it is acknowledged; a reset ends that.
#[test]
fn what_was_written_is_delivered_after_the_close() {
    let (mut single, socket, next) = connected();
    let edge = super::streams::append(&single.arena, socket.index, 0, b"last words");
    single.ask(
        0,
        &Request::Close {
            socket,
            snd_edge: edge,
            rcv_consumed: 0,
            linger: None,
        },
    );
    single.turn();
    let sent = single.sent_with_payload();
    assert!(sent.iter().any(|sent| sent.payload == b"last words"));
    let mut again = 0;
    for _ in 0..40 {
        single.turn_after(100_000);
        let sent = single.sent_with_payload();
        again += sent
            .iter()
            .filter(|sent| sent.payload == b"last words")
            .count();
    }
    assert!(again >= 1, "{again}");
    assert_eq!(single.stack.endpoints.sockets.len(), 2);
    assert!(single.stack.counters.tcp.retransmissions >= 1);
    comes(&mut single, &next, 0, 0, TcpFlags::RST);
    assert_eq!(
        (
            single.stack.endpoints.sockets.len(),
            single.stack.status().wait_count()
        ),
        (1, 0)
    );
}

/// What comes for a connection that its program has closed is answered by a reset, as its bytes
/// are for nobody (RFC 9293 section 3.6).
#[test]
fn data_for_a_closed_connection_are_reset() {
    let (mut single, socket, next) = connected();
    close(&mut single, socket);
    single.sent();
    comes(&mut single, &next, 0, 1, TcpFlags::ACK);
    single.segment(
        &TcpHeader {
            ack: next.ack.add(1),
            ..next.clone()
        },
        b"hello?",
    );
    single.turn();
    assert!(single.sent().pop().unwrap().flags.contains(TcpFlags::RST));
    assert_eq!(
        (
            single.stack.endpoints.sockets.len(),
            single.stack.status().wait_count()
        ),
        (1, 0)
    );
}

/// A closed connection whose peer never ends its half is given up after TCP_LINGER2's time.
#[test]
fn a_half_that_never_ends_is_given_up() {
    let (mut single, socket, next) = connected();
    single.set(socket, OptionName::Linger2, 5);
    close(&mut single, socket);
    comes(&mut single, &next, 0, 1, TcpFlags::ACK);
    single.turn_after(4_000_000);
    assert_eq!(single.stack.endpoints.sockets.len(), 2);
    for _ in 0..3 {
        single.turn_after(1_000_000);
    }
    assert_eq!(single.stack.endpoints.sockets.len(), 1);
}

/// A peer that never answers is given up, and the program is told why.
#[test]
fn a_peer_that_is_silent_is_given_up() {
    let (mut single, socket, _) = connected();
    single.set(socket, OptionName::UserTimeout, 10_000);
    single.write(socket, 0, b"anybody?");
    single.turn();
    single.discard_completions();
    let begun = single.now;
    let reported = loop {
        single.turn_after(100_000);
        if let Some(reported) = single.told_of(socket) {
            break reported;
        }
        assert!(single.now.since(begun) < 60_000_000);
    };
    assert!(reported.flags.contains(EdgeFlags::DEAD));
    assert_eq!(reported.errno, 110);
    assert!(single.now.since(begun) >= 9_000_000);
    // It is in no table, and the program has the socket still.
    assert_eq!(single.stack.endpoints.demux.flows(), 0);
    assert_eq!(single.stack.endpoints.sockets.len(), 2);
    close(&mut single, socket);
    assert_eq!(single.stack.endpoints.sockets.len(), 1);
}
