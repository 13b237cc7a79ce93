//! FIN-WAIT-2: our direction is closed, the peer's is not.

use crate::script::{ACK, FIN, RST, Script};
use longshore_tcp::{DropReason, Events, State};

fn script() -> Script {
    Script::in_state(State::FinWait2)
}

#[test]
fn a_fin_moves_to_time_wait() {
    let mut s = script();
    let _ = s.arrives(FIN | ACK, 0, 1, 0);
    assert_eq!(s.tcb.state(), State::TimeWait);
    assert!(s.events().contains(Events::PEER_FIN | Events::TIME_WAIT));
    s.acks(1);
}

#[test]
fn a_half_closed_connection_receives_for_ever() {
    let mut s = script();
    for i in 0..100 {
        s.waits_ms(100_000);
        let d = s.arrives(ACK, i * 100, 1, 100);
        assert_eq!(d.place.unwrap().stream_offset, i as u64 * 100);
        s.tcb.set_rcv_consumed((i as u64 + 1) * 100, s.now);
        s.waits_ms(50);
        s.acks((i + 1) * 100);
    }
    assert_eq!(s.tcb.state(), State::FinWait2);
}

#[test]
fn data_for_a_closed_program_is_answered_by_a_reset() {
    let mut s = script();
    s.tcb.close(s.now);
    let d = s.arrives(ACK, 0, 1, 100);
    assert_eq!(d.drop, Some(DropReason::AfterClose));
    assert_eq!(s.sent_one().flags, RST | ACK);
    assert_eq!(s.tcb.state(), State::Closed);
}

#[test]
fn an_orphan_waits_a_minute_for_the_fin() {
    let mut s = script();
    assert_eq!(s.tcb.deadline(), None);
    s.tcb.close(s.now);
    assert_eq!(s.tcb.state(), State::FinWait2);
    assert_eq!(s.until_timer(), 60_000_000);
    assert_eq!(s.tcb.state(), State::Closed);
    assert!(s.events().contains(Events::CLOSED));
    assert_eq!(s.tcb.error(), None);
    s.silent();
}

#[test]
fn a_close_after_the_fin_was_acked_waits_too() {
    let mut s = Script::in_state(State::FinWait1);
    s.tcb.close(s.now);
    let _ = s.arrives(ACK, 0, 1, 0);
    assert_eq!(s.until_timer(), 60_000_000);
    assert_eq!(s.tcb.state(), State::Closed);
}
