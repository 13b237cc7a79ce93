//! What the adapter fetches of a send stream for what it sends, as the meter has it: stretches
//! that lie one behind the other, each begun when its first byte is sent and read ahead as far
//! as the host has said that it reaches. So what a stream costs follows from where it lies, and
//! not from when acknowledgments come.
//!
//! Owns [`Fetched`], which a connection keeps; `output` notes there what it sends.

use longshore_hostif::adapter::{Extent, SendStreams};
use longshore_hostif::{CHUNK, Moved};
use std::ops::Range;

/// Bytes fetched ahead at most: what the adapter keeps for a connection that sends.
const MOST_AT_ONCE: u64 = CHUNK as u64;

/// How far a send stream was sent, and how far it was fetched.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Fetched {
    sent: u64,
    to: u64,
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
    ) -> Moved {
        let is_new = range.start >= self.sent;
        if is_new && range.end <= self.to {
            self.sent = range.end;
            return Moved::default();
        }
        self.fetch(streams, index, range, end)
    }

    /// What is sent once more is not kept, and fetched as far as it is needed.
    #[inline(never)]
    fn fetch(&mut self, streams: &SendStreams, index: u32, range: &Range<u64>, end: u64) -> Moved {
        let is_new = range.start >= self.sent;
        let (mut at, end) = if is_new {
            (self.to.max(range.start), end.max(range.end))
        } else {
            (range.start, range.end)
        };
        let mut fetched = Moved::default();
        while at < range.end {
            let most = end.min(at + MOST_AT_ONCE);
            // What is not there was found to be so when it was gathered.
            match streams.extent(index, at..most) {
                Ok(Extent::Fetched(bytes @ 1..)) => {
                    fetched.count(1, bytes);
                    at += bytes;
                }
                Ok(Extent::AtHand(bytes)) => at += bytes,
                Ok(Extent::Fetched(0)) | Err(_) => break,
            }
        }
        if is_new {
            self.to = at;
        }
        self.sent = self.sent.max(range.end);
        fetched
    }

    /// The stream was sent up to there by what came with its descriptor.
    #[inline]
    pub(crate) fn skip(&mut self, to: u64) {
        self.sent = self.sent.max(to);
    }
}
