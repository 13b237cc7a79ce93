//! The port that an engine is given: made or found, with its addresses set up,
//! and recorded if asked for.

use crate::address::{
    Automatic, LEAST_MTU_V6, Network, free_networks, link_local_beside, list, parse_routes,
    parse_routes6,
};
use crate::errors::Error;
use crate::fault::FaultOrder;
use crate::log::say;
use crate::namespace::may_configure;
use crate::values::PortName;
use longshore_ports::capture::CapturePort;
use longshore_ports::fault::FaultPort;
use longshore_ports::packet::{PacketConfig, PacketError, PacketPort};
use longshore_ports::tap::{Tap, TapConfig, TapError, interface_addresses, is_up};
use longshore_ports::{InterfaceName, Port};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::path::PathBuf;

/// The name of the devices that are made for private engines.
const PATTERN: &str = "longshore%d";
/// Names that tunnels are given: such an interface may be made by the program
/// itself.
const AWAITED: &str = "tun";
/// How many networks are tried that were free a moment ago.
const TRIES: usize = 8;

/// What port is wanted.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Wanted {
    /// The device; one is made if `None`.
    pub(crate) port: Option<PortName>,
    /// The engine's addresses; free ones are chosen if there are none.
    pub(crate) networks: Vec<Network>,
    /// Those that are found out.
    pub(crate) automatic: Automatic,
    pub(crate) gateways: Vec<IpAddr>,
    pub(crate) mtu: Option<usize>,
    pub(crate) capture: Option<PathBuf>,
    /// What goes wrong with packets.
    pub(crate) fault: Option<FaultOrder>,
}

/// A port that is ready.
pub(crate) struct Opened {
    pub(crate) port: Box<dyn Port>,
    /// As `tap:longshore0`.
    pub(crate) name: String,
    pub(crate) networks: Vec<Network>,
    /// What is to be found out, and as whom.
    pub(crate) automatic: longshore_engine::Automatic,
}

/// Free networks of this network namespace: one of IPv4, and one of IPv6 if the kernel
/// gives new devices that and the MTU is large enough.
pub(crate) fn choose_networks(skip: usize, mtu: Option<usize>) -> Result<Vec<Network>, Error> {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let disabled = read("/proc/sys/net/ipv6/conf/default/disable_ipv6");
    let ipv6 = disabled.trim_end() == "0" && mtu.is_none_or(|mtu| mtu >= LEAST_MTU_V6);
    let mut routes = parse_routes(&read("/proc/net/route"));
    routes.extend(parse_routes6(&read("/proc/net/ipv6_route")));
    let free = free_networks(&interface_addresses()?, &routes, ipv6, skip);
    free.ok_or(Error::NoFreeNetwork)
}

/// The kernel's number of the interface of a port, by which programs name it in
/// link-local addresses; 0 if there is none.
pub(crate) fn interface_number(port: &str) -> u32 {
    use rustix::net::{AddressFamily, SocketType, netdevice::name_to_index, socket};
    let name = port.split_once(':').map_or(port, |(_, name)| name);
    socket(AddressFamily::INET, SocketType::DGRAM, None)
        .and_then(|socket| name_to_index(&socket, name))
        .unwrap_or(0)
}

