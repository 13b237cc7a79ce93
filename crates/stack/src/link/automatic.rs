//! Addresses and routers that nobody has typed: from a DHCP server, and from what routers
//! advertise.
//!
//! Owns [`AutomaticState`], the two state machines of `net` with what they have brought so far.
//! `link` and `v6` hand in what comes for them and call [`Link::poll_automatic`] when
//! it is time; what changes here changes the link's addresses and routes, and the engine
//! tells its programs. `acquire` in the engine waits for the first address.

use crate::address_pair::{AddressPair, Service};
use crate::counters::{Counters, EngineDrop};
use crate::link::local_addresses::LocalAddresses6;
use crate::link::routing::{AddressError, everything, routes};
use crate::link::{Link, NextHop, UdpForm, net_time};
use crate::secrets::{Purpose, Secrets};
use longshore_frames::{Capabilities, LinkKind};
use longshore_net::dhcp::{Action, Client, Lease, Message};
use longshore_net::route::Route;
use longshore_net::router::{Advert, Routers};
use longshore_net::stable::Identifiers;
use longshore_net::{Cidr, arp, ndp};
use longshore_tcp::Instant;
use longshore_wire::MacAddr;
use longshore_wire::arp::ArpPacket;
use longshore_wire::dhcp::{CLIENT_PORT, Reply, SERVER_PORT};
use longshore_wire::icmpv6::{Icmpv6, NdpOptions};
use longshore_wire::udp::UdpHeader;
use std::io::IoSlice;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Which addresses are to be found out.
#[derive(Debug, Clone, Default)]
pub struct Automatic {
    /// Ask a DHCP server for one of IPv4, as the client of this identifier: up to 32
    /// bytes, the same each time (RFC 4361), and another for each engine on a link.
    pub dhcp: Option<Vec<u8>>,
    /// Make those of IPv6 for the prefixes that routers advertise (RFC 4862), with these
    /// identifiers.
    pub routers: Option<Identifiers>,
}

impl Automatic {
    /// Whether any are.
    fn is_any(&self) -> bool {
        self.dhcp.is_some() || self.routers.is_some()
    }
}

/// What has not been found out in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MissingAddress {
    /// No DHCP server has given an address.
    #[error("no DHCP server has given an address")]
    Dhcp,
    /// No router has advertised a prefix.
    #[error("no router has advertised a prefix to make an address of")]
    Router,
}

/// Where addresses come from, and what has come.
pub(crate) struct AutomaticState {
    dhcp: Option<Client>,
    lease: Option<Lease>,
    routers: Option<Routers>,
    /// The gateways that were typed.
    given: Vec<IpAddr>,
    /// Programs have not been told yet.
    changed: bool,
}

impl AutomaticState {
    pub(crate) fn new(
        automatic: &Automatic,
        capabilities: &Capabilities,
        v4: Option<Cidr>,
        gateways: &[IpAddr],
        secrets: &Secrets,
        now: Instant,
    ) -> Result<Box<Self>, AddressError> {
        let mac = match capabilities.link {
            LinkKind::Ethernet { mac } => mac,
            LinkKind::Ip if automatic.is_any() => return Err(AddressError::NobodyToAsk),
            LinkKind::Ip => [0; 6],
        };
        let typed = v4.is_some() || gateways.iter().any(IpAddr::is_ipv4);
        if automatic.dhcp.is_some() && typed {
            return Err(AddressError::DhcpAndV4);
        }
        let now = net_time(now);
        let client = |id: &Vec<u8>| {
            let seed = secrets.number(Purpose::Dhcp);
            Client::new(MacAddr(mac), id, seed, now)
        };
        let routers = |identifiers: &Identifiers| {
            let seed = secrets.number(Purpose::Routers);
            Routers::new(identifiers.clone(), capabilities.mtu, seed, now)
        };
        Ok(Box::new(Self {
            dhcp: automatic.dhcp.as_ref().map(client),
            lease: None,
            routers: automatic.routers.as_ref().map(routers),
            given: gateways.to_vec(),
            changed: false,
        }))
    }

