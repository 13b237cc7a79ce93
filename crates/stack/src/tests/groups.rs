//! Groups that programs join: who gets what is sent to one, what routers are told and answer, and
//! what comes back to the engine's own.

use super::off_path::GEOMETRY;
use super::single::{CLIENT, Single};
use super::streams::copy_out;
use crate::counters::EngineDrop;
use longshore_hostif::{
    Completion, DATAGRAM_HEADER, DatagramRecord, Edges, Geometry, OptionName, Request, SocketId,
    SocketKind, loopback_place,
};
use longshore_testbed::packets::{HOPS, ipv4};
use longshore_wire::ipv4::{HEADER_LEN, protocol};
use std::net::{Ipv4Addr, SocketAddr};

pub(super) const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 2, 3);
const OTHER: Ipv4Addr = Ipv4Addr::new(239, 9, 9, 9);
const PORT: u16 = 90;
/// A report of IGMPv3, and what it says of a group.
const REPORT_V3: u8 = 0x22;
const REPORT_V2: u8 = 0x16;
const TO_EXCLUDE: u8 = 4;
const TO_INCLUDE: u8 = 3;
const IS_EXCLUDE: u8 = 2;

/// Joins a group or leaves it; an errno.
pub(super) fn change(single: &mut Single, socket: SocketId, group: Ipv4Addr, join: bool) -> u16 {
    single.discard_completions();
    single.ask(
        0,
        &Request::Group {
            socket,
            tag: 1,
            waiter: None,
            group: SocketAddr::new(group.into(), 0).into(),
            join,
        },
    );
    single.turn();
    single.answer().expect("an answer")
}

/// A socket at [`PORT`] of any address, which several share.
pub(super) fn member(single: &mut Single) -> SocketId {
    let socket = single.open(SocketKind::Datagram);
    single.set(socket, OptionName::ReuseAddress, 1);
    let any = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), PORT);
    single.ask(
        0,
        &Request::Bind {
            socket,
            tag: 1,
            waiter: None,
            local: any.into(),
        },
    );
    single.turn();
    socket
}

/// A datagram of the peer to this address; which of the sockets were told of it.
fn comes(single: &mut Single, to: Ipv4Addr, sockets: &[SocketId]) -> Vec<bool> {
    comes_from(single, (CLIENT, to), sockets)
}

/// As `comes`, of a datagram between these.
pub(super) fn comes_from(
    single: &mut Single,
    between: (Ipv4Addr, Ipv4Addr),
    sockets: &[SocketId],
) -> Vec<bool> {
    single.discard_completions();
    let datagram = [&[0, 9, 0, PORT as u8, 0, 10, 0, 0], b"hi".as_slice()].concat();
    single.frame_in(&ipv4(between, protocol::UDP, HOPS, &datagram));
    single.turn();
    reached(single, sockets)
}

fn reached(single: &mut Single, sockets: &[SocketId]) -> Vec<bool> {
    let reported = single.reported();
    let is_reported = |socket: &SocketId| {
        reported.iter().any(|completion| {
            matches!(completion, Completion::Edges { socket: id, edges: Edges { rcv_edge: 1.., .. } } if id == socket)
        })
    };
    sockets.iter().map(is_reported).collect()
}

/// The IGMP messages that were sent: the kind, what is said, and the group.
fn reports(single: &mut Single) -> Vec<(u8, Option<u8>, Ipv4Addr)> {
    let packets = single.packets().into_iter();
    packets
        .filter(|packet| packet[9] == protocol::IGMP)
        .map(|packet| {
            let igmp = &packet[4 * usize::from(packet[0] & 15)..];
            let group = |at: usize| {
                let octets: [u8; 4] = igmp[at..at + 4].try_into().unwrap();
                Ipv4Addr::from(octets)
            };
            if igmp[0] == REPORT_V3 {
                (REPORT_V3, Some(igmp[8]), group(12))
            } else {
                (igmp[0], None, group(4))
            }
        })
        .collect()
}

