//! The kernel beside the engine, as the stack asks it.
//!
//! Owns [`Kernel`], which `engine` gives to its stack, and again with other settings when
//! those change.

use crate::sysctl::HostSettings;
use crate::time::wall_clock_ns;
use longshore_stack::{Defaults, Host, ReservedPorts};
use longshore_tcp::{FastOpenKey, Instant};
use std::sync::Arc;

/// The kernel, and its settings if they are followed.
#[derive(Debug)]
pub(crate) struct Kernel(pub(crate) Option<HostSettings>);

impl Host for Kernel {
    fn defaults(&mut self, now: Instant) -> Option<Defaults> {
        self.0.as_mut().map(|settings| settings.get(now))
    }

    fn reserved_ports(&self) -> Option<&Arc<ReservedPorts>> {
        self.0.as_ref()?.reserved_ports()
    }

    fn fast_open_keys(&self) -> Option<(Option<FastOpenKey>, Option<FastOpenKey>)> {
        self.0.as_ref().map(HostSettings::fast_open_keys)
    }

    fn time_of_day_ns(&self) -> u64 {
        wall_clock_ns()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stamps of datagrams are compared with what programs read of the system's clock.
    #[test]
    fn the_time_of_day_is_that_of_the_system() {
        let before = wall_clock_ns();
        let now = Kernel(None).time_of_day_ns();
        assert!((before..=wall_clock_ns()).contains(&now));
    }
}
