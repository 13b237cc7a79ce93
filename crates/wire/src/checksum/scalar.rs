//! Summing with general-purpose registers: eight bytes at a time, with the carries in the
//! upper half of a 128-bit sum.

use crate::bytes::array;
use core::cell::Cell;

/// The one's-complement sum of `bytes`, less than 2^36.
#[inline]
pub(super) fn sum(bytes: &[u8]) -> u64 {
    let word = |b: &[u8], at: usize| u128::from(u64::from_ne_bytes(array(b, at)));
    let mut sums = [0u128; 2];
    let mut blocks = bytes.chunks_exact(32);
    for block in &mut blocks {
        sums[0] += word(block, 0);
        sums[1] += word(block, 8);
        sums[0] += word(block, 16);
        sums[1] += word(block, 24);
    }
    let mut words = blocks.remainder().chunks_exact(8);
    for w in &mut words {
        sums[0] += word(w, 0);
    }
    let fold = |sum: u128| {
        let (low, high) = (sum as u64, (sum >> 64) as u64);
        (low & 0xffff_ffff) + (low >> 32) + (high & 0xffff_ffff) + (high >> 32)
    };
    fold(sums[0]) + fold(sums[1]) + tail(words.remainder())
}

/// The sum of fewer than eight bytes. The position of a pair in the 64 bits does not
/// matter.
#[inline]
fn tail(mut bytes: &[u8]) -> u64 {
    let mut sum = 0;
    if let Some((four, rest)) = bytes.split_first_chunk() {
        sum += u64::from(u32::from_ne_bytes(*four));
        bytes = rest;
    }
    if let Some((two, rest)) = bytes.split_first_chunk() {
        sum += u64::from(u16::from_ne_bytes(*two));
        bytes = rest;
    }
    if let [last] = *bytes {
        sum += u64::from(u16::from_ne_bytes([last, 0]));
    }
    sum
}

/// Copies `from` to `to`, which is as long, and sums it.
pub(super) fn copy_and_sum(to: &[Cell<u8>], from: &[u8]) -> u64 {
    for (to, from) in to.iter().zip(from) {
        to.set(*from);
    }
    sum(from)
}
