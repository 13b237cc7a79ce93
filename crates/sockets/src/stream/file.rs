//! Ranges of files that are sent without being read here: the engine has been handed the file,
//! and sends its bytes from where the kernel has them.
//!
//! Called by `preload` for `sendfile`, and for what is sent of pages that are those of a file of
//! the process's own (`page_exchange`). What is too short for a range, or not in the page cache,
//! the caller reads and appends as bytes ([`SendStream::prepare`]).

use super::send::SendStream;
use super::spans;
use crate::errors::SocketError;
use crate::host::Host;
use longshore_hostif::{CHUNK, FileId, HeldFile, SocketId, SocketState};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;

/// Bytes of the shortest call that is worth a range: to look whether the file can be sent so
/// costs as much as to copy some of it.
const WORTH: u64 = 32 * 1024;

/// A file of which ranges may be appended; the engine keeps it while this is there.
#[derive(Debug)]
pub struct SharedFile(HeldFile<'static>);

impl SharedFile {
    /// Bytes of it that may be appended, from its beginning.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// How appending a range went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Appended {
    /// So many bytes are in the stream.
    Bytes(usize),
    /// The next bytes, so many at most, are to be copied: they are too few for a range.
    Copy(usize),
}

impl<'a> SendStream<'a> {
    /// Whether ranges of files may be appended by a call for `len` bytes. It takes no system
    /// call, unlike what else is to be known of the file.
    pub fn takes_files(self, len: u64) -> bool {
        len >= WORTH && self.takes_ranges()
    }

    /// Whether ranges of files may be appended at all, be it worth it or not.
    pub fn takes_ranges(self) -> bool {
        self.socket.host.session.takes_files()
            && !self.socket.is_within()
            && self.block.state() == SocketState::Connected
    }

    /// A file of the process's own, which the engine is handed unless it has it; `open` opens it
    /// for reading. `None` if the engine does not take it.
    pub fn share_own_file(
        self,
        id: FileId,
        open: impl FnOnce() -> Option<OwnedFd>,
    ) -> Option<SharedFile> {
        let session = &self.socket.host.session;
        if let Some(held) = session.hold_file(id) {
            return Some(SharedFile(held));
        }
        if !session.has_room_for_file() {
            return None;
        }
        self.socket
            .host
            .descriptor_requests()
            .offer_file(open()?.as_fd());
        session.hold_file(id).map(SharedFile)
    }

    /// How far the send stream has been written by now.
    pub fn write_position(self) -> u64 {
        self.block.snd.edge.load(Ordering::Acquire)
    }

    /// The file, if the engine has it and ranges of it may be appended to this stream by a call
    /// for `len` bytes. `open` opens it once more, for reading, to be handed over: what the
    /// program has open may have locks that its closing is to end.
    pub fn share_file(
        self,
        id: FileId,
        len: u64,
        open: impl FnOnce() -> Option<OwnedFd>,
    ) -> Option<SharedFile> {
        if !self.takes_files(len) {
            return None;
        }
        let host = self.socket.host;
        if let Some(file) = host.session.hold_file(id) {
            return Some(SharedFile(file));
        }
        if !host.session.has_room_for_file() || !host.sent_files.is_to_be_offered(id) {
            return None;
        }
        host.descriptor_requests().offer_file(open()?.as_fd());
        let file = host.session.hold_file(id)?;
        host.sent_files.note_taken(id);
        Some(SharedFile(file))
    }

    /// Appends at most `max` bytes of a file, from `offset` on, as far as there is room for
    /// them in the send stream; they are within the file's length. `more` says that more follows
    /// at once.
    ///
    /// # Errors
    /// As [`SendStream::reserve`].
    pub fn append_range(
        self,
        file: &SharedFile,
        offset: u64,
        max: usize,
        more: bool,
    ) -> Result<Appended, SocketError> {
        if self.socket.is_within() {
            // The other end reads of the chunks what is written there.
            return Ok(Appended::Copy(usize::MAX));
        }
        let reserved = self.reserve(max)?;
        let (from, to) = (reserved.edge, reserved.edge + reserved.len() as u64);
        let mut at = 0;
        for (number, within, len) in spans(from, to) {
            let here = offset + at as u64;
            let session = &self.socket.host.session;
            if !session
                .ranges(self.socket.id.index)
                .write((number, within, len), &file.0, here)?
            {
                break;
            }
            at += len;
        }
        if at == 0 {
            let first = CHUNK - (from % CHUNK as u64) as usize;
            return Ok(Appended::Copy(
                first.min(self.socket.host.session.agreed().least_range()),
            ));
        }
        reserved.finish_range(at, more, file.0.extent(offset, at))?;
        Ok(Appended::Bytes(at))
    }
}

impl Host {
    /// Whether the engine needs nothing any more of what the send stream of socket `id` has before
    /// `end`: the far end has acknowledged it, or the socket is over and its place another's.
    /// Of a socket that was closed before that is not known until its place is taken anew.
    pub fn is_acknowledged(&self, id: SocketId, end: u64) -> bool {
        let block = self.session.block(id.index);
        let done = block.snd.done.load(Ordering::Acquire);
        // Read behind it: a block that is begun anew has its next generation last.
        block.generation.load(Ordering::Acquire) != id.generation || done >= end
    }
}

#[cfg(test)]
mod tests;
