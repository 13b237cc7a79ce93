//! What options of the command line say: how each is written, and what it means.
//!
//! Used by `args`, whose structures have these as fields, and by the configuration, which
//! writes some of them the same way.

use clap::ValueEnum;
use longshore_engine::Congestion;
use longshore_ports::InterfaceName;
use longshore_ports::tap::{MAX_MTU, MIN_MTU};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

/// The longest time that an option of milliseconds may be.
pub(crate) const LONGEST_MS: u32 = 60_000;

/// What becomes of a program whose engine is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum EngineLoss {
    /// It is ended.
    End,
    /// It stays, without its sockets.
    Stay,
    /// It stays, and has sockets again at the engine that next listens at the same path.
    Attach,
}

/// The stack that has the loopback addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LoopbackOwner {
    /// The engine
    Engine,
    /// The kernel
    #[default]
    Kernel,
}

/// A choice of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum YesNo {
    Yes,
    No,
}

/// Whose TCP settings new sockets start from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Sysctl {
    /// The host's, as they are when a socket is made
    #[default]
    Host,
    /// Longshore's own defaults
    None,
}

/// On which processor an engine runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Placement {
    /// With the program that asks most, where that is tried and more is done there
    #[default]
    Auto,
    /// Where the scheduler puts it
    Scheduler,
}

impl From<Placement> for longshore_engine::Placement {
    fn from(placement: Placement) -> Self {
        match placement {
            Placement::Auto => Self::Tried,
            Placement::Scheduler => Self::Scheduler,
        }
    }
}

/// What carries the host/adapter interface on this machine.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Transport {
    /// Memory that the program shares with the engine.
    Memory,
    /// A modelled bus.
    Bus(longshore_bus::BusModel),
}

/// No transport is written so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadTransport {
    #[error("there is no transport `{0}`; write memory, or bus:MODEL, as bus:pcie-gen4x8")]
    Kind(String),
    #[error("{0}")]
    Bus(#[from] longshore_bus::BadBusModel),
}

impl FromStr for Transport {
    type Err = BadTransport;

    fn from_str(text: &str) -> Result<Self, BadTransport> {
        match (text, text.strip_prefix("bus:")) {
            ("memory", _) => Ok(Self::Memory),
            (_, Some(model)) => Ok(Self::Bus(model.parse()?)),
            _ => Err(BadTransport::Kind(text.to_owned())),
        }
    }
}

/// An engine that is there already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EngineName {
    /// On this machine, at this socket.
    Socket(PathBuf),
    /// At the other end of a link.
    Link(longshore_link::Place),
}

impl FromStr for EngineName {
    type Err = longshore_link::BadPlace;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.strip_prefix("link:") {
            Some(place) => place.parse().map(Self::Link),
            None => Ok(Self::Socket(text.into())),
        }
    }
}

impl Sysctl {
    /// The host's settings, of this thread's network namespace.
    pub(crate) fn open(self) -> Option<longshore_engine::HostSettings> {
        (self == Sysctl::Host).then(longshore_engine::HostSettings::open)
    }
}

impl From<LoopbackOwner> for longshore_hostif::Loopback {
    fn from(owner: LoopbackOwner) -> Self {
        match owner {
            LoopbackOwner::Engine => longshore_hostif::Loopback::Engine,
            LoopbackOwner::Kernel => longshore_hostif::Loopback::Kernel,
        }
    }
}

/// A port by its kind and name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) enum PortName {
    /// A TAP device.
    Tap(InterfaceName),
    /// A packet socket on an interface that exists.
    Packet(InterfaceName),
}

/// Not the name of a port.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} names no port: write tap:NAME or packet:NAME{why}")]
pub(crate) struct BadPort {
    text: String,
    why: String,
}

impl FromStr for PortName {
    type Err = BadPort;

    fn from_str(text: &str) -> Result<Self, BadPort> {
        let bad = |why: String| BadPort {
            text: text.to_owned(),
            why,
        };
        let (kind, name) = text.split_once(':').ok_or_else(|| bad(String::new()))?;
        let checked = InterfaceName::new(name).map_err(|error| bad(format!("; {error}")));
        match kind {
            "tap" => checked.map(PortName::Tap),
            "packet" if name.contains('%') => {
                Err(bad("; a packet port stands on one interface".to_owned()))
            }
            "packet" => checked.map(PortName::Packet),
            _ => Err(bad(String::new())),
        }
    }
}

impl TryFrom<String> for PortName {
    type Error = BadPort;

    fn try_from(text: String) -> Result<Self, BadPort> {
        text.parse()
    }
}

impl From<PortName> for String {
    fn from(name: PortName) -> String {
        match name {
            PortName::Tap(name) => format!("tap:{name}"),
            PortName::Packet(name) => format!("packet:{name}"),
        }
    }
}

/// An algorithm of ours by its name.
pub(crate) fn congestion(text: &str) -> Result<Congestion, String> {
    Congestion::by_name(text).ok_or_else(|| {
        let names = Congestion::ALL.map(Congestion::name).join(", ");
        format!("the congestion controls are {names}")
    })
}

/// A number, and the unit that stands behind it.
pub(crate) fn number_and_unit(text: &str) -> Option<(u64, &str)> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    Some((number.parse().ok()?, unit))
}

/// A time in milliseconds, a minute at most.
pub(crate) fn milliseconds(text: &str) -> Option<u32> {
    let milliseconds = match number_and_unit(text) {
        Some((number, "ms")) => Some(number),
        Some((number, "s")) => number.checked_mul(1000),
        _ => None,
    };
    let milliseconds = milliseconds.and_then(|m| u32::try_from(m).ok());
    milliseconds.filter(|m| (1..=LONGEST_MS).contains(m))
}

/// What is said of each port, if each is named once.
///
/// # Errors
/// A port that is named twice.
pub(crate) fn once_each<T>(all: impl Iterator<Item = (u16, T)>) -> Result<BTreeMap<u16, T>, u16> {
    let mut by_port = BTreeMap::new();
    for (port, said) in all {
        if by_port.insert(port, said).is_some() {
            return Err(port);
        }
    }
    Ok(by_port)
}

pub(super) fn mtu(text: &str) -> Result<usize, String> {
    let range = format!("the MTU is a number from {MIN_MTU} to {MAX_MTU}");
    match text.parse() {
        Ok(mtu) if (MIN_MTU..=MAX_MTU).contains(&mtu) => Ok(mtu),
        _ => Err(range),
    }
}
