//! The options' part of input: PAWS, SACK, timestamps, the estimate of the peer's segments; and
//! segments that make no sense.

mod handshake;
mod old_segments;
mod owed;
mod prediction;
mod receiver_rtt;
mod steps;

use crate::script::{ACK, FIN, Script, plain};
use crate::segment::Segment;
use crate::{Config, DropReason, Instant};
use longshore_wire::SeqNumber;
use longshore_wire::tcp::{SackBlocks, TcpFlags, TcpHeader, TcpOptions, Timestamps};
use proptest::prelude::*;

/// Options of a peer that has all of them.
pub(crate) fn full_options() -> TcpOptions {
    TcpOptions {
        mss: Some(1000),
        window_scale: Some(3),
        sack_permitted: true,
        timestamps: Some(Timestamps {
            val: 1_000,
            echo: 0,
        }),
        ..TcpOptions::default()
    }
}

fn full() -> Script {
    Script::established_with(&Config::default(), full_options())
}

/// 100 bytes come at `seq` with the timestamp `val`. Says why they are dropped, if they are.
fn comes(s: &mut Script, val: u32, seq: i64) -> Option<DropReason> {
    s.timestamps = Some(Timestamps { val, echo: 0 });
    let d = s.arrives(ACK, seq, 0, 100);
    s.sent();
    assert!(d.drop.is_some() || d.place.is_some());
    d.drop
}

const OLD: Option<DropReason> = Some(DropReason::Paws);

/// A repetition fills the first of two holes, and then what belongs in the second comes:
/// it was sent before, and was only overtaken. So is what comes last of it, behind all
/// holes. It may not be older than what came before the holes.
#[test]
fn what_is_missing_may_be_older_than_the_repetition_of_another() {
    let mut s = full();
    assert_eq!(comes(&mut s, 2_000, 0), None);
    assert_eq!(comes(&mut s, 2_001, 200), None);
    assert_eq!(comes(&mut s, 2_001, 400), None);
    assert_eq!(comes(&mut s, 2_050, 100), None);
    assert_eq!(comes(&mut s, 1_999, 300), OLD);
    assert_eq!(comes(&mut s, 2_001, 300), None);
    assert_eq!(comes(&mut s, 2_049, 500), None);
    assert_eq!(comes(&mut s, 1_999, 600), OLD);
    assert_eq!(s.tcb.stamps.recent(), 2_050);
}

/// As `what_is_missing_may_be_older_than_the_repetition_of_another`, with a repetition of what is
/// here, which fills nothing.
#[test]
fn what_is_missing_may_be_older_than_a_needless_repetition() {
    let mut s = full();
    assert_eq!(comes(&mut s, 2_000, 0), None);
    assert_eq!(comes(&mut s, 2_050, 0), Some(DropReason::Duplicate));
    assert_eq!(s.tcb.stamps.recent(), 2_050);
    // 100 is late, 200 was sent after the repetition.
    assert_eq!(comes(&mut s, 2_051, 200), None);
    assert_eq!(comes(&mut s, 1_999, 100), OLD);
    assert_eq!(comes(&mut s, 2_049, 100), None);
    // In order.
    assert_eq!(comes(&mut s, 2_049, 300), None);
}

/// The timestamps that are still taken follow TS.Recent by one to two windows, although
/// there always is a hole.
#[test]
fn a_hole_that_never_ends_does_not_end_paws() {
    let mut s = full();
    let window = s.tcb.rcv.adv();
    assert_eq!(comes(&mut s, 2_000, 100), None);
    // Each pair comes in the wrong order, the next one before the last is whole.
    let pair = |s: &mut Script| {
        let at = s.tcb.rcv.nxt();
        let val = 2_001 + at as u32;
        assert_eq!(comes(s, val, at + 300), None);
        assert_eq!(comes(s, val, at), None);
        let edge = s.tcb.rcv_edge();
        s.tcb.set_rcv_consumed(edge, s.now);
    };
    while s.tcb.rcv.nxt() < 4 * window {
        pair(&mut s);
    }
    let at = s.tcb.rcv.nxt();
    let window = s.tcb.rcv.adv() - at;
    let sent_windows_ago = |n| (at - n * window) as u32 + 2_000;
    assert_eq!(comes(&mut s, sent_windows_ago(2), at), OLD);
    assert_eq!(comes(&mut s, sent_windows_ago(1), at), None);
}

