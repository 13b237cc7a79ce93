//! The command line of `longshore measure`.

use crate::batching::BatchingOrder;
use crate::values::number_and_unit;
use clap::{Args, Subcommand};
use longshore_bus::{AnyBus, Driver, Queues, Ring, Signals};
use longshore_measure::crossing::Model;
use longshore_measure::experiments::path::PAPER_MIPS;
use std::ffi::OsString;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Debug, Args)]
pub(crate) struct MeasureArguments {
    #[command(subcommand)]
    pub(crate) experiment: Option<Experiment>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Experiment {
    /// What crosses between host and adapter, beside conventional adapters and the 2005 paper
    Bus(BusArguments),
    /// Throughput and latency on a bus, from measured crossings, and which part is the bottleneck
    Predict(PredictArguments),
    /// This machine: memory, wake-ups, system calls, pages, and how a server scales (2005)
    Host(ExperimentArguments),
    /// Instructions of each part of a packet's way, by callgrind, and the rates they allow (1989)
    Path(PathArguments),
    /// Bandwidth by the largest packet, copied and in place, touched or not (1999, 2001)
    Sweep(ExperimentArguments),
    /// One-way latency of UDP by size (1999)
    Latency(ExperimentArguments),
    /// Where the processor's time goes, by perf and by the largest packet (1999, 2001)
    Cpu(ExperimentArguments),
    /// Instructions, cache misses and time of payloads by size; faster clocks and memory (2003)
    Characterize(ExperimentArguments),
    /// What it saves that little payload crosses with its descriptor, by the bytes of a message
    Immediate(ExperimentArguments),
    /// What a port itself can do, by a bare generator, beside Longshore and the kernel
    Port(ExperimentArguments),
    /// All but `predict`, as one page of HTML
    All(AllArguments),
}

impl Experiment {
    /// The files for its whole outcome and for its plots, if any are wanted.
    pub(crate) fn files(&self) -> Option<(Option<&Path>, Option<&Path>)> {
        let (outcome, plot) = match self {
            Experiment::Bus(bus) => (&bus.outcome, &bus.plot),
            Experiment::Predict(predict) => (&None, &predict.plot),
            Experiment::Path(path) => (
                &path.experiment.output.outcome,
                &path.experiment.output.plot,
            ),
            Experiment::Host(usual)
            | Experiment::Sweep(usual)
            | Experiment::Latency(usual)
            | Experiment::Cpu(usual)
            | Experiment::Characterize(usual)
            | Experiment::Immediate(usual)
            | Experiment::Port(usual) => (&usual.output.outcome, &usual.output.plot),
            Experiment::All(_) => return None,
        };
        Some((outcome.as_deref(), plot.as_deref()))
    }

    /// How long it takes on two processors, in seconds: for the record, and by `--quick`.
    pub(crate) fn seconds(name: &str) -> Option<(u32, Option<u32>)> {
        Some(match name {
            "bus" => (20, Some(7)),
            "predict" => (3, None),
            "host" => (60, Some(15)),
            "path" => (25, Some(10)),
            "sweep" => (265, Some(40)),
            "latency" => (50, Some(5)),
            "cpu" => (60, Some(5)),
            "characterize" => (90, Some(10)),
            "immediate" => (10, Some(5)),
            "port" => (80, Some(15)),
            "all" => (535, Some(120)),
            _ => return None,
        })
    }
}

/// Of `all`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
What an experiment gives is kept in the directory FILE.results as soon as it ends, so that an
interrupted run goes on where it was. What is there already is not measured again, unless this
program was built since.

Exit status:
  0 if all is written, 1 if a claim that held no longer does, 125 if something could not be
  measured, 2 if the command line is wrong.")]
pub(crate) struct AllArguments {
    /// The page that is written
    #[arg(
        long,
        value_name = "FILE.html",
        default_value = "longshore-report.html"
    )]
    pub(crate) out: PathBuf,
    /// Short runs, for a look; the page says so
    #[arg(long)]
    pub(crate) quick: bool,
    /// Measure again what is there already
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Only this experiment; repeatable
    #[arg(long, value_name = "EXPERIMENT", value_parser = PARTS_OF_ALL)]
    pub(crate) only: Vec<String>,
    /// Write each experiment's plots into a file EXPERIMENT.svg in this directory, too
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) plots: Option<PathBuf>,
    /// Write what the papers claim and what holds into this file, too; if a claim that holds in it
    /// no longer does, say so and leave it
    #[arg(long, value_name = "FILE.md")]
    pub(crate) claims: Option<PathBuf>,
}

