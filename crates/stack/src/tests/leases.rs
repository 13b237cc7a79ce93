//! An address of IPv4 that a DHCP server gives to a stack (RFC 2131): when it is its own, where it
//! leads, and what the server, the link and the port are told of it.

use super::filtering::{Filter, Filtering};
use super::off_path::GEOMETRY;
use super::single::Single;
use crate::MissingAddress;
use crate::counters::EngineDrop;
use crate::link::automatic::Automatic;
use crate::testing::dhcp_server::{
    DECLINE, DISCOVER, DhcpServer, GIVEN, LEASE_S, OWN, RELEASE, REQUEST, framed, kind_of,
};
use longshore_hostif::{Features, HostSession};
use longshore_net::DropReason;
use longshore_ports::memory::{MemoryConfig, pair};
use longshore_testbed::packets;
use longshore_wire::MacAddr;
use longshore_wire::arp::{ArpPacket, Operation, PACKET_LEN};
use longshore_wire::ethernet::{self, EtherType, EthernetHeader};
use longshore_wire::ipv4::protocol;
use std::net::{IpAddr, Ipv4Addr};

const SERVER_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);
const NEAR: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 77);
const FAR: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 9);
/// A turn comes so often, in microseconds.
const TURN: u64 = 100_000;
/// By then an address is asked for, probed and announced, and nothing of it is due before it is
/// to be renewed; in seconds.
const SETTLED: u64 = 4;

/// A stack that asks for its address, with what answers it.
struct Client {
    single: Single,
    filter: Filter,
    server: DhcpServer,
    /// The server answers.
    serves: bool,
    /// The server's host answers ARP.
    resolves: bool,
}

/// A frame that concerns an address, and where it was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sent {
    Dhcp(u8, MacAddr),
    Arp(ArpPacket, MacAddr),
}

impl Client {
    fn new(depth: usize) -> Self {
        let wire = MemoryConfig {
            offloads: false,
            depth,
            ..MemoryConfig::default()
        };
        let (port, wire) = pair(&wire);
        let (port, filter) = Filtering::new(port);
        let automatic = Automatic {
            dhcp: Some(b"\xff lease".to_vec()),
            routers: None,
        };
        let ends = (Box::new(port) as _, wire);
        let addresses: (&[&str], _) = (&[], &automatic);
        Self {
            single: Single::finding_out(ends, addresses, false, GEOMETRY, 1, Features::empty()),
            filter,
            server: DhcpServer::default(),
            serves: true,
            resolves: true,
        }
    }

    /// With these options of the server, after its address is settled.
    fn settled(options: &[u8]) -> Self {
        let mut client = Self::new(10_000);
        client.server.options = options.to_vec();
        client.runs(SETTLED);
        assert!(client.has_address());
        client
    }

    /// So many seconds pass; what was sent in them.
    fn runs(&mut self, seconds: u64) -> Vec<Sent> {
        let mut all = Vec::new();
        for _ in 0..seconds * 1_000_000 / TURN {
            self.single.turn_after(TURN);
            for frame in self.single.packets() {
                all.extend(sent_of(&frame));
                self.answers(&frame);
            }
        }
        all
    }

    fn answers(&mut self, frame: &[u8]) {
        let answer = self.server.answer(frame, SERVER_MAC);
        if let Some(answer) = answer.filter(|_| self.serves) {
            self.single.frame_in(&answer);
        }
        match sent_of(frame) {
            Some(Sent::Arp(asked, _)) if asked.target_ip == OWN && self.resolves => {
                self.has(OWN, asked.sender_mac);
            }
            _ => {}
        }
    }

    /// Another host says that it has this address.
    fn has(&mut self, ip: Ipv4Addr, to: MacAddr) {
        let packet = ArpPacket {
            operation: Operation::Reply,
            sender_mac: SERVER_MAC,
            sender_ip: ip,
            target_mac: to,
            target_ip: GIVEN,
        };
        let mut frame = [0; ethernet::HEADER_LEN + PACKET_LEN];
        let header = EthernetHeader {
            destination: MacAddr::BROADCAST,
            source: SERVER_MAC,
            ether_type: EtherType::Arp,
        };
        header.emit(&mut frame);
        packet.emit(&mut frame[ethernet::HEADER_LEN..]);
        self.single.frame_in(&frame);
    }

    /// Whether the address is the stack's; what is missing says the same, and so do the routes
    /// of programs.
    fn has_address(&self) -> bool {
        let status = self.single.stack.status();
        let has = status.is_local(GIVEN.into());
        let missing = (!has).then_some(MissingAddress::Dhcp);
        assert_eq!(status.missing_addresses(), missing);
        assert_eq!(self.has_way(NEAR), has);
        has
    }

