//! What the sender makes of marks, and on which packets it says so.

use super::*;

/// RFC 3168 section 6.1.5: CWR is set on new data, not on what is sent again, nor on a FIN alone.
#[test]
fn the_reduction_is_told_on_new_data() {
    let owing = |fin: bool| {
        let mut s = established(&with(EcnMode::Request), ECE);
        s.writes(10_000);
        assert_eq!(s.sent().len(), 10);
        receives(&mut s, Ecn::NotCapable, ECE, 0, 10_000, 0);
        if fin {
            s.tcb.shutdown_send();
        }
        s
    };
    let mut s = owing(false);
    s.writes(11_000);
    assert_eq!(s.sent_one().flags & ECN_FLAGS, CWR);
    let mut s = owing(true);
    assert_eq!(s.sent_one().flags & ECN_FLAGS, NONE);
    // Something is lost, and sent again first.
    let mut s = established(&with(EcnMode::Request), ECE);
    s.writes(10_000);
    s.sent();
    receives(&mut s, Ecn::NotCapable, ECE, 0, 1_000, 0);
    s.waits_ms(3_000);
    let again = s.sent();
    assert!(again[0].retransmission);
    assert_eq!(again[0].flags & ECN_FLAGS, NONE);
}

/// Packets of a connection that may be marked do not take the way of output that marks none.
#[test]
fn marked_packets_take_the_long_way() {
    for (answer, plain) in [(ECE, false), (NONE, true)] {
        let mut s = established(&with(EcnMode::Request), answer);
        s.writes(3_000);
        let sent = s.tcb.poll_plain(s.now, 1_000);
        assert_eq!(sent.is_some(), plain);
    }
}

/// RFC 8257 section 3.3: what is acknowledged without a mark lowers the share, however that is
/// noticed, so that a mark after long quiet takes little of the window.
#[test]
fn dctcp_remembers_how_long_nothing_was_marked() {
    let mut s = established(&dctcp(), ECE);
    s.window = 60_000;
    let mut edge = 0;
    let mut predicted = 0;
    for _ in 0..200 {
        edge += 1_000;
        s.writes(edge);
        s.sent();
        let header = s.header(ACK, 0, edge as i64, TcpOptions::default());
        let d = s.tcb.on_segment(&Segment::new(&header, 0), s.now);
        predicted += usize::from(d.fast_path);
    }
    assert!(predicted > 190, "{predicted}");
    let cwnd = s.tcb.cwnd();
    s.writes(edge + 1_000);
    s.sent();
    receives(&mut s, Ecn::NotCapable, ECE, 0, edge as i64 + 1_000, 0);
    assert!(s.tcb.cwnd() > cwnd - cwnd / 20, "{} {cwnd}", s.tcb.cwnd());
}
