//! Repetitions say to be as old as what may be late, and nothing else does.

use crate::flight::recovery::tests::{RTT, echo, sacks, stamped_flight};
use crate::script::Script;
use crate::segment::Transmit;

/// The reordering window at first: a quarter of the round trip.
const LATE_MS: u32 = RTT as u32 / 4;

/// A connection that has sent 20 segments of 988 bytes, a round trip ago.
fn flight() -> Script {
    let mut s = stamped_flight(true, 100_000);
    s.now = s.now.after_ms(RTT);
    s
}

/// How old what is sent now says to be: repetitions, and the rest.
fn ages(s: &mut Script) -> (Vec<u32>, Vec<u32>) {
    let now = s.now.millis32();
    let age = |t: &Transmit| now - t.options.timestamps.unwrap().val;
    let sent = s.sent();
    let (again, new): (Vec<_>, Vec<_>) = sent.iter().partition(|t| t.retransmission);
    (
        again.into_iter().map(age).collect(),
        new.into_iter().map(age).collect(),
    )
}

#[test]
fn without_reordering_a_repetition_tells_its_time() {
    let mut s = flight();
    sacks(&mut s, 0, &[(988, 19_760)]);
    let (again, new) = ages(&mut s);
    assert_eq!(again, [0]);
    assert!(new.iter().all(|age| *age == 0));
}

#[test]
fn with_reordering_a_repetition_is_as_old_as_what_may_be_late() {
    let mut s = flight();
    s.tcb.flight.recovery.rack.note_reordering();
    sacks(&mut s, 0, &[(988, 19_760)]);
    let (again, new) = ages(&mut s);
    assert!(again.is_empty() && !new.is_empty());
    assert!(new.iter().all(|age| *age == 0));
    s.until_timer();
    assert_eq!(ages(&mut s).0, [LATE_MS]);
}

#[test]
fn a_repetition_is_not_older_than_the_one_before() {
    let mut s = flight();
    s.tcb.flight.recovery.rack.note_reordering();
    // Two are missing, sent in turn; the second is still reported late.
    sacks(&mut s, 0, &[(988, 9_880), (10_868, 19_760)]);
    s.sent();
    s.until_timer();
    let now = s.now.millis32();
    let sent = s.sent();
    let first = sent.iter().find(|t| t.retransmission).unwrap();
    let stamp = first.options.timestamps.unwrap().val;
    assert_eq!(now - stamp, LATE_MS);
    // A duplicate that is reported widens the window to twice as much, at once.
    let window = s.tcb.flight.recovery.timestamp_backdating(&s.tcb.snd);
    sacks(&mut s, 988, &[(0, 988), (988, 9_880)]);
    assert_eq!(
        s.tcb.flight.recovery.timestamp_backdating(&s.tcb.snd),
        2 * window
    );
    s.now = s.now.after_ms(1);
    assert_eq!(
        s.tcb
            .flight
            .recovery
            .stamp_retransmission(&s.tcb.snd, &s.tcb.stamps, u64::MAX, s.now),
        stamp
    );
    s.now = s.now.after_ms(u64::from(LATE_MS));
    let later =
        s.tcb
            .flight
            .recovery
            .stamp_retransmission(&s.tcb.snd, &s.tcb.stamps, u64::MAX, s.now);
    assert_eq!(s.now.millis32() - later, 2 * LATE_MS);
}

#[test]
fn a_repetition_is_younger_than_the_original() {
    let mut s = flight();
    s.tcb.flight.recovery.rack.note_reordering();
    sacks(&mut s, 19_760, &[]);
    assert!(!s.sent().is_empty());
    // Four milliseconds later it turns out that it was too long.
    s.now = s.now.after_ms(4);
    s.tcb.flight.retransmit_for_smaller_mss(&s.tcb.snd);
    s.tcb.predict_next();
    let (again, _) = ages(&mut s);
    assert!(
        !again.is_empty() && again.iter().all(|age| *age == 2),
        "{again:?}"
    );
}

#[test]
fn the_echo_of_what_is_held_back_is_no_round_trip() {
    for late in [false, true] {
        let mut s = flight();
        if late {
            s.tcb.flight.recovery.rack.note_reordering();
        }
        sacks(&mut s, 0, &[(988, 19_760)]);
        s.sent();
        if late {
            s.until_timer();
            s.sent();
        }
        let before = s.tcb.snd.rtt.srtt();
        s.now = s.now.after_ms(2 * RTT);
        echo(&mut s, 2 * RTT as u32 + if late { LATE_MS } else { 0 });
        sacks(&mut s, 19_760, &[]);
        assert_eq!(s.tcb.snd.rtt.srtt() == before, late);
        assert_eq!(s.tcb.accounting.counters.undos, 0);
        // RACK knows it for the repetition all the same.
        assert_eq!(
            s.tcb.flight.recovery.rack.latest_rtt(),
            2 * RTT as u32 * 1_000
        );
    }
}
