//! The private engine of one `longshore run`: how its launcher starts it, and
//! what it does.
//!
//! It is this same program, started with a hidden command. Over a socket on its
//! standard input it gets one message, [`Order`], with the listening sockets of
//! `--expose` beside it, and answers with one, [`Answer`] (`helper`). Later the launcher
//! says that its session is open; if the launcher ends before that, so does the
//! engine, and otherwise it ends with the session.

use crate::accept_on_data::AcceptOrder;
use crate::address::Network;
use crate::batching::BatchingOrder;
use crate::errors::{Error, Report, system};
use crate::expose::datagrams::DatagramRelay;
use crate::expose::{Leads, Relay};
use crate::expose_order::Passes;
use crate::helper::{Answer, receive, send_message, start_helper, take_stdin};
use crate::last_stat::LastStat;
use crate::log::say;
use crate::messages::MessageOrder;
use crate::network::{Opened, Wanted, interface_number};
use crate::operator::{Operator, TAKEN};
use crate::sandbox::{Needs, Sandbox};
use crate::session_limits::{SessionLimits, geometry};
use crate::signals::Signals;
use crate::values::{LoopbackOwner, Placement, Sysctl};
use crate::{engine_cmd, namespace};
use longshore_engine::{Engine, Handle, Listeners, check_kernel};
use rustix::io::Errno;
use rustix::net::SendFlags;
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::process::Child;

/// What engine is wanted.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) wanted: Wanted,
    pub(crate) loopback: LoopbackOwner,
    pub(crate) sysctl: Sysctl,
    pub(crate) ecn: Option<u8>,
    pub(crate) user_timeout_option: bool,
    pub(crate) batching: BatchingOrder,
    pub(crate) messages: Vec<MessageOrder>,
    pub(crate) accept_on_data: Vec<AcceptOrder>,
    pub(crate) limits: SessionLimits,
    /// Programs of other users may join: root's may become theirs.
    pub(crate) others_may_join: bool,
    /// In a user and network namespace of its own.
    pub(crate) own_namespace: bool,
    pub(crate) placement: Placement,
    pub(crate) sandbox: bool,
    pub(crate) socket: PathBuf,
    pub(crate) control: PathBuf,
    /// The program's port for each of the sockets outside, and what passes.
    pub(crate) expose: Vec<(u16, Passes)>,
}

/// Starts the engine's process and gives it its order.
pub(crate) fn start(
    order: &Order,
    listeners: &[OwnedFd],
    signals: &Signals,
) -> Result<(Child, OwnedFd), Error> {
    let (child, ours) = start_helper(&[OsStr::new("__engine")], signals)?;
    let borrowed: Vec<BorrowedFd<'_>> = listeners.iter().map(AsFd::as_fd).collect();
    // An engine that has ended already is noticed when its answer is missing.
    let _ = send_message(&ours, order, &borrowed);
    Ok((child, ours))
}

/// Notifies the engine that its session is open.
pub(crate) fn session_is_open(channel: &OwnedFd) {
    // An engine that is gone is noticed elsewhere.
    let _ = rustix::net::send(channel, b"session", SendFlags::NOSIGNAL);
}

/// The engine's process.
pub(crate) fn main() -> Result<(), Error> {
    let _ = rustix::thread::set_name(c"longshore-eng");
    crate::limits::prepare();
    crate::limits::permit_priority();
    let channel = take_stdin()?;
    let (order, listeners) = receive::<Order>(&channel).map_err(system(
        "take the order: `longshore __engine` is started by `longshore run`, not by hand",
    ))?;
    let last = LastStat::open()?;
    match prepare(&order, listeners, &channel) {
        Ok(mut engine) => {
            // Nobody is there to be answered any more; stderr is the launcher's.
            engine.run()?;
            last.write(&engine);
            Ok(())
        }
        Err(error) => {
            let failed = Answer::Failed(Report::from(&error));
            match send_message(&channel, &failed, &[]) {
                // It has ended, and nobody is there to be answered.
                Err(gone) if gone.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
                sent => sent.map_err(system("answer the launcher")),
            }
        }
    }
}

