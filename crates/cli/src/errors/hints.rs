//! Hints: what a user can do about an error. `report` in [`super`] prints them, and an engine's
//! process sends them to its launcher.

use super::Error;
use crate::config::ConfigError;
use longshore_engine::{EngineError, ListenError};
use longshore_hostif::attach::{AttachError, Refusal};
use longshore_measure::crossing::CrossingError;
use longshore_measure::experiment::ExperimentError;
use longshore_ports::packet::PacketError;
use longshore_ports::tap::TapError;
use rustix::io::Errno;
use std::os::unix::fs::FileTypeExt;

impl Error {
    /// What the user can do about it.
    pub(crate) fn hint(&self) -> Option<String> {
        if let Some(hint) = descriptors_hint(self) {
            return Some(hint.to_owned());
        }
        match self {
            Error::PreloadMissing { tried, .. } => {
                let tried: Vec<_> = tried.iter().map(|p| p.display().to_string()).collect();
                Some(format!(
                    "build it with `cargo build -p longshore-preload`, or set LONGSHORE_PRELOAD to its path; looked for in {}",
                    tried.join(", ")
                ))
            }
            Error::Measure(CrossingError::Missing(missing))
            | Error::Experiment(
                ExperimentError::Missing(missing)
                | ExperimentError::Crossing(CrossingError::Missing(missing)),
            ) => Some(format!(
                "install it: Debian has it in the package {}",
                missing.package
            )),
            Error::Reported(report) => report.hint.clone(),
            other => network_hint(other)
                .or_else(|| engine_hint(other))
                .or_else(|| privilege_hint(other))
                .map(str::to_owned),
        }
    }
}

/// Hints to ports, addresses and routers.
fn network_hint(error: &Error) -> Option<&'static str> {
    Some(match error {
        Error::NoFreeNetwork => "give an address with --addr",
        Error::AddressNeeded { .. } => {
            "give an address of that network with --addr, as --addr 192.168.1.50/24"
        }
        Error::Gateway { .. } => "the router must be in the engine's own network",
        Error::GatewayAlone { .. } => "give one with --addr ADDR/PREFIX",
        Error::Tap(error) => return tap_hint(error),
        Error::Experiment(ExperimentError::Tap { source, .. }) => return driver_hint(source),
        Error::Packet(error) => return packet_hint(error),
        Error::MtuForIpv6 { .. } => "give an IPv4 address alone with --addr",
        Error::NoRoomForKernel { .. } => {
            "give a shorter prefix, as /31 or /127; or a device that has been set up"
        }
        Error::MtuOfPacketPort { .. } => "leave --mtu out, or set it with `ip link set`",
        Error::Expose { source, .. } => match source.kind() {
            std::io::ErrorKind::AddrInUse => {
                "another program listens there: choose another HOSTPORT"
            }
            std::io::ErrorKind::PermissionDenied => {
                "ports below 1024 need root: choose another, as --expose 8080:80"
            }
            _ => return None,
        },
        Error::NobodyToAsk => {
            "name an interface, as --port packet:eth0, or a TAP device in a bridge"
        }
        Error::Engine(EngineError::NoAddress(_)) => {
            "is there a DHCP server, or a router that advertises, on that link? else give an \
             address with --addr ADDR/PREFIX"
        }
        _ => return None,
    })
}

/// Hints to engines that run, or are to be started.
fn engine_hint(error: &Error) -> Option<&'static str> {
    Some(match error {
        Error::Attach(error) => return attach_hint(error),
        Error::NoEngine => {
            "start one with `longshore run -- PROGRAM` or `longshore engine --config FILE`; \
             private engines of other users are only seen by root"
        }
        Error::NotPermitted(_) => "ask as root, or as its user",
        Error::ControlAnswer { .. } => "has it just ended?",
        Error::ControlSilent { .. } => "is its process stopped, or kept from the processor?",
        Error::ControlRefused { .. } => "`users` in its configuration has those that it serves",
        Error::NotAnEngine(_) => {
            "without --engine, all that run are shown; other users' private ones, to root alone"
        }
        Error::Config(ConfigError::Read { .. }) => {
            "`longshore engine --example-config` prints a complete file to start from"
        }
        Error::Engine(EngineError::Attach(ListenError::InUse { .. })) => {
            "stop the other engine, or set another `socket`"
        }
        Error::Engine(EngineError::Attach(ListenError::Threads(_))) => {
            "raise the limits of threads and of memory, as `ulimit -u` and `ulimit -v` show them"
        }
        Error::Engine(EngineError::Attach(_)) => "set another `socket`",
        _ => return None,
    })
}

/// Hints to what this system or this user's place in it does not permit.
fn privilege_hint(error: &Error) -> Option<&'static str> {
    Some(match error {
        Error::PreloadPath(_) => "put it elsewhere and set LONGSHORE_PRELOAD to its path",
        Error::Namespace(_) => {
            "this system does not let ordinary users make namespaces (see user.max_user_namespaces \
             and kernel.apparmor_restrict_unprivileged_userns): run as root, or use a TAP device \
             that was made for you, with --port tap:NAME"
        }
        Error::Awake(_) => "this needs root; leave --awake out",
        Error::Sandbox(_) => "--no-sandbox runs the engine without it",
        Error::RuntimeDir { .. } => {
            "engines have their sockets there; LONGSHORE_RUNTIME_DIR names another directory, which \
             is this user's alone to write to"
        }
        _ => return None,
    })
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
        AttachError::Unreachable { path, .. } if is_no_socket(path) => {
            "that is no socket: --engine takes the `socket` of an engine's configuration"
        }
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
                "end some of its programs, or start it with more (`ulimit -n`, `ulimit -v` and \
                 `ulimit -f`, or LimitNOFILE=, LimitAS= and LimitFSIZE= of its service)"
            }
            Refusal::Draining => {
                "start it again when it has ended, or leave --engine out to get one of your own"
            }
            Refusal::NotAllowed => {
                "`users` in its configuration has those that it serves; leave --engine out to get \
                 one of your own"
            }
            Refusal::NoChannel => {
                "`session.processes` in its configuration, or `longshore run --max-processes`, allows more"
            }
            Refusal::UnknownSession | Refusal::HasSession => return None,
        },
        AttachError::BadToken | AttachError::OtherUser { .. } | AttachError::Doorbells { .. } => {
            return None;
        }
    })
}

/// Hints to the file by which TAP devices are made, for experiments.
fn driver_hint(error: &std::io::Error) -> Option<&'static str> {
    let errno = Errno::from_io_error(error)?;
    tap_hint(&TapError::of_driver(errno))
}

/// Whether something is there which is no socket.
fn is_no_socket(path: &str) -> bool {
    std::fs::metadata(path).is_ok_and(|there| !there.file_type().is_socket())
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
        TapError::NotATap { .. } => {
            "an interface of the kernel's is named packet:NAME; `ip tuntap add dev NAME mode tap` \
             makes a TAP device"
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