    /// Whether anything is found out.
    pub(super) fn is_any(&self) -> bool {
        self.dhcp.is_some() || self.routers.is_some()
    }

    /// Whether a DHCP server gives us our address.
    #[inline]
    pub(crate) fn asks_dhcp(&self) -> bool {
        self.dhcp.is_some()
    }

    /// What routers advertise, if that is followed.
    pub(super) fn routers(&self) -> Option<&Routers> {
        self.routers.as_ref()
    }

    /// Hop limit of IPv6 packets, if routers have said.
    pub(crate) fn hop_limit(&self) -> Option<u8> {
        self.routers.as_ref()?.advice().hop_limit
    }

    /// How packets to `to` leave that belong to no socket: those of IPv6 with the hop limit that
    /// routers have said (RFC 4861 section 6.3.4).
    pub(crate) fn service_to(&self, to: IpAddr) -> Service {
        let hops = match to {
            IpAddr::V4(_) => None,
            IpAddr::V6(_) => self.hop_limit(),
        };
        let usual = Service::DEFAULT;
        Service {
            ttl: hops.unwrap_or(usual.ttl),
            ..usual
        }
    }

    /// Whether addresses or routes are others than when this was last asked.
    #[inline]
    pub(crate) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// A DHCP server has sent this.
    pub(crate) fn take_dhcp(&mut self, payload: &[u8], now: Instant, counters: &mut Counters) {
        let Some(client) = &mut self.dhcp else {
            return;
        };
        match Reply::parse(payload) {
            Ok(reply) => client.handle_reply(&reply, net_time(now)),
            Err(_) => counters.drop(EngineDrop::BadDhcp),
        }
    }

    /// Somebody has sent this: the address that is being tried may be another's.
    pub(super) fn take_arp(&mut self, packet: &ArpPacket, now: Instant) {
        if let Some(dhcp) = &mut self.dhcp {
            dhcp.handle_arp(packet, net_time(now));
        }
    }

    /// The link carries frames again: servers and routers are asked again.
    pub(super) fn link_returned(&mut self, now: Instant) {
        let now = net_time(now);
        if let Some(dhcp) = &mut self.dhcp {
            dhcp.link_returned(now);
        }
        if let Some(routers) = &mut self.routers {
            routers.ask_again(now);
        }
    }

    fn next_action(&mut self, now: Instant) -> Option<Action> {
        self.dhcp.as_mut()?.poll(net_time(now))
    }

    /// When something is to be done.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let never = |t: &longshore_net::Instant| t.0 != u64::MAX;
        let dhcp = self.dhcp.as_ref().map(Client::deadline).filter(never);
        let routers = self.routers.as_ref().and_then(Routers::deadline);
        let due = dhcp.into_iter().chain(routers).min();
        due.map(|t| Instant(t.0))
    }

    /// The largest packet of the version of IP that `to` has, in bytes, if somebody has
    /// said.
    pub(crate) fn mtu_to(&self, to: IpAddr) -> Option<usize> {
        let mtu = match to {
            IpAddr::V4(_) => self.lease?.mtu,
            IpAddr::V6(_) => self.routers.as_ref()?.advice().mtu,
        };
        mtu.map(usize::from)
    }
}

impl Link {
    /// What is still to be found out before the first program can run.
    pub(crate) fn missing(&self) -> Option<MissingAddress> {
        if self.auto.asks_dhcp() && self.addresses.v4().is_none() {
            return Some(MissingAddress::Dhcp);
        }
        let made = self.addresses.v6().is_some_and(LocalAddresses6::has_made);
        (self.auto.routers.is_some() && !made).then_some(MissingAddress::Router)
    }

