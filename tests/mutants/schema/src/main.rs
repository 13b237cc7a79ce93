//! Tries tests by faults: changes a crate in one small place after the other, and looks
//! whether a test fails then. A mutant, which is what a change is called, that survives all
//! tests is something that no test would notice.
//!
//! All mutants of a crate are compiled at once, each behind a switch that an environment
//! variable turns on: so one costs a run of the tests that reach it, and nothing is compiled for
//! it. `scripts/mutants.sh` calls this program.
//!
//! | file | what it has |
//! | --- | --- |
//! | `find`, `values`, `cfg` | which mutants a file has |
//! | `point`, `render` | how they are written into it |
//! | `schema`, `tree`, `compile` | all of a crate, in a copy of the repository, and without those that do not compile |
//! | `trial`, `hunt` | the tests, and the mutants one after the other |
//! | `results`, `report` | what came of them |
//! | `asked`, `selection` | which are to be tried |
//!
//! The crate beside it, `switch`, is what the rewritten code calls.

mod asked;
mod cfg;
mod compile;
mod find;
mod hunt;
mod point;
mod render;
mod report;
mod results;
mod schema;
mod selection;
mod tree;
mod trial;
mod values;

use asked::Asked;
use results::Results;
use selection::Excluded;
use std::error::Error;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tree::Tree;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "-h" || word == "--help") {
        println!("{}", asked::USAGE);
        return ExitCode::SUCCESS;
    }
    let done = Asked::read(words)
        .map_err(Into::into)
        .and_then(|asked| run(&asked));
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("mutants: {error}");
            ExitCode::from(2)
        }
    }
}

/// Whether all is well: what survives may, and the list of it is right.
fn run(asked: &Asked) -> Result<bool, Box<dyn Error>> {
    let repository = std::env::current_dir()?;
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    let out = std::path::absolute(target)?.join("mutants/schema");
    let _lock = alone(&out)?;
    let list = report::may_survive(&std::fs::read_to_string("tests/mutants/survivors.txt")?)?;
    let exclude = Excluded::read(&std::fs::read_to_string("tests/mutants/exclude.toml")?)?;
    let mut in_time = true;
    for name in asked.crates.iter().filter(|_| !asked.report) {
        // For each crate anew, for the last one was rewritten.
        let tree = Tree::copy(&repository, &out.join("tree"))?;
        if asked.list {
            names(asked, &tree, &exclude, name)?;
        } else if in_time {
            in_time = hunt::hunt(asked, &tree, &exclude, name, &out)?;
        }
    }
    if asked.list {
        return Ok(true);
    }
    Ok(report(&out, &list) && in_time)
}

/// One run at a time has the copy of the repository and the results.
fn alone(out: &Path) -> Result<File, Box<dyn Error>> {
    std::fs::create_dir_all(out)?;
    let lock = File::create(out.join("lock"))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => {
            Err(format!("another run is at work in {}", out.display()).into())
        }
        Err(TryLockError::Error(error)) => Err(error.into()),
    }
}

fn names(asked: &Asked, tree: &Tree, exclude: &Excluded, name: &str) -> std::io::Result<()> {
    let schema = schema::Schema::find(tree, name, exclude)?;
    for mutant in schema.named().iter().filter(|mutant| asked.wants(mutant)) {
        println!("{} ({}:{})", mutant.name, mutant.place.0, mutant.place.1);
    }
    Ok(())
}

fn report(out: &Path, list: &std::collections::BTreeMap<String, usize>) -> bool {
    let known = asked::CRATES.map(|name| {
        (
            name.to_owned(),
            Results::read(&out.join(format!("{name}.json"))),
        )
    });
    let known: Vec<(String, Results)> = known
        .into_iter()
        .filter(|(_, results)| !results.mutants.is_empty())
        .collect();
    let (text, faults) = report::report(&known, list);
    println!("{text}");
    println!("{}", faults.join("\n"));
    faults.is_empty()
}