/// The experiments that `all` makes.
pub(crate) const PARTS_OF_ALL: [&str; 9] = [
    "path",
    "sweep",
    "latency",
    "cpu",
    "characterize",
    "bus",
    "immediate",
    "host",
    "port",
];

/// Of `path`.
#[derive(Debug, Args)]
pub(crate) struct PathArguments {
    /// Compute rates for so many million instructions a second
    #[arg(long, value_name = "N", default_value_t = PAPER_MIPS, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) mips: u32,
    #[command(flatten)]
    pub(crate) experiment: ExperimentArguments,
}

/// How an experiment is run and shown.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Exit status:
  0 if all is shown, 125 if something could not be measured, 2 if the command line is wrong.")]
pub(crate) struct ExperimentArguments {
    /// Short runs, for a look; what is printed says so
    #[arg(long)]
    pub(crate) quick: bool,
    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

/// Where figures go.
#[derive(Debug, Args)]
pub(crate) struct OutputArguments {
    /// Print JSON
    #[arg(long, conflicts_with = "csv")]
    pub(crate) json: bool,
    /// Print CSV
    #[arg(long)]
    pub(crate) csv: bool,
    /// Draw plots into this file, too, as SVG
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) plot: Option<PathBuf>,
    /// Write the whole outcome into this file, for `all`.
    #[arg(long, hide = true)]
    pub(crate) outcome: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
What crosses for a fetch is measured as by `longshore measure bus`, and the processor time that
nginx takes. Latency is that of a fetch alone: host, bus, round trips and adapter one after the
other, without the network. Throughput is of many at once, whose parts overlap.

Examples:
  longshore measure predict
  longshore measure predict --bus pcie-gen4x8 --adapter-latency 2us
  longshore measure predict --bus cxl --adapter-latency 500ns --json

  longshore measure predict --check
      Whether it is right, to a tenth, where the bus can be had.

Exit status:
  0 if all is shown, 1 if --check found a difference of more than a tenth, 125 if something could
  not be measured, 2 if the command line is wrong.")]
pub(crate) struct PredictArguments {
    #[command(flatten)]
    pub(crate) model: ModelArguments,
    /// What the adapter adds to each fetch: a number with ns, us or ms; nothing, if it is not said
    #[arg(long, value_name = "T", value_parser = duration)]
    pub(crate) adapter_latency: Option<Duration>,
    /// Instead, hold predictions for some slow buses against the same work over
    /// `run --transport bus:`, for half a minute
    #[arg(long, conflicts_with_all = ["adapter_latency", "bus", "doorbell", "interrupts", "plot", "csv"])]
    pub(crate) check: bool,
    /// Print JSON: an array with an object for each size and mode
    #[arg(long, conflicts_with = "csv")]
    pub(crate) json: bool,
    /// Print CSV
    #[arg(long)]
    pub(crate) csv: bool,
    /// Draw latency and rate over generations of buses into this file, too, as SVG
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) plot: Option<PathBuf>,
}

/// A time with its unit.
fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is no time: write it as 500ns, 2us or 1ms");
    let (number, unit) = number_and_unit(text).ok_or_else(wrong)?;
    match unit {
        "ns" => Ok(Duration::from_nanos(number)),
        "us" => Ok(Duration::from_micros(number)),
        "ms" => Ok(Duration::from_millis(number)),
        _ => Err(wrong()),
    }
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Without PROGRAM, nginx under Longshore serves files of 1, 64 and 512 KB in a network namespace of
its own, with a connection for each request and on one that is kept; lighttpd does, where it is
installed; wrk with 32 connections and httperf load nginx, redis answers GET one by one and 16 at
once, and 64 bytes are echoed: of these the mean of a request is shown. What the engine counts for a
fetch stands beside what an E1000 would have moved for the same packets, and beside Tables 4 and 5
of Freimuth et al., \"Server network scalability and TCP offload\", USENIX 2005.

