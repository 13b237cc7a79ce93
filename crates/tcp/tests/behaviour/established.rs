//! ESTABLISHED: data both ways, acknowledgments, the user's calls.

use crate::script::{ACK, FIN, MSS, PSH, RST, Script, plain};
use longshore_tcp::{
    BurstConfig, Config, DropReason, Error, Events, IcmpError, Keepalive, Linger, State,
};
use longshore_wire::SeqNumber;

fn script() -> Script {
    Script::in_state(State::Established)
}

#[test]
fn data_in_order_is_placed_and_acknowledged_late() {
    let mut s = script();
    let d = s.arrives(PSH | ACK, 0, 0, 100);
    assert_eq!(
        d.place.map(|p| (p.stream_offset, p.skip, p.len)),
        Some((0, 0, 100))
    );
    assert_eq!(s.events(), Events::RCV_EDGE);
    s.silent();
    assert_eq!(s.until_timer(), 40_000);
    s.acks(100);
}

#[test]
fn every_second_full_segment_is_acknowledged() {
    let mut s = script();
    let len = u32::from(MSS);
    let _ = s.arrives(ACK, 0, 0, len);
    s.silent();
    let _ = s.arrives(ACK, 1000, 0, len);
    s.acks(2000);
    // A merged segment counts for as many as it is.
    let d = s.arrives(ACK, 2000, 0, 8 * len);
    assert!(d.ack_now);
    s.acks(10_000);
}

#[test]
fn an_overlap_is_cut_in_front() {
    let mut s = script();
    let _ = s.arrives(ACK, 0, 0, 100);
    let d = s.arrives(ACK, 50, 0, 100);
    assert_eq!(
        d.place.map(|p| (p.stream_offset, p.skip, p.len)),
        Some((100, 50, 50))
    );
    assert_eq!(s.tcb.rcv_edge(), 150);
}

#[test]
fn what_exceeds_the_window_is_cut_at_the_end() {
    let mut s = script();
    let d = s.arrives(FIN | ACK, 19_900, 0, 200);
    assert_eq!(
        d.place.map(|p| (p.stream_offset, p.len)),
        Some((19_900, 100))
    );
    assert_eq!(d.drop, Some(DropReason::BeyondWindow));
    let _ = s.arrives(ACK, 0, 0, 19_900);
    // The FIN was cut off with the rest.
    assert_eq!(s.tcb.state(), State::Established);
    assert_eq!(s.tcb.rcv_edge(), 20_000);
}

#[test]
fn acknowledgments_free_what_they_cover() {
    let mut s = script();
    s.writes(3000);
    assert_eq!(s.sent().len(), 3);
    let _ = s.arrives(ACK, 0, 2500, 0);
    assert_eq!(s.tcb.snd_acked(), 2500);
    assert_eq!(s.events(), Events::SND_ACKED);
    let _ = s.arrives(ACK, 0, 1000, 0);
    assert_eq!(s.tcb.snd_acked(), 2500);
    let _ = s.arrives(ACK, 0, 3000, 0);
    assert_eq!(s.tcb.deadline(), None);
}

#[test]
fn the_last_segment_of_a_write_is_pushed() {
    let mut s = script();
    s.writes(2500);
    let flags: Vec<_> = s.sent().iter().map(|t| t.flags).collect();
    assert_eq!(flags, [ACK, ACK, PSH | ACK]);
}

#[test]
fn a_large_segment_is_handed_out_for_segmentation() {
    let mut s = script();
    s.max_payload = 8_500;
    s.writes(9_500);
    let sent = s.sent();
    // Half the congestion window at a time.
    assert_eq!(sent[0].payload, 0..5_000);
    assert_eq!(sent[0].mss, 1000);
    assert_eq!(sent[1].payload, 5_000..9_500);
}

#[test]
fn data_is_repeated_and_given_up() {
    let mut s = script();
    s.writes(100);
    s.sent();
    let mut waits = Vec::new();
    while s.tcb.state() == State::Established {
        waits.push(s.until_timer() / 1000);
        for t in s.sent() {
            assert!(t.retransmission);
            assert_eq!(t.payload, 0..100);
        }
    }
    assert_eq!(waits.len(), 16);
    assert!(
        waits.windows(2).all(|w| w[1] == (2 * w[0]).min(120_000)),
        "{waits:?}"
    );
    assert_eq!(s.tcb.error(), Some(Error::TimedOut));
    assert!(s.events().contains(Events::TIMED_OUT | Events::CLOSED));
}

