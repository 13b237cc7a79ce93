//! The user timeout (RFC 9293 section 3.8.3, TCP_USER_TIMEOUT as Linux has it): how long
//! what was written may go without progress, whether in flight or before a closed
//! window.

use crate::script::{ACK, Script};
use longshore_tcp::{Error, Events, State};

fn script(ms: u32) -> Script {
    let mut s = Script::in_state(State::Established);
    s.tcb.set_user_timeout(ms);
    s
}

fn timed_out(s: &mut Script) -> bool {
    let over = s.tcb.state() == State::Closed;
    if over {
        assert_eq!(s.tcb.error(), Some(Error::TimedOut));
        assert!(s.events().contains(Events::TIMED_OUT | Events::CLOSED));
    }
    over
}

#[test]
fn it_takes_the_place_of_the_count_of_repetitions() {
    let mut s = script(5_000);
    s.writes(100);
    s.sent_one();
    s.waits_ms(4_999);
    assert!(!timed_out(&mut s));
    s.waits_ms(1);
    assert!(timed_out(&mut s));
    // A longer one outlasts it, too.
    let mut s = script(24 * 3_600_000);
    s.writes(100);
    s.sent_one();
    let start = s.now;
    while !timed_out(&mut s) {
        s.until_timer();
        s.sent();
    }
    assert_eq!(s.now.since(start), 24 * 3_600_000_000);
    assert!(s.tcb.info(s.now).total_rto > 700);
}

#[test]
fn progress_begins_it_anew() {
    let mut s = script(5_000);
    s.writes(2_000);
    s.sent();
    s.waits_ms(4_000);
    s.sent();
    let _ = s.arrives(ACK, 0, 1_000, 0);
    s.waits_ms(4_000);
    assert!(!timed_out(&mut s));
    // An acknowledgment without progress does not.
    s.sent();
    let _ = s.arrives(ACK, 0, 1_000, 0);
    s.waits_ms(1_000);
    assert!(timed_out(&mut s));
}

#[test]
fn an_idle_connection_is_kept() {
    let mut s = script(5_000);
    s.writes(100);
    s.sent_one();
    let _ = s.arrives(ACK, 0, 100, 0);
    s.waits_ms(100_000);
    assert!(!timed_out(&mut s));
}

#[test]
fn a_window_that_stays_closed_ends_it_although_probes_are_answered() {
    let mut s = script(10_000);
    s.window = 0;
    let _ = s.arrives(ACK, 0, 0, 0);
    s.writes(100);
    s.silent();
    let start = s.now;
    while s.tcb.state() != State::Closed {
        s.until_timer();
        if s.sent().iter().any(|t| t.payload.is_empty()) && s.tcb.state() != State::Closed {
            let _ = s.arrives(ACK, 0, 0, 0);
        }
    }
    assert!(timed_out(&mut s));
    assert_eq!(s.now.since(start), 10_000_000);
    // Without a user timeout it would be kept (RFC 9293 section 3.8.6.1).
    let mut s = script(0);
    s.window = 0;
    let _ = s.arrives(ACK, 0, 0, 0);
    s.writes(100);
    s.silent();
    for _ in 0..100 {
        s.until_timer();
        s.sent();
        let _ = s.arrives(ACK, 0, 0, 0);
    }
    assert!(!timed_out(&mut s));
}

#[test]
fn setting_it_counts_the_time_that_has_passed() {
    let mut s = script(0);
    s.writes(100);
    s.sent_one();
    s.waits_ms(6_000);
    s.sent();
    s.tcb.set_user_timeout(7_000);
    s.waits_ms(999);
    assert!(!timed_out(&mut s));
    s.waits_ms(1);
    assert!(timed_out(&mut s));
}
