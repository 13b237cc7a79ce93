//! The user's calls: in each state, made twice, and with values that make no sense.

use super::*;
use crate::fast_open::FastOpenMode;
use crate::script::{ACK, FIN, MSS, RST, Script, plain};
use crate::{Config, Error, Events, Linger, ReceiveLimits, State};
use longshore_wire::tcp::{FastOpenCookie, TcpOptions};

/// A connection with a SYN that waits for the first data.
fn awaiting_first_write() -> Script {
    let mut s = Script::connecting(&plain());
    let cookie = FastOpenCookie::new(&[7; 8]).expect("a cookie");
    let mode = FastOpenMode::SendCookie { cookie, mss: MSS };
    s.tcb.syn_data().start(mode, true);
    s.silent();
    s
}

// ---- Writing. ----

/// RFC 9293 section 3.10.2, SEND: in the closing states it is an error; what is written after
/// CLOSE, while the FIN still waits for ESTABLISHED, is none of the stream.
#[test]
fn nothing_is_written_behind_the_end_of_the_stream() {
    let mut s = Script::in_state(State::SynReceived);
    s.writes(100);
    s.tcb.shutdown_send();
    s.writes(200);
    assert_eq!(s.tcb.snd_edge(), 100);
    for state in State::ALL.into_iter().filter(|state| !state.may_write()) {
        let mut s = Script::in_state(state);
        let edge = s.tcb.snd_edge();
        s.writes(edge + 100);
        assert_eq!(s.tcb.snd_edge(), edge, "{state:?}");
    }
}

#[test]
fn an_edge_beyond_any_stream_is_one_that_can_be_counted_with() {
    let mut s = Script::established();
    s.writes(u64::MAX);
    assert_eq!(s.tcb.snd_edge(), i64::MAX as u64 / 2);
    assert!(!s.sent().is_empty());
}

/// RFC 7413 section 4.2.1 with TCP_FASTOPEN_CONNECT: the SYN waits for data, or for the news that
/// none will come.
#[test]
fn a_syn_that_waits_goes_with_the_first_byte_or_with_the_end() {
    let mut s = awaiting_first_write();
    s.writes(0);
    s.silent();
    s.writes(1);
    assert_eq!(s.sent_one().payload, 0..1);
    let mut s = awaiting_first_write();
    s.tcb.shutdown_send();
    assert!(s.sent_one().payload.is_empty());
}

/// Section 3.4 of the delivery rate draft: the user limits the rate if all was sent before it
/// wrote more, and a full segment more would have fitted into the window.
#[test]
fn a_write_into_an_empty_pipe_says_that_the_user_is_the_limit() {
    let noted = |in_flight: u64, unsent: u64, more: u64| {
        let mut s = Script::established();
        s.writes(in_flight);
        s.sent();
        s.writes(in_flight + unsent);
        s.tcb.congestion.rate.stop();
        let before = s.tcb.congestion.rate;
        s.writes(in_flight + unsent + more);
        s.tcb.congestion.rate != before
    };
    // The window has ten segments.
    assert!(noted(1_000, 0, 1));
    assert!(noted(8_000, 0, 1));
    assert!(!noted(9_000, 0, 1));
    assert!(!noted(10_000, 0, 1));
    assert!(!noted(1_000, 0, 0), "nothing was written");
    assert!(!noted(1_000, 1, 1), "something was left to be sent");
}

// ---- Reading. ----

#[test]
fn a_fast_reader_gets_a_larger_buffer_within_what_memory_allows() {
    let read = |room: Option<u64>| {
        let cfg = Config {
            rcv: ReceiveLimits::new(20_000, 1_000_000),
            ..plain()
        };
        let mut s = Script::established_with(&cfg, TcpOptions::default());
        if let Some(room) = room {
            s.tcb.receive_room().bound(room);
        }
        s.events();
        let mut grown = 0;
        for _ in 0..40 {
            for _ in 0..8 {
                let at = s.tcb.rcv.nxt();
                let _ = s.arrives(ACK, at, 0, 1_000);
            }
            s.now = s.now.after_ms(20);
            s.tcb.set_rcv_consumed(s.tcb.rcv_edge(), s.now);
            s.sent();
            grown += u32::from(s.events().contains(Events::RCVBUF));
        }
        assert_eq!(grown > 0, s.tcb.receive_status().buffer_size() > 20_000);
        s.tcb.receive_status().buffer_size()
    };
    let free = read(None);
    assert!(free > 30_000, "{free}");
    assert_eq!(read(Some(u64::MAX)), free);
    assert_eq!(read(Some(25_000)), 25_000);
    assert_eq!(read(Some(1_000)), 20_000);
}

