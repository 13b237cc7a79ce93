use super::*;

/// 1 byte takes 8 ns, a read 20 us more, a write 10 us.
fn slow() -> BusModel {
    "bandwidth=1Gb/s,latency=20us".parse().unwrap()
}

/// When each thing arrives at the adapter, if nothing else is put.
fn arrivals(engine: &mut TransferEngine<u32>) -> Vec<(u64, u32)> {
    let mut all = Vec::new();
    while let Some(at) = engine.next_event() {
        while let Some((late, item)) = engine.poll_to_adapter(at) {
            all.push((at - late, item));
        }
        while let Some((late, item)) = engine.poll_to_host(at) {
            all.push((at - late, item));
        }
    }
    assert!(engine.is_idle());
    all
}

#[test]
fn a_request_takes_a_doorbell_a_fetch_and_a_read() {
    let mut engine = TransferEngine::new(slow());
    engine.put_payload(0, 1000, SLOT, 1);
    engine.put_request(0, SLOT, 2);
    // Doorbell 10 us and 4 bytes; descriptor 20 us and 64 bytes; payload 20 us and 1,000.
    let there = 10_032 + 20_512 + 28_000;
    assert_eq!(arrivals(&mut engine), [(there, 1), (there, 2)]);
    let load = engine.load(there);
    assert_eq!((load.accesses, load.bytes), (3, [0, 1068]));
    assert!((load.taken_ns[1] - 8544.0).abs() < 1e-6, "{load:?}");
    assert!((load.busy_ns - there as f64).abs() < 1e-6, "{load:?}");
    assert_eq!((load.waiting, load.in_flight), (0, [0, 0]));
}

#[test]
fn time_is_taken_as_it_passes() {
    let mut engine = TransferEngine::new(slow());
    engine.post(1000, 1000, 1);
    // The bus is taken until 9,000, and the write under way until 19,000.
    for (now, taken, busy) in [
        (1000, 0.0, 0.0),
        (5000, 4000.0, 4000.0),
        (10_000, 8000.0, 9000.0),
        (50_000, 8000.0, 18_000.0),
    ] {
        let load = engine.load(now);
        assert_eq!((load.taken_ns[0], load.busy_ns), (taken, busy), "at {now}");
    }
}

#[test]
fn writes_are_posted_and_in_order() {
    let mut engine = TransferEngine::new(slow());
    engine.post(0, 1000, 1);
    engine.post(0, 64, 2);
    engine.post(0, 0, 3);
    // One waits for the bus, and none for the other's latency.
    assert_eq!(
        arrivals(&mut engine),
        [(18_000, 1), (18_512, 2), (18_512, 3)]
    );
}

#[test]
fn descriptors_are_fetched_in_batches() {
    let fetched = |fetch| {
        let mut engine = TransferEngine::new(BusModel { fetch, ..slow() });
        for item in 0..8 {
            engine.put_request(0, SLOT, item);
        }
        let last = arrivals(&mut engine).last().unwrap().0;
        (engine.load(u64::MAX).accesses, last)
    };
    assert_eq!(fetched(16), (2, 10_032 + 20_000 + 8 * 512));
    assert_eq!(fetched(4), (3, 10_032 + 2 * (20_000 + 4 * 512)));
    assert_eq!(fetched(1), (9, 10_032 + 8 * 20_512));
}

#[test]
fn immediate_data_is_fetched_with_its_descriptor() {
    let arrived = |fetch| {
        let mut engine = TransferEngine::new(BusModel { fetch, ..slow() });
        engine.put_immediate(0, (1 + 20) * SLOT, 1);
        engine.put_request(0, SLOT, 2);
        engine.put_request(0, SLOT, 3);
        let all = arrivals(&mut engine);
        (all, engine.load(u64::MAX).accesses)
    };
    // 22 slots in one round trip; or in three, of which the third ends the first request.
    let whole = 10_032 + 20_000 + 22 * 512;
    assert_eq!(arrived(32), ([1, 2, 3].map(|i| (whole, i)).to_vec(), 2));
    let parts = whole + 2 * 20_000;
    assert_eq!(arrived(8), ([1, 2, 3].map(|i| (parts, i)).to_vec(), 4));
}

/// Of what is fetched at once, only the end of the last slot is not: as far as the ring goes.
#[test]
fn what_is_not_used_of_the_last_slot_is_not_fetched() {
    let fetched = |fetch| {
        let mut engine = TransferEngine::new(BusModel { fetch, ..slow() });
        engine.put_request(0, 32, 1);
        engine.put_immediate(0, 24 + 50, 2);
        engine.put_request(0, 24, 3);
        arrivals(&mut engine);
        engine.load(u64::MAX).bytes[1] - DOORBELL
    };
    assert_eq!(fetched(32), 64 + 24 + 50);
    assert_eq!(fetched(2), 64 + 64 + (24 + 50 - 64));
}

