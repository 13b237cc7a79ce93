//! Creating, finding and configuring TAP devices: all steps before the first frame.
//!
//! Owns [`TapConfig`]; `TapPort::open` calls it.

use super::addresses::{interface_addresses, set_address};
use super::error::{DRIVER, TapError, os};
use super::{KERNEL_MAX_MTU, MAX_MTU, MIN_MTU};
use crate::interface::{LinkEvents, sys};
use crate::vnet::HEADER_LEN;
use crate::{BadName, InterfaceName};
use rustix::io::Errno;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, OwnedFd};

/// What kind of device to open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A new device, which is removed when the port is closed. The name may be a pattern
    /// (`longshore%d`); it is an error if it exists.
    Create,
    /// An existing persistent device (`ip tuntap add mode tap ...`), which remains.
    Attach,
}

/// How to open a TAP device.
#[derive(Debug, Clone)]
pub struct TapConfig {
    /// Its name, or a pattern for one.
    pub name: InterfaceName,
    /// Whether to create it or to find it.
    pub origin: Origin,
    /// MTU to set, [`MIN_MTU`] to [`MAX_MTU`] bytes, of which at most [`KERNEL_MAX_MTU`]
    /// are possible. Unchanged if `None`.
    pub mtu: Option<usize>,
    /// Addresses for the kernel's side, with their prefix lengths.
    pub kernel_addresses: Vec<(IpAddr, u8)>,
    /// The engine's hardware address. Derived from the kernel's if `None`.
    pub mac: Option<[u8; 6]>,
    /// Whether partial checksums and unsegmented frames may be exchanged with the kernel.
    /// Only tests and comparisons use `false`.
    pub offloads: bool,
}

impl TapConfig {
    /// A new device with this name (or pattern) and default settings.
    ///
    /// # Errors
    /// [`BadName`].
    pub fn create(name: &str) -> Result<Self, BadName> {
        Ok(TapConfig {
            name: InterfaceName::new(name)?,
            origin: Origin::Create,
            mtu: None,
            kernel_addresses: Vec::new(),
            mac: None,
            offloads: true,
        })
    }

    /// The existing device with this name and default settings.
    ///
    /// # Errors
    /// [`BadName`].
    pub fn attach(name: &str) -> Result<Self, BadName> {
        Ok(TapConfig {
            origin: Origin::Attach,
            ..Self::create(name)?
        })
    }
}

/// An open device and its properties.
pub(super) struct Opened {
    pub(super) fd: OwnedFd,
    pub(super) control: OwnedFd,
    /// `None` if the system provides none.
    pub(super) link_events: Option<LinkEvents>,
    pub(super) index: i32,
    /// `IFF_*`.
    pub(super) flags: i32,
    pub(super) name: InterfaceName,
    pub(super) mtu: usize,
    pub(super) mac: [u8; 6],
    /// The `TUN_F_*` that the kernel accepted.
    pub(super) offloads: u32,
    /// An address of the kernel's on this device for which it takes frames of
    /// [`BIG_TCP_BYTES`].
    pub(super) big_tcp: Option<Ipv4Addr>,
}

/// The longest frame that is sent to a kernel that knows BIG TCP. Its socket buffers take twice
/// as much in 17 pieces (MAX_SKB_FRAGS) of eight pages each, and a receiver's window opens on
/// less than a quarter of its usual size.
pub(super) const BIG_TCP_BYTES: usize = 4 * 65_536;

/// The first IPv4 address of the kernel's on this device, if the kernel takes longer frames of
/// TCP over IPv4 than an IP packet can be (Linux 6.3).
fn big_tcp(name: &InterfaceName, offloads: u32) -> Option<Ipv4Addr> {
    if offloads & sys::TUN_F_TSO4 == 0 || !knows_big_tcp(&kernel_release()) {
        return None;
    }
    let name = name.to_string();
    let all = interface_addresses().unwrap_or_default().into_iter();
    all.filter(|a| a.interface == name)
        .find_map(|a| match a.address {
            IpAddr::V4(address) => Some(address),
            IpAddr::V6(_) => None,
        })
}

