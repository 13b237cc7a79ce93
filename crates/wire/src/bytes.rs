//! Reading and writing at an offset that the caller has checked.
//!
//! Owns the functions with which all formats are read and written. None of them can panic
//! in a release build, so that a caller's bug does not let a packet crash the engine:
//! missing bytes read as zeros, and writes without room are ignored. Debug builds, and
//! with them the tests and fuzz targets, panic.

/// The bytes from `at` on, in one load.
#[inline(always)]
pub(crate) fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let found = bytes.get(at..).and_then(|rest| rest.first_chunk());
    debug_assert!(found.is_some(), "{N} bytes at {at} of {}", bytes.len());
    found.copied().unwrap_or([0; N])
}

/// The byte at `at`.
#[inline(always)]
pub(crate) fn get8(bytes: &[u8], at: usize) -> u8 {
    let [byte] = array(bytes, at);
    byte
}

/// The big-endian 16 bits at `at`.
#[inline]
pub(crate) fn get16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(array(bytes, at))
}

/// The big-endian 32 bits at `at`.
#[inline]
pub(crate) fn get32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(array(bytes, at))
}

/// The bytes from `at` on.
#[inline(always)]
pub(crate) fn rest(bytes: &[u8], at: usize) -> &[u8] {
    debug_assert!(at <= bytes.len(), "{at} of {}", bytes.len());
    bytes.get(at..).unwrap_or_default()
}

/// As [`rest`], for writing.
#[inline(always)]
pub(crate) fn rest_mut(bytes: &mut [u8], at: usize) -> &mut [u8] {
    debug_assert!(at <= bytes.len(), "{at} of {}", bytes.len());
    bytes.get_mut(at..).unwrap_or_default()
}

/// The first `len` bytes.
#[inline(always)]
pub(crate) fn front(bytes: &[u8], len: usize) -> &[u8] {
    debug_assert!(len <= bytes.len(), "{len} of {}", bytes.len());
    bytes.get(..len).unwrap_or_default()
}

/// As [`front`], for writing.
#[inline(always)]
pub(crate) fn front_mut(bytes: &mut [u8], len: usize) -> &mut [u8] {
    debug_assert!(len <= bytes.len(), "{len} of {}", bytes.len());
    bytes.get_mut(..len).unwrap_or_default()
}

/// Writes bytes at `at`, in one store.
#[inline(always)]
pub(crate) fn put<const N: usize>(bytes: &mut [u8], at: usize, value: [u8; N]) {
    let place = bytes.get_mut(at..at + N);
    debug_assert!(place.is_some(), "no room for {N} bytes at {at}");
    if let Some(place) = place {
        place.copy_from_slice(&value);
    }
}

/// Writes one byte at `at`.
#[inline(always)]
pub(crate) fn put8(bytes: &mut [u8], at: usize, value: u8) {
    put(bytes, at, [value]);
}

/// Writes 16 bits at `at`.
#[inline]
pub(crate) fn put16(bytes: &mut [u8], at: usize, value: u16) {
    put(bytes, at, value.to_be_bytes());
}

/// Writes 32 bits at `at`.
#[inline]
pub(crate) fn put32(bytes: &mut [u8], at: usize, value: u32) {
    put(bytes, at, value.to_be_bytes());
}

/// Writes all bytes of `value` at `at`.
pub(crate) fn put_all(bytes: &mut [u8], at: usize, value: &[u8]) {
    let place = rest_mut(bytes, at);
    debug_assert!(value.len() <= place.len(), "no room at {at}");
    for (to, from) in place.iter_mut().zip(value) {
        *to = *from;
    }
}
