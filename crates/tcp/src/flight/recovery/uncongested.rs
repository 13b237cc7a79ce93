//! Retransmission of data that was lost for another reason than congestion: it was longer than
//! the path carries, the peer's window was closed, or the peer took no data on the SYN. The
//! congestion window is not reduced for it.

use super::{Phase, Recovery};
use crate::congestion::CongestionState;
use crate::flight::Flight;
use crate::snd::SendSide;
use crate::time::Instant;

impl Recovery {
    /// The lost data was too long, or not accepted yet; the window is not reduced.
    pub(super) fn enter_mtu_recovery(&mut self, snd: &SendSide) {
        let nxt = snd.nxt();
        let r = &mut *self;
        r.phase = Phase::Mtu;
        r.recover = nxt;
        r.rescued = true;
        r.forced = true;
        r.probe.forget();
    }
}

impl Flight {
    /// The path's MTU has decreased: segments in flight are too large.
    pub(crate) fn retransmit_for_smaller_mss(&mut self, snd: &SendSide) {
        self.scoreboard.mark_lost(snd.una(), |_| true);
        self.mtu.forget_probe();
        if self.recovery.is_open() {
            self.recovery.enter_mtu_recovery(snd);
        }
    }

    /// The retransmission timer has expired `retries` times in a row, which may be for the size
    /// of segments: see [`MtuSearch`](crate::flight::MtuSearch). Returns whether smaller ones are
    /// tried.
    pub(crate) fn suspect_black_hole(
        &mut self,
        snd: &mut SendSide,
        congestion: &mut CongestionState,
        ipv6: bool,
        retries: u8,
        now: Instant,
    ) -> bool {
        let lowered = self
            .mtu
            .suspect_black_hole(snd, congestion, ipv6, retries, now);
        if lowered {
            self.retransmit_for_smaller_mss(snd);
        }
        lowered
    }

    /// A closed window has opened. What a timeout retransmitted meanwhile served as a
    /// window probe (RFC 9293 section 3.8.6.1) and was refused: it is retransmitted at
    /// once.
    pub(crate) fn retransmit_into_open_window(&mut self, snd: &SendSide) {
        if self.recovery.phase == Phase::Loss {
            self.scoreboard.mark_lost(snd.una(), |_| true);
            self.recovery.forced = true;
        }
    }

    /// The server did not accept data on the SYN (RFC 7413); that is not a loss.
    pub(crate) fn retransmit_refused_data(&mut self, snd: &SendSide) {
        self.scoreboard.mark_lost(snd.una(), |_| true);
        self.recovery.enter_mtu_recovery(snd);
    }
}
