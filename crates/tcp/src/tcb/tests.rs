//! What a connection says of itself, and how it ends.

use super::*;
use crate::script::{ACK, FIN, Script};
use crate::timers::Timers;
use longshore_wire::SeqNumber;

/// As `ss` shows it: what is not acknowledged, and how much of that was not sent. A FIN counts
/// from ESTABLISHED on, and a closed connection has nothing.
#[test]
fn the_send_queue_is_what_is_not_acknowledged() {
    let mut s = Script::established();
    s.window = 3_000;
    let _ = s.arrives(ACK, 0, 0, 0);
    assert_eq!(s.tcb.send_status().queue(), (0, 0));
    s.writes(5_000);
    assert_eq!(s.tcb.send_status().queue(), (5_000, 5_000));
    s.sent();
    assert_eq!(s.tcb.send_status().queue(), (5_000, 2_000));
    let _ = s.arrives(ACK, 0, 1_000, 0);
    s.sent();
    assert_eq!(s.tcb.send_status().queue(), (4_000, 1_000));
    s.tcb.shutdown_send();
    assert_eq!(s.tcb.send_status().queue(), (4_001, 1_001));
    s.tcb.abort();
    assert_eq!(s.tcb.send_status().queue(), (0, 0));
    for state in [State::SynSent, State::SynReceived] {
        let mut s = Script::in_state(state);
        s.writes(10);
        assert_eq!(s.tcb.send_status().queue(), (0, 0), "{state:?}");
    }
    for (state, queued) in [
        (State::FinWait1, 1),
        (State::FinWait2, 0),
        (State::Closing, 1),
        (State::LastAck, 1),
        (State::TimeWait, 0),
    ] {
        let s = Script::in_state(state);
        assert_eq!(s.tcb.send_status().queue(), (queued, 0), "{state:?}");
    }
}

/// Also one that begins before it, as a peer sends again what was acknowledged in part.
#[test]
fn a_segment_leaves_no_hole_if_it_begins_where_the_last_one_ended() {
    let mut s = Script::established();
    let _ = s.arrives(ACK, 0, 0, 10);
    let next = s.tcb.rcv.seq(10);
    let leaves_no_hole = |seq| s.tcb.receive_status().leaves_no_hole(SeqNumber(seq));
    assert!(leaves_no_hole(next.0));
    assert!(leaves_no_hole(next.0.wrapping_sub(1)));
    assert!(!leaves_no_hole(next.0.wrapping_add(1)));
}

#[test]
fn little_is_one_byte_in_1024() {
    let mut s = Script::established();
    assert!(s.tcb.send_status().has_repeated_little() && !s.tcb.send_status().may_repeat());
    s.writes(5_000);
    s.sent();
    for (repeated, little) in [(0, true), (4, true), (5, false)] {
        s.tcb.accounting.counters.bytes_retrans = repeated;
        assert_eq!(
            s.tcb.send_status().has_repeated_little(),
            little,
            "{repeated}"
        );
    }
    assert!(!s.tcb.send_status().may_repeat());
    while !s.tcb.send_status().may_repeat() {
        s.until_timer();
    }
    assert!(s.sent_one().retransmission);
}

/// In whole segments, as far as the smaller of the two windows; which is what is sent then.
#[test]
fn what_may_be_sent_at_once_is_what_the_windows_have_room_for() {
    for (cwnd, window, sendable) in [
        (4_000, 30_000, 4_000),
        (4_999, 30_000, 4_000),
        (9_000, 3_500, 3_000),
        (9_000, 0, 0),
    ] {
        let mut s = Script::established();
        s.window = window;
        let _ = s.arrives(ACK, 0, 0, 0);
        s.tcb.congestion.controller.set_cwnd(cwnd);
        assert_eq!(s.tcb.send_status().sendable(), sendable, "{cwnd} {window}");
        s.writes(20_000);
        s.sent();
        assert_eq!(s.tcb.send_status().sent(), sendable, "{cwnd} {window}");
        assert_eq!(s.tcb.send_status().sendable(), sendable, "{cwnd} {window}");
    }
    // A pacer says when.
    let mut s = Script::established();
    s.tcb.settings().set_max_pacing_rate(1_000_000);
    assert_eq!(s.tcb.send_status().sendable(), 0);
    assert_eq!(
        Script::connecting(&Config::default())
            .tcb
            .send_status()
            .sendable(),
        0
    );
}

