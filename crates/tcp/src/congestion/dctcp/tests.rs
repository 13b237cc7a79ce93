//! RFC 8257 section 3.3, window by window.

use super::*;
use crate::time::Instant;

fn window(cwnd: u32) -> Window {
    Window {
        cwnd,
        ssthresh: 1,
        mss: 1_000,
    }
}

/// DCTCP.Alpha <- Alpha (1 - g) + g M, once for each window of data, with g = 1/16.
#[test]
fn alpha_is_updated_once_a_window() {
    let mut d = Dctcp::new();
    d.on_marks(1_000, 500, 0, 10_000);
    // 15/16 + 1/16 * 1/2
    let first = ONE / 16 * 15 + ONE / 32;
    assert_eq!((d.alpha, d.window_end), (first, 10_000));
    for una in [1_000, 9_999] {
        d.on_marks(1_000, 0, una, 12_000);
        assert_eq!(d.alpha, first);
    }
    // A quarter of 4,000; more than all cannot be marked.
    d.on_marks(1_000, 500, 9_999, 12_000);
    d.on_marks(1_000, 5_000, 10_000, 20_000);
    let share = 1_500 * ONE / 4_000;
    assert_eq!(d.alpha, first - first.div_ceil(16) + share / 16);
    assert_eq!((d.window_end, d.acked, d.marked), (20_000, 0, 0));
    // Without anything acknowledged there is no share.
    let alpha = d.alpha;
    d.on_marks(0, 0, 20_000, 21_000);
    assert_eq!((d.alpha, d.window_end), (alpha, 21_000));
    // All marked is 1, and stays.
    for round in 3..200 {
        d.on_marks(1_000, 1_000, round * 10_000, (round + 1) * 10_000);
        assert!(d.alpha <= ONE);
    }
    assert!(d.alpha > ONE - 32);
}

/// cwnd <- cwnd (1 - Alpha / 2).
#[test]
fn a_mark_takes_half_of_alpha() {
    for (alpha, cwnd) in [(ONE, 50_000), (ONE / 2, 75_000), (0, 100_000)] {
        let mut d = Dctcp::new();
        d.alpha = alpha;
        assert_eq!(d.on_marked(&window(100_000), 1), cwnd);
    }
}

/// Section 3.5: in everything else it is as NewReno.
#[test]
fn growth_and_losses_are_newrenos() {
    let mut d = Dctcp::new();
    let mut w = window(10_000);
    let mut acks = |d: &mut Dctcp, acked| {
        let ack = Ack {
            acked,
            una: 0,
            nxt: 0,
            rtt: 0,
            srtt: 0,
            now: Instant(0),
        };
        d.on_ack(&mut w, &ack);
        w.cwnd
    };
    assert_eq!(acks(&mut d, 9_999), 10_000);
    assert_eq!(acks(&mut d, 1), 11_000);
    // What was counted is forgotten by a loss, a timeout and a pause.
    let forget: [fn(&mut Dctcp); 3] = [
        |d| {
            d.on_loss(&window(1), 1);
        },
        |d| d.on_timeout(),
        |d| d.on_idle(),
    ];
    for forget in forget {
        assert_eq!(acks(&mut d, 10_999), 11_000);
        forget(&mut d);
        assert_eq!(acks(&mut d, 10_999), 11_000);
        forget(&mut d);
    }
    assert_eq!(d.on_loss(&window(100_000), 60_000), 30_000);
}
