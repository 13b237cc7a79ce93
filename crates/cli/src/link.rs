//! Links: the engine of a program is on another machine.
//!
//! All of it is in processes of their own, which are this same program, started with hidden
//! commands: the host's end by `longshore run`, to whose program it is the engine; at the
//! engine's machine one that takes links, and for each link that comes in another one, which
//! is the engine's end. So whoever says what harms an end of a link harms that alone, and an
//! end that is killed has its sockets closed as a program's would be.

use crate::address::Network;
use crate::args::{LinkAgentArguments, LinkEndArguments, RunArguments};
use crate::errors::{Error, Report, system};
use crate::helper::{self, Answer, start_helper, take_stdin};
use crate::log::say;
use crate::signals::Signals;
use crate::values::YesNo;
use longshore_link::{Agent, HandshakeError, Key, Link, Place, Proxy, Role, Secured};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{PidfdFlags, WaitOptions, pidfd_open, waitpid};
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Links at once, with those that have not proven yet that they have the key.
const MOST_LINKS: usize = 256;

// ---- the host's end ----

/// Starts the host's end of a link.
pub(crate) fn start_agent(
    arguments: &RunArguments,
    place: &Place,
    key: &Path,
    socket: &Path,
    signals: &Signals,
) -> Result<(Child, OwnedFd), Error> {
    let options = [
        ("--place", place.to_string().into()),
        ("--key", key.into()),
        ("--socket", socket.into()),
    ];
    start_host_end("__link-agent", options, arguments, signals)
}

/// Starts what programs attach to as to an engine, by a hidden command with these options and
/// those of `SessionArguments` that say how `run` was called.
pub(crate) fn start_host_end<const N: usize>(
    command: &str,
    options: [(&str, OsString); N],
    arguments: &RunArguments,
    signals: &Signals,
) -> Result<(Child, OwnedFd), Error> {
    let mut words: Vec<OsString> = vec![command.into()];
    let mut option = |name: &str, value: OsString| words.extend([name.into(), value]);
    for (name, value) in options {
        option(name, value);
    }
    if let Some(congestion) = arguments.tcp.congestion {
        option("--congestion", congestion.name().into());
    }
    if let Some(answer) = arguments.reach.kernel_too {
        let answer = if answer == YesNo::Yes { "yes" } else { "no" };
        option("--kernel-too", answer.into());
    }
    let words: Vec<_> = words.iter().map(OsString::as_os_str).collect();
    start_helper(&words, signals)
}

/// The host's end of a link: serves the programs of its launcher until there are none.
pub(crate) fn agent(arguments: &LinkAgentArguments) -> Result<(), Error> {
    let _ = rustix::thread::set_name(c"longshore-link");
    serve_programs(format!("the link to {}", arguments.place), || {
        prepare(arguments)
    })
}

/// Answers the launcher that programs can attach, by what `port` says, or why they cannot; and
/// serves them until there are none.
pub(crate) fn serve_programs(
    port: String,
    prepare: impl FnOnce() -> Result<Agent, Error>,
) -> Result<(), Error> {
    crate::limits::prepare();
    let channel = take_stdin()?;
    let reply = |answer: &Answer| {
        helper::send_message(&channel, answer, &[]).map_err(system("answer the launcher"))
    };
    let agent = match prepare() {
        Ok(agent) => agent,
        Err(error) => return reply(&Answer::Failed(Report::from(&error))),
    };
    reply(&Answer::Ready {
        networks: networks_of(&agent),
        port,
        sandbox_lacks: None,
    })?;
    Ok(agent.run(&channel)?)
}

/// The networks of the engine at the other end.
fn networks_of(agent: &Agent) -> Vec<Network> {
    let own = agent.addresses().into_iter();
    own.map(|(address, prefix_len)| Network {
        address,
        prefix_len,
    })
    .collect()
}

