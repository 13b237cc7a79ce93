//! How long a load takes that waits for the one before, by how much memory is walked through.

use super::Effort;
use crate::experiment::{Cell, Sheet, Spread};
use crate::experiments::ns_each;
use std::hint::black_box;

/// The levels of Table 2.
pub(super) const LEVELS: [&str; 4] = ["L1 cache", "L2 cache", "L3 cache", "main memory"];
/// Bytes of a cache line.
const LINE: u64 = 64;
/// The largest working set: beyond the caches of most machines.
const LARGEST: u64 = 256 << 20;

/// A working set and its latency.
#[derive(Debug, Clone, Copy)]
pub(super) struct Point {
    pub(super) bytes: u64,
    pub(super) ns: Spread,
}

/// The clock in GHz, by a chain of operations that take a cycle each.
pub(in crate::experiments) fn frequency(effort: Effort) -> Option<Spread> {
    /// Three shifts and three additions without carry.
    const CYCLES: f64 = 6.0;
    let mut x = 0x9e37_79b9_7f4a_7c15_u64;
    let mut run = || {
        let ns = ns_each(effort.times(10_000_000), || {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
        });
        black_box(x);
        CYCLES / ns
    };
    effort.spread(&mut run)
}

/// All working sets, each from a quarter of a page to the largest.
pub(super) fn sweep(effort: Effort) -> Vec<Point> {
    let largest = largest(effort);
    let mut sizes: Vec<u64> = (12..)
        .map(|power| 1 << power)
        .take_while(|s| *s <= largest)
        .collect();
    for bytes in (0..3).filter_map(cache_bytes) {
        sizes.push(bytes / 2);
    }
    sizes.sort_unstable();
    sizes.dedup();
    sizes
        .into_iter()
        .filter_map(|bytes| walk(bytes, effort))
        .collect()
}

/// How long a load takes where none hits a cache.
pub(in crate::experiments) fn main_memory(effort: Effort) -> Option<Spread> {
    walk(largest(effort), effort).map(|point| point.ns)
}

/// The largest working set of a run.
fn largest(effort: Effort) -> u64 {
    match effort.shorter {
        0 | 1 => LARGEST,
        _ => LARGEST / 4,
    }
}

/// A walk through so many bytes.
fn walk(bytes: u64, effort: Effort) -> Option<Point> {
    let lines = shuffled(bytes / LINE);
    let mut at = 0;
    // Once through all of it at least, if that takes no seconds.
    let steps = u32::try_from(lines.len())
        .unwrap_or(u32::MAX)
        .clamp(200_000, 2_000_000);
    let mut walk = |steps| ns_each(steps, || at = lines[at as usize][0]);
    walk(steps);
    let ns = effort.spread(|| walk(effort.times(steps)));
    black_box(at);
    Some(Point { bytes, ns: ns? })
}

/// Lines each of which names the next, in one circle without order.
fn shuffled(count: u64) -> Vec<[u32; 16]> {
    let count = u32::try_from(count).unwrap_or(u32::MAX).max(1);
    let mut order: Vec<u32> = (0..count).collect();
    let mut x = 0x2545_f491_4f6c_dd1d_u64;
    // Sattolo's way, which leaves one circle.
    for last in (1..order.len()).rev() {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        order.swap(last, (x % last as u64) as usize);
    }
    order.into_iter().map(|next| [next; 16]).collect()
}

/// Bytes of the first processor's cache for data of this level, from 0.
fn cache_bytes(level: usize) -> Option<u64> {
    let read = |index: u32, what: &str| {
        let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/{what}");
        std::fs::read_to_string(path)
            .ok()
            .map(|text| text.trim().to_owned())
    };
    (0..8).find_map(|index| {
        let same = read(index, "level")? == (level + 1).to_string();
        let is_data = read(index, "type")? != "Instruction";
        let size = read(index, "size")?;
        (same && is_data).then(|| Some(size.strip_suffix('K')?.parse::<u64>().ok()? << 10))?
    })
}

/// The working set that stands for a level: half of that cache, and for memory the largest.
pub(super) fn of_level(points: &[Point], level: usize) -> Option<Point> {
    if level + 1 == LEVELS.len() {
        return points.last().copied();
    }
    let bytes = cache_bytes(level)? / 2;
    points.iter().find(|point| point.bytes == bytes).copied()
}

/// All working sets.
pub(super) fn sheet(effort: Effort, points: &[Point], frequency: Option<Spread>) -> Sheet {
    let mut sheet = Sheet::new(
        "latency",
        "Time to reach memory by how much is walked through, in pages of 4 KB",
        &effort.basis(),
        &[("working set", "KB"), ("time", "ns"), ("cycles", "cycles")],
    );
    for point in points {
        sheet.row([
            Cell::Count(point.bytes >> 10),
            point.ns.into(),
            frequency.map(|f| point.ns.median * f.median).into(),
        ]);
    }
    sheet
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_comes_to_every_line_once() {
        for count in [1, 2, 3, 64, 1000] {
            let lines = shuffled(count);
            let (mut at, mut steps) = (0, 0);
            loop {
                at = lines[at as usize][0];
                steps += 1;
                if at == 0 {
                    break;
                }
            }
            assert_eq!(steps, count);
        }
    }

    #[test]
    fn caches_grow_with_their_level() {
        let sizes: Vec<u64> = (0..3).filter_map(cache_bytes).collect();
        assert!(sizes.is_sorted(), "{sizes:?}");
    }
}
