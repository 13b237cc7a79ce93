//! What one end has received: how far it reaches, how far its host has read, and where it lies.
//!
//! Owns [`ReceiveHalf`], a part of [`Pair`](super::Pair). What was lent lies in the other end's
//! send chunks; `pair::loan` says when it is. Positions are offsets in the stream, bytes.

use longshore_hostif::adapter::{NoChunk, NotLent, ReceiveSlab, ReceiveStream, SendStreams};
use std::ops::Range;

/// The receiving half of an end.
#[derive(Debug)]
pub(crate) struct ReceiveHalf {
    stream: ReceiveStream,
    edge: u64,
    consumed: u64,
    /// From here on it lies in the other end's send chunks; [`u64::MAX`] if nothing does.
    lent_from: u64,
    /// Of that, what lies before this is in chunks of its own.
    kept_to: u64,
    urgent: u64,
    urgent_is_unreported: bool,
    fin: bool,
    shut: bool,
}

impl ReceiveHalf {
    pub(super) const EMPTY: Self = Self {
        stream: ReceiveStream::EMPTY,
        edge: 0,
        consumed: 0,
        lent_from: u64::MAX,
        kept_to: 0,
        urgent: 0,
        urgent_is_unreported: false,
        fin: false,
        shut: false,
    };

    /// Where it lies.
    pub(crate) fn stream(&self) -> &ReceiveStream {
        &self.stream
    }

    /// Where it lies, to be changed.
    pub(crate) fn stream_mut(&mut self) -> &mut ReceiveStream {
        &mut self.stream
    }

    /// How far the other end's bytes have come.
    pub(crate) fn edge(&self) -> u64 {
        self.edge
    }

    /// How far the host has read.
    pub(crate) fn consumed(&self) -> u64 {
        self.consumed
    }

    /// The bytes that the host has not read.
    pub(crate) fn unread(&self) -> Range<u64> {
        self.consumed..self.edge
    }

    /// So many bytes have come.
    pub(crate) fn advance(&mut self, len: u64) {
        self.edge += len;
    }

    /// The host has read up to `consumed`, if it had not before: what was read is given back,
    /// and if that is all, what comes next may be copied again.
    pub(crate) fn consume(&mut self, consumed: u64, slab: &mut ReceiveSlab) {
        if consumed <= self.consumed {
            return;
        }
        self.consumed = consumed;
        let all = consumed == self.edge;
        self.stream.consume(consumed, all, slab);
        if all {
            self.lent_from = u64::MAX;
        }
    }

    // ---- what is lent ----

    /// Whether its host reads in the other end's chunks.
    pub(crate) fn is_lent(&self) -> bool {
        self.lent_from != u64::MAX
    }

    /// Of what the other end has sent up to `moved`, so much is done with.
    pub(crate) fn done_of(&self, moved: u64) -> u64 {
        moved.min(self.kept_from())
    }

    /// Before this, nobody reads in the other end's chunks any more.
    pub(crate) fn kept_from(&self) -> u64 {
        self.consumed.max(self.lent_from)
    }

    /// The bytes `range`, which come next, lie in the send stream `source`, of a sender's socket
    /// that has this index.
    ///
    /// # Errors
    /// [`NotLent`]; then nothing has changed.
    pub(crate) fn lend(
        &mut self,
        range: &Range<u64>,
        source: (&SendStreams, u32),
        slab: &mut ReceiveSlab,
        index: u32,
    ) -> Result<(), NotLent> {
        self.stream.lend(range, source, slab, index)?;
        self.lent_from = self.lent_from.min(range.start);
        Ok(())
    }

    /// What lies in the other end's chunks, and the host has not read, is copied to chunks of
    /// its own.
    ///
    /// # Errors
    /// [`NoChunk`]; what was copied before that is found in its own chunks.
    pub(crate) fn keep_lent(&mut self, slab: &mut ReceiveSlab, index: u32) -> Result<(), NoChunk> {
        let lent = self.kept_from().max(self.kept_to)..self.edge;
        if !lent.is_empty() {
            self.stream.keep_lent(&lent, slab, index)?;
            self.kept_to = lent.end;
        }
        Ok(())
    }

    /// All that was lent lies in chunks of its own, and nothing more is lent.
    pub(crate) fn end_loan(&mut self) {
        self.lent_from = u64::MAX;
    }

    // ---- urgent data ----

    /// What follows the last urgent byte; 0 if there was none.
    pub(crate) fn urgent(&self) -> u64 {
        self.urgent
    }

    /// An urgent byte is on its way, or here: `urgent` follows it. Says whether that is new.
    pub(crate) fn note_urgent(&mut self, urgent: u64) -> bool {
        let is_new = urgent > self.urgent;
        if is_new {
            self.urgent = urgent;
            self.urgent_is_unreported = true;
        }
        is_new
    }

    /// Whether the host has not been told of the last urgent byte.
    pub(crate) fn has_unreported_urgent(&self) -> bool {
        self.urgent_is_unreported
    }

    /// The host is told of the last urgent byte. Says whether it had not been.
    pub(crate) fn report_urgent(&mut self) -> bool {
        std::mem::take(&mut self.urgent_is_unreported)
    }

    // ---- its end ----

    /// Whether the other end has said that it sends no more, and all it sent is here.
    pub(crate) fn has_fin(&self) -> bool {
        self.fin
    }

    /// The other end sends no more, and all it sent is here. Says whether that is new.
    pub(crate) fn note_fin(&mut self) -> bool {
        !std::mem::replace(&mut self.fin, true)
    }

    /// Whether this end's host has shut its receiving half down.
    pub(crate) fn is_shut(&self) -> bool {
        self.shut
    }

    /// This end's host has shut its receiving half down.
    pub(crate) fn shut(&mut self) {
        self.shut = true;
    }
}
