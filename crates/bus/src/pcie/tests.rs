//! The model against figures that others have published.

use super::*;
use crate::conventional::{ConventionalAdapter, Driver};

fn near(ours: f64, published: f64, tolerance: f64) {
    assert!(
        (ours / published - 1.0).abs() <= tolerance,
        "{ours} and not {published}"
    );
}

/// What pcie-bench's model says of TLP bandwidth, in Gb/s, with MPS 256.
#[test]
fn bandwidth_of_packets_is_that_of_pcie_bench() {
    for (generation, lanes, published) in [
        (Generation::Gen3, 1, 7.610),
        (Generation::Gen3, 8, 57.885),
        (Generation::Gen4, 8, 115.77),
        (Generation::Gen4, 16, 227.4),
        (Generation::Gen5, 16, 454.8),
    ] {
        let link = Pcie::new(generation, lanes);
        near(link.tlp_rate() * 8e-9, published, 1e-4);
    }
}

/// The tables of PCI Express Base Specification 5.0 for 8 GT/s and more.
#[test]
fn updates_are_as_often_as_the_specification_says() {
    for (lanes, max_payload, symbols) in [
        (1, 128, 333),
        (1, 256, 512),
        (1, 512, 655),
        (2, 128, 224),
        (4, 256, 214),
        (4, 4096, 1146),
        (8, 128, 163),
        (8, 256, 203),
        (8, 512, 182),
        (8, 2048, 374),
        (16, 128, 144),
        (16, 256, 168),
        (16, 1024, 246),
    ] {
        let link = Pcie {
            max_payload,
            ..Pcie::new(Generation::Gen3, lanes)
        };
        assert_eq!(link.update_interval(), symbols, "x{lanes}, {max_payload}");
    }
}

/// Gb/s in each direction when as many frames are received as sent. `left_out`: bytes to the
/// host for each frame that are not counted.
fn frames_at(link: &Pcie, driver: Driver, frame: u64, left_out: u64) -> f64 {
    // A multiple of all groups: of descriptors, doorbells, completions, interrupts.
    const FRAMES: u64 = 320;
    let mut adapter = ConventionalAdapter::new(driver);
    for _ in 0..FRAMES {
        adapter.send(link, &[frame]);
        adapter.receive(link, frame);
    }
    let traffic = adapter.traffic();
    let busier = (traffic.receive.cycles - FRAMES * left_out).max(traffic.send.cycles);
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let share = (FRAMES * frame) as f64 / busier as f64;
    share * link.tlp_rate() * 8e-9
}

/// pcie-bench's adapters: a simple one, one with a kernel's driver, one that is polled.
/// Its program leaves out the request by which a descriptor for a received frame is fetched
/// (it assigns where it should add), so that request is left out for this comparison.
#[test]
fn adapters_are_as_fast_as_in_pcie_bench() {
    let omitted = FRAMED.request;
    for (link, rates) in [
        (Pcie::default(), [(13.2, 46.1), (18.4, 48.1), (21.5, 48.9)]),
        (
            Pcie::new(Generation::Gen4, 16),
            [(52.0, 181.0), (72.0, 189.0), (85.0, 192.0)],
        ),
    ] {
        let drivers = [Driver::simple(), Driver::interrupting(), Driver::polling()];
        for (driver, (small, large)) in drivers.into_iter().zip(rates) {
            near(frames_at(&link, driver, 64, omitted), small, 0.01);
            near(frames_at(&link, driver, 1500, omitted), large, 0.005);
        }
    }
}

/// With that request, which an adapter cannot do without.
#[test]
fn the_request_that_pcie_bench_leaves_out_costs_what_it_must() {
    let link = Pcie::default();
    let with = frames_at(&link, Driver::simple(), 64, 0);
    near(with, 57.885 * 64.0 / 304.0, 1e-4);
}

#[test]
fn reads_take_as_long_as_pcie_bench_measured() {
    let link = Pcie::default();
    for (bytes, measured) in [
        (64, 546.0),
        (256, 626.0),
        (512, 706.0),
        (1024, 853.0),
        (2048, 1133.0),
    ] {
        near(link.latency_ns(Access::AdapterRead, bytes), measured, 0.05);
    }
    let missing = Pcie {
        iommu_miss: true,
        ..link
    };
    let miss =
        missing.latency_ns(Access::AdapterRead, 64) - link.latency_ns(Access::AdapterRead, 64);
    near(miss, 280.0, 1e-9);
}

#[test]
fn packets_are_cut_where_the_link_says() {
    let link = Pcie::default();
    let write = link.cycles(Access::AdapterWrite, 1500);
    assert_eq!((write.to_host, write.to_adapter), (1500 + 6 * 24, 0));
    let read = link.cycles(Access::AdapterRead, 1500);
    assert_eq!((read.to_host, read.to_adapter), (3 * 24, 1500 + 6 * 20));
    let at_boundary = Pcie {
        max_completion: 64,
        ..link
    };
    let read = at_boundary.cycles(Access::AdapterRead, 1500);
    assert_eq!((read.to_host, read.to_adapter), (3 * 24, 1500 + 24 * 20));
    // A register: a word.
    let read = link.cycles(Access::HostRead, 1);
    assert_eq!((read.to_host, read.to_adapter), (4 + 20, 24));
}

#[test]
fn flits_of_generation_6_have_no_framing() {
    let link = Pcie::new(Generation::Gen6, 16);
    let write = link.cycles(Access::AdapterWrite, 256);
    assert_eq!(write.to_host, 256 + 16);
    near(link.tlp_rate(), 128e9 * 236.0 / 256.0, 0.003);
}
