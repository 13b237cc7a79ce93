//! Groups that programs join on a link with others (IGMP, RFC 3376, and MLD, RFC 3810): which routers
//! hear of, from whom, and what the port lets through.

use super::filtering::{Filter, Filtering};
use super::off_path::GEOMETRY;
use super::single::Single;
use crate::counters::EngineDrop;
use crate::link::automatic::Automatic;
use longshore_frames::TxFrame;
use longshore_hostif::{
    Address, BlockFlags, Completion, DATAGRAM_HEADER, DatagramRecord, Edges, Features, Numbered,
    OpenFlags, OptionName, Request, SocketId, SocketKind, SocketState, SourceRequest,
};
use longshore_ports::memory::{MemoryConfig, pair};
use longshore_testbed::packets;
use longshore_wire::checksum::Partial;
use longshore_wire::icmpv6::mld;
use longshore_wire::ipv4::protocol;
use longshore_wire::ipv6::{HEADER_LEN, Ipv6Header, next_header};
use longshore_wire::membership::Record;
use std::net::{Ipv6Addr, SocketAddr};

const PEER: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);
const OTHER: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 3);
const ROUTER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 9);
const GROUP: Ipv6Addr = Ipv6Addr::new(0xff15, 0, 0, 0, 0, 0, 0, 7);
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const PORT: u16 = 90;
/// The link's header of packets of IPv6 to a group.
const ETHERNET: [u8; 14] = [0x33, 0x33, 0, 0, 0, 7, 2, 0, 0, 0, 0, 9, 0x86, 0xdd];
/// Behind its hop-by-hop options, of 8 bytes, a report has its records after as many again.
const REPORT_AT: usize = 8;
const REPORT: u8 = 143;

/// What is said of a group: the record, the group, its sources.
type Told = (u8, Ipv6Addr, Vec<Ipv6Addr>);

/// A stack whose addresses are its own, and what its port lets through.
fn single() -> (Single, Filter) {
    let wire = MemoryConfig {
        offloads: false,
        depth: 10_000,
        ..MemoryConfig::default()
    };
    let (port, wire) = pair(&wire);
    let (port, filter) = Filtering::new(port);
    let automatic = Automatic::default();
    let ends = (Box::new(port) as _, wire);
    let addresses: (&[&str], _) = (&["10.0.0.1/24", "fd00::1/64"], &automatic);
    let mut single = Single::finding_out(ends, addresses, false, GEOMETRY, 1, Features::empty());
    told(&mut single);
    (single, filter)
}

/// A socket at [`PORT`] of any address, which several share.
fn member(single: &mut Single) -> SocketId {
    let free = &single.arena.header().free_sockets;
    let index = free.pop(single.arena.socket_links()).unwrap().unwrap();
    let block = single.arena.block(index);
    let generation = block.begin(SocketState::Open, BlockFlags::IPV6);
    let socket = SocketId { index, generation };
    let (kind, flags) = (SocketKind::Datagram, OpenFlags::IPV6);
    single.ask(
        0,
        &Request::Open {
            socket,
            kind,
            flags,
        },
    );
    single.set(socket, OptionName::ReuseAddress, 1);
    let (tag, waiter) = (1, None);
    let local = named(Ipv6Addr::UNSPECIFIED, PORT);
    single.ask(
        0,
        &Request::Bind {
            socket,
            tag,
            waiter,
            local,
        },
    );
    single.turn();
    socket
}

fn named(ip: Ipv6Addr, port: u16) -> Address {
    SocketAddr::new(ip.into(), port).into()
}

fn change(single: &mut Single, socket: SocketId, group: Ipv6Addr, join: bool) {
    single.discard_completions();
    let (tag, waiter, group) = (1, None, named(group, 0));
    single.ask(
        0,
        &Request::Group {
            socket,
            tag,
            waiter,
            group,
            join,
        },
    );
    single.turn();
    assert_eq!(single.answer(), Some(0));
}

/// As `change`, of one source of [`GROUP`].
fn change_source(single: &mut Single, socket: SocketId, source: Ipv6Addr, change: SourceRequest) {
    single.discard_completions();
    let group = Numbered::new(GROUP.into(), 0);
    let source = Numbered::new(source.into(), 0);
    let (tag, waiter) = (1, None);
    single.ask(
        0,
        &Request::Sources {
            socket,
            tag,
            waiter,
            group,
            source,
            change,
        },
    );
    single.turn();
    assert_eq!(single.answer(), Some(0));
}

