//! What the loop that runs a stack calls beside frames, requests and turns.

use super::filtering::{Filter, Filtering};
use super::groups::{GROUP, change, member};
use super::off_path::{GEOMETRY, accepted, connection};
use super::questions::question;
use super::single::{CLIENT, SERVER, Single};
use crate::Violation;
use crate::counters::EngineDrop;
use crate::requests::From;
use longshore_hostif::adapter::UnderWay;
use longshore_hostif::{DatagramRecord, Features, OptionName, Query, Request, SocketKind};
use longshore_ports::memory::{MemoryConfig, pair};
use longshore_wire::ethernet;
use longshore_wire::ipv4::protocol;
use std::net::SocketAddr;

/// A stack on Ethernet, and what its port is told and says.
fn on_ethernet() -> (Single, Filter) {
    on_ethernet_at(&["10.0.0.1/24"])
}

fn on_ethernet_at(addresses: &[&str]) -> (Single, Filter) {
    let (port, wire) = pair(&MemoryConfig {
        offloads: false,
        ..MemoryConfig::default()
    });
    let (port, filter) = Filtering::new(port);
    let ends = (Box::new(port) as _, wire);
    let none = Features::empty();
    let mut single = Single::over(ends, addresses, false, GEOMETRY, 1, none);
    single.turn();
    single.packets();
    (single, filter)
}

#[test]
fn it_is_as_late_as_was_said() {
    let mut single = Single::new(GEOMETRY, 1);
    single.turn();
    assert_eq!(single.stack.now(), single.now);
    let later = single.now.after_us(7);
    single.stack.set_now(later);
    assert_eq!(single.stack.now(), later);
}

/// RFC 5227 section 1.1: hosts on a link that has come back are told of our address.
#[test]
fn a_link_that_has_come_back_is_told_of_us() {
    for has_returned in [false, true] {
        let (mut single, filter) = on_ethernet();
        if has_returned {
            filter.link_returns();
        }
        single.stack.handle_port_change();
        single.turn();
        assert_eq!(single.stack.next_timeout().is_some(), has_returned);
        (0..4).for_each(|_| single.turn_after(1_000_000));
        let frames = single.packets();
        let is_told = |frame: &Vec<u8>| {
            let header = ethernet::EthernetHeader::parse(frame).expect("a frame");
            let sender = &frame[ethernet::HEADER_LEN..][14..18];
            header.ether_type == ethernet::EtherType::Arp && sender == SERVER.octets()
        };
        assert_eq!(frames.iter().any(is_told), has_returned);
    }
}

/// A port that takes no more gets the rest in later turns; what it did not take is counted, and sent again.
#[test]
fn a_full_port_gets_the_rest_in_later_turns() {
    const DEPTH: usize = 3;
    const SEGMENTS: u64 = 10;
    let (port, wire) = pair(&MemoryConfig {
        ethernet: false,
        offloads: false,
        depth: DEPTH,
        ..MemoryConfig::default()
    });
    let ends = (Box::new(port) as _, wire);
    let none = Features::empty();
    let mut single = Single::over(ends, &["10.0.0.1/24"], false, GEOMETRY, 1, none);
    let (socket, _) = connection(&mut single);
    let before = single.stack.counters.tcp.segments_out;
    single.write(socket, 0, &[7; 536 * SEGMENTS as usize]);
    let refused = |single: &Single| single.dropped(EngineDrop::PortRefused.name());
    single.turn();
    assert_eq!((single.sent().len(), refused(&single)), (DEPTH, 1));
    single.turn();
    assert_eq!((single.sent().len(), refused(&single)), (DEPTH, 2));
    (0..2).for_each(|_| single.turn());
    assert_eq!(single.sent().len(), 2, "as many as there were");
    let after = single.stack.counters.tcp.segments_out;
    assert_eq!(after - before, SEGMENTS);
    single.turn_after(1_100_000);
    assert!(!single.sent().is_empty(), "one of those that were refused");
}

/// The station that has our address may be another after that: what a frame before had is no sign of
/// what the next one is.
#[test]
fn after_a_change_of_the_port_the_next_segment_is_looked_up() {
    let mut single = Single::new(GEOMETRY, 1);
    single.listen();
    single.turn();
    let next = single.connect(0);
    single.segment(&next, &[]);
    let before = single.stack.status().connection_cache_misses();
    single.stack.handle_port_change();
    single.segment(&next, &[]);
    let after = single.stack.status().connection_cache_misses();
    assert_eq!(after, before + 1);
}

