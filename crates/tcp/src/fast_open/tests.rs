//! Both ends of Fast Open, by script; the simulation joins them.

use super::*;
use crate::Config;
use crate::script::{ACK, FIN, IRS, MSS, PSH, SYN, Script, WINDOW};
use crate::time::MS;
use longshore_wire::SeqNumber;
use longshore_wire::tcp::{TcpFlags, TcpHeader};

fn cookie(byte: u8) -> FastOpenCookie {
    FastOpenCookie::new(&[byte; 8]).expect("eight bytes")
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
    s.tcb.start_fast_open(Some((cookie(7), MSS)), false);
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

#[test]
fn the_first_syn_asks_for_a_cookie() {
    let mut s = Script::connecting(&config());
    s.tcb.start_fast_open(None, false);
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
}

#[test]
fn data_on_the_syn_may_be_acknowledged_with_it() {
    let (mut s, syn) = client(300);
    assert_eq!(syn.flags, SYN);
    assert_eq!(syn.payload, 0..300);
    assert_eq!(syn.options.fast_open, Some(cookie(7)));
    answer(&mut s, 300, None);
    assert_eq!(s.tcb.state(), State::Established);
    assert_eq!(s.tcb.snd_acked(), 300);
    assert!(s.tcb.info(s.now).syn_data);
    s.acks(0);
    assert_eq!(s.tcb.deadline(), None);
    assert_eq!(s.tcb.srtt_us(), Some(20 * MS));
}

#[test]
fn data_that_are_not_taken_go_again_at_once() {
    let (mut s, _) = client(300);
    let cwnd = s.tcb.cwnd();
    answer(&mut s, 0, None);
    let t = s.sent_one();
    assert_eq!((t.flags, t.payload.clone()), (PSH | ACK, 0..300));
    assert!(t.retransmission);
    assert!(s.tcb.cwnd() >= cwnd);
    let _ = s.arrives(ACK, 0, 300, 0);
    assert_eq!(s.tcb.info(s.now).total_rto, 0);
    assert!(!s.tcb.fast_open_outcome().expect("tried").accepted);
    assert!(!s.tcb.info(s.now).syn_data);
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
    let room = MSS - syn.options.emitted_len() as u16;
    assert_eq!(syn.payload, 0..u64::from(room));
    answer(&mut s, i64::from(room), None);
    assert_eq!(s.sent()[0].payload.start, u64::from(room));
}

#[test]
fn an_unanswered_syn_is_repeated_plain() {
    let (mut s, _) = client(300);
    s.until_timer();
    let syn = s.sent_one();
    assert_eq!((syn.flags, syn.payload.clone()), (SYN, 0..0));
    assert_eq!(syn.options.fast_open, None);
    answer(&mut s, 0, None);
    let outcome = s.tcb.fast_open_outcome().expect("tried");
    assert!(outcome.fell_back && !outcome.accepted);
    assert_eq!(s.sent_one().payload, 0..300);
    // The answer to the first SYN may still come, and is good too.
    let (mut s, _) = client(300);
    s.until_timer();
    s.sent();
    answer(&mut s, 300, None);
    assert_eq!(s.tcb.snd_acked(), 300);
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
    s.tcb.start_fast_open(Some((cookie(7), MSS)), true);
    assert!(s.tcb.awaits_first_write());
    s.silent();
    assert_eq!(s.tcb.deadline(), None);
    s.writes(50);
    assert!(!s.tcb.awaits_first_write());
    assert_eq!(s.sent_one().payload, 0..50);
}

#[test]
fn what_was_written_before_the_handshake_outlives_the_program() {
    for closes in [false, true] {
        let mut s = Script::connecting(&config());
        s.tcb.start_fast_open(Some((cookie(7), MSS)), true);
        assert!(s.tcb.is_open_to_user());
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
    s.tcb.start_fast_open(Some((cookie(7), MSS)), true);
    s.tcb.close(s.now);
    assert_eq!(s.tcb.state(), State::Closed);
    s.silent();
}

/// A server that has taken `len` bytes with a SYN.
fn server(len: u32) -> Script {
    let header = syn_header(TcpOptions {
        mss: Some(MSS),
        ..TcpOptions::default()
    });
    let syn = Segment::new(&header, len);
    let mut s = Script::connecting(&config());
    s.tcb = Tcb::accept(
        &config(),
        &syn,
        MSS,
        SeqNumber(crate::script::ISS),
        0,
        s.now,
    );
    let d = s.tcb.accept_fast_open(&syn, s.now);
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
    // It was told once that there is a connection.
    assert!(!s.events().contains(Events::CONNECTED));
    assert!(s.sent_one().flags.contains(FIN));
    let _ = s.arrives(ACK, 200, 2_501, 0);
    assert_eq!(s.tcb.state(), State::FinWait2);
    assert_eq!(s.tcb.info(s.now).total_rto, 0);
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
    s.tcb.give_fast_open_cookie(cookie(9));
    assert_eq!(s.sent_one().options.fast_open, Some(cookie(9)));
}

const CLIENT: IpAddr = IpAddr::V4(core::net::Ipv4Addr::new(10, 0, 0, 1));
const OTHER: IpAddr = IpAddr::V4(core::net::Ipv4Addr::new(10, 0, 0, 2));

/// A stand-in for a keyed hash.
fn hash(ip: IpAddr, age: u64) -> u64 {
    let IpAddr::V4(ip) = ip else { return 0 };
    (u64::from(ip.to_bits()) << 32 | age).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn judge(
    q: &mut FastOpenQueue,
    option: Option<FastOpenCookie>,
    from: IpAddr,
    now: Instant,
) -> FastOpenVerdict {
    let header = syn_header(TcpOptions {
        fast_open: option,
        ..TcpOptions::default()
    });
    q.judge(&Segment::new(&header, 100), from, now, hash)
}

#[test]
fn a_cookie_is_good_for_its_client_and_for_two_hours_at_most() {
    let mut q = FastOpenQueue::new();
    let start = Instant(10 * KEY_LIFE_US);
    let none = FastOpenVerdict::default();
    // Off: as if the option were not there.
    assert_eq!(
        judge(&mut q, Some(FastOpenCookie::REQUEST), CLIENT, start),
        none
    );
    q.set_limit(10);
    assert_eq!(judge(&mut q, None, CLIENT, start), none);
    let given = judge(&mut q, Some(FastOpenCookie::REQUEST), CLIENT, start);
    assert!(!given.accept);
    let mine = given.give;
    assert!(mine.is_some());
    let good = judge(&mut q, mine, CLIENT, start);
    assert_eq!((good.accept, good.give), (true, None));
    // Somebody else's is answered with their own.
    let theirs = judge(&mut q, mine, OTHER, start);
    assert!(!theirs.accept && theirs.give.is_some() && theirs.give != mine);
    // Of the last key: good, and a new one with it.
    let later = judge(&mut q, mine, CLIENT, start.after_us(KEY_LIFE_US));
    assert!(later.accept && later.give.is_some() && later.give != mine);
    let late = judge(&mut q, mine, CLIENT, start.after_us(2 * KEY_LIFE_US));
    assert!(!late.accept && late.give.is_some());
}

#[test]
fn no_more_than_the_limit_are_open_on_a_cookie_alone() {
    let mut q = FastOpenQueue::new();
    q.set_limit(2);
    let mine = judge(&mut q, Some(FastOpenCookie::REQUEST), CLIENT, Instant(0)).give;
    let mut accepted = || judge(&mut q, mine, CLIENT, Instant(0)).accept;
    assert_eq!([accepted(), accepted(), accepted()], [true, true, false]);
    q.on_done();
    assert!(judge(&mut q, mine, CLIENT, Instant(0)).accept);
}

fn outcome() -> FastOpenOutcome {
    FastOpenOutcome {
        cookie: None,
        mss: 1400,
        sent: 0,
        accepted: false,
        fell_back: false,
    }
}

#[test]
fn a_client_remembers_cookies_and_who_to_leave_alone() {
    let mut c = FastOpenCache::new();
    let now = Instant(5 * SECOND);
    assert_eq!(c.way_to(CLIENT, now), Some(None));
    let given = FastOpenOutcome {
        cookie: Some(cookie(1)),
        ..outcome()
    };
    c.learn(CLIENT, &given, now);
    assert_eq!(c.way_to(CLIENT, now), Some(Some((cookie(1), 1400))));
    assert_eq!(c.way_to(OTHER, now), Some(None));
    // Taken: it stays. Refused: another is asked for.
    let taken = FastOpenOutcome {
        sent: 10,
        accepted: true,
        ..outcome()
    };
    c.learn(CLIENT, &taken, now);
    assert!(c.way_to(CLIENT, now).is_some_and(|w| w.is_some()));
    let refused = FastOpenOutcome {
        sent: 10,
        ..outcome()
    };
    c.learn(CLIENT, &refused, now);
    assert_eq!(c.way_to(CLIENT, now), Some(None));
    // Not answered: an hour without.
    let fell_back = FastOpenOutcome {
        fell_back: true,
        ..outcome()
    };
    c.learn(CLIENT, &fell_back, now);
    assert_eq!(c.way_to(CLIENT, now.after_us(AVOID_US - 1)), None);
    assert_eq!(c.way_to(CLIENT, now.after_us(AVOID_US)), Some(None));
}

#[test]
fn the_cache_is_bounded() {
    let mut c = FastOpenCache::new();
    let given = FastOpenOutcome {
        cookie: Some(cookie(1)),
        ..outcome()
    };
    for i in 0..1000_u32 {
        let server = IpAddr::V4(core::net::Ipv4Addr::from_bits(i));
        c.learn(server, &given, Instant(u64::from(i)));
        // The first one is in use.
        let first = IpAddr::V4(core::net::Ipv4Addr::from_bits(0));
        assert!(c.way_to(first, Instant(u64::from(i))).flatten().is_some());
    }
    assert_eq!(c.known.len(), CACHE_SIZE);
}