/// Makes everything ready and says so.
fn prepare(order: &Order, listeners: Vec<OwnedFd>, channel: &OwnedFd) -> Result<Engine, Error> {
    check_kernel()?;
    // Those of the namespace that the program stays in.
    let settings = order.sysctl.open();
    if order.own_namespace {
        // Before any thread is started.
        namespace::enter_own()?;
    }
    let signals = Signals::block(&TAKEN).map_err(system("block signals"))?;
    let opened = order.wanted.open()?;
    let port = opened.name.clone();
    let places = Listeners::bind(&order.socket, Some(&order.control))?;
    // Before any thread is started.
    let mut sandbox = match order.sandbox {
        true => Sandbox::enter(&needs(order))?,
        false => Sandbox::off(),
    };
    let mut engine = Engine::at(places, engine_config(order, opened)?)?;
    if let Some(settings) = settings {
        engine.follow(settings);
    }
    set_up(&mut engine, order)?;
    // An address may be long in coming, and the launcher gone before.
    let launcher = channel
        .try_clone()
        .map_err(system("keep the launcher's channel"))?;
    watch(launcher, engine.handle())?;
    let operator = Operator {
        handle: engine.handle(),
        reload: None,
    };
    operator.serve(signals)?;
    let networks = engine_cmd::acquire(&mut engine, &port)?;
    relay(&order.expose, listeners, &networks)?;
    sandbox.close()?;
    engine.set_sandbox(&sandbox.words());
    let ready = Answer::Ready {
        networks,
        port,
        sandbox_lacks: sandbox.lacks(),
    };
    send_message(channel, &ready, &[]).map_err(system("answer the launcher"))?;
    Ok(engine)
}

/// What the engine is made of.
fn engine_config(order: &Order, opened: Opened) -> Result<longshore_engine::Config, Error> {
    // In a namespace of its own, its programs do not see the interface.
    let scope = match order.own_namespace {
        true => 0,
        false => interface_number(&opened.name),
    };
    Ok(longshore_engine::Config {
        private: true,
        geometry: geometry(&order.limits).map_err(|(key, why)| Error::Limit { key, why })?,
        others_may_join: order.others_may_join,
        placement: order.placement.into(),
        scope,
        ..engine_cmd::engine_config(
            opened,
            &order.wanted.gateways,
            order.loopback,
            order.socket.clone(),
            order.control.clone(),
        )
    })
}

/// Sets what the engine is to do otherwise than by default.
fn set_up(engine: &mut Engine, order: &Order) -> Result<(), Error> {
    if let Some(ecn) = order.ecn {
        engine.set_ecn(ecn)?;
    }
    engine.set_user_timeout_option(order.user_timeout_option);
    engine.set_batching(order.batching.fixed());
    engine.set_messages(MessageOrder::by_port(&order.messages)?);
    engine.set_accept_on_data(AcceptOrder::by_port(&order.accept_on_data)?);
    engine.on_notice(say);
    Ok(())
}

/// What the engine is to be able to do. The launcher removes its directory.
fn needs(order: &Order) -> Needs {
    let dirs = [&order.socket, &order.control].map(|path| path.parent());
    Needs {
        own: None,
        sockets_in: dirs.into_iter().flatten().map(PathBuf::from).collect(),
        relays_to: order.expose.iter().map(|(port, _)| *port).collect(),
        shared: false,
    }
}

/// Starts the relays, if ports are exposed.
fn relay(
    exposed: &[(u16, Passes)],
    sockets: Vec<OwnedFd>,
    networks: &[Network],
) -> Result<(), Error> {
    // IPv4 if there is any: more programs listen there.
    let of_v4 = networks.iter().find(|n| n.address.is_ipv4());
    let Some(network) = of_v4.or(networks.first()) else {
        return Ok(());
    };
    let (mut streams, mut datagrams) = (Vec::new(), Vec::new());
    for (socket, (port, passes)) in sockets.into_iter().zip(exposed) {
        let target = SocketAddr::new(network.address, *port);
        match passes {
            Passes::Streams(proxy) => streams.push(Leads {
                listener: socket,
                target,
                proxy: *proxy,
            }),
            Passes::Datagrams => datagrams.push((socket, target)),
        }
    }
    if !streams.is_empty() {
        let mut relay = Relay::new(streams).map_err(system("start the relay"))?;
        serve_exposed("relay", move || relay.run())?;
    }
    if !datagrams.is_empty() {
        let mut relay = DatagramRelay::new(datagrams).map_err(system("start the relay"))?;
        serve_exposed("datagram relay", move || relay.run())?;
    }
    Ok(())
}

/// Starts a thread that relays until it fails.
fn serve_exposed(name: &str, run: impl FnOnce() -> Errno + Send + 'static) -> Result<(), Error> {
    let serve = move || {
        let errno = run();
        say(&format!("exposed ports are not served any more: {errno}"));
    };
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(serve)
        .map_err(system("start the relay"))?;
    Ok(())
}

/// Stops the engine if the launcher ends before it has opened its session.
fn watch(channel: OwnedFd, engine: Handle) -> Result<(), Error> {
    let wait = move || {
        let mut bytes = [0; 16];
        let got = rustix::io::retry_on_intr(|| rustix::io::read(&channel, &mut bytes));
        if !matches!(got, Ok(1..)) {
            engine.stop();
        }
    };
    std::thread::Builder::new()
        .name("launcher".to_owned())
        .spawn(wait)
        .map_err(system("watch the launcher"))?;
    Ok(())
}
