//! What a port itself can do: the same kernel programs against Longshore, against the kernel,
//! and against a generator that does nothing but move frames ([`crate::generator`]), in one run; and how
//! many frames ports take (`rates`). Where Longshore stands against the second is what a user
//! sees, and where against the third what is left to gain on this port.

mod rates;

use super::tap;
use crate::crossing::running::{Place, Running, scratch_directory};
use crate::crossing::web;
use crate::experiment::{
    Axis, Cell, Chart, ExperimentError, Kind, Outcome, Series, Sheet, Spread, progress, system,
};
use crate::experiments::beside::Beside;
use crate::generator::{Generator, Service, Wait};
use crate::installed;
use longshore_ports::packet::{PacketConfig, PacketPort};
use longshore_ports::tap::{Tap, TapConfig};
use longshore_ports::{InterfaceName, Port};
use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Its name on the command line.
pub const NAME: &str = "port";
const PAPER: &str = "none: the bounds that ports set to each stack";
/// A link to the kernel: its device, the kernel's address on it, and who is at its end.
struct Link {
    device: &'static str,
    kernel: Ipv4Addr,
    end: Ipv4Addr,
}

const fn link(device: &'static str, net: u8) -> Link {
    Link {
        device,
        kernel: Ipv4Addr::new(10, 77, net, 1),
        end: Ipv4Addr::new(10, 77, net, 2),
    }
}

/// The TAP device of Longshore's engine, which has `web::ADDRESS`.
const OWN: Link = link("own", 0);
/// The generator's.
const BARE: Link = link("bare", 3);
/// The kernel's end of a pair of interfaces, whose other end the packet socket has.
const NEAR: Link = link("near", 4);
const FAR: &str = "far";
const PREFIX: u8 = 24;

/// The generator's TCP ports, and its services there.
const SOURCE: u16 = 5001;
const SINK: u16 = 5002;
const ECHO: u16 = 5003;
const SERVICES: [(u16, Service); 3] = [
    (SOURCE, Service::Source),
    (SINK, Service::Sink),
    (ECHO, Service::Echo),
];

/// What a kernel's program measures.
struct Measurement {
    name: &'static str,
    unit: &'static str,
    /// The kernel's program.
    client: &'static str,
    /// What serves it, and where.
    server: &'static str,
    port: u16,
}

const BULK: [Measurement; 2] = [
    Measurement {
        name: "to the kernel",
        unit: "Gb/s",
        client: "pull",
        server: "source",
        port: SOURCE,
    },
    Measurement {
        name: "from the kernel",
        unit: "Gb/s",
        client: "push",
        server: "sink",
        port: SINK,
    },
];
const ROUND_TRIP: Measurement = Measurement {
    name: "1 byte",
    unit: "us",
    client: "ping",
    server: "echo",
    port: ECHO,
};

/// The program at the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Longshore,
    Kernel,
    BareTap(Wait),
    BarePacket,
}

/// The unit of rates of frames.
const FRAMES: &str = "frames/s";
const LONGSHORE: &str = "Longshore on TAP";
const TAP_SLEEPING: &str = "bare TAP";

impl Who {
    fn name(self) -> &'static str {
        match self {
            Who::Longshore => LONGSHORE,
            Who::Kernel => "kernel, loopback",
            Who::BareTap(Wait::Sleeping) => TAP_SLEEPING,
            Who::BareTap(Wait::Looking) => "bare TAP, never asleep",
            Who::BarePacket => "bare packet socket",
        }
    }
}

const ALL: [Who; 5] = [
    Who::Longshore,
    Who::Kernel,
    Who::BareTap(Wait::Sleeping),
    Who::BareTap(Wait::Looking),
    Who::BarePacket,
];

/// How much is run.
struct Effort {
    runs: u32,
    /// Of a transfer.
    milliseconds: u64,
    /// Of a measurement of frames.
    frames: Duration,
    round_trips: u64,
}

impl Effort {
    fn of(quick: bool) -> Self {
        let (runs, milliseconds, frames, round_trips) = match quick {
            true => (2, 100, 50, 1_000),
            false => (5, 1_000, 300, 20_000),
        };
        Effort {
            runs,
            milliseconds,
            frames: Duration::from_millis(frames),
            round_trips,
        }
    }
}

/// Measures all of them in turn. The process must be in a network namespace of its own, in
/// which it may make devices.
///
/// # Errors
/// [`ExperimentError`].
pub fn measure(longshore: &Path, quick: bool) -> Result<Outcome, ExperimentError> {
    tap::needed()?;
    let mut outcome = Outcome::new(NAME, PAPER, quick);
    if !make_links()? {
        let why = "CUBIC on both sides, beside which others are slower on such links: this \
                   kernel has none";
        outcome.left_out.push(why.to_owned());
    }
    let effort = Effort::of(quick);
    let basis = Spread::basis(effort.runs);
    outcome.sheets.push(bulk(longshore, &effort, &basis)?);
    outcome
        .sheets
        .push(round_trips(longshore, &effort, &basis)?);
    outcome.sheets.push(frames(&effort, &basis)?);
    Ok(outcome)
}

