//! Loss found and repaired, segment by segment.

mod phases;

use super::*;
use crate::script::{ACK, MSS, PSH, SYN, Script};
use crate::{BurstConfig, Config, Congestion};
use longshore_wire::tcp::{TcpOptions, Timestamps};

/// The round trip of these tests, milliseconds.
pub(crate) const RTT: u64 = 20;

/// ESTABLISHED by an active open; the handshake took a round trip.
pub(crate) fn established(cfg: &Config, options: TcpOptions) -> Script {
    let mut s = Script::connecting(cfg);
    s.sent_one();
    s.now = s.now.after_ms(RTT);
    s.timestamps = options.timestamps;
    let syn_ack = TcpOptions {
        mss: Some(MSS),
        ..options
    };
    let _ = s.arrives_with(SYN | ACK, -1, 0, 0, syn_ack);
    s.sent();
    s
}

/// A connection with SACK or without, NewReno, that has sent 20 segments of 1000.
pub(crate) fn flight(sack: bool) -> Script {
    flight_of(sack, 60_000)
}

/// As `flight`, of a stream of `total` bytes.
pub(crate) fn flight_of(sack: bool, total: u64) -> Script {
    let cfg = Config {
        timestamps: false,
        window_scaling: false,
        sack,
        congestion: Congestion::NewReno,
        burst: BurstConfig::with_initial_window(20),
        ..Config::default()
    };
    let options = TcpOptions {
        sack_permitted: sack,
        ..TcpOptions::default()
    };
    let mut s = established(&cfg, options);
    s.window = 60_000;
    let _ = s.arrives(ACK, 0, 0, 0);
    s.writes(total);
    assert_eq!(s.sent().len(), 20);
    s.now = s.now.after_ms(RTT);
    s
}

/// A connection with timestamps, and SACK or not, NewReno, that has sent 20 segments of 988
/// bytes just now, of a stream of `total`. The peer echoes the time of that.
pub(crate) fn stamped_flight(sack: bool, total: u64) -> Script {
    let cfg = Config {
        window_scaling: false,
        sack,
        congestion: Congestion::NewReno,
        burst: BurstConfig::with_initial_window(20),
        ..Config::default()
    };
    let options = TcpOptions {
        sack_permitted: sack,
        timestamps: Some(Timestamps { val: 5, echo: 0 }),
        ..TcpOptions::default()
    };
    let mut s = established(&cfg, options);
    s.window = 60_000;
    echo(&mut s, 0);
    let _ = s.arrives(ACK, 0, 0, 0);
    s.writes(total);
    assert_eq!(s.sent().len(), 20);
    s
}

/// From now on the peer echoes what was sent `ago` milliseconds before now.
pub(crate) fn echo(s: &mut Script, ago: u32) {
    let echo = s.now.millis32() - ago;
    s.timestamps = Some(Timestamps { val: 5, echo });
}

/// Time passes until the retransmission timer has run out; what is sent before is lost.
pub(crate) fn timeout(s: &mut Script) {
    for _ in 0..4 {
        s.until_timer();
        if s.tcb.flight.recovery.phase == Phase::Loss {
            return;
        }
        s.sent();
    }
    panic!("no timeout: {:?}", s.tcb);
}

pub(crate) fn sacks(s: &mut Script, ack: i64, blocks: &[(i64, i64)]) {
    let mut options = TcpOptions::default();
    for &(start, end) in blocks {
        options.sack.push(s.tcb.snd.seq(start), s.tcb.snd.seq(end));
    }
    let _ = s.arrives_with(ACK, 0, ack, 0, options);
}

pub(crate) fn repeated(s: &mut Script) -> Vec<u64> {
    let sent = s.sent();
    sent.iter()
        .filter(|t| t.retransmission)
        .map(|t| t.payload.start)
        .collect()
}

