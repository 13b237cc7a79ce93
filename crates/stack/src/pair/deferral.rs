//! TCP_DEFER_ACCEPT, and accepting on data, between two of our own: a connection whose listener
//! is not told before there is something to read. `pair` calls it when an end goes to its
//! listener, and when it is flushed.

use crate::Stack;

impl Stack {
    /// Lets a connecting end wait, connected, until it has something to say or the
    /// time, in microseconds, is up. Says whether it does.
    pub(super) fn defer(&mut self, key: u32, within_us: u64) -> bool {
        let now = self.now;
        let Some(p) = self.sockets.pair_mut(key) else {
            return false;
        };
        if p.snd.has_begun() {
            return false;
        }
        let until = p.deferral.begin(now, within_us);
        p.connecting = false;
        if now >= until {
            return false;
        }
        self.sockets.touch(key);
        true
    }

    /// If it was deferred and need not be any more, lets it through.
    pub(super) fn end_deferral(&mut self, key: u32) {
        let now = self.now;
        let Some(p) = self.sockets.pair_mut(key) else {
            return;
        };
        if p.dead.is_none() && p.deferral.is_over(now, p.snd.has_begun()) {
            self.enter_listener(key);
            if let Some(p) = self.sockets.pair_mut(key) {
                p.deferral.end();
            }
        }
        self.sockets.arm(key);
    }
}
