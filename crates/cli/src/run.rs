//! `longshore run`: finds the program, starts or finds an engine, opens a
//! session, runs the program in it, and ends as the program ends.

use crate::address::{Automatic, list};
use crate::args::RunArguments;
use crate::awake::{self, Awake};
use crate::batching::BatchingOrder;
use crate::errors::{ENGINE_LOST, Error, NOT_EXECUTABLE, OWN_FAILURE, SIGNAL_BASE, report, system};
use crate::expose::order::Expose;
use crate::helper::{self, MOST_DESCRIPTORS, Started};
use crate::log::say;
use crate::loss::Loss;
use crate::namespace::may_configure;
use crate::network::{Wanted, choose_networks};
use crate::private::{self, Order};
use crate::runtime_dir::RuntimeDir;
use crate::session_limits::geometry;
use crate::signals::{FORWARDED, Signal, Signals};
use crate::values::{EngineLoss, EngineName, Transport};
use crate::warnings::Warnings;
use crate::{bus, expose, link, preload, program};
use longshore_bus::BusModel;
use longshore_hostif::attach;
use longshore_link::Place;
use rustix::process::{Pid, WaitOptions, WaitStatus, kill_process, wait};
use std::io::IsTerminal;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// After this long, a program that is in the background is spoken of.
const BACKGROUND_NOTICE: Duration = Duration::from_secs(2);

/// Runs the command; the exit code.
pub(crate) fn run(arguments: &RunArguments) -> Result<u8, Error> {
    let name = &arguments.program[0];
    let stays = arguments.on_engine_loss == EngineLoss::Stay;
    let path = program::find(name, std::env::var_os("PATH").as_deref())?;
    let library = preload::find()?;
    if let Some(lost) = program::obstacle(&path) {
        if let Some(why) = lost.obstacle.refusal() {
            let why = why.to_owned();
            let program = name.to_string_lossy().into_owned();
            return Err(Error::ProgramNotExecutable { program, why });
        }
        say(&format!("warning: {lost}"));
    }
    // Before anything starts a thread or a child.
    let mut blocked = FORWARDED.to_vec();
    blocked.push(libc::SIGCHLD);
    let signals = Signals::block(&blocked).map_err(system("block signals"))?;
    let _awake = arguments
        .awake
        .then(|| Awake::hold(awake::open()))
        .transpose()
        .map_err(Error::Awake)?;
    let engine = match find_engine(arguments, &signals)? {
        Ok(engine) => engine,
        Err(signal) => return Ok(SIGNAL_BASE + signal.number as u8),
    };
    let (session, token) = attach::new_session(&engine.socket(), arguments.session())?;
    engine.session_is_open();
    let warnings = Warnings::listen().map_err(system("make a socket for warnings"))?;
    let mut command = Command::new(&path);
    command
        .arg0(name)
        .args(&arguments.program[1..])
        .envs(preload::environment(
            &library,
            std::env::var_os("LD_PRELOAD"),
            &engine.socket(),
            token,
        ))
        .envs([warnings.variable()]);
    signals.unblock_in(&mut command);
    program::die_with_us(&mut command);
    let child = command
        .spawn()
        .map_err(|error| Error::ProgramNotExecutable {
            program: name.to_string_lossy().into_owned(),
            why: match error.raw_os_error() {
                Some(libc::ENOENT) => "its interpreter or loader is missing".to_owned(),
                Some(libc::ENOEXEC) => {
                    "it is neither a program nor a script with a #! line".to_owned()
                }
                _ => error.to_string(),
            },
        });
    let child = match child {
        Ok(child) => child,
        Err(error) => {
            // The session is given up first, so that the engine can end.
            drop(session);
            report(&error);
            return Ok(engine.attend(&signals, warnings, None, Ok(NOT_EXECUTABLE), stays));
        }
    };
    let pid = Pid::from_child(&child);
    Ok(engine.attend(
        &signals,
        warnings,
        Some((pid, session)),
        Err(name.to_string_lossy().into_owned()),
        stays,
    ))
}

