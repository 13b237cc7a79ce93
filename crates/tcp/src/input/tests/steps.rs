//! The steps of RFC 9293 section 3.10.7 at their edges, and what each tells.

use super::*;
use crate::script::{RST, SYN};
use crate::segment::Ecn;
use crate::{Events, State};
use longshore_wire::tcp::{PLAIN_LEN, Plain};

/// RFC 5961 section 3.2: a RST in the window is challenged, its right edge is not in it.
#[test]
fn a_reset_is_challenged_up_to_the_edge_of_the_window() {
    for (beyond, reason) in [
        (-1, DropReason::RstNotExact),
        (0, DropReason::RstUnacceptable),
        (1, DropReason::RstUnacceptable),
    ] {
        let mut s = Script::established();
        let edge = s.tcb.rcv.adv();
        let d = s.arrives(RST, edge + beyond, 0, 0);
        assert_eq!(d.drop, Some(reason), "{beyond}");
        assert_eq!(s.sent().len(), usize::from(beyond < 0));
    }
}

/// RFC 7323 section 2.2: the window of the ACK that ends the handshake is scaled, that of a SYN
/// is not.
#[test]
fn the_first_window_is_scaled_unless_it_is_a_syns() {
    let mut s = Script::accepting(&Config::default(), full_options());
    s.window = 1_000;
    let _ = s.arrives(ACK, 0, 0, 0);
    assert_eq!(
        (s.tcb.state(), s.tcb.snd.wnd()),
        (State::Established, 8_000)
    );
    // A simultaneous open.
    let mut s = Script::connecting(&Config::default());
    s.sent();
    s.window = 1_000;
    let d = s.arrives_with(SYN, -1, 0, 0, full_options());
    assert_eq!((d.drop, d.ack_now), (None, true));
    s.sent();
    let _ = s.arrives_with(SYN | ACK, -1, 0, 0, full_options());
    assert_eq!(
        (s.tcb.state(), s.tcb.snd.wnd()),
        (State::Established, 1_000)
    );
}

/// A simultaneous open leaves payload to be sent again, and says so.
#[test]
fn payload_of_a_syn_that_crosses_ours_is_dropped() {
    for (len, drop) in [(0, None), (1, Some(DropReason::EarlyData))] {
        let mut s = Script::in_state(State::SynSent);
        let d = s.arrives(SYN, -1, 0, len);
        assert_eq!((d.drop, d.place), (drop, None));
        assert_eq!(s.tcb.state(), State::SynReceived);
        assert_eq!(s.ack_of(&s.tcb.clone().poll_transmit(s.now, 0).unwrap()), 0);
    }
}

/// What each end of the stream tells: the peer's, ours, and both.
#[test]
fn both_ends_of_a_connection_are_told() {
    let mut s = Script::in_state(State::FinWait1);
    let _ = s.arrives(ACK, 0, 1, 0);
    assert_eq!(s.events() & Events::all(), Events::FIN_ACKED);
    let _ = s.arrives(FIN | ACK, 0, 1, 0);
    let told = s.events();
    assert!(told.contains(Events::PEER_FIN | Events::TIME_WAIT | Events::FIN_ACKED));
    let mut s = Script::in_state(State::Closing);
    let _ = s.arrives(ACK, 1, 1, 0);
    assert!(s.events().contains(Events::TIME_WAIT | Events::FIN_ACKED));
    let mut s = Script::in_state(State::LastAck);
    let _ = s.arrives(ACK, 1, 1, 0);
    assert!(s.events().contains(Events::FIN_ACKED | Events::CLOSED));
    // Told as well, if it was told before.
    let mut s = Script::in_state(State::Closing);
    s.tcb.outcome.report(Events::TIME_WAIT);
    let _ = s.arrives(ACK, 1, 1, 0);
    assert!(s.events().contains(Events::TIME_WAIT));
}

/// The acknowledgment of our SYN is none of data.
#[test]
fn the_first_acknowledgment_tells_of_data_alone() {
    let mut s = Script::in_state(State::SynSent);
    let _ = s.arrives(SYN | ACK, -1, 0, 0);
    let told = s.events();
    assert!(told.contains(Events::CONNECTED) && !told.contains(Events::SND_ACKED));
    let mut s = Script::accepting(&plain(), TcpOptions::default());
    let _ = s.arrives(ACK, 0, 0, 0);
    assert!(!s.events().contains(Events::SND_ACKED));
    let mut s = Script::established();
    s.writes(10);
    s.sent();
    let _ = s.arrives(ACK, 0, 10, 0);
    assert!(s.events().contains(Events::SND_ACKED));
}

