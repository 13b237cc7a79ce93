//! The receive window: silly window avoidance, and what memory allows.

use crate::flags::Flags;
use crate::rcv::ReceiveSide;
use crate::receive_buffer::ReceiveBuffer;
use crate::script::{ACK, Script};
use crate::short_window::ROOM;
use crate::time::Instant;
use crate::{BurstConfig, Config, ReceiveLimits};
use proptest::prelude::*;

/// The advertised window is closed, and open again once there is memory.
#[test]
fn without_memory_the_window_is_told_as_closed() {
    let mut s = Script::established();
    let d = s.arrives(ACK, 0, 0, 1_000);
    assert!(d.place.is_some());
    s.writes(3_000);
    let open = s.sent()[0].window;
    s.tcb.receive_room().deny();
    for _ in 0..2 {
        // What it acknowledges counts, and what it carries does not.
        let d = s.arrives(ACK, 1_000, 2_000, 1_000);
        assert_eq!((d.place, d.drop), (None, Some(crate::DropReason::NoRoom)));
        assert_eq!(s.tcb.snd_acked(), 2_000);
        let told = s.sent_one();
        assert_eq!((s.ack_of(&told), told.window), (1_000, 0));
    }
    // Reading is no reason to speak while that lasts, but a probe is.
    s.tcb.set_rcv_consumed(1_000, s.now);
    s.silent();
    let _ = s.arrives(ACK, 999, 2_000, 0);
    assert_eq!(s.sent_one().window, 0);
    s.tcb.receive_room().grant();
    let told = s.sent_one();
    assert_eq!(s.ack_of(&told), 1_000);
    assert!(told.window >= open);
    let d = s.arrives(ACK, 1_000, 2_000, 1_000);
    assert!(d.place.is_some() && s.tcb.rcv_edge() == 2_000);
    s.tcb.receive_room().grant();
    assert!(s.sent().iter().all(|t| t.window > 0));
}

#[test]
fn small_openings_are_not_told() {
    let mut s = Script::established();
    let _ = s.arrives(ACK, 0, 0, 20_000);
    assert_eq!(s.sent_one().window, 0);
    s.tcb.set_rcv_consumed(999, s.now);
    let _ = s.arrives(ACK, 19_999, 0, 1);
    assert_eq!(s.sent_one().window, 0);
    s.tcb.set_rcv_consumed(1_000, s.now);
    let _ = s.arrives(ACK, 19_999, 0, 1);
    assert_eq!(s.sent_one().window, 1_000);
}

#[test]
fn a_clamp_bounds_the_window() {
    let mut s = Script::established();
    s.tcb.settings().set_window_clamp(5_000);
    let _ = s.arrives(ACK, 0, 0, 17_000);
    // What was offered stays, but no more is.
    assert_eq!(s.sent_one().window, 3_000);
    s.tcb.set_rcv_consumed(17_000, s.now);
    assert_eq!(s.tcb.rcv.free_space(&s.tcb.cfg), 5_000);
}

#[test]
fn a_smaller_buffer_takes_back_nothing() {
    let mut s = Script::established();
    s.tcb.settings().set_rcvbuf(2_000);
    let _ = s.arrives(ACK, 0, 0, 10_000);
    assert_eq!(s.sent_one().window, 10_000);
}

proptest! {
    /// The right edge is never taken back by more than the scale's rounding, and never
    /// offered beyond the buffer.
    #[test]
    fn the_edge_only_moves_forward(
        steps in proptest::collection::vec((0u32..3_000, 0u64..6_000), 1..100),
        scaled: bool,
        size in 1u32..100_000,
    ) {
        let cfg = Config {
            rcv: ReceiveLimits::new(size, if scaled { 6 << 20 } else { size }),
            ..Config::default()
        };
        let mut s = Script::established_with(&cfg, crate::input::tests::full_options());
        s.tcb.settings().set_rcvbuf(size);
        let mut edge = 0;
        for (len, read) in steps {
            let len = len.min(s.tcb.rcv.offered());
            let at = s.tcb.rcv.nxt();
            let _ = s.arrives(ACK, at, 0, len);
            s.tcb.set_rcv_consumed(s.tcb.rcv_consumed() + read, s.now);
            let field = s.tcb.rcv.advertise_window(&s.tcb.cfg, s.tcb.flags);
            let new = s.tcb.rcv.nxt() + (i64::from(field) << s.tcb.rcv.wscale());
            prop_assert!(new > edge - (1 << s.tcb.rcv.wscale()), "{} {}", new, edge);
            prop_assert!(new <= s.tcb.rcv.consumed() + i64::from(size));
            edge = edge.max(new);
            s.sent();
        }
    }
}

