//! The layout; that nothing which is saved gets lost; and what is no connection.

mod rebuilt;

use super::*;
use crate::script::{ACK, MSS, SYN, Script, plain};
use longshore_wire::tcp::{TcpFlags, TcpOptions, Timestamps};
use proptest::prelude::*;

/// A change to one of these changes the layout, and [`VERSION`] with it.
#[test]
fn the_layout_is_that_of_version_1() {
    let lengths = [
        State::LEN,
        Flags::LEN,
        SendSide::LEN,
        TimestampState::LEN,
        OwedAcks::LEN,
        ReceiveSide::LEN,
        Liveness::LEN,
        Config::LEN,
        EcnState::LEN,
        FastOpen::LEN,
        Outcome::LEN,
        Timers::LEN,
        PATH_LEN,
    ];
    assert_eq!(
        (VERSION, lengths),
        (1, [1, 4, 113, 20, 12, 68, 34, 76, 58, 28, 6, 16, 10])
    );
    let used = u16::LEN + lengths.iter().sum::<usize>();
    assert_eq!(used, LEN);
    let saved = SavedTcb::of(&Script::established().tcb);
    assert_eq!(saved.as_bytes()[..2], [1, 0]);
    // The state, and the low byte of its flags: the open was ours.
    assert_eq!(saved.as_bytes()[2..4], [State::Established as u8, 8]);
    assert!(saved.as_bytes()[LEN..].iter().all(|byte| *byte == 0));
}

#[test]
fn another_version_is_refused() {
    let mut bytes = *SavedTcb::of(&Script::established().tcb).as_bytes();
    bytes[0] = 2;
    let refused = SavedTcb::from_bytes(bytes).restore(Instant(1));
    assert_eq!(refused.unwrap_err(), RestoreError::Version { found: 2 });
}

/// With timestamps, SACK and window scaling, as most are.
fn usual() -> Script {
    let options = TcpOptions {
        sack_permitted: true,
        window_scale: Some(7),
        timestamps: Some(Timestamps {
            val: 5,
            echo: 10_000,
        }),
        ..TcpOptions::default()
    };
    Script::established_with(&Config::default(), options)
}

/// In each state, and at work.
fn connections() -> Vec<Script> {
    let mut all: Vec<Script> = State::ALL.into_iter().map(Script::in_state).collect();
    all.push(Script::connecting(&plain()));
    all.push(usual());
    let mut in_flight = usual();
    in_flight.writes(30_000);
    assert!(in_flight.sent().len() > 3);
    all.push(in_flight.clone());
    let _ = in_flight.arrives(ACK, 0, 2_000, 700);
    all.push(in_flight.clone());
    in_flight
        .tcb
        .settings()
        .set_congestion(crate::Congestion::Bbr, in_flight.now);
    in_flight.tcb.settings().set_max_pacing_rate(77_777);
    in_flight.tcb.settings().set_user_timeout(9_000);
    in_flight.tcb.settings().set_window_clamp(5_000);
    in_flight.tcb.send_stream().set_urgent(29_000);
    in_flight.tcb.close(in_flight.now);
    all.push(in_flight);
    all
}

/// Nothing that is saved is lost on the way, and nothing is invented.
#[test]
fn what_is_saved_is_restored() {
    for s in connections() {
        let saved = SavedTcb::of(&s.tcb);
        let again = saved.restore(s.now).expect("a connection");
        assert_eq!(SavedTcb::of(&again), saved, "{:?}", s.tcb);
        assert_eq!(again.state(), s.tcb.state());
        assert_eq!(again.snd_edge(), s.tcb.snd_edge());
        assert_eq!(again.cfg, s.tcb.cfg);
    }
}

/// In what follows, `s` goes on as the connection that is restored of its.
fn moves(s: &mut Script) {
    s.tcb = SavedTcb::of(&s.tcb).restore(s.now).expect("a connection");
}

#[test]
fn what_was_in_flight_may_be_acknowledged_and_says_nothing_of_the_round_trip() {
    let mut s = Script::established();
    s.writes(3_000);
    s.sent();
    let before = s.tcb.snd.rtt.srtt();
    s.now = s.now.after_ms(30);
    moves(&mut s);
    assert!(s.sent().is_empty(), "nothing is sent again for that alone");
    s.now = s.now.after_us(10);
    let _ = s.arrives(ACK, 0, 3_000, 0);
    assert_eq!(s.tcb.snd_acked(), 3_000);
    assert_eq!(s.tcb.snd.rtt.srtt(), before);
    assert!(s.tcb.deadline().is_none());
}

/// Nor of the time after which data counts as lost (RFC 8985 section 6.2 step 2).
#[test]
fn what_was_in_flight_is_no_measure_of_reordering() {
    let mut s = usual();
    s.tcb.snd.rtt = crate::rtt::RttEstimator::new();
    s.tcb.snd.rtt.sample(20_000);
    s.writes(3_000);
    s.sent();
    moves(&mut s);
    s.now = s.now.after_us(10);
    let _ = s.arrives(ACK, 0, 3_000, 0);
    assert_eq!(s.tcb.flight.recovery.rack.latest_rtt(), 0);
}

