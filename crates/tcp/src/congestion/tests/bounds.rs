//! The bounds that hold for every algorithm, and what is done on its behalf.

use super::*;

fn all() -> impl Iterator<Item = Controller> {
    Congestion::ALL.into_iter().map(controller)
}

/// RFC 6928: the initial window in segments, at least one.
#[test]
fn it_starts_with_the_initial_window() {
    for which in Congestion::ALL {
        for (segments, cwnd) in [(10, 10_000), (1, 1_000), (0, 1_000)] {
            let c = Controller::new(which, 1_000, segments);
            assert_eq!((c.cwnd(), c.restart_window()), (cwnd, cwnd));
            assert_eq!(c.ssthresh(), u32::MAX);
            assert!(c.in_slow_start());
        }
    }
}

#[test]
fn what_is_resumed_is_bounded() {
    for mut c in all() {
        for (saved, window) in [
            ((5_000, 7_000), (5_000, 7_000)),
            ((0, 0), (1_000, 2_000)),
            ((999, 1_999), (1_000, 2_000)),
            ((u32::MAX, u32::MAX), (MAX_CWND, u32::MAX)),
        ] {
            c.resume(saved.0, saved.1);
            assert_eq!((c.cwnd(), c.ssthresh()), window);
        }
    }
}

/// The window is at least one segment, at most the largest one; an algorithm with rates sets it
/// itself.
#[test]
fn a_window_that_is_set_is_bounded() {
    for mut c in all() {
        let own = c.wants_rates();
        for (bytes, cwnd) in [
            (0, 1_000),
            (999, 1_000),
            (5_000, 5_000),
            (u32::MAX, MAX_CWND),
        ] {
            c.set_cwnd(bytes);
            assert_eq!(c.cwnd(), if own { 10_000 } else { cwnd });
        }
        c.set_mss(500);
        c.set_cwnd(600);
        c.set_mss(1_000);
        assert_eq!(c.cwnd(), if own { 10_000 } else { 1_000 });
        c.set_mss(20_000);
        assert_eq!(c.cwnd(), 20_000);
    }
    assert!(Congestion::Bbr.wants_rates() && !Congestion::Cubic.wants_rates());
    assert!(Congestion::Dctcp.wants_marks() && !Congestion::Bbr.wants_marks());
}

/// RFC 5681 equation 4: the threshold is two segments at least.
#[test]
fn the_threshold_is_two_segments_at_least() {
    for mut c in all().filter(|c| !c.wants_rates()) {
        c.on_loss(0);
        assert_eq!(c.ssthresh(), 2_000);
        c.set_cwnd(1_500);
        c.on_congestion_marked(0);
        assert!(c.ssthresh() >= 2_000);
        assert_eq!(c.cwnd(), 1_500, "a mark opens no window");
    }
}

/// RFC 4015 section 3.2: not less than before, nor than now.
#[test]
fn undoing_gives_back_what_was_taken() {
    for which in WINDOWED {
        for (cwnd, ssthresh, expected) in [
            (30_000, 40_000, (30_000, 40_000)),
            (1_000, 2_000, (20_000, 25_000)),
            (u32::MAX, u32::MAX, (MAX_CWND, u32::MAX)),
        ] {
            let mut c = controller(which);
            c.resume(20_000, 25_000);
            c.undo(cwnd, ssthresh);
            assert_eq!((c.cwnd(), c.ssthresh()), expected);
        }
    }
}

/// RFC 5681 section 4.1: a pause leaves the restart window at most; BBR keeps its own.
#[test]
fn a_pause_leaves_the_restart_window() {
    for mut c in all() {
        let own = c.wants_rates();
        for (cwnd, left) in [(50_000, 10_000), (10_000, 10_000), (3_000, 3_000)] {
            c.resume(cwnd, u32::MAX);
            c.on_idle();
            assert_eq!(c.cwnd(), if own { cwnd } else { left });
        }
    }
}

#[test]
fn to_choose_the_same_algorithm_changes_nothing() {
    let mut c = controller(Congestion::Cubic);
    c.set_cwnd(100_000);
    c.on_loss(100_000);
    let before = c;
    c.choose(Congestion::Cubic);
    assert_eq!(c, before);
    c.choose(Congestion::NewReno);
    assert_eq!((c.cwnd(), c.ssthresh()), (100_000, 70_000));
    assert_eq!(c.which(), Congestion::NewReno);
}

/// RFC 3465 section 2.1: a segment for each window of bytes, however they come.
#[test]
fn newreno_counts_bytes() {
    let mut c = controller(Congestion::NewReno);
    c.resume(10_000, 2_000);
    c.on_ack(&ack(9_999, 0, Instant(0)));
    assert_eq!(c.cwnd(), 10_000);
    c.on_ack(&ack(1, 0, Instant(0)));
    assert_eq!(c.cwnd(), 11_000);
    c.on_ack(&ack(23_000, 0, Instant(0)));
    assert_eq!(c.cwnd(), 13_000);
    // What is left over from slow start counts as congestion avoidance.
    c.resume(9_000, 10_000);
    c.on_loss(20_000);
    c.on_ack(&ack(11_000, 0, Instant(0)));
    assert_eq!(c.cwnd(), 11_000);
    c.window.grow(u32::MAX);
    assert_eq!(c.cwnd(), MAX_CWND);
}

