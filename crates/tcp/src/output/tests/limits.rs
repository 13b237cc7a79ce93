//! What limits a segment: windows, the sizes of user and port, options; and what is told of it.

use crate::flight::recovery::tests::{RTT, flight, flight_of, repeated, sacks, timeout};
use crate::script::{ACK, FIN, Script, plain};
use crate::{Config, Congestion};
use longshore_wire::tcp::TcpOptions;

/// RFC 9293 section 3.8.6: the peer has taken back part of its window. What fits is sent again,
/// and of a closed window the first segment, as a probe.
#[test]
fn a_retransmission_fits_the_window_or_probes_it() {
    for (window, expected) in [(500, 0..500), (0, 0..1_000), (60_000, 0..1_000)] {
        let mut s = flight_of(true, 20_000);
        s.window = window;
        let _ = s.arrives(ACK, 0, 0, 0);
        timeout(&mut s);
        assert_eq!(s.sent_one().payload, expected, "{window}");
    }
}

/// RFC 6298 section 5: the timer is that of the first segment, and goes on when another is sent
/// again.
#[test]
fn what_is_sent_again_behind_the_first_leaves_the_timer() {
    let mut s = flight_of(true, 20_000);
    sacks(&mut s, 0, &[(1_000, 3_000), (4_000, 20_000)]);
    let next = |s: &mut Script| {
        let sent = s.tcb.poll_transmit(s.now, s.max_payload);
        (sent.map(|t| t.payload), s.tcb.flight.timer.at())
    };
    let (first, at) = next(&mut s);
    assert_eq!(first, Some(0..1_000));
    s.now = s.now.after_ms(1);
    assert_eq!(next(&mut s), (Some(3_000..4_000), at));
}

/// A port that takes less than a packet gets what it takes, without waiting for more.
#[test]
fn a_port_of_less_than_a_packet_is_used() {
    let mut s = Script::established();
    s.max_payload = 600;
    s.writes(2_100);
    let sent: Vec<_> = s.sent().into_iter().map(|t| t.payload).collect();
    // Nagle's rule has the rest wait.
    assert_eq!(sent, [0..600, 600..1_200, 1_200..1_800]);
    // Of a whole packet, whatever is less waits while more is written: it goes with that.
    let mut s = Script::established();
    s.max_payload = 1_000;
    s.writes(500);
    s.sent();
    s.writes(2_100);
    assert_eq!(s.sent_one().payload, 500..1_500);
}

/// RFC 9293 section 3.8.6.2.1: less than half of the largest window waits for more of it, wherever
/// in the stream; the time is told, and the persist timer ends it.
#[test]
fn a_silly_window_is_waited_for() {
    let mut s = Script::established();
    s.writes(8_000);
    s.sent();
    s.window = 400;
    let _ = s.arrives(ACK, 0, 8_000, 0);
    s.tcb.settings().set_nodelay(true);
    s.writes(13_000);
    s.silent();
    let waited = s.until_timer();
    assert_eq!(s.tcb.info(s.now).rwnd_limited_us, waited / 1_000 * 1_000);
    assert_eq!(s.sent_one().payload, 8_000..8_400);
    s.window = 30_000;
    let _ = s.arrives(ACK, 0, 8_400, 0);
    assert!(!s.sent().is_empty());
    let limited = s.tcb.info(s.now).rwnd_limited_us;
    s.now = s.now.after_ms(50);
    assert_eq!(s.tcb.info(s.now).rwnd_limited_us, limited);
}

/// What Nagle's rule holds back is not held back by the peer's window; nor is a packet that ends
/// with the window cut short.
#[test]
fn nagles_rule_is_no_window() {
    let mut s = Script::established();
    s.writes(100);
    s.sent();
    s.writes(150);
    s.silent();
    s.now = s.now.after_ms(50);
    assert_eq!(s.tcb.info(s.now).rwnd_limited_us, 0);
    let cfg = Config {
        burst: crate::BurstConfig::with_initial_window(100),
        ..plain()
    };
    let mut s = Script::established_with(&cfg, TcpOptions::default());
    s.max_payload = 64_000;
    s.window = 29_500;
    let _ = s.arrives(ACK, 0, 0, 0);
    s.writes(60_000);
    assert_eq!(
        s.sent().iter().map(|t| t.payload_len()).sum::<usize>(),
        29_000
    );
}

/// A cork does not wait for a closed window: that is probed.
#[test]
fn a_closed_window_is_probed_under_a_cork() {
    for corked in [true, false] {
        let mut s = Script::established();
        s.window = 0;
        let _ = s.arrives(ACK, 0, 0, 0);
        s.tcb.settings().set_cork(corked);
        s.writes(10);
        s.silent();
        assert!(s.tcb.timers.hold.is_never());
        let rto = s.tcb.info(s.now).rto_us;
        assert_eq!(s.until_timer(), rto);
        assert_eq!(s.seq_of(&s.clone().sent_one()), -1, "a probe");
    }
}

