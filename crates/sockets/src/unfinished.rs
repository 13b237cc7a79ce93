//! Datagrams that are put together by several calls (MSG_MORE, UDP_CORK): a process keeps them,
//! `departure` adds to them and sends them, and `fork` sees to it that a child begins with none.

use longshore_hostif::{DatagramRecord, SocketId};
use std::collections::HashMap;

/// Datagrams that calls of this process have begun, and another is to end.
pub(crate) type Unfinished = HashMap<SocketId, Begun>;

/// A datagram that more is to be added to. Where it goes, and how, was said first.
#[derive(Debug)]
pub(crate) struct Begun {
    pub(crate) record: DatagramRecord,
    pub(crate) bytes: Vec<u8>,
}
