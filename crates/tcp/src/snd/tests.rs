//! The send side's numbers, and that each of its invariants is able to fail.

use super::*;
use proptest::prelude::*;

fn side() -> SendSide {
    SendSide {
        una: 100,
        nxt: 300,
        edge: 400,
        wl1: 0,
        wl2: 100,
        wnd: 1_000,
        max_wnd: 2_000,
        push: 400,
        small: 300,
        up: 400,
        ..SendSide::new(SeqNumber(u32::MAX - 150), 1_000, 1_000, 1_000, 0)
    }
}

fn wrong(harm: impl FnOnce(&mut SendSide)) -> Option<&'static str> {
    let mut side = side();
    harm(&mut side);
    side.check().err().map(|violation| violation.0)
}

#[test]
fn each_invariant_is_able_to_fail() {
    assert_eq!(wrong(|_| {}), None);
    let what = |harm: fn(&mut SendSide)| wrong(harm).expect("harm that shows");
    assert_eq!(what(|s| s.una = -2), "acknowledged before the SYN");
    assert_eq!(what(|s| s.una = 301), "acknowledged beyond what was sent");
    assert_eq!(what(|s| s.nxt = 401), "sent beyond what was written");
    assert_eq!(what(|s| s.wl2 = 301), "a window for what was not sent");
    assert_eq!(what(|s| s.push = 401), "pushed beyond what was written");
    assert_eq!(what(|s| s.small = 301), "a small segment that was not sent");
    assert_eq!(what(|s| s.up = 401), "urgent beyond what was written");
    assert_eq!(what(|s| s.wnd = 2_001), "a window beyond the largest");
    assert_eq!(what(|s| s.wscale = 15), "a window scale beyond 14");
    assert_eq!(what(|s| s.mss = 0), "segments longer than the path takes");
    assert_eq!(
        what(|s| s.options = 1),
        "segments longer than the path takes"
    );
    // At the edges all is well; a FIN takes a byte.
    assert_eq!(wrong(|s| (s.una, s.fin) = (300, true)), None);
    assert_eq!(
        wrong(|s| (s.una, s.nxt, s.fin) = (401, 401, true)),
        None,
        "the FIN is sent"
    );
    assert_eq!(wrong(|s| (s.una, s.wl2) = (SYN_POS, SYN_POS)), None);
    assert_eq!(wrong(|s| (s.wnd, s.wscale) = (2_000, 14)), None);
    assert_eq!(wrong(|s| (s.mss, s.options) = (988, 12)), None);
}

#[test]
fn syn_and_fin_are_no_data() {
    let mut s = SendSide::new(SeqNumber(9), 1_000, 1_000, 1_000, 0);
    assert_eq!((s.acked(), s.sent(), s.in_flight()), (0, 0, 0));
    assert!(!s.is_synchronized() && !s.fin_acked());
    s.advance(0);
    assert_eq!((s.acked(), s.sent(), s.in_flight()), (0, 0, 1));
    s.handle_first_ack(0);
    assert!(s.is_synchronized());
    s.write(10);
    s.close();
    assert_eq!((s.end(), s.push()), (11, 10));
    s.advance(11);
    s.acknowledge(10);
    assert!(!s.fin_acked());
    s.acknowledge(11);
    assert!(s.fin_acked());
    assert_eq!((s.acked(), s.sent(), s.in_flight()), (10, 10, 0));
}

/// RFC 9293 section 3.10.7.4, fifth, with what Linux adds.
#[test]
fn a_window_is_newer_by_wl1_and_wl2() {
    let mut s = side();
    (s.una, s.wl1, s.wl2) = (100, 50, 90);
    for (start, ack, newer) in [
        (0, 99, false),
        (50, 99, false),
        (0, 101, true),
        (49, 100, false),
        (50, 100, true),
        (51, 100, true),
    ] {
        assert_eq!(s.is_newer_window(start, ack), newer, "{start} {ack}");
    }
    // With the same sequence number an older acknowledgment is older.
    s.wl2 = 101;
    assert!(!s.is_newer_window(50, 100));
}

/// RFC 6691: what the peer, the path and the user allow, less the options; RFC 7323 section 2.3:
/// a shift beyond 14 is 14.
#[test]
fn the_size_of_segments_and_the_shift_of_windows_are_bounded() {
    let mss = |peer, path, bound, options| {
        let mut s = SendSide::new(SeqNumber(0), 536, peer, path, 0);
        s.set_bound(bound);
        s.set_options_len(options);
        s.update_mss();
        s.mss()
    };
    assert_eq!(mss(1_460, 1_400, 0, 0), 1_400);
    assert_eq!(mss(1_300, 1_400, 0, 12), 1_288);
    assert_eq!(mss(1_300, 1_400, 1_000, 12), 988);
    assert_eq!(mss(1_300, 1_400, 2_000, 0), 1_300);
    assert_eq!(mss(1_300, 1_400, 1, 12), MIN_MSS - 12);
    for (shift, used) in [(0, 0), (13, 13), (14, 14), (15, 14), (255, 14)] {
        let mut s = side();
        s.scale(shift);
        assert_eq!(s.wscale(), used);
    }
}

/// The edge of the peer's window counts from SND.UNA, but a SYN is none of the stream.
#[test]
fn the_window_begins_with_what_is_not_acknowledged() {
    let mut s = SendSide::new(SeqNumber(9), 1_000, 1_000, 1_000, 0);
    s.handle_syn(1_000, 500);
    assert_eq!(s.wnd_edge(), 500);
    s.acknowledge(200);
    assert_eq!(s.wnd_edge(), 700);
    s.take_window(7, 200, 400);
    assert_eq!((s.wnd(), s.max_wnd(), s.wl1()), (400, 500, 7));
    s.take_window(8, 200, 600);
    assert_eq!((s.wnd(), s.max_wnd(), s.wl1()), (600, 600, 8));
}

proptest! {
    /// Positions and sequence numbers are the same within 2 GiB of SND.UNA, wherever the stream
    /// wraps.
    #[test]
    fn a_position_is_the_one_nearest(iss: u32, una in -1i64..1 << 40, off in -(1i64 << 31)..1 << 31) {
        let mut s = SendSide::new(SeqNumber(iss), 1_000, 1_000, 1_000, 0);
        s.una = una;
        prop_assert_eq!(s.pos(s.seq(una + off)), una + off);
        prop_assert_eq!(s.seq(-1), SeqNumber(iss));
    }
}
