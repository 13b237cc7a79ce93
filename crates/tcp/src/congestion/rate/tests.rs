//! The estimator against paths whose rate is known.

mod model;

use super::*;
use crate::script::{ACK, Script, plain};
use longshore_wire::tcp::TcpOptions;
use proptest::prelude::*;

const MS: u64 = 1_000;

fn delivered(reached: Pos, newly: u32, age: u64, min_rtt: u64) -> Delivered {
    Delivered {
        reached,
        in_order: true,
        newly,
        age,
        min_rtt,
    }
}

/// Sends `bytes` in bursts of `burst` every `every_us` over a path that delivers `rate`
/// bytes per second after `delay_us`, and gives the largest rate sampled.
fn run(rate: u64, delay_us: u64, burst: i64, every_us: u64, bytes: i64) -> (u64, RateSampler) {
    let mut sampler = RateSampler::new();
    sampler.start(0, Instant(0));
    let (mut sent, mut acked, mut now) = (0i64, 0i64, 0u64);
    let mut busy_until = 0;
    let mut on_the_way: std::collections::VecDeque<(u64, i64, u64)> = Default::default();
    let (mut best, mut next_send) = (0, 0);
    while acked < bytes {
        let arrival = on_the_way.front().map_or(u64::MAX, |&(at, ..)| at);
        let send = if sent < bytes { next_send } else { u64::MAX };
        now = now.max(arrival.min(send));
        if arrival <= send {
            let (_, end, sent_at) = on_the_way.pop_front().unwrap();
            let newly = (end - acked) as u32;
            acked = end;
            let s = sampler.on_delivered(
                &delivered(acked, newly, now - sent_at, delay_us),
                Instant(now),
            );
            best = best.max(s.rate);
            assert!(s.rtt == 0 || u64::from(s.rtt) >= delay_us);
            continue;
        }
        let idle = sent == acked;
        let end = (sent + burst).min(bytes);
        if sampler.wants(end) || idle {
            sampler.on_sent(end, idle, 200_000, Instant(now));
        }
        // In segments of 1000 bytes.
        while sent < end {
            sent = (sent + 1000).min(end);
            busy_until = now.max(busy_until) + 1000 * SECOND / rate;
            on_the_way.push_back((busy_until + delay_us, sent, now));
        }
        next_send += every_us;
    }
    (best, sampler)
}

#[test]
fn the_rate_of_the_path_is_found() {
    for (rate, delay) in [
        (1_000_000, 20 * MS),
        (10_000_000, 5 * MS),
        (125_000, 100 * MS),
    ] {
        // Twice as much is sent as the path takes.
        let (best, _) = run(rate, delay, 2_000, 2_000 * SECOND / (2 * rate), 2_000_000);
        let share = best as f64 / rate as f64;
        assert!((0.95..=1.05).contains(&share), "{best} for {rate}");
    }
}

#[test]
fn bursts_of_the_port_give_the_same_rate() {
    let rate = 12_500_000;
    let (best, _) = run(
        rate,
        20 * MS,
        64_000,
        64_000 * SECOND / (2 * rate),
        20_000_000,
    );
    let share = best as f64 / rate as f64;
    assert!((0.95..=1.05).contains(&share), "{best}");
}

#[test]
fn what_is_sent_slower_than_the_path_gives_the_rate_of_sending() {
    let (best, _) = run(10_000_000, 10 * MS, 1_000, MS, 500_000);
    let share = best as f64 / 1_000_000.0;
    assert!((0.9..=1.1).contains(&share), "{best}");
}

#[test]
fn acknowledgments_that_were_held_up_say_nothing() {
    let mut s = RateSampler::new();
    s.start(0, Instant(0));
    s.on_sent(1_000, true, 1_000_000, Instant(0));
    let sample = s.on_delivered(&delivered(1_000, 1_000_000, 100, 50_000), Instant(100));
    assert_eq!(sample.rate, 0);
}

#[test]
fn the_users_pauses_are_told() {
    let mut s = RateSampler::new();
    s.start(0, Instant(0));
    s.on_sent(1_000, true, 10_000, Instant(0));
    s.on_app_limited(1_000);
    let sample = s.on_delivered(&delivered(1_000, 1_000, 10_000, 1), Instant(10_000));
    assert!(!sample.app_limited && sample.rate > 0);
    s.on_sent(2_000, true, 10_000, Instant(20_000));
    let sample = s.on_delivered(&delivered(2_000, 1_000, 30_000, 1), Instant(30_000));
    assert!(sample.app_limited);
    s.on_sent(3_000, true, 10_000, Instant(40_000));
    let sample = s.on_delivered(&delivered(3_000, 1_000, 50_000, 1), Instant(50_000));
    assert!(
        !sample.app_limited,
        "delivered more than was in flight then"
    );
}

