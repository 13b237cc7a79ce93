//! When a probe is sent, held or left (RFC 4821 section 7.4), to the byte; and what its loss means.

use super::*;

/// Segments of 1,024 on a path that may take 1,460, with so many bytes sent and the windows open.
fn searching(sent: i64) -> Script {
    let mut s = connection();
    s.tcb.snd.set_path_mss(1_024);
    s.tcb.snd.update_mss();
    s.tcb.flight.mtu.search_up_to(1_460, s.now);
    s.tcb.snd.write(100_000);
    if sent > 0 {
        s.tcb.snd.advance(sent);
        s.tcb.flight.send(&s.tcb.snd, sent, s.now);
    }
    s.tcb.congestion.controller.set_cwnd(50_000);
    s
}

fn choice(s: &mut Script, extra: u16) -> ProbeChoice {
    let t = &mut s.tcb;
    t.flight
        .select_mtu_probe(&t.snd, &t.congestion, extra, s.now)
}

fn is_lost_alone(s: &mut Script) -> bool {
    let f = &mut s.tcb.flight;
    f.mtu.is_lost_alone(&f.scoreboard, &s.tcb.snd, f.last_sent)
}

/// The probe and three segments behind it, of what is written and of both windows.
const NEEDED: u32 = 1_460 + 3 * 1_024;

#[test]
fn a_probe_is_followed_by_three_segments() {
    let send = ProbeChoice::Send(0, 1_460);
    let mut s = searching(0);
    assert_eq!(choice(&mut s, 0), send);
    assert!(s.tcb.flight.mtu.is_probing());
    assert_eq!(choice(&mut s, 0), ProbeChoice::None, "one at a time");
    assert_eq!(choice(&mut searching(0), 8), ProbeChoice::Send(0, 1_452));
    // Options of every segment are part of what the path takes.
    let mut s = searching(0);
    s.tcb.snd.set_options_len(12);
    s.tcb.snd.update_mss();
    assert_eq!(choice(&mut s, 0), ProbeChoice::Send(0, 1_448));
    for (less, expected) in [(0, send), (1, ProbeChoice::None)] {
        let mut s = connection();
        s.tcb.snd.set_path_mss(1_024);
        s.tcb.snd.update_mss();
        s.tcb.flight.mtu.search_up_to(1_460, s.now);
        s.tcb.snd.write(i64::from(NEEDED - less));
        assert_eq!(choice(&mut s, 0), expected, "written");
        let mut s = searching(0);
        s.tcb.snd.take_window(0, 0, NEEDED - less);
        assert_eq!(choice(&mut s, 0), expected, "the peer's window");
        let mut s = searching(0);
        s.tcb.congestion.controller.set_cwnd(NEEDED - less);
        assert_eq!(choice(&mut s, 0), expected, "the congestion window");
    }
}

#[test]
fn new_data_is_held_until_the_probe_fits() {
    for (room, expected) in [
        (1_460, ProbeChoice::Send(10_000, 11_460)),
        (1_459, ProbeChoice::Hold),
    ] {
        let mut s = searching(10_000);
        s.tcb.congestion.controller.set_cwnd(10_000 + room);
        assert_eq!(choice(&mut s, 0), expected);
        assert_eq!(s.tcb.flight.mtu.is_probing(), expected != ProbeChoice::Hold);
    }
}

#[test]
fn there_is_no_probe_without_need_or_sack() {
    let none = |harm: fn(&mut Script)| {
        let mut s = searching(0);
        harm(&mut s);
        assert_eq!(choice(&mut s, 0), ProbeChoice::None);
    };
    none(|s| s.tcb.snd.set_sack(false));
    none(|s| s.tcb.flight.mtu.not_before = s.now.after_us(1));
    none(|s| s.tcb.flight.recovery.phase = crate::flight::Phase::Fast);
    none(|s| s.tcb.snd.set_peer_mss(1_024));
    // Nothing larger is left: the search is over for a while.
    let mut s = searching(0);
    s.tcb.flight.mtu.search_up_to(1_024, s.now);
    assert_eq!(choice(&mut s, 0), ProbeChoice::None);
    let again = s.tcb.flight.last_sent.after_us(RAISE_AFTER);
    assert_eq!(s.tcb.flight.mtu.not_before, again);
    assert_eq!(s.tcb.flight.mtu.high, 1_460);
}

