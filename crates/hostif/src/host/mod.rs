//! The host's half: what a program and its shim put and get, and what sees to processes.
//!
//! `sockets` calls the ends of channels for programs; [`agent`] deals with processes for the
//! engine; `longshore run` and the shim agree on [`warning`].

pub mod agent;
mod channel;
mod coalesce;
mod files;
mod rings;
mod session;
mod streams;
mod under_way;
mod waiters;
pub mod warning;
pub mod zero_copy;

pub use channel::HostChannel;
pub use files::{HeldFile, SentRanges};
pub use session::HostSession;
pub use streams::StreamError;
pub use under_way::RequestsUnderWay;
pub use waiters::Waiters;
