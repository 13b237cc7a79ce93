//! Trains of datagrams, which a port has merged, and what of those that come is counted.

use super::*;
use crate::tests::binding::bind;
use crate::tests::failed_attempts::{ADDRESSES, six};
use crate::tests::groups::{self, GROUP};
use crate::tests::ipv6::open;
use longshore_frames::{Gso, GsoKind, RxChecksum, RxMeta};
use longshore_hostif::{GROUP_BYTES, Geometry, Stamp};
use longshore_testbed::packets::packet;

/// Bytes in each datagram of a train but the last.
const SIZE: usize = 100;
const LEN: usize = 250;
const TO_US: (IpAddr, IpAddr) = (IpAddr::V4(CLIENT), IpAddr::V4(SERVER));

impl Udp {
    /// A train of this payload comes, whose length field says that it has so many bytes.
    fn train_comes(&mut self, between: (IpAddr, IpAddr), payload: &[u8], says: usize) {
        let mut udp = vec![0; UDP];
        udp[..2].copy_from_slice(&PEER_PORT.to_be_bytes());
        udp[2..4].copy_from_slice(&PORT.to_be_bytes());
        udp[4..6].copy_from_slice(&(says as u16).to_be_bytes());
        // Which the port has looked at, and of IPv6 there has to be one.
        udp[7] = 1;
        udp.extend(payload);
        let packet = packet(between, protocol::UDP, &udp);
        let meta = RxMeta {
            len: packet.len(),
            checksum: RxChecksum::Valid,
            gso: Some(Gso {
                kind: GsoKind::Udp,
                size: SIZE as u16,
            }),
        };
        self.single.stack.frame_in(&packet, &meta);
        self.single.turn();
    }

    /// The records of all that the program has not read, with their payload.
    fn reads_all(&mut self) -> Vec<(DatagramRecord, Vec<u8>)> {
        let edge = self.single.told_of(self.socket).map_or(0, |e| e.rcv_edge);
        let arena = self.single.arena.clone();
        let mut all = Vec::new();
        while self.read < edge {
            let mut record = [0; DATAGRAM_HEADER];
            copy_out(&arena, self.socket.index, self.read, &mut record);
            let record = DatagramRecord::decode(&record);
            let mut payload = vec![0; record.len as usize];
            let at = self.read + record.payload_at() as u64;
            copy_out(&arena, self.socket.index, at, &mut payload);
            self.read += record.span();
            all.push((record, payload));
        }
        self.single
            .edges(self.socket, self.read, EdgeFlags::empty());
        all
    }
}

/// A train is one record for a socket that takes them (UDP_GRO), and as many as it has datagrams for
/// others, whatever its length field counts.
#[test]
fn a_train_is_taken_whole_or_apart() {
    let payload: Vec<u8> = (0..LEN).map(|at| at as u8).collect();
    for says in [UDP + SIZE, UDP + LEN, 0, 60_000] {
        let mut udp = Udp::new();
        udp.train_comes(TO_US, &payload, says);
        let all = udp.reads_all();
        assert_eq!(all.len(), 3, "{says}");
        assert!(all.iter().all(|(record, _)| record.segment == 0));
        let parts: Vec<u8> = all.into_iter().flat_map(|(_, part)| part).collect();
        assert_eq!(parts, payload);
        udp.single.set(udp.socket, OptionName::UdpGro, 1);
        udp.train_comes(TO_US, &payload, says);
        let all = udp.reads_all();
        assert_eq!(all.len(), 1, "{says}");
        assert_eq!(usize::from(all[0].0.segment), SIZE);
        assert_eq!(all[0].1, payload);
    }
    // A length that cannot be is one in what is no train, or an empty one.
    let mut udp = Udp::new();
    udp.train_comes(TO_US, &[], 0);
    let mut datagram = [0; UDP + 20];
    datagram[2..4].copy_from_slice(&PORT.to_be_bytes());
    datagram[4..6].copy_from_slice(&100_u16.to_be_bytes());
    udp.single.packet(protocol::UDP, &datagram);
    udp.single.turn();
    assert!(udp.reads_all().is_empty());
}

