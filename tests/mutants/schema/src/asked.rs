//! What is asked for on the command line.

use crate::schema::Named;
use crate::selection;
use regex_lite::Regex;
use std::io;
use std::time::{Duration, Instant};

/// How it is called.
pub const USAGE: &str = "\
longshore-mutants [OPTION...] [CRATE | PATTERN]...

Changes the crates (`tcp`), or the files that a pattern names (`crates/tcp/src/recovery/**`), in
one place after the other, and looks whether a test fails then. Results are kept in
target/mutants/schema; what was caught is not tried again until its file changes, what survived
until anything does.

  --list              name the mutants only
  --report            say what is known only
  --fresh             forget what is known
  --shard K/N         one mutant of N, from the K-th on, K from 0
  --minutes M         stop after so many, with what is known then
  --jobs N            so many tests at once, 2 unless told
  --test-seconds S    without the tests that take longer
  --new-tests         what survived is tried by those tests alone that are new since all
                      mutants of the crate were tried
  --tests-of CRATE    by the tests of that crate, too";

/// The crates whose mutants are tried unless told otherwise.
pub const CRATES: [&str; 10] = [
    "wire", "ring", "bus", "net", "hostif", "link", "sockets", "tcp", "stack", "engine",
];

/// What is asked for.
pub struct Asked {
    /// Crates.
    pub crates: Vec<String>,
    /// Files of them; all, if none is given.
    patterns: Vec<Regex>,
    shard: Option<(u32, u32)>,
    until: Option<Instant>,
    jobs: usize,
    /// See [`USAGE`], as of the others.
    pub list: bool,
    /// Nothing is tried.
    pub report: bool,
    /// Nothing is known.
    pub fresh: bool,
    /// Tests that take longer are not run.
    pub test_seconds: Option<f64>,
    /// Tests that are known are not run.
    pub new_tests: bool,
    /// Crates.
    pub tests_of: Vec<String>,
}

impl Asked {
    /// Reads the words of the command line.
    pub fn read(words: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let mut asked = Self {
            crates: vec![],
            patterns: vec![],
            shard: None,
            until: None,
            jobs: 2,
            list: false,
            report: false,
            fresh: false,
            test_seconds: None,
            new_tests: false,
            tests_of: vec![],
        };
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word}: nothing follows"));
            match word.as_str() {
                "--list" => asked.list = true,
                "--report" => asked.report = true,
                "--fresh" => asked.fresh = true,
                "--new-tests" => asked.new_tests = true,
                "--shard" => asked.shard = Some(shard(&value()?)?),
                "--minutes" => {
                    let minutes: u64 = number(&word, &value()?)?;
                    asked.until = Some(Instant::now() + Duration::from_secs(60 * minutes));
                }
                "--jobs" => asked.jobs = number(&word, &value()?)?,
                "--test-seconds" => asked.test_seconds = Some(number(&word, &value()?)?),
                "--tests-of" => asked.tests_of.push(value()?),
                other => asked.what(other)?,
            }
        }
        if asked.crates.is_empty() {
            asked.crates = CRATES.map(str::to_owned).to_vec();
        }
        Ok(asked)
    }

    fn what(&mut self, word: &str) -> Result<(), String> {
        let name = word
            .strip_prefix("crates/")
            .and_then(|rest| rest.split('/').next())
            .unwrap_or(word);
        if !CRATES.contains(&name) {
            return Err(format!(
                "{word} is neither one of {} nor a pattern that begins with crates/",
                CRATES.join(", ")
            ));
        }
        if name != word {
            self.patterns.push(selection::glob(word));
        }
        if !self.crates.iter().any(|known| known == name) {
            self.crates.push(name.to_owned());
        }
        Ok(())
    }

    /// Whether a mutant is among those asked for.
    pub fn wants(&self, mutant: &Named<'_>) -> bool {
        (self.patterns.is_empty()
            || self
                .patterns
                .iter()
                .any(|of| of.is_match(&mutant.file.name)))
            && self.shard.is_none_or(|(k, n)| mutant.id % n == k)
    }

    /// Whether all mutants of a crate are asked for.
    pub fn is_all(&self) -> bool {
        self.patterns.is_empty() && self.shard.is_none()
    }

    /// Whether the time is over.
    pub fn is_over(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// Runs as many of this as there are to be tests at once, each with its number.
    pub fn in_threads(&self, work: impl Fn(usize) -> io::Result<()> + Sync) -> io::Result<()> {
        std::thread::scope(|scope| {
            let work = &work;
            let threads: Vec<_> = (0..self.jobs.max(1))
                .map(|number| scope.spawn(move || work(number)))
                .collect();
            threads
                .into_iter()
                .try_for_each(|thread| match thread.join() {
                    Ok(result) => result,
                    Err(panic) => std::panic::resume_unwind(panic),
                })
        })
    }
}

fn number<T: std::str::FromStr>(of: &str, text: &str) -> Result<T, String> {
    text.parse()
        .map_err(|_| format!("{of}: {text} is no number that can be taken"))
}

fn shard(text: &str) -> Result<(u32, u32), String> {
    let parts = text
        .split_once('/')
        .and_then(|(k, n)| Some((k.parse().ok()?, n.parse().ok()?)));
    parts
        .filter(|(_, n)| *n > 0)
        .ok_or(format!("--shard {text} is not k/n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &str) -> Result<Asked, String> {
        Asked::read(words.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn crates_and_patterns_are_told_apart() {
        let asked = read("wire crates/tcp/src/recovery/** --shard 1/4 --jobs 1").unwrap();
        assert_eq!(asked.crates, ["wire", "tcp"]);
        assert_eq!(asked.patterns.len(), 1);
        assert_eq!(asked.shard, Some((1, 4)));
        assert_eq!(read("").unwrap().crates, CRATES);
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for words in [
            "cli",
            "src/a.rs",
            "--shard 1",
            "--shard 1/0",
            "--minutes",
            "--minutes x",
            "--what",
        ] {
            assert!(read(words).is_err(), "{words}");
        }
    }
}
