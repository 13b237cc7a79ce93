//! Counts by callgrind: of functions of this program, each alone, whatever is around them.
//!
//! The program is run once under callgrind. It counts within functions of a name, and writes
//! what it has counted when such a function ends: so each call's counts stand by themselves,
//! with all that it calls.

use crate::crossing::running::scratch_directory;
use crate::experiment::{ExperimentError, system};
use crate::installed;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// What was counted in a function, by callgrind's names of events: `Ir` is instructions.
pub(super) type Events = BTreeMap<String, u64>;

/// What callgrind simulates besides instructions: its options.
pub(super) type Simulated = &'static [&'static str];

/// Nothing.
pub(super) const NOTHING: Simulated = &[];

/// Copies and fills are loops, in which callgrind counts an instruction for each 32 bytes: of
/// those that processors repeat by themselves it counts one for each byte.
const TUNABLES: &str = "glibc.cpu.x86_rep_movsb_threshold=1000000000:\
                        glibc.cpu.x86_rep_stosb_threshold=1000000000";

/// What is counted in a program.
pub(super) struct Order<'a> {
    pub(super) program: &'a Path,
    pub(super) arguments: &'a [&'a str],
    /// Functions in which it counts: how their names begin, with their module's.
    pub(super) counted: &'a str,
    /// At the end of these what was counted is written.
    pub(super) ends: &'a str,
    pub(super) simulated: Simulated,
}

/// Runs it; what was counted until each end, in their order.
pub(super) fn count(order: &Order<'_>) -> Result<Vec<Events>, ExperimentError> {
    let valgrind = installed::find("valgrind")?;
    let directory = scratch_directory()?;
    let file = directory.path().join("counts");
    let said = Command::new(valgrind)
        .env("GLIBC_TUNABLES", TUNABLES)
        // What the program and valgrind leave goes with the directory.
        .env("TMPDIR", directory.path())
        .arg("--tool=callgrind")
        .arg("--vgdb=no")
        .arg("--collect-atstart=no")
        .arg(format!("--toggle-collect=*{}*", order.counted))
        // Of two orders for the same pattern callgrind heeds one.
        .arg(format!("--dump-after=longshore*{}*", order.ends))
        .args(order.simulated)
        .arg("--combine-dumps=yes")
        .arg(format!("--callgrind-out-file={}", file.display()))
        .arg(order.program)
        .args(order.arguments)
        .output()
        .map_err(system("start valgrind"))?;
    if !said.status.success() {
        let errors = String::from_utf8_lossy(&said.stderr);
        let last: Vec<&str> = errors.lines().rev().take(8).collect();
        return Err(ExperimentError::Program {
            program: "valgrind".to_owned(),
            why: last.into_iter().rev().collect::<Vec<_>>().join("\n"),
        });
    }
    let text = std::fs::read_to_string(file).map_err(system("read callgrind's counts"))?;
    Ok(calls(&text))
}

/// The counts of each call, from all that was written.
fn calls(text: &str) -> Vec<Events> {
    text.split("\npart: ").filter_map(call).collect()
}

/// The counts of a call; none of what was written at the end, or is no dump.
fn call(dump: &str) -> Option<Events> {
    let line = |start: &str| dump.lines().find_map(|line| line.strip_prefix(start));
    line("desc: Trigger: --dump-after=")?;
    let names = line("events: ")?.split_whitespace().map(str::to_owned);
    let counts = line("summary: ")?.split_whitespace();
    Some(names.zip(counts.map_while(|n| n.parse().ok())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_dump_is_a_call() {
        let text = "# callgrind format\nversion: 1\n\npart: 1\n\n\
                    desc: Trigger: --dump-after=longshore::counted_copy\n\
                    events: Ir Dr Dw\nsummary: 120 30 7\n\nfn=x\n1 120\n\npart: 2\n\
                    desc: Trigger: --dump-after=longshore::counted_sum\nevents: Ir\nsummary: 5\n\
                    \npart: 3\ndesc: Trigger: Program termination\nevents: Ir\nsummary: 0\n";
        let calls = calls(text);
        assert_eq!(calls.len(), 2);
        assert_eq!(
            (calls[0]["Ir"], calls[0]["Dr"], calls[0]["Dw"]),
            (120, 30, 7)
        );
        assert_eq!(calls[1]["Ir"], 5);
    }
}
