//! Goodput over bad paths: loss, round-trip time and rate in a table, and some rows of
//! reordering and duplication; Linux to Linux beside every combination with Longshore,
//! all with the same algorithm.
//!
//! Each end is a network namespace whose interface ends in the [`Relay`]. The
//! kernel has an address there; Longshore stands on the interface by a packet
//! port, and the kernel beside it has none.

mod table;

pub use table::table;

use crate::installed;
use crate::relay::Relay;
use crate::report::{Better, Row, Target};
use longshore_ports::Faults;
use longshore_ports::sim::{Direction, SimConfig};
use longshore_ports::tap::{Tap, TapConfig};
use longshore_testbed::{Namespace, longshore};
use std::net::{IpAddr, Ipv4Addr};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const LOSSES: [f64; 4] = [0.0, 0.001, 0.01, 0.03];
const ROUND_TRIPS_MS: [u64; 3] = [1, 20, 100];
const RATES: [u64; 2] = [100_000_000, 1_000_000_000];
/// What else goes wrong, on a path of this round trip.
const OTHERS: [Fault; 2] = [Fault::Reorder(0.01), Fault::Duplicate(0.01)];
const OTHERS_ROUND_TRIP_MS: u64 = 20;

const PORT: u16 = 5001;
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 1);
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 2);
/// The interface of each end.
const DEVICE: &str = "wan";
/// Packets that the interface takes before its driver pushes back: more than any
/// window here, so that all loss is the relay's.
const DEVICE_QUEUE: u32 = 20_000;
/// How long the client may take to reach the server, lost SYNs included.
const REACH: Duration = Duration::from_secs(30);

/// What goes wrong on a path, with its probability for each packet of the data's
/// direction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fault {
    /// It is lost.
    Loss(f64),
    /// It comes a quarter of a round trip later than it should.
    Reorder(f64),
    /// It comes twice.
    Duplicate(f64),
}

impl Fault {
    /// As `loss 1 %`.
    #[must_use]
    pub fn name(&self) -> String {
        let (what, share) = match self {
            Fault::Loss(p) => ("loss", p),
            Fault::Reorder(p) => ("reordering", p),
            Fault::Duplicate(p) => ("duplication", p),
        };
        format!("{what} {} %", share * 100.0)
    }

    fn faults(self) -> Faults {
        let mut faults = Faults::default();
        match self {
            Fault::Loss(p) => faults.loss = p,
            Fault::Reorder(p) => faults.reorder = p,
            Fault::Duplicate(p) => faults.duplicate = p,
        }
        faults
    }
}

/// A path: one cell of the table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cell {
    /// What goes wrong.
    pub fault: Fault,
    /// Round-trip time without queueing, in milliseconds.
    pub round_trip_ms: u64,
    /// Bits in a second, each way.
    pub rate: u64,
}

impl Cell {
    /// All of the table.
    pub fn all() -> impl Iterator<Item = Cell> {
        let losses = LOSSES.into_iter().flat_map(|loss| {
            ROUND_TRIPS_MS
                .into_iter()
                .map(move |round_trip_ms| (Fault::Loss(loss), round_trip_ms))
        });
        let others = OTHERS
            .into_iter()
            .map(|fault| (fault, OTHERS_ROUND_TRIP_MS));
        losses.chain(others).flat_map(|(fault, round_trip_ms)| {
            RATES.into_iter().map(move |rate| Cell {
                fault,
                round_trip_ms,
                rate,
            })
        })
    }

    /// As `loss 1 %, rtt 20 ms, 100 Mb/s`.
    #[must_use]
    pub fn name(&self) -> String {
        format!(
            "{}, rtt {} ms, {} Mb/s",
            self.fault.name(),
            self.round_trip_ms,
            self.rate / 1_000_000
        )
    }

