//! Urgent data between two of our own: where the byte is goes ahead of it, as TCP's
//! pointer does.

use crate::sockets::Sockets;

impl Sockets {
    /// Tells the other end where the urgent byte will be.
    pub(super) fn pass_on_urgent(&mut self, key: u32) {
        let Some(p) = self.pair_mut(key) else {
            return;
        };
        let (urgent, other) = (p.snd.urgent(), p.other);
        if let Some(q) = self.pair_mut(other)
            && q.rcv.note_urgent(urgent)
        {
            self.touch_other_end(other);
        }
    }
}
