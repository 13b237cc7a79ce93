//! Opening a packet port: all steps before the first frame.
//!
//! Owns [`PacketConfig`] and [`PacketError`]; `PacketPort::open` calls it, and again when the
//! interface has come back.

use super::filter::{self, MAX_ADDRESSES};
use super::sys;
use crate::interface::sys as interface;
use crate::interface::{InterfaceName, LinkEvents};
use crate::{Capabilities, LinkKind};
use rustix::io::Errno;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The smallest MTU of an interface for the engine: what every IPv4 host must be able to
/// reassemble (RFC 1122 section 3.3.2).
pub const MIN_MTU: usize = 576;
/// The MTU assumed for an interface that does not exist yet.
const PRESUMED_MTU: usize = 1500;

/// Link types (linux/if_arp.h).
const ARPHRD_ETHER: u16 = 1;
const ARPHRD_RAWIP: u16 = 519;
const ARPHRD_LOOPBACK: u16 = 772;
const ARPHRD_NONE: u16 = 0xfffe;

/// How to open a packet port.
#[derive(Debug, Clone)]
pub struct PacketConfig {
    /// The interface.
    pub name: InterfaceName,
    /// The engine's own addresses with their prefix lengths, 1 to [`MAX_ADDRESSES`]:
    /// packets for other addresses are left to the kernel.
    pub addresses: Vec<(IpAddr, u8)>,
    /// There may be no address yet: [`Port::set_addresses`] sets them later.
    ///
    /// [`Port::set_addresses`]: crate::Port::set_addresses
    pub addresses_come: bool,
    /// If the interface does not exist, assume that it will have no link layer, as
    /// tunnels do, and wait for it; otherwise this is an error.
    pub wait: bool,
}

/// Why a packet port could not be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// Permission denied.
    #[error(
        "no permission to open a packet socket: this needs CAP_NET_RAW in the network namespace of the interface"
    )]
    NoPermission,
    /// No interface of this name exists.
    #[error("there is no interface {name}")]
    NoSuchInterface {
        /// The name.
        name: InterfaceName,
    },
    /// Frames of the interface are neither Ethernet nor bare IP packets.
    #[error(
        "{name} is of link type {link}: Ethernet and interfaces without link layer are possible"
    )]
    LinkType {
        /// The name.
        name: InterfaceName,
        /// `ARPHRD_*` of linux/if_arp.h.
        link: u16,
    },
    /// The loopback interface accepts only the kernel's own packets.
    #[error("{name} is the loopback interface, behind which there is nobody else")]
    Loopback {
        /// The name.
        name: InterfaceName,
    },
    /// The MTU is too small.
    #[error("{name} has an MTU of {mtu}; at least {MIN_MTU} are needed")]
    BadMtu {
        /// The name.
        name: InterfaceName,
        /// Its MTU, in bytes.
        mtu: usize,
    },
    /// The kernel has one of the addresses.
    #[error(
        "the kernel itself has {address}, on {interface}, and would answer in the engine's place"
    )]
    AddressTaken {
        /// The address.
        address: IpAddr,
        /// The interface that has it.
        interface: String,
    },
    /// Another engine has one of the addresses on this interface.
    #[error("another engine has {address} on {name}")]
    AddressBusy {
        /// The address.
        address: IpAddr,
        /// The interface.
        name: InterfaceName,
    },
    /// No address, or too many.
    #[error("{count} addresses were given; 1 to {MAX_ADDRESSES} are possible")]
    Addresses {
        /// How many.
        count: usize,
    },
    /// Any other error of the system.
    #[error("cannot {action}: {errno}")]
    Os {
        /// The operation that failed.
        action: String,
        /// The system's error.
        errno: Errno,
    },
}

fn os(action: impl Into<String>) -> impl FnOnce(Errno) -> PacketError {
    move |errno| match errno {
        Errno::PERM | Errno::ACCESS => PacketError::NoPermission,
        errno => PacketError::Os {
            action: action.into(),
            errno,
        },
    }
}

