//! `longshore measure all`: each experiment in a process of its own, one page of all, and the
//! papers' claims held against it.

use super::args::{AllArguments, PARTS_OF_ALL};
use super::own_file;
use crate::errors::{Error, system};
use crate::log::say;
use longshore_measure::experiment::{self, Outcome, claims, html, progress};
use longshore_measure::experiments;
use std::path::Path;
use std::process::{Command, Stdio};

/// A claim that held does not hold any more.
const LOST: u8 = 1;

/// Makes the experiments whose outcomes are not there, and the page; the exit code.
pub(super) fn run(arguments: &AllArguments) -> Result<u8, Error> {
    let mut results = arguments.out.clone().into_os_string();
    results.push(".results");
    let results = Path::new(&results);
    std::fs::create_dir_all(results)
        .map_err(system(format!("make the directory {}", results.display())))?;
    let wanted =
        |name: &&&str| arguments.only.is_empty() || arguments.only.contains(&(**name).into());
    let (mut outcomes, mut code) = (Vec::new(), 0);
    for name in PARTS_OF_ALL.iter().filter(wanted) {
        let kept = results.join(format!("{name}.json"));
        let there =
            read(&kept).filter(|outcome| !arguments.fresh && fits(outcome, arguments, name));
        if there.is_some() {
            progress(&format!("{name}: is there already"));
        }
        match there.map_or_else(
            || measure(name, &kept, arguments),
            |outcome| Ok(Some(outcome)),
        )? {
            Some(outcome) => outcomes.push(outcome),
            None => code = crate::errors::OWN_FAILURE,
        }
    }
    progress("");
    let write = |path: &Path, text: &str| {
        std::fs::write(path, text).map_err(system(format!("write {}", path.display())))
    };
    write(&arguments.out, &html::page(&outcomes)?)?;
    say(&format!("written to {}", arguments.out.display()));
    if let Some(directory) = &arguments.plots {
        for outcome in &outcomes {
            let path = directory.join(format!("{}.svg", outcome.experiment));
            experiment::draw(&path, &experiments::charts(outcome))?;
        }
    }
    let Some(path) = &arguments.claims else {
        return Ok(code);
    };
    let before = std::fs::read_to_string(path).unwrap_or_default();
    let written = claims::write(&outcomes, &before);
    for claim in &written.lost {
        say(&format!("does not hold any more: {claim}"));
    }
    if !written.lost.is_empty() {
        return Ok(LOST);
    }
    write(path, &written.table)?;
    Ok(code)
}

/// What an experiment gave earlier, if all of it is there.
fn read(path: &Path) -> Option<Outcome> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

/// Whether it is what would be measured now.
fn fits(outcome: &Outcome, arguments: &AllArguments, name: &str) -> bool {
    // `bus` has no short runs.
    let effort = outcome.quick == arguments.quick || name == "bus";
    effort && outcome.machine == longshore_measure::Environment::here()
}

/// Makes an experiment; none if it fails, which it says itself.
fn measure(name: &str, kept: &Path, arguments: &AllArguments) -> Result<Option<Outcome>, Error> {
    let mut command = Command::new(own_file()?);
    command
        .args(["measure", name, "--csv", "--outcome"])
        .arg(kept);
    if arguments.quick && name != "bus" {
        command.arg("--quick");
    }
    let status = command
        .stdout(Stdio::null())
        .status()
        .map_err(system("start longshore"))?;
    if !status.success() {
        say(&format!("{name} is left out: it ended with {status}"));
        return Ok(None);
    }
    Ok(read(kept))
}
