//! What is answered to packets that nobody wants, by ICMP and by TCP: how much of it, and what it says.

use super::ipv6::{OURS, PEER, comes, comes_to, messages, sent, six};
use super::off_path::GEOMETRY;
use super::single::{ISN, SERVER, Single, header};
use crate::counters::EngineDrop;
use longshore_hostif::{DatagramRecord, SocketKind};
use longshore_tcp::DropReason;
use longshore_wire::SeqNumber;
use longshore_wire::icmpv4::{self, Icmpv4};
use longshore_wire::icmpv6::Icmpv6;
use longshore_wire::ipv4::protocol;
use longshore_wire::ipv6::{HEADER_LEN, next_header};
use longshore_wire::tcp::TcpFlags;
use std::net::{Ipv6Addr, SocketAddr};

/// A protocol that nobody speaks.
const UNKNOWN: u8 = 200;

/// Destination options with one that is not known: the packet is dropped, and its sender told
/// (RFC 8200 section 4.2: 10 in its highest bits), or told only of one that was for one host (11).
const fn options(next: u8, unknown: u8) -> [u8; 8] {
    [next, 0, unknown, 4, 0, 0, 0, 0]
}
const TELL: u8 = 0x80;
const TELL_OF_ONE: u8 = 0xc0;

/// RFC 1812 section 4.3.2.8: of many errors few are reported, and more as time passes.
#[test]
fn errors_are_reported_at_a_limited_rate() {
    const MANY: usize = 5_000;
    let mut single = Single::new(GEOMETRY, 1);
    let mut reported = |us: u64| {
        single.turn_after(us);
        for _ in 0..MANY {
            single.packet(UNKNOWN, &[1; 8]);
        }
        single.packets().len()
    };
    let first = reported(0);
    assert!((1..MANY / 2).contains(&first), "{first}");
    assert_eq!(reported(0), 0);
    assert!((1..=first).contains(&reported(1_000_000)));
}

/// While more comes than can be read, few packets of no connection are answered in a turn.
#[test]
fn few_resets_are_sent_while_the_port_has_more() {
    const FEW: u64 = 8;
    const MANY: u64 = 50;
    let mut single = Single::new(GEOMETRY, 1);
    for behind in [false, true] {
        for _ in 0..10 {
            single.stack.looked_at_port(0, behind);
        }
        let resets = single.stack.counters.tcp.resets_out;
        let segments = single.stack.counters.tcp.segments_out;
        let unanswered = single.dropped(EngineDrop::UnsolicitedUnanswered.name());
        for number in 0..MANY as u16 {
            single.bring(number, TcpFlags::ACK, ISN);
        }
        let expected = if behind { FEW } else { MANY };
        // The last are kept, for when the port has no more.
        let kept = if behind { FEW } else { 0 };
        assert_eq!(single.sent().len() as u64, expected);
        let tcp = &single.stack.counters.tcp;
        assert_eq!(tcp.resets_out - resets, expected);
        assert_eq!(tcp.segments_out - segments, expected);
        let now = single.dropped(EngineDrop::UnsolicitedUnanswered.name());
        assert_eq!(now - unanswered, MANY - expected - kept);
    }
}

#[test]
fn a_syn_ack_that_is_sent_again_is_counted() {
    let mut single = Single::new(GEOMETRY, 1);
    single.listen();
    single.turn();
    single.bring(0, TcpFlags::SYN, SeqNumber(0));
    let counts = |single: &Single| {
        let tcp = &single.stack.counters.tcp;
        (tcp.segments_out, tcp.retransmissions)
    };
    assert_eq!(counts(&single), (1, 0));
    single.turn_after(1_100_000);
    assert_eq!(counts(&single), (2, 1));
}