#[test]
fn members_of_a_group_get_what_is_sent_to_it() {
    let mut single = Single::new(GEOMETRY, 1);
    let sockets = [member(&mut single), member(&mut single)];
    assert_eq!(comes(&mut single, GROUP, &sockets), [false, false]);
    assert_eq!(change(&mut single, sockets[0], GROUP, true), 0);
    // As on Linux, the others of the host get it too, unless they do not want that.
    assert_eq!(comes(&mut single, GROUP, &sockets), [true, true]);
    single.set(sockets[1], OptionName::GroupAll, 0);
    assert_eq!(comes(&mut single, GROUP, &sockets), [true, false]);
    assert_eq!(comes(&mut single, OTHER, &sockets), [false, false]);
    assert_eq!(change(&mut single, sockets[1], GROUP, true), 0);
    assert_eq!(comes(&mut single, GROUP, &sockets), [true, true]);
    // One leaves, one is closed: then there is none.
    assert_eq!(change(&mut single, sockets[0], GROUP, false), 0);
    single.set(sockets[0], OptionName::GroupAll, 0);
    assert_eq!(comes(&mut single, GROUP, &sockets), [false, true]);
    single.close(sockets[1]);
    single.turn();
    assert_eq!(comes(&mut single, GROUP, &sockets), [false, false]);
    // Everybody gets what is for everybody.
    let all = [10, 0, 0, 255].into();
    assert_eq!(comes(&mut single, all, &sockets[..1]), [true]);
    // One with a peer hears that alone.
    single.ask(
        0,
        &Request::Connect {
            socket: sockets[0],
            tag: 1,
            waiter: None,
            peer: SocketAddr::new(CLIENT.into(), 10).into(),
        },
    );
    assert_eq!(comes(&mut single, all, &sockets[..1]), [false]);
    assert!(single.dropped(EngineDrop::NoUdpSocket.name()) > 0);
}

/// More sockets may have a port than are looked at for each datagram.
#[test]
fn as_many_as_one_turn_can_serve_get_what_is_for_everybody() {
    const LOOKED_AT: usize = 4_096;
    let geometry = Geometry {
        sockets: 2 * LOOKED_AT as u32,
        ..GEOMETRY
    };
    let mut single = Single::new(geometry, 1);
    let count = |single: &Single| single.dropped(EngineDrop::GroupReceivers.name());
    let all = [10, 0, 0, 255].into();
    for _ in 0..LOOKED_AT {
        member(&mut single);
    }
    comes(&mut single, all, &[]);
    assert_eq!(count(&single), 0);
    member(&mut single);
    comes(&mut single, all, &[]);
    assert_eq!(count(&single), 1);
}

/// The errors of IP_ADD_MEMBERSHIP and IP_DROP_MEMBERSHIP, and how many groups a socket has.
#[test]
fn a_group_is_joined_once_and_left_once() {
    let mut single = Single::new(GEOMETRY, 1);
    let socket = member(&mut single);
    assert_eq!(change(&mut single, socket, GROUP, false), 99);
    assert_eq!(change(&mut single, socket, GROUP, true), 0);
    assert_eq!(change(&mut single, socket, GROUP, true), 98);
    assert_eq!(change(&mut single, socket, GROUP, false), 0);
    assert_eq!(change(&mut single, socket, [10, 0, 0, 2].into(), true), 22);
    for number in 0..20 {
        assert_eq!(
            change(&mut single, socket, [239, 0, 0, number].into(), true),
            0
        );
    }
    assert_eq!(change(&mut single, socket, GROUP, true), 105);
    assert_eq!(change(&mut single, socket, [239, 0, 0, 7].into(), false), 0);
    assert_eq!(change(&mut single, socket, GROUP, true), 0);
    // A stream has none.
    let stream = single.open(SocketKind::Stream);
    assert_eq!(change(&mut single, stream, GROUP, true), 22);
    // One that was not bound is a datagram socket by that, and may be bound still.
    let early = single.open(SocketKind::Datagram);
    assert_eq!(change(&mut single, early, GROUP, true), 0);
    single.bind_to(early, 91);
    single.turn();
    assert_eq!(single.answer(), Some(0));
}

