//! Saving a connection, and restoring it in another process.
//!
//! Owns [`SavedTcb`]. A process that hands its
//! connections over saves each of them between two calls of other methods; its successor,
//! which has the same clock, restores them, and then proceeds as after each burst
//! (`poll_transmit`, `take_events`, `deadline`).
//!
//! | part | saved | rebuilt |
//! | --- | --- | --- |
//! | `state`, `snd`, `stamps`, `acks`, `liveness`, `cfg`, `ecn`, `fast_open`, `outcome` | completely | |
//! | `flags` | all others | those that refer to discarded state ([`FORGOTTEN`]) |
//! | `rcv` | the sequence space, the buffer's size | the count that tunes the buffer restarts |
//! | `timers` | keepalive, the end of the state | the delayed acknowledgment with its full delay; the others by the next `poll_transmit` |
//! | `congestion` | window and threshold | the algorithm's state, rate and pacing restart |
//! | `flight` | the size that the interface takes | everything in flight counts as retransmitted now; no recovery is in progress |
//! | `reassembly` | | empty: the peer retransmits what was not acknowledged (RFC 2018 section 8) |
//! | `accounting` | | starts at 0 |
//! | `prediction` | | from the other fields |
//!
//! In each part, `saved_part!` lists the fields. The layout has a version; bytes of
//! another version, or of no valid connection, are a [`RestoreError`].

use crate::accounting::Accounting;
use crate::acks::{DELAY_US, OwedAcks};
use crate::codec::{Invalid, Reader, Save, Writer};
use crate::config::Config;
use crate::congestion::{CongestionState, Controller};
use crate::ecn::EcnState;
use crate::fast_open::FastOpen;
use crate::flags::Flags;
use crate::flight::Flight;
use crate::liveness::Liveness;
use crate::outcome::Outcome;
use crate::output::TIMESTAMPS_LEN;
use crate::pos::{NO_POS, SYN_POS};
use crate::prediction::Prediction;
use crate::rcv::ReceiveSide;
use crate::reassembly::Reassembly;
use crate::snd::SendSide;
use crate::stamps::TimestampState;
use crate::state::State;
use crate::tcb::Tcb;
use crate::time::Instant;
use crate::timers::{TIME_WAIT_US, Timers};
use crate::violation::{Violation, require};

/// The version of the layout. It must be incremented when a list of `saved_part!`
/// changes; a test checks the lengths.
const VERSION: u16 = 1;

/// Size of a saved connection, bytes.
const ROOM: usize = 512;

/// Flags that refer to state that is not saved.
const FORGOTTEN: Flags = Flags::DSACK
    .union(Flags::SLOW_OUTPUT)
    .union(Flags::WINDOW_LIMITED)
    .union(Flags::WAITING)
    .union(Flags::BUFFER_LIMITED)
    .union(Flags::TIMEOUT_RECOVERY)
    .union(Flags::RECORD_ENDS)
    .union(Flags::FIN_ALONE);

/// Length of what follows the timers: congestion window and threshold, and the size that
/// the interface takes.
const PATH_LEN: usize = 4 + 4 + 2;

/// Bytes that are used.
const LEN: usize = u16::LEN
    + State::LEN
    + Flags::LEN
    + SendSide::LEN
    + TimestampState::LEN
    + OwedAcks::LEN
    + ReceiveSide::LEN
    + Liveness::LEN
    + Config::LEN
    + EcnState::LEN
    + FastOpen::LEN
    + Outcome::LEN
    + Timers::LEN
    + PATH_LEN;

// The part that must survive the process is at most this long.
const _: () = assert!(LEN <= ROOM);

/// The saved state of a connection: plain bytes, without pointers, in a layout that does
/// not depend on the compiler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct SavedTcb([u8; ROOM]);

impl SavedTcb {
    /// Its size, bytes.
    pub const LEN: usize = ROOM;

    /// From bytes that may have been written by another process;
    /// [`restore`](SavedTcb::restore) validates them.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; ROOM]) -> SavedTcb {
        SavedTcb(bytes)
    }

    /// The bytes; unused ones are 0.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; ROOM] {
        &self.0
    }
}