proptest! {
    /// What a segment advertises is the window of that moment, although it is not computed anew
    /// while neither RCV.NXT nor the read position has changed.
    #[test]
    fn the_window_is_never_one_of_before(
        steps in proptest::collection::vec((0u8..5, 1u32..4), 1..60),
    ) {
        let mut s = Script::established();
        s.tcb.settings().set_rcvbuf(10);
        for (what, n) in steps {
            match what {
                0 => {
                    let at = s.tcb.rcv.nxt();
                    let _ = s.arrives(ACK, at, 0, n.min(s.tcb.rcv.offered()));
                }
                1 => s.tcb.set_rcv_consumed(s.tcb.rcv_consumed() + u64::from(n), s.now),
                2 => s.tcb.receive_room().deny(),
                3 => _ = s.tcb.receive_room().confine(),
                _ => _ = s.tcb.receive_room().grant(),
            }
            let mut anew = s.tcb.rcv;
            anew.buffer.forget_advertised();
            let field = s.tcb.rcv.advertise_window(&s.tcb.cfg, s.tcb.flags);
            prop_assert_eq!(anew.advertise_window(&s.tcb.cfg, s.tcb.flags), field);
            let window = s.tcb.rcv.window_to_advertise(&s.tcb.cfg);
            match s.tcb.flags & Flags::SHORT_OF_ROOM {
                Flags::NO_ROOM => prop_assert_eq!(field, 0),
                Flags::LITTLE_ROOM => {}
                _ => prop_assert_eq!(u32::from(field), window),
            }
            prop_assert_eq!(s.tcb.rcv.advertise_window(&s.tcb.cfg, s.tcb.flags), field);
            s.sent();
        }
    }
}

/// The same at the beginning of a stream, where other combinations of the two numbers are alike.
#[test]
fn a_short_window_is_not_one_of_before() {
    let mut s = Script::established();
    s.tcb.settings().set_rcvbuf(20_000);
    let _ = s.tcb.receive_room().confine();
    let mut window = |nxt: i64, consumed| {
        let at = s.tcb.rcv.nxt();
        let _ = s.arrives(ACK, at, 0, (nxt - at) as u32);
        s.tcb.set_rcv_consumed(consumed, s.now);
        s.tcb.rcv.advertise_window(&s.tcb.cfg, s.tcb.flags)
    };
    assert_eq!(window(1_000, 2), 19_002);
    assert_eq!(window(1_500, 500), 18_500, "the rest of it");
}

/// A connection with a buffer of a megabyte and a scaled window, which its peer knows of.
fn wide() -> Script {
    let cfg = Config {
        rcv: ReceiveLimits::new(1 << 20, 1 << 20),
        ..Config::default()
    };
    let mut s = Script::established_with(&cfg, crate::input::tests::full_options());
    s.tcb.settings().set_quickack(false);
    let _ = s.arrives(ACK, 0, 0, 1);
    let _ = s.arrives(ACK, 1, 0, 1_999);
    assert!(told(&mut s).is_some_and(|window| window > 1_000_000));
    s
}

/// The window that the peer is told, if it is told something.
fn told(s: &mut Script) -> Option<u32> {
    let scale = s.tcb.rcv.wscale();
    s.sent().last().map(|t| u32::from(t.window) << scale)
}

