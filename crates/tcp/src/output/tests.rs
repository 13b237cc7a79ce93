//! Options of outgoing segments, SACK blocks and their order, flags.

mod limits;

use crate::script::{ACK, FIN, PSH, Script};
use crate::{Config, Transmit};
use longshore_wire::tcp::{TcpOptions, Timestamps};

fn with_sack(timestamps: bool) -> Script {
    let options = TcpOptions {
        mss: Some(1000),
        sack_permitted: true,
        timestamps: timestamps.then_some(Timestamps { val: 500, echo: 0 }),
        ..TcpOptions::default()
    };
    Script::established_with(&Config::default(), options)
}

fn blocks(s: &Script, t: &Transmit) -> Vec<(i64, i64)> {
    let pos = |seq| s.tcb.rcv.pos(seq);
    t.options
        .sack
        .iter()
        .map(|(l, r)| (pos(l), pos(r)))
        .collect()
}

#[test]
fn sack_blocks_report_the_latest_first() {
    let mut s = with_sack(false);
    let mut seen = Vec::new();
    for at in [1_000, 3_000, 5_000, 7_000, 9_000] {
        let _ = s.arrives(ACK, at, 0, 1_000);
        let t = s.sent_one();
        seen = blocks(&s, &t);
        assert_eq!(seen[0], (at, at + 1_000));
    }
    assert_eq!(seen[..3], [(9_000, 10_000), (7_000, 8_000), (5_000, 6_000)]);
    assert_eq!(seen.len(), 4);
    // An older range grows: it goes first.
    let _ = s.arrives(ACK, 4_000, 0, 1_000);
    let t = s.sent_one();
    let seen = blocks(&s, &t);
    assert_eq!(seen[..2], [(3_000, 6_000), (9_000, 10_000)]);
}

#[test]
fn with_timestamps_three_blocks_fit() {
    let mut s = with_sack(true);
    for at in [1_000, 3_000, 5_000, 7_000] {
        let _ = s.arrives(ACK, at, 0, 1_000);
    }
    let t = s.sent_one();
    assert_eq!(blocks(&s, &t).len(), 3);
    assert!(t.options.emitted_len() <= 40);
    // Payload makes room for them.
    s.writes(5_000);
    let _ = s.arrives(ACK, 9_000, 0, 1_000);
    let t = s.sent().remove(0);
    assert_eq!(usize::from(t.mss) + t.options.emitted_len(), 1_000);
    assert_eq!(t.payload_len(), usize::from(t.mss));
}

#[test]
fn a_filled_hole_ends_the_report() {
    let mut s = with_sack(false);
    let _ = s.arrives(ACK, 1_000, 0, 1_000);
    s.sent();
    let _ = s.arrives(ACK, 0, 0, 1_000);
    assert!(s.sent_one().options.sack.is_empty());
}

#[test]
fn duplicates_are_reported_once() {
    // RFC 2883 section 4.1: below the cumulative acknowledgment.
    let mut s = with_sack(false);
    let _ = s.arrives(ACK, 0, 0, 1_000);
    s.sent();
    let _ = s.arrives(ACK, 0, 0, 1_000);
    let t = s.sent_one();
    assert_eq!(blocks(&s, &t), [(0, 1_000)]);
    let _ = s.arrives(ACK, 1_000, 0, 10);
    assert!(s.sent_one().options.sack.is_empty());
}

#[test]
fn duplicates_within_a_report_come_first() {
    // RFC 2883 section 4.1, second example: a duplicate above a hole.
    let mut s = with_sack(false);
    let _ = s.arrives(ACK, 1_000, 0, 2_000);
    s.sent();
    let _ = s.arrives(ACK, 2_000, 0, 1_000);
    let t = s.sent_one();
    assert_eq!(blocks(&s, &t), [(2_000, 3_000), (1_000, 3_000)]);
}

#[test]
fn partial_duplicates_are_reported_as_far_as_they_are() {
    let mut s = with_sack(false);
    let _ = s.arrives(ACK, 0, 0, 1_000);
    s.sent();
    let _ = s.arrives(ACK, 500, 0, 1_000);
    let t = s.sent_one();
    assert_eq!(blocks(&s, &t), [(500, 1_000)]);
    assert_eq!(s.ack_of(&t), 1_500);
}