/// The state of an interface in the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Interface {
    pub(super) index: i32,
    /// `IFF_*`.
    pub(super) flags: i32,
    pub(super) link: LinkKind,
    pub(super) mtu: usize,
}

impl Interface {
    /// The state assumed for an interface that does not exist.
    pub(super) const PRESUMED: Interface = Interface {
        index: 0,
        flags: 0,
        link: LinkKind::Ip,
        mtu: PRESUMED_MTU,
    };

    /// Reads the state from the kernel.
    pub(super) fn find(control: BorrowedFd<'_>, name: &InterfaceName) -> Result<Self, PacketError> {
        let missing = |what: &str| {
            let otherwise = os(format!("read the {what} of {name}"));
            move |errno| match errno {
                Errno::NODEV => PacketError::NoSuchInterface { name: *name },
                errno => otherwise(errno),
            }
        };
        let index = interface::index(control, name).map_err(missing("index"))?;
        let flags = interface::flags(control, name).map_err(missing("flags"))?;
        let mtu = interface::mtu(control, name).map_err(missing("MTU"))?;
        let (link, mac) =
            interface::link_address(control, name).map_err(missing("hardware address"))?;
        if mtu < MIN_MTU {
            return Err(PacketError::BadMtu { name: *name, mtu });
        }
        Ok(Interface {
            index,
            flags,
            link: match link {
                ARPHRD_ETHER => LinkKind::Ethernet { mac },
                ARPHRD_NONE | ARPHRD_RAWIP => LinkKind::Ip,
                ARPHRD_LOOPBACK => return Err(PacketError::Loopback { name: *name }),
                link => return Err(PacketError::LinkType { name: *name, link }),
            },
            // IP packets cannot be longer, whatever the interface accepts.
            mtu: mtu.min(65_535),
        })
    }

    /// The capabilities of a port on it. The kernel does in software what the interface
    /// cannot, so they are the same for all.
    pub(super) fn capabilities(&self, uso: bool) -> Capabilities {
        let plain = Capabilities {
            link: self.link,
            mtu: self.mtu,
            tx_checksum: true,
            passes_payload: true,
            rx_checksum: true,
            tso4: true,
            tso6: true,
            uso,
            max_gso_bytes: 0,
            // An interface would have them segmented in software.
            big_tcp: None,
            rx_coalesced: true,
        };
        Capabilities {
            max_gso_bytes: 65_535 + plain.link_header_len(),
            ..plain
        }
    }
}

/// The parts of an open port that is not bound to its interface yet.
pub(super) struct Opened {
    pub(super) fd: OwnedFd,
    pub(super) control: OwnedFd,
    pub(super) link_events: LinkEvents,
    /// `None` if the interface does not exist yet.
    pub(super) interface: Option<Interface>,
    /// Reserves these addresses for us.
    pub(super) claims: Vec<OwnedFd>,
    /// The kernel segments UDP for us.
    pub(super) uso: bool,
}

/// Requested kernel buffer for each direction, in bytes: some milliseconds at 10 Gb/s.
const BUFFER: i32 = 8 << 20;

/// Opens the socket and finds the interface.
pub(super) fn open(config: &PacketConfig) -> Result<Opened, PacketError> {
    let count = config.addresses.len();
    let least = usize::from(!config.addresses_come);
    if !(least..=MAX_ADDRESSES).contains(&count) {
        return Err(PacketError::Addresses { count });
    }
    let control = control_socket()?;
    // Subscribed before the lookup, so that no change is missed.
    let link_events = LinkEvents::subscribe().map_err(os("subscribe to changes of interfaces"))?;
    let interface = match Interface::find(control.as_fd(), &config.name) {
        Ok(interface) => Some(interface),
        Err(PacketError::NoSuchInterface { .. }) if config.wait => None,
        Err(error) => return Err(error),
    };
    check_addresses(&config.addresses)?;
    let claims = config
        .addresses
        .iter()
        .map(|(address, _)| claim(&config.name, *address))
        .collect::<Result<_, _>>()?;
    let fd = sys::socket().map_err(os("open a packet socket"))?;
    let set = |what: &str| os(format!("set {what} of the packet socket"));
    sys::set_vnet_header(fd.as_fd()).map_err(set("the offload header"))?;
    sys::ignore_outgoing(fd.as_fd()).map_err(set("the direction"))?;
    sys::attach_filter(
        fd.as_fd(),
        &filter::program(&config.addresses, &[], false, 0),
    )
    .map_err(set("the filter"))?;
    sys::set_buffers(fd.as_fd(), BUFFER);
    Ok(Opened {
        fd,
        control,
        link_events,
        interface,
        claims,
        uso: kernel_cuts_udp(),
    })
}

