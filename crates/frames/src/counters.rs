//! Counters of a port: frames carried and dropped, always on.

/// Totals of one port since it was opened. Plain counters: the port is owned by
/// one thread, and readers get a copy from it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Frames passed to the engine. A coalesced frame counts once.
    pub rx_frames: u64,
    /// Bytes of those frames, link header included.
    pub rx_bytes: u64,
    /// Of `rx_frames`, those that carry several segments.
    pub rx_gso_frames: u64,
    /// Frames accepted from the engine. A frame still to be segmented counts once.
    pub tx_frames: u64,
    /// Bytes of those frames, link header included.
    pub tx_bytes: u64,
    /// Of `tx_frames`, those to be segmented by the port.
    pub tx_gso_frames: u64,
    /// How often `send` returned [`crate::PortError::Full`].
    pub tx_full: u64,
    /// System calls made to receive, including those without a frame.
    pub rx_calls: u64,
    /// System calls made to send.
    pub tx_calls: u64,
    /// Frames lost in the port, by reason.
    pub drops: Drops,
}

impl PortCounters {
    /// Counts a frame of `len` bytes passed to the engine.
    #[inline]
    pub fn received(&mut self, len: usize, gso: bool) {
        self.rx_frames += 1;
        self.rx_bytes += len as u64;
        self.rx_gso_frames += u64::from(gso);
    }

    /// Counts a frame of `len` bytes accepted from the engine.
    #[inline]
    pub fn sent(&mut self, len: usize, gso: bool) {
        self.tx_frames += 1;
        self.tx_bytes += len as u64;
        self.tx_gso_frames += u64::from(gso);
    }
}

/// Frames lost in a port, by reason; every reason is named here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Drops {
    /// Received, but longer than the buffer offered for it.
    pub rx_truncated: u64,
    /// Received with an invalid offload header.
    pub rx_bad_offload: u64,
    /// Received, but too short for a link header.
    pub rx_runt: u64,
    /// Dropped by the kernel because the socket's buffer was full. Queried from time to
    /// time, so it may lag behind.
    pub rx_overrun: u64,
    /// Sent, but the queue was full and the wire has no back-pressure (a simulated
    /// router's queue).
    pub queue_full: u64,
    /// Sent while the interface was down.
    pub link_down: u64,
    /// Dropped on purpose by a fault injector or a simulated wire.
    pub injected_loss: u64,
}

impl Drops {
    /// The reasons and their counts, in a fixed order, for printing.
    pub fn named(&self) -> [(&'static str, u64); 7] {
        [
            ("rx_truncated", self.rx_truncated),
            ("rx_bad_offload", self.rx_bad_offload),
            ("rx_runt", self.rx_runt),
            ("rx_overrun", self.rx_overrun),
            ("queue_full", self.queue_full),
            ("link_down", self.link_down),
            ("injected_loss", self.injected_loss),
        ]
    }

    /// The sum of all reasons.
    pub fn total(&self) -> u64 {
        self.named().iter().map(|(_, count)| count).sum()
    }
}
