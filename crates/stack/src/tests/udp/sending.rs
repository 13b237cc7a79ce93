//! What is said and counted of datagrams that leave, and what their paths make of them.

use super::*;
use crate::Account;
use crate::tests::questions::asks;
use crate::tests::streams::append;
use crate::turns::{DATAGRAM, OUTPUT};
use longshore_frames::{Gso, GsoKind, Port};
use longshore_hostif::adapter::UnderWay;
use longshore_hostif::{ErrorReport, Features, Query};
use longshore_ports::memory::{MemoryConfig, pair};
use std::sync::Arc;

/// Bytes of a record with so much payload.
fn record(len: usize) -> Vec<u8> {
    let mut bytes = DatagramRecord::new(len as u32, Udp::peer().into())
        .encode()
        .to_vec();
    bytes.resize(datagram_span(len as u32) as usize, 0);
    bytes
}

impl Udp {
    /// The program sends so many datagrams with so much payload in one turn; how much of its stream
    /// it is told is done with.
    fn sends_many(&mut self, count: usize, len: usize) -> Option<u64> {
        let bytes = record(len).repeat(count);
        self.written = self.single.write(self.socket, self.written, &bytes);
        self.single.turn();
        let told = self.single.told_of(self.socket);
        told.map(|edges| edges.snd_acked)
    }
}

/// A program is told that its stream is done with by a quarter of the buffer, once.
#[test]
fn a_sender_is_told_of_a_quarter_of_its_buffer() {
    const SPAN: usize = 1_000;
    const LEN: usize = SPAN - DATAGRAM_HEADER;
    let mut udp = Udp::new();
    let buffer = 16 * SPAN as u64;
    udp.single.set(udp.socket, OptionName::SendBuffer, buffer);
    udp.single.turn();
    udp.single.discard_completions();
    for round in 1..4 {
        assert_eq!(udp.sends_many(3, LEN), None, "{round}");
        let told = udp.sends_many(1, LEN);
        assert_eq!(told, Some(4 * round * SPAN as u64), "{round}");
    }
    assert_eq!(udp.sends_many(1, LEN), None);
    assert_eq!(udp.single.dropped(EngineDrop::BadStream.name()), 0);
}

/// The sockets of a user send in one turn what its share of that allows: so many datagrams of each
/// cost as many times what one costs.
#[test]
fn many_senders_of_a_user_share_what_it_may_send_in_a_turn() {
    const SENDERS: usize = 8;
    let mut udp = Udp::new();
    udp.single.in_stack_mut().account = Some(Arc::new(Account::new(64)));
    let bytes = record(4).repeat(A_TURN);
    for port in 1..=SENDERS as u16 {
        let socket = udp.single.bind(SocketKind::Datagram, PORT + port);
        udp.single.write(socket, 0, &bytes);
    }
    udp.single.turn();
    let whole = (OUTPUT / DATAGRAM) as usize / A_TURN + 1;
    assert_eq!(udp.sent().len(), whole * A_TURN);
    udp.single.turn();
    assert_eq!(udp.sent().len(), (SENDERS - whole) * A_TURN);
}

/// What a turn did not send to other sockets of the engine is queued, be it of one sender or of several;
/// what is to go over the wire is none of theirs.
#[test]
fn what_is_left_to_send_to_other_sockets_is_queued() {
    for (senders, to_own, expected) in [
        (1, true, UnderWay::Queued),
        (2, true, UnderWay::Queued),
        (1, false, UnderWay::Nothing),
    ] {
        let mut udp = Udp::new();
        let mut one = DatagramRecord::new(0, Udp::peer().into());
        if to_own {
            one.peer = SocketAddr::new(SERVER.into(), PORT).into();
        }
        let bytes = one.encode().repeat(A_TURN + 1);
        for port in 1..=senders {
            let socket = udp.single.bind(SocketKind::Datagram, PORT + port);
            udp.single.write(socket, 0, &bytes);
        }
        udp.single.turn();
        let under_way = |udp: &Udp| {
            let stack = &udp.single.stack;
            let has_own = !stack.link().output.own.is_empty();
            stack.endpoints.sockets.under_way(has_own)
        };
        assert_eq!(under_way(&udp), expected, "{senders} {to_own}");
        for _ in 0..2 {
            udp.single.stack.take_own_packets();
            udp.single.turn();
        }
        assert_eq!(under_way(&udp), UnderWay::Nothing, "{senders} {to_own}");
    }
}

/// Its bytes are counted with their records, each of which is one more transfer.
#[test]
fn what_is_sent_is_counted_as_it_crosses() {
    let mut udp = Udp::new();
    let count = |udp: &Udp| udp.single.in_stack().host.crossings().to_adapter.payload;
    let before = count(&udp);
    udp.sends(|_| {}, 90);
    let after = count(&udp);
    let span = datagram_span(90);
    assert_eq!(after.bytes - before.bytes, span);
    assert_eq!(after.words - before.words, span / 8);
    assert_eq!(after.transfers - before.transfers, 2);
    let mut sockets = udp.single.stack.status().sockets(0);
    let of_socket = sockets
        .next()
        .map(|(_, s)| s.meter.to_adapter.payload.bytes);
    assert_eq!(of_socket, Some(span));
}

