//! The configuration of `longshore engine`: TOML, checked in full before
//! anything is started.

use crate::accept_on_data::AcceptOrder;
use crate::address::{AddressOrder, Automatic, LEAST_MTU_V6, Network, list};
use crate::batching::BatchingOrder;
use crate::messages::MessageOrder;
use crate::sandbox::Files;
use crate::session_limits::{SessionLimits, geometry};
use crate::values::{LoopbackOwner, Placement, PortName, Sysctl, congestion};
use longshore_engine::{Access, LowPorts, Rule, Rules, UserLimits};
use longshore_ports::tap::{MAX_MTU, MIN_MTU};
use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt::{self, Display};
use std::marker::PhantomData;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

mod live;
#[cfg(test)]
mod tests;

pub(crate) use live::Live;

/// A complete configuration, every key with its default where it has one.
pub(crate) const EXAMPLE: &str = include_str!("example.toml");

/// What is wrong with a configuration.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("cannot read the configuration {path}: {source}")]
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    /// The TOML reader's message names key, line and column.
    #[error("the configuration {path} is not right: {source}")]
    Parse {
        path: PathBuf,
        source: Box<toml::de::Error>,
    },
    #[error("the configuration {path} is not right: {key}: {why}")]
    Value {
        path: PathBuf,
        key: &'static str,
        why: String,
    },
}

/// A user by name or number.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
enum User {
    Uid(u32),
    Name(String),
}

/// A text that is read as a `T`, or a list of them.
#[derive(Debug)]
struct OneOrMore<T>(Vec<T>);

impl<T> Default for OneOrMore<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: FromStr<Err: Display>> Deserialize<'de> for OneOrMore<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Texts<T>(PhantomData<T>);
        impl<'de, T: FromStr<Err: Display>> Visitor<'de> for Texts<T> {
            type Value = OneOrMore<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, or a list of texts")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                let value = text.parse().map_err(E::custom)?;
                Ok(OneOrMore(vec![value]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut all = Vec::new();
                while let Some(text) = list.next_element::<String>()? {
                    all.push(text.parse().map_err(de::Error::custom)?);
                }
                Ok(OneOrMore(all))
            }
        }
        from.deserialize_any(Texts(PhantomData))
    }
}

/// The file's keys: a plain record, since its fields are those of the TOML.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    port: PortName,
    address: OneOrMore<AddressOrder>,
    #[serde(default)]
    gateway: OneOrMore<IpAddr>,
    mtu: Option<usize>,
    #[serde(default = "default_socket")]
    socket: PathBuf,
    #[serde(default)]
    loopback: LoopbackOwner,
    #[serde(default)]
    sysctl: Sysctl,
    ecn: Option<u8>,
    congestion: Option<String>,
    #[serde(default)]
    user_timeout_option: bool,
    #[serde(default = "default_true")]
    kernel_too: bool,
    #[serde(default)]
    batching: BatchingOrder,
    #[serde(default)]
    messages: Vec<MessageOrder>,
    #[serde(default)]
    accept_on_data: Vec<AcceptOrder>,
    #[serde(default)]
    users: Vec<User>,
    #[serde(default = "default_drain")]
    drain_seconds: u64,
    capture: Option<PathBuf>,
    #[serde(default)]
    awake: bool,
    #[serde(default)]
    placement: Placement,
    #[serde(default = "default_true")]
    sandbox: bool,
    #[serde(default)]
    access: AccessLists,
    #[serde(default)]
    session: SessionLimits,
    #[serde(default)]
    user: UserKeys,
}

/// What the sessions of one user may have together.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct UserKeys {
    sockets: Option<u32>,
    memory_mib: Option<u32>,
}

