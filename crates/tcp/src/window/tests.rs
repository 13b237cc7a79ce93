//! The receive window: scale, silly window avoidance, auto-tuning.

use super::*;
use crate::Config;
use crate::script::{ACK, Script};
use proptest::prelude::*;

/// What is told of the window: that it is closed, and, once there is memory, that it is not.
#[test]
fn without_memory_the_window_is_told_as_closed() {
    let mut s = Script::established();
    let d = s.arrives(ACK, 0, 0, 1_000);
    assert!(d.place.is_some());
    s.writes(3_000);
    let open = s.sent()[0].window;
    assert!(s.tcb.deny_room() && !s.tcb.deny_room());
    for _ in 0..2 {
        // What it acknowledges counts, and what it carries does not.
        let d = s.arrives(ACK, 1_000, 2_000, 1_000);
        assert_eq!((d.place, d.drop), (None, Some(crate::DropReason::NoRoom)));
        assert_eq!(s.tcb.snd_acked(), 2_000);
        let told = s.sent_one();
        assert_eq!((s.ack_of(&told), told.window), (1_000, 0));
    }
    // Reading is no reason to speak while that lasts, but a probe is.
    s.tcb.set_rcv_consumed(1_000, s.now);
    s.silent();
    let _ = s.arrives(ACK, 999, 2_000, 0);
    assert_eq!(s.sent_one().window, 0);
    s.tcb.grant_room();
    let told = s.sent_one();
    assert_eq!(s.ack_of(&told), 1_000);
    assert!(told.window >= open);
    let d = s.arrives(ACK, 1_000, 2_000, 1_000);
    assert!(d.place.is_some() && s.tcb.rcv_edge() == 2_000);
    s.tcb.grant_room();
    assert!(s.sent().iter().all(|t| t.window > 0));
}

#[test]
fn the_scale_is_just_large_enough() {
    for (max, scale) in [
        (0, 0),
        (65_535, 0),
        (65_536, 1),
        (6 << 20, 7),
        (16 << 20, 9),
        (u32::MAX, 14),
    ] {
        assert_eq!(scale_for(max), scale, "{max}");
    }
}

#[test]
fn small_openings_are_not_told() {
    let mut s = Script::established();
    let _ = s.arrives(ACK, 0, 0, 20_000);
    assert_eq!(s.sent_one().window, 0);
    s.tcb.set_rcv_consumed(999, s.now);
    let _ = s.arrives(ACK, 19_999, 0, 1);
    assert_eq!(s.sent_one().window, 0);
    s.tcb.set_rcv_consumed(1_000, s.now);
    let _ = s.arrives(ACK, 19_999, 0, 1);
    assert_eq!(s.sent_one().window, 1_000);
}

#[test]
fn a_clamp_bounds_the_window() {
    let mut s = Script::established();
    s.tcb.set_window_clamp(5_000);
    let _ = s.arrives(ACK, 0, 0, 17_000);
    // What was offered stays, but no more is.
    assert_eq!(s.sent_one().window, 3_000);
    s.tcb.set_rcv_consumed(17_000, s.now);
    assert_eq!(s.tcb.rcv.free_space(&s.tcb.cfg), 5_000);
}

#[test]
fn a_smaller_buffer_takes_back_nothing() {
    let mut s = Script::established();
    s.tcb.set_rcvbuf(2_000);
    let _ = s.arrives(ACK, 0, 0, 10_000);
    assert_eq!(s.sent_one().window, 10_000);
}

#[test]
fn the_buffer_follows_a_fast_reader() {
    let mut b = ReceiveBuffer::new(128 * 1024, 6 << 20, Instant(0));
    b.sample_rtt(100_000);
    let mut read = 0;
    let mut sizes = Vec::new();
    // A peer in slow start, 100 ms away, never held back.
    for round in 0..14u64 {
        let bytes = (14_480i64 << round).min(i64::from(b.size()));
        for _ in 0..10 {
            read += bytes / 10;
            b.on_consumed(read, 1448, Instant((round + 1) * 110_000));
        }
        sizes.push(b.size());
    }
    assert_eq!(*sizes.last().unwrap(), 6 << 20, "{sizes:?}");
    assert!(sizes.windows(2).all(|w| w[0] <= w[1]));
}

#[test]
fn a_slow_reader_is_given_no_more() {
    let mut b = ReceiveBuffer::new(128 * 1024, 6 << 20, Instant(0));
    b.sample_rtt(1_000);
    for i in 1..1_000u64 {
        assert!(!b.on_consumed(i as i64 * 1_000, 1448, Instant(i * 10_000)));
    }
    assert_eq!(b.size(), 128 * 1024);
}