/// What a group is sent is as long as it was, and has the group behind its record; of a train each
/// datagram is one. Somebody has received it.
#[test]
fn what_comes_to_a_group_says_to_which() {
    let nobody = EngineDrop::NoUdpSocket.name();
    let mut udp = Udp::new();
    udp.single = Single::new(GEOMETRY, 1);
    udp.socket = groups::member(&mut udp.single);
    assert_eq!(groups::change(&mut udp.single, udp.socket, GROUP, true), 0);
    let mut datagram = vec![0, 9, 0, PORT as u8, 0, 10, 0, 0];
    datagram.extend(b"hi");
    let whole = packet((CLIENT.into(), GROUP.into()), protocol::UDP, &datagram);
    udp.single.frame_in(&whole);
    udp.single.turn();
    let (record, rest, payload) = udp.reads().expect("a datagram");
    assert!(record.to_group);
    let octets: [u8; GROUP_BYTES] = rest.try_into().unwrap();
    assert_eq!(Ipv6Addr::from(octets), GROUP.to_ipv6_mapped());
    assert_eq!(payload, b"hi");
    udp.train_comes(
        (CLIENT.into(), GROUP.into()),
        &[7; 2 * SIZE],
        UDP + 2 * SIZE,
    );
    let lengths: Vec<_> = udp.reads_all().iter().map(|(_, p)| p.len()).collect();
    assert_eq!(lengths, [SIZE; 2]);
    assert_eq!(udp.single.dropped(nobody), 0);
}

/// A record says to which of the stack's addresses its datagram came.
#[test]
fn what_comes_says_to_which_address() {
    let (mut single, peer) = six();
    let socket = open(&mut single, SocketKind::Datagram);
    let any = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
    assert_eq!(bind(&mut single, socket, any, PORT).0, 0);
    single.turn();
    let mut udp = Udp {
        single,
        socket,
        written: 0,
        read: 0,
    };
    let owns = ADDRESSES.map(|to| {
        udp.train_comes((peer.ip(), to.parse().unwrap()), b"hi", UDP + 2);
        let all = udp.reads_all();
        let owns: Vec<u8> = all.iter().map(|(record, _)| record.own).collect();
        owns
    });
    assert_eq!(owns, [[1], [2]]);
}

/// The port from which DHCP clients ask is like any other where nobody does.
#[test]
fn the_port_of_dhcp_clients_is_one_for_programs() {
    let mut udp = Udp::new();
    udp.socket = udp.single.bind(SocketKind::Datagram, 68);
    udp.comes(67, 68, b"hello");
    assert_eq!(udp.reads_all().len(), 1);
}

/// Bytes that cross to the program are counted with their records, and what its session had no memory for
/// is missing as what the buffer had no room for is.
#[test]
fn what_crosses_is_counted_and_what_does_not_is_missing() {
    let geometry = Geometry {
        rcv_chunks: 2,
        ..GEOMETRY
    };
    let mut udp = Udp::new();
    udp.single = Single::new(geometry, 1);
    udp.socket = udp.single.bind(SocketKind::Datagram, PORT);
    udp.single.turn();
    let buffer = OptionName::ReceiveBuffer;
    udp.single.set(udp.socket, buffer, 1_000_000);
    udp.single.set(udp.socket, OptionName::Stamped, 1);
    let before = udp.single.to_host().payload.bytes;
    udp.comes(PEER_PORT, PORT, &[1; 1_000]);
    let bytes = (DATAGRAM_HEADER + STAMP_BYTES + 1_000) as u64;
    assert_eq!(udp.single.to_host().payload.bytes - before, bytes);
    let sockets: Vec<u64> = udp
        .single
        .stack
        .status()
        .sockets(0)
        .map(|(_, status)| status.meter.to_host.payload.bytes)
        .collect();
    assert_eq!(sockets, [bytes]);
    let mut missing = 0;
    while missing < 3 {
        udp.comes(PEER_PORT, PORT, &[1; 60_000]);
        missing = udp.single.dropped("arena_full");
    }
    udp.reads_all();
    udp.single.turn();
    udp.comes(PEER_PORT, PORT, b"");
    let (_, rest, _) = udp.reads().expect("there is memory again");
    let stamp = Stamp::decode(&rest.try_into().unwrap());
    assert_eq!(u64::from(stamp.dropped), missing);
}
