//! What it saves that little payload crosses with its descriptor, by the bytes of a message:
//! the crossings of an exchange, what these take on buses, and the instructions of both ways.
//! The 2005 paper's prototype had nothing of the kind; it shows up to which size it pays.

use super::{characterize, tap};
use crate::crossing::running::{Place, Running, scratch_directory};
use crate::crossing::web;
use crate::experiment::{
    Axis, Cell, Chart, ExperimentError, Kind, Outcome, Series, Sheet, progress, system,
};
use crate::installed;
use longshore_bus::{AnyBus, Cxl, Generation, PciX, Pcie, Signals, Traffic, crossed};
use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

/// Its name on the command line.
pub const NAME: &str = "immediate";
const PAPER: &str = "none; the interface is that of Freimuth et al., Server network scalability \
                     and TCP offload, USENIX 2005";
const PORT: u16 = 7;
/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of messages: up to what a request can carry.
const SIZES: [usize; 8] = [32, 64, 128, 256, 512, 768, 1024, 1312];
/// The ways of payload, as columns call them, and the answers to `--immediate-data`.
const WAYS: [(&str, &str); 2] = [("with", "yes"), ("apart", "no")];
/// Directions, as columns of instructions call them.
const SENDING: &str = "sending";
const RECEIVING: &str = "receiving";

fn sizes(quick: bool) -> Vec<usize> {
    let all = SIZES.into_iter();
    all.filter(|size| !quick || [64, 1312].contains(size))
        .collect()
}

fn buses() -> [AnyBus; 4] {
    [
        AnyBus::PciX(PciX::default()),
        AnyBus::Pcie(Pcie::new(Generation::Gen3, 8)),
        AnyBus::Pcie(Pcie::new(Generation::Gen5, 8)),
        AnyBus::Cxl(Cxl),
    ]
}

/// What so many exchanges of a message moved, on each bus.
struct Exchanges {
    times: u32,
    on: [Traffic; 4],
}

impl Exchanges {
    #[expect(clippy::cast_precision_loss, reason = "a mean to show")]
    fn each(&self, sum: u64) -> f64 {
        sum as f64 / f64::from(self.times)
    }

    /// What an exchange moves, whatever the bus: transfers to the host and to the adapter,
    /// bytes, and reads that are waited for.
    fn moved(&self) -> [f64; 4] {
        let traffic = &self.on[0];
        let (receive, send) = (&traffic.receive, &traffic.send);
        [
            receive.transfers,
            send.transfers,
            receive.bytes + send.bytes,
            receive.round_trips + send.round_trips,
        ]
        .map(|sum| self.each(sum))
    }

    fn cycles(&self) -> impl Iterator<Item = f64> + '_ {
        let sum = |traffic: &Traffic| traffic.receive.cycles + traffic.send.cycles;
        self.on.iter().map(move |traffic| self.each(sum(traffic)))
    }
}

/// Counts both ways. The process must be in a network namespace of its own, in which it may
/// make devices.
///
/// # Errors
/// [`ExperimentError`].
pub fn measure(longshore: &Path, quick: bool) -> Result<Outcome, ExperimentError> {
    tap::needed()?;
    let mut outcome = Outcome::new(NAME, PAPER, quick);
    let sizes = sizes(quick);
    let times = if quick { 100 } else { 1000 };
    let mut ways = Vec::new();
    for (name, answer) in WAYS {
        progress(&format!("immediate: messages, payload {name}"));
        ways.push(exchanges(longshore, answer, &sizes, times)?);
    }
    outcome.sheets.push(crossings(&sizes, &ways, times));
    outcome.sheets.push(cycles(&sizes, &ways));
    progress("immediate: instructions");
    match instructions(longshore, &sizes) {
        Ok(sheet) => outcome.sheets.push(sheet),
        Err(ExperimentError::Missing(missing)) => {
            outcome.leave_part_out("instructions", &missing.into());
        }
        Err(other) => return Err(other),
    }
    let best = largest(&sizes, &outcome);
    outcome.sheets.push(best);
    progress("");
    outcome.left_out.push(
        "how long an exchange takes: where host and engine share memory, wake-ups take many times \
         what these copies do"
            .to_owned(),
    );
    Ok(outcome)
}

