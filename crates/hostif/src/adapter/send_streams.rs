//! Reading what the host wrote to send streams.
//!
//! A send stream's directory is the host's, so each entry that is read from it is checked.

use super::files::Files;
use super::reported_range::{ReportedRange, Split};
use super::spans::{MAX_GATHERED, spans};
use crate::abi::{
    ALIGNMENT, CHUNK, DIRECTORY, FileRange, RANGE_BYTES, chunk_of, first_range, lent_chunk,
    place_of_range,
};
use crate::meter::Moved;
use crate::transport::Arena;
use longshore_ring::{MappedFile, SharedBytes, SharedMemory};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Most pieces that what is gathered at once lies in: those of a chunk each, the first and the
/// last in part, and immediate data.
pub const MAX_PIECES: usize = MAX_GATHERED / CHUNK + 2;

/// Bytes of files that are given to the kernel where they are; less is read.
const LEAST_PASSED: usize = 4096;

/// The send stream does not hold what its host said that it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadStream;

/// What is done with the bytes that are gathered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// They are copied, summed or looked at.
    Read,
    /// They are given to the kernel and not touched. It may fail with EFAULT, as a file may
    /// have become shorter: then they are gathered again, to be read.
    Pass,
}

/// The send streams of a session's sockets, by the indices of their blocks. Cheap to clone.
#[derive(Debug, Clone)]
pub struct SendStreams {
    pub(super) arena: Arc<Arena>,
    /// Counts how often places of requests were given back, from 1 on.
    pub(super) round: u64,
    /// The files of which they may have ranges, if there are any.
    pub(super) files: Option<Arc<Files>>,
    /// Where bytes are put together that lie in too many pieces, if some may: those that other
    /// sockets have received.
    pub(super) scratch: Option<Arc<SharedMemory>>,
}

/// Bytes of a send stream that lie one behind the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// So many are fetched together: programs have written them, or they are a file's.
    Fetched(u64),
    /// So many are nothing that a program has touched: the adapter has received them itself.
    AtHand(u64),
}

/// How the next bytes of a send stream are fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// How many, and from where.
    pub extent: Extent,
    /// The records that say so, which are fetched for that.
    pub records: Moved,
}

/// Bytes of a send stream that another socket has received.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ForwardedBytes {
    /// All of them.
    pub all: u64,
    /// Those that the adapter has placed there: the others were lent to it.
    pub placed: u64,
}

/// Where a part of a stream lies.
pub(super) enum Part {
    /// In the memory, at a place there, and so many bytes.
    Memory(usize, usize),
    /// There, too, where another socket of the session has received them, which was not lent
    /// them.
    Received(usize, usize),
    /// In a file, from an offset on, and so many bytes.
    File(u32, u64, usize),
    /// Nothing: the record of a range was read, which is known to one that comes from what lies before.
    Record {
        /// Whether it is.
        is_known: bool,
    },
}

impl SendStreams {
    pub(super) fn of(arena: &Arc<Arena>) -> Self {
        Self {
            arena: arena.clone(),
            round: 1,
            files: None,
            scratch: None,
        }
    }

    /// Finds the bytes `range` of the send stream of socket `index`, which are used in place.
    /// Says how many of `out` are filled. What lies in files and is to be read is copied to
    /// memory that the next call uses again.
    ///
    /// # Errors
    /// [`BadStream`].
    #[inline]
    pub fn gather<'a>(
        &'a self,
        index: u32,
        range: Range<u64>,
        used: Use,
        out: &mut [SharedBytes<'a>],
    ) -> Result<usize, BadStream> {
        self.gather_reported(&ReportedRange::default(), index, range, used, out)
    }

