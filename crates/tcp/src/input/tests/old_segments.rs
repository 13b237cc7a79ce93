//! Segments that bring nothing new: whether they are the peer's, what they tell, and how they are
//! answered.

use super::*;
use crate::State;
use crate::flags::Flags;
use crate::script::RST;

/// The duplicate that the next acknowledgment reports, by positions.
fn reported(s: &mut Script) -> Option<(i64, i64)> {
    let sent = s.sent_one();
    let (left, right) = *sent.options.sack.as_slice().first()?;
    Some((s.tcb.rcv.pos(left), s.tcb.rcv.pos(right)))
}

/// RFC 5961 section 7, and Linux: two bare ones in half a second are two ends out of step.
#[test]
fn bare_segments_are_answered_twice_a_second() {
    let mut s = Script::in_state(State::Established);
    let mut answers = |after_us: u64, len| {
        s.now = s.now.after_us(after_us);
        let d = s.arrives(ACK, -10, 0, len);
        assert_eq!(d.drop, Some(DropReason::Duplicate));
        s.sent().len()
    };
    assert_eq!((answers(0, 0), answers(0, 0)), (1, 0));
    assert_eq!(answers(0, 5), 1, "payload is always answered");
    assert_eq!((answers(499_999, 0), answers(1, 0)), (0, 1));
    assert_eq!((answers(0, 0), answers(500_000, 0)), (0, 1));
}

/// RFC 7323 section 5.3 takes it from acceptable segments alone; but data that comes again show
/// that an acknowledgment was lost, and the next one echoes them, if they can be the peer's.
#[test]
fn an_echo_is_refreshed_by_an_old_segment_that_can_be_the_peers() {
    let size = i64::from(full().tcb.rcv.buffer.size());
    let most = i64::from(full().tcb.snd.max_wnd());
    for (flags, seq, ack, is_plausible) in [
        (ACK, 0, 0, true),
        (ACK, 0, 500, true),
        (ACK, 0, 501, false),
        (ACK, 0, -most, true),
        (ACK, 0, -most - 1, false),
        (ACK, 100 - size, 0, true),
        (ACK, 99 - size, 0, false),
        (TcpFlags::NONE, 0, 0, false),
    ] {
        let mut s = full();
        // Scaled, the window is what that of the SYN was.
        s.window >>= s.tcb.snd.wscale();
        s.writes(500);
        s.sent();
        assert_eq!(comes(&mut s, 2_000, 0), None);
        s.timestamps = Some(Timestamps {
            val: 2_050,
            echo: 0,
        });
        let d = s.arrives(flags, seq, ack, 50);
        assert_eq!(d.drop, Some(DropReason::Duplicate));
        let recent = if is_plausible { 2_050 } else { 2_000 };
        assert_eq!(s.tcb.stamps.recent(), recent, "{flags:?} {seq} {ack}");
    }
    // So is one whose oldest possible acknowledgment is not 0.
    let mut s = full();
    s.window >>= s.tcb.snd.wscale();
    s.writes(800);
    s.sent();
    let _ = s.arrives(ACK, 0, 800, 100);
    for (ack, recent) in [(800 - most - 1, 1_000), (800 - most, 2_050)] {
        s.timestamps = Some(Timestamps {
            val: 2_050,
            echo: 0,
        });
        let _ = s.arrives(ACK, 0, ack, 50);
        assert_eq!(s.tcb.stamps.recent(), recent, "{ack}");
    }
}

/// RFC 9293 section 3.10.7.4 and RFC 5961 section 5.
#[test]
fn an_acknowledgment_is_old_by_more_than_the_largest_window() {
    let most = i64::from(full().tcb.snd.max_wnd());
    for (ack, drop) in [(-most, None), (-most - 1, Some(DropReason::AckTooOld))] {
        let mut s = full();
        let d = s.arrives(ACK, 0, ack, 10);
        assert_eq!((d.drop, d.place.is_some()), (drop, drop.is_none()));
    }
}

