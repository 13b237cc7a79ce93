//! A block that is put away in a record after each step does what one that is kept does.

use super::*;
use crate::config::{EcnMode, Keepalive, ReceiveLimits, Retries};
use crate::icmp::IcmpError;
use crate::restore::SavedTcb;
use crate::segment::{Disposition, Ecn, Transmit};
use crate::time::SECOND;
use proptest::prelude::*;

const ISS: u32 = u32::MAX - 3;
const IRS: u32 = 7_000;
const MSS: u16 = 1_400;
const BEGAN: Instant = Instant(10_000_000);

#[test]
fn a_record_is_small() {
    assert!(size_of::<HalfOpen>() <= 104, "{}", size_of::<HalfOpen>());
}

/// What happens to a half-open connection.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// A segment of the peer: flags, and its distance from the expected numbers.
    Segment {
        flags: u16,
        seq: i32,
        ack: i32,
        payload: u32,
        stamp: Option<i32>,
        ecn: u8,
    },
    /// Time passes, in microseconds, and the timer goes off if it is due.
    Time(u64),
    /// The timer goes off.
    Timeout,
    /// The path takes no more than this.
    PathMss(u16),
    /// An ICMP error that quotes the SYN-ACK, or a number beside it.
    Icmp(u32),
}

/// One of two that should do the same.
struct Side {
    tcb: Tcb,
    /// It is put away after each step.
    is_recorded: bool,
}

fn all_sent(tcb: &mut Tcb, now: Instant) -> Vec<Transmit> {
    std::iter::from_fn(|| tcb.poll_transmit(now, 0)).collect()
}

impl Side {
    fn take(&mut self, cfg: &Config, step: Step, now: Instant) -> (Disposition, Vec<Transmit>) {
        let mut disposition = Disposition::default();
        match step {
            Step::Segment {
                flags,
                seq,
                ack,
                payload,
                stamp,
                ecn,
            } => {
                let timestamps = stamp.map(|val| Timestamps {
                    val: 500u32.wrapping_add_signed(val),
                    echo: 10_000,
                });
                let header = TcpHeader {
                    src_port: 1,
                    dst_port: 2,
                    seq: SeqNumber(IRS.wrapping_add(1).wrapping_add_signed(seq)),
                    ack: SeqNumber(ISS.wrapping_add(1).wrapping_add_signed(ack)),
                    flags: TcpFlags(flags),
                    window: 3_000,
                    urgent: 0,
                    options: TcpOptions {
                        timestamps,
                        ..TcpOptions::default()
                    },
                };
                let segment = Segment {
                    ecn: ecn_of(ecn),
                    ..Segment::new(&header, payload)
                };
                disposition = self.tcb.on_segment(&segment, now);
            }
            Step::Time(_) | Step::Timeout => {
                if self.tcb.deadline().is_some_and(|at| at <= now) {
                    self.tcb.on_timer(now);
                }
            }
            Step::PathMss(mss) => self.tcb.segment_size().set_path_mss(mss),
            Step::Icmp(off) => {
                let seq = SeqNumber(ISS.wrapping_add(off));
                if self.is_recorded && self.tcb.state() == State::SynReceived {
                    let record = HalfOpen::of(&self.tcb).expect("it is half-open");
                    assert_eq!(
                        record.is_in_flight(seq),
                        self.tcb.send_status().is_in_flight(seq)
                    );
                }
                self.tcb.on_icmp(IcmpError::HostUnreachable, seq);
            }
        }
        let sent = all_sent(&mut self.tcb, now);
        if self.is_recorded && self.tcb.state() == State::SynReceived {
            let record = HalfOpen::of(&self.tcb).expect("it is half-open");
            assert_eq!(record.repeats(), self.tcb.liveness.retries());
            self.tcb = record.open(cfg);
        }
        (disposition, sent)
    }
}