/// Finds or starts the engine that is wanted, and what leads to it; or a signal says that all
/// is to end.
fn find_engine(
    arguments: &RunArguments,
    signals: &Signals,
) -> Result<Result<EngineInUse, Signal>, Error> {
    let is_fixed = arguments.batching != BatchingOrder::Adaptive;
    if is_fixed && arguments.transport != Transport::Memory {
        return Err(Error::BatchingOnBus);
    }
    let engine = match &arguments.engine {
        Some(EngineName::Socket(socket)) => Ok(EngineInUse::Shared(socket.clone())),
        Some(EngineName::Link(_)) if arguments.transport != Transport::Memory => {
            return Err(Error::TransportOfLink);
        }
        Some(EngineName::Link(place)) => start_link(arguments, place, signals)?,
        None => start_private(arguments, signals)?,
    };
    match (engine, &arguments.transport) {
        (Ok(engine), Transport::Bus(model)) => start_bus(arguments, model, engine, signals),
        (engine, _) => Ok(engine),
    }
}

/// The engine of this run.
enum EngineInUse {
    /// It serves others, too, and outlives us.
    Shared(PathBuf),
    /// It is our child and ends with the session.
    Private {
        pid: Pid,
        dir: RuntimeDir,
        started: Started,
    },
    /// It is behind a modelled bus, which is our child and ends with the session.
    Behind {
        bus: Box<EngineInUse>,
        engine: Box<EngineInUse>,
    },
}

/// Starts a private engine and waits until it is ready, or until a signal says
/// that all is to end.
fn start_private(
    arguments: &RunArguments,
    signals: &Signals,
) -> Result<Result<EngineInUse, Signal>, Error> {
    let exposed = arguments.exposed();
    if exposed.len() > MOST_DESCRIPTORS {
        return Err(Error::TooManyExposed(exposed.len()));
    }
    let listeners: Vec<OwnedFd> = exposed
        .iter()
        .map(expose::listen)
        .collect::<Result<_, _>>()?;
    let own_namespace = arguments.port.is_none() && !may_configure();
    let (networks, automatic) = Automatic::split(&arguments.addr);
    let mut wanted = Wanted {
        port: arguments.port.clone(),
        networks,
        automatic,
        gateways: arguments.gateway.clone(),
        mtu: arguments.mtu,
        capture: arguments.capture.as_deref().map(absolute),
        fault: arguments.fault,
    };
    if own_namespace && wanted.networks.is_empty() && !automatic.any() {
        // The program stays here, so here the networks must be free.
        wanted.networks = choose_networks(0, wanted.mtu)?;
    }
    wanted.check()?;
    let limits = arguments.limits();
    geometry(&limits).map_err(|(key, why)| Error::Limit { key, why })?;
    let dir = RuntimeDir::create()?;
    let order = Order {
        wanted,
        loopback: arguments.loopback.unwrap_or_default(),
        sysctl: arguments.sysctl.unwrap_or_default(),
        ecn: arguments.ecn,
        user_timeout_option: arguments.user_timeout_option,
        batching: arguments.batching,
        limits,
        others_may_join: rustix::process::geteuid().is_root(),
        own_namespace,
        sandbox: !arguments.no_sandbox,
        socket: dir.engine(),
        control: dir.control(),
        expose: exposed.iter().map(|e| (e.port, e.passes)).collect(),
    };
    let (pid, started) =
        match await_engine(signals, || private::start(&order, &listeners, signals))? {
            Ok(ready) => ready,
            Err(signal) => return Ok(Err(signal)),
        };
    dir.let_programs_in(order.others_may_join)?;
    if std::io::stderr().is_terminal() {
        announce(&started, own_namespace, &exposed, &arguments.gateway);
        if let Some(lacks) = &started.sandbox_lacks {
            say(&format!(
                "its sandbox lacks what this kernel does not have: {lacks}"
            ));
        }
        if arguments.no_sandbox {
            say("it has no sandbox");
        }
    }
    Ok(Ok(EngineInUse::Private { pid, dir, started }))
}

