//! The latency of datagrams by their size, as Fig. 6 of the 1999 paper has it: half of what it
//! takes to send one there and have it back. Over memory, and with message pipelining on and off
//! over a modelled bus; `pipelining` has what that bus does under load.

mod pipelining;

use super::{ns_each, tap};
use crate::crossing::running::{Place, Running, scratch_directory};
use crate::crossing::web;
use crate::experiment::{
    Axis, Cell, Chart, ExperimentError, Kind, Outcome, Series, Sheet, Spread, progress, system,
};
use crate::installed;
use longshore_bus::Forwarding;
use std::ffi::OsString;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::time::Duration;

/// Its name on the command line.
pub const NAME: &str = "latency";
const PAPER: &str = "Gallatin, Chase, Yocum, Trapeze/IP: TCP/IP at Near-Gigabit Speeds, USENIX \
                     1999";
const PORT: u16 = 7;
/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Round trips over the bus are so many times fewer, since they take so many times longer.
const SLOWER: u32 = 4;
/// How often the server may not be there yet.
const TRIES: u32 = 1000;

/// The program that answers: a column.
#[derive(Debug, Clone, Copy)]
enum Who {
    Longshore,
    Kernel,
    /// Longshore behind the modelled bus.
    Bus(Forwarding),
}

const ALL: [Who; 5] = [
    Who::Longshore,
    Who::Kernel,
    Who::Bus(Forwarding::StoreAndForward),
    Who::Bus(Forwarding::CutThrough),
    Who::Bus(Forwarding::Adaptive),
];

impl Who {
    fn name(self) -> String {
        match self {
            Who::Longshore => "Longshore".to_owned(),
            Who::Kernel => "kernel, loopback".to_owned(),
            Who::Bus(forwarding) => format!("on the bus: {}", forwarding.name()),
        }
    }
}

/// Bytes of datagrams: the figure's.
fn sizes(quick: bool) -> Vec<usize> {
    let all = [1].into_iter().chain((1..=8).map(|kb| kb << 10));
    all.filter(|size| !quick || [1, 1024, 8192].contains(size))
        .collect()
}

/// Measures both stacks in turn. The process must be in a network namespace of its own, in
/// which it may make devices.
///
/// # Errors
/// [`ExperimentError`].
pub fn measure(longshore: &Path, quick: bool) -> Result<Outcome, ExperimentError> {
    tap::needed()?;
    let mut outcome = Outcome::new(NAME, PAPER, quick);
    let (runs, times) = if quick { (2, 200) } else { (5, 4_000) };
    let sizes = sizes(quick);
    let mut figures = vec![vec![Vec::new(); sizes.len()]; ALL.len()];
    for run in 1..=runs {
        progress(&format!("latency: run {run} of {runs}"));
        for (who, figures) in ALL.into_iter().zip(&mut figures) {
            one_run(longshore, who, &sizes, times, figures)?;
        }
    }
    progress("");
    let names = ALL.map(Who::name);
    let mut columns = vec![("size", "bytes")];
    columns.extend(names.iter().map(|name| (&**name, "us")));
    let mut sheet = Sheet::new(
        "latency",
        &format!(
            "Fig. 6: one-way latency of UDP, half of a round trip; the bus is {}",
            pipelining::BUS
        ),
        &Spread::basis(runs),
        &columns,
    );
    for (at, size) in sizes.iter().enumerate() {
        let each = figures.iter().map(|runs| Spread::of(&runs[at]).into());
        let size = [Cell::Count(*size as u64)];
        sheet.row(size.into_iter().chain(each));
    }
    outcome.sheets.push(sheet);
    outcome.sheets.push(pipelining::under_load()?);
    outcome.left_out.extend([
        "message pipelining of what is received: a modelled bus posts writes to the host, and \
         each is there when all of it is"
            .to_owned(),
        "with and without checksums: where a datagram stays on the machine nobody makes them"
            .to_owned(),
    ]);
    Ok(outcome)
}

