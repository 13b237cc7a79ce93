//! The interface between a stack and a port: whole link-layer frames ([`TxFrame`],
//! [`RxMeta`]), the capabilities of a port ([`Capabilities`]), and the trait of ports
//! ([`Port`]).
//!
//! This crate is between `stack`, which sends frames and knows no device, and `ports`,
//! which has the devices and knows no stack. It does no I/O itself.

mod counters;
mod error;
mod payload;
mod port;
mod recv_buffer;

pub use counters::{Drops, PortCounters};
pub use error::{MAX_PIECES, PortError};
pub use longshore_ring::SharedRooms;
pub use payload::in_place;
pub use port::{
    BigTcp, Capabilities, Gso, GsoKind, LinkKind, MAX_SYN_DROP, Port, RxChecksum, RxMeta,
    TxChecksum, TxFrame, TxGso,
};
pub use recv_buffer::{MAX_FRAME, RECV_ROOM, RecvBuffer};
