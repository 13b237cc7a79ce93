//! `longshore-bench`: measures Longshore beside the kernel.

use clap::Parser;
use longshore_measure::experiment::progress;
use longshore_measure::report::{self, Row, Run};
use longshore_measure::scenarios::{self, Effort, Placement, Scenario};
use longshore_measure::{
    Awake, Environment, Profile, ProfileError, impaired, installed, plain_panics, programs,
};
use longshore_testbed::{Stack, Testbed};
use std::path::PathBuf;
use std::process::ExitCode;

/// Measures Longshore and the kernel in turn, and shows medians side by side.
///
/// Needs root, for network namespaces of its own. The kernel's ends are joined by
/// veth with all offloads; Longshore meets the kernel over TAP. Kernel ends use
/// CUBIC. "Bare port" is a generator in the place of Longshore and its program, on the
/// same port: ready-made answers, no retransmission, no timers, no second process.
#[derive(Debug, Parser)]
#[command(name = "longshore-bench", version, max_term_width = 100)]
struct Arguments {
    /// Only measurements whose name contains one of these words. With `impaired` first:
    /// goodput over paths with loss and delay, only those whose name contains all further
    /// words, as "loss 1 %" "rtt 20 ms"
    #[arg(value_name = "WORD")]
    only: Vec<String>,
    /// Short runs, three of each: for a look, not for the record
    #[arg(long)]
    quick: bool,
    /// Runs of each measurement on each stack
    #[arg(long, value_name = "N")]
    repeats: Option<usize>,
    /// With `impaired`: so many runs at the same time, each on a path of its own
    #[arg(long, value_name = "N", default_value_t = 1)]
    at_once: usize,
    /// With `impaired`: seconds that each run measures
    #[arg(long, value_name = "N")]
    seconds: Option<u64>,
    /// With `impaired`: the luck of the first run
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// With `impaired`: measure nothing, but show all that the files in the directory say
    #[arg(long)]
    table: bool,
    /// Only with idle processors in this mode: halt, or awake
    #[arg(long, value_name = "MODE", value_parser = ["halt", "awake"])]
    idle: Option<String>,
    /// Leave Longshore out: what the kernel does on this machine
    #[arg(long)]
    kernel_only: bool,
    /// Instead of measuring, run each once on each stack under perf, and write where the
    /// time goes: by process, and by function
    #[arg(long)]
    profile: bool,
    /// Write the tables as the documents have them: all rows, and the ratios for the README
    #[arg(long, conflicts_with = "profile")]
    markdown: bool,
    /// Name the measurements and end
    #[arg(long)]
    list: bool,
    /// Where the JSON and the profiles go
    #[arg(long, value_name = "DIRECTORY", default_value = "bench-results")]
    out: PathBuf,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().collect();
    if words.get(1).is_some_and(|word| word == installed::WORD) {
        let name = words.get(2).map_or("", String::as_str);
        return match programs::run(name, words.get(3..).unwrap_or_default()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{name}: {error}");
                ExitCode::FAILURE
            }
        };
    }
    let arguments = Arguments::parse();
    plain_panics();
    if arguments.only.first().is_some_and(|word| word == IMPAIRED) {
        return bad_paths(&arguments, &words);
    }
    let chosen: Vec<Box<dyn Scenario>> = scenarios::all()
        .into_iter()
        .filter(|s| {
            arguments.only.is_empty()
                || arguments
                    .only
                    .iter()
                    .any(|word| s.about().name.contains(word))
        })
        .collect();
    if arguments.list {
        for scenario in &chosen {
            println!("{}", scenario.about().name);
        }
        return ExitCode::SUCCESS;
    }
    if chosen.is_empty() {
        eprintln!("error: no measurement has a name like that; --list shows them");
        return ExitCode::FAILURE;
    }
    if !Awake::has_effect() {
        if arguments.idle.as_deref() == Some("awake") {
            eprintln!("error: this kernel has no driver of idle states, so awake is as halt");
            return ExitCode::FAILURE;
        }
        if chosen.iter().any(|s| s.about().awake.is_some()) {
            eprintln!("awake is not measured: this kernel has no driver of idle states");
        }
    }
    let (rows, mut failed) = run_all(&chosen, &arguments);
    if !arguments.profile {
        failed |= !show(&rows, &arguments, &words);
    }
    if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

/// Measures or profiles each scenario at each of its placements and idle modes; whether one
/// failed, besides.
fn run_all(chosen: &[Box<dyn Scenario>], arguments: &Arguments) -> (Vec<Row>, bool) {
    let (mut rows, mut failed) = (Vec::new(), false);
    for scenario in chosen {
        for placement in scenario.placements() {
            for idle in idle_modes(arguments, scenario.as_ref()) {
                let row = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    if arguments.profile {
                        profile(scenario.as_ref(), *placement, idle, arguments);
                        return None;
                    }
                    Some(measure(scenario.as_ref(), *placement, idle, arguments))
                }));
                match row {
                    Ok(row) => rows.extend(row),
                    Err(_) => failed = true,
                }
            }
        }
    }
    (rows, failed)
}

/// The word that chooses the table of bad paths, which takes too long to be one
/// of the others.
const IMPAIRED: &str = "impaired";

