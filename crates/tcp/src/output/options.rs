//! The options of outgoing segments.
//!
//! Owns the option layout: timestamps on every segment once negotiated (RFC 7323 section
//! 3.2), SACK blocks while data is out of order. `segment.rs`, `select.rs` and
//! `time_wait.rs` ask for them; `syn.rs` has the options of the SYN.

use crate::flags::Flags;
use crate::reassembly::Reassembly;
use crate::segment::{Ecn, Transmit};
use crate::snd::SendSide;
use longshore_wire::SeqNumber;
use longshore_wire::tcp::{TcpFlags, TcpOptions, Timestamps};

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
    timeout + crate::reassembly::sack_len(options.sack.len())
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

impl Reassembly {
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
