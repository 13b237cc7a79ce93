//! Recoveries that prove needless are taken back, and only they.

use crate::flags::Flags;
use crate::flight::Phase;
use crate::flight::recovery::tests::{
    RTT, echo, flight, flight_of, repeated, sacks, stamped_flight, timeout,
};
use crate::script::{ACK, Script};

fn undone(s: &Script, cwnd: u32) {
    assert!(
        s.tcb.flight.recovery.is_open(),
        "{:?}",
        s.tcb.flight.recovery
    );
    assert!(
        s.tcb.send_status().cwnd() >= cwnd,
        "{} {cwnd}",
        s.tcb.send_status().cwnd()
    );
    assert_eq!(s.tcb.congestion.controller.ssthresh(), u32::MAX);
    assert_eq!(s.tcb.flight.scoreboard.lost(), 0);
    assert_eq!(s.tcb.accounting.counters.undos, 1);
}

#[test]
fn an_old_echo_undoes_a_timeout() {
    for sack in [false, true] {
        let mut s = stamped_flight(sack, 100_000);
        let cwnd = s.tcb.send_status().cwnd();
        timeout(&mut s);
        assert_eq!(s.tcb.send_status().cwnd(), 988);
        assert_eq!(repeated(&mut s), [0]);
        // The flight was only late: the echo is of the original.
        let _ = s.arrives(ACK, 0, 988, 0);
        undone(&s, cwnd);
        assert!(repeated(&mut s).is_empty());
        assert_eq!(s.tcb.info(s.now).backoff, 0);
    }
}

#[test]
fn a_new_echo_leaves_a_timeout_as_it_is() {
    let mut s = stamped_flight(false, 19_760);
    timeout(&mut s);
    assert_eq!(repeated(&mut s), [0]);
    echo(&mut s, 0);
    s.now = s.now.after_ms(RTT);
    let _ = s.arrives(ACK, 0, 988, 0);
    assert_eq!(s.tcb.flight.recovery.phase, Phase::Loss);
    assert_eq!(repeated(&mut s), [988, 1_976]);
}

#[test]
fn an_old_echo_undoes_a_fast_recovery() {
    let mut s = stamped_flight(true, 100_000);
    let cwnd = s.tcb.send_status().cwnd();
    s.now = s.now.after_ms(RTT);
    // The first segment takes a long way round.
    sacks(&mut s, 0, &[(988, 19_760)]);
    assert_eq!(s.tcb.flight.recovery.phase, Phase::Fast);
    assert_eq!(repeated(&mut s), [0]);
    s.now = s.now.after_ms(2);
    sacks(&mut s, 19_760, &[]);
    undone(&s, cwnd);
    // It was reordering, and is known as such from now on.
    assert_eq!(s.tcb.info(s.now).reord_seen, 1);
}

/// Two late packets; one is repeated before it comes, the other is still waited for.
fn two_late() -> (Script, u32) {
    let mut s = stamped_flight(true, 100_000);
    let cwnd = s.tcb.send_status().cwnd();
    s.tcb.flight.recovery.rack.note_reordering();
    s.now = s.now.after_ms(RTT);
    sacks(&mut s, 0, &[(988, 19_760)]);
    assert!(s.sent().len() > 5, "in place of what is reported");
    s.until_timer();
    assert_eq!(repeated(&mut s), [0]);
    s.now = s.now.after_ms(RTT / 2);
    sacks(&mut s, 0, &[(988, 19_760), (20_748, 24_700)]);
    s.sent();
    assert_eq!(s.tcb.flight.recovery.phase, Phase::Fast);
    (s, cwnd)
}

#[test]
fn an_old_echo_undoes_a_recovery_with_further_holes() {
    let (mut s, cwnd) = two_late();
    sacks(&mut s, 19_760, &[(20_748, 24_700)]);
    undone(&s, cwnd);
    // The rest is waited for as long as reordering lasts, not until the peer counts as silent.
    s.sent();
    s.until_timer();
    assert_eq!(s.tcb.info(s.now).total_rto, 0);
    assert_eq!(repeated(&mut s), [19_760]);
}

#[test]
fn an_old_echo_undoes_nothing_while_something_repeated_is_in_the_network() {
    let (mut s, _) = two_late();
    s.until_timer();
    assert_eq!(repeated(&mut s), [19_760]);
    sacks(&mut s, 19_760, &[(20_748, 24_700)]);
    assert_eq!(s.tcb.flight.recovery.phase, Phase::Fast);
    assert_eq!(s.tcb.accounting.counters.undos, 0);
}

/// Where no hole is left, it does not matter that the tail was sent again as well.
#[test]
fn an_old_echo_undoes_a_recovery_that_has_rescued_the_tail() {
    let mut s = stamped_flight(true, 19_760);
    let cwnd = s.tcb.send_status().cwnd();
    s.now = s.now.after_ms(RTT);
    sacks(&mut s, 0, &[(988, 15_808)]);
    assert_eq!(repeated(&mut s), [0, 18_772]);
    sacks(&mut s, 15_808, &[]);
    undone(&s, cwnd);
}

