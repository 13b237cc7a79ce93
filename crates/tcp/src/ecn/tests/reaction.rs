//! Which marks are answered at once, what the sender makes of them, and on which packets it says
//! so.

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

/// RFC 8257 section 3.3: what is acknowledged without a mark lowers the share, whether the
/// acknowledgment is predicted or not, so that a mark after long quiet takes little of the window;
/// what is marked raises it again.
#[test]
fn dctcp_remembers_how_much_was_marked() {
    for is_predicted in [true, false] {
        let mut s = established(&dctcp(), ECE);
        s.window = 60_000;
        let mut edge = 0;
        let mut acknowledges = |s: &mut Script, flags, at| {
            edge += 1_000;
            s.writes(edge);
            s.sent();
            let header = s.header(ACK | flags, at, edge as i64, TcpOptions::default());
            let d = s.tcb.on_segment(&Segment::new(&header, 0), s.now);
            d.fast_path
        };
        if !is_predicted {
            // Something is out of order.
            receives(&mut s, Ecn::NotCapable, NONE, 50, 0, 10);
        }
        let quiet = (0..200).filter(|_| acknowledges(&mut s, NONE, 0)).count();
        assert_eq!(quiet > 190, is_predicted, "{quiet}");
        let cwnd = s.tcb.send_status().cwnd();
        acknowledges(&mut s, ECE, 0);
        assert!(
            s.tcb.send_status().cwnd() > cwnd - cwnd / 20,
            "{} {cwnd}",
            s.tcb.send_status().cwnd()
        );
        for _ in 0..100 {
            acknowledges(&mut s, ECE, 0);
        }
        s.tcb.congestion.controller.resume(100_000, 100_000);
        acknowledges(&mut s, ECE, 0);
        assert!(
            s.tcb.send_status().cwnd() < 60_000,
            "{}",
            s.tcb.send_status().cwnd()
        );
    }
}

/// Whether something is sent at once for these segments of 100 bytes, each with its ECN field and
/// flags, though acknowledgments are delayed; and the flags of that.
fn answered_at_once(cfg: &Config, answer: TcpFlags, all: &[(Ecn, TcpFlags)]) -> Option<TcpFlags> {
    let mut s = established(cfg, answer);
    s.tcb.settings().set_quickack(false);
    for (at, (ecn, flags)) in (0..).step_by(100).zip(all) {
        receives(&mut s, *ecn, *flags, at, 0, 100);
    }
    s.sent().last().map(|t| t.flags & ECN_FLAGS)
}

/// RFC 3168 section 6.1.3, RFC 8257 section 3.2, RFC 9768 section 3.2.2.5.1: the first mark, what
/// ends the echo, and each change of DCTCP's is told at once, also if more comes meanwhile.
#[test]
fn what_the_sender_should_know_is_told_at_once() {
    let (marked, plain) = (Ecn::Congested, Ecn::Capable0);
    let classic = with(EcnMode::Request);
    let told = |all: &[(Ecn, TcpFlags)]| answered_at_once(&classic, ECE, all);
    assert_eq!(told(&[(plain, NONE)]), None);
    assert_eq!(told(&[(marked, NONE)]), Some(ECE));
    assert_eq!(told(&[(marked, NONE), (marked, NONE)]), Some(ECE));
    assert_eq!(told(&[(marked, NONE), (plain, NONE)]), Some(ECE));
    assert_eq!(told(&[(plain, CWR)]), Some(NONE));
    assert_eq!(told(&[(marked, NONE), (plain, CWR)]), Some(NONE));
    assert_eq!(told(&[(marked, CWR)]), Some(ECE));
    let told = |all: &[(Ecn, TcpFlags)]| answered_at_once(&dctcp(), ECE, all);
    assert_eq!(told(&[(plain, NONE)]), None);
    assert_eq!(told(&[(marked, NONE)]), Some(ECE));
    assert_eq!(told(&[(marked, NONE), (plain, NONE)]), Some(NONE));
    let accurate = with(EcnMode::RequestAccurate);
    let told = |all: &[(Ecn, TcpFlags)]| answered_at_once(&accurate, CWR, all);
    assert_eq!(told(&[(plain, NONE)]), None);
    assert_eq!(told(&[(marked, NONE)]), Some(AE | CWR));
    assert_eq!(
        told(&[(marked, NONE), (marked, NONE)]),
        Some(AE | CWR | ECE)
    );
}

/// What was told once is not told at once again; a mark on a bare acknowledgment waits for the
/// next segment.
#[test]
fn what_the_sender_knows_waits() {
    let mut s = established(&with(EcnMode::Request), ECE);
    s.tcb.settings().set_quickack(false);
    assert!(!s.tcb.info(s.now).ecn_seen);
    receives(&mut s, Ecn::Congested, NONE, 0, 0, 100);
    assert_eq!(s.sent_one().flags, ACK | ECE);
    assert!(s.tcb.info(s.now).ecn_seen);
    receives(&mut s, Ecn::Congested, NONE, 100, 0, 100);
    s.silent();
    let mut s = established(&with(EcnMode::RequestAccurate), CWR);
    s.tcb.settings().set_quickack(false);
    receives(&mut s, Ecn::Congested, NONE, 0, 0, 0);
    s.silent();
}

/// RFC 3168 section 6.1.2: two reductions before there is new data are told as one.
#[test]
fn a_reduction_is_told_however_many_there_were() {
    let mut s = established(&with(EcnMode::Request), ECE);
    s.writes(10_000);
    s.sent();
    receives(&mut s, Ecn::NotCapable, ECE, 0, 10_000, 0);
    receives(&mut s, Ecn::NotCapable, ECE, 0, 10_000, 0);
    s.writes(11_000);
    assert_eq!(s.sent_one().flags & ECN_FLAGS, CWR);
}

/// RFC 9768 sections 3.2.2.3 and 3.2.3.2.2, of an active open: a SYN that arrives with a field that
/// it did not have says that the path changes fields; a mark on the SYN-ACK is the first one; and
/// the first segments have the option.
#[test]
fn what_a_syn_ack_says_of_the_path() {
    for (answer, field) in [
        (CWR, Ecn::Capable0),
        (AE | ECE, Ecn::Capable0),
        (CWR | ECE, Ecn::NotCapable),
        (AE, Ecn::NotCapable),
        (AE | CWR, Ecn::NotCapable),
    ] {
        let mut s = established(&with(EcnMode::RequestAccurate), answer);
        s.writes(500);
        assert_eq!(s.sent_one().ecn, field, "{answer:?}");
    }
    for (ecn, marks) in [(Ecn::NotCapable, 0), (Ecn::Congested, 1)] {
        let mut s = Script::connecting(&with(EcnMode::RequestAccurate));
        s.sent();
        receives_syn_ack(&mut s, ecn);
        assert!(s.sent_one().options.accurate_ecn.is_some());
        assert_eq!(s.tcb.info(s.now).ecn_totals.received_ce, marks);
    }
}

fn receives_syn_ack(s: &mut Script, ecn: Ecn) {
    let options = TcpOptions {
        mss: Some(MSS),
        ..TcpOptions::default()
    };
    let header = s.header(SYN | ACK | CWR, -1, 0, options);
    let segment = Segment {
        ecn,
        ..Segment::new(&header, 0)
    };
    let _ = s.tcb.on_segment(&segment, s.now);
}
