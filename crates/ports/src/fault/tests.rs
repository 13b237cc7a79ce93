//! Every kind of fault happens at its rate and in its direction; without
//! faults nothing changes.

use super::*;
use crate::memory::{MemoryConfig, MemoryPort, pair};
use crate::{GsoKind, RxChecksum, TxChecksum, TxGso};

fn wire(config: FaultConfig) -> (FaultPort<MemoryPort>, MemoryPort) {
    let (a, b) = pair(&MemoryConfig {
        depth: 100_000,
        ..Default::default()
    });
    (FaultPort::new(a, &config), b)
}

fn number(i: u32) -> [u8; 60] {
    let mut frame = [0; 60];
    frame[14..18].copy_from_slice(&i.to_be_bytes());
    frame
}

fn drain(port: &mut impl Port) -> Vec<u32> {
    let mut buf = vec![0; RECV_ROOM];
    let mut got = Vec::new();
    while port.recv(&mut buf).unwrap().is_some() {
        got.push(u32::from_be_bytes([buf[14], buf[15], buf[16], buf[17]]));
    }
    got
}

fn all(p: f64) -> Faults {
    Faults {
        loss: p,
        duplicate: p,
        corrupt: 0.0,
        reorder: p,
    }
}

#[test]
fn without_faults_frames_pass_unchanged() {
    let (mut a, mut b) = wire(FaultConfig::default());
    for i in 0..100 {
        a.send(&TxFrame::whole(&number(i))).unwrap();
        b.send(&TxFrame::whole(&number(i))).unwrap();
    }
    a.flush().unwrap();
    let expected: Vec<u32> = (0..100).collect();
    assert_eq!(drain(&mut b), expected);
    assert_eq!(drain(&mut a), expected);
    assert_eq!(a.counters().drops.total(), 0);
}

#[test]
fn faults_happen_at_their_rates_both_ways() {
    let config = FaultConfig {
        tx: all(0.1),
        rx: all(0.1),
        seed: 5,
    };
    let (mut a, mut b) = wire(config);
    for i in 0..10_000 {
        a.send(&TxFrame::whole(&number(i))).unwrap();
        b.send(&TxFrame::whole(&number(i))).unwrap();
    }
    a.flush().unwrap();
    for (got, counts) in [
        (drain(&mut b), a.fault_counts().0),
        (drain(&mut a), a.fault_counts().1),
    ] {
        assert_eq!(counts.frames, 10_000);
        for n in [counts.lost, counts.duplicated, counts.reordered] {
            assert!((800..1200).contains(&n), "{counts:?}");
        }
        assert_eq!(got.len() as u64, 10_000 - counts.lost + counts.duplicated);
        assert!(!got.is_sorted());
        let farthest = got.iter().zip(0..).map(|(i, at)| u32::abs_diff(*i, at));
        assert!(farthest.max() < Some(10_000));
    }
    let (tx, rx) = a.fault_counts();
    assert_eq!(a.counters().drops.injected_loss, tx.lost + rx.lost);
    assert_ne!(tx, rx);
}

#[test]
fn a_lone_reordered_frame_is_not_kept() {
    let config = FaultConfig {
        tx: Faults {
            reorder: 1.0,
            ..Default::default()
        },
        rx: Faults {
            reorder: 1.0,
            ..Default::default()
        },
        seed: 1,
    };
    let (mut a, mut b) = wire(config);
    a.send(&TxFrame::whole(&number(1))).unwrap();
    a.flush().unwrap();
    assert_eq!(drain(&mut b), [1]);
    b.send(&TxFrame::whole(&number(2))).unwrap();
    assert_eq!(drain(&mut a), [2]);
}

/// A frame of `total` payload bytes, to be cut at 1000.
fn coalesced(total: usize) -> Vec<u8> {
    let mut f = vec![0x02; 12];
    f.extend([8, 0, 0x45, 0]);
    f.extend(((28 + total) as u16).to_be_bytes());
    f.extend([0, 1, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    f.extend([0, 7, 0, 9]);
    f.extend(((8 + total) as u16).to_be_bytes());
    f.extend([0, 0]);
    f.extend((0..total).map(|i| i as u8));
    f
}

#[test]
fn segments_meet_their_fates_one_by_one() {
    let config = FaultConfig {
        tx: Faults {
            loss: 0.5,
            ..Default::default()
        },
        rx: Faults {
            loss: 0.5,
            ..Default::default()
        },
        seed: 2,
    };
    let (mut a, mut b) = wire(config);
    let bytes = coalesced(60_000);
    let frame = TxFrame {
        checksum: Some(TxChecksum {
            start: 34,
            offset: 6,
        }),
        gso: Some(TxGso {
            kind: GsoKind::Udp,
            size: 1000,
            header_len: 42,
        }),
        ..TxFrame::whole(&bytes)
    };
    a.send(&frame).unwrap();
    a.flush().unwrap();
    let got = drain(&mut b).len();
    assert!((15..45).contains(&got), "{got} of 60");
    b.send(&frame).unwrap();
    let mut buf = vec![0; RECV_ROOM];
    let mut got = 0;
    while let Some(meta) = a.recv(&mut buf).unwrap() {
        assert_eq!(meta.len, 1042);
        assert_eq!((meta.checksum, meta.gso), (RxChecksum::Unknown, None));
        got += 1;
    }
    assert!((15..45).contains(&got), "{got} of 60");
}

#[test]
fn corruption_flips_one_bit_behind_the_link_header() {
    let config = FaultConfig {
        tx: Faults {
            corrupt: 1.0,
            ..Default::default()
        },
        ..Default::default()
    };
    let (mut a, mut b) = wire(config);
    let mut buf = [0; 100];
    for _ in 0..100 {
        a.send(&TxFrame::whole(&[0; 60])).unwrap();
        b.recv(&mut buf).unwrap().unwrap();
        let flipped: u32 = buf[..60].iter().map(|b| b.count_ones()).sum();
        assert_eq!(flipped, 1);
        assert_eq!(buf[..14], [0; 14]);
    }
}

#[test]
fn a_full_port_below_pushes_back_and_loses_nothing() {
    let (a, mut b) = pair(&MemoryConfig {
        depth: 2,
        ..Default::default()
    });
    let mut a = FaultPort::new(a, &FaultConfig::default());
    let (mut got, mut sent) = (Vec::new(), 0);
    while sent < 20 {
        match a.send(&TxFrame::whole(&number(sent))) {
            Ok(()) => sent += 1,
            Err(error) => {
                assert_eq!(error, PortError::Full);
                got.extend(drain(&mut b));
            }
        }
    }
    while b.waiting() > 0 {
        got.extend(drain(&mut b));
        a.flush().unwrap();
    }
    assert_eq!(got, (0..20).collect::<Vec<u32>>());
}