/// RFC 2018: no report to a peer that did not offer to read it.
#[test]
fn nothing_is_reported_unless_that_was_agreed() {
    let mut s = Script::established();
    let _ = s.arrives(ACK, 1_000, 0, 1_000);
    let t = s.sent_one();
    assert!(t.options.sack.is_empty());
    assert_eq!(s.ack_of(&t), 0);
}

/// What TCP_INFO counts of what is sent again, and of a FIN.
#[test]
fn what_is_sent_again_is_counted() {
    let mut s = flight(true);
    sacks(&mut s, 0, &[(0, 2_000), (3_000, 20_000)]);
    sacks(&mut s, 2_000, &[(3_000, 20_000)]);
    assert_eq!(repeated(&mut s), [2_000]);
    let info = s.tcb.info(s.now);
    assert_eq!((info.total_retrans, info.bytes_retrans), (1, 1_000));
    // To send again is to send.
    let mut s = flight_of(true, 20_000);
    timeout(&mut s);
    assert!(s.tcb.info(s.now).last_data_sent_us > 0);
    assert_eq!(repeated(&mut s), [0]);
    assert_eq!(s.tcb.info(s.now).last_data_sent_us, 0);
    // A FIN has no data.
    let mut s = Script::established();
    s.tcb.shutdown_send();
    assert_eq!(s.sent_one().flags, ACK | FIN);
    let info = s.tcb.info(s.now);
    assert_eq!((info.data_segs_out, info.bytes_sent), (0, 0));
    s.until_timer();
    assert_eq!(s.sent_one().flags, ACK | FIN);
    let info = s.tcb.info(s.now);
    assert_eq!((info.total_retrans, info.bytes_retrans), (1, 0));
}

/// A connection that answers is interactive as long as it does.
#[test]
fn answers_wait_for_the_next_one() {
    let mut s = Script::established();
    for n in 0..4 {
        let _ = s.arrives(ACK, n * 10, n * 10, 10);
        s.writes(n as u64 * 10 + 10);
        let t = s.sent_one();
        assert_eq!((t.payload_len(), s.ack_of(&t)), (10, n * 10 + 10));
        assert!(
            s.tcb.flags.contains(crate::flags::Flags::INTERACTIVE),
            "{n}"
        );
        s.now = s.now.after_ms(5);
    }
}

/// The pace is that of the window and the round trip, as they change.
#[test]
fn the_pace_follows_the_window() {
    for predicted in [true, false] {
        let cfg = Config {
            congestion: Congestion::NewReno,
            max_pacing_rate: 1 << 40,
            ..plain()
        };
        let mut s = Script::established_with(&cfg, TcpOptions::default());
        s.window = 60_000;
        s.now = s.now.after_ms(RTT);
        let _ = s.arrives(ACK, if predicted { 0 } else { 50 }, 0, 10);
        s.sent();
        let mut edge = 0;
        for _ in 0..3 {
            let first = edge == 0;
            edge += 10_000;
            s.writes(edge);
            s.waits_ms(RTT);
            s.sent();
            s.waits_ms(RTT);
            let at = if predicted { 10 } else { 0 };
            let d = s.arrives(ACK, at, edge as i64, 0);
            assert!(first || d.fast_path == predicted);
            s.sent();
        }
        let info = s.tcb.info(s.now);
        let percent = if u64::from(info.snd_cwnd) < u64::from(info.snd_ssthresh / 2) {
            200
        } else {
            120
        };
        let expected = u64::from(info.snd_cwnd) * percent * 10_000 / info.rtt_us;
        assert_eq!(info.pacing_rate, expected);
    }
}

/// What pacing holds back, new or to be sent again, goes when its time has come.
#[test]
fn what_is_paced_has_a_timer() {
    let paced = |rate| {
        let mut s = flight_of(true, 20_000);
        s.tcb.settings().set_max_pacing_rate(rate);
        s
    };
    // Everything was sent, and a loss is found.
    let mut s = paced(1_000_000);
    s.tcb.congestion.pace(50_000, s.now);
    sacks(&mut s, 0, &[(1_000, 20_000)]);
    s.silent();
    assert_eq!(s.tcb.timers.pace, s.tcb.congestion.pacer.next());
    s.waits_ms(60);
    assert_eq!(repeated(&mut s), [0]);
    // Nothing is left to be sent.
    let mut s = paced(1_000_000);
    s.tcb.congestion.pace(50_000, s.now);
    let _ = s.arrives(ACK, 5, 0, 10);
    s.acks(0);
    assert!(s.tcb.timers.pace.is_never());
}
