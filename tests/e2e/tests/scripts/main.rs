//! The scripts of `crates/tcp/tests/states` on the kernel's TCP: what they say of TCP is
//! so on Linux, or the script says why not, and then the kernel does differ. Takes root.
//!
//!     cargo test -p longshore-e2e --test scripts -- SYN-RECEIVED/rst

mod kernel;

use kernel::Kernel;
use libtest_mimic::{Arguments, Trial};
use longshore_script::{Cell, Linux, Table, run};
use std::path::Path;
use std::sync::Arc;

/// The scripts mostly wait for the kernel, so many run at once.
const THREADS: usize = 12;

fn main() {
    let states = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/tcp/tests/states");
    let table = Arc::new(Table::read(&states).unwrap_or_else(|what| panic!("{what}")));
    let tests = table
        .cells
        .iter()
        // The script says why the kernel cannot be asked.
        .filter(|cell| !matches!(cell.script.linux, Linux::NotRun(_)))
        .cloned()
        .map(|cell| {
            let table = Arc::clone(&table);
            Trial::test(cell.name.clone(), move || Ok(check(&cell, &table)?))
        })
        .collect();
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(THREADS);
    libtest_mimic::run(&arguments, tests).exit();
}

/// How often a script that does not hold is tried: a busy machine may hold it up until
/// the kernel repeats itself. What the kernel does otherwise, it does each time.
const TRIES: usize = 20;

/// Whether the kernel does what the script says of it.
fn check(cell: &Cell, table: &Table) -> Result<(), String> {
    let attempt = || {
        Kernel::on_this_thread(|mut kernel| {
            run(&cell.script, &|state| table.begin(state), &mut kernel)
        })
    };
    let mut outcome = attempt();
    if !matches!(cell.script.linux, Linux::Differs(_)) {
        for _ in 1..TRIES {
            if outcome.is_ok() {
                break;
            }
            outcome = attempt();
        }
    }
    match (&cell.script.linux, outcome) {
        (Linux::Differs(why), Ok(())) => Err(format!(
            "the kernel does the same, but the script says that it differs, because {why}"
        )),
        (Linux::Differs(_), Err(_)) | (_, Ok(())) => Ok(()),
        (_, Err(what)) => Err(what),
    }
}
