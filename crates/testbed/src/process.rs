//! Programs started by a scenario: their output goes to files, they have a time
//! limit, and they die with the scenario.

use rustix::process::{Pid, Signal};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Default time limit of a program that should end by itself.
const LONGEST: Duration = Duration::from_secs(240);

/// A command to be run in a namespace, on a stack.
#[derive(Debug)]
pub struct Cmd {
    log_directory: PathBuf,
    /// What stands before the program: namespace, launcher.
    prefix: Vec<OsString>,
    command: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    directory: Option<PathBuf>,
    timeout: Duration,
}

impl Cmd {
    pub(crate) fn new(log_directory: &Path, prefix: Vec<OsString>, program: &OsStr) -> Self {
        Cmd {
            log_directory: log_directory.to_path_buf(),
            prefix,
            command: vec![program.to_owned()],
            environment: Vec::new(),
            directory: None,
            timeout: LONGEST,
        }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.command.push(arg.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.command
            .extend(args.into_iter().map(|a| a.as_ref().to_owned()));
        self
    }

    /// Sets a variable of its environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.environment
            .push((name.into(), value.as_ref().to_owned()));
        self
    }

    /// Sets its working directory.
    #[must_use]
    pub fn directory(mut self, path: &Path) -> Self {
        self.directory = Some(path.to_path_buf());
        self
    }

    /// How long [`Cmd::run`] waits for it.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Starts it.
    ///
    /// # Panics
    /// If it cannot be started.
    #[must_use]
    pub fn spawn(self) -> Proc {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = Path::new(&self.command[0])
            .file_name()
            .map_or_else(String::new, |n| n.to_string_lossy().into_owned());
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let log = |kind| {
            self.log_directory
                .join(format!("{number:03}-{name}.{kind}"))
        };
        let (out, err) = (log("out"), log("err"));
        let words: Vec<&OsString> = self.prefix.iter().chain(&self.command).collect();
        let mut command = Command::new(words[0]);
        command
            .args(&words[1..])
            .envs(self.environment.iter().map(|(k, v)| (k, v)))
            .stdin(Stdio::null())
            .stdout(File::create(&out).expect("create a log"))
            .stderr(File::create(&err).expect("create a log"));
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        crate::with_default_signals(&mut command);
        let line = words
            .iter()
            .map(|w| w.to_string_lossy())
            .collect::<Vec<_>>()
            .join(" ");
        let child = command
            .spawn()
            .unwrap_or_else(|e| panic!("starting `{line}`: {e}"));
        Proc {
            child,
            line,
            out,
            err,
            timeout: self.timeout,
        }
    }

    /// Runs it to its end.
    ///
    /// # Panics
    /// If it does not end in time.
    #[must_use]
    pub fn run(self) -> Finished {
        self.spawn().wait()
    }

    /// Runs it to its end, which must be status 0, and gives its output.
    ///
    /// # Panics
    /// If it fails or does not end in time.
    pub fn check(self) -> String {
        self.run().check()
    }
}

/// A running program. Dropping it kills it.
#[derive(Debug)]
pub struct Proc {
    child: Child,
    line: String,
    out: PathBuf,
    err: PathBuf,
    timeout: Duration,
}

/// A program that has ended.
#[derive(Debug)]
pub struct Finished {
    /// The command line.
    pub line: String,
    /// How it ended.
    pub status: ExitStatus,
    /// What it wrote to standard output.
    pub stdout: String,
    /// What it wrote to standard error.
    pub stderr: String,
    /// How long it ran.
    pub took: Duration,
}

impl Finished {
    /// Its output, if it ended with status 0.
    ///
    /// # Panics
    /// If it did not.
    pub fn check(self) -> String {
        assert!(
            self.status.success(),
            "`{}` ended with {}\n--- stdout\n{}--- stderr\n{}",
            self.line,
            self.status,
            tail(&self.stdout),
            tail(&self.stderr)
        );
        self.stdout
    }
}

