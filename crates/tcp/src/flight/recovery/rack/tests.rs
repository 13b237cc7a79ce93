//! Loss by time: what is found when, and how the reordering window adapts.

mod delivery;

use crate::flight::Phase;
use crate::flight::recovery::tests::{RTT, flight, flight_of, repeated, sacks, stamped_flight};
use crate::flight::scoreboard::Stamp;
use crate::script::Script;
use crate::time::Instant;

/// A quarter of the round trip, which is the reordering window at first.
const WINDOW_US: u64 = RTT * 1_000 / 4;

#[test]
fn two_segments_reported_wait_for_the_window() {
    // RFC 8985 section 6.2 step 5: fewer than DupThresh, so time decides.
    let mut s = flight_of(true, 20_000);
    sacks(&mut s, 0, &[(18_000, 20_000)]);
    assert!(s.tcb.flight.recovery.is_open());
    assert!(repeated(&mut s).is_empty());
    // The flight was sent at one time, so what is missing is as old as what came.
    assert_eq!(s.until_timer(), WINDOW_US);
    assert_eq!(s.tcb.flight.recovery.phase, Phase::Fast);
    assert_eq!(s.tcb.info(s.now).total_rto, 0);
    assert_eq!(repeated(&mut s)[0], 0);
    assert_eq!(
        s.tcb.flight.scoreboard.lost() + s.tcb.flight.pipe(&s.tcb.snd),
        18_000
    );
}

#[test]
fn the_reordering_timer_hands_over_to_the_retransmission_timer() {
    let mut s = flight_of(true, 20_000);
    sacks(&mut s, 0, &[(19_000, 20_000)]);
    // What was overtaken arrives before the window is over.
    s.now = s.now.after_ms(1);
    sacks(&mut s, 18_000, &[(19_000, 20_000)]);
    s.now = s.now.after_ms(1);
    sacks(&mut s, 18_500, &[(19_000, 20_000)]);
    s.until_timer();
    assert_eq!(repeated(&mut s), [18_500]);
    // Its repetition is lost as well, and nothing more comes.
    let rto = s.tcb.info(s.now).rto_us;
    assert_eq!(s.until_timer(), rto);
    assert_eq!(s.tcb.info(s.now).total_rto, 1);
    assert_eq!(repeated(&mut s), [18_500]);
}

#[test]
fn three_segments_reported_are_enough_without_reordering() {
    let mut s = flight(true);
    sacks(&mut s, 0, &[(1_000, 4_000)]);
    assert_eq!(repeated(&mut s), [0]);
    // So do three small ones, each SACKed by an acknowledgment of its own.
    let mut s = flight(true);
    for i in 1..=3 {
        sacks(&mut s, 0, &[(1_000, 1_000 + 10 * i)]);
    }
    assert_eq!(repeated(&mut s), [0]);
}

#[test]
fn reordering_seen_means_that_three_are_not_enough() {
    let mut s = flight(true);
    sacks(&mut s, 0, &[(1_000, 3_000)]);
    s.now = s.now.after_ms(1);
    sacks(&mut s, 3_000, &[]);
    assert_eq!(s.tcb.info(s.now).reord_seen, 1);
    sacks(&mut s, 3_000, &[(4_000, 10_000)]);
    assert!(repeated(&mut s).is_empty());
    assert_eq!(s.until_timer(), WINDOW_US);
    assert_eq!(repeated(&mut s), [3_000]);
}

#[test]
fn a_repetition_is_no_reordering() {
    let mut s = flight(true);
    sacks(&mut s, 0, &[(1_000, 10_000)]);
    assert_eq!(repeated(&mut s), [0]);
    s.now = s.now.after_ms(RTT);
    sacks(&mut s, 10_000, &[]);
    assert_eq!(s.tcb.info(s.now).reord_seen, 0);
}

#[test]
fn duplicates_widen_the_window_once_in_a_round_trip() {
    let mut s = flight(true);
    sacks(&mut s, 0, &[(1_000, 3_000)]);
    sacks(&mut s, 3_000, &[]);
    // RFC 2883: what was repeated had arrived; twice in one round trip.
    sacks(&mut s, 4_000, &[(3_000, 4_000)]);
    sacks(&mut s, 5_000, &[(4_000, 5_000)]);
    assert_eq!(s.tcb.info(s.now).dsack_dups, 2);
    sacks(&mut s, 5_000, &[(6_000, 12_000)]);
    assert_eq!(s.until_timer(), 2 * WINDOW_US);
    // Wider than the smoothed round trip it does not become.
    for _ in 0..300 {
        s.tcb.flight.recovery.rack.adapt(1 << 40, 1 << 40, true);
    }
    let srtt = s.tcb.snd.rtt.srtt().expect("sampled");
    assert_eq!(
        s.tcb.flight.recovery.rack.window(false, &s.tcb.snd.rtt),
        srtt
    );
    // Sixteen recoveries without a duplicate, and it is what it was.
    for _ in 0..16 {
        assert_eq!(
            s.tcb.flight.recovery.rack.window(false, &s.tcb.snd.rtt),
            srtt
        );
        s.tcb.flight.recovery.rack.on_recovered();
    }
    assert_eq!(
        s.tcb.flight.recovery.rack.window(false, &s.tcb.snd.rtt),
        WINDOW_US
    );
}

