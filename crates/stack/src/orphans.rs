//! Sockets that no process holds any more: what closing one of them does, and whether they still
//! have something to deliver. `endings` closes them.

use crate::socket::Socket;
use crate::sockets::Sockets;
use longshore_tcp::Instant;

/// Sockets that are looked at, at a time, for what they have to deliver.
const A_TURN: u32 = 64;

/// Whether anything is still to be delivered that programs have left behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Undelivered {
    /// Something is.
    Some,
    /// Nothing was found yet, and not all sockets were looked at.
    Unknown,
    /// Nothing is.
    None,
}

impl Sockets {
    /// The process of `channel` has a socket no longer. Connections that it was given and has not
    /// accepted are told to the others that listen.
    pub(crate) fn forget_subscriber(&mut self, key: u32, channel: u16, now: Instant) {
        let socket = self.get_mut(key);
        if socket.is_some_and(|s| s.forget_subscriber(channel, now)) {
            self.touch(key);
        }
    }

    /// Whether a socket that nobody has any more still has something to deliver. To be asked when
    /// no session is left, so that a socket that has nothing will have nothing: those that were
    /// found to be so are not looked at again, and of the others some are at each call.
    pub(crate) fn look_for_undelivered(&mut self) -> Undelivered {
        for _ in 0..A_TURN {
            if self.delivered_below == self.end() {
                return Undelivered::None;
            }
            let socket = self.get(self.delivered_below);
            if socket.is_some_and(Socket::has_undelivered) {
                return Undelivered::Some;
            }
            self.delivered_below += 1;
        }
        Undelivered::Unknown
    }

    /// There is a session again: what has nothing to deliver may have something yet.
    pub(crate) fn look_for_undelivered_anew(&mut self) {
        self.delivered_below = 0;
    }
}
