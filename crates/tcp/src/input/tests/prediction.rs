//! Header prediction, and the common path of output, do what the slow path does.

use super::full;
use crate::Tcb;
use crate::accounting::Accounting;
use crate::script::{ACK, FIN, PSH, SYN, Script};
use crate::segment::Segment;
use longshore_wire::tcp::{PLAIN_LEN, Plain, TcpFlags, TcpOptions, Timestamps};
use proptest::prelude::*;

/// What a block has counted, without which of its segments were predicted.
fn counted(tcb: &Tcb) -> Accounting {
    let mut accounting = tcb.accounting;
    let c = &mut accounting.counters;
    let fast_data = std::mem::take(&mut c.fast_data_in);
    c.slow_data_in += fast_data;
    c.slow_segs_in += fast_data + std::mem::take(&mut c.fast_acks_in);
    accounting
}

/// Whether two blocks are the same but for that. A field that is in no list is a compile error.
fn are_same(a: &Tcb, b: &Tcb) -> bool {
    macro_rules! all_of {
        ($($field:ident)*) => {{
            let Tcb { $($field: _,)* accounting: _ } = a;
            $(a.$field == b.$field)&&* && counted(a) == counted(b)
        }};
    }
    all_of!(prediction state flags snd stamps acks rcv liveness cfg ecn fast_open
        outcome timers congestion reassembly flight)
}

/// The lines in which two blocks differ.
fn difference(a: &Tcb, b: &Tcb) -> Vec<(String, String)> {
    if are_same(a, b) {
        return vec![];
    }
    let lines = |tcb: &Tcb| -> Vec<String> {
        let mut tcb = tcb.clone();
        tcb.accounting = counted(&tcb);
        format!("{tcb:#?}").lines().map(str::to_owned).collect()
    };
    let both = lines(a).into_iter().zip(lines(b));
    both.filter(|(a, b)| a != b).collect()
}

#[derive(Debug, Clone)]
enum Op {
    Segment {
        flags: TcpFlags,
        seq: i64,
        ack: u64,
        len: u32,
        window: u16,
        ts: i32,
        sack: bool,
    },
    Write(u64),
    Read(u64),
    Poll,
    Pass(u64),
    Shut,
    ShutReading,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let flags = prop_oneof![
        20 => Just(ACK),
        10 => Just(ACK | PSH),
        1 => Just(ACK | FIN),
        1 => Just(SYN),
        1 => Just(TcpFlags::RST),
        1 => Just(ACK | TcpFlags::URG),
    ];
    let len = prop_oneof![Just(0), Just(1000), Just(20_000), 0u32..1500];
    let seq = prop_oneof![12 => Just(0i64), 1 => Just(1000), 1 => -2000i64..3000];
    let window = prop_oneof![10 => Just(30_000), 1 => Just(0), 1 => any::<u16>()];
    let ts = prop_oneof![10 => 0i32..3, 1 => -5i32..0];
    let segment = (
        flags,
        seq,
        0u64..4_000,
        len,
        window,
        ts,
        proptest::bool::weighted(0.05),
    )
        .prop_map(|(flags, seq, ack, len, window, ts, sack)| Op::Segment {
            flags,
            seq,
            ack,
            len,
            window,
            ts,
            sack,
        });
    let op = prop_oneof![
        10 => segment,
        3 => (1u64..10_000).prop_map(Op::Write),
        3 => (1u64..30_000).prop_map(Op::Read),
        4 => Just(Op::Poll),
        3 => (0u64..50_000).prop_map(Op::Pass),
        1 => Just(Op::Shut),
        1 => Just(Op::ShutReading),
    ];
    proptest::collection::vec(op, 1..80)
}

