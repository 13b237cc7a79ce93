//! SYN-RECEIVED (RFC 9293 section 3.10.7.4 with the cases of its own).

use crate::script::{ACK, SYN, Script};
use longshore_tcp::{Config, Error, State};
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
