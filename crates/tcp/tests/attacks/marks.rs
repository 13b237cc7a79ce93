//! Marks of congestion made up by the peer or the path: the sender slows down, and stays
//! alive.

use crate::script::{ACK, SYN, Script, plain};
use longshore_tcp::{Config, Congestion, Ecn, EcnMode, Segment};
use longshore_wire::tcp::{AccurateEcn, TcpFlags, TcpOptions};

fn sender(congestion: Congestion, ecn: EcnMode, answer: TcpFlags) -> Script {
    let cfg = Config {
        congestion,
        ecn,
        ..plain()
    };
    let mut s = Script::connecting(&cfg);
    s.sent();
    let options = TcpOptions {
        mss: Some(1_000),
        ..TcpOptions::default()
    };
    let _ = s.arrives_with(SYN | ACK | answer, -1, 0, 0, options);
    s.sent();
    s.window = u16::MAX;
    s
}

/// Sends 200 kB to a peer whose `i`th acknowledgment has these flags and options.
fn transfer(s: &mut Script, acks: impl Fn(u32) -> (TcpFlags, TcpOptions)) -> u32 {
    s.writes(200_000);
    let mut rounds = 0;
    while s.tcb.snd_acked() < 200_000 {
        let sent: usize = s.sent().iter().map(|t| t.payload_len()).sum();
        s.now = s.now.after_ms(10);
        if sent == 0 {
            s.waits_ms(1);
        }
        let (flags, options) = acks(rounds);
        let ack = s.tcb.send_status().sent() as i64;
        let header = s.header(ACK | flags, 0, ack, options);
        let segment = Segment {
            ecn: Ecn::Congested,
            ..Segment::new(&header, 0)
        };
        let _ = s.tcb.on_segment(&segment, s.now);
        assert!(s.tcb.send_status().cwnd() >= 1_000);
        rounds += 1;
        assert!(rounds < 1_000, "stuck at {}", s.tcb.snd_acked());
    }
    rounds
}

#[test]
fn a_peer_that_always_echoes_gets_its_data_slowly() {
    for congestion in Congestion::ALL {
        let mut s = sender(congestion, EcnMode::Request, TcpFlags::ECE);
        let rounds = transfer(&mut s, |_| (TcpFlags::ECE, TcpOptions::default()));
        // Two segments in a round trip are the least threshold; DCTCP and BBR need not
        // come down as far.
        assert!(rounds <= 200, "{congestion:?} {rounds}");
        if congestion == Congestion::NewReno {
            assert!(rounds >= 80, "{rounds}");
        }
    }
}

#[test]
fn counts_that_make_no_sense_are_survived() {
    for congestion in Congestion::ALL {
        let mut s = sender(congestion, EcnMode::RequestAccurate, TcpFlags::CWR);
        transfer(&mut s, |i| {
            let flags = TcpFlags((i.wrapping_mul(0x9e37_79b9) >> 16) as u16 & 0x1c0);
            let count = i.wrapping_mul(0x85eb_ca6b) >> 8;
            let options = TcpOptions {
                accurate_ecn: Some(AccurateEcn {
                    ect0: Some(count),
                    ce: (i % 3 != 0).then_some(count ^ 0xff_ffff),
                    ect1: None,
                }),
                ..TcpOptions::default()
            };
            (flags, options)
        });
    }
}
