//! What the host was told last of a socket, by which is known what it is to be told.

use longshore_hostif::EdgeFlags;

/// What the host knows of a connection.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Told {
    pub(crate) rcv_edge: u64,
    pub(crate) snd_acked: u64,
    /// How far its send stream's chunks were taken back, or it was tried.
    pub(crate) returned: u64,
    pub(crate) flags: EdgeFlags,
}