#[test]
fn duplicates_are_reported_whatever_they_are_dropped_for() {
    // By its place.
    let mut s = full();
    assert_eq!(comes(&mut s, 2_000, 0), None);
    let _ = s.arrives(ACK, 0, 0, 70);
    assert!(s.tcb.receive_status().owes_dsack());
    assert_eq!(reported(&mut s), Some((0, 70)));
    assert!(!s.tcb.receive_status().owes_dsack());
    // By its timestamp.
    s.timestamps = Some(Timestamps {
        val: 1_999,
        echo: 0,
    });
    let d = s.arrives(ACK, 0, 0, 60);
    assert_eq!(d.drop, Some(DropReason::Paws));
    assert_eq!(reported(&mut s), Some((0, 60)));
    // By all but the end, which is new.
    s.timestamps = Some(Timestamps {
        val: 2_000,
        echo: 0,
    });
    let d = s.arrives(FIN | ACK, 50, 0, 50);
    assert_eq!(d.drop, Some(DropReason::Duplicate));
    assert!(s.tcb.receive_status().is_closed());
    assert_eq!(reported(&mut s), Some((50, 100)));
    // The last one of several that come before it is reported.
    for len in [10, 20, 30] {
        let _ = s.arrives(ACK, 0, 0, len);
        assert!(s.tcb.flags.contains(Flags::DSACK));
    }
    assert_eq!(reported(&mut s), Some((0, 30)));
}

/// One that ends where the stream has come to is nothing that was overtaken.
#[test]
fn an_old_timestamp_is_believed_of_what_is_missing_alone() {
    let mut s = full();
    assert_eq!(comes(&mut s, 2_000, 0), None);
    assert_eq!(comes(&mut s, 2_001, 200), None);
    assert_eq!(comes(&mut s, 2_050, 100), None);
    assert_eq!(comes(&mut s, 2_001, 200), OLD);
    assert_eq!(comes(&mut s, 2_001, 201), None);
}

/// RFC 7323 sections 3.2 and 5.2: they are nothing to a connection that has not agreed on them,
/// nor to a reset.
#[test]
fn timestamps_count_where_they_were_agreed_on() {
    let mut s = Script::established();
    assert_eq!(comes(&mut s, u32::MAX, 0), None);
    assert_eq!(s.tcb.stamps.recent(), 0);
    let mut s = full();
    assert_eq!(comes(&mut s, 2_000, 0), None);
    s.timestamps = Some(Timestamps { val: 1, echo: 0 });
    let _ = s.arrives(RST, 100, 0, 0);
    assert_eq!(s.tcb.state(), State::Closed);
}

/// RFC 7323 section 5.5 counts from the last segment, also if it has the same timestamp.
#[test]
fn the_same_timestamp_again_is_recent() {
    for predicted in [true, false] {
        let mut s = full();
        assert_eq!(comes(&mut s, 2_000, 0), None);
        s.now = s.now.after_ms(1_000);
        if !predicted {
            s.tcb.prediction = crate::prediction::Prediction::OFF;
        }
        assert_eq!(comes(&mut s, 2_000, 100), None);
        assert_eq!(s.tcb.stamps.recent_at(), s.now, "{predicted}");
    }
}

/// RFC 2018: blocks of a peer with which SACK was not agreed on are nothing.
#[test]
fn blocks_that_were_not_agreed_on_are_none() {
    let mut s = Script::established();
    s.writes(3_000);
    s.sent();
    let mut sack = SackBlocks::default();
    sack.push(s.tcb.snd.seq(1_000), s.tcb.snd.seq(2_000));
    let options = TcpOptions {
        sack,
        ..TcpOptions::default()
    };
    let _ = s.arrives_with(ACK, 0, 0, 0, options);
    assert!(s.tcb.flight.scoreboard.is_plain());
}

/// New payload for a connection that no program holds is answered by a reset; what comes again
/// with the peer's end is not.
#[test]
fn an_orphan_takes_the_end_of_what_it_has() {
    for (len, resets) in [(100, false), (101, true)] {
        let mut s = Script::established();
        let _ = s.arrives(ACK, 0, 0, 100);
        s.tcb.set_rcv_consumed(100, s.now);
        s.tcb.shutdown_send();
        s.sent();
        let _ = s.arrives(ACK, 100, 1, 0);
        assert_eq!(s.tcb.state(), State::FinWait2);
        s.tcb.flags |= Flags::ORPHAN;
        let d = s.arrives(FIN | ACK, 0, 1, len);
        assert_eq!(d.reset, resets);
        let then = if resets {
            State::Closed
        } else {
            State::TimeWait
        };
        assert_eq!(s.tcb.state(), then);
    }
}

/// What counts unanswered retries is of two parts, each of which an answer ends.
#[test]
fn an_answer_ends_retries_and_backoff_each_by_itself() {
    for (retried, backed_off) in [(true, false), (false, true), (true, true)] {
        let mut s = Script::established();
        if retried {
            s.tcb.liveness.note_retry();
        }
        if backed_off {
            s.tcb.snd.rtt.back_off();
        }
        let d = s.arrives(ACK, 0, 0, 10);
        assert!(d.fast_path);
        let left = (s.tcb.liveness.retries(), s.tcb.snd.rtt.backoff());
        assert_eq!(left, (0, 0), "{retried} {backed_off}");
    }
}
