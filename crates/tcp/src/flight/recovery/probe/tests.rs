//! The tail loss probe: when it goes, what it is, and what its answer means.

use crate::flight::Phase;
use crate::flight::recovery::tests::{RTT, established, flight, flight_of, repeated, sacks};
use crate::script::ACK;
use crate::{Config, TcpInfo};
use longshore_wire::tcp::TcpOptions;

fn info(s: &crate::script::Script) -> TcpInfo {
    s.tcb.info(s.now)
}

#[test]
fn a_lost_tail_is_probed_after_two_round_trips() {
    let mut s = flight_of(true, 20_000);
    sacks(&mut s, 17_000, &[]);
    let srtt = s.tcb.srtt_us().expect("sampled");
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
    let srtt = s.tcb.srtt_us().expect("sampled");
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
    let srtt = s.tcb.srtt_us().expect("sampled");
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
    let before = s.tcb.cwnd();
    s.now = s.now.after_ms(RTT);
    sacks(&mut s, 20_000, &[]);
    assert!(s.tcb.cwnd() >= before);
    s.writes(21_000);
    s.sent();
    sacks(&mut s, 21_000, &[]);
    assert!(s.tcb.cwnd() < before);
    assert!(s.tcb.congestion.controller.ssthresh() < u32::MAX);
}

#[test]
fn a_needless_probe_changes_nothing() {
    for dsack in [true, false] {
        let mut s = flight_of(true, 20_000);
        sacks(&mut s, 19_000, &[]);
        s.until_timer();
        assert_eq!(repeated(&mut s), [19_000]);
        let before = s.tcb.cwnd();
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
        assert!(s.tcb.cwnd() >= before);
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
