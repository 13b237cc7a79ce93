//! Where packets leave the engine.
//!
//! A [`Port`] moves whole link-layer frames between the engine and something
//! that carries them. The engine owns its port and calls it from its one
//! thread; nothing else does. The trait, and the frames and offloads that it is about
//! (checksums, segmentation, coalescing), are those of `frames`; this crate has the carriers,
//! and knows nothing of connections.
mod bpf;

// The example of a port there is compiled and run.
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
mod random;
pub mod segment;
pub mod sim;
mod syn_drop;
pub mod tap;
mod vnet;

pub use impair::{FaultCounts, Faults};
pub use interface::{BadName, InterfaceName};
pub use longshore_frames::{
    Capabilities, Drops, Gso, GsoKind, LinkKind, MAX_FRAME, MAX_PIECES, MAX_SYN_DROP, Port,
    PortCounters, PortError, RECV_ROOM, RecvBuffer, RxChecksum, RxMeta, TxChecksum, TxFrame, TxGso,
};
