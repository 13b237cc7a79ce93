//! What a connection can be told: options fixed at the handshake, and those that
//! the user may change at any time.
//!
//! Owns [`Config`]. The engine fills one from the socket's options and gives it to
//! `Tcb::connect` or `Tcb::accept`; the block keeps a copy, and the setters on
//! `Tcb` change it afterwards. Defaults are Linux's, since the programs above
//! expect them.

use crate::codec::{saved_enum, saved_part};
use crate::congestion::Congestion;

/// Explicit congestion notification: Linux's net.ipv4.tcp_ecn, with its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum EcnMode {
    /// Neither asked for nor given.
    Off = 0,
    /// RFC 3168, asked for and given.
    Request = 1,
    /// RFC 3168, given to those who ask.
    #[default]
    Accept = 2,
    /// Accurate feedback (RFC 9768), asked for and given.
    RequestAccurate = 3,
    /// RFC 3168 is asked for, accurate feedback given to those who ask.
    RequestAcceptAccurate = 4,
    /// Accurate feedback, given to those who ask.
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
    /// The mode of this number, `None` if there is none.
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
    /// Never: SYNs beyond the queue are dropped.
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
    /// The mode of this number, `None` if there is none.
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

/// What closing does with what is not yet delivered (SO_LINGER).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Linger {
    /// Close in the background: everything written is still delivered. A lingering
    /// close with a positive time is the same to this machine; the caller waits for
    /// `Events::CLOSED` or `snd_acked` as long as it likes.
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
    /// The addresses are those of IPv6: what that says of the path counts.
    pub ipv6: bool,
    /// Offer and accept window scaling (RFC 7323 section 2).
    pub window_scaling: bool,
    /// Offer and accept timestamps (RFC 7323 section 3).
    pub timestamps: bool,
    /// Offer and accept selective acknowledgments (RFC 2018).
    pub sack: bool,
    /// Bytes that the receive stream may hold unread (SO_RCVBUF) at the start.
    pub rcvbuf: u32,
    /// How far auto-tuning may raise `rcvbuf`; equal to `rcvbuf` (or below) when
    /// the user fixed it. The window scale is chosen for it. The default is what a
    /// stream of the host may hold, and more than a path of 1 Gb/s and 100 ms does.
    pub rcvbuf_max: u32,
    /// Upper bound of the advertised window (TCP_WINDOW_CLAMP), 0 if none.
    pub window_clamp: u32,
    /// No Nagle (TCP_NODELAY).
    pub nodelay: bool,
    /// Full segments only (TCP_CORK).
    pub cork: bool,
    /// Acknowledge at once (TCP_QUICKACK).
    pub quickack: bool,
    /// Keepalive probing.
    pub keepalive: Keepalive,
    /// How long data may stay unacknowledged (TCP_USER_TIMEOUT, RFC 9293 section
    /// 3.8.3), milliseconds; 0 for `retries` alone.
    pub user_timeout_ms: u32,
    /// Tell the peer of it, and go by what the peer tells where it is 0 (RFC 5482; Linux
    /// does neither).
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
    /// The peer's urgent pointer names the urgent byte and not the one after it
    /// (RFC 9293 section 3.8.5 against RFC 6093 section 3.1; tcp_stdurg).
    pub urgent_names_itself: bool,
    /// Upper bound of the pace of sending (SO_MAX_PACING_RATE), bytes per second;
    /// `u64::MAX` for none.
    pub max_pacing_rate: u64,
    /// Suspect a path that swallows full segments without a word, and probe for what
    /// it takes (RFC 4821; Linux's tcp_mtu_probing is 0 by default, this is its 1).
    pub mtu_probing: bool,
    /// Initial window in segments (RFC 6928: 10).
    pub initial_window: u8,
    /// Packets in a batch for the port to cut, at least, where the window has room for
    /// twice as many (tcp_min_tso_segs).
    pub min_batch: u8,
    /// After an idle time the congestion window starts again from the initial window
    /// (RFC 5681 section 4.1; tcp_slow_start_after_idle).
    pub slow_start_after_idle: bool,
    /// How often a SYN is repeated (TCP_SYNCNT; Linux's tcp_syn_retries).
    pub syn_retries: u8,
    /// How often a SYN-ACK is repeated (tcp_synack_retries).
    pub synack_retries: u8,
    /// How often data is repeated (tcp_retries2, R2 of RFC 9293 section 3.8.3).
    pub retries: u8,
    /// The same for a connection that no program holds any more
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