/// RFC 4443 section 3.4: where the unknown header is named, which is in the one before it.
#[test]
fn an_unknown_header_is_pointed_to_where_it_is_named() {
    /// Options that are padding, of 8 bytes and of 16.
    const SHORT: [u8; 6] = [0, 1, 4, 0, 0, 0];
    const LONG: [u8; 6] = [1, 1, 12, 0, 0, 0];
    const FRAGMENT: [u8; 7] = [0, 0, 0, 0, 0, 0, 9];
    let destination = next_header::DESTINATION_OPTIONS;
    let named = |next: u8, rest: &[u8], len: usize| {
        let mut bytes = [&[next], rest].concat();
        bytes.resize(len, 0);
        bytes
    };
    let alone = vec![];
    let short = named(UNKNOWN, &SHORT, 8);
    let long_and_short = [named(destination, &LONG, 16), named(UNKNOWN, &SHORT, 8)].concat();
    let behind_fragment = [
        named(destination, &FRAGMENT, 8),
        named(destination, &LONG, 16),
        named(UNKNOWN, &SHORT, 8),
    ]
    .concat();
    for (first, extensions, pointer) in [
        (UNKNOWN, alone, 6),
        (destination, short, HEADER_LEN),
        (destination, long_and_short, HEADER_LEN + 16),
        (next_header::FRAGMENT, behind_fragment, HEADER_LEN + 24),
    ] {
        let mut single = six();
        comes(&mut single, first, &[&extensions, &[1; 8][..]].concat());
        let (message, _) = messages(&mut single).pop().expect("an error");
        let code = 1;
        let pointer = pointer as u32;
        assert_eq!(message, Icmpv6::ParameterProblem { code, pointer });
    }
}

/// RFC 4443 section 2.4 e.1: an error is reported about what asks, and not about an error.
#[test]
fn no_error_is_reported_about_an_error_of_icmpv6() {
    for (kind, is_reported) in [
        (Some(1), false),
        (Some(127), false),
        (Some(128), true),
        (Some(200), true),
        // It is cut short before that.
        (None, false),
    ] {
        let mut single = six();
        let options = options(next_header::ICMPV6, TELL);
        let message = kind.map_or(vec![], |kind| vec![kind, 0, 0, 0, 0, 0, 0, 0]);
        let destination = next_header::DESTINATION_OPTIONS;
        comes(&mut single, destination, &[&options[..], &message].concat());
        assert_eq!(!messages(&mut single).is_empty(), is_reported, "{kind:?}");
    }
}

/// RFC 8200 section 4.2: of an option that is not known the sender of a packet to a group is told, too, by
/// one of our own addresses.
#[test]
fn an_error_about_a_packet_to_a_group_comes_from_our_address() {
    let group = "ff02::1".parse().unwrap();
    for (to, option, is_reported) in [
        (OURS, TELL, true),
        (OURS, TELL_OF_ONE, true),
        (group, TELL, true),
        (group, TELL_OF_ONE, false),
    ] {
        let mut single = six();
        let bytes = [options(protocol::UDP, option), [0; 8]].concat();
        comes_to(&mut single, to, next_header::DESTINATION_OPTIONS, &bytes);
        let from: Vec<_> = sent(&mut single).iter().map(|(ip, _)| ip.source).collect();
        let expected = if is_reported { vec![OURS] } else { vec![] };
        assert_eq!(from, expected, "{to} {option:x}");
    }
}

/// RFC 4443 section 3.3: whoever hears that a packet has not come together finds it, as far as it came.
#[test]
fn a_packet_that_did_not_come_together_is_quoted() {
    let mut single = six();
    let first = [&[protocol::UDP, 0, 0, 1, 0, 0, 0, 9][..], &[7; 64]].concat();
    comes(&mut single, next_header::FRAGMENT, &first);
    single.turn_after(61_000_000);
    single.stack.expire_fragments();
    let (message, quoted) = messages(&mut single).pop().expect("an error");
    assert_eq!(message, Icmpv6::TimeExceeded { code: 1 });
    let ends = [PEER.octets(), OURS.octets()].concat();
    assert_eq!(quoted[8..HEADER_LEN], ends);
    assert!(quoted.ends_with(&[7; 64]));
}

/// A fragment of a datagram from the peer's port 9 to port 91, where nobody is.
fn fragment(from: usize, to: usize, more: bool) -> Vec<u8> {
    let datagram = [&[0, 9, 0, 91, 0, 72, 0, 0][..], &[7; 64]].concat();
    let place = (from as u16 | u16::from(more)).to_be_bytes();
    let header = [protocol::UDP, 0, place[0], place[1], 0, 0, 0, 9];
    [&header, &datagram[from..to]].concat()
}

