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

/// More than a timeout, which is never shorter than its variance term; a clock that went back
/// shows nothing.
#[test]
fn longer_than_the_timeout_is_longer_than_all_of_it() {
    let mut rtt = RttEstimator::new();
    rtt.sample(1_000);
    let rto = rtt.rto();
    assert_eq!(rto, 201_000);
    let from = Instant(5_000_000);
    for (passed, longer) in [
        (0, false),
        (MIN_VARIANCE, false),
        (MIN_VARIANCE + 1, false),
        (rto, false),
        (rto + 1, true),
        (10 * SECOND, true),
    ] {
        let to = from.after_us(passed);
        assert_eq!(rtt.is_longer_than_rto(from, to), longer, "{passed}");
    }
    assert!(!rtt.is_longer_than_rto(from, Instant(0)));
    rtt.back_off();
    assert!(!rtt.is_longer_than_rto(from, from.after_us(rto + 1)));
    assert!(rtt.is_longer_than_rto(from, from.after_us(2 * rto + 1)));
    assert_eq!(rtt.backoff(), 1);
    rtt.back_off();
    assert_eq!(rtt.backoff(), 2);
}

#[test]
fn a_sample_is_at_least_a_microsecond_and_at_most_the_longest_timeout() {
    let since = |from, to| {
        let mut rtt = RttEstimator::new();
        rtt.sample_since(Instant(from), Instant(to));
        rtt.srtt()
    };
    assert_eq!(since(5, 12), Some(7));
    assert_eq!(since(5, 5), Some(1));
    assert_eq!(since(5, 3), Some(1));
    assert_eq!(since(5, 5 + MAX_RTO), Some(MAX_RTO));
    assert_eq!(since(5, 6 + MAX_RTO), Some(MAX_RTO));
}

#[test]
fn each_invariant_is_able_to_fail() {
    let mut rtt = RttEstimator::new();
    assert_eq!(rtt.check(), Ok(()));
    for srtt8 in [8, 8 * MAX_RTO] {
        rtt.srtt8 = srtt8;
        assert_eq!(rtt.check(), Ok(()));
    }
    for srtt8 in [1, 7, 8 * MAX_RTO + 1] {
        rtt.srtt8 = srtt8;
        assert!(rtt.check().is_err(), "{srtt8}");
    }
    rtt.srtt8 = 8;
    rtt.rttvar4 = 4 * MAX_RTO;
    assert_eq!(rtt.check(), Ok(()));
    rtt.rttvar4 += 1;
    assert!(rtt.check().is_err());
}