#[test]
fn repeated_bytes_are_no_sample() {
    let mut s = RateSampler::new();
    s.start(0, Instant(0));
    s.on_sent(1_000, true, 6, Instant(0));
    s.on_sent(2_000, false, 6, Instant(10));
    s.on_retransmitted(1_000, 2_000);
    let sample = s.on_delivered(&delivered(2_000, 2_000, 1_000_000, 1), Instant(1_000_000));
    // The first record alone is left.
    assert_eq!((sample.rtt, sample.prior), (1_000_000, 0));
    // What lies behind is not touched.
    s.on_sent(3_000, false, 6, Instant(1_000_000));
    s.on_retransmitted(2_000, 2_500);
    let sample = s.on_delivered(&delivered(3_000, 1_000, 500, 1), Instant(1_000_500));
    assert_eq!(sample.rtt, 500);
}

#[test]
fn any_number_of_sends_fits() {
    let mut s = RateSampler::new();
    s.start(0, Instant(0));
    let mut end = 0;
    for i in 0..100_000u64 {
        end += 10;
        if s.wants(end) {
            s.on_sent(end, false, 12, Instant(i));
        }
    }
    let sample = s.on_delivered(&delivered(end, end as u32, 200_000, 1), Instant(200_000));
    assert!(sample.rate > 0);
    assert_eq!(s.len, 0);
}

/// A connection with CUBIC whose peer acknowledges everything after 10 ms, with an initial
/// window of ten segments of 1000 bytes.
fn with_cubic() -> Script {
    Script::established_with(&plain(), TcpOptions::default())
}

fn told(s: &Script) -> (u64, bool) {
    let info = s.tcb.info(s.now);
    (info.delivery_rate, info.delivery_rate_app_limited)
}

fn round_trip(s: &mut Script, edge: i64) {
    s.now = s.now.after_ms(10);
    let _ = s.arrives(ACK, 0, edge, 0);
    s.sent();
}

#[test]
fn without_a_sampler_a_round_trip_tells_the_rate() {
    let mut s = with_cubic();
    s.window = 65_000;
    assert_eq!(told(&s), (0, true));
    // More than the window takes, so that the user does not limit what follows.
    s.writes(1_000_000);
    s.sent();
    assert_eq!(told(&s), (0, true));
    // The first window went out after silence: as Linux has it, limited.
    round_trip(&mut s, 10_000);
    let (first, limited) = told(&s);
    assert!(limited && (999_900..=1_000_000).contains(&first), "{first}");
    let flight = s.tcb.info(s.now).unacked;
    round_trip(&mut s, 10_000 + flight as i64);
    let (second, limited) = told(&s);
    assert!(!limited);
    assert!(
        (flight * 100 - STEP..=flight * 100).contains(&second),
        "{second}"
    );
}

#[test]
fn a_user_with_little_to_say_limits_the_rate_but_not_what_is_told_of_it() {
    let mut s = with_cubic();
    s.window = 65_000;
    s.writes(1_000_000);
    s.sent();
    let mut edge = 0;
    for _ in 0..4 {
        edge += s.tcb.info(s.now).unacked as i64;
        round_trip(&mut s, edge);
    }
    let best = told(&s);
    assert!(!best.1);
    while s.tcb.info(s.now).unacked > 0 {
        edge += s.tcb.info(s.now).unacked as i64;
        round_trip(&mut s, edge);
    }
    // Then a request now and again.
    let best = told(&s).0;
    for i in 1..5 {
        s.writes(1_000_000 + i * 100);
        s.sent();
        round_trip(&mut s, 1_000_000 + i as i64 * 100);
        assert_eq!(told(&s).0, best);
    }
}

#[test]
fn what_was_repeated_measures_nothing() {
    let mut s = with_cubic();
    s.writes(1_000);
    s.sent();
    s.until_timer();
    s.sent();
    round_trip(&mut s, 1_000);
    assert_eq!(told(&s), (0, true));
}

#[test]
fn a_sampler_tells_its_rate() {
    let mut s = with_cubic();
    s.window = 65_000;
    s.tcb
        .settings()
        .set_congestion(crate::Congestion::Bbr, s.now);
    s.writes(1_000_000);
    let (mut edge, mut now) = (0, s.now);
    for _ in 0..200 {
        while s.now < now.after_ms(10) {
            s.sent();
            s.waits_ms(1);
        }
        now = s.now;
        edge += s.tcb.info(s.now).unacked as i64;
        let _ = s.arrives(ACK, 0, edge, 0);
        if told(&s).0 != 0 {
            break;
        }
    }
    assert!(told(&s).0 > 100_000, "{:?}", told(&s));
}