    /// As `gather`, where a descriptor has told of a range of a file.
    ///
    /// # Errors
    /// [`BadStream`].
    #[inline]
    pub(super) fn gather_reported<'a>(
        &'a self,
        reported: &ReportedRange,
        index: u32,
        range: Range<u64>,
        used: Use,
        out: &mut [SharedBytes<'a>],
    ) -> Result<usize, BadStream> {
        if let Some(place) = self.place_in_chunk(index, &range)
            && let Some(slot) = out.first_mut()
        {
            *slot = (self.arena.memory()).shared(place, (range.end - range.start) as usize);
            return Ok(1);
        }
        self.gather_parts(reported, index, range, used, out)
    }

    /// Where bytes of a stream lie, if they are in one chunk, as those of a packet nearly always
    /// are, and the chunk has nothing but memory.
    #[inline]
    fn place_in_chunk(&self, index: u32, range: &Range<u64>) -> Option<usize> {
        let within = range.start as usize % CHUNK;
        let len = (range.end - range.start) as usize;
        if len > CHUNK - within {
            return None;
        }
        let directory = self.arena.snd_directory(index);
        let entry = directory.entry(range.start / CHUNK as u64);
        self.arena
            .snd_place(entry.load(Ordering::Acquire), within, len)
    }

    #[inline(never)]
    fn gather_parts<'a>(
        &'a self,
        reported: &ReportedRange,
        index: u32,
        range: Range<u64>,
        used: Use,
        out: &mut [SharedBytes<'a>],
    ) -> Result<usize, BadStream> {
        let memory = self.arena.memory();
        let len = (range.end - range.start) as usize;
        let (mut count, mut in_files, mut too_many) = (0_usize, false, false);
        self.visit(reported, index, range.clone(), |part| {
            let bytes = match part {
                Part::Memory(place, len) | Part::Received(place, len) => memory.shared(place, len),
                Part::File(file, offset, len) => {
                    in_files = true;
                    let file = self.file(file)?;
                    file.for_the_kernel(offset, len).ok_or(BadStream)?
                }
                Part::Record { .. } => return Ok(()),
            };
            // What follows in the memory, too, is one piece.
            let last = count.checked_sub(1).and_then(|last| out.get_mut(last));
            if let Some(last) = last.filter(|l| l.are_followed_by(&bytes)) {
                *last = last.joined_with(&bytes);
                return Ok(());
            }
            match out.get_mut(count) {
                Some(slot) => (*slot, count) = (bytes, count + 1),
                None => too_many = true,
            }
            Ok(())
        })?;
        // A port may copy what is short.
        let can_be_passed = used == Use::Pass && !too_many && len >= LEAST_PASSED;
        match (in_files, too_many) {
            (false, true) if self.scratch.is_none() => Err(BadStream),
            (in_files, too_many) if too_many || in_files && !can_be_passed => {
                let bytes = self.read_out(reported, index, range)?;
                *out.first_mut().ok_or(BadStream)? = bytes;
                Ok(1)
            }
            _ => Ok(count),
        }
    }

