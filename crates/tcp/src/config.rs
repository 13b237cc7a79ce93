//! The configuration of a connection: options fixed at the handshake, and those that the
//! user may change at any time.
//!
//! Owns [`Config`]. The engine fills one from the socket's options and passes it to
//! `Tcb::connect` or `Tcb::accept`; the block keeps a copy, which the setters of `Tcb`
//! change afterwards. Defaults are Linux's, since programs expect them.

use crate::codec::{saved_enum, saved_part};
use crate::congestion::Congestion;

/// Explicit congestion notification: Linux's net.ipv4.tcp_ecn, with its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum EcnMode {
    /// Neither requested nor accepted.
    Off = 0,
    /// RFC 3168, requested and accepted.
    Request = 1,
    /// RFC 3168, accepted when the peer requests it.
    #[default]
    Accept = 2,
    /// Accurate feedback (RFC 9768), requested and accepted.
    RequestAccurate = 3,
    /// RFC 3168 is requested; accurate feedback is accepted when the peer requests it.
    RequestAcceptAccurate = 4,
    /// Accurate feedback, accepted when the peer requests it.
    AcceptAccurate = 5,
}

saved_enum!(EcnMode {
    Off = 0,
    Request = 1,
    Accept = 2,
    RequestAccurate = 3,
    RequestAcceptAccurate = 4,
    AcceptAccurate = 5,
});

impl EcnMode {
    /// The mode with this number, or `None`.
    #[must_use]
    pub const fn from_number(number: u8) -> Option<EcnMode> {
        Some(match number {
            0 => EcnMode::Off,
            1 => EcnMode::Request,
            2 => EcnMode::Accept,
            3 => EcnMode::RequestAccurate,
            4 => EcnMode::RequestAcceptAccurate,
            5 => EcnMode::AcceptAccurate,
            _ => return None,
        })
    }
}

/// When SYNs are answered by cookies (Linux's net.ipv4.tcp_syncookies).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum SynCookies {
    /// Never: SYNs that the queue has no room for are dropped.
    Off = 0,
    /// When the queue is full.
    #[default]
    OnOverflow = 1,
    /// Always.
    Always = 2,
}

saved_enum!(SynCookies {
    Off = 0,
    OnOverflow = 1,
    Always = 2,
});

impl SynCookies {
    /// The mode with this number, or `None`.
    #[must_use]
    pub const fn from_number(number: u8) -> Option<SynCookies> {
        Some(match number {
            0 => SynCookies::Off,
            1 => SynCookies::OnOverflow,
            2 => SynCookies::Always,
            _ => return None,
        })
    }
}

/// Keepalive probing (RFC 9293 section 3.8.4; SO_KEEPALIVE, TCP_KEEPIDLE,
/// TCP_KEEPINTVL, TCP_KEEPCNT).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keepalive {
    /// Whether idle connections are probed.
    pub enabled: bool,
    /// Idle time before the first probe, milliseconds.
    pub idle_ms: u32,
    /// Time between probes, milliseconds.
    pub interval_ms: u32,
    /// Unanswered probes before the connection is given up.
    pub probes: u8,
}

saved_part!(Keepalive {
    saved {
        enabled, idle_ms, interval_ms, probes,
    }
});

impl Default for Keepalive {
    fn default() -> Self {
        Keepalive {
            enabled: false,
            idle_ms: 7_200_000,
            interval_ms: 75_000,
            probes: 9,
        }
    }
}

/// What closing does with data that is not delivered yet (SO_LINGER).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Linger {
    /// Close in the background: everything written is still delivered. A lingering close
    /// with a positive time is the same to this crate; the caller waits for
    /// `Events::CLOSED` or `snd_acked`.
    #[default]
    Background,
    /// SO_LINGER with time 0: reset at once.
    Reset,
}

saved_enum!(Linger {
    Background = 0,
    Reset = 1,
});

