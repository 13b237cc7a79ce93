//! Nagle's rule, the cork, MSG_MORE, and the sender's silly window avoidance.

use crate::script::{ACK, FIN, Script};

#[test]
fn a_small_segment_waits_for_the_one_before() {
    let mut s = Script::established();
    s.writes(10);
    assert_eq!(s.sent_one().payload, 0..10);
    s.writes(20);
    s.silent();
    s.writes(30);
    s.silent();
    let _ = s.arrives(ACK, 0, 10, 0);
    assert_eq!(s.sent_one().payload, 10..30);
}

#[test]
fn a_full_segment_does_not_wait() {
    let mut s = Script::established();
    s.writes(10);
    s.sent();
    s.writes(1_500);
    assert_eq!(s.sent_one().payload, 10..1_010);
}

#[test]
fn the_tail_of_full_segments_goes_if_nothing_small_is_in_flight() {
    // Minshall's modification, as in Linux.
    let mut s = Script::established();
    s.writes(2_500);
    assert_eq!(s.sent().len(), 3);
    s.writes(4_000);
    let sent = s.sent();
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].payload, 2_500..3_500);
}

#[test]
fn nodelay_sends_at_once() {
    let mut s = Script::established();
    s.tcb.settings().set_nodelay(true);
    for edge in [1, 2, 3] {
        s.writes(edge);
        assert_eq!(s.sent_one().payload, edge - 1..edge);
    }
}

#[test]
fn a_cork_holds_for_200_ms() {
    let mut s = Script::established();
    s.tcb.settings().set_cork(true);
    s.writes(1_500);
    assert_eq!(s.sent_one().payload, 0..1_000);
    let _ = s.arrives(ACK, 0, 1_000, 0);
    s.silent();
    assert_eq!(s.until_timer(), 200_000);
    assert_eq!(s.sent_one().payload, 1_000..1_500);
    s.writes(1_600);
    s.silent();
    s.tcb.settings().set_cork(false);
    // Nagle's rule holds it now, for the 500 bytes before.
    s.silent();
    let _ = s.arrives(ACK, 0, 1_500, 0);
    assert_eq!(s.sent_one().payload, 1_500..1_600);
}

#[test]
fn more_to_come_holds_what_is_not_pushed() {
    let mut s = Script::established();
    s.tcb.settings().set_nodelay(true);
    s.tcb.set_snd_edge(100, false);
    s.silent();
    s.tcb.set_snd_edge(1_100, false);
    assert_eq!(s.sent_one().payload, 0..1_000);
    s.tcb.set_snd_edge(1_100, true);
    assert_eq!(s.sent_one().payload, 1_000..1_100);
}

#[test]
fn an_acknowledgment_lets_go_of_what_more_was_to_follow() {
    let mut s = Script::established();
    s.tcb.set_snd_edge(1_150, false);
    assert_eq!(s.sent_one().payload, 0..1_000);
    s.silent();
    let _ = s.arrives(ACK, 0, 1_000, 0);
    let rest = s.sent_one();
    // Without a push: the user has not said that this is all.
    assert_eq!((rest.payload, rest.flags), (1_000..1_150, ACK));
    s.events();
    // Once. What is written later waits for the next one, as does a cork.
    s.tcb.set_snd_edge(1_160, false);
    s.silent();
    s.tcb.settings().set_cork(true);
    let _ = s.arrives(ACK, 0, 1_150, 0);
    s.silent();
}

#[test]
fn an_acknowledgment_does_not_override_nagle() {
    let mut s = Script::established();
    s.writes(1_100);
    assert_eq!(s.sent().len(), 2);
    s.tcb.set_snd_edge(1_200, false);
    let _ = s.arrives(ACK, 0, 1_000, 0);
    s.silent();
    let _ = s.arrives(ACK, 0, 1_100, 0);
    assert_eq!(s.sent_one().payload, 1_100..1_200);
}

#[test]
fn more_to_come_holds_for_200_ms_where_nothing_is_acknowledged() {
    let mut s = Script::established();
    s.tcb.set_snd_edge(50, false);
    s.silent();
    assert_eq!(s.until_timer(), 200_000);
    assert_eq!(s.sent_one().payload, 0..50);
}

#[test]
fn closing_takes_everything_along() {
    let mut s = Script::established();
    s.tcb.settings().set_cork(true);
    s.writes(10);
    s.silent();
    s.tcb.shutdown_send();
    let t = s.sent_one();
    assert_eq!(t.payload, 0..10);
    assert!(t.flags.contains(FIN));
}

#[test]
fn a_silly_window_is_not_used() {
    let mut s = Script::established();
    s.tcb.settings().set_nodelay(true);
    s.window = 400;
    let _ = s.arrives(ACK, 0, 0, 0);
    s.writes(5_000);
    s.silent();
    s.window = 15_000;
    let _ = s.arrives(ACK, 0, 0, 0);
    assert_eq!(s.sent().len(), 5);
}

#[test]
fn half_of_a_small_peers_window_is_used() {
    let mut s = Script::established();
    s.tcb.snd.handle_syn(1000, 800);
    s.window = 400;
    let _ = s.arrives(ACK, 0, 0, 0);
    s.writes(5_000);
    assert_eq!(s.sent_one().payload, 0..400);
}

#[test]
fn turning_nagle_off_sends_what_the_cork_holds() {
    let mut s = Script::established();
    s.tcb.settings().set_cork(true);
    s.writes(10);
    s.silent();
    s.tcb.settings().set_nodelay(true);
    assert_eq!(s.sent_one().payload, 0..10);
    // Once.
    s.writes(20);
    s.silent();
}

/// What is corked is told from what waits for something else: more is announced, or a cork is in,
/// and no FIN takes it along.
#[test]
fn what_is_corked() {
    for (cork, pushed, shut, expected) in [
        (false, true, false, false),
        (true, true, false, true),
        (false, false, false, true),
        (true, true, true, false),
        (false, false, true, false),
    ] {
        let mut s = Script::established();
        s.window = 0;
        let _ = s.arrives(ACK, 0, 0, 0);
        s.tcb.settings().set_cork(cork);
        s.tcb.set_snd_edge(10, pushed);
        if shut {
            s.tcb.shutdown_send();
        }
        let is = s.tcb.snd.is_corked(&s.tcb.cfg);
        assert_eq!(is, expected, "{cork} {pushed} {shut}");
    }
}