impl UserKeys {
    fn read(self) -> Result<UserLimits, (&'static str, String)> {
        let mut limits = UserLimits::default();
        let none = |key| Err((key, "must be at least 1".to_owned()));
        match self.sockets {
            Some(0) => return none("user.sockets"),
            Some(sockets) => limits.sockets = sockets,
            None => {}
        }
        match self.memory_mib {
            Some(0) => return none("user.memory_mib"),
            Some(mib) => limits.memory = u64::from(mib) << 20,
            None => {}
        }
        Ok(limits)
    }
}

/// The rules by which users reach addresses and ports; see [`Rule`].
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct AccessLists {
    accept: Vec<String>,
    connect: Vec<String>,
    bind: Vec<String>,
    low_ports: LowPortsRule,
}

/// The programs that may bind low ports.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum LowPortsRule {
    #[default]
    Host,
    Root,
    All,
}

impl AccessLists {
    fn shown(&self) -> String {
        let lists = [
            ("accept", &self.accept),
            ("connect", &self.connect),
            ("bind", &self.bind),
        ];
        let shown = lists.map(|(name, rules)| format!("{name} {rules:?}"));
        let low_ports = format!("{:?}", self.low_ports).to_lowercase();
        format!("{}, low_ports {low_ports}", shown.join(", "))
    }

    /// The rules; else the key that is wrong, and why.
    fn read(&self) -> Result<Access, (&'static str, String)> {
        let read = |key, texts: &[String]| {
            let rules = texts.iter().map(|text| text.parse::<Rule>());
            let rules: Result<_, _> = rules.collect();
            rules
                .map(Rules)
                .map_err(|why: longshore_engine::BadRule| (key, why.to_string()))
        };
        Ok(Access {
            accept: read("access.accept", &self.accept)?,
            connect: read("access.connect", &self.connect)?,
            bind: read("access.bind", &self.bind)?,
            low_ports: match self.low_ports {
                LowPortsRule::Host => LowPorts::Host,
                LowPortsRule::Root => LowPorts::Root,
                LowPortsRule::All => LowPorts::All,
            },
        })
    }
}

fn default_socket() -> PathBuf {
    PathBuf::from("/run/longshore/engine.sock")
}

fn default_drain() -> u64 {
    30
}

fn default_true() -> bool {
    true
}

/// A configuration that was checked.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) port: PortName,
    pub(crate) addresses: Vec<Network>,
    pub(crate) automatic: Automatic,
    pub(crate) gateways: Vec<IpAddr>,
    pub(crate) mtu: Option<usize>,
    pub(crate) socket: PathBuf,
    pub(crate) loopback: LoopbackOwner,
    pub(crate) capture: Option<PathBuf>,
    pub(crate) placement: Placement,
    pub(crate) sandbox: bool,
    /// What a running engine follows, too.
    pub(crate) live: Live,
}

impl Config {
    /// Reads and checks the file.
    pub(crate) fn read(files: &Files) -> Result<Self, ConfigError> {
        let text = files.config().map_err(|source| ConfigError::Read {
            path: files.path().to_owned(),
            source,
        })?;
        Self::parse(&text, files)
    }

