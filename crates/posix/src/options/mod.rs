//! Options of sockets: those that concern the engine ([`known`]), those that are refused
//! ([`refusal`]), those that count for each datagram by itself ([`per_datagram`]), and which flags of
//! SO_TIMESTAMPING are done ([`timestamping`]).
//!
//! `setsockopt` and `getsockopt` of `preload` ask here; what the kernel socket behind a
//! descriptor is told, and with which bytes, is theirs.

pub mod known;
pub mod per_datagram;
mod policy;
pub mod timestamping;

use libc::c_int;
pub use policy::refusal;

/// `TCP_MD5SIG_EXT` of linux/tcp.h.
pub const SIGNATURE_EXT: c_int = 32;
/// The options of TCP-AO, which follow one another (linux/tcp.h).
pub const AUTHENTICATION: std::ops::RangeInclusive<c_int> = 38..=42;
