//! The table of states and events (RFC 9293 section 3.10): each script below
//! `tests/states` is a test, run by the machine on virtual time. `crates/script` has the
//! language; `tests/e2e/tests/scripts.rs` asks the kernel's TCP the same.
//!
//!     cargo test -p longshore-tcp --test table -- SYN-RECEIVED/rst

mod core;

use libtest_mimic::{Arguments, Trial};
use longshore_script::{Table, run};
use std::path::Path;
use std::sync::Arc;

/// The scripts that find out what a connection forgets which moves.
const FORGOTTEN: &[(&str, &str)] = &[
    ("ESTABLISHED/data-out-of-order", OUT_OF_ORDER),
    ("ESTABLISHED/fin-out-of-order", OUT_OF_ORDER),
    ("FIN-WAIT-1/data-out-of-order", OUT_OF_ORDER),
    ("FIN-WAIT-1/fin-out-of-order", OUT_OF_ORDER),
    ("FIN-WAIT-2/data-out-of-order", OUT_OF_ORDER),
    ("FIN-WAIT-2/fin-out-of-order", OUT_OF_ORDER),
    ("SYN-RECEIVED/data-out-of-order", OUT_OF_ORDER),
];
const OUT_OF_ORDER: &str = "what has come out of order is forgotten";

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/states");
    let table = Arc::new(Table::read(&root).unwrap_or_else(|what| panic!("{what}")));
    let mut tests: Vec<Trial> = table
        .cells
        .iter()
        .cloned()
        .map(|cell| {
            let table = Arc::clone(&table);
            Trial::test(cell.name, move || {
                let mut stack = core::Core::new();
                Ok(run(&cell.script, &|state| table.begin(state), &mut stack)?)
            })
        })
        .collect();
    // The same where the connection moves to another process before everything that happens
    // to it: what it has forgotten by that may not show.
    tests.extend(table.cells.iter().cloned().map(|cell| {
        let table = Arc::clone(&table);
        Trial::test(format!("moved/{}", cell.name), move || {
            let mut stack = core::Core::new().moving();
            let run = run(&cell.script, &|state| table.begin(state), &mut stack);
            match FORGOTTEN.iter().find(|(name, _)| *name == cell.name) {
                None => Ok(run?),
                Some((name, what)) if run.is_ok() => {
                    Err(format!("{name} shows that {what}; it did not").into())
                }
                Some(_) => Ok(()),
            }
        })
    }));
    tests.push(Trial::test("the_table_is_complete", move || {
        let complaints = table.complaints();
        if complaints.is_empty() {
            Ok(())
        } else {
            Err(complaints.join("\n").into())
        }
    }));
    libtest_mimic::run(&Arguments::from_args(), tests).exit();
}