/// What routers are told within five seconds, each as often as it is, and of our address on the link
/// by all of it.
fn told(single: &mut Single) -> Vec<Told> {
    let mut all = Vec::new();
    each_told(single, |single, ip, records| {
        assert_eq!(ip.destination, mld::ROUTERS);
        assert_eq!(records[0], REPORT);
        if records[7] != 1 {
            return;
        }
        let of_link = single.stack.link().addresses.link_local();
        let group = address(&records[12..28]);
        let sources: Vec<_> = records[28..].chunks(16).map(address).collect();
        assert_eq!(usize::from(records[11]), sources.len());
        if ip.source != Ipv6Addr::UNSPECIFIED {
            assert_eq!(Some(ip.source), of_link);
        }
        all.push((records[8], group, sources));
    });
    all
}

/// Each message about groups that leaves within five seconds, with its header of IPv6: it goes to
/// the stations of its destination, and no further.
fn each_told(single: &mut Single, mut is_told: impl FnMut(&Single, Ipv6Header, &[u8])) {
    for _ in 0..50 {
        single.turn_after(100_000);
        for frame in single.packets() {
            if frame[12..14] != ETHERNET[12..] {
                continue;
            }
            let (ip, range) = Ipv6Header::parse(&frame[14..]).expect("a packet of IPv6");
            let message = &frame[14..][range];
            if ip.next_header != next_header::HOP_BY_HOP {
                continue;
            }
            assert_eq!(ip.hop_limit, 1);
            let to = ip.destination.octets();
            assert_eq!(frame[..6], [&[0x33, 0x33], &to[12..]].concat());
            is_told(single, ip, &message[REPORT_AT..]);
        }
    }
}

/// The first record of a socket.
fn record_of(single: &Single, socket: SocketId) -> DatagramRecord {
    let mut record = [0; DATAGRAM_HEADER];
    super::streams::copy_out(&single.arena, socket.index, 0, &mut record);
    DatagramRecord::decode(&record)
}

fn address(bytes: &[u8]) -> Ipv6Addr {
    let bytes: [u8; 16] = bytes.try_into().unwrap();
    bytes.into()
}

/// A router asks for all groups.
fn is_asked(single: &mut Single) {
    is_asked_in(single, mld::Version::V2);
}

/// As `is_asked`, in this version.
fn is_asked_in(single: &mut Single, version: mld::Version) {
    use longshore_wire::icmpv6::Icmpv6;
    let message = Icmpv6::MulticastQuery {
        max_response: 1_000,
        group: Ipv6Addr::UNSPECIFIED,
    };
    // What version 2 has behind the group names no sources.
    let more = match version {
        mld::Version::V1 => 0,
        mld::Version::V2 => 4,
    };
    let mut bytes = vec![0; message.header_len() + more];
    message.emit(ROUTER, ALL_NODES, &mut bytes);
    let mut header = [0; HEADER_LEN];
    let ip = Ipv6Header {
        traffic_class: 0,
        flow_label: 0,
        payload_len: bytes.len() as u16,
        next_header: next_header::ICMPV6,
        hop_limit: 1,
        source: ROUTER,
        destination: ALL_NODES,
    };
    ip.emit(&mut header);
    single.frame_in(&[&ETHERNET[..], &header, &bytes].concat());
    single.turn();
}

/// What routers that speak MLDv1 are told of [`GROUP`] within five seconds, each as often as it is:
/// the type of the message and where it goes. There is no report of version 2 among it.
fn older_told(single: &mut Single) -> Vec<(u8, Ipv6Addr)> {
    let mut all = Vec::new();
    each_told(single, |_, ip, older| {
        assert_ne!(older[0], REPORT);
        if address(&older[8..]) == GROUP {
            all.push((older[0], ip.destination));
        }
    });
    all
}

