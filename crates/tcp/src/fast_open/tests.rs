//! Both ends of Fast Open, by script; the simulation joins them.

use super::*;
use crate::Config;
use crate::events::Events;
use crate::script::{ACK, FIN, IRS, MSS, PSH, SYN, Script, WINDOW};
use crate::segment::Segment;
use crate::tcb::Tcb;
use crate::time::Instant;
use crate::time::MS;
use longshore_wire::SeqNumber;
use longshore_wire::tcp::{TcpFlags, TcpHeader, TcpOptions, Timestamps};

fn cookie(byte: u8) -> FastOpenCookie {
    FastOpenCookie::new(&[byte; 8]).expect("eight bytes")
}

fn send(byte: u8) -> FastOpenMode {
    FastOpenMode::SendCookie {
        cookie: cookie(byte),
        mss: MSS,
    }
}

fn config() -> Config {
    Config {
        window_scaling: false,
        ..crate::script::plain()
    }
}

/// A client whose SYN carries a cookie, and what is written before it goes.
fn client(written: u64) -> (Script, crate::Transmit) {
    let mut s = Script::connecting(&config());
    s.tcb.syn_data().start(send(7), false);
    s.writes(written);
    let syn = s.sent_one();
    s.now = s.now.after_ms(20);
    (s, syn)
}

fn answer(s: &mut Script, ack: i64, fast_open: Option<FastOpenCookie>) {
    let options = TcpOptions {
        mss: Some(MSS),
        fast_open,
        ..TcpOptions::default()
    };
    let _ = s.arrives_with(SYN | ACK, -1, ack, 0, options);
}

/// tcpi_fastopen_client_fail, as a program reads it.
fn failure(s: &Script) -> u8 {
    s.tcb.info(s.now).to_linux()[7] >> 1
}

#[test]
fn the_first_syn_asks_for_a_cookie() {
    let mut s = Script::connecting(&config());
    s.tcb.syn_data().start(
        FastOpenMode::RequestCookie {
            experimental: false,
        },
        false,
    );
    s.writes(100);
    let syn = s.sent_one();
    assert_eq!(syn.options.fast_open, Some(FastOpenCookie::REQUEST));
    assert!(syn.payload.is_empty());
    answer(&mut s, 0, Some(cookie(3)));
    let outcome = s.tcb.fast_open_outcome().expect("tried");
    assert_eq!(outcome.cookie, Some(cookie(3)));
    assert_eq!(
        (outcome.mss, outcome.sent, outcome.accepted),
        (MSS, 0, false)
    );
    assert_eq!(s.sent_one().payload_len(), 100);
    assert_eq!(failure(&s), 1);
}

#[test]
fn data_on_the_syn_may_be_acknowledged_with_it() {
    let (mut s, syn) = client(300);
    assert_eq!(syn.flags, SYN);
    assert_eq!(syn.payload, 0..300);
    assert_eq!(syn.options.fast_open, Some(cookie(7)));
    assert_eq!(failure(&s), 0);
    answer(&mut s, 300, None);
    assert_eq!(failure(&s), 0);
    assert_eq!(s.tcb.state(), State::Established);
    assert_eq!(s.tcb.snd_acked(), 300);
    assert!(s.tcb.info(s.now).syn_data);
    s.acks(0);
    assert_eq!(s.tcb.deadline(), None);
    assert_eq!(s.tcb.snd.rtt.srtt(), Some(20 * MS));
}

/// That the data was not taken is known with the answer.
#[test]
fn there_is_no_failure_before_the_answer() {
    let (mut s, _) = client(100);
    assert_eq!(failure(&s), 0);
    answer(&mut s, 0, None);
    assert_eq!(failure(&s), FastOpenFailure::NotAcknowledged as u8);
}

/// What went with the SYN and is not acknowledged keeps the connection busy once that is open.
#[test]
fn a_connection_is_busy_with_what_the_syn_has_left() {
    for (ack, busy_us) in [(0, 10_000), (100, 0)] {
        let (mut s, _) = client(100);
        answer(&mut s, ack, None);
        s.now = s.now.after_ms(10);
        assert_eq!(s.tcb.info(s.now).busy_us, busy_us);
    }
}

/// A SYN with a cookie and without data has not failed.
#[test]
fn nothing_was_refused_where_nothing_was_sent() {
    let (mut s, _) = client(0);
    answer(&mut s, 0, None);
    assert_eq!(failure(&s), 0);
}

