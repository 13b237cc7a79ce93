//! The adapter's half: what the engine gets and puts.
//!
//! | file | what it does |
//! | --- | --- |
//! | `session`, `parts` | [`AdapterSession`], which the rest are parts of |
//! | `requests` | getting requests: what more than one part takes part in |
//! | `pending_requests`, `due` | which channels may have requests, and when they are fetched |
//! | `channel`, `channels` | the ends of channels |
//! | `batching` | fixed batching, if it is chosen |
//! | `completions`, `subscribers`, `pending_edges` | putting completions, to whom, and those that found no room |
//! | `wakeups`, `eventfds`, `owners` | waking those that sleep, signalling owners |
//! | `send_streams`, `spans`, `immediate`, `files`, `lending` | reading what hosts wrote, and the files that they have handed over |
//! | `send_slab` | the chunks that hosts write to |
//! | `receive_stream`, `receive_slab` | placing what arrived |
//! | `moving` | from one's send stream to another's receive stream |
//! | `held_data` | what arrived and is told in descriptors |
//! | `blocks`, `header` | what is said in the blocks of sockets, and to all programs |
//! | `session_meter`, `socket_meters` | what crossed for the session, and for each socket |
//! | `memory` | a session's memory, to be looked at from elsewhere |
//!
//! `engine` calls it, from one thread.

mod batching;
mod blocks;
mod channel;
mod channels;
mod completions;
mod due;
mod eventfds;
mod files;
mod header;
mod held_data;
mod immediate;
mod lending;
mod memory;
mod moving;
mod owners;
mod parts;
mod pending_edges;
mod pending_requests;
mod receive_slab;
mod receive_stream;
mod reported_range;
mod requests;
mod send_slab;
mod send_streams;
mod session;
mod session_meter;
mod socket_meters;
mod spans;
mod subscribers;
mod wakeups;

pub use batching::{Batching, LONGEST_BATCHING, MOST_BATCHED};
pub use blocks::Blocks;
pub use channel::AdapterChannel;
pub use channels::{Channels, Next, UnderWay};
pub use due::{Delays, Due};
pub use eventfds::Charge;
pub use files::{FileError, OfferedFile};
pub use header::SessionHeader;
pub use immediate::Immediate;
pub use memory::MemoryOf;
pub use moving::NotMoved;
pub use owners::Owners;
pub use pending_requests::PendingRequests;
pub use receive_slab::ReceiveSlab;
pub use receive_stream::{NoChunk, NotLent, Placed, ReceiveStream};
pub use reported_range::ReportedRange;
pub use send_slab::SendSlab;
pub use send_streams::{BadStream, Extent, ForwardedBytes, Found, MAX_PIECES, SendStreams, Use};
pub use session::AdapterSession;
pub use session_meter::SessionMeter;
pub use spans::MAX_GATHERED;
pub use subscribers::Subscribers;
pub use wakeups::{Sleeper, Wakeups};
