//! Windows that keep a sender waiting, or make it send crumbs.

use crate::script::{ACK, Script, plain};
use longshore_tcp::{Config, Congestion, State};
use longshore_wire::tcp::TcpOptions;

fn sender(congestion: Congestion) -> Script {
    let cfg = Config {
        congestion,
        ..plain()
    };
    let mut s = Script::established_with(&cfg, TcpOptions::default());
    s.window = 0;
    let _ = s.arrives(ACK, 0, 0, 1);
    s.writes(1_000_000);
    s.sent();
    s
}

/// A window that opens byte by byte (RFC 9293 section 3.8.6.2.1): no segment of a byte
/// for each, whatever the algorithm.
#[test]
fn a_window_that_opens_in_crumbs_is_not_filled_with_crumbs() {
    for congestion in Congestion::ALL {
        let mut s = sender(congestion);
        let mut segments = 0;
        for window in 0..3_000 {
            s.window = window;
            s.now = s.now.after_us(100);
            let _ = s.arrives(ACK, 1, 0, 0);
            segments += s.sent().len();
        }
        // 300 ms and room for three segments.
        assert!(segments <= 5, "{congestion:?}: {segments}");
    }
}

/// A window that is taken back as soon as data is on the way (slow read): what is sent
/// again is one segment at a growing distance.
#[test]
fn a_window_that_closes_behind_the_data_costs_little() {
    let mut s = sender(Congestion::Cubic);
    s.window = 10_000;
    let _ = s.arrives(ACK, 1, 0, 0);
    s.sent();
    s.window = 0;
    let start = s.now;
    let mut segments = 0;
    while s.now.since(start) < 3_600_000_000 && s.tcb.state() == State::Established {
        let _ = s.arrives(ACK, 1, 0, 0);
        segments += s.sent().len();
        s.until_timer();
        segments += s.sent().len();
    }
    assert!(segments < 200, "{segments}");
}

/// Opening and closing the window at each acknowledgment makes the sender send what fits
/// and no more.
#[test]
fn a_window_that_flaps_is_obeyed() {
    let mut s = sender(Congestion::Bbr);
    let mut edge = 0i64;
    for i in 0..2_000i64 {
        s.now = s.now.after_us(500);
        let ack = s.tcb.send_status().sent() as i64;
        s.window = if i % 2 == 0 { 4_000 } else { 0 };
        let _ = s.arrives(ACK, 1, ack, 0);
        edge = edge.max(ack + i64::from(s.window));
        for t in s.sent() {
            assert!(t.payload.end as i64 <= edge);
        }
        s.waits_ms(1);
        for t in s.sent() {
            assert!(t.payload.end as i64 <= edge);
        }
    }
    assert!(s.tcb.snd_acked() > 100_000, "{}", s.tcb.snd_acked());
}
