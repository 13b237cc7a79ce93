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
    for (from, to, alone) in [
        (0, 1_460, true),
        (0, 1_024, false),
        (0, 2_484, false),
        (1_460, 2_920, false),
    ] {
        let mut s = searching(0);
        assert_eq!(choice(&mut s, 0), ProbeChoice::Send(0, 1_460));
        for end in [1_460, 2_484, 2_920] {
            s.now = s.now.after_ms(1);
            s.tcb.snd.advance(end);
            s.tcb.flight.send(&s.tcb.snd, end, s.now);
        }
        s.tcb.flight.scoreboard.mark_lost_within(0, from, to);
        let is = s.tcb.flight.mtu_probe_alone_is_lost(&s.tcb.snd);
        assert_eq!(is, alone, "{from} {to}");
        assert_eq!(s.tcb.flight.mtu.is_probing(), !alone);
    }
    let mut s = searching(0);
    assert!(
        !s.tcb.flight.mtu_probe_alone_is_lost(&s.tcb.snd),
        "none was sent"
    );
    for (high, losses) in [(1_460, 1), (1_459, 0)] {
        s.tcb.flight.mtu.probe = 1_460;
        s.tcb.flight.mtu_probe_failed(&s.tcb.snd);
        let m = s.tcb.flight.mtu;
        assert_eq!((m.high, m.losses, m.probe), (high, losses, 0));
    }
    assert!(!s.tcb.flight.mtu.fresh);
    // Half of what is left is tried then; what is less than fine is not.
    assert_eq!(s.tcb.flight.mtu.next(1_024), 1_024 + 218);
    let mut m = MtuSearch::new(1_460);
    m.search_up_to(1_048, Instant(5));
    m.settle(1_023, Instant(9));
    assert_eq!((m.high, m.not_before), (1_048, Instant(5)));
    m.settle(1_024, Instant(9));
    assert_eq!((m.high, m.not_before), (1_460, Instant(9)));
    m.settle(1_460, Instant(9));
    assert_eq!(m, MtuSearch::new(1_460));
}