/// What tcp_retries2 counts is a time, as in Linux: that of so many repetitions with the shortest
/// timeout, 924.6 s by default.
#[test]
fn data_over_a_long_round_trip_is_given_up_as_soon() {
    let mut s = script();
    s.writes(100);
    s.sent();
    s.now = s.now.after_ms(20_000);
    let _ = s.arrives(ACK, 0, 100, 0);
    s.writes(200);
    s.sent();
    let from = s.now;
    while s.tcb.state() == State::Established {
        s.until_timer();
        s.sent();
    }
    let seconds = s.now.since(from) / 1_000_000;
    assert!((925..925 + 120).contains(&seconds), "{seconds}");
    assert_eq!(s.tcb.error(), Some(Error::TimedOut));
}

#[test]
fn the_user_timeout_ends_it() {
    let mut s = script();
    s.tcb.settings().set_user_timeout(3_000);
    s.writes(100);
    s.sent();
    let start = s.now;
    while s.tcb.state() == State::Established {
        s.until_timer();
        s.sent();
    }
    assert_eq!(s.now.since(start), 3_000_000);
    assert_eq!(s.tcb.error(), Some(Error::TimedOut));
}

#[test]
fn keepalive_probes_and_gives_up() {
    let mut s = script();
    let keepalive = Keepalive {
        enabled: true,
        idle_ms: 10_000,
        interval_ms: 1_000,
        probes: 3,
    };
    s.tcb.settings().set_keepalive(keepalive, s.now);
    // A segment arrives in between: the time restarts.
    s.waits_ms(5_000);
    let _ = s.arrives(ACK, 0, 0, 10);
    s.waits_ms(5_000);
    assert_eq!(s.sent().len(), 1, "the delayed acknowledgment");
    s.waits_ms(5_000);
    let t = s.sent_one();
    assert_eq!((s.seq_of(&t), t.payload), (-1, 0..0));
    // Answered: begins anew.
    let _ = s.arrives(ACK, 10, 0, 0);
    s.waits_ms(9_999);
    s.silent();
    s.waits_ms(1);
    s.sent_one();
    s.waits_ms(1_000);
    s.sent_one();
    s.waits_ms(1_000);
    s.sent_one();
    s.waits_ms(1_000);
    assert_eq!(s.sent_one().flags, RST | ACK);
    assert_eq!(s.tcb.error(), Some(Error::TimedOut));
}

#[test]
fn data_beyond_a_fin_is_not_taken() {
    let mut s = script();
    let _ = s.arrives(FIN | ACK, 100, 0, 0);
    let d = s.arrives(ACK, 50, 0, 100);
    assert_eq!(d.place.map(|p| p.len), Some(50));
    assert_eq!(d.drop, Some(DropReason::AfterFin));
    let _ = s.arrives(ACK, 0, 0, 50);
    assert_eq!(s.tcb.state(), State::CloseWait);
    assert_eq!(s.tcb.rcv_edge(), 100);
}

#[test]
fn a_fin_below_what_has_arrived_is_ignored() {
    let mut s = script();
    let _ = s.arrives(ACK, 100, 0, 100);
    let _ = s.arrives(FIN | ACK, 50, 0, 0);
    let _ = s.arrives(ACK, 0, 0, 100);
    assert_eq!(s.tcb.state(), State::Established);
    assert_eq!(s.tcb.rcv_edge(), 200);
}

#[test]
fn shutdown_sends_data_then_fin() {
    let mut s = script();
    s.writes(1_500);
    s.tcb.shutdown_send();
    assert_eq!(s.tcb.state(), State::FinWait1);
    let sent = s.sent();
    assert_eq!(sent.len(), 2);
    assert_eq!(sent[1].payload, 1_000..1_500);
    assert!(sent[1].flags.contains(FIN));
}

#[test]
fn close_with_all_read_closes_in_the_background() {
    let mut s = script();
    let _ = s.arrives(ACK, 0, 0, 100);
    s.tcb.set_rcv_consumed(100, s.now);
    s.writes(10);
    s.tcb.close(s.now);
    assert!(s.tcb.is_orphan());
    let t = s.sent_one();
    assert_eq!(t.payload, 0..10);
    assert!(t.flags.contains(FIN));
    assert_eq!(s.tcb.state(), State::FinWait1);
}

#[test]
fn close_with_linger_zero_resets() {
    let mut s = script();
    s.tcb.settings().set_linger(Linger::Reset);
    s.writes(10);
    s.tcb.close(s.now);
    let t = s.sent_one();
    assert_eq!(t.flags, RST | ACK);
    assert_eq!(s.tcb.state(), State::Closed);
}

#[test]
fn after_a_shutdown_of_reading_data_still_counts() {
    let mut s = script();
    s.tcb.closing().shutdown_recv();
    let d = s.arrives(ACK, 0, 0, 15_000);
    assert_eq!((d.place.map(|p| p.len), d.drop), (Some(15_000), None));
    let t = s.sent_one();
    assert_eq!((s.ack_of(&t), t.window), (15_000, 5_000));
    assert_eq!(s.tcb.rcv_consumed(), 0);
}

