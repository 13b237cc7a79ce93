//! The adapter's half: what the engine gets and puts.
//!
//! | file | what it does |
//! | --- | --- |
//! | `session` | [`AdapterSession`], which the rest are parts of |
//! | `channel`, `channels` | the ends of channels; getting requests |
//! | `batching` | fixed batching, if it is chosen |
//! | `completions`, `subscribers`, `pending_edges` | putting completions, to whom, and those that found no room |
//! | `wakeups`, `eventfds`, `owners` | waking those that sleep, signalling owners |
//! | `send_streams`, `spans`, `immediate`, `files` | reading what hosts wrote, and the files that they have handed over |
//! | `receive_stream`, `receive_slab` | placing what arrived |
//! | `moving` | from one's send stream to another's receive stream |
//! | `held_data` | what arrived and is told in descriptors |
//! | `blocks`, `header` | what is said in the blocks of sockets, and to all programs |
//! | `words` | counting that |
//! | `socket_meters` | what crossed for each socket |
//!
//! `engine` calls it, from one thread.

mod batching;
mod blocks;
mod channel;
mod channels;
mod completions;
mod eventfds;
mod files;
mod header;
mod held_data;
mod immediate;
mod moving;
mod owners;
mod pending_edges;
mod receive_slab;
mod receive_stream;
mod send_streams;
mod session;
mod socket_meters;
mod spans;
mod subscribers;
mod told_range;
mod wakeups;
mod words;

pub use batching::{Batching, LONGEST_BATCHING, MOST_BATCHED};
pub use channel::AdapterChannel;
pub use channels::{Delays, Due, Next, UnderWay};
pub use eventfds::Charge;
pub use files::{FileError, OfferedFile};
pub use header::MemoryOf;
pub use immediate::Immediate;
pub use moving::NotMoved;
pub use receive_slab::ReceiveSlab;
pub use receive_stream::{NoChunk, NotLent, Placed, ReceiveStream};
pub use send_streams::{BadStream, Extent, ForwardedBytes, Found, MAX_PIECES, SendStreams, Use};
pub use session::AdapterSession;
pub use spans::MAX_GATHERED;
pub use subscribers::Subscribers;
pub use told_range::ToldRange;
pub use wakeups::Sleeper;
