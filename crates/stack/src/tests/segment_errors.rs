//! ICMP errors about segments, of those who know what is in flight: what ends an attempt to
//! connect, what a program is told of that lives on, and paths that take less.

use super::off_path::{GEOMETRY, accepted};
use super::questions::asks;
use super::reconnect::{PORT, connect, connected};
use super::single::{CLIENT, FIRST_PORT, ISN, NARROW, Single, header};
use longshore_hostif::{
    EdgeFlags, ErrorReport, HostSession, OptionName, Query, SocketId, SocketKind,
};
use longshore_wire::SeqNumber;
use longshore_wire::icmpv4::unreachable;
use longshore_wire::ipv4::protocol;
use longshore_wire::tcp::TcpFlags;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;

const REFUSED: u32 = 111;
const HOST_UNREACHABLE: u32 = 113;
/// How much of a packet is no payload at least.
const HEADERS: usize = 40;

/// An ICMP error about a segment of ours, of which it quotes the first bytes.
pub(super) fn error(single: &mut Single, code: u8, ports: (u16, u16), seq: SeqNumber) {
    let ports = [ports.0.to_be_bytes(), ports.1.to_be_bytes()].concat();
    let quoted = [&ports[..], &seq.0.to_be_bytes()].concat();
    single.error_about(protocol::TCP, CLIENT, &quoted, code);
}

/// The pending error and the reports that the block of a socket tells of.
fn pending(single: &Single, socket: SocketId) -> (u32, u32) {
    let block = single.arena.block(socket.index);
    let [errno, reports] = [&block.errno, &block.errors].map(|word| word.load(Ordering::Relaxed));
    (errno, reports)
}

/// RFC 9293 section 3.9.2.2 and Linux: an attempt to connect ends with an error about its SYN, and
/// whoever has asked for errors finds a report, which begins with the segment's header.
#[test]
fn an_error_about_a_syn_ends_the_attempt() {
    for asked in [false, true] {
        let mut single = Single::new(GEOMETRY, 1);
        let socket = single.open(SocketKind::Stream);
        single.set(socket, OptionName::ReceiveErrors, asked.into());
        connect(&mut single, socket, SocketAddr::new(CLIENT.into(), PORT));
        single.turn();
        let syn = single.sent().pop().expect("a SYN");
        single.discard_completions();
        // Of somebody who does not know its sequence number it is not.
        let ports = (syn.src_port, syn.dst_port);
        error(&mut single, unreachable::PORT, ports, syn.seq.add(1));
        single.turn();
        assert_eq!(single.told_of(socket), None, "{asked}");
        error(&mut single, unreachable::PORT, ports, syn.seq);
        single.turn();
        let told = single.told_of(socket).expect("it has failed");
        assert!(told.flags.contains(EdgeFlags::DEAD), "{asked}: {told:?}");
        assert_eq!(u32::from(told.errno), REFUSED, "{asked}");
        assert_eq!(pending(&single, socket).1, u32::from(asked));
        if asked {
            let (_, bytes) = asks(&mut single, socket, Query::Error);
            let (report, quoted) = ErrorReport::decode(&bytes).expect("a report");
            assert_eq!(u32::from(report.errno), REFUSED);
            assert_eq!(report.offender, Some(CLIENT.into()));
            assert!(
                quoted.starts_with(&syn.src_port.to_be_bytes()),
                "{quoted:?}"
            );
        }
    }
}

