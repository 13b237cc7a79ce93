//! The port that an engine is given: made or found, with its addresses set up,
//! and recorded if asked for.

use crate::address::{Network, free_network, parse_routes};
use crate::args::PortName;
use crate::errors::Error;
use crate::fault::FaultOrder;
use crate::namespace::may_configure;
use longshore_ports::capture::CapturePort;
use longshore_ports::fault::FaultPort;
use longshore_ports::packet::{PacketConfig, PacketPort};
use longshore_ports::tap::{Tap, TapConfig, TapError, interface_addresses, is_up};
use longshore_ports::{InterfaceName, Port};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr};
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
    /// The engine's address; a free one is chosen if `None`.
    pub(crate) network: Option<Network>,
    pub(crate) gateway: Option<Ipv4Addr>,
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
    pub(crate) network: Network,
}

/// A free network of this network namespace.
pub(crate) fn choose_network(skip: usize) -> Result<Network, Error> {
    let routes = std::fs::read_to_string("/proc/net/route").unwrap_or_default();
    free_network(&interface_addresses()?, &parse_routes(&routes), skip).ok_or(Error::NoFreeNetwork)
}

impl Wanted {
    /// Checks what can be checked before anything is made.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if let (Some(gateway), Some(network)) = (self.gateway, self.network)
            && (!network.contains(gateway) || gateway == network.address)
        {
            return Err(Error::Gateway { gateway, network });
        }
        if let (Some(gateway), None) = (self.gateway, self.network) {
            return Err(Error::GatewayAlone { gateway });
        }
        Ok(())
    }

    /// Opens the port.
    pub(crate) fn open(&self) -> Result<Opened, Error> {
        self.check()?;
        let (port, name, network): (Box<dyn Port>, _, _) = match &self.port {
            Some(PortName::Packet(name)) => {
                let (packet, network) = self.beside_the_kernel(*name)?;
                (self.recorded(packet)?, format!("packet:{name}"), network)
            }
            Some(PortName::Tap(name)) => {
                let (tap, network) = self.found_or_made(&name.to_string())?;
                let name = format!("tap:{}", tap.name());
                (self.recorded(tap)?, name, network)
            }
            None => {
                let (tap, network) = self.create(PATTERN)?;
                let name = format!("tap:{}", tap.name());
                (self.recorded(tap)?, name, network)
            }
        };
        let port = match &self.fault {
            Some(fault) => Box::new(FaultPort::new(port, &fault.config())),
            None => port,
        };
        Ok(Opened {
            port,
            name,
            network,
        })
    }

    /// The port with a record of what is on the wire, if one is asked for.
    /// Faults stand above it.
    fn recorded(&self, port: impl Port + 'static) -> Result<Box<dyn Port>, Error> {
        Ok(match &self.capture {
            Some(path) => Box::new(CapturePort::to_file(port, path, None)?),
            None => Box::new(port),
        })
    }

    /// A packet port on an interface, which stays as it is.
    fn beside_the_kernel(&self, name: InterfaceName) -> Result<(PacketPort, Network), Error> {
        let Some(network) = self.network else {
            return Err(Error::AddressNeeded {
                name: name.to_string(),
            });
        };
        if self.mtu.is_some() {
            return Err(Error::MtuOfPacketPort { name });
        }
        let port = PacketPort::open(&PacketConfig {
            name,
            addresses: vec![(network.address.into(), network.prefix_len)],
            wait: name.to_string().starts_with(AWAITED),
        })?;
        if !port.is_attached() {
            eprintln!("longshore: there is no interface {name} yet; waiting for it");
        }
        Ok((port, network))
    }

    fn found_or_made(&self, name: &str) -> Result<(Tap, Network), Error> {
        match self.attach(name) {
            Err(Error::Tap(TapError::NoSuchInterface { .. })) => self.create(name),
            other => other,
        }
    }

    /// The kernel's address on a device that is ours to set up.
    fn kernel_address(&self, network: Network) -> (IpAddr, u8) {
        let address = self.gateway.unwrap_or_else(|| network.kernel_side());
        (IpAddr::V4(address), network.prefix_len)
    }

    fn create(&self, name: &str) -> Result<(Tap, Network), Error> {
        let open = |network| {
            Tap::open(&TapConfig {
                mtu: self.mtu,
                kernel_address: Some(self.kernel_address(network)),
                ..TapConfig::create(name)?
            })
            .map_err(Error::from)
        };
        if let Some(network) = self.network {
            return Ok((open(network)?, network));
        }
        let mut last = Error::NoFreeNetwork;
        for skip in 0..TRIES {
            let network = choose_network(skip)?;
            match open(network) {
                // Somebody else took it in the meantime.
                Err(error @ Error::Tap(TapError::AddressInUse { .. })) => last = error,
                other => return Ok((other?, network)),
            }
        }
        Err(last)
    }

    fn attach(&self, name: &str) -> Result<(Tap, Network), Error> {
        let config = TapConfig {
            mtu: self.mtu,
            ..TapConfig::attach(name)?
        };
        let Some(up) = is_up(&config.name)? else {
            return Err(TapError::NoSuchInterface { name: config.name }.into());
        };
        let Some(network) = self.network else {
            return Err(Error::AddressNeeded {
                name: name.to_owned(),
            });
        };
        // One that is up was set up by somebody else, as part of a bridge maybe.
        let addressed = interface_addresses()?
            .iter()
            .any(|a| a.interface == name && a.address.is_ipv4());
        let set_up = !up && !addressed && may_configure();
        let tap = Tap::open(&TapConfig {
            kernel_address: set_up.then(|| self.kernel_address(network)),
            ..config
        })?;
        Ok((tap, network))
    }
}
