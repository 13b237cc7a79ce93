//! The host/adapter interface: the only way between a program and the engine.
//!
//! | module | what it owns |
//! | --- | --- |
//! | `abi` | what both halves agree on: layouts, descriptors, records, messages, the version |
//! | `host` | the host's half: the ends of channels that programs have ([`HostChannel`]) |
//! | `adapter` | the adapter's half: what the engine has of a session ([`adapter::AdapterSession`]) |
//! | `transport` | what carries it: shared memory ([`Arena`]) and how it is had ([`attach`]) |
//! | `meter` | what crossed, counted ([`Meter`]) |
//!
//! `sockets` calls the host's half, `engine` the adapter's. Both halves stand on `transport`,
//! and that on `abi`; neither half knows the other.
//!
//! Each half takes what the other wrote as a claim: it is loaded once, checked,
//! and then used.

// What the other side has written is an index only once it was checked, and no mistake in that
// may end the engine.
#[cfg_attr(not(test), deny(clippy::indexing_slicing))]
mod abi;
#[cfg_attr(not(test), deny(clippy::indexing_slicing))]
pub mod adapter;
mod host;
mod meter;
#[cfg(test)]
mod pattern;
mod transport;

pub use abi::inventory;
pub use abi::{
    ABI_VERSION, ACCEPT_RECORD, AcceptRecord, Address, Agreed, BadDescriptor, BlockFlags, CHUNK,
    CONGESTION_NAMES, ChannelControl, ChannelState, Completion, DATAGRAM_HEADER, DESCRIPTOR_BYTES,
    DIRECTORY, DatagramRecord, Delimiter, ERROR_HEADER, ERROR_PAYLOAD, EdgeFlags, Edges,
    ErrorReport, Features, FileExtent, FileId, GROUP_BYTES, Geometry, Header, Hurry, Interface,
    LEAST_FORWARD, LEAST_RANGE, LONGEST_DELIMITER, LengthPrefix, Loopback, MAILBOX_BYTES,
    MAX_IMMEDIATE, MAX_ROUTES, MAX_WAITERS, MAX_WORKERS, MOST_DATA, MessageRule, Naming, NotSent,
    Notice, Numbered, OLDEST_ABI_VERSION, OpenFlags, OptionName, Owner, OwnersSignal, PathMtu,
    Query, RANGE_BYTES, RECEIVE_BUFFER, REGISTERED, RING, Raised, Request, Route, Routes,
    SEND_BUFFER, SEND_QUEUE, SMALL_SEND_BUFFER, STAMP_BYTES, STREAM_MAX, SendQueue, Sending,
    SentStamp, SentStampKind, SocketBlock, SocketId, SocketKind, SocketState, SourceRequest, Stamp,
    StreamReceiveHalf, StreamSendHalf, Versions, WIDEST_LENGTH, chunk_of, datagram_span,
    is_memory_writable, is_writable, loopback_at, loopback_place,
};
pub use adapter::AdapterChannel;
pub use host::{
    HeldFile, HostChannel, HostSession, RequestsUnderWay, SentRanges, StreamError, Waiters, agent,
    warning, zero_copy,
};
pub use longshore_ring::{Corrupt, NONE, Room, SharedBytes};
pub use meter::{Crossings, Descriptors, Meter, Moved};
pub use transport::{Arena, ArenaError, Directory, Meeting, PutError, ReleaseError, attach};

/// The host's half of a session, where both are in one process: benchmarks have it so.
#[must_use]
pub fn host_beside(session: &adapter::AdapterSession) -> HostSession {
    HostSession::of(session.shared())
}
