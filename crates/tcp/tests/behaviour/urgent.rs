//! Urgent data, both ways (RFC 9293 section 3.8.5, RFC 6093). What a program sees of them
//! in each state is in the scripts of `tests/states`.

use crate::script::{ACK, MSS, PSH, SYN, Script, plain};
use longshore_tcp::{Config, Events, State};
use longshore_wire::tcp::{TcpFlags, TcpOptions};

const URG: TcpFlags = TcpFlags::URG;

/// The user writes up to `edge`, the last byte being urgent.
fn writes_urgent(s: &mut Script, edge: u64) {
    s.writes(edge);
    s.tcb.send_stream().set_urgent(edge);
}

/// Where each segment that is sent begins, its length, and its urgent pointer.
fn sent(s: &mut Script) -> Vec<(i64, usize, Option<u16>)> {
    let all = s.sent();
    all.iter()
        .map(|t| {
            assert!(t.flags.contains(URG) || t.urgent == 0, "{t:?}");
            let pointer = t.flags.contains(URG).then_some(t.urgent);
            (s.seq_of(t), t.payload_len(), pointer)
        })
        .collect()
}

#[test]
fn the_pointer_names_the_byte_after_the_urgent_one() {
    for (names_itself, pointer, end) in [
        (false, 1, 1),
        (false, 5, 5),
        (false, 300, 300),
        (false, 0, 1),
        (true, 0, 1),
        (true, 5, 6),
    ] {
        let config = Config {
            urgent_names_itself: names_itself,
            ..plain()
        };
        let mut s = Script::established_with(&config, TcpOptions::default());
        let _ = s.arrives_urgent(ACK, (0, 0), 10, pointer);
        assert_eq!(
            s.tcb.receive_status().urgent(),
            end,
            "{names_itself} {pointer}"
        );
        assert!(s.events().contains(Events::URGENT | Events::RCV_EDGE));
    }
}

#[test]
fn a_pointer_that_says_nothing_new_is_no_event() {
    let mut s = Script::established();
    let _ = s.arrives_urgent(ACK, (0, 0), 10, 20);
    assert!(s.events().contains(Events::URGENT));
    // The same place, from further on; one before it; one to what is here.
    for (seq, len, pointer) in [(10, 5, 10), (15, 0, 2), (5, 10, 3)] {
        let _ = s.arrives_urgent(ACK, (seq, 0), len, pointer);
        assert!(!s.events().contains(Events::URGENT), "{seq} {pointer}");
        assert_eq!(s.tcb.receive_status().urgent(), 20);
    }
    let _ = s.arrives_urgent(ACK, (15, 0), 0, 6);
    assert!(s.events().contains(Events::URGENT));
    assert_eq!(s.tcb.receive_status().urgent(), 21);
}

/// The pointer without its flag is nothing.
#[test]
fn the_flag_makes_the_pointer_count() {
    let mut s = Script::established();
    let mut header = s.header(ACK, 0, 0, TcpOptions::default());
    header.urgent = 5;
    let segment = longshore_tcp::Segment::new(&header, 10);
    let _ = s.tcb.on_segment(&segment, s.now);
    assert_eq!(s.tcb.receive_status().urgent(), 0);
}

#[test]
fn urgent_data_beyond_a_hole_and_beyond_the_window_are_told_of() {
    let mut s = Script::established();
    let _ = s.arrives_urgent(ACK, (100, 0), 10, 10);
    assert_eq!(s.tcb.receive_status().urgent(), 110);
    assert_eq!(s.tcb.rcv_edge(), 0);
    let _ = s.arrives_urgent(ACK, (0, 0), 0, u16::MAX);
    assert_eq!(s.tcb.receive_status().urgent(), 65_535);
}

#[test]
fn a_syn_ack_may_tell_of_urgent_data() {
    let mut s = Script::connecting(&plain());
    s.sent();
    let _ = s.arrives_urgent(SYN | ACK, (-1, 0), 0, 4);
    assert_eq!(s.tcb.state(), State::Established);
    // Counted from the SYN.
    assert_eq!(s.tcb.receive_status().urgent(), 3);
}

#[test]
fn a_receiver_that_is_out_of_room_is_told_of_urgent_data() {
    let mut s = Script::established();
    let _ = s.arrives(ACK, 0, 0, 20_000);
    s.sent();
    assert_eq!(s.tcb.rcv_edge(), 20_000);
    s.events();
    let d = s.arrives_urgent(ACK, (20_000, 0), 0, 7);
    assert_eq!(d.drop, None);
    assert!(s.events().contains(Events::URGENT));
    assert_eq!(s.tcb.receive_status().urgent(), 20_007);
}

