//! The TCP machine, sans-I/O: segments, user calls and the time in; segments,
//! events and the next deadline out.
//!
//! A connection is a [`Tcb`], plain data that the engine keeps in a table. It never
//! sees payload: streams are counted in bytes from 0, the engine owns the bytes, and
//! a [`Disposition`] says where arriving ones belong while a [`Transmit`] says which
//! ones to send. It reads no clock and makes no random numbers: an [`Instant`], the
//! initial sequence number and the timestamp offset are arguments.
//!
//! ```text
//!   segment ──> on_segment ──> Disposition (where payload goes, why dropped)
//!   user ─────> set_snd_edge, set_rcv_consumed, shutdown_send, close, abort
//!   clock ────> on_timer
//!                    │
//!                    v
//!   poll_transmit ──> Transmit       take_events ──> Events       deadline
//! ```
//!
//! Around it: [`Listener`] (the queues of a passive open), [`TimeWait`] (what is
//! left of a connection in TIME-WAIT) and [`reset_for`] (the answer to a segment
//! that belongs to nothing).
//!
//! A block is composed of parts, each a value type with its own state, methods and
//! file. A handler is a method of the part whose state it changes; it is passed the
//! parts that it reads, and says what else is to be done. What concerns several parts
//! is put together by [`Tcb`].
//!
//! | part | what | where |
//! | --- | --- | --- |
//! | `snd` | the send side: sequence space, the peer's window, what is written, the round trip | `snd.rs`, `nagle.rs`, `urgent.rs`, `rtt.rs` |
//! | `rcv` | the receive side: sequence space, the window offered, what is read | `rcv.rs`, `receive_buffer.rs`, `window.rs` |
//! | `stamps` | timestamps | `stamps.rs` |
//! | `acks` | acknowledgments that are owed | `acks.rs`, `input/data.rs` |
//! | `reassembly` | what has arrived out of order, and what is reported of it | `reassembly.rs`, `assembler.rs`, `ranges.rs`, `paws.rs` |
//! | `flight` | what is in flight, what became of it, its repair and its timer | `flight.rs`, `flight/` |
//! | `congestion` | how much may be in flight, how fast it goes out | `congestion/`, `delivery.rs` |
//! | `ecn` | marks of congestion, told and heard | `ecn.rs`, `ecn/` |
//! | `fast_open` | data on the SYN | `fast_open.rs`, `syn_data.rs` |
//! | `liveness` | signs of life, and attempts without an answer | `liveness.rs`, `user_timeout.rs` |
//! | `timers` | the other deadlines | `timers.rs`, `timeouts.rs` |
//! | `outcome` | what the user is to be told | `outcome.rs`, `events.rs` |
//! | `accounting` | what was done so far | `accounting.rs`, `accounting/`, `send_buffer.rs`, `info.rs` |
//!
//! Modules use each other in no circle: the parts know nothing of the block, and of each
//! other what stands below (`flight` uses `congestion`, which uses `snd`); what has
//! methods of [`Tcb`] stands above it.
//!
//! | where else | what |
//! | --- | --- |
//! | `tcb.rs`, `open.rs`, `user.rs` | the block, how it begins, what the user may ask |
//! | `input/` | a segment in: prediction, checks, ACK, payload, FIN, RST |
//! | `output/` | a segment out: what to send, with which options |
//! | `restore.rs`, `codec.rs` | a connection saved and restored, by another process |
//! | `check.rs` | what must hold whenever nothing is being done |
//! | `listener.rs`, `syn_cookie.rs` | the queues behind `listen`, and doing without them |
//!
//! `docs/rfc.md` says which paragraph of which RFC is where, and what deviates.

// No number from the wire may make an index panic.
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

// The peer played by tests speaks of this crate by its name, here and in `tests/`.
#[cfg(test)]
extern crate self as longshore_tcp;
#[cfg(test)]
#[path = "../tests/support/script.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod script;

mod accounting;
mod acks;
mod assembler;
mod check;
mod codec;
mod config;
mod congestion;
mod delivery;
mod drop;
mod ecn;
mod events;
mod fast_open;
mod flags;
mod flight;
mod icmp;
mod info;
mod input;
mod listener;
mod liveness;
mod nagle;
mod open;
mod outcome;
mod output;
mod paws;
mod pos;
mod ranges;
mod rcv;
mod reassembly;
mod receive_buffer;
mod reset;
mod restore;
mod rtt;
mod segment;
mod send_buffer;
mod snd;
mod stamps;
mod state;
mod syn_cookie;
mod syn_data;
mod tcb;
mod time;
mod time_wait;
mod timeouts;
mod timers;
mod urgent;
mod user;
mod user_timeout;
mod violation;
mod window;

pub use config::{Config, EcnMode, Keepalive, Linger, SynCookies};
pub use congestion::Congestion;
pub use drop::DropReason;
pub use ecn::EcnTotals;
pub use events::{Error, Events};
pub use fast_open::{
    FastOpenCache, FastOpenFailure, FastOpenKey, FastOpenOutcome, FastOpenQueue, FastOpenUse,
    FastOpenVerdict, FastOpenWay,
};
pub use icmp::IcmpError;
pub use info::{LINUX_TCP_INFO_LEN, TcpInfo};
pub use input::Predicted;
pub use listener::{ListenVerdict, Listener};
pub use reset::reset_for;
pub use restore::{RestoreError, SavedTcb};
pub use segment::{Disposition, Ecn, Place, PlainTransmit, Segment, Transmit};
pub use state::State;
pub use syn_cookie::SynCookie;
pub use tcb::Tcb;
pub use time::Instant;
pub use time_wait::{TimeWait, TimeWaitVerdict};
pub use timers::RunningTimer;
pub use violation::Violation;