With PROGRAM, it runs under Longshore until it ends or is interrupted, and what it moved in all is
shown. Its packets are recorded in the directory for temporary files (TMPDIR) meanwhile, and what
it prints goes to stderr.

Examples:
  longshore measure bus
  longshore measure bus --bus pcie-gen4x8 --json
  longshore measure bus --plot bars.svg
  longshore measure bus --bus pcie-gen5x16 --doorbell 8 --interrupts 1 --fetch 32
  longshore measure bus --queues 16 --prefetch 32
  longshore measure bus --expose 8000:8000 -- python3 -m http.server 8000

Buses:
  pcix, pcie-gen3x1 to pcie-gen6x16, cxl, or one of your own by its numbers, as
  bandwidth=1Gb/s,latency=20us

Exit status:
  0 if all is shown, 125 if something could not be measured, 2 if the command line is wrong; with
  PROGRAM that of `longshore run`.")]
pub(crate) struct BusArguments {
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    conventional: ConventionalArguments,
    /// Print JSON: an array with an object for each adapter, size and mode
    #[arg(long, conflicts_with = "csv")]
    pub(crate) json: bool,
    /// Print CSV
    #[arg(long)]
    pub(crate) csv: bool,
    /// Draw bars into this file, too, as SVG
    #[arg(long, value_name = "FILE.svg", conflicts_with = "program")]
    pub(crate) plot: Option<PathBuf>,
    /// Write the whole outcome into this file, for `all`.
    #[arg(long, hide = true, conflicts_with = "program")]
    pub(crate) outcome: Option<PathBuf>,
    /// When descriptors cross, as for `longshore run`: fixed:10,10ms is the paper's batching. With
    /// fixed batching files are fetched and nothing else is measured
    #[arg(
        long,
        value_name = "adaptive|fixed:N,TIME",
        default_value_t,
        hide_default_value = true
    )]
    pub(crate) batching: BatchingOrder,
    /// Only files of so many KB: 1, 64 or 512; repeatable
    #[arg(long, value_name = "KB", value_parser = size, conflicts_with = "program")]
    pub(crate) size: Vec<u64>,
    /// Fetches of each file, of which the middle one is shown; 11, or 3 with --quick
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000), conflicts_with = "program")]
    pub(crate) fetches: Option<u32>,
    /// Few fetches, and of the loads only redis, one request at a time, and the echo: for a look;
    /// what is printed says so
    #[arg(long, conflicts_with = "program")]
    pub(crate) quick: bool,
    #[command(flatten)]
    pub(crate) network: NetworkArguments,
    /// A program and its arguments, instead of nginx
    #[arg(trailing_var_arg = true, value_name = "PROGRAM")]
    pub(crate) program: Vec<OsString>,
}

impl BusArguments {
    /// The models that are wanted.
    pub(crate) fn model(&self) -> Model {
        self.conventional.applied_to(self.model.model())
    }
}

/// What is passed on to `longshore run`.
#[derive(Debug, Args)]
pub(crate) struct NetworkArguments {
    /// For PROGRAM: where packets leave, as for `longshore run`
    #[arg(long, value_name = "KIND:NAME", requires = "program")]
    port: Option<OsString>,
    /// For PROGRAM: the engine's address, as for `longshore run`; repeatable
    #[arg(long, value_name = "ADDR/PREFIX", requires = "program")]
    addr: Vec<OsString>,
    /// For PROGRAM: the router, as for `longshore run`; repeatable
    #[arg(long, value_name = "ADDR", requires = "program")]
    gateway: Vec<OsString>,
    /// For PROGRAM: a port of the kernel that is relayed to it, as for `longshore run`; repeatable
    #[arg(long, value_name = "[ADDR:]HOSTPORT:PORT", requires = "program")]
    expose: Vec<OsString>,
}

