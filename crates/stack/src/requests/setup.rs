//! Making a socket what it is to be: opened, bound, listening, connecting.
//!
//! Owns [`Setup`]; requests call it, and binds that are done once more at the end of a turn.

use super::From;
use crate::accept_queue::AcceptQueue;
use crate::access::Transport;
use crate::admission::Admission;
use crate::audience::Audience;
use crate::binding::Binding;
use crate::counters::{Counters, EngineDrop};
use crate::demux::Flow;
use crate::endpoints::Endpoints;
use crate::fast_open::new_fast_open;
use crate::host::MOST_BACKLOG;
use crate::link::Link;
use crate::local_ports::LocalPorts;
use crate::request_error::RequestError;
use crate::settings::Settings;
use crate::socket::{Connection, Given, Kind, Listening, Options, Socket, any_ip, as_family};
use crate::transfers::Transfers;
use longshore_hostif::adapter::ReceiveStream;
use longshore_hostif::{Address, OpenFlags, SocketId, SocketKind};
use longshore_tcp::{Instant, Listener, Tcb};
use std::net::SocketAddr;

/// Opens, binds and connects sockets: borrows them with the tables of their addresses, their
/// sessions, the link that they connect over, and what the operator has chosen for new ones.
pub(crate) struct Setup<'a> {
    pub(crate) endpoints: &'a mut Endpoints,
    pub(crate) link: &'a mut Link,
    pub(crate) settings: &'a mut Settings,
    pub(crate) counters: &'a mut Counters,
    pub(crate) now: Instant,
}

