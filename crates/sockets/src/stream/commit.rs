//! Sending what was written into reserved room: the edge moves, and the engine is told of it.
//!
//! Called by whatever has filled a [`Reserved`].

use super::send::Reserved;
use super::sending::Sending;
use crate::block_words::{advance, flags_of_written, host_bits};
use crate::errors::SocketError;
use crate::turn::Wake;
use longshore_hostif::{BlockFlags, EdgeFlags, FileExtent, MAX_IMMEDIATE, Request};
use std::sync::atomic::Ordering;

/// Bytes that were written before and are not acknowledged, behind which nothing travels with
/// its descriptor: what is sent in a long stream is better read where it lies, in few pieces.
const MOST_AHEAD: u64 = 16 * 1024;

impl Reserved<'_> {
    /// Sends the first `len` bytes; the rest of the reservation lapses.
    ///
    /// # Errors
    /// [`SocketError::EngineGone`], [`SocketError::Broken`].
    pub fn commit(self, len: usize, more: bool) -> Result<(), SocketError> {
        self.finish(len, Sending::more(more))
    }

    /// How much of what is reserved travels with its descriptor: all, if it is little and
    /// nothing is likely to keep it from being sent at once, or nothing.
    fn immediate(&self) -> u16 {
        let block = self.stream.block;
        let written_before = self
            .edge
            .saturating_sub(block.snd.done.load(Ordering::Relaxed));
        let may_wait_for_ack = !block.flags().contains(BlockFlags::DATAGRAM)
            && block.options.load(Ordering::Relaxed) & host_bits::NO_DELAY == 0;
        // Where Nagle's algorithm holds it: what was written just before goes with it.
        let most = if may_wait_for_ack {
            MAX_IMMEDIATE as u64
        } else {
            MOST_AHEAD
        };
        let may_cross = self.len <= MAX_IMMEDIATE && self.stream.takes_immediate_data();
        if may_cross && written_before <= most {
            self.len as u16
        } else {
            0
        }
    }

    pub(super) fn finish(self, len: usize, sending: Sending) -> Result<(), SocketError> {
        self.finish_with(len, sending, true, None)
    }

    /// As `finish`, where what stands in the chunks is ranges of files, and no bytes: those of
    /// `extent`, if a descriptor can tell of them.
    pub(super) fn finish_range(
        self,
        len: usize,
        more: bool,
        extent: Option<FileExtent>,
    ) -> Result<(), SocketError> {
        self.finish_with(len, Sending::more(more), false, extent)
    }

    fn finish_with(
        mut self,
        len: usize,
        sending: Sending,
        is_copied: bool,
        extent: Option<FileExtent>,
    ) -> Result<(), SocketError> {
        self.len = len.min(self.len);
        if self.len == 0 {
            return Ok(());
        }
        let edge = self.edge + self.len as u64;
        let (socket, block) = (self.stream.socket, self.stream.block);
        block.snd.edge.store(edge, Ordering::Release);
        if sending.contains(Sending::STAMPED) {
            self.stream.ask_for_stamps(edge)?;
        }
        let ends_record = sending.contains(Sending::RECORD_END);
        let mut flags = flags_of_written(block, sending.contains(Sending::MORE));
        flags.set(EdgeFlags::RECORD_END, ends_record);
        let host = socket.host;
        let mut request = host.edges(block, socket.id, flags);
        let mut is_immediate = false;
        if let Request::Edges {
            rcv_consumed,
            immediate,
            ..
        } = &mut request
        {
            let rcv_consumed = *rcv_consumed;
            advance(&block.rcv.reported, rcv_consumed);
            if sending.contains(Sending::URGENT) {
                let urgent = Request::Urgent {
                    socket: socket.id,
                    snd_edge: edge,
                    rcv_consumed,
                };
                if ends_record {
                    host.messages().report(&urgent, Wake::Never)?;
                } else {
                    request = urgent;
                }
            } else {
                *immediate = if is_copied { self.immediate() } else { 0 };
                is_immediate = *immediate != 0;
            }
        }
        if let Some(extent) = extent {
            request = request.sending(extent);
        }
        let copied = if is_copied { self.len as u64 } else { 0 };
        if is_immediate {
            // It is copied from the chunks, which stay the stream's as long as the lock is held.
            host.messages().report_written(&request, copied)?;
            drop(self);
        } else {
            // The lock goes, and with it the chunks that were not needed.
            drop(self);
            host.messages().report_written(&request, copied)?;
        }
        socket.pair_end().note_done();
        Ok(())
    }
}

#[cfg(test)]
mod tests;