/// Runs a measurement against each of `who`, so many times in turn; what each gave.
fn in_turn<const N: usize>(
    longshore: &Path,
    (what, amount): (&Measurement, u64),
    who: [Who; N],
    runs: u32,
) -> Result<[Vec<f64>; N], ExperimentError> {
    let mut figures = std::array::from_fn(|_| Vec::new());
    for run in 1..=runs {
        for (who, figures) in who.iter().zip(&mut figures) {
            progress(&format!(
                "port: {}, {}, run {run} of {runs}",
                what.name,
                who.name()
            ));
            figures.push(one(longshore, *who, what, amount)?);
        }
    }
    progress("");
    Ok(figures)
}

fn bulk(longshore: &Path, effort: &Effort, basis: &str) -> Result<Sheet, ExperimentError> {
    let who = ALL.map(Who::name);
    let mut columns = vec![("direction", "")];
    columns.extend(who.map(|name| (name, BULK[0].unit)));
    columns.push(("Longshore of bare TAP", "%"));
    let mut sheet = Sheet::new(
        "bulk",
        "One stream between a port and a program of the kernel",
        basis,
        &columns,
    );
    for what in &BULK {
        let figures = in_turn(longshore, (what, effort.milliseconds), ALL, effort.runs)?;
        let spreads = figures.map(|runs| Spread::of(&runs));
        let [ours, _, bare, ..] = spreads;
        let share = ours.zip(bare).map(|(a, b)| 100.0 * a.median / b.median);
        let cells = spreads.map(Cell::from);
        let share = Cell::from(share.map(f64::round));
        sheet.row([what.name.into()].into_iter().chain(cells).chain([share]));
    }
    Ok(sheet)
}

fn round_trips(longshore: &Path, effort: &Effort, basis: &str) -> Result<Sheet, ExperimentError> {
    let mut columns = vec![("message", "")];
    columns.extend(ALL.map(|who| (who.name(), ROUND_TRIP.unit)));
    let mut sheet = Sheet::new(
        "round trips",
        "Round trip from a program of the kernel, each run's median",
        basis,
        &columns,
    );
    let what = (&ROUND_TRIP, effort.round_trips);
    let figures = in_turn(longshore, what, ALL, effort.runs)?;
    let cells = figures.map(|runs| Cell::from(Spread::of(&runs)));
    sheet.row([ROUND_TRIP.name.into()].into_iter().chain(cells));
    Ok(sheet)
}

fn frames(effort: &Effort, basis: &str) -> Result<Sheet, ExperimentError> {
    let mut sheet = Sheet::new(
        "frames",
        "Finished frames that a port takes, for a station that is not there; through memory: in \
         and out",
        basis,
        &[
            ("size", "bytes"),
            ("TAP", FRAMES),
            ("packet socket", FRAMES),
            ("memory wire", FRAMES),
        ],
    );
    for size in rates::SIZES {
        let mut figures = [const { Vec::new() }; 3];
        for run in 1..=effort.runs {
            progress(&format!("port: frames of {size}, run {run}"));
            let (mut tap, mut packet) = (tap()?, packet()?);
            let failed = |error| port_failed(&error);
            let rates = [
                rates::sent(&mut tap, size, effort.frames).map_err(failed)?,
                rates::sent(&mut packet, size, effort.frames).map_err(failed)?,
                rates::through_memory(size, effort.frames).map_err(failed)?,
            ];
            figures
                .iter_mut()
                .zip(rates)
                .for_each(|(f, rate)| f.push(rate));
        }
        progress("");
        let cells = figures.map(|runs| Cell::from(Spread::of(&runs)));
        sheet.row([Cell::Count(size as u64)].into_iter().chain(cells));
    }
    Ok(sheet)
}