    pub(crate) fn parse(text: &str, files: &Files) -> Result<Self, ConfigError> {
        let path = files.path();
        let file: File = toml::from_str(text).map_err(|source| ConfigError::Parse {
            path: path.to_owned(),
            source: Box::new(source),
        })?;
        let value = |key, why: String| ConfigError::Value {
            path: path.to_owned(),
            key,
            why,
        };
        if let Some(mtu) = file.mtu {
            check_mtu(mtu, &file.address.0).map_err(|why| value("mtu", why))?;
        }
        if let Some(ecn) = file.ecn.filter(|ecn| *ecn > 5) {
            return Err(value("ecn", format!("{ecn} is not from 0 to 5")));
        }
        MessageOrder::by_port(&file.messages).map_err(|why| value("messages", why.to_string()))?;
        AcceptOrder::by_port(&file.accept_on_data)
            .map_err(|why| value("accept_on_data", why.to_string()))?;
        let congestion = file.congestion.as_deref().map(congestion);
        let congestion = congestion
            .transpose()
            .map_err(|why| value("congestion", why))?;
        let (networks, automatic) = Automatic::split(&file.address.0);
        let gateways = file.gateway.0;
        check_addresses(&networks, automatic, &gateways).map_err(|(key, why)| value(key, why))?;
        let users = file.users.iter().map(|user| uid_of(user, files));
        let users = users.collect::<Result<_, _>>();
        Ok(Config {
            live: Live {
                geometry: geometry(&file.session).map_err(|(key, why)| value(key, why))?,
                user_limits: file.user.read().map_err(|(key, why)| value(key, why))?,
                access: file.access.read().map_err(|(key, why)| value(key, why))?,
                access_rules: file.access.shown(),
                users: users.map_err(|why| value("users", why))?,
                sysctl: file.sysctl,
                ecn: file.ecn,
                congestion,
                user_timeout_option: file.user_timeout_option,
                kernel_too: file.kernel_too,
                batching: file.batching,
                messages: file.messages,
                accept_on_data: file.accept_on_data,
                drain: Duration::from_secs(file.drain_seconds),
                awake: file.awake,
            },
            port: file.port,
            addresses: networks,
            automatic,
            gateways,
            mtu: file.mtu,
            socket: file.socket,
            loopback: file.loopback,
            capture: file.capture,
            placement: file.placement,
            sandbox: file.sandbox,
        })
    }
}

/// Whether an engine with these addresses can have packets of so many bytes; why not.
fn check_mtu(mtu: usize, addresses: &[AddressOrder]) -> Result<(), String> {
    if !(MIN_MTU..=MAX_MTU).contains(&mtu) {
        return Err(format!("{mtu} is not from {MIN_MTU} to {MAX_MTU}"));
    }
    let of_v6 = |order: &AddressOrder| match order {
        AddressOrder::Fixed(network) => network.address.is_ipv6(),
        AddressOrder::Slaac => true,
        AddressOrder::Dhcp => false,
    };
    if mtu < LEAST_MTU_V6 && addresses.iter().any(of_v6) {
        return Err(format!(
            "{mtu} is too small for IPv6, which needs {LEAST_MTU_V6}"
        ));
    }
    Ok(())
}

/// Whether an engine can have these; the key that is wrong, and why.
fn check_addresses(
    networks: &[Network],
    automatic: Automatic,
    gateways: &[IpAddr],
) -> Result<(), (&'static str, String)> {
    let of_v4 = |ip: &IpAddr| ip.is_ipv4();
    if networks.is_empty() && !automatic.any() {
        return Err(("address", "an engine needs one".to_owned()));
    }
    let of_dhcp = usize::from(automatic.dhcp);
    if networks.iter().map(|n| n.address).filter(of_v4).count() + of_dhcp > 1 {
        return Err(("address", "an engine has one of IPv4".to_owned()));
    }
    for gateway in gateways {
        let why = if !networks.iter().any(|n| n.reaches(*gateway)) {
            let address = list(networks);
            format!("{gateway} is not in the network of address {address}")
        } else if networks.iter().any(|n| n.address == *gateway) {
            format!("{gateway} is the engine's own address")
        } else if gateways
            .iter()
            .filter(|g| g.is_ipv4() == gateway.is_ipv4())
            .count()
            > 1
        {
            "an engine has one for each version of IP".to_owned()
        } else {
            continue;
        };
        return Err(("gateway", why));
    }
    Ok(())
}

fn uid_of(user: &User, files: &Files) -> Result<u32, String> {
    match user {
        User::Uid(uid) => Ok(*uid),
        User::Name(name) => {
            let passwd = files.users().map_err(|why| format!("/etc/passwd: {why}"))?;
            uid_in(&passwd, name).ok_or_else(|| {
                format!("no user {name:?} in /etc/passwd; users from elsewhere go by their number")
            })
        }
    }
}

fn uid_in(passwd: &str, name: &str) -> Option<u32> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == name).then(|| fields.nth(1)?.parse().ok())?
    })
}
