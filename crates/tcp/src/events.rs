//! Edge-triggered events of a connection: `Tcb::take_events` returns those since the last
//! call.
//!
//! Owns [`Events`] and [`Error`]. The engine reads them after each burst and turns them
//! into completions.

use crate::codec::{saved_enum, saved_flags};

bitflags::bitflags! {
    /// What has happened since the last `take_events`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct Events: u16 {
        /// The handshake is over; the streams may be used.
        const CONNECTED = 1;
        /// `rcv_edge()` has advanced: there is more to read.
        const RCV_EDGE = 2;
        /// `snd_acked()` has advanced: chunks below it may be freed.
        const SND_ACKED = 4;
        /// The peer's stream ends at `rcv_edge()`.
        const PEER_FIN = 8;
        /// The peer has reset the connection. Comes with `ERROR` and `CLOSED`.
        const RESET = 16;
        /// The peer does not answer. Comes with `ERROR` and `CLOSED`.
        const TIMED_OUT = 32;
        /// The connection is over. Call `poll_transmit` until it returns `None` (a reset
        /// may be owed), then drop the block.
        const CLOSED = 64;
        /// The connection is in TIME-WAIT: it may be replaced by `TimeWait::of` once
        /// `poll_transmit` returns `None`.
        const TIME_WAIT = 128;
        /// `error()` has the reason why the connection died.
        const ERROR = 256;
        /// Auto-tuning has raised the receive buffer, see `rcvbuf()`.
        const RCVBUF = 512;
        /// Everything that was written, and the FIN, is acknowledged.
        const FIN_ACKED = 1024;
        /// The peer has announced further urgent data, see `rcv_urgent()`.
        const URGENT = 4096;
    }
}

saved_flags!(Events: u16);

/// Why a connection died.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[repr(u8)]
pub enum Error {
    /// Our SYN was answered by a reset.
    #[error("connection refused by the peer")]
    Refused,
    /// The peer reset an established connection.
    #[error("connection reset by the peer")]
    Reset,
    /// The reset came when the peer had already closed (Linux: EPIPE).
    #[error("reset by the peer after it had closed")]
    BrokenPipe,
    /// No answer in time.
    #[error("the peer does not answer")]
    TimedOut,
    /// ICMP: host unreachable.
    #[error("host unreachable")]
    HostUnreachable,
    /// ICMP: network unreachable.
    #[error("network unreachable")]
    NetUnreachable,
    /// ICMP: protocol unreachable.
    #[error("protocol unreachable")]
    ProtocolUnreachable,
    /// ICMP: source route failed.
    #[error("the source route failed")]
    SourceRouteFailed,
    /// ICMP: destination host unknown.
    #[error("destination host unknown")]
    HostUnknown,
    /// ICMP: source host isolated.
    #[error("this host is isolated")]
    HostIsolated,
    /// ICMPv6: prohibited, by an administrator or a route.
    #[error("communication prohibited")]
    Prohibited,
    /// ICMP: the header, or what follows it, was not understood.
    #[error("protocol error")]
    NotUnderstood,
    /// We reset it (`abort`, or `close` with unread data).
    #[error("aborted by this side")]
    Aborted,
    /// Its program has cancelled the attempt ([`Closing::cancel_opening`](crate::Closing::cancel_opening)).
    #[error("cancelled by this side")]
    Cancelled,
}

saved_enum!(Error {
    Refused = 0,
    Reset = 1,
    BrokenPipe = 2,
    TimedOut = 3,
    HostUnreachable = 4,
    NetUnreachable = 5,
    ProtocolUnreachable = 6,
    SourceRouteFailed = 7,
    HostUnknown = 8,
    HostIsolated = 9,
    Prohibited = 10,
    Aborted = 11,
    NotUnderstood = 12,
    Cancelled = 13,
});

impl Error {
    /// The errno that a program gets for it on Linux.
    #[must_use]
    pub const fn errno(self) -> u16 {
        match self {
            Error::Refused => 111,
            Error::Reset => 104,
            Error::BrokenPipe => 32,
            Error::TimedOut => 110,
            Error::HostUnreachable => 113,
            Error::NetUnreachable => 101,
            Error::ProtocolUnreachable => 92,
            Error::SourceRouteFailed => 95,
            Error::HostUnknown => 112,
            Error::HostIsolated => 64,
            Error::Prohibited => 13,
            Error::NotUnderstood => 71,
            Error::Aborted => 103,
            Error::Cancelled => 125,
        }
    }
}