#[test]
fn an_old_timestamp_is_acknowledged_and_dropped() {
    let mut s = full();
    s.timestamps = Some(Timestamps {
        val: 2_000,
        echo: 0,
    });
    let _ = s.arrives(ACK, 0, 0, 100);
    s.sent();
    s.timestamps = Some(Timestamps {
        val: 1_999,
        echo: 0,
    });
    let d = s.arrives(ACK, 100, 0, 100);
    assert_eq!((d.place, d.drop), (None, Some(DropReason::Paws)));
    s.acks(100);
    // RFC 7323 section 5.5: after 24 days, it is believed, and not before.
    const DAY: u64 = 24 * 3600 * 1_000_000;
    let set = s.tcb.stamps.recent_at();
    s.now = set.after_us(24 * DAY);
    let d = s.arrives(ACK, 100, 0, 100);
    assert_eq!((d.place, d.drop), (None, Some(DropReason::Paws)));
    assert_eq!(s.tcb.stamps.recent(), 2_000);
    s.now = set.after_us(24 * DAY + 1);
    let d = s.arrives(ACK, 100, 0, 100);
    assert!(d.place.is_some());
    assert_eq!(s.tcb.stamps.recent(), 1_999);
}

/// RFC 9293 section 3.10.7.4: a window is taken from a segment that is not older, by its
/// sequence number (SND.WL1), or with the same one by its acknowledgment (SND.WL2).
#[test]
fn a_window_is_not_taken_from_an_old_segment() {
    let windows = |order: &[(i64, i64, u16)]| {
        let mut s = full();
        s.writes(1_000);
        s.sent();
        // Each brings a byte out of order, so that none is only a duplicate.
        for &(seq, ack, window) in order {
            let mut header = s.header(ACK, seq, ack, TcpOptions::default());
            header.window = window;
            let _ = s.tcb.on_segment(&Segment::new(&header, 1), s.now);
        }
        s.tcb.snd.wnd() >> s.tcb.snd.wscale()
    };
    // Overtaken by one with a later sequence number.
    assert_eq!(windows(&[(200, 0, 900), (100, 0, 800)]), 900);
    assert_eq!(windows(&[(100, 0, 900), (200, 0, 800)]), 800);
    // The same sequence number: an older acknowledgment is older.
    assert_eq!(windows(&[(100, 500, 900), (100, 400, 800)]), 900);
    assert_eq!(windows(&[(100, 500, 900), (100, 500, 800)]), 800);
    // What acknowledges new data counts, whatever its sequence number.
    assert_eq!(windows(&[(200, 400, 900), (100, 500, 800)]), 800);
    // WL1 does not go back with it.
    assert_eq!(
        windows(&[(200, 400, 900), (100, 500, 800), (150, 500, 700)]),
        800
    );
}

#[test]
fn timestamps_are_echoed_by_the_last_ack_sent_rule() {
    let mut s = full();
    s.tcb.settings().set_quickack(false);
    let echo = |s: &mut Script| s.sent_one().options.timestamps.unwrap().echo;
    // Two segments, one acknowledgment: the earlier timestamp is echoed, so that the
    // delay counts in the peer's round trip.
    s.timestamps = Some(Timestamps {
        val: 2_000,
        echo: 0,
    });
    let _ = s.arrives(ACK, 0, 0, 1000);
    s.timestamps = Some(Timestamps {
        val: 2_010,
        echo: 0,
    });
    let _ = s.arrives(ACK, 1000, 0, 1000);
    assert_eq!(echo(&mut s), 2_000);
    // Out of order: the last in order is echoed.
    s.timestamps = Some(Timestamps {
        val: 2_020,
        echo: 0,
    });
    let _ = s.arrives(ACK, 3000, 0, 1000);
    assert_eq!(echo(&mut s), 2_000);
    s.timestamps = Some(Timestamps {
        val: 2_030,
        echo: 0,
    });
    let _ = s.arrives(ACK, 2000, 0, 1000);
    assert_eq!(echo(&mut s), 2_030);
}

#[test]
fn a_repetition_refreshes_the_echo() {
    let mut s = full();
    s.timestamps = Some(Timestamps {
        val: 2_000,
        echo: 0,
    });
    let _ = s.arrives(ACK, 0, 0, 1000);
    s.sent();
    s.timestamps = Some(Timestamps {
        val: 90_000,
        echo: 0,
    });
    let d = s.arrives(ACK, 0, 0, 1000);
    assert_eq!(d.drop, Some(DropReason::Duplicate));
    assert_eq!(s.sent_one().options.timestamps.unwrap().echo, 90_000);
}

#[test]
fn windows_are_scaled_but_not_in_syns() {
    let mut s = full();
    assert_eq!(s.tcb.snd.wnd(), 30_000);
    s.window = 1_000;
    let _ = s.arrives(ACK, 0, 0, 0);
    assert_eq!(s.tcb.snd.wnd(), 8_000);
}

#[test]
fn nonsense_in_sack_blocks_is_passed_over() {
    let mut s = full();
    s.max_payload = 10_000;
    s.writes(8_000);
    s.sent();
    let mut sack = SackBlocks::default();
    let at = |pos| s.tcb.snd.seq(pos);
    sack.push(at(3_000), at(2_000));
    sack.push(at(7_000), at(9_000));
    sack.push(at(-500), at(0));
    sack.push(SeqNumber(5), SeqNumber(5));
    let options = TcpOptions {
        sack,
        ..TcpOptions::default()
    };
    let _ = s.arrives_with(ACK, 0, 0, 0, options);
    assert!(s.tcb.flight.scoreboard.is_plain());
    s.silent();
}