#[test]
fn a_doorbell_is_written_only_to_an_adapter_that_does_not_fetch() {
    let mut engine = TransferEngine::new(slow());
    engine.put_request(0, SLOT, 1);
    // The first fetch goes on from 10,032 to 30,544.
    engine.put_request(20_000, SLOT, 2);
    assert_eq!(arrivals(&mut engine), [(30_544, 1), (30_544 + 20_512, 2)]);
    assert_eq!(engine.load(u64::MAX).accesses, 3);
    engine.put_request(100_000, SLOT, 3);
    assert_eq!(arrivals(&mut engine), [(130_544, 3)]);
}

#[test]
fn what_may_be_in_flight_bounds_the_rate() {
    let rate = |in_flight| {
        let mut engine = TransferEngine::new(BusModel {
            in_flight,
            ..slow()
        });
        engine.put_payload(0, 1 << 20, SLOT, 1);
        engine.put_request(0, SLOT, 2);
        let began = 10_032 + 20_512;
        (arrivals(&mut engine)[0].0 - began) as f64
    };
    // The bus's rate; and 2,048 bytes in each 20 us and the time they take.
    let bytes = f64::from(1 << 20);
    assert!((rate(256 * 1024) - 20_000.0 - bytes * 8.0).abs() < 10.0);
    let one_by_one = bytes / 2048.0 * (20_000.0 + 2048.0 * 8.0);
    assert!((rate(2048) - one_by_one).abs() < 600.0, "{}", rate(2048));
}

#[test]
fn an_adapter_that_cuts_through_begins_with_the_first_piece() {
    let first = |forwarding| {
        let mut engine = TransferEngine::new(BusModel {
            forwarding,
            ..slow()
        });
        engine.put_payload(0, 64 * 1024, SLOT, 1);
        engine.put_request(0, SLOT, 2);
        engine.put_payload(0, 1000, SLOT, 3);
        engine.put_request(0, SLOT, 4);
        arrivals(&mut engine)
    };
    let (stored, cut) = (
        first(Forwarding::StoreAndForward),
        first(Forwarding::CutThrough),
    );
    assert_eq!(stored[0].0 - cut[0].0, (64 * 1024 - 2048) * 8);
    assert_eq!(stored[3], cut[3]);
}

#[test]
fn the_adapter_takes_its_time_for_each_request() {
    let mut engine = TransferEngine::new(BusModel {
        adapter_ns: 50_000,
        ..slow()
    });
    for item in 0..3 {
        engine.put_request(0, SLOT, item);
    }
    let there = 10_032 + 20_000 + 3 * 512;
    assert_eq!(
        arrivals(&mut engine),
        [
            (there + 50_000, 0),
            (there + 100_000, 1),
            (there + 150_000, 2)
        ]
    );
}

#[test]
fn more_is_not_posted_than_may_be_in_flight() {
    let mut engine = TransferEngine::new(BusModel {
        in_flight: 4096,
        ..slow()
    });
    engine.post(0, 4000, 1);
    assert!(engine.may_post());
    engine.post(0, 4000, 2);
    assert!(!engine.may_post());
    assert_eq!(engine.poll_to_host(41_999), None);
    assert_eq!(engine.poll_to_host(42_000), Some((0, 1)));
    assert!(engine.may_post());
}

#[test]
fn what_waits_and_what_is_under_way_is_in_the_load() {
    let mut engine = TransferEngine::new(BusModel {
        in_flight: 4096,
        fetch: 2,
        ..slow()
    });
    for item in 0..3 {
        engine.put_payload(0, 3000, SLOT, 2 * item);
        engine.put_request(0, SLOT, 2 * item + 1);
    }
    engine.post(0, 700, 9);
    assert_eq!(engine.load(0).waiting, 6);
    assert_eq!(engine.load(0).in_flight, [0, 700]);
    // Two of the descriptors are there, and one piece of what they name is read at a time.
    let fetched = 10_032 + 20_000 + 2 * 512;
    assert_eq!(engine.poll_to_adapter(fetched), None);
    assert_eq!(engine.load(fetched).waiting, 2);
    assert_eq!(engine.load(fetched).in_flight, [3000, 700]);
    arrivals(&mut engine);
    let load = engine.load(u64::MAX);
    assert_eq!((load.waiting, load.in_flight), (0, [0, 0]));
}

/// Reads that are just as much as may be in flight are begun at once.
#[test]
fn all_that_may_be_in_flight_is() {
    let mut engine = TransferEngine::new(BusModel {
        in_flight: 2 * PIECE,
        ..slow()
    });
    engine.put_payload(0, 3 * PIECE, SLOT, 1);
    engine.put_request(0, SLOT, 2);
    // The doorbell and the descriptor.
    let fetched = 10_032 + 20_512;
    assert_eq!(engine.poll_to_adapter(fetched), None);
    assert_eq!(engine.load(fetched).in_flight[0], 2 * PIECE);
}

