//! CLOSE-WAIT: the peer's direction is closed, ours is not.

use crate::script::{ACK, FIN, Script};
use longshore_tcp::{DropReason, State};

fn script() -> Script {
    Script::in_state(State::CloseWait)
}

#[test]
fn data_is_still_sent_and_acknowledged() {
    let mut s = script();
    s.writes(2_000);
    assert_eq!(s.sent().len(), 2);
    let _ = s.arrives(ACK, 1, 2_000, 0);
    assert_eq!(s.tcb.snd_acked(), 2_000);
    assert_eq!(s.tcb.state(), State::CloseWait);
}

#[test]
fn a_repeated_fin_is_acknowledged() {
    let mut s = script();
    let d = s.arrives(FIN | ACK, 0, 0, 0);
    assert_eq!(d.drop, Some(DropReason::Duplicate));
    assert_eq!(s.tcb.state(), State::CloseWait);
    s.acks(1);
}

#[test]
fn payload_after_the_fin_is_not_taken() {
    let mut s = script();
    let d = s.arrives(ACK, 1, 0, 100);
    assert_eq!((d.place, d.drop), (None, Some(DropReason::AfterFin)));
    assert_eq!(s.tcb.rcv_edge(), 0);
    s.acks(1);
}

#[test]
fn shutdown_moves_to_last_ack() {
    let mut s = script();
    s.writes(10);
    s.tcb.shutdown_send();
    assert_eq!(s.tcb.state(), State::LastAck);
    let t = s.sent_one();
    assert!(t.flags.contains(FIN));
    assert_eq!(t.payload, 0..10);
}

#[test]
fn close_moves_to_last_ack() {
    let mut s = script();
    s.tcb.close(s.now);
    assert_eq!(s.tcb.state(), State::LastAck);
    assert!(s.sent_one().flags.contains(FIN));
}