#[test]
fn duplicates_of_all_repetitions_undo_a_recovery() {
    // Without timestamps, and after the recovery is over.
    let mut s = flight(true);
    let cwnd = s.tcb.send_status().cwnd();
    sacks(&mut s, 0, &[(2_000, 20_000)]);
    assert_eq!(repeated(&mut s), [0, 1_000]);
    s.now = s.now.after_ms(RTT);
    let recover = s.tcb.flight.recovery.recover;
    sacks(&mut s, recover, &[]);
    assert!(s.tcb.flight.recovery.is_open() && s.tcb.send_status().cwnd() < cwnd);
    sacks(&mut s, recover, &[(0, 1_000)]);
    assert_eq!(s.tcb.accounting.counters.undos, 0);
    sacks(&mut s, recover, &[(1_000, 2_000)]);
    undone(&s, cwnd);
    // A further one says nothing new.
    sacks(&mut s, recover, &[(1_000, 2_000)]);
    assert_eq!(s.tcb.accounting.counters.undos, 1);
}

#[test]
fn a_duplicate_of_something_else_undoes_nothing() {
    let mut s = flight(true);
    s.now = s.now.after_ms(1);
    sacks(&mut s, 5_000, &[]);
    s.sent();
    s.now = s.now.after_ms(RTT);
    sacks(&mut s, 5_000, &[(6_000, 20_000)]);
    assert_eq!(repeated(&mut s), [5_000]);
    // The network has doubled a segment from before the recovery.
    sacks(&mut s, 5_000, &[(1_000, 2_000), (6_000, 20_000)]);
    assert_eq!(s.tcb.accounting.counters.undos, 0);
    assert_eq!(s.tcb.flight.recovery.phase, Phase::Fast);
}

#[test]
fn frto_tells_late_from_lost() {
    // RFC 5682, with SACK and without, without timestamps.
    for sack in [false, true] {
        let mut s = flight_of(sack, 60_000);
        let cwnd = s.tcb.send_status().cwnd();
        timeout(&mut s);
        assert_eq!(repeated(&mut s), [0]);
        // Step 2b: the window advances; new data go, nothing is repeated.
        sacks(&mut s, 1_000, &[]);
        let sent = s.sent();
        assert!((1..=2).contains(&sent.len()), "{sent:?}");
        assert!(sent.iter().all(|t| !t.retransmission));
        // Step 3b: what was not repeated arrives.
        sacks(&mut s, 2_000, &[]);
        undone(&s, cwnd);
    }
}

#[test]
fn frto_by_sack() {
    let mut s = flight_of(true, 60_000);
    let cwnd = s.tcb.send_status().cwnd();
    timeout(&mut s);
    s.sent();
    sacks(&mut s, 1_000, &[]);
    s.sent();
    // Out of order, but originals all the same (RFC 5682 section 3.1 step 3b).
    sacks(&mut s, 1_000, &[(2_000, 4_000)]);
    assert!(s.tcb.send_status().cwnd() >= cwnd);
    assert_eq!(s.tcb.accounting.counters.undos, 1);
}

#[test]
fn frto_repeats_after_all_if_it_was_loss() {
    for sack in [false, true] {
        let mut s = flight_of(sack, 60_000);
        timeout(&mut s);
        assert_eq!(repeated(&mut s), [0]);
        sacks(&mut s, 1_000, &[]);
        let new = s.sent();
        assert!(!new.is_empty() && new.iter().all(|t| !t.retransmission));
        let end = s.tcb.send_status().sent() as i64;
        // Step 3a: what arrives is the new data alone.
        s.now = s.now.after_ms(RTT);
        let block = [(end - 1_000, end)];
        sacks(&mut s, 1_000, if sack { &block } else { &[] });
        assert_eq!(s.tcb.flight.recovery.phase, Phase::Loss);
        assert_eq!(repeated(&mut s)[0], 1_000);
        assert_eq!(s.tcb.accounting.counters.undos, 0);
    }
}

#[test]
fn a_second_timeout_leaves_frto_out() {
    let mut s = flight_of(true, 60_000);
    timeout(&mut s);
    s.sent();
    s.until_timer();
    assert_eq!(s.tcb.info(s.now).total_rto, 2);
    assert_eq!(repeated(&mut s), [0]);
    sacks(&mut s, 1_000, &[]);
    assert_eq!(repeated(&mut s)[0], 1_000);
}

/// A timeout in the middle of a fast recovery: both are taken back.
#[test]
fn a_timeout_in_a_fast_recovery_is_undone_with_it() {
    let mut s = stamped_flight(true, 100_000);
    let cwnd = s.tcb.send_status().cwnd();
    s.now = s.now.after_ms(RTT);
    sacks(&mut s, 0, &[(988, 19_760)]);
    assert_eq!(repeated(&mut s), [0]);
    timeout(&mut s);
    s.sent();
    sacks(&mut s, 19_760, &[]);
    undone(&s, cwnd);
}

