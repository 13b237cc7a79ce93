//! Bytes of a file that the kernel has at hand, read straight to the end of a send stream.
//!
//! The stream's lock is held over the system call, so this is for streams that no other process
//! has, and for calls that do not wait: everything else goes through [`SendStream::prepare`], which
//! takes no lock while it reads, and copies what belongs into the stream's own last chunk.
//!
//! Called by `preload` for `sendfile`.

use super::send::{Reserved, SendStream};
use super::sending::Sending;
use super::split;
use crate::errors::SocketError;
use longshore_hostif::CHUNK;

/// Most bytes that are read at a time: other threads wait for the stream as long.
const MOST: usize = 2 * CHUNK;
/// Pieces of memory that they lie in, at most.
pub const MOST_PIECES_IN_PLACE: usize = MOST / CHUNK + 1;

impl<'a> SendStream<'a> {
    /// Has `fill` write to the end of the send stream, at most `max` bytes, and appends as many
    /// as it says. `None` if nothing was appended: `fill` had nothing, or would have saved no
    /// copy, as the bytes begin a chunk, or another process has the stream.
    ///
    /// # Errors
    /// As [`SendStream::reserve`], and as [`Reserved::commit`].
    pub fn append_in_place(
        self,
        max: usize,
        fill: impl FnOnce(&mut Reserved<'_>) -> Option<usize>,
    ) -> Result<Option<usize>, SocketError> {
        if self
            .socket
            .host
            .sockets()
            .is_held_elsewhere(self.socket.id.index)
        {
            return Ok(None);
        }
        let mut reserved = self.reserve(max.min(MOST))?;
        let begins_a_chunk = reserved.taken.start == split(reserved.edge).0;
        if begins_a_chunk {
            return Ok(None);
        }
        match fill(&mut reserved) {
            None | Some(0) => Ok(None),
            Some(len) => {
                reserved.finish(len, Sending::more(false))?;
                Ok(Some(len))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Engine;

    /// Writes as much as there is room for; says how much.
    fn fill(reserved: &mut Reserved<'_>) -> Option<usize> {
        let len = reserved.len();
        for piece in reserved.pieces(0, len) {
            piece.unwrap().fill(b'f');
        }
        Some(len)
    }

    #[test]
    fn the_file_follows_what_was_written() {
        let directory = tempfile::tempdir().unwrap();
        let engine = Engine::start(directory.path());
        let host = engine.join();
        let (writer, reader) = Engine::pair(host);
        let socket = writer.socket();
        engine
            .behavior
            .holds_acknowledgments
            .store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(
            socket.send_stream().append_in_place(10, fill),
            Ok(None),
            "nothing to be saved"
        );
        for len in [1, 1000, CHUNK, MOST, 3 * CHUNK] {
            writer.write_all(b"head").unwrap();
            let nothing = socket.send_stream().append_in_place(len, |_| None);
            assert_eq!(nothing, Ok(None));
            let appended = socket
                .send_stream()
                .append_in_place(len, fill)
                .unwrap()
                .unwrap();
            assert_eq!(appended, len.min(MOST));
            let mut got = vec![0; 4 + appended];
            let mut at = 0;
            while at < got.len() {
                at += reader.read(&mut got[at..]).unwrap();
            }
            assert_eq!(got[..4], *b"head");
            assert!(got[4..].iter().all(|b| *b == b'f'));
        }
    }

    #[test]
    fn a_stream_that_another_process_has_is_not_locked_while_a_file_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let engine = Engine::start(directory.path());
        let host = engine.join();
        let (writer, _reader) = Engine::pair(host);
        let socket = writer.socket();
        writer.write_all(b"head").unwrap();
        let reservation = host.reserve_channel().unwrap();
        assert!(host.sockets().is_held_elsewhere(socket.id().index));
        let never = |_: &mut Reserved<'_>| panic!("read under the lock");
        assert_eq!(socket.send_stream().append_in_place(10, never), Ok(None));
        assert_eq!(socket.uses(), 2);
        reservation.release();
        assert_eq!(socket.send_stream().append_in_place(10, fill), Ok(Some(10)));
        assert_eq!(socket.uses(), 1);
    }
}
