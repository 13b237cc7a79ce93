//! Why a TAP device could not be opened or configured.

use super::{MAX_MTU, MIN_MTU};
use crate::InterfaceName;
use rustix::io::Errno;
use std::net::IpAddr;

/// The file by which TAP devices are made.
pub const DRIVER: &str = "/dev/net/tun";

/// Why a TAP device could not be opened or configured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TapError {
    /// `/dev/net/tun` does not exist.
    #[error(
        "/dev/net/tun does not exist: the kernel has no TUN/TAP driver, or this container was not given the device"
    )]
    NoDriver,
    /// `/dev/net/tun` cannot be opened.
    #[error("this user may not open /dev/net/tun")]
    DriverClosed,
    /// Permission denied.
    #[error(
        "no permission to {action}: this needs CAP_NET_ADMIN in this network namespace (be root, \
         use a device that was made for this user, or let Longshore make a namespace of its own)"
    )]
    NoPermission {
        /// The operation that failed.
        action: String,
    },
    /// An interface of this name exists.
    #[error("an interface named {name} exists already: choose another name, or attach to it")]
    NameTaken {
        /// The name.
        name: InterfaceName,
    },
    /// No interface of this name exists.
    #[error("there is no interface {name}: make it with `ip tuntap add dev {name} mode tap`")]
    NoSuchInterface {
        /// The name.
        name: InterfaceName,
    },
    /// Another process uses the device.
    #[error("{name} is in use by another process")]
    Busy {
        /// The name.
        name: InterfaceName,
    },
    /// The interface is not a TAP, or is a multi-queue one.
    #[error("{name} is not a TAP device with one queue")]
    NotATap {
        /// The name.
        name: InterfaceName,
    },
    /// The MTU is out of range.
    #[error("an MTU of {mtu} is out of range: {MIN_MTU} to {MAX_MTU} are possible")]
    BadMtu {
        /// The requested MTU, or that of the device.
        mtu: usize,
    },
    /// The address is not valid for an interface.
    #[error("{address}/{prefix_len} is no address that an interface can have")]
    BadAddress {
        /// The address.
        address: IpAddr,
        /// Its prefix length.
        prefix_len: u8,
    },
    /// The kernel has IPv6 switched off on the interface.
    #[error(
        "IPv6 is switched off on {name} (net.ipv6.conf.{name}.disable_ipv6, for a new device that of \
         `default`), so it cannot have {address}: switch it on, or leave out addresses of IPv6"
    )]
    Ipv6Disabled {
        /// The interface.
        name: InterfaceName,
        /// The requested address.
        address: IpAddr,
    },
    /// The address, or another one of its network, is on another interface.
    #[error("{address}/{prefix_len} overlaps with {other}/{other_prefix_len} on {interface}")]
    AddressInUse {
        /// The requested address.
        address: IpAddr,
        /// Its prefix length.
        prefix_len: u8,
        /// The other interface.
        interface: String,
        /// The address there.
        other: IpAddr,
        /// Its prefix length.
        other_prefix_len: u8,
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

/// An error of the system while it was asked to do this.
impl TapError {
    /// Why [`open_driver`](super::open_driver) has failed.
    #[must_use]
    pub fn of_driver(errno: Errno) -> Self {
        match errno {
            Errno::NOENT | Errno::NODEV | Errno::NXIO => Self::NoDriver,
            Errno::ACCESS | Errno::PERM => Self::DriverClosed,
            errno => os(format!("open {DRIVER}"))(errno),
        }
    }
}

pub(super) fn os(action: impl Into<String>) -> impl FnOnce(Errno) -> TapError {
    move |errno| match errno {
        Errno::PERM | Errno::ACCESS => TapError::NoPermission {
            action: action.into(),
        },
        errno => TapError::Os {
            action: action.into(),
            errno,
        },
    }
}
