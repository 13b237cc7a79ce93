//! Handshakes without state.

use super::*;
use crate::Congestion;
use crate::info::TcpInfo;
use crate::state::State;
use longshore_wire::tcp::Timestamps;
use proptest::prelude::*;

const NOW: Instant = Instant(7_200_000_000);
const OFFSET: u32 = 12_345;

/// The engine's hash for the connection `flow`.
fn hash(flow: u64) -> impl Fn([u32; 2]) -> u64 {
    move |[a, b]| {
        let x = (flow ^ u64::from(a) << 32 ^ u64::from(b)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (x ^ x >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 17
    }
}

fn syn(options: TcpOptions, flags: TcpFlags) -> TcpHeader {
    TcpHeader {
        src_port: 40_000,
        dst_port: 80,
        seq: SeqNumber(0xffff_fff0),
        ack: SeqNumber(0),
        flags: TcpFlags::SYN | flags,
        window: 64_000,
        urgent: 0,
        options,
    }
}

fn all_options() -> TcpOptions {
    TcpOptions {
        mss: Some(1400),
        window_scale: Some(9),
        sack_permitted: true,
        timestamps: Some(Timestamps { val: 77, echo: 0 }),
        ..TcpOptions::default()
    }
}

/// The acknowledgment that a peer sends for a SYN-ACK.
fn ack_of(syn: &TcpHeader, syn_ack: &Transmit) -> TcpHeader {
    TcpHeader {
        seq: syn.seq.add(1),
        ack: syn_ack.seq.add(1),
        flags: TcpFlags::ACK,
        window: 500,
        options: TcpOptions {
            timestamps: syn_ack.options.timestamps.map(|t| Timestamps {
                val: 90,
                echo: t.val,
            }),
            ..TcpOptions::default()
        },
        ..syn.clone()
    }
}

/// The whole handshake; what came of it.
fn handshake(cfg: &Config, syn: &TcpHeader) -> (Transmit, Tcb, TcpInfo) {
    let hash = hash(1);
    let segment = Segment::new(syn, 0);
    let syn_ack = SynCookie::answer(cfg, &segment, 1460, OFFSET, &hash, NOW).unwrap();
    let later = NOW.after_ms(40);
    let ack = ack_of(syn, &syn_ack);
    let ack = Segment::new(&ack, 0);
    let cookie = SynCookie::check(&ack, &hash, later).expect("a good cookie");
    let mut tcb = cookie.open(cfg, 1460, OFFSET, later);
    let _ = tcb.on_segment(&ack, later);
    assert_eq!(tcb.state(), State::Established);
    let info = tcb.info(later);
    (syn_ack, tcb, info)
}

#[test]
fn all_options_come_back() {
    let cfg = Config {
        ecn: EcnMode::AcceptAccurate,
        ..Config::default()
    };
    let syn = syn(all_options(), TcpFlags::CWR | TcpFlags::ECE);
    let (syn_ack, mut tcb, info) = handshake(&cfg, &syn);
    assert_eq!(syn_ack.flags, TcpFlags::SYN | TcpFlags::ACK | TcpFlags::ECE);
    assert_eq!(syn_ack.options.mss, Some(1460));
    assert!(info.timestamps && info.sack && info.window_scaling && info.ecn);
    assert_eq!(info.snd_wscale, 9);
    assert_eq!(info.rcv_wscale, syn_ack.options.window_scale.unwrap());
    // 1400 is rounded down to what is remembered.
    assert_eq!(info.snd_mss, 1360 - 12);
    assert_eq!(info.snd_wnd, 500 << 9);
    // It works: data both ways.
    tcb.set_snd_edge(5_000, true);
    let sent = tcb.poll_transmit(NOW.after_ms(41), 1348).unwrap();
    assert_eq!(sent.seq, syn_ack.seq.add(1));
    // The clock does not go back for what hides in it.
    let stamped = sent.options.timestamps.unwrap().val;
    assert!(stamped.wrapping_sub(syn_ack.options.timestamps.unwrap().val) < 200);
}

#[test]
fn without_timestamps_only_the_mss_is_kept() {
    let cfg = Config {
        congestion: Congestion::Dctcp,
        ecn: EcnMode::Accept,
        ..Config::default()
    };
    let options = TcpOptions {
        timestamps: None,
        ..all_options()
    };
    let syn = syn(options, TcpFlags::CWR | TcpFlags::ECE);
    let (syn_ack, _, info) = handshake(&cfg, &syn);
    assert_eq!(syn_ack.flags, TcpFlags::SYN | TcpFlags::ACK);
    let o = syn_ack.options;
    assert!(o.window_scale.is_none() && !o.sack_permitted && o.timestamps.is_none());
    assert!(!info.timestamps && !info.sack && !info.window_scaling && !info.ecn);
    assert_eq!((info.snd_mss, info.snd_wnd), (1360, 500));
}

#[test]
fn a_peer_without_options_gets_the_least() {
    let (_, _, info) = handshake(
        &Config::default(),
        &syn(TcpOptions::default(), TcpFlags::NONE),
    );
    assert_eq!(info.snd_mss, 536);
}

#[test]
fn a_cookie_is_good_for_its_flow_and_two_minutes() {
    let syn = syn(all_options(), TcpFlags::NONE);
    let segment = Segment::new(&syn, 0);
    let mine = hash(1);
    let syn_ack =
        SynCookie::answer(&Config::default(), &segment, 1460, OFFSET, &mine, NOW).unwrap();
    let ack = ack_of(&syn, &syn_ack);
    let check = |ack: &TcpHeader, flow, now| {
        SynCookie::check(&Segment::new(ack, 0), &hash(flow), now).is_some()
    };
    assert!(check(&ack, 1, NOW));
    assert!(check(&ack, 1, NOW.after_ms(60_000)));
    assert!(!check(&ack, 1, NOW.after_ms(120_000)), "old");
    assert!(!check(&ack, 1, Instant(NOW.0 - 60_000_000)), "not yet made");
    assert!(!check(&ack, 2, NOW), "another flow");
    let mut other = ack.clone();
    other.seq = other.seq.add(1);
    assert!(!check(&other, 1, NOW), "another sequence number");
    // The bits of minute and size are covered by the hash.
    for bit in 0..32 {
        let mut forged = ack.clone();
        forged.ack = SeqNumber(((forged.ack.0 - 1) ^ (1 << bit)).wrapping_add(1));
        assert!(!check(&forged, 1, NOW), "bit {bit}");
    }
}

#[test]
fn guessing_is_in_vain() {
    let header = ack_of(
        &syn(all_options(), TcpFlags::NONE),
        &SynCookie::answer(
            &Config::default(),
            &Segment::new(&syn(all_options(), TcpFlags::NONE), 0),
            1460,
            OFFSET,
            &hash(1),
            NOW,
        )
        .unwrap(),
    );
    let good = (0..100_000u32)
        .filter(|i| {
            let mut guess = header.clone();
            guess.ack = SeqNumber(i.wrapping_mul(0x9e37_79b9));
            SynCookie::check(&Segment::new(&guess, 0), &hash(1), NOW).is_some()
        })
        .count();
    assert!(good <= 1, "{good}");
}

#[test]
fn timestamps_hide_bits_without_running_ahead() {
    for clock in [0u32, 1, 63, 64, 1_000_000, u32::MAX] {
        for kept in [0u32, 1, 31, 63] {
            let val = stamp(clock, kept);
            assert_eq!(val & 63, kept);
            assert!(clock.wrapping_sub(val) < 64, "{clock} {kept}");
        }
    }
}

/// What the SYN did not offer is not made up from the bits of the cookie; the round trip of a
/// SYN-ACK that was sent at an unknown time is none.
#[test]
fn a_cookie_has_what_was_offered_and_no_more() {
    for (sack, ecn, scale) in [
        (false, false, None),
        (true, false, Some(3)),
        (false, true, Some(0)),
        (true, true, Some(14)),
    ] {
        let options = TcpOptions {
            window_scale: scale,
            sack_permitted: sack,
            ..all_options()
        };
        let asks = if ecn {
            TcpFlags::CWR | TcpFlags::ECE
        } else {
            TcpFlags::NONE
        };
        for mode in [EcnMode::Off, EcnMode::Accept, EcnMode::RequestAccurate] {
            let cfg = Config {
                ecn: mode,
                ..Config::default()
            };
            let header = syn(options, asks);
            let segment = Segment::new(&header, 0);
            let hash = hash(5);
            let answer = SynCookie::answer(&cfg, &segment, 1460, OFFSET, &hash, NOW);
            let syn_ack = answer.expect("a cookie");
            let ack = ack_of(&header, &syn_ack);
            let ack = Segment::new(&ack, 0);
            let cookie = SynCookie::check(&ack, &hash, NOW).expect("ours");
            let mut tcb = cookie.open(&cfg, 1460, OFFSET, NOW);
            assert!(!tcb.flight.round_trip.is_running());
            let _ = tcb.on_segment(&ack, NOW.after_us(10_000));
            assert_eq!(tcb.snd.rtt.srtt(), None);
            let info: TcpInfo = tcb.info(NOW);
            assert_eq!(info.sack, sack, "{scale:?}");
            assert_eq!(info.ecn, ecn && mode != EcnMode::Off, "{scale:?} {mode:?}");
            assert_eq!(info.window_scaling, scale.is_some());
            assert_eq!(info.snd_wscale, scale.unwrap_or(0));
        }
    }
}

/// Without timestamps there is nowhere to keep that ECN was agreed on, which DCTCP relies upon;
/// the other algorithms are as chosen.
#[test]
fn the_algorithm_is_the_one_that_was_chosen_where_it_can_be() {
    for which in Congestion::ALL {
        let cfg = Config {
            congestion: which,
            ..Config::default()
        };
        let plain = SynCookie::terms(&cfg, false).congestion;
        if which == Congestion::Dctcp {
            assert_eq!(plain, Congestion::NewReno);
        } else {
            assert_eq!(plain, which);
        }
        assert_eq!(SynCookie::terms(&cfg, true).congestion, which);
    }
}

proptest! {
    /// Whatever an acknowledgment carries, what is made of it works or is refused.
    #[test]
    fn any_acknowledgment_is_survived(
        seq in any::<u32>(),
        ack in any::<u32>(),
        stamps in proptest::option::of(any::<(u32, u32)>()),
        // A hash that lets everything through.
        lax in any::<bool>(),
    ) {
        let options = TcpOptions {
            timestamps: stamps.map(|(val, echo)| Timestamps { val, echo }),
            ..TcpOptions::default()
        };
        let header = TcpHeader {
            seq: SeqNumber(seq),
            ack: SeqNumber(ack),
            flags: TcpFlags::ACK,
            ..syn(options, TcpFlags::NONE)
        };
        let segment = Segment::new(&header, 100);
        let iss = ack.wrapping_sub(1);
        let now = Instant(u64::from(iss >> 27) * 60_000_000);
        let hash = |_: [u32; 2]| if lax { u64::from(iss) } else { 0 };
        if let Some(cookie) = SynCookie::check(&segment, &hash, now) {
            let mut tcb = cookie.open(&Config::default(), 1460, 0, now);
            let _ = tcb.on_segment(&segment, now);
            prop_assert_eq!(tcb.state(), State::Established);
        } else {
            prop_assert!(!lax);
        }
    }
}
