//! How a web server's rate grows with processors, as Table 3 has it grow with their clock.

use super::{Effort, keep_to};
use crate::crossing::running::{Place, Running, scratch_directory};
use crate::crossing::web;
use crate::experiment::{
    Axis, Cell, Chart, ExperimentError, Kind, Outcome, Series, Sheet, Spread, progress, system,
};
use crate::experiments::beside::Beside;
use crate::installed;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

/// Bytes of the file that is asked for.
const FILE: u64 = 1 << 10;

/// Which TCP/IP it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stack {
    Longshore,
    Kernel,
}

impl Stack {
    fn name(self) -> &'static str {
        match self {
            Stack::Longshore => "Longshore",
            Stack::Kernel => "kernel",
        }
    }
}

/// Adds the sheet, or what stands in its way.
pub(super) fn measure(
    longshore: &Path,
    effort: Effort,
    processors: &[usize],
    outcome: &mut Outcome,
) -> Result<(), ExperimentError> {
    for program in ["nginx", "wrk"] {
        if let Err(missing) = installed::find(program) {
            let package = format!("Table 3 (Debian's package {})", missing.package);
            outcome.leave_part_out(&package, &missing.into());
            return Ok(());
        }
    }
    let counts: Vec<usize> = (1..=processors.len())
        .filter(|n| n.is_power_of_two())
        .collect();
    let stacks = [Stack::Longshore, Stack::Kernel];
    let mut rates = vec![Vec::new(); stacks.len() * counts.len()];
    let rounds = effort.runs.min(5);
    for round in 1..=rounds {
        for (place, (stack, count)) in pairs(&stacks, &counts).enumerate() {
            progress(&format!(
                "host: nginx on {}, {count} of {} processors, run {round} of {rounds}",
                stack.name(),
                processors.len()
            ));
            let rate = run(longshore, stack, &processors[..count], effort);
            keep_to(processors).map_err(system("be on all processors again"))?;
            rates[place].push(rate?);
        }
    }
    outcome.sheets.push(sheet(&stacks, &counts, &rates));
    Ok(())
}

fn pairs<'a>(
    stacks: &'a [Stack],
    counts: &'a [usize],
) -> impl Iterator<Item = (Stack, usize)> + 'a {
    stacks
        .iter()
        .flat_map(|stack| counts.iter().map(|count| (*stack, *count)))
}

#[expect(clippy::cast_precision_loss, reason = "a handful of processors")]
fn sheet(stacks: &[Stack], counts: &[usize], rates: &[Vec<f64>]) -> Sheet {
    let mut sheet = Sheet::new(
        "scaling",
        "Table 3: nginx's rate (files of 1 KB, 32 connections that are kept) with server, engine \
         and client on so many processors",
        &format!("medians of {} runs in turn", rates[0].len()),
        &[
            ("stack", ""),
            ("processors", "number"),
            ("throughput", "requests/s"),
            ("scale, achieved", "x"),
            ("scale, ideal", "x"),
            ("ratio", "%"),
        ],
    );
    let mut first: Option<(Stack, f64)> = None;
    for ((stack, count), runs) in pairs(stacks, counts).zip(rates) {
        let rate = Spread::of(runs);
        let median = rate.map_or(0.0, |rate| rate.median);
        let base = match first {
            Some((of, base)) if of == stack => base,
            _ => median,
        };
        first = Some((stack, base));
        let achieved = median / base;
        sheet.row([
            Cell::from(stack.name()),
            Cell::Count(count as u64),
            rate.into(),
            Cell::Number(achieved),
            Cell::Number(count as f64),
            Cell::Number(100.0 * achieved / count as f64),
        ]);
    }
    for (machine, rate, achieved, ideal, ratio) in [
        ("paper: 450 MHz P2 Xeon", 2230.0, 1.0, 1.0, 100.0),
        ("paper: 1.6 GHz P4 Xeon", 8893.0, 4.0, 3.56, 112.0),
        ("paper: 3.2 GHz P4 Xeon", 11614.0, 5.0, 7.1, 71.0),
    ] {
        sheet.row([
            Cell::from(machine),
            Cell::Count(1),
            Cell::Number(rate),
            Cell::Number(achieved),
            Cell::Number(ideal),
            Cell::Number(ratio),
        ]);
    }
    sheet
}

/// What is achieved beside what would be ideal.
pub(super) fn chart(sheet: &Sheet) -> Chart {
    let figures = |column: &str| -> Vec<f64> {
        let place = sheet.columns.iter().position(|c| c.name == column);
        let cells = sheet.rows.iter().map(|row| row[place.unwrap_or(0)].value());
        cells.map(Option::unwrap_or_default).collect()
    };
    let groups = sheet
        .rows
        .iter()
        .zip(figures("processors"))
        .map(|(row, count)| match &row[0] {
            Cell::Text(name) if !name.starts_with("paper") => format!("{name} x{count}"),
            Cell::Text(name) => name.trim_start_matches("paper: ").replace(" Xeon", ""),
            _ => String::new(),
        });
    let numbered = |column: &str| {
        let figures = figures(column).into_iter().zip(0_u32..);
        Series::new(column, figures.map(|(y, x)| (f64::from(x), y)).collect())
    };
    Chart {
        title: "Scaling of a web server's rate (Table 3)".to_owned(),
        x: Axis::linear("by processors here, by their clock in the paper"),
        y: Axis::linear("times the first"),
        kind: Kind::Bars(groups.collect()),
        series: vec![numbered("scale, achieved"), numbered("scale, ideal")],
    }
}

/// Requests each second.
fn run(
    longshore: &Path,
    stack: Stack,
    processors: &[usize],
    effort: Effort,
) -> Result<f64, ExperimentError> {
    keep_to(processors).map_err(system("keep to some processors"))?;
    let directory = scratch_directory()?;
    let place = Place {
        longshore,
        directory: directory.path(),
        captures: false,
    };
    let command = web::prepare(directory.path(), &[FILE])?;
    match stack {
        Stack::Longshore => {
            let options = ["--addr", web::ADDRESS].map(OsString::from);
            let mut nginx = Running::quietly(&place, &options, &command)?;
            let server = SocketAddr::from(web::SERVER);
            nginx.wait_until_served(server)?;
            wrk(server, effort)
        }
        Stack::Kernel => {
            let mut nginx = Beside::server(Command::new(&command[0]).args(&command[1..]))?;
            let server = SocketAddr::from(([127, 0, 0, 1], web::SERVER.1));
            nginx.wait_until_served(server)?;
            wrk(server, effort)
        }
    }
}

/// The rate that wrk sees with 32 connections.
fn wrk(server: SocketAddr, effort: Effort) -> Result<f64, ExperimentError> {
    let seconds = effort.times(2);
    let said = Command::new(installed::find("wrk")?)
        .args(["-t1", "-c32", &format!("-d{seconds}s")])
        .arg(format!("http://{server}/{}", web::name(FILE)))
        .output()
        .map_err(system("start wrk"))?;
    let text = String::from_utf8_lossy(&said.stdout);
    let rate = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("Requests/sec:"))
        .and_then(|rate| rate.trim().parse().ok());
    let is_well = !text.contains("Non-2xx") && !text.contains("Socket errors");
    rate.filter(|_| is_well)
        .ok_or_else(|| ExperimentError::Program {
            program: "wrk".to_owned(),
            why: format!("{text}{}", String::from_utf8_lossy(&said.stderr)),
        })
}
