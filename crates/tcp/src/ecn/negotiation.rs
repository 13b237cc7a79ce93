//! What the handshake agrees on about ECN (RFC 3168 section 6.1.1, RFC 9768 section 3.1).
//!
//! `output/syn.rs` asks for the flags and the option of our SYN or SYN-ACK; `open.rs` and
//! `input/syn_sent.rs` pass the peer's.

use super::accurate::{Accurate, handshake_ace};
use super::{Bits, ECN_FLAGS, EcnState, Variant};
use crate::config::{Config, EcnMode};
use crate::congestion::Congestion;
use crate::segment::{Ecn, Segment};
use longshore_wire::tcp::{AccurateEcn, TcpFlags};

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
        if other.into_iter().any(|e| handshake_ace(e) == ace) {
            self.bits |= Bits::NOT_CAPABLE;
        }
    }

    /// The option of our SYN-ACK: only on the first one, since it may cause the loss (RFC
    /// 9768 sections 3.2.3.2.1 and 3.2.3.2.2), and only if there is no cookie, which
    /// takes its space.
    pub(crate) fn syn_option(&self, first: bool, has_cookie: bool) -> Option<AccurateEcn> {
        let gives = self.variant == Variant::Accurate && first && !has_cookie;
        gives.then_some(Accurate::FIRST_OPTION)
    }
}
