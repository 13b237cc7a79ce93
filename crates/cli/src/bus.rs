//! A modelled bus between programs and their engine: `run --transport bus:MODEL`.
//!
//! It is a process of its own, which is this same program, started with a hidden command. It has
//! both ends of a link as two threads: the host's end, to which programs attach as to an engine,
//! and the adapter's, which is a program of the engine; between them stands the model. From
//! time to time it leaves beside its socket what the bus does, which `longshore stat` shows.

use crate::args::{BusArguments, RunArguments};
use crate::errors::{Error, system};
use crate::link::{serve_programs, start_host_end};
use crate::log::say;
use crate::runtime_dir::{control_socket_of, transport_reports};
use crate::signals::Signals;
use longshore_bus::BusModel;
use longshore_link::{Agent, AgentError, Link, Modelled, Plain, Proxy, ProxyError};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use serde::{Deserialize, Serialize};
use std::num::NonZero;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::thread::JoinHandle;

/// Bytes of a report: what is shorter is filled up, so that a later one leaves nothing of it.
const REPORT: usize = 2048;

/// What a transport has done, as `longshore stat --json` shows it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct TransportStat {
    /// What it is: `bus:pcie-gen4x8`.
    pub(crate) name: String,
    /// Accesses that were begun.
    pub(crate) accesses: u64,
    pub(crate) bytes_to_host: u64,
    pub(crate) bytes_to_adapter: u64,
    /// Shares of the last second, or of less, in which the bus was taken.
    pub(crate) taken_to_host: f64,
    pub(crate) taken_to_adapter: f64,
    /// The share in which anything was under way.
    pub(crate) busy: f64,
    /// What limits the rate by that: `bus`, `latency` or `host`.
    pub(crate) limit: String,
    /// Requests that wait in the host's ring.
    pub(crate) waiting: usize,
    /// Bytes under way.
    pub(crate) in_flight_to_host: u64,
    pub(crate) in_flight_to_adapter: u64,
    /// What the host adds on average to the time that the bus takes for a message.
    pub(crate) late_ns: u64,
    /// The socket of the engine.
    pub(crate) engine: PathBuf,
}

impl TransportStat {
    fn of(model: &BusModel, engine: &Path, report: &longshore_link::Report) -> Self {
        let (load, usage) = (&report.load, &report.usage);
        Self {
            name: format!("bus:{model}"),
            accesses: load.accesses,
            bytes_to_host: load.bytes[0],
            bytes_to_adapter: load.bytes[1],
            taken_to_host: usage.to_host,
            taken_to_adapter: usage.to_adapter,
            busy: usage.busy,
            limit: usage.limit().to_owned(),
            waiting: load.waiting,
            in_flight_to_host: load.in_flight[1],
            in_flight_to_adapter: load.in_flight[0],
            late_ns: report.late_ns,
            engine: engine.to_owned(),
        }
    }
}

/// What the transports of programs do that use the engine with this control socket.
pub(crate) fn transports_of(control: &Path) -> Vec<TransportStat> {
    let read = |path: PathBuf| {
        let text = std::fs::read(path).ok()?;
        serde_json::from_slice::<TransportStat>(&text).ok()
    };
    let all = transport_reports(control).into_iter().filter_map(read);
    all.filter(|stat| control_socket_of(&stat.engine).is_ok_and(|of| of == control))
        .collect()
}

/// Starts a modelled bus to the engine at the socket `engine`; programs attach at `socket`.
pub(crate) fn start(
    arguments: &RunArguments,
    model: &BusModel,
    engine: &Path,
    (socket, report): (&Path, &Path),
    signals: &Signals,
) -> Result<(Child, OwnedFd), Error> {
    let engine = std::path::absolute(engine).map_err(system("find the engine"))?;
    let options = [
        ("--model", model.to_string().into()),
        ("--engine", engine.into()),
        ("--socket", socket.into()),
        ("--report", report.into()),
    ];
    start_host_end("__bus", options, arguments, signals)
}

/// The modelled bus: serves the programs of its launcher until there are none.
pub(crate) fn serve(arguments: &BusArguments) -> Result<(), Error> {
    let _ = rustix::thread::set_name(c"longshore-bus");
    let mut adapter = None;
    let prepare = || {
        let (agent, thread) = prepare(arguments)?;
        adapter = Some(thread);
        Ok(agent)
    };
    let served = serve_programs(format!("the bus {}", arguments.model), prepare);
    // Its end of the link is closed now; what programs have sent last is carried.
    if let Some(adapter) = adapter {
        let _ = adapter.join();
    }
    served
}

/// Both ends, connected: the adapter's runs.
fn prepare(arguments: &BusArguments) -> Result<(Agent, JoinHandle<()>), Error> {
    let (host, adapter) = socketpair(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )
    .map_err(system("connect the bus"))?;
    let report = std::fs::File::create(&arguments.report)
        .map_err(system("open the file of the bus's statistics"))?;
    let (model, engine) = (arguments.model, arguments.engine.clone());
    let run = move || {
        if let Err(error) = run_adapter(adapter, model, &engine, &report) {
            say(&format!("the modelled bus has ended: {error}"));
        }
    };
    let builder = std::thread::Builder::new().name("longshore-adapt".to_owned());
    let thread = builder.spawn(run).map_err(system("start the bus"))?;
    let link = Link::new(Plain::new(host).map_err(|e| AgentError::Link(e.into()))?);
    let agent = Agent::begin(link, arguments.session.options(), &arguments.socket)?;
    Ok((agent, thread))
}

fn run_adapter(
    socket: OwnedFd,
    model: BusModel,
    engine: &Path,
    report: &std::fs::File,
) -> Result<(), ProxyError> {
    // What is due is not to be late by the 50 us that the kernel adds to sleeps.
    let _ = rustix::thread::set_current_timer_slack(NonZero::new(1));
    let to_link = longshore_link::LinkError::from;
    let (report, of) = (report.try_clone(), engine.to_owned());
    let stream =
        Modelled::new(Plain::new(socket).map_err(to_link)?, model).reporting_to(move |what| {
            let Ok(report) = &report else { return };
            let stat = TransportStat::of(&model, &of, what);
            if let Ok(mut text) = serde_json::to_vec(&stat)
                && text.len() <= REPORT
            {
                text.resize(REPORT, b' ');
                // Without it the bus carries all the same.
                let _ = report.write_all_at(&text, 0);
            }
        });
    let mut link = Link::new(stream);
    let hello = link.greeting()?;
    Proxy::begin(link, &hello, engine)?.run()
}
