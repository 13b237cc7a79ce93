//! Memory that sessions had in use and have no more goes back to the system.
//!
//! A chunk of a slab that was written to once takes memory, in use or free. Some free ones
//! are worth keeping, as they are in the caches and cost no fault; those that nobody has
//! wanted for [`LOOKS`] looks are not. Owns [`Reclaim`], which each session has; called by
//! the engine's maintenance, never for a packet, and it does a bounded part at a time.

use longshore_hostif::adapter::AdapterSession;
use longshore_tcp::Instant;

/// Looks, one each [`LOOK_EVERY`], in which a chunk must not be wanted.
const LOOKS: u32 = 3;
/// Between two looks, in microseconds.
const LOOK_EVERY: u64 = 1_000_000;
/// Between two parts of the work, in microseconds.
const NEXT_PART: u64 = 20_000;
/// Chunks of a slab whose memory goes back in one part: what a turn has time for.
const PART: usize = 16;

/// Free send chunks that are counted, as their list is the program's and may have no end.
const COUNTED: u32 = 4096;

/// How far a session is with it.
#[derive(Debug, Default)]
pub(crate) struct Reclaim {
    looks: u32,
    /// The fewest send chunks that were free and took memory in these looks.
    fewest_warm: u32,
    /// Send chunks whose memory is to go back.
    surplus: u32,
    /// The kernel has refused: it is not asked again.
    refused: bool,
    /// When to look again.
    at: Instant,
}

impl Reclaim {
    /// Whether free chunks of a session take memory that may go back.
    pub(crate) fn is_wanted(&self, host: &AdapterSession) -> bool {
        !self.refused && host.has_warm_chunks()
    }

    /// Looks, or does a part of the work; says when to come again.
    pub(crate) fn go_on(&mut self, host: &mut AdapterSession, now: Instant) -> Option<Instant> {
        if !self.is_wanted(host) {
            *self = Self {
                refused: self.refused,
                ..Self::default()
            };
            return None;
        }
        if now < self.at {
            return Some(self.at);
        }
        let warm = host.send_slab().warm(COUNTED);
        if self.looks == 0 {
            self.fewest_warm = warm;
            host.receive.note_free();
        }
        self.fewest_warm = self.fewest_warm.min(warm);
        let mut pause = LOOK_EVERY;
        if self.looks < LOOKS {
            self.looks += 1;
            self.surplus = self.fewest_warm;
        } else if self.cool_part(host) {
            pause = NEXT_PART;
        } else {
            self.looks = 0;
        }
        self.at = Instant(now.0 + pause);
        Some(self.at)
    }

    /// Gives back what a turn has time for; says whether there is more.
    fn cool_part(&mut self, host: &mut AdapterSession) -> bool {
        let received = host.receive.cool(PART);
        let mut sent = 0;
        while sent < PART && self.surplus != 0 {
            match host.send_slab().cool() {
                Ok(true) => {
                    self.surplus -= 1;
                    sent += 1;
                }
                Ok(false) => self.surplus = 0,
                Err(_) => {
                    self.refused = true;
                    return false;
                }
            }
        }
        match received {
            Ok(received) => received == PART || self.surplus != 0,
            Err(_) => {
                self.refused = true;
                false
            }
        }
    }
}

#[cfg(test)]
mod tests;
