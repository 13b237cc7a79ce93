//! From measured crossings to what an adapter on a bus would reach: how long a fetch takes,
//! how many a second there can be, and which part stands in the way.
//!
//! A fetch alone takes the host's time, the adapter's, the bus's, and the round trips, one
//! after the other. Of many fetches at once the round trips overlap, and so do the parts:
//! there can be as many as the slowest part lets through.

use crate::chart::{Axis, Chart, Kind, Series};
use crate::crossing::show::size_name;
use crate::crossing::web::Fetch;
use crate::crossing::{Mode, Model};
use longshore_bus::{Access, AnyBus, Bus, Counted, DOORBELL, Traffic, crossed};
use serde::Serialize;
use std::time::Duration;

/// A part that takes its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// The program and its calls, as measured here.
    Host,
    /// What moves takes the bus.
    Bus,
    /// Reads wait for their answers.
    RoundTrips,
    /// What the adapter adds to a fetch.
    Adapter,
}

impl Part {
    /// Its name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Part::Host => "host",
            Part::Bus => "bus",
            Part::RoundTrips => "round trips",
            Part::Adapter => "adapter",
        }
    }
}

/// What is predicted of a fetch. Times are in microseconds.
#[derive(Debug, Clone, Serialize)]
pub struct Prediction {
    /// Bytes of the file.
    pub size: u64,
    /// Whether its connection is kept.
    pub mode: Mode,
    /// What the host takes.
    pub host_us: f64,
    /// What the bus takes.
    pub bus_us: f64,
    /// What is waited for reads.
    pub round_trips_us: f64,
    /// What the adapter takes.
    pub adapter_us: f64,
    /// A fetch alone, without the network behind the adapter.
    pub latency_us: f64,
    /// The part that is the longest of it.
    pub latency_bottleneck: Part,
    /// Fetches each second, of many at once.
    pub fetches_per_second: f64,
    /// The part that lets no more through.
    pub throughput_bottleneck: Part,
}

impl Prediction {
    /// For a fetch that was measured, on the model's bus, with an adapter that adds `adapter`
    /// to each fetch.
    #[must_use]
    pub fn of(fetch: &Fetch, model: &Model, adapter: Duration) -> Self {
        let (to_host, to_adapter) = (&fetch.counts.to_host, &fetch.counts.to_adapter);
        let traffic = crossed(&model.bus, to_host, to_adapter, model.signals);
        #[expect(clippy::cast_precision_loss, reason = "a duration to show")]
        let host_us = fetch.host_ns as f64 / 1e3;
        let adapter_us = adapter.as_secs_f64() * 1e6;
        let bus_us = traffic.seconds(&model.bus) * 1e6;
        let round_trips_us = waits_us(&traffic, to_adapter, &model.bus);
        let overlapping = [
            (Part::Host, host_us),
            (Part::Bus, bus_us),
            (Part::Adapter, adapter_us),
        ];
        let alone = overlapping
            .into_iter()
            .chain([(Part::RoundTrips, round_trips_us)]);
        let (throughput_bottleneck, slowest_us) = longest(overlapping);
        Prediction {
            size: fetch.size,
            mode: fetch.mode,
            host_us,
            bus_us,
            round_trips_us,
            adapter_us,
            latency_us: host_us + bus_us + round_trips_us + adapter_us,
            latency_bottleneck: longest(alone).0,
            fetches_per_second: 1e6 / slowest_us,
            throughput_bottleneck,
        }
    }
}

/// The generations of buses that are set beside each other.
const GENERATIONS: [&str; 6] = [
    "pcix",
    "pcie-gen3x8",
    "pcie-gen4x8",
    "pcie-gen5x8",
    "pcie-gen6x8",
    "cxl",
];

/// Plots of what is predicted over generations of buses, all else being as in `model`: how
/// long a fetch takes, and how many there are each second.
#[must_use]
pub fn over_generations(fetches: &[Fetch], model: &Model, adapter: Duration) -> Vec<Chart> {
    let buses: Vec<AnyBus> = GENERATIONS
        .iter()
        .filter_map(|name| name.parse().ok())
        .collect();
    let chart = |title: &str, unit: &str, figure: fn(&Prediction) -> f64| {
        let series = fetches.iter().map(|fetch| {
            let points = buses.iter().zip(0_u32..).map(|(bus, group)| {
                let model = Model {
                    bus: *bus,
                    ..*model
                };
                (
                    f64::from(group),
                    figure(&Prediction::of(fetch, &model, adapter)),
                )
            });
            let name = format!("{} {}", size_name(fetch.size), fetch.mode.name());
            Series::new(&name, points.collect())
        });
        Chart {
            title: title.to_owned(),
            x: Axis::linear("bus"),
            y: Axis::decades(unit),
            kind: Kind::Bars(GENERATIONS.map(str::to_owned).into()),
            series: series.collect(),
        }
    };
    vec![
        chart("Predicted latency of a fetch alone", "us", |p| p.latency_us),
        chart("Predicted rate of many fetches", "fetches/s", |p| {
            p.fetches_per_second
        }),
    ]
}