/// As of IPv4: what comes too late is not put together with what came before.
#[test]
fn a_fragment_of_ipv6_that_is_late_is_of_no_packet() {
    let mut single = six();
    comes(&mut single, next_header::FRAGMENT, &fragment(0, 40, true));
    single.turn_after(61_000_000);
    comes(&mut single, next_header::FRAGMENT, &fragment(40, 72, false));
    let messages = messages(&mut single);
    assert_eq!(messages.len(), 1);
    assert_eq!(messages[0].0, Icmpv6::TimeExceeded { code: 1 });
}

/// Of a packet that was in fragments an error quotes what it is as a whole.
#[test]
fn an_error_about_fragments_quotes_the_whole() {
    let mut single = six();
    for (from, to, more) in [(0, 40, true), (40, 72, false)] {
        let mut part = fragment(from, to, more);
        part[0] = UNKNOWN;
        comes(&mut single, next_header::FRAGMENT, &part);
    }
    let (message, quoted) = messages(&mut single).pop().expect("an error");
    let (code, pointer) = (1, 6);
    assert_eq!(message, Icmpv6::ParameterProblem { code, pointer });
    let ends = [PEER.octets(), OURS.octets()].concat();
    assert_eq!(quoted[8..HEADER_LEN], ends);
    assert_eq!((quoted[6], quoted.len()), (UNKNOWN, HEADER_LEN + 72));
}

/// Fragments that cannot be are counted.
#[test]
fn a_fragment_of_no_length_that_can_be_is_counted() {
    let mut single = six();
    comes(&mut single, next_header::FRAGMENT, &fragment(0, 39, true));
    let reason = longshore_net::DropReason::FragmentBadLength;
    assert_eq!(single.dropped(reason.name()), 1);
}

/// A message of ICMPv6 from this address to ours, with its checksum.
fn message_from(single: &mut Single, source: Ipv6Addr, message: &Icmpv6) {
    let mut bytes = vec![0; message.header_len()];
    message.emit(source, OURS, &mut bytes);
    let ends = (source.into(), OURS.into());
    let packet = longshore_testbed::packets::packet(ends, next_header::ICMPV6, &bytes);
    single.frame_in(&packet);
    single.turn();
}

/// RFC 4443 section 4: an echo is answered to who can be told, and an answer by nothing.
#[test]
fn an_echo_is_answered_to_who_has_an_address() {
    let (identifier, sequence) = (3, 4);
    let request = Icmpv6::EchoRequest {
        identifier,
        sequence,
    };
    let reply = Icmpv6::EchoReply {
        identifier,
        sequence,
    };
    for (source, message, is_answered) in [
        (PEER, &request, true),
        (Ipv6Addr::UNSPECIFIED, &request, false),
        (PEER, &reply, false),
    ] {
        let mut single = six();
        message_from(&mut single, source, message);
        let answers: Vec<_> = messages(&mut single).into_iter().map(|(m, _)| m).collect();
        let expected = if is_answered { vec![reply] } else { vec![] };
        assert_eq!(answers, expected);
        let is_error = EngineDrop::IcmpAboutNothing.name();
        assert_eq!(single.dropped(is_error), 0, "it is no error");
    }
}

/// What is no message is counted.
#[test]
fn a_message_that_is_none_is_counted() {
    let mut single = six();
    let before = single.stack.counters.drops().count();
    comes(&mut single, next_header::ICMPV6, &[1, 2]);
    assert_eq!(single.stack.counters.drops().count(), before + 1);
}

/// An answer to an echo is no error, of IPv4 either.
#[test]
fn an_answer_to_an_echo_is_no_error() {
    let mut single = Single::new(GEOMETRY, 1);
    let reply = Icmpv4::EchoReply {
        identifier: 3,
        sequence: 4,
    };
    let mut bytes = vec![0; icmpv4::HEADER_LEN];
    reply.emit(&mut bytes);
    single.packet(protocol::ICMP, &bytes);
    single.turn();
    let before = single.dropped(EngineDrop::IcmpAboutNothing.name());
    assert_eq!((before, single.packets().len()), (0, 0));
}

