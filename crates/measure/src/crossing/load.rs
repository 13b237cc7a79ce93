//! Servers under Longshore that other clients load: what crossed for each request, the mean
//! of a run.
//!
//! wrk asks on many connections at once, httperf is the 2005 paper's client, redis-benchmark
//! and an echo of 64 bytes send and receive little at a time. What is not installed is left
//! out, and said.

use crate::crossing::error::{CrossingError, system};
use crate::crossing::frames::Capture;
use crate::crossing::replay::Replay;
use crate::crossing::running::{Place, Running, scratch_directory};
use crate::crossing::{Adapter, Mode, Model, web};
use crate::installed;
use crate::report::progress;
use longshore_bus::{Tally, Traffic, crossed};
use serde::Serialize;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// How long a server may take to answer a connection or a message.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of an echo.
const ECHO: usize = 64;

/// What one adapter moved for a request, on average.
#[derive(Debug, Clone, Serialize)]
pub struct LoadRow {
    /// Which.
    pub adapter: Adapter,
    /// Server and client.
    pub workload: &'static str,
    /// Bytes that are asked for.
    pub size: u64,
    /// Whether connections are kept.
    pub mode: Mode,
    /// Connections at a time.
    pub connections: u32,
    /// Requests that were answered.
    pub operations: u64,
    /// To the host.
    pub receive: Each,
    /// To the adapter.
    pub send: Each,
}

/// What moved for each request in one direction; see [`Tally`].
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Each {
    /// Moves of contiguous bytes.
    pub transfers: f64,
    /// Bytes.
    pub bytes: f64,
    /// Cycles of the bus.
    pub cycles: f64,
    /// Reads that were waited for.
    pub round_trips: f64,
}

impl Each {
    #[expect(clippy::cast_precision_loss, reason = "a mean to show")]
    fn of(tally: &Tally, operations: u64) -> Self {
        let each = |sum: u64| sum as f64 / operations.max(1) as f64;
        Each {
            transfers: each(tally.transfers),
            bytes: each(tally.bytes),
            cycles: each(tally.cycles),
            round_trips: each(tally.round_trips),
        }
    }
}

/// A client, and what it asks.
struct Load {
    name: &'static str,
    size: u64,
    mode: Mode,
    connections: u32,
    /// Loads the server; how many requests were answered.
    run: fn(SocketAddr) -> Result<u64, CrossingError>,
}

impl Load {
    /// Whether it is made by short runs, too.
    fn is_quick(&self) -> bool {
        ["redis GET", "echo"].contains(&self.name)
    }
}

/// A server, and the clients that load it.
struct Server {
    program: &'static str,
    port: u16,
    command: fn(&Path, &Path) -> Result<Vec<OsString>, CrossingError>,
    loads: &'static [Load],
}

const SERVERS: [Server; 3] = [
    Server {
        program: "nginx",
        port: web::SERVER.1,
        command: |_, directory| web::prepare(directory, &[1 << 10]),
        loads: &[
            Load {
                name: "nginx, wrk",
                size: 1 << 10,
                mode: Mode::KeepAlive,
                connections: 32,
                run: |server| wrk(server, &[]),
            },
            Load {
                name: "nginx, wrk",
                size: 1 << 10,
                mode: Mode::Close,
                connections: 32,
                run: |server| wrk(server, &["-H", "Connection: close"]),
            },
            Load {
                name: "nginx, httperf",
                size: 1 << 10,
                mode: Mode::KeepAlive,
                connections: 1,
                run: |server| httperf(server, &["--num-conns", "1", "--num-calls", "500"]),
            },
            Load {
                name: "nginx, httperf",
                size: 1 << 10,
                mode: Mode::Close,
                connections: 1,
                run: |server| httperf(server, &["--num-conns", "200", "--http-version", "1.0"]),
            },
        ],
    },
    Server {
        program: "redis-server",
        port: 6379,
        command: |_, directory| redis(directory),
        loads: &[
            Load {
                name: "redis GET",
                size: 3,
                mode: Mode::KeepAlive,
                connections: 1,
                run: |server| get(server, 5_000, &["-c", "1", "-P", "1"]),
            },
            Load {
                name: "redis GET, 16 at once",
                size: 3,
                mode: Mode::KeepAlive,
                connections: 1,
                run: |server| get(server, 80_000, &["-c", "1", "-P", "16"]),
            },
            Load {
                name: "redis GET",
                size: 3,
                mode: Mode::KeepAlive,
                connections: 50,
                run: |server| get(server, 50_000, &["-c", "50", "-P", "1"]),
            },
        ],
    },
    Server {
        program: "echo",
        port: 7,
        command: |longshore, _| Ok(installed::own(longshore, &["echo", "0.0.0.0:7"])),
        loads: &[Load {
            name: "echo",
            size: ECHO as u64,
            mode: Mode::KeepAlive,
            connections: 1,
            run: echo,
        }],
    },
];

