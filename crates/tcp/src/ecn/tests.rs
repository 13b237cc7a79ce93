//! Negotiation by the RFCs' tables, and what each end does afterwards.

mod counters;
mod reaction;

use super::*;
use crate::config::{BurstConfig, Config, EcnMode};
use crate::congestion::Congestion;
use crate::script::{ACK, FIN, IRS, ISS, MSS, SYN, Script, plain};
use crate::tcb::Tcb;
use crate::time::Instant;
use longshore_wire::SeqNumber;
use longshore_wire::tcp::{TcpHeader, TcpOptions};

const AE: TcpFlags = TcpFlags::AE;
const CWR: TcpFlags = TcpFlags::CWR;
const ECE: TcpFlags = TcpFlags::ECE;
const NONE: TcpFlags = TcpFlags::NONE;

fn with(ecn: EcnMode) -> Config {
    Config { ecn, ..plain() }
}

fn dctcp() -> Config {
    Config {
        congestion: Congestion::Dctcp,
        ..plain()
    }
}

/// The flags of our SYN and of what the SYN-ACK with these flags makes of us.
fn asking(cfg: &Config, answer: TcpFlags) -> (TcpFlags, Script) {
    let mut s = Script::connecting(cfg);
    let syn = s.sent_one();
    let options = TcpOptions {
        mss: Some(MSS),
        ..TcpOptions::default()
    };
    let _ = s.arrives_with(SYN | ACK | answer, -1, 0, 0, options);
    (syn.flags & ECN_FLAGS, s)
}

/// The flags of our SYN-ACK to a SYN with these flags and this ECN field.
fn asked(cfg: &Config, flags: TcpFlags, ecn: Ecn) -> (TcpFlags, Script) {
    let header = TcpHeader {
        src_port: 1,
        dst_port: 2,
        seq: SeqNumber(IRS),
        ack: SeqNumber(0),
        flags: SYN | flags,
        window: 30_000,
        urgent: 0,
        options: TcpOptions {
            mss: Some(MSS),
            ..TcpOptions::default()
        },
    };
    let now = Instant(10_000_000);
    let syn = Segment {
        ecn,
        ..Segment::new(&header, 0)
    };
    let mut s = Script::connecting(cfg);
    s.tcb = Tcb::accept(cfg, &syn, MSS, SeqNumber(ISS), 0, now);
    let syn_ack = s.sent_one();
    (syn_ack.flags & ECN_FLAGS, s)
}

/// A segment with an ECN field and flags arrives.
fn receives(s: &mut Script, ecn: Ecn, flags: TcpFlags, seq: i64, ack: i64, len: u32) {
    let header = s.header(ACK | flags, seq, ack, TcpOptions::default());
    let segment = Segment {
        ecn,
        ..Segment::new(&header, len)
    };
    let _ = s.tcb.on_segment(&segment, s.now);
}

fn established(cfg: &Config, answer: TcpFlags) -> Script {
    let mut s = asking(cfg, answer).1;
    s.sent();
    s.tcb.take_events();
    s
}

#[test]
fn what_a_syn_asks_for() {
    for (mode, expected) in [
        (EcnMode::Off, NONE),
        (EcnMode::Request, CWR | ECE),
        (EcnMode::Accept, NONE),
        (EcnMode::RequestAccurate, AE | CWR | ECE),
        (EcnMode::RequestAcceptAccurate, CWR | ECE),
        (EcnMode::AcceptAccurate, NONE),
    ] {
        assert_eq!(asking(&with(mode), NONE).0, expected, "{mode:?}");
        assert_eq!(EcnMode::from_number(mode as u8), Some(mode));
    }
    assert_eq!(EcnMode::from_number(6), None);
    assert_eq!(asking(&dctcp(), NONE).0, CWR | ECE);
}

/// RFC 9768 table 2, read by the client; RFC 3168 section 6.1.1.
#[test]
fn what_a_syn_ack_agrees_to() {
    use Variant::{Accurate, Classic, Off};
    for (mode, answer, expected) in [
        (EcnMode::RequestAccurate, NONE, Off),
        (EcnMode::RequestAccurate, ECE, Classic),
        (EcnMode::RequestAccurate, CWR, Accurate),
        (EcnMode::RequestAccurate, CWR | ECE, Accurate),
        (EcnMode::RequestAccurate, AE, Accurate),
        (EcnMode::RequestAccurate, AE | ECE, Accurate),
        (EcnMode::RequestAccurate, AE | CWR, Accurate),
        (EcnMode::RequestAccurate, AE | CWR | ECE, Off),
        (EcnMode::Request, ECE, Classic),
        (EcnMode::Request, NONE, Off),
        (EcnMode::Request, CWR | ECE, Off),
        (EcnMode::Accept, ECE, Off),
    ] {
        let s = asking(&with(mode), answer).1;
        assert_eq!(s.tcb.ecn.variant(), expected, "{mode:?} {answer:?}");
    }
}

