//! TCP_DEFER_ACCEPT, and accepting on data, between two of our own: a connection whose listener
//! is not told before there is something to read. `pair` calls it when an end goes to its
//! listener; when it is flushed, `pair` ends it.

use crate::sockets::Sockets;
use longshore_tcp::Instant;

impl Sockets {
    /// Lets a connecting end wait, connected, until it has something to say or the
    /// time, in microseconds, is up. Says whether it does.
    pub(super) fn defer(&mut self, key: u32, within_us: u64, now: Instant) -> bool {
        let Some(p) = self.pair_mut(key) else {
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
        self.touch(key);
        true
    }
}
