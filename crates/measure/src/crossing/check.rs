//! What is predicted of a bus, held against the same work over the modelled bus itself.
//!
//! What crosses for a fetch alone is counted where nginx shares memory with its engine, as
//! [`Prediction`] has it. What the host takes, with the transport's own processes, is measured
//! over a bus that takes no time; so is what crosses for each of many fetches at once, for then
//! it is not the same. Then the same fetches are made over each bus, one alone or many at once,
//! and the time they take is set beside what was predicted of them.

use super::Model;
use super::error::CrossingError;
use super::http::{Client, Mode};
use super::predict::{Part, Prediction};
use super::running::{Place, Running, scratch_directory};
use super::show::size_name;
use super::web::{self, Fetch, Plan, SERVER, name};
use crate::report;
use longshore_bus::{AnyBus, Counted, Cxl, Driver, Queues, Signals, Sums};
use serde::Serialize;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

/// The bus over which the host's part is measured.
const NO_TIME: &str = "bandwidth=1000000Gb/s,latency=0ns";
/// Buses on which a fetch alone takes longer than a machine with two processors, whatever else
/// it does, is late.
const LATENT: [&str; 2] = [
    "bandwidth=100Mb/s,latency=10ms",
    "bandwidth=1Gb/s,latency=20ms",
];
/// Buses that carry less of the files, each of its size, than such a machine.
const NARROW: [&str; 3] = [
    "bandwidth=10Mb/s,latency=50us",
    "bandwidth=100Mb/s,latency=2ms",
    "bandwidth=400Mb/s,latency=500us",
];
/// Fetches of a file alone, of which the quickest counts, for the machine does other things,
/// too; and clients that fetch at once, for how long.
const ALONE: u32 = 15;
const CLIENTS: usize = 16;
const FOR: Duration = Duration::from_secs(2);
/// By how much what is measured may differ from what was predicted.
pub const TOLERANCE: f64 = 0.1;

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Figure {
    /// Microseconds of a fetch alone.
    Latency,
    /// Fetches a second, of many at once.
    Rate,
}

/// A figure that was predicted and measured.
#[derive(Debug, Clone, Serialize)]
pub struct Checked {
    /// The bus.
    pub bus: String,
    /// Bytes of the file.
    pub size: u64,
    /// What it is.
    pub figure: Figure,
    /// What was predicted.
    pub predicted: f64,
    /// The part that most of it is, or that is the limit.
    pub part: Part,
    /// What was measured.
    pub measured: f64,
    /// What the machine added meanwhile to each message over the bus, on average, in
    /// microseconds: what waits for a processor is late.
    pub late_us: f64,
}

impl Checked {
    /// How much more was measured than was predicted, as a share of that.
    #[must_use]
    pub fn difference(&self) -> f64 {
        self.measured / self.predicted - 1.0
    }

    /// Whether the two agree.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.difference().abs() <= TOLERANCE
    }
}

/// Makes the predictions and the measurements. This process must be in a network namespace of
/// its own, in which it may make devices.
///
/// # Errors
/// [`CrossingError`].
pub fn check(longshore: &Path) -> Result<Vec<Checked>, CrossingError> {
    let plan = Plan {
        sizes: web::SIZES.to_vec(),
        fetches: ALONE,
        ..Plan::default()
    };
    let mut fetches = web::measure(longshore, &plan, &on(AnyBus::Cxl(Cxl)))?;
    fetches.retain(|fetch| fetch.mode == Mode::KeepAlive);
    let each = |figure, running: &Running<'_>| {
        let sizes = web::SIZES.iter();
        let took = sizes.map(|size| measure(figure, running, *size));
        took.collect::<Result<Vec<Took>, CrossingError>>()
    };
    let alone = over(longshore, NO_TIME, |running| each(Figure::Latency, running))?;
    let many = over(longshore, NO_TIME, |running| each(Figure::Rate, running))?;
    let mut all = Vec::new();
    for bus in LATENT {
        let took = over(longshore, bus, |running| each(Figure::Latency, running))?;
        for ((fetch, host), took) in fetches.iter().zip(&alone).zip(took) {
            all.extend(checked(bus, Figure::Latency, fetch, host.time, took));
        }
    }
    for ((fetch, host), bus) in fetches.iter_mut().zip(many).zip(NARROW) {
        let took = over(longshore, bus, |running| {
            measure(Figure::Rate, running, fetch.size)
        })?;
        let counts = &mut fetch.counts;
        let directions = [&mut counts.to_host, &mut counts.to_adapter];
        for (counted, bytes) in directions.into_iter().zip(host.bytes) {
            *counted = with_bytes(counted, bytes);
        }
        all.extend(checked(bus, Figure::Rate, fetch, host.time, took));
    }
    Ok(all)
}

