//! Packets of IPv4 as they come, and the answers of ICMP: who gets which, and who gets none.

use super::off_path::GEOMETRY;
use super::single::{CLIENT, SERVER, Single};
use super::streams::copy_out;
use crate::counters::EngineDrop;
use longshore_hostif::{DATAGRAM_HEADER, DatagramRecord, SocketKind};
use longshore_net::DropReason;
use longshore_testbed::packets::{HOPS, ipv4};
use longshore_wire::checksum::Partial;
use longshore_wire::icmpv4::{self, Icmpv4, unreachable};
use longshore_wire::ipv4::{HEADER_LEN, Ipv4Header, protocol};
use std::net::Ipv4Addr;

const BROADCAST: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 255);
const OTHER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 9);

fn single() -> Single {
    let mut single = Single::new(GEOMETRY, 1);
    single.turn();
    single
}

fn comes(single: &mut Single, to: Ipv4Addr, protocol: u8, payload: &[u8]) {
    single.frame_in(&ipv4((CLIENT, to), protocol, HOPS, payload));
    single.turn();
}

/// The ICMP messages that were sent, from our address to the peer, with what follows their
/// headers.
fn messages(single: &mut Single) -> Vec<(Icmpv4, Vec<u8>)> {
    let packets = single.packets().into_iter();
    packets
        .map(|packet| {
            let (ip, range) = Ipv4Header::parse(&packet).unwrap();
            assert_eq!((ip.source, ip.destination), (SERVER, CLIENT));
            assert_eq!(ip.protocol, protocol::ICMP);
            let bytes = &packet[range];
            let message = Icmpv4::parse(bytes).expect("a message with the right sum");
            (message, bytes[icmpv4::HEADER_LEN..].to_vec())
        })
        .collect()
}

fn message(icmp: &Icmpv4, data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; icmpv4::HEADER_LEN];
    bytes.extend(data);
    icmp.emit(&mut bytes);
    bytes
}

/// RFC 1122 section 3.2.2.6: what was asked comes back, from the address that was asked.
#[test]
fn an_echo_is_answered() {
    let mut single = single();
    let request = Icmpv4::EchoRequest {
        identifier: 3,
        sequence: 4,
    };
    let bytes = message(&request, b"data");
    comes(&mut single, SERVER, protocol::ICMP, &bytes);
    let reply = Icmpv4::EchoReply {
        identifier: 3,
        sequence: 4,
    };
    assert_eq!(messages(&mut single), [(reply, b"data".to_vec())]);
    // Not to everybody, not with a sum that is wrong, and not to a reply.
    comes(&mut single, BROADCAST, protocol::ICMP, &bytes);
    let mut bad = bytes;
    bad[3] ^= 1;
    comes(&mut single, SERVER, protocol::ICMP, &bad);
    comes(
        &mut single,
        SERVER,
        protocol::ICMP,
        &message(&reply, b"data"),
    );
    assert_eq!(messages(&mut single), []);
}

/// What is for nobody here is dropped for a reason, or answered by an error that quotes it; what
/// came to everybody is answered by none (RFC 1122 section 3.2.2).
#[test]
fn errors_say_what_was_not_taken() {
    let datagram = |to: u16| {
        let mut bytes = vec![0, 9, 0, 0, 0, 8, 0, 0];
        bytes[2..4].copy_from_slice(&to.to_be_bytes());
        bytes
    };
    let code = |code| Icmpv4::Unreachable {
        code,
        next_hop_mtu: 0,
    };
    let cases = [
        (SERVER, 200, vec![1; 20], Some(code(unreachable::PROTOCOL))),
        (
            SERVER,
            protocol::UDP,
            datagram(7),
            Some(code(unreachable::PORT)),
        ),
        (BROADCAST, 200, vec![1; 20], None),
        (BROADCAST, protocol::UDP, datagram(7), None),
        (OTHER, 200, vec![1; 20], None),
    ];
    for (to, protocol, bytes, expected) in cases {
        let mut single = single();
        comes(&mut single, to, protocol, &bytes);
        let reported = messages(&mut single).pop();
        assert_eq!(
            reported.as_ref().map(|(message, _)| *message),
            expected,
            "{to} {protocol}"
        );
        if let Some((_, quoted)) = reported {
            assert_eq!(quoted[12..16], CLIENT.octets());
            assert!(bytes.starts_with(&quoted[HEADER_LEN..]) && quoted.len() >= HEADER_LEN + 8);
        }
        let reason = match (to, protocol) {
            (OTHER, _) => DropReason::NotForUs.name(),
            (_, 200) => EngineDrop::UnknownProtocol.name(),
            _ => EngineDrop::NoUdpSocket.name(),
        };
        assert_eq!(single.dropped(reason), 1, "{to} {protocol}");
    }
}

/// Errors are answered by no errors, and neither are later fragments.
#[test]
fn errors_answer_no_errors() {
    let mut single = single();
    let quoted = ipv4((SERVER, CLIENT), 200, HOPS, &[0; 8]);
    let error = Icmpv4::Unreachable {
        code: unreachable::PROTOCOL,
        next_hop_mtu: 0,
    };
    comes(
        &mut single,
        SERVER,
        protocol::ICMP,
        &message(&error, &quoted),
    );
    assert_eq!(messages(&mut single), []);
}