    /// Whether programs are told that the engine has a way to this address.
    fn has_way(&self, to: Ipv4Addr) -> bool {
        let host = HostSession::of(&self.single.arena);
        host.routes().iter().any(|route| route.contains(to.into()))
    }

    /// Whom packets to this address are given to.
    fn next_hop(&self, to: Ipv4Addr) -> Option<IpAddr> {
        let routes = self.single.stack.link().output.hops.routes();
        routes.lookup(to.into()).map(|hop| hop.next_hop)
    }
}

fn sent_of(frame: &[u8]) -> Option<Sent> {
    let header = EthernetHeader::parse(frame).unwrap();
    if header.ether_type == EtherType::Arp {
        let packet = ArpPacket::parse(&frame[ethernet::HEADER_LEN..]).unwrap();
        return Some(Sent::Arp(packet, header.destination));
    }
    kind_of(frame).map(|kind| Sent::Dhcp(kind, header.destination))
}

/// The DHCP messages to everybody among what was sent.
fn kinds(sent: &[Sent]) -> Vec<u8> {
    let of_dhcp = sent.iter().filter_map(|sent| match sent {
        Sent::Dhcp(kind, to) => Some((*kind, *to)),
        Sent::Arp(..) => None,
    });
    of_dhcp
        .inspect(|(_, to)| assert_eq!(*to, MacAddr::BROADCAST))
        .map(|(kind, _)| kind)
        .collect()
}

/// RFC 5227 sections 2.1.1 and 2.3: an address that was given is asked for from nobody before it is
/// ours, and announced to all when it is.
#[test]
fn an_address_is_probed_and_announced() {
    let mut client = Client::new(10_000);
    assert!(!client.has_address());
    let sent = client.runs(SETTLED);
    assert_eq!(kinds(&sent), [DISCOVER, REQUEST]);
    let asked = sent.iter().filter_map(|sent| match sent {
        Sent::Arp(packet, to) => Some((packet.sender_ip, packet.target_ip, *to)),
        Sent::Dhcp(..) => None,
    });
    let asked: Vec<_> = asked.collect();
    let probe = (Ipv4Addr::UNSPECIFIED, GIVEN, MacAddr::BROADCAST);
    let announcement = (GIVEN, GIVEN, MacAddr::BROADCAST);
    assert_eq!(asked[..3], [probe; 3], "{asked:?}");
    assert_eq!(asked[3..], [announcement; 2], "{asked:?}");
    assert!(client.has_address());
    assert_eq!(client.server.granted, 1);
}

/// The port lets through what is for the address that is tried, and then what is for its network;
/// what servers say at all times.
#[test]
fn the_port_is_told_of_an_address_before_it_is_tried() {
    let mut client = Client::new(10_000);
    client.single.turn_after(TURN);
    let frames = client.single.packets();
    frames.iter().for_each(|frame| client.answers(frame));
    client.single.turn_after(TURN);
    let frames = client.single.packets();
    frames.iter().for_each(|frame| client.answers(frame));
    client.single.turn_after(TURN);
    let tried = client.single.packets();
    assert!(matches!(
        tried.first().and_then(|frame| sent_of(frame)),
        Some(Sent::Arp(..))
    ));
    assert!(!client.has_address());
    assert_eq!(client.filter.addresses(), (vec![(GIVEN.into(), 32)], true));
    client.runs(SETTLED);
    assert_eq!(client.filter.addresses(), (vec![(GIVEN.into(), 24)], true));
    client.serves = false;
    client.runs(u64::from(LEASE_S));
    assert_eq!(client.filter.addresses(), (vec![], true));
}

/// RFC 2131 section 4.4.5: a lease that nobody renews is over at its end.
#[test]
fn an_address_is_given_up_when_its_time_is_over() {
    let mut client = Client::settled(&[]);
    client.serves = false;
    client.runs(u64::from(LEASE_S) - SETTLED - 1);
    assert!(client.has_address());
    client.runs(2);
    assert!(!client.has_address());
    assert_eq!(client.next_hop(NEAR), None);
    // It is asked for anew.
    client.serves = true;
    client.runs(64);
    assert!(client.has_address());
}