/// Routers are told of a group when it is joined and when it is left, and when they ask; in the
/// version in which they did (RFC 3376 sections 5 and 7).
#[test]
fn routers_are_told_of_groups() {
    let mut single = Single::new(GEOMETRY, 1);
    let socket = member(&mut single);
    single.packets();
    change(&mut single, socket, GROUP, true);
    let mut reported = Vec::new();
    for _ in 0..200 {
        single.turn_after(100_000);
        reported.extend(reports(&mut single));
    }
    assert!(!reported.is_empty());
    assert!(
        reported
            .iter()
            .all(|report| *report == (REPORT_V3, Some(TO_EXCLUDE), GROUP)),
        "{reported:?}"
    );
    // A query of all groups, and of another one.
    let query = |group: Ipv4Addr, version_2: bool| {
        let mut igmp = vec![0x11, 10, 0, 0];
        igmp.extend(group.octets());
        if !version_2 {
            igmp.extend([2, 125, 0, 0]);
        }
        let sum = longshore_wire::checksum::Partial::of(&igmp).finish();
        igmp[2..4].copy_from_slice(&sum.to_be_bytes());
        igmp
    };
    let asked = |single: &mut Single, group: Ipv4Addr, ttl: u8, version_2: bool| {
        let to = if group.is_unspecified() {
            [224, 0, 0, 1].into()
        } else {
            group
        };
        let packet = ipv4((CLIENT, to), protocol::IGMP, ttl, &query(group, version_2));
        single.frame_in(&packet);
        let mut reported = Vec::new();
        for _ in 0..30 {
            single.turn_after(100_000);
            reported.extend(reports(single));
        }
        reported
    };
    let all = Ipv4Addr::UNSPECIFIED;
    let is = (REPORT_V3, Some(IS_EXCLUDE), GROUP);
    assert_eq!(asked(&mut single, all, 1, false), [is]);
    assert_eq!(asked(&mut single, GROUP, 1, false), [is]);
    assert_eq!(asked(&mut single, OTHER, 1, false), []);
    assert_eq!(
        asked(&mut single, all, 2, false),
        [],
        "it came over a router"
    );
    let older = (REPORT_V2, None, GROUP);
    assert_eq!(asked(&mut single, all, 1, true), [older]);
    assert_eq!(asked(&mut single, all, 1, false), [older], "for a while");
    single.turn_after(261_000_000);
    reports(&mut single);
    assert_eq!(asked(&mut single, all, 1, false), [is]);
    change(&mut single, socket, GROUP, false);
    let mut reported = Vec::new();
    for _ in 0..200 {
        single.turn_after(100_000);
        reported.extend(reports(&mut single));
    }
    assert!(
        reported.contains(&(REPORT_V3, Some(TO_INCLUDE), GROUP)),
        "{reported:?}"
    );
    assert_eq!(asked(&mut single, all, 1, false), []);
}

/// RFC 3376 section 7.2.1: of the versions in which routers have asked lately the oldest is spoken, as
/// long as one has that asks in it, and some time after.
#[test]
fn the_oldest_version_of_a_router_is_spoken() {
    const LATELY: u64 = 260;
    const REPORT_V1: u8 = 0x12;
    let mut single = Single::new(GEOMETRY, 1);
    let socket = member(&mut single);
    change(&mut single, socket, GROUP, true);
    for _ in 0..30 {
        single.turn_after(1_000_000);
    }
    reports(&mut single);
    // Seconds after the last, the version that is asked in, and that which is spoken.
    let steps = [
        (0, 3, REPORT_V3),
        (1, 2, REPORT_V2),
        (200, 3, REPORT_V2),
        (1, 2, REPORT_V2),
        (200, 3, REPORT_V2),
        (1, 1, REPORT_V1),
        (1, 2, REPORT_V1),
        (200, 1, REPORT_V1),
        (200, 3, REPORT_V1),
        (LATELY, 2, REPORT_V2),
        (LATELY + 10, 3, REPORT_V3),
    ];
    for (step, (seconds, version, spoken)) in steps.into_iter().enumerate() {
        single.turn_after(seconds * 1_000_000);
        reports(&mut single);
        let mut igmp = vec![0x11, if version == 1 { 0 } else { 10 }, 0, 0, 0, 0, 0, 0];
        if version == 3 {
            igmp.extend([2, 125, 0, 0]);
        }
        let sum = longshore_wire::checksum::Partial::of(&igmp).finish();
        igmp[2..4].copy_from_slice(&sum.to_be_bytes());
        let to = [224, 0, 0, 1].into();
        single.frame_in(&ipv4((CLIENT, to), protocol::IGMP, 1, &igmp));
        let mut kinds = Vec::new();
        for _ in 0..110 {
            single.turn_after(100_000);
            kinds.extend(reports(&mut single).into_iter().map(|(kind, ..)| kind));
        }
        assert_eq!(kinds, [spoken], "{step}");
    }
}

