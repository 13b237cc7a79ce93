//! What may be late; the rest is tested by what the peer is told (`input/tests.rs`,
//! `output/tests.rs`).

use super::*;
use crate::script::Script;

/// A window after the last hole nothing that is missing can be on its way (`docs/rfc.md`, D49).
#[test]
fn what_is_late_comes_within_a_window() {
    let mut rcv = Script::established().tcb.rcv;
    let mut r = Reassembly::new();
    r.paws.follow(100, 0, 1_000);
    rcv.advance(999);
    assert!(r.admits_late(&rcv, 100) && !r.admits_late(&rcv, 99));
    rcv.advance(1_000);
    assert!(!r.admits_late(&rcv, 100));
}