#[test]
fn the_fin_rides_on_the_last_data() {
    let mut s = Script::established();
    s.max_payload = 65_000;
    s.writes(2_500);
    s.tcb.shutdown_send();
    let t = s.sent_one();
    assert_eq!(t.flags, ACK | PSH | FIN);
    assert_eq!((t.payload, t.mss), (0..2_500, 1_000));
}

#[test]
fn a_fin_waits_for_its_place_in_the_window() {
    let mut s = Script::established();
    s.window = 1_000;
    let _ = s.arrives(ACK, 0, 0, 0);
    s.writes(1_000);
    s.tcb.shutdown_send();
    assert_eq!(s.sent_one().flags, ACK | PSH);
    s.window = 1_000;
    let _ = s.arrives(ACK, 0, 1_000, 0);
    assert_eq!(s.sent_one().flags, ACK | FIN);
}

#[test]
fn a_header_is_made_of_it() {
    let mut s = with_sack(true);
    s.writes(5);
    let t = s.sent_one();
    let h = t.header(80, 4000);
    assert_eq!(
        (h.src_port, h.dst_port, h.seq, h.ack),
        (80, 4000, t.seq, t.ack)
    );
    assert_eq!(
        (h.flags, h.window, h.options),
        (t.flags, t.window, t.options)
    );
    assert_eq!(t.payload_len(), 5);
}

#[test]
fn every_batch_ends_with_a_push() {
    let mut s = with_sack(false);
    s.writes(15_000);
    // What is cut into packets bears it, and no single packet before the end does.
    let batch = s.tcb.poll_transmit(s.now, 4_000).unwrap();
    assert_eq!((batch.payload_len(), batch.flags), (4_000, ACK | PSH));
    let one = s.tcb.poll_transmit(s.now, 1_000).unwrap();
    assert_eq!((one.payload_len(), one.flags), (1_000, ACK));
}

/// The engine asks for each connection that something has happened to.
#[test]
fn a_connection_says_whether_it_may_have_to_send() {
    let mut s = Script::established_with(&Config::default(), TcpOptions::default());
    assert!(!s.tcb.may_have_to_send());
    s.writes(10);
    assert!(s.tcb.may_have_to_send());
    s.sent();
    assert!(!s.tcb.may_have_to_send());
    let _ = s.arrives(ACK, 5, 10, 1);
    assert!(s.tcb.may_have_to_send(), "a hole is told of at once");
    s.sent();
    s.tcb.shutdown_send();
    assert!(s.tcb.may_have_to_send());
    assert_eq!(s.sent_one().flags, FIN | ACK);
    assert!(!s.tcb.may_have_to_send());
}

/// RFC 9293 section 3.10.7.4 takes what lies in the window: where that has shrunk, an
/// acknowledgment stands at its edge.
#[test]
fn an_acknowledgment_stands_in_the_peers_window() {
    for (window, seq) in [(2_000, 1_000), (1_000, 1_000), (999, 999), (10, 10), (0, 0)] {
        let mut s = Script::established_with(&crate::script::plain(), TcpOptions::default());
        s.writes(1_000);
        s.sent();
        s.window = window;
        let _ = s.arrives(ACK, 1, 0, 1);
        let sent = s.sent_one();
        assert_eq!(s.seq_of(&sent), seq, "{window}");
    }
}

/// RFC 5482: the user timeout goes with four reports, which leave just its room, and waits where
/// timestamps leave less.
#[test]
fn the_user_timeout_fits_to_the_byte() {
    for (timestamps, holes, fits) in [(false, 4, true), (true, 1, true), (true, 2, false)] {
        let mut s = with_sack(timestamps);
        for hole in 0..holes {
            let _ = s.arrives(ACK, (2 * hole + 1) * 1_000, 0, 1_000);
        }
        s.sent();
        s.tcb.cfg.user_timeout_option = true;
        s.tcb.settings().set_user_timeout(7_000);
        // One block more reports the duplicate.
        let _ = s.arrives(ACK, (2 * holes - 1) * 1_000, 0, 500);
        let options = s.sent_one().options;
        assert_eq!(options.user_timeout.is_some(), fits, "{timestamps} {holes}");
        assert!(options.emitted_len() <= 40);
    }
}
