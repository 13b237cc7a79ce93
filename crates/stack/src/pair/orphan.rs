//! An end that no process holds any more, and whose other end does not read what it has left
//! to send: it is given up after a while, as the probes of a closed window are over TCP. So
//! nobody keeps what a program was that has ended by not reading.

use crate::sockets::Sockets;
use longshore_tcp::Instant;

/// How long an orphan waits for the other end to read something, in microseconds: as Linux
/// probes a closed window for an orphan, from 200 ms on and each time after twice as long, until
/// that would be longer than 120 s.
const TIMEOUT_US: u64 = 200_000 * ((1 << 10) - 1);

impl Sockets {
    /// Whether the orphan `key` has waited long enough. It is looked at again when it has.
    pub(super) fn is_given_up(&mut self, key: u32, now: Instant) -> bool {
        let Some(p) = self.pair_mut(key) else {
            return false;
        };
        let is_over = now >= p.waits.give_up_after(TIMEOUT_US, now);
        if !is_over {
            self.arm(key);
        }
        is_over
    }
}
