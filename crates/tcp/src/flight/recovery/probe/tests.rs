//! The tail loss probe: when it goes, what it is, and what its answer means.

use super::Probe;
use crate::flight::Phase;
use crate::flight::recovery::tests::{RTT, established, flight, flight_of, repeated, sacks};
use crate::script::{ACK, Script};
use crate::{Config, TcpInfo};
use longshore_wire::tcp::TcpOptions;

fn info(s: &Script) -> TcpInfo {
    s.tcb.info(s.now)
}

#[test]
fn a_lost_tail_is_probed_after_two_round_trips() {
    let mut s = flight_of(true, 20_000);
    sacks(&mut s, 17_000, &[]);
    let srtt = s.tcb.snd.rtt.srtt().expect("sampled");
    assert_eq!(s.until_timer(), 2 * srtt + 2_000);
    // Nothing new is there: the last segment goes again.
    assert_eq!(repeated(&mut s), [19_000]);
    assert!(s.tcb.flight.recovery.is_open());
    assert_eq!(info(&s).total_rto, 0);
    // It arrives, the two before it do not: they were sent long before, so RACK
    // repeats them at once.
    s.now = s.now.after_ms(RTT);
    sacks(&mut s, 17_000, &[(19_000, 20_000)]);
    assert_eq!(s.tcb.flight.recovery.phase, Phase::Fast);
    assert_eq!(repeated(&mut s), [17_000]);
    assert_eq!(info(&s).total_rto, 0);
}

#[test]
fn a_probe_carries_new_data_if_there_are_any() {
    // The congestion window is full, and still one segment goes.
    let mut s = flight(true);
    s.until_timer();
    let t = s.sent_one();
    assert!(!t.retransmission);
    assert_eq!((t.payload.start, t.payload.end), (20_000, 21_000));
    // There is one probe; then the retransmission timer has its turn.
    let rto = info(&s).rto_us;
    assert_eq!(s.until_timer(), rto);
    assert_eq!(s.tcb.flight.recovery.phase, Phase::Loss);
}

#[test]
fn a_single_segment_gives_the_peer_time_to_delay_its_acknowledgment() {
    let mut s = flight_of(true, 20_000);
    sacks(&mut s, 19_000, &[]);
    let srtt = s.tcb.snd.rtt.srtt().expect("sampled");
    let rto = info(&s).rto_us;
    let pto = s.until_timer();
    assert_eq!(pto, 2 * srtt + 2_000 + 45_000);
    assert!(pto < rto);
    assert_eq!(repeated(&mut s), [19_000]);
}

#[test]
fn over_a_long_path_a_peer_may_wait_for_a_round_trip() {
    let mut s = flight_of(true, 20_000);
    sacks(&mut s, 20_000, &[]);
    for sent in 21..70 {
        s.writes(sent * 1_000);
        s.sent();
        s.now = s.now.after_ms(60);
        sacks(&mut s, sent as i64 * 1_000, &[]);
    }
    let srtt = s.tcb.snd.rtt.srtt().expect("sampled");
    assert!((59_000..60_100).contains(&srtt), "{srtt}");
    s.writes(70_000);
    s.sent();
    assert_eq!(s.until_timer(), 3 * srtt + 2_000);
}

#[test]
fn an_idle_probe_does_not_wait_for_ever() {
    // Sending goes on while nothing comes back: the retransmission timer, started
    // by the first segment, bounds the probe's.
    let mut s = flight_of(true, 20_000);
    sacks(&mut s, 20_000, &[]);
    let rto = info(&s).rto_us;
    let start = s.now;
    let mut edge = 20_000;
    while info(&s).total_rto == 0 {
        edge += 500;
        s.writes(edge);
        s.sent();
        assert!(s.now.since(start) < 2 * rto + 200_000);
        s.waits_ms(10);
    }
}

#[test]
fn a_repaired_loss_lowers_the_window() {
    // RFC 8985 section 7.4.2: the probe was the last segment, and has repaired its
    // loss; what was sent next is acknowledged without a DSACK.
    let mut s = flight_of(true, 20_000);
    sacks(&mut s, 19_000, &[]);
    s.until_timer();
    assert_eq!(repeated(&mut s), [19_000]);
    let before = s.tcb.send_status().cwnd();
    s.now = s.now.after_ms(RTT);
    sacks(&mut s, 20_000, &[]);
    assert!(s.tcb.send_status().cwnd() >= before);
    s.writes(21_000);
    s.sent();
    sacks(&mut s, 21_000, &[]);
    assert!(s.tcb.send_status().cwnd() < before);
    assert!(s.tcb.congestion.controller.ssthresh() < u32::MAX);
}