#[test]
fn a_fixed_buffer_stays() {
    let mut b = ReceiveBuffer::new(10_000, 10_000, Instant(0));
    assert!(b.is_fixed());
    b.sample_rtt(1_000);
    assert!(!b.on_consumed(1 << 30, 1448, Instant(1_000_000)));
    assert_eq!(b.size(), 10_000);
}

#[test]
fn without_timestamps_a_windows_worth_is_a_round_trip() {
    let mut b = ReceiveBuffer::new(10_000, 1 << 20, Instant(0));
    b.sample_window(1_000, 10_000, Instant(5_000));
    b.sample_window(6_000, 10_000, Instant(20_000));
    assert_eq!(b.rtt_us(), 0);
    b.sample_window(11_000, 10_000, Instant(30_000));
    assert_eq!(b.rtt_us(), 25_000);
}

proptest! {
    /// The right edge is never taken back by more than the scale's rounding, and never
    /// offered beyond the buffer.
    #[test]
    fn the_edge_only_moves_forward(
        steps in proptest::collection::vec((0u32..3_000, 0u64..6_000), 1..100),
        scaled: bool,
        size in 1u32..100_000,
    ) {
        let cfg = Config {
            rcvbuf: size,
            rcvbuf_max: if scaled { 6 << 20 } else { size },
            ..Config::default()
        };
        let mut s = Script::established_with(&cfg, crate::input::tests::full_options());
        s.tcb.set_rcvbuf(size);
        let mut edge = 0;
        for (len, read) in steps {
            let len = len.min(s.tcb.rcv.offered());
            let at = s.tcb.rcv.nxt();
            let _ = s.arrives(ACK, at, 0, len);
            s.tcb.set_rcv_consumed(s.tcb.rcv_consumed() + read, s.now);
            let field = s.tcb.offer_window();
            let new = s.tcb.rcv.nxt() + (i64::from(field) << s.tcb.rcv.wscale());
            prop_assert!(new > edge - (1 << s.tcb.rcv.wscale()), "{} {}", new, edge);
            prop_assert!(new <= s.tcb.rcv.consumed() + i64::from(size));
            edge = edge.max(new);
            s.sent();
        }
    }
}

/// The host's memory is shared: where it is short, tuning does not promise it.
#[test]
fn the_buffer_does_not_grow_beyond_the_memory_there_is() {
    let mut b = ReceiveBuffer::new(128 * 1024, 6 << 20, Instant(0));
    b.sample_rtt(1_000);
    b.room = 300_000;
    let (mut consumed, mut now) = (0, Instant(0));
    for _ in 0..10 {
        consumed += Pos::from(b.size());
        now = now.after_ms(2);
        b.on_consumed(consumed, 1_000, now);
    }
    assert_eq!(b.size(), 300_000);
    // Less than there is already takes nothing back.
    b.room = 1_000;
    consumed += 4_000_000;
    b.on_consumed(consumed, 1_000, now.after_ms(2));
    assert_eq!(b.size(), 300_000);
}

#[test]
fn the_send_buffer_holds_two_windows_of_a_long_path_and_no_queue_of_a_short_one() {
    let wanted = |segments: u8, samples: &[u64], size| {
        let cfg = Config {
            initial_window: segments,
            ..Config::default()
        };
        let mut s = Script::established_with(&cfg, Default::default());
        s.tcb.snd.rtt = crate::rtt::RttEstimator::new();
        samples.iter().for_each(|rtt| s.tcb.snd.rtt.sample(*rtt));
        (s.tcb.snd_buffer_wanted(size), u64::from(s.tcb.cwnd()))
    };
    let (long, cwnd) = wanted(80, &[100_000; 20], 1 << 20);
    assert_eq!(long, 2 * cwnd);
    assert_eq!(wanted(80, &[50; 20], 1 << 30).0, 2 * cwnd);
    // No more is in flight than the buffer holds; it may double.
    assert_eq!(wanted(80, &[50; 20], 50_000).0, 100_000);
    // Four times the round trip is a queue.
    let mut queued = vec![50];
    queued.extend([200; 100]);
    assert_eq!(wanted(80, &queued, 1 << 30).0, 2 * (cwnd * 50 / 200));
    // Who sends much gets a good buffer at once.
    assert_eq!(wanted(200, &queued, 50_000).0, 2 << 20);
    let (far, cwnd) = wanted(200, &[100_000; 20], 50_000);
    assert_eq!(far, 2 * cwnd);
}
