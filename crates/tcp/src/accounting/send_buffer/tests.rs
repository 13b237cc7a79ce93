//! When the buffer alone is what the user waits for.

use crate::flags::Flags;
use crate::script::{ACK, Script};
use crate::state::State;

/// A connection with `written` bytes, of which all that may be sent was sent, and a buffer of
/// 4,000.
fn filled(written: u64, window: u16, cwnd: u32) -> Script {
    let mut s = Script::established();
    s.window = window;
    let _ = s.arrives(ACK, 0, 0, 0);
    s.tcb.congestion.controller.set_cwnd(cwnd);
    s.writes(written);
    s.sent();
    s.tcb.send_stream().note_buffer(4_000, s.now);
    s
}

fn limits(s: &Script) -> bool {
    s.tcb.flags.contains(Flags::BUFFER_LIMITED)
}

#[test]
fn a_full_buffer_limits_if_both_windows_have_room() {
    assert!(limits(&filled(4_000, 30_000, 30_000)));
    assert!(!limits(&filled(3_999, 30_000, 30_000)));
    // For a segment at least.
    assert!(limits(&filled(4_000, 5_000, 30_000)));
    assert!(!limits(&filled(4_000, 4_999, 30_000)));
    assert!(limits(&filled(4_000, 30_000, 5_000)));
    assert!(!limits(&filled(4_000, 30_000, 4_999)));
    // Something in it was not sent.
    assert!(!limits(&filled(6_000, 5_000, 30_000)));
    assert!(limits(&filled(5_000, 30_000, 30_000)));
}

#[test]
fn it_no_longer_limits_once_a_quarter_is_free() {
    let mut s = filled(4_000, 30_000, 30_000);
    let begun = s.now;
    s.now = s.now.after_ms(5);
    let _ = s.arrives(ACK, 0, 1_000, 0);
    s.tcb.send_stream().note_buffer(4_000, s.now);
    assert!(limits(&s), "3,000 of 4,000 are no less than three quarters");
    s.now = s.now.after_ms(5);
    let _ = s.arrives(ACK, 0, 1_001, 0);
    s.tcb.send_stream().note_buffer(4_000, s.now);
    assert!(!limits(&s));
    let spent = s.tcb.info(s.now).sndbuf_limited_us;
    assert_eq!(spent, s.now.since(begun));
    s.now = s.now.after_ms(5);
    s.tcb.send_stream().note_buffer(4_000, s.now);
    assert_eq!(s.tcb.info(s.now).sndbuf_limited_us, spent);
    // It ends as well with data that has to wait for something else.
    let mut s = filled(4_000, 5_000, 30_000);
    assert!(limits(&s));
    s.writes(6_000);
    s.sent();
    s.tcb.send_stream().note_buffer(4_000, s.now);
    assert!(!limits(&s));
}

#[test]
fn who_may_not_write_is_limited_by_nothing() {
    let mut s = filled(3_000, 30_000, 30_000);
    s.tcb.shutdown_send();
    s.sent();
    assert_eq!(s.tcb.state(), State::FinWait1);
    s.tcb.send_stream().note_buffer(3_000, s.now);
    assert!(!limits(&s));
}
