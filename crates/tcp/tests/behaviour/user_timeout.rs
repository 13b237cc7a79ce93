//! The user timeout (RFC 9293 section 3.8.3, TCP_USER_TIMEOUT as Linux has it): how long
//! what was written may go without progress, whether in flight or before a closed
//! window; and what the two sides tell each other of it (RFC 5482).

use crate::script::{ACK, PSH, SYN, Script, plain};
use longshore_tcp::{Config, Error, Events, State};
use longshore_wire::tcp::{TcpOptions, Timestamps};

fn script(ms: u32) -> Script {
    let mut s = Script::in_state(State::Established);
    s.tcb.settings().set_user_timeout(ms);
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
    s.tcb.settings().set_user_timeout(7_000);
    s.waits_ms(999);
    assert!(!timed_out(&mut s));
    s.waits_ms(1);
    assert!(timed_out(&mut s));
}

/// Both sides may advertise it; ours is set to this many milliseconds.
fn telling(ms: u32) -> Config {
    Config {
        user_timeout_ms: ms,
        user_timeout_option: true,
        ..plain()
    }
}

fn advice(value: u16) -> TcpOptions {
    TcpOptions {
        user_timeout: Some(value),
        ..TcpOptions::default()
    }
}

/// Where nothing is ever acknowledged: how long until the connection is given up, in
/// seconds.
fn given_up_after(s: &mut Script) -> u64 {
    let start = s.now;
    s.writes(100);
    s.sent();
    while s.tcb.state() != State::Closed {
        s.until_timer();
        s.sent();
    }
    s.now.since(start) / 1_000_000
}

#[test]
fn it_is_told_on_the_syn_and_the_first_segment_after_it() {
    let mut s = Script::connecting(&telling(90_500));
    assert_eq!(s.sent_one().options.user_timeout, Some(91));
    let _ = s.arrives(SYN | ACK, -1, 0, 0);
    let first = s.sent_one();
    assert_eq!((first.flags, first.options.user_timeout), (ACK, Some(91)));
    s.writes(100);
    assert_eq!(s.sent_one().options.user_timeout, None);

    // The other side tells it, too; the SYN-ACK is not part of `sent` here.
    let mut s = Script::accepting(&telling(40_000_000), TcpOptions::default());
    let _ = s.arrives(ACK, 0, 0, 0);
    s.writes(100);
    let first = s.sent_one();
    assert_eq!(first.options.user_timeout, Some(0x8000 | 667));
    assert_eq!(first.payload, 0..100);
}

#[test]
fn a_change_is_told_at_once() {
    let mut s = Script::established_with(&telling(0), TcpOptions::default());
    s.tcb.settings().set_user_timeout(5_000);
    let told = s.sent_one();
    assert!(told.payload.is_empty());
    assert_eq!(told.options.user_timeout, Some(5));
    s.silent();
    // The removal of the timeout cannot be advertised.
    s.tcb.settings().set_user_timeout(0);
    s.silent();
}

#[test]
fn nothing_is_told_or_followed_unless_wanted() {
    let cfg = Config {
        user_timeout_ms: 5_000,
        ..plain()
    };
    let mut s = Script::connecting(&cfg);
    assert_eq!(s.sent_one().options.user_timeout, None);
    let mut s = Script::established_with(&cfg, TcpOptions::default());
    s.tcb.settings().set_user_timeout(6_000);
    s.silent();
    let mut s = Script::established();
    let _ = s.arrives_with(ACK, 0, 0, 0, advice(200));
    assert!(given_up_after(&mut s) > 900);
    // Wanted, but there is nothing to tell.
    let mut s = Script::connecting(&telling(0));
    assert_eq!(s.sent_one().options.user_timeout, None);
}

#[test]
fn it_takes_its_room_from_the_payload() {
    let mut s = Script::established_with(&telling(0), TcpOptions::default());
    s.tcb.settings().set_user_timeout(5_000);
    s.writes(3_000);
    let sent = s.sent();
    assert_eq!(sent[0].payload, 0..996);
    assert_eq!(sent[0].options.user_timeout, Some(5));
    assert_eq!(sent[0].mss, 996);
    assert_eq!(sent[1].payload, 996..1_996);
    assert!(sent[1..].iter().all(|t| t.options.user_timeout.is_none()));
}