/// The same transfers, of so many bytes in all: of what is not payload, descriptors have the most.
fn with_bytes(counted: &Counted, bytes: u64) -> Counted {
    let sized = |sums: &Sums, bytes: u64| Sums {
        bytes,
        words: bytes.div_ceil(8),
        ..*sums
    };
    let payload = counted.payload.bytes.min(bytes);
    Counted {
        descriptors: sized(&counted.descriptors, bytes - payload),
        payload: sized(&counted.payload, payload),
        control: sized(&counted.control, 0),
        ..*counted
    }
}

fn on(bus: AnyBus) -> Model {
    Model {
        bus,
        driver: Driver::e1000(),
        queues: Queues::default(),
        signals: Signals::default(),
    }
}

/// What took so long beside what is predicted of it, where the host takes so long.
fn checked(
    bus: &str,
    figure: Figure,
    fetch: &Fetch,
    host: Duration,
    took: Took,
) -> Option<Checked> {
    let host_ns = host.as_nanos() as u64;
    let fetch = Fetch { host_ns, ..*fetch };
    let said = Prediction::of(&fetch, &on(bus.parse().ok()?), Duration::ZERO);
    let (predicted, part, measured) = match figure {
        Figure::Latency => (
            said.latency_us,
            said.latency_bottleneck,
            took.time.as_secs_f64() * 1e6,
        ),
        Figure::Rate => (
            said.fetches_per_second,
            said.throughput_bottleneck,
            1.0 / took.time.as_secs_f64(),
        ),
    };
    Some(Checked {
        bus: bus.to_owned(),
        size: fetch.size,
        figure,
        predicted,
        part,
        measured,
        late_us: took.late.as_secs_f64() * 1e6,
    })
}

/// What a fetch takes.
#[derive(Debug, Clone, Copy)]
struct Took {
    time: Duration,
    /// Bytes that cross for each of many, to the host and to the adapter.
    bytes: [u64; 2],
    /// What the machine adds to each message over the bus, the mean so far.
    late: Duration,
}

/// How late the machine is with each message over the bus.
fn late(running: &Running<'_>) -> Result<Duration, CrossingError> {
    let [ns] = running.counters(["late_ns"])?;
    Ok(Duration::from_nanos(ns))
}

/// Bytes that the bus has carried to the host and to the adapter.
fn carried(running: &Running<'_>) -> Result<[u64; 2], CrossingError> {
    // It tells of them ten times a second.
    std::thread::sleep(Duration::from_millis(300));
    running.counters(["bytes_to_host", "bytes_to_adapter"])
}