    /// A router has advertised itself and its link.
    pub(crate) fn take_router_advert(
        &mut self,
        from: Ipv6Addr,
        message: &Icmpv6,
        options: &NdpOptions,
        now: Instant,
        counters: &mut Counters,
    ) {
        let Some(v6) = self.addresses.v6_mut() else {
            return;
        };
        let (
            Some(routers),
            Icmpv6::RouterAdvert {
                hop_limit,
                lifetime,
                reachable_ms,
                retransmit_ms,
                ..
            },
        ) = (&mut self.auto.routers, *message)
        else {
            return;
        };
        if options.names_dns {
            counters.drop(EngineDrop::RouterDns);
        }
        let advert = Advert {
            hop_limit,
            lifetime,
            reachable_ms,
            retransmit_ms,
        };
        let now = net_time(now);
        let changed = routers.handle_advert(from, &advert, options, &mut v6.addresses, now);
        let advice = routers.advice();
        self.output
            .hops
            .v6
            .set_times(advice.reachable_ms, advice.retransmit_ms);
        if changed {
            self.reconfigured();
        }
    }

    /// Another host has an address of ours: makes another in its place if it was made.
    pub(crate) fn replace_address(&mut self, taken: Ipv6Addr, now: Instant) {
        let (Some(routers), Some(v6)) = (&self.auto.routers, self.addresses.v6_mut()) else {
            return;
        };
        let another = routers.replace(taken, &mut v6.addresses, net_time(now));
        if v6.link_local == Some(taken) && another.is_some() {
            v6.link_local = another;
        }
        self.reconfigured();
    }

    /// A neighbour does not answer any more, which may be our router.
    pub(crate) fn router_failed(&mut self, neighbor: Ipv6Addr) {
        let routers = self.auto.routers.as_mut();
        if routers.is_some_and(|routers| routers.unreachable(neighbor)) {
            self.reconfigured();
        }
    }

    /// Does what is due, and asks for what is missing.
    pub(crate) fn poll_automatic(&mut self, now: Instant, counters: &mut Counters) {
        if let Some(routers) = &mut self.auto.routers {
            let due = routers.poll(net_time(now));
            if due.solicit {
                // From no address: none is certain yet when it matters (RFC 4861
                // section 6.3.7 leaves that to us).
                let message = ndp::router_solicit(Ipv6Addr::UNSPECIFIED, None);
                let to = MacAddr::of_group(message.destination);
                self.output
                    .send_ndp(&message, NextHop::Neighbor(to), counters);
            }
            if due.changed {
                self.reconfigured();
            }
        }
        while let Some(action) = self.auto.next_action(now) {
            match action {
                Action::Send(message) => self.send_dhcp(&message, now, counters),
                Action::Probe(ip) => {
                    // What others say of it must come through.
                    self.show_addresses();
                    let packet = arp::request(self.output.device.mac(), Ipv4Addr::UNSPECIFIED, ip);
                    self.output
                        .device
                        .send_arp(&packet, MacAddr::BROADCAST, counters);
                }
                Action::Announce(ip) => {
                    let packet = arp::announcement(self.output.device.mac(), ip);
                    self.output
                        .device
                        .send_arp(&packet, MacAddr::BROADCAST, counters);
                }
                Action::Configured(lease) => self.lease(Some(lease)),
                Action::Lost => self.lease(None),
            }
        }
    }

    fn send_dhcp(&mut self, message: &Message, now: Instant, counters: &mut Counters) {
        let to = message.destination;
        let hop = if to.is_broadcast() {
            NextHop::Neighbor(MacAddr::BROADCAST)
        } else {
            self.next_hop_to(to, now, counters)
        };
        if !matches!(hop, NextHop::Neighbor(_)) {
            if let Some(client) = &mut self.auto.dhcp {
                client.not_sent(net_time(now));
            }
            return;
        }
        let addresses = AddressPair::V4 {
            from: message.source,
            to,
        };
        let header = UdpHeader {
            src_port: CLIENT_PORT,
            dst_port: SERVER_PORT,
            payload_len: message.bytes().len() as u16,
            checksum: 0,
        };
        let payload = [IoSlice::new(message.bytes())];
        if self
            .output
            .send_udp(
                &addresses,
                hop,
                Service::DEFAULT,
                &header,
                &payload,
                UdpForm::Whole,
            )
            .is_err()
        {
            counters.drop(EngineDrop::PortRefused);
        }
    }

