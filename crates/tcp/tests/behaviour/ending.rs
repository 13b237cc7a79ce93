//! From the first FIN to the last timer: what is repeated, how often, and how long is
//! waited.

use crate::script::{ACK, FIN, SYN, Script};
use longshore_tcp::{Events, State};

#[test]
fn the_fin_is_repeated() {
    let mut s = Script::in_state(State::FinWait1);
    s.until_timer();
    let t = s.sent_one();
    assert!(t.flags.contains(FIN) && t.retransmission);
    assert_eq!(s.seq_of(&t), 0);
}

#[test]
fn an_orphan_is_given_up_sooner() {
    let mut s = Script::in_state(State::FinWait1);
    s.tcb.close(s.now);
    let mut repeated = 0;
    while s.tcb.state() != State::Closed {
        s.until_timer();
        repeated += s.sent().len();
    }
    assert_eq!(repeated, 8);
}

/// With a long round trip each repetition takes minutes, so the number of repetitions stands for
/// the time that they take with the shortest timeout.
#[test]
fn an_orphan_with_a_long_round_trip_is_given_up_as_soon() {
    for round_trip_ms in [1_000, 10_000, 65_000] {
        let mut s = Script::established();
        s.writes(100);
        s.sent();
        s.now = s.now.after_ms(round_trip_ms);
        let _ = s.arrives(ACK, 0, 100, 0);
        s.tcb.close(s.now);
        assert!(s.sent_one().flags.contains(FIN));
        let from = s.now;
        let mut repeated = 0;
        while s.tcb.state() != State::Closed {
            s.until_timer();
            repeated += s.sent().len();
        }
        let seconds = s.now.since(from) / 1_000_000;
        assert!(
            (102..=120 + 120).contains(&seconds),
            "{round_trip_ms}: {seconds}"
        );
        assert!(repeated >= 1, "{round_trip_ms}");
    }
}

/// A peer that answers each probe of its closed window holds no orphan for longer than one that
/// does not answer.
#[test]
fn an_orphan_whose_peer_keeps_its_window_closed_is_given_up() {
    let mut s = Script::established();
    s.writes(100);
    s.sent();
    s.now = s.now.after_ms(65_000);
    s.window = 0;
    let _ = s.arrives(ACK, 0, 100, 0);
    s.writes(200);
    s.tcb.close(s.now);
    s.silent();
    let from = s.now;
    let mut probes = 0;
    while s.tcb.state() != State::Closed {
        s.until_timer();
        probes += s.sent().len();
        let _ = s.arrives(ACK, 0, 100, 0);
    }
    let seconds = s.now.since(from) / 1_000_000;
    assert!((102..=120 + 120).contains(&seconds), "{seconds}");
    assert!(probes >= 1);
}

#[test]
fn a_half_closed_connection_receives_for_ever() {
    let mut s = Script::in_state(State::FinWait2);
    for i in 0..100 {
        s.waits_ms(100_000);
        let d = s.arrives(ACK, i * 100, 1, 100);
        assert_eq!(d.place.unwrap().stream_offset, i as u64 * 100);
        s.tcb.set_rcv_consumed((i as u64 + 1) * 100, s.now);
        s.waits_ms(50);
        s.acks((i + 1) * 100);
    }
    assert_eq!(s.tcb.state(), State::FinWait2);
}

#[test]
fn an_orphan_waits_a_minute_for_the_fin() {
    let mut s = Script::in_state(State::FinWait2);
    assert_eq!(s.tcb.deadline(), None);
    s.tcb.close(s.now);
    assert_eq!(s.tcb.state(), State::FinWait2);
    assert_eq!(s.until_timer(), 60_000_000);
    assert_eq!(s.tcb.state(), State::Closed);
    assert!(s.events().contains(Events::CLOSED));
    assert_eq!(s.tcb.error(), None);
    s.silent();
}