/// RFC 4821 section 7.6.2: the probe, all of it and nothing else; twice, and its size is too much.
#[test]
fn a_size_is_given_up_after_two_losses() {
    let lost: [(&[(i64, i64)], bool); 6] = [
        (&[(0, 1_460)], true),
        (&[(0, 1_024)], false),
        (&[(0, 2_484)], false),
        (&[(1_460, 2_920)], false),
        (&[(0, 1_460), (2_484, 2_920)], false),
        (&[(0, 1_024), (2_484, 2_920)], false),
    ];
    for (lost, alone) in lost {
        let mut s = searching(0);
        assert_eq!(choice(&mut s, 0), ProbeChoice::Send(0, 1_460));
        for end in [1_460, 2_484, 2_920] {
            s.now = s.now.after_ms(1);
            s.tcb.snd.advance(end);
            s.tcb.flight.send(&s.tcb.snd, end, s.now);
        }
        for (from, to) in lost {
            s.tcb.flight.scoreboard.mark_lost_within(0, *from, *to);
        }
        assert_eq!(is_lost_alone(&mut s), alone, "{lost:?}");
        assert_eq!(s.tcb.flight.mtu.is_probing(), !alone);
    }
    let mut s = searching(0);
    assert!(!is_lost_alone(&mut s), "none was sent");
    for (high, losses) in [(1_460, 1), (1_459, 0)] {
        s.tcb.flight.mtu.probe = 1_460;
        s.tcb.flight.mtu.fail(&s.tcb.snd, s.tcb.flight.last_sent);
        let m = s.tcb.flight.mtu;
        assert_eq!((m.high, m.losses, m.probe), (high, losses, 0));
    }
    assert!(!s.tcb.flight.mtu.fresh);
    // Half of what is left is tried then; what is less than fine is not.
    assert_eq!(s.tcb.flight.mtu.next(1_024), 1_024 + 218);
    let mut m = MtuSearch::new(1_460);
    m.search_up_to(1_048, Instant(5));
    m.end_narrow_search(1_023, Instant(9));
    assert_eq!((m.high, m.not_before), (1_048, Instant(5)));
    m.end_narrow_search(1_024, Instant(9));
    assert_eq!((m.high, m.not_before), (1_460, Instant(9)));
    m.end_narrow_search(1_460, Instant(9));
    assert_eq!(m, MtuSearch::new(1_460));
}

/// What other losses, timeouts or routers do to a probe that is in flight: it gives no result.
#[test]
fn a_probe_gives_no_result_if_something_else_happens() {
    let probing = || {
        let mut s = connection();
        s.tcb.snd.set_path_mss(1_024);
        s.tcb.segment_size().bound_segments();
        s.tcb.flight.mtu.search_up_to(1_460, s.now);
        s.writes(100_000);
        assert_eq!(s.sent()[0].payload_len(), 1_460);
        assert!(s.tcb.flight.mtu.is_probing());
        s
    };
    let mut s = probing();
    crate::flight::recovery::tests::timeout(&mut s);
    assert!(!s.tcb.flight.mtu.is_probing());
    let mut s = probing();
    s.tcb.segment_size().set_path_mss(600);
    assert!(!s.tcb.flight.mtu.is_probing());
    // The user's bound.
    let mut s = probing();
    s.tcb.segment_size().set_max_segment(600);
    assert!(!s.tcb.flight.mtu.is_probing());
}

