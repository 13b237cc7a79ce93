//! `longshore measure`: experiments that show what crosses between host and adapter, and what
//! that costs on a bus. What they do stands in the crate `measure`; here are their command
//! lines, the network namespace in which they run, and where results go.

mod all;
pub(crate) mod args;
mod interruption;

use crate::batching::BatchingOrder;
use crate::errors::{Error, OWN_FAILURE, SIGNAL_BASE, system};
use crate::log::say;
use crate::namespace;
use crate::signals::{FORWARDED, Signals};
use args::{
    BusArguments, Experiment, ExperimentArguments, MeasureArguments, OutputArguments,
    PredictArguments,
};
use longshore_bus::AnyBus;
use longshore_measure::chart;
use longshore_measure::crossing::load::{self, LoadRow};
use longshore_measure::crossing::web::{self, Plan, SIZES, WebServer};
use longshore_measure::crossing::{
    self, CrossingError, Model, Prediction, Row, over_generations, plot, program, show,
};
use longshore_measure::experiment::{ExperimentError, Outcome, QUICK, progress};
use longshore_measure::experiments::{
    self, bus, characterize, cpu, host, immediate, latency, path, port, sweep, tap,
};
use rustix::process::{Pid, kill_process};
use std::fs::OpenOptions;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

/// Runs the command, which is one of `program`'s; the exit code.
pub(crate) fn run(arguments: &MeasureArguments, program: &clap::Command) -> Result<u8, Error> {
    let files = arguments.experiment.as_ref().and_then(Experiment::files);
    let (outcome, plot) = files.unwrap_or_default();
    // What is measured for minutes is not to be lost for this.
    if let Some(plot) = plot {
        check_writable(plot)?;
    }
    let result = experiment(arguments, program);
    interruption::wait_for_end_if_interrupted();
    match (result, outcome) {
        // `all` says it.
        (Err(error), Some(path)) if all::note_failure(path, &error) => Ok(error.code()),
        (result, _) => result,
    }
}

/// Fails if this file cannot be written; it is as it was afterwards.
fn check_writable(path: &Path) -> Result<(), Error> {
    let was_there = path.exists();
    let opened = OpenOptions::new().create(true).append(true).open(path);
    opened.map_err(system(format!("write {}", path.display())))?;
    if !was_there {
        let _ = std::fs::remove_file(path);
    }
    Ok(())
}

/// Puts this process into a network namespace of its own for an experiment, before any thread is
/// started.
fn in_own_place() -> Result<(), Error> {
    namespace::enter_as_root()?;
    interruption::clean_up_if_interrupted()
}

fn experiment(arguments: &MeasureArguments, program: &clap::Command) -> Result<u8, Error> {
    match &arguments.experiment {
        None => list(program).map(|()| 0),
        Some(Experiment::Bus(bus)) if bus.program.is_empty() => of_nginx(bus).map(|()| 0),
        Some(Experiment::Bus(bus)) => of_program(bus),
        Some(Experiment::Predict(arguments)) if arguments.check => check(arguments),
        Some(Experiment::Predict(arguments)) => predict(arguments).map(|()| 0),
        Some(Experiment::Host(arguments)) => in_own_network(arguments, host::measure).map(|()| 0),
        Some(Experiment::Sweep(arguments)) => in_own_network(arguments, sweep::measure).map(|()| 0),
        Some(Experiment::Latency(arguments)) => {
            in_own_network(arguments, latency::measure).map(|()| 0)
        }
        Some(Experiment::Cpu(arguments)) => in_own_network(arguments, cpu::measure).map(|()| 0),
        Some(Experiment::Characterize(arguments)) => {
            in_own_network(arguments, characterize::measure).map(|()| 0)
        }
        Some(Experiment::Immediate(arguments)) => {
            in_own_network(arguments, immediate::measure).map(|()| 0)
        }
        Some(Experiment::Port(arguments)) => in_own_network(arguments, port::measure).map(|()| 0),
        Some(Experiment::All(arguments)) => all::run(arguments),
        Some(Experiment::Path(arguments)) => {
            let measure = |own: &Path, quick| path::measure(own, quick, arguments.mips);
            in_own_network(&arguments.experiment, measure).map(|()| 0)
        }
    }
}

