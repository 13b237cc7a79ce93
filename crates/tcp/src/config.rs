//! The configuration of a connection: options fixed at the handshake, and those that the
//! user may change at any time.
//!
//! Owns [`Config`]; `parts` has those of its values that belong together. The engine fills one from
//! the socket's options and passes it to `Tcb::connect` or `Tcb::accept`; the block keeps a copy,
//! which the setters of `Tcb` change afterwards. Defaults are Linux's, since programs expect them.

mod parts;

use crate::codec::{saved_enum, saved_part};
use crate::congestion::Congestion;
pub use parts::{BurstConfig, DelayConfig, Overflow, ReceiveLimits, Retries};

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
    /// Sizes of the receive buffer.
    pub rcv: ReceiveLimits,
    /// Which segments wait for others.
    pub delay: DelayConfig,
    /// Keepalive probing.
    pub keepalive: Keepalive,
    /// How long data may stay unacknowledged (TCP_USER_TIMEOUT, RFC 9293 section 3.8.3),
    /// milliseconds; 0 means that [`Retries::data`] alone decides.
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
    /// What a listener does when its queues are full.
    pub overflow: Overflow,
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
    /// How much is sent at once.
    pub burst: BurstConfig,
    /// How often segments are retransmitted.
    pub retries: Retries,
}

saved_part!(Config {
    saved {
        mss, ipv6, window_scaling, timestamps, sack, rcv, delay, keepalive, user_timeout_ms,
        user_timeout_option, linger, fin_wait_ms, congestion, overflow, ecn,
        urgent_names_itself, max_pacing_rate, mtu_probing, burst, retries,
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
            rcv: ReceiveLimits::default(),
            delay: DelayConfig::default(),
            keepalive: Keepalive::default(),
            user_timeout_ms: 0,
            user_timeout_option: false,
            linger: Linger::Background,
            fin_wait_ms: 60_000,
            congestion: Congestion::default(),
            overflow: Overflow::default(),
            ecn: EcnMode::default(),
            urgent_names_itself: false,
            max_pacing_rate: u64::MAX,
            mtu_probing: true,
            burst: BurstConfig::default(),
            retries: Retries::default(),
        }
    }
}