/// A probe is one packet, and no small segment for Nagle's rule, wherever it begins.
#[test]
fn a_probe_is_one_packet() {
    let mut s = connection();
    s.tcb.snd.set_path_mss(1_024);
    s.tcb.segment_size().bound_segments();
    s.writes(10_240);
    assert_eq!(s.sent().len(), 10);
    s.now = s.now.after_ms(RTT);
    sacks(&mut s, 10_240, &[]);
    let segments = s.tcb.info(s.now).data_segs_out;
    s.tcb.flight.mtu.search_up_to(1_460, s.now);
    s.tcb.settings().set_cork(true);
    s.writes(10_240 + u64::from(NEEDED));
    let sent = s.sent();
    assert_eq!((sent[0].payload_len(), sent[0].mss), (1_460, 1_460));
    assert_eq!(sent.len(), 4);
    assert_eq!(s.tcb.info(s.now).data_segs_out, segments + 4);
    assert!(s.tcb.snd.small() <= 10_240);
}

/// No probe has bytes of two records.
#[test]
fn records_are_not_probed_with() {
    let mut s = connection();
    s.tcb.snd.set_path_mss(1_024);
    s.tcb.segment_size().bound_segments();
    s.tcb.flight.mtu.search_up_to(1_460, s.now);
    s.writes(1_100);
    s.tcb.send_stream().end_record(1_100);
    s.writes(20_000);
    assert!(s.sent().iter().all(|t| t.mss <= 1_024));
    assert!(!s.tcb.flight.mtu.is_probing());
}

/// The first fallback that is shorter than the longest segment in flight, as the path counts it:
/// options are part of what it carries. The data goes again at once in segments of that size,
/// which the congestion window counts.
#[test]
fn a_black_hole_is_suspected_of_what_was_sent() {
    for (in_flight, options, expected) in [
        (1_400, 0, Some(1_024)),
        (1_400, 12, Some(1_024)),
        (1_025, 0, Some(1_024)),
        (1_024, 0, Some(512)),
        (1_013, 12, Some(1_024)),
        (1_012, 12, Some(512)),
        (513, 0, Some(512)),
        (512, 0, None),
        (500, 12, None),
    ] {
        let mut s = connection();
        s.tcb.snd.set_options_len(options);
        s.tcb.segment_size().bound_segments();
        s.tcb.snd.write(100_000);
        s.tcb.snd.advance(in_flight);
        s.tcb.flight.send(&s.tcb.snd, in_flight, s.now);
        let (t, now) = (&mut s.tcb, s.now);
        t.flight.recovery.phase = crate::flight::Phase::Open;
        let lowered = t
            .flight
            .suspect_black_hole(&mut t.snd, &mut t.congestion, false, 3, now);
        assert_eq!(lowered, expected.is_some(), "{in_flight} {options}");
        let Some(size) = expected else { continue };
        assert_eq!(t.snd.mss(), size - options);
        assert_eq!(t.flight.scoreboard.lost(), in_flight as u64);
        assert_eq!(t.flight.recovery.phase, crate::flight::Phase::Mtu);
        t.congestion.controller.set_cwnd(0);
        assert_eq!(
            t.send_status().cwnd(),
            u32::from(t.snd.mss()),
            "one segment at least"
        );
        // What is searched for is what was used.
        assert_eq!(t.flight.mtu.high, 1_460);
    }
    let mut s = connection();
    s.tcb.snd.write(100_000);
    s.tcb.snd.advance(1_400);
    s.tcb.flight.send(&s.tcb.snd, 1_400, s.now);
    let (t, now) = (&mut s.tcb, s.now);
    assert!(
        !t.flight
            .suspect_black_hole(&mut t.snd, &mut t.congestion, false, 2, now)
    );
}

/// What counts is how much is in flight, wherever in the stream.
#[test]
fn a_black_hole_is_not_suspected_of_short_segments() {
    let mut s = connection();
    s.tcb.snd.write(100_000);
    s.tcb.snd.advance(5_500);
    s.tcb.snd.acknowledge(5_000);
    let (t, now) = (&mut s.tcb, s.now);
    let mut suspect = || {
        t.flight
            .suspect_black_hole(&mut t.snd, &mut t.congestion, false, 3, now)
    };
    assert!(!suspect());
}