/// A segment that is expected, as the engine takes it.
fn header(s: &Script, ack: i64) -> [u8; PLAIN_LEN] {
    let mut bytes = [0; PLAIN_LEN];
    let at = s.tcb.rcv.nxt();
    let header = s.header(ACK, at, ack, TcpOptions::default());
    Plain::of(&header).expect("plain").write(&mut bytes, 0);
    bytes
}

#[test]
fn what_is_predicted_says_what_it_brings() {
    for (ack, alone) in [(0, true), (10, false)] {
        let mut s = Script::established();
        s.writes(20);
        s.sent();
        let _ = s.arrives(ACK, 0, 0, 30);
        s.tcb.set_rcv_consumed(12, s.now);
        s.sent();
        let bytes = header(&s, ack);
        let predicted = s.tcb.predicts(&bytes, 40).expect("expected");
        assert_eq!(predicted.is_data_alone(), alone);
        assert_eq!(
            (predicted.stream_offset(), predicted.rcv_consumed()),
            (30, 12)
        );
        predicted.take_outlined(0, s.now);
        assert_eq!((s.tcb.rcv_edge(), s.tcb.snd_acked()), (70, ack as u64));
        // With neither it is for the slow path, as is what acknowledges too much.
        for (ack, len) in [(ack, 0), (21, 0), (21, 10)] {
            let bytes = header(&s, ack);
            assert!(s.tcb.predicts(&bytes, len).is_none(), "{ack} {len}");
        }
    }
    // A segment and its payload in one piece.
    let mut s = Script::established();
    let mut whole = header(&s, 0)[..20].to_vec();
    whole.extend([7; 33]);
    let (predicted, payload) = s.tcb.predicts_segment::<false>(&whole).expect("expected");
    assert_eq!((predicted.stream_offset(), payload), (0, &[7; 33][..]));
    assert!(s.tcb.predicts_segment::<true>(&whole).is_none());
    assert!(s.tcb.predicts_segment::<false>(&whole[..19]).is_none());
    // One that a router has marked is seen to.
    let header = s.header(ACK, 0, 0, TcpOptions::default());
    let marked = Segment {
        ecn: Ecn::Congested,
        ..Segment::new(&header, 10)
    };
    assert!(!s.tcb.on_segment(&marked, s.now).fast_path);
}

/// RFC 9293 section 3.8.6.1: an answer with nothing in flight, or with the window closed, ends
/// the count of what went unanswered, by either path; for an orphan it goes on.
#[test]
fn an_answer_ends_the_count_of_retries() {
    for (window, orphan, ends) in [(0, false, true), (30_000, false, true), (0, true, false)] {
        for predicted in [true, false] {
            let mut s = Script::established();
            s.window = window;
            let _ = s.arrives(ACK, 0, 0, 0);
            s.tcb.liveness.note_retry();
            s.tcb.snd.rtt.back_off();
            if orphan {
                s.tcb.flags |= crate::flags::Flags::ORPHAN;
            }
            if !predicted || orphan {
                s.tcb.prediction = crate::prediction::Prediction::OFF;
            }
            let _ = s.arrives(ACK, 0, 0, if orphan { 0 } else { 10 });
            assert_eq!(s.tcb.liveness.retries() == 0, ends, "{window} {orphan}");
            let backoff = s.tcb.snd.rtt.backoff();
            assert_eq!(backoff == 0, window > 0, "{window} {orphan}");
        }
    }
    // With data in flight it is that which has to be answered.
    let mut s = Script::established();
    s.writes(10);
    s.sent();
    s.tcb.liveness.note_retry();
    let _ = s.arrives(ACK, 0, 0, 10);
    assert_eq!(s.tcb.liveness.retries(), 1);
    let _ = s.arrives(ACK, 10, 10, 10);
    assert_eq!(s.tcb.liveness.retries(), 0);
}

