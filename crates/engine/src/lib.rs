//! The adapter: an engine that does TCP/IP for the programs beside it.
//!
//! One worker, one single-threaded closed loop ([`Engine::turn`]) over packets,
//! requests, timers and what comes of them. It owns the port, the connections
//! and the memory it shares with its programs; `cli` starts it, and programs
//! reach it through `hostif` alone. What packets and requests mean is for
//! [`longshore_stack`] to say.
//!
//! | file | what it has |
//! | --- | --- |
//! | `engine` | the loop and what touches the machine |
//! | `receive_policy` | when the port is read |
//! | `intake` | when whose requests are taken |
//! | `acquire` | addresses that are waited for |
//! | `reclaim` | memory that is used no more goes back |
//! | `session/` | programs: their processes and launchers |
//! | `attach/`, `listeners` | how programs come |
//! | `kernel`, `sysctl`, `privilege` | the host's TCP settings, and what its kernel lets processes do |
//! | `adjust` | settings that change while it runs |
//! | `maintenance`, `teardown`, `sleep`, `reserve_fd` | letting in, clearing up, sleeping |
//! | `control`, `report`, `catalog` | what a run costs, made visible |

mod acquire;
mod adjust;
mod attach;
#[cfg(feature = "bench")]
pub mod bench;
mod catalog;
mod containment;
pub mod control;
mod engine;
mod intake;
mod kernel;
mod listeners;
mod maintenance;
mod privilege;
mod receive_policy;
mod reclaim;
mod report;
mod reserve_fd;
mod session;
mod sleep;
mod sysctl;
mod teardown;
mod time;

pub use adjust::{Adjustable, Handle};
pub use attach::{ListenError, UserLimits};
pub use catalog::{CounterInfo, counters};
pub use engine::{Config, Engine, EngineError};
pub use listeners::Listeners;
pub use longshore_stack::{
    Access, AddressError, Automatic, BadRule, EngineDrop, LowPorts, Rule, Rules, Transport,
};
pub use longshore_tcp::Congestion;
pub use sysctl::HostSettings;