#[test]
fn three_duplicates_repeat_the_first_segment() {
    let mut s = flight(false);
    for _ in 0..2 {
        let _ = s.arrives(ACK, 0, 0, 0);
        // Limited transmit (RFC 3042): one new segment each.
        let sent = s.sent();
        assert_eq!(sent.len(), 1);
        assert!(!sent[0].retransmission);
    }
    let _ = s.arrives(ACK, 0, 0, 0);
    assert_eq!(repeated(&mut s), [0]);
    assert_eq!(s.tcb.flight.recovery.phase, Phase::Fast);
    // Half of the window; RFC 5681 section 3.2: limited transmit's two segments do not
    // count.
    assert_eq!(s.tcb.congestion.controller.ssthresh(), 10_000);
    // The rest of the duplicates, then the acknowledgment of everything.
    for _ in 0..18 {
        let _ = s.arrives(ACK, 0, 0, 0);
        assert!(repeated(&mut s).is_empty());
    }
    let end = s.tcb.flight.recovery.recover;
    let _ = s.arrives(ACK, 0, end, 0);
    assert!(s.tcb.flight.recovery.is_open());
    assert_eq!(s.tcb.send_status().cwnd(), 10_000);
}

#[test]
fn a_partial_acknowledgment_repeats_the_next_hole() {
    let mut s = flight(false);
    for _ in 0..3 {
        let _ = s.arrives(ACK, 0, 0, 0);
    }
    assert_eq!(repeated(&mut s), [0]);
    // RFC 6582: segment 5 is lost as well.
    let _ = s.arrives(ACK, 0, 5_000, 0);
    assert_eq!(repeated(&mut s), [5_000]);
    let _ = s.arrives(ACK, 0, 9_000, 0);
    assert_eq!(repeated(&mut s), [9_000]);
    assert_eq!(s.tcb.flight.recovery.phase, Phase::Fast);
}

#[test]
fn window_updates_and_data_are_no_duplicates() {
    let mut s = flight(false);
    for i in 0..10 {
        s.window = 50_000 + i;
        let _ = s.arrives(ACK, 0, 0, 0);
        let _ = s.arrives(ACK, i64::from(i) * 10, 0, 10);
    }
    assert!(repeated(&mut s).is_empty());
    assert!(s.tcb.flight.recovery.is_open());
}

#[test]
fn sack_repeats_every_hole() {
    let mut s = flight(true);
    // Segments 0, 4 and 8 are lost.
    sacks(
        &mut s,
        0,
        &[(9_000, 20_000), (5_000, 8_000), (1_000, 4_000)],
    );
    let holes = repeated(&mut s);
    assert_eq!(holes[0], 0);
    s.now = s.now.after_ms(RTT);
    sacks(&mut s, 4_000, &[(9_000, 20_000), (5_000, 8_000)]);
    sacks(&mut s, 8_000, &[(9_000, 20_000)]);
    let all: Vec<u64> = holes.into_iter().chain(repeated(&mut s)).collect();
    assert_eq!(all, [0, 4_000, 8_000]);
}

#[test]
fn reordering_of_two_segments_repeats_nothing() {
    let mut s = flight(true);
    sacks(&mut s, 0, &[(1_000, 3_000)]);
    assert!(repeated(&mut s).is_empty());
    sacks(&mut s, 3_000, &[]);
    assert!(repeated(&mut s).is_empty());
    assert!(s.tcb.flight.recovery.is_open());
    assert_eq!(s.tcb.congestion.controller.ssthresh(), u32::MAX);
}

#[test]
fn the_window_comes_down_proportionally() {
    // RFC 6937: about one segment is sent for two that arrive.
    let mut s = flight(true);
    let mut sent = 0;
    for i in 2..20 {
        sacks(&mut s, 0, &[(1_000, i * 1_000)]);
        sent += s.sent().len();
    }
    sacks(&mut s, 0, &[(1_000, 20_000)]);
    sent += s.sent().len();
    assert!((9..=13).contains(&sent), "{sent}");
    assert!(
        s.tcb.flight.pipe(&s.tcb.snd) <= 12_000,
        "{}",
        s.tcb.flight.pipe(&s.tcb.snd)
    );
}

