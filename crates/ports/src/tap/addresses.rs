//! The addresses of interfaces: which there are, and giving the kernel's side of a device its own.

use super::error::{TapError, os};
use crate::InterfaceName;
use crate::interface::sys;
use rustix::io::Errno;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// An address on an interface of this network namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterfaceAddress {
    /// The interface.
    pub interface: String,
    /// The address.
    pub address: IpAddr,
    /// Its prefix length.
    pub prefix_len: u8,
}

/// All addresses of this network namespace.
///
/// # Errors
/// [`TapError::Os`].
pub fn interface_addresses() -> Result<Vec<InterfaceAddress>, TapError> {
    let list = sys::addresses().map_err(os("list the interfaces' addresses"))?;
    Ok(list
        .into_iter()
        .map(|(interface, address, prefix_len)| InterfaceAddress {
            interface,
            address,
            prefix_len,
        })
        .collect())
}

/// Whether two prefixes have an address in common.
pub fn overlaps(a: (IpAddr, u8), b: (IpAddr, u8)) -> bool {
    let shortest = u32::from(a.1.min(b.1));
    let differ = match (a.0, b.0) {
        (IpAddr::V4(a), IpAddr::V4(b)) => u128::from(u32::from(a) ^ u32::from(b)) << 96,
        (IpAddr::V6(a), IpAddr::V6(b)) => u128::from(a) ^ u128::from(b),
        _ => return false,
    };
    differ.leading_zeros() >= shortest
}

/// How often, and at what interval, to check whether an address overlaps with another
/// interface's. An IPv4 address set by `ioctl`, as here, first gets the prefix of its
/// class (RFC 791 section 3.2: 8 bits for 10.0.0.1), and the right one a moment later.
const LOOKS: u32 = 26;
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// Gives an interface an address, if it has not got that and it overlaps with no other.
pub(super) fn set_address(
    control: BorrowedFd<'_>,
    name: &InterfaceName,
    address: IpAddr,
    prefix_len: u8,
) -> Result<(), TapError> {
    let longest = if address.is_ipv4() { 32 } else { 128 };
    if prefix_len > longest || address.is_unspecified() || address.is_multicast() {
        return Err(TapError::BadAddress {
            address,
            prefix_len,
        });
    }
    let mut looks = 0;
    loop {
        let found = interface_addresses()?;
        let (ours, others): (Vec<_>, Vec<_>) = found
            .into_iter()
            .partition(|a| a.interface == name.to_string());
        if ours
            .iter()
            .any(|a| (a.address, a.prefix_len) == (address, prefix_len))
        {
            return Ok(());
        }
        let prefix = (address, prefix_len);
        let Some(other) = others
            .into_iter()
            .find(|a| overlaps(prefix, (a.address, a.prefix_len)))
        else {
            break;
        };
        looks += 1;
        if looks == LOOKS {
            return Err(TapError::AddressInUse {
                address,
                prefix_len,
                interface: other.interface,
                other: other.address,
                other_prefix_len: other.prefix_len,
            });
        }
        std::thread::sleep(BETWEEN_LOOKS);
    }
    sys::add_address(control, name, address, prefix_len).map_err(|errno| {
        // As it answers those who lack the permission.
        if errno == Errno::ACCESS && address.is_ipv6() && is_ipv6_disabled(name) {
            return TapError::Ipv6Disabled {
                name: *name,
                address,
            };
        }
        os(format!("give {name} the address {address}/{prefix_len}"))(errno)
    })
}

fn is_ipv6_disabled(name: &InterfaceName) -> bool {
    let path = format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6");
    std::fs::read_to_string(path).is_ok_and(|said| said.trim_end() != "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_overlap_when_one_holds_the_other() {
        let p = |a: &str, len| (a.parse().unwrap(), len);
        assert!(overlaps(p("10.77.0.1", 24), p("10.77.0.200", 24)));
        assert!(overlaps(p("10.77.0.1", 24), p("10.0.0.1", 8)));
        assert!(overlaps(p("10.77.0.1", 24), p("0.0.0.0", 0)));
        assert!(!overlaps(p("10.77.0.1", 24), p("10.77.1.1", 24)));
        assert!(!overlaps(p("fd00::1", 64), p("fd00:0:0:1::1", 64)));
        assert!(!overlaps(p("10.77.0.1", 0), p("::", 0)));
    }
}
