//! Explicit congestion notification: RFC 3168, and the accurate feedback of RFC 9768.
//!
//! Owns [`EcnState`] and what it does to segments in both directions. `open.rs` and
//! `input/syn_sent.rs` negotiate with it, `input/mod.rs` shows it each acceptable
//! segment, `output/` asks it for header flags and the ECN field of the IP header. The
//! counters of accurate feedback are in `ecn/accurate.rs`.
//!
//! The three flags of the header mean, by the variant that was agreed:
//!
//! | | AE | CWR | ECE |
//! | --- | --- | --- | --- |
//! | RFC 3168 | | the window has come down | congestion was experienced |
//! | DCTCP (RFC 8257) | | the same | the last packet experienced congestion |
//! | RFC 9768 | the three are ACE, the count of packets that did, modulo 8 | | |

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

/// What was agreed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Variant {
    /// Nothing.
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
        /// ECE is to be set until the peer says CWR.
        const ECHO = 1;
        /// CWR is to be set on the next new data.
        const CWR_DUE = 1 << 1;
        /// What we send must not be marked: something on the path, or the peer, does
        /// not bear it (RFC 9768 sections 3.2.2.2 to 3.2.2.4).
        const NOT_CAPABLE = 1 << 2;
        /// The next segment carries the handshake's encoding of the ECN field.
        const HANDSHAKE_DUE = 1 << 3;
        /// A packet with an ECN-capable field has come (for TCP_INFO).
        const SEEN = 1 << 4;
        /// DCTCP.CE: the last packet with data experienced congestion.
        const CE = 1 << 5;
        /// An acknowledgment of the data before the change of `CE` goes first.
        const CHANGE_DUE = 1 << 6;
        /// The segment that completes the handshake is being looked at: what its ACE
        /// field says is no count.
        const HANDSHAKE_TOLD = 1 << 7;
    }
}

saved_flags!(Bits: u8);

/// What one acknowledgment says of congestion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Feedback {
    /// Bytes that it covers, and how many of them were marked; the latter may be more.
    acked: u32,
    marked: u32,
    /// It reports marks.
    pub(crate) congested: bool,
}

/// The state of ECN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EcnState {
    variant: Variant,
    /// What our SYN asks for.
    asked: Variant,
    bits: Bits,
    /// The flags that tell the peer which ECN field its SYN or SYN-ACK had.
    handshake: TcpFlags,
    /// Marks of what was sent below are answered.
    answered: Pos,
    /// What an acknowledgment before the change of DCTCP.CE acknowledges.
    before_change: Pos,
    accurate: Accurate,
}

saved_part!(EcnState {
    saved {
        variant, asked, bits, handshake, answered, before_change, accurate,
    }
});

impl EcnState {
    pub(crate) const fn new() -> EcnState {
        EcnState {
            variant: Variant::Off,
            asked: Variant::Off,
            bits: Bits::empty(),
            handshake: TcpFlags::NONE,
            answered: 0,
            before_change: 0,
            accurate: Accurate::new(),
        }
    }

    /// What was agreed.
    #[inline]
    pub(crate) const fn variant(&self) -> Variant {
        self.variant
    }

    /// Whether a segment without flags of ECN, in a packet without a mark, changes
    /// nothing here, so that header prediction may take it.
    pub(crate) const fn is_predictable(&self) -> bool {
        match self.variant {
            Variant::Off => true,
            Variant::Classic => !self.bits.contains(Bits::CE),
            Variant::Accurate => false,
        }
    }

    /// What accurate feedback has counted; nothing without it.
    pub(crate) fn totals(&self) -> EcnTotals {
        if self.variant == Variant::Accurate {
            self.accurate.totals()
        } else {
            EcnTotals::default()
        }
    }

    /// Whether a packet that could be marked has come.
    pub(crate) const fn seen(&self) -> bool {
        self.bits.contains(Bits::SEEN)
    }
}