/// The next process on a channel has tags of its own: it gets no answer to what the one before has asked.
#[test]
fn what_a_process_has_asked_may_be_forgotten() {
    for is_forgotten in [false, true] {
        let mut single = Single::new(GEOMETRY, 1);
        let socket = single.open(SocketKind::Stream);
        single.turn();
        single.discard_completions();
        single.ask(0, &question(socket, Query::TcpInfo));
        if is_forgotten {
            single.stack.forget_unanswered(From {
                session: single.session,
                channel: 0,
            });
        }
        single.turn();
        assert_eq!(single.answer().is_none(), is_forgotten);
    }
}

/// What has come in a turn is told to those who have its socket, also if another gets it in that turn.
#[test]
fn what_came_is_told_to_all_though_another_gets_the_socket() {
    let mut single = Single::new(GEOMETRY, 2);
    let listener = single.listen();
    single.turn();
    let next = single.connect(0);
    single.turn();
    let socket = accepted(&mut single, listener, 0);
    single.segment(&next, b"bytes");
    single.ask(1, &Request::Subscribe { socket });
    single.turn();
    assert_eq!(single.told_of(socket).map(|edges| edges.rcv_edge), Some(5));
}

/// What was asked when a turn had been flushed is done in the next, and is under way until then.
#[test]
fn what_is_taken_late_is_under_way() {
    let mut single = Single::new(GEOMETRY, 1);
    let socket = single.listen();
    single.turn();
    let under_way = |single: &Single| single.stack.endpoints.sockets.under_way(false);
    single.set(socket, OptionName::ReceiveBuffer, 50_000);
    let client = single.open(SocketKind::Stream);
    single.connect_to_own(client);
    single.stack.has_taken_late();
    assert_eq!(under_way(&single), UnderWay::Passing);
    (0..3).for_each(|_| single.turn());
    assert_eq!(under_way(&single), UnderWay::Nothing);
}

/// Linux: what was sent to a UDP socket before that was connected has come to it.
#[test]
fn what_is_under_way_arrives_before_its_socket_takes_no_more() {
    let mut single = Single::new(GEOMETRY, 1);
    let [receiver, sender] = [90, 91].map(|port| single.bind(SocketKind::Datagram, port));
    single.turn();
    let record = DatagramRecord::new(0, SocketAddr::new(SERVER.into(), 90).into());
    single.write(sender, 0, &record.encode());
    single.turn();
    assert!(!single.stack.link().output.own.is_empty());
    single.connect_to(receiver, SocketAddr::new(CLIENT.into(), 9));
    assert_eq!(single.stack.take_own_packets(), 0);
    single.turn();
    let edges = single.told_of(receiver).expect("something has come");
    assert_eq!(edges.rcv_edge, record.span());
}

/// What is not as it must be is found by who asks, and in debug builds at the end of a turn.
#[test]
fn what_is_wrong_with_a_socket_is_found() {
    let mut single = Single::new(GEOMETRY, 1);
    let socket = single.listen();
    single.turn();
    let key = single.stack.endpoints.key_of(single.session, socket);
    let key = key.expect("it is open");
    // It says that it is on a list on which it is not.
    single
        .stack
        .endpoints
        .sockets
        .slab
        .get_mut(key)
        .unwrap()
        .dirty = true;
    let found = single.stack.check();
    assert!(matches!(found, Err(Violation { key: of, .. }) if of == key));
    let turns = 0..10_000;
    let published = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        for _ in turns {
            single.stack.begin_turn(single.now);
            single.stack.publish();
        }
    }));
    assert_eq!(published.is_err(), cfg!(debug_assertions));
}

/// Switches and routers of a link that has come back hear again of the groups in which we are, of those of
/// our addresses of IPv6 among them.
#[test]
fn a_link_that_has_come_back_is_told_of_our_groups() {
    const IPV4: [u8; 2] = [8, 0];
    const IPV6: [u8; 2] = [0x86, 0xdd];
    const HOP_BY_HOP: u8 = 0;
    for has_returned in [false, true] {
        let (mut single, filter) = on_ethernet_at(&["10.0.0.1/24", "fd00::1/64"]);
        let socket = member(&mut single);
        assert_eq!(change(&mut single, socket, GROUP, true), 0);
        (0..30).for_each(|_| single.turn_after(1_000_000));
        single.packets();
        if has_returned {
            filter.link_returns();
        }
        single.stack.handle_port_change();
        (0..10).for_each(|_| single.turn_after(1_000_000));
        let frames = single.packets();
        let of_v4 = |f: &Vec<u8>| f[12..14] == IPV4 && f[14 + 9] == protocol::IGMP;
        assert_eq!(frames.iter().any(of_v4), has_returned);
        let of_v6 = |f: &Vec<u8>| f[12..14] == IPV6 && f[14 + 6] == HOP_BY_HOP;
        assert_eq!(frames.iter().any(of_v6), has_returned);
    }
}