#[test]
fn each_packet_up_to_the_urgent_byte_has_the_pointer() {
    let mut s = Script::established();
    s.max_payload = 60_000;
    writes_urgent(&mut s, 2_500);
    // Packets, not segments to be cut up: their pointers differ.
    let expected = [
        (0, 1000, Some(2500)),
        (1000, 1000, Some(1500)),
        (2000, 500, Some(500)),
    ];
    assert_eq!(sent(&mut s), expected);
    s.writes(5_000);
    // What follows it has none, though still in packets, until it is acknowledged.
    assert_eq!(sent(&mut s)[0], (2500, 1000, None));
    let _ = s.arrives(ACK, 0, 3_500, 0);
    s.writes(9_000);
    assert!(sent(&mut s)[0].1 > usize::from(MSS));
}

#[test]
fn a_repetition_has_the_pointer_too() {
    let mut s = Script::established();
    writes_urgent(&mut s, 300);
    assert_eq!(sent(&mut s), [(0, 300, Some(300))]);
    while sent(&mut s).is_empty() {
        s.until_timer();
    }
    s.until_timer();
    assert_eq!(sent(&mut s), [(0, 300, Some(300))]);
    // Acknowledgments that are sent meanwhile lie behind it.
    let _ = s.arrives(ACK, 0, 0, 10);
    s.tcb.settings().set_quickack(true);
    assert!(sent(&mut s).iter().all(|(_, _, urgent)| urgent.is_none()));
}

#[test]
fn the_pointer_reaches_no_further_than_its_field() {
    let mut s = Script::established();
    s.window = 4_000;
    let _ = s.arrives(ACK, 0, 0, 0);
    writes_urgent(&mut s, 70_000);
    let all = sent(&mut s);
    assert!(all.len() >= 4, "{all:?}");
    assert!(all.iter().all(|(_, _, urgent)| *urgent == Some(u16::MAX)));
    let _ = s.arrives(ACK, 0, 4_000, 0);
    let _ = sent(&mut s);
    let _ = s.arrives(ACK, 0, 8_000, 0);
    assert_eq!(sent(&mut s)[0], (8_000, 1000, Some(62_000)));
}

#[test]
fn urgent_data_waits_for_nothing() {
    let mut s = Script::established();
    s.writes(100);
    assert_eq!(s.sent().len(), 1);
    // Nagle's rule holds this back, and the cork, too.
    s.writes(200);
    s.silent();
    s.tcb.settings().set_cork(true);
    s.tcb.set_snd_edge(300, false);
    s.silent();
    writes_urgent(&mut s, 301);
    assert_eq!(sent(&mut s), [(100, 201, Some(201))]);
    // What follows is held back as ever once that is acknowledged.
    let _ = s.arrives(ACK, 0, 301, 0);
    s.writes(400);
    s.silent();
}

/// RFC 9293 section 3.8.5, and 3.8.6.1 for the probes.
#[test]
fn a_closed_window_keeps_urgent_data_but_not_the_word_of_it() {
    let mut s = Script::established();
    s.window = 0;
    let _ = s.arrives(ACK, 0, 0, 0);
    s.writes(5);
    s.silent();
    writes_urgent(&mut s, 10);
    assert_eq!(sent(&mut s), [(0, 0, Some(10))]);
    for _ in 0..3 {
        s.until_timer();
        assert_eq!(sent(&mut s), [(0, 0, Some(10)), (-1, 0, Some(11))]);
    }
    s.window = 1000;
    let _ = s.arrives(ACK, 0, 0, 0);
    assert_eq!(sent(&mut s), [(0, 10, Some(10))]);
}

#[test]
fn what_is_acknowledged_is_urgent_no_more() {
    let mut s = Script::established();
    s.writes(100);
    s.sent();
    let _ = s.arrives(ACK, 0, 100, 0);
    s.tcb.send_stream().set_urgent(100);
    let _ = s.arrives(PSH | ACK, 0, 100, 1);
    s.tcb.settings().set_quickack(true);
    assert_eq!(sent(&mut s), [(100, 0, None)]);
    // Nor is what was never written.
    s.tcb.send_stream().set_urgent(5_000);
    s.writes(200);
    assert_eq!(sent(&mut s), [(100, 100, None)]);
}
