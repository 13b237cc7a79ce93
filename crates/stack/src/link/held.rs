//! Packets that wait for their next hop's hardware address: held when they were to be sent,
//! sent when it is known, dropped when it is given up (RFC 4861 section 7.2.2, RFC 1122
//! section 2.3.2.2).
//!
//! What waits here is what nobody else keeps: datagrams, answers, resets. Connections keep
//! their segments themselves until there is a way. `ip_output`, `neighbors` and `v6` call it.

use super::{IpOutput, Link, NextHop, Transport};
use crate::counters::{Counters, EngineDrop};
use longshore_frames::TxFrame;
use longshore_tcp::Instant;
use longshore_wire::ethernet::EtherType;
use std::collections::VecDeque;
use std::io::IoSlice;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Where an IPv4 packet has its destination.
const DESTINATION_V4: usize = 16;
/// Where an IPv6 packet has its destination.
const DESTINATION_V6: usize = 24;

/// Where an IP packet goes.
fn destination(packet: &[u8]) -> Option<IpAddr> {
    match packet.first()? >> 4 {
        4 => {
            let octets: [u8; 4] = packet.get(DESTINATION_V4..)?.first_chunk().copied()?;
            Some(Ipv4Addr::from(octets).into())
        }
        _ => {
            let octets: [u8; 16] = packet.get(DESTINATION_V6..)?.first_chunk().copied()?;
            Some(Ipv6Addr::from(octets).into())
        }
    }
}

impl Link {
    /// A neighbour has answered: what waits for it goes.
    pub(crate) fn release_held(&mut self, hop: IpAddr, now: Instant, counters: &mut Counters) {
        let packets = self.output.hops.release(hop);
        if packets.is_empty() {
            return;
        }
        let (ether_type, hop) = match hop {
            IpAddr::V4(hop) => (EtherType::Ipv4, self.next_hop_to(hop, now, counters)),
            IpAddr::V6(hop) => (EtherType::Ipv6, self.next_hop6(hop, now, counters)),
        };
        self.output.send_held(packets, ether_type, hop, counters);
    }
}

impl IpOutput {
    /// Keeps a finished packet, its headers from IP's on and its payload, until its next
    /// hop answers.
    #[cold]
    pub(super) fn hold(&mut self, headers: &[u8], transport: &Transport<'_>) {
        debug_assert!(transport.gso.is_none(), "each packet waits for itself");
        let mut packet = headers.to_vec();
        transport
            .payload
            .iter()
            .for_each(|p| packet.extend_from_slice(p));
        if let Some(to) = destination(&packet) {
            self.hops.hold(to, packet);
        }
    }

    fn send_held(
        &mut self,
        packets: VecDeque<Vec<u8>>,
        ether_type: EtherType,
        hop: NextHop,
        counters: &mut Counters,
    ) {
        let NextHop::Neighbor(destination) = hop else {
            return counters.drop_many(EngineDrop::Unresolved, packets.len() as u64);
        };
        let headers = self.device.header_to(destination, ether_type);
        for packet in packets {
            let payload = [IoSlice::new(&packet)];
            let sent = self.device.send(&TxFrame {
                headers: &headers,
                payload: &payload,
                checksum: None,
                gso: None,
            });
            if sent.is_err() {
                counters.drop(EngineDrop::PortRefused);
            }
        }
    }

    /// Drops what waits for neighbours that were given up, and counts what has found no
    /// room.
    pub(super) fn drop_held(&mut self, failed: &[IpAddr], counters: &mut Counters) {
        for ip in failed {
            let packets = self.hops.release(*ip);
            counters.drop_many(EngineDrop::Unresolved, packets.len() as u64);
        }
        let overflowed = self.hops.take_overflowed();
        counters.drop_many(EngineDrop::NeighborQueueFull, overflowed);
    }
}

#[cfg(test)]
mod tests;
