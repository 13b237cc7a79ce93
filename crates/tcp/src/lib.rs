//! The TCP state machine, sans-I/O. Its inputs are segments, user calls and the current
//! time; its outputs are segments, events and the next deadline.
//!
//! A connection is a [`Tcb`], plain data that the engine keeps in a table. The `Tcb`
//! never sees payload: streams are counted in bytes from 0 and the engine owns the bytes.
//! A [`Disposition`] says where the payload of an arriving segment belongs; a
//! [`Transmit`] says which bytes to send. The crate reads no clock and generates no
//! random numbers: an [`Instant`], the initial sequence number and the timestamp offset
//! are arguments.
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
//! Besides the `Tcb` there are [`Listener`] (the queues of a passive open), [`HalfOpen`]
//! and [`TimeWait`] (what is kept of a connection in SYN-RECEIVED and in TIME-WAIT) and
//! [`reset_for`] (the answer to a segment that belongs to no connection).
//!
//! A `Tcb` is composed of parts, each a value type with its own state, methods and file.
//! A handler is a method of the part whose state it changes; it takes the parts that it
//! reads as arguments and returns what else has to be done. A step that changes several
//! parts is a type of its own, which borrows them, and so is what is asked or set of one concern.
//! The [`Tcb`] itself has what each burst calls, and the order of the steps.
//!
//! | part | contents | files |
//! | --- | --- | --- |
//! | `snd` | the send side: sequence space, the peer's window, what the user has written, the round-trip time | `snd.rs`, `snd/urgent.rs`, `nagle.rs`, `rtt.rs` |
//! | `rcv` | the receive side: sequence space, the advertised window, what the user has read | `rcv.rs`, `rcv/window.rs`, `receive_buffer.rs` |
//! | `stamps` | timestamps | `stamps.rs` |
//! | `acks` | acknowledgments that are owed to the peer | `acks.rs` |
//! | `reassembly` | out-of-order ranges, and the SACK blocks that report them | `reassembly.rs`, `assembler.rs`, `ranges.rs`, `paws.rs` |
//! | `flight` | what is in flight: scoreboard, loss detection, recovery, the loss timer, the timed round trip, the search for the path's MTU | `flight.rs`, `flight/` |
//! | `congestion` | the congestion window and pacing | `congestion/` |
//! | `ecn` | congestion marks: negotiation, feedback and reaction | `ecn.rs`, `ecn/` |
//! | `fast_open` | data on the SYN | `fast_open.rs`, `fast_open/` |
//! | `liveness` | when the peer was last heard, and unanswered retries | `liveness.rs`, `user_timeout.rs` |
//! | `timers` | all deadlines but the loss timer's | `timers.rs` |
//! | `outcome` | events and errors to report to the user | `outcome.rs`, `events.rs` |
//! | `prediction` | what the next segment is expected to look like | `prediction.rs` |
//! | `accounting` | statistics | `accounting.rs`, `accounting/`, `info.rs` |
//!
//! | step | contents | file |
//! | --- | --- | --- |
//! | [`Predicted`] | a segment that is what was expected | `input/fast_path.rs` |
//! | `Checks` | whether a segment is acceptable, and what answers one that is not | `input/checks.rs` |
//! | `Acknowledgment` | what an acknowledgment changes | `input/ack.rs` |
//! | `Placement` | where payload belongs, and the acknowledgment that is owed for it | `input/data.rs` |
//! | `Selection` | what is sent next | `output/select.rs` |
//! | `Departure` | what sending changes | `output/data.rs` |
//! | `SegmentBuilder` | headers and options | `output/segment.rs`, `output/syn.rs` |
//! | `Timeouts` | what is done about a peer that does not answer | `timeouts.rs` |
//! | `Handshake` | what makes a connection ESTABLISHED | `input/handshake.rs` |
//! | [`Closing`] | what ends one | `closing.rs` |
//!
//! | concern | contents | file |
//! | --- | --- | --- |
//! | [`SendStatus`], [`ReceiveStatus`] | what is known of each direction | `status.rs` |
//! | [`SendStream`] | urgent data, ends of records, the send buffer | `send_stream.rs` |
//! | [`ReceiveRoom`] | memory for what is received | `receive_room.rs` |
//! | [`SegmentSize`] | the bounds of the path and the user | `segment_size.rs` |
//! | [`SynData`] | Fast Open | `syn_data.rs` |
//! | [`Settings`] | what the user may change at any time | `settings.rs` |
//!
//! Module dependencies form no cycle: the parts do not know [`Tcb`], and use only the
//! parts below them (`flight` uses `congestion`, which uses `snd`). Modules with methods
//! of [`Tcb`] come on top.
//!
//! | other files | contents |
//! | --- | --- |
//! | `tcb.rs`, `open.rs`, `user.rs` | the `Tcb`, opening a connection, the user's calls |
//! | `input/` | an arriving segment: prediction, checks, ACK, payload; an ICMP error |
//! | `output/` | a departing segment: what to send, with which options |
//! | `restore.rs`, `codec.rs` | saving a connection and restoring it in another process |
//! | `check.rs` | invariants between two calls |
//! | `listener.rs`, `half_open.rs`, `syn_cookie.rs` | the queues behind `listen`, what one of them holds, and SYN cookies, which need no queue |
//!
//! `docs/rfc.md` lists which section of which RFC is implemented where, and the
//! deviations.

// No number from the wire may make an index panic.
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

// The scripted peer of the tests refers to this crate by its name, here and in `tests/`.
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
mod closing;
mod codec;
mod config;
mod congestion;
mod drop;
mod ecn;
mod events;
mod fast_open;
mod flags;
mod flight;
mod half_open;
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
mod prediction;
mod ranges;
mod rcv;
mod reassembly;
mod receive_buffer;
mod receive_room;
mod reset;
mod restore;
mod rtt;
mod segment;
mod segment_size;
mod send_stream;
mod settings;
mod short_window;
mod snd;
mod stamps;
mod state;
mod status;
mod syn_cookie;
mod syn_data;
mod tcb;
mod time;
mod time_wait;
mod timeouts;
mod timers;
mod user;
mod user_timeout;
mod violation;

pub use closing::Closing;
pub use config::{
    BurstConfig, Config, DelayConfig, EcnMode, Keepalive, Linger, Overflow, ReceiveLimits, Retries,
    SynCookies,
};
pub use congestion::Congestion;
pub use drop::DropReason;
pub use ecn::EcnTotals;
pub use events::{Error, Events};
pub use fast_open::{
    FastOpenCache, FastOpenFailure, FastOpenKey, FastOpenMode, FastOpenOutcome, FastOpenQueue,
    FastOpenUse, FastOpenVerdict,
};
pub use half_open::HalfOpen;
pub use icmp::IcmpError;
pub use info::{LINUX_TCP_INFO_LEN, TcpInfo};
pub use input::Predicted;
pub use listener::{ListenVerdict, Listener};
pub use receive_room::ReceiveRoom;
pub use reset::reset_for;
pub use restore::{RestoreError, SavedTcb};
pub use segment::{Disposition, Ecn, Place, PlainTransmit, Segment, Transmit};
pub use segment_size::SegmentSize;
pub use send_stream::SendStream;
pub use settings::Settings;
pub use state::State;
pub use status::{ReceiveStatus, SendStatus};
pub use syn_cookie::SynCookie;
pub use syn_data::SynData;
pub use tcb::Tcb;
pub use time::Instant;
pub use time_wait::{TimeWait, TimeWaitVerdict};
pub use timers::RunningTimer;
pub use violation::Violation;
