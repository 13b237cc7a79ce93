//! Fragmentation of datagrams that are too long for a path, and reassembly (RFC 791
//! section 3.2, RFC 1122 section 3.3.2, RFC 8200 section 4.5).
//!
//! Fragments are kept as they arrived, sorted, and never overlap, so a datagram is
//! complete when their lengths add up to its own. An overlapping fragment ends its
//! datagram (RFC 5722; IPv4 has no use for overlaps either, which have only served
//! attacks). Memory is bounded per datagram, per source and in total; the oldest datagram
//! is evicted, from the same source if that has used its share.

use crate::{DropCounts, DropReason, Instant};
use core::net::IpAddr;
use longshore_wire::ipv4::{HEADER_LEN, Ipv4Header};

mod ipv6;
mod output;

pub use output::{Part, fragments, fragments_v6};

/// How long the reassembly of an IPv4 datagram may take, milliseconds (RFC 1122 section
/// 3.3.2 recommends 60 to 120 s; Linux uses 30 s, and so do we, since identifications
/// wrap sooner, RFC 4963).
pub const TIMEOUT_MS: u64 = 30_000;
/// How long the reassembly of an IPv6 packet may take (RFC 8200 section 4.5).
pub const TIMEOUT_V6_MS: u64 = 60_000;

/// The cost of a fragment in addition to its bytes.
const PIECE_COST: usize = 64;
/// The longest payload of an IPv4 datagram whose header has no options.
const MAX_IPV4_PAYLOAD: u32 = 65_535 - HEADER_LEN as u32;

/// The limits of reassembly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Incomplete datagrams.
    pub datagrams: usize,
    /// Bytes in all of them, plus 64 for each fragment.
    pub bytes: usize,
    /// Fragments of one datagram.
    pub pieces: usize,
    /// Incomplete datagrams of one source.
    pub source_datagrams: usize,
    /// Bytes of one source, counted like `bytes`.
    pub source_bytes: usize,
    /// How long the reassembly of a datagram may take, in milliseconds.
    pub timeout_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            datagrams: 256,
            bytes: 4 << 20,
            pieces: 256,
            source_datagrams: 64,
            source_bytes: 1 << 20,
            timeout_ms: TIMEOUT_MS,
        }
    }
}

impl Limits {
    /// The limits for IPv6.
    #[must_use]
    pub fn for_ipv6() -> Self {
        Self {
            timeout_ms: TIMEOUT_V6_MS,
            ..Self::default()
        }
    }
}

/// The datagram that a fragment belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// The source address.
    pub source: IpAddr,
    /// The destination address.
    pub destination: IpAddr,
    /// Its identification.
    pub identification: u32,
    /// Its protocol; 0 in IPv6, where it is not part of the key (RFC 8200 section 4.5).
    pub protocol: u8,
}

/// A fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fragment<'a> {
    /// Its offset in the datagram, in bytes.
    pub offset: u32,
    /// More fragments follow.
    pub more: bool,
    /// The two ECN bits of its header (RFC 3168 section 5).
    pub ecn: u8,
    /// Its payload.
    pub bytes: &'a [u8],
}

/// A reassembled datagram.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reassembled<H> {
    /// The header of its first fragment, adjusted for the whole datagram.
    pub header: H,
    /// Its payload.
    pub payload: Vec<u8>,
}

#[derive(Debug)]
struct Piece {
    offset: u32,
    bytes: Box<[u8]>,
}

impl Piece {
    fn end(&self) -> u32 {
        self.offset + self.bytes.len() as u32
    }
}

#[derive(Debug)]
struct Datagram<H> {
    key: Key,
    /// The header of the first fragment.
    header: Option<H>,
    /// Sorted by offset, without overlaps.
    pieces: Vec<Piece>,
    received: u32,
    /// Its length, known once the last fragment has arrived.
    total: Option<u32>,
    /// One bit for each value of the ECN field that has arrived.
    ecn_seen: u8,
    expires: Instant,
}

/// Reassembles datagrams. `H` is the type of header that is kept of their first
/// fragments.
#[derive(Debug)]
pub struct Reassembler<H = Ipv4Header> {
    limits: Limits,
    /// Oldest first.
    datagrams: Vec<Datagram<H>>,
    bytes: usize,
    drops: DropCounts,
}