impl Setup<'_> {
    /// What moves bytes from one socket to another.
    pub(super) fn transfers(&mut self) -> Transfers<'_> {
        self.endpoints.transfers(self.counters, self.now)
    }

    /// What lets connections in, and ends them.
    pub(super) fn admission(&mut self) -> Admission<'_> {
        Admission {
            endpoints: self.endpoints,
            link: self.link,
            settings: self.settings,
            counters: self.counters,
            now: self.now,
        }
    }

    /// Makes a socket for a block that its program has taken.
    pub(crate) fn open(
        &mut self,
        from: From,
        id: SocketId,
        kind: SocketKind,
        flags: OpenFlags,
    ) -> Result<(), RequestError> {
        let mut options = Options::new(flags);
        if let Some(hops) = self.link.auto.hop_limit() {
            options.headers.set_hop_limit(hops);
        }
        let settings = self.settings.host.defaults(self.now);
        let ports = settings.map_or(LocalPorts::default(), |s| s.local_ports);
        let reserved = settings.and_then(|_| self.settings.host.reserved_ports());
        self.endpoints.demux.use_local_ports(ports, reserved);
        self.endpoints.demux.tcp.autobind_reuse = settings.is_some_and(|s| s.autobind_reuse);
        if kind == SocketKind::Stream
            && let Some(settings) = settings
        {
            options.tcp = settings.tcp;
            options.fast_open_use = settings.fast_open;
            options.send_buffer = settings.send_buffer;
            options.send_most = settings.send_most;
            options.not_sent_lowat = settings.not_sent_lowat;
        }
        let wanted = self
            .endpoints
            .sessions
            .get(from.session)
            .and_then(|s| s.congestion);
        let wanted = wanted.or(self.settings.congestion);
        options.tcp.congestion = wanted.unwrap_or(options.tcp.congestion);
        options.tcp.ecn = self.settings.ecn.unwrap_or(options.tcp.ecn);
        options.tcp.user_timeout_option = self.settings.user_timeout_option;
        let s = self
            .endpoints
            .sessions
            .get_mut(from.session)
            .ok_or(RequestError::NoSocket)?;
        if !s.host.blocks().has(id.index) || s.key(id.index).is_some() {
            return Err(RequestError::NoSocket);
        }
        let Some(share) = s.take_socket_share() else {
            self.endpoints
                .sessions
                .refuse_socket(from, id, self.counters);
            return Ok(());
        };
        if options.send_buffer != longshore_hostif::SEND_BUFFER {
            // Unless the program has set it meanwhile, of which we are told next.
            s.host
                .blocks()
                .suggest_send_limit(id.index, options.send_buffer);
        }
        let mut socket = Socket::new(
            id,
            from.session,
            Some(from.channel),
            options,
            Kind::Idle(kind),
        );
        socket.share = share;
        let key = self.endpoints.sockets.insert(socket);
        s.enter(id, key);
        Ok(())
    }

    /// The socket of this key, with what binds it.
    fn binding(&mut self, key: u32) -> Result<(&mut Socket, Binding<'_>), RequestError> {
        let socket = self
            .endpoints
            .sockets
            .get_mut(key)
            .ok_or(RequestError::NoSocket)?;
        let binding = Binding {
            demux: &mut self.endpoints.demux,
            link: self.link,
            access: &self.settings.access,
            user: self
                .endpoints
                .sessions
                .get(socket.session)
                .map_or(0, |s| s.uid),
            now: self.now,
        };
        Ok((socket, binding))
    }

    /// Binds a socket; port 0 asks for any.
    pub(crate) fn bind(&mut self, key: u32, local: Address) -> Result<SocketAddr, RequestError> {
        let (socket, mut binding) = self.binding(key)?;
        let bound = binding.bind(key, socket, local);
        self.count_denied(bound)
    }

    /// As `bind`, of one that is to have a port, whatever its program has said of that.
    fn bind_with_port(&mut self, key: u32, local: Address) -> Result<SocketAddr, RequestError> {
        let (socket, mut binding) = self.binding(key)?;
        let alone = std::mem::take(&mut socket.options.address_alone);
        let bound = binding.bind(key, socket, local);
        socket.options.address_alone = alone;
        self.count_denied(bound)
    }

    /// Counts what the operator's rules have not let a program do.
    fn count_denied(
        &mut self,
        done: Result<SocketAddr, RequestError>,
    ) -> Result<SocketAddr, RequestError> {
        if matches!(done, Err(RequestError::Denied)) {
            self.counters.drop(EngineDrop::AccessDenied);
        }
        done
    }

    /// `listen`: a socket that is not bound gets any port.
    pub(super) fn listen(&mut self, key: u32, backlog: u32) -> Result<(), RequestError> {
        let socket = self
            .endpoints
            .sockets
            .get(key)
            .ok_or(RequestError::NoSocket)?;
        let v6 = socket.options.ipv6;
        if matches!(socket.kind, Kind::Idle(SocketKind::Stream)) && socket.bound.local().is_none() {
            let any = SocketAddr::new(any_ip(v6), 0);
            let at = socket.bound.address().unwrap_or(any);
            self.bind_with_port(key, at.into())?;
        } else if matches!(&socket.kind, Kind::Listener(l) if l.shut)
            && !socket.bound.given().port()
        {
            let (socket, mut binding) = self.binding(key)?;
            binding.bind_shut(key, socket)?;
        }
        let settings = self.settings.host.defaults(self.now);
        let backlog = backlog.min(settings.map_or(MOST_BACKLOG, |s| s.most_backlog));
        let socket = self
            .endpoints
            .sockets
            .get_mut(key)
            .ok_or(RequestError::NoSocket)?;
        let local = socket.bound.local().ok_or(RequestError::Invalid)?;
        match &mut socket.kind {
            Kind::Idle(SocketKind::Stream) => {
                if !self.endpoints.demux.tcp.listen(local, key) {
                    return Err(RequestError::AddressInUse);
                }
                socket.kind = Kind::Listener(Listening {
                    listener: new_listener(backlog, &socket.options),
                    fast_open: new_fast_open(backlog, &socket.options),
                    rcv: ReceiveStream::EMPTY,
                    rcv_edge: 0,
                    rcv_consumed: 0,
                    queue: AcceptQueue::default(),
                    half_open: self.endpoints.half_open.begin_queue(key),
                    audience: Audience::new(),
                    shut: false,
                });
                Ok(())
            }
            Kind::Listener(l) => {
                if l.shut && !self.endpoints.demux.tcp.listen(local, key) {
                    return Err(RequestError::AddressInUse);
                }
                l.shut = false;
                l.listener.set_backlog(backlog);
                Ok(())
            }
            _ => Err(RequestError::Invalid),
        }
    }

    /// `connect`, and what it does to a UDP socket.
    pub(super) fn connect(&mut self, key: u32, peer: Address) -> Result<SocketAddr, RequestError> {
        let socket = self
            .endpoints
            .sockets
            .get_mut(key)
            .ok_or(RequestError::NoSocket)?;
        let is_datagram = matches!(
            socket.kind,
            Kind::Idle(SocketKind::Datagram) | Kind::Datagram(_)
        );
        if peer == Address::NONE && is_datagram {
            return Ok(socket.disconnect_datagram(key, &mut self.endpoints.demux.udp));
        }
        let peer = peer.get().ok_or(RequestError::Invalid)?;
        match &mut socket.kind {
            Kind::Idle(SocketKind::Stream) => self.open_connection(key, peer),
            // A connection that failed or is over may be tried again on the same
            // socket, from the same address if it was bound.
            Kind::Stream(c) if c.is_over => {
                self.unbind_automatic(key)?;
                self.open_connection(key, peer)
            }
            Kind::Pair(p) if p.dead.is_some() => {
                if !self.transfers().part_from_other_end(key) {
                    return Err(RequestError::TooManySockets);
                }
                self.endpoints
                    .sockets
                    .leave_table(key, &mut self.endpoints.demux);
                self.unbind_automatic(key)?;
                self.open_connection(key, peer)
            }
            Kind::Idle(SocketKind::Datagram) | Kind::Datagram(_) => {
                let (socket, mut binding) = self.binding(key)?;
                let connected = binding.connect_datagram(key, socket, peer);
                self.count_denied(connected)
            }
            Kind::Stream(_) | Kind::Pair(_) => Err(RequestError::AlreadyConnected),
            Kind::Listener(_) => Err(RequestError::Invalid),
        }
    }

    /// The active open.
    fn open_connection(&mut self, key: u32, peer: SocketAddr) -> Result<SocketAddr, RequestError> {
        let socket = self
            .endpoints
            .sockets
            .get(key)
            .ok_or(RequestError::NoSocket)?;
        let (options, bound) = (socket.options, socket.bound.local());
        let at = socket.bound.address();
        let remote = self.remote_of(&options, peer)?;
        let (_, mut binding) = self.binding(key)?;
        let local = binding.local_for(key, at, remote)?;
        let flow = Flow::new(local, remote);
        if self.endpoints.demux.is_taken(&flow) {
            return Err(RequestError::NoPortLeft);
        }
        if self.settings.cut_through && self.link.addresses.contains(remote.ip()) {
            self.admission().open_pair(key, local, remote)?;
        } else {
            self.open_over_link(key, &options, local, remote)?;
        }
        self.endpoints.demux.tcp.stay_at(key, bound, local);
        // One that was refused within the engine gives it back at the end of the turn.
        if bound.is_none()
            && let Some(socket) = self.endpoints.sockets.get_mut(key)
        {
            let options = &socket.options;
            socket.bound.hold(true, options, &mut self.endpoints.demux);
        }
        Ok(as_family(local, options.ipv6))
    }

    /// The address that a socket of these options connects to where its program names `peer`.
    fn remote_of(
        &mut self,
        options: &Options,
        peer: SocketAddr,
    ) -> Result<SocketAddr, RequestError> {
        let remote = options.destination(peer)?;
        let to = self.link.addresses.own_for_wildcard(remote.ip());
        let remote = SocketAddr::new(to, remote.port());
        if !self.settings.access.may_connect(Transport::Tcp, remote) {
            self.counters.drop(EngineDrop::AccessDenied);
            return Err(RequestError::Denied);
        }
        if to.is_multicast() || self.link.addresses.is_for_all(to) {
            return Err(RequestError::Unreachable);
        }
        Ok(remote)
    }

    /// Opens a connection to a host on the link, or behind it: its SYN is sent at the end of the
    /// turn.
    fn open_over_link(
        &mut self,
        key: u32,
        options: &Options,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> Result<(), RequestError> {
        let (now, server) = (self.now, remote.ip());
        let mss = self.link.mss_to(server, now);
        let demux = &mut self.endpoints.demux;
        let iss = demux.initial_sequence(local, remote, now);
        let offset = demux.timestamp_offset(local, remote);
        let mut tcb = Tcb::connect(&options.tcp_to(remote), mss, iss, offset, now);
        if options.fast_open_connect {
            // Its SYN carries the first data, if there is a cookie, or asks for one.
            let cache = &mut self.link.fast_open;
            if let Some(hop) = cache.mode_for(server, options.fast_open_use, now) {
                tcb.syn_data().start(hop, true);
            }
        }
        self.endpoints.demux.insert(Flow::new(local, remote), key);
        self.counters.tcp.active_opens += 1;
        self.transfers().let_received_go(key);
        let socket = self
            .endpoints
            .sockets
            .get_mut(key)
            .ok_or(RequestError::NoSocket)?;
        socket.kind = Kind::Stream(Connection::new(tcb, local, remote, None));
        socket.bound.set_local(local);
        socket.apply_widest_window(&self.endpoints.sessions);
        self.endpoints.sockets.touch(key);
        Ok(())
    }

    /// A socket whose connection was not made is not bound, but for what its program has chosen:
    /// the next attempt gets a port of its own.
    fn unbind_automatic(&mut self, key: u32) -> Result<(), RequestError> {
        let socket = self
            .endpoints
            .sockets
            .get_mut(key)
            .ok_or(RequestError::NoSocket)?;
        socket.bound.give_port_back(key, &mut self.endpoints.demux);
        if socket.bound.given().port() {
            let v6 = socket.options.ipv6;
            socket
                .bound
                .leave_address(v6, key, &mut self.endpoints.demux);
            return Ok(());
        }
        let (address, bound) = (socket.bound.given().address(), socket.bound.take_local());
        if let Some(bound) = bound.filter(|_| address) {
            self.transfers().let_received_go(key);
            let socket = self
                .endpoints
                .sockets
                .get_mut(key)
                .ok_or(RequestError::NoSocket)?;
            socket.kind = Kind::Idle(SocketKind::Stream);
            // The next port is that of the next connection.
            let same_address = SocketAddr::new(bound.ip(), 0);
            socket.bound.bind(same_address, Given::of(same_address));
        }
        Ok(())
    }
}

fn new_listener(backlog: u32, options: &Options) -> Listener {
    let mut listener = Listener::new(backlog);
    listener.set_defer_accept(options.defer_accept_s);
    listener.set_cookies(options.tcp.overflow.syn_cookies);
    listener.set_abort_on_overflow(options.tcp.overflow.abort);
    listener
}
