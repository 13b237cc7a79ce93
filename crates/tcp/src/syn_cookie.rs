//! SYN cookies: answering a SYN without remembering it (RFC 4987 section 3.6), for a
//! listener whose queue of half-open connections is full.
//!
//! Owns [`SynCookie`]. When the listener says so, the engine sends
//! [`SynCookie::answer`] and forgets the SYN; the acknowledgment that comes back is
//! given to [`SynCookie::check`], and what that finds becomes a block by
//! [`SynCookie::open`]. The hash is the caller's: keyed, of the four-tuple and the
//! numbers that it is given.
//!
//! What must be remembered travels as our initial sequence number:
//!
//! | bits | what |
//! | --- | --- |
//! | 31 to 27 | the minute, modulo 32 |
//! | 26 to 24 | which of [`SIZES`] the peer's MSS is at least |
//! | 23 to 0 | the hash of both, of the peer's initial sequence number and the four-tuple |
//!
//! and, if both sides have timestamps, in the lower six bits of ours, as in Linux: the
//! peer's window scale (15: none), whether SACK and ECN were agreed. Without timestamps
//! there are none of these.

use crate::config::{Config, EcnMode};
use crate::open::default_mss;
use crate::segment::{Segment, Transmit};
use crate::tcb::Tcb;
use crate::time::{Instant, SECOND};
use longshore_wire::SeqNumber;
use longshore_wire::tcp::{TcpFlags, TcpHeader, TcpOptions};

/// What the peer's MSS may be rounded down to, bytes.
const SIZES: [u16; 8] = [216, 536, 1200, 1360, 1440, 1452, 1460, 8960];
/// A cookie is good for this minute and so many before it.
const GOOD_FOR: u32 = 1;
/// In the place of the window scale: no scaling.
const NO_SCALE: u32 = 15;
/// The bits of a timestamp that the options take.
const STAMP_BITS: u32 = 6;
const SACK_BIT: u32 = 1 << 4;
const ECN_BIT: u32 = 1 << 5;

/// What a cookie has kept of a SYN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SynCookie {
    /// Our initial sequence number, and the peer's.
    iss: SeqNumber,
    irs: SeqNumber,
    options: TcpOptions,
    ecn: bool,
}

/// The minute that `now` is in.
const fn minute(now: Instant) -> u32 {
    (now.0 / (60 * SECOND)) as u32
}

/// The cookie for a minute and the place of a size.
fn cookie(minute: u32, size: usize, irs: SeqNumber, hash: &impl Fn([u32; 2]) -> u64) -> u32 {
    let lead = (minute & 31) << 27 | (size as u32) << 24;
    lead | hash([irs.0, lead]) as u32 & 0xff_ffff
}

impl SynCookie {
    /// The SYN-ACK that answers `syn` and remembers it. The arguments are those of
    /// [`Tcb::accept`], but that `hash`, a keyed hash of the four-tuple and of these
    /// numbers, takes the place of the initial sequence number.
    #[must_use]
    pub fn answer(
        cfg: &Config,
        syn: &Segment<'_>,
        mss: u16,
        ts_offset: u32,
        hash: &impl Fn([u32; 2]) -> u64,
        now: Instant,
    ) -> Option<Transmit> {
        let peer_mss = syn.header.options.mss.unwrap_or(default_mss(cfg.ipv6));
        let size = SIZES.iter().rposition(|s| *s <= peer_mss).unwrap_or(0);
        let iss = SeqNumber(cookie(minute(now), size, syn.header.seq, hash));
        let stamped = cfg.timestamps && syn.header.options.timestamps.is_some();
        let cfg = Self::terms(cfg, stamped);
        let mut tcb = Tcb::accept(&cfg, syn, mss, iss, ts_offset, now);
        let mut syn_ack = tcb.poll_transmit(now, 0)?;
        if let Some(stamps) = &mut syn_ack.options.timestamps {
            let scale = syn.header.options.window_scale.unwrap_or(NO_SCALE as u8);
            let mut kept = u32::from(scale) & 15;
            kept |= if syn_ack.options.sack_permitted {
                SACK_BIT
            } else {
                0
            };
            kept |= if syn_ack.flags.contains(TcpFlags::ECE) {
                ECN_BIT
            } else {
                0
            };
            stamps.val = stamp(stamps.val, kept);
        }
        Some(syn_ack)
    }

