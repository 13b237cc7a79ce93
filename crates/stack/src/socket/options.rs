//! A socket's options: what the host may set, and what a connection is told of it.
//!
//! Owns [`Options`]; `packet_options` has those of its parts that are about IP and UDP.

use super::packet_options::{DatagramOptions, HeaderOptions, PathOptions};
use crate::address_pair::Service;
use crate::demux::Reuse;
use crate::request_error::RequestError;
use longshore_hostif::{BlockFlags, Interface, OpenFlags, OptionName};
use longshore_tcp::{Config, Congestion, FastOpenUse, Instant, Linger, Tcb};
use std::net::{IpAddr, SocketAddr};

/// A socket's options, as the host set them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Options {
    pub(crate) tcp: Config,
    pub(crate) reuse: Reuse,
    pub(crate) ipv6: bool,
    pub(crate) v6_only: bool,
    /// IP_BIND_ADDRESS_NO_PORT.
    pub(crate) address_alone: bool,
    pub(crate) defer_accept_s: u32,
    /// Milliseconds for which connections wait for data before they are handed over; 0 if they
    /// do not.
    pub(crate) accept_on_data_ms: u16,
    /// TCP_FASTOPEN: connections that may be open by a cookie alone.
    pub(crate) fast_open: u32,
    /// TCP_FASTOPEN_CONNECT.
    pub(crate) fast_open_connect: bool,
    /// Which ends use Fast Open here.
    pub(crate) fast_open_use: FastOpenUse,
    pub(crate) send_buffer: u32,
    /// What it may be tuned to.
    pub(crate) send_most: u32,
    /// TCP_NOTSENT_LOWAT, of which 0 and all ones are none.
    pub(crate) not_sent_lowat: u32,
    /// The program has set that; else it is the machine's (net.ipv4.tcp_notsent_lowat).
    pub(crate) not_sent_fixed: bool,
    /// SO_RCVLOWAT; 0 for none.
    pub(crate) receive_lowat: u32,
    /// The program has set it, so it is not tuned.
    pub(crate) send_fixed: bool,
    pub(crate) receive_buffer: u32,
    /// What the packets of a connection have in their headers: datagrams bring their own.
    pub(crate) headers: HeaderOptions,
    /// What is done with packets that their paths do not take.
    pub(crate) path: PathOptions,
    /// What is done with datagrams.
    pub(crate) datagrams: DatagramOptions,
}

impl Options {
    pub(crate) fn new(flags: OpenFlags) -> Self {
        Self {
            tcp: Config::default(),
            reuse: Reuse {
                address: flags.contains(OpenFlags::REUSE_ADDRESS),
                port: flags.contains(OpenFlags::REUSE_PORT),
                ..Reuse::default()
            },
            ipv6: flags.contains(OpenFlags::IPV6),
            v6_only: flags.contains(OpenFlags::V6ONLY),
            address_alone: false,
            defer_accept_s: 0,
            accept_on_data_ms: 0,
            fast_open: 0,
            fast_open_connect: false,
            fast_open_use: FastOpenUse::default(),
            send_buffer: longshore_hostif::SEND_BUFFER,
            send_most: longshore_hostif::STREAM_MAX as u32,
            not_sent_lowat: 0,
            not_sent_fixed: false,
            receive_lowat: 0,
            send_fixed: false,
            receive_buffer: longshore_hostif::RECEIVE_BUFFER,
            headers: HeaderOptions::default(),
            path: PathOptions::default(),
            datagrams: DatagramOptions::new(flags.contains(OpenFlags::IPV6)),
        }
    }

    /// Sets one; the values are the host's claims, so they are brought into
    /// range rather than believed.
    pub(crate) fn set(&mut self, name: OptionName, value: u64) {
        use OptionName as O;
        let on = value != 0;
        let number = u32::try_from(value).unwrap_or(u32::MAX);
        let millis = |seconds: u32| seconds.min(32_767).saturating_mul(1000);
        let small = |v: u32| v.min(127) as u8;
        let most = longshore_hostif::STREAM_MAX as u32;
        match name {
            O::NoDelay => self.tcp.delay.nodelay = on,
            O::Cork => self.tcp.delay.cork = on,
            O::KeepAlive => self.tcp.keepalive.enabled = on,
            O::KeepIdle => self.tcp.keepalive.idle_ms = millis(number.max(1)),
            O::KeepInterval => self.tcp.keepalive.interval_ms = millis(number.max(1)),
            O::KeepCount => self.tcp.keepalive.probes = small(number.max(1)),
            O::UserTimeout => self.tcp.user_timeout_ms = number,
            O::ReceiveBuffer => {
                self.receive_buffer = number.clamp(2304, most);
                self.tcp.rcv.buffer = self.receive_buffer;
                self.tcp.rcv.buffer_max = self.receive_buffer;
            }
            O::SendBuffer => {
                self.send_buffer = number.clamp(4608, most);
                self.send_fixed = true;
            }
            O::NotSentLowat => {
                self.not_sent_lowat = number;
                self.not_sent_fixed = number != 0;
            }
            O::ReceiveLowWater => self.set_receive_lowat(number),
            // Kept with the socket, and of the socket.
            O::ReceiveMessages
            | O::ReceiveMessagesWithin
            | O::PortOf
            | O::SentKeys
            | O::StampSent => {}
            O::DeferAccept => self.defer_accept_s = number,
            O::AcceptOnData => self.accept_on_data_ms = number.min(60_000) as u16,
            O::QuickAck => self.tcp.delay.quickack = on,
            O::MaxSegment => self.tcp.mss = number.min(65_495) as u16,
            O::Congestion => {
                if let Some(c) = congestion_in(value) {
                    self.tcp.congestion = c;
                }
            }
            O::MaxPacingRate => self.tcp.max_pacing_rate = value,
            O::TypeOfService | O::TrafficClass | O::TimeToLive | O::HopLimit => {
                self.headers.set(name, number);
            }
            O::ReuseAddress => self.reuse.address = on,
            O::ReusePort => self.reuse.port = on,
            O::Interface => self.reuse.interface = Interface::from_raw(value),
            O::V6Only => self.v6_only = on,
            O::AddressAlone => self.address_alone = on,
            O::Linger2 => self.tcp.fin_wait_ms = millis(number),
            O::SynCount => self.tcp.retries.syn = small(number.max(1)),
            O::WindowClamp => self.tcp.rcv.window_clamp = number,
            O::PathMtu | O::PathMtu6 => self.path.set(name, number),
            O::UdpGro
            | O::GroupAll
            | O::GroupAll6
            | O::Stamped
            | O::ReceiveErrors
            | O::ReceiveErrors6 => self.datagrams.set(name, number),
            O::FastOpen => self.fast_open = number,
            O::FastOpenConnect => self.fast_open_connect = on,
        }
    }