#[test]
fn the_estimate_of_the_peers_segments_knows_merged_ones() {
    let config = Config {
        ipv6: true,
        ..Config::default()
    };
    let s = Script::established_with(&config, full_options());
    assert_eq!(
        s.tcb.acks.segment(),
        536,
        "it begins low for both versions of IP"
    );
    let mut s = Script::established();
    assert_eq!(s.tcb.acks.segment(), 536);
    let header = s.header(ACK, 0, 0, TcpOptions::default());
    let merged = Segment {
        gso_size: 700,
        ..Segment::new(&header, 7_000)
    };
    let _ = s.tcb.on_segment(&merged, s.now);
    assert_eq!(s.tcb.acks.segment(), 700);
    let _ = s.arrives(ACK, 7_000, 0, 9_000);
    assert_eq!(s.tcb.acks.segment(), 1_000);
}

proptest! {
    /// Any header, any length, in any state: no panic, no absurd state, and what is
    /// to be placed lies within the payload and the window.
    #[test]
    fn any_segments_are_survived(
        segments in proptest::collection::vec(
            (any::<u16>(), -40_000i64..40_000, -40_000i64..40_000, any::<u16>(), 0u32..65_536,
             any::<Option<(u32, u32)>>(), proptest::collection::vec((any::<u32>(), 0u32..100_000), 0..4)),
            1..60,
        ),
        start in 0usize..10,
    ) {
        let mut s = Script::in_state(crate::State::ALL[start]);
        s.writes(5_000);
        for (flags, seq, ack, window, len, ts, sack) in segments {
            let mut options = TcpOptions {
                timestamps: ts.map(|(val, echo)| Timestamps { val, echo }),
                ..TcpOptions::default()
            };
            for (left, n) in sack {
                options.sack.push(SeqNumber(left), SeqNumber(left.wrapping_add(n)));
            }
            s.window = window;
            // Mostly not the flags that end it.
            let flags = TcpFlags(flags & 0x1ff & if seq & 7 == 0 { 0x1ff } else { 0x1f9 } | 16);
            let header: TcpHeader = s.header(flags, seq, ack, options);
            let before = s.tcb.rcv_edge();
            let d = s.tcb.on_segment(&Segment::new(&header, len), s.now);
            if let Some(place) = d.place {
                prop_assert!(place.len > 0 && place.skip + place.len <= len);
                prop_assert!(place.stream_offset >= before);
                prop_assert!(place.stream_offset + u64::from(place.len) <= s.tcb.receive_status().limit());
            }
            s.sent();
            prop_assert!(s.tcb.snd_acked() <= s.tcb.send_status().sent());
            prop_assert!(s.tcb.send_status().sent() <= s.tcb.snd_edge());
            s.tcb.set_rcv_consumed(s.tcb.rcv_edge(), s.now);
            s.now = Instant(s.now.0 + u64::from(len) * 7);
            s.tcb.on_timer(s.now);
        }
    }
}

#[test]
fn a_fin_that_was_sacked_over_is_taken_once() {
    let mut s = Script::established_with(&plain(), TcpOptions::default());
    let _ = s.arrives(FIN | ACK, 100, 0, 10);
    let _ = s.arrives(FIN | ACK, 100, 0, 10);
    let _ = s.arrives(ACK, 0, 0, 100);
    assert!(s.tcb.receive_status().is_closed());
    assert_eq!(s.tcb.rcv_edge(), 110);
    let _ = s.arrives(FIN | ACK, 100, 0, 10);
    assert_eq!(s.tcb.state(), crate::State::CloseWait);
}

#[test]
fn who_asks_first_acknowledges_the_first_answer_at_once() {
    let mut s = Script::established_with(&crate::script::plain(), TcpOptions::default());
    s.writes(100);
    s.sent();
    let _ = s.arrives(ACK, 0, 100, 200);
    s.acks(200);
    // From then on an answer may carry it.
    s.writes(200);
    s.sent();
    let _ = s.arrives(ACK, 200, 200, 200);
    s.silent();
}

#[test]
fn slow_start_grows_to_twice_what_was_in_use() {
    // Half the window in use, and all of it but one packet.
    for (packets, most) in [(5, 10), (9, 18)] {
        let mut s = Script::established();
        s.writes(packets * 1_000);
        s.sent();
        for acked in 1..=packets as i64 {
            let _ = s.arrives(ACK, 0, acked * 1_000, 0);
        }
        assert_eq!(s.tcb.send_status().cwnd(), most * 1_000);
    }
}
