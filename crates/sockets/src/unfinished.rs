//! Datagrams that are put together by several calls (MSG_MORE, UDP_CORK): a process keeps them,
//! `departure` adds to them and sends them, and `fork` sees to it that a child begins with none.

use crate::errors::SocketError;
use crate::map::Map;
use longshore_hostif::{DatagramRecord, SocketId};
use rustix::io::Errno;
use std::net::SocketAddr;

/// Datagrams that calls of this process have begun, and another is to end.
pub(crate) type Unfinished = Map<SocketId, Begun>;

/// A datagram that more is to be added to. Where it goes, and how, was said first.
#[derive(Debug)]
pub(crate) struct Begun {
    pub(crate) record: DatagramRecord,
    /// The TTL and the type of service that were said beside its beginning.
    pub(crate) said: (Option<u8>, Option<u8>),
    pub(crate) bytes: Vec<u8>,
}

impl Begun {
    /// Whether a call that adds to it may name `to`, where it does not go: as Linux has it, what
    /// goes to an address of IPv6 is not added to by one that names an address of IPv4.
    ///
    /// # Errors
    /// EINVAL.
    pub(crate) fn may_go_to(&self, to: Option<SocketAddr>) -> Result<(), SocketError> {
        let is_v4 = |to: SocketAddr| to.ip().to_canonical().is_ipv4();
        let goes_by_v6 = self.record.peer.get().is_some_and(|peer| !is_v4(peer));
        if goes_by_v6 && to.is_some_and(is_v4) {
            Err(SocketError::Refused(Errno::INVAL))
        } else {
            Ok(())
        }
    }
}
