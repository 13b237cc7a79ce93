//! Urgent data between two of our own: where the byte is goes ahead of it, as TCP's
//! pointer does.

use super::Pair;
use crate::Stack;

impl Pair {
    /// The last byte written before `edge` is urgent.
    pub(crate) fn set_snd_urgent(&mut self, edge: u64) {
        self.snd_urgent = self.snd_urgent.max(edge.min(self.snd_edge));
    }

    /// Whether there is urgent data that the other end has not got.
    pub(super) fn is_urgent(&self) -> bool {
        self.snd_urgent > self.snd_moved
    }
}

impl Stack {
    /// Tells the other end where the urgent byte will be.
    pub(super) fn pass_on_urgent(&mut self, key: u32) {
        let Some(p) = self.pair_mut(key) else { return };
        let (urgent, other) = (p.snd_urgent, p.other);
        if let Some(q) = self.pair_mut(other)
            && urgent > q.rcv_urgent
        {
            q.rcv_urgent = urgent;
            q.urgent_untold = true;
            self.sockets.touch(other);
        }
    }
}
