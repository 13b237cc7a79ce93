//! Summing with the plain registers: eight bytes at a time, carries counted
//! apart so that the additions do not wait for each other.

/// The one's-complement sum of `bytes`, folded to less than 2^33.
#[inline]
pub(super) fn sum(bytes: &[u8]) -> u64 {
    let mut low = 0u64;
    let mut high = 0u64;
    let mut words = bytes.chunks_exact(8);
    for word in &mut words {
        let word = u64::from_ne_bytes(word.try_into().expect("eight bytes"));
        low += word & 0xffff_ffff;
        high += word >> 32;
    }
    let mut last = [0; 8];
    let rest = words.remainder();
    last[..rest.len()].copy_from_slice(rest);
    let last = u64::from_ne_bytes(last);
    super::fold32(low) + super::fold32(high) + super::fold32(last)
}

/// Copies `from` to `to` and sums it. The lengths are equal.
pub(super) fn copy_and_sum(to: &mut [u8], from: &[u8]) -> u64 {
    to.copy_from_slice(from);
    sum(to)
}
