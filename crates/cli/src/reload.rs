//! A configuration that is read again while its engine runs: what has changed, what of it
//! can be had now, and what waits for the next start.
//!
//! Owned by `operator`, which calls it at SIGHUP.

use crate::accept_on_data::AcceptOrder;
use crate::address::list;
use crate::awake::Awake;
use crate::config::{Config, Live};
use crate::errors::{Error, report};
use crate::log::say;
use crate::messages::MessageOrder;
use crate::sandbox::Files;
use crate::session_limits::mib;
use longshore_engine::{Adjustable, Congestion, Handle};
use std::fmt::Display;
use std::time::Duration;

/// A key of the configuration.
struct Key {
    name: &'static str,
    shown: Shown,
}

/// How a key's value is shown.
enum Shown {
    /// A running engine can follow a change of it.
    Live(fn(&Live) -> String),
    /// It waits for the engine's next start.
    Waits(fn(&Config) -> String),
}

impl Shown {
    fn of(&self, config: &Config) -> String {
        match self {
            Self::Live(shown) => shown(&config.live),
            Self::Waits(shown) => shown(config),
        }
    }
}

/// All keys, in the order of the example.
const KEYS: [Key; 23] = [
    waits("port", |c| String::from(c.port.clone())),
    waits("address", |c| match (list(&c.addresses), c.automatic) {
        (typed, found) if typed.is_empty() => found.to_string(),
        (typed, found) if found.any() => format!("{typed} and {found}"),
        (typed, _) => typed,
    }),
    waits("gateway", |c| joined(&c.gateways)),
    waits("mtu", |c| optional(c.mtu)),
    waits("socket", |c| c.socket.display().to_string()),
    waits("loopback", |c| format!("{:?}", c.loopback).to_lowercase()),
    live("sysctl", |c| format!("{:?}", c.sysctl).to_lowercase()),
    live("ecn", |c| optional(c.ecn)),
    live("congestion", |c| {
        optional(c.congestion.map(Congestion::name))
    }),
    live("user_timeout_option", |c| c.user_timeout_option.to_string()),
    live("kernel_too", |c| c.kernel_too.to_string()),
    live("batching", |c| c.batching.to_string()),
    live("messages", |c| joined(&c.messages)),
    live("accept_on_data", |c| joined(&c.accept_on_data)),
    live("users", |c| match joined(&c.users) {
        none if c.users.is_empty() => format!("everybody ({none})"),
        some => some,
    }),
    live("drain_seconds", |c| c.drain.as_secs().to_string()),
    waits("capture", |c| {
        optional(c.capture.as_deref().map(|p| p.display()))
    }),
    live("awake", |c| c.awake.to_string()),
    waits("placement", |c| format!("{:?}", c.placement).to_lowercase()),
    waits("sandbox", |c| c.sandbox.to_string()),
    live("access", |c| c.access_rules.clone()),
    live("user (of users who come)", |c| {
        let limits = &c.user_limits;
        format!("{} sockets, {} MiB", limits.sockets, limits.memory >> 20)
    }),
    live("session (of programs that come)", |c| {
        let g = &c.geometry;
        format!(
            "{} processes, {} sockets, {} MiB to send and {} MiB to receive",
            g.channels,
            g.sockets,
            mib(g.snd_chunks),
            mib(g.rcv_chunks)
        )
    }),
];

const fn live(name: &'static str, shown: fn(&Live) -> String) -> Key {
    let shown = Shown::Live(shown);
    Key { name, shown }
}

const fn waits(name: &'static str, shown: fn(&Config) -> String) -> Key {
    let shown = Shown::Waits(shown);
    Key { name, shown }
}

fn optional(value: Option<impl Display>) -> String {
    value.map_or("not set".to_owned(), |v| v.to_string())
}

fn joined(values: &[impl Display]) -> String {
    match values.iter().map(ToString::to_string).collect::<Vec<_>>() {
        none if none.is_empty() => "none".to_owned(),
        all => all.join(", "),
    }
}

/// A key whose value is another than before.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) key: &'static str,
    pub(crate) before: String,
    pub(crate) after: String,
    /// The engine follows it now, and not after its next start.
    pub(crate) now: bool,
}

impl Config {
    /// What is otherwise in `new`.
    pub(crate) fn changes(&self, new: &Config) -> Vec<Change> {
        let change = |key: &Key| Change {
            key: key.name,
            before: key.shown.of(self),
            after: key.shown.of(new),
            now: matches!(key.shown, Shown::Live(_)),
        };
        let all = KEYS.iter().map(change);
        all.filter(|c| c.before != c.after).collect()
    }
}

impl Live {
    /// What of it an engine is sent, at its start and again when it has changed.
    pub(crate) fn adjustable(&self) -> Result<Adjustable, Error> {
        Ok(Adjustable {
            users: self.users.clone(),
            geometry: self.geometry,
            user_limits: self.user_limits,
            grace: self.drain,
            host_settings: self.sysctl.open(),
            ecn: self.ecn.map(Adjustable::ecn_mode).transpose()?,
            access: self.access.clone(),
            congestion: self.congestion,
            user_timeout_option: self.user_timeout_option,
            kernel_too: self.kernel_too,
            batching: self.batching.fixed(),
            messages: MessageOrder::by_port(&self.messages)?,
            accept_on_data: AcceptOrder::by_port(&self.accept_on_data)?,
        })
    }
}

