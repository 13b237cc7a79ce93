//! What lies under TCP, sans-I/O: neighbours, routes, fragments, path MTU, ICMP
//! and UDP.
//!
//! Nothing here does I/O, reads a clock or takes randomness: packets and the time
//! are arguments, and what is to be sent is handed back. The engine calls it, with
//! each packet on its way in ([`input`], [`fragment`], [`icmp`], [`udp`], [`arp`])
//! and on its way out ([`route`], [`neighbor`], [`pmtu`], [`fragment`],
//! [`template`]). Tables are bounded, and what is refused has a [`DropReason`].
//!
//! Addresses of both families are taken where only an address is needed; headers
//! are IPv4's so far.

pub mod arp;
mod cidr;
mod drop;
pub mod fragment;
pub mod icmp;
pub mod input;
pub mod neighbor;
pub mod pmtu;
pub mod route;
pub mod template;
mod time;
pub mod udp;

pub use cidr::{Cidr, CidrError};
pub use drop::{DropCounts, DropReason};
pub use time::Instant;
