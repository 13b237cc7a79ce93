//! Deadlines, in each state in which they may pass.

use super::*;
use crate::config::Keepalive;
use crate::script::{ACK, FIN, RST, Script, plain};
use longshore_wire::tcp::TcpFlags;

// ---- What `ss -o` shows. ----

/// The timer for data comes before the one of the state, and that before keepalive.
#[test]
fn the_running_timer_is_the_one_that_linux_would_show() {
    let timer = |s: &Script| s.tcb.running_timer();
    let mut s = Script::established();
    assert_eq!(timer(&s), None);
    let keepalive = Keepalive {
        enabled: true,
        idle_ms: 10_000,
        ..Keepalive::default()
    };
    s.tcb.settings().set_keepalive(keepalive, s.now);
    let at = s.now.after_ms(10_000);
    assert_eq!(timer(&s), Some((RunningTimer::Keepalive, at)));
    s.writes(100);
    s.sent();
    let (which, at) = timer(&s).expect("a timer");
    assert_eq!(which, RunningTimer::Retransmission);
    assert_eq!(Some(at), s.tcb.deadline());

    let mut s = Script::established();
    s.window = 0;
    let _ = s.arrives(ACK, 0, 0, 0);
    s.writes(100);
    s.silent();
    assert_eq!(timer(&s).map(|t| t.0), Some(RunningTimer::Persist));
    let s = Script::in_state(State::TimeWait);
    assert_eq!(timer(&s).map(|t| t.0), Some(RunningTimer::TimeWait));
    let named = [
        (RunningTimer::Retransmission, "on"),
        (RunningTimer::Persist, "persist"),
        (RunningTimer::Keepalive, "keepalive"),
        (RunningTimer::TimeWait, "timewait"),
    ];
    for (timer, name) in named {
        assert_eq!(timer.name(), name);
    }
}

// ---- Acknowledgments and corks. ----

/// RFC 9293 section 3.8.6.3: no acknowledgment is delayed for longer than the delay, and none is
/// sent for nothing.
#[test]
fn an_acknowledgment_is_delayed_and_then_sent_once() {
    let mut s = Script::established();
    s.writes(10);
    s.sent();
    let _ = s.arrives(ACK, 0, 10, 10);
    s.writes(20);
    s.sent();
    s.tcb.settings().set_quickack(false);
    let _ = s.arrives(ACK, 10, 20, 10);
    s.silent();
    assert_eq!(s.until_timer(), crate::acks::DELAY_US);
    s.acks(20);
    assert!(!s.tcb.flags.contains(Flags::INTERACTIVE), "no answer came");
    s.silent();
    // The same if one was due anyhow.
    let _ = s.arrives(ACK, 20, 20, 10);
    s.tcb.flags |= Flags::ACK_NOW;
    s.until_timer();
    s.acks(30);
    // The data that was sent in the meantime had it.
    let _ = s.arrives(ACK, 30, 20, 10);
    let at = s.tcb.timers.ack;
    s.writes(30);
    assert_eq!(s.sent().len(), 1);
    s.tcb.timers.ack = at;
    s.now = at;
    s.tcb.on_timer(s.now);
    s.silent();
}

#[test]
fn what_a_cork_has_held_back_long_enough_goes() {
    for nodelay in [false, true] {
        let mut s = Script::established();
        s.tcb.settings().set_cork(true);
        s.tcb.set_snd_edge(100, false);
        s.silent();
        // It would go by that alone, and goes then as well.
        s.tcb.settings().set_nodelay(nodelay);
        assert_eq!(s.until_timer(), crate::timers::CORK_US);
        assert_eq!(s.sent_one().payload, 0..100);
        assert_eq!(s.tcb.snd.push(), 100);
    }
}

// ---- Persist. ----

/// RFC 9293 section 3.8.6.1: a closed window is probed; one that is open but too small for a
/// full segment is used.
#[test]
fn the_persist_timer_probes_a_closed_window_and_uses_a_small_one() {
    let waiting = |window: u16| {
        let mut s = Script::established();
        s.window = window;
        let _ = s.arrives(ACK, 0, 0, 0);
        s.writes(2_000);
        s.silent();
        s
    };
    let mut s = waiting(0);
    for timeout in [1, 2, 4] {
        let waited = s.until_timer();
        assert!(waited >= 200_000 * timeout, "{waited}");
        // As when the timer expires once more before it was sent.
        assert_eq!(s.tcb.timeouts().on_persist(s.now), Ok(()));
        let probe = s.sent_one();
        assert_eq!((s.seq_of(&probe), probe.flags), (-1, ACK));
        let _ = s.arrives(ACK, 0, 0, 0);
    }
    let mut s = waiting(10);
    s.until_timer();
    assert_eq!(s.tcb.timeouts().on_persist(s.now), Ok(()));
    assert_eq!(s.sent_one().payload, 0..10);
    // In flight, or with nothing left to send, there is nothing to be probed for.
    assert_eq!(s.tcb.timeouts().on_persist(s.now), Ok(()));
    assert!(
        !s.tcb
            .flags
            .intersects(Flags::PROBE_DUE | Flags::FORCE_SMALL)
    );
    let mut s = Script::established();
    assert_eq!(s.tcb.timeouts().on_persist(s.now), Ok(()));
    s.silent();
    assert_eq!((s.tcb.deadline(), s.tcb.info(s.now).backoff), (None, 0));
    let mut s = Script::established();
    s.writes(10);
    s.sent();
    s.writes(20);
    assert_eq!(s.tcb.timeouts().on_persist(s.now), Ok(()));
    assert!(
        !s.tcb
            .flags
            .intersects(Flags::PROBE_DUE | Flags::FORCE_SMALL)
    );
}