    /// Copies bytes to memory of this side's own, as some are in files, or all in many pieces.
    fn read_out(
        &self,
        reported: &ReportedRange,
        index: u32,
        range: Range<u64>,
    ) -> Result<SharedBytes<'_>, BadStream> {
        let of_files = self.files.as_ref().map(|files| &files.scratch);
        let scratch = of_files.or(self.scratch.as_ref()).ok_or(BadStream)?;
        let total = (range.end - range.start) as usize;
        if total > scratch.len() {
            return Err(BadStream);
        }
        let mut at = 0;
        self.visit(reported, index, range, |part| {
            match part {
                Part::Memory(place, len) | Part::Received(place, len) => {
                    self.arena.memory().copy_to(place, len, scratch, at);
                    at += len;
                }
                Part::File(file, offset, len) => {
                    scratch.read_file(self.file(file)?, offset, at, len);
                    at += len;
                }
                Part::Record { .. } => {}
            }
            Ok(())
        })?;
        Ok(scratch.shared(0, total))
    }

    pub(super) fn file(&self, place: u32) -> Result<&MappedFile, BadStream> {
        let files = self.files.as_ref().ok_or(BadStream)?;
        files.get(place).ok_or(BadStream)
    }

    /// Calls `each` for the parts that bytes of a stream lie in, in order, and for each record that
    /// is read to find them, before what it is about. Of a range that was `told` none is.
    pub(super) fn visit(
        &self,
        reported: &ReportedRange,
        index: u32,
        range: Range<u64>,
        mut each: impl FnMut(Part) -> Result<(), BadStream>,
    ) -> Result<(), BadStream> {
        let Split {
            before,
            within,
            behind,
        } = reported.split(&range);
        self.visit_chunks(reported, index, before, &mut each)?;
        if !within.is_empty() {
            let (file, offset) = reported.place_of(within.start);
            each(Part::File(
                file,
                offset,
                (within.end - within.start) as usize,
            ))?;
        }
        self.visit_chunks(reported, index, behind, &mut each)
    }

    /// As `visit`, of what lies outside of the range that was told.
    fn visit_chunks(
        &self,
        reported: &ReportedRange,
        index: u32,
        range: Range<u64>,
        each: &mut impl FnMut(Part) -> Result<(), BadStream>,
    ) -> Result<(), BadStream> {
        let directory = self.arena.snd_directory(index);
        for (number, within, len) in spans(range) {
            let entry = directory.entry(number).load(Ordering::Acquire);
            let (mut at, end) = (within, within + len);
            let first = first_range(entry);
            let is_reported = reported.begins_at(number * CHUNK as u64 + end as u64)
                && first == Some(place_of_range(end));
            // A range begins less than that before its record.
            let is_behind = first.is_some_and(|first| first >= end + ALIGNMENT);
            let entry = if is_reported || is_behind {
                chunk_of(entry)
            } else {
                entry
            };
            let memory = |from: usize, to: usize| {
                let place = self.arena.snd_place(chunk_of(entry), from, to - from);
                place
                    .map(|place| Part::Memory(place, to - from))
                    .ok_or(BadStream)
            };
            for range in self.arena.file_ranges(entry) {
                let range = range.map_err(|_| BadStream)?;
                let (from, to) = (range.from as usize, range.to as usize);
                if to <= at {
                    let is_known = !reported.begins_at(number * CHUNK as u64 + from as u64);
                    each(Part::Record { is_known })?;
                    continue;
                }
                if from >= end {
                    break;
                }
                if from > at {
                    each(memory(at, from)?)?;
                    at = from;
                }
                let is_known = from < within;
                each(Part::Record { is_known })?;
                let offset = range.offset.saturating_add((at - from) as u64);
                let to = to.min(end);
                let FileRange { file, .. } = range;
                let received = range.received().filter(|_| self.arena.takes_forwards());
                each(match received {
                    None => Part::File(file, offset, to - at),
                    Some((entry, within)) => {
                        let within = within.saturating_add(at - from);
                        let place = self.arena.received_place(entry, within, to - at);
                        let place = place.ok_or(BadStream)?;
                        match lent_chunk(entry) {
                            None => Part::Received(place, to - at),
                            // A program has written them, and they are yet to be fetched.
                            Some(_) => Part::Memory(place, to - at),
                        }
                    }
                })?;
                at = to;
            }
            if at < end {
                each(memory(at, end)?)?;
            }
        }
        Ok(())
    }

    /// How the bytes of a send stream from `range.start` on, not beyond `range.end`, are
    /// fetched, where a descriptor has `told` of a range of a file, and where what was fetched last
    /// `goes_on` so.
    ///
    /// # Errors
    /// [`BadStream`].
    #[inline]
    pub fn extent(
        &self,
        reported: &ReportedRange,
        index: u32,
        range: Range<u64>,
        goes_on: bool,
    ) -> Result<Found, BadStream> {
        if self.place_in_chunk(index, &range).is_some() {
            return Ok(Found {
                extent: Extent::Fetched(range.end - range.start),
                records: Moved::default(),
            });
        }
        self.extent_of_parts(reported, index, range, goes_on)
    }

    #[inline(never)]
    fn extent_of_parts(
        &self,
        reported: &ReportedRange,
        index: u32,
        range: Range<u64>,
        goes_on: bool,
    ) -> Result<Found, BadStream> {
        let (mut extent, mut crosses) = (0, true);
        let (mut read, mut records) = (0, Moved::default());
        // Where its next byte would be: in which file, if in one, and at which place there.
        let mut next = None;
        self.visit(reported, index, range, |part| {
            let (is_received, file, at, len) = match part {
                Part::Memory(place, len) => (false, None, place as u64, len as u64),
                Part::Received(place, len) => (true, None, place as u64, len as u64),
                Part::File(file, offset, len) => (false, Some(file), offset, len as u64),
                Part::Record { is_known } => {
                    read += u64::from(!(goes_on && is_known));
                    return Ok(());
                }
            };
            if extent == 0 || next == Some((is_received, file, at)) {
                let read = std::mem::take(&mut read);
                records.add(&Moved::equal(read, RANGE_BYTES as u64));
                extent += len;
                crosses = !is_received;
                next = Some((is_received, file, at + len));
            } else {
                next = None;
            }
            Ok(())
        })?;
        let extent = match crosses {
            true => Extent::Fetched(extent),
            false => Extent::AtHand(extent),
        };
        Ok(Found { extent, records })
    }

    /// How many bytes of `range` of a send stream lie where another socket has received them.
    #[must_use]
    pub fn forwarded(&self, index: u32, range: Range<u64>) -> ForwardedBytes {
        let directory = self.arena.snd_directory(index);
        let mut found = ForwardedBytes::default();
        for (number, within, len) in spans(range).take(DIRECTORY + 1) {
            let entry = directory.entry(number).load(Ordering::Acquire);
            for range in self.arena.file_ranges(entry).map_while(Result::ok) {
                let from = within.max(range.from as usize);
                let to = (within + len).min(range.to as usize);
                if let Some((entry, _)) = range.received()
                    && from < to
                {
                    found.all += (to - from) as u64;
                    if lent_chunk(entry).is_none() {
                        found.placed += (to - from) as u64;
                    }
                }
            }
        }
        found
    }

    /// Where in `range` of a send stream the first bytes lie that another socket has received,
    /// or its end: so far it can be sent though nobody has said whose they are.
    #[must_use]
    pub fn first_forwarded(&self, index: u32, range: Range<u64>) -> u64 {
        let directory = self.arena.snd_directory(index);
        // A host may say of any edge that it has written so far.
        for (number, within, len) in spans(range.clone()).take(DIRECTORY + 1) {
            let entry = directory.entry(number).load(Ordering::Acquire);
            let ranges = self.arena.file_ranges(entry).map_while(Result::ok);
            let mut received = ranges.filter(|range| range.received().is_some());
            let found = received.find(|range| range.to as usize > within);
            if let Some(found) = found.filter(|found| (found.from as usize) < within + len) {
                let at = number * CHUNK as u64 + u64::from(found.from);
                return at.max(range.start);
            }
        }
        range.end
    }

    /// Copies bytes of a send stream out, from `at` on, as many as `to` takes.
    ///
    /// # Errors
    /// [`BadStream`].
    pub fn copy_out(&self, index: u32, at: u64, to: &mut [u8]) -> Result<(), BadStream> {
        let mut done = 0;
        let end = at + to.len() as u64;
        let mut room = |len: usize| {
            let room = done..done + len;
            done = room.end;
            room
        };
        self.visit(&ReportedRange::default(), index, at..end, |part| {
            match part {
                Part::Memory(place, len) | Part::Received(place, len) => {
                    let to = to.get_mut(room(len)).ok_or(BadStream)?;
                    self.arena.memory().read(place, to);
                }
                Part::File(file, offset, len) => {
                    let to = to.get_mut(room(len)).ok_or(BadStream)?;
                    self.file(file)?.read(offset, to);
                }
                Part::Record { .. } => {}
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests;