/// The traffic of exchanges of each size with a server that runs under Longshore.
fn exchanges(
    longshore: &Path,
    answer: &str,
    sizes: &[usize],
    times: u32,
) -> Result<Vec<Exchanges>, ExperimentError> {
    let directory = scratch_directory()?;
    let place = Place {
        longshore,
        directory: directory.path(),
        captures: false,
    };
    let command = installed::own(longshore, &["echo", "0.0.0.0:7"]);
    let mut options = web::OPTIONS.map(OsString::from).to_vec();
    options.extend(["--immediate-data", answer].map(OsString::from));
    let mut running = Running::quietly(&place, &options, &command)?;
    let server = SocketAddr::from((web::SERVER.0, PORT));
    running.wait_until_served(server)?;
    let mut all = Vec::new();
    for size in sizes {
        let mut stream = TcpStream::connect_timeout(&server, TIMEOUT)
            .map_err(system("connect to the server"))?;
        let prepared = stream
            .set_nodelay(true)
            .and_then(|()| stream.set_read_timeout(Some(TIMEOUT)));
        prepared.map_err(system("prepare a socket"))?;
        // The first exchanges make what the others use.
        talk(&mut stream, *size, times / 10)?;
        let before = running.counts_at_rest()?;
        talk(&mut stream, *size, times)?;
        let counts = running.counts_at_rest()?.since(&before);
        let (to_host, to_adapter) = (&counts.to_host, &counts.to_adapter);
        let on = buses().map(|bus| crossed(&bus, to_host, to_adapter, Signals::default()));
        all.push(Exchanges { times, on });
    }
    Ok(all)
}

fn talk(stream: &mut TcpStream, size: usize, times: u32) -> Result<(), ExperimentError> {
    let mut message = vec![b'm'; size];
    for _ in 0..times {
        stream
            .write_all(&message)
            .and_then(|()| stream.read_exact(&mut message))
            .map_err(system("exchange a message"))?;
    }
    Ok(())
}

fn crossings(sizes: &[usize], ways: &[Vec<Exchanges>], times: u32) -> Sheet {
    let figures = [
        ("to the host", "transfers"),
        ("to the adapter", "transfers"),
        ("moved", "bytes"),
        ("round trips", "number"),
    ];
    let names: Vec<(String, &str)> = WAYS
        .iter()
        .flat_map(|(way, _)| figures.map(|(name, unit)| (format!("{way}: {name}"), unit)))
        .collect();
    let columns = [("message", "bytes")].into_iter();
    let columns: Vec<_> = columns
        .chain(names.iter().map(|(name, unit)| (name.as_str(), *unit)))
        .collect();
    let mut sheet = Sheet::new(
        "crossings",
        "What an exchange of a message moves, payload with its descriptor and apart",
        &format!("exact counts of {times} exchanges, a message there and back, divided"),
        &columns,
    );
    for (row, size) in sizes.iter().enumerate() {
        let moved = ways.iter().flat_map(|way| way[row].moved());
        let size = [Cell::Count(*size as u64)].into_iter();
        sheet.row(size.chain(moved.map(Cell::Number)));
    }
    sheet
}

fn cycles(sizes: &[usize], ways: &[Vec<Exchanges>]) -> Sheet {
    let names: Vec<String> = WAYS
        .iter()
        .flat_map(|(way, _)| buses().map(|bus| format!("{way}: {bus}")))
        .collect();
    let columns = [("message", "bytes")].into_iter();
    let columns: Vec<_> = columns
        .chain(names.iter().map(|name| (name.as_str(), "cycles")))
        .collect();
    let mut sheet = Sheet::new(
        "cycles",
        "The cycles of buses that this takes, both directions",
        "computed from the counts above: exact on pcix, on others the most that such sums can take",
        &columns,
    );
    for (row, size) in sizes.iter().enumerate() {
        let cycles = ways.iter().flat_map(|way| way[row].cycles());
        let size = [Cell::Count(*size as u64)].into_iter();
        sheet.row(size.chain(cycles.map(Cell::Number)));
    }
    sheet
}