#[test]
fn after_a_shutdown_of_both_halves_data_is_reset() {
    for acked in [0, 1] {
        let mut s = script();
        s.tcb.shutdown_send();
        s.sent();
        s.tcb.closing().shutdown_recv();
        // Nothing new is no data.
        let _ = s.arrives(ACK, 0, acked, 0);
        assert_ne!(s.tcb.state(), State::Closed);
        let d = s.arrives(ACK, 0, acked, 10);
        assert!(d.reset);
        assert_eq!((d.place, d.drop), (None, Some(DropReason::AfterClose)));
        assert_eq!(s.tcb.error(), Some(Error::Reset));
        assert_eq!(s.tcb.state(), State::Closed);
    }
}

#[test]
fn the_end_is_acknowledged_after_all_data() {
    let mut s = script();
    s.writes(10);
    s.tcb.shutdown_send();
    s.sent();
    let _ = s.arrives(ACK, 0, 10, 0);
    assert!(!s.tcb.send_status().fin_acked());
    let _ = s.arrives(ACK, 0, 11, 0);
    assert!(s.tcb.send_status().fin_acked());
}

/// RFC 1122 section 4.2.3.9, and Linux: an ICMP error ends no connection, but is the reason that
/// is told if the peer does not answer either: the last one that is about what is in flight.
#[test]
fn an_icmp_error_is_the_reason_if_the_peer_never_answers() {
    let (net, host) = (IcmpError::NetUnreachable, IcmpError::HostUnreachable);
    for (errors, reason) in [
        (&[][..], Error::TimedOut),
        (&[(net, 9)], Error::TimedOut),
        (&[(net, 0)], Error::NetUnreachable),
        (&[(net, 0), (host, 0), (net, 9)], Error::HostUnreachable),
    ] {
        let mut s = script();
        s.writes(10);
        let t = s.sent_one();
        for (error, before) in errors {
            let quoted = SeqNumber(t.seq.0.wrapping_sub(*before));
            s.tcb.on_icmp(*error, quoted);
        }
        assert_eq!((s.tcb.state(), s.tcb.error()), (State::Established, None));
        while s.tcb.state() == State::Established {
            s.until_timer();
            s.sent();
        }
        assert_eq!(s.tcb.error(), Some(reason), "{errors:?}");
        assert!(s.events().contains(Events::TIMED_OUT));
    }
}

#[test]
fn a_smaller_path_repeats_in_smaller_segments() {
    let mut s = script();
    s.writes(3_000);
    s.sent();
    let cwnd = s.tcb.send_status().cwnd();
    s.tcb.segment_size().set_path_mss(500);
    let sent = s.sent();
    assert!(sent.iter().all(|t| t.retransmission && t.mss == 500));
    assert_eq!(sent.iter().map(|t| t.payload_len()).sum::<usize>(), 3_000);
    assert_eq!(s.tcb.send_status().cwnd(), cwnd);
}

#[test]
fn quickack_acknowledges_at_once() {
    let mut s = script();
    let _ = s.arrives(ACK, 0, 0, 10);
    s.silent();
    s.tcb.settings().set_quickack(true);
    s.acks(10);
    let _ = s.arrives(ACK, 10, 0, 10);
    s.acks(20);
}

#[test]
fn a_new_connection_acknowledges_at_once_for_a_while() {
    let mut s = Script::established_with(&plain(), Default::default());
    let mut quick = 0;
    for i in 0..30 {
        let _ = s.arrives(ACK, i * 10, 0, 10);
        quick += s.sent().len();
    }
    assert!((10..=16).contains(&quick), "{quick}");
}

#[test]
fn duplicate_acknowledgments_are_not_merged_for_a_peer_without_sack() {
    let mut s = script();
    for i in 1..4 {
        let _ = s.arrives(ACK, i * 1000, 0, 500);
    }
    assert_eq!(s.sent().len(), 3);
}

#[test]
fn sending_begins_anew_after_idle_time() {
    let mut s = Script::established_with(
        &Config {
            burst: BurstConfig::with_initial_window(4),
            ..plain()
        },
        Default::default(),
    );
    s.max_payload = 65_000;
    for edge in [4_000, 12_000, 28_000] {
        s.writes(edge);
        s.sent();
        let _ = s.arrives(ACK, 0, edge as i64, 0);
    }
    assert!(s.tcb.send_status().cwnd() > 16_000);
    s.waits_ms(60_000);
    s.writes(58_000);
    s.sent();
    assert_eq!(s.tcb.send_status().sent(), 32_000);
}
