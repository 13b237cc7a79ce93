//! Why requests of programs are refused, and the errno that they get for it.
//!
//! Owns [`RequestError`]; `requests` answers with it what a handler has refused.

use longshore_net::groups::Full;

/// Why a request cannot be done; the host gets the errno.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestError {
    NoSocket,
    Invalid,
    AddressInUse,
    AddressNotAvailable,
    NoPortLeft,
    /// Of a datagram socket that is bound by another call than `bind`.
    NoPortForDatagrams,
    Unreachable,
    AlreadyConnected,
    /// It has gone too far to be cancelled.
    UnderWay,
    /// There is nothing to cancel.
    NotUnderWay,
    BadEdge,
    Family,
    /// The socket has as many groups, or sources of one, as it may.
    TooManyGroups,
    /// The link has no room for a group, or for its sources, that this session may take.
    NoRoomForGroup(Full),
    /// The user has as many sockets as it may, or its session no chunk for what has to be kept.
    TooManySockets,
    NotPermitted,
    /// The rules of the configuration do not allow it.
    Denied,
}

impl std::convert::From<Full> for RequestError {
    fn from(full: Full) -> Self {
        Self::NoRoomForGroup(full)
    }
}

impl RequestError {
    /// Linux's errno for it.
    pub(crate) fn errno(self) -> u16 {
        match self {
            Self::NoSocket => 9,
            Self::NoPortForDatagrams => 11,
            Self::Invalid | Self::BadEdge => 22,
            Self::Family => 97,
            Self::AddressInUse => 98,
            Self::AddressNotAvailable | Self::NoPortLeft => 99,
            Self::Unreachable => 101,
            Self::AlreadyConnected => 106,
            Self::UnderWay => 114,
            Self::NotUnderWay => 2,
            Self::TooManyGroups | Self::NoRoomForGroup(_) | Self::TooManySockets => 105,
            Self::NotPermitted => 13,
            Self::Denied => 1,
        }
    }
}
