//! The options of outgoing segments.
//!
//! Owns the option layout: timestamps on every segment once negotiated (RFC 7323 section
//! 3.2), SACK blocks while data is out of order. `segment.rs`, `select.rs` and
//! `time_wait.rs` ask for them; `syn.rs` has the options of the SYN.

use crate::flags::Flags;
use crate::rcv::ReceiveSide;
use crate::reassembly::Reassembly;
use crate::segment::{Ecn, Transmit};
use crate::snd::SendSide;
use crate::stamps::TimestampState;
use crate::time::Instant;
use longshore_wire::SeqNumber;
use longshore_wire::tcp::{SackBlocks, TcpFlags, TcpOptions, Timestamps};

/// Length of the timestamps option with its padding, bytes.
pub(crate) const TIMESTAMPS_LEN: u16 = 12;

/// Length of the user timeout option, bytes.
const USER_TIMEOUT_LEN: u16 = 4;
/// Most bytes of options in a header.
const MOST_LEN: u16 = 40;

/// Bytes of payload taken up by options that only some segments carry.
pub(super) fn extra_len(options: &TcpOptions) -> u16 {
    let timeout = if options.user_timeout.is_some() {
        USER_TIMEOUT_LEN
    } else {
        0
    };
    timeout + sack_len(options.sack.len())
}

const fn sack_len(blocks: usize) -> u16 {
    match blocks {
        0 => 0,
        n => 4 + 8 * n as u16,
    }
}

/// An acknowledgment without payload, for connections without a block.
pub(crate) fn plain_ack(
    seq: SeqNumber,
    ack: SeqNumber,
    window: u16,
    timestamps: Option<(u32, u32)>,
) -> Transmit {
    Transmit {
        seq,
        ack,
        flags: TcpFlags::ACK,
        window,
        urgent: 0,
        options: TcpOptions {
            timestamps: timestamps.map(|(val, echo)| Timestamps { val, echo }),
            ..TcpOptions::default()
        },
        payload: 0..0,
        mss: u16::MAX,
        retransmission: false,
        ecn: Ecn::NotCapable,
    }
}

impl TimestampState {
    /// The timestamps option, if negotiated.
    #[inline]
    pub(super) fn timestamps(&self, flags: Flags, now: Instant) -> Option<Timestamps> {
        flags
            .contains(Flags::TIMESTAMPS)
            .then(|| self.timestamps_if_agreed(now))
    }

    /// The contents of the timestamps option; meaningless if it was not negotiated.
    #[inline(always)]
    pub(super) fn timestamps_if_agreed(&self, now: Instant) -> Timestamps {
        Timestamps {
            val: self.clock(now),
            echo: self.recent(),
        }
    }
}

impl Reassembly {
    #[inline]
    pub(super) fn owes_sack(&self, snd: &SendSide, flags: Flags) -> bool {
        snd.sack() && (!self.ranges.is_empty() || flags.contains(Flags::DSACK))
    }

    /// How many SACK blocks fit beside the timestamps; all options together have 40
    /// bytes.
    fn sack_room(&self, flags: Flags) -> usize {
        if flags.contains(Flags::TIMESTAMPS) {
            3
        } else {
            4
        }
    }

    /// Length of the SACK option in the next segment, bytes.
    #[inline]
    fn sack_len_due(&self, snd: &SendSide, flags: Flags) -> u16 {
        if !self.owes_sack(snd, flags) {
            return 0;
        }
        let blocks = self.ranges.len() + usize::from(flags.contains(Flags::DSACK));
        sack_len(blocks.min(self.sack_room(flags)))
    }

    /// RFC 2883 section 4: the first block reports a duplicate, if there was one. RFC
    /// 2018 section 4: the range with the latest arrival follows, then those reported
    /// most recently before.
    pub(super) fn sack_blocks(&self, rcv: &ReceiveSide, flags: Flags) -> SackBlocks {
        let mut blocks = SackBlocks::default();
        let room = self.sack_room(flags);
        if flags.contains(Flags::DSACK) {
            let (start, end) = self.duplicate;
            blocks.push(start, end);
        }
        let recent = self
            .recent
            .iter()
            .filter_map(|&seq| self.ranges.find(rcv.nxt(), rcv.pos(seq)));
        let mut seen = [0; 4];
        let mut count = 0;
        for (start, end) in recent.chain(self.ranges.iter(rcv.nxt())) {
            if blocks.len() >= room {
                break;
            }
            if seen.iter().take(count).any(|s| *s == start) {
                continue;
            }
            if let Some(slot) = seen.get_mut(count) {
                *slot = start;
            }
            count += 1;
            blocks.push(rcv.seq(start), rcv.seq(end));
        }
        blocks
    }
    /// Bytes of payload taken up in the next segment by options that only some segments
    /// carry.
    #[inline]
    pub(super) fn extra_len_due(&self, snd: &SendSide, flags: Flags) -> u16 {
        if flags.contains(Flags::USER_TIMEOUT_DUE) {
            return self.extra_len_with_timeout(snd, flags);
        }
        self.sack_len_due(snd, flags)
    }

    #[cold]
    fn extra_len_with_timeout(&self, snd: &SendSide, flags: Flags) -> u16 {
        let sack = self.sack_len_due(snd, flags);
        if self.has_room_for_timeout(snd, flags) {
            sack + USER_TIMEOUT_LEN
        } else {
            sack
        }
    }

    /// Whether the user timeout option fits beside the other options of the next segment;
    /// SACK blocks take precedence.
    pub(super) fn has_room_for_timeout(&self, snd: &SendSide, flags: Flags) -> bool {
        let timestamps = if flags.contains(Flags::TIMESTAMPS) {
            TIMESTAMPS_LEN
        } else {
            0
        };
        timestamps + self.sack_len_due(snd, flags) + USER_TIMEOUT_LEN <= MOST_LEN
    }
}
