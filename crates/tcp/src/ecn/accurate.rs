//! The counters of accurate feedback (RFC 9768 section 3.2).
//!
//! Owns [`Accurate`], which `ecn.rs` keeps. Each end counts the packets that arrive
//! with congestion experienced (CEP), and the payload bytes of each ECN field; it tells
//! the first in the ACE field of every segment, the others now and then in an option.

use crate::codec::saved_part;
use crate::segment::Ecn;
use longshore_wire::tcp::{AccurateEcn, TcpFlags};

/// CEP begins here (section 3.2.1), so that a field that is zeroed shows.
const FIRST_CEP: u32 = 5;
/// The option's counters have this many bits.
const OPTION_MASK: u32 = 0xff_ffff;
/// Segments at the beginning that carry the option so that the peer learns whether it
/// gets through (section 3.2.3.2.2).
const BEACONS: u8 = 2;

/// In the handshake, the flags that say "not ECN-capable".
pub(super) const NOT_CAPABLE_SEEN: TcpFlags = TcpFlags::CWR;

/// How the handshake tells with which ECN field a SYN or SYN-ACK has come (section
/// 3.1.2, tables 2 and 3).
pub(super) const fn handshake_ace(seen: Ecn) -> TcpFlags {
    match seen {
        Ecn::NotCapable => NOT_CAPABLE_SEEN,
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

/// What has come with each ECN field, and of what was sent has arrived with it, as the
/// peer told: packets with CE, and payload bytes.
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
    /// r.e0b, r.ceb, r.e1b: payload bytes by ECN field, of which the option tells the
    /// lower 24 bits.
    r_e0b: u32,
    r_ceb: u32,
    r_e1b: u32,
    /// r.ceb as the peer was last told.
    reported_ceb: u32,
    /// s.cep, s.e0b, s.ceb, s.e1b: the peer's counts, as it told.
    s_cep: u32,
    s_e0b: u32,
    s_ceb: u32,
    s_e1b: u32,
    /// Segments that are still to carry the option in any case.
    beacons: u8,
}

saved_part!(Accurate {
    saved {
        r_cep, r_e0b, r_ceb, r_e1b, reported_ceb, s_cep, s_e0b, s_ceb, s_e1b, beacons,
    }
});

impl Accurate {
    /// Section 3.2.1 and 3.2.3: where the counters begin.
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

    /// The handshake is over; a SYN-ACK that came with CE counts.
    pub(super) fn start(&mut self, congested: bool) {
        *self = Accurate::new();
        self.r_cep += u32::from(congested);
        self.beacons = BEACONS;
    }

    /// The acknowledgment of our SYN-ACK has told with which field that came (section
    /// 3.2.2.1, table 4): a mark on it is the first that the peer has counted.
    pub(super) fn start_answered(&mut self, flags: TcpFlags) {
        self.start(false);
        let marked = flags == handshake_ace(Ecn::Congested);
        self.s_cep += u32::from(marked);
    }

    /// Packets have come with this ECN field; says whether it was CE.
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

    /// The option, if there is news of congestion or the peer has yet to learn that it
    /// gets through.
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

    /// The option of a SYN-ACK (section 3.2.3.2.1): nothing has been counted.
    pub(super) const FIRST_OPTION: AccurateEcn = AccurateEcn {
        ect0: Some(1),
        ce: Some(0),
        ect1: None,
    };

    /// What an acknowledgment tells: whether packets met congestion since the last one,
    /// and how many bytes of ours did, counted by the option if there is one.
    pub(super) fn on_ack(
        &mut self,
        flags: TcpFlags,
        option: Option<&AccurateEcn>,
        mss: u32,
    ) -> (bool, u32) {
        let packets = number(flags).wrapping_sub(self.s_cep) & 7;
        self.s_cep = self.s_cep.wrapping_add(packets);
        let told = option.copied().unwrap_or_default();
        advance(&mut self.s_e0b, told.ect0);
        advance(&mut self.s_e1b, told.ect1);
        match advance(&mut self.s_ceb, told.ce) {
            Some(bytes) => (packets > 0 || bytes > 0, bytes),
            None => (packets > 0, packets * mss),
        }
    }

    /// What it has come to, for TCP_INFO.
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

/// Takes a counter of the option, and says by how much it has grown: `None` if it is not
/// there, or is that of an old option, overtaken by a newer one, and seems to count back.
fn advance(counter: &mut u32, told: Option<u32>) -> Option<u32> {
    let bytes = told?.wrapping_sub(*counter) & OPTION_MASK;
    if bytes > OPTION_MASK / 2 {
        return None;
    }
    *counter = counter.wrapping_add(bytes);
    Some(bytes)
}
