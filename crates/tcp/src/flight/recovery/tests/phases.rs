//! What begins and ends each phase, and what of it the window, the table and the timers show.

use super::*;

/// The invariants of recovery are able to fail.
#[test]
fn inconsistent_states_are_found() {
    let what = |harm: fn(&mut Recovery)| {
        let mut s = flight(true);
        harm(&mut s.tcb.flight.recovery);
        s.tcb.check().map_err(|violation| violation.0)
    };
    let unsent = Err("a recovery of what was not sent");
    assert_eq!(what(|r| r.recover = 20_001), unsent);
    assert_eq!(what(|r| r.recover = 20_000), Ok(()));
    let uncounted = Err("duplicates without duplicate acknowledgments");
    assert_eq!(what(|r| r.dup_bytes = 1), uncounted);
    let counted = |r: &mut Recovery| (r.dup_bytes, r.dup_acks) = (1, 1);
    let mut s = flight(false);
    counted(&mut s.tcb.flight.recovery);
    assert_eq!(s.tcb.flight.recovery.check(20_000), Ok(()));
    s.tcb.flight.recovery.dup_acks = 0;
    s.tcb.flight.recovery.phase = Phase::Fast;
    assert_eq!(s.tcb.flight.recovery.check(20_000), Ok(()));
}

/// RFC 5681 section 3.1: the first timeout halves, a further one of the same data does not; one
/// after progress does.
#[test]
fn the_threshold_is_lowered_once_for_one_loss() {
    let mut s = flight(false);
    timeout(&mut s);
    assert_eq!(s.tcb.congestion.controller.ssthresh(), 10_000);
    s.sent();
    s.until_timer();
    assert_eq!(s.tcb.info(s.now).total_rto, 2);
    assert_eq!(s.tcb.congestion.controller.ssthresh(), 10_000);
    s.sent();
    let _ = s.arrives(ACK, 0, 1_000, 0);
    s.sent();
    s.until_timer();
    assert_eq!(s.tcb.info(s.now).total_rto, 3);
    assert!(s.tcb.congestion.controller.ssthresh() < 10_000);
}

/// The window regulates the rate in fast recovery: a timeout halves what is in flight.
#[test]
fn a_timeout_in_fast_recovery_halves_what_is_in_flight() {
    let mut s = flight(true);
    sacks(&mut s, 0, &[(1_000, 20_000)]);
    assert_eq!(s.tcb.flight.recovery.phase, Phase::Fast);
    s.sent();
    let in_flight = s.tcb.snd.in_flight() as u32;
    assert!(in_flight > 20_000);
    timeout(&mut s);
    assert_eq!(s.tcb.congestion.controller.ssthresh(), in_flight / 2);
}

/// RFC 2018 section 8: what was reported is believed until a second timeout, or until the first
/// hole proves to be reported.
#[test]
fn reports_are_forgotten_after_a_second_timeout() {
    let mut s = flight_of(true, 20_000);
    sacks(&mut s, 0, &[(3_000, 5_000)]);
    s.sent();
    timeout(&mut s);
    assert_eq!(s.tcb.flight.scoreboard.sacked(), 2_000);
    s.sent();
    s.until_timer();
    assert_eq!(s.tcb.info(s.now).total_rto, 2);
    assert_eq!(s.tcb.flight.scoreboard.sacked(), 0);
    let mut s = flight_of(true, 20_000);
    sacks(&mut s, 0, &[(1_000, 3_000)]);
    sacks(&mut s, 1_000, &[]);
    timeout(&mut s);
    assert_eq!(s.tcb.flight.scoreboard.sacked(), 0);
}

