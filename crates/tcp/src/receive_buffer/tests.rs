//! The receive buffer: scale and auto-tuning.

use super::*;

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

/// What was read in a round trip is not known before that is.
#[test]
fn a_buffer_grows_only_by_round_trips() {
    let mut b = ReceiveBuffer::new(10_000, 1 << 20, Instant(0));
    assert!(!b.on_consumed(100_000, 1_000, Instant(1_000_000)));
    b.sample_rtt(50_000);
    let since = Instant(2_000_000);
    b.restart(0, since);
    assert!(!b.on_consumed(100_000, 1_000, since.after_us(49_999)));
    assert_eq!((b.size(), b.space()), (10_000, 0));
    assert!(b.on_consumed(100_000, 1_000, since.after_us(50_000)));
    // Twice as much, and sixteen segments.
    assert_eq!((b.size(), b.space()), (216_000, 100_000));
}

#[test]
fn a_fixed_buffer_stays() {
    let mut b = ReceiveBuffer::new(10_000, 10_000, Instant(0));
    assert!(b.is_fixed());
    b.sample_rtt(1_000);
    assert!(!b.on_consumed(1 << 30, 1448, Instant(1_000_000)));
    // Nothing is measured for it, either.
    assert_eq!((b.size(), b.space()), (10_000, 0));
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

/// Twice what was read in a round trip, twice what that was more than before, and 16 segments.
#[test]
fn the_size_is_twice_what_is_read_and_what_it_grows_by() {
    let mut b = ReceiveBuffer::new(1_000, 1_000_000, Instant(0));
    b.sample_rtt(10_000);
    assert!(
        !b.on_consumed(9_000, 100, Instant(9_999)),
        "no round trip yet"
    );
    assert!(b.on_consumed(10_000, 100, Instant(10_000)));
    assert_eq!((b.size(), b.space()), (21_600, 10_000));
    assert!(b.on_consumed(25_000, 100, Instant(20_000)));
    assert_eq!((b.size(), b.space()), (41_600, 15_000));
    // No more than before: no reason to grow.
    assert!(!b.on_consumed(40_000, 100, Instant(30_000)));
    assert!(!b.on_consumed(50_000, 100, Instant(40_000)));
    assert_eq!(b.space(), 15_000);
    // Memory and the upper bound hold.
    b.set_room(50_000);
    assert!(b.on_consumed(90_000, 100, Instant(50_000)));
    assert_eq!(b.size(), 50_000);
    assert!(!b.on_consumed(140_000, 100, Instant(60_000)));
    b.set_room(u32::MAX);
    assert!(b.on_consumed(10_000_000, 100, Instant(70_000)));
    assert_eq!((b.size(), b.space()), (1_000_000, 1_000_000));
    assert!(b.is_fixed());
}

/// The least is kept, and what is longer counts for a thirty-second.
#[test]
fn the_receivers_round_trip_follows_slowly() {
    let mut b = ReceiveBuffer::new(1_000, 1_000_000, Instant(0));
    for (sample, rtt) in [
        (32_000, 32_000),
        (64_000, 33_000),
        (33_000, 33_000),
        (5_000, 5_000),
        (0, 1),
        (u64::MAX, 1 + (9_999_999 >> 5)),
    ] {
        b.sample_rtt(sample);
        assert_eq!(b.rtt_us(), rtt, "{sample}");
    }
}

/// Without timestamps: from the window that was offered to its end.
#[test]
fn a_window_is_measured_from_its_beginning() {
    let mut b = ReceiveBuffer::new(1_000, 1_000_000, Instant(0));
    b.sample_window(100, 1_000, Instant(1_000));
    assert_eq!(b.rtt_us(), 0, "it has just begun");
    b.sample_window(1_099, 1_000, Instant(5_000));
    assert_eq!(b.rtt_us(), 0);
    b.sample_window(1_100, 500, Instant(6_000));
    assert_eq!(b.rtt_us(), 5_000);
    b.sample_window(1_600, 500, Instant(7_000));
    assert_eq!(b.rtt_us(), 1_000);
}
