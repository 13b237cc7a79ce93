//! When the requests of a session are to be fetched: what `pending_requests` and `batching` say of
//! it to the engine's loop.

/// When the requests of a session are to be fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// Now.
    Now,
    /// In a while: their program is at work on more, or about to say that there is no more.
    Soon,
    /// Then, in the engine's microseconds: their program holds them back, and says when no more.
    At(u64),
    /// With others, or before a frame, if there are any at all.
    Never,
}

/// How long requests may wait, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delays {
    /// Those that are to be fetched soon.
    pub soon: u64,
    /// Those that are held back.
    pub held_back: u64,
}