/// Writes what an experiment gave for `all`.
fn keep(outcome: &Outcome, path: &Path) -> Result<(), Error> {
    let text = serde_json::to_vec(outcome)
        .map_err(|error| system("write an outcome")(std::io::Error::from(error)))?;
    std::fs::write(path, text).map_err(system(format!("write {}", path.display())))
}

/// Makes an experiment in a network namespace of its own, and shows what it gave.
fn in_own_network(
    arguments: &ExperimentArguments,
    measure: impl FnOnce(&Path, bool) -> Result<Outcome, ExperimentError>,
) -> Result<(), Error> {
    in_own_place()?;
    show_outcome(&measure(&own_file()?, arguments.quick)?, &arguments.output)
}

fn show_outcome(outcome: &Outcome, output: &OutputArguments) -> Result<(), Error> {
    if let Some(path) = &output.plot {
        chart::draw(path, &experiments::charts(outcome))?;
    }
    if let Some(path) = &output.outcome {
        keep(outcome, path)?;
    }
    if output.json {
        return crate::print_json(&outcome.json());
    }
    let text = match output.csv {
        true => outcome.csv(),
        false => outcome.tables(),
    };
    crate::print(&text).map_err(system("print"))
}

/// Says which experiments there are.
fn list(program: &clap::Command) -> Result<(), Error> {
    let measure = program.find_subcommand("measure");
    let experiments = measure.into_iter().flat_map(clap::Command::get_subcommands);
    let lines = experiments.filter(|e| !e.is_hide_set()).map(|experiment| {
        let about = experiment.get_about().map(ToString::to_string);
        format!(
            "  longshore measure {:<13}{:>14}  {}\n",
            experiment.get_name(),
            how_long(experiment.get_name()),
            about.unwrap_or_default()
        )
    });
    let text = format!(
        "Experiments, and how long they take (with --quick):\n{}",
        lines.collect::<String>()
    );
    crate::print(&text).map_err(system("print"))
}

/// How long an experiment takes, for the list.
fn how_long(name: &str) -> String {
    let text = |seconds: u32| match seconds {
        0..90 => format!("{seconds} s"),
        _ => format!("{} min", seconds.div_ceil(60)),
    };
    match Experiment::seconds(name) {
        Some((full, Some(quick))) => format!("{} ({})", text(full), text(quick)),
        Some((full, None)) => text(full),
        None => String::new(),
    }
}

/// This program's own file.
fn own_file() -> Result<PathBuf, Error> {
    std::env::current_exe().map_err(system("find this program's own file"))
}

/// Fetches of each file, of which the one in the middle counts.
const FETCHES: u32 = 11;

/// Measures nginx.
fn of_nginx(arguments: &BusArguments) -> Result<(), Error> {
    let sizes = match arguments.size.as_slice() {
        [] => SIZES.to_vec(),
        some => some.to_vec(),
    };
    let quick = arguments.quick;
    let plan = Plan {
        sizes,
        fetches: arguments.fetches.unwrap_or(if quick { 3 } else { FETCHES }),
        batching: Some(arguments.batching.into()).filter(|_| is_fixed(arguments)),
        settles_in: 3 * arguments.batching.longest(),
    };
    let model = arguments.model();
    in_own_place()?;
    tap::needed()?;
    let longshore = own_file()?;
    let Crossings {
        rows,
        loads,
        missing,
    } = crossings_of(arguments, &longshore, &plan, &model)?;
    if let Some(path) = &arguments.outcome {
        let mut outcome = bus::outcome(&rows, &loads, &model.bus, quick);
        outcome.leave_parts_out(missing);
        keep(&outcome, path)?;
    }
    if let Some(path) = &arguments.plot {
        let of_nginx = rows.iter().filter(|row| row.workload == WebServer::Nginx);
        let of_nginx: Vec<_> = of_nginx.cloned().collect();
        plot::draw(path, &of_nginx, &model.bus.to_string())?;
    }
    if arguments.json {
        return crate::print_json(&BusRows { rows, loads, quick });
    }
    let text = match arguments.csv {
        true if quick => format!("# {QUICK}\n{}", show::csv(&rows, &loads)),
        true => show::csv(&rows, &loads),
        false => {
            let tables = tables_of_nginx(rows, &loads, &model.bus);
            match quick {
                true => format!("{QUICK}\n\n{tables}"),
                false => tables,
            }
        }
    };
    crate::print(&text).map_err(system("print"))
}