#[test]
fn data_that_are_not_taken_go_again_at_once() {
    let (mut s, _) = client(300);
    let cwnd = s.tcb.send_status().cwnd();
    answer(&mut s, 0, None);
    let t = s.sent_one();
    assert_eq!((t.flags, t.payload.clone()), (PSH | ACK, 0..300));
    assert!(t.retransmission);
    assert!(s.tcb.send_status().cwnd() >= cwnd);
    let _ = s.arrives(ACK, 0, 300, 0);
    assert_eq!(s.tcb.info(s.now).total_rto, 0);
    assert!(!s.tcb.fast_open_outcome().expect("tried").accepted);
    assert!(!s.tcb.info(s.now).syn_data);
    assert_eq!(failure(&s), 2);
}

#[test]
fn a_syn_counts_as_one_packet_that_was_delivered() {
    let delivered = |s: &Script| {
        let bytes = s.tcb.info(s.now).to_linux();
        u32::from_ne_bytes(bytes[192..196].try_into().unwrap())
    };
    // The server's segments are smaller than what was remembered of it.
    let (mut s, syn) = client(20_000);
    let options = TcpOptions {
        mss: Some(700),
        ..TcpOptions::default()
    };
    assert_eq!(delivered(&s), 0);
    let _ = s.arrives_with(SYN | ACK, -1, syn.payload.end as i64, 0, options);
    assert_eq!(delivered(&s), 1);
    let _ = s.sent();
    let _ = s.arrives(ACK, 0, syn.payload.end as i64 + 701, 0);
    assert_eq!(delivered(&s), 3);
}

#[test]
fn part_of_the_data_may_be_taken() {
    let (mut s, _) = client(300);
    answer(&mut s, 100, None);
    assert_eq!(s.sent_one().payload, 100..300);
}

#[test]
fn the_syn_holds_what_fits_a_packet() {
    let (mut s, syn) = client(20_000);
    let room = MSS - OPTION_ROOM;
    assert_eq!(syn.payload, 0..u64::from(room));
    answer(&mut s, i64::from(room), None);
    assert_eq!(s.sent()[0].payload.start, u64::from(room));
}

#[test]
fn an_unanswered_syn_is_repeated_plain() {
    let (mut s, first) = client(300);
    s.until_timer();
    let syn = s.sent_one();
    assert!(!first.retransmission && syn.retransmission);
    assert_eq!((syn.flags, syn.payload.clone()), (SYN, 0..0));
    assert_eq!(syn.options.fast_open, None);
    answer(&mut s, 0, None);
    let outcome = s.tcb.fast_open_outcome().expect("tried");
    assert!(outcome.fell_back && !outcome.accepted);
    assert_eq!(failure(&s), 3);
    assert_eq!(s.sent_one().payload, 0..300);
    // The answer to the first SYN may still come, and is good too.
    let (mut s, _) = client(300);
    s.until_timer();
    s.sent();
    answer(&mut s, 300, None);
    assert_eq!(s.tcb.snd_acked(), 300);
}

#[test]
fn data_that_are_not_taken_are_pushed_when_they_go_again() {
    let (mut s, syn) = client(20_000);
    answer(&mut s, 0, None);
    let sent = s.sent();
    assert_eq!(sent[0].payload, syn.payload);
    assert_eq!(sent[0].flags, PSH | ACK);
    assert_eq!(sent[1].flags, ACK);
    // A FIN behind them has nothing to push.
    let (mut s, _) = client(300);
    answer(&mut s, 300, None);
    s.tcb.shutdown_send();
    s.sent();
    s.until_timer();
    assert_eq!(s.sent_one().flags, FIN | ACK);
}

#[test]
fn a_syn_ack_may_have_data_and_the_end() {
    let (mut s, _) = client(300);
    let options = TcpOptions {
        mss: Some(MSS),
        ..TcpOptions::default()
    };
    let d = s.arrives_with(SYN | ACK | FIN, -1, 300, 700, options);
    let place = d.place.expect("taken");
    assert_eq!((place.stream_offset, place.skip, place.len), (0, 0, 700));
    assert_eq!(s.tcb.state(), State::CloseWait);
    assert_eq!(s.tcb.rcv_edge(), 700);
    assert!(s.events().contains(Events::RCV_EDGE | Events::PEER_FIN));
    s.acks(701);
    // What does not fit our window has to come again.
    let (mut s, _) = client(300);
    let d = s.arrives_with(SYN | ACK | FIN, -1, 300, 70_000, options);
    assert_eq!(d.drop, Some(crate::DropReason::BeyondWindow));
    assert_eq!(s.tcb.state(), State::Established);
}