/// RFC 7323 section 4.1: an echo is measured if it is one of the last two minutes, at half a
/// millisecond at least; not if a segment is timed anyway.
#[test]
fn an_echo_is_a_round_trip_if_it_can_be() {
    let sampled = |ago: u32| {
        let mut s = full();
        s.now = s.now.after_ms(200_000);
        s.writes(500);
        s.sent();
        s.tcb.flight.round_trip.cancel(&mut s.tcb.congestion);
        s.tcb.snd.rtt = crate::rtt::RttEstimator::new();
        let echo = s.tcb.stamps.clock(s.now).wrapping_sub(ago);
        s.timestamps = Some(Timestamps { val: 1_001, echo });
        let _ = s.arrives(ACK, 0, 500, 0);
        s.tcb.snd.rtt.srtt()
    };
    assert_eq!(sampled(0), Some(500));
    assert_eq!(sampled(7), Some(7_000));
    assert_eq!(sampled(119_999), Some(119_999_000));
    assert_eq!(sampled(120_000), None);
    assert_eq!(sampled(u32::MAX), None, "of the future");
}

/// RFC 2883 section 4: a report of a duplicate lies below the acknowledgment, or within the
/// second block; what cannot be one is none.
#[test]
fn a_duplicate_is_reported_by_the_first_block() {
    let dsacks = |blocks: &[(i64, i64)]| {
        let mut s = full();
        s.max_payload = 10_000;
        s.writes(8_000);
        s.sent();
        let mut options = TcpOptions::default();
        for &(start, end) in blocks {
            options.sack.push(s.tcb.snd.seq(start), s.tcb.snd.seq(end));
        }
        let _ = s.arrives_with(ACK, 0, 2_000, 0, options);
        s.tcb.info(s.now).dsack_dups
    };
    assert_eq!(dsacks(&[(1_000, 2_000)]), 1);
    assert_eq!(dsacks(&[(1_000, 2_001)]), 0);
    assert_eq!(dsacks(&[(4_000, 5_000), (4_000, 5_000)]), 1);
    assert_eq!(dsacks(&[(4_000, 5_000), (3_000, 6_000)]), 1);
    assert_eq!(dsacks(&[(4_000, 5_000), (4_001, 6_000)]), 0);
    assert_eq!(dsacks(&[(4_000, 5_000), (3_000, 4_999)]), 0);
    assert_eq!(dsacks(&[(4_000, 5_000)]), 0);
    assert_eq!(dsacks(&[(2_000, 1_000)]), 0, "backwards");
    assert_eq!(dsacks(&[(1_000, 1_000)]), 0, "nothing");
    // However old, but for what may be of another time round.
    let oldest = 2_000 - (1 << 30);
    assert_eq!(dsacks(&[(oldest, 2_000)]), 1);
    assert_eq!(dsacks(&[(oldest - 1, 2_000)]), 0);
    assert_eq!(dsacks(&[(8_000, 8_001), (7_000, 9_000)]), 0, "not sent yet");
}

/// RFC 7323 section 5: the first hole remembers what TS.Recent was, for a part of it may be filled
/// before another segment tells of it.
#[test]
fn a_hole_that_is_filled_in_part_admits_what_was_sent_before() {
    let mut s = full();
    assert_eq!(comes(&mut s, 2_000, 0), None);
    assert_eq!(comes(&mut s, 2_001, 300), None);
    assert_eq!(comes(&mut s, 2_050, 100), None, "sent again");
    assert_eq!(comes(&mut s, 1_999, 200), OLD);
    assert_eq!(comes(&mut s, 2_000, 200), None, "only late");
    assert_eq!(s.tcb.rcv_edge(), 400);
}

/// RFC 9293 section 3.10.7.4, first: what does not fit is cut off, and the FIN behind it with it;
/// a FIN behind what has arrived is taken, also without room for more.
#[test]
fn a_fin_is_taken_where_its_data_was() {
    let mut s = Script::established();
    let _ = s.arrives(ACK, 0, 0, 20_000);
    s.sent();
    let d = s.arrives(FIN | ACK, 20_000, 0, 10);
    assert_eq!((d.place, d.drop), (None, Some(DropReason::BeyondWindow)));
    s.acks(20_000);
    assert!(!s.tcb.receive_status().is_closed() && s.tcb.rcv.fin() == crate::pos::NO_POS);
    let mut s = Script::established();
    let _ = s.arrives(ACK, 0, 0, 10);
    s.sent();
    s.tcb.receive_room().deny();
    let d = s.arrives(FIN | ACK, 0, 0, 10);
    assert_eq!(d.drop, Some(DropReason::Duplicate));
    assert!(s.tcb.receive_status().is_closed());
    s.acks(11);
}