/// Whether batching is by a fixed rule.
fn is_fixed(arguments: &BusArguments) -> bool {
    arguments.batching != BatchingOrder::Adaptive
}

/// What crossed for fetches and loads, and what could not be measured.
struct Crossings {
    rows: Vec<Row>,
    loads: Vec<LoadRow>,
    missing: Vec<String>,
}

/// Measures what is wanted, one server after the other.
fn crossings_of(
    arguments: &BusArguments,
    longshore: &Path,
    plan: &Plan,
    model: &Model,
) -> Result<Crossings, Error> {
    let quick = arguments.quick;
    progress("bus: nginx");
    let mut fetches = web::measure(longshore, plan, model)?;
    let (mut loads, mut missing) = (Vec::new(), Vec::new());
    // A user who chooses files wants these and nothing else; with fixed batching whatever goes
    // one by one takes as long as its timers do.
    let has_more = arguments.size.is_empty() && !is_fixed(arguments);
    if has_more {
        (loads, missing) = load::measure(longshore, quick, model)?;
    }
    if has_more && !quick {
        progress("bus: lighttpd");
        match web::measure_with(WebServer::Lighttpd, longshore, plan, model) {
            Ok(more) => fetches.extend(more),
            Err(CrossingError::Missing(lighttpd)) => missing.push(format!(
                "{lighttpd} (Debian's package {})",
                lighttpd.package
            )),
            Err(other) => return Err(other.into()),
        }
    }
    progress("");
    for reason in &missing {
        say(&format!("left out: {reason}"));
    }
    let rows = fetches.iter().flat_map(|fetch| fetch.rows(model));
    Ok(Crossings {
        rows: rows.collect(),
        loads,
        missing,
    })
}

/// The tables of fetches, nginx's first, and of loads.
fn tables_of_nginx(rows: Vec<Row>, loads: &[LoadRow], bus: &AnyBus) -> String {
    let (of_nginx, others): (Vec<Row>, Vec<Row>) = rows
        .into_iter()
        .partition(|row| row.workload == WebServer::Nginx);
    let mut text = show::tables(&of_nginx, bus);
    text += &show::tables(&others, bus);
    if !loads.is_empty() {
        text += &show::load_table(loads, bus);
    }
    text + show::legend()
}

/// Rows of fetches and of loads, as one array.
struct BusRows {
    rows: Vec<Row>,
    loads: Vec<LoadRow>,
    quick: bool,
}

/// A row, and whether it is for a look only.
#[derive(serde::Serialize)]
struct Marked<'a, R> {
    #[serde(flatten)]
    row: &'a R,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    quick: bool,
}

impl serde::Serialize for BusRows {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeSeq;
        let mut all = serializer.serialize_seq(Some(self.rows.len() + self.loads.len()))?;
        let quick = self.quick;
        for row in &self.rows {
            all.serialize_element(&Marked { row, quick })?;
        }
        for row in &self.loads {
            all.serialize_element(&Marked { row, quick })?;
        }
        all.end()
    }
}

