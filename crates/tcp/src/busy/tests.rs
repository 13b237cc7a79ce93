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
    s.tcb.predict = crate::input::UNPREDICTABLE;
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
