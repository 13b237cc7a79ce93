//! What hosts send that have no part in a connection, and that no stack would: to end it or to
//! enter it (RFC 5961), to make its segments small, to take the memory of others, or to be
//! remembered for ever. It has no effect on the connections of others, costs a bounded part of
//! memory and of what is sent, and is counted by its reason.

use super::single::{CLIENT, FIRST_PORT, Single};
use crate::session::{FEW_CHUNKS, SPARE_CHUNKS};
use longshore_hostif::{
    ACCEPT_RECORD, AcceptRecord, CHUNK, EdgeFlags, Geometry, Request, SocketId, SocketKind,
};
use longshore_wire::SeqNumber;
use longshore_wire::icmpv4::unreachable;
use longshore_wire::ipv4::protocol;
use longshore_wire::tcp::{TcpFlags, TcpHeader};
use std::net::Ipv4Addr;

pub(super) const GEOMETRY: Geometry = Geometry {
    channels: 64,
    waiters: 8,
    sockets: 512,
    snd_chunks: 64,
    rcv_chunks: SPARE_CHUNKS + 100,
    workers: 1,
};
/// Forged segments of a kind.
const MANY: u32 = 5_000;
/// The least time between two challenges on a connection.
const CHALLENGE_US: u64 = 500_000;

/// The program's end of the connection that came in as number `which`, from 0.
pub(super) fn accepted(single: &mut Single, listener: SocketId, which: u64) -> SocketId {
    single.discard_completions();
    let mut record = [0; ACCEPT_RECORD];
    let at = which * ACCEPT_RECORD as u64;
    super::streams::copy_out(&single.arena, listener.index, at, &mut record);
    let record = AcceptRecord::decode(&record);
    let block = single.arena.block(record.socket.index);
    assert!(block.begin_accepted(&record, single.arena.block(listener.index)));
    record.socket
}

/// A connection that the program has accepted, and what its peer sends next; nothing is left of how it
/// was made.
pub(super) fn connection(single: &mut Single) -> (SocketId, TcpHeader) {
    let listener = single.listen();
    single.turn();
    let next = single.connect(0);
    single.turn();
    let socket = accepted(single, listener, 0);
    single.edges(listener, ACCEPT_RECORD as u64, EdgeFlags::empty());
    single.turn();
    single.discard_completions();
    single.sent();
    (socket, next)
}

/// A stack with one connection, whose program has not accepted it; what its peer sends next.
fn connected() -> (Single, TcpHeader) {
    let mut single = Single::new(GEOMETRY, 1);
    single.listen();
    single.turn();
    let next = single.connect(0);
    single.turn();
    single.sent();
    (single, next)
}

/// The program writes `bytes` to the connection, and has read so much.
fn writes(single: &mut Single, socket: SocketId, bytes: &[u8], read: u64) {
    let snd_edge = super::streams::append(&single.arena, socket.index, 0, bytes);
    let flags = EdgeFlags::PUSH;
    single.ask(
        0,
        &Request::Edges {
            socket,
            snd_edge,
            rcv_consumed: read,
            flags,
            immediate: 0,
        },
    );
}

/// The program closes a connection to which it has written so much.
fn close(single: &mut Single, socket: SocketId, snd_edge: u64) {
    single.ask(
        0,
        &Request::Close {
            socket,
            snd_edge,
            rcv_consumed: 0,
            linger: None,
        },
    );
}