fn fragment(at: usize, bytes: &[u8], more: bool) -> Vec<u8> {
    let header = Ipv4Header {
        tos: 0x18,
        payload_len: bytes.len() as u16,
        identification: 5,
        dont_fragment: false,
        more_fragments: more,
        fragment_offset: at as u16,
        ttl: 9,
        protocol: protocol::UDP,
        source: CLIENT,
        destination: SERVER,
    };
    let mut packet = vec![0; HEADER_LEN];
    header.emit(&mut packet);
    packet.extend(bytes);
    packet
}

/// A datagram in fragments, in any order, with a sum over all of it.
#[test]
fn fragments_come_together() {
    const LEN: usize = 3_000;
    let mut single = single();
    let socket = single.bind(SocketKind::Datagram, 90);
    single.turn();
    single.discard_completions();
    let mut datagram = vec![0, 9, 0, 90];
    datagram.extend(((8 + LEN) as u16).to_be_bytes());
    datagram.extend([0, 0]);
    datagram.extend((0..LEN).map(|at| (at / 9) as u8));
    let len = datagram.len() as u32;
    let pseudo = Partial::of_pseudo_v4(CLIENT, SERVER, protocol::UDP, len);
    let sum = pseudo.plus(Partial::of(&datagram)).finish();
    datagram[6..8].copy_from_slice(&sum.to_be_bytes());
    for (from, to) in [(1_400, 2_800), (2_800, datagram.len()), (0, 1_400)] {
        assert_eq!(single.told_of(socket), None);
        let more = to != datagram.len();
        single.frame_in(&fragment(from, &datagram[from..to], more));
        single.turn();
    }
    assert!(single.told_of(socket).is_some());
    let mut record = [0; DATAGRAM_HEADER];
    copy_out(&single.arena, socket.index, 0, &mut record);
    let record = DatagramRecord::decode(&record);
    assert_eq!(
        (record.len, record.hops, record.class),
        (LEN as u32, Some(9), 0x18)
    );
    let mut got = vec![0; LEN];
    copy_out(
        &single.arena,
        socket.index,
        DATAGRAM_HEADER as u64,
        &mut got,
    );
    assert_eq!(got, datagram[8..]);
    // With another sum it is dropped.
    datagram[6] ^= 1;
    for (from, to) in [(0, 1_400), (1_400, datagram.len())] {
        single.frame_in(&fragment(from, &datagram[from..to], to != datagram.len()));
    }
    single.turn();
    assert_eq!(single.told_of(socket), None);
    assert_eq!(single.dropped(EngineDrop::BadTransportChecksum.name()), 1);
}

/// What does not come together in time is told of, if its first fragment has come.
#[test]
fn fragments_that_stay_alone_are_told_of() {
    for (first, reported) in [(0, 1), (800, 0)] {
        let mut single = single();
        single.frame_in(&fragment(first, &[1; 800], true));
        single.turn_after(10_000_000);
        single.stack.expire_fragments();
        single.turn();
        assert_eq!(messages(&mut single).len(), 0, "it may come still");
        single.turn_after(60_000_000);
        single.stack.expire_fragments();
        single.turn();
        let all = messages(&mut single);
        assert_eq!(all.len(), reported);
        for (message, _) in all {
            assert_eq!(message, Icmpv4::TimeExceeded { code: 1 });
        }
    }
}

/// A datagram may have no sum (RFC 768), and a wrong one is one.
#[test]
fn sums_are_checked_where_there_are_any() {
    for (sum, taken) in [([0, 0], true), ([1, 2], false)] {
        let mut single = single();
        let socket = single.bind(SocketKind::Datagram, 90);
        single.turn();
        single.discard_completions();
        let mut bytes = vec![0, 9, 0, 90, 0, 12, 0, 0];
        bytes[6..8].copy_from_slice(&sum);
        bytes.extend(b"four");
        comes(&mut single, SERVER, protocol::UDP, &bytes);
        assert_eq!(single.told_of(socket).is_some(), taken);
        let bad = EngineDrop::BadTransportChecksum.name();
        assert_eq!(single.dropped(bad), u64::from(!taken));
    }
}

/// What is for DHCP clients is for us only while we are one.
#[test]
fn what_is_for_other_clients_of_dhcp_is_not_for_us() {
    let mut single = single();
    let datagram = [&[0, 67, 0, 68, 0, 8, 0, 0][..]].concat();
    comes(&mut single, OTHER, protocol::UDP, &datagram);
    assert_eq!(messages(&mut single), []);
    assert_eq!(single.dropped(DropReason::NotForUs.name()), 1);
}

/// RFC 1122 section 3.3.2: what comes too late is not put together with what came before, though nobody has
/// looked for that meanwhile.
#[test]
fn a_fragment_that_is_late_is_of_no_packet() {
    for (late_us, is_whole) in [(1_000_000, true), (61_000_000, false)] {
        let mut single = single();
        let socket = single.bind(SocketKind::Datagram, 90);
        single.turn();
        single.discard_completions();
        let datagram = [&[0, 9, 0, 90, 0, 24, 0, 0][..], &[7; 16]].concat();
        single.frame_in(&fragment(0, &datagram[..16], true));
        single.turn_after(late_us);
        single.frame_in(&fragment(16, &datagram[16..], false));
        single.turn();
        assert_eq!(single.told_of(socket).is_some(), is_whole, "{late_us}");
        let expected = Icmpv4::TimeExceeded { code: 1 };
        let reported = messages(&mut single);
        let is_reported = reported.iter().any(|(message, _)| *message == expected);
        assert_eq!(is_reported, !is_whole);
    }
}
