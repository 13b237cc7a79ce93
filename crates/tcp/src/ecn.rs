//! Explicit congestion notification: RFC 3168, and the accurate feedback of RFC 9768.
//!
//! Owns [`EcnState`]. `open.rs` and `input/syn_sent.rs` negotiate ECN with it,
//! `input/mod.rs` passes it each acceptable segment, `output/` asks it for header flags
//! and the ECN field of the IP header. The counters of accurate feedback are in
//! `ecn/accurate.rs`, what the handshake agrees on in `ecn/negotiation.rs`.
//!
//! The meaning of the three header flags depends on the negotiated variant:
//!
//! | | AE | CWR | ECE |
//! | --- | --- | --- | --- |
//! | RFC 3168 | | the window was reduced | congestion was experienced |
//! | DCTCP (RFC 8257) | | the window was reduced | the last packet was marked CE |
//! | RFC 9768 | the three flags are ACE, the number of packets marked CE, modulo 8 | | |

mod accurate;
mod negotiation;

use crate::codec::{saved_enum, saved_flags, saved_part};
use crate::config::Config;
use crate::congestion::CongestionState;
use crate::flags::Flags;
use crate::flight::Flight;
use crate::pos::Pos;
use crate::rcv::ReceiveSide;
use crate::segment::{Ecn, Segment};
use crate::snd::SendSide;
use accurate::Accurate;
pub use accurate::EcnTotals;
use longshore_wire::tcp::{AccurateEcn, TcpFlags};

/// The negotiated variant of ECN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Variant {
    /// ECN is off.
    Off,
    /// RFC 3168.
    Classic,
    /// RFC 9768.
    Accurate,
}

saved_enum!(Variant {
    Off = 0,
    Classic = 1,
    Accurate = 2,
});

/// The three flags that ECN uses.
pub(crate) const ECN_FLAGS: TcpFlags = TcpFlags(TcpFlags::AE.0 | TcpFlags::CWR.0 | TcpFlags::ECE.0);

bitflags::bitflags! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    struct Bits: u8 {
        /// ECE is set until the peer sends CWR.
        const ECHO = 1;
        /// CWR is set on the next new data.
        const CWR_DUE = 1 << 1;
        /// Our packets must not be ECN-capable, since the path or the peer mishandles the
        /// field (RFC 9768 sections 3.2.2.2 to 3.2.2.4).
        const NOT_CAPABLE = 1 << 2;
        /// The next segment carries the handshake's encoding of the ECN field.
        const HANDSHAKE_DUE = 1 << 3;
        /// A packet with an ECN-capable field was received (for TCP_INFO).
        const SEEN = 1 << 4;
        /// DCTCP.CE: the last packet with data was marked CE.
        const CE = 1 << 5;
        /// An acknowledgment of the data before the change of `CE` must be sent first.
        const CHANGE_DUE = 1 << 6;
        /// The segment being processed completes the handshake: its ACE field is not a
        /// count.
        const HANDSHAKE_ACE = 1 << 7;
    }
}

saved_flags!(Bits: u8);

/// The congestion feedback of one acknowledgment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Feedback {
    /// Bytes that it acknowledges, and the number of marked bytes, which may be greater.
    acked: u32,
    marked: u32,
    /// It reports marks.
    pub(crate) congested: bool,
}

/// The state of ECN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EcnState {
    variant: Variant,
    /// The variant that our SYN requests.
    requested: Variant,
    bits: Bits,
    /// The flags that report the ECN field with which the peer's SYN or SYN-ACK arrived.
    handshake: TcpFlags,
    /// The window was already reduced for marks on data sent before this position.
    reduced_until: Pos,
    /// The acknowledgment number to send before the change of DCTCP.CE.
    before_change: Pos,
    accurate: Accurate,
}

saved_part!(EcnState {
    saved {
        variant, requested, bits, handshake, reduced_until, before_change, accurate,
    }
});

impl EcnState {
    pub(crate) const fn new() -> EcnState {
        EcnState {
            variant: Variant::Off,
            requested: Variant::Off,
            bits: Bits::empty(),
            handshake: TcpFlags::NONE,
            reduced_until: 0,
            before_change: 0,
            accurate: Accurate::new(),
        }
    }

    /// The negotiated variant.
    #[inline]
    pub(crate) const fn variant(&self) -> Variant {
        self.variant
    }