/// RFC 3810 section 8.2.1: to a router that has asked in version 1 nothing else is spoken, until it has
/// not asked for 260 s.
#[test]
fn older_routers_are_told_of_groups_alone() {
    const MEMBER: (u8, Ipv6Addr) = (131, GROUP);
    const DONE: (u8, Ipv6Addr) = (132, longshore_wire::ipv6::ALL_ROUTERS);
    let (mut single, _) = single();
    let socket = member(&mut single);
    is_asked_in(&mut single, mld::Version::V1);
    older_told(&mut single);
    change(&mut single, socket, GROUP, true);
    assert_eq!(older_told(&mut single), [MEMBER; 2]);
    // One of version 2 beside it changes nothing.
    is_asked(&mut single);
    assert_eq!(older_told(&mut single), [MEMBER]);
    change_source(&mut single, socket, PEER, SourceRequest::Block);
    assert_eq!(older_told(&mut single), []);
    change(&mut single, socket, GROUP, false);
    assert_eq!(older_told(&mut single), [DONE; 2]);
    single.turn_after(260_000_000);
    change(&mut single, socket, GROUP, true);
    let all = told(&mut single);
    let joined = (Record::ToExclude as u8, GROUP, vec![]);
    assert!(
        !all.is_empty() && all.iter().all(|t| *t == joined),
        "{all:?}"
    );
}

/// RFC 3810 section 6: routers hear of the groups that leave their hosts, but of that of all nodes,
/// as they are joined, when they ask, and as they are left.
#[test]
fn routers_are_told_of_groups_beyond_this_host() {
    let cases = [
        ("ff00::7", false),
        ("ff01::7", false),
        ("ff11::7", false),
        ("ff02::1", false),
        ("ff02::7", true),
        ("ff12::7", true),
        ("ff03::7", true),
        ("ff05::7", true),
        ("ff3e::7", true),
        ("ff1e::1", true),
    ];
    for (group, is_told) in cases {
        let (mut single, _) = single();
        let group: Ipv6Addr = group.parse().unwrap();
        let socket = member(&mut single);
        let of_group = |single: &mut Single| {
            let told = told(single).into_iter();
            let mut of: Vec<_> = told.filter(|(_, of, _)| *of == group).collect();
            of.dedup();
            of
        };
        let expected = |record: Record| match is_told {
            true => vec![(record as u8, group, vec![])],
            false => vec![],
        };
        change(&mut single, socket, group, true);
        assert_eq!(
            of_group(&mut single),
            expected(Record::ToExclude),
            "{group}"
        );
        assert_eq!(of_group(&mut single), [], "{group}");
        is_asked(&mut single);
        assert_eq!(
            of_group(&mut single),
            expected(Record::IsExclude),
            "{group}"
        );
        change(&mut single, socket, group, false);
        assert_eq!(
            of_group(&mut single),
            expected(Record::ToInclude),
            "{group}"
        );
        is_asked(&mut single);
        assert_eq!(of_group(&mut single), [], "{group}");
    }
}

/// RFC 3810 section 4.2.3, RFC 4604: a member of some sources alone gets what they send, and routers
/// hear of them; so do others of the host that want to get what it receives (IPV6_MULTICAST_ALL).
#[test]
fn a_member_gets_what_its_sources_send() {
    let (mut single, _) = single();
    let sockets = [member(&mut single), member(&mut single)];
    let gets = |single: &mut Single, source: Ipv6Addr| {
        single.discard_completions();
        let mut datagram = [&[0, 9, 0, PORT as u8, 0, 10, 0, 0], b"hi".as_slice()].concat();
        let pseudo = Partial::of_pseudo(source.into(), GROUP.into(), protocol::UDP, 10);
        let sum = pseudo.unwrap().plus(Partial::of(&datagram)).finish();
        datagram[6..8].copy_from_slice(&sum.to_be_bytes());
        let packet = packets::packet((source.into(), GROUP.into()), protocol::UDP, &datagram);
        single.frame_in(&[&ETHERNET[..], &packet].concat());
        single.turn();
        let reported = single.reported();
        sockets.map(|socket| {
            reported.iter().any(|completion| {
                matches!(completion, Completion::Edges { socket: id, edges: Edges { rcv_edge: 1.., .. } } if *id == socket)
            })
        })
    };
    assert_eq!(gets(&mut single, PEER), [false; 2]);
    change_source(&mut single, sockets[0], PEER, SourceRequest::Join);
    let allow = (Record::Allow as u8, GROUP, vec![PEER]);
    let all = told(&mut single);
    assert!(
        !all.is_empty() && all.iter().all(|told| *told == allow),
        "{all:?}"
    );
    assert_eq!(gets(&mut single, OTHER), [false; 2]);
    assert_eq!(gets(&mut single, PEER), [true; 2]);
    // The record names the address of ours that an answer would come from.
    let own = sockets.map(|socket| record_of(&single, socket).own);
    assert_eq!(own, [2; 2]);
    change_source(&mut single, sockets[0], PEER, SourceRequest::Leave);
    let block = (Record::Block as u8, GROUP, vec![PEER]);
    let all = told(&mut single);
    assert!(
        !all.is_empty() && all.iter().all(|told| *told == block),
        "{all:?}"
    );
    assert_eq!(gets(&mut single, PEER), [false; 2]);
}

