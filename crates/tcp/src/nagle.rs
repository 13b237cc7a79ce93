//! Whether a small segment may be sent now.
//!
//! Owns [`SendSide::may_send_small`], which `output/select.rs` calls. It implements RFC
//! 9293 sections 3.7.4 (Nagle) and 3.8.6.2.1 (the sender's silly window avoidance),
//! TCP_NODELAY, TCP_CORK and MSG_MORE, which applies until the next acknowledgment.
//! Urgent data is never held back, as in Linux.

use crate::config::Config;
use crate::events::Events;
use crate::flags::Flags;
use crate::outcome::Outcome;
use crate::pos::Pos;
use crate::snd::SendSide;

impl SendSide {
    /// Whether the segment `SND.NXT..end`, shorter than the MSS, may be sent.
    /// `window_limited` says that the peer's window is what makes it short.
    #[inline]
    pub(crate) fn may_send_small(
        &self,
        outcome: &Outcome,
        cfg: &Config,
        flags: Flags,
        end: Pos,
        window_limited: bool,
    ) -> bool {
        if flags.intersects(Flags::FORCE_SMALL.union(Flags::URGENT)) {
            return true;
        }
        if window_limited {
            // RFC 9293 section 3.8.6.2.1: "at least a fraction Fs of the maximum
            // window", with Fs = 1/2. Otherwise the persist timer overrides.
            let len = (end - self.nxt()) as u64;
            return len >= u64::from(self.max_wnd() / 2).max(1);
        }
        // The last segment before a FIN is sent.
        if self.fin() && end == self.edge() {
            return true;
        }
        // TCP_CORK, and MSG_MORE for what was written last. As in Linux, an
        // acknowledgment ends the latter: the path has room, and the announced data may
        // take long.
        let more = end > self.push() && !outcome.is_pending(Events::SND_ACKED);
        if cfg.delay.cork || more {
            return false;
        }
        // RFC 9293 section 3.7.4: with unacknowledged data, wait for more data or for the
        // acknowledgment; with Minshall's modification, as in Linux, only a small segment
        // in flight holds the next small one back.
        cfg.delay.nodelay || self.in_flight() == 0 || self.small() <= self.una()
    }

    /// Whether data is held back by the user alone (TCP_CORK or MSG_MORE), so that only
    /// the cork's timer releases it.
    pub(crate) fn is_corked(&self, cfg: &Config) -> bool {
        (cfg.delay.cork || self.edge() > self.push()) && !self.fin()
    }
}

#[cfg(test)]
mod tests;