/// RFC 2131 section 3.1.5, RFC 5227 section 2.4: who answers a probe has the address, and the server
/// hears of that; of one that is ours already, who says so twice.
#[test]
fn an_address_that_another_host_has_is_not_used() {
    let mut client = Client::new(10_000);
    client.runs(1);
    assert!(client.has_address());
    let mac = client.single.stack.link().output.device.mac();
    client.has(GIVEN, mac);
    let sent = client.runs(1);
    assert!(client.has_address());
    let is_defended =
        |sent: &Sent| matches!(sent, Sent::Arp(packet, _) if packet.sender_ip == GIVEN);
    assert!(sent.iter().any(is_defended));
    client.has(GIVEN, mac);
    let sent = client.runs(1);
    assert!(!client.has_address());
    assert_eq!(kinds(&sent), [DECLINE]);
    // The next is answered as it is tried.
    let mut declined = 0;
    for _ in 0..20 * 1_000_000 / TURN {
        client.single.turn_after(TURN);
        for frame in client.single.packets() {
            client.answers(&frame);
            match sent_of(&frame) {
                Some(Sent::Arp(probe, _)) if probe.target_ip == GIVEN => client.has(GIVEN, mac),
                Some(Sent::Dhcp(DECLINE, _)) => declined += 1,
                _ => {}
            }
        }
        assert!(!client.has_address());
    }
    assert!(declined > 0);
}

/// The next hops of several destinations.
type Hops = [Option<Ipv4Addr>; 4];

/// RFC 2132 section 3.5, RFC 3442: routes replace the router, each network is reached by its own,
/// and one that is not of our network is on the link all the same.
#[test]
fn packets_go_where_the_server_says() {
    const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 254);
    const OUTSIDE: Ipv4Addr = Ipv4Addr::new(10, 9, 9, 9);
    const NET: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 7);
    let router = |ip: Ipv4Addr| [&[3, 4], &ip.octets()[..]].concat();
    let route = |network: &[u8], by: Ipv4Addr| {
        let prefix = 8 * network.len() as u8;
        [&[prefix], network, &by.octets()].concat()
    };
    let routes = |all: &[Vec<u8>]| {
        let all = all.concat();
        [&[121, all.len() as u8], &all[..]].concat()
    };
    let [far_net, net] = [FAR, NET].map(|ip| ip.octets()[..3].to_vec());
    let direct = Ipv4Addr::UNSPECIFIED;
    let cases: [(&str, Vec<u8>, Hops); 7] = [
        ("none", vec![], [Some(NEAR), None, None, None]),
        (
            "a router",
            router(ROUTER),
            [Some(NEAR), Some(ROUTER), Some(ROUTER), Some(ROUTER)],
        ),
        (
            "a router outside",
            router(OUTSIDE),
            [Some(NEAR), Some(OUTSIDE), Some(OUTSIDE), Some(OUTSIDE)],
        ),
        (
            "a route, and a router that it replaces",
            [routes(&[route(&far_net, ROUTER)]), router(OUTSIDE)].concat(),
            [Some(NEAR), Some(ROUTER), None, None],
        ),
        (
            "one on the link, and one by a router outside",
            routes(&[route(&far_net, direct), route(&net, OUTSIDE)]),
            [Some(NEAR), Some(FAR), Some(OUTSIDE), Some(OUTSIDE)],
        ),
        (
            "one on the link",
            routes(&[route(&far_net, direct)]),
            [Some(NEAR), Some(FAR), None, None],
        ),
        (
            "our own network, which is on the link",
            routes(&[route(&GIVEN.octets()[..3], ROUTER)]),
            [Some(NEAR), None, None, None],
        ),
    ];
    for (name, options, expected) in cases {
        let client = Client::settled(&options);
        let found = [NEAR, FAR, NET, OUTSIDE].map(|to| client.next_hop(to));
        assert_eq!(found, expected.map(|hop| hop.map(IpAddr::V4)), "{name}");
        if expected[2].is_none() {
            assert_eq!(client.next_hop(Ipv4Addr::UNSPECIFIED), None, "{name}");
        }
        for (to, hop) in [(FAR, expected[1]), (NET, expected[2])] {
            assert_eq!(client.has_way(to), hop.is_some(), "{name}: {to}");
        }
    }
}

/// RFC 2132 section 5.1: programs are told of the MTU that the server names.
#[test]
fn the_mtu_is_that_of_the_lease() {
    let options = [26, 2, 5, 120, 3, 4, 10, 0, 0, 254];
    for (options, mtu) in [(&options[..], 1_400), (&options[4..], 1_500)] {
        let client = Client::settled(options);
        let host = HostSession::of(&client.single.arena);
        assert_eq!(host.routes().link_mtu(FAR.into()), mtu);
    }
}

