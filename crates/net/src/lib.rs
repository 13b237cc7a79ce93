//! What lies under TCP, sans-I/O: neighbours, routes, fragments, path MTU, ICMP
//! and UDP.
//!
//! Nothing here does I/O, reads a clock or takes randomness: packets and the time
//! are arguments, and what is to be sent is handed back. The engine calls it, with
//! each packet on its way in ([`input`], [`input6`], [`fragment`], [`icmp`],
//! [`icmp6`], [`udp`], [`arp`]) and on its way out ([`route`], [`neighbor`], [`ndp`],
//! [`source`], [`pmtu`], [`fragment`], [`template`]). Addresses that nobody has typed come
//! from [`dhcp`] and [`router`]. Tables are bounded, and what is
//! refused has a [`DropReason`].
//!
//! What both versions of IP share takes addresses of either; where they differ, a
//! module whose name ends in 6 stands beside the other.

// No number from the wire may make an index panic.
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

pub mod address6;
pub mod arp;
mod cidr;
pub mod dhcp;
mod drop;
pub mod fragment;
pub mod groups;
pub mod icmp;
pub mod icmp6;
pub mod input;
pub mod input6;
pub mod ndp;
pub mod neighbor;
pub mod pmtu;
mod random;
pub mod route;
pub mod router;
pub mod source;
pub mod stable;
pub mod template;
mod time;
pub mod udp;

pub use cidr::{Cidr, CidrError};
pub use drop::{DropCounts, DropReason};
pub use time::Instant;
