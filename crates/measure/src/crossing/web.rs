//! nginx under Longshore, asked for files: what each fetch moved.

use crate::crossing::error::{CrossingError, system};
use crate::crossing::frames::Capture;
use crate::crossing::http::{Client, Mode};
use crate::crossing::replay::Replay;
use crate::crossing::running::{Counts, Place, Running, scratch_directory};
use crate::crossing::{Adapter, Model, Row};
use crate::installed;
use longshore_bus::{Traffic, crossed};
use serde::Serialize;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

/// Bytes of the files.
pub const SIZES: [u64; 3] = [1 << 10, 64 << 10, 512 << 10];
/// The engine's address in its own network, and the server's port.
pub(crate) const ADDRESS: &str = "10.77.0.2/24";
pub(crate) const SERVER: ([u8; 4], u16) = ([10, 77, 0, 2], 80);
/// Of the engine: no faults, but it cuts what it sends, so that what is recorded is what a wire
/// would carry. A connection that comes is told of with its request, so that what crosses does not
/// depend on how soon the client asks.
pub(crate) const OPTIONS: [&str; 6] = [
    "--addr",
    ADDRESS,
    "--fault",
    "loss=0",
    "--accept-on-data",
    "80,2s",
];
/// Fetches that are made before any is counted: neighbors and routes are looked up, files
/// are read from the disk.
const BEFORE: u32 = 2;
/// A connection that is kept counts as one in use if it is asked again, and was counted, within
/// this time. The engine tells of acknowledgments that nobody waits for when it was quiet for
/// 100 ms, in a transfer of its own, so that what a fetch moves would depend on how busy this
/// machine is.
const IN_USE: Duration = Duration::from_millis(80);
/// So many times as many fetches as are wanted, and some more, are made if those between come too
/// late.
const TRIES: u32 = 5;
const MORE: u32 = 20;

/// A server of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum WebServer {
    /// nginx
    Nginx,
    /// lighttpd
    Lighttpd,
}

impl WebServer {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            WebServer::Nginx => "nginx",
            WebServer::Lighttpd => "lighttpd",
        }
    }
}

/// What is asked for, and how often.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// Bytes of the files, of those in [`SIZES`].
    pub sizes: Vec<u64>,
    /// Fetches of each, of which the middle one is shown.
    pub fetches: u32,
    /// When descriptors cross, as `longshore run --batching` has it; by default when they are of
    /// use.
    pub batching: Option<String>,
    /// For how long nothing is counted once all has crossed, at least.
    pub settles_in: Duration,
}

/// A fetch.
struct Sample {
    counts: Counts,
    conventional: [Traffic; 4],
}

/// How many fetches were counted, and in how many of them just what is shown crossed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Repeated {
    /// Fetches that were counted.
    pub fetches: u32,
    /// Those in which the same crossed as in the one that is shown.
    pub same: u32,
}

/// A fetch of nginx that was measured: what crossed, and what it took of a processor.
#[derive(Debug, Clone, Copy)]
pub struct Fetch {
    /// The server that served it.
    pub server: WebServer,
    /// Bytes of the file.
    pub size: u64,
    /// Whether its connection was kept.
    pub mode: Mode,
    /// What the engine counted.
    pub counts: Counts,
    /// What conventional adapters would have moved, in the order of [`super::Offload::ALL`].
    pub conventional: [Traffic; 4],
    /// How exactly it repeats what the engine counted.
    pub repeated: Repeated,
    /// Nanoseconds of a processor that nginx used, the mean of all fetches.
    pub host_ns: u64,
}

impl Fetch {
    /// A row for each adapter.
    #[must_use]
    pub fn rows(&self, model: &Model) -> [Row; 5] {
        let row = |(adapter, traffic): (Adapter, Traffic)| Row {
            adapter,
            workload: self.server,
            size: self.size,
            mode: self.mode,
            receive: traffic.receive.into(),
            send: traffic.send.into(),
            repeated: (adapter == Adapter::Longshore).then_some(self.repeated),
        };
        let (to_host, to_adapter) = (&self.counts.to_host, &self.counts.to_adapter);
        let longshore = crossed(&model.bus, to_host, to_adapter, model.signals);
        Adapter::with(longshore, self.conventional).map(row)
    }
}