/// RFC 9768 table 2, written by the server.
#[test]
fn what_a_syn_is_answered() {
    for (mode, syn, ecn, expected) in [
        (EcnMode::Off, CWR | ECE, Ecn::NotCapable, NONE),
        (EcnMode::Accept, CWR | ECE, Ecn::NotCapable, ECE),
        (EcnMode::Accept, NONE, Ecn::NotCapable, NONE),
        (EcnMode::Accept, AE | CWR | ECE, Ecn::NotCapable, ECE),
        (EcnMode::Accept, CWR, Ecn::NotCapable, NONE),
        (EcnMode::AcceptAccurate, CWR | ECE, Ecn::NotCapable, ECE),
        (
            EcnMode::AcceptAccurate,
            AE | CWR | ECE,
            Ecn::NotCapable,
            CWR,
        ),
        (
            EcnMode::AcceptAccurate,
            AE | CWR | ECE,
            Ecn::Capable1,
            CWR | ECE,
        ),
        (EcnMode::AcceptAccurate, AE | CWR | ECE, Ecn::Capable0, AE),
        (
            EcnMode::AcceptAccurate,
            AE | CWR | ECE,
            Ecn::Congested,
            AE | CWR,
        ),
        // What is not assigned yet is treated as the request that is known.
        (EcnMode::AcceptAccurate, AE, Ecn::NotCapable, CWR),
    ] {
        let got = asked(&with(mode), syn, ecn).0;
        assert_eq!(got, expected, "{mode:?} {syn:?} {ecn:?}");
    }
    assert_eq!(asked(&dctcp(), CWR | ECE, Ecn::NotCapable).0, ECE);
}

#[test]
fn a_syn_that_is_repeated_asks_for_nothing() {
    for (mode, asks_again) in [(EcnMode::Request, false), (EcnMode::RequestAccurate, true)] {
        let mut s = Script::connecting(&with(mode));
        s.sent();
        if asks_again {
            // RFC 9768 section 3.1.4.1: once more.
            s.until_timer();
            assert_eq!(s.sent_one().flags, SYN | AE | CWR | ECE);
        }
        s.until_timer();
        assert_eq!(s.sent_one().flags, SYN);
        let _ = s.arrives(SYN | ACK | ECE, -1, 0, 0);
        assert_eq!(s.tcb.ecn.variant(), Variant::Off);
    }
}

/// RFC 9768 section 3.1.4.1.
#[test]
fn the_first_repetition_still_agrees_to_accurate_feedback() {
    let mut s = Script::connecting(&with(EcnMode::RequestAccurate));
    s.sent();
    s.until_timer();
    s.sent();
    let _ = s.arrives(SYN | ACK | CWR, -1, 0, 0);
    assert_eq!(s.tcb.ecn.variant(), Variant::Accurate);
}

/// RFC 9768 section 3.2.3.2.2: first without the option, then without the flags; the
/// feedback stays.
#[test]
fn a_syn_ack_that_is_repeated_falls_back() {
    let cfg = with(EcnMode::AcceptAccurate);
    let mut s = asked(&cfg, AE | CWR | ECE, Ecn::NotCapable).1;
    let mut sent = Vec::new();
    for _ in 0..2 {
        s.until_timer();
        let t = s.sent_one();
        sent.push((t.flags & ECN_FLAGS, t.options.accurate_ecn));
    }
    assert_eq!(sent, [(CWR, None), (NONE, None)]);
    let _ = s.arrives(ACK | CWR, 0, 0, 0);
    assert_eq!(s.tcb.ecn.variant(), Variant::Accurate);
}

