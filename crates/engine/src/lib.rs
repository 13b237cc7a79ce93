//! The adapter: an engine that does TCP/IP for the programs beside it.
//!
//! One worker, one single-threaded closed loop ([`Engine::turn`]) over packets,
//! requests, timers and what comes of them. It owns the port, the connections
//! and the memory it shares with its programs; `cli` starts it, and programs
//! reach it through `hostif` alone.
//!
//! | file | what it has |
//! | --- | --- |
//! | `engine`, `inlet` | the loop and everything it owns; when it reads the port |
//! | `fast_input` | packets in, as they nearly always are |
//! | `input`, `input6`, `tcp_input`, `datagram` | packets in, whatever they are |
//! | `passive`, `fast_open` | connections that come in |
//! | `cookies` | SYNs answered and not remembered |
//! | `strangers` | how much is answered to packets of no connection |
//! | `requests` | what programs ask |
//! | `socket` | what is known of a socket |
//! | `connection` | a connection's life |
//! | `settle` | what a turn has touched: sent and told, each user its share |
//! | `pair` | connections between two of our own sockets |
//! | `fast_output` | packets out, as they nearly always are |
//! | `output`, `ends`, `link`, `link6`, `routing` | packets out: headers, routes, neighbours |
//! | `automatic` | addresses from DHCP servers and routers |
//! | `carrier` | a link that has come back |
//! | `errors` | ICMP errors, as programs hear of them |
//! | `groups` | multicast and broadcasts |
//! | `buffers` | how much a connection may hold |
//! | `scarcity` | what happens when there is no memory for more |
//! | `streams` | where a stream's bytes lie |
//! | `session/` | programs: their memory, processes, wake-ups |
//! | `demux`, `timers`, `slab` | tables |
//! | `sysctl` | the host's TCP settings |
//! | `house`, `burial`, `sleep`, `spare` | letting in, clearing up, sleeping |
//! | `control`, `report`, `counters`, `info` | what a run costs, made visible |

mod access;
mod adjust;
mod attach;
mod automatic;
#[cfg(feature = "bench")]
pub mod bench;
mod buffers;
mod burial;
mod carrier;
mod catalog;
mod connection;
pub mod control;
mod cookies;
mod counters;
mod datagram;
mod demux;
mod ends;
mod engine;
mod errors;
mod fast_input;
mod fast_open;
mod fast_output;
mod groups;
mod house;
mod info;
mod inlet;
mod input;
mod input6;
mod link;
mod link6;
mod listeners;
mod output;
mod pair;
mod passive;
mod privilege;
mod reclaim;
mod report;
mod requests;
mod returns;
mod routing;
mod scarcity;
mod session;
mod settle;
mod slab;
mod sleep;
mod socket;
mod spare;
mod strangers;
mod streams;
mod sysctl;
mod tcp_input;
mod time;
mod timers;

pub use access::{Access, BadRule, LowPorts, Rule, Rules, Transport};
pub use adjust::{Adjustable, Handle};
pub use attach::{ListenError, UserLimits};
pub use automatic::Automatic;
pub use catalog::{CounterInfo, counters};
pub use counters::EngineDrop;
pub use engine::{Config, Engine, EngineError};
pub use listeners::Listeners;
pub use longshore_tcp::Congestion;
pub use routing::AddressError;
pub use sysctl::HostSettings;
