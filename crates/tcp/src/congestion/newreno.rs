//! NewReno's window (RFC 5681), counted in bytes (RFC 3465).
//!
//! Owns [`NewReno`]; `congestion/mod.rs` calls it. Recovery is in `recovery.rs`.

use super::{Ack, Algorithm, Kind, Window};

/// The state of NewReno.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NewReno {
    /// Bytes acknowledged since the window last grew (bytes_acked of RFC 3465).
    counted: u32,
}

impl NewReno {
    /// Congestion avoidance: one segment for each window of bytes acknowledged (RFC
    /// 5681 section 3.1, RFC 3465 section 2.1).
    pub(super) fn avoid(&mut self, w: &mut Window, acked: u32) {
        self.counted = self.counted.saturating_add(acked);
        while self.counted >= w.cwnd {
            self.counted -= w.cwnd;
            w.grow(w.mss);
        }
    }
}

impl Kind for NewReno {
    const NAME: &'static str = "reno";

    fn new() -> NewReno {
        NewReno { counted: 0 }
    }
}

impl Algorithm for NewReno {
    fn on_ack(&mut self, w: &mut Window, ack: &Ack) {
        self.avoid(w, ack.acked);
    }

    /// RFC 5681 equation 4.
    fn on_loss(&mut self, _w: &Window, window: u32) -> u32 {
        self.counted = 0;
        window / 2
    }

    fn on_timeout(&mut self) {
        self.counted = 0;
    }

    fn on_idle(&mut self) {
        self.counted = 0;
    }
}
