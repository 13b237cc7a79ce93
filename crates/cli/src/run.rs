//! `longshore run`: finds the program, starts or finds an engine, opens a
//! session, runs the program in it, and ends as the program ends (`supervision`).

mod supervision;

use crate::address::{Automatic, list};
use crate::args::RunArguments;
use crate::awake::{self, Awake};
use crate::errors::{Error, NOT_EXECUTABLE, SIGNAL_BASE, report, system};
use crate::expose_order::Expose;
use crate::helper::{self, MOST_DESCRIPTORS, Started};
use crate::log::say;
use crate::loss::{Loss, Renewal, Then};
use crate::namespace::may_configure;
use crate::network::{Wanted, choose_networks};
use crate::private::{self, Order};
use crate::runtime_dir::RuntimeDir;
use crate::session_limits::geometry;
use crate::signals::{FORWARDED, Signal, Signals};
use crate::values::{EngineLoss, EngineName, Transport};
use crate::warnings::Warnings;
use crate::{bus, expose, link, page_exchange, preload, program};
use longshore_bus::BusModel;
use longshore_hostif::attach;
use longshore_hostif::zero_copy::ZERO_COPY_VARIABLE;
use longshore_link::Place;
use longshore_programs::{OWN_CALLS_TO_KERNEL, OWN_CALLS_VARIABLE};
use rustix::process::{Pid, WaitOptions, kill_process};
use std::ffi::OsStr;
use std::io::IsTerminal;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Instant;
use supervision::Supervision;

/// Runs the command; the exit code.
pub(crate) fn run(arguments: &RunArguments) -> Result<u8, Error> {
    let name = &arguments.program[0];
    check_successor(arguments)?;
    page_exchange::check(arguments.crossing.zero_copy)?;
    let path = program::find(name, std::env::var_os("PATH").as_deref())?;
    let library = preload::find()?;
    check_program(name, &path)?;
    if let Some(wrong) = preload::bad_log_level(std::env::var_os("LONGSHORE_LOG").as_deref()) {
        say(&format!("warning: {wrong}"));
    }
    // Before anything starts a thread or a child.
    let mut blocked = FORWARDED.to_vec();
    blocked.push(libc::SIGCHLD);
    let signals = Signals::block(&blocked).map_err(system("block signals"))?;
    let _awake = arguments
        .conduct
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
    let loss = Loss::new(match arguments.conduct.on_engine_loss {
        EngineLoss::End => Then::End,
        EngineLoss::Stay => Then::Stay,
        EngineLoss::Attach => Then::Attach(Renewal {
            engine: engine.socket(),
            token,
            options: arguments.session(),
            engine_user: attach::engine_user(session.as_fd())?,
        }),
    });
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
        .envs([warnings.variable()])
        .env(ZERO_COPY_VARIABLE, arguments.crossing.zero_copy.name());
    if program::is_longshore_itself(&path) {
        command.env(OWN_CALLS_VARIABLE, OWN_CALLS_TO_KERNEL);
    }
    let child = match spawn(command, name, &signals) {
        Ok(child) => child,
        Err(error) => {
            // The session is given up first, so that the engine can end.
            drop(session);
            report(&error);
            return Ok(engine.supervise(&signals, warnings, None, Ok(NOT_EXECUTABLE), loss));
        }
    };
    let pid = Pid::from_child(&child);
    Ok(engine.supervise(
        &signals,
        warnings,
        Some((pid, session)),
        Err(name.to_string_lossy().into_owned()),
        loss,
    ))
}

/// Whether there can be a successor of the engine to attach to, if one is wanted.
fn check_successor(arguments: &RunArguments) -> Result<(), Error> {
    let is_shared = matches!(arguments.engine.engine, Some(EngineName::Socket(_)))
        && arguments.engine.transport == Transport::Memory;
    if arguments.conduct.on_engine_loss == EngineLoss::Attach && !is_shared {
        return Err(Error::NoSuccessor);
    }
    Ok(())
}

/// Whether Longshore can serve the program at `path`; warns of one that it can serve only in part.
fn check_program(name: &OsStr, path: &Path) -> Result<(), Error> {
    let Some(lost) = program::obstacle(path) else {
        return Ok(());
    };
    match lost.obstacle.refusal() {
        Some(why) => Err(Error::ProgramNotExecutable {
            program: name.to_string_lossy().into_owned(),
            why: why.to_owned(),
        }),
        None => {
            say(&format!("warning: {lost}"));
            Ok(())
        }
    }
}

