//! What costs a peer little must not cost us much: tiny segments, thousands of holes,
//! SACK blocks without end. Everything a block holds is inline, so its size bounds the
//! memory; these tests show that it still works at the bound.

mod acks;
mod marks;
#[path = "../support/script.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod script;
mod windows;

use longshore_tcp::{BurstConfig, Config, DropReason, ReceiveLimits, State, Tcb};
use longshore_wire::tcp::TcpOptions;
use script::{ACK, Script};

fn with_sack(mss: u16) -> Script {
    let cfg = Config {
        timestamps: false,
        window_scaling: false,
        rcv: ReceiveLimits::new(60_000, 60_000),
        burst: BurstConfig::with_initial_window(100),
        ..Config::default()
    };
    let options = TcpOptions {
        mss: Some(mss),
        sack_permitted: true,
        ..TcpOptions::default()
    };
    let mut s = Script::connecting(&cfg);
    s.sent();
    let _ = s.arrives_with(script::SYN | ACK, -1, 0, 0, options);
    s.sent();
    s.tcb.take_events();
    s
}

#[test]
fn a_block_is_plain_and_small() {
    // Host and adapter together may use 4 KiB for an idle connection; beside the block
    // they take some 500 bytes.
    assert!(size_of::<Tcb>() <= 2400, "{}", size_of::<Tcb>());
    let tcb = with_sack(1000).tcb;
    let copy = tcb.clone();
    assert_eq!(format!("{tcb:?}"), format!("{copy:?}"));
}

#[test]
fn a_receiver_with_thousands_of_holes_makes_progress() {
    let mut s = with_sack(1000);
    let mut refused = 0;
    for i in 1..10_000 {
        let d = s.arrives(ACK, i * 4, 0, 1);
        refused += u32::from(d.drop == Some(DropReason::AssemblerFull));
        assert_eq!(d.place.is_none(), d.drop.is_some());
        let t = s.sent_one();
        assert!(t.options.emitted_len() <= 40);
    }
    assert!(refused > 8_900);
    // What continues the stream is taken at all times.
    for i in 0..10_000 {
        let d = s.arrives(ACK, i * 4, 0, 4);
        assert!(d.place.is_some(), "{i}");
        s.sent();
    }
    assert_eq!(s.tcb.rcv_edge(), 40_000);
}

#[test]
fn a_sender_reported_to_in_single_bytes_makes_progress() {
    // The least MSS that we believe, and a peer that reports every other byte.
    let mut s = with_sack(48);
    s.max_payload = 48;
    s.window = 60_000;
    let _ = s.arrives(ACK, 0, 0, 0);
    s.writes(40_000);
    s.sent();
    let mut ack = 0;
    let mut rounds = 0;
    while ack < 40_000 {
        let sent = s.tcb.send_status().sent() as i64;
        for at in ((ack + 10)..sent).step_by(8).take(500) {
            let mut options = TcpOptions::default();
            let seq =
                |pos: i64| longshore_wire::SeqNumber(script::ISS.wrapping_add(1 + pos as u32));
            for k in 0..4 {
                options.sack.push(seq(at + 2 * k), seq(at + 2 * k + 1));
            }
            let _ = s.arrives_with(ACK, 0, ack, 0, options);
            s.sent();
        }
        ack = (ack + 1_000).min(s.tcb.send_status().sent() as i64);
        let _ = s.arrives(ACK, 0, ack, 0);
        if s.sent().is_empty() && s.tcb.deadline().is_some() {
            s.until_timer();
            s.sent();
        }
        rounds += 1;
        assert!(rounds < 5_000, "stuck at {ack}: {:?}", s.tcb.info(s.now));
        assert_eq!(s.tcb.state(), State::Established);
    }
    assert_eq!(s.tcb.snd_acked(), 40_000);
}

#[test]
fn a_slow_reader_with_a_closed_window_costs_a_probe_in_two_minutes() {
    let mut s = with_sack(1000);
    s.window = 0;
    let _ = s.arrives(ACK, 0, 0, 0);
    s.writes(1_000_000);
    s.sent();
    let start = s.now;
    let mut probes = 0;
    while s.now.since(start) < 24 * 3600 * 1_000_000 {
        s.until_timer();
        probes += s.sent().len();
        let _ = s.arrives(ACK, 0, 0, 0);
        probes += s.sent().len();
    }
    assert!(probes < 740, "{probes}");
    assert_eq!(s.tcb.state(), State::Established);
    // But not for ever when no program is left to care.
    s.tcb.close(s.now);
    for _ in 0..20 {
        if s.tcb.state() == State::Closed {
            break;
        }
        s.until_timer();
        s.sent();
        let _ = s.arrives(ACK, 0, 0, 0);
    }
    assert_eq!(s.tcb.state(), State::Closed);
}