#[test]
fn a_needless_probe_changes_nothing() {
    for dsack in [true, false] {
        let mut s = flight_of(true, 20_000);
        sacks(&mut s, 19_000, &[]);
        s.until_timer();
        assert_eq!(repeated(&mut s), [19_000]);
        let before = s.tcb.send_status().cwnd();
        // The original had only been delayed.
        sacks(&mut s, 20_000, &[]);
        if dsack {
            sacks(&mut s, 20_000, &[(19_000, 20_000)]);
        }
        s.writes(21_000);
        s.sent();
        if !dsack {
            // A peer without DSACK repeats its acknowledgment.
            s.tcb.snd.set_sack(false);
            let _ = s.arrives(ACK, 0, 20_000, 0);
        }
        sacks(&mut s, 21_000, &[]);
        assert!(s.tcb.send_status().cwnd() >= before);
        // Nor is the reordering window wider for it.
        assert_eq!(s.tcb.congestion.controller.ssthresh(), u32::MAX);
    }
}

#[test]
fn without_sack_there_is_no_probe() {
    let mut s = flight(false);
    let rto = info(&s).rto_us;
    assert_eq!(s.until_timer(), rto - RTT * 1_000);
    assert_eq!(s.tcb.flight.recovery.phase, Phase::Loss);
}

#[test]
fn a_lost_fin_is_probed_for() {
    let cfg = Config {
        timestamps: false,
        ..Config::default()
    };
    let options = TcpOptions {
        sack_permitted: true,
        ..TcpOptions::default()
    };
    let mut s = established(&cfg, options);
    s.tcb.shutdown_send();
    s.sent_one();
    s.until_timer();
    let t = s.sent_one();
    assert!(t.flags.contains(crate::script::FIN) && t.retransmission);
    assert_eq!(info(&s).total_rto, 0);
}

/// As in Linux: a FIN that went alone is repeated alone, and one that went with data with it.
#[test]
fn a_fin_that_went_alone_is_probed_for_alone() {
    for alone in [true, false] {
        let mut s = flight_of(true, 20_000);
        let _ = s.arrives(ACK, 0, 20_000, 0);
        s.events();
        if alone {
            s.writes(20_700);
            assert_eq!(s.sent_one().payload, 20_000..20_700);
            s.tcb.shutdown_send();
            assert!(s.sent_one().payload.is_empty());
        } else {
            s.tcb.set_snd_edge(20_700, false);
            s.silent();
            s.tcb.shutdown_send();
            assert_eq!(s.sent_one().payload, 20_000..20_700);
        }
        s.until_timer();
        let t = s.sent_one();
        assert!(t.flags.contains(crate::script::FIN) && t.retransmission);
        assert_eq!(t.payload.is_empty(), alone, "{t:?}");
    }
}

/// The peer has taken back part of its window (or data went with a SYN before it was
/// known): what lies beyond is not sent again.
#[test]
fn no_probe_goes_beyond_the_window() {
    let mut s = flight_of(true, 20_000);
    s.window = 2_500;
    sacks(&mut s, 17_000, &[]);
    s.until_timer();
    assert!(repeated(&mut s).is_empty());
    // The retransmission timer repeats what fits.
    s.until_timer();
    assert_eq!(s.tcb.flight.recovery.phase, Phase::Loss);
    assert_eq!(repeated(&mut s), [17_000]);
}

/// Over a path as long as this the probe's timer is not certainly the first one: it is two round
/// trips, and the peer's delay for a single segment, unless the retransmission timer is earlier.
#[test]
fn over_a_very_long_path_the_earlier_timer_counts() {
    for (rtt, single) in [(70, false), (150, false), (70, true), (150, true)] {
        let mut s = flight_of(true, 20_000);
        sacks(&mut s, 20_000, &[]);
        let mut edge = 20_000;
        for _ in 0..60 {
            edge += 1_000;
            s.writes(edge);
            s.sent();
            s.now = s.now.after_ms(rtt);
            sacks(&mut s, edge as i64, &[]);
        }
        let srtt = s.tcb.snd.rtt.srtt().expect("sampled");
        assert!(srtt.abs_diff(rtt * 1_000) < 1_000, "{srtt}");
        s.writes(edge + if single { 1_000 } else { 2_000 });
        s.sent();
        let delay = if single { srtt } else { 0 };
        let probed_after = 2 * srtt + 2_000 + delay;
        let expected = probed_after.min(info(&s).rto_us);
        assert_eq!(s.until_timer(), expected, "{rtt} {single}");
    }
}

/// RFC 8985 section 7.3: one probe in flight; what begins meanwhile has the retransmission timer.
#[test]
fn an_outstanding_probe_is_waited_for() {
    // It carries new data: what is acknowledged below it is no answer.
    let mut s = flight(true);
    s.until_timer();
    assert_eq!(s.sent_one().payload, 20_000..21_000);
    sacks(&mut s, 5_000, &[]);
    assert!(s.tcb.flight.recovery.probe.is_outstanding());
    sacks(&mut s, 21_000, &[]);
    assert!(!s.tcb.flight.recovery.probe.is_outstanding());
    // It repeats the last segment: all is acknowledged, but not what was sent next.
    let mut s = flight_of(true, 20_000);
    sacks(&mut s, 19_000, &[]);
    s.until_timer();
    assert_eq!(repeated(&mut s), [19_000]);
    sacks(&mut s, 20_000, &[]);
    s.writes(21_000);
    s.sent();
    let rto = info(&s).rto_us;
    assert_eq!(s.until_timer(), rto);
    assert_eq!(info(&s).total_rto, 1);
}