/// RFC 2131 section 4.4.5: a lease is renewed with its server alone, which is asked for by ARP if
/// need be, and as long as it cannot be found, with all.
#[test]
fn a_lease_is_renewed_with_its_server() {
    for resolves in [true, false] {
        let mut client = Client::settled(&[]);
        client.resolves = resolves;
        let renewal = u64::from(LEASE_S) / 2 - SETTLED;
        assert_eq!(client.runs(renewal - 2), []);
        let sent = client.runs(5);
        let request = Sent::Dhcp(REQUEST, SERVER_MAC);
        let requests = sent.iter().filter(|sent| **sent == request).count();
        assert_eq!(requests, usize::from(resolves), "{sent:?}");
        let sent = client.runs(u64::from(LEASE_S));
        let to_all = sent.contains(&Sent::Dhcp(REQUEST, MacAddr::BROADCAST));
        assert_eq!(to_all, !resolves, "{sent:?}");
        assert!(client.server.granted > 1 && client.has_address());
    }
}

/// RFC 2131 section 4.4.6: the server is told once of an address that is given back, and of none that
/// it has not given.
#[test]
fn an_address_is_given_back_to_its_server() {
    let released = |client: &mut Client| {
        client.single.stack.give_addresses_back();
        let sent = client.runs(1);
        let release = Sent::Dhcp(RELEASE, SERVER_MAC);
        sent.iter().filter(|sent| **sent == release).count()
    };
    let mut none = Client::new(10_000);
    assert_eq!(released(&mut none), 0);
    let mut client = Client::settled(&[]);
    client.runs(u64::from(LEASE_S));
    assert_eq!(released(&mut client), 1);
    assert_eq!(released(&mut client), 0);
}

/// A lease for ever leaves nothing to be done, and a stack without a lease waits for something.
#[test]
fn nothing_is_due_of_a_lease_for_ever() {
    let mut client = Client::new(10_000);
    client.server.lease_s = u32::MAX;
    client.runs(1);
    assert!(client.single.stack.next_timeout().is_some());
    client.runs(SETTLED);
    assert!(client.has_address());
    assert_eq!(client.single.stack.next_timeout(), None);
}

/// What is no message of a server, and what the port does not take, is counted.
#[test]
fn what_comes_to_nothing_is_counted() {
    let mut client = Client::new(1);
    for refused in 0..2 {
        // The first waits on the wire, and leaves room for no other.
        client.single.turn_after(6_000_000);
        let dropped = client.single.dropped(EngineDrop::PortRefused.name());
        assert_eq!(dropped, refused);
    }
    // A message without a type, and a packet of the version that is not spoken.
    let mut six = [0; 54];
    six[..6].fill(0xff);
    six[12..15].copy_from_slice(&[0x86, 0xdd, 0x60]);
    let message = framed(&[0; 240], SERVER_MAC);
    for (frame, reason) in [
        (&message[..], EngineDrop::BadDhcp),
        (&six, EngineDrop::UnknownEtherType),
    ] {
        assert_eq!(client.single.dropped(reason.name()), 0);
        client.single.frame_in(frame);
        assert_eq!(client.single.dropped(reason.name()), 1, "{reason:?}");
    }
}

/// It hears of them from the start and after each change of its interface, which may be another by then.
#[test]
fn the_port_is_told_of_addresses_again_when_it_has_changed() {
    let mut client = Client::new(10_000);
    assert_eq!(client.filter.addresses(), (vec![], true));
    client.runs(SETTLED);
    let ours = (vec![(GIVEN.into(), 24)], true);
    assert_eq!(client.filter.addresses(), ours);
    client.filter.forget();
    client.single.stack.handle_port_change();
    assert_eq!(client.filter.addresses(), ours);
}

/// While an answer may come for an address that we do not have yet, what is for others is still for others:
/// only a whole datagram to a DHCP client is looked at.
#[test]
fn what_is_for_others_is_not_for_us_while_an_address_is_asked_for() {
    // What would be the length of a datagram is in the first, too.
    let segment = [&[0, 9, 0, 68, 0, 20][..], &[0; 14]].concat();
    let datagram = [0, 9, 0, 91, 0, 8, 0, 0].to_vec();
    for (protocol, bytes) in [(protocol::TCP, segment), (protocol::UDP, datagram)] {
        let mut client = Client::new(10_000);
        client.single.turn();
        client.single.packets();
        let packet = packets::ipv4((OWN, NEAR), protocol, packets::HOPS, &bytes);
        let header = EthernetHeader {
            destination: client.single.stack.link().output.device.mac(),
            source: SERVER_MAC,
            ether_type: EtherType::Ipv4,
        };
        let mut frame = vec![0; ethernet::HEADER_LEN];
        header.emit(&mut frame);
        frame.extend(packet);
        client.single.frame_in(&frame);
        let reason = DropReason::NotForUs.name();
        assert_eq!(client.single.dropped(reason), 1, "{protocol}");
        client.single.turn();
        assert!(client.single.packets().is_empty(), "{protocol}");
    }
}