/// RFC 3522: the first acknowledgment that advances says it. One that only reports what has
/// arrived out of order echoes an old time in any case.
#[test]
fn a_report_with_an_old_echo_undoes_nothing() {
    let mut s = stamped_flight(true, 19_760);
    timeout(&mut s);
    assert_eq!(repeated(&mut s), [0]);
    sacks(&mut s, 0, &[(1_976, 2_964)]);
    assert_eq!(s.tcb.flight.recovery.phase, Phase::Loss);
    assert_eq!(s.tcb.accounting.counters.undos, 0);
}

/// RFC 3708: as many bytes as were retransmitted, wherever in the stream.
#[test]
fn all_repetitions_must_have_been_duplicates() {
    let mut s = flight(true);
    let _ = s.arrives(ACK, 0, 2_000, 0);
    s.sent();
    s.now = s.now.after_ms(RTT);
    sacks(&mut s, 2_000, &[(5_000, 22_000)]);
    assert_eq!(repeated(&mut s), [2_000, 3_000, 4_000]);
    let recover = s.tcb.flight.recovery.recover;
    s.now = s.now.after_ms(RTT);
    sacks(&mut s, recover, &[]);
    for (start, undos) in [(2_000, 0), (3_000, 0), (4_000, 1)] {
        sacks(&mut s, recover, &[(start, start + 1_000)]);
        assert_eq!(s.tcb.accounting.counters.undos, undos, "{start}");
    }
}

/// RFC 9438 section 4.9: the algorithm forgets the loss, too.
#[test]
fn the_algorithm_forgets_what_was_no_loss() {
    let mut s = flight(true);
    s.tcb
        .settings()
        .set_congestion(crate::Congestion::Cubic, s.now);
    let before = s.tcb.congestion.controller;
    sacks(&mut s, 0, &[(1_000, 20_000)]);
    assert_eq!(repeated(&mut s), [0]);
    s.now = s.now.after_ms(RTT);
    let recover = s.tcb.flight.recovery.recover;
    sacks(&mut s, recover, &[]);
    assert_ne!(s.tcb.congestion.controller, before);
    sacks(&mut s, recover, &[(0, 1_000)]);
    assert_eq!(s.tcb.accounting.counters.undos, 1);
    assert_eq!(s.tcb.congestion.controller, before);
}

/// RFC 5682 section 2.1 step 2a: a duplicate acknowledgment first, or no room for new data, and
/// recovery is conventional. A segment with the peer's data is no duplicate.
#[test]
fn frto_needs_an_advance_and_room() {
    // The first acknowledgment is a duplicate.
    let mut s = flight(false);
    timeout(&mut s);
    assert_eq!(repeated(&mut s), [0]);
    let _ = s.arrives(ACK, 0, 0, 0);
    let mut sent = s.sent();
    let _ = s.arrives(ACK, 0, 1_000, 0);
    sent.extend(s.sent());
    assert!(!sent.is_empty() && sent.iter().all(|t| t.retransmission));
    // The window is full to the byte.
    let mut s = flight(false);
    timeout(&mut s);
    assert_eq!(repeated(&mut s), [0]);
    s.window = 19_000;
    let _ = s.arrives(ACK, 0, 1_000, 0);
    assert_eq!(repeated(&mut s)[0], 1_000);
    // The peer sends something meanwhile.
    let mut s = flight(false);
    timeout(&mut s);
    assert_eq!(repeated(&mut s), [0]);
    let _ = s.arrives(ACK, 0, 0, 10);
    s.sent();
    let _ = s.arrives(ACK, 10, 1_000, 0);
    let sent = s.sent();
    assert!(!sent.is_empty() && sent.iter().all(|t| !t.retransmission));
}

/// RFC 5682 section 2.1 step 2b: what is new is sent even if it is little, but not when all is
/// acknowledged.
#[test]
fn frto_sends_what_a_cork_holds() {
    let (forced, not) = (Flags::FORCE_SMALL, Flags::empty());
    for (before, ack, sends) in [
        (not, 1_000, true),
        (forced, 1_000, true),
        (not, 20_000, false),
    ] {
        let mut s = flight_of(false, 20_000);
        s.tcb.settings().set_cork(true);
        s.writes(20_400);
        s.silent();
        timeout(&mut s);
        assert_eq!(repeated(&mut s), [0]);
        s.tcb.flags |= before;
        let _ = s.arrives(ACK, 0, ack, 0);
        if sends {
            assert_eq!(s.sent_one().payload, 20_000..20_400);
        } else {
            s.silent();
        }
    }
}

/// RFC 5682 section 2.1 step 3b: it is as good if one acknowledgment covers all the rest, as those
/// of a receiver that merges packets do.
#[test]
fn frto_takes_one_acknowledgment_of_the_rest() {
    for sack in [false, true] {
        let mut s = flight_of(sack, 60_000);
        let cwnd = s.tcb.send_status().cwnd();
        timeout(&mut s);
        assert_eq!(repeated(&mut s), [0]);
        sacks(&mut s, 1_000, &[]);
        let sent = s.sent();
        assert!(!sent.is_empty() && sent.iter().all(|t| !t.retransmission));
        let recover = s.tcb.flight.recovery.recover;
        sacks(&mut s, recover, &[]);
        undone(&s, cwnd);
    }
}