#[test]
fn what_was_written_beyond_the_syn_takes_the_acknowledgment_along() {
    let (mut s, syn) = client(1_500);
    let taken = syn.payload.end;
    answer(&mut s, taken as i64, None);
    let rest = s.sent_one();
    assert_eq!(rest.payload, taken..1_500);
    assert_eq!(s.ack_of(&rest), 0);
    // The answer's acknowledgment waits for the next request.
    let _ = s.arrives(PSH | ACK, 0, 1_500, 100);
    s.silent();
    s.writes(1_600);
    assert_eq!(s.ack_of(&s.clone().sent_one()), 100);
    assert_eq!(s.until_timer(), 40 * MS);
    // With all on the SYN there is nothing to wait for.
    let (mut s, _) = client(300);
    answer(&mut s, 300, None);
    s.acks(0);
    let _ = s.arrives(PSH | ACK, 0, 300, 100);
    s.acks(100);
}

#[test]
fn a_syn_that_the_path_does_not_take_goes_again_at_once_without_data() {
    let (mut s, _) = client(20_000);
    s.tcb.segment_size().set_path_mss(MSS - 1);
    s.silent();
    s.tcb.segment_size().set_path_mss(800);
    let again = s.sent_one();
    assert_eq!((again.flags, again.payload.clone()), (SYN, 0..0));
    assert_eq!(again.options.mss, Some(800));
    assert_eq!(again.options.fast_open, None);
    s.tcb.segment_size().set_path_mss(700);
    s.silent();
    answer(&mut s, 0, None);
    let first = s.sent().remove(0);
    assert_eq!((first.payload.end, first.mss), (700, 700));
    assert_eq!(s.tcb.info(s.now).total_rto, 0);
}

#[test]
fn an_acknowledgment_beyond_the_data_is_refused() {
    let (mut s, _) = client(300);
    let d = s.arrives(SYN | ACK, -1, 301, 0);
    assert!(d.reset);
    assert_eq!(s.tcb.state(), State::SynSent);
}

#[test]
fn a_syn_may_wait_for_the_first_write() {
    let mut s = Script::connecting(&config());
    s.tcb.syn_data().start(send(7), true);
    assert!(s.tcb.fast_open.awaits_data());
    s.silent();
    assert_eq!(s.tcb.deadline(), None);
    s.writes(50);
    assert!(!s.tcb.fast_open.awaits_data());
    assert_eq!(s.sent_one().payload, 0..50);
}

#[test]
fn what_was_written_before_the_handshake_outlives_the_program() {
    for closes in [false, true] {
        let mut s = Script::connecting(&config());
        s.tcb.syn_data().start(send(7), true);
        assert_eq!(s.tcb.syn_room(), MSS - OPTION_ROOM);
        s.writes(2_000);
        if closes {
            s.tcb.close(s.now);
        } else {
            s.tcb.shutdown_send();
        }
        let syn = s.sent_one();
        let taken = syn.payload.end as i64;
        assert!(taken > 0 && taken < 2_000);
        answer(&mut s, taken, None);
        assert_eq!(s.tcb.state(), State::FinWait1);
        let last = s.sent().pop().expect("the rest");
        assert!(last.flags.contains(FIN) && last.payload.end == 2_000);
    }
    // Nothing written: nothing is sent.
    let mut s = Script::connecting(&config());
    s.tcb.syn_data().start(send(7), true);
    s.tcb.close(s.now);
    assert_eq!(s.tcb.state(), State::Closed);
    s.silent();
    // Nor where the program was not told that it is connected.
    let mut s = Script::connecting(&config());
    s.sent();
    s.writes(100);
    s.tcb.close(s.now);
    assert_eq!((s.tcb.state(), s.tcb.error()), (State::Closed, None));
    s.silent();
}

/// A server that has taken `len` bytes with a SYN.
fn server(len: u32) -> Script {
    server_with(&config(), None, len)
}

