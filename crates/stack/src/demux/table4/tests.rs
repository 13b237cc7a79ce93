use super::*;
use proptest::prelude::*;
use std::collections::HashMap;
use std::net::Ipv4Addr;

fn flow(host: u8, port: u16) -> Flow4 {
    let remote = (Ipv4Addr::new(10, 0, 1, host), port);
    Flow4::new(remote, (Ipv4Addr::new(10, 0, 0, 2), 80))
}

fn backward(host: u8, port: u16) -> Flow4 {
    let flow = flow(host, port);
    Flow4::new(flow.destination(), flow.source())
}

/// Secrets that look like nothing, the same on every run.
fn secret(key: u64) -> [u64; 2] {
    [key, !key].map(|k| {
        let product = u128::from(k ^ 0x5851_f42d_4c95_7f2d) * 0xda94_2042_e4dd_58b5;
        product as u64 ^ (product >> 64) as u64
    })
}

/// The slots of a large table get what chance would give them: flows that differ in a
/// few bits do not meet.
#[test]
fn flows_that_are_alike_are_spread() {
    for (key, make) in (0..20).flat_map(|k| [(k, flow as fn(u8, u16) -> Flow4), (k, backward)]) {
        let table = Table4::new(secret(key));
        let mut buckets = vec![0u8; 1 << 16];
        for (host, port) in (0..64).flat_map(|h| (0..1024).map(move |p| (h, 1024 + p))) {
            let (addresses, ports) = make(host, port).words();
            buckets[table.hash(addresses, ports) as usize & 0xffff] += 1;
        }
        // Chance has 8 or 9 in the fullest of 65,536 buckets.
        let most = buckets.iter().max().copied().unwrap_or(0);
        assert!(most < 14, "{most} flows in a bucket");
        let used = buckets.iter().filter(|b| **b > 0).count();
        assert!((40_000..43_000).contains(&used), "{used} buckets in use");
    }
}

#[test]
fn a_free_slot_is_no_flow() {
    let mut table = Table4::new(secret(1));
    let nonsense = Flow4::default();
    assert_eq!(table.get(&nonsense), None);
    table.remove(&nonsense);
    table.insert(&flow(1, 1), 1);
    assert_eq!(table.get(&nonsense), None);
    table.remove(&nonsense);
    table.insert(&nonsense, 2);
    assert_eq!(table.get(&nonsense), Some(2));
    assert_eq!(table.get(&flow(1, 1)), Some(1));
}

/// What is found in a large table is found where the search begins or soon after.
#[test]
fn a_search_is_short() {
    let mut table = Table4::new(secret(3));
    for (key, port) in (1024..33_000).enumerate() {
        table.insert(&flow(1, port), key as u32);
    }
    let mut steps = 0;
    for port in 1024..33_000 {
        let (addresses, ports) = flow(1, port).words();
        let (home, at) = (table.home(addresses, ports), table.find(addresses, ports));
        steps += at.wrapping_sub(home) & (table.slots.len() - 1);
    }
    // Half full, chance makes half a step for each.
    assert!(steps < 32_000, "{steps} steps");
}

proptest! {
    /// Whatever comes and goes, it is the map that it stands for, whether its hashes
    /// are good or all alike.
    #[test]
    fn it_is_a_map(
        calls in proptest::collection::vec((any::<bool>(), 0u8..4, 0u16..40, 0u32..1000), 0..400),
        poor: bool,
    ) {
        let mut table = Table4::new(if poor { [0, 0] } else { secret(9) });
        let mut map = HashMap::new();
        for (insert, host, port, key) in calls {
            let flow = flow(host, port);
            if insert {
                table.insert(&flow, key);
                map.insert((host, port), key);
            } else {
                table.remove(&flow);
                map.remove(&(host, port));
            }
            prop_assert_eq!(table.used, map.len());
            for host in 0..4 {
                for port in 0..40 {
                    let kept = map.get(&(host, port)).copied();
                    prop_assert_eq!(table.get(&super::tests::flow(host, port)), kept);
                }
            }
        }
    }
}
