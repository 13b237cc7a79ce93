//! The user's calls (RFC 9293 section 3.10): write, read, close, abort; `settings.rs`
//! has the options.
//!
//! Owns those methods of [`Tcb`]; the engine calls them as descriptors arrive, and
//! `poll_transmit` afterwards. None of them can fail: a call that is not valid in the
//! present state does nothing.

use crate::accounting::BufferLimit;
use crate::config::Linger;
use crate::events::{Error, Events};
use crate::flags::Flags;
use crate::pos::Pos;
use crate::prediction::Prediction;
use crate::settings::Settings;
use crate::state::State;
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
            self.release_syn();
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
        let may_tell = self.state.may_receive_data() && !self.is_denied_room();
        if may_tell && self.rcv.window_update_due(&self.cfg) {
            self.flags |= Flags::ACK_NOW;
        }
        self.debug_check();
    }

    /// The last byte before `edge` of the send stream, already announced by
    /// [`set_snd_edge`](Tcb::set_snd_edge), is urgent. No small segment is held back
    /// then. A byte that is acknowledged already, or lies before the last urgent one,
    /// changes nothing.
    pub fn set_snd_urgent(&mut self, edge: u64) {
        self.snd.set_urgent(self.state, &mut self.flags, edge);
    }

    /// The record that was written last ends at `edge` of the send stream, already announced by
    /// [`set_snd_edge`](Tcb::set_snd_edge): bytes before and after it share no segment from now
    /// on. Returns whether that is kept: it is not if 4,096 ends are not acknowledged.
    pub fn end_record(&mut self, edge: u64) -> bool {
        self.flight
            .record_ends
            .end(&self.snd, &mut self.flags, edge)
    }

    /// The send buffer has `size` bytes (SO_SNDBUF). Called after each burst, when
    /// everything that may be sent was sent.
    #[inline]
    pub fn note_send_buffer(&mut self, size: u32, now: Instant) {
        if self.snd.unacknowledged() >= i64::from(size)
            || self.flags.contains(Flags::BUFFER_LIMITED)
        {
            let limit =
                BufferLimit::of(&self.flight, &self.snd, &self.congestion, self.state, size);
            self.accounting
                .note_buffer_limit(limit, &mut self.flags, now);
        }
    }

    /// Sets how far memory allows the receive buffer to grow at present, bytes: tuning
    /// stays within this; what was granted before stays granted. Call it before
    /// [`Tcb::set_rcv_consumed`].
    #[inline]
    pub fn set_rcv_room(&mut self, bytes: u64) {
        let bytes = bytes.min(u64::from(u32::MAX)) as u32;
        self.rcv.buffer.set_room(bytes);
    }

    /// There is no memory for payload: until [`grant_room`](Tcb::grant_room) none is
    /// accepted, and the window is advertised as closed, which takes back what was
    /// advertised (`docs/rfc.md`, D53). Data that has arrived stays, and acknowledgments
    /// are processed. Returns whether this is a change.
    pub fn deny_room(&mut self) -> bool {
        let new = !self.is_denied_room();
        if new {
            self.flags |= Flags::NO_ROOM;
            self.rcv.buffer.forget_advertised();
            self.prediction = Prediction::OFF;
        }
        new
    }

    /// Whether payload is refused for lack of memory.
    #[inline]
    #[must_use]
    pub fn is_denied_room(&self) -> bool {
        self.flags.contains(Flags::NO_ROOM)
    }

    /// There is memory for payload again: the peer is notified at once.
    pub fn grant_room(&mut self) {
        if !self.is_denied_room() {
            return;
        }
        self.flags.remove(Flags::NO_ROOM);
        self.rcv.buffer.forget_advertised();
        if self.state.may_receive_data() {
            self.flags |= Flags::ACK_NOW;
        }
    }

    /// Closes the sending half: the FIN follows the last byte written.
    ///
    /// RFC 9293 section 3.10.4, CLOSE: in SYN-SENT the block is deleted, and as in Linux
    /// a program that waits for the connection gets a reset error; in SYN-RECEIVED the
    /// FIN waits for ESTABLISHED, and also in SYN-SENT if the user was told that the
    /// connection is established (RFC 7413).
    pub fn shutdown_send(&mut self) {
        if self.snd.fin() || !self.state.may_write() {
            return;
        }
        if self.abort_opening(Error::Reset) {
            return;
        }
        self.release_syn();
        self.snd.close();
        self.state = match self.state {
            State::Established => State::FinWait1,
            State::CloseWait => State::LastAck,
            other => other,
        };
        self.predict_next();
        self.debug_check();
    }

    /// Closes the receiving half. As in Linux, unread data and data that arrives from now
    /// on may still be read; but once the sending half is closed too, arriving data is
    /// answered by a reset. In SYN-SENT it ends the attempt.
    pub fn shutdown_recv(&mut self) {
        if self.abort_opening(Error::Reset) {
            return;
        }
        self.flags |= Flags::RCV_SHUT;
        self.predict_next();
    }

    /// In SYN-SENT, unless the user was told that the connection is established: ends the
    /// attempt.
    fn abort_opening(&mut self, error: Error) -> bool {
        let opening = self.state == State::SynSent && !self.fast_open.is_early_connected();
        if opening {
            self.die(Some(error), Events::empty());
        }
        opening
    }

    /// Ends an attempt to connect whose SYN was not answered; whether it did.
    pub fn cancel_opening(&mut self) -> bool {
        let cancelled = self.abort_opening(Error::Cancelled);
        self.debug_check();
        cancelled
    }

    /// Whether [`close`](Tcb::close) would reset the connection, so that written data
    /// that is unsent by then would be lost.
    #[must_use]
    pub fn resets_on_close(&self) -> bool {
        !self.flags.contains(Flags::ORPHAN)
            && self.state.is_synchronized()
            && (self.cfg.linger == Linger::Reset || self.rcv.has_unread())
    }

    /// Whether the peer has acknowledged the end of the sending half.
    #[inline]
    #[must_use]
    pub fn fin_acked(&self) -> bool {
        self.snd.fin_acked()
    }

    /// No program holds the connection any more. With unread data, or with
    /// [`Linger::Reset`], it is reset (RFC 2525 section 2.17; RFC 9293 section
    /// 3.10.4); otherwise everything written is delivered, then the FIN, and
    /// `Events::CLOSED` comes in the end.
    pub fn close(&mut self, now: Instant) {
        if self.flags.contains(Flags::ORPHAN) {
            return;
        }
        self.flags |= Flags::ORPHAN;
        self.liveness.forget_advised_timeout(
            &self.flight,
            &mut self.timers,
            &mut self.cfg,
            &mut self.flags,
        );
        match self.state {
            State::Closed | State::TimeWait => {}
            State::SynSent if !self.fast_open.has_early_data(&self.snd, &self.cfg) => {
                self.die(None, Events::empty())
            }
            _ if self.cfg.linger == Linger::Reset || self.rcv.has_unread() => {
                // In CLOSING and LAST-ACK too, as in Linux: the peer would take our FIN
                // as a sign that everything it sent was read.
                self.flags |= Flags::RST_DUE | Flags::RST_ACK;
                self.die(Some(Error::Aborted), Events::empty());
            }
            _ => {
                self.shutdown_send();
                self.predict_next();
                if self.state == State::FinWait2 {
                    self.timers.start_fin_wait(&self.cfg, now);
                }
            }
        }
        self.debug_check();
    }

    /// Ends the connection at once. RFC 9293 section 3.10.5, ABORT: with a reset, unless
    /// the peer does not know the connection or both sides have already closed.
    pub fn abort(&mut self) {
        self.flags |= Flags::ORPHAN;
        match self.state {
            State::Closed => {}
            State::SynSent | State::TimeWait | State::Closing | State::LastAck => {
                self.die(Some(Error::Aborted), Events::empty());
            }
            _ => {
                self.flags |= Flags::RST_DUE | Flags::RST_ACK;
                self.die(Some(Error::Aborted), Events::empty());
            }
        }
        self.debug_check();
    }

    /// What the user may change at any time.
    pub fn settings(&mut self) -> Settings<'_> {
        Settings {
            state: self.state,
            cfg: &mut self.cfg,
            flags: &mut self.flags,
            snd: &mut self.snd,
            rcv: &mut self.rcv,
            acks: &mut self.acks,
            liveness: &mut self.liveness,
            timers: &mut self.timers,
            congestion: &mut self.congestion,
            flight: &self.flight,
            ecn: &self.ecn,
            accounting: &self.accounting,
        }
    }
}

#[cfg(test)]
mod tests;