/// Starts the host's end of a link, which is this run's engine to its programs, and waits until
/// it is ready, or until a signal says that all is to end.
fn start_link(
    arguments: &RunArguments,
    place: &Place,
    signals: &Signals,
) -> Result<Result<EngineInUse, Signal>, Error> {
    let key = arguments.link_key.as_deref().ok_or(Error::LinkKeyMissing)?;
    let dir = RuntimeDir::create()?;
    let start = || link::start_agent(arguments, place, key, &dir.engine(), signals);
    let (pid, started) = match await_engine(signals, start)? {
        Ok(ready) => ready,
        Err(signal) => return Ok(Err(signal)),
    };
    dir.let_programs_in(rustix::process::geteuid().is_root())?;
    if std::io::stderr().is_terminal() {
        let networks = list(&started.networks);
        say(&format!("engine at {networks}, by {}", started.port));
    }
    Ok(Ok(EngineInUse::Private { pid, dir, started }))
}

/// Starts a modelled bus to an engine, and waits until it is ready, or until a signal says that
/// all is to end.
fn start_bus(
    arguments: &RunArguments,
    model: &BusModel,
    engine: EngineInUse,
    signals: &Signals,
) -> Result<Result<EngineInUse, Signal>, Error> {
    let dir = RuntimeDir::create()?;
    let (socket, report) = (dir.engine(), dir.transport());
    let places = (socket.as_path(), report.as_path());
    let start = || bus::start(arguments, model, &engine.socket(), places, signals);
    let (pid, started) = match await_engine(signals, start)? {
        Ok(ready) => ready,
        Err(signal) => return Ok(Err(signal)),
    };
    dir.let_programs_in(rustix::process::geteuid().is_root())?;
    // The bus has opened its session there.
    engine.session_is_open();
    if std::io::stderr().is_terminal() {
        say(&format!("behind {}", started.port));
    }
    Ok(Ok(EngineInUse::Behind {
        bus: Box::new(EngineInUse::Private { pid, dir, started }),
        engine: Box::new(engine),
    }))
}

/// Starts a process that programs attach to, and waits until it is ready, or until a signal
/// says that all is to end.
fn await_engine(
    signals: &Signals,
    start: impl FnOnce() -> Result<(Child, OwnedFd), Error>,
) -> Result<Result<(Pid, Started), Signal>, Error> {
    // Processes that outlive their parent become ours, so that signals still
    // find them.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    let (child, channel) = start()?;
    let pid = Pid::from_child(&child);
    if let Some(signal) = interrupted(&channel, signals) {
        let _ = kill_process(pid, rustix::process::Signal::TERM);
        return Ok(Err(signal));
    }
    let started = helper::answer(channel).map_err(|error| match error {
        Error::EngineDied(_) => Error::EngineDied(last_words(pid)),
        other => other,
    })?;
    Ok(Ok((pid, started)))
}

/// Says where the engine is, and how it is reached.
fn announce(started: &Started, own_namespace: bool, exposed: &[Expose], gateways: &[IpAddr]) {
    let networks = list(&started.networks);
    let place = if own_namespace {
        ", in a network namespace of its own"
    } else {
        ""
    };
    say(&format!("engine at {networks} on {}{place}", started.port));
    if gateways.is_empty() {
        say(
            "no --gateway: it reaches these networks alone, and connections elsewhere stay with the kernel",
        );
    }
    for Expose { listen, port, .. } in exposed {
        say(&format!("{listen} leads to port {port}"));
    }
}

