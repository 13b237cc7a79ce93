//! Every error that a user of the program can meet: what failed, what to do
//! about it, and the exit code.

mod hints;

use crate::accept_on_data::BadAccept;
use crate::address::{BadAddress, Network};
use crate::config::ConfigError;
use crate::log::say;
use crate::messages::BadMessages;
use crate::sandbox::SandboxError;
use longshore_engine::EngineError;
use longshore_engine::control::ControlError;
use longshore_hostif::attach::AttachError;
use longshore_link::{AgentError, BadKey, HandshakeError, PlaceError, ProxyError};
use longshore_measure::chart::ChartError;
use longshore_measure::crossing::CrossingError;
use longshore_measure::experiment::ExperimentError;
use longshore_ports::capture::CaptureError;
use longshore_ports::packet::PacketError;
use longshore_ports::tap::TapError;
use longshore_ports::{BadName, InterfaceName};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::fmt::Display;
use std::net::IpAddr;
use std::path::PathBuf;

/// The engine was lost while the program ran.
pub(crate) const ENGINE_LOST: u8 = 124;
/// Longshore itself failed; the program was not, or not properly, run.
pub(crate) const OWN_FAILURE: u8 = 125;
/// The program was found and cannot be executed.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// The program was not found.
pub(crate) const NOT_FOUND: u8 = 127;
/// Added to a signal's number when it ended the program.
pub(crate) const SIGNAL_BASE: u8 = 128;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{program}: command not found")]
    ProgramNotFound { program: String },
    #[error("{program}: cannot be executed: {why}")]
    ProgramNotExecutable { program: String, why: String },
    #[error("cannot find {name}, the library that goes into the program")]
    PreloadMissing {
        name: &'static str,
        tried: Vec<PathBuf>,
    },
    #[error("the library's path {0} has a space or a colon in it, which LD_PRELOAD does not take")]
    PreloadPath(PathBuf),
    #[error(transparent)]
    Address(#[from] BadAddress),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("{} {why}", crate::session_limits::option_of(.key))]
    Limit { key: &'static str, why: String },
    #[error("a link needs a key, the one that the engine has: --link-key FILE")]
    LinkKeyMissing,
    #[error(
        "--on-engine-loss attach needs --engine SOCKET: no other engine comes where a private one, or one \
         behind a link or a bus, has been"
    )]
    NoSuccessor,
    #[error(
        "a link is a transport itself: --transport is for an engine of this machine; there are \
         modelled buses where the engine of the link is, with run --engine SOCKET"
    )]
    TransportOfLink,
    #[error(
        "--batching is for memory that programs share with their engine: the adapter at a modelled \
         bus fetches as its model says (fetch=N)"
    )]
    BatchingOnBus,
    #[error(
        "--messages is for memory that programs share with their engine: the adapter at a modelled \
         bus tells of all that comes"
    )]
    MessagesOnBus,
    #[error(transparent)]
    Messages(#[from] BadMessages),
    #[error(transparent)]
    AcceptOnData(#[from] BadAccept),
    #[error(
        "--immediate-data is for memory that programs share with their engine: links and modelled \
         buses carry payload in their own way"
    )]
    ImmediateDataElsewhere,
    #[error(
        "--zero-copy is for memory that programs share with their engine: what comes over links \
         and modelled buses is copied"
    )]
    ZeroCopyElsewhere,
    #[error(
        "--zero-copy always: this kernel does not say what a program has mapped where \
         (PROCMAP_QUERY, in Linux since 6.11), so all would be copied; leave the option out"
    )]
    ZeroCopyOfKernel,
    #[error(
        "--zero-copy exchanges pages of 4096 bytes, and those of this kernel have {0}: start \
         without it, and bytes are copied"
    )]
    ZeroCopyPages(usize),
    #[error(transparent)]
    LinkKey(#[from] BadKey),
    #[error(transparent)]
    LinkPlace(#[from] PlaceError),
    #[error("the link with {place} cannot be: {source}")]
    LinkHandshake {
        place: String,
        source: HandshakeError,
    },
    #[error(transparent)]
    LinkAgent(#[from] AgentError),
    #[error("the link has ended: {0}")]
    LinkProxy(#[from] ProxyError),
    #[error("no free network of 10.77.0.0/16 is left on this machine")]
    NoFreeNetwork,
    #[error("the network of the device {name} is not known")]
    AddressNeeded { name: String },
    #[error("the gateway {gateway} is not another host of {networks}")]
    Gateway { gateway: IpAddr, networks: String },
    #[error("the gateway {gateway} is of no use without an address in its network")]
    GatewayAlone { gateway: IpAddr },
    #[error("an engine has one IPv4 address, and one gateway for each version of IP")]
    TooManyAddresses,
    #[error(
        "--addr dhcp and --addr slaac need a --port: on a device of its own an engine has nobody to ask"
    )]
    NobodyToAsk,
    #[error(transparent)]
    Tap(#[from] TapError),
    #[error(transparent)]
    Packet(#[from] PacketError),
    #[error("an MTU of {mtu} is too small for IPv6, which needs 1280")]
    MtuForIpv6 { mtu: usize },
    #[error("{network} leaves no address for the kernel on a device that is made for the engine")]
    NoRoomForKernel { network: Network },
    #[error("the MTU of packet:{name} is the interface's own")]
    MtuOfPacketPort { name: InterfaceName },
    #[error(transparent)]
    InterfaceName(#[from] BadName),
    #[error("cannot make a user and network namespace for the engine: {0}")]
    Namespace(Errno),
    #[error(transparent)]
    Capture(#[from] CaptureError),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Control(#[from] ControlError),
    #[error("cannot listen on {listen}: {source}")]
    Expose {
        listen: crate::expose_order::Outside,
        source: std::io::Error,
    },
    #[error("{0} ports are to be exposed; 250 are possible")]
    TooManyExposed(usize),
    #[error(transparent)]
    Attach(#[from] AttachError),
    #[error("the directory {path} cannot be used: {why}")]
    RuntimeDir { path: PathBuf, why: String },
    #[error("cannot hold the processors awake: /dev/cpu_dma_latency: {0}")]
    Awake(std::io::Error),
    #[error("the engine's sandbox: {0}")]
    Sandbox(#[from] SandboxError),
    #[error(transparent)]
    Measure(#[from] CrossingError),
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
    #[error(transparent)]
    Plot(#[from] ChartError),
    #[error("no engine is running")]
    NoEngine,
    #[error("the engine at {path} does not answer: {why}")]
    ControlAnswer { path: PathBuf, why: String },
    #[error("the engine at {path} has not answered for {seconds} s")]
    ControlSilent { path: PathBuf, seconds: u64 },
    #[error("the engine at {path} does not answer this user: {why}")]
    ControlRefused { path: PathBuf, why: String },
    #[error("the engine does not say what it does")]
    EngineSilent,
    #[error("{0} is an engine of another user's, which answers its user and root alone")]
    NotPermitted(PathBuf),
    #[error("{0} is neither an engine's directory, nor one of its sockets, nor its pid")]
    NotAnEngine(PathBuf),
    #[error("the engine ended before it was ready{0}")]
    EngineDied(String),
    /// An engine process reported it to its launcher.
    #[error("{}", .0.message)]
    Reported(Report),
    #[error("cannot {what}: {source}")]
    System {
        what: String,
        source: std::io::Error,
    },
}

/// An error on its way from an engine process to its launcher.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl From<&Error> for Report {
    fn from(error: &Error) -> Self {
        Report {
            message: error.to_string(),
            hint: error.hint(),
        }
    }
}

/// Makes an [`Error::System`] of a system call's failure.
pub(crate) fn system<E: Into<std::io::Error>>(what: impl Display) -> impl FnOnce(E) -> Error {
    move |source| Error::System {
        what: what.to_string(),
        source: source.into(),
    }
}

impl Error {
    /// The program's exit code for it.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Error::ProgramNotFound { .. } => NOT_FOUND,
            Error::ProgramNotExecutable { .. } => NOT_EXECUTABLE,
            _ => OWN_FAILURE,
        }
    }
}

/// Prints an error to stderr.
pub(crate) fn report(error: &Error) {
    say(&error.to_string());
    if let Some(hint) = error.hint() {
        say(&format!("hint: {hint}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longshore_engine::ListenError;
    use longshore_hostif::attach::Refusal;
    use rustix::io::Errno;

    #[test]
    fn codes_are_those_of_env_and_timeout() {
        let program = || "x".to_owned();
        assert_eq!(Error::ProgramNotFound { program: program() }.code(), 127);
        let why = program();
        let not = Error::ProgramNotExecutable {
            program: program(),
            why,
        };
        assert_eq!(not.code(), 126);
        assert_eq!(Error::NoEngine.code(), 125);
    }

    #[test]
    fn a_want_of_descriptors_is_seen_through_any_error() {
        let hint = |error: Error| error.hint().unwrap();
        let none = || std::io::Error::from(Errno::MFILE);
        assert!(hint(system("block signals")(none())).contains("ulimit -n"));
        assert!(hint(system("x")(Errno::NFILE)).contains("fs.file-max"));
        let path = || PathBuf::from("s");
        let refused = ListenError::Listen {
            path: path(),
            source: Errno::MFILE,
        };
        assert!(hint(EngineError::Attach(refused).into()).contains("ulimit -n"));
        let refused = ListenError::InUse { path: path() };
        assert!(hint(EngineError::Attach(refused).into()).contains("another `socket`"));
        let refused = ListenError::Threads(Errno::AGAIN.into());
        assert!(hint(EngineError::Attach(refused).into()).contains("`ulimit -v`"));
    }

    #[test]
    fn whoever_is_refused_is_told_what_to_do() {
        for (why, says) in [
            (Refusal::Version, "another release"),
            (Refusal::NoResources, "ulimit -n"),
            (Refusal::NoResources, "ulimit -v"),
            (Refusal::Draining, "when it has ended"),
            (Refusal::NotAllowed, "`users`"),
            (Refusal::NoChannel, "session.processes"),
        ] {
            let hint = Error::Attach(AttachError::Refused(why)).hint().unwrap();
            assert!(hint.contains(says), "{why}: {hint}");
        }
    }

    #[test]
    fn a_report_carries_message_and_hint() {
        let report = Report::from(&Error::NoFreeNetwork);
        let error = Error::Reported(report);
        assert!(error.to_string().contains("no free network"));
        assert!(error.hint().unwrap().contains("--addr"));
    }
}
