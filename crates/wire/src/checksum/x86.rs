//! Summing with AVX2 and AVX-512: 16-bit words, made signed by flipping their highest bits
//! (that is, less 32,768 each), are added by pairs to 32-bit lanes in one operation, and
//! what each lacks is added at the end. Lanes have room for [`LONGEST`] bytes.

use core::arch::x86_64::*;
use core::cell::Cell;

/// The most bytes that are summed in one piece: so many words less 32,768 each do not
/// overflow 32 bits, whatever they are, nor with the 16 words of the last vector, which are
/// added although they may all be zero ([`sum_rest256`]). It is even, so that pieces of it
/// can be added.
pub(super) const LONGEST: usize = (128 << 10) - 128;

/// What a vector of so many bytes lacks of its sum: 32,768 for each two of them.
const fn lacking(len: usize) -> i64 {
    16_384 * len as i64
}

/// A vector of 32 bytes from `n` on leaves the last `n` of another.
static LAST: [[u8; 32]; 2] = [[0; 32], [0xff; 32]];

/// The words of `v` less 32,768, added by pairs to the lanes of `acc`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn add512(acc: __m512i, v: __m512i) -> __m512i {
    let signed = _mm512_xor_si512(v, _mm512_set1_epi16(i16::MIN));
    _mm512_add_epi32(acc, _mm512_madd_epi16(signed, _mm512_set1_epi16(1)))
}

/// The words of `v` less 32,768, added by pairs to the lanes of `acc`.
#[inline]
#[target_feature(enable = "avx2")]
fn add256(acc: __m256i, v: __m256i) -> __m256i {
    let signed = _mm256_xor_si256(v, _mm256_set1_epi16(i16::MIN));
    _mm256_add_epi32(acc, _mm256_madd_epi16(signed, _mm256_set1_epi16(1)))
}

/// The 32 bytes of `bytes` from `at` on, which are there.
#[inline]
#[target_feature(enable = "avx2")]
fn load256(bytes: &[u8], at: usize) -> __m256i {
    debug_assert!(at + 32 <= bytes.len());
    // SAFETY: the bytes are there, unaligned load.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().add(at).cast()) }
}

/// The words of the 64 bytes of `bytes` from `at` on, which are there, are added.
#[inline]
#[target_feature(enable = "avx2")]
fn add64([a, b]: [__m256i; 2], bytes: &[u8], at: usize) -> [__m256i; 2] {
    [
        add256(a, load256(bytes, at)),
        add256(b, load256(bytes, at + 32)),
    ]
}

/// The total of all lanes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn total512([a, b]: [__m512i; 2]) -> i64 {
    _mm512_reduce_add_epi32(_mm512_add_epi32(a, b)).into()
}

/// The total of all lanes.
#[inline]
#[target_feature(enable = "avx2")]
fn total256([a, b]: [__m256i; 2]) -> i64 {
    let all = _mm256_add_epi32(a, b);
    let (low, high) = (
        _mm256_castsi256_si128(all),
        _mm256_extracti128_si256::<1>(all),
    );
    let four = _mm_add_epi32(low, high);
    let two = _mm_add_epi32(four, _mm_unpackhi_epi64(four, four));
    let one = _mm_add_epi32(two, _mm_shuffle_epi32::<1>(two));
    _mm_cvtsi128_si32(one).into()
}

/// The sum of `bytes`, [`LONGEST`] at most.
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn sum_avx512(bytes: &[u8]) -> u64 {
    let mut acc = [_mm512_setzero_si512(); 2];
    let mut blocks = bytes.chunks_exact(128);
    for block in &mut blocks {
        for (i, acc) in acc.iter_mut().enumerate() {
            // SAFETY: 128 bytes are there, `i` is at most 1, unaligned load.
            let v = unsafe { _mm512_loadu_si512(block.as_ptr().add(64 * i).cast()) };
            *acc = add512(*acc, v);
        }
    }
    let rest = blocks.remainder();
    let total = total512(acc) + lacking(bytes.len() - rest.len());
    total as u64 + sum_avx2(rest)
}

/// The sum of `bytes`, [`LONGEST`] at most.
#[target_feature(enable = "avx2")]
pub(super) fn sum_avx2(bytes: &[u8]) -> u64 {
    if bytes.len() < 32 {
        return super::scalar::sum(bytes);
    }
    let mut acc = [_mm256_setzero_si256(); 2];
    let mut blocks = bytes.chunks_exact(128);
    for block in &mut blocks {
        acc = add64(add64(acc, block, 0), block, 64);
    }
    sum_rest256(acc, bytes, blocks.remainder())
}

