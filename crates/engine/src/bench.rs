//! The engine's inner parts, one call each, for the benchmark that counts their
//! instructions and for `longshore measure path` (`--features bench`). Nothing else uses it.

pub mod segments;
mod streams;

pub use longshore_stack::bench::{Lookup, Timers};
pub use streams::{Placing, Sending};

use crate::{Engine, EngineError};
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
