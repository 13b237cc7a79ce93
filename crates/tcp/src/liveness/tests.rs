//! When a peer counts as gone.

use super::*;

/// RFC 9293 section 3.8.3, R2: by the number, or by the time that the number takes with the
/// shortest timeout (0.2, 0.4, 0.8 and 1.6 s); never before a retry.
#[test]
fn a_peer_is_given_up_by_number_or_time() {
    let since = Instant(5_000_000);
    let mut l = Liveness::new(since);
    let r2 = since.after_ms(3_000);
    assert!(!l.has_reached_r2(3, r2.after_ms(1_000_000)));
    l.note_retry();
    let just_before = Instant(r2.0 - 1);
    assert!(!l.has_reached_r2(3, just_before) && l.has_reached_r2(3, r2));
    l.note_retry();
    assert!(!l.has_reached_r2(3, just_before));
    l.note_retry();
    assert!(l.has_reached_r2(3, since));
    l.note_progress();
    assert!(!l.has_reached_r2(3, r2));
}
