//! Scripts of packets and calls for one TCP connection, and how a stack is led through
//! one. For tests: the same script is run by the sans-I/O core on virtual time and by
//! the kernel's TCP on a TUN device.
//!
//! Owns the language (`parse`, described in `README.md`), the run (`run`) and the table
//! of states and events that scripts fill (`table`). A stack under test is a [`Stack`];
//! it is given segments, calls and time, and says what it sends.

mod parse;
mod run;
mod table;

pub use parse::{Call, Direction, Line, Linux, Options, Packet, Position, Script, Step, flags};
pub use run::{PEER_ISS, Sent, Stack, run};
pub use table::{Cell, EVENTS, STATES, Table};
