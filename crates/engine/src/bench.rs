//! The engine's inner parts, one call each, for the benchmark that counts their
//! instructions and for `longshore measure path` (`--features bench`). Nothing else uses it.

pub mod segments;
mod streams;

pub use longshore_stack::bench::{Lookup, Timers};
pub use streams::{Placing, Sending};

use crate::{Engine, EngineError};
use longshore_hostif::agent::Peer;
use longshore_hostif::attach::Token;
use longshore_ports::RxMeta;
use longshore_tcp::Instant;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

impl Engine {
    /// Takes a frame as if the port had given it.
    #[inline(always)]
    pub fn take_frame(&mut self, frame: &[u8], meta: &RxMeta) {
        self.stack.frame_in(frame, meta);
    }

    /// A turn at this time, in microseconds since the engine was made, whatever the clock
    /// says: what is due in it is due each time that it is counted.
    ///
    /// # Errors
    /// [`EngineError`] like [`Engine::turn`].
    #[inline(always)]
    pub fn turn_of(&mut self, micros: u64) -> Result<bool, EngineError> {
        self.turn_at(Instant(micros))
    }

    /// Lets so many processes more into a session, as those that join from another namespace of
    /// pids, and that do not end: each is watched by a descriptor that nothing makes readable,
    /// since valgrind knows none of processes. The channel of each; fewer if the session has no
    /// more.
    ///
    /// # Errors
    /// [`Errno`] if no more descriptors can be made.
    pub fn add_processes(&mut self, token: Token, many: usize) -> Result<Vec<u32>, Errno> {
        let mut channels = Vec::with_capacity(many);
        let Some(key) = self.programs.sessions.find(|s| s.token == token) else {
            return Ok(channels);
        };
        let now = self.stack.now();
        for _ in 0..many {
            let pidfd = Some(eventfd(0, EventfdFlags::CLOEXEC)?);
            let pair = self.programs.pair_mut(&mut self.stack, key);
            let peer = Peer { pid: 0, pidfd };
            let Some(channel) = pair.and_then(|(session, half)| session.attach(half, peer)) else {
                break;
            };
            self.programs.watch(key, channel, now);
            channels.push(u32::from(channel));
        }
        Ok(channels)
    }
}