/// What has come along with its descriptor is not fetched, wherever it stands.
#[test]
fn what_comes_along_is_sent_and_not_counted_again() {
    let mut udp = Udp::new();
    let features = Features::IMMEDIATE_DATA;
    udp.single = Single::with_features(GEOMETRY, 1, features);
    udp.socket = udp.single.bind(SocketKind::Datagram, PORT);
    udp.single.turn();
    let count = |udp: &Udp| udp.single.in_stack().host.crossings().to_adapter.payload;
    let before = count(&udp);
    let arena = udp.single.arena.clone();
    for _ in 0..3 {
        let bytes = record(8);
        udp.written = append(&arena, udp.socket.index, udp.written, &bytes);
        let len = bytes.len() as u16;
        udp.single.says_with_data(udp.socket, udp.written, len);
        udp.single.turn();
        assert_eq!(udp.sent().len(), 1);
        assert_eq!(count(&udp), before);
    }
}

/// A record that says it has more than was written is none, wherever it stands, and nothing of what
/// follows is sent.
#[test]
fn a_record_of_more_than_there_is_ends_the_stream() {
    for before in [0, 10] {
        let mut udp = Udp::new();
        udp.sends_many(before, 100);
        udp.single.packets();
        let bytes = &record(1_000)[..500];
        udp.written = udp.single.write(udp.socket, udp.written, bytes);
        udp.single.turn();
        assert!(udp.single.packets().is_empty(), "{before}");
        assert_eq!(udp.single.dropped(EngineDrop::BadStream.name()), 1);
    }
}

/// What is known of a path counts for who does not say otherwise.
#[test]
fn a_narrow_path_cuts_datagrams_unless_it_is_probed() {
    let narrow = usize::from(crate::tests::single::NARROW);
    let mut udp = Udp::new();
    udp.sends(|_| {}, 1_000);
    let sent = udp.single.packets().pop().expect("a datagram");
    let quoted = &sent[HEADER_LEN..HEADER_LEN + UDP];
    let code = unreachable::FRAGMENTATION_NEEDED;
    udp.single.error_about(protocol::UDP, CLIENT, quoted, code);
    for (how, is_cut) in [
        (PathMtu::Want, true),
        (PathMtu::Dont, true),
        (PathMtu::Least, true),
        (PathMtu::Probe, false),
        (PathMtu::Interface, false),
    ] {
        udp.sends(|record| record.path_mtu = how, 1_000);
        let lens: Vec<usize> = udp.single.packets().iter().map(Vec::len).collect();
        assert!(
            if is_cut {
                lens.len() > 1
            } else {
                lens.len() == 1
            },
            "{how:?}: {lens:?}"
        );
        assert!(!is_cut || lens.iter().all(|len| *len <= narrow), "{how:?}");
    }
}

/// What is sent to one of the engine's own sockets is as long as it may be, though no link takes that.
#[test]
fn no_link_is_too_narrow_for_what_stays() {
    let mut udp = Udp::new();
    let to = udp.single.bind(SocketKind::Datagram, PORT + 1);
    udp.single.turn();
    udp.single.discard_completions();
    let hows = [PathMtu::Do, PathMtu::Least, PathMtu::Interface];
    for (how, number) in hows.into_iter().zip(1..) {
        let change = |record: &mut DatagramRecord| {
            record.path_mtu = how;
            record.peer = SocketAddr::new(SERVER.into(), PORT + 1).into();
        };
        udp.sends(change, 9_000);
        assert_eq!(udp.single.stack.take_own_packets(), 1, "{how:?}");
        udp.single.turn();
        let told = udp.single.told_of(to).map(|edges| edges.rcv_edge);
        assert_eq!(told, Some(number * datagram_span(9_000)), "{how:?}");
    }
    assert_eq!(udp.single.dropped(EngineDrop::TooLong.name()), 0);
    udp.sends(|record| record.path_mtu = PathMtu::Do, 9_000);
    assert_eq!(udp.single.dropped(EngineDrop::TooLong.name()), 1);
}

/// A port that cuts trains is given them whole; one datagram is none, though it is as long as those of
/// its train were to be.
#[test]
fn a_train_is_left_to_a_port_that_cuts_it() {
    let (port, wire) = pair(&MemoryConfig {
        ethernet: false,
        ..MemoryConfig::default()
    });
    let ends: (Box<dyn Port>, _) = (Box::new(port), wire);
    let mut udp = Udp::new();
    let addresses = ["10.0.0.1/24"];
    let features = Features::empty();
    udp.single = Single::over(ends, &addresses, false, GEOMETRY, 1, features);
    udp.socket = udp.single.bind(SocketKind::Datagram, PORT);
    udp.sends(|record| record.segment = 100, 250);
    let mut frame = vec![0; 2_000];
    let meta = udp.single.wire.recv(&mut frame).unwrap().expect("a train");
    let (kind, size) = (GsoKind::Udp, 100);
    assert_eq!(meta.gso, Some(Gso { kind, size }));
    assert_eq!(meta.len, HEADER_LEN + UDP + 250);
    assert!(udp.single.packets().is_empty());
    udp.sends(|record| record.segment = 100, 100);
    let meta = udp.single.wire.recv(&mut frame).unwrap();
    let meta = meta.expect("a datagram");
    assert_eq!((meta.gso, meta.len), (None, HEADER_LEN + UDP + 100));
}