fn ecn_of(bits: u8) -> Ecn {
    match bits & 3 {
        0 => Ecn::NotCapable,
        1 => Ecn::Capable1,
        2 => Ecn::Capable0,
        _ => Ecn::Congested,
    }
}

/// Nothing but a SYN has arrived, so what comes with its number again repeats no data of which our
/// acknowledgment was lost: its stamp counts for nothing.
#[test]
fn a_duplicate_in_the_handshake_changes_no_stamp() {
    let cfg = Config::default();
    let stamps = |val| TcpOptions {
        timestamps: Some(Timestamps { val, echo: 0 }),
        ..TcpOptions::default()
    };
    let header = |flags, seq, val| TcpHeader {
        src_port: 1,
        dst_port: 2,
        seq: SeqNumber(seq),
        ack: SeqNumber(ISS.wrapping_add(1)),
        flags,
        window: 3_000,
        urgent: 0,
        options: stamps(val),
    };
    let syn = header(TcpFlags::SYN, IRS, 500);
    let mut tcb = Tcb::accept(&cfg, &Segment::new(&syn, 0), MSS, SeqNumber(ISS), 77, BEGAN);
    all_sent(&mut tcb, BEGAN);
    let duplicate = header(TcpFlags::ACK, IRS, 501);
    let dropped = tcb.on_segment(&Segment::new(&duplicate, 0), BEGAN.after_us(1));
    assert_eq!(dropped.drop, Some(crate::DropReason::Duplicate));
    assert_eq!((tcb.stamps.recent(), tcb.stamps.recent_at()), (500, BEGAN));
}

/// RFC 9293 section 3.5: the third segment of the handshake, and nothing beside it.
#[test]
fn a_bare_acknowledgment_of_the_syn_ack_completes_it_alone() {
    let header = |flags, seq: u32, ack: u32| TcpHeader {
        src_port: 1,
        dst_port: 2,
        seq: SeqNumber(IRS.wrapping_add(seq)),
        ack: SeqNumber(ISS.wrapping_add(ack)),
        flags,
        window: 3_000,
        urgent: 0,
        options: TcpOptions::default(),
    };
    let syn = header(TcpFlags::SYN, 0, 0);
    let cfg = Config::default();
    let mut tcb = Tcb::accept(&cfg, &Segment::new(&syn, 0), MSS, SeqNumber(ISS), 77, BEGAN);
    all_sent(&mut tcb, BEGAN);
    let record = HalfOpen::of(&tcb).expect("it is half-open");
    assert_eq!(
        record.retransmit_at(),
        tcb.deadline().expect("a timer runs")
    );
    let ack = TcpFlags::ACK;
    let only = |flags, seq, ack, len| {
        let header = header(flags, seq, ack);
        record.is_only_completed_by(&Segment::new(&header, len))
    };
    assert!(only(ack, 1, 1, 0));
    for more in [TcpFlags::PSH, TcpFlags::ECE, TcpFlags::CWR, TcpFlags::AE] {
        assert!(only(ack | more, 1, 1, 0), "{more:?}");
    }
    for more in [TcpFlags::SYN, TcpFlags::FIN, TcpFlags::RST, TcpFlags::URG] {
        assert!(!only(ack | more, 1, 1, 0), "{more:?}");
    }
    assert!(!only(TcpFlags::PSH, 1, 1, 0));
    assert!(!only(ack, 1, 1, 1), "it has payload");
    for (seq, ack_of) in [(0, 1), (2, 1), (1, 0), (1, 2)] {
        assert!(!only(ack, seq, ack_of, 0), "{seq} {ack_of}");
    }
}

fn any_config() -> impl Strategy<Value = Config> {
    let options = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    let numbers = (0u8..6, prop_oneof![Just(0u32), 500u32..200_000], 0u8..4);
    (options, numbers).prop_map(
        |((scaling, stamps, sack, advised), (ecn, user, retries))| Config {
            window_scaling: scaling,
            timestamps: stamps,
            sack,
            user_timeout_option: advised,
            user_timeout_ms: user,
            retries: Retries {
                syn_ack: retries,
                ..Retries::default()
            },
            ecn: EcnMode::from_number(ecn).expect("one of six"),
            keepalive: Keepalive {
                enabled: true,
                ..Keepalive::default()
            },
            rcv: ReceiveLimits::new(200_000, 2_000_000),
            ..Config::default()
        },
    )
}

