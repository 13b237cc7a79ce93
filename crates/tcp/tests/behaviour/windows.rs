//! ESTABLISHED: the windows of both sides, open, closed and taken back.

use crate::script::{ACK, Script, plain};
use longshore_tcp::{Config, DelayConfig, DropReason, Error, State};
use longshore_wire::tcp::TcpOptions;

fn script() -> Script {
    Script::in_state(State::Established)
}

#[test]
fn a_full_window_takes_acknowledgments_and_no_data() {
    let mut s = script();
    s.writes(10);
    s.sent();
    let _ = s.arrives(ACK, 0, 0, 20_000);
    let t = s.sent_one();
    assert_eq!(t.window, 0);
    let d = s.arrives(ACK, 20_000, 10, 1);
    assert_eq!((d.place, d.drop), (None, Some(DropReason::BeyondWindow)));
    assert_eq!(s.tcb.snd_acked(), 10);
    s.acks(20_000);
}

#[test]
fn reading_opens_the_window_with_a_segment() {
    let mut s = script();
    let _ = s.arrives(ACK, 0, 0, 20_000);
    s.sent();
    s.tcb.set_rcv_consumed(500, s.now);
    s.silent();
    s.tcb.set_rcv_consumed(2_000, s.now);
    let t = s.sent_one();
    assert_eq!(t.window, 2_000);
    // Again only when that has doubled.
    s.tcb.set_rcv_consumed(3_999, s.now);
    s.silent();
    s.tcb.set_rcv_consumed(4_000, s.now);
    assert_eq!(s.sent_one().window, 4_000);
}

#[test]
fn the_peers_window_is_kept() {
    let mut s = script();
    s.window = 2_500;
    let _ = s.arrives(ACK, 0, 0, 0);
    s.writes(10_000);
    let end = s.sent().last().unwrap().payload.end;
    assert!(end <= 2_500, "{end}");
}

#[test]
fn a_closed_window_is_probed() {
    let mut s = script();
    s.window = 0;
    let _ = s.arrives(ACK, 0, 0, 0);
    s.writes(100);
    s.silent();
    let mut waits = Vec::new();
    for _ in 0..5 {
        waits.push(s.until_timer());
        let t = s.sent_one();
        assert!(t.payload.is_empty());
        assert_eq!(s.seq_of(&t), -1);
        // The peer answers, still closed.
        let _ = s.arrives(ACK, 0, 0, 0);
        s.silent();
    }
    assert!(waits.windows(2).all(|w| w[1] == 2 * w[0]), "{waits:?}");
    s.window = 1000;
    let _ = s.arrives(ACK, 0, 0, 0);
    assert_eq!(s.sent_one().payload, 0..100);
}

#[test]
fn a_peer_that_does_not_answer_probes_is_given_up() {
    let mut s = script();
    s.window = 0;
    let _ = s.arrives(ACK, 0, 0, 0);
    s.writes(100);
    s.silent();
    let mut probes = 0;
    while s.tcb.state() == State::Established {
        s.until_timer();
        probes += s.sent().len();
    }
    assert_eq!(probes, 15);
    assert_eq!(s.tcb.error(), Some(Error::TimedOut));
}

#[test]
fn a_window_too_small_is_used_when_the_timer_says_so() {
    let mut s = script();
    s.window = 10;
    let _ = s.arrives(ACK, 0, 0, 0);
    s.writes(100);
    s.silent();
    s.until_timer();
    assert_eq!(s.sent_one().payload, 0..10);
}

#[test]
fn a_window_that_shrinks_is_survived() {
    let mut s = script();
    s.writes(5_000);
    assert_eq!(s.sent().len(), 5);
    s.window = 1_000;
    let _ = s.arrives(ACK, 0, 1_000, 0);
    s.silent();
    s.until_timer();
    let t = s.sent_one();
    assert_eq!(t.payload, 1_000..2_000);
    s.window = 20_000;
    let _ = s.arrives(ACK, 0, 5_000, 0);
    s.writes(6_000);
    assert_eq!(s.sent_one().payload, 5_000..6_000);
}

/// RFC 7323 section 2.4: rounding to the scale takes back a part of the window, and what
/// was sent into it may have arrived. If acknowledgments then came from the edge, peers
/// that both have such a part would take each other's for old ones for ever.
#[test]
fn acknowledgments_go_beyond_an_edge_that_was_rounded() {
    let cfg = Config {
        window_scaling: true,
        delay: DelayConfig {
            nodelay: true,
            ..DelayConfig::default()
        },
        ..plain()
    };
    let options = TcpOptions {
        window_scale: Some(7),
        ..TcpOptions::default()
    };
    for (acked, from) in [(1_000, 1_024), (880, 880)] {
        let mut s = Script::established_with(&cfg, options);
        s.window = 1_024 >> 7;
        let _ = s.arrives(ACK, 0, 0, 0);
        s.writes(1_024);
        assert_eq!(s.sent().len(), 2);
        // The edge is at 1,024, which cannot be advertised.
        s.window = 0;
        let _ = s.arrives(ACK, 0, acked, 0);
        let _ = s.arrives(ACK, 1_000, acked, 1_000);
        let t = s.sent_one();
        assert!(t.payload.is_empty());
        assert_eq!(s.seq_of(&t), from);
    }
}

#[test]
fn a_peer_that_takes_its_window_back_is_waited_for() {
    let mut s = script();
    s.writes(2_000);
    s.sent();
    s.window = 0;
    let _ = s.arrives(ACK, 0, 0, 0);
    for _ in 0..100 {
        s.until_timer();
        assert_eq!(s.sent_one().payload, 0..1_000);
        let _ = s.arrives(ACK, 0, 0, 0);
        s.silent();
    }
    s.window = 5_000;
    let _ = s.arrives(ACK, 0, 2_000, 0);
    assert_eq!(s.tcb.snd_acked(), 2_000);
}

/// In slow start a window counts as used while it is less than twice what was in flight,
/// whatever held back what went before.
#[test]
fn the_window_grows_to_twice_what_was_in_flight() {
    let mut s = script();
    s.window = 60_000;
    let _ = s.arrives(ACK, 0, 0, 0);
    s.writes(28_000);
    assert_eq!(s.sent().len(), 10);
    let _ = s.arrives(ACK, 0, 10_000, 0);
    assert_eq!(s.sent().len(), 18);
    s.writes(30_000);
    assert_eq!(s.sent().len(), 2);
    for ack in (12_000..=30_000).step_by(2_000) {
        let _ = s.arrives(ACK, 0, ack, 0);
        assert_eq!(s.tcb.send_status().cwnd(), 10_000 + ack as u32);
    }
}
