//! No segment has bytes from both sides of a record's end.

#![expect(
    clippy::single_range_in_vec_init,
    reason = "one segment's payload is compared with what was sent"
)]

use super::*;
use crate::flight::RecordEnds;
use crate::flight::recovery::tests::{flight_of, sacks};
use crate::script::{ACK, FIN, PSH, Script};

impl Script {
    /// Writes `ends`, each a record.
    fn records(&mut self, ends: impl IntoIterator<Item = u64>) {
        for end in ends {
            self.writes(end);
            assert!(self.tcb.send_stream().end_record(end));
        }
    }

    fn payloads(&mut self) -> Vec<core::ops::Range<u64>> {
        let sent = self.sent();
        sent.into_iter().map(|t| t.payload).collect()
    }
}

#[test]
fn a_segment_ends_where_a_record_does() {
    let mut s = Script::established();
    s.records([400, 800, 1_000, 2_500]);
    s.writes(2_900);
    assert_eq!(
        s.payloads(),
        [0..400, 400..800, 800..1_000, 1_000..2_000, 2_000..2_500]
    );
    // The last, to which more may be added, waits as ever.
    s.writes(5_000);
    assert_eq!(s.payloads(), [2_500..3_500, 3_500..4_500]);
}

#[test]
fn nor_does_what_is_segmented_later_pass_one() {
    let mut s = Script::established();
    s.max_payload = 64_000;
    s.records([3_000, 4_500]);
    s.writes(9_500);
    let sent = s.sent();
    let payloads: Vec<_> = sent.iter().map(|t| t.payload.clone()).collect();
    assert_eq!(payloads, [0..3_000, 3_000..4_500, 4_500..9_500]);
    assert!(sent.iter().all(|t| t.flags.contains(PSH)));
}

#[test]
fn a_record_that_is_the_last_waits_as_nagle_has_it() {
    let mut s = Script::established();
    s.records([10]);
    assert_eq!(s.payloads(), [0..10]);
    s.records([20]);
    s.silent();
    // One that another follows does not: nothing can be added to it.
    s.writes(30);
    assert_eq!(s.payloads(), [10..20]);
    let _ = s.arrives(ACK, 0, 20, 0);
    assert_eq!(s.payloads(), [20..30]);
}

#[test]
fn what_comes_after_is_sent_as_ever_once_the_record_is_acknowledged() {
    let mut s = Script::established();
    s.records([400]);
    assert_eq!(s.payloads(), [0..400]);
    let _ = s.arrives(ACK, 0, 400, 0);
    s.writes(2_400);
    assert_eq!(s.payloads(), [400..1_400, 1_400..2_400]);
    assert!(!s.tcb.flags.contains(Flags::RECORD_ENDS));
    assert!(s.tcb.flight.record_ends.is_empty());
}

#[test]
fn a_retransmission_ends_there_too() {
    let mut s = flight_of(true, 20_000);
    let _ = s.arrives(ACK, 0, 20_000, 0);
    s.events();
    s.tcb.settings().set_nodelay(true);
    s.records([20_400, 20_800, 21_200, 21_600]);
    s.writes(24_600);
    s.max_payload = 64_000;
    assert_eq!(
        s.payloads(),
        [
            20_000..20_400,
            20_400..20_800,
            20_800..21_200,
            21_200..21_600,
            21_600..24_600
        ]
    );
    for sacked in [22_600, 23_600, 24_600] {
        s.now = s.now.after_ms(20);
        sacks(&mut s, 20_000, &[(21_600, sacked)]);
    }
    let mut again = s.sent();
    sacks(&mut s, 20_800, &[(21_600, 24_600)]);
    again.extend(s.sent());
    let payloads: Vec<_> = again.iter().map(|t| t.payload.clone()).collect();
    assert_eq!(
        payloads,
        [
            20_000..20_400,
            20_400..20_800,
            20_800..21_200,
            21_200..21_600
        ]
    );
    assert!(
        again
            .iter()
            .all(|t| t.retransmission && t.flags.contains(PSH))
    );
}

#[test]
fn the_tail_loss_probe_repeats_the_last_record_alone() {
    let mut s = flight_of(true, 20_000);
    let _ = s.arrives(ACK, 0, 20_000, 0);
    s.events();
    s.tcb.settings().set_nodelay(true);
    s.records([20_400, 20_800]);
    assert_eq!(s.payloads(), [20_000..20_400, 20_400..20_800]);
    s.until_timer();
    assert_eq!(s.sent_one().payload, 20_400..20_800);
}

#[test]
fn the_fin_goes_with_the_last_record() {
    let mut s = Script::established();
    s.records([100, 200]);
    s.tcb.shutdown_send();
    let sent = s.sent();
    assert_eq!(sent.len(), 2);
    assert_eq!(sent[1].payload, 100..200);
    assert!(sent[1].flags.contains(FIN));
}

#[test]
fn ends_may_be_told_in_another_order_and_twice() {
    let mut s = Script::established();
    s.tcb.settings().set_nodelay(true);
    s.writes(900);
    for end in [600, 300, 600] {
        assert!(s.tcb.send_stream().end_record(end));
    }
    assert_eq!(s.payloads(), [0..300, 300..600, 600..900]);
    // One that is acknowledged is none.
    let _ = s.arrives(ACK, 0, 900, 0);
    assert!(s.tcb.send_stream().end_record(600));
    s.sent();
    assert!(s.tcb.flight.record_ends.is_empty());
}

#[test]
fn so_many_are_kept_and_no_more() {
    let mut s = Script::established();
    s.window = 1;
    let _ = s.arrives(ACK, 0, 0, 0);
    s.records(1..=RecordEnds::MOST as u64);
    s.writes(RecordEnds::MOST as u64 + 1);
    assert!(!s.tcb.send_stream().end_record(RecordEnds::MOST as u64 + 1));
    assert!(s.tcb.send_stream().end_record(7), "known already");
}

#[test]
fn an_end_beyond_what_is_written_is_where_that_ends() {
    let mut s = Script::established();
    s.writes(300);
    assert!(s.tcb.send_stream().end_record(u64::MAX));
    s.writes(600);
    assert_eq!(s.payloads(), [0..300]);
}

/// The end of a record is pushed, as what was written last is; what only fills a segment is not.
#[test]
fn only_what_ends_a_record_is_pushed() {
    let mut s = Script::established();
    s.tcb.set_snd_edge(4_000, false);
    assert!(s.tcb.send_stream().end_record(500));
    let sent = s.sent();
    let pushed: Vec<_> = sent
        .iter()
        .map(|t| (t.payload.clone(), t.flags.contains(crate::script::PSH)))
        .collect();
    assert_eq!(
        pushed[..3],
        [(0..500, true), (500..1_500, false), (1_500..2_500, false)]
    );
}

/// The end of what is acknowledged already is none to be kept.
#[test]
fn an_end_that_was_acknowledged_is_not_kept() {
    let mut s = Script::established();
    s.writes(500);
    s.sent();
    let _ = s.arrives(ACK, 0, 500, 0);
    assert!(s.tcb.send_stream().end_record(500));
    assert!(!s.tcb.flags.contains(crate::flags::Flags::RECORD_ENDS));
    assert!(s.tcb.flight.record_ends.is_empty());
}
