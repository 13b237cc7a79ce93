//! Which ports are in use towards a destination, for as long as it is tracked.

use super::*;
use crate::local_ports::{LocalPorts, ReservedPorts};
use std::cell::Cell;
use std::net::SocketAddr;

const EPHEMERAL: std::ops::Range<u16> = 32_768..61_000;
const FEW: u32 = ALL / 2;
const ALL: u32 = (EPHEMERAL.end - EPHEMERAL.start) as u32;

/// A connection from this port to the destination of this number.
fn flow(port: u16, to: u16) -> Flow {
    let at = |ip: [u8; 4], port| SocketAddr::new(ip.into(), port);
    let [high, low] = to.to_be_bytes();
    Flow::new(at([10, 0, 0, 1], port), at([10, 1, high, low], 80))
}

/// How many ports connections to a destination have, and whether that had to be asked.
fn count(used_ports: &mut UsedPorts, to: u16, taken: impl Fn(u16) -> bool) -> (u32, bool) {
    let asked = Cell::new(0);
    let ports = used_ports.ports(&flow(0, to), |port| {
        asked.set(asked.get() + 1);
        taken(port)
    });
    let count = ports.count(&LocalPorts::default().all());
    assert!(asked.get() == 0 || asked.get() == ALL);
    (count, asked.get() != 0)
}

#[test]
fn connections_are_noted_where_a_destination_is_tracked() {
    let mut used_ports = UsedPorts::default();
    let (first, second) = (EPHEMERAL.start, EPHEMERAL.start + 1);
    used_ports.note(&flow(first, 1), true);
    // It was not tracked, and is asked for each of its ports once.
    let but_two = |port| port > second;
    assert_eq!(count(&mut used_ports, 1, but_two), (ALL - 2, true));
    assert_eq!(count(&mut used_ports, 1, but_two), (ALL - 2, false));
    used_ports.note(&flow(first, 1), true);
    assert_eq!(count(&mut used_ports, 1, but_two), (ALL - 1, false));
    used_ports.note(&flow(first, 1), false);
    used_ports.note(&flow(second + 1, 1), false);
    assert_eq!(count(&mut used_ports, 1, but_two), (ALL - 3, false));
    // What goes elsewhere is another's.
    used_ports.note(&flow(first, 2), true);
    assert_eq!(count(&mut used_ports, 1, but_two), (ALL - 3, false));
    assert_eq!(count(&mut used_ports, 2, |_| true), (ALL, true));
}

/// With fewer connections than half of the ports it is tracked no more.
#[test]
fn a_destination_with_few_connections_is_forgotten() {
    let mut used_ports = UsedPorts::default();
    let half = EPHEMERAL.start + FEW as u16;
    let some = |port| port < half;
    assert_eq!(count(&mut used_ports, 1, some), (FEW, true));
    // One that comes is no reason.
    used_ports.note(&flow(half, 1), true);
    used_ports.note(&flow(half, 1), false);
    assert_eq!(
        count(&mut used_ports, 1, some),
        (FEW, false),
        "as many as that"
    );
    used_ports.note(&flow(EPHEMERAL.start, 1), false);
    assert_eq!(count(&mut used_ports, 1, some), (FEW, true), "one fewer");
    used_ports.note(&flow(EPHEMERAL.start, 1), false);
    used_ports.note(&flow(half, 1), true);
    assert_eq!(count(&mut used_ports, 1, some), (FEW, true));
}

/// So many are noted at once; another takes the place of one of them.
#[test]
fn a_bounded_number_of_destinations_is_noted() {
    let mut used_ports = UsedPorts::default();
    for to in 0..MOST as u16 {
        assert!(count(&mut used_ports, to, |_| true).1);
    }
    let asked = |used_ports: &mut UsedPorts| {
        let all = 0..MOST as u16;
        all.filter(|to| count(used_ports, *to, |_| true).1).count()
    };
    assert_eq!(asked(&mut used_ports), 0, "all are there");
    assert!(count(&mut used_ports, 1_000, |_| true).1);
    assert!(!count(&mut used_ports, 1_000, |_| true).1);
    assert_eq!(used_ports.by_destination.len(), MOST);
}

/// Of ports that are reserved no connection has one that it was given: half of the others is few.
#[test]
fn what_is_reserved_does_not_count_for_few() {
    let half = EPHEMERAL.start + FEW as u16;
    let reserved = ReservedPorts::parse(&format!("{half}-60999")).unwrap();
    let reserved = Some(std::sync::Arc::new(reserved));
    let mut used_ports = UsedPorts::new(Automatic::new(LocalPorts::default(), reserved));
    let asked = Cell::new(0);
    let count = |used_ports: &mut UsedPorts| {
        let ports = used_ports.ports(&flow(0, 1), |port| {
            asked.set(asked.get() + 1);
            assert!(port < half, "{port} is reserved");
            true
        });
        (ports.count(&LocalPorts::default().all()), asked.take())
    };
    assert_eq!(count(&mut used_ports), (FEW, FEW));
    // It is still one with which hardly a port is left.
    used_ports.note(&flow(EPHEMERAL.start, 1), false);
    assert_eq!(count(&mut used_ports), (FEW - 1, 0));
}