#[test]
fn lost_repetitions_are_found_again_and_again() {
    // RFC 8985 section 3.2: unlike duplicates, time tells of each.
    let mut s = flight(true);
    sacks(&mut s, 0, &[(1_000, 20_000)]);
    assert_eq!(repeated(&mut s), [0]);
    let mut reported = 20_000;
    for _ in 0..5 {
        s.now = s.now.after_ms(RTT);
        // What went out after the repetition arrives, the repetition does not.
        s.tcb.set_snd_edge(s.tcb.snd_edge() + 3_000, true);
        s.sent();
        let sent = s.tcb.send_status().sent() as i64;
        if sent == reported {
            sacks(&mut s, 0, &[(1_000, sent)]);
            continue;
        }
        reported = sent;
        s.now = s.now.after_ms(RTT);
        sacks(&mut s, 0, &[(1_000, reported)]);
        assert_eq!(repeated(&mut s), [0]);
    }
    assert_eq!(s.tcb.info(s.now).total_rto, 0);
    assert!(s.tcb.info(s.now).total_retrans > 2);
}

#[test]
fn what_was_sent_lately_survives_a_timeout() {
    // RFC 8985 section 6.3.
    let mut s = flight_of(true, 40_000);
    sacks(&mut s, 10_000, &[]);
    s.sent();
    let before = s.tcb.send_status().sent();
    assert!(before > 20_000);
    // The timer runs out (early, for the test): the old part is lost, the new is not.
    s.now = s.now.after_ms(RTT / 2);
    s.tcb.liveness.note_retry();
    s.tcb
        .flight
        .enter_loss(&s.tcb.snd, &mut s.tcb.congestion, 0, s.now);
    assert_eq!(s.tcb.flight.scoreboard.lost(), 10_000);
    assert_eq!(s.tcb.flight.pipe(&s.tcb.snd), before - 20_000);
}

/// RFC 8985 section 6.2 step 4: a recovery that ends counts down how long a wider window lasts.
#[test]
fn each_recovery_counts_for_the_wider_window() {
    let mut s = flight_of(true, 20_000);
    s.tcb.flight.recovery.rack.adapt(0, 20_000, true);
    let before = s.tcb.flight.recovery.rack.persist;
    sacks(&mut s, 0, &[(1_000, 20_000)]);
    assert_eq!(s.tcb.flight.recovery.phase, Phase::Fast);
    s.sent();
    s.now = s.now.after_ms(RTT);
    sacks(&mut s, 20_000, &[]);
    assert_eq!(s.tcb.flight.recovery.rack.persist, before - 1);
}

/// A timer that finds nothing lost begins no recovery, and one that finds more in a recovery
/// begins no other.
#[test]
fn the_reordering_timer_begins_a_recovery_for_a_loss_alone() {
    let expires = |s: &mut Script| {
        let (snd, congestion) = (&s.tcb.snd, &mut s.tcb.congestion);
        s.tcb.flight.on_reorder_timeout(snd, congestion, s.now);
    };
    let mut s = flight(true);
    expires(&mut s);
    assert!(s.tcb.flight.recovery.is_open());
    assert_eq!(s.tcb.congestion.controller.ssthresh(), u32::MAX);
    let mut s = flight(true);
    s.tcb.flight.recovery.rack.note_reordering();
    sacks(&mut s, 0, &[(1_000, 2_000), (19_000, 20_000)]);
    s.until_timer();
    assert_eq!(s.tcb.flight.recovery.phase, Phase::Fast);
    s.sent();
    s.tcb.congestion.controller.resume(20_000, 7_000);
    s.now = s.now.after_ms(3 * RTT);
    // Something that was sent just now is delivered, so all before it is lost.
    let (nxt, just_now) = (s.tcb.snd.nxt(), Stamp::new(s.now));
    let rack = &mut s.tcb.flight.recovery.rack;
    rack.on_delivered_in_order(nxt, (just_now, just_now), s.now);
    expires(&mut s);
    assert!(s.tcb.flight.scoreboard.lost() > 0);
    assert_eq!(s.tcb.congestion.controller.ssthresh(), 7_000);
}

fn mark_lost_on_timeout(s: &mut Script) {
    let f = &mut s.tcb.flight;
    f.recovery
        .mark_lost_on_timeout(&mut f.scoreboard, &s.tcb.snd, s.now);
}

/// RFC 8985 section 6.3: after a timeout the first segment is lost, and what was sent as long ago
/// as the round trip and the reordering window, to the microsecond.
#[test]
fn a_timeout_loses_what_is_old_enough() {
    let mut s = flight_of(true, 20_000);
    sacks(&mut s, 20_000, &[]);
    let mut sent_at = vec![];
    for n in 21..=25 {
        sent_at.push(s.now);
        s.writes(n * 1_000);
        assert_eq!(s.sent().len(), 1);
        s.now = s.now.after_ms(10);
    }
    let rack = s.tcb.flight.recovery.rack;
    let f = &s.tcb.flight;
    let window = f.recovery.reordering_window(&f.scoreboard, &s.tcb.snd);
    let threshold = u64::from(rack.rtt) + window;
    for (late, lost) in [(0, 3_000), (1, 2_000)] {
        let mut s = s.clone();
        s.now = Instant(sent_at[2].0 + threshold - late);
        mark_lost_on_timeout(&mut s);
        assert_eq!(s.tcb.flight.scoreboard.lost(), lost);
    }
    // However young it is, the first one is lost.
    s.now = sent_at[0].after_us(1);
    mark_lost_on_timeout(&mut s);
    assert_eq!(s.tcb.flight.scoreboard.lost(), 1_000);
}

/// What an acknowledgment echoes is milliseconds of our clock.
#[test]
fn the_age_of_an_echo_is_in_milliseconds() {
    let s = stamped_flight(true, 100_000);
    let echo = s.tcb.stamps.clock(s.now).wrapping_sub(7);
    let (t, f) = (&s.tcb, &s.tcb.flight);
    for (echo, age) in [(Some(echo), Some(7_000)), (None, None)] {
        let d = f
            .recovery
            .start_delivery(&f.scoreboard, &t.snd, &t.stamps, echo, s.now);
        assert_eq!(d.echo_age, age);
    }
}