/// An acknowledgment that covers all up to the loss and reports all above it leaves
/// nothing of a full window in the network. That is no reason to go down to nothing.
#[test]
fn one_acknowledgment_of_everything_but_the_loss_halves_the_window_once() {
    for lost in [2, 10, 16] {
        let mut s = flight(true);
        let at = lost * 1_000;
        sacks(&mut s, at, &[(at + 1_000, 20_000)]);
        assert_eq!(s.tcb.flight.recovery.phase, Phase::Fast, "{lost}");
        let ssthresh = s.tcb.congestion.controller.ssthresh();
        assert!((10_000..=20_000).contains(&ssthresh), "{lost}: {ssthresh}");
        // What was delivered lets as much go, up to the threshold.
        let sent: usize = s.sent().iter().map(|t| t.payload_len()).sum();
        assert!(sent >= 9_000, "{lost}: {sent}");
        // The next one ends this recovery and finds another loss: half again, at once.
        let nxt = s.tcb.send_status().sent() as i64;
        s.now = s.now.after_ms(RTT);
        sacks(&mut s, 21_000, &[(22_000, nxt)]);
        assert_eq!(s.tcb.flight.recovery.phase, Phase::Fast, "{lost}");
        assert!(s.tcb.congestion.controller.ssthresh() >= 5_000, "{lost}");
        let sent: usize = s.sent().iter().map(|t| t.payload_len()).sum();
        assert!(sent >= 4_000, "{lost}: {sent}");
    }
}

#[test]
fn a_lost_repetition_is_found() {
    let mut s = flight(true);
    sacks(&mut s, 0, &[(1_000, 10_000)]);
    assert_eq!(repeated(&mut s), [0]);
    sacks(&mut s, 0, &[(1_000, 20_000)]);
    assert!(repeated(&mut s).is_empty());
    // What was sent after the repetition arrives, the repetition does not.
    sacks(&mut s, 0, &[(1_000, 21_000)]);
    sacks(&mut s, 0, &[(1_000, 24_000)]);
    assert_eq!(repeated(&mut s), [0]);
}

#[test]
fn a_timeout_repeats_from_the_start() {
    for sack in [false, true] {
        let mut s = flight_of(sack, 20_000);
        if sack {
            sacks(&mut s, 0, &[(3_000, 5_000)]);
            s.sent();
        }
        timeout(&mut s);
        assert_eq!(s.tcb.send_status().cwnd(), 1_000);
        assert_eq!(repeated(&mut s), [0]);
        // Slow start: two for one, and what is reported is left out.
        sacks(&mut s, 1_000, if sack { &[(3_000, 5_000)] } else { &[] });
        assert_eq!(repeated(&mut s), [1_000, 2_000]);
        sacks(&mut s, if sack { 5_000 } else { 3_000 }, &[]);
        let next = repeated(&mut s);
        assert_eq!(next[0], if sack { 5_000 } else { 3_000 });
        let end = s.tcb.flight.recovery.recover;
        sacks(&mut s, end, &[]);
        assert!(s.tcb.flight.recovery.is_open(), "{sack} {end} {:?}", s.tcb);
    }
}

#[test]
fn reneging_is_survived() {
    let mut s = flight(true);
    sacks(&mut s, 0, &[(1_000, 20_000)]);
    s.sent();
    // The peer has thrown away what it reported: it acknowledges the first and stops.
    sacks(&mut s, 1_000, &[]);
    s.sent();
    let mut ack = 1_000;
    for _ in 0..200 {
        if ack == 60_000 {
            break;
        }
        s.until_timer();
        for t in s.sent() {
            if t.payload.start as i64 == ack {
                ack = t.payload.end as i64;
            }
        }
        sacks(&mut s, ack, &[]);
        for t in s.sent() {
            if t.payload.start as i64 == ack {
                ack = t.payload.end as i64;
            }
        }
    }
    assert_eq!(ack, 60_000);
}