/// The configuration that a shared engine has, and where it is read again.
pub(crate) struct Reload {
    files: Files,
    config: Config,
    awake: Option<Awake>,
}

impl Reload {
    /// Holds the processors awake, if the configuration wants that.
    pub(crate) fn new(files: Files, config: Config) -> Result<Self, Error> {
        let hold = || Awake::hold(files.latency()).map_err(Error::Awake);
        let awake = config.live.awake.then(hold).transpose()?;
        Ok(Reload {
            files,
            config,
            awake,
        })
    }

    /// How long the engine waits for its programs' ends when it is asked to end.
    pub(crate) fn drain(&self) -> Duration {
        self.config.live.drain
    }

    /// Reads the configuration again and gives the engine what can be changed while it runs.
    /// One that is not right changes nothing.
    pub(crate) fn now(&mut self, engine: &Handle) {
        let path = self.files.path().display().to_string();
        let read = Config::read(&self.files).map_err(Error::from);
        let adjusted = read.and_then(|new| Ok((new.live.adjustable()?, new)));
        let (settings, new) = match adjusted {
            Ok(both) => both,
            Err(error) => {
                report(&error);
                say("the engine goes on with the configuration that it has");
                return;
            }
        };
        let changes = self.config.changes(&new);
        if changes.is_empty() {
            say(&format!("{path} was read again; nothing in it has changed"));
        }
        for Change {
            key,
            before,
            after,
            now,
        } in &changes
        {
            say(&if *now {
                format!("{path}: {key} is {after} now, and was {before}")
            } else {
                format!("{path}: {key} stays {before}; {after} needs a restart")
            });
        }
        self.hold(new.live.awake);
        engine.adjust(settings);
        self.config.live = new.live;
    }

    fn hold(&mut self, awake: bool) {
        if awake != self.awake.is_some() {
            let hold = || Awake::hold(self.files.latency()).map_err(Error::Awake);
            match awake.then(hold).transpose() {
                Ok(held) => self.awake = held,
                Err(error) => report(&error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::EXAMPLE;
    use std::path::Path;

    fn parse(text: &str) -> Config {
        Config::parse(text, &Files::direct(Path::new("engine.toml"))).unwrap()
    }

    const LEAST: &str = "port = \"tap:ls0\"\naddress = \"10.77.0.2/24\"\n";

    #[test]
    fn what_has_changed_is_told_with_what_can_be_had_now() {
        let mut old = parse(LEAST);
        assert_eq!(old.changes(&parse(LEAST)), []);
        let new = parse(
            "port = \"tap:ls1\"\naddress = \"10.77.0.2/24\"\nmtu = 9000\n\
             users = [1000]\necn = 3\n[session]\nsockets = 128\n",
        );
        let changes = old.changes(&new);
        let listed = changes.iter().map(|c| (c.key, &*c.after, c.now));
        let expected = [
            ("port", "tap:ls1", false),
            ("mtu", "9000", false),
            ("ecn", "3", true),
            ("users", "1000", true),
        ];
        assert!(listed.clone().take(4).eq(expected), "{changes:?}");
        let last = changes.last().unwrap();
        assert!(last.now && last.key.contains("session"));
        old.live = new.live;
        assert_eq!(
            (old.mtu, old.live.ecn, &*old.live.users),
            (None, Some(3), &[1000][..])
        );
    }

    /// And in the units that it has.
    #[test]
    fn what_has_changed_is_told_in_the_words_of_the_configuration() {
        let old = parse(LEAST);
        for (now, expected) in [
            ("address = \"dhcp\"\n", "dhcp"),
            ("address = [\"dhcp\", \"slaac\"]\n", "dhcp and slaac"),
            (
                "address = [\"10.77.0.2/24\", \"slaac\"]\n",
                "10.77.0.2/24 and slaac",
            ),
            (
                "address = \"10.77.0.2/24\"\n[access]\nlow_ports = \"root\"\n",
                "accept [], connect [], bind [], low_ports root",
            ),
            (
                "address = \"10.77.0.2/24\"\n[session]\nprocesses = 64\nsend_mib = 32\n",
                "64 processes, 65536 sockets, 32 MiB to send and 2048 MiB to receive",
            ),
        ] {
            let changes = old.changes(&parse(&format!("port = \"tap:ls0\"\n{now}")));
            let after: Vec<_> = changes.iter().map(|c| &*c.after).collect();
            assert_eq!(after, [expected], "{now}");
        }
    }

    /// Each line `key =` of the example has an entry in the table.
    #[test]
    fn no_key_is_forgotten() {
        for line in EXAMPLE.lines().take_while(|line| *line != "[session]") {
            let line = line.strip_prefix("#: ").unwrap_or(line);
            if let Some((key, _)) = line.split_once(" = ").filter(|_| !line.starts_with('#')) {
                assert!(KEYS.iter().any(|k| k.name == key), "{key}");
            }
        }
    }
}
