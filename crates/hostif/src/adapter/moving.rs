//! Bytes that go from a send stream of one socket to the receive stream of another on the
//! same engine, each copied once; called for connections whose both ends are here.

use super::receive_slab::ReceiveSlab;
use super::receive_stream::{NoChunk, ReceiveStream};
use super::reported_range::ReportedRange;
use super::send_streams::{BadStream, Part, SendStreams};
use crate::meter::Moved;
use std::ops::Range;

/// Why bytes were not moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotMoved {
    /// There are none such.
    Bad(BadStream),
    /// There is no room for them.
    NoChunk(NoChunk),
}

impl SendStreams {
    /// Whether ranges of files may be among the bytes: the files are to be looked at from time to
    /// time ([`look_at_files`](Self::look_at_files)).
    #[inline]
    #[must_use]
    pub fn has_files(&self) -> bool {
        self.files.is_some()
    }

    /// Copies bytes `range` of the send stream of socket `from` to the end of `to`, the receive
    /// stream of socket `index`, which holds what lies between `held.start` and `held.end`: each
    /// once, those of files from where the kernel has them. Says what was moved.
    ///
    /// # Errors
    /// [`NotMoved`]; then some may be there, beyond the end.
    pub fn move_to(
        &self,
        (from, range): (u32, Range<u64>),
        to: &mut ReceiveStream,
        held: Range<u64>,
        slab: &mut ReceiveSlab,
        index: u32,
    ) -> Result<Moved, NotMoved> {
        let (base, mut at) = (held.start, held.end);
        let (mut moved, mut full) = (Moved::default(), None);
        let seen = self.visit(&ReportedRange::default(), from, range, |part| {
            let (Part::Memory(_, len) | Part::Received(_, len) | Part::File(_, _, len)) = part
            else {
                return Ok(());
            };
            let begins = at;
            at += len as u64;
            let room = begins..at;
            let placed = match part {
                Part::Memory(from, _) | Part::Received(from, _) => {
                    let source = self.arena.memory();
                    to.place_by(base, room, slab, index, |memory, place, done, len| {
                        source.copy_to(from + done, len, memory, place);
                    })
                }
                Part::File(file, offset, _) => {
                    let file = self.file(file)?;
                    to.place_by(base, room, slab, index, |memory, place, done, len| {
                        let offset = offset.saturating_add(done as u64);
                        memory.read_file(file, offset, place, len);
                    })
                }
                Part::Record { .. } => Ok(0),
            };
            let pieces = placed.map_err(|none| {
                full = Some(none);
                BadStream
            })?;
            moved.add(&Moved::of_stream(pieces, begins, at - begins));
            Ok(())
        });
        match (full, seen) {
            (Some(none), _) => Err(NotMoved::NoChunk(none)),
            (None, Err(bad)) => Err(NotMoved::Bad(bad)),
            (None, Ok(())) => Ok(moved),
        }
    }
}
