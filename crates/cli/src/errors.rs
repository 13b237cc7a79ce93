//! Every error that a user of the program can meet: what failed, what to do
//! about it, and the exit code.

use crate::accept_on_data::BadAccept;
use crate::address::{BadAddress, Network};
use crate::config::ConfigError;
use crate::log::say;
use crate::messages::BadMessages;
use crate::sandbox::SandboxError;
use longshore_engine::control::ControlError;
use longshore_engine::{EngineError, ListenError};
use longshore_hostif::attach::{AttachError, Refusal};
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
    #[error("the limit {key} {why}")]
    Limit { key: &'static str, why: String },
    #[error("a link needs a key, the one that the engine has: --link-key FILE")]
    LinkKeyMissing,
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
    #[error(transparent)]
    LinkKey(#[from] BadKey),
    #[error(transparent)]
    LinkPlace(#[from] PlaceError),
    #[error("the link to {place} cannot be: {source}")]
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
    #[error("cannot listen on {address}: {source}")]
    Expose {
        address: std::net::SocketAddr,
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
    #[error("the engine does not say what it does")]
    EngineSilent,
    #[error("{0} is an engine of another user's, which answers its user and root alone")]
    NotPermitted(PathBuf),
    #[error("{0} is neither an engine's directory, nor one of its sockets, nor its pid")]
    NotAnEngine(PathBuf),
    #[error("the engine ended before it was ready{0}")]
    EngineDied(String),
    /// An engine process told its launcher.
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

    /// What the user can do about it.
    pub(crate) fn hint(&self) -> Option<String> {
        if let Some(hint) = descriptors_hint(self) {
            return Some(hint.to_owned());
        }
        let hint = match self {
            Error::PreloadMissing { tried, .. } => {
                let tried: Vec<_> = tried.iter().map(|p| p.display().to_string()).collect();
                return Some(format!(
                    "build it with `cargo build -p longshore-preload`, or set LONGSHORE_PRELOAD to its path; looked for in {}",
                    tried.join(", ")
                ));
            }
            Error::PreloadPath(_) => "put it elsewhere and set LONGSHORE_PRELOAD to its path",
            Error::NoFreeNetwork => "give an address with --addr",
            Error::AddressNeeded { .. } => {
                "give an address of that network with --addr, as --addr 192.168.1.50/24"
            }
            Error::Gateway { .. } => "the router must be in the engine's own network",
            Error::GatewayAlone { .. } => "give one with --addr ADDR/PREFIX",
            Error::Tap(error) => return tap_hint(error).map(str::to_owned),
            Error::Packet(error) => return packet_hint(error).map(str::to_owned),
            Error::MtuForIpv6 { .. } => "give an IPv4 address alone with --addr",
            Error::NoRoomForKernel { .. } => {
                "give a shorter prefix, as /31 or /127; or a device that has been set up"
            }
            Error::MtuOfPacketPort { .. } => "leave --mtu out, or set it with `ip link set`",
            Error::Namespace(_) => {
                "this system does not let ordinary users make namespaces (see user.max_user_namespaces \
                 and kernel.apparmor_restrict_unprivileged_userns): run as root, or use a TAP device \
                 that was made for you, with --port tap:NAME"
            }
            Error::Expose { source, .. } => match source.kind() {
                std::io::ErrorKind::AddrInUse => {
                    "another program listens there: choose another HOSTPORT"
                }
                std::io::ErrorKind::PermissionDenied => {
                    "ports below 1024 need root: choose another, as --expose 8080:80"
                }
                _ => return None,
            },
            Error::Attach(error) => return attach_hint(error).map(str::to_owned),
            Error::Awake(_) => "this needs root; leave --awake out",
            Error::Sandbox(_) => "--no-sandbox runs the engine without it",
            Error::Measure(CrossingError::Missing(missing))
            | Error::Experiment(
                ExperimentError::Missing(missing)
                | ExperimentError::Crossing(CrossingError::Missing(missing)),
            ) => {
                return Some(format!(
                    "install it: Debian has it in the package {}",
                    missing.package
                ));
            }
            Error::NoEngine => {
                "start one with `longshore run -- PROGRAM` or `longshore engine --config FILE`; \
                 private engines of other users are only seen by root"
            }
            Error::NotPermitted(_) => "ask as root, or as its user",
            Error::ControlAnswer { .. } => "has it just ended?",
            Error::NotAnEngine(_) => {
                "without --engine, all that run are shown; other users' private ones, to root alone"
            }
            Error::Config(ConfigError::Read { .. }) => {
                "`longshore engine --example-config` prints a complete file to start from"
            }
            Error::NobodyToAsk => {
                "name an interface, as --port packet:eth0, or a TAP device in a bridge"
            }
            Error::Engine(EngineError::NoAddress(_)) => {
                "is there a DHCP server, or a router that advertises, on that link? else give an \
                 address with --addr ADDR/PREFIX"
            }
            Error::Engine(EngineError::Attach(ListenError::InUse { .. })) => {
                "stop the other engine, or set another `socket`"
            }
            Error::Engine(EngineError::Attach(_)) => "set another `socket`",
            Error::Reported(report) => return report.hint.clone(),
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

/// Errors of any kind may come from a want of descriptors.
fn descriptors_hint(error: &Error) -> Option<&'static str> {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = next {
        let io = error.downcast_ref::<std::io::Error>();
        let errno = match io.and_then(Errno::from_io_error) {
            None => error.downcast_ref::<Errno>().copied(),
            some => some,
        };
        match errno {
            Some(Errno::MFILE) => return Some("raise the limit, as `ulimit -n 1024`"),
            Some(Errno::NFILE) => return Some("raise the system's limit, fs.file-max"),
            _ => next = error.source(),
        }
    }
    None
}

fn attach_hint(error: &AttachError) -> Option<&'static str> {
    Some(match error {
        AttachError::Unreachable {
            source: Errno::ACCESS,
            ..
        } => "this user may not open it; leave --engine out to get an engine of your own",
        AttachError::Unreachable { .. } | AttachError::Broken(_) => {
            "is the engine running? start one with `longshore engine --config FILE`, or leave \
             --engine out to get one of your own"
        }
        AttachError::NotAnEngine => "--engine takes the `socket` of an engine's configuration",
        AttachError::Refused(why) => match why {
            Refusal::Version => {
                "it was started by another release of longshore: start it again with this one"
            }
            Refusal::NoResources => {
                "end some of its programs, or start it with more (`ulimit -n` and `ulimit -v`, or \
                 LimitNOFILE= and LimitAS= of its service)"
            }
            Refusal::Draining => {
                "start it again when it has ended, or leave --engine out to get one of your own"
            }
            Refusal::NotAllowed => {
                "`users` in its configuration has those that it serves; leave --engine out to get \
                 one of your own"
            }
            Refusal::NoChannel => "`session.processes` in its configuration allows more",
            Refusal::UnknownSession => return None,
        },
        AttachError::BadToken => return None,
    })
}

fn tap_hint(error: &TapError) -> Option<&'static str> {
    Some(match error {
        TapError::NoDriver => "load it with `modprobe tun`, or give the container /dev/net/tun",
        TapError::DriverClosed => {
            "have root let users open it (`chmod 666 /dev/net/tun`, as distributions do), or run \
             as root"
        }
        TapError::AddressInUse { .. } => {
            "choose another network with --addr, or with `address` in the configuration"
        }
        TapError::Busy { .. } => {
            "another engine has it: join that with --engine, or use another device"
        }
        _ => return None,
    })
}

fn packet_hint(error: &PacketError) -> Option<&'static str> {
    Some(match error {
        PacketError::NoPermission => {
            "run as root, or leave --port out to get a namespace of your own"
        }
        PacketError::NoSuchInterface { .. } => {
            "`ip link` lists them; only one named tun... is waited for"
        }
        PacketError::Loopback { .. } => "for programs on this machine leave --port out",
        PacketError::AddressBusy { .. } => {
            "choose another address with --addr, or share that engine with --engine"
        }
        PacketError::AddressTaken { .. } => {
            "give the engine an address of its own, or take this one from the kernel with \
             `ip address del`"
        }
        _ => return None,
    })
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
