//! What the peer was told of the window while memory for what arrives is short.
//!
//! Owns [`ShortWindow`], which is part of `receive_buffer.rs`. The window is taken back to what
//! memory allows, so that the peer stops sending before anything has to be dropped, while what
//! is on its way is still within the edge that was advertised before (`docs/rfc.md`, D53).
//! `receive_room.rs` begins it, `rcv/window.rs` computes the window while it lasts.

use crate::pos::Pos;

/// Bytes that may be unread of a connection while memory is short: what a session hands out memory
/// by.
pub(crate) const ROOM: u32 = 64 * 1024;

/// Bytes in a unit of what was told.
const UNIT: u32 = 4;

/// What the peer was told while memory is short; without meaning at other times.
///
/// It takes two bytes, as there is no room for more in a connection's block: the edge is known
/// by its distance to RCV.NXT, which [`ROOM`] bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ShortWindow {
    /// The right edge that it was told last, in units, modulo 2^16. It may be before the edge
    /// that was advertised while there was memory.
    told: u16,
}

impl ShortWindow {
    /// Of a connection whose memory has never been short.
    pub(crate) const NONE: ShortWindow = ShortWindow { told: 0 };

    /// The peer is told this right edge.
    pub(crate) const fn tell(&mut self, edge: Pos) {
        self.told = (edge / UNIT as Pos) as u16;
    }

    /// The rest of what it was told, bytes, with RCV.NXT at `nxt`: at most `free`, since reading
    /// alone moves the edge.
    pub(crate) fn rest(self, nxt: Pos, free: u32) -> u32 {
        let units = self.told.wrapping_sub((nxt / UNIT as Pos) as u16);
        let rest = u32::from(units) * UNIT;
        if rest > ROOM { 0 } else { rest.min(free) }
    }
}

#[cfg(test)]
mod tests;