/// RFC 6582 section 3.2: the next hole goes at once, also if it is found before the first has gone.
#[test]
fn a_hole_that_is_found_before_the_first_has_gone_goes_at_once() {
    let mut s = flight(false);
    for _ in 0..3 {
        let _ = s.arrives(ACK, 0, 0, 0);
    }
    assert!(s.tcb.flight.recovery.forced);
    let _ = s.arrives(ACK, 0, 1_000, 0);
    assert!(s.tcb.flight.recovery.forced);
    assert_eq!(repeated(&mut s), [1_000]);
}

/// RFC 3522: no retransmission has an older timestamp than one before it.
#[test]
fn timestamps_of_retransmissions_do_not_go_back() {
    let mut s = stamped_flight(true, 60_000);
    s.now = s.now.after_ms(RTT);
    let (t, now) = (&mut s.tcb, s.now);
    t.flight.recovery.rack.note_reordering();
    assert!(t.flight.recovery.timestamp_backdating(&t.snd) > 0);
    for age in [0, 20_000] {
        let stamp = t
            .flight
            .recovery
            .stamp_retransmission(&t.snd, &t.stamps, age, now);
        assert_eq!(stamp, t.stamps.clock(now), "{age}");
    }
}

#[test]
fn a_lost_tail_is_rescued_within_the_recovery() {
    // Without more data than the flight, segments 0, 18 and 19 are lost: nothing
    // above 18 is ever reported.
    let mut s = established(
        &Config {
            timestamps: false,
            window_scaling: false,
            burst: BurstConfig::with_initial_window(20),
            ..Config::default()
        },
        TcpOptions {
            sack_permitted: true,
            ..TcpOptions::default()
        },
    );
    s.writes(20_000);
    s.sent();
    let mut all = Vec::new();
    for i in 2..=18 {
        sacks(&mut s, 0, &[(1_000, i * 1_000)]);
        all.extend(repeated(&mut s));
    }
    sacks(&mut s, 18_000, &[]);
    all.extend(repeated(&mut s));
    assert!(all.contains(&0) && all.contains(&19_000), "{all:?}");
    assert_eq!(s.tcb.info(s.now).total_rto, 0);
}

#[test]
fn hostile_reports_do_not_grow_the_window() {
    // Optimistic and divided acknowledgments: bytes are counted, not segments.
    let mut s = flight(true);
    let before = s.tcb.send_status().cwnd();
    for i in 1..=1_000 {
        let _ = s.arrives(ACK, 0, i, 0);
    }
    assert!(s.tcb.send_status().cwnd() <= before + 1_000);
    let d = s.arrives(ACK, 0, 1 << 20, 0);
    assert_eq!(d.drop, Some(crate::DropReason::AckUnsent));
}

#[test]
fn the_window_grows_once_for_what_duplicates_have_told_of() {
    // Two segments were overtaken by the acknowledgment of the first; without SACK,
    // limited transmit has answered each duplicate.
    for sack in [false, true] {
        let mut s = flight(sack);
        let cwnd = s.tcb.send_status().cwnd();
        for end in [2_000, 3_000] {
            let blocks = [(1_000, end)];
            sacks(&mut s, 0, if sack { &blocks } else { &[] });
            assert_eq!(s.sent().len(), 1);
        }
        sacks(&mut s, 3_000, &[]);
        assert_eq!(s.tcb.send_status().cwnd(), cwnd + 1_000, "{sack}");
    }
}