proptest! {
    /// Every recorded rate is reported, up to the step.
    #[test]
    fn rates_are_kept(bytes in 0..100_000_000_000u64, app_limited: bool) {
        let mut sampler = RateSampler::new();
        sampler.keep(Rate { bytes, app_limited });
        let told = sampler.latest();
        prop_assert!(told.bytes <= bytes && bytes - told.bytes < STEP);
        prop_assert_eq!(told.app_limited, app_limited);
    }
}

/// What is more than can be kept is the most that can.
#[test]
fn a_rate_beyond_all_is_the_highest() {
    let mut sampler = RateSampler::new();
    for app_limited in [false, true] {
        sampler.keep(Rate {
            bytes: u64::MAX,
            app_limited,
        });
        let bytes = u64::from(FULL - 1) * STEP;
        assert_eq!(sampler.latest(), Rate { bytes, app_limited });
    }
    // As high as the last one, though limited, is told.
    let low = Rate {
        bytes: 64,
        app_limited: true,
    };
    sampler.keep(low);
    assert_eq!(sampler.latest().bytes, u64::from(FULL - 1) * STEP);
}

/// A connection with BBR that has sent ten segments just now, of a stream of `total` bytes.
fn with_bbr(total: u64) -> Script {
    let cfg = crate::Config {
        congestion: crate::Congestion::Bbr,
        sack: true,
        ..plain()
    };
    let options = TcpOptions {
        sack_permitted: true,
        ..TcpOptions::default()
    };
    let mut s = Script::established_with(&cfg, options);
    s.window = 65_000;
    s.tcb
        .settings()
        .set_congestion(crate::Congestion::Bbr, s.now);
    s.writes(total);
    for _ in 0..100 {
        s.sent();
        s.waits_ms(1);
    }
    assert!(s.tcb.snd.in_flight() >= 10_000);
    s
}

/// Draft section 3.2: after an idle time the interval begins anew, and only then.
#[test]
fn the_interval_begins_with_the_first_send() {
    let mut s = with_bbr(10_000);
    let begun = s.tcb.congestion.rate.first_sent;
    assert!(begun < s.now);
    let end = s.tcb.snd.nxt();
    let _ = s.arrives(ACK, 0, end, 0);
    s.now = s.now.after_ms(1_000);
    s.writes(end as u64 + 1_000);
    let first = s.now;
    s.sent_one();
    assert_eq!(s.tcb.congestion.rate.first_sent, first);
    s.writes(end as u64 + 2_000);
    while s.tcb.snd.in_flight() < 2_000 {
        s.waits_ms(1);
        s.sent();
    }
    assert!(s.now > first);
    assert_eq!(s.tcb.congestion.rate.first_sent, first);
}

/// Of what was sent twice it is not known which one has arrived.
#[test]
fn what_is_sent_again_is_no_sample_of_the_connection() {
    let mut s = with_bbr(20_000);
    assert_eq!(s.tcb.congestion.rate.void, 0);
    while s.tcb.info(s.now).total_retrans == 0 {
        s.until_timer();
        s.sent();
    }
    assert_ne!(s.tcb.congestion.rate.void, 0);
}

/// Draft section 3.4: the user is the limit if the last that was written is sent and the window
/// has room for more.
#[test]
fn the_end_of_what_was_written_is_the_users_limit() {
    for (end, pipe, limited) in [
        (20_000, 9_999, true),
        (20_000, 10_000, false),
        (19_999, 9_999, false),
        (20_001, 0, true),
    ] {
        let mut s = Script::established();
        s.tcb
            .settings()
            .set_congestion(crate::Congestion::Bbr, s.now);
        s.tcb.snd.write(20_000);
        let t = &mut s.tcb;
        assert_eq!(t.send_status().cwnd(), 10_000);
        t.congestion
            .note_new_data(&t.snd, || pipe, end, false, s.now);
        assert_eq!(t.congestion.rate.len, 1);
        let limit = t.congestion.rate.app_limited;
        assert_eq!(limit, if limited { pipe.max(1) } else { 0 }, "{end} {pipe}");
        // Until a sixth of a window later none is recorded, but for the first after silence.
        for (idle, len) in [(false, 1), (true, 2)] {
            t.congestion
                .note_new_data(&t.snd, || pipe, end + 1_000, idle, s.now);
            assert_eq!(t.congestion.rate.len, len);
        }
    }
    // Without a sampler nothing is.
    let mut s = Script::established();
    let t = &mut s.tcb;
    t.congestion.note_new_data(&t.snd, || 0, 0, true, s.now);
    assert_eq!(t.congestion.rate.len, 0);
}