/// The peer ignores a probe's urgent pointer, for the probe is not acceptable: an acknowledgment
/// has it, too.
#[test]
fn a_closed_window_is_told_of_urgent_data_again() {
    let mut s = Script::established();
    s.window = 0;
    let _ = s.arrives(ACK, 0, 0, 0);
    s.writes(100);
    s.tcb.send_stream().set_urgent(100);
    s.sent();
    s.until_timer();
    assert_eq!(s.tcb.timeouts().on_persist(s.now), Ok(()));
    let sent = s.sent();
    assert_eq!(sent.len(), 2, "{sent:?}");
    assert!(
        sent.iter()
            .any(|t| t.flags.contains(TcpFlags::URG) && t.urgent == 100 && s.seq_of(t) == 0)
    );
}

// ---- Keepalive. ----

fn probed(idle_ms: u32, interval_ms: u32, probes: u8, user_timeout_ms: u32) -> Script {
    let mut s = Script::established();
    let keepalive = Keepalive {
        enabled: true,
        idle_ms,
        interval_ms,
        probes,
    };
    s.tcb.settings().set_user_timeout(user_timeout_ms);
    s.tcb.settings().set_keepalive(keepalive, s.now);
    s
}

/// The milliseconds until the connection is given up, and how many probes it took.
fn gives_up_after(mut s: Script) -> (u64, usize) {
    let (begun, mut probes) = (s.now, 0);
    while s.tcb.state() != State::Closed {
        s.until_timer();
        let sent = s.sent();
        probes += sent.iter().filter(|t| s.seq_of(t) == -1).count();
        if s.tcb.state() == State::Closed {
            // The peer may be there and not answer.
            assert_eq!(sent.len(), 1);
            assert_eq!(sent[0].flags, RST | ACK);
            assert_eq!(s.tcb.error(), Some(Error::TimedOut));
            assert!(s.events().contains(Events::TIMED_OUT));
        }
        assert!(probes < 100);
    }
    (s.now.since(begun) / 1_000, probes)
}

/// RFC 9293 section 3.8.4, and TCP_USER_TIMEOUT in place of the count (RFC 5482 section 4.2).
#[test]
fn probes_that_are_not_answered_end_an_idle_connection() {
    assert_eq!(gives_up_after(probed(10_000, 1_000, 3, 0)), (13_000, 3));
    assert_eq!(gives_up_after(probed(10_000, 0, 2, 0)), (10_002, 2));
    // After the timeout, and at least one probe.
    assert_eq!(
        gives_up_after(probed(10_000, 1_000, 3, 15_000)),
        (15_000, 5)
    );
    assert_eq!(
        gives_up_after(probed(10_000, 1_000, 9, 14_999)),
        (15_000, 5)
    );
    assert_eq!(gives_up_after(probed(10_000, 1_000, 3, 5_000)), (11_000, 1));
}

/// What came meanwhile puts the probe off; to the microsecond.
#[test]
fn only_an_idle_connection_is_probed() {
    let mut s = probed(10_000, 1_000, 3, 0);
    s.waits_ms(4_000);
    let _ = s.arrives(ACK, 0, 0, 1);
    s.sent();
    s.waits_ms(9_999);
    assert!(s.sent().iter().all(|t| s.seq_of(t) == 0));
    s.waits_ms(1);
    let probe = s.sent_one();
    assert_eq!(s.seq_of(&probe), -1);
    // With data in flight, or before a closed window, the other timers find out.
    let mut s = probed(10_000, 20_000, 1, 0);
    s.window = 0;
    let _ = s.arrives(ACK, 0, 0, 0);
    s.writes(100);
    s.silent();
    let at = s.tcb.timers.keepalive;
    assert_eq!(s.tcb.timeouts().on_keepalive(at), Ok(()));
    assert!(!s.tcb.flags.contains(Flags::PROBE_DUE));
    assert_eq!(s.tcb.timers.keepalive, at.after_ms(20_000));
    let mut s = probed(10_000, 1_000, 1, 0);
    s.writes(100);
    s.sent();
    let at = s.tcb.timers.keepalive;
    assert_eq!(s.tcb.timeouts().on_keepalive(at), Ok(()));
    assert!(!s.tcb.flags.contains(Flags::PROBE_DUE));
    assert_eq!(s.tcb.timers.keepalive, at.after_ms(10_000));
}