fn kernel_release() -> String {
    let names = rustix::system::uname();
    names.release().to_string_lossy().into_owned()
}

/// Whether a kernel of this release (`6.3.0-rc1`) takes a total length of 0 for that of a frame
/// (`iph_totlen`).
fn knows_big_tcp(release: &str) -> bool {
    const SINCE: [u32; 2] = [6, 3];
    let mut numbers = release.split(['.', '-', '+']).map(str::parse);
    let version = [(); 2].map(|()| numbers.next().and_then(Result::ok).unwrap_or(0));
    version >= SINCE
}

/// Opens and configures the device.
pub(super) fn open(config: &TapConfig) -> Result<Opened, TapError> {
    if let Some(mtu) = config.mtu.filter(|m| !(MIN_MTU..=MAX_MTU).contains(m)) {
        return Err(TapError::BadMtu { mtu });
    }
    let control = control_socket()?;
    let fd = open_driver().map_err(TapError::of_driver)?;
    let name = attach(config, control.as_fd(), &fd)?;
    sys::tun_set_header_len(fd.as_fd(), HEADER_LEN)
        .map_err(os(format!("set the header length of {name}")))?;
    let offloads = if config.offloads {
        set_offloads(&fd, &name)?
    } else {
        sys::tun_set_offload(fd.as_fd(), 0).map_err(os(format!("clear {name}'s offloads")))?;
        0
    };
    let mtu = set_up(config, control.as_fd(), &name)?;
    let kernel_mac = sys::hardware_address(control.as_fd(), &name)
        .map_err(os(format!("read the hardware address of {name}")))?;
    // Our own changes up to here are not notifications.
    let link_events = LinkEvents::subscribe().ok();
    let index = sys::index(control.as_fd(), &name).map_err(os(format!("find {name}")))?;
    let flags =
        sys::flags(control.as_fd(), &name).map_err(os(format!("read the flags of {name}")))?;
    Ok(Opened {
        big_tcp: big_tcp(&name, offloads),
        fd,
        control,
        link_events,
        index,
        flags,
        name,
        mtu,
        mac: config.mac.unwrap_or_else(|| beside(kernel_mac)),
        offloads,
    })
}

/// A locally administered unicast address that differs from `mac`.
fn beside(mac: [u8; 6]) -> [u8; 6] {
    let mut ours = mac;
    ours[0] = (ours[0] | 0x02) & !0x01;
    ours[5] ^= 0x01;
    ours
}

fn control_socket() -> Result<OwnedFd, TapError> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
    socket_with(
        AddressFamily::INET,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    )
    .map_err(os("open a socket to configure interfaces"))
}

/// Opens [`DRIVER`], which makes no device yet.
///
/// # Errors
/// The kernel's; [`TapError::of_driver`] says what it means.
pub fn open_driver() -> Result<OwnedFd, Errno> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::open(DRIVER, flags, Mode::empty())
}

/// Creates or finds the interface and attaches the descriptor to it.
fn attach(
    config: &TapConfig,
    control: std::os::fd::BorrowedFd<'_>,
    fd: &OwnedFd,
) -> Result<InterfaceName, TapError> {
    let name = config.name;
    let exists = match sys::index(control, &name) {
        Ok(_) => true,
        Err(Errno::NODEV) => false,
        Err(errno) => return Err(os(format!("look for {name}"))(errno)),
    };
    match config.origin {
        Origin::Create if exists => return Err(TapError::NameTaken { name }),
        Origin::Attach if !exists => return Err(TapError::NoSuchInterface { name }),
        _ => {}
    }
    sys::tun_set_iff(fd.as_fd(), &name).map_err(|errno| match errno {
        Errno::BUSY => TapError::Busy { name },
        Errno::INVAL if exists => TapError::NotATap { name },
        errno => os(format!(
            "{} {name}",
            if exists { "attach to" } else { "create" }
        ))(errno),
    })
}