fn control_socket() -> Result<OwnedFd, PacketError> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
    socket_with(
        AddressFamily::INET,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    )
    .map_err(os("open a socket to ask about interfaces"))
}

/// Checks that the kernel has none of the addresses. It may be given one later; then the
/// kernel must be configured not to answer for it.
fn check_addresses(ours: &[(IpAddr, u8)]) -> Result<(), PacketError> {
    let theirs = interface::addresses().map_err(os("list the interfaces' addresses"))?;
    for (interface, address, _) in theirs {
        if ours.iter().any(|(ours, _)| *ours == address) {
            return Err(PacketError::AddressTaken { address, interface });
        }
    }
    Ok(())
}

/// Reserves an address on an interface for this process, as long as the result is kept.
/// Two engines with one address would reset each other's connections, since neither sees
/// what the other sends. Names of abstract sockets belong to the network namespace, as
/// interfaces do, and disappear with their owner however it ends.
fn claim(name: &InterfaceName, address: IpAddr) -> Result<OwnedFd, PacketError> {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, socket_with};
    let taking = || format!("take {address} on {name}");
    let at = SocketAddrUnix::new_abstract_name(format!("longshore {name} {address}").as_bytes())
        .map_err(os(taking()))?;
    let kind = SocketType::DGRAM;
    let fd =
        socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).map_err(os(taking()))?;
    match bind(&fd, &at) {
        Ok(()) => Ok(fd),
        Err(Errno::ADDRINUSE) => Err(PacketError::AddressBusy {
            address,
            name: *name,
        }),
        Err(errno) => Err(os(taking())(errno)),
    }
}

/// Whether packet sockets accept UDP segmentation: since Linux 6.2.
fn kernel_cuts_udp() -> bool {
    let name = rustix::system::uname();
    name.release().to_str().is_ok_and(|r| version(r) >= (6, 2))
}

/// The first two numbers of a release string, for example 6 and 18 of `6.18.3-amd64`.
fn version(release: &str) -> (u32, u32) {
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .map(|n| n.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared_by_number() {
        assert_eq!(version("6.18.3-amd64"), (6, 18));
        assert!(version("6.18") > version("6.2-rc1"));
        assert_eq!(version("strange"), (0, 0));
    }

    #[test]
    fn there_must_be_an_address_and_an_interface() {
        let config = |addresses: Vec<(IpAddr, u8)>, name: &str| PacketConfig {
            name: InterfaceName::new(name).unwrap(),
            addresses,
            addresses_come: false,
            wait: false,
        };
        let error = |c: &PacketConfig| open(c).err().unwrap();
        assert_eq!(
            error(&config(Vec::new(), "lo")),
            PacketError::Addresses { count: 0 }
        );
        let one = vec![("10.9.8.7".parse().unwrap(), 24)];
        let name = InterfaceName::new("lo").unwrap();
        assert_eq!(
            error(&config(one.clone(), "lo")),
            PacketError::Loopback { name }
        );
        let name = InterfaceName::new("nosuchif").unwrap();
        assert_eq!(
            error(&config(one, "nosuchif")),
            PacketError::NoSuchInterface { name }
        );
    }
}