/// RFC 2883 section 4: what was reported out of order and comes again in order is a duplicate.
#[test]
fn what_comes_again_in_order_is_reported() {
    let mut s = full();
    let _ = s.arrives(ACK, 1_000, 0, 1_000);
    s.sent();
    let _ = s.arrives(ACK, 0, 0, 1_500);
    let t = s.sent_one();
    let blocks: Vec<_> = t.options.sack.iter().collect();
    let at = |pos| s.tcb.rcv.seq(pos);
    assert_eq!(blocks, [(at(1_000), at(1_500))]);
    assert_eq!(s.ack_of(&t), 2_000);
    // What only touches is none.
    let mut s = full();
    let _ = s.arrives(ACK, 1_000, 0, 1_000);
    s.sent();
    let _ = s.arrives(ACK, 0, 0, 1_000);
    assert!(s.sent_one().options.sack.is_empty());
}

/// A SYN that is repeated is answered, however often it came before the answer went.
#[test]
fn a_repeated_syn_is_answered_once() {
    let mut s = Script::in_state(State::SynReceived);
    for _ in 0..2 {
        s.now = s.now.after_ms(600);
        let _ = s.arrives(SYN, -1, 0, 0);
    }
    let t = s.sent_one();
    assert_eq!((t.flags, s.seq_of(&t)), (SYN | ACK, -1));
}

/// RFC 6675 section 2: with SACK a duplicate has a block; without (RFC 5681 section 2), the same
/// window and no data.
#[test]
fn a_duplicate_is_what_the_peer_means_by_it() {
    let dup_acks = |s: &Script| s.tcb.flight.recovery.dup_acks;
    let mut s = full();
    s.writes(5_000);
    s.sent();
    for _ in 0..3 {
        let _ = s.arrives(ACK, 0, 0, 0);
    }
    assert_eq!(dup_acks(&s), 0);
    let mut s = Script::established();
    s.writes(5_000);
    s.sent();
    let _ = s.arrives(ACK, 0, 0, 0);
    assert_eq!(dup_acks(&s), 1);
    let _ = s.arrives(ACK, 0, 0, 10);
    s.window -= 1;
    let _ = s.arrives(ACK, 10, 0, 0);
    assert_eq!(dup_acks(&s), 1);
    // With nothing in flight there is nothing to be missed.
    let mut s = Script::established();
    let _ = s.arrives(ACK, 0, 0, 0);
    assert_eq!(dup_acks(&s), 0);
}

/// RFC 5681 section 3.1, by either path; and the count of retries ends with any progress.
#[test]
fn the_window_grows_with_what_is_acknowledged() {
    for predicted in [true, false] {
        let mut s = Script::established();
        s.writes(10_000);
        s.sent();
        s.tcb.liveness.note_retry();
        s.tcb.snd.rtt.back_off();
        if !predicted {
            s.tcb.prediction = crate::prediction::Prediction::OFF;
        }
        let d = s.arrives(ACK, 0, 2_000, 0);
        assert_eq!(d.fast_path, predicted);
        assert_eq!(s.tcb.send_status().cwnd(), 12_000);
        assert_eq!((s.tcb.liveness.retries(), s.tcb.snd.rtt.backoff()), (0, 0));
        assert!(s.tcb.deadline().is_some());
    }
}

/// Timestamps that were not agreed on measure nothing.
#[test]
fn an_echo_that_was_not_agreed_on_is_none() {
    for echo in [0, 5] {
        let mut s = Script::established();
        s.writes(500);
        s.sent();
        s.tcb.flight.round_trip.cancel(&mut s.tcb.congestion);
        s.tcb.snd.rtt = crate::rtt::RttEstimator::new();
        let echo = s.tcb.stamps.clock(s.now).wrapping_sub(echo);
        s.timestamps = Some(Timestamps { val: 1, echo });
        let _ = s.arrives(ACK, 0, 500, 0);
        assert_eq!((s.tcb.snd_acked(), s.tcb.snd.rtt.srtt()), (500, None));
    }
}
