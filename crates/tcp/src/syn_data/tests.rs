//! Fast Open where it may not be: in other states, twice, or with what was not asked for. The
//! rest is in `fast_open/tests.rs`.

use super::*;
use crate::script::{ACK, IRS, MSS, SYN, Script, plain};
use crate::tcb::Tcb;
use longshore_wire::SeqNumber;
use longshore_wire::tcp::{TcpHeader, TcpOptions};

fn cookie() -> FastOpenCookie {
    FastOpenCookie::new(&[7; 8]).expect("a cookie")
}

fn with_cookie() -> FastOpenMode {
    FastOpenMode::SendCookie {
        cookie: cookie(),
        mss: MSS,
    }
}

fn syn(payload: u32) -> (TcpHeader, u32) {
    let header = TcpHeader {
        src_port: 1,
        dst_port: 2,
        seq: SeqNumber(IRS),
        ack: SeqNumber(0),
        flags: SYN,
        window: 30_000,
        urgent: 0,
        options: TcpOptions::default(),
    };
    (header, payload)
}

/// A passive open, before its SYN-ACK.
fn passive(cfg: &Config) -> Script {
    let mut s = Script::in_state(State::SynReceived);
    let (header, len) = syn(0);
    let segment = Segment::new(&header, len);
    s.tcb = Tcb::accept(cfg, &segment, MSS, SeqNumber(9), 0, s.now);
    s
}

/// RFC 7413 section 4.2.1: only the first SYN may carry data.
#[test]
fn it_begins_before_the_syn_is_sent_or_not_at_all() {
    for state in State::ALL {
        let mut s = Script::in_state(state);
        s.tcb.syn_data().start(with_cookie(), true);
        assert!(!s.tcb.fast_open.awaits_data(), "{state:?}");
        assert_eq!(s.tcb.syn_room(), 0);
    }
    let mut s = passive(&plain());
    s.tcb.syn_data().start(with_cookie(), true);
    assert!(!s.tcb.fast_open.awaits_data());
    let mut s = Script::connecting(&plain());
    s.tcb.syn_data().start(with_cookie(), true);
    assert!(s.tcb.fast_open.awaits_data());
    assert_eq!(s.tcb.syn_room(), MSS - 40);
    s.tcb.syn_data().release_syn();
    s.tcb.syn_data().release_syn();
    assert_eq!((s.tcb.syn_room(), s.sent().len()), (0, 1));
    // One that is due is due if it is released.
    let mut s = Script::connecting(&plain());
    s.tcb.syn_data().start(with_cookie(), true);
    s.tcb.flags |= Flags::SYN_DUE;
    s.tcb.syn_data().release_syn();
    assert_eq!(s.sent().len(), 1);
}

/// The outcome is one of an active open that tried it, once it is established.
#[test]
fn there_is_an_outcome_of_what_was_tried() {
    for state in State::ALL {
        let s = Script::in_state(state);
        assert_eq!(s.tcb.fast_open_outcome(), None, "{state:?}");
        assert_eq!(s.tcb.is_open_to_user(), state.is_synchronized());
    }
    let mut s = Script::connecting(&plain());
    s.tcb.syn_data().start(with_cookie(), false);
    s.sent();
    assert_eq!(s.tcb.fast_open_outcome(), None);
    let _ = s.arrives(SYN | ACK, -1, 0, 0);
    assert!(s.tcb.fast_open_outcome().is_some());
}