impl Reassembler<Ipv4Header> {
    /// Adds a fragment of an IPv4 datagram; returns the datagram if that completes it.
    ///
    /// # Errors
    /// Why it was not kept; its datagram may have been dropped too.
    pub fn add(
        &mut self,
        header: &Ipv4Header,
        payload: &[u8],
        now: Instant,
    ) -> Result<Option<Reassembled<Ipv4Header>>, DropReason> {
        let key = Key {
            source: header.source.into(),
            destination: header.destination.into(),
            identification: header.identification.into(),
            protocol: header.protocol,
        };
        let fragment = Fragment {
            offset: header.fragment_offset.into(),
            more: header.more_fragments,
            ecn: header.tos & 3,
            bytes: payload,
        };
        let whole = self.put(key, header, &fragment, MAX_IPV4_PAYLOAD, now)?;
        Ok(whole.map(|(mut whole, ecn)| {
            whole.header.tos = whole.header.tos & !3 | ecn;
            whole.header.payload_len = whole.payload.len() as u16;
            whole.header.more_fragments = false;
            whole
        }))
    }
}

impl<H: Copy> Reassembler<H> {
    /// An empty reassembler.
    #[must_use]
    pub const fn new(limits: Limits) -> Self {
        Self {
            limits,
            datagrams: Vec::new(),
            bytes: 0,
            drops: DropCounts::new(),
        }
    }

    /// Adds a fragment of a datagram of at most `max` bytes, in either version of IP;
    /// returns the datagram and its ECN field if that completes it.
    ///
    /// # Errors
    /// Why it was not kept; its datagram may have been dropped too.
    pub fn put(
        &mut self,
        key: Key,
        header: &H,
        fragment: &Fragment<'_>,
        max: u32,
        now: Instant,
    ) -> Result<Option<(Reassembled<H>, u8)>, DropReason> {
        let len = fragment.bytes.len();
        if len == 0 || (fragment.more && !len.is_multiple_of(8)) {
            return Err(DropReason::FragmentBadLength);
        }
        let end = u32::try_from(len)
            .ok()
            .and_then(|len| fragment.offset.checked_add(len))
            .filter(|end| *end <= max)
            .ok_or(DropReason::FragmentBeyondEnd)?;
        self.expire(now);
        let at = match self.datagrams.iter().position(|d| d.key == key) {
            Some(at) => at,
            None => self.begin(key, now),
        };
        let pieces = self.limits.pieces;
        let Some(datagram) = self.datagrams.get_mut(at) else {
            return Ok(None);
        };
        let taken = datagram.take(header, fragment, end, pieces);
        let is_whole = datagram.total == Some(datagram.received);
        match taken {
            Ok(()) => self.bytes += len + PIECE_COST,
            // An exact duplicate is harmless.
            Err(DropReason::FragmentDuplicate) => return Err(DropReason::FragmentDuplicate),
            Err(reason) => {
                self.remove(at);
                return Err(reason);
            }
        }
        if is_whole {
            return self.remove(at).finish().map(Some);
        }
        self.make_room(key);
        Ok(None)
    }

    /// Drops datagrams that took too long; returns how many. Each is counted in
    /// [`drops`](Self::drops).
    pub fn expire(&mut self, now: Instant) -> usize {
        self.expire_with(now, |_, _| {})
    }

    /// Drops datagrams that took too long; returns how many. `tell` is called with the
    /// header and the payload of the first fragment of each, if that has arrived: its
    /// sender is owed an ICMP time exceeded (RFC 1122 section 3.3.2).
    pub fn expire_with(&mut self, now: Instant, mut tell: impl FnMut(&H, &[u8])) -> usize {
        let before = self.datagrams.len();
        while self.datagrams.first().is_some_and(|d| d.expires <= now) {
            let old = self.remove(0);
            self.drops.count(DropReason::ReassemblyTimeout);
            if let (Some(header), Some(first)) = (&old.header, old.pieces.first()) {
                tell(header, &first.bytes);
            }
        }
        before - self.datagrams.len()
    }

