//! What the adapter fetches of a send stream for what it sends, as the meter has it: stretches
//! that lie one behind the other, each begun when its first byte is sent and read ahead as far
//! as the host has said that it reaches. So what a stream costs follows from where it lies, and
//! not from when acknowledgments come.
//!
//! Owns [`Fetched`], which a connection keeps; `output` notes there what it sends.

use longshore_hostif::adapter::{Extent, ReportedRange, SendStreams};
use longshore_hostif::{CHUNK, FileExtent, Moved, RANGE_BYTES};
use std::ops::Range;

/// Bytes fetched ahead at most: what the adapter keeps for a connection that sends.
const MOST_AT_ONCE: u64 = CHUNK as u64;

/// How far a send stream was sent, and how far it was fetched.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Fetched {
    sent: u64,
    to: u64,
    /// The range of a file that a descriptor has told of.
    reported: ReportedRange,
    /// Records of others that were fetched.
    records: u32,
}

/// What was fetched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Fetch {
    pub(crate) payload: Moved,
    /// Records of ranges that no descriptor has told of.
    pub(crate) records: Moved,
}

impl Fetched {
    /// `range` of the stream of socket `index` is sent, for which at most what lies below
    /// `end` is fetched; says what is.
    #[inline]
    pub(crate) fn send(
        &mut self,
        streams: &SendStreams,
        index: u32,
        range: &Range<u64>,
        end: u64,
    ) -> Fetch {
        let is_new = range.start >= self.sent;
        if is_new && range.end <= self.to {
            self.sent = range.end;
            return Fetch::default();
        }
        self.fetch(streams, index, range, end)
    }

    /// What is sent once more is not kept, and fetched as far as it is needed.
    #[inline(never)]
    fn fetch(&mut self, streams: &SendStreams, index: u32, range: &Range<u64>, end: u64) -> Fetch {
        let is_new = range.start >= self.sent;
        let (mut at, end) = if is_new {
            (self.to.max(range.start), end.max(range.end))
        } else {
            (range.start, range.end)
        };
        let mut goes_on = is_new && at == self.to;
        let mut fetched = Fetch::default();
        while at < range.end {
            let most = end.min(at + MOST_AT_ONCE);
            // What is not there was found to be so when it was gathered.
            let Ok(found) = streams.extent(&self.reported, index, at..most, goes_on) else {
                break;
            };
            let (Extent::Fetched(bytes) | Extent::AtHand(bytes)) = found.extent;
            if bytes == 0 {
                break;
            }
            if let Extent::Fetched(_) = found.extent {
                fetched.payload.add(&Moved::one(bytes));
            }
            fetched.records.add(&found.records);
            at += bytes;
            goes_on = true;
        }
        let records = fetched.records.transfers as u32;
        self.records = self.records.saturating_add(records);
        if is_new {
            self.to = at;
        }
        self.sent = self.sent.max(range.end);
        fetched
    }

    /// Records of ranges that were fetched.
    pub(crate) fn records(&self) -> Moved {
        Moved::equal(self.records.into(), RANGE_BYTES as u64)
    }

    /// The host says that the stream ends, at `edge`, with these bytes of a file.
    pub(crate) fn note_range(&mut self, extent: &FileExtent, edge: u64) {
        self.reported.report(extent, edge, self.sent);
    }

    /// The range of a file of which it was told.
    #[inline]
    pub(crate) fn reported(&self) -> &ReportedRange {
        &self.reported
    }

    /// The stream was sent up to there by what came with its descriptor.
    #[inline]
    pub(crate) fn skip(&mut self, to: u64) {
        self.sent = self.sent.max(to);
    }
}
