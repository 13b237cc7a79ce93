//! Explicit congestion notification: RFC 3168, and the accurate feedback of RFC 9768.
//!
//! Owns [`EcnState`]. `open.rs` and `input/syn_sent.rs` negotiate ECN with it,
//! `input/mod.rs` passes it each acceptable segment, `output/` asks it for header flags
//! and the ECN field of the IP header. The counters of accurate feedback are in
//! `ecn/accurate.rs`.
//!
//! The meaning of the three header flags depends on the negotiated variant:
//!
//! | | AE | CWR | ECE |
//! | --- | --- | --- | --- |
//! | RFC 3168 | | the window was reduced | congestion was experienced |
//! | DCTCP (RFC 8257) | | the window was reduced | the last packet was marked CE |
//! | RFC 9768 | the three flags are ACE, the number of packets marked CE, modulo 8 | | |

mod accurate;

use crate::codec::{saved_enum, saved_flags, saved_part};
use crate::config::Config;
use crate::config::EcnMode;
use crate::congestion::Congestion;
use crate::congestion::CongestionState;
use crate::flags::Flags;
use crate::flight::Flight;
use crate::pos::Pos;
use crate::rcv::ReceiveSide;
use crate::segment::{Ecn, Segment};
use crate::snd::SendSide;
pub use accurate::EcnTotals;
use accurate::{Accurate, NOT_CAPABLE_SEEN, handshake_ace};
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

/// The variant that an active open requests.
const fn requested_variant(mode: EcnMode, congestion: Congestion) -> Variant {
    match mode {
        EcnMode::RequestAccurate => Variant::Accurate,
        EcnMode::Request | EcnMode::RequestAcceptAccurate => Variant::Classic,
        // An algorithm that uses marks cannot work without ECN.
        _ if congestion.wants_marks() => Variant::Classic,
        _ => Variant::Off,
    }
}

/// The variant that a passive open grants to a SYN with these flags (RFC 3168 section
/// 6.1.1; RFC 9768 sections 3.1.2 and 3.1.3: an unknown combination counts as a request
/// for accurate feedback).
const fn granted_variant(mode: EcnMode, congestion: Congestion, syn: TcpFlags) -> Variant {
    let classic = syn.contains(TcpFlags::CWR.union(TcpFlags::ECE));
    let accurate = matches!(
        mode,
        EcnMode::RequestAccurate | EcnMode::RequestAcceptAccurate | EcnMode::AcceptAccurate
    );
    let off = matches!(mode, EcnMode::Off) && !congestion.wants_marks();
    if off || !syn.intersects(ECN_FLAGS) {
        Variant::Off
    } else if accurate && (syn.contains(TcpFlags::AE) || !classic) {
        Variant::Accurate
    } else if classic {
        Variant::Classic
    } else {
        Variant::Off
    }
}

impl EcnState {
    /// The flags of our SYN or SYN-ACK, which was sent `repeats` times before. A
    /// retransmitted SYN does not request ECN, since the flags may have caused the loss
    /// (RFC 3168 section 6.1.1.1); for accurate feedback the first retransmission still
    /// does (RFC 9768 section 3.1.4.1). A SYN-ACK drops the flags with its second
    /// retransmission, but keeps accurate feedback on (section 3.2.3.2.2).
    pub(crate) fn syn_flags(&mut self, cfg: &Config, answer: bool, repeats: u8) -> TcpFlags {
        if answer {
            return match self.variant {
                Variant::Off => TcpFlags::NONE,
                Variant::Classic => TcpFlags::ECE,
                Variant::Accurate if repeats > 1 => TcpFlags::NONE,
                Variant::Accurate => self.handshake,
            };
        }
        let wanted = requested_variant(cfg.ecn, cfg.congestion);
        self.requested = match (wanted, repeats) {
            (_, 0) | (Variant::Accurate, 1) => wanted,
            _ => Variant::Off,
        };
        match self.requested {
            Variant::Off => TcpFlags::NONE,
            Variant::Classic => TcpFlags::CWR | TcpFlags::ECE,
            Variant::Accurate => ECN_FLAGS,
        }
    }

    /// Handles the peer's SYN in a passive open.
    pub(crate) fn on_syn(&mut self, cfg: &Config, syn: &Segment<'_>) {
        let granted = granted_variant(cfg.ecn, cfg.congestion, syn.header.flags);
        self.variant = granted;
        self.handshake = handshake_ace(syn.ecn);
    }

    /// Handles the peer's SYN-ACK (RFC 3168 section 6.1.1, RFC 9768 table 2).
    pub(crate) fn on_syn_ack(&mut self, syn_ack: &Segment<'_>) {
        let flags = syn_ack.header.flags & ECN_FLAGS;
        let classic = flags == TcpFlags::ECE;
        let e = &mut *self;
        e.variant = match e.requested {
            Variant::Accurate if classic => Variant::Classic,
            // A peer that returns all three flags reflects what it does not understand.
            Variant::Accurate if flags.intersects(ECN_FLAGS) && flags != ECN_FLAGS => {
                Variant::Accurate
            }
            Variant::Classic if classic || flags == TcpFlags::AE | TcpFlags::ECE => {
                Variant::Classic
            }
            _ => Variant::Off,
        };
        if e.variant == Variant::Accurate {
            e.handshake = handshake_ace(syn_ack.ecn);
            e.bits |= Bits::HANDSHAKE_DUE;
            e.accurate.start(syn_ack.ecn == Ecn::Congested);
            self.check_mangling(flags);
        }
    }

    /// Handles the acknowledgment of our SYN-ACK (RFC 9768 table 4), which reports the
    /// ECN field with which the SYN-ACK arrived.
    pub(crate) fn on_handshake_ack(&mut self, ack: &Segment<'_>) {
        if self.variant == Variant::Accurate {
            let flags = ack.header.flags & ECN_FLAGS;
            self.accurate.start_answered(flags);
            // The SYN-ACK of a simultaneous open only acknowledges.
            let only_acks = !ack.header.flags.contains(TcpFlags::SYN);
            self.bits.set(Bits::HANDSHAKE_ACE, only_acks);
            if !flags.intersects(ECN_FLAGS) {
                // RFC 9768 section 3.2.2.4: ACE is zeroed on the path.
                self.bits |= Bits::NOT_CAPABLE;
            } else if ack.payload_len == 0 {
                self.check_mangling(flags);
            }
        }
    }

    /// SYN and SYN-ACK are sent without an ECN-capable field. If they arrive with one,
    /// the path changes the field and marks cannot be trusted (RFC 9768 section 3.2.2.3).
    fn check_mangling(&mut self, ace: TcpFlags) {
        let other = [Ecn::Capable0, Ecn::Capable1, Ecn::Congested];
        if ace != NOT_CAPABLE_SEEN && other.into_iter().any(|e| handshake_ace(e) == ace) {
            self.bits |= Bits::NOT_CAPABLE;
        }
    }

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

    /// The option of our SYN-ACK: only on the first one, since it may cause the loss (RFC
    /// 9768 sections 3.2.3.2.1 and 3.2.3.2.2), and only if there is no cookie, which
    /// takes its space.
    pub(crate) fn syn_option(&self, first: bool, has_cookie: bool) -> Option<AccurateEcn> {
        let gives = self.variant == Variant::Accurate && first && !has_cookie;
        gives.then_some(Accurate::FIRST_OPTION)
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