/// The name of the file of so many bytes.
pub(crate) fn name(size: u64) -> String {
    format!("{}k", size >> 10)
}

/// Bytes that no two pages have in common.
pub(crate) fn content(size: u64) -> Vec<u8> {
    (0..size).map(|i| ((i % 251) ^ (i >> 12)) as u8).collect()
}

/// Writes what nginx serves and its configuration; its command line.
pub(crate) fn prepare(directory: &Path, sizes: &[u64]) -> Result<Vec<OsString>, CrossingError> {
    let nginx = installed::find("nginx")?;
    write_files(directory, sizes)?;
    let fail = || system(format!("write below {}", directory.display()));
    let at = directory.display();
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("  {kind}_temp_path {at}/{kind};\n"))
        .concat();
    // It runs as root of a namespace that has no other user.
    let text = format!(
        "user root root;\nworker_processes 1;\ndaemon off;\npid {at}/nginx.pid;\n\
         error_log stderr;\nevents {{ worker_connections 256; }}\nhttp {{\n  access_log off;\n\
         {temporary}  sendfile on;\n  tcp_nopush on;\n  keepalive_requests 1000000;\n  \
         server {{\n    listen {};\n    root {at}/www;\n  }}\n}}\n",
        SERVER.1
    );
    let configuration = directory.join("nginx.conf");
    std::fs::write(&configuration, text).map_err(fail())?;
    Ok(vec![nginx.into(), "-c".into(), configuration.into()])
}

/// Writes the files that are served; their directory.
fn write_files(directory: &Path, sizes: &[u64]) -> Result<std::path::PathBuf, CrossingError> {
    let files = directory.join("www");
    let fail = || system(format!("write below {}", directory.display()));
    std::fs::create_dir(&files).map_err(fail())?;
    for size in sizes {
        std::fs::write(files.join(name(*size)), content(*size)).map_err(fail())?;
    }
    Ok(files)
}

/// Writes what lighttpd serves and its configuration; its command line.
fn prepare_lighttpd(directory: &Path, sizes: &[u64]) -> Result<Vec<OsString>, CrossingError> {
    let lighttpd = installed::find("lighttpd")?;
    let files = write_files(directory, sizes)?;
    let text = format!(
        "server.document-root = \"{}\"\nserver.port = {}\nserver.bind = \"0.0.0.0\"\n\
         server.max-keep-alive-requests = 65535\nserver.errorlog = \"{}\"\n",
        files.display(),
        SERVER.1,
        directory.join("lighttpd.log").display()
    );
    let configuration = directory.join("lighttpd.conf");
    std::fs::write(&configuration, text)
        .map_err(system(format!("write {}", configuration.display())))?;
    Ok(vec![
        lighttpd.into(),
        "-D".into(),
        "-f".into(),
        configuration.into(),
    ])
}

/// Serves files by nginx under `longshore` and fetches them. This process must be in a
/// network namespace of its own, in which it may make devices.
///
/// # Errors
/// [`CrossingError`].
pub fn measure(longshore: &Path, plan: &Plan, model: &Model) -> Result<Vec<Fetch>, CrossingError> {
    measure_with(WebServer::Nginx, longshore, plan, model)
}

/// As `measure`, for another server.
///
/// # Errors
/// [`CrossingError`].
pub fn measure_with(
    server: WebServer,
    longshore: &Path,
    plan: &Plan,
    model: &Model,
) -> Result<Vec<Fetch>, CrossingError> {
    let directory = scratch_directory()?;
    let place = Place {
        longshore,
        directory: directory.path(),
        captures: true,
    };
    let command = match server {
        WebServer::Nginx => prepare(place.directory, &plan.sizes)?,
        WebServer::Lighttpd => prepare_lighttpd(place.directory, &plan.sizes)?,
    };
    let mut options = OPTIONS.map(OsString::from).to_vec();
    if let Some(batching) = &plan.batching {
        options.extend(["--batching".into(), batching.into()]);
    }
    let mut running = Running::quietly(&place, &options, &command)?;
    running.settles_in = running.settles_in.max(plan.settles_in);
    running.wait_until_served(SocketAddr::from(SERVER))?;
    let mut capture = Capture::open(&place.capture())?;
    let mtu = running.counts_at_rest()?.mtu;
    let mut replay = Replay::new(model.bus, model.driver, model.queues, mtu);
    let mut fetches = Vec::new();
    for size in &plan.sizes {
        for mode in Mode::ALL {
            let one = fetch(&running, &mut capture, &mut replay, (*size, mode), plan)?;
            fetches.push(Fetch { server, ..one });
        }
    }
    Ok(fetches)
}

