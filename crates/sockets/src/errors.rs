//! What can go wrong with a socket, and the errno that says so.

use rustix::io::Errno;

/// Why a call on a socket failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SocketError {
    /// Nothing can be done now; try again when the socket is ready.
    #[error("nothing to do now")]
    WouldBlock,
    /// The call's time ran out.
    #[error("timed out")]
    TimedOut,
    /// A signal handler ran.
    #[error("interrupted by a signal")]
    Interrupted,
    /// A signal handler is to run; the call begins anew after it, if it was installed with
    /// SA_RESTART.
    #[error("given up for the handler of a signal")]
    Restarts,
    /// A connection is being made; readiness for writing says when it is there.
    #[error("the connection is being made")]
    InProgress,
    /// Another thread has cancelled the call ([`Canceller`](crate::Canceller)).
    #[error("cancelled")]
    Cancelled,
    /// The sending half is closed, by this side or by the peer's reset.
    #[error("the connection cannot be written to any more")]
    BrokenPipe,
    /// The socket is not what the call needs it to be, or an argument is wrong.
    #[error("not possible on this socket: {0}")]
    Refused(Errno),
    /// The socket's pending error: what the peer or the network did to it.
    #[error("the connection failed: {0}")]
    Failed(Errno),
    /// The engine is gone.
    #[error("the engine is gone")]
    EngineGone,
    /// The session has no room for another socket.
    #[error("the session has no free socket")]
    NoSocket,
    /// A signal handler calls while this very thread is inside the library.
    #[error("called by a signal handler that interrupted another call")]
    Reentered,
    /// The other side broke the memory that we share.
    #[error("the shared memory is broken")]
    Broken,
}

impl SocketError {
    /// The errno that Linux gives for it.
    pub fn errno(self) -> i32 {
        match self {
            Self::WouldBlock | Self::TimedOut | Self::Reentered => Errno::AGAIN,
            Self::Interrupted | Self::Restarts => Errno::INTR,
            Self::InProgress => Errno::INPROGRESS,
            Self::BrokenPipe => Errno::PIPE,
            Self::Cancelled => Errno::CANCELED,
            Self::Refused(errno) | Self::Failed(errno) => errno,
            Self::EngineGone => Errno::NETDOWN,
            Self::NoSocket => Errno::NFILE,
            Self::Broken => Errno::IO,
        }
        .raw_os_error()
    }

    /// The pending error of a socket, from the number that the engine gave.
    pub(crate) fn failed(errno: u32) -> Self {
        Self::Failed(Errno::from_raw_os_error((errno & 0xfff) as i32))
    }
}

impl From<longshore_ring::Reentered> for SocketError {
    fn from(_: longshore_ring::Reentered) -> Self {
        Self::Reentered
    }
}

impl From<longshore_hostif::StreamError> for SocketError {
    fn from(_: longshore_hostif::StreamError) -> Self {
        Self::Broken
    }
}

impl From<longshore_ring::Corrupt> for SocketError {
    fn from(_: longshore_ring::Corrupt) -> Self {
        Self::Broken
    }
}

impl From<SocketError> for std::io::Error {
    fn from(error: SocketError) -> Self {
        Self::from_raw_os_error(error.errno())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number is what the shared memory has: whatever that is, it is some errno.
    #[test]
    fn a_pending_error_is_the_number_that_the_engine_gave() {
        let reset = Errno::CONNRESET.raw_os_error() as u32;
        let failed = SocketError::Failed(Errno::CONNRESET);
        assert_eq!(SocketError::failed(reset), failed);
        assert_eq!(SocketError::failed(reset | 0xffff_f000), failed);
    }
}