/// In slow start the ends of a window are one byte apart.
#[test]
fn slow_start_is_below_the_threshold() {
    let mut c = controller(Congestion::NewReno);
    c.resume(10_000, 10_000);
    assert!(!c.in_slow_start());
    c.resume(9_999, 10_000);
    assert!(c.in_slow_start());
    c.on_timeout(40_000, true);
    assert_eq!((c.cwnd(), c.ssthresh()), (1_000, 20_000));
}

/// The invariants of a connection's window are able to fail.
#[test]
fn windows_that_cannot_be_are_found() {
    let what = |cwnd: u32, ssthresh: u32| {
        let mut c = controller(Congestion::NewReno);
        (c.window.cwnd, c.window.ssthresh) = (cwnd, ssthresh);
        CongestionState::new(c).check().map_err(|found| found.0)
    };
    assert_eq!(what(1, 1), Ok(()));
    assert_eq!(what(MAX_CWND, u32::MAX), Ok(()));
    assert_eq!(what(0, 1), Err("no congestion window"));
    let beyond = Err("a congestion window beyond the largest");
    assert_eq!(what(MAX_CWND + 1, 1), beyond);
    assert_eq!(what(1, 0), Err("no slow start threshold"));
    let mut s = crate::script::Script::established();
    s.tcb.congestion.controller.window.cwnd = 0;
    assert!(s.tcb.check().is_err());
}

#[test]
fn dctcp_alone_wants_marks_and_bbr_rates() {
    for c in all() {
        assert_eq!(c.wants_marks(), c.which() == Congestion::Dctcp);
        assert_eq!(c.wants_rates(), c.which() == Congestion::Bbr);
    }
}

/// After a pause, what was acknowledged before does not count for the next segment.
#[test]
fn a_pause_forgets_what_was_counted() {
    for which in [Congestion::NewReno, Congestion::Dctcp] {
        let mut c = controller(which);
        c.resume(10_000, 10_000);
        c.on_ack(&ack(9_999, 1_000, Instant(1)));
        c.on_idle();
        c.on_ack(&ack(9_999, 1_000, Instant(2)));
        assert_eq!(c.cwnd(), 10_000);
        c.on_ack(&ack(1, 1_000, Instant(2)));
        assert_eq!(c.cwnd(), 11_000);
    }
}

/// BBR's first pace is that of the window in the round trip of the handshake.
#[test]
fn the_handshake_gives_the_first_pace() {
    use crate::script::{ACK, SYN, Script, plain};
    let cfg = crate::Config {
        congestion: Congestion::Bbr,
        ..plain()
    };
    let mut s = Script::connecting(&cfg);
    s.sent();
    s.now = s.now.after_ms(20);
    let _ = s.arrives(SYN | ACK, -1, 0, 0);
    let info = s.tcb.info(s.now);
    let rate = u64::from(info.snd_cwnd) * 1_000_000 / info.rtt_us;
    assert_eq!(info.pacing_rate, rate * 277 / 100);
}

/// RFC 9438 section 5.8, RFC 7661: the window was used if it was full when what is acknowledged
/// was sent; in slow start also if more than half of it was in flight in this round trip.
#[test]
fn a_window_that_was_full_or_half_full_was_used() {
    use crate::flight::recovery::tests::flight_of;
    for (full_at, used) in [(-1, false), (0, true), (1, true)] {
        let mut s = flight_of(true, 20_000);
        s.tcb.congestion.controller.resume(20_000, 10_000);
        s.tcb.congestion.full_at = full_at;
        assert_eq!(s.tcb.congestion.window_was_used(&s.tcb.snd), used);
    }
    for (cwnd, used) in [(39_999, true), (40_000, false)] {
        let mut s = flight_of(true, 20_000);
        s.tcb.congestion.controller.resume(cwnd, u32::MAX);
        s.tcb.congestion.full_at = -1;
        assert_eq!(s.tcb.congestion.window_was_used(&s.tcb.snd), used);
    }
    // The most of this round trip, which ends with what was in flight then.
    for (before, after) in [
        ((20_000, 1), (20_000, 1)),
        ((20_001, 1), (20_001, 1)),
        ((19_999, 1), (20_000, 20_000)),
        ((50_000, 0), (20_000, 20_000)),
    ] {
        let mut s = flight_of(true, 20_000);
        let c = &mut s.tcb.congestion;
        c.controller.resume(20_000, u32::MAX);
        (c.most_flight, c.flight_until) = before;
        let _ = c.window_was_used(&s.tcb.snd);
        assert_eq!((c.most_flight, c.flight_until), after, "{before:?}");
    }
}