/// The parameters of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Upper bound for both the advertised and the used MSS (TCP_MAXSEG), bytes; 0
    /// leaves it to the path.
    pub mss: u16,
    /// The addresses are IPv6, which determines header sizes and the minimum MTU.
    pub ipv6: bool,
    /// Offer and accept window scaling (RFC 7323 section 2).
    pub window_scaling: bool,
    /// Offer and accept timestamps (RFC 7323 section 3).
    pub timestamps: bool,
    /// Offer and accept selective acknowledgments (RFC 2018).
    pub sack: bool,
    /// Initial size of the receive buffer (SO_RCVBUF), bytes.
    pub rcvbuf: u32,
    /// Upper bound for the auto-tuning of `rcvbuf`; at most `rcvbuf` if the user has
    /// fixed the size. The window scale is chosen for this size. The default is the
    /// capacity of a host's stream, which is more than a path of 1 Gb/s and 100 ms holds.
    pub rcvbuf_max: u32,
    /// Upper bound of the advertised window (TCP_WINDOW_CLAMP), 0 if none.
    pub window_clamp: u32,
    /// Disable Nagle's algorithm (TCP_NODELAY).
    pub nodelay: bool,
    /// Send only full segments (TCP_CORK).
    pub cork: bool,
    /// Acknowledge without delay (TCP_QUICKACK).
    pub quickack: bool,
    /// Keepalive probing.
    pub keepalive: Keepalive,
    /// How long data may stay unacknowledged (TCP_USER_TIMEOUT, RFC 9293 section 3.8.3),
    /// milliseconds; 0 means that `retries` alone decides.
    pub user_timeout_ms: u32,
    /// Advertise the user timeout to the peer, and use the peer's where ours is 0 (RFC
    /// 5482; Linux does neither).
    pub user_timeout_option: bool,
    /// What closing does.
    pub linger: Linger,
    /// How long a closed connection waits in FIN-WAIT-2 (TCP_LINGER2),
    /// milliseconds.
    pub fin_wait_ms: u32,
    /// Congestion control.
    pub congestion: Congestion,
    /// What a listener does with SYNs beyond its queue.
    pub syn_cookies: SynCookies,
    /// A listener resets handshakes that find its accept queue full.
    pub abort_on_overflow: bool,
    /// Explicit congestion notification. DCTCP asks for it in any mode.
    pub ecn: EcnMode,
    /// The peer's urgent pointer points at the urgent byte and not at the one after it
    /// (RFC 9293 section 3.8.5 against RFC 6093 section 3.1; tcp_stdurg).
    pub urgent_names_itself: bool,
    /// Upper bound of the pacing rate (SO_MAX_PACING_RATE), bytes per second; `u64::MAX`
    /// for none.
    pub max_pacing_rate: u64,
    /// Detect a path that silently drops full segments, and probe for the size that it
    /// takes (RFC 4821; Linux's tcp_mtu_probing is 0 by default, this is its 1).
    pub mtu_probing: bool,
    /// Initial window in segments (RFC 6928: 10).
    pub initial_window: u8,
    /// Smallest number of packets in a batch that the port segments, if the window has
    /// room for twice as many (tcp_min_tso_segs).
    pub min_batch: u8,
    /// Restart from the initial window after an idle period (RFC 5681 section 4.1;
    /// tcp_slow_start_after_idle).
    pub slow_start_after_idle: bool,
    /// How often a SYN is retransmitted (TCP_SYNCNT; Linux's tcp_syn_retries).
    pub syn_retries: u8,
    /// How often a SYN-ACK is retransmitted (tcp_synack_retries).
    pub synack_retries: u8,
    /// How often data is retransmitted (tcp_retries2, R2 of RFC 9293 section 3.8.3).
    pub retries: u8,
    /// How often data is retransmitted on a connection that no program holds any more
    /// (tcp_orphan_retries).
    pub orphan_retries: u8,
}

saved_part!(Config {
    saved {
        mss, ipv6, window_scaling, timestamps, sack, rcvbuf, rcvbuf_max, window_clamp, nodelay,
        cork, quickack, keepalive, user_timeout_ms, user_timeout_option, linger, fin_wait_ms,
        congestion, syn_cookies, abort_on_overflow, ecn, urgent_names_itself, max_pacing_rate,
        mtu_probing, initial_window, min_batch, slow_start_after_idle, syn_retries,
        synack_retries, retries, orphan_retries,
    }
});

impl Default for Config {
    fn default() -> Self {
        Config {
            mss: 0,
            ipv6: false,
            window_scaling: true,
            timestamps: true,
            sack: true,
            rcvbuf: 128 * 1024,
            rcvbuf_max: 255 * 64 * 1024,
            window_clamp: 0,
            nodelay: false,
            cork: false,
            quickack: false,
            keepalive: Keepalive::default(),
            user_timeout_ms: 0,
            user_timeout_option: false,
            linger: Linger::Background,
            fin_wait_ms: 60_000,
            congestion: Congestion::default(),
            syn_cookies: SynCookies::default(),
            abort_on_overflow: false,
            ecn: EcnMode::default(),
            urgent_names_itself: false,
            max_pacing_rate: u64::MAX,
            mtu_probing: true,
            initial_window: 10,
            min_batch: 2,
            slow_start_after_idle: true,
            syn_retries: 6,
            synack_retries: 5,
            retries: 15,
            orphan_retries: 8,
        }
    }
}