/// The peer is told to stop, what is on its way is taken, and the window opens as soon as less
/// than 64 KiB is unread.
#[test]
fn with_little_memory_the_window_is_narrow_and_nothing_is_dropped() {
    const MSS: u32 = 988;
    let mut s = wide();
    let mut edge = 2_000;
    let mut arrives = |s: &mut Script, len| {
        let d = s.arrives(ACK, edge, 0, len);
        assert_eq!(d.drop, None);
        edge += i64::from(len);
        assert_eq!(s.tcb.rcv_edge(), edge as u64);
    };
    assert!(!s.tcb.is_short_of_room() && !s.tcb.receive_room().confine());
    s.silent();
    assert!(s.tcb.is_short_of_room() && !s.tcb.receive_room().confine());
    arrives(&mut s, 10_000);
    arrives(&mut s, 10_000);
    let scale = 1 << s.tcb.rcv.wscale();
    let window = told(&mut s).unwrap();
    assert!(
        window <= ROOM - 22_000 && window + scale > ROOM - 22_000,
        "{window}"
    );
    // More than that was on its way.
    for _ in 0..8 {
        arrives(&mut s, 10_000);
    }
    assert_eq!(told(&mut s), Some(0));
    // Less than two segments of what is read now are no news.
    let unread = 102_000;
    s.tcb
        .set_rcv_consumed(u64::from(unread - ROOM + 2 * MSS - 1), s.now);
    s.silent();
    s.tcb
        .set_rcv_consumed(u64::from(unread - ROOM + 2 * MSS + 4), s.now);
    let window = told(&mut s).unwrap();
    assert!(
        window > 2 * MSS - scale && window <= 2 * MSS + 4,
        "{window}"
    );
    // As ever, an edge is told again when the rest of the old one is half of it.
    s.tcb
        .set_rcv_consumed(u64::from(unread - ROOM + 3 * MSS), s.now);
    s.silent();
    s.tcb
        .set_rcv_consumed(u64::from(unread - ROOM + 4 * MSS + 8), s.now);
    assert!(told(&mut s).is_some_and(|window| window > 3 * MSS));
    s.tcb
        .set_rcv_consumed(u64::from(unread - ROOM + 7 * MSS), s.now);
    s.silent();
    arrives(&mut s, MSS);
    // All of the buffer, when there is memory.
    assert!(s.tcb.receive_room().grant() && !s.tcb.receive_room().grant());
    assert!(told(&mut s).is_some_and(|window| window > 900_000));
    assert!(!s.tcb.is_short_of_room());
}

/// What was refused is asked for as soon as there is a little memory, if there is a window for it.
#[test]
fn a_window_that_was_closed_opens_a_little() {
    for (unread, opens) in [
        (1_000, true),
        (62_000, true),
        (64_500, false),
        (100_000, false),
    ] {
        let mut s = wide();
        let _ = s.arrives(ACK, 2_000, 0, 50_000);
        let _ = s.arrives(ACK, 52_000, 0, 50_000);
        s.sent();
        s.tcb.receive_room().deny();
        let d = s.arrives(ACK, 102_000, 0, 1_000);
        assert_eq!(d.drop, Some(crate::DropReason::NoRoom));
        assert_eq!(told(&mut s), Some(0));
        s.tcb.set_rcv_consumed(102_000 - unread, s.now);
        s.silent();
        assert_eq!(s.tcb.receive_room().confine(), opens, "{unread}");
        let window = told(&mut s);
        assert_eq!(window.is_some(), opens, "{unread}");
        assert!(window.is_none_or(|window| window + 100 > ROOM - unread as u32));
        // What comes is taken.
        let d = s.arrives(ACK, 102_000, 0, 1_000);
        assert_eq!(d.drop, None);
    }
    let mut s = Script::in_state(crate::State::CloseWait);
    s.tcb.receive_room().deny();
    assert!(!s.tcb.receive_room().confine());
    s.silent();
    // An acknowledgment that is owed already tells of it.
    let mut s = wide();
    s.tcb.receive_room().deny();
    s.tcb.flags |= Flags::ACK_NOW;
    assert!(s.tcb.receive_room().confine());
    assert!(told(&mut s).is_some_and(|window| window > 60_000));
}

