//! Options of `longshore run`: how an engine runs, what becomes of the program when it is gone,
//! and what is done with its packets to find faults.

use crate::fault::FaultOrder;
use crate::values::{EngineLoss, Placement};
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct ConductArguments {
    /// What becomes of PROGRAM when the engine is gone: it is ended (SIGTERM, and SIGKILL 10 s
    /// later), stays without its sockets, or stays and attaches anew, for its next sockets, to the
    /// engine that is next started with the same socket (`--engine`)
    #[arg(long, value_name = "WHAT", default_value = "end")]
    pub(crate) on_engine_loss: EngineLoss,
    /// Hold the processors out of deep idle: shorter round trips, more power (root only; where the
    /// kernel has no driver of idle states it has no effect, and a warning says so)
    #[arg(long)]
    pub(crate) awake: bool,
    /// The processor on which the engine runs. Where it may use several (taskset(1)) and PROGRAM
    /// waits for one, it tries out whether more is done if it shares PROGRAM's
    #[arg(
        long,
        value_name = "WHERE",
        default_value = "auto",
        conflicts_with = "engine",
        hide_short_help = true
    )]
    pub(crate) placement: Placement,
    /// Let the engine keep its privileges: else it gives up capabilities, files and system calls
    /// that it does not need. PROGRAM is never confined
    #[arg(long, conflicts_with = "engine")]
    pub(crate) no_sandbox: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TrialArguments {
    /// Record all packets to this pcapng file
    #[arg(long, value_name = "FILE", conflicts_with = "engine")]
    pub(crate) capture: Option<PathBuf>,
    /// Spoil packets on purpose, both ways: loss=2%,reorder=2%,duplicate=1%,corrupt=1%,seed=7
    #[arg(
        long,
        value_name = "FAULTS",
        conflicts_with = "engine",
        hide_short_help = true
    )]
    pub(crate) fault: Option<FaultOrder>,
}
