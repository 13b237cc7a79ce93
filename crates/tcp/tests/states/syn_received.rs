//! SYN-RECEIVED (RFC 9293 section 3.10.7.4 with the cases of its own).

use crate::script::{ACK, FIN, RST, SYN, Script};
use longshore_tcp::{Config, DropReason, Error, Events, State};
use longshore_wire::tcp::{TcpOptions, Timestamps};

fn script() -> Script {
    Script::in_state(State::SynReceived)
}

#[test]
fn the_syn_ack_has_what_the_syn_offered() {
    let offers = TcpOptions {
        mss: Some(700),
        window_scale: Some(9),
        sack_permitted: true,
        timestamps: Some(Timestamps { val: 99, echo: 0 }),
        ..TcpOptions::default()
    };
    for offer in [false, true] {
        let options = if offer { offers } else { TcpOptions::default() };
        let mut s = Script::accepting(&Config::default(), options);
        s.until_timer();
        let t = s.sent_one();
        assert_eq!(t.flags, SYN | ACK);
        assert_eq!((s.seq_of(&t), s.ack_of(&t)), (-1, 0));
        assert_eq!(t.options.mss, Some(1000));
        assert_eq!(t.options.window_scale.is_some(), offer);
        assert_eq!(t.options.sack_permitted, offer);
        assert_eq!(t.options.timestamps.map(|t| t.echo), offer.then_some(99));
        assert_eq!(s.tcb.mss(), if offer { 700 - 12 } else { 536 });
    }
}

#[test]
fn the_ack_establishes() {
    let mut s = script();
    let d = s.arrives(ACK, 0, 0, 0);
    assert_eq!(d.drop, None);
    assert_eq!(s.tcb.state(), State::Established);
    assert_eq!(s.events(), Events::CONNECTED);
    s.silent();
    assert_eq!(s.tcb.deadline(), None);
}

#[test]
fn the_ack_may_bring_data_and_fin() {
    let mut s = script();
    let d = s.arrives(FIN | ACK, 0, 0, 100);
    assert_eq!(
        d.place.map(|p| (p.stream_offset, p.skip, p.len)),
        Some((0, 0, 100))
    );
    assert_eq!(s.tcb.state(), State::CloseWait);
    assert_eq!(
        s.events(),
        Events::CONNECTED | Events::RCV_EDGE | Events::PEER_FIN
    );
    s.acks(101);
}

#[test]
fn data_out_of_order_establishes_too() {
    let mut s = script();
    let d = s.arrives(ACK, 50, 0, 100);
    assert_eq!(d.place.unwrap().stream_offset, 50);
    assert_eq!(s.tcb.state(), State::Established);
    assert_eq!(s.tcb.rcv_edge(), 0);
    s.acks(0);
}

#[test]
fn an_unacceptable_ack_is_answered_by_a_reset() {
    for ack in [-1, 1, 500] {
        let mut s = script();
        let d = s.arrives(ACK, 0, ack, 0);
        assert!(d.reset, "{ack}");
        assert_eq!(s.tcb.state(), State::SynReceived);
        s.silent();
    }
}

#[test]
fn a_repeated_syn_gets_the_syn_ack_again() {
    let mut s = script();
    let _ = s.arrives(SYN, -1, 0, 0);
    let t = s.sent_one();
    assert_eq!(t.flags, SYN | ACK);
    assert_eq!(s.tcb.state(), State::SynReceived);
    // But not for a flood of them.
    let _ = s.arrives(SYN, -1, 0, 0);
    s.silent();
}

#[test]
fn another_syn_is_challenged() {
    let mut s = script();
    let d = s.arrives(SYN, 100, 0, 0);
    assert_eq!(d.drop, Some(DropReason::SynInConnection));
    assert_eq!(s.tcb.state(), State::SynReceived);
    s.acks(0);
}

#[test]
fn resets() {
    let mut s = script();
    assert_eq!(
        s.arrives(RST, 30_000, 0, 0).drop,
        Some(DropReason::RstUnacceptable)
    );
    assert_eq!(s.arrives(RST, 10, 0, 0).drop, Some(DropReason::RstNotExact));
    assert_eq!(s.tcb.state(), State::SynReceived);
    s.sent();
    let _ = s.arrives(RST, 0, 0, 0);
    assert_eq!(s.tcb.state(), State::Closed);
    // Only a program that has the connection already (RFC 7413) hears of it.
    assert_eq!(s.tcb.error(), Some(Error::Reset));
}

#[test]
fn the_syn_ack_is_repeated_and_given_up() {
    let mut s = script();
    let mut repeated = 0;
    while s.tcb.state() == State::SynReceived {
        s.until_timer();
        repeated += s.sent().iter().filter(|t| t.flags == SYN | ACK).count();
    }
    assert_eq!(repeated, 5);
    assert_eq!(s.tcb.error(), Some(Error::TimedOut));
}

#[test]
fn a_shutdown_waits_for_the_ack() {
    let mut s = script();
    s.writes(10);
    s.tcb.shutdown_send();
    s.silent();
    assert_eq!(s.tcb.state(), State::SynReceived);
    let _ = s.arrives(ACK, 0, 0, 0);
    assert_eq!(s.tcb.state(), State::FinWait1);
    let t = s.sent_one();
    assert!(t.flags.contains(FIN));
    assert_eq!(t.payload, 0..10);
}

#[test]
fn abort_resets() {
    let mut s = script();
    s.tcb.abort();
    let t = s.sent_one();
    assert_eq!(t.flags, RST | ACK);
    assert_eq!(s.seq_of(&t), 0);
}
