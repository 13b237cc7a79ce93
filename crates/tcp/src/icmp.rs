//! ICMP errors about a connection's segments.
//!
//! Owns [`IcmpError`], which the engine passes to [`Tcb::on_icmp`](crate::Tcb::on_icmp) with the
//! sequence number that the error quotes.

use crate::events::Error;

/// The meaning of an ICMP error, in either version of IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IcmpError {
    /// Network unreachable.
    NetUnreachable,
    /// Host unreachable, or the hop limit was exceeded.
    HostUnreachable,
    /// Protocol unreachable.
    ProtocolUnreachable,
    /// Port unreachable.
    PortUnreachable,
    /// The source route failed.
    SourceRouteFailed,
    /// The destination host is unknown.
    HostUnknown,
    /// The source host is isolated.
    HostIsolated,
    /// Communication is administratively prohibited (IPv6 only).
    Prohibited,
    /// The header, or the data after it, was not understood.
    NotUnderstood,
}

impl IcmpError {
    /// The error with which a connection ends because of this ICMP error.
    #[must_use]
    pub const fn error(self) -> Error {
        match self {
            IcmpError::NetUnreachable => Error::NetUnreachable,
            IcmpError::HostUnreachable => Error::HostUnreachable,
            IcmpError::ProtocolUnreachable => Error::ProtocolUnreachable,
            IcmpError::PortUnreachable => Error::Refused,
            IcmpError::SourceRouteFailed => Error::SourceRouteFailed,
            IcmpError::HostUnknown => Error::HostUnknown,
            IcmpError::HostIsolated => Error::HostIsolated,
            IcmpError::Prohibited => Error::Prohibited,
            IcmpError::NotUnderstood => Error::NotUnderstood,
        }
    }
}
