//! RFC 9937 section 6, acknowledgment by acknowledgment.

use super::*;
use crate::flight::recovery::tests::{RTT, flight, sacks};
use crate::flight::recovery::{AckReport, Phase};
use crate::flight::scoreboard::Stamp;
use crate::script::Script;
use crate::time::{Instant, MS};

/// In fast recovery with `pipe` of 20 segments in the network, a threshold of 10, and so many
/// bytes to be delivered.
fn reducing(pipe: u32, to_deliver: u32) -> Script {
    let mut s = flight(true);
    s.tcb.congestion.controller.resume(20_000, 10_000);
    let f = &mut s.tcb.flight;
    f.recovery.phase = Phase::Fast;
    f.scoreboard.sack(0, i64::from(pipe), 20_000, |_| {});
    f.recovery.reduction = Reduction {
        flight: to_deliver,
        ..Reduction::new()
    };
    s
}

fn reduce(s: &mut Script, delivered: u32, safe: bool) -> u32 {
    let (snd, flight, congestion) = (&s.tcb.snd, &mut s.tcb.flight, &mut s.tcb.congestion);
    let pipe = flight.pipe(snd) as u32;
    flight.reduce_proportionally(snd, congestion, delivered, safe);
    congestion.controller.cwnd() - pipe
}

/// A fast recovery begins with an acknowledgment that delivered this much.
fn enter(s: &mut Script, delivered: u32) {
    let (snd, flight, congestion) = (&s.tcb.snd, &mut s.tcb.flight, &mut s.tcb.congestion);
    flight.enter_fast_recovery(snd, congestion, delivered);
}

/// Above the threshold: CEIL(prr_delivered * ssthresh / RecoverFS) - prr_out.
#[test]
fn above_the_threshold_half_of_what_arrives_is_sent() {
    let mut s = reducing(15_000, 20_000);
    assert_eq!(reduce(&mut s, 2_000, false), 1_000);
    s.tcb.flight.recovery.count_sent(1_000);
    assert_eq!(reduce(&mut s, 1, false), 1, "rounded up");
    assert_eq!(reduce(&mut s, 999, true), 500);
    s.tcb.flight.recovery.count_sent(5_000);
    assert_eq!(reduce(&mut s, 1_000, true), 0, "more was sent already");
}

/// Below it: as much as was delivered since something was sent, one segment more for each
/// acknowledgment that is safe, up to the threshold.
#[test]
fn below_the_threshold_the_window_is_filled_again() {
    let mut s = reducing(5_000, 20_000);
    assert_eq!(reduce(&mut s, 1_000, false), 1_000);
    assert_eq!(reduce(&mut s, 1_000, true), 3_000);
    s.tcb.flight.recovery.count_sent(1_500);
    // 500 of what was delivered were not sent.
    assert_eq!(reduce(&mut s, 0, false), 500);
    assert_eq!(reduce(&mut s, 700, true), 2_200);
    s.tcb.flight.recovery.count_sent(9_000);
    assert_eq!(reduce(&mut s, 300, false), 300);
    assert_eq!(reduce(&mut s, 90_000, false), 5_000);
    // At the threshold there is no room.
    let mut s = reducing(10_000, 20_000);
    assert_eq!(reduce(&mut s, 4_000, true), 0);
}

/// The first retransmission goes in any case.
#[test]
fn the_first_segment_is_sent_in_any_case() {
    for pipe in [15_000, 10_000] {
        let mut s = reducing(pipe, 20_000);
        s.tcb.flight.recovery.forced = true;
        assert_eq!(reduce(&mut s, 0, false), 1_000);
    }
    let mut s = reducing(15_000, 20_000);
    s.tcb.flight.recovery.forced = true;
    assert_eq!(reduce(&mut s, 4_000, false), 2_000);
}

/// RecoverFS: what the first acknowledgment delivered, and what is still to be.
#[test]
fn what_was_reported_before_is_not_to_be_delivered_again() {
    let mut s = flight(true);
    s.tcb.flight.scoreboard.sack(0, 12_000, 20_000, |_| {});
    enter(&mut s, 3_000);
    let r = s.tcb.flight.recovery.reduction;
    assert_eq!(r.flight, 15_000);
    assert_eq!((r.delivered, r.out), (3_000, 0), "it delivers already");
    s.tcb.flight.scoreboard.sack(0, 0, 20_000, |_| {});
    enter(&mut s, 0);
    assert_eq!(s.tcb.flight.recovery.reduction.flight, 1);
}

#[test]
fn only_what_is_sent_in_fast_recovery_counts() {
    for phase in [Phase::Open, Phase::Fast, Phase::Loss, Phase::Mtu] {
        let mut s = reducing(5_000, 20_000);
        s.tcb.flight.recovery.phase = phase;
        s.tcb.flight.recovery.reduction.delivered_since_send = 7;
        s.tcb.flight.recovery.count_sent(1_000);
        let r = s.tcb.flight.recovery.reduction;
        let counted = if phase == Phase::Fast {
            (1_000, 0)
        } else {
            (0, 7)
        };
        assert_eq!((r.out, r.delivered_since_send), counted, "{phase:?}");
    }
}

/// What goes again counts as what goes for the first time.
#[test]
fn retransmissions_count_as_sent() {
    let mut s = flight(true);
    sacks(&mut s, 0, &[(8_000, 20_000)]);
    assert_eq!(s.tcb.flight.recovery.phase, Phase::Fast);
    let sent = s.sent();
    assert_eq!(sent.iter().filter(|t| t.retransmission).count(), 8);
    let bytes: usize = sent.iter().map(|t| t.payload_len()).sum();
    assert_eq!(s.tcb.flight.recovery.reduction.out as usize, bytes);
}

/// SafeACK: SND.UNA advances, and nothing more is found to be lost; without SACK, a partial
/// acknowledgment is one, though the next segment is lost with it.
#[test]
fn an_acknowledgment_is_safe_that_advances_and_finds_no_loss() {
    let allows = |sack: bool, acked: u64, loses: bool| {
        let mut s = reducing(5_000, 20_000);
        s.tcb.snd.set_sack(sack);
        let f = &mut s.tcb.flight;
        f.recovery.recover = 20_000;
        if loses && sack {
            let sent = Stamp::new(Instant(s.now.0 - RTT * MS));
            f.recovery
                .rack
                .on_delivered_in_order(20_000, (sent, sent), s.now);
        }
        let report = AckReport {
            acked,
            delivered: 1_000,
            ..AckReport::default()
        };
        f.on_ack_in_recovery(&s.tcb.snd, &mut s.tcb.congestion, report, s.now);
        let pipe = f.pipe(&s.tcb.snd) as u32;
        assert_eq!(f.scoreboard.lost() > 0, loses);
        s.tcb.send_status().cwnd() - pipe
    };
    assert_eq!(allows(true, 1_000, false), 2_000);
    assert_eq!(allows(true, 0, false), 1_000);
    assert_eq!(allows(true, 1_000, true), 1_000);
    assert_eq!(allows(true, 0, true), 1_000);
    assert_eq!(allows(false, 1_000, true), 2_000);
    assert_eq!(allows(false, 0, false), 1_000);
}
