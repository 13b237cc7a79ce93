//! The range of a file that a send stream has, as a descriptor has told of it.
//!
//! Owns [`ReportedRange`]. A connection of the stack keeps one, and gives it to `send_streams`, which
//! then looks for no record of the range in the stream's chunks.

use crate::abi::FileExtent;
use std::ops::Range;

/// A stretch of a send stream, and the bytes of which file it is. One is kept for a stream: of
/// others the records in the chunks are read. It is the program's word what is in it, as it is
/// with all payload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReportedRange {
    /// Where it begins, in the lower 48 bits; in the others, which of the session's files it is.
    start_and_file: u64,
    len: u32,
    /// Where in the file it begins.
    offset: u32,
}

/// Bits of where a range begins.
const START_BITS: u32 = 48;

/// What of a stretch of a stream lies before a range, in it and behind it.
pub(super) struct Split {
    pub(super) before: Range<u64>,
    pub(super) within: Range<u64>,
    pub(super) behind: Range<u64>,
}

impl ReportedRange {
    fn start(&self) -> u64 {
        self.start_and_file & ((1 << START_BITS) - 1)
    }

    fn end(&self) -> u64 {
        self.start() + u64::from(self.len)
    }

    fn extent(&self) -> FileExtent {
        FileExtent {
            file: (self.start_and_file >> START_BITS) as u16,
            offset: self.offset,
            len: self.len,
        }
    }

    /// The stream ends with `extent` at `edge`. What was told before is kept instead if not all of
    /// it was `sent` yet, as far as the stream was.
    pub fn report(&mut self, extent: &FileExtent, edge: u64, sent: u64) {
        let Some(start) = edge.checked_sub(extent.len.into()) else {
            return;
        };
        let both = self.extent().joined_with(extent);
        if let Some(both) = both.filter(|_| start == self.end()) {
            self.len = both.len;
        } else if self.end() <= sent && start >> START_BITS == 0 {
            *self = Self {
                start_and_file: start | u64::from(extent.file) << START_BITS,
                len: extent.len,
                offset: extent.offset,
            };
        }
    }

    /// Splits a stretch of the stream by it.
    pub(super) fn split(&self, range: &Range<u64>) -> Split {
        let within = |at: u64| at.clamp(range.start, range.end);
        let (start, end) = (within(self.start()), within(self.end()));
        if start >= end {
            return Split {
                before: range.clone(),
                within: range.end..range.end,
                behind: range.end..range.end,
            };
        }
        Split {
            before: range.start..start,
            within: start..end,
            behind: end..range.end,
        }
    }

    /// Where in which file byte `at` of the stream is, which is in it.
    pub(super) fn place_of(&self, at: u64) -> (u32, u64) {
        let offset = u64::from(self.offset) + (at - self.start());
        (self.extent().file.into(), offset)
    }

    /// Whether it begins there.
    pub(super) fn begins_at(&self, at: u64) -> bool {
        self.start() == at && self.len != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(file: u16, offset: u32, len: u32) -> FileExtent {
        FileExtent { file, offset, len }
    }

    /// The parts of 0..100 before, in and behind it, and where its first byte is.
    fn parts(reported: &ReportedRange) -> ([Range<u64>; 3], Option<(u32, u64)>) {
        let Split {
            before,
            within,
            behind,
        } = reported.split(&(0..100));
        let first = (!within.is_empty()).then(|| reported.place_of(within.start));
        ([before, within, behind], first)
    }

    #[test]
    fn one_that_goes_on_is_one_and_another_waits_until_the_first_was_sent() {
        let mut reported = ReportedRange::default();
        assert_eq!(parts(&reported), ([0..100, 100..100, 100..100], None));
        reported.report(&extent(3, 1000, 20), 30, 0);
        let first = ([0..10, 10..30, 30..100], Some((3, 1000)));
        assert_eq!(parts(&reported), first);
        // Of another file, from another place there, behind a gap, and more than there is.
        for (extent, edge) in [
            (extent(4, 1020, 20), 50),
            (extent(3, 1021, 20), 50),
            (extent(3, 1020, 20), 51),
            (extent(3, 1020, 52), 51),
        ] {
            reported.report(&extent, edge, 29);
            assert_eq!(parts(&reported), first);
        }
        reported.report(&extent(3, 1020, 20), 50, 0);
        assert_eq!(
            parts(&reported),
            ([0..10, 10..50, 50..100], Some((3, 1000)))
        );
        reported.report(&extent(5, 0, 30), 90, 50);
        assert_eq!(parts(&reported), ([0..60, 60..90, 90..100], Some((5, 0))));
        assert!(reported.begins_at(60) && !reported.begins_at(61));
    }

    #[test]
    fn a_stretch_that_it_does_not_reach_lies_before_it() {
        let mut reported = ReportedRange::default();
        reported.report(&extent(1, 7, 100), 300, 0);
        for range in [0..200, 300..400, 250..250] {
            let split = reported.split(&range);
            assert_eq!(split.before, range);
            assert!(split.within.is_empty() && split.behind.is_empty());
        }
        let split = reported.split(&(220..260));
        assert!(split.before.is_empty() && split.behind.is_empty());
        assert_eq!(reported.place_of(split.within.start), (1, 27));
    }
}
