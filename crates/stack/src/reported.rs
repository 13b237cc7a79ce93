//! What was reported to the host last of a socket, by which is known what is to be reported.

use longshore_hostif::EdgeFlags;

/// The edges and flags of a connection that the host has been given last.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Reported {
    pub(crate) rcv_edge: u64,
    pub(crate) snd_acked: u64,
    /// How far its send stream's chunks were taken back, or it was tried.
    pub(crate) returned: u64,
    pub(crate) flags: EdgeFlags,
}
