//! The options of the commands that are not for users: those that `run`, `engine`, `measure` and
//! the installation start by themselves.

use crate::values::{YesNo, congestion};
use clap::Args;
use longshore_engine::Congestion;
use longshore_hostif::attach::SessionOptions;
use std::path::PathBuf;

/// What a modelled bus is to do.
#[derive(Debug, Args)]
pub(crate) struct BusArguments {
    /// The bus
    #[arg(long)]
    pub(crate) model: longshore_bus::BusModel,
    /// The engine's socket
    #[arg(long)]
    pub(crate) engine: PathBuf,
    /// Where programs attach
    #[arg(long)]
    pub(crate) socket: PathBuf,
    /// Where it is written what the bus does
    #[arg(long)]
    pub(crate) report: PathBuf,
    #[command(flatten)]
    pub(crate) session: SessionArguments,
}

/// What programs want of their session.
#[derive(Debug, Args)]
pub(crate) struct SessionArguments {
    /// The congestion control of new sockets
    #[arg(long, value_parser = congestion)]
    pub(crate) congestion: Option<Congestion>,
    /// Whether what is bound to the wildcard is bound on the kernel, too
    #[arg(long)]
    pub(crate) kernel_too: Option<YesNo>,
}

/// What the host's end of a link is to do.
#[derive(Debug, Args)]
pub(crate) struct LinkAgentArguments {
    /// Where the engine's end is
    #[arg(long)]
    pub(crate) place: longshore_link::Place,
    /// The file with the key
    #[arg(long)]
    pub(crate) key: PathBuf,
    /// Where programs attach
    #[arg(long)]
    pub(crate) socket: PathBuf,
    #[command(flatten)]
    pub(crate) session: SessionArguments,
}

/// What the engine's end of links is to do.
#[derive(Debug, Args)]
pub(crate) struct LinkEndArguments {
    /// The engine's socket
    #[arg(long)]
    pub(crate) engine: PathBuf,
    /// The file with the key
    #[arg(long)]
    pub(crate) key: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct DocumentsArguments {
    /// The directory of shared files, as /usr/local/share
    pub(crate) share: PathBuf,
}

/// One of `longshore_measure::programs`.
#[derive(Debug, Args)]
pub(crate) struct SmallProgramArguments {
    pub(crate) name: String,
    #[arg(trailing_var_arg = true)]
    pub(crate) arguments: Vec<String>,
}

impl SessionArguments {
    /// What is wanted of the session.
    pub(crate) fn options(&self) -> SessionOptions {
        session_options(self.congestion, self.kernel_too)
    }
}

/// The options of a session by what was said on the command line.
pub(super) fn session_options(
    congestion: Option<Congestion>,
    kernel_too: Option<YesNo>,
) -> SessionOptions {
    let place = |wanted: Congestion| {
        let place = Congestion::ALL.iter().position(|c| *c == wanted);
        place.and_then(|place| u8::try_from(place).ok())
    };
    SessionOptions {
        congestion: congestion.and_then(place),
        kernel_too: kernel_too.map(|answer| answer == YesNo::Yes),
        ..SessionOptions::default()
    }
}
