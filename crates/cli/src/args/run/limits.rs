//! Options of `longshore run`: what a program and its children may take of the engine.

use crate::session_limits::SessionLimits;
use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct LimitArguments {
    /// Processes of PROGRAM and its children at most, in steps of 64; by default 256
    #[arg(long, value_name = "N", conflicts_with = "engine")]
    pub(crate) max_processes: Option<u32>,
    /// Sockets of all of them at most, in steps of 64; by default 65536
    #[arg(long, value_name = "N", conflicts_with = "engine")]
    pub(crate) max_sockets: Option<u32>,
    /// MiB of memory at most for what they send; taken only when used; by default 2048
    #[arg(long, value_name = "MIB", conflicts_with = "engine")]
    pub(crate) send_memory: Option<u32>,
    /// MiB of memory at most for what they receive, at least 32; taken only when used; by
    /// default 2048
    #[arg(long, value_name = "MIB", conflicts_with = "engine")]
    pub(crate) receive_memory: Option<u32>,
}

impl LimitArguments {
    /// What the session may have.
    pub(crate) fn session_limits(&self) -> SessionLimits {
        let usual = SessionLimits::default();
        SessionLimits {
            processes: self.max_processes.unwrap_or(usual.processes),
            sockets: self.max_sockets.unwrap_or(usual.sockets),
            send_mib: self.send_memory.unwrap_or(usual.send_mib),
            receive_mib: self.receive_memory.unwrap_or(usual.receive_mib),
        }
    }
}