/// Of a window that is taken back nothing was told yet; what was told since stays, however short
/// memory becomes.
#[test]
fn what_was_told_is_of_this_shortage() {
    let mut s = wide();
    let rest = |s: &Script| s.tcb.rcv.buffer.short.rest(s.tcb.rcv.nxt(), u32::MAX);
    let at = s.tcb.rcv.nxt();
    s.tcb.rcv.buffer.short.tell(at + 1_000);
    let _ = s.tcb.receive_room().confine();
    assert_eq!(rest(&s), 0);
    s.tcb.rcv.buffer.short.tell(at + 1_000);
    s.tcb.receive_room().deny();
    assert_eq!(rest(&s), 1_000);
}

/// RFC 9293 section 3.8.6.2.2, by the room that there is: the edge moves by a full segment or half
/// of the room, and is told by itself for two segments, if the peer knows of no more than half.
#[test]
fn while_memory_is_short_small_openings_are_not_told() {
    const NXT: i64 = 200_000;
    let cfg = Config::default();
    let told = |mss, free: u32, offered: i64| {
        let buffer = ReceiveBuffer::new(1 << 20, 1 << 20, Instant(0));
        let mut rcv = ReceiveSide::new(mss, 0, buffer);
        rcv.advance(NXT);
        rcv.consume(NXT - i64::from(ROOM - free));
        rcv.buffer.short.tell(NXT + offered);
        let window = rcv.short_window(&cfg, Flags::LITTLE_ROOM);
        (window, rcv.short_update_due(&cfg))
    };
    assert_eq!(told(1_000, 10_999, 10_000).0, 10_000);
    assert_eq!(told(1_000, 11_000, 10_000).0, 11_000);
    assert!(!told(1_000, 1_999, 0).1 && told(1_000, 2_000, 0).1);
    assert!(!told(1_000, 19_999, 10_000).1 && told(1_000, 20_000, 10_000).1);
    let half = ROOM / 2;
    assert_eq!(told(60_000, 9_999 + half, 10_000).0, 10_000);
    assert_eq!(told(60_000, 10_000 + half, 10_000).0, 10_000 + half);
    assert!(!told(60_000, half - 1, 0).1 && told(60_000, half, 0).1);
}

/// Data is taken up to an edge that was told while memory was short, if that is further than any
/// before.
#[test]
fn what_is_told_while_memory_is_short_may_be_used() {
    let cfg = Config {
        rcv: ReceiveLimits::new(70_000, 70_000),
        ..Config::default()
    };
    let mut s = Script::established_with(&cfg, crate::input::tests::full_options());
    let _ = s.tcb.receive_room().confine();
    for at in (0..200_000).step_by(10_000) {
        assert_eq!(s.arrives(ACK, at, 0, 10_000).drop, None);
        s.tcb.set_rcv_consumed(at as u64 + 10_000, s.now);
        assert!(told(&mut s).is_some_and(|window| window > 60_000));
    }
}

proptest! {
    /// While memory is short no window leaves more than 64 KiB unread, whatever comes, is read, and
    /// is refused.
    #[test]
    fn a_narrow_window_is_never_wider(
        steps in proptest::collection::vec((0u8..5, 1u32..90_000), 1..60),
    ) {
        let mut s = wide();
        let _ = s.tcb.receive_room().confine();
        let mut is_denied = false;
        for (what, n) in steps {
            match what {
                0 | 1 => {
                    let at = s.tcb.rcv.nxt();
                    let _ = s.arrives(ACK, at, 0, n.min(s.tcb.rcv.offered()));
                }
                2 => s.tcb.set_rcv_consumed(s.tcb.rcv_consumed() + u64::from(n), s.now),
                3 => {
                    is_denied = true;
                    s.tcb.receive_room().deny();
                }
                _ => {
                    is_denied = false;
                    let _ = s.tcb.receive_room().confine();
                }
            }
            let unread = (s.tcb.rcv_edge() - s.tcb.rcv_consumed()) as u32;
            if let Some(window) = told(&mut s) {
                prop_assert!(!is_denied || window == 0);
                prop_assert!(window <= ROOM.saturating_sub(unread), "{} {}", window, unread);
            }
        }
    }
}

