//! What a connection is told of errors; the rest is in `tests/behaviour`.

use crate::script::Script;

/// A second error before the program has looked does not take the first one back.
#[test]
fn two_errors_are_told() {
    let mut s = Script::established();
    s.writes(1_000);
    s.sent();
    for _ in 0..2 {
        s.tcb
            .on_icmp(super::IcmpError::HostUnreachable, s.tcb.snd.seq(0));
    }
    assert!(s.events().contains(crate::Events::SOFT_ERROR));
}
