//! Ranges of files in send streams, on the host's side: which files the engine has, and the
//! ranges that are written where the bytes would be.
//!
//! Owns [`SentRanges`]. `sockets` appends ranges under the lock of the stream, and only up to an edge that it then
//! publishes.

use super::session::HostSession;
use super::streams::{StreamError, parts};
use crate::abi::{
    FILES, FileExtent, FileId, FileRange, LEAST_RANGE, chunk_of, lent_chunk, place_of_range,
    with_ranges,
};
use crate::transport::Arena;
use std::sync::atomic::Ordering;

/// A file that the engine has, held: it stays until this is dropped.
#[derive(Debug)]
pub struct HeldFile<'a> {
    session: &'a HostSession,
    place: usize,
    len: u64,
}

impl HeldFile<'_> {
    /// Bytes of it that may be sent, from its beginning.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// So many bytes of it from `offset` on, as a descriptor tells of them; `None` if none can, or
    /// the engine does not know of that.
    #[must_use]
    pub fn extent(&self, offset: u64, len: usize) -> Option<FileExtent> {
        let knows = self.session.agreed().knows_ranges();
        Some(FileExtent {
            file: u16::try_from(self.place).ok().filter(|_| knows)?,
            offset: u32::try_from(offset).ok()?,
            len: u32::try_from(len).ok()?,
        })
    }
}

impl Drop for HeldFile<'_> {
    fn drop(&mut self) {
        self.session.arena.header().files[self.place].release();
    }
}

impl HostSession {
    /// Whether the engine takes files.
    #[must_use]
    pub fn takes_files(&self) -> bool {
        self.arena.takes_files()
    }

    /// Whether there is room for another one.
    #[must_use]
    pub fn has_room_for_file(&self) -> bool {
        let files = &self.arena.header().files;
        files.iter().any(|file| file.is_free())
    }

    /// Holds this file, if the engine has it.
    #[must_use]
    pub fn hold_file(&self, id: FileId) -> Option<HeldFile<'_>> {
        let files = &self.arena.header().files;
        let mut found = (0..FILES).filter_map(|place| Some((place, files[place].hold(id)?)));
        let (place, len) = found.next()?;
        Some(HeldFile {
            session: self,
            place,
            len,
        })
    }

    /// Whether what one socket of the session has received may be sent by another where it lies.
    #[must_use]
    pub fn takes_forwards(&self) -> bool {
        self.arena.takes_forwards()
    }

    /// Whether one of them may have its other end in the session.
    #[must_use]
    pub fn takes_forwards_within(&self) -> bool {
        self.arena.takes_forwards_within()
    }

    /// The ranges in the send stream of a socket.
    #[must_use]
    pub fn ranges(&self, index: u32) -> SentRanges<'_> {
        SentRanges {
            arena: &self.arena,
            index,
        }
    }
}

/// The ranges of files and of other sockets' receive streams that stand in the send stream of one
/// socket where its bytes would be.
#[derive(Debug, Clone, Copy)]
pub struct SentRanges<'a> {
    arena: &'a Arena,
    index: u32,
}