/// The port lets a group through from when its first member joins until its last leaves, of either
/// version.
#[test]
fn the_port_is_told_of_groups() {
    let (mut single, filter) = single();
    let sockets = [member(&mut single), member(&mut single)];
    assert_eq!(filter.groups(), [GROUP; 0]);
    for socket in sockets {
        change(&mut single, socket, GROUP, true);
        assert_eq!(filter.groups(), [GROUP]);
    }
    change(&mut single, sockets[0], GROUP, false);
    assert_eq!(filter.groups(), [GROUP]);
    single.close(sockets[1]);
    single.turn();
    assert_eq!(filter.groups(), [GROUP; 0]);
}

/// What is sent to a group comes back to the engine's own if one of these is a member, and the sender
/// has not said that it should not (IPV6_MULTICAST_LOOP).
#[test]
fn what_is_sent_to_a_group_comes_back_to_members() {
    for (is_member, looped) in [(true, true), (true, false), (false, true), (false, false)] {
        let (mut single, _) = single();
        let socket = member(&mut single);
        if is_member {
            change(&mut single, socket, GROUP, true);
        }
        let mut record = DatagramRecord::new(2, named(GROUP, PORT));
        record.looped = looped;
        let mut bytes = record.encode().to_vec();
        bytes.extend(b"hi");
        bytes.resize(record.span() as usize, 0);
        single.packets();
        single.write(socket, 0, &bytes);
        single.turn();
        let came = single.stack.take_own_packets();
        assert_eq!(
            came,
            usize::from(is_member && looped),
            "{is_member} {looped}"
        );
        let is_out = |frame: &Vec<u8>| frame[..6] == ETHERNET[..6] && frame[20] == protocol::UDP;
        assert!(single.packets().iter().any(is_out));
    }
}

/// RFC 1112 section 6.4, RFC 3376 section 4.2.14: reports of IPv4 go in frames to the group of routers;
/// one that the port does not take is counted.
#[test]
fn reports_of_ipv4_go_to_the_group_of_routers() {
    let (mut single, _) = single();
    let socket = member(&mut single);
    let join = |single: &mut Single, last: u8| {
        let group = SocketAddr::new([239, 1, 2, last].into(), 0);
        let (tag, waiter, group) = (1, None, group.into());
        single.ask(
            0,
            &Request::Group {
                socket,
                tag,
                waiter,
                group,
                join: true,
            },
        );
        single.turn_after(3_000_000);
    };
    single.packets();
    join(&mut single, 3);
    let mac = single.stack.link().output.device.mac().0;
    let header = [&[1, 0, 0x5e, 0, 0, 22], &mac[..], &[8, 0]].concat();
    let frames = single.packets();
    let reports: Vec<_> = frames.iter().filter(|frame| frame[23] == 2).collect();
    assert!(!reports.is_empty());
    assert!(reports.iter().all(|frame| frame[..14] == header));
    assert_eq!(single.dropped(EngineDrop::PortRefused.name()), 0);
    // The other end of the wire takes no more.
    for _ in 0..10_000 {
        let Ok(()) = single.stack.port_mut().send(&TxFrame::whole(&[0; 60])) else {
            break;
        };
    }
    join(&mut single, 4);
    assert!(single.dropped(EngineDrop::PortRefused.name()) > 0);
}
