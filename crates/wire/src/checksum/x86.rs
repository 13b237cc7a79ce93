//! Summing with AVX2 and AVX-512: 32-bit words are widened to 64-bit lanes and
//! added, so no carry is lost over any length that memory can hold.

use core::arch::x86_64::*;

/// The total of all lanes of all sums, each folded first so that no carry is lost.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn total512(acc: &[[__m512i; 2]; 2]) -> u64 {
    let low = _mm512_set1_epi64(0xffff_ffff);
    let mut all = _mm512_setzero_si512();
    for pair in acc {
        for v in pair {
            all = _mm512_add_epi64(all, _mm512_and_si512(*v, low));
            all = _mm512_add_epi64(all, _mm512_srli_epi64::<32>(*v));
        }
    }
    _mm512_reduce_add_epi64(all) as u64
}

/// The total of all lanes of all sums, each folded first so that no carry is lost.
#[inline]
#[target_feature(enable = "avx2")]
fn total256(acc: &[[__m256i; 2]; 4]) -> u64 {
    let low = _mm256_set1_epi64x(0xffff_ffff);
    let mut all = _mm256_setzero_si256();
    for pair in acc {
        for v in pair {
            all = _mm256_add_epi64(all, _mm256_and_si256(*v, low));
            all = _mm256_add_epi64(all, _mm256_srli_epi64::<32>(*v));
        }
    }
    let half = _mm_add_epi64(
        _mm256_castsi256_si128(all),
        _mm256_extracti128_si256::<1>(all),
    );
    _mm_cvtsi128_si64(half) as u64 + _mm_extract_epi64::<1>(half) as u64
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn add512(acc: [__m512i; 2], v: __m512i, low: __m512i) -> [__m512i; 2] {
    [
        _mm512_add_epi64(acc[0], _mm512_and_si512(v, low)),
        _mm512_add_epi64(acc[1], _mm512_srli_epi64::<32>(v)),
    ]
}

#[inline]
#[target_feature(enable = "avx2")]
fn add256(acc: [__m256i; 2], v: __m256i, low: __m256i) -> [__m256i; 2] {
    [
        _mm256_add_epi64(acc[0], _mm256_and_si256(v, low)),
        _mm256_add_epi64(acc[1], _mm256_srli_epi64::<32>(v)),
    ]
}

/// The sum of `bytes`.
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn sum_avx512(bytes: &[u8]) -> u64 {
    let low = _mm512_set1_epi64(0xffff_ffff);
    let mut acc = [[_mm512_setzero_si512(); 2]; 2];
    let mut blocks = bytes.chunks_exact(128);
    for block in &mut blocks {
        // SAFETY: 128 bytes are there, unaligned loads.
        let (a, b) = unsafe {
            (
                _mm512_loadu_si512(block.as_ptr().cast()),
                _mm512_loadu_si512(block.as_ptr().add(64).cast()),
            )
        };
        acc[0] = add512(acc[0], a, low);
        acc[1] = add512(acc[1], b, low);
    }
    total512(&acc) + super::scalar::sum(blocks.remainder())
}

/// The sum of `bytes`.
#[target_feature(enable = "avx2")]
pub(super) fn sum_avx2(bytes: &[u8]) -> u64 {
    let low = _mm256_set1_epi64x(0xffff_ffff);
    let mut acc = [[_mm256_setzero_si256(); 2]; 4];
    let mut blocks = bytes.chunks_exact(128);
    for block in &mut blocks {
        for (i, acc) in acc.iter_mut().enumerate() {
            // SAFETY: 128 bytes are there, `i` is at most 3, unaligned load.
            let v = unsafe { _mm256_loadu_si256(block.as_ptr().add(32 * i).cast()) };
            *acc = add256(*acc, v, low);
        }
    }
    let mut rest = blocks.remainder().chunks_exact(32);
    for block in &mut rest {
        // SAFETY: 32 bytes are there, unaligned load.
        let v = unsafe { _mm256_loadu_si256(block.as_ptr().cast()) };
        acc[0] = add256(acc[0], v, low);
    }
    total256(&acc) + super::scalar::sum(rest.remainder())
}

/// Copies `from` to `to`, which is as long, and sums it.
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn copy_and_sum_avx512(to: &mut [u8], from: &[u8]) -> u64 {
    let low = _mm512_set1_epi64(0xffff_ffff);
    let mut acc = [[_mm512_setzero_si512(); 2]; 2];
    let (mut reads, mut writes) = (from.chunks_exact(128), to.chunks_exact_mut(128));
    for (read, write) in (&mut reads).zip(&mut writes) {
        // SAFETY: 128 bytes are there on both sides, unaligned.
        let (a, b) = unsafe {
            let a = _mm512_loadu_si512(read.as_ptr().cast());
            let b = _mm512_loadu_si512(read.as_ptr().add(64).cast());
            _mm512_storeu_si512(write.as_mut_ptr().cast(), a);
            _mm512_storeu_si512(write.as_mut_ptr().add(64).cast(), b);
            (a, b)
        };
        acc[0] = add512(acc[0], a, low);
        acc[1] = add512(acc[1], b, low);
    }
    total512(&acc) + super::scalar::copy_and_sum(writes.into_remainder(), reads.remainder())
}

/// Copies `from` to `to`, which is as long, and sums it.
#[target_feature(enable = "avx2")]
pub(super) fn copy_and_sum_avx2(to: &mut [u8], from: &[u8]) -> u64 {
    let low = _mm256_set1_epi64x(0xffff_ffff);
    let mut acc = [[_mm256_setzero_si256(); 2]; 4];
    let (mut reads, mut writes) = (from.chunks_exact(128), to.chunks_exact_mut(128));
    for (read, write) in (&mut reads).zip(&mut writes) {
        for (i, acc) in acc.iter_mut().enumerate() {
            // SAFETY: 128 bytes are there on both sides, `i` is at most 3, unaligned.
            let v = unsafe {
                let v = _mm256_loadu_si256(read.as_ptr().add(32 * i).cast());
                _mm256_storeu_si256(write.as_mut_ptr().add(32 * i).cast(), v);
                v
            };
            *acc = add256(*acc, v, low);
        }
    }
    let mut reads = reads.remainder().chunks_exact(32);
    let mut writes = writes.into_remainder().chunks_exact_mut(32);
    for (read, write) in (&mut reads).zip(&mut writes) {
        // SAFETY: 32 bytes are there on both sides, unaligned.
        let v = unsafe {
            let v = _mm256_loadu_si256(read.as_ptr().cast());
            _mm256_storeu_si256(write.as_mut_ptr().cast(), v);
            v
        };
        acc[0] = add256(acc[0], v, low);
    }
    total256(&acc) + super::scalar::copy_and_sum(writes.into_remainder(), reads.remainder())
}
