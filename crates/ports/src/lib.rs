//! The ports by which packets leave the engine.
//!
//! A [`Port`] moves whole link-layer frames between the engine and an interface or wire.
//! The engine owns its port and calls it only from its one thread. The trait, frames and
//! offloads (checksums, segmentation, coalescing) are defined in `frames`; this crate has
//! the implementations, and knows nothing of connections.
mod bpf;

// The example of a port in that document is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/extending.md")]
struct Extending;

pub mod capture;
mod check;
pub mod fault;
mod frames;
mod impair;
mod interface;
pub mod memory;
pub mod packet;
mod pass_on;
mod random;
pub mod segment;
pub mod sim;
mod syn_drop;
pub mod tap;
mod vnet;

pub use impair::{FaultCounts, Faults};
pub use interface::{BadName, InterfaceName};
pub use longshore_frames::{
    BigTcp, Capabilities, Drops, Gso, GsoKind, LinkKind, MAX_FRAME, MAX_PIECES, MAX_SYN_DROP, Port,
    PortCounters, PortError, RECV_ROOM, RecvBuffer, RxChecksum, RxMeta, SharedRooms, TxChecksum,
    TxFrame, TxGso,
};
