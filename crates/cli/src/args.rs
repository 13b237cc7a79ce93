//! The command line: the commands and what all of them share.
//!
//! `args/run.rs` and `args/engine.rs` have the options of these two commands, `args/helpers.rs`
//! those of the processes that they start, `measure/args.rs` those of `measure`.

mod engine;
mod helpers;
mod run;

pub(crate) use engine::EngineArguments;
pub(crate) use helpers::{
    BusArguments, DocumentsArguments, LinkAgentArguments, LinkEndArguments, SmallProgramArguments,
};
pub(crate) use run::RunArguments;

use crate::measure::args::MeasureArguments;
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

/// Runs unmodified programs on a TCP/IP stack of their own, beside them and not
/// in the kernel.
#[derive(Debug, Parser)]
#[command(
    name = "longshore",
    version,
    max_term_width = 100,
    arg_required_else_help = true
)]
#[command(after_help = "\
Examples:
  As root:
    longshore run -- python3 -m http.server 8000
    curl http://10.77.0.2:8000/
  As anybody:
    longshore run --expose 8000:8000 -- python3 -m http.server 8000
    curl http://localhost:8000/
  While it runs:
    longshore ss
    longshore stat

Exit status:
  0 if all went well, 2 if the command line is wrong, 125 if Longshore failed; `run` ends with 125
  for both, with 124 if the engine was lost, with 127 or 126 if there is no such program, else with
  the exit code of its program")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a program with its sockets on Longshore
    Run(Box<RunArguments>),
    /// Serve many programs with one engine
    Engine(EngineArguments),
    /// Show what the engines have done: packets, drops, crossings
    Stat(ShowArguments),
    /// Show the engines' sockets, as `ss -ti` shows the kernel's
    Ss(ShowArguments),
    /// Measure what crosses between host and adapter, on any bus; alone, name the experiments
    Measure(Box<MeasureArguments>),
    /// A private engine, started by `run`.
    #[command(name = "__engine", hide = true)]
    PrivateEngine,
    /// A small program that experiments run.
    #[command(name = "__program", hide = true)]
    SmallProgram(SmallProgramArguments),
    /// Both ends of a modelled bus, started by `run`.
    #[command(name = "__bus", hide = true)]
    Bus(BusArguments),
    /// The host's end of a link, started by `run`.
    #[command(name = "__link-agent", hide = true)]
    LinkAgent(LinkAgentArguments),
    /// Takes links for an engine, started by `engine`.
    #[command(name = "__link-server", hide = true)]
    LinkServer(LinkEndArguments),
    /// The engine's end of a link, started by `__link-server`.
    #[command(name = "__link-proxy", hide = true)]
    LinkProxy(LinkEndArguments),
    /// Manual pages and completions, for installing
    #[command(name = "__documents", hide = true)]
    Documents(DocumentsArguments),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  longshore stat
  longshore ss --engine /run/longshore/engine.sock
  longshore stat --json --engine 4711 | jq '.[0].drops'

What the words and numbers mean is in docs/glossary.md, which `make install` puts into
PREFIX/share/doc/longshore. To root and to its own user an engine shows all of its sessions and
sockets, to others theirs.

Exit status:
  0 if all is shown, 125 if no engine runs or one that was named does not answer, 2 if the command
  line is wrong.")]
pub(crate) struct ShowArguments {
    /// Print JSON: an array with one object for each engine
    #[arg(long)]
    pub(crate) json: bool,
    /// Only this engine: its pid or its launcher's, its socket or its directory; may be repeated
    #[arg(long, value_name = "ENGINE")]
    pub(crate) engine: Vec<PathBuf>,
}

#[cfg(test)]
mod tests;
