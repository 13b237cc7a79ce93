//! The counters of accurate feedback (RFC 9768 section 3.2).
//!
//! Owns [`Accurate`], which is part of `EcnState`. Each end counts the packets that
//! arrive with CE (CEP), and the payload bytes of each ECN field; it reports the former
//! in the ACE field of every segment, the latter occasionally in an option.

use crate::codec::saved_part;
use crate::segment::Ecn;
use longshore_wire::tcp::{AccurateEcn, TcpFlags};

/// Initial value of CEP (section 3.2.1), which makes a zeroed field detectable.
const FIRST_CEP: u32 = 5;
/// The option's counters have 24 bits.
const OPTION_MASK: u32 = 0xff_ffff;
/// The number of initial segments that carry the option, from which the peer learns
/// whether the path passes it (section 3.2.3.2.2).
const BEACONS: u8 = 2;

/// How the handshake encodes the ECN field with which a SYN or SYN-ACK arrived (section
/// 3.1.2, tables 2 and 3).
pub(super) const fn handshake_ace(seen: Ecn) -> TcpFlags {
    match seen {
        Ecn::NotCapable => TcpFlags::CWR,
        Ecn::Capable1 => TcpFlags::CWR.union(TcpFlags::ECE),
        Ecn::Capable0 => TcpFlags::AE,
        Ecn::Congested => TcpFlags::AE.union(TcpFlags::CWR),
    }
}

/// The three flags as a number: AE is the highest bit.
fn number(flags: TcpFlags) -> u32 {
    let bit = |flag: TcpFlags| u32::from(flags.contains(flag));
    bit(TcpFlags::AE) << 2 | bit(TcpFlags::CWR) << 1 | bit(TcpFlags::ECE)
}

/// Packets with CE, and payload bytes by ECN field: received from the peer, and delivered
/// to the peer according to its feedback.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(missing_docs, reason = "named as in Linux's tcp_info (tcpi_...)")]
pub struct EcnTotals {
    pub received_ce: u32,
    pub received_e1_bytes: u32,
    pub received_e0_bytes: u32,
    pub received_ce_bytes: u32,
    pub delivered_ce: u32,
    pub delivered_e1_bytes: u32,
    pub delivered_e0_bytes: u32,
    pub delivered_ce_bytes: u32,
}

/// The counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Accurate {
    /// r.cep: packets that came with CE.
    r_cep: u32,
    /// r.e0b, r.ceb, r.e1b: payload bytes by ECN field, of which the option carries the
    /// lower 24 bits.
    r_e0b: u32,
    r_ceb: u32,
    r_e1b: u32,
    /// r.ceb as last reported to the peer.
    reported_ceb: u32,
    /// s.cep, s.e0b, s.ceb, s.e1b: the peer's counters, as it reported them.
    s_cep: u32,
    s_e0b: u32,
    s_ceb: u32,
    s_e1b: u32,
    /// Segments that must still carry the option.
    beacons: u8,
}

saved_part!(Accurate {
    saved {
        r_cep, r_e0b, r_ceb, r_e1b, reported_ceb, s_cep, s_e0b, s_ceb, s_e1b, beacons,
    }
});

impl Accurate {
    /// Sections 3.2.1 and 3.2.3: the initial values.
    pub(super) const fn new() -> Accurate {
        Accurate {
            r_cep: FIRST_CEP,
            r_e0b: 1,
            r_ceb: 0,
            r_e1b: 1,
            reported_ceb: 0,
            s_cep: FIRST_CEP,
            s_e0b: 1,
            s_ceb: 0,
            s_e1b: 1,
            beacons: 0,
        }
    }

    /// The handshake is complete; a SYN-ACK that arrived with CE is counted.
    pub(super) fn start(&mut self, congested: bool) {
        *self = Accurate::new();
        self.r_cep += u32::from(congested);
        self.beacons = BEACONS;
    }

    /// The acknowledgment of our SYN-ACK reports the field with which that arrived
    /// (section 3.2.2.1, table 4): a CE mark on it is the first one that the peer has
    /// counted.
    pub(super) fn start_answered(&mut self, flags: TcpFlags) {
        self.start(false);
        let marked = flags == handshake_ace(Ecn::Congested);
        self.s_cep += u32::from(marked);
    }