/// How an engine ended that said nothing.
fn last_words(pid: Pid) -> String {
    match rustix::process::waitpid(Some(pid), WaitOptions::empty()) {
        Ok(Some((_, status))) => match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => format!(", with exit code {code}"),
            (_, Some(signal)) => format!(", by signal {signal}"),
            _ => String::new(),
        },
        _ => String::new(),
    }
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Waits for the engine's answer; the signal, if one says that all is to end.
fn interrupted(channel: &OwnedFd, signals: &Signals) -> Option<Signal> {
    use rustix::event::{PollFd, PollFlags, poll};
    loop {
        let mut fds = [
            PollFd::new(channel, PollFlags::IN),
            PollFd::new(signals, PollFlags::IN),
        ];
        let _ = poll(&mut fds, None);
        let answered = !fds[0].revents().is_empty();
        while let Some(signal) = signals.next() {
            let ends = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];
            if ends.contains(&signal.number) && !signal.ignored {
                return Some(signal);
            }
        }
        if answered {
            return None;
        }
    }
}

impl EngineInUse {
    fn socket(&self) -> PathBuf {
        match self {
            EngineInUse::Shared(socket) => socket.clone(),
            EngineInUse::Private { dir, .. } => dir.engine(),
            EngineInUse::Behind { bus, .. } => bus.socket(),
        }
    }

    fn session_is_open(&self) {
        match self {
            EngineInUse::Shared(_) => {}
            EngineInUse::Private { started, .. } => private::session_is_open(&started.channel),
            EngineInUse::Behind { bus, .. } => bus.session_is_open(),
        }
    }

    /// The processes that are our children.
    fn pids(&self) -> Vec<Pid> {
        match self {
            EngineInUse::Shared(_) => Vec::new(),
            EngineInUse::Private { pid, .. } => vec![*pid],
            EngineInUse::Behind { bus, engine } => [bus.pids(), engine.pids()].concat(),
        }
    }

    /// Passes signals on and waits for the program, then for a private engine.
    /// `outcome` is the exit code if it is known already, else the program's
    /// name.
    fn attend(
        &self,
        signals: &Signals,
        warnings: Warnings,
        program: Option<(Pid, OwnedFd)>,
        outcome: Result<u8, String>,
        stays: bool,
    ) -> u8 {
        let mut vigil = Vigil {
            engines: self.pids(),
            program: program.as_ref().map(|(pid, _)| *pid),
            session: program.map(|(_, session)| session),
            name: outcome.as_ref().err().cloned().unwrap_or_default(),
            code: outcome.ok(),
            since: Instant::now(),
            notified: false,
            loss: Loss::new(stays),
            warnings,
        };
        while !vigil.is_over() {
            vigil.wait(signals);
            // First of all, so that a signal does not go to a program that has
            // just ended.
            vigil.reap();
            vigil.warnings.show();
            while let Some(signal) = signals.next() {
                vigil.pass_on(signal);
                // It may be the word of a death after the reaping above, and
                // there will be no other.
                vigil.reap();
            }
            vigil.look_after_engine();
            if vigil.program.is_none() && vigil.orphans().is_empty() {
                vigil.session = None;
            }
        }
        vigil.warnings.show();
        if vigil.loss.has_come() {
            return ENGINE_LOST;
        }
        vigil.code.unwrap_or(OWN_FAILURE)
    }
}

/// What is waited for.
struct Vigil {
    /// The engine, and what leads to it, if they are ours.
    engines: Vec<Pid>,
    program: Option<Pid>,
    /// The session's connection, held until the program and all that it left
    /// behind have ended: these may not have joined the session yet.
    session: Option<OwnedFd>,
    name: String,
    /// The program's exit code, once it has ended.
    code: Option<u8>,
    /// When the program ended.
    since: Instant,
    notified: bool,
    loss: Loss,
    /// What the shim says in the program.
    warnings: Warnings,
}

impl Vigil {
    /// Ends the program, and what it has left behind, if the engine is gone.
    fn look_after_engine(&mut self) {
        let is_lost = self.session.as_ref().is_some_and(Loss::is_told_by);
        if !is_lost {
            return;
        }
        let processes: Vec<Pid> = self.program.into_iter().chain(self.orphans()).collect();
        self.loss.comes(&self.name, &processes);
        self.loss.remind(&self.name, &processes);
    }