#[test]
fn a_buffer_of_linux_is_full_segments_up_to_half_of_the_window() {
    for (window, goal) in [
        (30_000, 15_000),
        (31_999, 15_000),
        (2_000, 1_000),
        (600, 1_000),
        (65_535, 32_000),
    ] {
        let mut s = Script::established();
        s.tcb.snd = crate::snd::SendSide::new(SeqNumber(0), 1_000, 1_000, 1_000, 0);
        s.tcb.snd.handle_syn(1_000, window);
        assert_eq!(s.tcb.send_status().size_goal(), goal, "{window}");
    }
}

#[test]
fn a_buffer_has_room_for_twenty_segments_whatever_the_window() {
    let mut s = Script::established();
    s.tcb.snd.rtt = crate::rtt::RttEstimator::new();
    s.tcb.snd.rtt.sample(100_000);
    s.tcb.congestion.controller.set_cwnd(1_000);
    assert_eq!(s.tcb.send_status().buffer_wanted(50_000, 1 << 20), 20_000);
    // A path is short up to a millisecond, and a sender large from 128 KiB on.
    let wanted = |rtt, cwnd| {
        let mut s = Script::established();
        s.tcb.snd.rtt = crate::rtt::RttEstimator::new();
        s.tcb.snd.rtt.sample(rtt);
        s.tcb.congestion.controller.set_cwnd(cwnd);
        assert_eq!(s.tcb.send_status().is_path_short(), rtt < 1_000);
        s.tcb.send_status().buffer_wanted(50_000, 1 << 20)
    };
    assert_eq!(wanted(1_000, 90_000), 180_000);
    assert_eq!(wanted(999, 90_000), 100_000);
    assert_eq!(wanted(999, (128 << 10) - 1), 100_000);
    assert_eq!(wanted(999, 128 << 10), 1 << 20);
}

#[test]
fn what_was_closed_and_what_was_set_is_known() {
    let mut s = Script::established();
    assert!(!s.tcb.send_status().is_shut() && !s.tcb.send_status().fin_acked());
    s.tcb.shutdown_send();
    assert!(s.tcb.send_status().is_shut() && !s.tcb.send_status().fin_acked());
    s.sent();
    let _ = s.arrives(ACK, 0, 1, 0);
    assert!(s.tcb.send_status().fin_acked());
    s.tcb.settings().set_fin_wait(77);
    assert_eq!(s.tcb.cfg.fin_wait_ms, 77);
    assert!(!s.tcb.receive_status().has_out_of_order());
    let _ = s.arrives(ACK, 100, 1, 10);
    assert!(s.tcb.receive_status().has_out_of_order());
}

/// RFC 9293 section 3.10.5: nothing is left of a connection that has ended but what is told, and
/// the reset that is due.
#[test]
fn an_end_stops_all_that_was_going_on() {
    // What was told before, and not taken, is told still.
    for before in [Events::empty(), Events::CLOSED | Events::ERROR] {
        let mut s = Script::established();
        s.writes(3_000);
        s.sent();
        for at in [1_000, 3_000, 5_000] {
            let _ = s.arrives(ACK, at, 0, 100);
        }
        assert!(s.tcb.receive_status().has_out_of_order());
        s.tcb.outcome.report(before);
        s.tcb.closing().die(Some(Error::Reset), Events::RESET);
        let told = s.events();
        assert!(told.contains(Events::CLOSED | Events::ERROR | Events::RESET));
        assert_eq!(s.tcb.timers, Timers::new());
        assert_eq!(
            (s.tcb.deadline(), s.tcb.receive_status().has_out_of_order()),
            (None, false)
        );
        s.silent();
        let d = s.arrives(FIN | ACK, 0, 0, 0);
        assert!(d.reset);
    }
    // Without an error there is none to be told.
    let mut s = Script::established();
    s.tcb.closing().die(None, Events::empty());
    assert!(!s.events().contains(Events::ERROR));
    assert_eq!(s.tcb.error(), None);
}