/// The rates of each, and the frames that ports take.
#[must_use]
pub fn charts(outcome: &Outcome) -> Vec<Chart> {
    let of = |name: &str, title: &str, unit: &str| {
        let sheet = outcome.sheet(name)?;
        let groups = sheet.rows.iter().map(|row| match &row[0] {
            Cell::Text(text) => text.clone(),
            other => other.value().map_or_else(String::new, |v| v.to_string()),
        });
        let columns = sheet.columns.iter().enumerate();
        let columns = columns.filter(|(at, column)| *at != 0 && column.unit == unit);
        let series = columns.map(|(at, column)| {
            let rows = sheet.rows.iter().zip(0_u32..);
            let points = rows.filter_map(|(row, x)| Some((f64::from(x), row[at].value()?)));
            Series::new(&column.name, points.collect())
        });
        Some(Chart {
            title: title.to_owned(),
            x: Axis::linear(&sheet.columns[0].name),
            y: Axis::linear(unit),
            kind: Kind::Bars(groups.collect()),
            series: series.collect(),
        })
    };
    [
        of("bulk", "One stream", BULK[0].unit),
        of("round trips", "Round trip", ROUND_TRIP.unit),
        of("frames", "Frames by their bytes", FRAMES),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// One run: a program of the kernel against `who`.
fn one(
    longshore: &Path,
    who: Who,
    what: &Measurement,
    amount: u64,
) -> Result<f64, ExperimentError> {
    // What the kernel's program says of the server there: its first figure.
    let ask = |address: Ipv4Addr| {
        let server = SocketAddr::from((address, what.port)).to_string();
        Beside::program(longshore, &[what.client, &server, &amount.to_string()])?.figure()
    };
    match who {
        Who::Longshore => {
            let directory = scratch_directory()?;
            let place = Place {
                longshore,
                directory: directory.path(),
                captures: false,
            };
            let port = format!("tap:{}", OWN.device);
            let options = [
                "--port",
                &port,
                "--addr",
                web::ADDRESS,
                "--congestion",
                "cubic",
            ]
            .map(OsString::from);
            let at = format!("0.0.0.0:{}", what.port);
            let command = installed::own(longshore, &[what.server, &at]);
            let mut running = Running::quietly(&place, &options, &command)?;
            running.wait_until_served(SocketAddr::from((web::SERVER.0, what.port)))?;
            ask(web::SERVER.0.into())
        }
        Who::Kernel => {
            let server = SocketAddr::from((Ipv4Addr::LOCALHOST, what.port));
            let words = [installed::WORD, what.server, &server.to_string()];
            let mut running = Beside::server(Command::new(longshore).args(words))?;
            running.wait_until_served(server)?;
            ask(Ipv4Addr::LOCALHOST)
        }
        Who::BareTap(wait) => with_generator(Box::new(tap()?), BARE.end, wait, ask),
        Who::BarePacket => with_generator(Box::new(packet()?), NEAR.end, Wait::Sleeping, ask),
    }
}

/// Does `work` while a generator serves on the port.
fn with_generator(
    port: Box<dyn Port>,
    address: Ipv4Addr,
    wait: Wait,
    work: impl FnOnce(Ipv4Addr) -> Result<f64, ExperimentError>,
) -> Result<f64, ExperimentError> {
    let generator =
        Generator::new(port, address, &SERVICES).map_err(|error| port_failed(&error))?;
    let end = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| generator.serve(wait, &end));
        let result = work(address);
        end.store(true, Ordering::Relaxed);
        match serving.join() {
            Ok(Ok(())) => result,
            Ok(Err(error)) => Err(port_failed(&error)),
            Err(_) => Err(port_failed(&"it panicked")),
        }
    })
}

/// The generator's TAP device.
fn tap() -> Result<Tap, ExperimentError> {
    let config = TapConfig::attach(BARE.device).map_err(|error| port_failed(&error))?;
    Tap::open(&config).map_err(|error| port_failed(&error))
}

/// A packet socket on the far end of the pair.
fn packet() -> Result<PacketPort, ExperimentError> {
    let config = PacketConfig {
        name: InterfaceName::new(FAR).map_err(|error| port_failed(&error))?,
        addresses: vec![(IpAddr::V4(NEAR.end), PREFIX)],
        addresses_come: false,
        wait: false,
    };
    PacketPort::open(&config).map_err(|error| port_failed(&error))
}

/// Makes the links, which go with this process's namespace; whether CUBIC is what connections
/// over them use, and over the loopback.
fn make_links() -> Result<bool, ExperimentError> {
    ip(&format!(
        "link add {} type veth peer name {FAR}",
        NEAR.device
    ))?;
    ip(&format!("link set {FAR} up"))?;
    let lock = "congctl lock cubic";
    let loopback = "replace table local local 127.0.0.1 dev lo scope host src 127.0.0.1";
    let is_cubic = ip(&format!("route {loopback} {lock}")).is_ok();
    for Link { device, kernel, .. } in [OWN, BARE, NEAR] {
        if device != NEAR.device {
            ip(&format!("tuntap add dev {device} mode tap"))?;
        }
        ip(&format!("address add {kernel}/{PREFIX} dev {device}"))?;
        ip(&format!("link set {device} up"))?;
        if is_cubic {
            let [a, b, c, _] = kernel.octets();
            let route = format!("{a}.{b}.{c}.0/{PREFIX} dev {device} scope link src {kernel}");
            ip(&format!("route replace {route} proto kernel {lock}"))?;
        }
    }
    Ok(is_cubic)
}

/// Runs `ip` with these words.
fn ip(words: &str) -> Result<(), ExperimentError> {
    let mut command = Command::new(installed::find("ip")?);
    let said = command.args(words.split_whitespace()).output();
    let said = said.map_err(system("start ip"))?;
    if said.status.success() {
        return Ok(());
    }
    Err(ExperimentError::Program {
        program: format!("ip {words}"),
        why: String::from_utf8_lossy(&said.stderr).trim().to_owned(),
    })
}

fn port_failed(error: &dyn std::fmt::Display) -> ExperimentError {
    ExperimentError::Program {
        program: "the bare generator's port".to_owned(),
        why: error.to_string(),
    }
}
