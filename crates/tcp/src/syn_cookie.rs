//! SYN cookies: answering a SYN without keeping state for it (RFC 4987 section 3.6), for
//! a listener whose queue of half-open connections is full.
//!
//! Owns [`SynCookie`]. When the listener asks for a cookie, the engine sends
//! [`SynCookie::answer`] and drops the SYN; it passes the returning acknowledgment to
//! [`SynCookie::check`], and [`SynCookie::open`] creates a block from the result. The
//! caller provides the hash, which is keyed and covers the four-tuple and the numbers
//! passed to it.
//!
//! The state is encoded in our initial sequence number:
//!
//! | bits | contents |
//! | --- | --- |
//! | 31 to 27 | the minute, modulo 32 |
//! | 26 to 24 | the index in [`SIZES`] of the peer's MSS, rounded down |
//! | 23 to 0 | the hash of the above, of the peer's initial sequence number and the four-tuple |
//!
//! and, if both sides use timestamps, in the lower six bits of our timestamp, as in
//! Linux: the peer's window scale (15: none), and whether SACK and ECN were negotiated.
//! Without timestamps none of these are used.

use crate::config::{Config, EcnMode};
use crate::segment::{Segment, Transmit};
use crate::snd::default_mss;
use crate::tcb::Tcb;
use crate::time::{Instant, SECOND};
use longshore_wire::SeqNumber;
use longshore_wire::tcp::{TcpFlags, TcpHeader, TcpOptions};

/// The values to which the peer's MSS is rounded down, bytes.
const SIZES: [u16; 8] = [216, 536, 1200, 1360, 1440, 1452, 1460, 8960];
/// A cookie is valid in its minute and in this many following ones.
const VALID_FOR: u32 = 1;
/// The value of the window scale that means no scaling.
const NO_SCALE: u32 = 15;
/// The number of timestamp bits that encode options.
const STAMP_BITS: u32 = 6;
const SACK_BIT: u32 = 1 << 4;
const ECN_BIT: u32 = 1 << 5;

/// The state that a cookie encodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SynCookie {
    /// Our initial sequence number, and the peer's.
    iss: SeqNumber,
    irs: SeqNumber,
    options: TcpOptions,
    ecn: bool,
}

/// The number of the minute that contains `now`.
const fn minute(now: Instant) -> u32 {
    (now.0 / (60 * SECOND)) as u32
}

/// The cookie of a minute and an index in [`SIZES`].
fn cookie(minute: u32, size: usize, irs: SeqNumber, hash: &impl Fn([u32; 2]) -> u64) -> u32 {
    let lead = (minute & 31) << 27 | (size as u32) << 24;
    lead | hash([irs.0, lead]) as u32 & 0xff_ffff
}

impl SynCookie {
    /// The SYN-ACK that answers `syn` and encodes its state. The arguments are those of
    /// [`Tcb::accept`], but `hash`, a keyed hash of the four-tuple and of the numbers
    /// passed to it, replaces the initial sequence number.
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

    /// The configuration restricted to what a cookie can encode.
    fn terms(cfg: &Config, stamped: bool) -> Config {
        let ecn = match cfg.ecn {
            EcnMode::Off => EcnMode::Off,
            // The cookie can encode no more than RFC 3168.
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

    /// Decodes the cookie in an acknowledgment that belongs to no connection; `None` if
    /// it carries no valid cookie.
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
        if age > VALID_FOR || cookie(made, size, irs, hash) != iss.0 {
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

    /// The block in SYN-RECEIVED that would exist without the cookie; the caller must
    /// then pass it the acknowledgment. The arguments are those of [`SynCookie::answer`].
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
            // The acknowledgment has the window.
            window: 0,
            urgent: 0,
            options: self.options,
        };
        let syn = Segment::new(&header, 0);
        let mut tcb = Tcb::accept(&cfg, &syn, mss, self.iss, ts_offset, now);
        // The SYN-ACK was sent earlier, at an unknown time.
        let _ = tcb.poll_transmit(now, 0);
        tcb.flight.round_trip.cancel(&mut tcb.congestion);
        tcb
    }
}

/// Without timestamps there is no ECN, which DCTCP would always request.
fn plain_congestion(which: crate::Congestion) -> crate::Congestion {
    match which {
        crate::Congestion::Dctcp => crate::Congestion::NewReno,
        other => other,
    }
}

/// The latest timestamp not after `clock` with these lower bits.
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
