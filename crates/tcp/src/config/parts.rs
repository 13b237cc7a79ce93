//! Parameters of a connection that belong together.
//!
//! Owns the parts of [`Config`](super::Config) that have more than one value each. They are
//! saved in the order in which their values stand here. Each has values of one size, so that a
//! connection's record gets no padding for them.

use super::SynCookies;
use crate::codec::saved_part;

/// Sizes of the receive buffer and of the window that is advertised, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiveLimits {
    /// Initial size of the receive buffer (SO_RCVBUF).
    pub buffer: u32,
    /// Upper bound for the auto-tuning of `buffer`; at most `buffer` if the user has
    /// fixed the size. The window scale is chosen for this size. The default is the
    /// capacity of a host's stream, which is more than a path of 1 Gb/s and 100 ms holds.
    pub buffer_max: u32,
    /// Upper bound of the advertised window (TCP_WINDOW_CLAMP), 0 if none.
    pub window_clamp: u32,
}

saved_part!(ReceiveLimits {
    saved { buffer, buffer_max, window_clamp }
});

impl ReceiveLimits {
    /// A buffer of `buffer` bytes, tuned to `buffer_max` at most.
    #[must_use]
    pub const fn new(buffer: u32, buffer_max: u32) -> ReceiveLimits {
        ReceiveLimits {
            buffer,
            buffer_max,
            window_clamp: 0,
        }
    }
}

impl Default for ReceiveLimits {
    fn default() -> Self {
        ReceiveLimits::new(128 * 1024, 255 * 64 * 1024)
    }
}

/// Which segments wait for others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DelayConfig {
    /// Disable Nagle's algorithm (TCP_NODELAY).
    pub nodelay: bool,
    /// Send only full segments (TCP_CORK).
    pub cork: bool,
    /// Acknowledge without delay (TCP_QUICKACK).
    pub quickack: bool,
}

saved_part!(DelayConfig {
    saved { nodelay, cork, quickack }
});

/// What a listener does when its queues are full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Overflow {
    /// What it does with SYNs beyond its queue.
    pub syn_cookies: SynCookies,
    /// It resets handshakes that find its accept queue full (tcp_abort_on_overflow).
    pub abort: bool,
}

saved_part!(Overflow {
    saved { syn_cookies, abort }
});

/// How much is sent at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BurstConfig {
    /// Initial window in segments (RFC 6928: 10).
    pub initial_window: u8,
    /// Smallest number of packets in a batch that the port segments, if the window has
    /// room for twice as many (tcp_min_tso_segs).
    pub min_batch: u8,
    /// Restart from the initial window after an idle period (RFC 5681 section 4.1;
    /// tcp_slow_start_after_idle).
    pub slow_start_after_idle: bool,
}

saved_part!(BurstConfig {
    saved { initial_window, min_batch, slow_start_after_idle }
});

impl BurstConfig {
    /// The default, but for an initial window of so many segments.
    #[must_use]
    pub const fn with_initial_window(segments: u8) -> BurstConfig {
        BurstConfig {
            initial_window: segments,
            min_batch: 2,
            slow_start_after_idle: true,
        }
    }
}

impl Default for BurstConfig {
    fn default() -> Self {
        BurstConfig::with_initial_window(10)
    }
}

/// How often segments that are not acknowledged are retransmitted before the connection is
/// given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retries {
    /// A SYN (TCP_SYNCNT; Linux's tcp_syn_retries).
    pub syn: u8,
    /// A SYN-ACK (tcp_synack_retries).
    pub syn_ack: u8,
    /// Data (tcp_retries2, R2 of RFC 9293 section 3.8.3). The connection is given up earlier
    /// when the time has passed that so many take with the shortest timeout of 200 ms, as in
    /// Linux: 924.6 s for 15.
    pub data: u8,
    /// Data of a connection that no program holds any more (tcp_orphan_retries), likewise:
    /// 102.2 s for 8.
    pub orphan: u8,
}

saved_part!(Retries {
    saved { syn, syn_ack, data, orphan }
});

impl Default for Retries {
    fn default() -> Self {
        Retries {
            syn: 6,
            syn_ack: 5,
            data: 15,
            orphan: 8,
        }
    }
}
