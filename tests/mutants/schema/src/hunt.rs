//! Tries the mutants of a crate, each by the tests that reach it, and keeps what comes of it.

use crate::asked::Asked;
use crate::compile::{self, Binary};
use crate::results::{Entry, Fate, Results};
use crate::schema::{Named, Schema};
use crate::selection::Excluded;
use crate::tree::Tree;
use crate::trial::{self, Outcome, Test};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How often what is known is written down.
const WRITTEN_EVERY: Duration = Duration::from_secs(10);

/// So many tests are run by a process each: one of them notices most mutants that any notices.
const ALONE: usize = 8;
/// The others are run by so many at once, for to start a process takes longer than most tests.
const TOGETHER: usize = 64;

/// What is the same for all mutants.
struct Hunt<'a> {
    asked: &'a Asked,
    binaries: Vec<Binary>,
    /// The quickest first.
    tests: Vec<Test>,
    path: &'a Path,
    state: Mutex<State>,
}

/// What changes with each mutant.
struct State {
    results: Results,
    written: Instant,
    /// The tests that have noticed mutants of a function, the last one first.
    noticed: BTreeMap<(String, usize), VecDeque<usize>>,
}

/// Tries those mutants of the crate `name` that were asked for and of which nothing is known.
/// Whether it has come to the end in time.
pub fn hunt(
    asked: &Asked,
    tree: &Tree,
    exclude: &Excluded,
    name: &str,
    out: &Path,
) -> io::Result<bool> {
    let path = out.join(format!("{name}.json"));
    let mut results = if asked.fresh {
        Results::default()
    } else {
        Results::read(&path)
    };
    let suite = tree.fingerprint()?;
    let mut schema = Schema::find(tree, name, exclude)?;
    println!(
        "== {name}: {} mutants in {} files",
        schema.named().len(),
        schema.files.len()
    );
    update(&mut results, &mut schema);
    // What is tried already need not be built for that.
    if !schema
        .named()
        .iter()
        .any(|mutant| asked.wants(mutant) && !stands(&results, mutant, &suite))
    {
        results.write(&path)?;
        return Ok(true);
    }
    schema.keep(|mutant| asked.wants(mutant));
    let mut packages = vec![format!("longshore-{name}")];
    packages.extend(
        asked
            .tests_of
            .iter()
            .map(|other| format!("longshore-{other}")),
    );
    let binaries = compile::compile(&mut schema, tree, name, &packages, &out.join("build"))?;
    schema.settle();
    for mutant in schema.named() {
        if schema.unviable.contains(&mutant.id)
            && let Some(entry) = results.mutants.get_mut(&mutant.name)
        {
            entry.fate = Some(Fate::Unviable);
            entry.source.clone_from(&mutant.file.fingerprint);
        }
    }
    results.write(&path)?;
    trial::limit_memory(true);
    let tests = record(asked, &binaries, schema.count(), out)?;
    let waiting: Vec<Named<'_>> = schema
        .named()
        .into_iter()
        .filter(|m| asked.wants(m) && !stands(&results, m, &suite))
        .collect();
    println!(
        "  {} tests; {} mutants to be tried",
        tests.len(),
        waiting.len()
    );
    let state = Mutex::new(State {
        results,
        written: Instant::now(),
        noticed: BTreeMap::new(),
    });
    let hunt = Hunt {
        asked,
        binaries,
        tests,
        path: &path,
        state,
    };
    let complete = hunt.all(waiting, &suite)?;
    trial::limit_memory(false);
    Ok(complete)
}

fn stands(results: &Results, mutant: &Named<'_>, suite: &str) -> bool {
    results
        .mutants
        .get(&mutant.name)
        .is_some_and(|entry| entry.stands(&mutant.file.fingerprint, suite))
}

/// Brings what is known to the mutants that there are; those that did not compile in the
/// same file do not now.
fn update(results: &mut Results, schema: &mut Schema) {
    let mut old = std::mem::take(&mut results.mutants);
    let mut unviable = vec![];
    for mutant in schema.named() {
        let fresh = Entry {
            place: mutant.place,
            fate: None,
            by: None,
            reached: 0,
            source: String::new(),
            suite: String::new(),
        };
        let mut entry = old.remove(&mutant.name).unwrap_or(fresh);
        entry.place = mutant.place;
        if entry.source != mutant.file.fingerprint {
            entry.fate = None;
        }
        if entry.fate == Some(Fate::Unviable) {
            unviable.push(mutant.id);
        }
        results.mutants.insert(mutant.name, entry);
    }
    schema.unviable.extend(unviable);
}

/// Runs each test once, and sees what it reaches.
fn record(asked: &Asked, binaries: &[Binary], count: usize, out: &Path) -> io::Result<Vec<Test>> {
    let mut waiting = VecDeque::new();
    for (number, binary) in binaries.iter().enumerate() {
        waiting.extend(trial::list(binary)?.into_iter().map(|name| (number, name)));
    }
    let (waiting, tests) = (Mutex::new(waiting), Mutex::new(vec![]));
    let long = AtomicUsize::new(0);
    asked.in_threads(|worker| {
        let file = out.join(format!("reached.{worker}"));
        loop {
            let next = waiting
                .lock()
                .unwrap_or_else(|broken| broken.into_inner())
                .pop_front();
            let Some((number, name)) = next else { break };
            let most = asked.test_seconds;
            match trial::record(&binaries[number], number, &name, (&file, count), most)? {
                Ok(test) => tests
                    .lock()
                    .unwrap_or_else(|broken| broken.into_inner())
                    .push(test),
                Err(Outcome::TimedOut) if most.is_some() => {
                    long.fetch_add(1, Ordering::Relaxed);
                }
                Err(_) => println!("  fails without any mutant, and is left out: {name}"),
            }
        }
        std::fs::remove_file(file)
    })?;
    let mut tests = tests
        .into_inner()
        .unwrap_or_else(|broken| broken.into_inner());
    tests.sort_by_key(|test| test.takes.processor);
    if let Some(most) = asked.test_seconds {
        println!(
            "  {} tests take longer than {most} s, and are left out",
            long.into_inner()
        );
    }
    Ok(tests)
}

