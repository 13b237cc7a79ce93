//! What is refused, and what a restored connection has that was not saved.

use super::*;
use crate::codec::{Reader, Save};
use crate::config::Keepalive;
use crate::pos::MAX_POS;
use crate::receive_buffer::ReceiveBuffer;
use crate::rtt::RttEstimator;
use crate::script::FIN;
use crate::snd::MIN_MSS;
use crate::{Congestion, ReceiveLimits};

type Harm = fn(&mut Tcb);

/// Why a connection in this state is refused, once harm was done to it.
fn refused(state: State, harm: impl FnOnce(&mut Tcb)) -> &'static str {
    let mut s = Script::in_state(state);
    assert!(SavedTcb::of(&s.tcb).restore(s.now).is_ok());
    harm(&mut s.tcb);
    match SavedTcb::of(&s.tcb).restore(s.now) {
        Err(RestoreError::Inconsistent(violation)) => violation.0,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_contradicts_itself_is_refused() {
    use State::{Established, SynReceived, SynSent};
    let what = refused(Established, |t| t.rcv.set_options_len(12));
    assert_eq!(what, "options of every segment that were not agreed");
    let what = refused(Established, |t| {
        t.snd.set_options_len(12);
        t.snd.update_mss();
    });
    assert_eq!(what, "options of every segment that were not agreed");
    let what = refused(Established, |t| t.flags |= Flags::SYN_DUE);
    assert_eq!(what, "a SYN that is due after the handshake");
    let what = refused(Established, |t| t.flags |= Flags::RST_DUE);
    assert_eq!(what, "a reset of a connection that is not over");
    let what = refused(Established, |t| {
        t.fast_open
            .start(crate::FastOpenMode::SendWithoutCookie { mss: 0 }, true);
    });
    assert_eq!(what, "a SYN that waits for data, but is none");
    for harm in [
        |t: &mut Tcb| t.snd.acknowledge(0),
        |t: &mut Tcb| t.rcv.set_fin(5),
    ] {
        let what = refused(SynReceived, harm);
        assert_eq!(what, "more than a SYN, in a handshake");
    }
    let what = refused(SynSent, |t| t.rcv.advance(1));
    assert_eq!(what, "something received before the peer's SYN");
    // The parts', and what follows only from all of them.
    let no_round_trip = |t: &mut Tcb| {
        let bytes = [0xff; RttEstimator::LEN];
        t.snd.rtt = RttEstimator::restore(&mut Reader::new(&bytes)).expect("numbers of any size");
    };
    let harms: [(Harm, &str); 4] = [
        (|t| t.snd.set_up(1), "urgent beyond what was written"),
        (|t| t.rcv.consume(1), "read beyond what has come"),
        (|t| t.acks.sent(1), "acknowledged what has not come"),
        (no_round_trip, "a round trip that is none"),
    ];
    for (harm, what) in harms {
        assert_eq!(refused(Established, harm), what);
        // Before anything is derived from it.
        let mut s = Script::established();
        harm(&mut s.tcb);
        assert_eq!(check_saved(&s.tcb), Err(Violation(what)));
    }
    let what = refused(Established, |t| t.state = State::CloseWait);
    assert_eq!(what, "the state is not what the two FINs say");
}

#[test]
fn numbers_beyond_any_connection_are_refused() {
    use State::Established;
    let what = refused(Established, |t| t.snd.write(MAX_POS));
    assert_eq!(what, "a send stream that is too long");
    let what = refused(Established, |t| {
        t.snd.write(1 << 33);
        t.snd.advance(1 << 31);
    });
    assert_eq!(what, "more in flight than a window");
    let what = refused(Established, |t| t.snd.set_peer_mss(MIN_MSS - 1));
    assert_eq!(what, "a path for less than a packet");
    let what = refused(Established, |t| t.rcv.advertise_to(MAX_POS));
    assert_eq!(what, "a receive stream that is too long");
    let what = refused(Established, |t| t.rcv.set_up(-1));
    assert_eq!(what, "a receive stream that is too long");
    let what = refused(Established, |t| t.rcv.bound_mss(MIN_MSS - 1));
    assert_eq!(what, "segments that are shorter than any");
    // At the bounds they are taken.
    let mut s = Script::established();
    s.tcb.snd.write(MAX_POS - 1);
    s.tcb.rcv.set_up(MAX_POS);
    s.tcb.rcv.bound_mss(MIN_MSS);
    s.tcb.rcv.advertise_to(MAX_POS - 1);
    assert_eq!(check_saved(&s.tcb), Ok(()));
    s.tcb.snd.set_peer_mss(MIN_MSS);
    s.tcb.snd.update_mss();
    assert_eq!(check_saved(&s.tcb), Ok(()));
    s.tcb.snd.advance((1 << 31) - 1);
    assert_eq!(check_saved(&s.tcb), Ok(()));
    s.tcb.snd.close();
    s.tcb.snd.advance(MAX_POS);
    s.tcb.snd.acknowledge(MAX_POS);
    assert_eq!(check_saved(&s.tcb), Ok(()));
}

/// In what follows, `s` goes on as the connection that is restored of its.
fn moves(s: &mut Script) {
    s.tcb = SavedTcb::of(&s.tcb).restore(s.now).expect("a connection");
}

/// The tuning of the buffer counts what is read from now on.
#[test]
fn what_was_read_before_is_no_sign_of_a_fast_reader() {
    let cfg = Config {
        rcv: ReceiveLimits::new(20_000, 1_000_000),
        ..plain()
    };
    let mut s = Script::established_with(&cfg, TcpOptions::default());
    s.tcb.rcv.buffer.sample_rtt(1_000);
    for _ in 0..50 {
        let at = s.tcb.rcv.nxt();
        let _ = s.arrives(ACK, at, 0, 1_000);
        s.tcb.set_rcv_consumed(s.tcb.rcv_edge(), s.now);
        s.sent();
    }
    assert_eq!(s.tcb.receive_status().buffer_size(), 20_000);
    moves(&mut s);
    s.now = s.now.after_ms(100);
    let at = s.tcb.rcv.nxt();
    let _ = s.arrives(ACK, at, 0, 10);
    s.tcb.set_rcv_consumed(s.tcb.rcv_edge(), s.now);
    assert_eq!(s.tcb.receive_status().buffer_size(), 20_000);
    assert_eq!(s.tcb.rcv.buffer.space(), 10);
    let fresh = ReceiveBuffer::new(20_000, 1_000_000, s.now);
    assert_eq!(fresh.space(), 0);
}

/// A path that was found to take less is tried again after ten minutes (RFC 8899 section 5.1.1).
#[test]
fn a_small_path_is_searched_again() {
    let mut s = usual();
    moves(&mut s);
    let later = s.now.after_ms(601_000);
    assert!(!s.tcb.flight.mtu.is_due(later));
    s.tcb.snd.set_path_mss(600);
    s.tcb.snd.update_mss();
    moves(&mut s);
    assert!(!s.tcb.flight.mtu.is_due(s.now.after_ms(599_000)));
    assert!(s.tcb.flight.mtu.is_due(later));
}

#[test]
fn pace_and_algorithm_are_as_they_were() {
    let mut s = usual();
    s.tcb.settings().set_congestion(Congestion::Bbr, s.now);
    s.tcb.settings().set_max_pacing_rate(77_777);
    moves(&mut s);
    assert_eq!(s.tcb.info(s.now).max_pacing_rate, 77_777);
    assert!(s.tcb.congestion.pacer.is_on());
    assert!(s.tcb.congestion.rate.is_on());
    let mut s = Script::in_state(State::SynSent);
    moves(&mut s);
    assert!(!s.tcb.congestion.rate.is_on());
}

/// The next segment is predicted, if it can be.
#[test]
fn what_comes_next_is_expected() {
    let mut s = usual();
    moves(&mut s);
    assert!(s.tcb.receive_status().predicted_room() > 0);
    let d = s.arrives(ACK, 0, 0, 100);
    assert!(d.fast_path);
}

/// What was in flight counts as busy from then on.
#[test]
fn the_time_of_the_other_process_is_not_counted() {
    let busy = |s: &Script| s.tcb.info(s.now).busy_us;
    let mut s = Script::established();
    s.writes(100);
    s.sent();
    moves(&mut s);
    s.now = s.now.after_us(5);
    assert_eq!(busy(&s), 5);
    let mut s = Script::established();
    moves(&mut s);
    s.now = s.now.after_us(5);
    assert_eq!(busy(&s), 0);
    // A SYN is no data.
    let mut s = Script::in_state(State::SynSent);
    moves(&mut s);
    s.now = s.now.after_us(5);
    assert_eq!(busy(&s), 0);
    let options = TcpOptions {
        mss: Some(MSS),
        ..TcpOptions::default()
    };
    let _ = s.arrives_with(SYN | ACK, -1, 0, 0, options);
    assert_eq!(busy(&s), 0);
}

/// RFC 6298 section 3: the answer to a SYN that was sent again measures nothing, to another one it
/// does.
#[test]
fn a_syn_that_was_sent_once_is_measured() {
    for repeated in [false, true] {
        let mut s = Script::in_state(State::SynSent);
        if repeated {
            s.until_timer();
            s.sent();
        }
        moves(&mut s);
        s.now = s.now.after_ms(10);
        let options = TcpOptions {
            mss: Some(MSS),
            ..TcpOptions::default()
        };
        let _ = s.arrives_with(SYN | ACK, -1, 0, 0, options);
        assert_eq!(s.tcb.snd.rtt.srtt().is_none(), repeated);
    }
}

/// Deadlines are no later than they were, nor than one that begins now.
#[test]
fn deadlines_are_kept() {
    let mut s = Script::in_state(State::Closed);
    s.tcb.cfg.user_timeout_ms = 5;
    moves(&mut s);
    assert_eq!(s.tcb.deadline(), None);

    let mut s = Script::established();
    s.writes(100);
    s.sent();
    s.tcb.abort();
    s.sent();
    moves(&mut s);
    assert_eq!(s.tcb.deadline(), None, "what was in flight is nobody's");

    let mut s = Script::in_state(State::FinWait2);
    s.tcb.close(s.now);
    let at = s.tcb.timers.state;
    s.now = s.now.after_ms(10);
    moves(&mut s);
    assert_eq!(s.tcb.deadline(), Some(at));
    s.tcb.timers.state = Instant::NEVER;
    moves(&mut s);
    assert_eq!(s.tcb.deadline(), Some(s.now.after_ms(60_000)));
    let mut s = Script::in_state(State::FinWait2);
    moves(&mut s);
    assert_eq!(s.tcb.deadline(), None);

    let mut s = Script::in_state(State::TimeWait);
    let at = s.tcb.timers.state;
    moves(&mut s);
    assert_eq!(s.tcb.deadline(), Some(at));
    s.tcb.timers.state = Instant::NEVER;
    moves(&mut s);
    assert_eq!(s.tcb.deadline(), Some(s.now.after_us(TIME_WAIT_US)));

    for enabled in [false, true] {
        let mut s = Script::established();
        s.tcb.cfg.keepalive = Keepalive {
            enabled,
            idle_ms: 10,
            interval_ms: 30,
            probes: 1,
        };
        s.tcb.timers.keepalive = Instant::NEVER;
        moves(&mut s);
        let at = enabled.then(|| s.now.after_ms(30));
        assert_eq!(s.tcb.deadline(), at);
    }

    let mut s = Script::established();
    let _ = s.arrives(ACK, 0, 0, 10);
    s.now = s.now.after_ms(39);
    moves(&mut s);
    assert_eq!(s.tcb.deadline(), Some(s.now.after_us(DELAY_US)));
}

/// A closed window is probed, and one that is not is used; the user's timeout counts from when
/// it was closed.
#[test]
fn a_closed_window_is_still_probed() {
    let mut s = Script::established();
    s.window = 0;
    let _ = s.arrives(ACK, 0, 0, 0);
    s.tcb.settings().set_user_timeout(9_000);
    s.writes(100);
    s.silent();
    let since = s.tcb.liveness.stalled_since();
    s.now = s.now.after_ms(100);
    moves(&mut s);
    assert_eq!(s.tcb.flight.timer.kind(), crate::flight::XmitTimer::Persist);
    let rto = s.tcb.snd.rtt.rto();
    assert_eq!(s.tcb.flight.timer.at(), s.now.after_us(rto));
    assert_eq!(s.tcb.timers.user, since.after_ms(9_000));
    // Nothing is to be sent.
    let mut s = Script::established();
    s.tcb.settings().set_user_timeout(9_000);
    s.window = 0;
    let _ = s.arrives(ACK, 0, 0, 0);
    moves(&mut s);
    assert_eq!(s.tcb.deadline(), None);
    // It is, and may be.
    let mut s = Script::established();
    s.writes(100);
    moves(&mut s);
    assert_eq!(s.tcb.deadline(), None);
    assert_eq!(s.sent_one().payload, 0..100);
    // A FIN was taken, and what is left may not be sent.
    let mut s = Script::in_state(State::SynSent);
    s.writes(100);
    let _ = s.arrives(FIN | ACK, 0, 0, 0);
    moves(&mut s);
    assert_ne!(s.tcb.flight.timer.kind(), crate::flight::XmitTimer::Persist);
}