fn instructions(longshore: &Path, sizes: &[usize]) -> Result<Sheet, ExperimentError> {
    let mut sheet = Sheet::new(
        "instructions",
        "Instructions of a message, of program and engine, payload with its descriptor and apart",
        "means over 256 KB of messages, counted by callgrind as for `characterize`",
        &[
            ("message", "bytes"),
            ("with: sending", "number"),
            ("with: receiving", "number"),
            ("apart: sending", "number"),
            ("apart: receiving", "number"),
        ],
    );
    let with = characterize::instructions(longshore, sizes, true)?;
    let apart = characterize::instructions(longshore, sizes, false)?;
    for ((size, with), apart) in sizes.iter().zip(with).zip(apart) {
        let size = [Cell::Count(*size as u64)].into_iter();
        sheet.row(size.chain(with.into_iter().chain(apart).map(Cell::Number)));
    }
    Ok(sheet)
}

/// Up to which size it pays, by what is looked at.
fn largest(sizes: &[usize], outcome: &Outcome) -> Sheet {
    let mut sheet = Sheet::new(
        "pays",
        "Up to which message payload with its descriptor is not dearer",
        "the largest of these sizes of which that is so, and of all that are smaller; a request \
         carries at most 1,312 bytes",
        &[("by", ""), ("message", "bytes")],
    );
    let mut add = |by: String, name: &str, column: &str| {
        let Some(figures) = outcome.sheet(name) else {
            return;
        };
        let value =
            |way: &str, size: usize| figures.value(&size.to_string(), &format!("{way}: {column}"));
        let pays = |size: &usize| Some(value("with", *size)? <= value("apart", *size)?);
        let last = sizes.iter().take_while(|s| pays(s) == Some(true)).last();
        sheet.row([by.into(), last.map(|size| Cell::Count(*size as u64)).into()]);
    };
    add("bytes that move".to_owned(), "crossings", "moved");
    add("round trips".to_owned(), "crossings", "round trips");
    for bus in buses() {
        add(format!("cycles of {bus}"), "cycles", &bus.to_string());
    }
    for direction in [SENDING, RECEIVING] {
        add(
            format!("instructions, {direction}"),
            "instructions",
            direction,
        );
    }
    sheet
}

/// Instructions, and cycles of the quickest PCIe that is compared.
#[must_use]
pub fn charts(outcome: &Outcome) -> Vec<Chart> {
    let chart = |title: &str, unit: &str, sheet: &str, columns: &[String]| {
        let sheet = outcome.sheet(sheet)?;
        let series = |column: &String| Series::new(column, sheet.points("message", column));
        Some(Chart {
            title: title.to_owned(),
            x: Axis::doubling("message, bytes"),
            y: Axis::linear(unit),
            kind: Kind::Lines,
            series: columns.iter().map(series).collect(),
        })
    };
    let both = |what: &[String]| -> Vec<String> {
        let of = |way: &'static str| what.iter().map(move |it| format!("{way}: {it}"));
        WAYS.iter().flat_map(|(way, _)| of(way)).collect()
    };
    let [_, _, pcie, cxl] = buses().map(|bus| bus.to_string());
    [
        chart(
            "Instructions of a message",
            "instructions",
            "instructions",
            &both(&[SENDING.to_owned(), RECEIVING.to_owned()]),
        ),
        chart(
            "Cycles of an exchange",
            "cycles",
            "cycles",
            &both(&[pcie, cxl]),
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_pays_up_to_where_it_is_dearer() {
        let mut outcome = Outcome::new(NAME, PAPER, true);
        let columns = ["message", "with: sending", "apart: sending"].map(|name| (name, "number"));
        let mut sheet = Sheet::new("instructions", "", "", &columns);
        // Dearer at 128: that it is cheaper beyond does not count.
        for (size, with, apart) in [(64, 1.0, 2.0), (128, 3.0, 2.0), (256, 1.0, 2.0)] {
            sheet.row([Cell::Count(size), Cell::Number(with), Cell::Number(apart)]);
        }
        outcome.sheets.push(sheet);
        let pays = largest(&[64, 128, 256], &outcome);
        assert_eq!(pays.value("instructions, sending", "message"), Some(64.0));
        assert_eq!(pays.value("instructions, receiving", "message"), None);
    }
}
