//! Immediate data that was taken from a request ring with its descriptor: read in place, until
//! the place is given back.
//!
//! Owns [`Immediate`]. `channels` makes one with each request; the stack keeps that of the last
//! write of a socket, and asks for it before it looks at the chunks.

use super::{BadStream, ReportedRange, SendStreams, Use};
use crate::abi::ImmediateIn;
use crate::transport::Arena;
use longshore_ring::SharedBytes;
use std::ops::Range;

/// The immediate data of a descriptor. It is the program's word what is in it, as it is with
/// all payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Immediate {
    /// The part of the send stream that it is.
    start: u64,
    end: u64,
    /// Where its descriptor is, and how far behind that its first byte.
    channel: u16,
    own: u16,
    at: u16,
    /// When it was taken.
    pub(super) round: u64,
}

impl Immediate {
    /// What the descriptor in slot `own` of the request ring of `channel` says of it.
    pub(super) fn new(said: &ImmediateIn, (channel, own): (u16, usize), round: u64) -> Self {
        Self {
            start: said.edge.saturating_sub(said.len.into()),
            end: said.edge,
            channel,
            own: own as u16,
            at: said.at,
            round,
        }
    }

    /// Whether it has no bytes.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// What of it lies beyond `edge`.
    #[must_use]
    pub fn beyond(mut self, edge: u64) -> Self {
        let less = edge.clamp(self.start, self.end) - self.start;
        self.start += less;
        self.at += less as u16;
        self
    }

    /// Where it begins in the stream.
    #[inline]
    #[must_use]
    pub fn start(&self) -> u64 {
        self.start
    }

    /// How far it has the stream, where it has the beginning of `range`.
    #[inline]
    fn reaches(&self, range: &Range<u64>) -> Option<u64> {
        (self.start..self.end)
            .contains(&range.start)
            .then(|| range.end.min(self.end))
    }

    /// Finds `range` of the stream in it; says how many of `out` are filled.
    #[inline]
    fn gather<'a>(
        &self,
        arena: &'a Arena,
        range: &Range<u64>,
        out: &mut [SharedBytes<'a>],
    ) -> Option<usize> {
        if self.reaches(range)? != range.end {
            return None;
        }
        let at = usize::from(self.at) + (range.start - self.start) as usize;
        let len = (range.end - range.start) as usize;
        let places = arena.immediate_places(self.channel.into(), self.own.into(), at, len);
        let count = if places[1].1 == 0 { 1 } else { 2 };
        for (slot, (place, len)) in out.get_mut(..count)?.iter_mut().zip(places) {
            *slot = arena.memory().shared(place, len);
        }
        Some(count)
    }
}

impl SendStreams {
    /// Finds the bytes `range` of a send stream in immediate data that came for it, if all of
    /// them are there and its place was not given back. Says how many of `out` are filled.
    #[inline]
    pub fn gather_immediate<'a>(
        &'a self,
        immediate: &Immediate,
        range: &Range<u64>,
        out: &mut [SharedBytes<'a>],
    ) -> Option<usize> {
        if immediate.round != self.round {
            return None;
        }
        immediate.gather(&self.arena, range, out)
    }

    /// Finds the bytes `range` of a send stream, the first of them in immediate data that came for
    /// it, as far as they are there and its place was not given back, and the others as
    /// [`gather`](Self::gather) does, where a descriptor has told of a range of a file. Says how
    /// many of `out` are filled, and how many bytes of them are immediate data.
    ///
    /// # Errors
    /// [`BadStream`].
    #[inline]
    pub fn gather_with<'a>(
        &'a self,
        (immediate, reported): (&Immediate, &ReportedRange),
        index: u32,
        range: Range<u64>,
        used: Use,
        out: &mut [SharedBytes<'a>],
    ) -> Result<(usize, u64), BadStream> {
        if immediate.round == self.round
            && let Some(to) = immediate.reaches(&range)
            && let Some(count) =
                self.gather_behind((immediate, reported), to, index, &range, used, out)
        {
            return Ok((count, to - range.start));
        }
        Ok((self.gather_reported(reported, index, range, used, out)?, 0))
    }

    #[inline]
    fn gather_behind<'a>(
        &'a self,
        (immediate, reported): (&Immediate, &ReportedRange),
        to: u64,
        index: u32,
        range: &Range<u64>,
        used: Use,
        out: &mut [SharedBytes<'a>],
    ) -> Option<usize> {
        let count = immediate.gather(&self.arena, &(range.start..to), out)?;
        if to == range.end {
            return Some(count);
        }
        // With more pieces than there is room for, all are taken from where they lie.
        let rest =
            self.gather_reported(reported, index, to..range.end, used, out.get_mut(count..)?);
        Some(count + rest.ok()?)
    }

    /// Whether the place of immediate data was not given back.
    #[inline]
    #[must_use]
    pub fn has_immediate(&self, immediate: &Immediate) -> bool {
        immediate.round == self.round
    }

    /// Copies bytes of a send stream, from `at` on, out of immediate data, if all of them are
    /// there.
    #[must_use]
    pub fn copy_immediate_out(&self, immediate: &Immediate, at: u64, to: &mut [u8]) -> bool {
        let mut pieces = [SharedBytes::EMPTY; 2];
        let range = at..at + to.len() as u64;
        let Some(count) = self.gather_immediate(immediate, &range, &mut pieces) else {
            return false;
        };
        let mut rest = to;
        for piece in pieces.get(..count).unwrap_or_default() {
            let (part, after) = rest.split_at_mut(piece.len());
            piece.copy_to(part);
            rest = after;
        }
        true
    }
}

#[cfg(test)]
mod tests;
