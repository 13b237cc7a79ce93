//! IP_BIND_ADDRESS_NO_PORT: an address without a port, which a stream gets as it connects or listens,
//! and a datagram socket as it is connected, or is bound once more.

use super::binding::{bind, connects};
use super::failed_attempts::six;
use super::ipv6;
use super::off_path::GEOMETRY;
use super::single::{CLIENT, SERVER, Single};
use crate::host::{Defaults, Host};
use crate::local_ports::LocalPorts;
use longshore_hostif::{Features, OptionName, SocketId, SocketKind};
use longshore_tcp::{FastOpenKey, Instant};
use longshore_wire::ipv4::Ipv4Header;
use longshore_wire::tcp::{TcpFlags, TcpHeader};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

const OTHER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 8);
const ADDRESS_NOT_AVAILABLE: u16 = 99;
const INVALID: u16 = 22;

/// A machine with two ports for those who ask for none in particular.
struct TwoPorts;

const TWO_PORTS: std::ops::RangeInclusive<u16> = 7_000..=7_001;

impl Host for TwoPorts {
    fn defaults(&mut self, _now: Instant) -> Option<Defaults> {
        Some(Defaults {
            local_ports: LocalPorts::new(*TWO_PORTS.start(), *TWO_PORTS.end())?,
            ..Defaults::default()
        })
    }
    fn fast_open_keys(&self) -> Option<(Option<FastOpenKey>, Option<FastOpenKey>)> {
        None
    }
    fn time_of_day_ns(&self) -> u64 {
        0
    }
}

fn two_ports() -> Single {
    let addresses = ["10.0.0.1/24", "10.0.0.8/24"];
    let mut single = Single::at(&addresses[..1], GEOMETRY, 1, Features::empty());
    single.stack.settings.host = Box::new(TwoPorts);
    single
}

fn alone(single: &mut Single, kind: SocketKind, ip: IpAddr) -> SocketId {
    let socket = single.open(kind);
    single.set(socket, OptionName::AddressAlone, 1);
    assert_eq!(
        bind(single, socket, ip, 0),
        (0, Some(SocketAddr::new(ip, 0)))
    );
    socket
}

/// Two ports are enough for any number of connections to different peers, and for two to each.
#[test]
fn streams_share_ports_towards_different_peers() {
    let mut single = two_ports();
    let sockets: Vec<_> = (0..7)
        .map(|_| alone(&mut single, SocketKind::Stream, SERVER.into()))
        .collect();
    for (number, socket) in sockets.iter().enumerate() {
        let peer = SocketAddr::new(CLIENT.into(), 80 + number as u16 / 2 % 3);
        let (errno, local) = connects(&mut single, *socket, peer.into());
        if number == 6 {
            assert_eq!(errno, ADDRESS_NOT_AVAILABLE, "all ports to 80 are taken");
            break;
        }
        assert_eq!(errno, 0);
        let local = local.expect("an address");
        assert_eq!(local.ip(), SERVER);
        assert!(TWO_PORTS.contains(&local.port()), "{local}");
        single.turn();
        let packet = single.packets().pop().expect("a SYN");
        let (ip, range) = Ipv4Header::parse(&packet).unwrap();
        let (syn, _) = TcpHeader::parse(&packet[range]).unwrap();
        assert!(syn.flags.contains(TcpFlags::SYN));
        assert_eq!((ip.source, syn.src_port), (SERVER, local.port()));
    }
    // Nobody has bound these ports, so they may be bound, and then no more of them are there.
    let socket = single.open(SocketKind::Stream);
    single.bind_to(socket, 0);
    single.turn();
    assert!(!single.stack.late_binds().take().is_empty());
}

/// Until it has a port it may be bound again, to a port, too; then it may not.
#[test]
fn what_has_no_port_is_bound_again() {
    for kind in [SocketKind::Stream, SocketKind::Datagram] {
        let mut single = two_ports();
        let socket = alone(&mut single, kind, SERVER.into());
        assert_eq!(
            bind(&mut single, socket, OTHER.into(), 0).0,
            ADDRESS_NOT_AVAILABLE
        );
        let any = Ipv4Addr::UNSPECIFIED;
        assert_eq!(bind(&mut single, socket, any.into(), 0).0, 0);
        let to = SocketAddr::new(SERVER.into(), 5_000);
        assert_eq!(bind(&mut single, socket, to.ip(), to.port()), (0, Some(to)));
        assert_eq!(bind(&mut single, socket, to.ip(), 0).0, INVALID, "{kind:?}");
        let other = single.open(kind);
        single.bind_to(other, to.port());
        single.turn();
        assert!(!single.stack.late_binds().take().is_empty(), "{kind:?}");
    }
}

/// `listen` gives it a port that nobody has, at its address.
#[test]
fn a_listener_gets_a_port() {
    let mut single = two_ports();
    let socket = alone(&mut single, SocketKind::Stream, SERVER.into());
    single.listen_at(socket, 5);
    single.turn();
    assert_eq!(single.answer(), Some(0));
    let key = single
        .stack
        .endpoints
        .key_of(single.session(), socket)
        .unwrap();
    let bound = single
        .stack
        .endpoints
        .sockets
        .get(key)
        .unwrap()
        .bound
        .local();
    let local = bound.expect("an address with a port");
    assert!(
        local.ip() == SERVER && TWO_PORTS.contains(&local.port()),
        "{local}"
    );
    let other = single.open(SocketKind::Stream);
    single.bind_to(other, local.port());
    single.turn();
    assert!(
        !single.stack.late_binds().take().is_empty(),
        "it has the port alone"
    );
}

/// A datagram socket has one from when it is connected, or is bound without the option.
#[test]
fn a_datagram_socket_gets_a_port() {
    let mut single = two_ports();
    let peer = SocketAddr::new(CLIENT.into(), 80);
    let socket = alone(&mut single, SocketKind::Datagram, SERVER.into());
    let (errno, local) = connects(&mut single, socket, peer.into());
    let local = local.expect("an address");
    assert_eq!((errno, local.ip()), (0, SERVER.into()));
    assert!(TWO_PORTS.contains(&local.port()), "{local}");
    let other = alone(&mut single, SocketKind::Datagram, SERVER.into());
    single.set(other, OptionName::AddressAlone, 0);
    let (errno, local) = bind(&mut single, other, SERVER.into(), 0);
    assert_eq!(errno, 0);
    assert!(TWO_PORTS.contains(&local.expect("an address").port()));
}

/// Of IPv6, and from the second of two addresses.
#[test]
fn an_address_of_ipv6_alone_is_that_of_the_connection() {
    let (mut single, peer) = six();
    let socket = ipv6::open(&mut single, SocketKind::Stream);
    single.set(socket, OptionName::AddressAlone, 1);
    let own = "fd00::3".parse().unwrap();
    let alone = (0, Some(SocketAddr::new(own, 0)));
    assert_eq!(bind(&mut single, socket, own, 0), alone);
    let (errno, local) = connects(&mut single, socket, peer.into());
    let local = local.expect("an address");
    assert_eq!((errno, local.ip()), (0, own));
    assert_ne!(local.port(), 0);
}
