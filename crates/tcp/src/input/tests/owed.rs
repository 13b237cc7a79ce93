//! What a segment has the connection owe: acknowledgments, and what its program is told. Several
//! segments may come before anything is fetched.

use super::*;
use crate::Events;
use crate::State;
use crate::flags::Flags;
use crate::prediction::Prediction;

/// A segment arrives, by header prediction or by the RFC's order.
fn arrives(s: &mut Script, predicted: bool, (seq, ack): (i64, i64), len: u32) {
    if !predicted {
        s.tcb.prediction = Prediction::OFF;
    }
    let fast = s.tcb.accounting.counters.slow_segs_in;
    let _ = s.arrives(ACK, seq, ack, len);
    let is_slow = s.tcb.accounting.counters.slow_segs_in != fast;
    assert_eq!(is_slow, !predicted);
}

/// RFC 5681 section 4.2.
#[test]
fn every_second_full_segment_is_acknowledged_at_once() {
    for predicted in [true, false] {
        let mut s = Script::established();
        for round in 0..4 {
            let at = 2_000 * round;
            arrives(&mut s, predicted, (at, 0), 1_000);
            s.silent();
            arrives(&mut s, predicted, (at + 1_000, 0), 1_000);
            s.acks(at + 2_000);
        }
        // Less than two, in three pieces.
        arrives(&mut s, predicted, (8_000, 0), 1_000);
        arrives(&mut s, predicted, (9_000, 0), 10);
        arrives(&mut s, predicted, (9_010, 0), 989);
        s.silent();
        arrives(&mut s, predicted, (9_999, 0), 1);
        s.acks(10_000);
    }
}

#[test]
fn what_is_owed_twice_is_acknowledged_when_its_time_is_over() {
    for segments in 1..4 {
        let mut s = Script::established();
        for at in 0..segments {
            arrives(&mut s, true, (at, 0), 1);
        }
        assert!(s.tcb.flags.contains(Flags::ACK_OWED));
        s.silent();
        assert_eq!(s.until_timer(), 40_000);
        s.acks(segments);
    }
}

#[test]
fn what_happens_twice_is_told() {
    for predicted in [true, false] {
        for segments in 1..4 {
            let mut s = Script::established();
            s.writes(10);
            s.sent();
            for at in 0..segments {
                arrives(&mut s, predicted, (at, at + 1), 1);
            }
            let told = s.events();
            assert_eq!(told, Events::RCV_EDGE | Events::SND_ACKED, "{predicted}");
            assert_eq!(s.events(), Events::empty());
        }
    }
}

/// RFC 9293 section 3.8.6.1: probes of a closed window are answered, several as one.
#[test]
fn probes_of_a_closed_window_are_answered() {
    for probes in 1..4 {
        let mut s = Script::established();
        let edge = s.tcb.rcv.adv();
        let _ = s.arrives(ACK, 0, 0, edge as u32);
        s.acks(edge);
        for _ in 0..probes {
            let d = s.arrives(ACK, edge, 0, 1);
            assert_eq!((d.place, d.drop), (None, Some(DropReason::BeyondWindow)));
        }
        s.acks(edge);
    }
}

#[test]
fn payload_for_which_there_is_no_memory_is_answered() {
    for segments in 1..4 {
        let mut s = Script::established();
        s.tcb.receive_room().deny();
        s.sent();
        for _ in 0..segments {
            let d = s.arrives(ACK, 0, 0, 10);
            assert_eq!((d.place, d.drop), (None, Some(DropReason::NoRoom)));
        }
        s.acks(0);
    }
}

/// A FIN that comes again and again is acknowledged once it can be.
#[test]
fn ends_that_are_repeated_in_time_wait_are_answered() {
    for repeated in 1..4 {
        let mut s = Script::in_state(State::TimeWait);
        for _ in 0..repeated {
            let _ = s.arrives(FIN | ACK, 0, 1, 0);
        }
        s.acks(1);
    }
    // What is no FIN is answered twice a second at most, whoever keeps the time.
    let mut s = Script::in_state(State::TimeWait);
    let mut answers = |after| {
        s.now = s.now.after_ms(after);
        let _ = s.arrives(ACK, 0, 1, 1);
        s.sent().len()
    };
    assert_eq!((answers(0), answers(0), answers(499)), (1, 0, 0));
    assert_eq!((answers(1), answers(1)), (1, 0));
}

/// RFC 9293 section 3.10.7.4, in TIME-WAIT: the window is that which was advertised last.
#[test]
fn a_small_record_has_the_window_that_was_advertised() {
    let cfg = Config {
        window_scaling: true,
        ..Config::default()
    };
    let mut s = Script::established_with(&cfg, full_options());
    s.tcb.shutdown_send();
    s.sent();
    let at = s.tcb.snd.nxt();
    let _ = s.arrives(FIN | ACK, 0, at, 0);
    let acknowledgment = s.sent_one();
    assert_eq!(s.tcb.state(), State::TimeWait);
    assert!(s.tcb.rcv.wscale() > 0);
    let record = crate::TimeWait::of(&s.tcb);
    assert_eq!(record.ack(s.now).window, acknowledgment.window);
}

/// As Linux: after a pause the peer may be in slow start, and needs each acknowledgment.
#[test]
fn after_a_pause_acknowledgments_are_not_delayed() {
    for (pause_ms, is_quick) in [(10, false), (10_000, true)] {
        let mut s = Script::established();
        arrives(&mut s, true, (0, 0), 1);
        s.until_timer();
        s.acks(1);
        s.now = s.now.after_ms(pause_ms);
        arrives(&mut s, true, (1, 0), 1);
        assert_eq!(s.sent().len(), usize::from(is_quick), "{pause_ms}");
    }
}

/// Out of order, too, the peer's segments are as long as they come.
#[test]
fn the_peers_segments_are_measured_whatever_they_bring() {
    let mut s = Script::established();
    let _ = s.arrives(ACK, 3_000, 0, 900);
    assert_eq!(s.tcb.acks.segment(), 900);
}

/// A FIN right behind the last byte that the window takes is not beyond it.
#[test]
fn what_ends_at_the_windows_edge_is_not_cut() {
    let mut s = Script::established();
    let edge = s.tcb.rcv.adv();
    let d = s.arrives(FIN | ACK, 0, 0, edge as u32);
    assert_eq!(d.drop, None);
    assert_eq!(d.place.map(|place| i64::from(place.len)), Some(edge));
    assert!(s.tcb.receive_status().is_closed());
    let mut s = Script::established();
    let d = s.arrives(FIN | ACK, 0, 0, edge as u32 + 1);
    assert_eq!(d.drop, Some(DropReason::BeyondWindow));
    assert_eq!(d.place.map(|place| i64::from(place.len)), Some(edge));
    assert!(!s.tcb.receive_status().is_closed());
}

/// RFC 9293 section 3.10.7.4: an ICMP error that was waited out is forgotten with an answer.
#[test]
fn an_answer_ends_what_icmp_has_told() {
    for predicted in [true, false] {
        let mut s = Script::established();
        s.writes(10);
        s.sent();
        s.tcb.outcome.set_soft_error(crate::Error::HostUnreachable);
        arrives(&mut s, predicted, (0, 0), 1);
        assert!(s.tcb.outcome.soft_error().is_some());
        arrives(&mut s, predicted, (1, 5), 1);
        assert_eq!(s.tcb.outcome.soft_error(), None);
    }
}
