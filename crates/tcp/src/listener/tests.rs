//! The verdicts and the queues.

use super::*;
use longshore_wire::SeqNumber;
use longshore_wire::tcp::TcpOptions;

fn verdict(listener: &Listener, flags: TcpFlags) -> ListenVerdict {
    verdict_at(&mut listener.clone(), flags, Instant(0))
}

fn verdict_at(listener: &mut Listener, flags: TcpFlags, now: Instant) -> ListenVerdict {
    let header = TcpHeader {
        src_port: 40_000,
        dst_port: 80,
        seq: SeqNumber(100),
        ack: SeqNumber(200),
        flags,
        window: 1000,
        urgent: 0,
        options: TcpOptions::default(),
    };
    listener.on_segment(&Segment::new(&header, 0), now)
}

#[test]
fn only_a_syn_begins_a_connection() {
    let l = Listener::new(5);
    let drop = ListenVerdict::Drop(DropReason::ListenNoSyn);
    assert_eq!(verdict(&l, TcpFlags::SYN), ListenVerdict::Accept);
    assert_eq!(verdict(&l, TcpFlags::NONE), drop);
    assert_eq!(verdict(&l, TcpFlags::FIN), drop);
    assert_eq!(verdict(&l, TcpFlags::SYN | TcpFlags::FIN), drop);
    assert_eq!(verdict(&l, TcpFlags::RST), drop);
    assert_eq!(verdict(&l, TcpFlags::RST | TcpFlags::ACK), drop);
    for flags in [TcpFlags::ACK, TcpFlags::SYN | TcpFlags::ACK] {
        let ListenVerdict::Reset(reset) = verdict(&l, flags) else {
            panic!("no reset for {flags:?}");
        };
        assert_eq!(reset.flags, TcpFlags::RST);
        assert_eq!(reset.seq, SeqNumber(200));
    }
}

#[test]
fn a_listener_is_as_it_was_set() {
    let mut l = Listener::new(7);
    assert_eq!((l.backlog(), l.aborts_on_overflow()), (7, false));
    for (backlog, aborts) in [(0, true), (9, false)] {
        l.set_backlog(backlog);
        l.set_abort_on_overflow(aborts);
        assert_eq!((l.backlog(), l.aborts_on_overflow()), (backlog, aborts));
    }
    l.on_half_open();
    l.on_half_open();
    l.on_waiting();
    l.on_half_open_given_up();
    assert_eq!((l.half_open(), l.waiting()), (0, 1));
}

/// Cookies are looked for as long as one that was sent may come back.
#[test]
fn cookies_are_expected_for_a_time() {
    let mut l = Listener::new(7);
    l.set_cookies(SynCookies::Always);
    let at = Instant(1_000);
    let answer = verdict_at(&mut l, TcpFlags::SYN, at);
    assert_eq!(answer, ListenVerdict::AnswerWithCookie);
    for (after, is_expected) in [
        (0, true),
        (COOKIES_EXPECTED_US - 1, true),
        (COOKIES_EXPECTED_US, false),
    ] {
        let verdict = verdict_at(&mut l, TcpFlags::ACK, at.after_us(after));
        let is_checked = matches!(verdict, ListenVerdict::CheckCookie(_));
        assert_eq!(is_checked, is_expected, "{after}");
    }
}

#[test]
fn a_connection_that_was_never_half_open_waits_like_others() {
    let mut l = Listener::new(2);
    l.on_half_open();
    // As one between two sockets of the stack does.
    l.on_waiting();
    assert_eq!((l.half_open(), l.waiting()), (1, 1));
}

#[test]
fn the_accept_queue_holds_one_more_than_the_backlog() {
    let mut l = Listener::new(2);
    for _ in 0..3 {
        assert_eq!(verdict(&l, TcpFlags::SYN), ListenVerdict::Accept);
        l.on_half_open();
        assert!(l.may_establish());
        l.on_half_open_gone();
        l.on_waiting();
    }
    assert_eq!((l.half_open(), l.waiting()), (0, 3));
    assert!(!l.may_establish());
    let full = ListenVerdict::Drop(DropReason::AcceptQueueFull);
    assert_eq!(verdict(&l, TcpFlags::SYN), full);
    l.on_accepted(1);
    assert_eq!(verdict(&l, TcpFlags::SYN), ListenVerdict::Accept);
    l.set_backlog(1);
    assert_eq!(verdict(&l, TcpFlags::SYN), full);
}