/// Our own programs are told of ports where nobody is, as others are.
#[test]
fn a_datagram_to_a_port_of_our_own_where_nobody_is_is_answered() {
    let mut single = Single::new(GEOMETRY, 1);
    let socket = single.bind(SocketKind::Datagram, 90);
    single.turn();
    let record = DatagramRecord::new(0, SocketAddr::new(SERVER.into(), 91).into());
    single.write(socket, 0, &record.encode());
    single.turn();
    // It, and the answer.
    assert_eq!(single.stack.take_own_packets(), 2);
    assert_eq!(single.dropped(EngineDrop::NoUdpSocket.name()), 1);
}

/// What a half-open connection does not take is counted, and the bytes that come with it.
#[test]
fn what_a_half_open_connection_does_not_take_is_counted() {
    for (payload, missed) in [(b"".as_slice(), 0), (b"early", 1)] {
        let mut single = Single::new(GEOMETRY, 1);
        single.listen();
        single.turn();
        single.bring(0, TcpFlags::SYN, SeqNumber(0));
        let iss = single.answered().expect("a SYN-ACK");
        let before = single.stack.counters.drops().count();
        let unsent = header(0, TcpFlags::ACK, ISN.add(1), iss.add(77));
        single.segment(&unsent, payload);
        assert_eq!(single.stack.counters.prediction.missed_data, missed);
        assert_eq!(single.stack.counters.drops().count(), before + 1);
        assert_eq!(single.stack.status().half_open_count(), 1);
    }
}

/// A peer may give up while it waits for room in the accept queue.
#[test]
fn a_reset_is_taken_though_no_connection_would_be() {
    for flags in [TcpFlags::RST, TcpFlags::RST | TcpFlags::ACK] {
        let mut single = Single::new(GEOMETRY, 1);
        let listener = single.bind(SocketKind::Stream, 80);
        single.listen_at(listener, 0);
        single.turn();
        let acks = [0, 1].map(|client| {
            single.bring(client, TcpFlags::SYN, SeqNumber(0));
            single.answered().expect("a SYN-ACK").add(1)
        });
        single.bring(0, TcpFlags::ACK, acks[0]);
        single.bring(1, TcpFlags::ACK, acks[1]);
        single.turn();
        assert_eq!(
            single.stack.status().half_open_count(),
            1,
            "it is held back"
        );
        single.segment(&header(1, flags, ISN.add(1), acks[1]), &[]);
        assert_eq!(single.stack.status().half_open_count(), 0, "{flags:?}");
    }
}

/// A cookie that is none is counted and answered by a reset; one for which there is no room is counted, and it
/// is as if it were lost.
#[test]
fn cookies_that_make_no_connection_are_counted() {
    const ROOM: u16 = 8;
    const COOKIES: u16 = 2;
    let mut single = Single::new(GEOMETRY, 1);
    let listener = single.bind(SocketKind::Stream, 80);
    single.listen_at(listener, ROOM.into());
    single.turn();
    let acks: Vec<SeqNumber> = (0..ROOM + COOKIES)
        .map(|client| {
            single.bring(client, TcpFlags::SYN, SeqNumber(0));
            single.answered().expect("a SYN-ACK").add(1)
        })
        .collect();
    assert_eq!(single.stack.counters.tcp.cookies_sent, u64::from(COOKIES));
    single.bring(ROOM, TcpFlags::ACK, acks[usize::from(ROOM)].add(77));
    assert_eq!(single.dropped(DropReason::BadCookie.name()), 1);
    let reset = single.sent().pop().expect("a reset");
    assert!(reset.flags.contains(TcpFlags::RST));
    for (client, ack) in (0..).zip(&acks) {
        single.bring(client, TcpFlags::ACK, *ack);
    }
    // One more than its backlog.
    assert_eq!(single.stack.counters.tcp.cookies_taken, 1);
    assert_eq!(single.dropped(DropReason::AcceptQueueFull.name()), 1);
    assert!(single.sent().is_empty());
}