/// Serves the files over a bus while `measure` fetches them.
fn over<T>(
    longshore: &Path,
    bus: &str,
    measure: impl FnOnce(&Running<'_>) -> Result<T, CrossingError>,
) -> Result<T, CrossingError> {
    let directory = scratch_directory()?;
    let place = Place {
        longshore,
        directory: directory.path(),
        captures: false,
    };
    let command = web::prepare(place.directory, &web::SIZES)?;
    let transport = format!("bus:{bus},in-flight=8M");
    let options = ["--addr", web::ADDRESS, "--transport", &transport].map(OsString::from);
    let mut running = Running::quietly(&place, &options, &command)?;
    running.wait_until_served(SocketAddr::from(SERVER))?;
    measure(&running)
}

/// What a fetch takes: the quickest of some alone, or each of many at once.
fn measure(figure: Figure, running: &Running<'_>, size: u64) -> Result<Took, CrossingError> {
    let at = SocketAddr::from(SERVER);
    let (name, expected) = (name(size), web::content(size));
    let fetch_while = |goes_on: &dyn Fn(u32) -> bool| -> Result<(u32, Duration), CrossingError> {
        let mut client = Client::new(at, Mode::KeepAlive);
        let (mut count, mut quickest) = (0, Duration::MAX);
        while goes_on(count) {
            let began = Instant::now();
            client.fetch(&name, &expected)?;
            quickest = quickest.min(began.elapsed());
            count += 1;
        }
        Ok((count, quickest))
    };
    if figure == Figure::Latency {
        let (_, time) = fetch_while(&|count| count < ALONE)?;
        return Ok(Took {
            time,
            bytes: [0; 2],
            late: late(running)?,
        });
    }
    let before = carried(running)?;
    let began = Instant::now();
    let counts: Result<u32, CrossingError> = std::thread::scope(|scope| {
        let client = || fetch_while(&|_| began.elapsed() < FOR);
        let all: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(client)).collect();
        let counts = all.into_iter().map(|one| match one.join() {
            Ok(fetched) => fetched.map(|(count, _)| count),
            Err(panic) => std::panic::resume_unwind(panic),
        });
        counts.sum()
    });
    let (time, count) = (began.elapsed(), counts?.max(1));
    let after = carried(running)?;
    let bytes = |direction: usize| (after[direction] - before[direction]) / u64::from(count);
    Ok(Took {
        time: time / count,
        bytes: [bytes(0), bytes(1)],
        late: late(running)?,
    })
}

/// The figures in a table, and whether all hold.
#[must_use]
pub fn table(all: &[Checked]) -> String {
    let heading = [
        "bus",
        "file",
        "figure",
        "most of it",
        "predicted",
        "measured",
        "difference %",
        "late us",
    ];
    let mut table = report::table(&heading, 4);
    for one in all {
        let names = [
            one.bus.clone(),
            size_name(one.size),
            match one.figure {
                Figure::Latency => "latency us".to_owned(),
                Figure::Rate => "fetches/s".to_owned(),
            },
            one.part.name().to_owned(),
        ];
        let figures = [one.predicted, one.measured].map(report::number);
        let difference = format!("{:+.1}", one.difference() * 100.0);
        let late = report::number(one.late_us);
        table.add_row(names.into_iter().chain(figures).chain([difference, late]));
    }
    let beyond = all.iter().filter(|one| !one.holds()).count();
    let verdict = match beyond {
        0 => "All are within 10 % of what was predicted".to_owned(),
        n => format!("{n} of {} differ by more than 10 %", all.len()),
    };
    format!(
        "nginx over modelled buses, a connection for all fetches\n{table}\n{verdict}\n\
         late: what the machine adds to each message over the bus, on average\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_by_more_than_a_tenth_does_not_hold() {
        let row = |measured| Checked {
            bus: "cxl".to_owned(),
            size: 1024,
            figure: Figure::Rate,
            predicted: 1000.0,
            part: Part::Bus,
            measured,
            late_us: 57.3,
        };
        let all = [row(901.0), row(1099.0), row(1101.0), row(899.0)];
        assert_eq!(
            all.clone().map(|one| one.holds()),
            [true, true, false, false]
        );
        let text = table(&all);
        for part in ["2 of 4", "+10.1", "57.3"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(table(&all[..2]).contains("All are within"));
        let mut buses = LATENT.iter().chain(&NARROW).chain([&NO_TIME]);
        assert!(buses.all(|bus| bus.parse::<AnyBus>().is_ok()));
    }
}