/// RFC 1122 section 4.2.3.9 and Linux: a connection lives on. Its program has a pending error at once
/// if it has asked for errors, and no report; otherwise it hears of it if the peer does not answer
/// any more.
#[test]
fn an_error_about_a_connection_is_told_at_once_or_as_it_ends() {
    for asked in [false, true] {
        let mut single = Single::new(GEOMETRY, 1);
        let socket = single.open(SocketKind::Stream);
        single.set(socket, OptionName::ReceiveErrors, asked.into());
        let next = connected(&mut single, socket);
        single.write(socket, 0, b"data");
        single.turn();
        single.discard_completions();
        let ports = (next.dst_port, next.src_port);
        error(&mut single, unreachable::HOST, ports, next.ack);
        single.turn();
        let told = single.told_of(socket);
        let is_soft = told.is_some_and(|told| told.flags.contains(EdgeFlags::SOFT_ERROR));
        assert_eq!(is_soft, asked, "{told:?}");
        let errno = if asked { HOST_UNREACHABLE } else { 0 };
        assert_eq!(pending(&single, socket), (errno, 0));
        let end = (0..3_600).find_map(|_| {
            single.turn_after(1_000_000);
            single.packets();
            single
                .told_of(socket)
                .filter(|told| told.flags.contains(EdgeFlags::DEAD))
        });
        assert_eq!(
            end.map(|told| u32::from(told.errno)),
            Some(HOST_UNREACHABLE)
        );
    }
}

/// What its program is told of with an error, as of acknowledgments, it is not told of again.
#[test]
fn what_goes_with_an_error_is_told_once() {
    let mut single = Single::new(GEOMETRY, 1);
    let socket = single.open(SocketKind::Stream);
    single.set(socket, OptionName::ReceiveErrors, 1);
    let mut next = connected(&mut single, socket);
    let edge = single.write(socket, 0, b"data");
    single.turn();
    single.discard_completions();
    next.ack = next.ack.add(4);
    single.segment(&next, &[]);
    single.turn();
    single.write(socket, edge, b"more");
    single.turn();
    assert_eq!(single.told_of(socket), None, "so few wait for more");
    let ports = (next.dst_port, next.src_port);
    error(&mut single, unreachable::HOST, ports, next.ack);
    single.turn();
    assert_eq!(single.told_of(socket).map(|told| told.snd_acked), Some(4));
    for _ in 0..20 {
        single.turn_after(50_000);
        assert_eq!(single.told_of(socket), None);
    }
}

/// The longest payload of the segments that were sent.
fn longest(single: &mut Single) -> usize {
    let sent = single.sent_with_payload();
    sent.iter()
        .map(|sent| sent.payload.len())
        .max()
        .unwrap_or(0)
}

/// RFC 1191: what was too long for its path is sent again at once in pieces that are not, and so is
/// what is written later. Programs are told that there are such paths.
#[test]
fn segments_shrink_to_a_narrow_path() {
    let mut single = Single::new(GEOMETRY, 1);
    let socket = single.open(SocketKind::Stream);
    let next = connected(&mut single, socket);
    let edge = single.write(socket, 0, &[1; 1_200]);
    single.turn();
    assert_eq!(longest(&mut single), 1_200);
    let host = HostSession::of(&single.arena);
    assert!(!host.routes().has_narrow_paths());
    let ports = (next.dst_port, next.src_port);
    let narrow = unreachable::FRAGMENTATION_NEEDED;
    error(&mut single, narrow, ports, next.ack);
    assert!(host.routes().has_narrow_paths());
    single.turn();
    let most = usize::from(NARROW) - HEADERS;
    assert_eq!(longest(&mut single), most, "sent again");
    single.write(socket, edge, &[2; 1_200]);
    single.turn();
    assert_eq!(longest(&mut single), most);
}

/// The same of a connection that is not made yet, whose SYN-ACK is quoted.
#[test]
fn a_narrow_path_of_a_half_open_connection_is_that_of_the_connection() {
    let mut single = Single::new(GEOMETRY, 1);
    let listener = single.listen();
    single.turn();
    let mut syn = header(0, TcpFlags::SYN, ISN, SeqNumber(0));
    syn.options.mss = Some(1_460);
    single.segment(&syn, &[]);
    let seq = single.answered().expect("a SYN-ACK");
    let narrow = unreachable::FRAGMENTATION_NEEDED;
    error(&mut single, narrow, (80, FIRST_PORT), seq);
    single.bring(0, TcpFlags::ACK, seq.add(1));
    single.turn();
    let socket = accepted(&mut single, listener, 0);
    single.write(socket, 0, &[1; 1_200]);
    single.turn();
    let most = usize::from(NARROW) - HEADERS;
    assert!((1..=most).contains(&longest(&mut single)));
}