/// RFC 9768 section 3.2.3.2.1.
#[test]
fn a_syn_ack_has_the_option_unless_a_cookie_needs_the_room() {
    for (mode, has) in [(EcnMode::AcceptAccurate, true), (EcnMode::Accept, false)] {
        let syn = TcpHeader {
            src_port: 1,
            dst_port: 2,
            seq: SeqNumber(IRS),
            ack: SeqNumber(0),
            flags: SYN | AE | CWR | ECE,
            window: 30_000,
            urgent: 0,
            options: TcpOptions::default(),
        };
        let now = Instant(10_000_000);
        for cookie in [false, true] {
            let segment = Segment::new(&syn, 0);
            let mut s = Script::connecting(&with(mode));
            s.tcb = Tcb::accept(&with(mode), &segment, MSS, SeqNumber(ISS), 0, now);
            if cookie {
                let cookie = longshore_wire::tcp::FastOpenCookie::REQUEST;
                s.tcb.syn_data().give_cookie(cookie);
            }
            let option = s.sent_one().options.accurate_ecn;
            let wanted = (has && !cookie).then_some(AccurateEcn {
                ect0: Some(1),
                ce: Some(0),
                ect1: None,
            });
            assert_eq!(option, wanted, "{mode:?} {cookie}");
        }
    }
}

/// RFC 9768 section 3.2.2.1: the ACE field of the acknowledgment that completes the
/// handshake says how the SYN-ACK has come, and is no count.
#[test]
fn a_passive_open_does_not_take_the_handshake_for_marks() {
    // The field of the handshake's acknowledgment, and of the next one.
    for (first, next) in [(CWR, AE | ECE), (AE | CWR, AE | CWR)] {
        let mut s = asked(
            &with(EcnMode::AcceptAccurate),
            AE | CWR | ECE,
            Ecn::NotCapable,
        )
        .1;
        let _ = s.arrives(ACK | first, 0, 0, 0);
        s.writes(5_000);
        s.sent();
        receives(&mut s, Ecn::NotCapable, next, 0, 1_000, 0);
        let info = s.tcb.info(s.now);
        assert_eq!(info.snd_ssthresh, u32::MAX, "{first:?}");
        let marked = u32::from(first == AE | CWR);
        assert_eq!(info.ecn_totals.delivered_ce, marked);
        // What comes after that counts.
        receives(&mut s, Ecn::NotCapable, AE | CWR | ECE, 0, 2_000, 0);
        let info = s.tcb.info(s.now);
        assert_eq!(info.ecn_totals.delivered_ce, 2);
        assert!(info.snd_ssthresh < u32::MAX);
    }
}

#[test]
fn new_data_is_capable_and_nothing_else() {
    let mut s = established(&with(EcnMode::Request), ECE);
    s.writes(3_000);
    assert!(s.sent().iter().all(|t| t.ecn == Ecn::Capable0));
    let _ = s.arrives(ACK, 0, 0, 1_000);
    s.waits_ms(50);
    assert_eq!(s.sent_one().ecn, Ecn::NotCapable, "a bare acknowledgment");
    s.waits_ms(3_000);
    let again = s.sent();
    assert!(!again.is_empty());
    assert!(again.iter().all(|t| t.ecn == Ecn::NotCapable), "repeated");
    let mut s = established(&with(EcnMode::Request), NONE);
    s.writes(1_000);
    assert_eq!(s.sent_one().ecn, Ecn::NotCapable);
}

/// RFC 3168 section 6.1.3.
#[test]
fn congestion_is_echoed_until_the_sender_says_that_it_knows() {
    let mut s = established(&with(EcnMode::Request), ECE);
    receives(&mut s, Ecn::Capable0, NONE, 0, 0, 1_000);
    receives(&mut s, Ecn::Congested, NONE, 1_000, 0, 1_000);
    assert_eq!(s.sent_one().flags, ACK | ECE);
    receives(&mut s, Ecn::Capable0, NONE, 2_000, 0, 1_000);
    receives(&mut s, Ecn::Capable0, NONE, 3_000, 0, 1_000);
    assert_eq!(s.sent_one().flags, ACK | ECE);
    receives(&mut s, Ecn::Capable0, CWR, 4_000, 0, 1_000);
    assert_eq!(s.sent_one().flags, ACK);
    assert!(s.tcb.info(s.now).ecn_seen);
    // A bare acknowledgment's field says nothing of data.
    receives(&mut s, Ecn::Congested, NONE, 5_000, 0, 0);
    s.silent();
}

