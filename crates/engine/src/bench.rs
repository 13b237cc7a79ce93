//! The engine's inner parts, one call each, for the benchmark that counts their
//! instructions and for `longshore measure path` (`--features bench`). Nothing else uses it.

pub mod segments;

pub use longshore_stack::bench::{Lookup, Timers};

use crate::{Engine, EngineError};
use longshore_hostif::adapter::{AdapterSession, ReceiveStream};
use longshore_ports::RxMeta;
use longshore_tcp::Instant;

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
}

/// A receive stream.
pub struct Placing {
    session: AdapterSession,
    stream: ReceiveStream,
    at: u64,
}

impl Placing {
    /// An empty stream of `session`.
    #[must_use]
    pub fn new(session: AdapterSession) -> Self {
        let mut placing = Self {
            session,
            stream: ReceiveStream::EMPTY,
            at: 0,
        };
        placing.place(&[0; 64]);
        placing
    }

    /// Places `bytes` at the end; true if there was room.
    #[inline(never)]
    pub fn place(&mut self, bytes: &[u8]) -> bool {
        let placed = self
            .stream
            .place(0, self.at, bytes, &mut self.session.receive, 1);
        self.at += bytes.len() as u64;
        placed.is_ok()
    }
}