    /// SO_RCVLOWAT. As in Linux, a receive buffer that is tuned, and a clamp of the window, become
    /// so large that what is waited for can come: half of the buffer is.
    fn set_receive_lowat(&mut self, bytes: u32) {
        self.receive_lowat = if bytes > 1 { bytes } else { 0 };
        let limits = &mut self.tcp.rcv;
        let wanted = bytes.saturating_mul(2);
        if limits.buffer < limits.buffer_max {
            let wanted = wanted.min(limits.buffer_max);
            limits.buffer = limits.buffer.max(wanted);
            self.receive_buffer = self.receive_buffer.max(wanted);
        }
        if limits.window_clamp != 0 {
            limits.window_clamp = limits.window_clamp.max(wanted);
        }
    }

    /// Brings a connection's options up to date after [`Options::set`].
    pub(crate) fn apply(&self, name: OptionName, tcb: &mut Tcb, now: Instant) {
        use OptionName as O;
        if name == O::MaxSegment {
            return tcb.segment_size().set_max_segment(self.tcp.mss);
        }
        let mut settings = tcb.settings();
        match name {
            O::NoDelay => settings.set_nodelay(self.tcp.delay.nodelay),
            O::Cork => settings.set_cork(self.tcp.delay.cork),
            O::KeepAlive | O::KeepIdle | O::KeepInterval | O::KeepCount => {
                settings.set_keepalive(self.tcp.keepalive, now);
            }
            O::UserTimeout => settings.set_user_timeout(self.tcp.user_timeout_ms),
            O::ReceiveBuffer => settings.set_rcvbuf(self.tcp.rcv.buffer),
            O::ReceiveLowWater => {
                settings.grow_rcvbuf(self.tcp.rcv.buffer);
                settings.set_window_clamp(self.tcp.rcv.window_clamp);
            }
            O::QuickAck => settings.set_quickack(self.tcp.delay.quickack),
            O::Congestion => settings.set_congestion(self.tcp.congestion, now),
            O::MaxPacingRate => settings.set_max_pacing_rate(self.tcp.max_pacing_rate),
            O::Linger2 => settings.set_fin_wait(self.tcp.fin_wait_ms),
            O::SynCount => settings.set_syn_retries(self.tcp.retries.syn),
            O::WindowClamp => settings.set_window_clamp(self.tcp.rcv.window_clamp),
            _ => {}
        }
    }

    /// What a connection to `remote` begins with.
    pub(crate) fn tcp_to(&self, remote: SocketAddr) -> Config {
        Config {
            ipv6: remote.is_ipv6(),
            ..self.tcp
        }
    }

    /// What a connection's packets to `to` are to have in their headers.
    #[inline]
    pub(crate) fn service(&self, to: IpAddr) -> Service {
        self.headers.service(to, self.path.keeps_segments_whole())
    }

    /// The destination of a socket with these options that names `peer`: an IPv4 address, if
    /// it is one mapped to IPv6.
    ///
    /// # Errors
    /// [`RequestError::Family`] for an IPv6 address on an IPv4 socket, and
    /// [`RequestError::Unreachable`] for an IPv4 one on a socket of IPv6 only, as in
    /// Linux.
    pub(crate) fn destination(&self, peer: SocketAddr) -> Result<SocketAddr, RequestError> {
        let ip = peer.ip().to_canonical();
        match ip {
            IpAddr::V6(_) if !self.ipv6 => Err(RequestError::Family),
            IpAddr::V4(_) if self.ipv6 && self.v6_only => Err(RequestError::Unreachable),
            ip => Ok(SocketAddr::new(ip, peer.port())),
        }
    }

    /// What closing does, from SO_LINGER's seconds.
    pub(crate) fn linger(seconds: Option<u32>) -> Linger {
        if seconds == Some(0) {
            Linger::Reset
        } else {
            Linger::Background
        }
    }

    /// The flags of the block of a connection that inherits them.
    pub(crate) fn block_flags(&self) -> BlockFlags {
        let v6 = if self.ipv6 {
            BlockFlags::IPV6
        } else {
            BlockFlags::empty()
        };
        v6 | BlockFlags::BOUND
    }
}

/// The congestion control whose name, with zeroes behind it, is in a word.
fn congestion_in(word: u64) -> Option<Congestion> {
    let name = word.to_le_bytes();
    let name = name.split(|b| *b == 0).next()?;
    core::str::from_utf8(name)
        .ok()
        .and_then(Congestion::by_name)
}

#[cfg(test)]
mod tests;
