//! NewReno's window (RFC 5681), counted in bytes (RFC 3465).
//!
//! Owns [`NewReno`]; `congestion/mod.rs` calls it. Its recovery is that of
//! `recovery.rs`.

use super::{Algorithm, MAX_CWND, Window};
use crate::time::Instant;

/// The state of NewReno.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NewReno {
    /// Bytes acknowledged since the window last grew (bytes_acked of RFC 3465).
    counted: u32,
}

impl NewReno {
    pub(crate) const fn new() -> NewReno {
        NewReno { counted: 0 }
    }
}

impl Algorithm for NewReno {
    /// RFC 5681 section 3.1: slow start below the threshold, then one segment for
    /// each window of bytes acknowledged (RFC 3465 section 2.1).
    fn on_ack(&mut self, w: &mut Window, acked: u32, _srtt: u64, _now: Instant) {
        let mut acked = acked;
        if w.in_slow_start() {
            acked = w.slow_start(acked);
        }
        self.counted = self.counted.saturating_add(acked);
        while self.counted >= w.cwnd {
            self.counted -= w.cwnd;
            w.cwnd = (w.cwnd + w.mss).min(MAX_CWND);
        }
    }

    /// RFC 5681 equation 4.
    fn on_loss(&mut self, _w: &mut Window, in_flight: u32) -> u32 {
        self.counted = 0;
        in_flight / 2
    }

    fn restart(&mut self) {
        self.counted = 0;
    }
}