    /// Whether it was negotiated: outgoing packets may be ECN-capable.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.variant != Variant::Off
    }

    /// Whether a segment without ECN flags in an unmarked packet changes no ECN state, so
    /// that header prediction may take it.
    pub(crate) const fn is_predictable(&self) -> bool {
        match self.variant {
            Variant::Off => true,
            Variant::Classic => !self.bits.contains(Bits::CE),
            Variant::Accurate => false,
        }
    }

    /// The flags that report the ECN field with which the peer's SYN arrived.
    pub(crate) const fn handshake(&self) -> TcpFlags {
        self.handshake
    }

    /// A SYN was handled before with this result.
    pub(crate) fn resume_handshake(&mut self, variant: Variant, handshake: TcpFlags) {
        self.variant = variant;
        self.handshake = handshake;
    }

    /// The counters of accurate feedback; all 0 without it.
    pub(crate) fn totals(&self) -> EcnTotals {
        if self.variant == Variant::Accurate {
            self.accurate.totals()
        } else {
            EcnTotals::default()
        }
    }

    /// Whether an ECN-capable packet was received.
    pub(crate) const fn seen(&self) -> bool {
        self.bits.contains(Bits::SEEN)
    }
}

impl EcnState {
    /// Processes the ECN field and the flags of an acceptable segment, as far as they
    /// concern its data. Called before its payload is placed.
    pub(crate) fn on_arrival(
        &mut self,
        rcv: &ReceiveSide,
        cfg: &Config,
        flags: &mut Flags,
        segment: &Segment<'_>,
    ) {
        match self.variant {
            Variant::Off => return,
            Variant::Accurate => self.count_arrival(flags, segment),
            Variant::Classic if segment.payload_len > 0 => {
                self.echo_congestion(rcv, cfg, flags, segment)
            }
            Variant::Classic => {}
        }
        if segment.ecn != Ecn::NotCapable {
            self.bits |= Bits::SEEN;
        }
    }

    /// RFC 9768 section 3.2.2: CE is counted on every packet; section 3.2.2.5: and
    /// reported at once.
    fn count_arrival(&mut self, flags: &mut Flags, segment: &Segment<'_>) {
        let packets = match segment.gso_size {
            0 => 1,
            size => segment.payload_len.div_ceil(u32::from(size)).max(1),
        };
        let bytes = segment.payload_len;
        let congested = self.accurate.count(segment.ecn, packets, bytes);
        if congested && bytes > 0 {
            *flags |= Flags::ACK_NOW;
        }
    }

    /// RFC 3168 section 6.1.3: congestion is echoed until the sender reports that it has
    /// reduced its window. RFC 8257 section 3.2: with DCTCP, the echo follows the marks
    /// of packets, and a change is reported at once.
    fn echo_congestion(
        &mut self,
        rcv: &ReceiveSide,
        cfg: &Config,
        flags: &mut Flags,
        segment: &Segment<'_>,
    ) {
        let congested = segment.ecn == Ecn::Congested;
        if cfg.congestion.wants_marks() {
            let owed = flags.contains(Flags::ACK_OWED);
            let e = &mut *self;
            if congested != e.bits.contains(Bits::CE) {
                if owed && !e.bits.contains(Bits::CHANGE_DUE) {
                    e.bits |= Bits::CHANGE_DUE;
                    e.before_change = rcv.nxt();
                }
                e.bits.set(Bits::CE, congested);
                *flags |= Flags::ACK_NOW;
            }
            return;
        }
        if segment.header.flags.contains(TcpFlags::CWR) {
            self.bits.remove(Bits::ECHO);
            // The sender's window may have room for one packet only.
            *flags |= Flags::ACK_NOW;
        }
        if congested {
            if !self.bits.contains(Bits::ECHO) {
                *flags |= Flags::ACK_NOW;
            }
            self.bits |= Bits::ECHO;
        }
    }

    /// The congestion feedback of an acknowledgment of `acked` bytes. Called once for
    /// each acknowledgment, before the window may grow for it.
    pub(crate) fn feedback(
        &mut self,
        snd: &SendSide,
        segment: &Segment<'_>,
        acked: u64,
    ) -> Feedback {
        let acked = acked.min(1 << 30) as u32;
        let (congested, marked) = match self.variant {
            Variant::Off => (false, 0),
            Variant::Classic => {
                let echo = segment.header.flags.contains(TcpFlags::ECE);
                (echo, if echo { acked } else { 0 })
            }
            Variant::Accurate if self.bits.contains(Bits::HANDSHAKE_ACE) => {
                self.bits.remove(Bits::HANDSHAKE_ACE);
                (false, 0)
            }
            Variant::Accurate => {
                let option = segment.header.options.accurate_ecn;
                let mss = u32::from(snd.mss());
                let flags = segment.header.flags;
                self.accurate.on_ack(flags, option.as_ref(), mss)
            }
        };
        Feedback {
            acked,
            marked,
            congested,
        }
    }

