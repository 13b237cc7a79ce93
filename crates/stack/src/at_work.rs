//! Whose work is being done, so that a panic in it is known to be theirs.
//!
//! Handlers say so in [`Sessions`](crate::Sessions); `containment` asks.

/// Whose work is being done. [`Sessions`](crate::Sessions) has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AtWork {
    Nobodys,
    /// That of the session of this key.
    Session(u32),
    /// That of the session of the socket of this key.
    Socket(u32),
    /// That for a half-open connection of this key, whose listener may be over.
    HalfOpen(u32),
}