#[test]
fn reading_is_no_reason_to_speak_where_nothing_may_come() {
    let mut s = Script::established();
    let _ = s.arrives(ACK, 0, 0, 20_000);
    s.sent();
    let _ = s.arrives(FIN | ACK, 20_000, 0, 0);
    s.sent();
    s.tcb.set_rcv_consumed(20_000, s.now);
    s.silent();
    // Without memory there is nothing to say either.
    let mut s = Script::established();
    let _ = s.arrives(ACK, 0, 0, 20_000);
    s.tcb.receive_room().deny();
    s.sent();
    s.tcb.set_rcv_consumed(20_000, s.now);
    s.silent();
}

/// The edge is to move by two segments, or half of a small buffer.
#[test]
fn an_update_is_due_with_two_segments_of_room() {
    let mut s = Script::established();
    let _ = s.arrives(ACK, 0, 0, 20_000);
    assert_eq!(s.sent_one().window, 0);
    s.tcb.set_rcv_consumed(1_999, s.now);
    s.silent();
    s.tcb.set_rcv_consumed(2_000, s.now);
    assert_eq!(s.sent_one().window, 2_000);
    let cfg = Config {
        rcv: ReceiveLimits::new(1_500, 1_500),
        ..plain()
    };
    let mut s = Script::established_with(&cfg, TcpOptions::default());
    let _ = s.arrives(ACK, 0, 0, 1_500);
    assert_eq!(s.sent_one().window, 0);
    s.tcb.set_rcv_consumed(749, s.now);
    s.silent();
    s.tcb.set_rcv_consumed(750, s.now);
    assert_eq!(s.sent_one().window, 750);
}

/// A window of more than 64 KiB takes the scale (RFC 7323 section 2.3); without one, what the
/// field cannot say is no reason to speak.
#[test]
fn an_update_of_a_large_window_is_due_if_the_field_can_say_it() {
    for scaled in [false, true] {
        let cfg = Config {
            window_scaling: scaled,
            timestamps: false,
            rcv: ReceiveLimits::new(200_000, 200_000),
            ..plain()
        };
        let options = TcpOptions {
            window_scale: Some(0),
            ..TcpOptions::default()
        };
        let mut s = Script::established_with(&cfg, options);
        s.tcb.settings().set_quickack(false);
        let _ = s.arrives(ACK, 0, 0, 60_000);
        s.sent();
        let offered = s.tcb.rcv.offered();
        assert_eq!(offered, if scaled { 140_000 } else { 65_535 });
        let _ = s.arrives(ACK, 60_000, 0, 60_000);
        s.sent();
        s.tcb.set_rcv_consumed(120_000, s.now);
        let told = s.sent();
        assert_eq!(told.len(), usize::from(scaled), "{told:?}");
    }
}

// ---- Closing. ----

#[test]
fn what_is_closed_is_not_closed_again() {
    let mut s = Script::in_state(State::Closed);
    s.tcb.shutdown_send();
    assert!(!s.tcb.send_status().is_shut());
    let mut s = Script::established();
    s.tcb.shutdown_send();
    assert!(s.tcb.send_status().is_shut());
    s.sent();
    s.tcb.shutdown_send();
    s.silent();
    assert_eq!(s.tcb.state(), State::FinWait1);
}

/// With both directions shut, what arrives is lost, and its sender is told (RFC 9293 section
/// 3.6.1); to shut one of them twice is to shut it.
#[test]
fn to_shut_the_receiving_half_twice_is_to_shut_it() {
    let mut s = Script::established();
    s.tcb.closing().shutdown_recv();
    s.tcb.closing().shutdown_recv();
    s.tcb.shutdown_send();
    s.sent();
    let d = s.arrives(ACK, 0, 0, 10);
    assert!(d.reset);
    assert_eq!(s.tcb.error(), Some(Error::Reset));
}

#[test]
fn an_attempt_can_be_cancelled_until_it_is_answered() {
    for state in State::ALL {
        let mut s = Script::in_state(state);
        assert_eq!(
            s.tcb.closing().cancel_opening(),
            state == State::SynSent,
            "{state:?}"
        );
        if state == State::SynSent {
            assert_eq!(s.tcb.error(), Some(Error::Cancelled));
            assert_eq!(s.tcb.state(), State::Closed);
        } else {
            assert_eq!(s.tcb.state(), state);
        }
    }
}