#[test]
fn only_what_ends_a_hole_is_pushed_when_it_is_repeated() {
    let mut s = flight(true);
    s.max_payload = 64_000;
    // 0 to 5 are lost, and 8 and 9. The window lets the first hole go in parts.
    sacks(&mut s, 0, &[(6_000, 8_000), (10_000, 20_000)]);
    let mut all = s.sent();
    for ack in [1_000, 3_000, 5_000] {
        s.now = s.now.after_ms(RTT);
        sacks(&mut s, ack, &[(6_000, 8_000), (10_000, 20_000)]);
        all.extend(s.sent());
    }
    let again: Vec<_> = all.iter().filter(|t| t.retransmission).collect();
    let batches = again.iter().filter(|t| t.payload_len() > 1_000);
    assert!(batches.clone().any(|t| t.payload.end < 6_000), "{again:?}");
    for t in batches {
        let ends = [6_000, 10_000].contains(&t.payload.end);
        assert_eq!(t.flags.contains(PSH), ends, "{t:?}");
    }
}

#[test]
fn who_sends_little_and_loses_it_keeps_what_a_silence_would_have_left() {
    // One segment in flight of a window of 20, the initial one.
    let mut s = flight_of(true, 20_000);
    let _ = s.arrives(ACK, 0, 20_000, 0);
    s.now = s.now.after_ms(RTT);
    s.writes(21_000);
    assert_eq!(s.sent().len(), 1);
    let cwnd = s.tcb.send_status().cwnd();
    timeout(&mut s);
    assert_eq!(s.tcb.send_status().cwnd(), 1_000);
    assert_eq!(
        s.tcb.congestion.controller.ssthresh(),
        10_000,
        "half of 20 segments"
    );
    assert!(cwnd >= 20_000, "{cwnd}");
}

/// A peer that runs out of memory takes its window back, and opens it again: what it has
/// refused goes again at once.
#[test]
fn what_a_closed_window_has_refused_is_repeated_when_it_opens() {
    let mut s = flight(true);
    s.window = 0;
    let _ = s.arrives(ACK, 0, 0, 0);
    timeout(&mut s);
    for _ in 0..3 {
        assert_eq!(s.sent_one().payload, 0..1_000);
        let _ = s.arrives(ACK, 0, 0, 0);
        s.silent();
        s.until_timer();
    }
    s.sent();
    s.window = 60_000;
    let _ = s.arrives(ACK, 0, 0, 0);
    assert_eq!(s.sent_one().payload, 0..1_000);
    s.now = s.now.after_ms(RTT);
    let _ = s.arrives(ACK, 0, 1_000, 0);
    assert_eq!(s.sent()[0].payload.start, 1_000);
}

/// Sends what the windows allow and has it acknowledged, in this many round trips.
fn rounds(s: &mut Script, n: usize) {
    for _ in 0..n {
        let end = s.tcb.snd.nxt();
        let _ = s.arrives(ACK, 0, end, 0);
        s.writes(end as u64 + 200_000);
        assert!(!s.sent().is_empty());
        s.now = s.now.after_ms(RTT);
    }
}

/// RFC 7661: what the peer's window limits, or the user, says nothing of what the path
/// takes. Slow start goes on to twice what was in flight, congestion avoidance stays.
#[test]
fn behind_the_peers_window_the_congestion_window_does_not_grow() {
    let mut s = flight_of(true, 20_000);
    s.window = 20_000;
    rounds(&mut s, 20);
    let cwnd = s.tcb.send_status().cwnd();
    assert!((39_000..=40_000).contains(&cwnd), "{cwnd}");
    // A loss ends slow start.
    let una = s.tcb.snd.una();
    sacks(&mut s, una, &[(una + 1_000, una + 20_000)]);
    s.now = s.now.after_ms(RTT);
    sacks(&mut s, una, &[(una + 1_000, una + 20_000)]);
    s.sent();
    s.now = s.now.after_ms(RTT);
    s.window = 5_000;
    rounds(&mut s, 2);
    assert!(s.tcb.flight.recovery.is_open());
    let cwnd = s.tcb.send_status().cwnd();
    assert!(cwnd >= s.tcb.congestion.controller.ssthresh());
    rounds(&mut s, 100);
    assert_eq!(s.tcb.send_status().cwnd(), cwnd);
    s.window = 60_000;
    rounds(&mut s, 5);
    assert!(s.tcb.send_status().cwnd() > cwnd + 2_000);
}
