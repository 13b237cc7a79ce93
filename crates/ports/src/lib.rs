//! Where packets leave the engine.
//!
//! A [`Port`] moves whole link-layer frames between the engine and something
//! that carries them. The engine owns its port and calls it from its one
//! thread; nothing else does. This crate knows frames and the offloads that a
//! carrier can do for them (checksums, segmentation, coalescing), and nothing
//! of connections.
mod bpf;

// The example of a port there is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/extending.md")]
struct Extending;

pub mod capture;
mod check;
mod counters;
mod error;
pub mod fault;
mod frames;
mod impair;
mod interface;
pub mod memory;
pub mod packet;
mod port;
mod random;
pub mod segment;
pub mod sim;
mod syn_drop;
pub mod tap;
mod vnet;

pub use counters::{Drops, PortCounters};
pub use error::PortError;
pub use impair::{FaultCounts, Faults};
pub use interface::{BadName, InterfaceName};
pub use port::{
    Capabilities, Gso, GsoKind, LinkKind, MAX_FRAME, MAX_PIECES, Port, RECV_ROOM, RecvBuffer,
    RxChecksum, RxMeta, TxChecksum, TxFrame, TxGso,
};
pub use syn_drop::MAX_SYN_DROP;