    /// Reacts to congestion feedback; called after SND.UNA was moved.
    pub(crate) fn on_feedback(
        &mut self,
        snd: &SendSide,
        flight: &Flight,
        congestion: &mut CongestionState,
        f: Feedback,
    ) {
        if self.variant == Variant::Off {
            return;
        }
        let (una, nxt) = (snd.una(), snd.nxt());
        congestion.controller.on_marks(f.acked, f.marked, una, nxt);
        if f.congested && una >= self.reduced_until {
            self.reduce_window(snd, flight, congestion);
        }
    }

    /// RFC 3168 section 6.1.2: once per window the congestion window is reduced as for a
    /// loss, but not while a loss is being recovered.
    fn reduce_window(&mut self, snd: &SendSide, flight: &Flight, congestion: &mut CongestionState) {
        self.reduced_until = snd.nxt();
        if flight.recovery.is_open() {
            let window = congestion.window_in_use(snd, flight.recovery.is_fast());
            congestion.controller.on_congestion_marked(window);
        }
        if self.variant == Variant::Classic {
            self.bits |= Bits::CWR_DUE;
        }
    }

    /// The ECN field of packets with data; `again`: it is retransmitted. RFC 3168 section
    /// 6.1.5: retransmissions are not ECN-capable, except with DCTCP, whose queues would
    /// drop them.
    pub(crate) fn field(&self, cfg: &Config, again: bool) -> Ecn {
        let may = self.variant != Variant::Off && !self.bits.contains(Bits::NOT_CAPABLE);
        if may && (!again || cfg.congestion.wants_marks()) {
            Ecn::Capable0
        } else {
            Ecn::NotCapable
        }
    }

    /// The flags of a segment after the handshake; `data`: it carries new data.
    pub(crate) fn segment_flags(&mut self, data: bool) -> TcpFlags {
        let e = &mut *self;
        match e.variant {
            Variant::Off => TcpFlags::NONE,
            Variant::Accurate if e.bits.contains(Bits::HANDSHAKE_DUE) => {
                e.bits.remove(Bits::HANDSHAKE_DUE);
                e.handshake
            }
            Variant::Accurate => e.accurate.ace(),
            Variant::Classic => {
                let mut flags = TcpFlags::NONE;
                if e.bits.intersects(Bits::ECHO | Bits::CE) {
                    flags |= TcpFlags::ECE;
                }
                if data && e.bits.contains(Bits::CWR_DUE) {
                    e.bits.remove(Bits::CWR_DUE);
                    flags |= TcpFlags::CWR;
                }
                flags
            }
        }
    }

    /// The largest payload of a segment, at most `most`. A port that segments a large
    /// packet keeps CWR on the first part only, as RFC 3168 requires; where the bit is
    /// part of a count, the packet must not be segmented.
    #[inline]
    pub(crate) fn bound_payload(&self, snd: &SendSide, most: usize) -> usize {
        if self.variant == Variant::Accurate && self.accurate.ace().contains(TcpFlags::CWR) {
            most.min(usize::from(snd.mss()))
        } else {
            most
        }
    }

    /// The accurate ECN option, if a segment without data should carry it.
    pub(crate) fn option(&mut self) -> Option<AccurateEcn> {
        (self.variant == Variant::Accurate)
            .then(|| self.accurate.option())
            .flatten()
    }

    /// RFC 8257 section 3.2: before the echo changes, the data received before is
    /// acknowledged with the old value. Returns the acknowledgment number and the flags
    /// for that.
    pub(crate) fn take_change(&mut self) -> Option<(Pos, TcpFlags)> {
        let e = &mut *self;
        if !e.bits.contains(Bits::CHANGE_DUE) {
            return None;
        }
        e.bits.remove(Bits::CHANGE_DUE);
        let old = if e.bits.contains(Bits::CE) {
            TcpFlags::NONE
        } else {
            TcpFlags::ECE
        };
        Some((e.before_change, old))
    }
}

#[cfg(test)]
mod tests;
