//! Waiting for addresses, and giving them back.

use super::*;
use crate::testing::Turned;
use longshore_net::stable::Identifiers;
use longshore_ports::{Port, TxFrame};
use longshore_stack::testing::dhcp_server::{DhcpServer, GIVEN, LEASE_S, OWN, RELEASE, kind_of};
use longshore_wire::MacAddr;
use longshore_wire::arp::{self, ArpPacket, Operation};
use longshore_wire::ethernet::{self, EtherType, EthernetHeader};

/// The hardware address of the server's host.
const SERVER_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);

fn asks_for_an_address() -> Turned {
    Turned::with(|config| {
        config.addresses = Vec::new();
        config.automatic.dhcp = Some(b"a client".to_vec());
    })
}

/// The addresses that are told.
fn addresses(world: &Turned) -> Vec<String> {
    let all = world.engine.addresses();
    all.iter().map(Cidr::to_string).collect()
}

#[test]
fn an_engine_whose_addresses_are_typed_waits_for_none() {
    let mut world = Turned::new();
    let never = |_| panic!("nothing is missing");
    let acquired = world.engine.acquire(Duration::ZERO, Duration::ZERO, never);
    assert!(acquired.is_ok());
    assert_eq!(addresses(&world), ["10.0.0.1/24"]);
}

/// Its user is notified once that it takes long, and in the end what is missing.
#[test]
fn an_address_that_nobody_gives_is_waited_for_and_not_for_ever() {
    let mut world = asks_for_an_address();
    let mut missed = Vec::new();
    let timeout = Duration::from_millis(300);
    let acquired = world
        .engine
        .acquire(Duration::ZERO, timeout, |missing| missed.push(missing));
    let missing = MissingAddress::Dhcp;
    assert!(matches!(acquired, Err(EngineError::NoAddress(m)) if m == missing));
    assert_eq!(missed, [missing]);
    let began = std::time::Instant::now();
    let never = |_| panic!("it does not take as long");
    let acquired = world.engine.acquire(2 * timeout, timeout, never);
    assert!(acquired.is_err());
    assert!(began.elapsed() >= timeout);
    assert!(world.engine.addresses().is_empty());
    // It has asked for one.
    assert_ne!(world.engine.stack.port().counters().tx_frames, 0);
}

#[test]
fn an_engine_that_is_told_to_stop_waits_for_no_address() {
    let mut world = asks_for_an_address();
    world.engine.drain(Duration::ZERO);
    let never = |_| panic!("it does not take long");
    let timeout = Duration::from_secs(60);
    assert!(world.engine.acquire(timeout, timeout, never).is_ok());
}

/// Nobody beyond its link reaches it at those of the link.
#[test]
fn addresses_of_the_link_are_not_among_those_that_are_told() {
    let mut world = Turned::with(|config| {
        config.addresses.push("fd00::1/64".parse().unwrap());
    });
    // Until they are known to be nobody else's.
    (0..5).for_each(|_| world.later(1_000_000));
    assert_eq!(addresses(&world), ["10.0.0.1/24", "fd00::1/64"]);
}

/// What was sent over the wire since the last look.
fn sent(world: &mut Turned) -> Vec<Vec<u8>> {
    let mut buffer = vec![0; 1 << 16];
    let mut frames = Vec::new();
    while let Some(meta) = world.wire.recv(&mut buffer).unwrap() {
        frames.push(buffer[..meta.len].to_vec());
    }
    frames
}

/// What the server's host answers to a question for its hardware address.
fn resolved(frame: &[u8]) -> Option<Vec<u8>> {
    let header = EthernetHeader::parse(frame).unwrap();
    let asked = ArpPacket::parse(&frame[ethernet::HEADER_LEN..]).ok();
    let asked =
        asked.filter(|asked| header.ether_type == EtherType::Arp && asked.target_ip == OWN)?;
    let mut answer = vec![0; ethernet::HEADER_LEN + arp::PACKET_LEN];
    EthernetHeader {
        destination: header.source,
        source: SERVER_MAC,
        ether_type: EtherType::Arp,
    }
    .emit(&mut answer);
    ArpPacket {
        operation: Operation::Reply,
        sender_mac: SERVER_MAC,
        sender_ip: OWN,
        target_mac: asked.sender_mac,
        target_ip: asked.sender_ip,
    }
    .emit(&mut answer[ethernet::HEADER_LEN..]);
    Some(answer)
}

/// An engine with an address that a server has given it, and has renewed: it knows where the
/// server is.
fn has_an_address(config: impl FnOnce(&mut crate::Config)) -> Turned {
    let mut world = Turned::with(|settings| {
        settings.addresses = Vec::new();
        settings.automatic.dhcp = Some(b"a client".to_vec());
        config(settings);
    });
    let mut server = DhcpServer::default();
    for _ in 0..2 * LEASE_S {
        world.later(500_000);
        for frame in sent(&mut world) {
            let answer = server.answer(&frame, SERVER_MAC);
            if let Some(answer) = answer.or_else(|| resolved(&frame)) {
                world.wire.send(&TxFrame::whole(&answer)).unwrap();
            }
        }
    }
    assert!(server.granted > 1);
    assert!(world.engine.stack.status().is_local(GIVEN.into()));
    world
}

/// How often the server was told that its address is given back.
fn given_back(world: &mut Turned) -> usize {
    let kinds = sent(world).into_iter().filter_map(|frame| kind_of(&frame));
    kinds.filter(|kind| *kind == RELEASE).count()
}

/// RFC 2131 section 4.4.6.
#[test]
fn an_engine_that_ends_gives_back_what_a_server_has_given_it() {
    let mut world = has_an_address(|_| ());
    world.engine.drain(Duration::ZERO);
    world.engine.run().unwrap();
    assert_eq!(given_back(&mut world), 1);
}

/// The address that is missing need not be the one of IPv4.
#[test]
fn an_engine_that_gets_no_address_of_ipv6_gives_the_one_of_ipv4_back() {
    let mut world = has_an_address(|config| {
        config.automatic.routers = Some(Identifiers::new([7; 32], b"memory"));
    });
    let mut missed = Vec::new();
    let acquired = world
        .engine
        .acquire(Duration::ZERO, Duration::ZERO, |missing| {
            missed.push(missing)
        });
    let missing = MissingAddress::Router;
    assert!(matches!(acquired, Err(EngineError::NoAddress(m)) if m == missing));
    assert!(missed.is_empty(), "it has not taken long");
    assert_eq!(given_back(&mut world), 1);
}
