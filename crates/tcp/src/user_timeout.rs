//! The user timeout, which bounds how long sent data, or data that waits for the peer's
//! window, may go without progress (RFC 9293 section 3.8.3), and the option by which the
//! two sides advertise theirs (RFC 5482).
//!
//! Owns the deadline `user`, the option's value and the bounds of a peer's advice.
//! `input/` passes on the peer's option; `output/options.rs` asks for ours.
//!
//! In the terms of RFC 5482 section 3: ENABLED is `user_timeout_option` of the
//! [`Config`]; ADV_UTO is the user's setting (TCP_USER_TIMEOUT), and nothing is
//! advertised without one; CHANGEABLE holds until the user sets a value.

use crate::config::Config;
use crate::flags::Flags;
use crate::flight::Flight;
use crate::liveness::Liveness;
use crate::time::Instant;
use crate::timers::Timers;

/// Bounds for a peer's advice, milliseconds: L_LIMIT and U_LIMIT (RFC 5482 section 3.1).
/// The former is the minimum of R2 (RFC 1122 section 4.2.3.5); the latter bounds how long
/// we keep data for a peer that is gone.
const LEAST: u32 = 100_000;
const MOST: u32 = 3_600_000;

/// The granularity bit: the value counts minutes, not seconds.
const MINUTES: u16 = 1 << 15;
/// The largest value of the option, in its unit.
const LONGEST: u32 = MINUTES as u32 - 1;

/// The option's value for a timeout, in seconds if that fits and otherwise in minutes,
/// rounded up, since a peer that follows it must not give up before we do. The value is
/// 0, which RFC 5482 section 3.2 forbids to send, only for a timeout of 0.
const fn to_wire(ms: u32) -> u16 {
    let seconds = ms.div_ceil(1_000);
    if seconds <= LONGEST {
        return seconds as u16;
    }
    // A u32 of milliseconds is up to 71,583 minutes, more than fit.
    let minutes = seconds.div_ceil(60);
    MINUTES | if minutes < LONGEST { minutes } else { LONGEST } as u16
}

/// The timeout of an option's value, milliseconds; `None` for the value 0, which must be
/// ignored (RFC 5482 section 3.2).
const fn from_wire(value: u16) -> Option<u32> {
    let count = (value & !MINUTES) as u32;
    if count == 0 {
        return None;
    }
    let unit = if value & MINUTES == 0 { 1_000 } else { 60_000 };
    Some(count * unit)
}

impl Liveness {
    /// Sets the timeout in force to `ms`, counted from when data was first outstanding.
    pub(crate) fn change_user_timeout(
        &self,
        flight: &Flight,
        timers: &mut Timers,
        cfg: &mut Config,
        ms: u32,
    ) {
        cfg.user_timeout_ms = ms;
        timers.user = if ms == 0 || !flight.timer.is_running() {
            Instant::NEVER
        } else {
            self.stalled_since().after_ms(u64::from(ms))
        };
    }

    /// Restarts the user timeout: the peer has made progress, or data is outstanding for
    /// the first time. Without a user timeout the deadline stays off (see
    /// [`set_user_timeout`](crate::settings::Settings::set_user_timeout)).
    #[inline]
    pub(crate) fn arm_user_timeout(&mut self, timers: &mut Timers, cfg: &Config, now: Instant) {
        self.set_stalled_since(now);
        if cfg.user_timeout_ms != 0 {
            timers.user = now.after_ms(u64::from(cfg.user_timeout_ms));
        }
    }
}

impl Liveness {
    /// The peer has advertised its user timeout: if our user has set none, ours follows
    /// it, within bounds (RFC 5482 section 3.1).
    pub(crate) fn handle_user_timeout_option(
        &self,
        flight: &Flight,
        timers: &mut Timers,
        cfg: &mut Config,
        flags: &mut Flags,
        option: Option<u16>,
    ) {
        let changeable = cfg.user_timeout_ms == 0 || flags.contains(Flags::ADVISED_TIMEOUT);
        if !cfg.user_timeout_option || !changeable || flags.contains(Flags::ORPHAN) {
            return;
        }
        if let Some(ms) = option.and_then(from_wire) {
            self.change_user_timeout(flight, timers, cfg, ms.clamp(LEAST, MOST));
            *flags |= Flags::ADVISED_TIMEOUT;
        }
    }

    /// No program holds the connection any more: the peer's advice no longer applies.
    pub(crate) fn forget_advised_timeout(
        &self,
        flight: &Flight,
        timers: &mut Timers,
        cfg: &mut Config,
        flags: &mut Flags,
    ) {
        if flags.contains(Flags::ADVISED_TIMEOUT) {
            flags.remove(Flags::ADVISED_TIMEOUT);
            self.change_user_timeout(flight, timers, cfg, 0);
        }
    }
}

impl Config {
    /// The option's value, if one may be sent.
    pub(crate) fn advertised_user_timeout(&self, flags: Flags) -> Option<u16> {
        let advertised = self.user_timeout_option
            && self.user_timeout_ms != 0
            && !flags.contains(Flags::ADVISED_TIMEOUT);
        advertised.then(|| to_wire(self.user_timeout_ms))
    }
}

impl Flags {
    /// The next segment advertises the user timeout, if there is one to advertise;
    /// returns whether there is. At the end of the handshake this repeats the SYN's
    /// option, for a listener that has not kept it (RFC 5482 section 3).
    pub(crate) fn advertise_user_timeout(&mut self, cfg: &Config) -> bool {
        let advertised = cfg.advertised_user_timeout(*self).is_some();
        if advertised {
            *self |= Flags::USER_TIMEOUT_DUE;
        }
        advertised
    }
}

#[cfg(test)]
mod tests;
