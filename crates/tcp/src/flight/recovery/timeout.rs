//! Recovery after the retransmission timer has expired.

use super::{AckReport, Phase};
use crate::congestion::CongestionState;
use crate::flight::Flight;
use crate::snd::SendSide;
use crate::time::Instant;

impl Flight {
    /// The retransmission timer has expired `retries` times in a row.
    ///
    /// RFC 5681 section 3.1: the threshold is lowered once, the window to one segment.
    /// RFC 2018 section 8: the receiver may have discarded SACKed data; SACKs are kept
    /// until that is evident (the first hole is SACKed) or until a second timeout.
    pub(crate) fn enter_loss(
        &mut self,
        snd: &SendSide,
        congestion: &mut CongestionState,
        retries: u8,
        now: Instant,
    ) {
        let window = congestion.window_in_use(snd, self.recovery.is_fast());
        let first = self.recovery.phase != Phase::Loss || retries <= 1;
        let una = snd.una();
        if retries > 1 || self.scoreboard.is_reneged(una) {
            self.scoreboard.forget_sacked(una);
        }
        self.mtu.forget_probe();
        self.recovery.start_frto(snd, congestion, first);
        congestion.controller.on_timeout(window, first);
        self.recovery
            .mark_lost_on_timeout(&mut self.scoreboard, snd, now);
        let nxt = snd.nxt();
        let r = &mut self.recovery;
        r.phase = Phase::Loss;
        r.recover = nxt;
        r.dup_acks = 0;
        r.dup_bytes = 0;
        r.rescued = true;
        r.forced = true;
        r.probe.forget();
    }

    /// After a timeout the window grows as in slow start (RFC 5681 section 3.1).
    pub(super) fn on_ack_in_loss(
        &mut self,
        snd: &SendSide,
        congestion: &mut CongestionState,
        report: AckReport,
        now: Instant,
    ) {
        self.detect_loss(snd, now);
        if snd.una() >= self.recovery.recover {
            self.recovery.leave(congestion);
            if self.scoreboard.lost() > 0 {
                return self.enter_fast_recovery(snd, congestion, report.delivered_data(snd));
            }
        }
        self.recovery.grow(snd, congestion, report, now);
    }
}
