//! The user's calls (RFC 9293 section 3.10): write, read, close, abort. `closing.rs` has what the
//! latter make of the state, `settings.rs` the options, `send_stream.rs` urgent data and records.
//!
//! Owns those methods of [`Tcb`]; the engine calls them as descriptors arrive, and
//! `poll_transmit` afterwards. None of them can fail: a call that is not valid in the
//! present state does nothing.

use crate::flags::Flags;
use crate::pos::Pos;
use crate::tcb::Tcb;
use crate::time::Instant;

impl Tcb {
    /// The user has written up to `edge` of the send stream. `push`: the data need not
    /// wait for more (false for MSG_MORE). Edges only move forward; for a lower one only
    /// the push takes effect.
    pub fn set_snd_edge(&mut self, edge: u64, push: bool) {
        if !self.state.may_write() || self.snd.fin() {
            return;
        }
        let edge = edge.min(Pos::MAX as u64 / 2) as Pos;
        // Section 3.4 of the delivery rate draft, checked as in Linux when more data is
        // written: only then is it known that there would have been room for it earlier.
        if edge > self.snd.edge()
            && self.snd.nxt() >= self.snd.edge()
            && self.snd.in_flight() + u64::from(self.snd.mss())
                < u64::from(self.congestion.controller.cwnd())
        {
            self.congestion.rate.note_limit(self.snd.nxt());
        }
        self.snd.write(edge);
        if push {
            self.snd.set_push();
        }
        if self.snd.edge() > 0 {
            self.fast_open.release(&mut self.flags);
        }
        self.debug_check();
    }

    /// The user has read up to `edge` of the receive stream; never beyond `rcv_edge()`. A
    /// window update may become due.
    pub fn set_rcv_consumed(&mut self, edge: u64, now: Instant) {
        let edge = edge.min(self.rcv_edge()) as Pos;
        if edge <= self.rcv.consumed() {
            return;
        }
        self.rcv.consume(edge);
        self.rcv.tune_buffer(&mut self.outcome, now);
        let is_due = match self.flags & Flags::SHORT_OF_ROOM {
            Flags::LITTLE_ROOM => self.rcv.short_update_due(&self.cfg),
            none if none.is_empty() => self.rcv.window_update_due(&self.cfg),
            _ => false,
        };
        if is_due && self.state.may_receive_data() {
            self.flags |= Flags::ACK_NOW;
        }
        self.debug_check();
    }

    /// Closes the sending half: the FIN follows the last byte written.
    ///
    /// RFC 9293 section 3.10.4, CLOSE: in SYN-SENT the block is deleted, and as in Linux
    /// a program that waits for the connection gets a reset error; in SYN-RECEIVED the
    /// FIN waits for ESTABLISHED, and also in SYN-SENT if the user was told that the
    /// connection is established (RFC 7413).
    pub fn shutdown_send(&mut self) {
        self.closing().shutdown_send();
        self.debug_check();
    }

    /// No program holds the connection any more. With unread data, or with
    /// [`Linger::Reset`](crate::Linger::Reset), it is reset (RFC 2525 section 2.17; RFC 9293 section
    /// 3.10.4); otherwise everything written is delivered, then the FIN, and
    /// `Events::CLOSED` comes in the end.
    pub fn close(&mut self, now: Instant) {
        self.closing().close(now);
        self.debug_check();
    }

    /// Ends the connection at once. RFC 9293 section 3.10.5, ABORT: with a reset, unless
    /// the peer does not know the connection or both sides have already closed.
    pub fn abort(&mut self) {
        self.closing().abort();
        self.debug_check();
    }
}

#[cfg(test)]
mod tests;