/// Measures goodput over bad paths.
fn bad_paths(arguments: &Arguments, words: &[String]) -> ExitCode {
    let cells: Vec<impaired::Cell> = impaired::Cell::all()
        .filter(|cell| arguments.only[1..].iter().all(|w| cell.name().contains(w)))
        .collect();
    if arguments.list {
        cells.iter().for_each(|cell| println!("{}", cell.name()));
        return ExitCode::SUCCESS;
    }
    if arguments.table {
        return match impaired::table(&arguments.out, &cells) {
            Ok(table) => {
                print!("{table}");
                ExitCode::SUCCESS
            }
            Err(error) => {
                eprintln!("error: reading {}: {error}", arguments.out.display());
                ExitCode::FAILURE
            }
        };
    }
    let (repeats, seconds) = if arguments.quick { (1, 3) } else { (3, 15) };
    let effort = impaired::Effort {
        repeats: arguments.repeats.unwrap_or(repeats),
        at_once: arguments.at_once,
        seconds: arguments.seconds.unwrap_or(seconds),
        first_seed: arguments.seed,
    };
    let rows = impaired::measure(&cells, &effort, progress);
    if show(&rows, arguments, words) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Shows the table and writes the figures to a file; false if that failed.
fn show(rows: &[Row], arguments: &Arguments, words: &[String]) -> bool {
    if arguments.markdown {
        println!("{}", report::markdown::tables(rows));
    } else {
        println!("{}", report::rows(rows));
    }
    let run = Run {
        command: words.join(" "),
        time: Run::now(),
        environment: Environment::here(),
        rows,
    };
    match run.write(&arguments.out) {
        Ok(path) => println!("written to {}", path.display()),
        Err(error) => {
            eprintln!("error: writing to {}: {error}", arguments.out.display());
            return false;
        }
    }
    true
}

fn idle_modes(arguments: &Arguments, scenario: &dyn Scenario) -> Vec<&'static str> {
    match arguments.idle.as_deref() {
        Some("awake") => vec!["awake"],
        Some(_) => vec!["halt"],
        None if scenario.about().awake.is_some() && Awake::has_effect() => vec!["halt", "awake"],
        None => vec!["halt"],
    }
}

impl Arguments {
    fn effort(&self) -> Effort {
        if self.quick {
            Effort::Quick
        } else {
            Effort::Full
        }
    }

    /// The stacks to be looked at.
    fn stacks(&self, scenario: &dyn Scenario) -> impl Iterator<Item = Stack> {
        let longshore = (!self.kernel_only).then_some(Stack::Longshore);
        let kernel = scenario.has_baseline().then_some(Stack::Kernel);
        longshore.into_iter().chain(kernel)
    }
}

/// Keeps the processors in the idle mode as long as what it gives lives.
fn stay(idle: &str) -> Option<Awake> {
    let awake = || Awake::hold().unwrap_or_else(|e| panic!("holding the processors awake: {e}"));
    (idle == "awake").then(awake)
}

/// Runs a scenario under perf, once on each stack.
fn profile(scenario: &dyn Scenario, placement: Placement, idle: &str, arguments: &Arguments) {
    let _awake = stay(idle);
    for stack in arguments.stacks(scenario) {
        let name = format!(
            "{} {} {idle} {stack:?}",
            scenario.about().name,
            placement.name()
        );
        progress(&format!("profile: {name}"));
        let bed = Testbed::for_measurement(stack);
        let fail = |error: ProfileError| -> ! { panic!("{error}") };
        let profile = Profile::begin(&arguments.out, &name).unwrap_or_else(|e| fail(e));
        let sample = scenario.run(&bed, placement, arguments.effort());
        let path = profile.end().unwrap_or_else(|e| fail(e));
        progress("");
        let (figure, unit) = (report::number(sample.value), scenario.about().unit);
        println!(
            "{name}: {figure} {unit} while looked at; {}",
            path.display()
        );
    }
}

/// Runs that take turns on the two stacks.
fn measure(
    scenario: &dyn Scenario,
    placement: Placement,
    idle: &'static str,
    arguments: &Arguments,
) -> Row {
    let effort = arguments.effort();
    let repeats = arguments.repeats.unwrap_or(effort.pick(3, 5));
    let _awake = stay(idle);
    let mut row = Row {
        name: scenario.about().name.to_owned(),
        unit: scenario.about().unit,
        better: scenario.about().better,
        placement: placement.name().to_owned(),
        idle,
        longshore: Vec::new(),
        kernel: Vec::new(),
        bare: Vec::new(),
        target: match idle {
            "awake" => scenario.about().awake,
            _ => scenario.about().target,
        },
        crossings: None,
    };
    for turn in 0..repeats {
        progress(&format!(
            "{} ({}, {idle}): run {} of {repeats}",
            row.name,
            row.placement,
            turn + 1
        ));
        for stack in arguments.stacks(scenario) {
            let bed = Testbed::for_measurement(stack);
            let sample = scenario.run(&bed, placement, effort);
            if stack == Stack::Kernel {
                row.kernel.push(sample.value);
            } else {
                row.longshore.push(sample.value);
                row.crossings = sample.crossings;
            }
        }
        // The bound of each stack on Longshore's port, in the same minute.
        if !arguments.kernel_only {
            let bed = Testbed::for_measurement(Stack::Longshore);
            row.bare.extend(scenario.run_bare(&bed, placement, effort));
        }
    }
    progress("");
    row
}
