//! How long what was sent, or waits for the peer's window, may go without progress: the
//! user timeout (RFC 9293 section 3.8.3), and what the two sides tell each other of theirs
//! (RFC 5482).
//!
//! Owns the deadline `user`, the option's value and the bounds of what a peer may ask for.
//! `input/` hands over what the peer said; `output/options.rs` asks what is to be said.
//!
//! In the words of RFC 5482 section 3: ENABLED is `user_timeout_option` of the
//! [`Config`]; ADV_UTO is what the user has set (TCP_USER_TIMEOUT), and
//! nothing is told where that is nothing; CHANGEABLE holds until the user sets something.

use crate::config::Config;
use crate::flags::Flags;
use crate::flight::Flight;
use crate::liveness::Liveness;
use crate::tcb::Tcb;
use crate::time::Instant;
use crate::timers::Timers;

/// The least and the most that a peer's advice comes to, milliseconds: L_LIMIT and U_LIMIT
/// (RFC 5482 section 3.1). The former is the least for R2 (RFC 1122 section 4.2.3.5); the
/// latter bounds how long a peer that is gone can make us keep what is meant for it.
const LEAST: u32 = 100_000;
const MOST: u32 = 3_600_000;

/// The granularity bit: the value counts minutes, not seconds.
const MINUTES: u16 = 1 << 15;
/// The longest that the option has room for, in its unit.
const LONGEST: u32 = MINUTES as u32 - 1;

/// The option's value for a timeout, in seconds where that has room for it and in minutes
/// where it has not, rounded up: a peer that goes by it shall not give up before we do. 0, which
/// RFC 5482 section 3.2 forbids to send, is the value of no timeout alone.
const fn to_wire(ms: u32) -> u16 {
    let seconds = ms.div_ceil(1_000);
    if seconds <= LONGEST {
        return seconds as u16;
    }
    // A u32 of milliseconds has 71,583 minutes, more than fit.
    let minutes = seconds.div_ceil(60);
    MINUTES | if minutes < LONGEST { minutes } else { LONGEST } as u16
}

/// The timeout that an option's value stands for, milliseconds; `None` for the value 0, which
/// is to be ignored (RFC 5482 section 3.2).
const fn from_wire(value: u16) -> Option<u32> {
    let count = (value & !MINUTES) as u32;
    if count == 0 {
        return None;
    }
    let unit = if value & MINUTES == 0 { 1_000 } else { 60_000 };
    Some(count * unit)
}

impl Liveness {
    /// Takes `ms` for the time in force, the time that has passed included.
    fn put_user_timeout(
        &mut self,
        flight: &Flight,
        timers: &mut Timers,
        cfg: &mut Config,
        ms: u32,
    ) {
        cfg.user_timeout_ms = ms;
        timers.user = if ms == 0 || flight.timer.at.is_never() {
            Instant::NEVER
        } else {
            self.stalled_since().after_ms(u64::from(ms))
        };
    }

    /// The peer has made progress, or there is something to wait for where there was
    /// nothing: the user timeout begins anew. Its deadline is off as long as there is
    /// none (see [`Tcb::set_user_timeout`]).
    #[inline]
    pub(crate) fn arm_user_timeout(&mut self, timers: &mut Timers, cfg: &Config, now: Instant) {
        self.stall_from(now);
        if cfg.user_timeout_ms != 0 {
            timers.user = now.after_ms(u64::from(cfg.user_timeout_ms));
        }
    }
}

impl Tcb {
    /// TCP_USER_TIMEOUT, milliseconds; 0 for none. Whatever the peer has advised is void.
    /// With `user_timeout_option` in the [`Config`], the next segment tells
    /// the peer, and one goes at once.
    pub fn set_user_timeout(&mut self, ms: u32) {
        self.flags
            .remove(Flags::ADVISED_TIMEOUT | Flags::TELL_TIMEOUT);
        self.liveness
            .put_user_timeout(&self.flight, &mut self.timers, &mut self.cfg, ms);
        if self.state.is_synchronized() && self.announce_user_timeout() {
            self.flags |= Flags::ACK_NOW;
        }
    }

    /// The next segment tells the peer of the user timeout, if there is one to tell of;
    /// says so. At the end of the handshake this repeats what the SYN had, for a listener
    /// that kept nothing of that (RFC 5482 section 3).
    pub(crate) fn announce_user_timeout(&mut self) -> bool {
        let told = self.user_timeout_option().is_some();
        if told {
            self.flags |= Flags::TELL_TIMEOUT;
        }
        told
    }

    /// What the option says, if one may be sent.
    pub(crate) fn user_timeout_option(&self) -> Option<u16> {
        let told = self.cfg.user_timeout_option
            && self.cfg.user_timeout_ms != 0
            && !self.flags.contains(Flags::ADVISED_TIMEOUT);
        told.then(|| to_wire(self.cfg.user_timeout_ms))
    }

    /// The peer has told of its user timeout: where our user has set none, ours follows,
    /// within bounds (RFC 5482 section 3.1).
    pub(crate) fn handle_user_timeout_advice(&mut self, option: Option<u16>) {
        let changeable =
            self.cfg.user_timeout_ms == 0 || self.flags.contains(Flags::ADVISED_TIMEOUT);
        if !self.cfg.user_timeout_option || !changeable || self.flags.contains(Flags::ORPHAN) {
            return;
        }
        if let Some(ms) = option.and_then(from_wire) {
            self.liveness.put_user_timeout(
                &self.flight,
                &mut self.timers,
                &mut self.cfg,
                ms.clamp(LEAST, MOST),
            );
            self.flags |= Flags::ADVISED_TIMEOUT;
        }
    }

    /// No program holds the connection any more: what is left of it is ours alone, and so
    /// is how long it may last.
    pub(crate) fn forget_advised_timeout(&mut self) {
        if self.flags.contains(Flags::ADVISED_TIMEOUT) {
            self.flags.remove(Flags::ADVISED_TIMEOUT);
            self.liveness
                .put_user_timeout(&self.flight, &mut self.timers, &mut self.cfg, 0);
        }
    }
}

#[cfg(test)]
mod tests;