#[test]
fn it_waits_while_reports_need_the_room() {
    let cfg = Config {
        timestamps: true,
        sack: true,
        ..telling(0)
    };
    let options = TcpOptions {
        timestamps: Some(Timestamps { val: 1, echo: 0 }),
        sack_permitted: true,
        ..TcpOptions::default()
    };
    let mut s = Script::established_with(&cfg, options);
    for hole in 1..4 {
        let _ = s.arrives(ACK, hole * 2_000, 0, 1_000);
    }
    s.sent();
    s.tcb.settings().set_user_timeout(5_000);
    s.writes(900);
    let full = s.sent();
    assert_eq!(full[0].options.sack.len(), 3);
    assert!(full.iter().all(|t| t.options.user_timeout.is_none()));
    // Two holes are filled, and there is room.
    let _ = s.arrives(ACK, 0, 0, 2_000);
    let _ = s.arrives(ACK, 3_000, 0, 1_000);
    let told = s.sent();
    assert_eq!(told[0].options.sack.len(), 1);
    assert_eq!(told[0].options.user_timeout, Some(5));
}

#[test]
fn the_peers_advice_is_followed_within_bounds() {
    // The option's value, and the seconds until the connection is given up.
    let table = [
        (1, 100),
        (100, 100),
        (101, 101),
        (3_000, 3_000),
        (0x8000 | 3, 180),
        (0x8000 | 60, 3_600),
        (0x8000 | 61, 3_600),
        (0xffff, 3_600),
    ];
    for (value, seconds) in table {
        let mut s = Script::established_with(&telling(0), advice(value));
        assert_eq!(given_up_after(&mut s), seconds, "on the SYN-ACK: {value}");
        let mut s = Script::accepting(&telling(0), advice(value));
        let _ = s.arrives(ACK, 0, 0, 0);
        assert_eq!(given_up_after(&mut s), seconds, "on the SYN: {value}");
        let mut s = Script::established_with(&telling(0), TcpOptions::default());
        let _ = s.arrives_with(ACK, 0, 0, 0, advice(77));
        let _ = s.arrives_with(ACK | PSH, 0, 0, 100, advice(value));
        assert_eq!(given_up_after(&mut s), seconds, "later: {value}");
    }
    // 0 says nothing (RFC 5482 section 3.2).
    let mut s = Script::established_with(&telling(0), advice(200));
    let _ = s.arrives_with(ACK, 0, 0, 0, advice(0));
    let _ = s.arrives_with(ACK, 0, 0, 0, advice(0x8000));
    assert_eq!(given_up_after(&mut s), 200);
}

#[test]
fn what_the_user_has_set_is_not_changed_by_advice() {
    let mut s = Script::established_with(&telling(150_000), advice(600));
    let _ = s.arrives_with(ACK, 0, 0, 0, advice(700));
    assert_eq!(given_up_after(&mut s), 150);
    // The user's value also overrides the peer's, which is not advertised back.
    let mut s = Script::established_with(&telling(0), advice(600));
    s.writes(100);
    assert_eq!(s.sent_one().options.user_timeout, None);
    s.tcb.settings().set_user_timeout(150_000);
    assert_eq!(s.sent_one().options.user_timeout, Some(150));
    assert_eq!(given_up_after(&mut s), 150);
}

#[test]
fn advice_is_only_taken_from_segments_that_count() {
    let mut s = Script::established_with(&telling(0), TcpOptions::default());
    // Beyond the window, and an acknowledgment of what was not sent.
    let _ = s.arrives_with(ACK, 100_000, 0, 10, advice(200));
    let _ = s.arrives_with(ACK, 0, 5_000, 10, advice(200));
    assert!(given_up_after(&mut s) > 900);
}

#[test]
fn advice_that_comes_while_something_is_out_counts_from_then() {
    let mut s = Script::established_with(&telling(0), TcpOptions::default());
    s.writes(100);
    s.sent_one();
    s.waits_ms(60_000);
    let _ = s.arrives_with(ACK, 0, 0, 0, advice(200));
    s.waits_ms(139_999);
    assert!(!timed_out(&mut s));
    s.waits_ms(1);
    assert!(timed_out(&mut s));
}

#[test]
fn advice_does_not_outlast_the_program() {
    let mut s = Script::established_with(&telling(0), advice(3_600));
    s.writes(100);
    s.sent_one();
    let start = s.now;
    s.tcb.close(s.now);
    while s.tcb.state() != State::Closed {
        s.until_timer();
        s.sent();
        let _ = s.arrives_with(ACK, 0, 0, 0, advice(3_600));
    }
    // Eight repetitions, as of any connection without a program.
    assert!(s.now.since(start) < 300_000_000);
}