/// The same; the SYN has these timestamps.
fn server_with(cfg: &Config, timestamps: Option<Timestamps>, len: u32) -> Script {
    let header = syn_header(TcpOptions {
        mss: Some(MSS),
        timestamps,
        ..TcpOptions::default()
    });
    let syn = Segment::new(&header, len);
    let mut s = Script::connecting(cfg);
    s.tcb = Tcb::accept(cfg, &syn, MSS, SeqNumber(crate::script::ISS), 0, s.now);
    let d = s.tcb.syn_data().accept(&syn, s.now);
    assert_eq!(
        d.place.map(|p| (p.stream_offset, p.skip, p.len)),
        (len > 0).then_some((0, 0, len))
    );
    s
}

fn syn_header(options: TcpOptions) -> TcpHeader {
    TcpHeader {
        src_port: 1,
        dst_port: 2,
        seq: SeqNumber(IRS),
        ack: SeqNumber(0),
        flags: SYN,
        window: WINDOW,
        urgent: 0,
        options,
    }
}

#[test]
fn a_server_reads_and_answers_before_the_handshake_is_over() {
    let mut s = server(200);
    assert!(s.tcb.is_fast_opened());
    assert_eq!(s.events(), Events::CONNECTED | Events::RCV_EDGE);
    assert_eq!(s.tcb.rcv_edge(), 200);
    s.writes(2_500);
    s.tcb.shutdown_send();
    let sent = s.sent();
    assert_eq!(sent[0].flags, SYN | ACK);
    assert_eq!(s.ack_of(&sent[0]), 200);
    let data: Vec<_> = sent[1..].iter().map(|t| t.payload.clone()).collect();
    assert_eq!(data, [0..1000, 1000..2000, 2000..2500]);
    // The FIN waits for the handshake.
    assert!(sent.iter().all(|t| !t.flags.contains(FIN)));
    s.now = s.now.after_ms(20);
    let _ = s.arrives(ACK, 200, 1_000, 0);
    assert_eq!(s.tcb.state(), State::FinWait1);
    assert_eq!(s.tcb.snd_acked(), 1_000);
    // CONNECTED was reported once.
    assert!(!s.events().contains(Events::CONNECTED));
    assert!(s.sent_one().flags.contains(FIN));
    let _ = s.arrives(ACK, 200, 2_501, 0);
    assert_eq!(s.tcb.state(), State::FinWait2);
    assert_eq!(s.tcb.info(s.now).total_rto, 0);
}

/// RFC 7323 section 4.3: Last.ACK.sent is what the SYN-ACK has acknowledged, so that the timestamp
/// of what follows the SYN's data is echoed.
#[test]
fn what_follows_the_data_of_a_syn_refreshes_the_echo() {
    let cfg = Config {
        timestamps: true,
        ..config()
    };
    let stamp = |val| Some(Timestamps { val, echo: 0 });
    let mut s = server_with(&cfg, stamp(1_000), 200);
    assert_eq!(s.sent_one().options.timestamps.unwrap().echo, 1_000);
    s.timestamps = stamp(2_000);
    let _ = s.arrives(ACK, 200, 0, 100);
    assert_eq!(s.sent_one().options.timestamps.unwrap().echo, 2_000);
}

#[test]
fn a_lost_syn_ack_is_repeated_and_what_followed_it_after() {
    let mut s = server(200);
    s.writes(500);
    assert_eq!(s.sent().len(), 2);
    s.until_timer();
    let again = s.sent_one();
    assert_eq!((again.flags, s.ack_of(&again)), (SYN | ACK, 200));
    // The client knows of the SYN-ACK only; the data are repeated by the timer.
    let _ = s.arrives(ACK, 200, 0, 0);
    assert_eq!(s.tcb.state(), State::Established);
    s.sent();
    s.until_timer();
    assert_eq!(s.sent_one().payload, 0..500);
    let _ = s.arrives(ACK, 200, 500, 0);
    assert_eq!(s.tcb.deadline(), None);
}

