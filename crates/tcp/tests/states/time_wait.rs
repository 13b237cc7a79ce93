//! TIME-WAIT in the block; the small record of its own is tested beside it.

use crate::script::{ACK, FIN, RST, SYN, Script};
use longshore_tcp::{DropReason, Events, State};

fn script() -> Script {
    Script::in_state(State::TimeWait)
}

#[test]
fn it_ends_after_a_minute() {
    let mut s = script();
    assert_eq!(s.until_timer(), 60_000_000 - 600_000);
    assert_eq!(s.tcb.state(), State::Closed);
    assert_eq!(s.events(), Events::CLOSED);
    assert_eq!(s.tcb.error(), None);
    s.silent();
}

#[test]
fn a_repeated_fin_is_acknowledged_and_restarts_the_wait() {
    let mut s = script();
    s.waits_ms(30_000);
    let _ = s.arrives(FIN | ACK, 0, 1, 0);
    s.acks(1);
    assert_eq!(s.until_timer(), 60_000_000);
}

#[test]
fn an_exact_reset_ends_it_and_others_do_not() {
    let mut s = script();
    assert_eq!(
        s.arrives(RST, 0, 1, 0).drop,
        Some(DropReason::RstUnacceptable)
    );
    assert_eq!(s.tcb.state(), State::TimeWait);
    let _ = s.arrives(RST, 1, 1, 0);
    assert_eq!(s.tcb.state(), State::Closed);
    assert_eq!(s.tcb.error(), None);
}

#[test]
fn a_new_syn_reopens() {
    let mut s = script();
    let d = s.arrives(SYN, 5_000, 0, 0);
    let iss = d.reopen.expect("a new incarnation");
    assert_eq!(iss.0, crate::script::ISS.wrapping_add(2 + 65_535));
    // An old one does not.
    let d = s.arrives(SYN, -1, 0, 0);
    assert_eq!(d.reopen, None);
    s.acks(1);
}

#[test]
fn the_peers_last_ack_is_nothing() {
    let mut s = script();
    let _ = s.arrives(ACK, 1, 1, 0);
    s.silent();
    assert_eq!(s.tcb.state(), State::TimeWait);
}

#[test]
fn calls_change_nothing() {
    let mut s = script();
    s.writes(10);
    s.tcb.shutdown_send();
    s.tcb.close(s.now);
    s.silent();
    assert_eq!(s.tcb.state(), State::TimeWait);
    s.tcb.abort();
    s.silent();
    assert_eq!(s.tcb.state(), State::Closed);
}