/// What a fetch alone waits for beside the time in which its data move: a doorbell, reads, and
/// the last write to the host.
///
/// Of the reads, those that depend on each other count, by the meter's classes: a batch of
/// descriptors, and their payload, if any crossed apart from them. The host waits for neither:
/// where these take longer than the host does, all that it asks for is in the first batch, and
/// where they do not, they are of no account.
fn waits_us(traffic: &Traffic, to_adapter: &Counted, bus: &dyn Bus) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a duration to show")]
    let round_trips = to_adapter.dependent_round_trips() as f64;
    let write = if traffic.receive.transfers == 0 {
        0.0
    } else {
        bus.latency_ns(Access::AdapterWrite, 1)
    };
    let doorbell = match to_adapter.descriptors.accesses {
        0 => 0.0,
        _ => bus.latency_ns(Access::HostWrite, DOORBELL),
    };
    (doorbell + round_trips * bus.latency_ns(Access::AdapterRead, 1) + write) / 1e3
}

fn longest(parts: impl IntoIterator<Item = (Part, f64)>) -> (Part, f64) {
    let longer = |a: (Part, f64), b: (Part, f64)| if b.1 > a.1 { b } else { a };
    parts.into_iter().fold((Part::Host, 0.0), longer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crossing::Counts;
    use longshore_bus::{Driver, Queues, Signals, Sums};

    fn predict(bus: &str, host_ns: u64, adapter: Duration) -> Prediction {
        let counted = |payload: &[u64]| Counted {
            descriptors: Sums::of(&[152, 88]),
            payload: Sums::of(payload),
            wakeups: 1,
            ..Counted::default()
        };
        let fetch = Fetch {
            server: crate::crossing::web::WebServer::Nginx,
            size: 65_536,
            mode: Mode::Close,
            counts: Counts {
                mtu: 1500,
                to_host: counted(&[60]),
                to_adapter: counted(&[65_536, 224]),
            },
            conventional: [Traffic::default(); 4],
            repeated: Default::default(),
            host_ns,
        };
        let model = Model {
            bus: bus.parse().unwrap(),
            driver: Driver::e1000(),
            queues: Queues::default(),
            signals: Signals::default(),
        };
        Prediction::of(&fetch, &model, adapter)
    }

    #[test]
    fn the_longest_part_stands_in_the_way() {
        let us = Duration::from_micros;
        // 66,000 bytes take PCI-X 62 us.
        let slow_bus = predict("pcix", 5_000, us(1));
        assert_eq!(slow_bus.throughput_bottleneck, Part::Bus);
        assert!((60.0..65.0).contains(&slow_bus.bus_us), "{slow_bus:?}");
        assert!((1e6 / slow_bus.bus_us - slow_bus.fetches_per_second).abs() < 1e-6);
        let slow_adapter = predict("pcie-gen5x16", 5_000, us(20));
        assert_eq!(slow_adapter.throughput_bottleneck, Part::Adapter);
        assert!((slow_adapter.fetches_per_second - 50_000.0).abs() < 1e-6);
        let slow_host = predict("pcie-gen5x16", 30_000, us(1));
        assert_eq!(slow_host.latency_bottleneck, Part::Host);
        // Two round trips of half a microsecond, which overlap when there are many, and two
        // writes.
        let quick = predict("pcie-gen5x16", 100, us(0));
        assert_eq!(quick.latency_bottleneck, Part::RoundTrips);
        assert_eq!(quick.throughput_bottleneck, Part::Bus);
        assert!((1.4..1.8).contains(&quick.round_trips_us), "{quick:?}");
    }

    #[test]
    fn every_generation_has_a_bar_of_each_fetch() {
        let fetch = Fetch {
            server: crate::crossing::web::WebServer::Nginx,
            size: 1024,
            mode: Mode::KeepAlive,
            counts: Counts::default(),
            conventional: [Traffic::default(); 4],
            repeated: Default::default(),
            host_ns: 1000,
        };
        let model = Model {
            bus: "pcix".parse().unwrap(),
            driver: Driver::e1000(),
            queues: Queues::default(),
            signals: Signals::default(),
        };
        let charts = over_generations(&[fetch, fetch], &model, Duration::from_micros(1));
        for chart in charts {
            assert_eq!(chart.series.len(), 2);
            assert_eq!(chart.series[0].points.len(), GENERATIONS.len());
            assert_eq!(
                chart.kind,
                Kind::Bars(GENERATIONS.map(str::to_owned).into())
            );
        }
    }

    #[test]
    fn latency_is_the_sum_of_its_parts_and_falls_with_the_bus() {
        let on = |bus| predict(bus, 5_000, Duration::from_micros(2));
        let one = on("pcie-gen3x8");
        let sum = one.host_us + one.bus_us + one.round_trips_us + one.adapter_us;
        assert!((one.latency_us - sum).abs() < 1e-9);
        assert!(on("pcie-gen4x8").latency_us < one.latency_us);
        assert!(on("cxl").round_trips_us < one.round_trips_us / 2.0);
    }
}
