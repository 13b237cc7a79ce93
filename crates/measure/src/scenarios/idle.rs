//! What it costs to do nothing: processor time and memory, with connections
//! open that say nothing.

use super::{About, Effort, Placement, Sample, Scenario, program};
use longshore_testbed::{Proc, Testbed, eventually, servers::Nginx};
use std::fs;
use std::time::{Duration, Instant};

const MANY: u64 = 10_000;
/// Longer than an engine waits before it gives memory back that it no longer uses (three looks,
/// one in a second).
const SETTLED: Duration = Duration::from_secs(5);
/// And after this it is measured as it is.
const NEVER_SETTLED: Duration = Duration::from_secs(30);

pub(super) fn all() -> Vec<Box<dyn Scenario>> {
    vec![
        Box::new(Idle {
            name: "idle, no connection",
            connections: 0,
            measured: Measured::Time,
            asks: false,
        }),
        Box::new(Idle {
            name: "idle, 10,000 connections",
            connections: MANY,
            measured: Measured::Time,
            asks: false,
        }),
        Box::new(Idle {
            name: "memory of an idle connection",
            connections: MANY,
            measured: Measured::Memory,
            asks: false,
        }),
        Box::new(Idle {
            name: "memory of a connection after a request",
            connections: MANY,
            measured: Measured::Memory,
            asks: true,
        }),
    ]
}

/// nginx holding connections that say nothing.
struct Idle {
    name: &'static str,
    connections: u64,
    measured: Measured,
    /// A file of 1 KB was asked for and sent on each.
    asks: bool,
}

/// What is measured while nothing happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Measured {
    /// Processor time.
    Time,
    /// Memory, for each connection.
    Memory,
}

impl Scenario for Idle {
    fn about(&self) -> About {
        match self.measured {
            Measured::Memory => About::lower(self.name, "bytes").value(4096.0),
            Measured::Time => About::lower(self.name, "% of a core").value(1.0),
        }
    }

    fn has_baseline(&self) -> bool {
        // The kernel's memory and time for it are in no process of its own.
        false
    }

    fn run(&self, bed: &Testbed, placement: Placement, effort: Effort) -> Sample {
        let (host, peer) = placement.hosts(bed);
        let nginx = Nginx {
            top: "worker_rlimit_nofile 30000;",
            connections: 20_000,
            server: "client_header_timeout 600s; keepalive_timeout 600s;",
            ..Nginx::default()
        };
        let _ = bed.payload("www/file", 1 << 10);
        let server = host.cmd("nginx").arg("-c").arg(nginx.config(bed)).spawn();
        peer.wait_for(host.at(80));
        std::thread::sleep(Duration::from_millis(500));
        let memory_before = match self.measured {
            Measured::Memory => settled_memory(&server),
            Measured::Time => 0.0,
        };
        let _far = (self.connections > 0).then(|| {
            let far = program(&peer, "fill")
                .arg(host.at(80).to_string())
                .arg(self.connections.to_string())
                .args(self.asks.then_some("/file"))
                .spawn();
            eventually("all connections are open", || {
                far.stdout().contains("full").then_some(())
            });
            far
        });
        let value = match self.measured {
            Measured::Memory => {
                (settled_memory(&server) - memory_before)
                    / f64::from(u32::try_from(self.connections).expect("few"))
            }
            Measured::Time => {
                std::thread::sleep(Duration::from_secs(2));
                processor_share(&server, Duration::from_secs(effort.pick(2, 5)))
            }
        };
        Sample {
            value,
            crossings: None,
        }
    }
}

/// Processor time that the family takes, in percent of a core.
fn processor_share(server: &Proc, over: Duration) -> f64 {
    let ticks = || -> f64 {
        server
            .family()
            .into_iter()
            .filter_map(|pid| {
                let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
                // utime and stime are the 12th and 13th words after the name.
                let words: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
                Some(words.get(11)?.parse::<f64>().ok()? + words.get(12)?.parse::<f64>().ok()?)
            })
            .sum()
    };
    let (start, before) = (Instant::now(), ticks());
    std::thread::sleep(over);
    // A tick is 10 ms on all Linux systems that show this file.
    (ticks() - before) / start.elapsed().as_secs_f64()
}

/// Bytes that the family has in memory when it has become no less for [`SETTLED`]: what a
/// connection keeps, and not what the number of those that were served at the same time has
/// left to be given back.
fn settled_memory(server: &Proc) -> f64 {
    let (began, mut since) = (Instant::now(), Instant::now());
    let mut least = memory(server);
    while since.elapsed() < SETTLED && began.elapsed() < NEVER_SETTLED {
        std::thread::sleep(Duration::from_millis(500));
        let now = memory(server);
        if now < 0.999 * least {
            (least, since) = (now, Instant::now());
        }
    }
    memory(server)
}

/// Bytes that the family has in memory, shared pages counted once.
fn memory(server: &Proc) -> f64 {
    server
        .family()
        .into_iter()
        .filter_map(|pid| {
            let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
            let pss = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
            pss.split_whitespace().next()?.parse::<f64>().ok()
        })
        .sum::<f64>()
        * 1024.0
}