fn prepare(arguments: &LinkAgentArguments) -> Result<Agent, Error> {
    let key = Key::read(&arguments.key)?;
    let fd = arguments.place.connect()?;
    let secured = establish(fd, Role::Host, &key, || arguments.place.to_string())?;
    let link = Link::new(secured);
    Ok(Agent::begin(
        link,
        arguments.session.options(),
        &arguments.socket,
    )?)
}

fn establish(
    fd: OwnedFd,
    role: Role,
    key: &Key,
    place: impl FnOnce() -> String,
) -> Result<Secured, Error> {
    Secured::establish(fd, role, key).map_err(|source: HandshakeError| Error::LinkHandshake {
        place: place(),
        source,
    })
}

// ---- the engine's end ----

/// Starts what takes links for an engine. It ends with this process.
pub(crate) fn start_server(
    place: &Place,
    key: &Path,
    engine: &Path,
    signals: &Signals,
) -> Result<Child, Error> {
    // What is wrong is said now, and not when the first link comes.
    Key::read(key)?;
    let listening = place.listen()?;
    let mut command = helper("__link-server", engine, key);
    command.stdin(Stdio::from(OwnedFd::from(listening)));
    signals.unblock_in(&mut command);
    command.spawn().map_err(system("take links"))
}

/// This program, to be started with one of its hidden commands.
fn helper(command: &str, engine: &Path, key: &Path) -> Command {
    // Also when another release has taken the place of this file.
    let mut helper = Command::new("/proc/self/exe");
    helper
        .arg0("longshore")
        .arg(command)
        .arg("--engine")
        .arg(engine)
        .arg("--key")
        .arg(key)
        .stdout(Stdio::null());
    helper
}

/// Takes links: each has a process of its own.
pub(crate) fn serve(arguments: &LinkEndArguments) -> Result<(), Error> {
    let _ = rustix::thread::set_name(c"longshore-links");
    let listening = longshore_link::Listening::from(take_stdin()?);
    // Its end, which it cannot signal: its sandbox lets it signal nobody.
    let engine = rustix::process::getppid().ok_or(Errno::SRCH);
    let engine = engine.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()));
    let engine = engine.map_err(system("follow the engine"))?;
    let mut links: usize = 0;
    loop {
        let mut fds = [
            PollFd::new(&listening, PollFlags::IN),
            PollFd::new(&engine, PollFlags::IN),
        ];
        if poll(&mut fds, None).is_err() {
            continue;
        }
        if !fds[1].revents().is_empty() {
            return Ok(());
        }
        let link = listening.accept().map_err(system("take links"))?;
        while let Ok(Some(_)) = waitpid(None, WaitOptions::NOHANG) {
            links = links.saturating_sub(1);
        }
        if links >= MOST_LINKS {
            say("a link was turned away: there are as many as there may be");
            continue;
        }
        let mut proxy = helper("__link-proxy", &arguments.engine, &arguments.key);
        proxy.stdin(Stdio::from(link));
        match proxy.spawn() {
            Ok(_) => links += 1,
            Err(error) => say(&format!("a link cannot be served: {error}")),
        }
    }
}

/// Where the other end of a link is, as far as its socket knows.
fn other_end(link: &OwnedFd) -> String {
    let address = rustix::net::getpeername(link).ok().flatten();
    match address.map(std::net::SocketAddr::try_from) {
        Some(Ok(address)) => address.to_string(),
        _ => "a process of this machine, or of a virtual one".to_owned(),
    }
}

/// The engine's end of a link.
pub(crate) fn proxy(arguments: &LinkEndArguments) -> Result<(), Error> {
    let _ = rustix::thread::set_name(c"longshore-proxy");
    let fd = take_stdin()?;
    let from = other_end(&fd);
    let key = Key::read(&arguments.key)?;
    let mut link = Link::new(establish(fd, Role::Engine, &key, || from)?);
    let hello = link.greeting().map_err(longshore_link::ProxyError::from)?;
    let proxy = Proxy::begin(link, &hello, &arguments.engine)?;
    Ok(proxy.run()?)
}