    /// Counts packets that arrived with this ECN field; returns whether it was CE.
    pub(super) fn count(&mut self, ecn: Ecn, packets: u32, bytes: u32) -> bool {
        let add = |counter: &mut u32| *counter = counter.wrapping_add(bytes);
        match ecn {
            Ecn::NotCapable => {}
            Ecn::Capable0 => add(&mut self.r_e0b),
            Ecn::Capable1 => add(&mut self.r_e1b),
            Ecn::Congested => {
                add(&mut self.r_ceb);
                self.r_cep = self.r_cep.wrapping_add(packets);
            }
        }
        ecn == Ecn::Congested
    }

    /// The ACE field.
    pub(super) fn ace(&self) -> TcpFlags {
        let flag = |bit: u32, flag: TcpFlags| {
            if self.r_cep & bit != 0 {
                flag
            } else {
                TcpFlags::NONE
            }
        };
        flag(4, TcpFlags::AE) | flag(2, TcpFlags::CWR) | flag(1, TcpFlags::ECE)
    }

    /// The option, if there are new CE marks, or for the first segments.
    pub(super) fn option(&mut self) -> Option<AccurateEcn> {
        if self.reported_ceb == self.r_ceb && self.beacons == 0 {
            return None;
        }
        self.beacons = self.beacons.saturating_sub(1);
        self.reported_ceb = self.r_ceb;
        Some(AccurateEcn {
            ect0: Some(self.r_e0b & OPTION_MASK),
            ce: Some(self.r_ceb & OPTION_MASK),
            ect1: (self.r_e1b != 1).then_some(self.r_e1b & OPTION_MASK),
        })
    }

    /// The option of a SYN-ACK (section 3.2.3.2.1), before anything is counted.
    pub(super) const FIRST_OPTION: AccurateEcn = AccurateEcn {
        ect0: Some(1),
        ce: Some(0),
        ect1: None,
    };

    /// Processes an acknowledgment; returns whether it reports new CE marks, and how many
    /// of our bytes were marked, by the option if there is one.
    pub(super) fn on_ack(
        &mut self,
        flags: TcpFlags,
        option: Option<&AccurateEcn>,
        mss: u32,
    ) -> (bool, u32) {
        let packets = number(flags).wrapping_sub(self.s_cep) & 7;
        self.s_cep = self.s_cep.wrapping_add(packets);
        let reported = option.copied().unwrap_or_default();
        advance(&mut self.s_e0b, reported.ect0);
        advance(&mut self.s_e1b, reported.ect1);
        match advance(&mut self.s_ceb, reported.ce) {
            Some(bytes) => (packets > 0 || bytes > 0, bytes),
            None => (packets > 0, packets * mss),
        }
    }

    /// The counters, for TCP_INFO.
    pub(super) fn totals(&self) -> EcnTotals {
        let from = |counter: u32, first: u32| counter.wrapping_sub(first);
        EcnTotals {
            received_ce: from(self.r_cep, FIRST_CEP),
            received_e1_bytes: from(self.r_e1b, 1),
            received_e0_bytes: from(self.r_e0b, 1),
            received_ce_bytes: self.r_ceb,
            delivered_ce: from(self.s_cep, FIRST_CEP),
            delivered_e1_bytes: from(self.s_e1b, 1),
            delivered_e0_bytes: from(self.s_e0b, 1),
            delivered_ce_bytes: self.s_ceb,
        }
    }
}

/// Advances a counter by the option's field and returns the increase: `None` if the field
/// is absent, or belongs to an older option that was reordered, so that the counter would
/// decrease.
fn advance(counter: &mut u32, reported: Option<u32>) -> Option<u32> {
    let bytes = reported?.wrapping_sub(*counter) & OPTION_MASK;
    if bytes > OPTION_MASK / 2 {
        return None;
    }
    *counter = counter.wrapping_add(bytes);
    Some(bytes)
}
