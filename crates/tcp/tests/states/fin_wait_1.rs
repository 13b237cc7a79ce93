//! FIN-WAIT-1: our FIN is sent, not acknowledged.

use crate::script::{ACK, FIN, RST, Script};
use longshore_tcp::{DropReason, Events, State};

fn script() -> Script {
    Script::in_state(State::FinWait1)
}

#[test]
fn the_ack_of_our_fin_moves_to_fin_wait_2() {
    let mut s = script();
    let _ = s.arrives(ACK, 0, 1, 0);
    assert_eq!(s.tcb.state(), State::FinWait2);
    assert_eq!(s.events(), Events::FIN_ACKED);
    assert_eq!(s.tcb.deadline(), None);
    s.silent();
}

#[test]
fn a_fin_moves_to_closing() {
    let mut s = script();
    let _ = s.arrives(FIN | ACK, 0, 0, 0);
    assert_eq!(s.tcb.state(), State::Closing);
    assert_eq!(s.events(), Events::PEER_FIN);
    s.acks(1);
}

#[test]
fn a_fin_with_the_ack_of_ours_moves_to_time_wait() {
    let mut s = script();
    let _ = s.arrives(FIN | ACK, 0, 1, 0);
    assert_eq!(s.tcb.state(), State::TimeWait);
    assert!(s.events().contains(Events::PEER_FIN | Events::TIME_WAIT));
    s.acks(1);
}

#[test]
fn data_is_still_received() {
    let mut s = script();
    let d = s.arrives(FIN | ACK, 0, 1, 100);
    assert_eq!(d.place.unwrap().len, 100);
    assert_eq!(s.tcb.state(), State::TimeWait);
    assert_eq!(s.tcb.rcv_edge(), 100);
    s.acks(101);
}

#[test]
fn data_for_a_closed_program_is_answered_by_a_reset() {
    let mut s = script();
    s.tcb.close(s.now);
    assert_eq!(s.tcb.state(), State::FinWait1);
    let d = s.arrives(ACK, 0, 0, 100);
    assert_eq!((d.place, d.drop), (None, Some(DropReason::AfterClose)));
    assert_eq!(s.tcb.state(), State::Closed);
    assert_eq!(s.sent_one().flags, RST | ACK);
}

#[test]
fn the_fin_is_repeated() {
    let mut s = script();
    s.until_timer();
    let t = s.sent_one();
    assert!(t.flags.contains(FIN) && t.retransmission);
    assert_eq!(s.seq_of(&t), 0);
}

#[test]
fn an_orphan_is_given_up_sooner() {
    let mut s = script();
    s.tcb.close(s.now);
    let mut repeated = 0;
    while s.tcb.state() != State::Closed {
        s.until_timer();
        repeated += s.sent().len();
    }
    assert_eq!(repeated, 8);
}
