//! What can go wrong on the data path of a port.
//!
//! Errors of opening a port are its own (see `tap::TapError`); these are the
//! ones that the engine meets in its loop and must tell apart.

use rustix::io::Errno;

/// Why a port did not take or give a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PortError {
    /// The carrier has no room now; nothing was sent. Try again after
    /// [`crate::Port::fd`] says writable, or after time has passed.
    #[error("the port's transmit queue is full")]
    Full,
    /// The frame is longer than the port carries in one piece.
    #[error("a frame of {len} bytes exceeds the port's limit of {limit}")]
    TooLong {
        /// Length of the refused frame, link header included, in bytes.
        len: usize,
        /// The longest frame that this port takes, in bytes.
        limit: usize,
    },
    /// The payload came in more than [`crate::MAX_PIECES`] pieces.
    #[error("a frame in {pieces} pieces, at most {} are taken", crate::MAX_PIECES)]
    TooManyPieces {
        /// Number of payload pieces given.
        pieces: usize,
    },
    /// The frame asks for an offload that the port lacks, or describes it
    /// wrongly (offsets outside the headers, a segment size of zero).
    #[error("the frame's offload request is not one this port can do: {reason}")]
    BadOffload {
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The other end is gone, or the interface was taken down or removed.
    #[error("the port's other end is gone")]
    Down,
    /// The operating system refused.
    #[error("{operation} failed on the port: {errno}")]
    Os {
        /// The call that failed.
        operation: &'static str,
        /// The system's answer.
        errno: Errno,
    },
}
