//! The counters of accurate feedback (RFC 9768 section 3.2), field by field.

use super::*;
use crate::ecn::accurate::Accurate;

const MOST: u32 = 0xff_ffff;

fn ce(bytes: u32) -> Option<AccurateEcn> {
    Some(AccurateEcn {
        ce: Some(bytes & MOST),
        ..AccurateEcn::default()
    })
}

/// Section 3.2.2.5: marks are those of either field. The option says how many bytes had them;
/// without it, it was full segments. An option that was overtaken says nothing.
#[test]
fn either_field_reports_marks() {
    // ACE stands at 5 before, and the option at 100.
    for (ace, option, expected) in [
        (AE | ECE, None, (false, 0)),
        (AE | CWR, None, (true, 1_000)),
        (AE | CWR | ECE, None, (true, 2_000)),
        (NONE, None, (true, 3_000)),
        (AE, None, (true, 7_000)),
        (AE | ECE, ce(100), (false, 0)),
        (AE | ECE, ce(101), (true, 1)),
        (AE | CWR, ce(100), (true, 0)),
        (AE | CWR, ce(700), (true, 600)),
        (AE | ECE, ce(100 + MOST / 2), (true, MOST / 2)),
        (AE | ECE, ce(101 + MOST / 2), (false, 0)),
        (AE | CWR, ce(99), (true, 1_000)),
    ] {
        let mut a = Accurate::new();
        let before = a.on_ack(AE | ECE, ce(100).as_ref(), 1_000);
        assert_eq!(before, (true, 100));
        let got = a.on_ack(ace, option.as_ref(), 1_000);
        assert_eq!(got, expected, "{ace:?} {option:?}");
    }
}

/// Sections 3.2.3.2.2 and 3.2.3.3: the first two segments without data have the option, and those
/// that follow a mark; the field that stays at its first value is left out.
#[test]
fn the_option_goes_first_and_with_marks() {
    for answered in [false, true] {
        let mut a = Accurate::new();
        if answered {
            a.start_answered(CWR);
        } else {
            a.start(false);
        }
        let fields = |a: &mut Accurate| a.option().map(|o| (o.ect0, o.ce, o.ect1));
        assert_eq!(fields(&mut a), Some((Some(1), Some(0), None)));
        a.count(Ecn::Capable0, 1, 500);
        assert_eq!(fields(&mut a), Some((Some(501), Some(0), None)));
        a.count(Ecn::Capable0, 1, 500);
        a.count(Ecn::NotCapable, 1, 500);
        assert_eq!(fields(&mut a), None);
        assert!(a.count(Ecn::Congested, 2, 300));
        assert_eq!(fields(&mut a), Some((Some(1_001), Some(300), None)));
        assert_eq!(fields(&mut a), None);
        assert!(!a.count(Ecn::Capable1, 1, MOST));
        assert_eq!(fields(&mut a), None);
        a.count(Ecn::Congested, 1, 1);
        assert_eq!(fields(&mut a), Some((Some(1_001), Some(301), Some(0))));
    }
}

/// Section 3.2.2.1: a mark on the SYN-ACK is the first one, of either end.
#[test]
fn a_mark_on_the_syn_ack_counts() {
    for (congested, received) in [(false, 0), (true, 1)] {
        let mut a = Accurate::new();
        a.count(Ecn::Congested, 9, 9);
        a.start(congested);
        assert_eq!(a.totals().received_ce, received);
    }
    for (flags, delivered) in [(CWR, 0), (AE, 0), (CWR | ECE, 0), (AE | CWR, 1)] {
        let mut a = Accurate::new();
        a.count(Ecn::Congested, 9, 9);
        a.start_answered(flags);
        assert_eq!(a.totals().delivered_ce, delivered);
        assert_eq!(a.totals().received_ce, 0);
    }
}