impl Proc {
    /// Its pid: that of `longshore run` where it runs on Longshore.
    #[must_use]
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a pid")
    }

    /// The pid of the program itself, wherever it stands below [`Proc::pid`]:
    /// the first process there (by age) whose command is `name`.
    ///
    /// # Panics
    /// If there is none within [`TIMEOUT`](crate::TIMEOUT).
    #[must_use]
    pub fn program_pid(&self, name: &str) -> i32 {
        let what = format!("a process {name} below `{}`", self.line);
        crate::eventually(&what, || {
            let is_it = |pid: &i32| comm(*pid).is_some_and(|c| c == name);
            self.family().into_iter().find(is_it)
        })
    }

    /// It, its children, and theirs.
    #[must_use]
    pub fn family(&self) -> Vec<i32> {
        let mut family = vec![self.pid()];
        let mut next = 0;
        while next < family.len() {
            family.extend(children(family[next]));
            next += 1;
        }
        family
    }

    /// Sends it a signal.
    pub fn signal(&self, what: Signal) {
        signal(self.pid(), what);
    }

    /// What it has written to standard output so far.
    #[must_use]
    pub fn stdout(&self) -> String {
        read(&self.out)
    }

    /// What it has written to standard error so far.
    #[must_use]
    pub fn stderr(&self) -> String {
        read(&self.err)
    }

    /// Whether it still runs.
    pub fn running(&mut self) -> bool {
        self.child.try_wait().expect("wait for a child").is_none()
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// If it does not come in time.
    #[must_use]
    pub fn wait(mut self) -> Finished {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("wait for a child") {
                return Finished {
                    line: self.line.clone(),
                    status,
                    stdout: self.stdout(),
                    stderr: self.stderr(),
                    took: start.elapsed(),
                };
            }
            if start.elapsed() > self.timeout {
                let states: String = std::iter::once(self.pid())
                    .chain(children(self.pid()))
                    .map(|pid| {
                        format!(
                            "  {pid} {}: {}\n",
                            comm(pid).unwrap_or_default(),
                            read(Path::new(&format!("/proc/{pid}/wchan")))
                        )
                    })
                    .collect();
                panic!(
                    "`{}` still runs after {:?}\n{states}--- stdout\n{}--- stderr\n{}",
                    self.line,
                    self.timeout,
                    tail(&self.stdout()),
                    tail(&self.stderr())
                );
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Asks it to end (SIGTERM) and waits for that.
    ///
    /// # Panics
    /// If it does not end in time.
    #[must_use]
    pub fn terminate(self) -> Finished {
        self.signal(Signal::TERM);
        self.wait()
    }

    /// Panics if it has ended, with what it wrote.
    ///
    /// # Panics
    /// See above.
    pub fn assert_running(&mut self) {
        assert!(
            self.running(),
            "`{}` ended early\n--- stdout\n{}--- stderr\n{}",
            self.line,
            tail(&self.stdout()),
            tail(&self.stderr())
        );
    }
}

impl Drop for Proc {
    fn drop(&mut self) {
        // Its children, if it has any, die with the namespace.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a signal; it is no error if the process has already ended.
pub fn signal(pid: i32, what: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = rustix::process::kill_process(pid, what);
    }
}

fn comm(pid: i32) -> Option<String> {
    fs::read_to_string(format!("/proc/{pid}/comm"))
        .ok()
        .map(|c| c.trim().to_owned())
}

fn children(pid: i32) -> Vec<i32> {
    let mut all = Vec::new();
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return all;
    };
    for thread in threads.flatten() {
        let list = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        all.extend(
            list.split_whitespace()
                .filter_map(|p| p.parse::<i32>().ok()),
        );
    }
    all
}

fn read(path: &Path) -> String {
    fs::read(path).map_or_else(
        |_| String::new(),
        |bytes| String::from_utf8_lossy(&bytes).into_owned(),
    )
}

/// The last lines of a long text.
fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(40);
    lines[from..].iter().map(|l| format!("{l}\n")).collect()
}