    /// The address is given back, if a server has given one.
    pub(crate) fn release(&mut self, now: Instant, counters: &mut Counters) {
        let client = self.auto.dhcp.as_mut();
        if let Some(message) = client.and_then(|client| client.release(net_time(now))) {
            self.send_dhcp(&message, now, counters);
        }
    }

    /// This lease is ours now, or none. The address of one that is over stays in the list
    /// of addresses, so that the others keep their places there.
    fn lease(&mut self, lease: Option<Lease>) {
        self.auto.lease = lease;
        self.addresses.set_v4(lease.map(|lease| Cidr {
            address: lease.address.into(),
            prefix_len: lease.prefix_len,
        }));
        self.reconfigured();
    }

    /// Addresses, networks or routers are others now.
    pub(crate) fn reconfigured(&mut self) {
        self.output.hops.forget_last();
        self.show_addresses();
        let v4 = self.addresses.v4_network();
        let auto = &mut self.auto;
        if !auto.is_any() {
            return;
        }
        auto.changed = true;
        // What was typed has been checked; what is not there any more does no harm.
        let typed = routes(v4, self.addresses.on_link6(), &auto.given, true);
        let Ok(mut routes) = typed else { return };
        let mut add = |to: Cidr, next_hop: Option<IpAddr>, source: IpAddr| {
            if !routes.iter().any(|route| route.to == to) {
                routes.add(Route {
                    to,
                    next_hop,
                    source,
                    mtu: None,
                });
            }
        };
        let any = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
        let source = self.addresses.link_local().map_or(any, IpAddr::V6);
        if let Some(routers) = &auto.routers {
            routers.networks().for_each(|to| add(to, None, source));
            if let Some(router) = routers.default_router() {
                add(everything(any), Some(router.into()), source);
            }
        }
        if let Some(lease) = auto.lease {
            let source = IpAddr::V4(lease.address);
            let mut by = |to: Cidr, router: Ipv4Addr| {
                let on_link = v4.is_some_and(|own| own.contains(router.into()));
                if !on_link && !router.is_unspecified() {
                    // It is on the link, whatever the mask says.
                    let alone = Cidr {
                        address: router.into(),
                        prefix_len: 32,
                    };
                    add(alone, None, source);
                }
                let router = Some(IpAddr::V4(router)).filter(|ip| !ip.is_unspecified());
                add(to, router, source);
            };
            for route in lease.routes.iter().flatten() {
                let to = Cidr {
                    address: route.network.into(),
                    prefix_len: route.prefix_len,
                };
                by(to, route.router);
            }
            if let Some(router) = lease.router {
                by(everything(source), router);
            }
        }
        self.output.hops.set_routes(routes);
    }

    /// Tells the port which addresses are ours, or about to be.
    pub(crate) fn show_addresses(&mut self) {
        let auto = &self.auto;
        if !auto.is_any() {
            return;
        }
        let tried = auto.dhcp.as_ref().and_then(Client::address);
        let tried = tried.filter(|ip| Some(*ip) != self.addresses.v4());
        let own = self
            .addresses
            .v4_network()
            .map(|own| (own.address, own.prefix_len));
        let all: Vec<(IpAddr, u8)> = tried
            .map(|ip| (IpAddr::V4(ip), 32))
            .into_iter()
            .chain(own)
            .chain(self.addresses.iter6().map(|c| (c.address, c.prefix_len)))
            .collect();
        let dhcp = auto.dhcp.is_some();
        self.output.device.show_addresses(&all, dhcp);
    }
}
