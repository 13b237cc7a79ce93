//! What a UDP socket is bound to, and whom it has as its peer.
//!
//! Called by `binding`, by `requests` as it is connected or disconnected, and by `datagram` for one
//! that sends before it is bound.

use crate::demux::{Ports, Reuse};
use crate::request_error::RequestError;
use crate::socket::{Kind, Socket, any_ip, as_family};
use longshore_tcp::Instant;
use std::net::{IpAddr, SocketAddr};

impl Socket {
    /// It, a datagram socket of this key, has no peer any more, nor what it had with it. Returns
    /// the address that it has left.
    pub(crate) fn disconnect_datagram(&mut self, key: u32, udp: &mut Ports) -> SocketAddr {
        let v6 = self.options.ipv6;
        let Some(local) = self.bound.local() else {
            let kept = self.kind.without_port();
            return as_family(kept.unwrap_or(SocketAddr::new(any_ip(v6), 0)), v6);
        };
        let given = self.bound.given();
        let ip = if given.address() {
            local.ip()
        } else {
            any_ip(v6)
        };
        if let Kind::Datagram(d) = &mut self.kind {
            d.peer = None;
            d.of_ipv6 = None;
            d.without_port = Some(ip).filter(|_| !given.port());
        }
        if given.port() {
            udp.disconnect(local.port(), key);
            let kept = SocketAddr::new(ip, local.port());
            self.bound.set_local(kept);
            if !given.address() {
                udp.move_to(kept, key);
            }
            return as_family(kept, v6);
        }
        // A port that nobody has chosen goes with the peer, and so it is with one that `bind` has
        // chosen beside an address (Linux, `__udp_disconnect`).
        self.bound.take_local();
        udp.release(local.port(), key);
        as_family(SocketAddr::new(ip, 0), v6)
    }

    /// Where it, which is at `bound`, is towards `to`: what a peer of one version of IP has given it
    /// is none of the other's. As Linux has it, one of IPv4 keeps it from those of IPv6 if it has come
    /// first.
    #[inline]
    pub(crate) fn local_towards(&self, bound: SocketAddr, to: IpAddr) -> SocketAddr {
        let Kind::Datagram(d) = &self.kind else {
            return bound;
        };
        if self.bound.given().address() || bound.is_ipv4() && d.of_ipv6.is_none() {
            return bound;
        }
        let ip = match (bound.ip(), to.to_canonical()) {
            (IpAddr::V6(_), IpAddr::V4(_)) => any_ip(true),
            (IpAddr::V4(_), IpAddr::V6(_)) => d.of_ipv6.map_or(bound.ip(), IpAddr::V6),
            _ => return bound,
        };
        SocketAddr::new(ip, bound.port())
    }

    /// It, a datagram socket of this key which was at `was`, is at `now`, which a peer has given it.
    /// Returns the address that it shows.
    pub(crate) fn stay_datagram(
        &mut self,
        key: u32,
        (was, now): (SocketAddr, SocketAddr),
        udp: &mut Ports,
    ) -> SocketAddr {
        let Kind::Datagram(d) = &mut self.kind else {
            return now;
        };
        match (was.ip(), now.ip()) {
            (IpAddr::V6(own), IpAddr::V4(_)) if !own.is_unspecified() => d.of_ipv6 = Some(own),
            (_, IpAddr::V6(_)) => d.of_ipv6 = None,
            _ => {}
        }
        let shown = d.of_ipv6.map_or(now.ip(), IpAddr::V6);
        if was != now {
            self.bound.set_local(now);
            udp.move_to(now, key);
        }
        SocketAddr::new(shown, now.port())
    }

    /// Binds it, a datagram socket of this key and of `user`, to any port.
    pub(crate) fn bind_datagram(
        &mut self,
        key: u32,
        udp: &mut Ports,
        user: u32,
        now: Instant,
    ) -> Result<(), RequestError> {
        let (v6, v6_only) = (self.options.ipv6, self.options.v6_only);
        let ip = self
            .kind
            .without_port()
            .map_or(any_ip(v6), |kept| kept.ip());
        let reuse = Reuse {
            over_v4: !v6,
            ..self.options.reuse
        };
        let seed = (key, now.0);
        let shared = || udp.pick_shared(seed, ip, key, reuse, v6_only, user);
        let port = udp.pick(seed).or_else(shared);
        let local = SocketAddr::new(ip, port.ok_or(RequestError::NoPortForDatagrams)?);
        if !udp.bind(local, key, reuse, v6_only, user) {
            return Err(RequestError::AddressInUse);
        }
        self.bound.set_local(local);
        self.kind.become_datagram();
        Ok(())
    }
}
