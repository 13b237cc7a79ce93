//! The wire keeps its promises on time, rate, queue, and the same from a seed.

use super::*;

const MS: Duration = Duration::from_millis(1);

fn drain(port: &mut SimPort) -> Vec<u8> {
    let mut buf = [0; 2000];
    let mut firsts = Vec::new();
    while port.recv(&mut buf).unwrap().is_some() {
        firsts.push(buf[14]);
    }
    firsts
}

fn number(i: u8) -> [u8; 100] {
    let mut frame = [0; 100];
    frame[14] = i;
    frame
}

fn wire_of(forth: Direction) -> (SimPort, SimPort, SimClock) {
    wire(&SimConfig {
        forth,
        ..Default::default()
    })
}

#[test]
fn frames_arrive_after_the_delay_and_not_before() {
    let (mut a, mut b, clock) = wire_of(Direction {
        delay: 10 * MS,
        ..Default::default()
    });
    a.send(&TxFrame::whole(&number(1))).unwrap();
    assert_eq!(clock.next_arrival(), Some(10 * MS));
    clock.advance_to(9 * MS);
    assert_eq!(drain(&mut b), []);
    clock.advance_to(10 * MS);
    assert_eq!(drain(&mut b), [1]);
    assert_eq!(clock.next_arrival(), None);
}

#[test]
fn a_rate_spaces_frames_and_a_queue_bounds_them() {
    // 100 bytes take 1 ms; four of them fit the queue behind the one on the wire.
    let (mut a, mut b, clock) = wire_of(Direction {
        rate: Some(800_000),
        queue: 500,
        ..Default::default()
    });
    for i in 0..10 {
        a.send(&TxFrame::whole(&number(i))).unwrap();
    }
    assert_eq!(a.counters().drops.queue_full, 5);
    let mut arrived = Vec::new();
    while let Some(at) = clock.next_arrival() {
        clock.advance_to(at);
        arrived.extend(drain(&mut b).into_iter().map(|i| (i, at)));
    }
    let expected: Vec<_> = (0..5u8).map(|i| (i, (u32::from(i) + 1) * MS)).collect();
    assert_eq!(arrived, expected);
}

fn run(seed: u64) -> (Vec<u8>, [FaultCounts; 2]) {
    let (mut a, mut b, clock) = wire(&SimConfig {
        seed,
        forth: Direction {
            delay: 5 * MS,
            jitter: 3 * MS,
            faults: Faults {
                loss: 0.1,
                duplicate: 0.1,
                corrupt: 0.1,
                reorder: 0.1,
            },
            reorder_by: 4 * MS,
            ..Default::default()
        },
        ..Default::default()
    });
    let mut got = Vec::new();
    for i in 0..200u32 {
        clock.advance_to(i * MS);
        a.send(&TxFrame::whole(&number(i as u8))).unwrap();
        got.extend(drain(&mut b));
    }
    clock.advance_to(Duration::from_secs(10));
    got.extend(drain(&mut b));
    (got, clock.fault_counts())
}

#[test]
fn corruption_of_what_has_no_checksum_is_loss() {
    let (mut a, mut b, clock) = wire_of(Direction {
        faults: Faults {
            corrupt: 1.0,
            ..Faults::default()
        },
        ..Default::default()
    });
    let mut arp = number(1);
    arp[12..14].copy_from_slice(&[0x08, 0x06]);
    a.send(&TxFrame::whole(&arp)).unwrap();
    a.send(&TxFrame::whole(&number(2))).unwrap();
    clock.advance_to(MS);
    let mut frame = [0; 200];
    let got = b.recv(&mut frame).unwrap();
    assert_eq!(got.map(|meta| meta.len), Some(100));
    assert_eq!(frame[12..14], [0, 0]);
    assert_eq!(b.recv(&mut frame).unwrap(), None);
}

#[test]
fn a_seed_repeats_and_another_differs() {
    let (got, counts) = run(3);
    assert_eq!((got.clone(), counts), run(3));
    assert_ne!(got, run(4).0);
    let c = counts[0];
    assert_eq!(c.frames, 200);
    assert!(c.lost > 5 && c.duplicated > 5 && c.corrupted > 5 && c.reordered > 5);
    assert_eq!(got.len() as u64, 200 - c.lost + c.duplicated);
    assert!(!got.is_sorted());
}

#[test]
fn jitter_alone_keeps_order() {
    let (mut a, mut b, clock) = wire_of(Direction {
        delay: MS,
        jitter: 50 * MS,
        ..Default::default()
    });
    for i in 0..100 {
        clock.advance_to(u32::from(i) * MS);
        a.send(&TxFrame::whole(&number(i))).unwrap();
    }
    clock.advance_to(Duration::from_secs(1));
    assert_eq!(drain(&mut b), (0..100).collect::<Vec<u8>>());
}