/// RFC 2525 section 2.17: data that nobody will read, or SO_LINGER with 0, and it is reset; what
/// says so beforehand is right.
#[test]
fn it_is_known_what_close_would_reset() {
    for state in State::ALL {
        for (unread, linger) in [
            (false, Linger::Background),
            (false, Linger::Reset),
            (true, Linger::Background),
        ] {
            let mut s = Script::in_state(state);
            if unread {
                if !state.may_receive_data() {
                    continue;
                }
                let ack = i64::from(s.tcb.send_status().fin_acked());
                let _ = s.arrives(ACK, 0, ack, 10);
            }
            s.tcb.settings().set_linger(linger);
            let resets = s.tcb.closing().resets_on_close();
            let wanted = unread || linger == Linger::Reset;
            assert_eq!(resets, state.is_synchronized() && wanted, "{state:?}");
            if state == State::TimeWait {
                continue;
            }
            assert!(!s.tcb.is_orphan());
            s.tcb.close(s.now);
            let reset = s.sent().iter().any(|t| t.flags.contains(RST));
            assert!(reset || !resets, "{state:?}");
            assert!(s.tcb.is_orphan() && !s.tcb.closing().resets_on_close());
        }
    }
}

/// In TIME-WAIT both sides have closed: nothing is lost that was not read, and nothing is sent.
#[test]
fn time_wait_is_not_reset_by_what_is_unread() {
    let mut s = Script::in_state(State::FinWait2);
    let _ = s.arrives(FIN | ACK, 0, 1, 10);
    s.sent();
    assert_eq!(s.tcb.state(), State::TimeWait);
    s.tcb.close(s.now);
    s.silent();
    assert_eq!(s.tcb.state(), State::TimeWait);
}

/// RFC 9293 section 3.10.5, ABORT: a reset, but where the peer knows of no connection or both
/// sides have closed.
#[test]
fn an_abort_resets_what_is_not_over() {
    for state in State::ALL {
        for closed_before in [false, true] {
            let mut s = Script::in_state(state);
            if closed_before {
                s.tcb.close(s.now);
                s.sent();
            }
            let at = s.tcb.state();
            s.tcb.abort();
            assert!(s.tcb.is_orphan(), "{state:?}");
            assert_eq!(s.tcb.state(), State::Closed, "{state:?}");
            let over = [
                State::Closed,
                State::SynSent,
                State::TimeWait,
                State::Closing,
                State::LastAck,
            ];
            let sent = s.sent();
            if over.contains(&at) {
                assert!(sent.is_empty(), "{state:?} {at:?}");
            } else {
                assert_eq!(sent.len(), 1);
                assert_eq!(sent[0].flags, RST | ACK, "{state:?} {at:?}");
            }
        }
    }
}

/// TCP_LINGER2: how long an orphan waits for the peer's FIN.
#[test]
fn an_orphan_waits_for_the_peer_as_long_as_it_is_told() {
    let mut s = Script::in_state(State::FinWait2);
    s.tcb.settings().set_fin_wait(7_000);
    s.tcb.close(s.now);
    s.waits_ms(6_999);
    assert_eq!(s.tcb.state(), State::FinWait2);
    s.waits_ms(1);
    assert_eq!(s.tcb.state(), State::Closed);
}

// ---- Options. ----

/// TCP_NODELAY sends what is held back, corked or not.
#[test]
fn to_ask_for_no_delay_twice_is_to_ask_for_it() {
    let mut s = Script::established();
    s.tcb.settings().set_cork(true);
    s.writes(100);
    s.silent();
    s.tcb.settings().set_nodelay(true);
    s.tcb.settings().set_nodelay(true);
    assert_eq!(s.sent_one().payload, 0..100);
}

#[test]
fn what_a_cork_holds_back_goes_when_it_is_taken_out() {
    let mut s = Script::established();
    s.tcb.settings().set_cork(true);
    s.tcb.set_snd_edge(100, false);
    s.silent();
    assert!(s.tcb.deadline().is_some());
    s.tcb.settings().set_cork(true);
    s.silent();
    assert!(s.tcb.deadline().is_some(), "it goes at last by itself");
    s.tcb.settings().set_cork(false);
    assert!(s.tcb.timers.hold.is_never());
    assert_eq!(s.sent_one().payload, 0..100);
    // What is in it when it is put in is not held back by it alone.
    let mut s = Script::established();
    s.tcb.set_snd_edge(100, false);
    s.tcb.settings().set_cork(true);
    s.silent();
}

