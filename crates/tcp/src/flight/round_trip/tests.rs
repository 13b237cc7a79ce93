//! What is a sample, and what is not.

use super::*;
use crate::congestion::{Congestion, Controller};
use crate::time::MS;
use longshore_wire::SeqNumber;

const NOW: Instant = Instant(1_000_000);

#[test]
fn only_the_acknowledgment_of_the_timed_data_ends_a_round_trip() {
    let mut rtt = RttEstimator::new();
    let mut timer = RoundTripTimer::new(NOW);
    assert!(!timer.is_running() && !timer.is_ended_by(Pos::MAX - 1));
    timer.end_if_running(&mut rtt, NOW.after_ms(7));
    assert_eq!(rtt.srtt(), None, "nothing was timed");
    timer.start(1_000, NOW);
    assert!(timer.is_running() && !timer.is_ended_by(999) && timer.is_ended_by(1_000));
    timer.end(&mut rtt, NOW.after_ms(7));
    assert_eq!(rtt.srtt(), Some(7 * MS));
    assert!(!timer.is_running() && !timer.is_ended_by(1_000));
    assert_eq!(timer.began(), NOW);
}

/// What is retransmitted is not timed (Karn's algorithm); a round trip that is over lasts until
/// the last acknowledgment.
#[test]
fn a_cancelled_round_trip_is_no_sample() {
    let mut congestion = CongestionState::new(Controller::new(Congestion::NewReno, 1_000, 10));
    let mut rtt = RttEstimator::new();
    let mut timer = RoundTripTimer::new(NOW);
    timer.start(1_000, NOW);
    assert_eq!(timer.last(NOW.after_ms(3)), None, "it has not ended");
    timer.cancel(&mut congestion);
    assert!(!timer.is_ended_by(1_000));
    timer.end_if_running(&mut rtt, NOW.after_ms(7));
    assert_eq!(rtt.srtt(), None);
    assert_eq!(timer.last(NOW.after_ms(3)), Some(3 * MS));
}

#[test]
fn what_is_timed_is_in_flight() {
    let mut snd = SendSide::new(SeqNumber(1), 1_000, 1_000, 1_000, 0);
    snd.handle_first_ack(0);
    snd.write(5_000);
    snd.advance(3_000);
    snd.acknowledge(1_000);
    for (end, fits) in [(1_000, false), (1_001, true), (3_000, true), (3_001, false)] {
        let mut timer = RoundTripTimer::new(NOW);
        assert!(timer.check(&snd).is_ok());
        timer.start(end, NOW);
        assert_eq!(timer.check(&snd).is_ok(), fits, "{end}");
    }
}
