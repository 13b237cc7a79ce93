//! The loop: one turn after the other over packets, requests, timers and what comes of them,
//! and a rest between two.
//!
//! [`Engine::turn`] is the loop's body, and its list of stages is the design of this crate;
//! [`Engine::run`] repeats it.

use crate::intake::Which;
use crate::lifetime::Prospect;
use crate::{Engine, EngineError};
use longshore_stack::{Notice, Received};
use longshore_tcp::Instant;
use std::time::Duration;

impl Engine {
    /// Serves until it is asked to stop, or, for a private engine, until its
    /// programs are gone.
    ///
    /// # Errors
    /// [`EngineError`] if the port or the event loop fails.
    pub fn run(&mut self) -> Result<(), EngineError> {
        loop {
            let worked = self.turn()?;
            // The turn may have ended the last session: nobody would wake it for that.
            match self.lifetime.prospect(&mut self.stack) {
                Prospect::GoesOn => self.contained(|engine| engine.rest(worked).map(|()| true))?,
                Prospect::Unknown => continue,
                Prospect::IsOver => break,
            };
        }
        self.mark_all_closed();
        self.give_back();
        Ok(())
    }

    /// One turn of the loop; says whether there was anything to do.
    ///
    /// # Errors
    /// [`EngineError::Port`] if the port is gone.
    pub fn turn(&mut self) -> Result<bool, EngineError> {
        let now = self.clock.now();
        self.contained(|engine| engine.turn_at(now))
    }

    /// A turn, with the time of it.
    pub(crate) fn turn_at(&mut self, now: Instant) -> Result<bool, EngineError> {
        self.stack.begin_turn(now);
        // What programs asked before a packet came is done before it is taken: an
        // option, say, for which the engine was not woken.
        if self.intake.stalled.until() <= now {
            self.retry_stalled();
        }
        let mut worked = self.take_requests(Which::Due);
        if self.receiver.receive_policy.is_due(worked) {
            worked |= self.receive()?;
        }
        worked |= self.stack.handle_timeouts();
        if self.programs.schedule.at() <= now {
            self.maintain();
        }
        self.stack.relieve_memory_pressure();
        worked |= self.programs.continue_teardowns(&mut self.stack);
        worked |= self.stack.flush();
        if self.stack.late_binds().are_any() {
            self.bind_late();
            worked = true;
        }
        self.stack.answer_questions();
        self.stack.publish();
        self.programs.park_idle(&mut self.stack);
        if !self.stack.counters.notices.is_empty() {
            self.report_notices();
        }
        self.stack.port_mut().flush().map_err(EngineError::Port)?;
        Ok(worked)
    }

    /// Takes `which` requests of all sessions that are polled whose processes have published
    /// some; says whether there were any.
    #[inline]
    fn take_requests(&mut self, which: Which) -> bool {
        self.intake.begin();
        self.stack.endpoints.sessions.have_requests() && self.take_requests_of_all(which)
    }

    // What not each turn does is in functions of its own: a turn with nothing to do does not
    // make room for it.

    #[inline(never)]
    fn take_requests_of_all(&mut self, which: Which) -> bool {
        self.requests().take_of_all(which)
    }

    #[inline(never)]
    fn maintain(&mut self) {
        self.maintenance().go_on();
    }

    #[cold]
    fn retry_stalled(&mut self) {
        self.requests().retry_stalled();
    }

    #[cold]
    fn bind_late(&mut self) {
        self.maintenance().bind_late();
    }

    fn receive(&mut self) -> Result<bool, EngineError> {
        let most = self.receiver.receive_policy.most();
        let mut count = 0;
        let found_end = loop {
            if count == most {
                break false;
            }
            let buffer = &mut self.receiver.buffer;
            let received = if self.stack.expects_bulk() {
                match self.stack.receive_bulk(buffer, count == 0) {
                    Received::Usual(received) => received,
                    Received::InPlace(_) => {
                        count += 1;
                        continue;
                    }
                }
            } else {
                self.stack.port_mut().recv_single(buffer)
            };
            let meta = match received {
                Ok(Some(meta)) => meta,
                Ok(None) => break true,
                Err(e) => return Err(EngineError::Port(e)),
            };
            self.stack.note_received(meta.len);
            if count == 0 {
                // What programs asked before it came, where that can make a
                // difference to it.
                self.take_requests(Which::BeforeFrames);
            }
            count += 1;
            let frame = self.receiver.buffer.frame(meta.len);
            self.stack.frame_in(frame, &meta);
        };
        let receive_policy = &mut self.receiver.receive_policy;
        receive_policy.reached_end(found_end);
        receive_policy.took(count, most);
        // A turn that takes one frame leaves others for the next, which is no sign.
        let may_have_more = count == most && most > 1;
        self.stack.looked_at_port(count, may_have_more);
        count += self.stack.take_own_packets();
        Ok(count != 0)
    }

    /// Reports to the operator what the stack has noticed.
    #[cold]
    fn report_notices(&mut self) {
        for notice in self.stack.counters.notices.drain(..) {
            match notice {
                Notice::SynFlood => (self.about.notice)(
                    "more SYNs come than can be read: all but some are dropped at the port until \
                     there are fewer (`syns_dropped_at_port` in `longshore stat`)",
                ),
                Notice::Panic { session } => (self.about.notice)(&format!(
                    "session {session} was ended: its work met a bug of this engine, which has \
                     said where (`contained_panics` in `longshore stat`); its connections were \
                     reset, the other sessions go on"
                )),
                Notice::PanicAtHalfOpen => (self.about.notice)(
                    "a connection that was not established is forgotten: it met a bug of this \
                     engine, which has said where (`contained_panics` in `longshore stat`); all \
                     sessions go on",
                ),
                Notice::ArenaFull { session } => (self.about.notice)(&format!(
                    "session {session} is short of memory for what it receives, and narrows its \
                     windows: its programs have to read, or to use an engine with more \
                     (`session.receive_mib` in its configuration)"
                )),
            }
        }
    }

    /// Stops letting sessions in, and ends when those there are have ended, at
    /// the latest after `grace`.
    pub fn drain(&mut self, grace: Duration) {
        let micros = u64::try_from(grace.as_micros()).unwrap_or(u64::MAX);
        let by = self.stack.now().0.saturating_add(micros);
        self.lifetime.drain(Instant(by));
    }

    /// Notifies all programs that the engine is gone.
    pub(crate) fn mark_all_closed(&mut self) {
        for key in self.stack.endpoints.sessions.keys() {
            if let Some(s) = self.stack.endpoints.sessions.get_mut(key) {
                s.host.header().mark_closed();
                s.host.wake_everybody();
            }
        }
    }
}

#[cfg(test)]
mod tests;