/// A recovery leaves the window at the threshold; one of no congestion, and one after a timeout,
/// leave it as it is.
#[test]
fn a_fast_recovery_ends_at_the_threshold() {
    let mut s = flight_of(true, 20_000);
    sacks(&mut s, 0, &[(1_000, 4_000)]);
    assert_eq!(repeated(&mut s), [0]);
    assert!(
        s.tcb.send_status().cwnd() > 10_000,
        "{}",
        s.tcb.send_status().cwnd()
    );
    s.now = s.now.after_ms(RTT);
    sacks(&mut s, 20_000, &[]);
    assert!(s.tcb.flight.recovery.is_open());
    assert_eq!(s.tcb.send_status().cwnd(), 10_000);
    let mut s = flight_of(true, 20_000);
    sacks(&mut s, 18_000, &[]);
    timeout(&mut s);
    let threshold = s.tcb.congestion.controller.ssthresh();
    s.sent();
    s.now = s.now.after_ms(RTT);
    sacks(&mut s, 20_000, &[]);
    assert!(s.tcb.flight.recovery.is_open());
    assert!(
        s.tcb.send_status().cwnd() <= 3_000 && threshold > 3_000,
        "{threshold}"
    );
    let mut s = flight_of(true, 20_000);
    s.tcb.segment_size().set_path_mss(500);
    assert_eq!(s.tcb.flight.recovery.phase, Phase::Mtu);
    let cwnd = s.tcb.send_status().cwnd();
    s.sent();
    s.now = s.now.after_ms(RTT);
    sacks(&mut s, 20_000, &[]);
    assert!(s.tcb.flight.recovery.is_open());
    assert!(
        s.tcb.send_status().cwnd() <= cwnd + 20_000,
        "{}",
        s.tcb.send_status().cwnd()
    );
}

/// What is lost of the data that was sent after a timeout is recovered at once.
#[test]
fn a_loss_after_a_timeout_begins_a_fast_recovery() {
    let mut s = flight(true);
    timeout(&mut s);
    assert_eq!(repeated(&mut s), [0]);
    s.now = s.now.after_ms(RTT);
    sacks(&mut s, 1_000, &[]);
    // Two new segments (F-RTO); the first is lost.
    assert_eq!(s.sent().len(), 2);
    s.now = s.now.after_ms(RTT);
    let end = s.tcb.snd.nxt();
    sacks(&mut s, 1_000, &[(end - 1_000, end)]);
    s.sent();
    s.now = s.now.after_ms(RTT);
    sacks(&mut s, end - 2_000, &[(end - 1_000, end)]);
    assert_eq!(s.tcb.flight.recovery.phase, Phase::Fast);
    assert_eq!(repeated(&mut s)[0] as i64, end - 2_000);
}

/// RACK finds the loss of a retransmission after a timeout, too.
#[test]
fn a_repetition_lost_after_a_timeout_is_found() {
    let mut s = flight_of(true, 20_000);
    timeout(&mut s);
    assert_eq!(repeated(&mut s), [0]);
    s.now = s.now.after_ms(RTT);
    sacks(&mut s, 1_000, &[]);
    assert_eq!(repeated(&mut s), [1_000, 2_000]);
    s.now = s.now.after_ms(RTT);
    sacks(&mut s, 1_000, &[(2_000, 3_000)]);
    assert_eq!(repeated(&mut s)[0], 1_000);
}

/// RFC 5681 section 3.2: three in a row. Without SACK each of them is a segment that has left
/// the network, but no more than were in flight when the loss was found.
#[test]
fn duplicates_are_counted_in_a_row_and_bounded() {
    let mut s = flight(false);
    for ack in [1_000, 2_000, 3_000] {
        let _ = s.arrives(ACK, 0, ack, 0);
        for _ in 0..2 {
            let _ = s.arrives(ACK, 0, ack, 0);
        }
        assert!(repeated(&mut s).is_empty(), "{ack}");
    }
    let mut s = flight(false);
    let _ = s.arrives(ACK, 0, 5_000, 0);
    for _ in 0..3 {
        let _ = s.arrives(ACK, 0, 5_000, 0);
    }
    assert_eq!(repeated(&mut s), [5_000]);
    for _ in 0..7 {
        let _ = s.arrives(ACK, 0, 5_000, 0);
    }
    let unreported = |s: &Script| s.tcb.snd.in_flight() - s.tcb.flight.pipe(&s.tcb.snd);
    assert_eq!(unreported(&s), 10_000);
    // A partial acknowledgment of five: the retransmitted one, and four that were counted. The
    // next one is lost as well.
    let mut partial = s.clone();
    let _ = partial.arrives(ACK, 0, 10_000, 0);
    assert_eq!(unreported(&partial), 6_000 + 1_000);
    for _ in 0..200 {
        let _ = s.arrives(ACK, 0, 5_000, 0);
    }
    let found_with = s.tcb.flight.recovery.recover - 5_000;
    assert_eq!(unreported(&s), found_with as u64 - 1_000);
}

