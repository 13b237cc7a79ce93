//! The receive side's numbers, and that each of its invariants is able to fail.

use super::*;
use crate::time::Instant;
use proptest::prelude::*;

fn side() -> ReceiveSide {
    let buffer = ReceiveBuffer::new(1_000, 1_000, Instant(0));
    ReceiveSide {
        nxt: 300,
        adv: 1_000,
        consumed: 100,
        ..ReceiveSide::new(1_000, 7, buffer)
    }
}

#[test]
fn each_invariant_is_able_to_fail() {
    let wrong = |harm: fn(&mut ReceiveSide)| {
        let mut side = side();
        harm(&mut side);
        side.check().err().map(|violation| violation.0)
    };
    assert_eq!(wrong(|_| {}), None);
    let what = |harm| wrong(harm).expect("harm that shows");
    assert_eq!(what(|r| r.nxt = -1), "received before the SYN");
    assert_eq!(what(|r| r.nxt = 1_001), "received beyond the window");
    let before = |r: &mut ReceiveSide| (r.nxt, r.consumed, r.fin) = (0, 0, -1);
    assert_eq!(what(before), "a FIN before the first byte");
    assert_eq!(what(|r| r.fin = 298), "received beyond the peer's FIN");
    assert_eq!(what(|r| r.consumed = 301), "read beyond what has come");
    assert_eq!(what(|r| r.consumed = -1), "read beyond what has come");
    assert_eq!(what(|r| r.wscale = 15), "a window scale beyond 14");
    assert_eq!(wrong(|r| (r.nxt, r.consumed) = (0, 0)), None);
    assert_eq!(wrong(|r| (r.nxt, r.consumed) = (1_000, 1_000)), None);
    assert_eq!(wrong(|r| (r.fin, r.wscale) = (299, 14)), None);
}

#[test]
fn a_fin_is_received_and_not_read() {
    let mut r = side();
    assert_eq!((r.readable(), r.is_closed()), (300, false));
    r.set_fin(300);
    assert_eq!((r.readable(), r.is_closed()), (300, false));
    r.handle_fin();
    assert_eq!((r.nxt(), r.readable(), r.is_closed()), (301, 300, true));
    // Behind a closed window it is taken, too.
    let mut r = side();
    r.adv = 300;
    r.handle_fin();
    assert_eq!((r.nxt(), r.adv()), (301, 301));
}

/// RFC 9293 section 3.8.6: the edge is not taken back.
#[test]
fn what_was_advertised_stays() {
    let mut r = side();
    r.advertise_to(900);
    assert_eq!(r.adv(), 1_000);
    r.advertise_to(1_100);
    assert_eq!(r.adv(), 1_100);
    r.set_options_len(12);
    assert_eq!((r.full_segment(), r.options()), (988, 12));
    r.bound_mss(2_000);
    assert_eq!(r.mss(), 1_000);
    r.bound_mss(500);
    assert_eq!(r.mss(), 500);
}

proptest! {
    /// Positions and sequence numbers are the same within 2 GiB of RCV.NXT, wherever the stream
    /// wraps.
    #[test]
    fn a_position_is_the_one_nearest(irs: u32, nxt in 0i64..1 << 40, off in -(1i64 << 31)..1 << 31) {
        let mut r = side();
        r.handle_syn(SeqNumber(irs));
        r.nxt = nxt;
        prop_assert_eq!(r.pos(r.seq(nxt + off)), nxt + off);
        prop_assert_eq!(r.seq(-1), SeqNumber(irs));
    }
}
