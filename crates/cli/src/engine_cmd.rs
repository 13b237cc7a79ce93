//! `longshore engine`: one engine for many programs, in the foreground.

use crate::address::{Network, list};
use crate::args::EngineArguments;
use crate::config::{Config, EXAMPLE};
use crate::errors::{Error, system};
use crate::last_stat::LastStat;
use crate::link;
use crate::log::say;
use crate::network::{Opened, Wanted, interface_number};
use crate::operator::{Operator, TAKEN};
use crate::reload::Reload;
use crate::runtime_dir::{CONTROL, RuntimeDir};
use crate::sandbox::{Files, Needs, Sandbox};
use crate::signals::Signals;
use crate::values::LoopbackOwner;
use longshore_engine::{Engine, Listeners, check_kernel};
use longshore_hostif::Geometry;
use longshore_link::Place;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long an engine looks for more work before it sleeps.
const SPIN: Duration = Duration::from_micros(20);
/// How long a private engine's connections may go on after it was asked to stop.
const GRACE: Duration = Duration::from_secs(10);

/// After this long, a missing address is spoken of.
const NOTICE: Duration = Duration::from_secs(2);
/// And after this long it is an error.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Waits for addresses that are to be found out; gives all that the engine has then.
pub(crate) fn acquire(engine: &mut Engine, port: &str) -> Result<Vec<Network>, Error> {
    engine.acquire(NOTICE, TIMEOUT, |missing| {
        say(&format!("{missing} yet on {port}; waiting"));
    })?;
    let own = engine.addresses().into_iter();
    let network = |cidr: longshore_net::Cidr| Network {
        address: cidr.address,
        prefix_len: cidr.prefix_len,
    };
    Ok(own.map(network).collect())
}

/// An engine's set-up, with what the two kinds of engines have in common.
pub(crate) fn engine_config(
    opened: Opened,
    gateways: &[IpAddr],
    loopback: LoopbackOwner,
    socket: PathBuf,
    control: PathBuf,
) -> longshore_engine::Config {
    longshore_engine::Config {
        port: opened.port,
        port_name: opened.name,
        automatic: opened.automatic,
        addresses: opened
            .networks
            .iter()
            .map(|network| longshore_net::Cidr {
                address: network.address,
                prefix_len: network.prefix_len,
            })
            .collect(),
        gateways: gateways.to_vec(),
        scope: 0,
        loopback: loopback.into(),
        cut_through: true,
        socket,
        control: Some(control),
        geometry: Geometry::DEFAULT,
        private: false,
        others_may_join: true,
        users: Vec::new(),
        spin: SPIN,
        placement: longshore_engine::Placement::default(),
        grace: GRACE,
    }
}

/// Runs the command.
pub(crate) fn run(arguments: &EngineArguments) -> Result<(), Error> {
    if arguments.example_config {
        return crate::print(EXAMPLE).map_err(system("print"));
    }
    let Some(path) = &arguments.config else {
        return Ok(());
    };
    let config = Config::read(&Files::direct(path))?;
    crate::limits::prepare();
    // Before anything starts a thread.
    let signals = Signals::block(&TAKEN).map_err(system("block signals"))?;
    let is_confined = config.sandbox && !arguments.no_sandbox;
    let files = match is_confined {
        true => Files::by_another(path)?,
        false => Files::direct(path),
    };
    let dir = RuntimeDir::create()?;
    let last = LastStat::open()?;
    let prepared = prepare(&config, &dir)?;
    // Processes of their own, which the sandbox would not let it start.
    let links = match (&arguments.link, &arguments.link_key) {
        (Some(place), Some(key)) => Some(link::start_server(place, key, &config.socket, &signals)?),
        _ => None,
    };
    crate::limits::permit_priority();
    let mut sandbox = match is_confined {
        true => Sandbox::enter(&needs(&config, &dir))?,
        false => Sandbox::off(),
    };
    let (_control_link, port) = (prepared.link, prepared.config.port_name.clone());
    let mut engine = Engine::at(prepared.listeners, prepared.config)?;
    set_up(&mut engine, &config)?;
    let socket = config.socket.clone();
    let operator = Operator {
        handle: engine.handle(),
        reload: Some(Reload::new(files, config)?),
    };
    operator.serve(signals)?;
    let networks = acquire(&mut engine, &port)?;
    dir.let_everybody_ask()?;
    notify_service_manager();
    sandbox.close()?;
    engine.set_sandbox(&sandbox.words());
    let links_at = arguments.link.as_ref().filter(|_| links.is_some());
    announce_ready(&sandbox, &networks, &port, &socket, links_at);
    engine.run()?;
    last.write(&engine);
    say(&format!("engine {} has ended", std::process::id()));
    Ok(())
}

