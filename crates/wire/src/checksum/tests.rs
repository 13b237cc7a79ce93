//! Every way of summing against the definition.

use super::*;
use core::cell::Cell;
use proptest::prelude::*;

/// RFC 1071 section 4.1, word by word.
fn by_definition(bytes: &[u8]) -> u16 {
    let mut sum = 0u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

fn same(a: u16, b: u16) -> bool {
    // Both are zero in one's complement.
    a == b || (a == 0 && b == 0xffff) || (a == 0xffff && b == 0)
}

fn cells(bytes: &mut [u8]) -> &[Cell<u8>] {
    Cell::from_mut(bytes).as_slice_of_cells()
}

proptest! {
    #[test]
    fn a_pseudo_header_takes_its_length_later(
        four in any::<([u8; 4], [u8; 4])>(),
        six in any::<([u8; 16], [u8; 16])>(),
        protocol: u8,
        len: u32,
    ) {
        let of = |len| {
            let four = Partial::of_pseudo_v4(four.0.into(), four.1.into(), protocol, len);
            [four, Partial::of_pseudo_v6(six.0.into(), six.1.into(), protocol, len)]
        };
        for (without, with) in of(0).into_iter().zip(of(len)) {
            prop_assert!(same(without.with_length(len).finish(), with.finish()));
            let kept = Partial::of_word(without.unfinished());
            prop_assert!(same(kept.with_length(len).finish(), with.finish()));
        }
    }

    #[test]
    fn all_ways_agree(bytes in proptest::collection::vec(any::<u8>(), 0..3000), start in 0usize..9) {
        let bytes = &bytes[start.min(bytes.len())..];
        let expected = by_definition(bytes);
        prop_assert!(same(Partial(scalar::sum(bytes)).finish(), expected));
        prop_assert!(same(Partial::of(bytes).finish(), expected));
        let mut copy = vec![0; bytes.len()];
        prop_assert!(same(Partial::of_copy(&mut copy, bytes).finish(), expected));
        prop_assert_eq!(&copy, bytes);
        let mut copy = vec![0; bytes.len()];
        prop_assert!(same(Partial(scalar::copy_and_sum(cells(&mut copy), bytes)).finish(), expected));
        #[cfg(target_arch = "x86_64")]
        {
            if std::is_x86_feature_detected!("avx2") {
                let mut copy = vec![0; bytes.len()];
                // SAFETY: the processor has AVX2.
                let (s, c) = unsafe { (x86::sum_avx2(bytes), x86::copy_and_sum_avx2(cells(&mut copy), bytes)) };
                prop_assert!(same(Partial(s).finish(), expected) && same(Partial(c).finish(), expected));
                prop_assert_eq!(&copy, bytes);
            }
            if std::is_x86_feature_detected!("avx512bw") {
                let mut copy = vec![0; bytes.len()];
                // SAFETY: the processor has AVX-512BW.
                let (s, c) = unsafe { (x86::sum_avx512(bytes), x86::copy_and_sum_avx512(cells(&mut copy), bytes)) };
                prop_assert!(same(Partial(s).finish(), expected) && same(Partial(c).finish(), expected));
                prop_assert_eq!(&copy, bytes);
            }
        }
    }

    #[test]
    fn pieces_add_up(bytes in proptest::collection::vec(any::<u8>(), 0..600), cuts in proptest::collection::vec(any::<u16>(), 0..5)) {
        let mut cuts: Vec<usize> = cuts.iter().map(|c| usize::from(*c) % (bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let mut sum = Partial::ZERO;
        for cut in cuts.windows(2) {
            sum = sum.followed_by(cut[0], Partial::of(&bytes[cut[0]..cut[1]]));
        }
        prop_assert!(same(sum.finish(), by_definition(&bytes)));
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]).collect();
        let sum = Partial::of_pieces(&pieces);
        prop_assert!(same(sum.finish(), by_definition(&bytes)));
        prop_assert_eq!(sum.unfinished(), !sum.finish());
    }

    /// A one's complement sum is one modulo 65,535, however many carries it has gathered.
    #[test]
    fn no_carry_is_lost(sum: u64) {
        prop_assert_eq!(u64::from(Partial(sum).folded()) % 0xffff, sum % 0xffff);
    }

    #[test]
    fn an_update_equals_summing_again(mut bytes in proptest::collection::vec(any::<u8>(), 20..40), at in 0usize..9, new: u16) {
        let before = Partial::of(&bytes).finish();
        let old = crate::bytes::get16(&bytes, at * 2);
        crate::bytes::put16(&mut bytes, at * 2, new);
        prop_assert!(same(update(before, old, new), by_definition(&bytes)));
    }

    #[test]
    fn transport_checksums_verify(s: [u8; 4], d: [u8; 4], payload in proptest::collection::vec(any::<u8>(), 0..100), bit: u16) {
        let (source, destination) = (Ipv4Addr::from(s), Ipv4Addr::from(d));
        let mut segment = vec![0; 8];
        segment.extend(&payload);
        let len = segment.len() as u32;
        let sum = Partial::of_pseudo_v4(source, destination, 17, len).plus(Partial::of(&segment)).finish();
        crate::bytes::put16(&mut segment, 6, sum);
        prop_assert!(verify_transport(source.into(), destination.into(), 17, &segment));
        let bit = usize::from(bit) % (segment.len() * 8);
        segment[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(!verify_transport(source.into(), destination.into(), 17, &segment));
    }
}

#[test]
fn the_pseudo_headers_are_what_they_stand_for() {
    let (s, d) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(192, 168, 77, 200));
    let bytes = [10, 0, 0, 1, 192, 168, 77, 200, 0, 6, 0x12, 0x34];
    assert_eq!(
        Partial::of_pseudo_v4(s, d, 6, 0x1234).finish(),
        by_definition(&bytes)
    );
    let (s, d) = (
        Ipv6Addr::LOCALHOST,
        "fd00::1:2".parse::<Ipv6Addr>().unwrap(),
    );
    let mut bytes = [s.octets(), d.octets()].concat();
    bytes.extend([0, 1, 0x23, 0x45, 0, 0, 0, 6]);
    assert_eq!(
        Partial::of_pseudo_v6(s, d, 6, 0x12345).finish(),
        by_definition(&bytes)
    );
}

#[test]
fn nothing_overflows_in_long_runs() {
    for byte in [0, 0x7f, 0x80, 0xff] {
        for len in [128 << 10, (128 << 10) + 1, 1 << 20] {
            let bytes = vec![byte; len];
            let expected = by_definition(&bytes);
            assert!(same(Partial::of(&bytes).finish(), expected));
            assert!(same(Partial(scalar::sum(&bytes)).finish(), expected));
            let mut copy = vec![!byte; len];
            assert!(same(Partial::of_copy(&mut copy, &bytes).finish(), expected));
            assert_eq!(copy, bytes);
        }
    }
}

/// Also those that [`dispatch`] does not select on this processor.
#[cfg(target_arch = "x86_64")]
#[test]
fn nothing_overflows_in_the_longest_piece_of_each_vector_code() {
    for byte in [0, 0x7f, 0x80, 0xff] {
        for len in [x86::LONGEST, x86::LONGEST - 1, x86::LONGEST - 96] {
            let bytes = vec![byte; len];
            let expected = by_definition(&bytes);
            let mut copy = vec![!byte; len];
            let mut sums = vec![];
            if std::is_x86_feature_detected!("avx2") {
                // SAFETY: the processor has AVX2.
                sums.extend(unsafe {
                    [
                        x86::sum_avx2(&bytes),
                        x86::copy_and_sum_avx2(cells(&mut copy), &bytes),
                    ]
                });
            }
            if std::is_x86_feature_detected!("avx512bw") {
                // SAFETY: the processor has AVX-512BW.
                sums.extend(unsafe {
                    [
                        x86::sum_avx512(&bytes),
                        x86::copy_and_sum_avx512(cells(&mut copy), &bytes),
                    ]
                });
            }
            for sum in sums {
                assert!(
                    same(Partial(sum).finish(), expected),
                    "{len} bytes of {byte:#x}"
                );
            }
        }
    }
}

/// The sum is 0x1ffff before it is folded, and has a carry again after that.
#[test]
fn an_update_may_carry_twice() {
    assert_eq!(update(0, 0, 1), 0xfffe);
    assert_eq!(update(0, 0, 0xffff), 0);
}