/// Has `who` answer, and adds what each size takes.
fn one_run(
    longshore: &Path,
    who: Who,
    sizes: &[usize],
    mut times: u32,
    figures: &mut [Vec<f64>],
) -> Result<(), ExperimentError> {
    let mut options = vec!["--addr".to_owned(), web::ADDRESS.to_owned()];
    match who {
        Who::Kernel => {
            let socket = UdpSocket::bind("127.0.0.1:0").map_err(system("make a socket"))?;
            let at = socket.local_addr().map_err(system("make a socket"))?;
            // It ends with this process.
            std::thread::spawn(move || crate::datagram_echo::answer_datagrams(&socket));
            return one_way(at, sizes, times, figures);
        }
        Who::Longshore => {}
        Who::Bus(forwarding) => {
            let model = pipelining::model(forwarding)?;
            options.extend(["--transport".to_owned(), format!("bus:{model}")]);
            times /= SLOWER;
        }
    }
    let directory = scratch_directory()?;
    let place = Place {
        longshore,
        directory: directory.path(),
        captures: false,
    };
    let options: Vec<OsString> = options.into_iter().map(OsString::from).collect();
    let command = installed::own(longshore, &["datagram-echo", "0.0.0.0:7"]);
    let mut running = Running::quietly(&place, &options, &command)?;
    let server = SocketAddr::from((web::SERVER.0, PORT));
    // That nobody answers says nothing of why.
    one_way(server, sizes, times, figures)
        .map_err(|error| running.ended().map_or(error, ExperimentError::from))
}

/// Adds the microseconds of one way for each size.
fn one_way(
    server: SocketAddr,
    sizes: &[usize],
    times: u32,
    figures: &mut [Vec<f64>],
) -> Result<(), ExperimentError> {
    let fail = || system(format!("exchange datagrams with {server}"));
    let socket = UdpSocket::bind("0.0.0.0:0").map_err(fail())?;
    let mut room = vec![0; 65_536];
    // It may not serve yet.
    socket
        .set_read_timeout(Some(Duration::from_millis(10)))
        .map_err(fail())?;
    let mut answer = Ok(0);
    for _ in 0..TRIES {
        // Nor may there be a way to it.
        let connected = socket.connect(server).and_then(|()| socket.send(b"?"));
        answer = connected.and_then(|_| socket.recv(&mut room));
        if answer.is_ok() {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    answer.map_err(fail())?;
    socket.set_read_timeout(Some(TIMEOUT)).map_err(fail())?;
    for (size, figures) in sizes.iter().zip(figures) {
        let message = vec![b'm'; *size];
        let mut result = Ok(0);
        let ns = ns_each(times, || {
            if result.is_ok() {
                result = socket.send(&message).and_then(|_| socket.recv(&mut room));
            }
        });
        result.map_err(fail())?;
        figures.push(ns / 2e3);
    }
    Ok(())
}

/// Fig. 6, and what the bus does under load.
#[must_use]
pub fn charts(outcome: &Outcome) -> Vec<Chart> {
    let chart = |sheet: &Sheet, title: &str, x: Axis| {
        let (first, rest) = sheet.columns.split_first()?;
        let times = rest.iter().filter(|column| column.unit == "us");
        let series = times.map(|column| {
            let points = sheet.points(&first.name, &column.name);
            Series::new(&column.name, points)
        });
        Some(Chart {
            title: title.to_owned(),
            x,
            y: Axis::linear("us"),
            kind: Kind::Lines,
            series: series.collect(),
        })
    };
    let latency = outcome.sheet("latency").and_then(|sheet| {
        chart(
            sheet,
            "One-way latency of UDP (Fig. 6)",
            Axis::linear("bytes"),
        )
    });
    let load = outcome.sheet("load").and_then(|sheet| {
        let x = Axis::linear("messages of 8 KB at once");
        chart(sheet, "To the adapter, under load", x)
    });
    latency.into_iter().chain(load).collect()
}