    /// When the next datagram times out.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.datagrams.first().map(|d| d.expires)
    }

    /// Datagrams dropped because they timed out or were evicted for newer ones.
    #[must_use]
    pub const fn drops(&self) -> &DropCounts {
        &self.drops
    }

    /// The number of incomplete datagrams.
    #[must_use]
    pub fn len(&self) -> usize {
        self.datagrams.len()
    }

    /// Whether there are no incomplete datagrams.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.datagrams.is_empty()
    }

    fn begin(&mut self, key: Key, now: Instant) -> usize {
        let same = |d: &&Datagram<H>| d.key.source == key.source;
        let of_source = self.datagrams.iter().filter(same).count();
        if of_source >= self.limits.source_datagrams.max(1) {
            let oldest = self.datagrams.iter().position(|d| same(&d));
            self.evict(oldest.unwrap_or(0));
        } else if self.datagrams.len() >= self.limits.datagrams.max(1) {
            self.evict(0);
        }
        self.datagrams.push(Datagram {
            key,
            header: None,
            pieces: Vec::new(),
            received: 0,
            total: None,
            ecn_seen: 0,
            expires: now.after_ms(self.limits.timeout_ms),
        });
        self.datagrams.len() - 1
    }

    fn make_room(&mut self, keep: Key) {
        while self.bytes_of(keep.source) > self.limits.source_bytes {
            let all = self.datagrams.iter().enumerate();
            let mut own = all.filter(|(_, d)| d.key.source == keep.source);
            // The newest is evicted if it alone exceeds the limit.
            let oldest = own.clone().find(|(_, d)| d.key != keep);
            match oldest.or_else(|| own.next()) {
                Some((at, _)) => self.evict(at),
                None => return,
            }
        }
        while self.bytes > self.limits.bytes {
            let oldest = self.datagrams.iter().position(|d| d.key != keep);
            // The newest alone exceeds the limit.
            self.evict(oldest.unwrap_or(0));
        }
    }

    fn bytes_of(&self, source: IpAddr) -> usize {
        let own = self.datagrams.iter().filter(|d| d.key.source == source);
        own.map(Datagram::cost).sum()
    }

    fn evict(&mut self, at: usize) {
        self.remove(at);
        self.drops.count(DropReason::ReassemblyEvicted);
    }

    fn remove(&mut self, at: usize) -> Datagram<H> {
        let old = self.datagrams.remove(at);
        self.bytes -= old.cost();
        old
    }
}

impl<H: Copy> Datagram<H> {
    /// Its part of the bytes that are bounded.
    fn cost(&self) -> usize {
        self.received as usize + self.pieces.len() * PIECE_COST
    }

    fn take(
        &mut self,
        header: &H,
        fragment: &Fragment<'_>,
        end: u32,
        max_pieces: usize,
    ) -> Result<(), DropReason> {
        let at = self.pieces.partition_point(|p| p.offset < fragment.offset);
        let next = self.pieces.get(at);
        let last_end = self.pieces.last().map_or(0, Piece::end);
        if next.is_some_and(|n| n.offset == fragment.offset && *n.bytes == *fragment.bytes) {
            return Err(DropReason::FragmentDuplicate);
        }
        let after_previous = at
            .checked_sub(1)
            .and_then(|before| self.pieces.get(before))
            .is_none_or(|p| p.end() <= fragment.offset);
        if !after_previous || next.is_some_and(|n| n.offset < end) {
            return Err(DropReason::FragmentOverlap);
        }
        let fits = match (self.total, fragment.more) {
            (None, true) => true,
            (None, false) => last_end <= end,
            (Some(total), more) => more && end <= total,
        };
        if !fits {
            return Err(DropReason::FragmentBeyondEnd);
        }
        if self.pieces.len() >= max_pieces {
            return Err(DropReason::FragmentTooMany);
        }
        if fragment.offset == 0 {
            self.header = Some(*header);
        }
        if !fragment.more {
            self.total = Some(end);
        }
        self.ecn_seen |= 1 << (fragment.ecn & 3);
        self.received += fragment.bytes.len() as u32;
        let piece = Piece {
            offset: fragment.offset,
            bytes: fragment.bytes.into(),
        };
        self.pieces.insert(at, piece);
        Ok(())
    }

    /// All fragments have arrived.
    fn finish(self) -> Result<(Reassembled<H>, u8), DropReason> {
        const NOT_ECT: u8 = 0;
        const CE: u8 = 3;
        let ecn = match (self.ecn_seen >> NOT_ECT & 1, self.ecn_seen >> CE & 1) {
            (1, 1) => return Err(DropReason::FragmentEcn),
            (0, 1) => CE,
            (1, 0) => NOT_ECT,
            // ECT(0), ECT(1), or both: one of them is used.
            _ => self.ecn_seen.trailing_zeros() as u8,
        };
        // Without gaps the first fragment is at 0 and its header was kept.
        let header = self.header.ok_or(DropReason::FragmentBadLength)?;
        let mut payload = Vec::with_capacity(self.received as usize);
        for piece in &self.pieces {
            payload.extend_from_slice(&piece.bytes);
        }
        Ok((Reassembled { header, payload }, ecn))
    }
}

#[cfg(test)]
mod tests;