/// Loads each server with each client that is installed, or, if it is to be `quick`, with a
/// few of them; the rows, and what is left out. This process must be in a network namespace of
/// its own, in which it may make devices.
///
/// # Errors
/// [`CrossingError`].
pub fn measure(
    longshore: &Path,
    quick: bool,
    model: &Model,
) -> Result<(Vec<LoadRow>, Vec<String>), CrossingError> {
    let mut rows = Vec::new();
    let wanted = |load: &Load| !quick || load.is_quick();
    let left_out = with_each(longshore, true, wanted, |running, at, load| {
        rows.extend(one(running, model, at, load)?);
        Ok(())
    })?;
    Ok((rows, left_out))
}

/// What an engine's counters said of its segments while a client loaded a server.
#[derive(Debug, Clone, Copy)]
pub struct Watched {
    /// Server and client.
    pub workload: &'static str,
    /// Connections at a time.
    pub connections: u32,
    /// Segments that came for connections.
    pub segments: u64,
    /// Those whose connection was that of the segment before.
    pub cached: u64,
    /// Those whose header was as predicted.
    pub predicted: u64,
}

/// Loads servers as [`measure`] does, and asks the engine about the segments that came.
///
/// # Errors
/// [`CrossingError`].
pub fn watch(longshore: &Path, quick: bool) -> Result<(Vec<Watched>, Vec<String>), CrossingError> {
    let mut all = Vec::new();
    let wanted = |load: &Load| !quick || load.is_quick();
    let left_out = with_each(longshore, false, wanted, |running, at, load| {
        const NAMES: [&str; 3] = ["segments_in", "connection_cache_hits", "unpredicted"];
        let counters = || running.counters(NAMES);
        let before = counters()?;
        (load.run)(at)?;
        running.counts_at_rest()?;
        let [segments, cached, unpredicted] = counters()?;
        let segments = segments - before[0];
        all.push(Watched {
            workload: load.name,
            connections: load.connections,
            segments,
            cached: cached - before[1],
            predicted: segments.saturating_sub(unpredicted - before[2]),
        });
        Ok(())
    })?;
    Ok((all, left_out))
}