    /// What may be agreed when a cookie keeps it.
    fn terms(cfg: &Config, stamped: bool) -> Config {
        let ecn = match cfg.ecn {
            EcnMode::Off => EcnMode::Off,
            // The cookie has no room for more than RFC 3168.
            _ => EcnMode::Accept,
        };
        if stamped {
            Config { ecn, ..*cfg }
        } else {
            Config {
                window_scaling: false,
                sack: false,
                timestamps: false,
                ecn: EcnMode::Off,
                congestion: plain_congestion(cfg.congestion),
                ..*cfg
            }
        }
    }

    /// What an acknowledgment that belongs to no connection brings back, if it carries a
    /// cookie of ours that is good.
    #[must_use]
    pub fn check(
        ack: &Segment<'_>,
        hash: &impl Fn([u32; 2]) -> u64,
        now: Instant,
    ) -> Option<SynCookie> {
        let h = ack.header;
        let iss = SeqNumber(h.ack.0.wrapping_sub(1));
        let irs = SeqNumber(h.seq.0.wrapping_sub(1));
        let age = minute(now).wrapping_sub(iss.0 >> 27) & 31;
        let size = (iss.0 >> 24 & 7) as usize;
        let made = minute(now).wrapping_sub(age);
        if age > GOOD_FOR || cookie(made, size, irs, hash) != iss.0 {
            return None;
        }
        let mut options = TcpOptions {
            mss: SIZES.get(size).copied(),
            ..TcpOptions::default()
        };
        let mut ecn = false;
        if let Some(stamps) = h.options.timestamps {
            let kept = stamps.echo;
            let scale = kept & 15;
            options.timestamps = Some(stamps);
            options.window_scale = (scale != NO_SCALE).then_some(scale as u8);
            options.sack_permitted = kept & SACK_BIT != 0;
            ecn = kept & ECN_BIT != 0;
        }
        Some(SynCookie {
            iss,
            irs,
            options,
            ecn,
        })
    }

    /// The block in SYN-RECEIVED that there would be without the cookie; the
    /// acknowledgment is to be given to it next. The arguments are those of
    /// [`SynCookie::answer`].
    #[must_use]
    pub fn open(&self, cfg: &Config, mss: u16, ts_offset: u32, now: Instant) -> Tcb {
        let stamped = self.options.timestamps.is_some();
        let cfg = Self::terms(cfg, stamped);
        let asks = if self.ecn {
            TcpFlags::CWR | TcpFlags::ECE
        } else {
            TcpFlags::NONE
        };
        let header = TcpHeader {
            src_port: 0,
            dst_port: 0,
            seq: self.irs,
            ack: SeqNumber(0),
            flags: TcpFlags::SYN | asks,
            // The acknowledgment brings the window.
            window: 0,
            urgent: 0,
            options: self.options,
        };
        let syn = Segment::new(&header, 0);
        let mut tcb = Tcb::accept(&cfg, &syn, mss, self.iss, ts_offset, now);
        // The SYN-ACK has long gone out; nobody knows when.
        let _ = tcb.poll_transmit(now, 0);
        tcb.flight.stop_timing(&mut tcb.congestion);
        tcb
    }
}

/// Without timestamps there is no ECN, which DCTCP would ask for by itself.
fn plain_congestion(which: crate::Congestion) -> crate::Congestion {
    match which {
        crate::Congestion::Dctcp => crate::Congestion::NewReno,
        other => other,
    }
}

/// The latest timestamp up to `clock` with these lower bits.
fn stamp(clock: u32, kept: u32) -> u32 {
    let mask = (1 << STAMP_BITS) - 1;
    let val = clock & !mask | kept;
    if val > clock {
        val.wrapping_sub(1 << STAMP_BITS)
    } else {
        val
    }
}

#[cfg(test)]
mod tests;