/// Resets and SYNs in the window, and acknowledgments of what was never sent or was so long
/// ago: the sender of the connection hears of it twice a second, and the connection lives.
#[test]
fn forged_segments_are_challenged_now_and_then_and_counted() {
    let (mut single, next) = connected();
    type Forge = fn(&mut TcpHeader, u32);
    let forged: [(&str, Forge); 5] = [
        ("tcp_rst_not_exact", |h, n| {
            (h.flags, h.seq) = (TcpFlags::RST, h.seq.add(1 + n));
        }),
        ("tcp_rst_unacceptable", |h, n| {
            (h.flags, h.seq) = (TcpFlags::RST, h.seq.add(1_000_000 + n));
        }),
        ("tcp_syn_in_connection", |h, n| {
            (h.flags, h.seq) = (TcpFlags::SYN, h.seq.add(1 + n));
        }),
        ("tcp_ack_unsent", |h, n| h.ack = h.ack.add(1 + n)),
        ("tcp_ack_too_old", |h, n| {
            h.ack = SeqNumber(h.ack.0.wrapping_sub(2_000_000 + n));
        }),
    ];
    let (began, mut challenges) = (single.now, 0);
    for (reason, forge) in forged {
        for n in 0..MANY {
            let mut header = next.clone();
            forge(&mut header, n);
            single.segment(&header, &[]);
            single.turn_after(100);
            challenges += single.sent().len() as u64;
        }
        assert_eq!(single.dropped(reason), u64::from(MANY), "{reason}");
    }
    let most = 1 + single.now.since(began) / CHALLENGE_US;
    assert!((1..=most).contains(&challenges), "{challenges} of {most}");
    single.segment(&next, b"still there");
    single.turn_after(CHALLENGE_US);
    let answer = single.sent().pop().expect("an acknowledgment");
    assert_eq!(answer.ack, next.seq.add(11));
}

/// FINs to no connection, to a listener, and to a connection beside its window: none closes
/// anything or is remembered, and each is counted.
#[test]
fn floods_of_fins_close_nothing_and_leave_nothing() {
    let (mut single, next) = connected();
    let (sockets, free) = (single.stack.endpoints.sockets.len(), single.free_chunks());
    let before: u64 = single.stack.counters.drops().map(|(_, n)| n).sum();
    let mut answers = [0_u64; 3];
    for n in 0..MANY {
        let mut fins = [next.clone(), next.clone(), next.clone()];
        fins[0].src_port = FIRST_PORT + 1 + (n % 1_000) as u16;
        fins[1].dst_port = 4_000;
        fins[2].seq = next.seq.add(70_000 + n);
        for (fin, answers) in fins.iter_mut().zip(&mut answers) {
            fin.flags = TcpFlags::FIN | TcpFlags::ACK;
            single.segment(fin, &[]);
            single.turn_after(100);
            *answers += single.sent().len() as u64;
        }
    }
    // One each at the most (RFC 9293 sections 3.5.2 and 3.10.7.4), and no larger.
    assert!(answers.iter().all(|n| *n <= MANY.into()), "{answers:?}");
    let after: u64 = single.stack.counters.drops().map(|(_, n)| n).sum();
    assert_eq!(after - before, 3 * u64::from(MANY));
    assert_eq!(single.stack.endpoints.sockets.len(), sockets);
    assert_eq!(single.stack.status().half_open_count(), 0);
    assert_eq!(single.stack.endpoints.demux.waiting_count(), 0);
    assert_eq!(single.free_chunks(), free);
    single.segment(&next, b"still there");
    single.turn_after(CHALLENGE_US);
    let answer = single.sent().pop().expect("an acknowledgment");
    assert_eq!(answer.ack, next.seq.add(11));
}

/// An error of a router about a packet of ours of `protocol` to `to`, of which it quotes
/// these first bytes.
fn too_big(single: &mut Single, protocol: u8, to: Ipv4Addr, quoted: [u8; 8]) {
    single.error_about(protocol, to, &quoted, unreachable::FRAGMENTATION_NEEDED);
}

/// The ports and the sequence number of a segment of ours.
fn quoted(to_port: u16, seq: SeqNumber) -> [u8; 8] {
    let mut first = [0; 8];
    first[..2].copy_from_slice(&80_u16.to_be_bytes());
    first[2..4].copy_from_slice(&to_port.to_be_bytes());
    first[4..].copy_from_slice(&seq.0.to_be_bytes());
    first
}

