//! What a stack asks of the machine that its programs run on: the settings that new sockets
//! begin with and the time of day. Never for a packet of a connection.
//!
//! The engine answers for the kernel (`kernel`); simulations have a [`Host`] of their own.

use crate::local_ports::{LocalPorts, ReservedPorts};
use longshore_tcp::{Config, FastOpenKey, FastOpenUse, Instant};
use std::sync::Arc;

/// What new sockets start from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Defaults {
    /// Of a connection.
    pub tcp: Config,
    /// The ends that use Fast Open.
    pub fast_open: FastOpenUse,
    /// Bytes that the send buffer holds at first.
    pub send_buffer: u32,
    /// Bytes that it may be tuned to.
    pub send_most: u32,
    /// The low-water mark of what is not sent of a stream whose program has set none
    /// (net.ipv4.tcp_notsent_lowat), bytes; 0 for none.
    pub not_sent_lowat: u32,
    /// The most connections that may wait at a listener, whatever its program asks for
    /// (net.core.somaxconn).
    pub most_backlog: u32,
    /// The first port that everybody may bind.
    pub unprivileged_from: u16,
    /// The ports for sockets that ask for none in particular, from then on and of all
    /// transports.
    pub local_ports: LocalPorts,
    /// Whether streams with SO_REUSEADDR that ask for no port in particular share one where there is
    /// no other (net.ipv4.ip_autobind_reuse).
    pub autobind_reuse: bool,
}

impl Default for Defaults {
    fn default() -> Self {
        Defaults {
            tcp: Config::default(),
            fast_open: FastOpenUse::default(),
            send_buffer: longshore_hostif::SEND_BUFFER,
            send_most: longshore_hostif::STREAM_MAX as u32,
            not_sent_lowat: 0,
            most_backlog: MOST_BACKLOG,
            unprivileged_from: UNPRIVILEGED_FROM,
            local_ports: LocalPorts::default(),
            autobind_reuse: false,
        }
    }
}

/// The most connections that may wait at a listener, unless the host says otherwise: Linux's
/// default since 5.4.
pub(crate) const MOST_BACKLOG: u32 = 4096;

/// The first port that everybody may bind, unless the host says otherwise.
pub(crate) const UNPRIVILEGED_FROM: u16 = 1024;

/// A machine, as a stack sees it.
pub trait Host: Send {
    /// What new sockets start from at this time; `None` if the machine's settings are not
    /// followed, and ours hold.
    fn defaults(&mut self, now: Instant) -> Option<Defaults>;

    /// Ports that are in none of those [`Defaults`] for those who ask for none in particular, as of
    /// the last call of [`defaults`](Self::defaults); `None` if the machine reserves none. What has
    /// not changed is the one that was returned before.
    fn reserved_ports(&self) -> Option<&Arc<ReservedPorts>> {
        None
    }

    /// The keys that Fast Open's cookies are made of, the one in use and the last one;
    /// `None` if the machine's settings are not followed.
    fn fast_open_keys(&self) -> Option<(Option<FastOpenKey>, Option<FastOpenKey>)>;

    /// The time of day, in nanoseconds since 1970: for programs that ask when a datagram
    /// came, and nothing else.
    fn time_of_day_ns(&self) -> u64;
}