/// What the common path sends is what the other would, with the same consequences; what
/// it leaves, it leaves as it was.
fn poll_both_ways(s: &mut Script) {
    loop {
        let mut slow = s.tcb.clone();
        let quick = s.tcb.poll_plain(s.now, s.max_payload);
        let Some(t) = quick else {
            let (mut left, now, most) = (s.tcb.clone(), s.now, s.max_payload);
            assert_eq!(left.poll_transmit(now, most), slow.poll_transmit(now, most));
            assert_eq!(difference(&left, &slow), []);
            return;
        };
        let full = slow.poll_transmit(s.now, s.max_payload).expect("the same");
        let written = |plain: Plain| {
            let mut bytes = [0; PLAIN_LEN];
            plain.write(&mut bytes, 0);
            bytes[..plain.len()].to_vec()
        };
        let full_header = Plain::of(&full.header(1, 2)).expect("a plain header");
        assert_eq!(written(full_header), written(t.header));
        assert_eq!(full.payload_len(), t.payload_len as usize);
        if t.payload_len > 0 {
            assert_eq!(full.payload.start, t.payload_start);
        }
        assert_eq!((full.mss, full.retransmission), (t.mss, false));
        assert_eq!(difference(&s.tcb, &slow), []);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    #[test]
    fn prediction_changes_nothing(ops in ops(), with_options: bool) {
        let mut s = if with_options { full() } else { Script::established() };
        if with_options {
            // Several packets in one segment.
            s.max_payload = 10_000;
        }
        let mut clock = 1_000u32;
        for op in ops {
            match op {
                Op::Segment { flags, seq, ack, len, window, ts, sack } => {
                    clock = clock.wrapping_add_signed(ts);
                    let t = &s.tcb;
                    let acked = t.snd.una() + (ack as i64).min(t.snd.nxt() - t.snd.una());
                    s.window = window;
                    if with_options {
                        s.timestamps = Some(Timestamps { val: clock, echo: 5 });
                    }
                    let mut options = TcpOptions::default();
                    if sack {
                        options.sack.push(t.snd.seq(acked + 100), t.snd.seq(acked + 600));
                    }
                    let mut header = s.header(flags, t.rcv.nxt() + seq, acked, options);
                    if ts < -4 {
                        header.options.timestamps = None;
                    }
                    let segment = Segment::new(&header, len);
                    let mut slow = s.tcb.clone();
                    let room = s.tcb.receive_status().predicted_room();
                    let d = s.tcb.on_segment(&segment, s.now);
                    let mut e = slow.slow_path(&segment, s.now);
                    e.fast_path = d.fast_path;
                    prop_assert_eq!(d, e);
                    prop_assert!(!d.fast_path || u64::from(len) <= room);
                    prop_assert_eq!(difference(&s.tcb, &slow), []);
                }
                Op::Write(n) => s.tcb.set_snd_edge(s.tcb.snd_edge() + n, true),
                Op::Read(n) => {
                    let edge = s.tcb.rcv_consumed() + n;
                    s.tcb.set_rcv_consumed(edge, s.now);
                }
                Op::Shut => s.tcb.shutdown_send(),
                Op::ShutReading => s.tcb.closing().shutdown_recv(),
                Op::Poll => {
                    poll_both_ways(&mut s);
                    s.sent();
                    s.events();
                }
                Op::Pass(us) => {
                    s.now = s.now.after_us(us);
                    s.tcb.on_timer(s.now);
                }
            }
        }
    }
}

#[test]
fn bulk_both_ways_is_predicted() {
    let mut s = full();
    s.max_payload = 10_000;
    let mut fast = 0;
    for i in 0..100 {
        s.now = s.now.after_ms(1);
        s.timestamps = Some(Timestamps {
            val: 1_001 + i as u32,
            echo: 0,
        });
        fast += u32::from(s.arrives(ACK, i * 1000, 0, 1000).fast_path);
        s.sent();
        s.tcb.set_rcv_consumed((i as u64 + 1) * 1000, s.now);
    }
    assert_eq!(fast, 100);
    for i in 0..100i64 {
        s.writes(i as u64 * 1000 + 1000);
        s.sent();
        s.now = s.now.after_ms(1);
        fast += u32::from(s.arrives(ACK, 100_000, i * 1000 + 1000, 0).fast_path);
    }
    assert_eq!(fast, 200);
    assert_eq!(s.tcb.info(s.now).fast_path_hits, 200);
}

#[test]
fn payload_is_predicted_as_far_as_the_window_reaches() {
    let mut s = full();
    let window = (s.tcb.rcv.adv() - s.tcb.rcv.nxt()) as u64;
    assert_eq!(s.tcb.receive_status().predicted_room(), window);
    assert!(s.arrives(ACK, 0, 0, 1000).fast_path);
    assert_eq!(s.tcb.receive_status().predicted_room(), window - 1000);
    // Not before a hole is filled.
    assert!(!s.arrives(ACK, 2000, 0, 1000).fast_path);
    assert_eq!(s.tcb.receive_status().predicted_room(), 0);
    assert!(!s.arrives(ACK, 1000, 0, 1000).fast_path);
    assert_eq!(s.tcb.receive_status().predicted_room(), window - 3000);
    let connected = s.tcb.clone();
    s.tcb.closing().shutdown_recv();
    assert_eq!(s.tcb.receive_status().predicted_room(), 0);
    s.tcb = connected.clone();
    s.tcb.abort();
    assert_eq!(s.tcb.receive_status().predicted_room(), 0);
    s.tcb = connected;
    assert!(!s.arrives(ACK | FIN, 3000, 0, 0).fast_path);
    assert_eq!(s.tcb.receive_status().predicted_room(), 0);
}

/// Full packets behind others take the short way, as far as the windows reach; what it sends is
/// what the others would.
#[test]
fn full_packets_behind_others_are_sent_by_the_short_way() {
    let wide = 30_000;
    for (written, max_payload, window, cwnd, expected) in [
        (1_000, 1_000, wide, wide, Some(1_000)),
        (2_000, 1_000, wide, wide, Some(1_000)),
        (2_000, 2_000, wide, wide, Some(2_000)),
        (5_000, 3_000, wide, wide, Some(3_000)),
        // Less than a packet, or than a number of them.
        (999, 1_000, wide, wide, None),
        (1_001, 3_000, wide, wide, None),
        (2_500, 3_000, wide, wide, None),
        (2_000, 999, wide, wide, None),
        // With what is in flight.
        (1_000, 1_000, 2_000, wide, Some(1_000)),
        (1_000, 1_000, 1_999, wide, None),
        (1_000, 1_000, wide, 2_000, Some(1_000)),
        (1_000, 1_000, wide, 1_999, None),
        (3_000, 3_000, 4_000, wide, Some(3_000)),
        (3_000, 3_000, 3_999, wide, None),
        // A batch is half of what may be in flight, or a packet less if one was left alone.
        (6_000, 6_000, wide, 6_000, Some(3_000)),
        (4_000, 4_000, wide, 6_000, Some(2_000)),
    ] {
        for in_flight in [1_000, 0] {
            let mut s = Script::established();
            s.writes(in_flight);
            assert_eq!(s.sent().len(), usize::from(in_flight != 0));
            let (wl1, una) = (s.tcb.snd.wl1(), s.tcb.snd.una());
            s.tcb.snd.take_window(wl1, una, window);
            s.tcb.congestion.controller.set_cwnd(cwnd);
            s.writes(in_flight + written);
            s.max_payload = max_payload;
            let sent = s.tcb.clone().poll_full_packets(s.now, max_payload);
            let expected = expected.filter(|_| in_flight != 0);
            let len = sent.map(|t| t.payload_len);
            assert_eq!(len, expected, "{written} {max_payload} {window} {cwnd}");
            // With the end behind it, it is not the most common kind.
            let mut ends = s.tcb.clone();
            ends.shutdown_send();
            assert!(ends.poll_full_packets(s.now, max_payload).is_none());
            poll_both_ways(&mut s);
        }
    }
}

/// The timers that the short way sets are those of the long one, over paths of any length.
#[test]
fn the_short_way_sets_the_same_timers() {
    for rtt in [1, 20, 95, 105, 150, 400] {
        let mut s = full();
        for _ in 0..20 {
            let edge = s.tcb.snd_edge() + 3_000;
            s.writes(edge);
            s.sent();
            s.now = s.now.after_ms(rtt);
            s.timestamps = Some(Timestamps {
                val: s.now.millis32(),
                echo: s.now.millis32() - rtt as u32,
            });
            let _ = s.arrives(ACK, 0, edge as i64, 0);
        }
        for _ in 0..4 {
            s.writes(s.tcb.snd_edge() + 2 * 988);
            let mut full_packets = s.clone();
            poll_both_ways(&mut s);
            // One after the other, as long as it is the most common kind.
            while let Some(t) = full_packets.tcb.poll_full_packets(s.now, 988) {
                assert_eq!(t.payload_len, 988);
            }
            s.now = s.now.after_ms(7);
        }
    }
}

/// The engine gets segments of the common kinds by the short way: the first of a flight, full
/// ones, the last, the FIN, an acknowledgment.
#[test]
fn common_segments_take_the_short_way() {
    let mut s = Script::established();
    let plain = |s: &mut Script| s.tcb.poll_plain(s.now, 1_000).map(|t| t.payload_len);
    s.writes(2_500);
    assert_eq!(plain(&mut s), Some(1_000));
    assert_eq!(plain(&mut s), Some(1_000));
    assert_eq!(plain(&mut s), Some(500));
    assert_eq!(plain(&mut s), None);
    let _ = s.arrives(ACK, 0, 2_500, 1_000);
    let _ = s.arrives(ACK, 1_000, 2_500, 1_000);
    assert_eq!(plain(&mut s), Some(0));
    assert_eq!(plain(&mut s), None);
    s.tcb.shutdown_send();
    assert_eq!(plain(&mut s), Some(0));
    assert_eq!(plain(&mut s), None);
}
