//! Held against RFC 6298's formulas in floating point.

use super::*;
use proptest::prelude::*;

proptest! {
    #[test]
    fn follows_the_formulas(samples in proptest::collection::vec(1u64..5_000_000, 1..50)) {
        let mut rtt = RttEstimator::new();
        let (mut srtt, mut rttvar) = (0.0, 0.0);
        for (i, &r) in samples.iter().enumerate() {
            rtt.sample(r);
            let r = r as f64;
            if i == 0 {
                (srtt, rttvar) = (r, r / 2.0);
            } else {
                rttvar = 0.75 * rttvar + 0.25 * f64::abs(srtt - r);
                srtt = 0.875 * srtt + 0.125 * r;
            }
            prop_assert!((rtt.srtt().unwrap() as f64 - srtt).abs() < 20.0);
            prop_assert!((rtt.rttvar() as f64 - rttvar).abs() < 20.0);
            let rto = (srtt + (4.0 * rttvar).max(200_000.0)).min(120e6);
            prop_assert!((rtt.rto() as f64 - rto).abs() < 100.0, "{} {}", rtt.rto(), rto);
        }
        prop_assert_eq!(rtt.min_rtt().map(u64::from), samples.iter().min().copied());
    }
}

#[test]
fn starts_with_a_second_and_doubles_to_two_minutes() {
    let mut rtt = RttEstimator::new();
    assert_eq!((rtt.rto(), rtt.srtt(), rtt.min_rtt()), (SECOND, None, None));
    for expected in [2, 4, 8, 16, 32, 64, 120, 120] {
        rtt.back_off();
        assert_eq!(rtt.rto(), expected * SECOND);
    }
    for _ in 0..300 {
        rtt.back_off();
    }
    assert_eq!(rtt.rto(), MAX_RTO);
    rtt.clear_backoff();
    assert_eq!(rtt.rto(), SECOND);
    rtt.syn_was_retransmitted();
    assert_eq!(rtt.rto(), 3 * SECOND);
}

#[test]
fn survives_any_sample() {
    let mut rtt = RttEstimator::new();
    for micros in [0, u64::MAX, 1, u64::MAX] {
        rtt.sample(micros);
        assert!(rtt.rto() >= MIN_VARIANCE && rtt.rto() <= MAX_RTO);
    }
}