    fn is_over(&self) -> bool {
        self.program.is_none() && self.session.is_none() && self.engines.is_empty()
    }

    /// Sleeps until a signal comes, or it is time for a word.
    fn wait(&mut self, signals: &Signals) {
        use rustix::event::{PollFd, PollFlags, poll};
        let mut fds = vec![
            PollFd::new(signals, PollFlags::IN),
            PollFd::new(&self.warnings, PollFlags::IN),
        ];
        // Its end is news once.
        if let Some(session) = self.session.as_ref().filter(|_| !self.loss.has_come()) {
            fds.push(PollFd::new(session, PollFlags::RDHUP));
        }
        let talks = self.program.is_none() && !self.notified;
        let pause = [talks.then_some(BACKGROUND_NOTICE), self.loss.pause()];
        let pause = pause.into_iter().flatten().min();
        let pause = pause.and_then(|p| rustix::time::Timespec::try_from(p).ok());
        let _ = poll(&mut fds, pause.as_ref());
        if talks && self.since.elapsed() >= BACKGROUND_NOTICE && !self.name.is_empty() {
            self.notified = true;
            if std::io::stderr().is_terminal() && !self.orphans().is_empty() {
                eprintln!(
                    "longshore: {} is in the background; waiting for the last of its processes",
                    self.name
                );
            }
        }
    }

    /// Processes that the program left behind. Without a private engine they
    /// do not become ours, and none are known.
    fn orphans(&self) -> Vec<Pid> {
        let me = rustix::process::getpid().as_raw_nonzero();
        let list = std::fs::read_to_string(format!("/proc/{me}/task/{me}/children"));
        let pids = list.unwrap_or_default();
        let pids = pids.split_whitespace().filter_map(|pid| pid.parse().ok());
        pids.filter_map(Pid::from_raw)
            .filter(|pid| !self.engines.contains(pid))
            .collect()
    }

    fn pass_on(&self, signal: Signal) {
        let Some(number) = rustix::process::Signal::from_named_raw(signal.number) else {
            return;
        };
        if signal.number == libc::SIGCHLD {
            return;
        }
        if let Some(program) = self.program {
            if !signal.from_terminal {
                let _ = kill_process(program, number);
            }
            return;
        }
        // The program itself is gone; what it left behind is in the background
        // and has not had the terminal's signals.
        let orphans = self.orphans();
        for pid in &orphans {
            let _ = kill_process(*pid, number);
        }
        let ending = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];
        if orphans.is_empty() && ending.contains(&signal.number) && !signal.ignored {
            for engine in &self.engines {
                let _ = kill_process(*engine, rustix::process::Signal::TERM);
            }
        }
    }

    /// Takes note of all children that have ended.
    fn reap(&mut self) {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => self.ended(pid, status),
                Ok(None) => return,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => {
                    // No child is left at all.
                    self.engines.clear();
                    self.program = None;
                    self.session = None;
                    return;
                }
            }
        }
    }

    fn ended(&mut self, pid: Pid, status: WaitStatus) {
        if !(status.exited() || status.signaled()) {
            return;
        }
        if self.program == Some(pid) {
            self.code = Some(exit_code(status));
            self.since = Instant::now();
            self.program = None;
        } else if let Some(place) = self.engines.iter().position(|engine| *engine == pid) {
            self.engines.remove(place);
            let failed = status.exit_status() != Some(0);
            if failed || self.program.is_some() {
                eprintln!("longshore: the engine has ended{}", how(status));
            }
        }
    }
}

fn how(status: WaitStatus) -> String {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(0), _) => " before the program".to_owned(),
        (Some(code), _) => format!(" with exit code {code}"),
        (None, Some(signal)) => format!(" by signal {signal}"),
        (None, None) => String::new(),
    }
}

/// The exit code that stands for a program's end.
fn exit_code(status: WaitStatus) -> u8 {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => code as u8,
        (None, Some(signal)) => SIGNAL_BASE.wrapping_add(signal as u8),
        (None, None) => OWN_FAILURE,
    }
}
