//! Each invariant is able to fail.

use super::*;
use crate::prediction::Prediction;
use crate::script::{ACK, Script};
use crate::tcb::Tcb;
use crate::time::Instant;

/// What is wrong with an established connection once `harm` was done to it.
fn harmed(harm: impl FnOnce(&mut Tcb)) -> &'static str {
    let mut s = Script::established();
    assert_eq!(s.tcb.check(), Ok(()));
    harm(&mut s.tcb);
    s.tcb.check().expect_err("harm that shows").0
}

/// As `harmed`, with 3,000 bytes in flight.
fn harmed_in_flight(harm: impl FnOnce(&mut Tcb)) -> &'static str {
    let mut s = Script::established();
    s.writes(3_000);
    assert!(!s.sent().is_empty());
    assert_eq!(s.tcb.check(), Ok(()));
    harm(&mut s.tcb);
    s.tcb.check().expect_err("harm that shows").0
}

#[test]
fn edges_of_the_send_side_are_in_order() {
    let what = harmed(|t| t.snd.advance(1));
    assert_eq!(what, "sent beyond what was written");
    let what = harmed(|t| t.snd.acknowledge(1));
    assert_eq!(what, "acknowledged beyond what was sent");
}

#[test]
fn edges_of_the_receive_side_are_in_order() {
    let what = harmed(|t| t.rcv.consume(1));
    assert_eq!(what, "read beyond what has come");
    let what = harmed(|t| t.rcv.advance(i64::MAX / 2));
    assert_eq!(what, "received beyond the window");
    let what = harmed(|t| t.acks.sent(1));
    assert_eq!(what, "acknowledged what has not come");
    let what = harmed(|t| t.rcv.set_fin(-1));
    assert_eq!(what, "a FIN before the first byte");
}

#[test]
fn ranges_are_sorted_and_lie_in_the_window() {
    let what = harmed(|t| {
        t.prediction = Prediction::OFF;
        let far = t.rcv.adv() + 10;
        let _ = t.reassembly.ranges.add(t.rcv.nxt(), far, far + 5);
    });
    assert_eq!(what, "a range beyond the window");
    let what = harmed(|t| {
        t.prediction = Prediction::OFF;
        let _ = t.reassembly.ranges.add(t.rcv.nxt(), 0, 5);
    });
    assert_eq!(what, "a range that is not beyond RCV.NXT");
    let what = harmed(|t| {
        t.prediction = Prediction::OFF;
        let _ = t.reassembly.ranges.add(0, 10, 15);
        t.rcv.set_fin(14);
    });
    assert_eq!(what, "a range beyond the peer's FIN");
}

#[test]
fn what_is_in_flight_is_on_the_scoreboard_and_has_a_timer() {
    let what = harmed_in_flight(|t| t.flight.timer.stop());
    assert_eq!(what, "something is in flight, and no timer runs");
    let what = harmed_in_flight(|t| t.snd.acknowledge(3_000));
    assert_eq!(what, "a range with nothing in it");
    let what = harmed_in_flight(|t| t.flight.scoreboard.send(4_000, Instant(1), 0));
    assert_eq!(what, "ranges of what is not in flight");
    let what = harmed_in_flight(|t| {
        t.snd.write(4_000);
        t.snd.advance(4_000);
    });
    assert_eq!(what, "something in flight has no range");
    let what = harmed_in_flight(|t| t.flight.round_trip.start(4_000, Instant(1)));
    assert_eq!(what, "what is timed is not in flight");
}

/// As many duplicates as may be owed are.
#[test]
fn all_duplicates_may_be_owed() {
    let mut s = Script::established();
    for _ in 0..20 {
        s.tcb.acks.owe_duplicate();
        assert_eq!(s.tcb.check(), Ok(()));
    }
}

#[test]
fn an_owed_acknowledgment_has_a_timer() {
    let what = harmed(|t| t.flags |= Flags::ACK_OWED);
    assert_eq!(what, "an acknowledgment is owed, and no timer runs");
}

#[test]
fn state_and_prediction_agree_with_the_rest() {
    let what = harmed(|t| t.state = State::CloseWait);
    assert_eq!(what, "payload is predicted where none may come");
    let what = harmed(|t| {
        t.prediction = Prediction::OFF;
        t.state = State::CloseWait;
    });
    assert_eq!(what, "the state is not what the two FINs say");
    let what = harmed(|t| t.flags |= Flags::NO_ROOM);
    assert_eq!(what, "what is predicted is not what follows from the state");
}

#[test]
fn a_debug_build_stops() {
    let stopped = std::panic::catch_unwind(|| {
        let mut s = Script::established();
        s.tcb.rcv.consume(100);
        let _ = s.arrives(ACK, 0, 0, 10);
    });
    assert_eq!(stopped.is_err(), cfg!(debug_assertions));
}

/// Each synchronized state stands for what of the two FINs was sent, acknowledged and received.
#[test]
fn each_state_says_what_became_of_the_fins() {
    use State::*;
    for fin in [false, true] {
        for acked in [false, true] {
            for closed in [false, true] {
                let mut t = Script::established().tcb;
                if fin || acked {
                    t.snd.close();
                }
                if acked {
                    t.snd.advance(1);
                    t.snd.acknowledge(1);
                }
                if closed {
                    t.rcv.set_fin(0);
                    t.rcv.advance(1);
                }
                let fits: &[State] = match (fin || acked, acked, closed) {
                    (false, _, false) => &[Established],
                    (false, _, true) => &[CloseWait],
                    (true, false, false) => &[FinWait1],
                    (true, false, true) => &[Closing, LastAck],
                    (true, true, false) => &[FinWait2],
                    (true, true, true) => &[TimeWait],
                };
                for state in State::ALL.into_iter().filter(|s| s.is_synchronized()) {
                    t.state = state;
                    let agrees = t.state.check(&t.snd, &t.rcv).is_ok();
                    assert_eq!(
                        agrees,
                        fits.contains(&state),
                        "{state:?} {fin} {acked} {closed}"
                    );
                }
            }
        }
    }
}

#[test]
fn time_wait_has_its_timer_alone() {
    for (state, other, is_right) in [
        (true, false, true),
        (false, false, false),
        (true, true, false),
    ] {
        let mut s = Script::in_state(State::TimeWait);
        if !state {
            s.tcb.timers.state = Instant::NEVER;
        }
        if other {
            s.tcb.timers.keepalive = s.now;
        }
        assert_eq!(s.tcb.check().is_ok(), is_right, "{state} {other}");
    }
}
