//! Errors on the data path of a port.
//!
//! Each port has its own errors for opening it (see `tap::TapError`); these are the ones
//! that the engine's loop has to distinguish.

use rustix::io::Errno;

/// The most pieces of a frame's payload in [`Port::send`](crate::Port::send).
pub const MAX_PIECES: usize = 16;

/// Why a port did not send or receive a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PortError {
    /// There is no room now; nothing was sent. Try again when [`crate::Port::fd`] is
    /// writable, or after a while.
    #[error("the port's transmit queue is full")]
    Full,
    /// The frame is longer than the port can carry.
    #[error("a frame of {len} bytes exceeds the port's limit of {limit}")]
    TooLong {
        /// Length of the rejected frame, link header included, in bytes.
        len: usize,
        /// The longest frame that this port accepts, in bytes.
        limit: usize,
    },
    /// The payload has more than [`MAX_PIECES`] pieces.
    #[error("a frame in {pieces} pieces, at most {} are taken", MAX_PIECES)]
    TooManyPieces {
        /// Number of payload pieces.
        pieces: usize,
    },
    /// The frame asks for an offload that the port lacks, or describes it incorrectly
    /// (offsets outside the headers, a segment size of zero).
    #[error("the frame's offload request is not one this port can do: {reason}")]
    BadOffload {
        /// The error in it.
        reason: &'static str,
    },
    /// The kernel could not read the payload; nothing was sent
    /// ([`crate::Capabilities::passes_payload`]).
    #[error("the payload of the frame cannot be read")]
    Unreadable,
    /// The other end is gone, or the interface was taken down or removed.
    #[error("the port's other end is gone")]
    Down,
    /// Another error of the operating system.
    #[error("{operation} failed on the port: {errno}")]
    Os {
        /// The call that failed.
        operation: &'static str,
        /// The system's error.
        errno: Errno,
    },
}