/// RFC 3168 section 6.1.2.
#[test]
fn an_echo_lowers_the_window_once_in_a_round_trip() {
    let cfg = Config {
        congestion: Congestion::NewReno,
        ..with(EcnMode::Request)
    };
    let mut s = established(&cfg, ECE);
    s.writes(60_000);
    assert_eq!(s.sent().len(), 10);
    receives(&mut s, Ecn::NotCapable, ECE, 0, 2_000, 0);
    // The window was in use; that little is left in flight is the acknowledgment's doing.
    assert_eq!(s.tcb.send_status().cwnd(), 5_000);
    receives(&mut s, Ecn::NotCapable, ECE, 0, 4_000, 0);
    assert_eq!(s.tcb.send_status().cwnd(), 5_000, "the same congestion");
    s.silent();
    receives(&mut s, Ecn::NotCapable, ECE, 0, 8_000, 0);
    let sent = s.sent();
    assert_eq!(sent[0].flags & ECN_FLAGS, CWR);
    assert!(sent[1..].iter().all(|t| t.flags & ECN_FLAGS == NONE));
    receives(&mut s, Ecn::NotCapable, ECE, 0, 10_000, 0);
    assert_eq!(s.tcb.send_status().cwnd(), 2_500);
    assert_eq!(s.tcb.info(s.now).total_retrans, 0);
}

/// RFC 3168 section 6.1.2: what reports congestion does not make the window grow, neither
/// before it comes down nor after; what reports none does.
#[test]
fn an_acknowledgment_that_reports_congestion_does_not_grow_the_window() {
    for (ecn, agreed, quiet, marked) in [
        (EcnMode::Request, ECE, NONE, ECE),
        // Packet counts start at 5: 6 means one.
        (EcnMode::RequestAccurate, CWR, AE | ECE, AE | CWR),
    ] {
        let cfg = Config {
            congestion: Congestion::NewReno,
            ..with(ecn)
        };
        let mut s = established(&cfg, agreed);
        s.writes(100_000);
        assert_eq!(s.sent().len(), 10);
        receives(&mut s, Ecn::NotCapable, quiet, 0, 2_000, 0);
        assert_eq!(s.tcb.send_status().cwnd(), 12_000, "{ecn:?}: slow start");
        s.sent();
        receives(&mut s, Ecn::NotCapable, marked, 0, 4_000, 0);
        // Half of what the window was, not of 14,000.
        assert_eq!(s.tcb.send_status().cwnd(), 6_000, "{ecn:?}");
    }
}

/// RFC 8257 section 3.2.
#[test]
fn dctcp_echoes_each_change_and_acknowledges_what_came_before_it() {
    let mut s = established(&dctcp(), ECE);
    s.tcb.settings().set_quickack(false);
    receives(&mut s, Ecn::Capable0, NONE, 0, 0, 1_000);
    receives(&mut s, Ecn::Congested, NONE, 1_000, 0, 1_000);
    let sent = s.sent();
    assert_eq!(sent.len(), 2);
    assert_eq!((s.ack_of(&sent[0]), sent[0].flags), (1_000, ACK));
    assert_eq!((s.ack_of(&sent[1]), sent[1].flags), (2_000, ACK | ECE));
    receives(&mut s, Ecn::Capable0, NONE, 2_000, 0, 1_000);
    let t = s.sent_one();
    assert_eq!((s.ack_of(&t), t.flags), (3_000, ACK));
}

#[test]
fn accurate_feedback_counts_packets_from_the_handshake_on() {
    let mut s = asking(&with(EcnMode::RequestAccurate), CWR).1;
    // "Not ECN-capable" was the SYN-ACK's field; then the count begins at 5.
    assert_eq!(s.sent_one().flags, ACK | CWR);
    receives(&mut s, Ecn::Capable0, NONE, 0, 0, 1_000);
    receives(&mut s, Ecn::Capable0, NONE, 1_000, 0, 1_000);
    assert_eq!(s.sent_one().flags, ACK | AE | ECE);
    receives(&mut s, Ecn::Congested, NONE, 2_000, 0, 1_000);
    let t = s.sent_one();
    assert_eq!(t.flags, ACK | AE | CWR);
    let option = t.options.accurate_ecn.unwrap();
    assert_eq!(
        (option.ect0, option.ce, option.ect1),
        (Some(2_001), Some(1_000), None)
    );
    // Three packets in one segment: 6 + 3 = 9 is 1 of 8.
    let header = s.header(ACK, 3_000, 0, TcpOptions::default());
    let merged = Segment {
        ecn: Ecn::Congested,
        gso_size: 1_000,
        ..Segment::new(&header, 3_000)
    };
    let _ = s.tcb.on_segment(&merged, s.now);
    assert_eq!(s.sent_one().flags, ACK | ECE);
    // Bare acknowledgments count too, and nothing else does.
    receives(&mut s, Ecn::Congested, NONE, 6_000, 0, 0);
    receives(&mut s, Ecn::NotCapable, NONE, 6_000, 0, 1_000);
    receives(&mut s, Ecn::NotCapable, NONE, 7_000, 0, 1_000);
    assert_eq!(s.sent_one().flags, ACK | CWR);
    let totals = s.tcb.info(s.now).ecn_totals;
    assert_eq!((totals.received_ce, totals.received_ce_bytes), (5, 4_000));
    let others = (totals.received_e0_bytes, totals.received_e1_bytes);
    assert_eq!(others, (2_000, 0));
}