/// TCP_QUICKACK: what is owed goes at once, however often that is said; off, it waits.
#[test]
fn an_owed_acknowledgment_goes_at_once_if_asked_for() {
    let mut s = Script::established();
    let _ = s.arrives(ACK, 0, 0, 10);
    s.silent();
    s.tcb.settings().set_quickack(true);
    s.tcb.settings().set_quickack(true);
    s.acks(10);
    let _ = s.arrives(ACK, 10, 0, 10);
    s.acks(20);
    s.tcb.settings().set_quickack(false);
    s.tcb.settings().set_quickack(false);
    assert!(s.tcb.flags.contains(Flags::INTERACTIVE));
    let _ = s.arrives(ACK, 20, 0, 10);
    s.silent();
    // Nothing is owed: nothing is said.
    let mut s = Script::established();
    s.tcb.settings().set_quickack(true);
    s.silent();
    // It ends what a conversation has led to, and its own end leads to that again.
    s.tcb.cfg.delay.quickack = false;
    assert!(!s.tcb.flags.contains(Flags::INTERACTIVE));
    s.tcb.acks.start_quick_acks(9);
    s.tcb.settings().set_quickack(false);
    assert!(s.tcb.flags.contains(Flags::INTERACTIVE));
    assert_eq!(s.tcb.acks.quick(), 0);
}

/// TCP_SYNCNT.
#[test]
fn a_syn_is_repeated_as_often_as_it_is_told() {
    let mut s = Script::in_state(State::SynSent);
    s.tcb.settings().set_syn_retries(2);
    for _ in 0..2 {
        s.until_timer();
        assert_eq!(s.sent().len(), 1);
    }
    s.until_timer();
    assert_eq!(s.tcb.error(), Some(Error::TimedOut));
}

/// SO_RCVBUF: the size is what the user says, at least one byte, and the peer hears of it if it
/// is much more than it knows of.
#[test]
fn a_buffer_that_is_set_is_told_and_does_not_grow() {
    let mut s = Script::established();
    let _ = s.arrives(ACK, 0, 0, 20_000);
    assert_eq!(s.sent_one().window, 0);
    s.tcb.settings().set_rcvbuf(50_000);
    s.tcb.settings().set_rcvbuf(50_000);
    assert_eq!(s.sent_one().window, 30_000);
    assert_eq!(s.tcb.receive_status().buffer_size(), 50_000);
    assert!(s.tcb.rcv.buffer.is_fixed());
    s.tcb.settings().set_rcvbuf(50_001);
    s.silent();
    s.tcb.settings().set_rcvbuf(0);
    assert_eq!(s.tcb.receive_status().buffer_size(), 1);
    // Where nothing may come there is nobody to tell.
    let mut s = Script::in_state(State::CloseWait);
    s.tcb.settings().set_rcvbuf(5_000_000);
    s.silent();
}

/// SO_RCVLOWAT: a buffer that is tuned grows at once as far as it may, and the peer hears of it; it
/// never shrinks, and one that was set stays.
#[test]
fn a_buffer_grows_for_what_is_waited_for() {
    let cfg = Config {
        rcv: ReceiveLimits::new(20_000, 60_000),
        ..plain()
    };
    let size = |s: &Script| s.tcb.receive_status().buffer_size();
    let mut s = Script::established_with(&cfg, TcpOptions::default());
    let _ = s.arrives(ACK, 0, 0, 20_000);
    assert_eq!(s.sent_one().window, 0);
    s.tcb.settings().grow_rcvbuf(50_000);
    assert_eq!((s.sent_one().window, size(&s)), (30_000, 50_000));
    s.tcb.settings().grow_rcvbuf(40_000);
    assert_eq!(size(&s), 50_000);
    s.tcb.settings().grow_rcvbuf(70_000);
    assert_eq!(size(&s), 60_000);
    s.tcb.settings().set_rcvbuf(30_000);
    s.tcb.settings().grow_rcvbuf(40_000);
    assert_eq!(size(&s), 30_000);
}

/// TCP_WINDOW_CLAMP takes effect with the next segment.
#[test]
fn a_clamp_that_is_lifted_is_gone() {
    let mut s = Script::established();
    s.tcb.settings().set_window_clamp(5_000);
    let _ = s.arrives(ACK, 0, 0, 20_000);
    s.sent();
    s.tcb.set_rcv_consumed(20_000, s.now);
    let _ = s.arrives(ACK, 19_999, 0, 1);
    assert_eq!(s.sent_one().window, 5_000);
    s.tcb.settings().set_window_clamp(0);
    let _ = s.arrives(ACK, 19_999, 0, 1);
    assert_eq!(s.sent_one().window, 20_000);
}