#[test]
fn a_client_that_repeats_its_syn_gets_the_syn_ack_again() {
    for len in [0, 200] {
        let mut s = server(200);
        s.sent();
        let d = s.arrives(SYN, -1, 0, len);
        assert!(d.place.is_none());
        assert_eq!(s.sent_one().flags, SYN | ACK);
        assert_eq!(s.tcb.rcv_edge(), 200);
    }
    // Also where its data were not taken.
    let mut s = Script::accepting(&config(), TcpOptions::default());
    let d = s.arrives(SYN, -1, 0, 200);
    assert!(d.place.is_none());
    assert_eq!(s.sent_one().flags, SYN | ACK);
}

#[test]
fn a_reset_ends_a_connection_that_is_half_open_and_in_use() {
    let mut s = server(200);
    s.sent();
    let _ = s.arrives(TcpFlags::RST, 200, 0, 0);
    assert_eq!(s.tcb.state(), State::Closed);
}

#[test]
fn a_syn_ack_gives_a_cookie() {
    let header = syn_header(TcpOptions::default());
    let syn = Segment::new(&header, 0);
    let mut s = Script::connecting(&config());
    s.tcb = Tcb::accept(&config(), &syn, MSS, SeqNumber(1), 0, s.now);
    s.tcb.syn_data().give_cookie(cookie(9));
    assert_eq!(s.sent_one().options.fast_open, Some(cookie(9)));
}

mod policy;

#[test]
fn data_go_without_a_cookie_where_it_is_so_configured() {
    let mut s = Script::connecting(&config());
    s.tcb.syn_data().start(
        crate::fast_open::FastOpenMode::SendWithoutCookie { mss: u16::MAX },
        false,
    );
    s.writes(300);
    let syn = s.sent_one();
    assert_eq!((syn.payload.clone(), syn.options.fast_open), (0..300, None));
    // A cookie that was not requested is ignored.
    answer(&mut s, 300, Some(cookie(5)));
    assert_eq!(s.tcb.fast_open_outcome().expect("tried").cookie, None);
}

#[test]
fn only_data_that_are_taken_whole_count_as_taken() {
    let (mut s, _) = client(300);
    answer(&mut s, 299, None);
    assert!(!s.tcb.info(s.now).syn_data);
    assert!(!server(0).tcb.info(Instant(0)).syn_data);
    assert!(server(1).tcb.info(Instant(0)).syn_data);
}

#[test]
fn a_reset_before_the_handshake_is_over_is_told_to_who_has_the_connection() {
    let mut s = server(200);
    s.sent();
    let _ = s.arrives(TcpFlags::RST, 200, 0, 0);
    assert_eq!(s.tcb.error(), Some(crate::events::Error::Reset));
}

#[test]
fn data_on_the_syn_are_as_much_as_the_user_has_allowed() {
    let cfg = Config {
        mss: 700,
        ..config()
    };
    let mut s = Script::connecting(&cfg);
    s.tcb.syn_data().start(send(7), true);
    assert_eq!(s.tcb.syn_room(), 700 - OPTION_ROOM);
}

#[test]
fn a_syn_holds_what_every_host_takes_whatever_was_remembered() {
    for ipv6 in [false, true] {
        let cfg = Config { ipv6, ..config() };
        let mut s = Script::connecting(&cfg);
        let way = FastOpenMode::SendCookie {
            cookie: cookie(7),
            mss: 100,
        };
        s.tcb.syn_data().start(way, true);
        // As in Linux, which counts on 536 bytes in both versions of IP.
        let least = DEFAULT_MSS.min(MSS);
        assert_eq!(s.tcb.syn_room(), least - OPTION_ROOM);
    }
}

#[test]
fn a_syn_ack_of_two_syns_that_cross_has_no_cookie() {
    let (mut s, _) = client(300);
    let _ = s.arrives(SYN, -1, 0, 0);
    let t = s.sent_one();
    assert_eq!((t.flags, t.options.fast_open), (SYN | ACK, None));
}

/// Nothing was written (a send of no bytes with MSG_FASTOPEN), and the program has closed:
/// there is nothing to deliver, and no SYN to repeat for it.
#[test]
fn a_syn_without_data_is_not_repeated_for_who_has_closed() {
    let mut s = Script::connecting(&config());
    s.tcb.syn_data().start(send(7), true);
    s.tcb.syn_data().release_syn();
    assert_eq!(s.sent_one().flags, SYN);
    s.tcb.close(s.now);
    assert_eq!(s.tcb.state(), crate::State::Closed);
    assert_eq!(s.tcb.deadline(), None);
    assert_eq!(s.sent().len(), 0);
}
