//! Bus and adapter models: what counted crossings would cost on a bus.
//!
//! What it owns: what moves, and the sums of that ([`Access`], [`Traffic`]); the cost of an
//! access on a bus ([`Bus`]: [`PciX`], [`Pcie`], [`Cxl`], and [`AnyBus`] by its name); what
//! the two kinds of adapters move: a conventional one frames ([`ConventionalAdapter`],
//! [`MultiQueueAdapter`]), one that does TCP/IP descriptors and payload ([`crossed`]). And what all of that does in the
//! course of time: a [`TransferEngine`], through which `link` carries the host/adapter interface
//! at the speed that a bus would allow. `measure` and `link` call it. It knows
//! nothing of packets but their length.
//!
//! The model of PCI-X and of the conventional adapter are those of Freimuth, Hu, LaVoie,
//! Mraz, Nahum, Pradhan and Tracey, "Server network scalability and TCP offload" (USENIX
//! 2005), sections 4.4 and 5. Each file names the sources of its own; `docs/bus-models.md`
//! has all of them together, with what they are held against.

mod conventional;
mod cxl;
#[cfg(test)]
mod extending;
mod fixed_rate;
mod multi_queue;
mod named;
mod offloading;
mod pcie;
mod pcix;
mod transfer;
mod transfer_engine;

pub use conventional::{ConventionalAdapter, Driver, Ring};
pub use cxl::Cxl;
pub use fixed_rate::FixedRate;
pub use multi_queue::{MultiQueueAdapter, Queues};
pub use named::{AnyBus, UnknownBus};
pub use offloading::{Counted, Signals, crossed};
pub use pcie::{Generation, LANES, Pcie};
pub use pcix::PciX;
pub use transfer::{Access, Bus, Cycles, Sums, Tally, Traffic};
pub use transfer_engine::{
    BadBusModel, BusModel, DOORBELL, Forwarding, Load, PIECE, SLOT, TransferEngine,
};