impl NetworkArguments {
    /// Options of `longshore run`.
    pub(crate) fn options(&self) -> Vec<OsString> {
        let port: Vec<OsString> = self.port.iter().cloned().collect();
        [
            ("--port", &port),
            ("--addr", &self.addr),
            ("--gateway", &self.gateway),
            ("--expose", &self.expose),
        ]
        .into_iter()
        .flat_map(|(name, values)| values.iter().flat_map(move |v| [name.into(), v.clone()]))
        .collect()
    }
}

/// What is assumed of the bus and of what wakes a side. By default nothing is counted that the
/// paper did not.
#[derive(Debug, Args)]
pub(crate) struct ModelArguments {
    /// The bus whose cycles are counted
    #[arg(long, value_name = "NAME", default_value = "pcix")]
    pub(crate) bus: AnyBus,
    /// Count doorbells of so many bytes: one for each frame that the E1000 sends, and one each
    /// time that Longshore's adapter is woken; 0 counts none
    #[arg(long, value_name = "BYTES", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=64))]
    doorbell: u64,
    /// Count interrupts: one for so many frames of the E1000, and one each time that Longshore
    /// wakes the program; 0 counts none
    #[arg(long, value_name = "FRAMES", default_value_t = 0)]
    interrupts: u32,
}

impl ModelArguments {
    /// The models that are wanted; of conventional adapters the paper's.
    pub(crate) fn model(&self) -> Model {
        const INTERRUPT: u64 = 4;
        let usual = Driver::e1000();
        let driver = Driver {
            transmit: Ring {
                per_doorbell: u32::from(self.doorbell != 0),
                per_interrupt: self.interrupts,
                ..usual.transmit
            },
            receive: Ring {
                per_interrupt: self.interrupts,
                ..usual.receive
            },
            doorbell_bytes: self.doorbell,
            ..usual
        };
        let signals = Signals {
            doorbell_bytes: self.doorbell,
            interrupt_bytes: if self.interrupts == 0 { 0 } else { INTERRUPT },
        };
        Model {
            bus: self.bus,
            driver,
            queues: Queues::default(),
            signals,
        }
    }
}

/// What is assumed of conventional adapters.
#[derive(Debug, Args)]
pub(crate) struct ConventionalArguments {
    /// Descriptors that the E1000 fetches at once, where it has one queue
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    fetch: u32,
    /// Descriptors of sent frames that the E1000 gives back at once; 0 counts none
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=256))]
    completions: u32,
    /// Frames of at most so many bytes stand in the E1000's descriptor
    #[arg(long, value_name = "BYTES", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=65_535))]
    inline: u64,
    /// Queues of the E1000 that has several; a connection has one of them
    #[arg(long, value_name = "N", default_value_t = Queues::default().count.into(), value_parser = clap::value_parser!(u16).range(1..=128))]
    queues: u16,
    /// Descriptors, of 16 bytes, that each of these queues reads ahead at once, to receive and to
    /// transmit, whether all are of use or not
    #[arg(long, value_name = "N", default_value_t = Queues::default().prefetched.into(), value_parser = clap::value_parser!(u32).range(1..=256))]
    prefetch: u32,
}

impl ConventionalArguments {
    /// `model` with conventional adapters as they are wanted.
    pub(crate) fn applied_to(&self, model: Model) -> Model {
        let usual = model.queues;
        Model {
            driver: Driver {
                transmit: Ring {
                    fetched: self.fetch,
                    written_back: self.completions,
                    ..model.driver.transmit
                },
                inline_bytes: self.inline,
                ..model.driver
            },
            queues: Queues {
                count: NonZero::new(self.queues).unwrap_or(usual.count),
                prefetched: NonZero::new(self.prefetch).unwrap_or(usual.prefetched),
            },
            ..model
        }
    }
}

/// One of the sizes of files, in bytes.
fn size(text: &str) -> Result<u64, String> {
    use longshore_measure::crossing::web::SIZES;
    let bytes = text.parse::<u64>().ok().and_then(|kb| kb.checked_mul(1024));
    bytes
        .filter(|bytes| SIZES.contains(bytes))
        .ok_or_else(|| "the sizes are 1, 64 and 512".to_owned())
}

#[cfg(test)]
mod tests;