/// A sender that does not know what is in flight cannot make a connection's segments smaller (RFC
/// 5927), and a sender that guesses is seen.
#[test]
fn lies_about_the_path_are_counted_and_change_nothing() {
    let mut single = Single::new(GEOMETRY, 1);
    let listener = single.listen();
    single.turn();
    let next = single.connect(0);
    single.turn();
    let socket = accepted(&mut single, listener, 0);
    writes(&mut single, socket, &[1; 100], 0);
    single.turn();
    // Beyond what was sent, before it, and of no connection.
    for n in 0..MANY {
        let seq = if n % 2 == 0 {
            next.ack.add(100 + n)
        } else {
            SeqNumber(next.ack.0.wrapping_sub(1 + n))
        };
        let port = FIRST_PORT + u16::from(n % 3 == 0);
        too_big(&mut single, protocol::TCP, CLIENT, quoted(port, seq));
    }
    // What is no quotation of a segment at all.
    too_big(&mut single, 200, CLIENT, [0; 8]);
    assert_eq!(single.stack.link().pmtu.len(), 0);
    assert_eq!(
        single.dropped("icmp_about_nothing_sent"),
        u64::from(MANY) + 1
    );
    // One that knows is believed.
    too_big(
        &mut single,
        protocol::TCP,
        CLIENT,
        quoted(FIRST_PORT, next.ack),
    );
    assert_eq!(single.stack.link().pmtu.len(), 1);
    assert_eq!(
        single.dropped("icmp_about_nothing_sent"),
        u64::from(MANY) + 1
    );
}

/// An error about a datagram of a socket that sends to everybody has to be believed. What is
/// remembered is bounded, and programs are told once that there are narrow paths: to tell
/// each session of each would be more work for us than for the one that lies.
#[test]
fn what_is_believed_of_paths_costs_little() {
    let mut single = Single::new(GEOMETRY, 1);
    single.bind(SocketKind::Datagram, 80);
    single.turn();
    let mut reported = Vec::new();
    for n in 0..MANY as u16 {
        let [high, low] = n.to_be_bytes();
        let to = Ipv4Addr::new(192, 0, 2 + high, low);
        too_big(&mut single, protocol::UDP, to, quoted(53, SeqNumber(0)));
        reported.push(single.to_host().control);
    }
    assert_eq!(single.stack.link().pmtu.len(), 1_024);
    assert_eq!(reported.first(), reported.last());
}

/// Peers that send one byte and leave out the one before it hold a chunk of the session's
/// memory each, for as long as they like. What is kept for others is enough for one of them
/// to send as if it were alone.
#[test]
fn who_leaves_holes_leaves_memory_to_others() {
    const HOSTILE: u16 = 300;
    const PIECE: usize = 1_000;
    let mut single = Single::new(GEOMETRY, 1);
    let listener = single.listen();
    single.turn();
    let peers: Vec<TcpHeader> = (0..=HOSTILE)
        .map(|n| {
            let next = single.connect(n);
            single.turn();
            single.discard_completions();
            next
        })
        .collect();
    let (innocent, hostile) = peers.split_last().unwrap();
    for round in 1..20 {
        for peer in hostile {
            let mut header = peer.clone();
            header.seq = peer.seq.add(round * 3_000);
            single.segment(&header, &[7]);
        }
        single.turn();
    }
    let free = single.free_chunks();
    assert!(free + FEW_CHUNKS >= SPARE_CHUNKS, "{free}");
    assert!(single.dropped("arena_full") > 0);
    single.sent();

    let socket = accepted(&mut single, listener, HOSTILE.into());
    let sent = 8 * CHUNK / PIECE;
    for n in 0..sent {
        let mut header = innocent.clone();
        header.seq = innocent.seq.add((n * PIECE) as u32);
        let before = single.dropped("arena_full");
        single.segment(&header, &[n as u8; PIECE]);
        assert_eq!(single.dropped("arena_full"), before, "segment {n}");
        single.turn();
        single.discard_completions();
        let mut got = [0; PIECE];
        super::streams::copy_out(&single.arena, socket.index, (n * PIECE) as u64, &mut got);
        assert_eq!(got, [n as u8; PIECE]);
        writes(&mut single, socket, &[], ((n + 1) * PIECE) as u64);
        single.turn();
    }
    let all = innocent.seq.add((sent * PIECE) as u32);
    let of_innocent = |h: &TcpHeader| h.dst_port == FIRST_PORT + HOSTILE;
    let last = single.sent().into_iter().rfind(of_innocent);
    assert_eq!(last.expect("acknowledgments").ack, all);
    // With their connections, the memory of the others comes back.
    for n in 0..HOSTILE {
        let socket = accepted(&mut single, listener, n.into());
        close(&mut single, socket, 0);
    }
    single.turn();
    let free = single.free_chunks();
    assert!(free + FEW_CHUNKS >= GEOMETRY.rcv_chunks, "{free}");
}