/// What a socket sends to a group comes back to the engine's own members, unless it says not, and
/// goes out all the same; so does what is for everybody.
#[test]
fn what_is_sent_to_a_group_comes_back() {
    let mut single = Single::new(GEOMETRY, 1);
    let sockets = [member(&mut single)];
    change(&mut single, sockets[0], GROUP, true);
    let sender = single.bind(SocketKind::Datagram, 91);
    single.turn();
    let mut written = 0;
    let mut sends = |single: &mut Single, to: Ipv4Addr, looped: bool| {
        single.discard_completions();
        single.packets();
        let mut record = DatagramRecord::new(2, SocketAddr::new(to.into(), PORT).into());
        record.looped = looped;
        let mut bytes = record.encode().to_vec();
        bytes.extend(b"hi");
        bytes.resize(record.span() as usize, 0);
        written = single.write(sender, written, &bytes);
        single.turn();
        single.stack.take_own_packets();
        single.turn();
        let out = single.packets();
        let is_out = out.iter().any(|packet| packet[16..20] == to.octets());
        assert!(out.iter().all(|packet| packet.len() > HEADER_LEN));
        (is_out, reached(single, &sockets)[0])
    };
    assert_eq!(sends(&mut single, GROUP, true), (true, true));
    assert_eq!(sends(&mut single, GROUP, false), (true, false));
    assert_eq!(sends(&mut single, OTHER, true), (true, false));
    assert_eq!(
        sends(&mut single, [10, 0, 0, 255].into(), false),
        (true, true)
    );
}

/// What is sent to a group from the loopback's address comes to members, of which each is told that it
/// came there, and does not leave the host (RFC 1122 section 3.2.1.3 g).
#[test]
fn what_is_sent_to_a_group_on_the_loopback_stays() {
    let mut single = Single::with_loopback(&["10.0.0.1/24"], GEOMETRY);
    let socket = member(&mut single);
    change(&mut single, socket, GROUP, true);
    let sender = single.bind(SocketKind::Datagram, 91);
    single.turn();
    single.packets();
    single.discard_completions();
    let own = loopback_place(Ipv4Addr::LOCALHOST.into()).expect("it has a place");
    let record = DatagramRecord {
        own,
        looped: true,
        ..DatagramRecord::new(2, SocketAddr::new(GROUP.into(), PORT).into())
    };
    let mut bytes = record.encode().to_vec();
    bytes.extend(b"hi");
    bytes.resize(record.span() as usize, 0);
    single.write(sender, 0, &bytes);
    single.turn();
    single.stack.take_own_packets();
    single.turn();
    assert!(single.packets().is_empty());
    assert_eq!(reached(&mut single, &[socket]), [true]);
    let mut header = [0; DATAGRAM_HEADER];
    copy_out(&single.arena, socket.index, 0, &mut header);
    let record = DatagramRecord::decode(&header);
    assert!(record.to_group && record.own == own);
    let from = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 91);
    assert_eq!(record.peer.get(), Some(from));
}
