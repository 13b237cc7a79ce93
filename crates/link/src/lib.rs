//! The host/adapter interface over a link: programs on one machine, their engine on another.
//!
//! | module | what it owns |
//! | --- | --- |
//! | `protocol` | what goes over a link: messages, and taking them out of bytes |
//! | `byte_stream` | what carries the bytes: a socket, authenticated and encrypted |
//! | `bus` | a transfer engine between the two ends: a modelled bus instead of a link |
//! | `place` | where the other end is, and the key that both have |
//! | `link` | one end of a link: what came and what is to go |
//! | `agent` | the host's end: programs attach to it by shared memory as they do to an engine |
//! | `proxy` | the engine's end: the one process of a session of the engine |
//!
//! The agent has the adapter's half of the interface and no stack: it fetches what programs
//! write, sends it over the link with their requests, places what comes back and tells them.
//! The proxy has the host's half of a session of the real engine and no program. Each end has
//! blocks of sockets and memory of its own, so that neither side's words are the other's; what
//! the engine says to hosts by words that it writes goes as messages
//! ([`Words`](protocol::Words), [`Table`](protocol::Table)).
//!
//! Programs, processes and channels are the agent's alone: to the engine, a link is one
//! process. An end of a link is one process with one thread; `cli` starts both. Over a modelled
//! bus both ends are on one machine, as two threads of one process.

mod agent;
mod bus;
mod byte_stream;
mod link;
mod place;
pub mod protocol;
mod proxy;

pub use agent::{Agent, AgentError};
pub use bus::{Modelled, Report, Usage};
pub use byte_stream::{ByteStream, HandshakeError, Plain, Role, Secured};
pub use link::{Link, LinkError};
pub use place::{BadKey, BadPlace, KEY_BYTES, Key, Listening, Place, PlaceError};
pub use proxy::{Proxy, ProxyError};
