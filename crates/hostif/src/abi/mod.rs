//! What both halves agree on, in one place: the layout of what they share, the descriptors
//! that cross and their encoding, the records in streams, the messages of the handshake, and
//! the version of it all.
//!
//! It owns no memory: `transport` maps it, and the halves read and write it. The sizes and
//! places on which the two sides rely are asserted in `layout`; a change of any of them is a
//! new [`ABI_VERSION`].

mod address;
mod block;
mod control;
mod descriptor;
mod error_report;
mod file_range;
pub(crate) mod handshake;
mod immediate;
pub mod inventory;
mod layout;
mod lent_chunk;
mod message_rule;
mod record;
mod routes;
mod versions;
mod worker;

pub use address::{Address, Numbered};
pub use block::{
    BlockFlags, MAX_WAITERS, NotSent, Notice, OwnersSignal, Raised, SMALL_SEND_BUFFER, Sending,
    SocketBlock, SocketState, StreamReceiveHalf, StreamSendHalf, is_memory_writable, is_writable,
};
pub use control::{ChannelControl, ChannelState, MAILBOX_BYTES, REGISTERED};
pub use descriptor::{
    BadDescriptor, CONGESTION_NAMES, Completion, EdgeFlags, Edges, Interface, MOST_DATA, OpenFlags,
    OptionName, Query, Request, SocketKind, SourceRequest,
};
pub(crate) use descriptor::{DATA_AT, Data, ImmediateIn, are_near};
pub use error_report::{ERROR_HEADER, ERROR_PAYLOAD, ErrorReport, SentStamp, SentStampKind};
pub(crate) use file_range::{
    ALIGNMENT, FILES, FileRange, MOST_CHUNKS, SharedFile, first_range, place_of_range, with_ranges,
};
pub use file_range::{FileExtent, FileId, LEAST_FORWARD, LEAST_RANGE, RANGE_BYTES, chunk_of};
pub use immediate::MAX_IMMEDIATE;
pub use layout::{
    CHUNK, DESCRIPTOR_BYTES, DIRECTORY, Geometry, Header, Hurry, RECEIVE_BUFFER, RING, SEND_BUFFER,
    STREAM_MAX,
};
pub(crate) use layout::{DIRECTORY_GROUP, MAGIC, Offsets, RequestsPending, WorkerWords};
pub(crate) use lent_chunk::{lent_chunk, lent_entry};
pub use message_rule::{Delimiter, LONGEST_DELIMITER, LengthPrefix, MessageRule, WIDEST_LENGTH};
pub use record::{
    ACCEPT_RECORD, AcceptRecord, DATAGRAM_HEADER, DatagramRecord, GROUP_BYTES, PathMtu, SEND_QUEUE,
    STAMP_BYTES, SendQueue, Stamp, datagram_span, loopback_at, loopback_place,
};
pub(crate) use routes::ROUTE_BYTES;
pub use routes::{Loopback, MAX_ROUTES, Owner, Route, Routes};

pub use versions::{ABI_VERSION, Agreed, Features, OLDEST_ABI_VERSION, Versions};
pub(crate) use versions::{
    ACCEPTED_SINCE, DATA_SINCE, HELD_BACK_SINCE, LENGTHS_SINCE, SHORT_DONE_SINCE,
};

pub use worker::{MAX_WORKERS, Naming};

/// A socket of a session: its place in the table of blocks, and which of the
/// sockets that had this place it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SocketId {
    /// The block's index.
    pub index: u32,
    /// Counts the block's uses, so that a late descriptor for the last socket
    /// in this place is not taken for one of this; and says which worker has it ([`Naming`]).
    pub generation: u32,
}

impl SocketId {
    /// Both in a word.
    #[must_use]
    pub fn encode(self) -> u64 {
        u64::from(self.index) | u64::from(self.generation) << 32
    }

    /// What [`SocketId::encode`] made a word of.
    #[must_use]
    pub fn decode(word: u64) -> Self {
        Self {
            index: word as u32,
            generation: (word >> 32) as u32,
        }
    }
}
