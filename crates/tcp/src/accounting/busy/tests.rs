//! What counts as busy, and as held up by the window.

use crate::script::{ACK, Script};
use crate::time::MS;

/// tcpi_busy_time and tcpi_rwnd_limited, milliseconds, as a program reads them.
fn times(s: &Script) -> (u64, u64) {
    let bytes = s.tcb.info(s.now).to_linux();
    let at = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap()) / MS;
    (at(168), at(176))
}

/// Acknowledges everything up to `ack`, offering `window`.
fn answers(s: &mut Script, ack: i64, window: u16) {
    s.window = window;
    let _ = s.arrives(ACK, 0, ack, 0);
    s.sent();
}

#[test]
fn busy_is_what_is_in_flight() {
    let mut s = Script::established();
    s.waits_ms(50);
    assert_eq!(times(&s), (0, 0));
    s.writes(1_000);
    s.sent();
    s.waits_ms(20);
    assert_eq!(times(&s), (20, 0));
    s.writes(2_000);
    s.sent();
    answers(&mut s, 1_000, 30_000);
    s.waits_ms(10);
    answers(&mut s, 2_000, 30_000);
    s.waits_ms(70);
    assert_eq!(times(&s), (30, 0));
    // What is predicted and what is not, alike.
    s.writes(3_000);
    s.sent();
    s.tcb.prediction = crate::prediction::Prediction::OFF;
    s.waits_ms(5);
    answers(&mut s, 3_000, 30_000);
    s.waits_ms(5);
    assert_eq!(times(&s), (35, 0));
}

#[test]
fn a_closed_window_is_busy_and_limits() {
    let mut s = Script::established();
    s.writes(1_000);
    s.sent();
    answers(&mut s, 1_000, 0);
    s.waits_ms(40);
    assert_eq!(times(&s), (0, 0));
    s.writes(2_000);
    s.silent();
    s.waits_ms(100);
    assert_eq!(times(&s), (100, 100));
    // It opens by less than is worth a segment.
    answers(&mut s, 1_000, 10);
    s.waits_ms(50);
    assert_eq!(times(&s), (150, 150));
    answers(&mut s, 1_000, 2_000);
    s.waits_ms(30);
    assert_eq!(times(&s), (180, 150));
    answers(&mut s, 2_000, 2_000);
    s.waits_ms(30);
    assert_eq!(times(&s), (180, 150));
}

#[test]
fn a_full_window_limits_with_data_in_flight() {
    let mut s = Script::established();
    s.writes(10_000);
    s.window = 2_000;
    let _ = s.arrives(ACK, 0, 0, 0);
    assert_eq!(s.sent().len(), 2);
    s.waits_ms(10);
    answers(&mut s, 2_000, 10_000);
    s.waits_ms(10);
    assert_eq!(times(&s), (20, 10));
}

/// tcpi_sndbuf_limited in milliseconds, after the engine has reported a buffer of `size`.
fn buffer_limited(s: &mut Script, size: u32) -> u64 {
    s.tcb.send_stream().note_buffer(size, s.now);
    let bytes = s.tcb.info(s.now).to_linux();
    u64::from_ne_bytes(bytes[184..192].try_into().unwrap()) / MS
}

#[test]
fn a_full_send_buffer_limits_once_all_is_sent() {
    let mut s = Script::established();
    s.writes(3_000);
    s.sent();
    assert_eq!(buffer_limited(&mut s, 4_000), 0);
    s.waits_ms(10);
    assert_eq!(buffer_limited(&mut s, 4_000), 0);
    s.writes(4_000);
    s.sent();
    assert_eq!(buffer_limited(&mut s, 4_000), 0);
    s.waits_ms(20);
    assert_eq!(buffer_limited(&mut s, 4_000), 20);
    // The user is told of room when a quarter is free.
    answers(&mut s, 500, 30_000);
    assert_eq!(buffer_limited(&mut s, 4_000), 20);
    s.waits_ms(5);
    assert_eq!(buffer_limited(&mut s, 4_000), 25);
    answers(&mut s, 1_500, 30_000);
    assert_eq!(buffer_limited(&mut s, 4_000), 25);
    s.waits_ms(5);
    assert_eq!(buffer_limited(&mut s, 4_000), 25);
    // It fills up again; what the tuning adds to it ends the wait as well.
    s.writes(5_500);
    s.sent();
    assert_eq!(buffer_limited(&mut s, 4_000), 25);
    s.waits_ms(5);
    assert_eq!(buffer_limited(&mut s, 8_000), 30);
    s.waits_ms(5);
    assert_eq!(buffer_limited(&mut s, 8_000), 30);
}

#[test]
fn a_full_send_buffer_limits_nobody_behind_a_full_window() {
    let mut s = Script::established();
    s.window = 4_500;
    let _ = s.arrives(ACK, 0, 0, 0);
    s.writes(4_000);
    s.sent();
    assert_eq!(buffer_limited(&mut s, 4_000), 0);
    s.waits_ms(20);
    assert_eq!(buffer_limited(&mut s, 4_000), 0);
    // Unsent data are not held up by the buffer either.
    s.window = 0;
    answers(&mut s, 4_000, 0);
    s.writes(8_000);
    s.silent();
    s.waits_ms(20);
    assert_eq!(buffer_limited(&mut s, 4_000), 0);
}

/// tcpi_total_rto, tcpi_total_rto_recoveries and tcpi_total_rto_time.
fn timeouts(s: &Script) -> (u16, u16, u32) {
    let bytes = s.tcb.info(s.now).to_linux();
    let half = |at: usize| u16::from_ne_bytes(bytes[at..at + 2].try_into().unwrap());
    let word = u32::from_ne_bytes(bytes[244..248].try_into().unwrap());
    (half(240), half(242), word)
}

#[test]
fn repairs_after_timeouts_are_counted_and_timed() {
    let mut s = Script::established();
    s.writes(3_000);
    s.sent();
    s.until_timer();
    assert_eq!(timeouts(&s), (1, 1, 0));
    s.sent();
    let rest = s.until_timer() / MS;
    assert_eq!(timeouts(&s), (2, 1, rest as u32));
    s.sent();
    s.waits_ms(20);
    let repairing = rest as u32 + 20;
    assert_eq!(timeouts(&s), (2, 1, repairing));
    // Not all of it is repaired with this.
    answers(&mut s, 1_000, 30_000);
    s.waits_ms(20);
    assert_eq!(timeouts(&s), (2, 1, repairing + 20));
    answers(&mut s, 3_000, 30_000);
    s.waits_ms(20);
    assert_eq!(timeouts(&s), (2, 1, repairing + 20));
    s.writes(4_000);
    s.sent();
    s.until_timer();
    s.sent();
    s.waits_ms(20);
    assert_eq!(timeouts(&s), (3, 2, repairing + 40));
}

#[test]
fn a_handshake_that_is_repeated_is_repaired_by_its_end() {
    let mut s = Script::connecting(&crate::script::plain());
    s.sent_one();
    s.until_timer();
    s.sent_one();
    s.waits_ms(30);
    assert_eq!(timeouts(&s), (1, 1, 30));
    let options = longshore_wire::tcp::TcpOptions::default();
    let _ = s.arrives_with(crate::script::SYN | ACK, -1, 0, 0, options);
    s.waits_ms(30);
    assert_eq!(timeouts(&s), (1, 1, 30));
}
