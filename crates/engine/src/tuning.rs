//! How an engine's TCP is tuned: what Linux has under net.ipv4.
//!
//! Owns [`Tuning`], which `Config` carries and the operator sets in the `[tcp]` section
//! of the configuration. New sockets begin with it; a socket's own options come after.

use crate::socket::Options;
pub use longshore_tcp::{Congestion, EcnMode};

/// The settings that hold for all sockets of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tuning {
    /// net.ipv4.tcp_ecn.
    pub ecn: EcnMode,
    /// net.ipv4.tcp_congestion_control: what a socket has that chooses nothing.
    pub congestion: Congestion,
}

impl Tuning {
    /// Sets what a new socket begins with.
    pub(crate) fn apply(&self, options: &mut Options) {
        options.tcp.ecn = self.ecn;
        options.tcp.congestion = self.congestion;
    }
}
