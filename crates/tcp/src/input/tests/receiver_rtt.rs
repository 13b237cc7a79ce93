//! The receiver's own round trip, by which its buffer is tuned.

use super::*;
use crate::ReceiveLimits;

/// A connection whose buffer grows, and whose peer's segments are known to have 988 bytes.
fn tuned() -> Script {
    let cfg = Config {
        rcv: ReceiveLimits::new(100_000, 1_000_000),
        ..Config::default()
    };
    let mut s = Script::established_with(&cfg, full_options());
    s.tcb.acks.raise_segment(988);
    s
}

/// Data arrive that echo what was sent `ago` milliseconds before now.
fn arrives(s: &mut Script, len: u32, ago: u32) -> u32 {
    s.timestamps = Some(Timestamps {
        val: 1_001,
        echo: s.tcb.stamps.clock(s.now).wrapping_sub(ago),
    });
    let at = s.tcb.rcv.nxt();
    let _ = s.arrives(ACK, at, 0, len);
    s.sent();
    s.tcb.info(s.now).rcv_rtt_us
}

/// As Linux: the first segment of an echo tells the round trip, the others how long the peer took
/// to send them.
#[test]
fn an_echo_is_measured_once() {
    let mut s = tuned();
    s.now = s.now.after_ms(1_000);
    assert_eq!(arrives(&mut s, 988, 10), 10_000);
    s.now = s.now.after_ms(50);
    assert_eq!(arrives(&mut s, 988, 60), 10_000, "the same echo");
    // Another one, which is longer: the estimate follows slowly.
    s.now = s.now.after_ms(50);
    assert_eq!(arrives(&mut s, 988, 42), 11_000);
    assert_eq!(arrives(&mut s, 988, 5), 5_000);
}

/// Small segments wait for the program that sends them, and what is too long ago for a round trip
/// is none.
#[test]
fn what_waited_for_a_program_is_not_measured() {
    let mut s = tuned();
    s.now = s.now.after_ms(20_000);
    assert_eq!(arrives(&mut s, 987, 10), 0);
    assert_eq!(arrives(&mut s, 988, 10_000), 0);
    assert_eq!(arrives(&mut s, 988, 9_999), 9_999_000);
    // A buffer that does not grow is not tuned.
    let mut s = tuned();
    s.tcb.settings().set_rcvbuf(50_000);
    assert_eq!(arrives(&mut s, 988, 10), 0);
}

/// Below a tick of the clock the handshake knows better, up to a millisecond.
#[test]
fn a_round_trip_below_the_clocks_tick_is_the_handshakes() {
    for (handshake, rtt) in [(70, 70), (5_000, 1_000)] {
        let mut s = tuned();
        s.tcb.snd.rtt = crate::rtt::RttEstimator::new();
        s.tcb.snd.rtt.sample(handshake);
        assert_eq!(arrives(&mut s, 988, 0), rtt);
    }
}

/// What fills a hole is measured, too, if the peer's echoes were agreed on.
#[test]
fn a_segment_that_fills_a_hole_is_measured() {
    let mut s = tuned();
    s.now = s.now.after_ms(1_000);
    let _ = s.arrives(ACK, 988, 0, 988);
    assert_eq!(arrives(&mut s, 988, 10), 10_000);
    assert!(s.tcb.rcv.nxt() == 2 * 988);
    let cfg = Config {
        timestamps: false,
        rcv: ReceiveLimits::new(100_000, 1_000_000),
        ..Config::default()
    };
    let mut s = Script::established_with(&cfg, full_options());
    s.tcb.acks.raise_segment(988);
    s.now = s.now.after_ms(1_000);
    let _ = s.arrives(ACK, 988, 0, 988);
    assert_eq!(
        arrives(&mut s, 988, 10),
        0,
        "by their window, which is not over"
    );
}

/// Without timestamps, a window of data takes a round trip at least.
#[test]
fn without_timestamps_a_window_is_measured() {
    let cfg = Config {
        rcv: ReceiveLimits::new(10_000, 1_000_000),
        ..plain()
    };
    let mut s = Script::established_with(&cfg, TcpOptions::default());
    for _ in 0..21 {
        s.now = s.now.after_ms(2);
        let at = s.tcb.rcv.nxt();
        let _ = s.arrives(ACK, at, 0, 1_000);
        s.tcb.set_rcv_consumed(s.tcb.rcv_edge(), s.now);
        s.sent();
    }
    let rtt = s.tcb.info(s.now).rcv_rtt_us;
    assert!((18_000..=22_000).contains(&rtt), "{rtt}");
}