/// What lies behind a hole when the peer resets is never read: its memory is free at once,
/// whether a program has accepted the connection or not, and what came before is still there.
#[test]
fn a_reset_frees_what_lies_behind_a_hole() {
    const PIECE: [u8; 1_000] = [7; 1_000];
    let mut single = Single::new(GEOMETRY, 1);
    let listener = single.listen();
    single.turn();
    let peers: Vec<TcpHeader> = (0..3).map(|n| single.connect(n)).collect();
    single.turn();
    let free = single.free_chunks();
    let read = accepted(&mut single, listener, 1);
    for (n, peer) in peers.iter().enumerate() {
        // The second's is read, and of the third nothing comes in order.
        let first = if n < 2 { PIECE.as_slice() } else { &[] };
        single.segment(peer, first);
        let mut later = peer.clone();
        for at in [first.len() + 1_000, 20_000, 40_000, 50_000] {
            later.seq = peer.seq.add(at as u32);
            single.segment(&later, &PIECE);
        }
    }
    single.turn();
    writes(&mut single, read, &[], PIECE.len() as u64);
    single.turn();
    let mut later = peers[1].clone();
    later.seq = peers[1].seq.add(CHUNK as u32 - 500);
    single.segment(&later, &PIECE);
    assert_eq!(single.free_chunks(), free - 4);
    for peer in &peers {
        let mut reset = peer.clone();
        reset.flags = TcpFlags::RST;
        if reset.src_port < FIRST_PORT + 2 {
            reset.seq = peer.seq.add(PIECE.len() as u32);
        }
        single.segment(&reset, &[]);
    }
    single.turn();
    single.discard_completions();
    // The first's is not read yet.
    assert_eq!(single.free_chunks(), free - 1);
    let first = accepted(&mut single, listener, 0);
    let mut got = [0; PIECE.len()];
    super::streams::copy_out(&single.arena, first.index, 0, &mut got);
    assert_eq!(got, PIECE);
    writes(&mut single, first, &[], PIECE.len() as u64);
    single.turn();
    assert_eq!(single.free_chunks(), free);
}

/// A peer that keeps its window closed, and answers each probe, is not given up as long as
/// the program has it. Once that has closed, a few probes more are answered for nothing.
#[test]
fn who_never_opens_the_window_is_forgotten_after_the_program() {
    const MINUTE_US: u64 = 60_000_000;
    let mut single = Single::new(GEOMETRY, 1);
    let listener = single.listen();
    single.turn();
    let mut next = single.connect(0);
    single.turn();
    let socket = accepted(&mut single, listener, 0);
    next.window = 0;
    single.segment(&next, &[]);
    writes(&mut single, socket, &[1; 10_000], 0);
    single.turn();
    single.sent();
    let mut probes = 0;
    let mut pass = |single: &mut Single, minutes: u64| {
        for _ in 0..minutes * 60 {
            single.turn_after(MINUTE_US / 60);
            for _ in single.sent() {
                probes += 1;
                single.segment(&next, &[]);
            }
        }
        probes
    };
    let probes = pass(&mut single, 60);
    assert!((30..60).contains(&probes), "{probes} in an hour");
    let sockets = single.stack.endpoints.sockets.len();
    close(&mut single, socket, 10_000);
    pass(&mut single, 20);
    assert_eq!(single.stack.endpoints.sockets.len(), sockets - 1);
}