/// The option's fields have 24 bits, TCP_INFO's 32.
#[test]
fn what_the_peer_tells_of_bytes_is_summed_up() {
    let mut s = established(&with(EcnMode::RequestAccurate), CWR);
    s.writes(1_000);
    s.sent();
    let mut tells = |ect0: u32, ce: u32, ect1: u32| {
        let fields = [ect0, ce, ect1].map(|count| Some(count & 0xff_ffff));
        let options = TcpOptions {
            accurate_ecn: Some(AccurateEcn {
                ect0: fields[0],
                ce: fields[1],
                ect1: fields[2],
            }),
            ..TcpOptions::default()
        };
        // The count of packets is 7, which began at 5.
        let _ = s.arrives_with(ACK | AE | CWR | ECE, 0, 0, 0, options);
        s.tcb.info(s.now).ecn_totals
    };
    tells(0x70_0001, 0x10, 0x61_0001);
    let totals = tells(0xe0_0001, 0x20_0000, 0xc0_0001);
    // One that was overtaken.
    assert_eq!(tells(0x70_0001, 0x10, 0x61_0001), totals);
    let totals = tells(0x110_0001, 0x30_0000, 0x110_0001);
    let delivered = (
        totals.delivered_e0_bytes,
        totals.delivered_ce_bytes,
        totals.delivered_e1_bytes,
    );
    assert_eq!(delivered, (0x110_0000, 0x30_0000, 0x110_0000));
    assert_eq!((totals.delivered_ce, totals.received_ce), (2, 0));
}

#[test]
fn accurate_counts_lower_the_window() {
    let cfg = Config {
        congestion: Congestion::Dctcp,
        ..with(EcnMode::RequestAccurate)
    };
    let mut s = established(&cfg, CWR);
    s.writes(60_000);
    let sent = s.sent();
    assert!(sent.iter().all(|t| t.ecn == Ecn::Capable0));
    // 5: nothing is new.
    receives(&mut s, Ecn::NotCapable, AE | ECE, 0, 1_000, 0);
    assert_eq!(s.tcb.info(s.now).snd_ssthresh, u32::MAX);
    // 7: two packets.
    receives(&mut s, Ecn::NotCapable, AE | CWR | ECE, 0, 3_000, 0);
    assert!(s.tcb.info(s.now).snd_ssthresh < 11_000);
}

/// RFC 9768 section 3.2.2.4: a middlebox zeroes the field.
#[test]
fn a_zeroed_count_in_the_handshake_keeps_data_from_being_marked() {
    let cfg = with(EcnMode::AcceptAccurate);
    for (ace, expected) in [
        (CWR, Ecn::Capable0),
        (NONE, Ecn::NotCapable),
        (AE, Ecn::NotCapable),
    ] {
        let mut s = asked(&cfg, AE | CWR | ECE, Ecn::NotCapable).1;
        let _ = s.arrives(ACK | ace, 0, 0, 0);
        s.writes(500);
        assert_eq!(s.sent_one().ecn, expected, "{ace:?}");
    }
}

/// The bit that RFC 3168 has on the first packet only is part of the count.
#[test]
fn a_count_with_cwr_in_it_is_not_cut_up() {
    let cfg = Config {
        burst: BurstConfig::with_initial_window(100),
        ..with(EcnMode::RequestAccurate)
    };
    let mut s = established(&cfg, CWR);
    s.max_payload = 20_000;
    s.writes(10_000);
    assert!(s.sent().iter().any(|t| t.payload_len() > 1_000));
    receives(&mut s, Ecn::Congested, NONE, 0, 10_000, 1_000);
    s.writes(20_000);
    let sent = s.sent();
    assert!(
        sent.iter()
            .all(|t| t.payload_len() <= 1_000 && t.flags.contains(CWR))
    );
}

#[test]
fn a_fin_and_a_reset_need_no_marks() {
    let mut s = established(&with(EcnMode::Request), ECE);
    s.tcb.shutdown_send();
    let t = s.sent_one();
    assert_eq!((t.flags, t.ecn), (ACK | FIN, Ecn::NotCapable));
    s.tcb.abort();
    assert_eq!(s.sent_one().ecn, Ecn::NotCapable);
}