    /// The wire: a queue of one bandwidth-delay product, at least 64 KiB.
    fn wire(&self, seed: u64) -> SimConfig {
        let in_flight = self.rate / 8 * self.round_trip_ms / 1000;
        let direction = Direction {
            delay: Duration::from_micros(self.round_trip_ms * 500),
            rate: Some(self.rate),
            queue: in_flight.max(65_536) as usize,
            ..Direction::default()
        };
        SimConfig {
            seed,
            forth: Direction {
                faults: self.fault.faults(),
                reorder_by: Duration::from_micros(self.round_trip_ms * 250),
                ..direction
            },
            back: direction,
            ..SimConfig::default()
        }
    }
}

/// Which TCP an end has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Linux,
    Longshore,
}

/// The program that sends, and the one that receives.
const PAIRS: [(&str, End, End); 3] = [
    ("Longshore to Linux", End::Longshore, End::Linux),
    ("Linux to Longshore", End::Linux, End::Longshore),
    ("Longshore to Longshore", End::Longshore, End::Longshore),
];

/// How much is measured of each cell.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    /// Runs of each pair.
    pub repeats: usize,
    /// How many of them go on at the same time, each on a path of its own. Only for
    /// paths so slow that they leave the processors alone.
    pub at_once: usize,
    /// What each run measures; a fifth more goes before.
    pub seconds: u64,
    /// The luck of the first run; the next one has the next number.
    pub first_seed: u64,
}

/// Measures the chosen cells. Runs of one cell take turns and share their seeds.
/// `progress` is told what comes next.
///
/// # Panics
/// If a namespace cannot be made, or a program fails.
pub fn measure(cells: &[Cell], effort: &Effort, mut progress: impl FnMut(&str)) -> Vec<Row> {
    let at_once = effort.at_once.max(1);
    let mut rows = Vec::new();
    for cell in cells {
        let first = rows.len();
        rows.extend(PAIRS.map(|(pair, _, _)| Row {
            name: format!("{}: {pair}", cell.name()),
            unit: "Mb/s",
            better: Better::Higher,
            placement: "free".to_owned(),
            idle: "halt",
            longshore: Vec::new(),
            kernel: Vec::new(),
            bare: Vec::new(),
            target: Some(Target::Ratio(0.95)),
            crossings: None,
        }));
        let mut turn = 0;
        while turn < effort.repeats {
            let count = at_once.min(effort.repeats - turn);
            let run = match count {
                1 => format!("run {} of {}", turn + 1, effort.repeats),
                _ => format!(
                    "runs {} to {} of {}",
                    turn + 1,
                    turn + count,
                    effort.repeats
                ),
            };
            let seeds: Vec<u64> = (0..count as u64)
                .map(|i| effort.first_seed + turn as u64 + i)
                .collect();
            progress(&format!("{}: Linux to Linux, {run}", cell.name()));
            let baseline = goodputs(cell, &seeds, End::Linux, End::Linux, effort.seconds);
            for (row, (pair, from, to)) in rows[first..].iter_mut().zip(PAIRS) {
                progress(&format!("{}: {pair}, {run}", cell.name()));
                let ours = goodputs(cell, &seeds, from, to, effort.seconds);
                row.longshore.extend(ours);
                row.kernel.extend(&baseline);
            }
            turn += count;
        }
    }
    progress("");
    rows
}

/// The same path with each of these seeds, at the same time.
fn goodputs(cell: &Cell, seeds: &[u64], from: End, to: End, seconds: u64) -> Vec<f64> {
    std::thread::scope(|scope| {
        let runs: Vec<_> = seeds
            .iter()
            .map(|&seed| scope.spawn(move || goodput(cell, seed, from, to, seconds)))
            .collect();
        runs.into_iter()
            .map(|run| run.join().unwrap_or_else(|p| std::panic::resume_unwind(p)))
            .collect()
    })
}

