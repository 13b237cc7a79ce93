//! Scripts of packets and calls for one TCP connection, and a runner for them. For tests:
//! the same script runs against the sans-I/O core on virtual time and against the
//! kernel's TCP on a TUN device.
//!
//! Owns the language (`parse`, described in `README.md`), the runner (`run`) and the
//! table of states and events that scripts fill (`table`). A stack under test implements
//! [`Stack`]; the runner passes it segments, calls and time, and compares what it sends.

mod parse;
mod run;
mod table;

pub use parse::{Call, Direction, Line, Linux, Options, Packet, Position, Script, Step, flags};
pub use run::{PEER_ISS, Sent, Stack, run};
pub use table::{Cell, EVENTS, STATES, Table};
