//! When each timer expires, and which of two comes first.

use super::*;
use longshore_wire::SeqNumber;

/// A round trip of 10 ms with a variation of half of that: an RTO of 210 ms.
fn rtt() -> RttEstimator {
    let mut rtt = RttEstimator::new();
    rtt.sample(10 * MS);
    assert_eq!(rtt.rto(), 210 * MS);
    rtt
}

/// A send side with SACK, segments of 1,000 bytes and so much in flight.
fn sender(in_flight: i64) -> SendSide {
    let mut snd = SendSide::new(SeqNumber(1), 1_000, 1_000, 1_000, 0);
    snd.handle_first_ack(0);
    snd.set_sack(true);
    snd.write(100_000);
    snd.advance(in_flight);
    snd.rtt = rtt();
    snd
}

const NOW: Instant = Instant(5 * 1_000_000);

#[test]
fn a_timer_that_is_off_is_never_due() {
    let mut timer = LossTimer::new();
    assert!(!timer.is_running() && !timer.take_due(Instant::NEVER));
    timer.arm_retransmit(&rtt(), NOW);
    assert!(timer.is_running() && !timer.take_due(NOW.after_us(210 * MS - 1)));
    assert!(timer.take_due(NOW.after_us(210 * MS)));
    assert!(!timer.is_running() && !timer.take_due(NOW.after_us(210 * MS)));
    timer.arm_persist(&rtt(), NOW);
    assert_eq!(
        (timer.kind(), timer.at()),
        (XmitTimer::Persist, NOW.after_us(210 * MS))
    );
    timer.stop();
    assert!(!timer.is_running());
}

/// The reordering timer is used only where it expires before the retransmission timer, which
/// runs again from where it was started.
#[test]
fn reordering_waits_no_longer_than_the_retransmission_timer() {
    let rto_at = NOW.after_us(210 * MS);
    for (wait, kind, at) in [
        (210 * MS - 1, XmitTimer::Reorder, NOW.after_us(210 * MS - 1)),
        (210 * MS, XmitTimer::Retransmit, rto_at),
    ] {
        let mut timer = LossTimer::new();
        timer.arm_retransmit(&rtt(), NOW);
        timer.arm_reorder(&rtt(), NOW.after_us(wait));
        assert_eq!((timer.kind(), timer.at()), (kind, at));
        timer.wait_for_rto(&rtt(), NOW.after_us(20 * MS));
        assert_eq!((timer.kind(), timer.at()), (XmitTimer::Retransmit, rto_at));
        // A deadline that has passed is due at once, and not before now.
        timer.wait_for_rto(&rtt(), NOW.after_us(300 * MS));
        assert_eq!(timer.at(), NOW.after_us(300 * MS + 1));
    }
}

/// RFC 8985 section 7.2: two round trips, and the delay of an acknowledgment where one segment
/// is in flight alone; never after the retransmission timer.
#[test]
fn the_probe_comes_after_two_round_trips() {
    for (in_flight, pto) in [(1_001, 22 * MS), (1_000, 67 * MS)] {
        let snd = sender(in_flight);
        let mut full = LossTimer::new();
        full.arm_retransmit(&snd.rtt, NOW);
        full.arm_probe(&snd, NOW);
        assert_eq!(
            (full.kind(), full.at()),
            (XmitTimer::Probe, NOW.after_us(pto))
        );
        let mut early = LossTimer::new();
        assert!(early.arm_early_probe(&snd, NOW));
        assert_eq!(early, full, "the same without the computation of an RTO");
    }
    let mut snd = sender(5_000);
    snd.set_sack(false);
    let mut timer = LossTimer::new();
    assert!(!timer.arm_early_probe(&snd, NOW), "no probe without SACK");
    assert_eq!(timer, LossTimer::new());
    // 2 * 110 ms is longer than any RTO need be.
    let mut snd = sender(5_000);
    snd.rtt = RttEstimator::new();
    snd.rtt.sample(110 * MS);
    assert!(!timer.arm_early_probe(&snd, NOW));
    timer.arm_retransmit(&snd.rtt, Instant(NOW.0 - 150 * MS));
    timer.arm_probe(&snd, NOW);
    assert_eq!(timer.at(), NOW.after_us(snd.rtt.rto() - 150 * MS));
}

/// More data moves the probe, but only while its timer runs.
#[test]
fn new_data_moves_the_probe() {
    let snd = sender(5_000);
    let mut timer = LossTimer::new();
    timer.arm_retransmit(&snd.rtt, NOW);
    let retransmission = timer;
    assert!(timer.rearm_probe(&snd.rtt, NOW.after_us(MS)));
    assert_eq!(timer, retransmission);
    assert!(timer.arm_early_probe(&snd, NOW));
    let later = NOW.after_us(178 * MS);
    assert!(timer.rearm_probe(&snd.rtt, later));
    assert_eq!(timer.at(), later.after_us(22 * MS));
    // 200 ms after the retransmission timer was started an RTO may have passed.
    assert!(!timer.rearm_probe(&snd.rtt, later.after_us(1)));
}

/// A timer that is resumed expires when it did, and was started a timeout before.
#[test]
fn a_resumed_timer_was_started_a_timeout_ago() {
    let mut timer = LossTimer::new();
    timer.resume_retransmit(&rtt(), NOW);
    let mut started = LossTimer::new();
    started.arm_retransmit(&rtt(), Instant(NOW.0 - 210 * MS));
    assert_eq!(timer, started);
}