/// Enables as many offloads as the kernel supports.
fn set_offloads(fd: &OwnedFd, name: &InterfaceName) -> Result<u32, TapError> {
    use sys::{TUN_F_CSUM, TUN_F_TSO_ECN, TUN_F_TSO4, TUN_F_TSO6, TUN_F_USO4, TUN_F_USO6};
    let tcp = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN;
    // Kernels before 6.2 refuse the UDP flags, and the whole request with them.
    for flags in [tcp | TUN_F_USO4 | TUN_F_USO6, tcp, TUN_F_CSUM] {
        match sys::tun_set_offload(fd.as_fd(), flags) {
            Ok(()) => return Ok(flags),
            Err(Errno::INVAL) => {}
            Err(errno) => return Err(os(format!("set {name}'s offloads"))(errno)),
        }
    }
    Ok(0)
}

/// Sets MTU and addresses as requested, brings the interface up, returns its MTU.
fn set_up(
    config: &TapConfig,
    control: std::os::fd::BorrowedFd<'_>,
    name: &InterfaceName,
) -> Result<usize, TapError> {
    let read = |what: &str| os(format!("read the {what} of {name}"));
    let mut mtu = sys::mtu(control, name).map_err(read("MTU"))?;
    let wanted = config.mtu.map(|wanted| wanted.min(KERNEL_MAX_MTU));
    if let Some(wanted) = wanted.filter(|wanted| *wanted != mtu) {
        sys::set_mtu(control, name, wanted)
            .map_err(os(format!("set the MTU of {name} to {wanted}")))?;
        mtu = wanted;
    }
    if !(MIN_MTU..=MAX_MTU).contains(&mtu) {
        return Err(TapError::BadMtu { mtu });
    }
    if config.kernel_addresses.iter().any(|(ip, _)| ip.is_ipv6()) {
        // No other station on this wire can have the address; without this setting the
        // kernel does not use it until duplicate address detection is complete. If it
        // cannot be set, that takes a second or two.
        let path = format!("/proc/sys/net/ipv6/conf/{name}/accept_dad");
        let _ = std::fs::write(path, "0");
    }
    for (address, prefix_len) in &config.kernel_addresses {
        set_address(control, name, *address, *prefix_len)?;
    }
    let flags = sys::flags(control, name).map_err(read("state"))?;
    // IFF_RUNNING follows a little later from our presence, and is not set here: the user
    // whose device it is may not be permitted to.
    if flags & libc::IFF_UP == 0 {
        sys::set_flags(control, name, flags | libc::IFF_UP)
            .map_err(os(format!("bring {name} up")))?;
    }
    Ok(mtu)
}

/// Whether an interface is up; `None` if there is none of this name.
///
/// # Errors
/// [`TapError::Os`].
pub fn is_up(name: &InterfaceName) -> Result<Option<bool>, TapError> {
    let control = control_socket()?;
    match sys::flags(control.as_fd(), name) {
        Ok(flags) => Ok(Some(flags & libc::IFF_UP != 0)),
        Err(Errno::NODEV) => Ok(None),
        Err(errno) => Err(os(format!("read the state of {name}"))(errno)),
    }
}

/// Brings up an interface that is down, as `lo` is in a new namespace.
///
/// # Errors
/// [`TapError`].
pub fn bring_up(name: &InterfaceName) -> Result<(), TapError> {
    let control = control_socket()?;
    let flags = sys::flags(control.as_fd(), name).map_err(|errno| match errno {
        Errno::NODEV => TapError::NoSuchInterface { name: *name },
        errno => os(format!("read the state of {name}"))(errno),
    })?;
    sys::set_flags(control.as_fd(), name, flags | libc::IFF_UP)
        .map_err(os(format!("bring {name} up")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_that_know_longer_frames_are_known_by_their_release() {
        let all = ["6.3.0", "6.3-rc1", "6.18.44-fc", "10.0"];
        assert!(all.iter().all(|release| knows_big_tcp(release)));
        let none = ["6.2.16", "5.14.0-427.el9", "6", "x.y", ""];
        assert!(!none.iter().any(|release| knows_big_tcp(release)));
    }

    #[test]
    fn our_hardware_address_is_local_and_not_the_kernels() {
        let kernel = [0x33, 1, 2, 3, 4, 5];
        let ours = beside(kernel);
        assert_ne!(ours, kernel);
        assert_eq!(ours[0] & 3, 2);
    }
}
