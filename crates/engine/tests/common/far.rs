//! Ports around others: one whose other end is far away, for what depends on the round
//! trip, and one that is watched.
#![allow(dead_code, reason = "each test uses its part")]

use longshore_ports::{Capabilities, Port, PortCounters, PortError, RxMeta, TxFrame};
use std::io::IoSliceMut;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Nothing arrives on it sooner than this after something was sent, so that no round
/// trip is shorter. For engines that never sleep: it has no descriptor.
pub(crate) struct Far<P> {
    pub(crate) port: P,
    pub(crate) delay: Duration,
    pub(crate) sent: Instant,
}

impl<P: Port> Port for Far<P> {
    fn capabilities(&self) -> &Capabilities {
        self.port.capabilities()
    }

    fn recv_scatter(&mut self, parts: &mut [IoSliceMut<'_>]) -> Result<Option<RxMeta>, PortError> {
        if self.sent.elapsed() < self.delay {
            return Ok(None);
        }
        self.port.recv_scatter(parts)
    }

    fn send(&mut self, frame: &TxFrame<'_>) -> Result<(), PortError> {
        self.sent = Instant::now();
        self.port.send(frame)
    }

    fn counters(&self) -> &PortCounters {
        self.port.counters()
    }
}

/// A port that keeps the headers of what its engine sends.
pub(crate) struct Watched<P> {
    pub(crate) port: P,
    pub(crate) seen: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl<P: Port> Port for Watched<P> {
    fn capabilities(&self) -> &Capabilities {
        self.port.capabilities()
    }

    fn recv_scatter(&mut self, parts: &mut [IoSliceMut<'_>]) -> Result<Option<RxMeta>, PortError> {
        self.port.recv_scatter(parts)
    }

    fn send(&mut self, frame: &TxFrame<'_>) -> Result<(), PortError> {
        if let Ok(mut seen) = self.seen.lock() {
            seen.push(frame.headers.to_vec());
        }
        self.port.send(frame)
    }

    fn counters(&self) -> &PortCounters {
        self.port.counters()
    }
}
