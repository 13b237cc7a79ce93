//! The example of docs/extending.md, compiled and tried.
#![allow(unreachable_pub, reason = "it is a file of its own in the document")]

use crate::{Access, Bus, Cycles, Sums};

/// A bus of 32 bits and 100 MHz that both directions share: an access is its data, whole words,
/// and three cycles, and takes 100 ns until they move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Narrow;

impl Bus for Narrow {
    fn cycles(&self, access: Access, bytes: u64) -> Cycles {
        Cycles::of(access, 3 + bytes.div_ceil(4), 0)
    }

    fn most_cycles(&self, access: Access, sums: &Sums) -> Cycles {
        // Each word of 8 bytes is at most two of this bus.
        Cycles::of(access, 3 * sums.accesses + 2 * sums.words, 0)
    }

    fn frequency(&self) -> f64 {
        100e6
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn latency_ns(&self, access: Access, bytes: u64) -> f64 {
        let cycles = self.cycles(access, bytes);
        100.0 + (cycles.to_host + cycles.to_adapter) as f64 * 10.0
    }
}

// The example ends here.

use crate::transfer::Traffic;

#[test]
fn the_document_has_this_example() {
    let document = include_str!("../../../docs/extending.md");
    let (_, here) = include_str!("extending.rs").split_once("\n\n").unwrap();
    let (example, _) = here.split_once("\n// The example ends here.").unwrap();
    let shown = format!("```rust,ignore\n{example}```");
    assert!(document.contains(&shown), "docs/extending.md has another");
}

#[test]
fn the_example_is_such_a_bus() {
    let mut traffic = Traffic::default();
    traffic.access(&Narrow, Access::AdapterRead, 64);
    traffic.access(&Narrow, Access::AdapterWrite, 6);
    assert_eq!((traffic.send.cycles, traffic.receive.cycles), (19, 5));
    assert!((traffic.seconds(&Narrow) - 240e-9).abs() < 1e-12);
    assert!((Narrow.latency_ns(Access::AdapterRead, 64) - 290.0).abs() < 1e-6);
}
