//! SYN-SENT (RFC 9293 section 3.10.7.3).

use crate::script::{ACK, SYN, Script, plain};
use longshore_tcp::{Config, Error, Events, IcmpError, State};
use longshore_wire::SeqNumber;
use longshore_wire::tcp::{TcpOptions, Timestamps};

fn script() -> Script {
    Script::in_state(State::SynSent)
}

#[test]
fn the_syn_carries_what_is_configured() {
    let mut s = Script::connecting(&Config::default());
    let t = s.sent_one();
    assert_eq!(t.flags, SYN);
    assert_eq!(s.seq_of(&t), -1);
    assert_eq!(t.options.mss, Some(1000));
    assert!(t.options.sack_permitted);
    assert_eq!(t.options.window_scale, Some(8));
    assert_eq!(t.options.timestamps.unwrap().echo, 0);
    assert_eq!(t.window, 65_535);
    let t = Script::connecting(&plain()).sent_one();
    assert!(!t.options.sack_permitted);
    assert_eq!((t.options.window_scale, t.options.timestamps), (None, None));
    assert_eq!(t.window, 20_000);
}

#[test]
fn the_syn_is_repeated_and_given_up() {
    let mut s = script();
    let mut waits = Vec::new();
    while s.tcb.state() == State::SynSent {
        waits.push(s.until_timer() / 1_000_000);
        for t in s.sent() {
            assert_eq!(t.flags, SYN);
            assert!(t.retransmission);
        }
    }
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64]);
    assert_eq!(s.tcb.error(), Some(Error::TimedOut));
    assert!(s.events().contains(Events::CLOSED | Events::TIMED_OUT));
}

#[test]
fn a_repeated_syn_means_a_small_start() {
    let mut s = script();
    s.until_timer();
    s.sent();
    let _ = s.arrives(SYN | ACK, -1, 0, 0);
    // RFC 5681 section 3.1 and RFC 6298 section 5.7.
    assert_eq!(s.tcb.send_status().cwnd(), u32::from(s.tcb.mss()));
    s.sent();
    s.writes(100);
    s.sent();
    assert_eq!(s.until_timer(), 3_000_000);
}

#[test]
fn an_icmp_error_gives_up_if_it_quotes_our_syn() {
    let mut s = script();
    let iss = SeqNumber(crate::script::ISS);
    s.tcb.on_icmp(IcmpError::HostUnreachable, SeqNumber(3));
    assert_eq!(s.tcb.state(), State::SynSent);
    s.tcb.on_icmp(IcmpError::HostUnreachable, iss);
    assert_eq!(s.tcb.state(), State::Closed);
    assert_eq!(s.tcb.error(), Some(Error::HostUnreachable));
}

#[test]
fn the_user_timeout_ends_it() {
    let mut s = Script::connecting(&Config {
        user_timeout_ms: 5_000,
        ..plain()
    });
    s.sent();
    let start = s.now;
    while s.tcb.state() == State::SynSent {
        s.until_timer();
        s.sent();
    }
    assert_eq!(s.now.since(start), 5_000_000);
    assert_eq!(s.tcb.error(), Some(Error::TimedOut));
}

#[test]
fn a_syn_ack_for_another_syn_is_refused() {
    let mut s = Script::connecting(&Config::default());
    s.now = s.now.after_ms(5_000);
    let first = s.sent_one().options.timestamps.expect("offered").val;
    s.until_timer();
    let second = s.sent_one().options.timestamps.expect("offered").val;
    assert!(second > first);
    let mut answers = |echo| {
        let timestamps = Some(Timestamps { val: 77, echo });
        let options = TcpOptions {
            timestamps,
            ..TcpOptions::default()
        };
        let d = s.arrives_with(SYN | ACK, -1, 0, 0, options);
        (d.reset, s.tcb.state())
    };
    assert_eq!(answers(first - 1), (true, State::SynSent));
    assert_eq!(answers(second + 1), (true, State::SynSent));
    assert_eq!(answers(first), (false, State::Established));
}
