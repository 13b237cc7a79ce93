//! Linux's layout, at the offsets of its header file.

mod fields;

use crate::State;
use crate::script::{ACK, Script};

#[test]
fn fields_are_where_linux_has_them() {
    let mut s = Script::established();
    s.writes(2_500);
    s.sent();
    let _ = s.arrives(ACK, 0, 1_000, 300);
    let info = s.tcb.info(s.now);
    assert_eq!(info.state, State::Established);
    assert_eq!(
        (info.unacked, info.bytes_acked, info.bytes_received),
        (1_500, 1_000, 300)
    );
    let bytes = info.to_linux();
    let u32_at = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
    let u64_at = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap());
    assert_eq!(bytes[0], 1);
    assert_eq!(u32_at(8), info.rto_us as u32);
    assert_eq!(u32_at(16), 1_000, "snd_mss");
    assert_eq!(u32_at(24), 2, "unacked");
    assert_eq!(u32_at(60), 1_040, "pmtu");
    assert_eq!(u32_at(68), info.rtt_us as u32);
    assert_eq!(u32_at(76), 0x7fff_ffff, "ssthresh");
    assert_eq!(u32_at(80), info.snd_cwnd / 1_000, "cwnd");
    assert_eq!(u32_at(84), 1_000, "advmss");
    assert_eq!(u32_at(100), 0, "total_retrans");
    assert_eq!(u64_at(120), 1_000, "bytes_acked");
    assert_eq!(u64_at(128), 300, "bytes_received");
    assert_eq!(u32_at(136), info.segs_out);
    assert_eq!(u32_at(140), 2, "segs_in");
    assert_eq!(u32_at(144), 0, "notsent_bytes");
    assert_eq!(u32_at(152), 1, "data_segs_in");
    assert_eq!(u32_at(156), 3, "data_segs_out");
    assert_eq!(bytes[7], 1, "delivery_rate_app_limited");
    assert_eq!(u64_at(160), info.delivery_rate);
    assert_eq!(u32_at(192), 2, "delivered: the SYN and a packet");
    assert_eq!(u64_at(200), 2_500, "bytes_sent");
    assert_eq!(u32_at(228), 30_000, "snd_wnd");
    assert_eq!(u32_at(232), info.rcv_wnd, "rcv_wnd");
}

#[test]
fn reordering_is_told_as_the_farthest_overtaking() {
    let options = longshore_wire::tcp::TcpOptions {
        sack_permitted: true,
        ..Default::default()
    };
    let cfg = crate::Config {
        sack: true,
        ..crate::script::plain()
    };
    let mut s = Script::established_with(&cfg, options);
    let reordering = |s: &Script| {
        let bytes = s.tcb.info(s.now).to_linux();
        u32::from_ne_bytes(bytes[88..92].try_into().unwrap())
    };
    assert_eq!(reordering(&s), 3);
    s.writes(10_000);
    s.sent();
    s.now = s.now.after_ms(10);
    let mut options = longshore_wire::tcp::TcpOptions::default();
    options
        .sack
        .push(s.tcb.snd.seq(7_000), s.tcb.snd.seq(8_000));
    let _ = s.arrives_with(ACK, 0, 0, 0, options);
    assert_eq!(reordering(&s), 3);
    // From 3000 to 8000.
    options
        .sack
        .push(s.tcb.snd.seq(3_000), s.tcb.snd.seq(4_000));
    let _ = s.arrives_with(ACK, 0, 0, 0, options);
    assert_eq!(reordering(&s), 5);
}