impl Wanted {
    /// Checks what can be checked before anything is made.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.automatic.any() && self.port.is_none() {
            return Err(Error::NobodyToAsk);
        }
        let typed_v4 = self.networks.iter().any(|n| n.address.is_ipv4());
        if self.automatic.dhcp && typed_v4 {
            return Err(Error::TooManyAddresses);
        }
        let v6 = self.automatic.slaac || self.networks.iter().any(|n| n.address.is_ipv6());
        if let Some(mtu) = self.mtu.filter(|mtu| v6 && *mtu < LEAST_MTU_V6) {
            return Err(Error::MtuForIpv6 { mtu });
        }
        for gateway in &self.gateways {
            let gateway = *gateway;
            if self.networks.is_empty() {
                return Err(Error::GatewayAlone { gateway });
            }
            let own = self.networks.iter().any(|n| n.address == gateway);
            if own || !self.networks.iter().any(|n| n.reaches(gateway)) {
                let networks = list(&self.networks);
                return Err(Error::Gateway { gateway, networks });
            }
        }
        for v4 in [true, false] {
            let of_version = |ip: &IpAddr| ip.is_ipv4() == v4;
            let gateways = self.gateways.iter().filter(|g| of_version(g)).count();
            let networks = self.networks.iter().map(|n| n.address);
            if gateways > 1 || (v4 && networks.filter(of_version).count() > 1) {
                return Err(Error::TooManyAddresses);
            }
        }
        Ok(())
    }

    /// The addresses from which the engine reaches nobody: they are alone in their networks, and
    /// no gateway or router of their version of IP is known or will be.
    fn alone(&self) -> Vec<Network> {
        let is_alone = |network: &Network| {
            let alike = |ip: IpAddr| ip.is_ipv4() == network.address.is_ipv4();
            let asks = if network.address.is_ipv4() {
                self.automatic.dhcp
            } else {
                self.automatic.slaac
            };
            let mut same = self.networks.iter().filter(|n| alike(n.address));
            !asks && same.all(|n| n.is_single()) && !self.gateways.iter().any(|g| alike(*g))
        };
        self.networks.iter().copied().filter(is_alone).collect()
    }

    /// Opens the port.
    pub(crate) fn open(&self) -> Result<Opened, Error> {
        self.check()?;
        for network in self.alone() {
            say(&format!(
                "warning: {network} is alone in its network, and there is no gateway: the engine reaches nobody from there"
            ));
        }
        let (port, name, networks): (Box<dyn Port>, _, _) = match &self.port {
            Some(PortName::Packet(name)) => {
                let (packet, networks) = self.beside_the_kernel(*name)?;
                (self.recorded(packet)?, format!("packet:{name}"), networks)
            }
            Some(PortName::Tap(name)) => {
                let (tap, networks) = self.found_or_made(&name.to_string())?;
                let name = format!("tap:{}", tap.name());
                (self.recorded(tap)?, name, networks)
            }
            None => {
                let (tap, networks) = self.create(PATTERN)?;
                let name = format!("tap:{}", tap.name());
                (self.recorded(tap)?, name, networks)
            }
        };
        let port = match &self.fault {
            Some(fault) => Box::new(FaultPort::new(port, &fault.config())),
            None => port,
        };
        let interface = name.split_once(':').map_or("", |(_, name)| name);
        let automatic = match self.automatic.any() {
            true => self.automatic.identified(interface)?,
            false => longshore_engine::Automatic::default(),
        };
        Ok(Opened {
            port,
            name,
            networks,
            automatic,
        })
    }

    /// The port with a record of what is on the wire, if one is asked for.
    /// Faults stand above it.
    fn recorded(&self, port: impl Port + 'static) -> Result<Box<dyn Port>, Error> {
        Ok(match &self.capture {
            Some(path) => {
                let name = path.display().to_string();
                let report = move |why: &str| {
                    say(&format!(
                        "the capture in {name} has ended, and packets go on without it: {why}"
                    ));
                };
                Box::new(CapturePort::to_file(port, path, None)?.on_failure(report))
            }
            None => Box::new(port),
        })
    }

    /// A packet port on an interface, which stays as it is.
    fn beside_the_kernel(&self, name: InterfaceName) -> Result<(PacketPort, Vec<Network>), Error> {
        let awaited = name.to_string().starts_with(AWAITED);
        if !awaited && is_up(&name)?.is_none() {
            return Err(PacketError::NoSuchInterface { name }.into());
        }
        if self.networks.is_empty() && !self.automatic.any() {
            return Err(Error::AddressNeeded {
                name: name.to_string(),
            });
        }
        if self.mtu.is_some() {
            return Err(Error::MtuOfPacketPort { name });
        }
        // The address that the hardware's would give is the kernel's here.
        let mut networks = self.networks.clone();
        if !self.automatic.slaac {
            networks.extend(link_local_beside(&self.networks));
        }
        let port = PacketPort::open(&PacketConfig {
            name,
            addresses: networks.iter().map(|n| (n.address, n.prefix_len)).collect(),
            addresses_come: self.automatic.any(),
            wait: awaited,
        })?;
        if !port.is_attached() {
            say(&format!("there is no interface {name} yet; waiting for it"));
        }
        Ok((port, networks))
    }

    fn found_or_made(&self, name: &str) -> Result<(Tap, Vec<Network>), Error> {
        match self.attach(name) {
            Err(Error::Tap(TapError::NoSuchInterface { .. })) => self.create(name),
            other => other,
        }
    }

    /// The kernel's addresses on a device that is ours to set up: one in each of the
    /// engine's networks, the gateway's where there is one.
    fn kernel_addresses(&self, networks: &[Network]) -> Vec<(IpAddr, u8)> {
        let of = |network: &Network| {
            let mut gateways = self.gateways.iter();
            let gateway = gateways.find(|g| network.contains(**g)).copied();
            let address = gateway.or_else(|| network.kernel_side())?;
            Some((address, network.prefix_len))
        };
        let mut all: Vec<(IpAddr, u8)> = Vec::new();
        for address in networks.iter().filter_map(of) {
            // Two addresses of the engine may be in one network.
            if !all.contains(&address) {
                all.push(address);
            }
        }
        all
    }

    fn create(&self, name: &str) -> Result<(Tap, Vec<Network>), Error> {
        if let Some(network) = self.networks.iter().find(|n| n.is_single()) {
            return Err(Error::NoRoomForKernel { network: *network });
        }
        let open = |networks: &[Network]| {
            Tap::open(&TapConfig {
                mtu: self.mtu,
                kernel_addresses: self.kernel_addresses(networks),
                ..TapConfig::create(name)?
            })
            .map_err(Error::from)
        };
        if !self.networks.is_empty() || self.automatic.any() {
            return Ok((open(&self.networks)?, self.networks.clone()));
        }
        let mut last = Error::NoFreeNetwork;
        for skip in 0..TRIES {
            let networks = choose_networks(skip, self.mtu)?;
            match open(&networks) {
                // Somebody else took it in the meantime.
                Err(error @ Error::Tap(TapError::AddressInUse { .. })) => last = error,
                other => return Ok((other?, networks)),
            }
        }
        Err(last)
    }

    fn attach(&self, name: &str) -> Result<(Tap, Vec<Network>), Error> {
        let config = TapConfig {
            mtu: self.mtu,
            ..TapConfig::attach(name)?
        };
        let Some(up) = is_up(&config.name)? else {
            return Err(TapError::NoSuchInterface { name: config.name }.into());
        };
        if self.networks.is_empty() && !self.automatic.any() {
            return Err(Error::AddressNeeded {
                name: name.to_owned(),
            });
        }
        // One that is up was set up by somebody else, as part of a bridge maybe.
        let addressed = interface_addresses()?
            .iter()
            .any(|a| a.interface == name && a.address.is_ipv4());
        let set_up = !up && !addressed && may_configure();
        let kernel_addresses = if set_up {
            self.kernel_addresses(&self.networks)
        } else {
            Vec::new()
        };
        let tap = Tap::open(&TapConfig {
            kernel_addresses,
            ..config
        })?;
        Ok((tap, self.networks.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_alone_in_its_network_reaches_nobody_without_a_router() {
        let alone = |addresses: &[&str], gateways: &[&str], automatic: Automatic| {
            let wanted = Wanted {
                port: None,
                networks: addresses.iter().map(|a| a.parse().unwrap()).collect(),
                automatic,
                gateways: gateways.iter().map(|g| g.parse().unwrap()).collect(),
                mtu: None,
                capture: None,
                fault: None,
            };
            list(&wanted.alone())
        };
        let typed = Automatic::default();
        assert_eq!(alone(&["10.77.0.2/24"], &[], typed), "");
        assert_eq!(alone(&["10.77.0.2/32"], &[], typed), "10.77.0.2/32");
        assert_eq!(alone(&["10.77.0.2/32"], &["10.77.0.1"], typed), "");
        let both = ["10.77.0.2/32", "fd00::2/128"];
        assert_eq!(alone(&both, &["10.77.0.1"], typed), "fd00::2/128");
        assert_eq!(alone(&both, &["fd00::1"], typed), "10.77.0.2/32");
        assert_eq!(alone(&["fd00::2/128", "fd01::2/64"], &[], typed), "");
        let automatic = Automatic {
            slaac: true,
            ..Automatic::default()
        };
        assert_eq!(alone(&both, &[], automatic), "10.77.0.2/32");
    }
}