/// A cookie is granted, and data taken, by the side that was called, with its first SYN-ACK.
#[test]
fn a_server_takes_data_once() {
    let cfg = plain();
    let mut s = passive(&cfg);
    let (header, len) = syn(100);
    s.tcb.syn_data().give_cookie(cookie());
    // What it tells was not taken.
    s.tcb.outcome.report(Events::CONNECTED | Events::RCV_EDGE);
    s.now = s.now.after_ms(3);
    let d = s.tcb.syn_data().accept(&Segment::new(&header, len), s.now);
    assert_eq!(
        d.place.map(|p| (p.stream_offset, p.skip, p.len)),
        Some((0, 0, 100))
    );
    assert!(s.events().contains(Events::CONNECTED | Events::RCV_EDGE));
    assert!(s.tcb.is_fast_opened() && s.tcb.is_open_to_user());
    assert_eq!(s.tcb.liveness.last_data(), s.now);
    assert_eq!(s.tcb.rcv_edge(), 100);
    assert_eq!(s.sent_one().options.fast_open, Some(cookie()));
    // Neither again, nor after the SYN-ACK, nor by the end that calls.
    let again = s.tcb.syn_data().accept(&Segment::new(&header, len), s.now);
    assert_eq!(again.place, None);
    let mut s = passive(&cfg);
    s.sent();
    let late = s.tcb.syn_data().accept(&Segment::new(&header, len), s.now);
    assert!(late.place.is_none() && !s.tcb.is_fast_opened());
    for state in State::ALL {
        let mut s = Script::in_state(state);
        s.tcb.syn_data().give_cookie(cookie());
        let d = s.tcb.syn_data().accept(&Segment::new(&header, len), s.now);
        assert!(d.place.is_none() && !s.tcb.is_fast_opened(), "{state:?}");
    }
    let mut s = Script::connecting(&cfg);
    s.tcb.syn_data().give_cookie(cookie());
    assert_eq!(s.tcb.fast_open.granted(), None);
    let d = s.tcb.syn_data().accept(&Segment::new(&header, len), s.now);
    assert_eq!(d.place, None);
    // Of a simultaneous open.
    let mut s = Script::in_state(State::SynSent);
    let _ = s.arrives(SYN, -1, 0, 0);
    assert_eq!(s.tcb.state(), State::SynReceived);
    s.tcb.syn_data().give_cookie(cookie());
    assert_eq!(s.tcb.fast_open.granted(), None);
    let d = s.tcb.syn_data().accept(&Segment::new(&header, len), s.now);
    assert!(d.place.is_none() && !s.tcb.is_fast_opened());
    // A SYN without data opens, and there is nothing to be read.
    let mut s = passive(&cfg);
    let (header, _) = syn(0);
    let d = s.tcb.syn_data().accept(&Segment::new(&header, 0), s.now);
    assert!(d.place.is_none() && s.tcb.is_fast_opened());
    assert!(!s.events().contains(Events::RCV_EDGE));
}

/// A router refuses the SYN's packet: it goes again at once, without data, and measures nothing.
#[test]
fn a_syn_that_is_too_long_goes_without_its_data() {
    for (path, again) in [(299, true), (300, false)] {
        let mut s = Script::connecting(&plain());
        s.tcb.syn_data().start(with_cookie(), false);
        s.writes(300);
        assert_eq!(s.sent_one().payload, 0..300);
        s.tcb.flags.set(Flags::SYN_DUE, again);
        s.tcb.segment_size().set_path_mss(path);
        s.now = s.now.after_ms(5);
        if !again {
            s.silent();
            continue;
        }
        assert!(s.sent_one().payload.is_empty());
        s.tcb.segment_size().set_path_mss(path);
        s.silent();
        let _ = s.arrives(SYN | ACK, -1, 0, 0);
        assert_eq!(s.tcb.snd.rtt.srtt(), None);
    }
}

/// Two SYNs that cross are no passive open: what the other one carries is not taken early.
#[test]
fn an_active_open_takes_no_data_early() {
    let (header, len) = syn(100);
    let mut s = Script::connecting(&crate::script::plain());
    let _ = s.arrives(crate::script::SYN, -1, 0, 0);
    assert_eq!(s.tcb.state(), State::SynReceived);
    let d = s.tcb.syn_data().accept(&Segment::new(&header, len), s.now);
    assert_eq!(d, Disposition::default());
    assert!(!s.tcb.is_fast_opened());
}