impl SentRanges<'_> {
    /// Writes that `len` bytes at `within` of chunk `number` are those at `offset` of a file.
    /// `false` if that is too short to be a range. The caller has the lock of the stream, whose
    /// edge is not beyond these bytes.
    ///
    /// # Errors
    /// [`StreamError`].
    pub fn write(
        self,
        (number, within, len): (u64, usize, usize),
        file: &HeldFile<'_>,
        offset: u64,
    ) -> Result<bool, StreamError> {
        if len < self.arena.agreed().least_range() {
            return Ok(false);
        }
        let range = FileRange {
            from: within as u32,
            to: (within + len) as u32,
            next: 0,
            file: file.place as u32,
            offset,
        };
        self.add(number, &range)?;
        Ok(true)
    }

    /// Writes that `len` bytes of the stream from `at` on are those that socket `source` has
    /// received from `from` on; says how many of them were copied, as they are too few in one
    /// place; `None`, and nothing is written, if the source was lent some of them and the adapter
    /// does not take that. The caller has the locks of both halves, and the send stream, whose edge
    /// is not beyond these bytes, has chunks for them.
    ///
    /// # Errors
    /// [`StreamError`].
    pub fn write_forwarded(
        self,
        at: u64,
        (source, from): (u32, u64),
        len: usize,
    ) -> Result<Option<usize>, StreamError> {
        let (sent, received) = (
            self.arena.snd_directory(self.index),
            self.arena.rcv_directory(source),
        );
        let is_lent = |(number, ..): (u64, usize, usize)| {
            let entry = received.entry(number).load(Ordering::Acquire);
            lent_chunk(entry).is_some()
        };
        if !self.arena.takes_forwards_within() && parts(from, len).any(is_lent) {
            return Ok(None);
        }
        let memory = self.arena.memory();
        let (mut done, mut copied) = (0, 0);
        for (number, mut within, here) in parts(at, len) {
            for (its, there, piece) in parts(from + done as u64, here) {
                let entry = received.entry(its).load(Ordering::Acquire);
                let found = self.arena.received_place(entry, there, piece);
                let found = found.ok_or(StreamError::Broken)?;
                if piece >= LEAST_RANGE {
                    let range = FileRange::of_received((within, within + piece), entry, there);
                    self.add(number, &range)?;
                } else {
                    let chunk = chunk_of(sent.entry(number).load(Ordering::Relaxed));
                    let place = self.arena.snd_place(chunk, within, piece);
                    memory.copy_to(found, piece, memory, place.ok_or(StreamError::Broken)?);
                    copied += piece;
                }
                within += piece;
                done += piece;
            }
        }
        Ok(Some(copied))
    }

    /// Appends a range to those of chunk `number`.
    fn add(self, number: u64, range: &FileRange) -> Result<(), StreamError> {
        let within = range.from as usize;
        let directory = self.arena.snd_directory(self.index);
        let entry = directory.entry(number);
        let now = entry.load(Ordering::Relaxed);
        let chunk = chunk_of(now);
        // Those of bytes that are not appended after all are written over.
        let before = self.arena.file_ranges(now);
        let before = before.take_while(|range| range.is_ok_and(|r| r.to as usize <= within));
        let last = before.last().and_then(Result::ok);
        self.put(chunk, range)?;
        match last {
            Some(last) => {
                let next = place_of_range(within) as u32;
                self.put(chunk, &FileRange { next, ..last })?;
            }
            None => entry.store(with_ranges(chunk, within), Ordering::Release),
        }
        Ok(())
    }

    /// Forgets ranges of chunk `number` beyond `within`, where its edge is: a process that has
    /// died may have written some and not moved the edge. The caller has the lock of the stream.
    ///
    /// # Errors
    /// [`StreamError`].
    pub fn end(self, number: u64, within: usize) -> Result<(), StreamError> {
        let directory = self.arena.snd_directory(self.index);
        let entry = directory.entry(number);
        let now = entry.load(Ordering::Relaxed);
        if chunk_of(now) == now {
            return Ok(());
        }
        let ranges = self.arena.file_ranges(now).map_while(Result::ok);
        match ranges
            .take_while(|range| range.to as usize <= within)
            .last()
        {
            Some(last) => self.put(chunk_of(now), &FileRange { next: 0, ..last }),
            None => {
                entry.store(chunk_of(now), Ordering::Release);
                Ok(())
            }
        }
    }

    fn put(self, chunk: u32, range: &FileRange) -> Result<(), StreamError> {
        let bytes = range.encode();
        let at = place_of_range(range.from as usize);
        let place = self.arena.snd_place(chunk, at, bytes.len());
        let place = place.ok_or(StreamError::Broken)?;
        self.arena.memory().write(place, &bytes);
        Ok(())
    }
}