fn any_syn() -> impl Strategy<Value = (TcpHeader, u8)> {
    let options = (
        proptest::option::of(40u16..9_000),
        proptest::option::of(0u8..20),
        any::<bool>(),
        any::<bool>(),
        proptest::option::of(1u16..2_000),
    );
    let ecn = prop_oneof![Just(0u16), Just(0x0c0), Just(0x1c0), Just(0x040)];
    (options, any::<u16>(), ecn, 0u8..4).prop_map(
        |((mss, window_scale, sack_permitted, stamped, user_timeout), window, flags, ecn)| {
            let header = TcpHeader {
                src_port: 1,
                dst_port: 2,
                seq: SeqNumber(IRS),
                ack: SeqNumber(0),
                flags: TcpFlags(TcpFlags::SYN.0 | flags),
                window,
                urgent: 0,
                options: TcpOptions {
                    mss,
                    window_scale,
                    sack_permitted,
                    timestamps: stamped.then_some(Timestamps { val: 500, echo: 0 }),
                    user_timeout,
                    ..TcpOptions::default()
                },
            };
            (header, ecn)
        },
    )
}

fn any_step() -> impl Strategy<Value = Step> {
    let off = || prop_oneof![4 => Just(0i32), 2 => -2i32..3, 1 => any::<i32>()];
    let flags = prop_oneof![
        2 => Just(TcpFlags::SYN.0),
        2 => Just(TcpFlags::RST.0),
        4 => Just(TcpFlags::ACK.0),
        1 => Just(TcpFlags::ACK.0 | TcpFlags::SYN.0),
        1 => Just(TcpFlags::ACK.0 | TcpFlags::FIN.0),
        1 => any::<u16>().prop_map(|bits| bits & 0x1ff),
    ];
    let stamp = proptest::option::of(prop_oneof![3 => Just(0i32), 1 => -5i32..5]);
    let payload = prop_oneof![3 => Just(0u32), 1 => 1u32..3_000];
    let segment = (flags, off(), off(), payload, stamp, 0u8..4).prop_map(
        |(flags, seq, ack, payload, stamp, ecn)| Step::Segment {
            flags,
            seq,
            ack,
            payload,
            stamp,
            ecn,
        },
    );
    // A retransmitted SYN has the sequence number before the expected one.
    let again = proptest::option::of(Just(0i32)).prop_map(|stamp| Step::Segment {
        flags: TcpFlags::SYN.0,
        seq: -1,
        ack: 0,
        payload: 0,
        stamp,
        ecn: 0,
    });
    prop_oneof![
        4 => segment,
        2 => again,
        2 => (0u64..2 * SECOND).prop_map(Step::Time),
        4 => Just(Step::Timeout),
        1 => (40u16..=MSS).prop_map(Step::PathMss),
        1 => (0u32..2).prop_map(Step::Icmp),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Both say the same at each step; when the handshake is over, all that is saved of
    /// them is the same.
    #[test]
    fn a_record_does_what_the_block_would(
        cfg in any_config(),
        (header, ecn) in any_syn(),
        grants in any::<bool>(),
        steps in proptest::collection::vec(any_step(), 1..12),
    ) {
        let syn = Segment { ecn: ecn_of(ecn), ..Segment::new(&header, 0) };
        let mut tcb = Tcb::accept(&cfg, &syn, MSS, SeqNumber(ISS), 77, BEGAN);
        prop_assert!(HalfOpen::of(&tcb).is_none(), "its SYN-ACK was not sent");
        if grants {
            tcb.syn_data().give_cookie(FastOpenCookie::new(&[7; 8]).expect("eight bytes"));
        }
        all_sent(&mut tcb, BEGAN);
        let record = HalfOpen::of(&tcb).expect("it is half-open");
        let mut kept = Side { tcb, is_recorded: false };
        let mut recorded = Side { tcb: record.open(&cfg), is_recorded: true };
        let mut now = BEGAN;
        for step in steps {
            if kept.tcb.state() != State::SynReceived {
                break;
            }
            match step {
                Step::Time(us) => now = now.after_us(us),
                Step::Timeout => now = kept.tcb.deadline().map_or(now, |at| at.max(now)),
                _ => {}
            }
            prop_assert_eq!(kept.tcb.deadline(), recorded.tcb.deadline());
            let (of_kept, of_recorded) = (
                kept.take(&cfg, step, now),
                recorded.take(&cfg, step, now),
            );
            prop_assert_eq!(of_kept, of_recorded, "{:?}", step);
            prop_assert_eq!(kept.tcb.state(), recorded.tcb.state());
            prop_assert_eq!(kept.tcb.take_events(), recorded.tcb.take_events());
        }
        let is_over = kept.tcb.state().is_synchronized();
        if is_over {
            let (kept, recorded) = (SavedTcb::of(&kept.tcb), SavedTcb::of(&recorded.tcb));
            prop_assert!(kept == recorded, "{:?}\n{:?}", kept, recorded);
        }
    }
}

/// A record replaces a passive open alone: not a SYN that met another one, not what a program has
/// already, and not before the SYN-ACK was sent.
#[test]
fn nothing_else_has_a_record() {
    use crate::script::{SYN, Script, plain};
    let mut s = Script::connecting(&plain());
    assert_eq!(HalfOpen::of(&s.tcb), None);
    s.sent();
    let _ = s.arrives(SYN, -1, 0, 0);
    assert_eq!(s.tcb.state(), State::SynReceived);
    s.sent();
    assert_eq!(HalfOpen::of(&s.tcb), None);
    let header = s.header(SYN, -1, 0, TcpOptions::default());
    for early in [false, true] {
        let mut tcb = Tcb::accept(
            &plain(),
            &Segment::new(&header, 10),
            MSS,
            SeqNumber(ISS),
            0,
            BEGAN,
        );
        assert_eq!(HalfOpen::of(&tcb), None);
        if early {
            let _ = tcb.syn_data().accept(&Segment::new(&header, 10), BEGAN);
        }
        assert_eq!(all_sent(&mut tcb, BEGAN).len(), 1);
        assert_eq!(HalfOpen::of(&tcb).is_some(), !early);
    }
    assert_eq!(HalfOpen::of(&Script::established().tcb), None);
}

/// What the SYN-ACK has offered stays offered, whatever the listener is told afterwards.
#[test]
fn what_was_offered_is_kept() {
    let options = TcpOptions {
        mss: Some(MSS),
        window_scale: Some(3),
        ..TcpOptions::default()
    };
    let header = crate::script::Script::established().header(TcpFlags::SYN, -1, 0, options);
    let syn = Segment::new(&header, 0);
    let small = Config {
        mss: 700,
        rcv: ReceiveLimits::new(20_000, 20_000),
        ..Config::default()
    };
    let large = Config {
        mss: 0,
        rcv: ReceiveLimits::new(1 << 24, 1 << 24),
        ..Config::default()
    };
    for (then, now) in [(&small, &large), (&large, &small)] {
        let mut tcb = Tcb::accept(then, &syn, MSS, SeqNumber(ISS), 0, BEGAN);
        all_sent(&mut tcb, BEGAN);
        let again = HalfOpen::of(&tcb).expect("a record").open(now);
        assert_eq!(again.rcv.wscale(), tcb.rcv.wscale());
        assert_eq!(again.rcv.mss(), tcb.rcv.mss().min(again.rcv.mss()));
        if then.mss != 0 {
            assert_eq!(again.rcv.mss(), tcb.rcv.mss());
        }
    }
}