/// An active open asks for this.
const fn to_ask(mode: EcnMode, congestion: Congestion) -> Variant {
    match mode {
        EcnMode::RequestAccurate => Variant::Accurate,
        EcnMode::Request | EcnMode::RequestAcceptAccurate => Variant::Classic,
        // An algorithm that goes by marks is nothing without them.
        _ if congestion.wants_marks() => Variant::Classic,
        _ => Variant::Off,
    }
}

/// A passive open gives this to a SYN with these flags (RFC 3168 section 6.1.1, RFC
/// 9768 sections 3.1.2 and 3.1.3: what is not known yet counts as a request for
/// accurate feedback).
const fn to_grant(mode: EcnMode, congestion: Congestion, syn: TcpFlags) -> Variant {
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
    /// The flags of our SYN or SYN-ACK, which goes for the first time if it has `repeats`
    /// 0. A SYN that is repeated asks for nothing: that may be what keeps it from arriving
    /// (RFC 3168 section 6.1.1.1); for accurate feedback the first repetition still asks
    /// (RFC 9768 section 3.1.4.1). A SYN-ACK gives up the flags with its second repetition,
    /// though not the feedback (section 3.2.3.2.2).
    pub(crate) fn syn_flags(&mut self, cfg: &Config, answer: bool, repeats: u8) -> TcpFlags {
        if answer {
            return match self.variant {
                Variant::Off => TcpFlags::NONE,
                Variant::Classic => TcpFlags::ECE,
                Variant::Accurate if repeats > 1 => TcpFlags::NONE,
                Variant::Accurate => self.handshake,
            };
        }
        let wanted = to_ask(cfg.ecn, cfg.congestion);
        self.asked = match (wanted, repeats) {
            (_, 0) | (Variant::Accurate, 1) => wanted,
            _ => Variant::Off,
        };
        match self.asked {
            Variant::Off => TcpFlags::NONE,
            Variant::Classic => TcpFlags::CWR | TcpFlags::ECE,
            Variant::Accurate => ECN_FLAGS,
        }
    }

    /// The peer's SYN has come, to a passive open.
    pub(crate) fn on_syn(&mut self, cfg: &Config, syn: &Segment<'_>) {
        let granted = to_grant(cfg.ecn, cfg.congestion, syn.header.flags);
        self.variant = granted;
        self.handshake = handshake_ace(syn.ecn);
    }

    /// The peer's SYN-ACK has come (RFC 3168 section 6.1.1, RFC 9768 table 2).
    pub(crate) fn on_syn_ack(&mut self, syn_ack: &Segment<'_>) {
        let flags = syn_ack.header.flags & ECN_FLAGS;
        let classic = flags == TcpFlags::ECE;
        let e = &mut *self;
        e.variant = match e.asked {
            Variant::Accurate if classic => Variant::Classic,
            // All three back is a peer that reflects what it does not understand.
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
            self.mind_mangling(flags);
        }
    }

    /// The acknowledgment of our SYN-ACK has come (RFC 9768 table 4): which ECN field
    /// it arrived with.
    pub(crate) fn on_handshake_ack(&mut self, ack: &Segment<'_>) {
        if self.variant == Variant::Accurate {
            let flags = ack.header.flags & ECN_FLAGS;
            self.accurate.start_answered(flags);
            // The SYN-ACK of a simultaneous open is no acknowledgment beyond that.
            let told = !ack.header.flags.contains(TcpFlags::SYN);
            self.bits.set(Bits::HANDSHAKE_TOLD, told);
            if !flags.intersects(ECN_FLAGS) {
                // RFC 9768 section 3.2.2.4: ACE is zeroed on the way.
                self.bits |= Bits::NOT_CAPABLE;
            } else if ack.payload_len == 0 {
                self.mind_mangling(flags);
            }
        }
    }

    /// SYN and SYN-ACK leave without being ECN-capable. If they arrive otherwise, the
    /// path changes the field, and nothing it says can be believed (RFC 9768 section
    /// 3.2.2.3).
    fn mind_mangling(&mut self, told: TcpFlags) {
        let other = [Ecn::Capable0, Ecn::Capable1, Ecn::Congested];
        if told != NOT_CAPABLE_SEEN && other.into_iter().any(|e| handshake_ace(e) == told) {
            self.bits |= Bits::NOT_CAPABLE;
        }
    }

    /// Takes the ECN field and the flags of an acceptable segment, as far as its data
    /// is concerned. Called before its payload is placed.
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
                self.hear_congestion(rcv, cfg, flags, segment)
            }
            Variant::Classic => {}
        }
        if segment.ecn != Ecn::NotCapable {
            self.bits |= Bits::SEEN;
        }
    }

    /// RFC 9768 section 3.2.2: CE is counted on every packet; section 3.2.2.5: and
    /// told at once.
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

    /// RFC 3168 section 6.1.3: congestion is echoed until the sender says that it has
    /// reduced its window. RFC 8257 section 3.2: with DCTCP, the echo follows the
    /// packets, and a change of it is told at once.
    fn hear_congestion(
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

    /// What an acknowledgment of `acked` bytes says of congestion. Called once for each,
    /// before the window may grow for it.
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
            Variant::Accurate if self.bits.contains(Bits::HANDSHAKE_TOLD) => {
                self.bits.remove(Bits::HANDSHAKE_TOLD);
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

    /// Answers what an acknowledgment said of congestion; called after SND.UNA was moved.
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
        if f.congested && una >= self.answered {
            self.answer_congestion(snd, flight, congestion);
        }
    }

    /// RFC 3168 section 6.1.2: once in a window, the congestion window comes down as
    /// for a loss; not again if a loss is being answered.
    fn answer_congestion(
        &mut self,
        snd: &SendSide,
        flight: &Flight,
        congestion: &mut CongestionState,
    ) {
        self.answered = snd.nxt();
        if flight.recovery.is_open() {
            let window = congestion.window_in_use(snd, flight.recovery.is_fast());
            congestion.controller.on_congestion_marked(window);
        }
        if self.variant == Variant::Classic {
            self.bits |= Bits::CWR_DUE;
        }
    }

    /// The ECN field of the packets that carry data; `again`: it is repeated. RFC 3168
    /// section 6.1.5: what is repeated is not marked, but for DCTCP, whose queues would
    /// drop it.
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

    /// How much one segment may carry of `most`. A port that cuts a long segment into
    /// packets leaves CWR on the first only, as RFC 3168 wants it; where the bit is part
    /// of a count, such a segment must not be cut.
    #[inline]
    pub(crate) fn bound_payload(&self, snd: &SendSide, most: usize) -> usize {
        if self.variant == Variant::Accurate && self.accurate.ace().contains(TcpFlags::CWR) {
            most.min(usize::from(snd.mss()))
        } else {
            most
        }
    }

    /// The option of accurate feedback, if a segment without data should carry it.
    pub(crate) fn option(&mut self) -> Option<AccurateEcn> {
        (self.variant == Variant::Accurate)
            .then(|| self.accurate.option())
            .flatten()
    }

    /// The option of our SYN-ACK: with the first one, as it may be what keeps it from
    /// arriving (RFC 9768 sections 3.2.3.2.1 and 3.2.3.2.2), and if a cookie leaves room.
    pub(crate) fn syn_option(&self, first: bool, has_cookie: bool) -> Option<AccurateEcn> {
        let gives = self.variant == Variant::Accurate && first && !has_cookie;
        gives.then_some(Accurate::FIRST_OPTION)
    }

    /// RFC 8257 section 3.2: before the echo changes, what came before is acknowledged
    /// with the old one. Gives what that acknowledgment acknowledges and its flags.
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