/// What is sent to a neighbour that has not answered is dropped for a while, and counted.
#[test]
fn what_is_sent_to_a_neighbour_that_does_not_answer_is_dropped() {
    let (port, wire) = pair(&MemoryConfig::default());
    let ends: (Box<dyn Port>, _) = (Box::new(port), wire);
    let mut udp = Udp::new();
    let features = Features::empty();
    udp.single = Single::over(ends, &["10.0.0.1/24"], false, GEOMETRY, 1, features);
    udp.socket = udp.single.bind(SocketKind::Datagram, PORT);
    udp.sends(|_| {}, 5);
    (0..4).for_each(|_| udp.single.turn_after(1_000_000));
    let unresolved = |udp: &Udp| udp.single.dropped(EngineDrop::Unresolved.name());
    let before = unresolved(&udp);
    udp.sends(|_| {}, 5);
    assert_eq!(unresolved(&udp), before + 1);
}

/// IPv6 does not count its header: the longest datagram has 20 bytes more than one of IPv4.
#[test]
fn the_longest_datagram_of_ipv6_is_sent() {
    use crate::tests::binding::bind;
    use crate::tests::failed_attempts::six;
    use crate::tests::ipv6::open;
    for (len, is_sent) in [(65_527, true), (65_528, false)] {
        let (mut single, peer) = six();
        let socket = open(&mut single, SocketKind::Datagram);
        let any = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
        assert_eq!(bind(&mut single, socket, any, PORT).0, 0);
        let mut bytes = DatagramRecord::new(len, peer.into()).encode().to_vec();
        bytes.resize(datagram_span(len) as usize, 0);
        single.write(socket, 0, &bytes);
        single.turn();
        assert_eq!(!single.packets().is_empty(), is_sent, "{len}");
    }
}

/// What StampSent asks for beside the end of a record: when that was sent, and its packet.
const SENT: u64 = 2 << 48;
const WITH_PACKET: u64 = 8 << 48;

/// A train has left if all of its datagrams have; those that the port does not take are counted.
#[test]
fn it_is_said_of_a_train_when_all_of_it_has_left() {
    const SIZE: usize = 10;
    let (port, wire) = pair(&MemoryConfig {
        ethernet: false,
        offloads: false,
        depth: 4,
        ..MemoryConfig::default()
    });
    let ends: (Box<dyn Port>, _) = (Box::new(port), wire);
    let mut udp = Udp::new();
    let features = Features::empty();
    udp.single = Single::over(ends, &["10.0.0.1/24"], false, GEOMETRY, 1, features);
    udp.socket = udp.single.bind(SocketKind::Datagram, PORT);
    for (count, have_left) in [(2, true), (3, true), (5, false), (6, false)] {
        udp.single.packets();
        let refused = udp.single.dropped(EngineDrop::PortRefused.name());
        let end = udp.written + datagram_span((count * SIZE) as u32);
        udp.single
            .set(udp.socket, OptionName::StampSent, end | SENT);
        udp.sends(|record| record.segment = SIZE as u16, count * SIZE);
        let (_, bytes) = asks(&mut udp.single, udp.socket, Query::Error);
        assert_eq!(ErrorReport::decode(&bytes).is_some(), have_left, "{count}");
        let refused = udp.single.dropped(EngineDrop::PortRefused.name()) - refused;
        assert_eq!(refused, count.saturating_sub(4) as u64, "{count}");
    }
}

/// When a datagram left is said to who asks, with its packet if that is wanted, and of the one that
/// was meant; of one that has not left nothing is said.
#[test]
fn it_is_said_when_a_datagram_has_left() {
    for (asked, is_denied) in [(SENT, false), (SENT | WITH_PACKET, false), (SENT, true)] {
        let mut udp = Udp::new();
        udp.sends_many(1, 8);
        let end = udp.written + datagram_span(12);
        udp.single
            .set(udp.socket, OptionName::StampSent, end | asked);
        if is_denied {
            let rule = "deny udp any port 9".parse().unwrap();
            udp.single.stack.settings.access.connect.0 = vec![rule];
        }
        udp.sends(|_| {}, 12);
        let (errno, bytes) = asks(&mut udp.single, udp.socket, Query::Error);
        assert_eq!(errno, 0);
        let report = ErrorReport::decode(&bytes);
        assert_eq!(report.is_some(), !is_denied, "{asked:x}");
        let Some((report, quoted)) = report else {
            continue;
        };
        assert!(report.stamp.is_some());
        let packet = udp.single.packets().pop().expect("it has left");
        if asked & WITH_PACKET != 0 {
            assert!(quoted.ends_with(&packet[HEADER_LEN + UDP..]), "{quoted:?}");
        } else {
            assert!(quoted.is_empty());
        }
    }
}
