//! The meter against an observer that compares the memory of both sides before and after: for
//! the life of connections, from the first request to the last block that comes back, all
//! that crosses is counted, and nobody writes what is not its to write.

use super::machine::Machine;
use super::responses::Response;
use super::scenario::Scenario;
use super::world::World;
use std::collections::BTreeSet;

/// What the inventory of the interface says is not counted, as far as a connection's life
/// has it.
const UNCOUNTED: [(&str, &str); 8] = [
    ("header", "files"),
    ("header", "free_sockets"),
    ("header", "warm_snd_chunks"),
    ("send chunk link", ""),
    ("socket block", "edge"),
    ("socket block", "lock"),
    ("socket block", "told"),
    ("socket link", ""),
];

fn compare(machine: &Machine) {
    let observer = machine.observer.as_ref().unwrap();
    let (meter, seen) = (machine.crossings(), observer.seen);
    let (sent, received) = observer.payload();

    let (to_adapter, immediate) = (meter.to_adapter, seen.to_adapter.immediate);
    assert_eq!(to_adapter.descriptors, seen.to_adapter);
    // Nothing held up what came with its descriptor, so none of it was read a second time.
    assert_eq!(to_adapter.payload.bytes, sent - immediate);
    assert!(immediate > 0 && immediate < sent, "{seen:?}");
    assert_eq!(to_adapter.control, seen.records);

    let (to_host, immediate) = (meter.to_host, seen.to_host.immediate);
    assert_eq!(to_host.descriptors, seen.to_host);
    assert_eq!(to_host.payload.bytes, received - immediate);
    assert!(immediate > 0 && immediate < received, "{seen:?}");
    assert_eq!(to_host.control, seen.control);
    for payload in [to_adapter.payload, to_host.payload] {
        let words = payload.bytes.div_ceil(8)..=(payload.bytes + 7 * payload.transfers) / 8;
        assert!(words.contains(&payload.words), "{payload:?}");
    }
    // Each frame is at most two pieces of payload.
    let (pieces, frames) = (to_host.payload.transfers, machine.frames());
    assert!((1..=2 * frames).contains(&pieces), "{meter:?} {seen:?}");
    // Programs that are simulated do not sleep.
    assert_eq!([to_adapter.wakeups, to_host.wakeups], [0; 2]);

    let may_be: BTreeSet<_> = UNCOUNTED.into_iter().collect();
    let others: Vec<_> = observer.uncounted.difference(&may_be).collect();
    assert_eq!(others, [&("", ""); 0]);
}

#[test]
fn all_that_crosses_in_the_life_of_connections_is_counted() {
    let mut world = World::of(Scenario::undisturbed(), 1, true);
    let report = world.run_to_end();
    assert_eq!((report.whole, report.retransmissions), (6, 0));
    world.machines.iter().for_each(compare);
}

/// What a descriptor tells of a file is all that the adapter has to know of it. Where it does not,
/// each range's record crosses, once.
#[test]
fn files_cross_with_their_descriptors_or_with_a_record_for_each_range() {
    let sizes = [(64 << 10, 2), (512 << 10, 9)];
    let kinds = [(false, false), (false, true), (true, true)];
    for ((size, ranges), (keeps, tells)) in sizes.into_iter().flat_map(|s| kinds.map(|k| (s, k))) {
        let response = Response {
            header: 240,
            size,
            keeps,
            tells,
            pause_us: 30,
        };
        let mut world = World::of(Scenario::responses(3, response), 1, true);
        assert_eq!(world.run_to_end().whole, if keeps { 2 } else { 6 });
        compare(&world.machines[1]);
        let control = world.machines[1].crossings().to_adapter.control;
        let records = if tells { 0 } else { 3 * ranges };
        assert_eq!((control.transfers, control.bytes), (records, 24 * records));
        // All pieces are of whole words here, and the sum of them says so.
        let payload = world.machines[1].crossings().to_adapter.payload;
        assert_eq!(
            (control.words, 8 * payload.words),
            (3 * records, payload.bytes)
        );
    }
}