/// Holds predictions against modelled buses; the exit code.
fn check(arguments: &PredictArguments) -> Result<u8, Error> {
    in_own_place()?;
    tap::needed()?;
    let all = crossing::check::check(&own_file()?)?;
    if arguments.json {
        crate::print_json(&all)?;
    } else {
        crate::print(&crossing::check::table(&all)).map_err(system("print"))?;
    }
    Ok(u8::from(!all.iter().all(crossing::check::Checked::holds)))
}

/// Predicts what nginx would reach with an adapter on a bus.
fn predict(arguments: &PredictArguments) -> Result<(), Error> {
    let plan = Plan {
        sizes: SIZES.to_vec(),
        fetches: FETCHES,
        ..Plan::default()
    };
    let model = arguments.model.model();
    let adapter = arguments.adapter_latency.unwrap_or_default();
    in_own_place()?;
    tap::needed()?;
    let fetches = web::measure(&own_file()?, &plan, &model)?;
    if let Some(path) = &arguments.plot {
        let charts = over_generations(&fetches, &model, adapter);
        chart::draw(path, &charts)?;
    }
    let all = fetches.iter();
    let all: Vec<_> = all
        .map(|fetch| Prediction::of(fetch, &model, adapter))
        .collect();
    if arguments.json {
        return crate::print_json(&all);
    }
    let text = match arguments.csv {
        true => show::predictions_csv(&all),
        false => show::predictions(&all, &model.bus),
    };
    crate::print(&text).map_err(system("print"))
}

/// Measures a program of the user's; the exit code.
fn of_program(arguments: &BusArguments) -> Result<u8, Error> {
    let model = arguments.model();
    // `longshore run` passes them on, and ends when its program has ended.
    let signals = Signals::block(&FORWARDED).map_err(system("block signals"))?;
    let (longshore, mut options) = (own_file()?, arguments.network.options());
    options.extend(["--batching".into(), String::from(arguments.batching).into()]);
    let order = program::Order {
        longshore: &longshore,
        options: &options,
        program: &arguments.program,
        adjust: &|command| signals.unblock_in(command),
        supervise: &|pid| pass_on(&signals, pid),
    };
    let (totals, status) = program::measure(&order, &model)?;
    if totals.is_empty() {
        return Ok(code(status));
    }
    if arguments.json {
        crate::print_json(&totals)?;
    } else {
        let text = match arguments.csv {
            true => show::totals_csv(&totals),
            false => show::totals(&totals, &model.bus),
        };
        crate::print(&text).map_err(system("print"))?;
    }
    Ok(code(status))
}

/// Passes signals on that `longshore run` has not had from the terminal.
fn pass_on(signals: &Signals, pid: u32) {
    while let Some(signal) = signals.next() {
        let pid = Pid::from_raw(pid.cast_signed());
        let number = rustix::process::Signal::from_named_raw(signal.number);
        if let (Some(pid), Some(number), false) = (pid, number, signal.from_terminal)
            && let Err(errno) = kill_process(pid, number)
        {
            say(&format!("cannot pass a signal on: {errno}"));
        }
    }
}

fn code(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => u8::try_from(code).unwrap_or(OWN_FAILURE),
        (None, Some(signal)) => SIGNAL_BASE.wrapping_add(u8::try_from(signal).unwrap_or(0)),
        (None, None) => OWN_FAILURE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Arguments;
    use clap::CommandFactory;

    #[test]
    fn of_each_experiment_it_is_known_how_long_it_takes() {
        let command = Arguments::command();
        let measure = command.find_subcommand("measure").unwrap();
        for experiment in measure.get_subcommands().filter(|e| !e.is_hide_set()) {
            assert!(!how_long(experiment.get_name()).is_empty(), "{experiment}");
        }
        assert_eq!(how_long("host"), "60 s (15 s)");
        assert_eq!(how_long("another"), "");
    }
}
