//! The host agent: what deals with processes, off every hot path.
//!
//! | file | what it has |
//! | --- | --- |
//! | `process` | what the kernel says of a process: its end, its users |
//! | `processes` | who has which channel of a session: processes that join, children that claim one, ends |
//! | `transit` | sockets that no process holds, on their way to one in a message |
//!
//! It reads and writes what processes say of themselves in a session's memory, knows of no
//! engine, and is told the time. `engine` calls it between two turns.

mod process;
mod processes;
mod transit;

pub use process::Peer;
pub use processes::{Attached, Ended, Processes, Unwatched};
pub use transit::{InTransit, Lost};
