//! CLOSING: both have closed at once.

use crate::script::{ACK, FIN, Script};
use longshore_tcp::{Events, State};

fn script() -> Script {
    Script::in_state(State::Closing)
}

#[test]
fn the_ack_of_our_fin_moves_to_time_wait() {
    let mut s = script();
    let _ = s.arrives(ACK, 1, 1, 0);
    assert_eq!(s.tcb.state(), State::TimeWait);
    assert!(s.events().contains(Events::TIME_WAIT | Events::FIN_ACKED));
    s.silent();
}

#[test]
fn another_ack_changes_nothing() {
    let mut s = script();
    let _ = s.arrives(ACK, 1, 0, 0);
    assert_eq!(s.tcb.state(), State::Closing);
    s.silent();
}

#[test]
fn a_repeated_fin_is_acknowledged() {
    let mut s = script();
    let _ = s.arrives(FIN | ACK, 0, 0, 0);
    assert_eq!(s.tcb.state(), State::Closing);
    s.acks(1);
}

#[test]
fn the_fin_is_repeated() {
    let mut s = script();
    s.until_timer();
    let t = s.sent_one();
    assert!(t.flags.contains(FIN | ACK));
    assert_eq!(s.ack_of(&t), 1);
}