/// The peer can be told of no more than buffer, clamp, memory and the field allow.
#[test]
fn the_widest_window_is_what_all_bounds_allow() {
    let mut s = wide();
    assert_eq!(s.tcb.widest_window(), 1 << 20);
    s.tcb.settings().set_window_clamp(100_000);
    assert_eq!(s.tcb.widest_window(), 100_000);
    let _ = s.tcb.receive_room().confine();
    assert_eq!(s.tcb.widest_window(), ROOM);
    s.tcb.receive_room().deny();
    s.tcb.settings().set_window_clamp(5_000);
    assert_eq!(s.tcb.widest_window(), 5_000);
    let mut unscaled = Script::established();
    unscaled.tcb.settings().set_rcvbuf(1 << 20);
    assert_eq!(unscaled.tcb.widest_window(), 65_535);
}

/// A clamp that is lifted gives a window at once.
#[test]
fn a_wider_clamp_is_told() {
    let mut s = Script::established();
    s.tcb.settings().set_window_clamp(3_000);
    let _ = s.arrives(ACK, 0, 0, 20_000);
    assert_eq!(s.sent_one().window, 0);
    s.tcb.set_rcv_consumed(17_000, s.now);
    s.silent();
    s.tcb.settings().set_window_clamp(4_999);
    s.silent();
    s.tcb.settings().set_window_clamp(0);
    assert_eq!(s.sent_one().window, 17_000);
}

/// RFC 9293 section 3.8.6.2.2: the edge moves by a full segment, or by half of a buffer that has
/// no room for two.
#[test]
fn half_of_a_small_buffer_is_worth_telling() {
    let cfg = Config {
        rcv: ReceiveLimits::new(1_500, 1_500),
        ..crate::script::plain()
    };
    let told = |read: u64| {
        let mut s = Script::established_with(&cfg, Default::default());
        let _ = s.arrives(ACK, 0, 0, 800);
        assert_eq!(s.sent_one().window, 700);
        s.tcb.set_rcv_consumed(read, s.now);
        s.sent();
        let _ = s.arrives(ACK, 799, 0, 1);
        s.sent_one().window
    };
    assert_eq!(told(749), 700);
    assert_eq!(told(750), 1_450);
}

/// Memory that is there again is told once, and only to a peer that may send.
#[test]
fn memory_is_told_of_to_those_that_may_use_it() {
    let mut s = Script::established();
    s.tcb.receive_room().deny();
    s.tcb.flags |= Flags::ACK_NOW;
    s.tcb.receive_room().grant();
    s.acks(0);
    let mut s = Script::in_state(crate::State::CloseWait);
    s.tcb.receive_room().deny();
    s.tcb.receive_room().grant();
    s.silent();
}

#[test]
fn the_send_buffer_holds_two_windows_of_a_long_path_and_no_queue_of_a_short_one() {
    let wanted = |segments: u8, samples: &[u64], size| {
        let cfg = Config {
            burst: BurstConfig::with_initial_window(segments),
            ..Config::default()
        };
        let mut s = Script::established_with(&cfg, Default::default());
        s.tcb.snd.rtt = crate::rtt::RttEstimator::new();
        samples.iter().for_each(|rtt| s.tcb.snd.rtt.sample(*rtt));
        assert_eq!(s.tcb.send_status().is_path_short(), samples[0] < 1_000);
        let wanted = s.tcb.send_status().buffer_wanted(size, 1 << 20);
        (wanted, u64::from(s.tcb.send_status().cwnd()))
    };
    let (long, cwnd) = wanted(80, &[100_000; 20], 1 << 20);
    assert_eq!(long, 2 * cwnd);
    assert_eq!(wanted(80, &[50; 20], 1 << 30).0, 2 * cwnd);
    // No more is in flight than the buffer holds; it may double.
    assert_eq!(wanted(80, &[50; 20], 50_000).0, 100_000);
    // Four times the round trip is a queue.
    let mut queued = vec![50];
    queued.extend([200; 100]);
    assert_eq!(wanted(80, &queued, 1 << 30).0, 2 * (cwnd * 50 / 200));
    // A program that sends much gets its share at once.
    assert_eq!(wanted(200, &queued, 50_000).0, 1 << 20);
    let (far, cwnd) = wanted(200, &[100_000; 20], 50_000);
    assert_eq!(far, 2 * cwnd);
}
