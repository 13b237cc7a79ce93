//! `longshore measure all`: each experiment in a process of its own, one page of all, and the
//! papers' claims held against it.

use super::args::{AllArguments, PARTS_OF_ALL};
use super::{interruption, own_file};
use crate::errors::{Error, system};
use crate::log::say;
use longshore_measure::chart;
use longshore_measure::experiment::{Outcome, claims, progress};
use longshore_measure::experiments;
use longshore_measure::html::{self, LeftOut};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A claim that held does not hold any more.
const LOST: u8 = 1;

/// Makes the experiments whose outcomes are not there, and the page; the exit code.
pub(super) fn run(arguments: &AllArguments) -> Result<u8, Error> {
    let mut results = arguments.out.clone().into_os_string();
    results.push(".results");
    let results = Path::new(&results);
    interruption::clean_up_if_interrupted()?;
    std::fs::create_dir_all(results)
        .map_err(system(format!("make the directory {}", results.display())))?;
    if let Some(directory) = &arguments.plots {
        std::fs::create_dir_all(directory).map_err(system(format!(
            "make the directory {}",
            directory.display()
        )))?;
    }
    let Gathered {
        outcomes,
        left_out,
        code,
    } = gather(results, arguments)?;
    progress("");
    let write = |path: &Path, text: &str| {
        std::fs::write(path, text).map_err(system(format!("write {}", path.display())))
    };
    write(&arguments.out, &html::page(&outcomes, &left_out)?)?;
    say(&format!("written to {}", arguments.out.display()));
    if let Some(directory) = &arguments.plots {
        for outcome in &outcomes {
            let path = directory.join(format!("{}.svg", outcome.experiment));
            chart::draw(&path, &experiments::charts(outcome))?;
        }
    }
    let Some(path) = &arguments.claims else {
        return Ok(code);
    };
    let before = std::fs::read_to_string(path).unwrap_or_default();
    let written = claims::write(&outcomes, &before);
    for claim in &written.changed {
        say(&format!("differs: {claim}"));
    }
    for claim in &written.lost {
        say(&format!("does not hold any more: {claim}"));
    }
    if !written.lost.is_empty() {
        return Ok(LOST);
    }
    write(path, &written.table)?;
    Ok(code)
}

/// The outcomes of the experiments that are wanted, and those that could not be had.
struct Gathered {
    outcomes: Vec<Outcome>,
    left_out: Vec<LeftOut>,
    /// The exit code so far.
    code: u8,
}

/// Reads the outcomes that are kept in `results`, and makes the others.
fn gather(results: &Path, arguments: &AllArguments) -> Result<Gathered, Error> {
    let wanted =
        |name: &&&str| arguments.only.is_empty() || arguments.only.contains(&(**name).into());
    let (mut outcomes, mut left_out, mut code) = (Vec::new(), Vec::new(), 0);
    for name in PARTS_OF_ALL.iter().filter(wanted) {
        let kept = results.join(format!("{name}.json"));
        let there = read(&kept).filter(|outcome| {
            !arguments.fresh && is_of_this_build(&kept) && fits(outcome, arguments)
        });
        if there.is_some() {
            progress(&format!("{name}: is there already"));
        }
        match there.map_or_else(
            || measure(name, &kept, arguments),
            |outcome| Ok(Ok(outcome)),
        )? {
            Ok(outcome) => outcomes.push(outcome),
            Err(why) => {
                say(&format!("{name} is left out: {why}"));
                let experiment = (*name).to_owned();
                left_out.push(LeftOut { experiment, why });
                code = crate::errors::OWN_FAILURE;
            }
        }
    }
    Ok(Gathered {
        outcomes,
        left_out,
        code,
    })
}

/// What an experiment gave earlier, if all of it is there.
fn read(path: &Path) -> Option<Outcome> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

/// Whether it was written after this program was built.
fn is_of_this_build(kept: &Path) -> bool {
    let changed = |path: &Path| std::fs::metadata(path)?.modified();
    let built = own_file().ok().and_then(|own| changed(&own).ok());
    built.is_none_or(|built| changed(kept).is_ok_and(|kept| kept >= built))
}

/// Whether it is what would be measured now: what was left out of it may be there by now.
fn fits(outcome: &Outcome, arguments: &AllArguments) -> bool {
    !outcome.partial
        && outcome.quick == arguments.quick
        && outcome.machine == longshore_measure::Environment::here()
}

/// Makes an experiment; if it fails, why.
fn measure(
    name: &str,
    kept: &Path,
    arguments: &AllArguments,
) -> Result<Result<Outcome, String>, Error> {
    let mut command = Command::new(own_file()?);
    command
        .args(["measure", name, "--csv", "--outcome"])
        .arg(kept);
    if arguments.quick {
        command.arg("--quick");
    }
    let failure = failure_beside(kept);
    let _ = std::fs::remove_file(&failure);
    let status = command
        .stdout(Stdio::null())
        .status()
        .map_err(system("start longshore"))?;
    // It may have been ended because this process was interrupted.
    interruption::wait_for_end_if_interrupted();
    if !status.success() {
        let said = std::fs::read_to_string(failure);
        return Ok(Err(
            said.unwrap_or_else(|_| format!("it ended with {status}"))
        ));
    }
    Ok(read(kept).ok_or_else(|| "what it gave cannot be read".to_owned()))
}

/// Writes why an experiment failed beside what it would have given; whether that could be
/// written.
pub(super) fn note_failure(kept: &Path, error: &Error) -> bool {
    let path = failure_beside(kept);
    let hint = error.hint().map(|hint| format!("; {hint}"));
    let why = format!("{error}{}", hint.unwrap_or_default());
    let written = std::fs::write(&path, why).is_ok();
    if !written {
        let _ = std::fs::remove_file(&path);
    }
    written
}

/// The file in which an experiment says why it failed, beside that for what it would have given.
fn failure_beside(kept: &Path) -> PathBuf {
    kept.with_extension("failure")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `make papers` draws them all for the documents.
    #[test]
    fn every_experiments_plot_stands_on_a_page() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        let papers = docs.join("papers");
        let pages = [&docs, &papers].into_iter().flat_map(|directory| {
            let entries = std::fs::read_dir(directory).unwrap().flatten();
            let files = entries.map(|entry| entry.path());
            files.filter(|file| file.extension().is_some_and(|kind| kind == "md"))
        });
        let pages: String = pages
            .map(|page| std::fs::read_to_string(page).unwrap())
            .collect();
        for name in PARTS_OF_ALL {
            let plot = format!("{name}.svg");
            assert!(papers.join(&plot).exists(), "{plot}");
            assert!(pages.contains(&format!("{plot})")), "{plot} is on no page");
        }
    }
}
