//! CLOSED: everything but a reset is answered by one.

use crate::script::{ACK, FIN, RST, SYN, Script};
use longshore_tcp::{DropReason, Events, State};

#[test]
fn segments_are_answered_by_a_reset() {
    for flags in [SYN, ACK, FIN | ACK, SYN | ACK] {
        let mut s = Script::in_state(State::Closed);
        let d = s.arrives(flags, 0, 0, 5);
        assert!(d.reset && d.place.is_none());
        assert_eq!(d.drop, Some(DropReason::Closed));
        s.silent();
    }
}

#[test]
fn a_reset_is_not_answered() {
    let mut s = Script::in_state(State::Closed);
    assert!(!s.arrives(RST, 0, 0, 0).reset);
}

#[test]
fn calls_do_nothing() {
    let mut s = Script::in_state(State::Closed);
    s.writes(100);
    s.tcb.shutdown_send();
    s.tcb.set_rcv_consumed(10, s.now);
    s.tcb.close(s.now);
    s.tcb.abort();
    s.tcb.on_timer(s.now);
    s.silent();
    assert_eq!(s.tcb.state(), State::Closed);
    assert_eq!(s.events(), Events::empty());
    assert_eq!(s.tcb.deadline(), None);
}