#[test]
fn half_open_connections_are_bounded() {
    for (backlog, most) in [(0, 8), (100, 100), (1_000_000, 4096)] {
        let mut l = Listener::new(backlog);
        l.set_cookies(SynCookies::Off);
        let mut accepted = 0;
        while verdict(&l, TcpFlags::SYN) == ListenVerdict::Accept {
            l.on_half_open();
            accepted += 1;
        }
        assert_eq!(accepted, most);
        let full = ListenVerdict::Drop(DropReason::SynQueueFull);
        assert_eq!(verdict(&l, TcpFlags::SYN), full);
        l.on_half_open_gone();
        assert_eq!(verdict(&l, TcpFlags::SYN), ListenVerdict::Accept);
    }
}

/// Cookies take the place of drops, and are expected back as long as they are good.
#[test]
fn a_full_queue_is_answered_by_cookies() {
    let minute = 60_000_000;
    let mut l = Listener::new(8);
    let is_reset = |v| matches!(v, ListenVerdict::Reset(_));
    assert!(is_reset(verdict_at(&mut l, TcpFlags::ACK, Instant(1))));
    for _ in 0..8 {
        assert_eq!(
            verdict_at(&mut l, TcpFlags::SYN, Instant(1)),
            ListenVerdict::Accept
        );
        l.on_half_open();
    }
    let syn = verdict_at(&mut l, TcpFlags::SYN, Instant(2));
    assert_eq!(syn, ListenVerdict::AnswerWithCookie);
    let ack = verdict_at(&mut l, TcpFlags::ACK, Instant(minute));
    assert!(matches!(ack, ListenVerdict::CheckCookie(_)), "{ack:?}");
    let syn_ack = TcpFlags::SYN | TcpFlags::ACK;
    assert!(is_reset(verdict_at(&mut l, syn_ack, Instant(minute))));
    assert!(is_reset(verdict_at(
        &mut l,
        TcpFlags::ACK,
        Instant(3 * minute)
    )));
    // A full accept queue is for waiting, not for cookies.
    for _ in 0..9 {
        l.on_half_open_gone();
        l.on_waiting();
    }
    let full = ListenVerdict::Drop(DropReason::AcceptQueueFull);
    assert_eq!(verdict_at(&mut l, TcpFlags::SYN, Instant(3)), full);
}

#[test]
fn cookies_may_be_all_there_is() {
    let mut l = Listener::new(100);
    l.set_cookies(SynCookies::Always);
    assert_eq!(verdict(&l, TcpFlags::SYN), ListenVerdict::AnswerWithCookie);
    for mode in [SynCookies::Off, SynCookies::OnOverflow, SynCookies::Always] {
        assert_eq!(SynCookies::from_number(mode as u8), Some(mode));
    }
    assert_eq!(SynCookies::from_number(3), None);
}

/// 1 s, 2 s, 4 s after the one before: the first repetition ends the first second.
#[test]
fn deferring_is_counted_in_repetitions() {
    let mut l = Listener::new(1);
    assert!(!l.defers_accept(0));
    for (seconds, timeouts) in [(1, 1), (2, 2), (3, 2), (5, 3), (60, 6), (u32::MAX, 31)] {
        l.set_defer_accept(seconds);
        assert!(l.defers_accept(timeouts - 1), "{seconds}");
        assert!(!l.defers_accept(timeouts), "{seconds}");
    }
}

#[test]
fn counting_too_often_does_no_harm() {
    let mut l = Listener::new(1);
    l.on_accepted(1);
    l.on_half_open_gone();
    assert_eq!((l.half_open(), l.waiting(), l.backlog()), (0, 0, 1));
}
