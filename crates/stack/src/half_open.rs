//! Half-open connections: their SYNs were answered, and the answers are not acknowledged.
//!
//! Owns [`HalfOpens`], where each is a small record beside the sockets: a flood of SYNs fills a
//! queue of these. `handshake` adds, advances and removes them. A listener has the key of its
//! queue; its session's programs do not know of them. The queue of a listener that is over is given
//! up, and its connections are reset some in each turn ([`flush`](crate::Stack::flush)): there may be
//! thousands.

mod on_data;
mod table;

pub(crate) use table::{HalfOpen, HalfOpens};

use crate::address_pair::Sides;
use crate::demux::{Demux, Flow, Found};
use crate::socket::{Kind, Socket};
use crate::sockets::Sockets;
use longshore_wire::SeqNumber;

impl HalfOpens {
    /// A listener is over: its half-open connections are reset, as far as resets may be sent
    /// to a peer that has not proved its address.
    pub(crate) fn give_up_of(&mut self, listener: u32, sockets: &Sockets) {
        if let Some(Kind::Listener(l)) = sockets.get(listener).map(|s| &s.kind) {
            self.give_up(l.half_open);
        }
    }

    /// A listener listens no longer, and may do so again.
    pub(crate) fn renew_for(&mut self, listener: u32, sockets: &mut Sockets) {
        self.give_up_of(listener, sockets);
        if let Some(Kind::Listener(l)) = sockets.get_mut(listener).map(|s| &mut s.kind) {
            l.half_open = self.begin_queue(listener);
            l.listener.on_half_open_given_up();
        }
    }

    /// The half-open connection between two addresses, if there is one and its SYN-ACK has
    /// this sequence number.
    pub(crate) fn in_flight(
        &self,
        demux: &Demux,
        (local, remote): Sides,
        seq: Option<SeqNumber>,
    ) -> Option<(u32, SeqNumber)> {
        let Some(Found::HalfOpen(key)) = demux.peek(&Flow::new(local, remote)) else {
            return None;
        };
        let record = &self.get(key)?.record;
        let seq = seq.filter(|seq| record.is_in_flight(*seq))?;
        Some((key, seq))
    }
}

/// What the stack's own memory of one half-open connection takes, in bytes, tables left out.
pub const HALF_OPEN_BYTES: usize = size_of::<Option<HalfOpen>>();

// A flood fills a queue of these; a socket takes more than ten times as much.
const _: () = assert!(HALF_OPEN_BYTES <= 208 && 10 * HALF_OPEN_BYTES < size_of::<Socket>());