/// Says that the engine is ready, and how it is reached.
fn announce_ready(
    sandbox: &Sandbox,
    networks: &[Network],
    port: &str,
    socket: &Path,
    links_at: Option<&Place>,
) {
    say(&format!("sandbox: {}", sandbox.words()));
    say(&format!(
        "engine {} serves {} on {}, at {}",
        std::process::id(),
        list(networks),
        port,
        socket.display()
    ));
    if let Some(place) = links_at {
        say(&format!("links come in at {place}"));
    }
}

/// What an engine needs privileges for, and how it is set up.
struct Prepared {
    listeners: Listeners,
    link: Option<ControlLink>,
    config: longshore_engine::Config,
}

/// Opens what the configuration describes.
fn prepare(config: &Config, dir: &RuntimeDir) -> Result<Prepared, Error> {
    check_kernel()?;
    make_parent(&config.socket)?;
    let wanted = Wanted {
        port: Some(config.port.clone()),
        networks: config.addresses.clone(),
        automatic: config.automatic,
        gateways: config.gateways.clone(),
        mtu: config.mtu,
        capture: config.capture.clone(),
        fault: None,
    };
    let opened = wanted.open()?;
    Ok(Prepared {
        // Which users may use the engine is a matter of `users`, not of the file's mode.
        listeners: Listeners::bind_for_all(&config.socket, Some(&dir.control()))?,
        link: ControlLink::make(&config.socket, &dir.control()),
        config: longshore_engine::Config {
            scope: interface_number(&opened.name),
            placement: config.placement.into(),
            ..engine_config(
                opened,
                &config.gateways,
                config.loopback,
                config.socket.clone(),
                dir.control(),
            )
        },
    })
}

/// What the engine is to be able to do.
fn needs(config: &Config, dir: &RuntimeDir) -> Needs {
    Needs {
        own: Some(dir.path().to_owned()),
        sockets_in: config
            .socket
            .parent()
            .map(Path::to_owned)
            .into_iter()
            .collect(),
        relays_to: Vec::new(),
        shared: true,
    }
}

/// Gives the engine its settings, and says what the kernel lacks.
fn set_up(engine: &mut Engine, config: &Config) -> Result<(), Error> {
    engine.adjust(config.live.adjustable()?);
    if engine.may_be_held_up() {
        say(
            "warning: this kernel has no AIO, or fs.aio-max-nr is used up: a hostile program \
             can hold up the engine",
        );
    }
    if !engine.refuses_descriptors() {
        say(
            "warning: before Linux 6.16 a hostile program can hold up those that are about to \
             join the engine, though not those that have joined",
        );
    }
    engine.on_notice(say);
    Ok(())
}

/// Says to systemd, if it started this process and asked to be notified (`Type=notify`), that
/// programs can come.
fn notify_service_manager() {
    if let Err(error) = sd_notify::notify(&[sd_notify::NotifyState::Ready]) {
        say(&format!(
            "warning: cannot tell the service manager: {error}"
        ));
    }
}

/// Makes the directory of a socket, if it is missing.
fn make_parent(socket: &Path) -> Result<(), Error> {
    match socket.parent().filter(|p| !p.as_os_str().is_empty()) {
        Some(parent) => std::fs::create_dir_all(parent).map_err(|error| Error::RuntimeDir {
            path: parent.to_owned(),
            why: error.to_string(),
        }),
        None => Ok(()),
    }
}

/// A link beside an engine's socket to its control socket, so that `stat` and
/// `ss` find it by the name that programs know.
struct ControlLink(PathBuf);

impl ControlLink {
    fn make(socket: &Path, control: &Path) -> Option<Self> {
        let link = PathBuf::from(format!("{}.{CONTROL}", socket.display()));
        if std::fs::symlink_metadata(&link).is_ok_and(|there| there.is_symlink()) {
            let _ = std::fs::remove_file(&link);
        }
        std::os::unix::fs::symlink(control, &link).ok()?;
        Some(ControlLink(link))
    }
}

impl Drop for ControlLink {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