/// What each of ten fetches takes more than those before it, of the machines and in both
/// directions: transfers, bytes, descriptors.
fn costs(of: impl Fn(u64) -> Scenario, whole: impl Fn(u64) -> u64) -> Vec<Vec<[i64; 3]>> {
    let crossings = |count: u64| {
        let mut world = World::of(of(count), 1, false);
        assert_eq!(world.run_to_end().whole, whole(count));
        let meters = world.machines.each_ref().map(Machine::crossings);
        let all = meters.iter().flat_map(|m| [m.to_adapter, m.to_host]);
        all.map(|c| {
            let moved = c.moved();
            [moved.transfers, moved.bytes, c.descriptors.count].map(u64::cast_signed)
        })
        .collect::<Vec<_>>()
    };
    let sums: Vec<_> = (1..=11).map(crossings).collect();
    sums.windows(2)
        .map(|both| {
            let (before, after) = (both[0].iter(), both[1].iter());
            let less = |(a, b): (&[i64; 3], &[i64; 3])| std::array::from_fn(|i| a[i] - b[i]);
            after.zip(before).map(less).collect()
        })
        .collect()
}

/// What a fetch costs does not depend on when it is made, or on what came before it.
#[test]
fn ten_equal_fetches_cross_equally() {
    let costs = costs(Scenario::fetches, |count| 2 * count);
    assert_eq!(costs, vec![costs[0].clone(); 10]);
    assert!(costs[0].iter().flatten().all(|cost| *cost > 0));
}

/// Clients that ask at the same time have a descriptor cross for each request, and nothing beside:
/// what is said once of their connections is not said again.
#[test]
fn requests_of_many_connections_cross_with_their_descriptors_alone() {
    let to_host = |fetches: u64| {
        let response = Response {
            header: 240,
            size: 1 << 10,
            keeps: true,
            tells: true,
            pause_us: 0,
        };
        let mut scenario = Scenario::responses(fetches, response);
        scenario.plans = vec![scenario.plans[0]; 16];
        scenario.begins = (0..16).map(|i| 7 * i).collect();
        let mut world = World::of(scenario, 1, false);
        assert_eq!(world.run_to_end().whole, 32);
        world.machines.each_ref().map(|m| m.crossings().to_host)
    };
    // No stream passes the end of its first chunk.
    let (few, many) = (to_host(10), to_host(50));
    for (few, many) in few.iter().zip(&many) {
        assert!(many.descriptors.count >= few.descriptors.count + 16 * 40);
        assert_eq!((many.control, many.payload), (few.control, few.payload));
    }
}

/// A web server's response crosses in as few transfers as its pieces are, whatever time passes
/// between the calls by which it is written.
#[test]
fn ten_responses_of_a_web_server_cross_equally() {
    const HEADER: u64 = 240;
    // With a connection for each: one transfer more, that it was accepted.
    let sizes = [(1 << 10, 1), (64 << 10, 2), (512 << 10, 9)];
    for ((size, transfers), keeps) in sizes.into_iter().flat_map(|s| [(s, false), (s, true)]) {
        for pause_us in [0, 30, 400] {
            let response = Response {
                header: HEADER,
                size,
                keeps,
                tells: true,
                pause_us,
            };
            let whole = |count| if keeps { 2 } else { 2 * count };
            let costs = costs(|count| Scenario::responses(count, response), whole);
            let to_adapter: Vec<[i64; 3]> = costs.iter().map(|cost| cost[2]).collect();
            let expected = transfers + i64::from(!keeps);
            assert!(
                to_adapter.iter().all(|cost| cost[0] == expected),
                "{response:?} {to_adapter:?}"
            );
            let payload = (HEADER + size).cast_signed();
            assert!(
                to_adapter
                    .iter()
                    .all(|cost| (payload..payload + 640).contains(&cost[1])),
                "{response:?} {to_adapter:?}"
            );
        }
    }
}