/// Sends from one end to the other; Mb/s that arrived at the reader.
fn goodput(cell: &Cell, seed: u64, from: End, to: End, seconds: u64) -> f64 {
    let (server, left) = host(from, SERVER);
    let (client, right) = host(to, CLIENT);
    let relay = Relay::start(left, right, &cell.wire(seed)).expect("start the relay");
    let listening = ["source".to_owned(), format!("0.0.0.0:{PORT}")];
    let mut source = program(&server, from, SERVER, &listening)
        .spawn()
        .expect("start the sender");
    let reading = [
        "pull".to_owned(),
        format!("{SERVER}:{PORT}"),
        (seconds * 1000).to_string(),
    ];
    let said = pull(&client, to, &reading);
    let _ = source.kill();
    server.kill_all();
    reap(&mut source);
    let counts = relay.stop().expect("the relay's ports work");
    assert_eq!(counts.refused, [0, 0], "the relay is too slow: {counts:?}");
    said * 1000.0
}

/// Runs the reader until the sender is there; what it measured, in Gb/s.
fn pull(client: &Namespace, end: End, words: &[String]) -> f64 {
    let deadline = Instant::now() + REACH;
    loop {
        let output = program(client, end, CLIENT, words)
            .output()
            .expect("start the reader");
        let text = String::from_utf8_lossy(&output.stdout);
        if let Some(figure) = text.split_whitespace().next().and_then(|t| t.parse().ok()) {
            return figure;
        }
        assert!(
            Instant::now() < deadline,
            "the reader failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn reap(child: &mut Child) {
    let _ = child.wait();
}

/// A namespace with one interface, and that interface's other end.
fn host(end: End, address: Ipv4Addr) -> (Namespace, Tap) {
    let namespace = Namespace::new();
    let tap = namespace.enter(|| {
        // A host, not a router: what it does not own, it leaves alone.
        std::fs::write("/proc/sys/net/ipv4/ip_forward", "0").expect("stop forwarding");
        Tap::open(&TapConfig {
            mtu: Some(1500),
            kernel_addresses: (end == End::Linux)
                .then_some((IpAddr::V4(address), 24))
                .into_iter()
                .collect(),
            ..TapConfig::create(DEVICE).expect("a name")
        })
        .expect("make the interface")
    });
    namespace.ip(&format!("link set {DEVICE} txqueuelen {DEVICE_QUEUE}"));
    if end == End::Linux {
        namespace.ip(&format!(
            "route replace 10.78.0.0/24 dev {DEVICE} proto kernel scope link src {address} \
             congctl lock cubic"
        ));
    }
    (namespace, tap)
}

/// One of [`crate::programs`] on an end.
fn program(namespace: &Namespace, end: End, address: Ipv4Addr, words: &[String]) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", namespace.name()]);
    command.args(["setpriv", "--pdeathsig", "KILL"]);
    if end == End::Longshore {
        // Its own defaults, CUBIC among them, whatever the machine has.
        let options = format!("run --sysctl none --port packet:{DEVICE} --addr {address}/24 --");
        command.arg(longshore()).args(options.split_whitespace());
    }
    command
        .arg(std::env::current_exe().expect("a program has a path"))
        .arg(installed::WORD)
        .args(words)
        .stdin(Stdio::null());
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_every_cell_once() {
        let names: Vec<String> = Cell::all().map(|c| c.name()).collect();
        assert_eq!(names.len(), 28);
        assert_eq!(names[0], "loss 0 %, rtt 1 ms, 100 Mb/s");
        assert!(names.contains(&"loss 0.1 %, rtt 20 ms, 1000 Mb/s".to_owned()));
        assert_eq!(names[24], "reordering 1 %, rtt 20 ms, 100 Mb/s");
        let mut once = names.clone();
        once.sort();
        once.dedup();
        assert_eq!(once.len(), names.len());
    }

    #[test]
    fn the_queue_holds_what_is_in_flight() {
        let cell = Cell {
            fault: Fault::Loss(0.0),
            round_trip_ms: 100,
            rate: 1_000_000_000,
        };
        assert_eq!(cell.wire(1).forth.queue, 12_500_000);
        let short = Cell {
            round_trip_ms: 1,
            rate: 100_000_000,
            ..cell
        };
        assert_eq!(short.wire(1).forth.queue, 65_536);
    }
}
