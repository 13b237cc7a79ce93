//! Memory that sessions had in use and have no more goes back to the system.
//!
//! A chunk of a slab that was written to once takes memory, in use or free. Some free ones
//! are worth keeping, as they are in the caches and cost no fault; those that nobody has
//! wanted for [`LOOKS`] looks are not. Owns [`Reclaim`], which each session has; called by
//! the engine's maintenance, never for a packet, and it does a bounded part at a time.

use crate::session::Session;
use crate::stack::Stack;
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

impl Session {
    /// Whether free chunks take memory that may go back.
    pub(crate) fn wants_reclaim(&self) -> bool {
        !self.reclaim.refused && self.host.has_warm_chunks()
    }

    /// Looks, or does a part of the work; says when to come again.
    fn reclaim_memory(&mut self, now: Instant) -> Option<Instant> {
        if !self.wants_reclaim() {
            self.reclaim = Reclaim {
                refused: self.reclaim.refused,
                ..Reclaim::default()
            };
            return None;
        }
        if now < self.reclaim.at {
            return Some(self.reclaim.at);
        }
        let warm = self.host.warm_send_chunks(COUNTED);
        let r = &mut self.reclaim;
        if r.looks == 0 {
            r.fewest_warm = warm;
            self.host.receive.note_free();
        }
        r.fewest_warm = r.fewest_warm.min(warm);
        let mut pause = LOOK_EVERY;
        if r.looks < LOOKS {
            r.looks += 1;
            r.surplus = r.fewest_warm;
        } else if self.cool_part() {
            pause = NEXT_PART;
        } else {
            self.reclaim.looks = 0;
        }
        self.reclaim.at = Instant(now.0 + pause);
        Some(self.reclaim.at)
    }

    /// Gives back what a turn has time for; says whether there is more.
    fn cool_part(&mut self) -> bool {
        let received = self.host.receive.cool(PART);
        let mut sent = 0;
        while sent < PART && self.reclaim.surplus != 0 {
            match self.host.cool_send_chunk() {
                Ok(true) => {
                    self.reclaim.surplus -= 1;
                    sent += 1;
                }
                Ok(false) => self.reclaim.surplus = 0,
                Err(_) => {
                    self.reclaim.refused = true;
                    return false;
                }
            }
        }
        match received {
            Ok(received) => received == PART || self.reclaim.surplus != 0,
            Err(_) => {
                self.reclaim.refused = true;
                false
            }
        }
    }
}

impl Stack {
    /// Does what is due of it for all sessions; says when it is to be called again at the
    /// latest.
    pub(crate) fn reclaim_memory(&mut self) -> Option<Instant> {
        let now = self.now;
        let sessions = self.sessions.iter_mut();
        sessions.filter_map(|s| s.reclaim_memory(now)).min()
    }
}