/// Starts the program `name`, with the signals that it would have without us.
fn spawn(mut command: Command, name: &OsStr, signals: &Signals) -> Result<Child, Error> {
    signals.unblock_in(&mut command);
    program::die_with_us(&mut command);
    command
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
        })
}

/// Finds or starts the engine that is wanted, and what leads to it; or a signal says that all
/// is to end.
fn find_engine(
    arguments: &RunArguments,
    signals: &Signals,
) -> Result<Result<EngineInUse, Signal>, Error> {
    arguments.crossing.check(&arguments.engine)?;
    let transport = &arguments.engine.transport;
    let engine = match &arguments.engine.engine {
        Some(EngineName::Socket(socket)) => Ok(EngineInUse::Shared(socket.clone())),
        Some(EngineName::Link(_)) if *transport != Transport::Memory => {
            return Err(Error::TransportOfLink);
        }
        Some(EngineName::Link(place)) => start_link(arguments, place, signals)?,
        None => start_private(arguments, signals)?,
    };
    match (engine, transport) {
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

/// The network that a private engine is to be on, and its port; chosen here if the engine is to
/// be in a namespace of its own and none was given.
fn wanted_network(arguments: &RunArguments, own_namespace: bool) -> Result<Wanted, Error> {
    let (networks, automatic) = Automatic::split(&arguments.network.addr);
    let mut wanted = Wanted {
        port: arguments.engine.port.clone(),
        networks,
        automatic,
        gateways: arguments.network.gateway.clone(),
        mtu: arguments.network.mtu,
        capture: arguments.trial.capture.as_deref().map(absolute),
        fault: arguments.trial.fault,
    };
    if own_namespace && wanted.networks.is_empty() && !automatic.any() {
        // The program stays here, so here the networks must be free.
        wanted.networks = choose_networks(0, wanted.mtu)?;
    }
    wanted.check()?;
    Ok(wanted)
}

/// Starts a private engine and waits until it is ready, or until a signal says
/// that all is to end.
fn start_private(
    arguments: &RunArguments,
    signals: &Signals,
) -> Result<Result<EngineInUse, Signal>, Error> {
    let exposed = arguments.reach.exposed();
    if exposed.len() > MOST_DESCRIPTORS {
        return Err(Error::TooManyExposed(exposed.len()));
    }
    let listeners: Vec<OwnedFd> = exposed
        .iter()
        .map(expose::listen)
        .collect::<Result<_, _>>()?;
    let own_namespace = arguments.engine.port.is_none() && !may_configure();
    let wanted = wanted_network(arguments, own_namespace)?;
    let limits = arguments.limits.session_limits();
    geometry(&limits).map_err(|(key, why)| Error::Limit { key, why })?;
    let dir = RuntimeDir::create()?;
    let order = Order {
        wanted,
        loopback: arguments.network.loopback.unwrap_or_default(),
        sysctl: arguments.tcp.sysctl.unwrap_or_default(),
        ecn: arguments.tcp.ecn,
        user_timeout_option: arguments.tcp.user_timeout_option,
        batching: arguments.crossing.batching,
        messages: arguments.crossing.messages.clone(),
        accept_on_data: arguments.crossing.accept_on_data.clone(),
        limits,
        others_may_join: rustix::process::geteuid().is_root(),
        own_namespace,
        placement: arguments.conduct.placement,
        sandbox: !arguments.conduct.no_sandbox,
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
        announce(
            &started,
            own_namespace,
            &exposed,
            &arguments.network.gateway,
        );
        if let Some(lacks) = &started.sandbox_lacks {
            say(&format!(
                "its sandbox lacks what this kernel does not have: {lacks}"
            ));
        }
        if arguments.conduct.no_sandbox {
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
    let key = arguments
        .engine
        .link_key
        .as_deref()
        .ok_or(Error::LinkKeyMissing)?;
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
    fn supervise(
        &self,
        signals: &Signals,
        warnings: Warnings,
        program: Option<(Pid, OwnedFd)>,
        outcome: Result<u8, String>,
        loss: Loss,
    ) -> u8 {
        let supervision = Supervision {
            engines: self.pids(),
            program: program.as_ref().map(|(pid, _)| *pid),
            session: program.map(|(_, session)| session),
            name: outcome.as_ref().err().cloned().unwrap_or_default(),
            code: outcome.ok(),
            since: Instant::now(),
            notified: false,
            loss,
            warnings,
        };
        supervision.wait_for_all(signals)
    }
}
