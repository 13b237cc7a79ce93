//! Packets for unresolved neighbours (RFC 4861 section 7.2.2, RFC 1122 section 2.3.2.2):
//! a few for each, the newest kept.
//!
//! Owns [`Held`], which is part of the cache. The cache adds and takes packets, and knows
//! when their neighbour has failed or was evicted.

use super::Address;
use std::collections::{BTreeMap, VecDeque};

/// Most packets held for one neighbour: as many small datagrams as Linux holds by default
/// (net.ipv4.neigh.default.unres_qlen_bytes, counted by the memory that each takes).
pub(super) const MOST_PACKETS: usize = 256;
/// Most bytes held for one neighbour.
pub(super) const MOST_BYTES: usize = 128 << 10;
/// Most neighbours for which packets are held.
pub(super) const MOST_NEIGHBORS: usize = 64;

/// Packets for one neighbour, oldest first.
#[derive(Debug, Clone, Default)]
struct Queue {
    packets: VecDeque<Vec<u8>>,
    bytes: usize,
    /// Sequence number of the queue's creation.
    number: u64,
}

/// Packets by the address of their neighbour. Nothing is allocated while there are none.
#[derive(Debug, Clone, Default)]
pub(super) struct Held<A> {
    queues: BTreeMap<A, Queue>,
    begun: u64,
}

impl<A: Address> Held<A> {
    pub(super) const fn new() -> Self {
        Self {
            queues: BTreeMap::new(),
            begun: 0,
        }
    }

    /// Holds a packet; returns how many were dropped for it, or 1 if it is too long
    /// itself.
    pub(super) fn push(&mut self, ip: A, packet: Vec<u8>) -> u64 {
        if packet.len() > MOST_BYTES {
            return 1;
        }
        let mut dropped = 0;
        if !self.queues.contains_key(&ip) && self.queues.len() >= MOST_NEIGHBORS {
            let oldest = self.queues.iter().min_by_key(|(_, q)| q.number);
            if let Some(oldest) = oldest.map(|(ip, _)| *ip) {
                dropped += self.take(oldest).len() as u64;
            }
        }
        let begun = &mut self.begun;
        let queue = self.queues.entry(ip).or_insert_with(|| {
            *begun += 1;
            Queue {
                number: *begun,
                ..Queue::default()
            }
        });
        queue.bytes += packet.len();
        queue.packets.push_back(packet);
        while queue.packets.len() > MOST_PACKETS || queue.bytes > MOST_BYTES {
            queue.bytes -= queue.packets.pop_front().map_or(0, |p| p.len());
            dropped += 1;
        }
        dropped
    }

    /// Takes all packets held for a neighbour, oldest first.
    pub(super) fn take(&mut self, ip: A) -> VecDeque<Vec<u8>> {
        self.queues.remove(&ip).unwrap_or_default().packets
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;

    fn ip(last: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, 0, 0, last)
    }

    #[test]
    fn the_newest_are_kept_in_order() {
        let mut held = Held::new();
        for n in 0..=MOST_PACKETS {
            let dropped = held.push(ip(1), n.to_be_bytes().to_vec());
            assert_eq!(dropped, u64::from(n == MOST_PACKETS));
        }
        let left = held.take(ip(1));
        assert_eq!(left.len(), MOST_PACKETS);
        assert!(
            left.iter()
                .zip(1usize..)
                .all(|(p, n)| *p == n.to_be_bytes())
        );
        assert!(held.take(ip(1)).is_empty());
    }

    #[test]
    fn bytes_are_bounded() {
        let mut held = Held::new();
        assert_eq!(held.push(ip(1), vec![1; MOST_BYTES]), 0);
        assert_eq!(held.push(ip(1), vec![2; 1]), 1);
        assert_eq!(held.push(ip(1), vec![3; MOST_BYTES - 1]), 0);
        assert_eq!(held.push(ip(1), vec![4; MOST_BYTES + 1]), 1);
        let left = held.take(ip(1));
        assert_eq!(left.iter().map(|p| p[0]).collect::<Vec<_>>(), [2, 3]);
    }

    #[test]
    fn every_packet_that_gives_way_is_counted() {
        let mut held = Held::new();
        for _ in 0..MOST_PACKETS {
            assert_eq!(held.push(ip(1), vec![7; 10]), 0);
        }
        let dropped = held.push(ip(1), vec![9; MOST_BYTES - 15]);
        assert_eq!(dropped, MOST_PACKETS as u64 - 1);
        assert_eq!(held.take(ip(1)).len(), 2);
    }

    #[test]
    fn neighbors_are_bounded_and_the_oldest_gives_way() {
        let mut held = Held::new();
        for n in 0..MOST_NEIGHBORS as u8 {
            assert_eq!(held.push(ip(n), vec![n]), 0);
        }
        // A further packet does not make its neighbor younger.
        assert_eq!(held.push(ip(0), vec![9]), 0);
        assert_eq!(held.push(ip(200), vec![1]), 2);
        assert!(held.take(ip(0)).is_empty());
        assert_eq!(held.take(ip(1)).len(), 1);
        assert_eq!(held.take(ip(200)).len(), 1);
        // The oldest, whatever its address.
        let mut held = Held::new();
        for n in (0..MOST_NEIGHBORS as u8).rev() {
            assert_eq!(held.push(ip(n), vec![n]), 0);
        }
        assert_eq!(held.push(ip(200), vec![1]), 1);
        assert!(held.take(ip(MOST_NEIGHBORS as u8 - 1)).is_empty());
        assert_eq!(held.take(ip(0)).len(), 1);
    }
}
