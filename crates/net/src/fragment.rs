//! Fragments: cutting datagrams that are too long for a path, and putting together
//! those that arrive in pieces (RFC 791 section 3.2, RFC 1122 section 3.3.2, RFC 8200
//! section 4.5).
//!
//! Pieces are kept as they came, sorted, and never overlap, so a datagram is
//! complete when their lengths add up to its own. One that overlaps others ends its
//! datagram (RFC 5722; IPv4 has no use for overlaps either, and they have served
//! attacks only). Memory is bounded for a datagram, for a source and over all; the
//! oldest makes room, of the same source if that has its share.

use crate::{DropCounts, DropReason, Instant};
use core::net::IpAddr;
use longshore_wire::ipv4::{HEADER_LEN, Ipv4Header};

mod ipv6;
mod output;

pub use output::{Part, fragments, fragments_v6};

/// How long an IPv4 datagram may take to come together (RFC 1122 section 3.3.2 leaves
/// 60 to 120 s; Linux has 30 s, and so have we, since identifications come round
/// sooner, RFC 4963).
pub const TIMEOUT_MS: u64 = 30_000;
/// How long an IPv6 packet may take (RFC 8200 section 4.5).
pub const TIMEOUT_V6_MS: u64 = 60_000;

/// What a piece costs beside its bytes.
const PIECE_COST: usize = 64;
/// The longest payload of an IPv4 datagram whose header has no options.
const MAX_IPV4_PAYLOAD: u32 = 65_535 - HEADER_LEN as u32;

/// How much is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Incomplete datagrams.
    pub datagrams: usize,
    /// Bytes in all of them, and 64 more for each piece.
    pub bytes: usize,
    /// Pieces of one datagram.
    pub pieces: usize,
    /// Incomplete datagrams of one source.
    pub source_datagrams: usize,
    /// Bytes of one source, counted like `bytes`.
    pub source_bytes: usize,
    /// How long a datagram may take, in milliseconds.
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
    /// Those of IPv6.
    #[must_use]
    pub fn for_ipv6() -> Self {
        Self {
            timeout_ms: TIMEOUT_V6_MS,
            ..Self::default()
        }
    }
}

/// Which datagram a fragment belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// From.
    pub source: IpAddr,
    /// To.
    pub destination: IpAddr,
    /// Its number.
    pub identification: u32,
    /// What it carries; 0 in IPv6, where that does not count (RFC 8200 section 4.5).
    pub protocol: u8,
}

/// A fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fragment<'a> {
    /// Where it belongs, in bytes.
    pub offset: u32,
    /// It is not the last.
    pub more: bool,
    /// The two ECN bits of its header (RFC 3168 section 5).
    pub ecn: u8,
    /// What it carries.
    pub bytes: &'a [u8],
}

/// A datagram put together again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Whole<H> {
    /// The header of its first fragment, as that of the whole.
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
    /// That of the first fragment.
    header: Option<H>,
    /// Sorted; no two overlap.
    pieces: Vec<Piece>,
    received: u32,
    /// Its length, once the last fragment is there.
    total: Option<u32>,
    /// One bit for each value of the ECN field seen.
    ecn_seen: u8,
    expires: Instant,
}

/// Puts datagrams together. `H` is the header that is kept of their first
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
    /// Takes a fragment of an IPv4 datagram; gives the datagram if it was the last
    /// that was missing.
    ///
    /// # Errors
    /// Why it was not kept; its datagram may have gone with it.
    pub fn add(
        &mut self,
        header: &Ipv4Header,
        payload: &[u8],
        now: Instant,
    ) -> Result<Option<Whole<Ipv4Header>>, DropReason> {
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
    /// Nothing is there yet.
    #[must_use]
    pub const fn new(limits: Limits) -> Self {
        Self {
            limits,
            datagrams: Vec::new(),
            bytes: 0,
            drops: DropCounts::new(),
        }
    }

    /// Takes a fragment of a datagram of at most `max` bytes, in either version of
    /// IP; gives the datagram and its ECN field if it was the last that was missing.
    ///
    /// # Errors
    /// Why it was not kept; its datagram may have gone with it.
    pub fn put(
        &mut self,
        key: Key,
        header: &H,
        fragment: &Fragment<'_>,
        max: u32,
        now: Instant,
    ) -> Result<Option<(Whole<H>, u8)>, DropReason> {
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
            // What is there twice harms nobody.
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

    /// Forgets datagrams that took too long; says how many. Each is in
    /// [`drops`](Self::drops).
    pub fn expire(&mut self, now: Instant) -> usize {
        self.expire_with(now, |_, _| {})
    }

    /// Forgets datagrams that took too long; says how many. `tell` is given the header and the
    /// payload of the first fragment of each, if that has arrived: its sender is
    /// owed an ICMP time exceeded (RFC 1122 section 3.3.2).
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

    /// When the next datagram will have taken too long.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.datagrams.first().map(|d| d.expires)
    }

    /// Datagrams dropped for their age: too long incomplete, or pushed out by newer
    /// ones.
    #[must_use]
    pub const fn drops(&self) -> &DropCounts {
        &self.drops
    }

    /// Incomplete datagrams.
    #[must_use]
    pub fn len(&self) -> usize {
        self.datagrams.len()
    }

    /// Whether nothing is incomplete.
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
            // The newest goes if it alone is too much.
            let oldest = own.clone().find(|(_, d)| d.key != keep);
            match oldest.or_else(|| own.next()) {
                Some((at, _)) => self.evict(at),
                None => return,
            }
        }
        while self.bytes > self.limits.bytes {
            let oldest = self.datagrams.iter().position(|d| d.key != keep);
            // The newest alone is too much.
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
    /// What it adds to the bytes that are bounded.
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

    /// All of it is there.
    fn finish(self) -> Result<(Whole<H>, u8), DropReason> {
        const NOT_ECT: u8 = 0;
        const CE: u8 = 3;
        let ecn = match (self.ecn_seen >> NOT_ECT & 1, self.ecn_seen >> CE & 1) {
            (1, 1) => return Err(DropReason::FragmentEcn),
            (0, 1) => CE,
            (1, 0) => NOT_ECT,
            // ECT(0), ECT(1), or both: one of them.
            _ => self.ecn_seen.trailing_zeros() as u8,
        };
        // Without gaps the first piece is at 0 and has brought a header.
        let header = self.header.ok_or(DropReason::FragmentBadLength)?;
        let mut payload = Vec::with_capacity(self.received as usize);
        for piece in &self.pieces {
            payload.extend_from_slice(&piece.bytes);
        }
        Ok((Whole { header, payload }, ecn))
    }
}

#[cfg(test)]
mod tests;
