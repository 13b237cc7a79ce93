//! The handshake: what its end leaves, and what is sent for what comes before it.

use super::*;
use crate::config::Keepalive;
use crate::flags::Flags;
use crate::script::{MSS, SYN};
use crate::{Events, FastOpenMode, State};
use longshore_wire::tcp::FastOpenCookie;

/// The SYN-ACK of a passive open is not sent again once it was answered.
#[test]
fn nothing_is_repeated_of_a_handshake_that_is_over() {
    let mut s = Script::accepting(&plain(), TcpOptions::default());
    assert!(s.tcb.flight.timer.is_running());
    let _ = s.arrives(ACK, 0, 0, 0);
    assert_eq!(s.tcb.state(), State::Established);
    assert!(!s.tcb.flight.timer.is_running());
    s.waits_ms(10_000);
    s.silent();
}

/// The answer comes between the moment at which the SYN is due again and that at which it goes.
#[test]
fn a_syn_that_is_due_again_is_not_sent_after_its_answer() {
    let mut s = Script::in_state(State::SynSent);
    s.until_timer();
    assert!(s.tcb.flags.contains(Flags::SYN_DUE));
    s.tcb.liveness.note_retry();
    let _ = s.arrives(SYN | ACK, -1, 0, 0);
    assert_eq!(s.tcb.state(), State::Established);
    assert_eq!(s.tcb.liveness.retries(), 0);
    s.acks(0);
    s.silent();
}

/// RFC 9293 figure 7, where the peer's SYN comes before ours was fetched.
#[test]
fn a_syn_that_crosses_one_not_sent_is_answered_too() {
    let mut s = Script::connecting(&plain());
    let d = s.arrives(SYN, -1, 0, 0);
    assert!(d.ack_now);
    let sent = s.sent_one();
    assert_eq!(sent.flags, SYN | ACK);
    assert_eq!(s.ack_of(&sent), 0);
}

/// The window of a SYN-ACK that crosses ours is not scaled, and is the last one that was told.
#[test]
fn a_simultaneous_open_takes_the_last_window() {
    let mut s = Script::connecting(&Config::default());
    s.sent();
    for (flags, window) in [(SYN, 1_000), (SYN | ACK, 700)] {
        s.window = window;
        let _ = s.arrives_with(flags, -1, 0, 0, full_options());
        assert_eq!(s.tcb.snd.wnd(), u32::from(window));
        s.sent();
    }
    assert_eq!(s.tcb.state(), State::Established);
}

/// RFC 7323 section 2.2: the window of whatever is no SYN is scaled.
#[test]
fn the_window_that_ends_a_passive_open_is_scaled() {
    let mut s = Script::accepting(&Config::default(), full_options());
    assert_ne!(s.tcb.snd.wscale(), 0);
    s.window = 100;
    let _ = s.arrives(ACK, 0, 0, 0);
    assert_eq!(s.tcb.snd.wnd(), 100 << s.tcb.snd.wscale());
}

/// A SYN-ACK that crosses ours is acknowledged, also where something else was to be.
#[test]
fn a_simultaneous_open_is_acknowledged() {
    for owed in [Flags::empty(), Flags::ACK_NOW] {
        let mut s = Script::connecting(&plain());
        s.sent();
        let _ = s.arrives(SYN, -1, 0, 0);
        s.sent();
        s.tcb.flags |= owed;
        let _ = s.arrives(SYN | ACK, -1, 0, 0);
        s.acks(0);
    }
}

/// A SYN with data comes again (RFC 7413): the SYN-ACK is lost, several times before one is sent.
#[test]
fn a_repeated_syn_with_data_has_the_syn_ack_repeated() {
    for repeated in 1..4 {
        let mut s = Script::in_state(State::SynReceived);
        for _ in 0..repeated {
            s.now = s.now.after_ms(500);
            let d = s.arrives(SYN, -1, 0, 10);
            assert_eq!(d.drop, Some(DropReason::EarlyData));
        }
        assert_eq!(s.sent_one().flags, SYN | ACK);
    }
}

/// From the moment at which it is made its times count.
#[test]
fn a_connection_is_as_old_as_its_handshakes_end() {
    let keepalive = Keepalive {
        enabled: true,
        idle_ms: 5_000,
        interval_ms: 1_000,
        probes: 3,
    };
    let cfg = Config {
        keepalive,
        ..plain()
    };
    let mut s = Script::connecting(&cfg);
    s.sent();
    let begun = s.now;
    s.now = begun.after_ms(700);
    let _ = s.arrives(SYN | ACK, -1, 0, 0);
    assert_eq!(s.tcb.liveness.last_ack(), s.now);
    assert_eq!(s.tcb.liveness.last_data(), s.now);
    assert_eq!(s.tcb.timers.keepalive, s.now.after_ms(5_000));
    // Of one that is not to be probed nothing is.
    let s = Script::established();
    assert!(s.tcb.timers.keepalive.is_never());
}

/// RFC 5681 section 3.1: after a timeout the window is one segment, as long as the path takes them
/// by then.
#[test]
fn congestion_control_counts_in_the_segments_that_are_sent() {
    let mut s = Script::established();
    s.tcb.segment_size().set_path_mss(600);
    assert_eq!(s.tcb.snd.mss(), 600);
    s.writes(5_000);
    s.sent();
    s.until_timer();
    while s.tcb.flight.timer.kind() != crate::flight::XmitTimer::Retransmit || s.sent().is_empty() {
        s.until_timer();
    }
    assert_eq!(s.tcb.congestion.controller.cwnd(), 600);
}

fn with_data_in_the_syn() -> Script {
    let mut s = Script::connecting(&plain());
    let cookie = FastOpenCookie::new(&[7; 8]).expect("eight bytes");
    s.tcb
        .syn_data()
        .start(FastOpenMode::SendCookie { cookie, mss: MSS }, false);
    s.writes(500);
    let syn = s.sent_one();
    assert_eq!((syn.flags, syn.payload.end - syn.payload.start), (SYN, 500));
    s.now = s.now.after_ms(20);
    s.events();
    s
}

/// RFC 7413: the SYN-ACK acknowledges the SYN's data, or a part, or leaves it to be sent again.
#[test]
fn data_of_a_syn_is_acknowledged_by_its_answer() {
    for (ack, is_told) in [(500, true), (200, true), (0, false)] {
        let mut s = with_data_in_the_syn();
        let _ = s.arrives(SYN | ACK, -1, ack, 0);
        assert_eq!(s.events().contains(Events::SND_ACKED), is_told, "{ack}");
        assert_eq!(s.tcb.snd_acked(), ack as u64);
        // What is left is in flight, for as long as it is.
        s.sent();
        s.now = s.now.after_ms(30);
        let busy = s.tcb.info(s.now).busy_us;
        assert_eq!(busy > 0, ack < 500, "{ack}: {busy}");
    }
}