#[test]
fn probes_are_for_connections_that_are_whole() {
    for state in State::ALL {
        for enabled in [false, true] {
            let mut s = Script::in_state(state);
            s.tcb.cfg.keepalive = Keepalive {
                enabled,
                idle_ms: 1,
                interval_ms: 1,
                probes: 1,
            };
            s.now = s.now.after_ms(10);
            assert_eq!(s.tcb.timeouts().on_keepalive(s.now), Ok(()));
            let idle = s.tcb.snd.in_flight() == 0;
            let probes = enabled
                && idle
                && matches!(
                    state,
                    State::Established | State::FinWait2 | State::CloseWait
                );
            assert_eq!(
                s.tcb.flags.contains(Flags::PROBE_DUE),
                probes,
                "{state:?} {enabled}"
            );
            // Once more, before it was sent.
            s.tcb.cfg.keepalive.probes = 9;
            assert_eq!(s.tcb.timeouts().on_keepalive(s.now), Ok(()));
            assert_eq!(s.tcb.flags.contains(Flags::PROBE_DUE), probes);
        }
    }
}

// ---- The end. ----

/// RFC 9293 section 3.8.3: a peer that never answered is told, for its SYN was: what it has is
/// a connection.
#[test]
fn a_half_open_connection_that_is_given_up_is_reset() {
    let mut s = Script::in_state(State::SynReceived);
    while s.tcb.state() == State::SynReceived {
        s.until_timer();
        if s.tcb.state() == State::SynReceived {
            assert_eq!(s.sent().len(), 1);
        }
    }
    let last = s.sent_one();
    assert_eq!((last.flags, s.ack_of(&last)), (RST | ACK, 0));
}

#[test]
fn a_timer_without_anything_in_flight_is_late() {
    let mut s = Script::established();
    assert_eq!(s.tcb.timeouts().on_retransmission(s.now), Ok(()));
    s.silent();
    assert_eq!(s.tcb.info(s.now).total_rto, 0);
    // A SYN that waits to be sent is in flight.
    let mut s = Script::connecting(&plain());
    assert_eq!(s.tcb.timeouts().on_retransmission(s.now), Ok(()));
    assert_eq!(s.tcb.info(s.now).total_rto, 1);
    assert_eq!(s.sent().len(), 1);
    assert!(s.tcb.flags.contains(Flags::SYN_RETRANSMITTED));
    assert_eq!(s.tcb.timeouts().on_retransmission(s.now), Ok(()));
    assert!(s.tcb.flags.contains(Flags::SYN_RETRANSMITTED));
    assert_eq!(s.tcb.timeouts().on_retransmission(s.now), Ok(()));
    assert_eq!(s.sent().len(), 1, "it was due already");
}

/// FIN-WAIT-2 of an orphan and TIME-WAIT end by themselves, and no other state.
#[test]
fn the_timer_of_the_state_ends_two_states() {
    for state in State::ALL {
        let mut s = Script::in_state(state);
        s.tcb.timers.state = s.now;
        assert_eq!(s.tcb.on_deadlines(s.now), Ok(()));
        let ends = matches!(state, State::TimeWait | State::FinWait2 | State::Closed);
        assert_eq!(s.tcb.state() == State::Closed, ends, "{state:?}");
        if ends {
            assert_eq!(s.tcb.error().is_some(), state == State::Closed);
        }
    }
    let mut s = Script::established();
    let _ = s.arrives(FIN | ACK, 0, 0, 0);
    assert_eq!(s.tcb.timers.state, Instant::NEVER);
}

/// What an orphan sends has all its repetitions, however often the window was probed before.
#[test]
fn probes_of_the_window_are_no_repetitions_of_what_follows() {
    let mut s = Script::established();
    s.tcb.cfg.retries.orphan = 5;
    s.window = 0;
    let _ = s.arrives(ACK, 0, 0, 0);
    s.writes(100);
    s.tcb.close(s.now);
    s.silent();
    for _ in 0..3 {
        s.until_timer();
        assert_eq!(s.sent().len(), 1);
        let _ = s.arrives(ACK, 0, 0, 0);
    }
    s.window = 10_000;
    let _ = s.arrives(ACK, 0, 0, 0);
    assert_eq!(s.sent().len(), 1);
    for again in 1..=5 {
        s.until_timer();
        assert_eq!(s.sent().len(), 1, "{again}");
    }
    s.until_timer();
    assert_eq!(s.tcb.state(), State::Closed);
}

/// Keepalive that is turned on anew begins to count anew.
#[test]
fn keepalive_begins_anew_when_it_is_set() {
    let mut s = Script::established();
    let keepalive = Keepalive {
        enabled: true,
        idle_ms: 1_000,
        interval_ms: 1_000,
        probes: 2,
    };
    s.tcb.settings().set_keepalive(keepalive, s.now);
    for _ in 0..2 {
        s.until_timer();
        assert_eq!(s.sent().len(), 1);
    }
    s.tcb.settings().set_keepalive(keepalive, s.now);
    assert_eq!(s.tcb.info(s.now).probes, 0);
    for _ in 0..2 {
        s.until_timer();
        assert_eq!(s.sent().len(), 1);
        assert_ne!(s.tcb.state(), State::Closed);
    }
    s.until_timer();
    assert_eq!(s.tcb.state(), State::Closed);
}