/// Fetches a file many times; the middle of these, by what crossed.
fn fetch(
    nginx: &Running<'_>,
    capture: &mut Capture,
    replay: &mut Replay,
    (size, mode): (u64, Mode),
    plan: &Plan,
) -> Result<Fetch, CrossingError> {
    let (name, expected) = (name(size), content(size));
    let mut client = Client::new(SocketAddr::from(SERVER), mode);
    let mut samples = Vec::new();
    let mut used = nginx.processor_ns();
    let (mut made, mut last) = (0, Instant::now());
    let mut before = nginx.counts_at_rest()?;
    while samples.len() < plan.fetches as usize {
        if made == BEFORE {
            used = nginx.processor_ns();
        }
        capture.read(|frame| replay.frame(&frame))?;
        replay.take();
        client.fetch(&name, &expected)?;
        let came_soon = std::mem::replace(&mut last, Instant::now()).elapsed() < IN_USE;
        let now = nginx.counts_at_rest()?;
        let is_in_use = came_soon && last.elapsed() < IN_USE;
        let counts = now.since(&before);
        before = now;
        capture.read(|frame| replay.frame(&frame))?;
        let conventional = replay.take();
        made += 1;
        // Where timers of the batching are waited for, there is nothing else.
        let counts_all = plan.batching.is_some() || made > TRIES * plan.fetches + MORE;
        if made > BEFORE && (is_in_use || counts_all) {
            samples.push(Sample {
                counts,
                conventional,
            });
        }
    }
    let used = nginx.processor_ns().saturating_sub(used);
    let (middle, repeated) = middle_of(samples);
    Ok(Fetch {
        server: WebServer::Nginx,
        size,
        mode,
        counts: middle.counts,
        conventional: middle.conventional,
        repeated,
        host_ns: used / u64::from(made - BEFORE),
    })
}

/// The fetch in the middle, by what crossed, and how many are like it.
fn middle_of(mut samples: Vec<Sample>) -> (Sample, Repeated) {
    samples.sort_by_key(|sample| {
        let Counts {
            to_host,
            to_adapter,
            ..
        } = sample.counts;
        (
            to_host.transfers() + to_adapter.transfers(),
            to_host.bytes() + to_adapter.bytes(),
        )
    });
    let fetches = samples.len() as u32;
    let middle = samples.swap_remove(samples.len() / 2);
    let same = |sample: &&Sample| sample.counts.is_as_much_as(&middle.counts);
    let same = 1 + samples.iter().filter(same).count() as u32;
    (middle, Repeated { fetches, same })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_is_shown_and_how_many_are_like_it() {
        let sample = |batches: usize, wakeups| Sample {
            counts: Counts {
                to_host: longshore_bus::Counted {
                    descriptors: longshore_bus::Sums::of(&vec![24; batches]),
                    wakeups,
                    ..Default::default()
                },
                ..Counts::default()
            },
            conventional: Default::default(),
        };
        // Whether anybody slept moves nothing.
        let (middle, repeated) = middle_of(vec![
            sample(4, 0),
            sample(1, 0),
            sample(1, 1),
            sample(2, 0),
            sample(1, 0),
        ]);
        assert_eq!(middle.counts.to_host.transfers(), 1);
        assert_eq!((repeated.fetches, repeated.same), (5, 3));
    }

    #[test]
    fn files_have_names_and_pages_that_differ() {
        assert_eq!(SIZES.map(name), ["1k", "64k", "512k"]);
        let file = content(SIZES[2]);
        let pages: std::collections::HashSet<_> = file.chunks(4096).collect();
        assert_eq!(pages.len(), file.len() / 4096);
    }
}