/// Why bytes cannot be restored to a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// They have the layout of another version.
    #[error("a connection was saved in layout {found}; this version reads layout {VERSION}")]
    Version {
        /// The version that they name.
        found: u16,
    },
    /// The value of a field is invalid.
    #[error("a saved connection has no valid {0}")]
    Value(&'static str),
    /// The fields contradict each other.
    #[error("a saved connection is inconsistent: {}", .0.0)]
    Inconsistent(#[from] Violation),
}

impl From<Invalid> for RestoreError {
    fn from(Invalid(what): Invalid) -> RestoreError {
        RestoreError::Value(what)
    }
}

impl SavedTcb {
    /// Saves a connection; called between two calls of other methods. Changes nothing.
    #[must_use]
    pub fn of(tcb: &Tcb) -> SavedTcb {
        let Tcb {
            prediction: _,
            state,
            flags,
            snd,
            stamps,
            acks,
            rcv,
            liveness,
            cfg,
            ecn,
            fast_open,
            outcome,
            timers,
            congestion,
            accounting: _,
            reassembly: _,
            flight,
        } = tcb;
        let mut bytes = [0; ROOM];
        let out = &mut Writer::new(&mut bytes);
        VERSION.save(out);
        state.save(out);
        (*flags - FORGOTTEN).save(out);
        snd.save(out);
        stamps.save(out);
        acks.save(out);
        rcv.save(out);
        liveness.save(out);
        cfg.save(out);
        ecn.save(out);
        fast_open.save(out);
        outcome.save(out);
        timers.save(out);
        congestion.controller.cwnd().save(out);
        congestion.controller.ssthresh().save(out);
        flight.mtu.ceiling().save(out);
        SavedTcb(bytes)
    }

    /// Restores the connection at `now`, on the same clock. Out-of-order payload
    /// beyond [`rcv_edge`](Tcb::rcv_edge) is discarded.
    ///
    /// # Errors
    ///
    /// If the bytes are of another version, or are inconsistent. A connection that is
    /// restored from any bytes behaves like a valid one.
    pub fn restore(&self, now: Instant) -> Result<Tcb, RestoreError> {
        let from = &mut Reader::new(&self.0);
        let found = u16::restore(from)?;
        if found != VERSION {
            return Err(RestoreError::Version { found });
        }
        let state = State::restore(from)?;
        let flags = Flags::restore(from)? - FORGOTTEN;
        let snd = SendSide::restore(from)?;
        let stamps = TimestampState::restore(from)?;
        let acks = OwedAcks::restore(from)?;
        let rcv = ReceiveSide::restore(from)?;
        let liveness = Liveness::restore(from)?;
        let cfg = Config::restore(from)?;
        let ecn = EcnState::restore(from)?;
        let fast_open = FastOpen::restore(from)?;
        let outcome = Outcome::restore(from)?;
        let timers = Timers::restore(from)?;
        let (cwnd, ssthresh) = (u32::restore(from)?, u32::restore(from)?);
        let ceiling = u16::restore(from)?;
        let mut controller = Controller::new(cfg.congestion, snd.mss(), cfg.burst.initial_window);
        controller.resume(cwnd, ssthresh);
        let mut tcb = Tcb {
            prediction: Prediction::OFF,
            state,
            flags,
            snd,
            stamps,
            acks,
            rcv,
            liveness,
            cfg,
            ecn,
            fast_open,
            outcome,
            timers,
            congestion: CongestionState::new(controller),
            accounting: Accounting::new(),
            reassembly: Reassembly::new(),
            flight: Flight::new(ceiling.max(snd.path_mss()), now),
        };
        check_saved(&tcb)?;
        rebuild(&mut tcb, now);
        tcb.check()?;
        Ok(tcb)
    }
}

/// The invariants of saved state, checked before anything is derived from it.
fn check_saved(tcb: &Tcb) -> Result<(), Violation> {
    tcb.snd.check_saved()?;
    tcb.rcv.check_saved()?;
    tcb.acks.check(&tcb.rcv)?;
    tcb.snd.rtt.check()?;
    let options = if tcb.has_timestamps() {
        TIMESTAMPS_LEN
    } else {
        0
    };
    require(
        u16::from(tcb.snd.options()) == options && u16::from(tcb.rcv.options()) == options,
        "options of every segment that were not agreed",
    )?;
    require(
        !tcb.flags.contains(Flags::SYN_DUE) || tcb.state.is_opening(),
        "a SYN that is due after the handshake",
    )?;
    require(
        !tcb.flags.contains(Flags::RST_DUE) || tcb.state == State::Closed,
        "a reset of a connection that is not over",
    )?;
    require(
        !tcb.fast_open.awaits_data() || tcb.state == State::SynSent,
        "a SYN that waits for data, but is none",
    )?;
    let opening = tcb.state.is_opening();
    require(
        !opening || (tcb.snd.una() == SYN_POS && tcb.rcv.fin() == NO_POS),
        "more than a SYN, in a handshake",
    )?;
    require(
        tcb.state != State::SynSent || tcb.rcv.nxt() == 0,
        "something received before the peer's SYN",
    )
}

/// Rebuilds the state that was not saved.
fn rebuild(tcb: &mut Tcb, now: Instant) {
    tcb.rcv.buffer.restart(tcb.rcv.consumed(), now);
    tcb.flight.mtu.on_advertised(&tcb.snd, now);
    let limit = tcb.cfg.max_pacing_rate;
    tcb.settings().set_max_pacing_rate(limit);
    if tcb.state != State::Closed {
        tcb.flight
            .resume(&tcb.snd, tcb.liveness.stalled_since(), now);
        if tcb.snd.in_flight() > 0 && !tcb.state.is_opening() {
            tcb.accounting.busy.begin(now);
        }
    }
    if tcb.flags.contains(Flags::SYN_RETRANSMITTED) {
        tcb.flight.round_trip.cancel(&mut tcb.congestion);
    }
    if tcb.state.is_synchronized() {
        let repeated = tcb.accounting.counters.bytes_retrans;
        tcb.congestion
            .start(&tcb.snd, repeated, tcb.ecn.is_on(), &mut tcb.flags, now);
    }
    rebuild_timers(tcb, now);
    tcb.predict_next();
}

/// Saved deadlines are upper bounds; restoring does not extend them.
fn rebuild_timers(tcb: &mut Tcb, now: Instant) {
    let saved = core::mem::replace(&mut tcb.timers, Timers::new());
    let orphan = tcb.flags.contains(Flags::ORPHAN);
    tcb.timers.state = match tcb.state {
        State::Closed => return,
        State::TimeWait => saved.state.min(now.after_us(TIME_WAIT_US)),
        State::FinWait2 if orphan => {
            let most = now.after_ms(u64::from(tcb.cfg.fin_wait_ms));
            saved.state.min(most)
        }
        _ => Instant::NEVER,
    };
    if tcb.state == State::TimeWait {
        return;
    }
    let k = tcb.cfg.keepalive;
    if k.enabled && tcb.state.is_synchronized() {
        let most = now.after_ms(u64::from(k.idle_ms.max(k.interval_ms)));
        tcb.timers.keepalive = saved.keepalive.min(most);
    }
    if tcb.flags.contains(Flags::ACK_OWED) {
        tcb.timers.ack = now.after_us(DELAY_US);
    }
    if tcb.snd.in_flight() > 0 {
        tcb.flight.arm_loss_timer(&tcb.snd, now);
    } else if tcb.state.may_transmit_data()
        && tcb.snd.nxt() < tcb.snd.end()
        && tcb.snd.wnd_edge() <= tcb.snd.nxt()
    {
        tcb.flight.timer.arm_persist(&tcb.snd.rtt, now);
    }
    if tcb.cfg.user_timeout_ms != 0 && tcb.flight.timer.is_running() {
        let since = tcb.liveness.stalled_since();
        tcb.timers.user = since.after_ms(u64::from(tcb.cfg.user_timeout_ms));
    }
}

#[cfg(test)]
mod tests;
