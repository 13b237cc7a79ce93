//! TCP_DEFER_ACCEPT, and accepting on data, between two of our own: a connection whose listener
//! is not told before there is something to read. `pair` calls it when an end goes to its
//! listener, and when it is settled.

use crate::Stack;

impl Stack {
    /// Lets a connecting end wait, connected, until it has something to say or the
    /// time, in microseconds, is up. Says whether it does.
    pub(super) fn defer(&mut self, key: u32, within_us: u64) -> bool {
        let now = self.now;
        let Some(p) = self.pair_mut(key) else {
            return false;
        };
        if p.snd_edge != 0 || p.shut {
            return false;
        }
        let until = *p.deferred_until.get_or_insert(now.after_us(within_us));
        p.connecting = false;
        p.was_deferred = true;
        if now >= until {
            return false;
        }
        self.sockets.touch(key);
        true
    }

    /// If it was deferred and need not be any more, lets it through.
    pub(super) fn end_deferral(&mut self, key: u32) {
        let now = self.now;
        let Some(p) = self.pair_mut(key) else { return };
        let over = |until| p.snd_edge != 0 || p.shut || now >= until;
        if p.dead.is_none() && p.deferred_until.is_some_and(over) {
            self.enter_listener(key);
            if let Some(p) = self.pair_mut(key) {
                p.deferred_until = None;
            }
        }
        self.sockets.arm(key);
    }
}