/// The window is lowered once for what a probe has repaired, and not at all if the recovery that
/// began meanwhile has done so, or was none of congestion.
#[test]
fn a_probe_lowers_the_window_once() {
    let goes_on = |s: &mut Script, begins: i64| {
        let before = s.tcb.congestion.controller.ssthresh();
        for end in (begins..begins + 3).map(|n| n * 1_000) {
            s.writes(end as u64);
            s.sent();
            s.now = s.now.after_ms(RTT);
            sacks(s, end, &[]);
        }
        assert_eq!(s.tcb.congestion.controller.ssthresh(), before);
    };
    let probed = || {
        let mut s = flight_of(true, 20_000);
        sacks(&mut s, 17_000, &[]);
        s.until_timer();
        assert_eq!(repeated(&mut s), [19_000]);
        s.now = s.now.after_ms(RTT);
        s
    };
    let mut s = probed();
    sacks(&mut s, 20_000, &[]);
    s.writes(21_000);
    s.sent();
    sacks(&mut s, 21_000, &[]);
    assert!(s.tcb.congestion.controller.ssthresh() < u32::MAX);
    goes_on(&mut s, 22);
    // Fast recovery.
    let mut s = probed();
    sacks(&mut s, 17_000, &[(19_000, 20_000)]);
    assert_eq!(s.tcb.flight.recovery.phase, Phase::Fast);
    s.sent();
    s.now = s.now.after_ms(RTT);
    sacks(&mut s, 20_000, &[]);
    goes_on(&mut s, 21);
    // A timeout.
    let mut s = probed();
    s.until_timer();
    assert_eq!(s.tcb.flight.recovery.phase, Phase::Loss);
    s.sent();
    s.now = s.now.after_ms(RTT);
    sacks(&mut s, 20_000, &[]);
    goes_on(&mut s, 21);
    // A shorter path.
    let mut s = probed();
    s.tcb.segment_size().set_path_mss(900);
    assert_eq!(s.tcb.flight.recovery.phase, Phase::Mtu);
    s.sent();
    s.now = s.now.after_ms(RTT);
    sacks(&mut s, 20_000, &[]);
    goes_on(&mut s, 21);
    assert_eq!(s.tcb.congestion.controller.ssthresh(), u32::MAX);
}

/// Karn's algorithm: the time of a segment that was sent twice is no round trip.
#[test]
fn what_is_probed_for_is_not_timed() {
    let mut s = flight_of(true, 20_000);
    sacks(&mut s, 20_000, &[]);
    s.writes(21_000);
    s.sent();
    let before = info(&s);
    s.until_timer();
    assert_eq!(repeated(&mut s), [20_000]);
    s.now = s.now.after_ms(1);
    sacks(&mut s, 21_000, &[]);
    assert_eq!(info(&s).rtt_us, before.rtt_us);
}

/// What the window has room for to the byte is probed with; without room nothing is left to be
/// sent.
#[test]
fn a_probe_goes_up_to_the_windows_edge() {
    for (window, probes) in [(3_000, true), (2_999, false)] {
        let mut s = flight_of(true, 20_000);
        s.window = window;
        sacks(&mut s, 17_000, &[]);
        s.until_timer();
        assert!(s.tcb.may_have_to_send());
        assert_eq!(repeated(&mut s).len(), usize::from(probes));
        assert!(!s.tcb.may_have_to_send());
    }
}

/// RFC 8985 section 7.4.2: a duplicate of what the probe repeated, or of a part of it.
#[test]
fn what_a_probe_has_caused() {
    let mut probe = Probe::new();
    assert!(!probe.caused((0, 0)));
    probe.on_sent(10, 20, true);
    for (range, caused) in [
        ((10, 20), true),
        ((12, 15), true),
        ((9, 20), false),
        ((10, 21), false),
    ] {
        assert_eq!(probe.caused(range), caused, "{range:?}");
    }
    // New data was not sent before.
    probe.on_sent(10, 20, false);
    assert!(!probe.caused((10, 20)));
}

/// RFC 8985 section 7.2: without a round trip that was measured, a second.
#[test]
fn before_the_first_sample_a_probe_waits_for_a_second() {
    let cfg = Config {
        timestamps: false,
        ..Config::default()
    };
    let mut s = Script::connecting(&cfg);
    s.sent();
    s.until_timer();
    s.sent();
    let options = TcpOptions {
        mss: Some(crate::script::MSS),
        sack_permitted: true,
        ..TcpOptions::default()
    };
    let _ = s.arrives_with(crate::script::SYN | ACK, -1, 0, 0, options);
    s.sent();
    assert_eq!(s.tcb.snd.rtt.srtt(), None);
    s.writes(1_000);
    s.sent_one();
    assert_eq!(s.until_timer(), 1_000_000 + 45_000);
    assert!(s.sent_one().retransmission);
    assert_eq!(s.tcb.flight.recovery.phase, Phase::Open);
}