impl Hunt<'_> {
    fn all(&self, waiting: Vec<Named<'_>>, suite: &str) -> io::Result<bool> {
        let count = waiting.len();
        let waiting = Mutex::new(waiting.into_iter().enumerate());
        self.asked.in_threads(|_| {
            loop {
                let next = waiting
                    .lock()
                    .unwrap_or_else(|broken| broken.into_inner())
                    .next();
                let Some((number, mutant)) = next.filter(|_| !self.asked.is_over()) else {
                    break;
                };
                let entry = self.one(&mutant, suite)?;
                self.note(mutant, entry, number + 1, count)?;
            }
            Ok(())
        })?;
        let mut state = self.state();
        let complete = !self.asked.is_over();
        if complete && self.asked.is_all() {
            state.results.tests = self.tests.iter().map(|test| test.name.clone()).collect();
        }
        state.results.write(self.path)?;
        Ok(complete)
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state
            .lock()
            .unwrap_or_else(|broken| broken.into_inner())
    }

    /// The tests that are to try a mutant: those that have noticed others of its function,
    /// and then the quickest.
    fn tests_for(&self, mutant: &Named<'_>) -> Vec<usize> {
        let state = self.state();
        let known: &BTreeSet<String> = &state.results.tests;
        // One of a file that has changed has been tried by no test.
        let survived = |entry: &Entry| entry.fate == Some(Fate::Missed);
        let by_new = self.asked.new_tests
            && state
                .results
                .mutants
                .get(&mutant.name)
                .is_some_and(survived);
        let wanted = |test: &Test| {
            test.reaches.binary_search(&mutant.id).is_ok()
                && !(by_new && known.contains(&test.name))
        };
        let mut order: Vec<usize> = (0..self.tests.len())
            .filter(|number| wanted(&self.tests[*number]))
            .collect();
        if let Some(noticed) = state
            .noticed
            .get(&(mutant.file.name.clone(), mutant.function))
        {
            order.sort_by_key(|number| {
                noticed
                    .iter()
                    .position(|other| other == number)
                    .unwrap_or(usize::MAX)
            });
        }
        order
    }

    fn one(&self, mutant: &Named<'_>, suite: &str) -> io::Result<Entry> {
        let mut entry = Entry {
            place: mutant.place,
            fate: Some(Fate::Missed),
            by: None,
            reached: self
                .tests
                .iter()
                .filter(|test| test.reaches.binary_search(&mutant.id).is_ok())
                .count(),
            source: mutant.file.fingerprint.clone(),
            suite: suite.to_owned(),
        };
        let order = self.tests_for(mutant);
        let (first, others) = order.split_at(order.len().min(ALONE));
        for number in first {
            if self.notices(*number, mutant, &mut entry)? {
                return Ok(entry);
            }
        }
        for together in self.groups(others) {
            let tests: Vec<&Test> = together.iter().map(|number| &self.tests[*number]).collect();
            let binary = &self.binaries[tests[0].binary];
            if trial::attempt(binary, &tests, mutant.id)? == Outcome::Passed {
                continue;
            }
            // Which it is; and that it is not only for what others have left in the process.
            for number in together {
                if self.notices(number, mutant, &mut entry)? {
                    return Ok(entry);
                }
            }
        }
        Ok(entry)
    }

    /// Tests of one binary each, which can be run by one process.
    fn groups(&self, numbers: &[usize]) -> Vec<Vec<usize>> {
        let mut of_binary: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for number in numbers {
            let binary = self.tests[*number].binary;
            of_binary.entry(binary).or_default().push(*number);
        }
        let groups = of_binary.values().flat_map(|all| all.chunks(TOGETHER));
        groups.map(<[usize]>::to_vec).collect()
    }

    /// Whether the test fails with the mutant, which is noted.
    fn notices(&self, number: usize, mutant: &Named<'_>, entry: &mut Entry) -> io::Result<bool> {
        let test = &self.tests[number];
        let fate = match trial::attempt(&self.binaries[test.binary], &[test], mutant.id)? {
            Outcome::Passed => return Ok(false),
            Outcome::Failed => Fate::Caught,
            Outcome::TimedOut => Fate::TimedOut,
        };
        entry.fate = Some(fate);
        entry.by = Some(test.name.clone());
        let mut state = self.state();
        let noticed = state
            .noticed
            .entry((mutant.file.name.clone(), mutant.function))
            .or_default();
        noticed.retain(|other| *other != number);
        noticed.push_front(number);
        Ok(true)
    }

    fn note(&self, mutant: Named<'_>, entry: Entry, number: usize, count: usize) -> io::Result<()> {
        if entry.fate == Some(Fate::Missed) {
            let (line, column) = entry.place;
            println!(
                "  {number}/{count} missed: {} ({line}:{column}; {} tests)",
                mutant.name, entry.reached
            );
        }
        let mut state = self.state();
        state.results.mutants.insert(mutant.name, entry);
        if state.written.elapsed() > WRITTEN_EVERY {
            state.results.write(self.path)?;
            state.written = Instant::now();
        }
        Ok(())
    }
}