/// On PCI-X, both directions have half of the bus when both want all of it.
#[test]
fn a_shared_bus_is_shared() {
    let alone = |both: bool| {
        let mut engine = TransferEngine::new(BusModel::on("pcix".parse().unwrap()));
        engine.put_payload(0, 1 << 20, SLOT, 1);
        engine.put_request(0, SLOT, 2);
        if both {
            for item in 0..512 {
                engine.post(2000, 2048, 10 + item);
            }
        }
        let all = arrivals(&mut engine);
        all.iter().find(|(_, item)| *item == 1).unwrap().0
    };
    let (alone, both) = (alone(false), alone(true));
    assert!((both - alone) as f64 > 0.9 * alone as f64, "{alone} {both}");
}

/// Whatever is put whenever, all of it arrives, in order, and not before a round trip.
#[test]
fn everything_arrives_in_order() {
    for seed in 1..200_u64 {
        let mut random = seed;
        let mut next = |below: u64| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (random >> 33) % below
        };
        let all = AnyBusNames::ALL;
        let mut model = BusModel::on(all[next(all.len() as u64) as usize].parse().unwrap());
        model.fetch = 1 + next(20) as u32;
        model.in_flight = PIECE + next(100_000);
        model.adapter_ns = next(1000);
        let mut engine = TransferEngine::new(model);
        let (mut now, mut expected, mut got) = (0, Vec::new(), Vec::new());
        for item in 0..300 {
            now += next(3000);
            match next(4) {
                0 => engine.put_request(now, 1 + next(SLOT), item),
                1 => engine.put_payload(now, 1 + next(70_000), 1 + next(SLOT), item),
                2 => engine.put_immediate(now, 1 + next(22 * SLOT), item),
                _ if engine.may_post() => {
                    engine.post(now, next(70_000), item);
                    continue;
                }
                _ => continue,
            }
            expected.push(item);
            while let Some((_, item)) = engine.poll_to_adapter(now) {
                got.push(item);
            }
            let mut last = 0;
            while let Some((_, item)) = engine.poll_to_host(now) {
                assert!(item >= last);
                last = item;
            }
        }
        while let Some(at) = engine.next_event() {
            now = now.max(at);
            while let Some((_, item)) = engine.poll_to_adapter(now) {
                got.push(item);
            }
            while engine.poll_to_host(now).is_some() {}
        }
        assert_eq!(got, expected, "seed {seed}");
        assert!(engine.is_idle());
    }
}

/// Buses of all kinds.
struct AnyBusNames;

impl AnyBusNames {
    const ALL: [&'static str; 5] = [
        "pcix",
        "pcie-gen3x1",
        "pcie-gen6x16",
        "cxl",
        "bandwidth=1Gb/s,latency=20us",
    ];
}

/// Alone, a message is handled with its first piece; behind another it is read whole.
#[test]
fn an_adaptive_adapter_cuts_through_what_comes_alone() {
    let arrived = |forwarding, messages: u32| {
        let mut engine = TransferEngine::new(BusModel {
            forwarding,
            ..slow()
        });
        for item in 0..messages {
            engine.put_payload(0, 8192, SLOT, 2 * item);
            engine.put_request(0, SLOT, 2 * item + 1);
        }
        let all = arrivals(&mut engine);
        (all, engine.load(u64::MAX).accesses)
    };
    let [store, cut, adaptive] = Forwarding::ALL;
    assert_eq!(arrived(adaptive, 1), arrived(cut, 1));
    let [(alone, _), (stored, _)] = [arrived(adaptive, 1), arrived(store, 1)];
    // Three of four pieces follow, 8 ns a byte.
    assert_eq!(stored[0].0 - alone[0].0, 3 * 2048 * 8);
    // Of several, all are read in one access each.
    let (loaded, accesses) = arrived(adaptive, 4);
    let (whole, in_pieces) = arrived(store, 4);
    assert_eq!(loaded, whole);
    assert_eq!((accesses, in_pieces), (2 + 4, 2 + 16));
    // Requests that have no payload are no load: they wait in the ring behind it.
    let mut engine = TransferEngine::new(BusModel {
        forwarding: adaptive,
        fetch: 1,
        ..slow()
    });
    engine.put_payload(0, 8192, SLOT, 0);
    engine.put_request(0, SLOT, 1);
    engine.put_request(0, SLOT, 2);
    assert_eq!(arrivals(&mut engine)[0], alone[0]);
    // Once it is quiet again, so is it.
    let mut engine = TransferEngine::new(BusModel {
        forwarding: adaptive,
        ..slow()
    });
    for at in [0, 1_000_000] {
        engine.put_payload(at, 8192, SLOT, 0);
        engine.put_request(at, SLOT, 1);
        assert_eq!(arrivals(&mut engine)[0].0 - at, alone[0].0);
    }
}