/// An acknowledgment that shows a recovery to be spurious counts for the window as any other.
#[test]
fn what_undoes_a_recovery_grows_the_window() {
    let mut s = stamped_flight(true, 100_000);
    let cwnd = s.tcb.send_status().cwnd();
    timeout(&mut s);
    s.sent();
    let _ = s.arrives(ACK, 0, 988, 0);
    assert_eq!(s.tcb.accounting.counters.undos, 1);
    assert_eq!(s.tcb.send_status().cwnd(), cwnd + 988);
}

/// With something out of order, no segment is predicted; the window grows no faster for that.
#[test]
fn an_unused_window_does_not_grow_where_nothing_is_predicted() {
    let mut s = flight_of(true, 20_000);
    s.tcb.congestion.controller.resume(40_000, 30_000);
    let _ = s.arrives(ACK, 50, 0, 10);
    for end in (1..=20).map(|n| n * 1_000) {
        s.tcb.congestion.note_full(-1);
        sacks(&mut s, end, &[]);
    }
    assert_eq!(s.tcb.send_status().cwnd(), 40_000);
}

/// A flight of 200 segments of 1000, of which every third is missing: more holes than the small
/// table has ranges.
fn full_of_holes() -> Script {
    let cfg = Config {
        timestamps: true,
        congestion: Congestion::NewReno,
        burst: BurstConfig::with_initial_window(200),
        ..Config::default()
    };
    let options = TcpOptions {
        sack_permitted: true,
        window_scale: Some(4),
        timestamps: Some(Timestamps { val: 5, echo: 0 }),
        ..TcpOptions::default()
    };
    let mut s = established(&cfg, options);
    s.window = 60_000;
    let _ = s.arrives(ACK, 0, 0, 0);
    echo(&mut s, 0);
    s.writes(197_600);
    assert_eq!(s.sent().len(), 200);
    s.now = s.now.after_ms(RTT);
    for third in 0..66 {
        let start = (third * 3 + 1) * 988;
        sacks(&mut s, 0, &[(start, start + 2 * 988)]);
    }
    assert_eq!(s.tcb.flight.recovery.phase, Phase::Fast);
    s
}

/// Whether an acknowledgment of new data is predicted.
fn is_predicted(s: &mut Script) -> bool {
    let end = s.tcb.snd_edge() + 988;
    s.writes(end);
    s.sent();
    s.now = s.now.after_ms(RTT);
    echo(s, 0);
    s.arrives(ACK, 0, end as i64, 0).fast_path
}

/// Once a recovery is over, and once one proves spurious, acknowledgments are predicted again,
/// however many holes there were.
#[test]
fn prediction_returns_after_many_holes() {
    let mut s = full_of_holes();
    while s.tcb.snd.una() < 197_600 {
        s.sent();
        s.now = s.now.after_ms(RTT);
        echo(&mut s, 0);
        sacks(&mut s, 197_600, &[]);
    }
    assert!(s.tcb.flight.recovery.is_open());
    assert!(is_predicted(&mut s));
    // The echo is as old as the flight: nothing was lost.
    let mut s = full_of_holes();
    assert!(!s.sent().is_empty());
    s.now = s.now.after_ms(2);
    sacks(&mut s, 197_600, &[]);
    assert_eq!(s.tcb.accounting.counters.undos, 1);
    assert!(is_predicted(&mut s));
}

/// A segment with payload is no duplicate acknowledgment, but what it reports counts (RFC 2018).
#[test]
fn reports_on_segments_with_payload_count() {
    let mut s = flight(true);
    let mut options = TcpOptions::default();
    options
        .sack
        .push(s.tcb.snd.seq(1_000), s.tcb.snd.seq(20_000));
    let _ = s.arrives_with(ACK, 0, 0, 10, options);
    assert_eq!(s.tcb.flight.recovery.phase, Phase::Fast);
    assert_eq!(repeated(&mut s), [0]);
}