/// The sum of `bytes`, 32 at least, of which `rest`, fewer than 128 at their end, are not in `acc`.
#[inline]
#[target_feature(enable = "avx2")]
fn sum_rest256(mut acc: [__m256i; 2], bytes: &[u8], mut rest: &[u8]) -> u64 {
    if let Some((block, further)) = rest.split_at_checked(64) {
        acc = add64(acc, block, 0);
        rest = further;
    }
    let [mut a, mut b] = acc;
    if let Some((block, further)) = rest.split_at_checked(32) {
        a = add256(a, load256(block, 0));
        rest = further;
    }
    // The words that are left lie at the end of a vector that has some of those before.
    let left = rest.len() & !1;
    let last = load256(bytes, (bytes.len() & !1) - 32);
    b = add256(
        b,
        _mm256_and_si256(last, load256(LAST.as_flattened(), left)),
    );
    let total = total256([a, b]) + lacking(bytes.len() - rest.len() + 32);
    let odd = rest.get(left).copied().unwrap_or(0);
    total as u64 + u64::from(odd)
}

/// Copies the last `rest` bytes of `from` to the same place of `to`; both are as long, 32 at least.
#[inline]
#[target_feature(enable = "avx2")]
fn copy_rest256(to: &[Cell<u8>], from: &[u8], rest: usize) {
    let (end, last) = (from.len(), from.len() - 32);
    let mut at = end - rest;
    while at < end {
        // The last vector begins earlier than it has to: what it copies once more is the same.
        let here = at.min(last);
        debug_assert!(here + 32 <= to.len());
        // SAFETY: the bytes are there, unaligned store; cells may be written to.
        unsafe {
            _mm256_storeu_si256(to.as_ptr().add(here).cast_mut().cast(), load256(from, here));
        }
        at += 32;
    }
}

/// Copies `from` to `to`, which is as long, [`LONGEST`] at most, and sums it.
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn copy_and_sum_avx512(to: &[Cell<u8>], from: &[u8]) -> u64 {
    if from.len() < 32 {
        return super::scalar::copy_and_sum(to, from);
    }
    let mut acc = [_mm512_setzero_si512(); 2];
    let mut reads = from.chunks_exact(128);
    let writes = to.chunks_exact(128);
    for (read, write) in (&mut reads).zip(writes) {
        for (i, acc) in acc.iter_mut().enumerate() {
            // SAFETY: 128 bytes are there on both sides, `i` is at most 1, unaligned; cells may be
            // written to.
            let v = unsafe {
                let v = _mm512_loadu_si512(read.as_ptr().add(64 * i).cast());
                _mm512_storeu_si512(write.as_ptr().add(64 * i).cast_mut().cast(), v);
                v
            };
            *acc = add512(*acc, v);
        }
    }
    let rest = reads.remainder();
    copy_rest256(to, from, rest.len());
    let total = total512(acc) + lacking(from.len() - rest.len());
    total as u64 + sum_avx2(rest)
}

/// The words of the 64 bytes of `from` from `at` on, which are there, are copied to the same place
/// of `to`, which is as long, and added.
#[inline]
#[target_feature(enable = "avx2")]
fn copy64([a, b]: [__m256i; 2], to: &[Cell<u8>], from: &[u8], at: usize) -> [__m256i; 2] {
    debug_assert!(at + 64 <= to.len());
    let [v, w] = [load256(from, at), load256(from, at + 32)];
    let to = to.as_ptr().cast_mut();
    // SAFETY: the bytes are there, unaligned stores; cells may be written to.
    unsafe {
        _mm256_storeu_si256(to.add(at).cast(), v);
        _mm256_storeu_si256(to.add(at + 32).cast(), w);
    }
    [add256(a, v), add256(b, w)]
}

/// Copies `from` to `to`, which is as long, [`LONGEST`] at most, and sums it.
#[target_feature(enable = "avx2")]
pub(super) fn copy_and_sum_avx2(to: &[Cell<u8>], from: &[u8]) -> u64 {
    if from.len() < 32 {
        return super::scalar::copy_and_sum(to, from);
    }
    let mut acc = [_mm256_setzero_si256(); 2];
    let mut reads = from.chunks_exact(128);
    for (read, write) in (&mut reads).zip(to.chunks_exact(128)) {
        acc = copy64(copy64(acc, write, read, 0), write, read, 64);
    }
    let rest = reads.remainder();
    copy_rest256(to, from, rest.len());
    sum_rest256(acc, from, rest)
}