#[test]
fn what_was_in_flight_and_lost_is_sent_again() {
    let mut s = usual();
    s.writes(3_000);
    s.sent();
    moves(&mut s);
    for _ in 0..3 {
        s.now = s.tcb.deadline().expect("a timer runs");
        s.tcb.on_timer(s.now);
        if !s.sent().is_empty() {
            return;
        }
    }
    panic!("nothing is sent again");
}

#[test]
fn what_came_out_of_order_is_taken_again() {
    let mut s = usual();
    let _ = s.arrives(ACK, 1_000, 0, 1_000);
    assert!(s.tcb.receive_status().has_out_of_order());
    moves(&mut s);
    assert!(!s.tcb.receive_status().has_out_of_order());
    let _ = s.arrives(ACK, 0, 0, 1_000);
    assert_eq!(s.tcb.rcv_edge(), 1_000);
    let _ = s.arrives(ACK, 1_000, 0, 1_000);
    assert_eq!(s.tcb.rcv_edge(), 2_000);
}

/// A closed window is probed, an orphan not waited for for ever, a silent peer asked.
#[test]
fn timers_run_on() {
    let mut s = Script::established();
    s.window = 0;
    let _ = s.arrives(ACK, 0, 0, 0);
    s.writes(500);
    assert!(s.sent().is_empty());
    let probes_at = s.tcb.deadline().expect("the window is probed");
    moves(&mut s);
    assert_eq!(s.tcb.deadline(), Some(probes_at));

    let mut s = Script::in_state(State::FinWait2);
    s.tcb.close(s.now);
    let ends_at = s.tcb.deadline().expect("it does not last for ever");
    s.now = s.now.after_ms(1);
    moves(&mut s);
    assert_eq!(s.tcb.deadline(), Some(ends_at));

    let mut s = Script::established();
    let asks = crate::Keepalive {
        enabled: true,
        ..crate::Keepalive::default()
    };
    s.tcb.settings().set_keepalive(asks, s.now);
    let asks_at = s.tcb.deadline();
    s.now = s.now.after_ms(70);
    moves(&mut s);
    assert_eq!(s.tcb.deadline(), asks_at);
}

/// Impossible deadlines do not keep a connection for ever.
#[test]
fn no_deadline_is_later_than_one_that_begins_now() {
    let mut s = Script::in_state(State::TimeWait);
    s.tcb.timers.state = Instant::NEVER;
    moves(&mut s);
    assert_eq!(s.tcb.deadline(), Some(s.now.after_us(TIME_WAIT_US)));
}

/// A segment of the peer, or time that passes.
fn anything(s: &mut Script, (what, a, b, c): (u8, i16, i16, u16)) {
    let flags = TcpFlags(u16::from(what) & 0x1f);
    let at = s.tcb.rcv_edge() as i64 + i64::from(a);
    let ack = s.tcb.snd_acked() as i64 + i64::from(b);
    let _ = match what % 4 {
        0 => s.arrives(ACK | flags, at, ack, u32::from(c)),
        1 => s.arrives(SYN | ACK, -1, ack, 0),
        2 => s.arrives(
            ACK,
            s.tcb.rcv_edge() as i64,
            s.tcb.send_status().sent() as i64,
            u32::from(c),
        ),
        _ => {
            s.now = s.tcb.deadline().unwrap_or(s.now).max(s.now);
            if s.now.is_never() {
                s.now = Instant(u64::MAX / 2);
            }
            s.tcb.on_timer(s.now);
            s.tcb.set_rcv_consumed(s.tcb.rcv_edge(), s.now);
            s.tcb
                .set_snd_edge(s.tcb.snd_edge().saturating_add(u64::from(c)), true);
            crate::Disposition::default()
        }
    };
    for _ in 0..50 {
        if s.tcb.poll_transmit(s.now, usize::from(MSS)).is_none() {
            break;
        }
    }
    assert_eq!(s.tcb.check(), Ok(()), "{:?}", s.tcb);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    /// A saved connection with arbitrary changes is rejected, or behaves like a valid one.
    #[test]
    fn bytes_of_a_crashed_process_do_no_harm(
        which in any::<prop::sample::Index>(),
        harm in prop::collection::vec((0..LEN, prop_oneof![Just(0u8), Just(0xff), Just(0x7f), any::<u8>()], 1usize..9), 1..4),
        steps in prop::collection::vec(any::<(u8, i16, i16, u16)>(), 1..12),
    ) {
        let all = connections();
        let mut s = all[which.index(all.len())].clone();
        let mut bytes = *SavedTcb::of(&s.tcb).as_bytes();
        for (at, value, len) in harm {
            for byte in bytes[..LEN].iter_mut().skip(at).take(len) {
                *byte = value;
            }
        }
        if let Ok(tcb) = SavedTcb::from_bytes(bytes).restore(s.now) {
            s.tcb = tcb;
            for step in steps {
                anything(&mut s, step);
            }
        }
    }
}
