//! SYN-RECEIVED (RFC 9293 section 3.10.7.4 with the cases of its own).

use crate::script::{ACK, ISS, SYN, Script, plain};
use longshore_tcp::{Config, Error, IcmpError, Instant, Segment, State, Tcb};
use longshore_wire::SeqNumber;
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

#[test]
fn an_icmp_error_gives_up_if_it_quotes_our_syn_ack() {
    let mut s = script();
    let iss = SeqNumber(crate::script::ISS);
    s.tcb.on_icmp(IcmpError::HostUnreachable, iss.add(1));
    assert_eq!(s.tcb.state(), State::SynReceived);
    s.tcb.on_icmp(IcmpError::HostUnreachable, iss);
    assert_eq!(s.tcb.state(), State::Closed);
    s.silent();
}

#[test]
fn the_syn_that_came_twice_is_reported() {
    let cfg = Config {
        timestamps: false,
        ..Config::default()
    };
    let offers = TcpOptions {
        mss: Some(700),
        sack_permitted: true,
        ..TcpOptions::default()
    };
    let mut s = Script::connecting(&cfg);
    s.sent();
    let _ = s.arrives_with(SYN, -1, 0, 0, offers);
    assert_eq!(s.sent_one().flags, SYN | ACK);
    let _ = s.arrives_with(SYN | ACK, -1, 0, 0, offers);
    assert_eq!(s.tcb.state(), State::Established);
    let t = s.sent_one();
    let irs = SeqNumber(crate::script::IRS);
    let blocks: Vec<_> = t.options.sack.iter().collect();
    assert_eq!(blocks, [(irs, irs.add(1))]);
}

/// RFC 9293 section 3.7.1: "SendMSS ... 536 for IPv4 or 1220 for IPv6".
#[test]
fn a_peer_that_names_no_mss_is_sent_what_every_host_takes() {
    for (ipv6, mss) in [(false, 536), (true, 1220)] {
        let cfg = Config { ipv6, ..plain() };
        let (now, iss) = (Instant(10_000_000), SeqNumber(ISS));
        let mut header = Script::connecting(&cfg).header(SYN, -1, 0, TcpOptions::default());
        let syn = Segment::new(&header, 0);
        let mut passive = Tcb::accept(&cfg, &syn, 1440, iss, 0, now);
        let mut active = Tcb::connect(&cfg, 1440, iss, 0, now);
        let _ = active.poll_transmit(now, 1440);
        let _ = passive.poll_transmit(now, 1440);
        header.flags = SYN | ACK;
        let _ = active.on_segment(&Segment::new(&header, 0), now);
        assert_eq!((active.mss(), passive.mss()), (mss, mss));
    }
}