/// Calls `each` for each load with its server running; what is not installed is left out, and
/// given back.
fn with_each(
    longshore: &Path,
    captures: bool,
    wanted: impl Fn(&Load) -> bool,
    mut each: impl FnMut(&Running<'_>, SocketAddr, &Load) -> Result<(), CrossingError>,
) -> Result<Vec<String>, CrossingError> {
    let mut left_out = Vec::new();
    let mut leave_out = |error: CrossingError, name: &str| match error {
        CrossingError::Missing(missing) => {
            left_out.push(format!(
                "{name}: {missing} (Debian's package {})",
                missing.package
            ));
            Ok(())
        }
        other => Err(other),
    };
    for server in &SERVERS {
        let loads: Vec<&Load> = server.loads.iter().filter(|load| wanted(load)).collect();
        if loads.is_empty() {
            continue;
        }
        let directory = scratch_directory()?;
        let command = match (server.command)(longshore, directory.path()) {
            Ok(command) => command,
            Err(error) => {
                leave_out(error, server.program)?;
                continue;
            }
        };
        let place = Place {
            longshore,
            directory: directory.path(),
            captures,
        };
        let options = web::OPTIONS.map(OsString::from);
        let mut running = Running::quietly(&place, &options, &command)?;
        let at = SocketAddr::from((web::SERVER.0, server.port));
        running.wait_until_served(at)?;
        for load in loads {
            let connections = match load.connections {
                1 => "one connection".to_owned(),
                several => format!("{several} connections"),
            };
            progress(&format!("{}, {connections}", load.name));
            if let Err(error) = each(&running, at, load) {
                leave_out(error, load.name)?;
            }
        }
    }
    progress("");
    Ok(left_out)
}

/// One run of a client: a row for each adapter.
fn one(
    server: &Running<'_>,
    model: &Model,
    at: SocketAddr,
    load: &Load,
) -> Result<Vec<LoadRow>, CrossingError> {
    let before = server.counts_at_rest()?;
    let mut capture = Capture::open(&server.capture())?;
    let mut replay = Replay::new(model.bus, model.driver, model.queues, before.mtu);
    capture.read(|frame| replay.frame(&frame))?;
    replay.take();
    let operations = (load.run)(at)?;
    let counts = server.counts_at_rest()?.since(&before);
    capture.read(|frame| replay.frame(&frame))?;
    let conventional = replay.take();
    let (to_host, to_adapter) = (&counts.to_host, &counts.to_adapter);
    let longshore = crossed(&model.bus, to_host, to_adapter, model.signals);
    let row = |(adapter, traffic): (Adapter, Traffic)| LoadRow {
        adapter,
        workload: load.name,
        size: load.size,
        mode: load.mode,
        connections: load.connections,
        operations,
        receive: Each::of(&traffic.receive, operations),
        send: Each::of(&traffic.send, operations),
    };
    Ok(Adapter::with(longshore, conventional).map(row).into())
}

/// redis-server's command line.
fn redis(directory: &Path) -> Result<Vec<OsString>, CrossingError> {
    let program = installed::find("redis-server")?;
    let options = ["--bind", "0.0.0.0", "--protected-mode", "no", "--save", ""];
    let mut command = vec![program.into()];
    command.extend(options.map(OsString::from));
    command.extend(["--dir".into(), directory.into()]);
    Ok(command)
}

/// Runs a client; what it printed.
fn client<S: AsRef<std::ffi::OsStr>>(
    program: &'static str,
    arguments: impl IntoIterator<Item = S>,
) -> Result<String, CrossingError> {
    let said = Command::new(installed::find(program)?)
        .args(arguments)
        .output()
        .map_err(system(format!("start {program}")))?;
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    if said.status.success() {
        return Ok(text);
    }
    let errors = String::from_utf8_lossy(&said.stderr);
    Err(failed(program, &format!("{text}{errors}")))
}

fn failed(program: &str, why: &str) -> CrossingError {
    CrossingError::Program {
        program: program.to_owned(),
        why: why.trim().to_owned(),
    }
}

/// The number beside `words` in a client's report.
fn count(program: &str, report: &str, words: &str, is_behind: bool) -> Result<u64, CrossingError> {
    let number = report.split_once(words).and_then(|(before, behind)| {
        let word = match is_behind {
            true => behind.split_whitespace().next(),
            false => before.split_whitespace().next_back(),
        };
        word?.parse().ok()
    });
    number.ok_or_else(|| failed(program, report))
}

fn wrk(server: SocketAddr, options: &[&str]) -> Result<u64, CrossingError> {
    let usual = ["-t1", "-c32", "-d1s"];
    let url = format!("http://{server}/{}", web::name(1 << 10));
    let arguments = usual.iter().chain(options).copied().chain([url.as_str()]);
    let report = client("wrk", arguments)?;
    if report.contains("Non-2xx") || report.contains("Socket errors") {
        return Err(failed("wrk", &report));
    }
    count("wrk", &report, " requests in ", false)
}

fn httperf(server: SocketAddr, options: &[&str]) -> Result<u64, CrossingError> {
    let (address, port) = (server.ip().to_string(), server.port().to_string());
    let uri = format!("/{}", web::name(1 << 10));
    let usual = ["--server", &address, "--port", &port, "--uri", &uri];
    let report = client("httperf", usual.iter().chain(options).copied())?;
    if !report.contains("Errors: total 0 ") {
        return Err(failed("httperf", &report));
    }
    count("httperf", &report, " replies ", true)
}

fn get(server: SocketAddr, requests: u32, options: &[&str]) -> Result<u64, CrossingError> {
    let (address, port) = (server.ip().to_string(), server.port().to_string());
    let number = requests.to_string();
    let usual = [
        "-h", &address, "-p", &port, "-t", "get", "--csv", "-n", &number,
    ];
    let report = client("redis-benchmark", usual.iter().chain(options).copied())?;
    if !report.contains("\"GET\"") {
        return Err(failed("redis-benchmark", &report));
    }
    Ok(requests.into())
}

/// Sends a message and waits for it, again and again.
fn echo(server: SocketAddr) -> Result<u64, CrossingError> {
    const TIMES: u64 = 2_000;
    let talk = || -> std::io::Result<()> {
        let mut stream = TcpStream::connect_timeout(&server, TIMEOUT)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        let mut message = [b'e'; ECHO];
        for _ in 0..TIMES {
            stream.write_all(&message)?;
            stream.read_exact(&mut message)?;
        }
        Ok(())
    };
    talk().map_err(|error| failed("echo", &error.to_string()))?;
    Ok(TIMES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_found_in_reports() {
        let wrk = "  41234 requests in 1.10s, 50.12MB read\nRequests/sec: 37485.5";
        assert_eq!(count("wrk", wrk, " requests in ", false).unwrap(), 41_234);
        let httperf = "Total: connections 200 requests 200 replies 199 test-duration 0.1 s";
        assert_eq!(count("httperf", httperf, " replies ", true).unwrap(), 199);
        assert!(count("httperf", "nothing", " replies ", true).is_err());
    }

    #[test]
    fn means_are_sums_by_requests() {
        let tally = Tally {
            transfers: 3,
            bytes: 600,
            cycles: 90,
            round_trips: 0,
        };
        let each = Each::of(&tally, 6);
        assert_eq!(
            (each.transfers, each.bytes, each.cycles),
            (0.5, 100.0, 15.0)
        );
        assert_eq!(Each::of(&tally, 0).transfers, 3.0);
    }
}