/// A probe that arrives while something else is repaired may have been sent again in parts: it is no
/// result.
#[test]
fn a_probe_that_arrives_in_a_recovery_says_nothing() {
    let mut s = searching(0);
    assert_eq!(choice(&mut s, 0), ProbeChoice::Send(0, 1_460));
    s.tcb.snd.advance(5_000);
    s.tcb.flight.send(&s.tcb.snd, 5_000, s.now);
    let t = &mut s.tcb;
    t.flight.recovery.phase = crate::flight::Phase::Fast;
    t.flight.scoreboard.advance(0, 1_460, |_| {});
    t.snd.acknowledge(1_460);
    let report = AckReport {
        acked: 1_460,
        ..AckReport::default()
    };
    t.flight
        .on_mtu_probe_report(&mut t.snd, &mut t.congestion, report);
    assert!(!t.flight.mtu.is_probing());
    assert_eq!((t.snd.mss(), t.flight.mtu.high), (1_024, 1_460));
}

/// A probe whose last byte is reported has arrived, and its size is used; nothing else is a result.
#[test]
fn an_acknowledgment_of_the_probe_raises_the_size() {
    for (acked, sacked, high, mss, goes_on) in [
        // Nothing of it, or a part.
        (0, None, 1_460, 1_024, true),
        (1_459, None, 1_460, 1_024, true),
        (0, Some((0, 1_459)), 1_460, 1_024, true),
        (0, Some((1, 1_460)), 1_460, 1_024, true),
        // All of it.
        (1_460, None, 1_460, 1_460, false),
        (0, Some((0, 1_460)), 1_460, 1_460, false),
        (1_000, Some((1_000, 1_460)), 1_460, 1_460, false),
        (1_460, None, 1_500, 1_460, true),
    ] {
        let mut s = searching(0);
        assert_eq!(choice(&mut s, 0), ProbeChoice::Send(0, 1_460));
        (s.tcb.flight.mtu.high, s.tcb.flight.mtu.ceiling) = (high, high);
        s.tcb.segment_size().bound_segments();
        s.tcb.snd.advance(5_000);
        s.tcb.flight.send(&s.tcb.snd, 5_000, s.now);
        let t = &mut s.tcb;
        if acked > 0 {
            t.flight.scoreboard.advance(0, acked, |_| {});
            t.snd.acknowledge(acked);
        }
        if let Some((start, end)) = sacked {
            t.flight.scoreboard.sack(acked, start, end, |_| {});
        }
        let report = AckReport {
            acked: acked as u64,
            sacked: sacked.map_or(0, |(start, end)| (end - start) as u64),
            ..AckReport::default()
        };
        let what = (acked, sacked);
        t.flight
            .on_mtu_probe_report(&mut t.snd, &mut t.congestion, report);
        assert_eq!(t.snd.mss(), mss, "{what:?}");
        assert_eq!(t.flight.mtu.is_searching(), goes_on, "{what:?}");
        assert_eq!(t.flight.mtu.is_probing(), mss == 1_024, "{what:?}");
        t.congestion.controller.set_cwnd(0);
        assert_eq!(t.send_status().cwnd(), u32::from(mss), "{what:?}");
    }
}

/// The second loss of a size that leaves little to be searched ends the search for a while.
#[test]
fn a_search_that_has_nothing_left_ends() {
    let mut s = searching(0);
    s.tcb.flight.mtu.search_up_to(1_049, s.now);
    for _ in 0..2 {
        assert_eq!(choice(&mut s, 0), ProbeChoice::Send(0, 1_049));
        s.tcb.flight.mtu.fail(&s.tcb.snd, s.tcb.flight.last_sent);
    }
    let again = s.tcb.flight.last_sent.after_us(RAISE_AFTER);
    assert_eq!(s.tcb.flight.mtu.not_before, again);
    assert_eq!(choice(&mut s, 0), ProbeChoice::None);
}
