//! Writing to headers that are built here, at places that the caller has room for.
//!
//! As with `wire`'s reading, no mistake of a caller lets a packet end the engine: in a release
//! build what has no room is not written. Debug builds, and with them the tests, the simulation
//! and the fuzz targets, panic.

/// Copies `from` into `to`, beginning at `at`.
#[inline(always)]
pub(crate) fn put(to: &mut [u8], at: usize, from: &[u8]) {
    let room = to.get_mut(at..).and_then(|rest| rest.get_mut(..from.len()));
    debug_assert!(room.is_some(), "no room for {} bytes at {at}", from.len());
    if let Some(room) = room {
        room.copy_from_slice(from);
    }
}

/// The bytes of `range`.
#[inline(always)]
pub(crate) fn part(bytes: &[u8], range: core::ops::Range<usize>) -> &[u8] {
    let found = bytes.get(range.clone());
    debug_assert!(found.is_some(), "{range:?} of {}", bytes.len());
    found.unwrap_or_default()
}
