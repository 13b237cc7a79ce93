//! What an MTU change does to a connection.

use crate::script::{ACK, Script};

#[test]
fn a_larger_path_is_used_from_then_on() {
    let mut s = Script::established();
    s.tcb.segment_size().set_path_mss(400);
    assert_eq!(s.tcb.mss(), 400);
    s.tcb.segment_size().set_path_mss(9_000);
    // The peer's MSS still bounds it.
    assert_eq!(s.tcb.mss(), 1_000);
    s.max_payload = 65_000;
    s.writes(3_000);
    assert_eq!(s.sent_one().mss, 1_000);
}

#[test]
fn an_absurd_mtu_is_not_believed() {
    let mut s = Script::established();
    s.tcb.segment_size().set_path_mss(0);
    assert_eq!(s.tcb.mss(), super::MIN_MSS);
    s.writes(100);
    s.sent();
    let _ = s.arrives(ACK, 0, 100, 0);
    assert_eq!(s.tcb.snd_acked(), 100);
}

#[test]
fn the_users_bound_counts_too() {
    let mut s = Script::established();
    s.tcb.segment_size().set_max_segment(600);
    assert_eq!(s.tcb.mss(), 600);
    s.tcb.segment_size().set_max_segment(0);
    assert_eq!(s.tcb.mss(), 1_000);
}

#[test]
fn a_syn_that_goes_again_tells_what_the_path_takes() {
    let mut s = Script::connecting(&crate::script::plain());
    assert_eq!(s.sent_one().options.mss, Some(1_000));
    s.tcb.segment_size().set_path_mss(800);
    s.until_timer();
    assert_eq!(s.sent_one().options.mss, Some(800));
    // A larger one is for our segments alone.
    s.tcb.segment_size().set_path_mss(900);
    s.until_timer();
    assert_eq!(s.sent_one().options.mss, Some(800));
}

/// A bound that changes nothing is no reason to send again what is in flight.
#[test]
fn an_unchanged_path_loses_nothing() {
    for (mss, lost) in [(1_000, 0), (2_000, 0), (999, 3_000)] {
        let mut s = Script::established();
        s.writes(3_000);
        s.sent();
        s.tcb.segment_size().set_path_mss(mss);
        assert_eq!(s.tcb.flight.scoreboard.lost(), lost, "{mss}");
    }
}

/// Where routers may cut what is in flight, it is not sent again; what follows is smaller.
#[test]
fn a_path_that_cuts_loses_nothing() {
    let mut s = Script::established();
    s.writes(3_000);
    s.sent();
    s.tcb.segment_size().note_path_mss(600);
    assert_eq!(s.tcb.flight.scoreboard.lost(), 0);
    s.silent();
    assert_eq!(s.tcb.mss(), 600);
}
