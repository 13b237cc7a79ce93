//! The host/adapter interface: the only way between a program and the engine.
//!
//! What it owns: the layout of the memory that both sides share ([`Arena`],
//! [`Geometry`]), the descriptors that cross ([`Request`], [`Completion`]) and
//! their encoding, the two ends of a channel ([`HostChannel`],
//! [`AdapterChannel`]), the handshake that opens a session ([`attach`]) and the
//! meter that counts what crossed ([`Meter`]). `sockets` calls the host's half,
//! `engine` the adapter's.
//!
//! Each half takes what the other wrote as a claim: it is loaded once, checked,
//! and then used.

mod address;
mod arena;
pub mod attach;
mod block;
mod channel;
mod descriptor;
mod error_report;
mod layout;
mod meter;
mod record;
mod routes;
pub mod warning;

pub use address::Address;
pub use arena::{Arena, ArenaError, Directory, ReleaseError};
pub use block::{
    BlockFlags, MAX_WAITERS, OwnersSignal, Raised, Sending, SocketBlock, SocketState, StreamHalf,
    is_writable,
};
pub use channel::{
    AdapterChannel, ChannelControl, ChannelState, HostChannel, INTRODUCED, MAILBOX_BYTES, PutError,
};
pub use descriptor::{
    BadDescriptor, CONGESTION_NAMES, Completion, EdgeFlags, Edges, OpenFlags, OptionName, Query,
    Request, SocketKind,
};
pub use error_report::{ERROR_HEADER, ERROR_PAYLOAD, ErrorReport};
pub use layout::{
    ABI_VERSION, CHUNK, DESCRIPTOR_BYTES, DIRECTORY, Geometry, Header, RECEIVE_BUFFER, RING,
    SEND_BUFFER, STREAM_MAX,
};
pub use longshore_ring::Corrupt;
pub use meter::{Crossings, Meter};
pub use record::{
    ACCEPT_RECORD, AcceptRecord, DATAGRAM_HEADER, DatagramRecord, GROUP_BYTES, PathMtu, SEND_QUEUE,
    STAMP_BYTES, SendQueue, Stamp, datagram_span,
};
pub use routes::{Loopback, MAX_ROUTES, Owner, Route, Routes};

/// A socket of a session: its place in the table of blocks, and which of the
/// sockets that had this place it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SocketId {
    /// The block's index.
    pub index: u32,
    /// Counts the block's uses, so that a late descriptor for the last socket
    /// in this place is not taken for one of this.
    pub generation: u32,
}