#[test]
fn a_close_after_the_fin_was_acked_waits_too() {
    let mut s = Script::in_state(State::FinWait1);
    s.tcb.close(s.now);
    let _ = s.arrives(ACK, 0, 1, 0);
    assert_eq!(s.until_timer(), 60_000_000);
    assert_eq!(s.tcb.state(), State::Closed);
}

#[test]
fn in_closing_the_fin_is_repeated() {
    let mut s = Script::in_state(State::Closing);
    s.until_timer();
    let t = s.sent_one();
    assert!(t.flags.contains(FIN | ACK));
    assert_eq!(s.ack_of(&t), 1);
}

#[test]
fn the_fin_is_repeated_and_given_up() {
    let mut s = Script::in_state(State::LastAck);
    let mut repeated = 0;
    while s.tcb.state() == State::LastAck {
        s.until_timer();
        repeated += s.sent().len();
    }
    assert_eq!(repeated, 15);
    assert!(s.events().contains(Events::CLOSED | Events::TIMED_OUT));
}

#[test]
fn data_before_the_fin_is_repeated_with_it() {
    let mut s = Script::in_state(State::CloseWait);
    s.writes(2_500);
    s.tcb.shutdown_send();
    s.sent();
    s.until_timer();
    assert_eq!(s.sent_one().payload, 0..1_000);
    let _ = s.arrives(ACK, 1, 1_000, 0);
    let sent = s.sent();
    let last = sent.last().unwrap();
    assert_eq!(last.payload, 2_000..2_500);
    assert!(last.flags.contains(FIN));
    let _ = s.arrives(ACK, 1, 2_501, 0);
    assert_eq!(s.tcb.state(), State::Closed);
}

#[test]
fn close_with_unread_data_resets() {
    let mut s = Script::established();
    let _ = s.arrives(FIN | ACK, 0, 0, 10);
    s.writes(10);
    s.tcb.shutdown_send();
    assert_eq!(s.tcb.state(), State::LastAck);
    s.sent();
    s.tcb.close(s.now);
    assert_eq!(s.sent_one().flags, crate::script::RST | ACK);
    assert_eq!(s.tcb.state(), State::Closed);
}

#[test]
fn time_wait_ends_after_a_minute() {
    let mut s = Script::in_state(State::TimeWait);
    assert_eq!(s.until_timer(), 60_000_000 - 600_000);
    assert_eq!(s.tcb.state(), State::Closed);
    assert_eq!(s.events(), Events::CLOSED);
    assert_eq!(s.tcb.error(), None);
    s.silent();
}

#[test]
fn a_repeated_fin_is_acknowledged_and_restarts_the_wait() {
    let mut s = Script::in_state(State::TimeWait);
    s.waits_ms(30_000);
    let _ = s.arrives(FIN | ACK, 0, 1, 0);
    s.acks(1);
    assert_eq!(s.until_timer(), 60_000_000);
}

#[test]
fn a_new_syn_reopens_after_time_wait() {
    let mut s = Script::in_state(State::TimeWait);
    let d = s.arrives(SYN, 5_000, 0, 0);
    let iss = d.reopen.expect("a new incarnation");
    assert_eq!(iss.0, crate::script::ISS.wrapping_add(2 + 65_535));
    // An old one does not.
    let d = s.arrives(SYN, -1, 0, 0);
    assert_eq!(d.reopen, None);
    s.acks(1);
}

#[test]
fn calls_on_a_closed_connection_do_nothing() {
    let mut s = Script::in_state(State::Closed);
    s.writes(100);
    s.tcb.shutdown_send();
    s.tcb.set_rcv_consumed(10, s.now);
    s.tcb.close(s.now);
    s.tcb.abort();
    s.tcb.on_timer(s.now);
    s.silent();
    assert_eq!(s.tcb.state(), State::Closed);
    assert_eq!(s.events(), Events::empty());
    assert_eq!(s.tcb.deadline(), None);
}
