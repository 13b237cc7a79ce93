//! The IP layer, sans-I/O: neighbours, routes, fragments, path MTU, ICMP and UDP.
//!
//! Nothing here does I/O, reads a clock or generates random numbers: packets and the time
//! are arguments, and packets to send are return values. The engine calls it for each
//! received packet ([`input`], [`input6`], [`fragment`], [`icmp`], [`icmp6`], [`udp`],
//! [`arp`]) and for each sent one ([`route`], [`neighbor`], [`ndp`], [`source`],
//! [`pmtu`], [`fragment`], [`template`]). Addresses that are not configured by hand come
//! from [`dhcp`] and [`router`]. Tables are bounded, and each refusal has a
//! [`DropReason`].
//!
//! Code common to both versions of IP takes addresses of either; where they differ, the
//! module for IPv6 has a name that ends in 6.

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
