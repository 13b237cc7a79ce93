//! LAST-ACK: the peer has closed, then we.

use crate::script::{ACK, FIN, Script};
use longshore_tcp::{Events, State};

fn script() -> Script {
    Script::in_state(State::LastAck)
}

#[test]
fn the_ack_of_our_fin_ends_it() {
    let mut s = script();
    let _ = s.arrives(ACK, 1, 1, 0);
    assert_eq!(s.tcb.state(), State::Closed);
    assert!(s.events().contains(Events::CLOSED | Events::FIN_ACKED));
    assert_eq!(s.tcb.error(), None);
    assert_eq!(s.tcb.deadline(), None);
    s.silent();
}

#[test]
fn a_repeated_fin_is_acknowledged() {
    let mut s = script();
    let _ = s.arrives(FIN | ACK, 0, 0, 0);
    assert_eq!(s.tcb.state(), State::LastAck);
    s.acks(1);
}

#[test]
fn the_fin_is_repeated_and_given_up() {
    let mut s = script();
    let mut repeated = 0;
    while s.tcb.state() == State::LastAck {
        s.until_timer();
        repeated += s.sent().len();
    }
    assert_eq!(repeated, 15);
    assert!(s.events().contains(Events::CLOSED | Events::TIMED_OUT));
}

#[test]
fn data_before_the_fin_is_repeated_with_it() {
    let mut s = Script::in_state(State::CloseWait);
    s.writes(2_500);
    s.tcb.shutdown_send();
    s.sent();
    s.until_timer();
    assert_eq!(s.sent_one().payload, 0..1_000);
    let _ = s.arrives(ACK, 1, 1_000, 0);
    let sent = s.sent();
    let last = sent.last().unwrap();
    assert_eq!(last.payload, 2_000..2_500);
    assert!(last.flags.contains(FIN));
    let _ = s.arrives(ACK, 1, 2_501, 0);
    assert_eq!(s.tcb.state(), State::Closed);
}

#[test]
fn close_with_unread_data_resets() {
    let mut s = Script::established();
    let _ = s.arrives(FIN | ACK, 0, 0, 10);
    s.writes(10);
    s.tcb.shutdown_send();
    assert_eq!(s.tcb.state(), State::LastAck);
    s.sent();
    s.tcb.close(s.now);
    assert_eq!(s.sent_one().flags, crate::script::RST | ACK);
    assert_eq!(s.tcb.state(), State::Closed);
}
