//! The system calls for interfaces that have no safe wrapper: the TUN driver's
//! ioctls, the classic interface ioctls, and the list of addresses. Beside this
//! file only `packet::sys` has unsafe code in this crate.
//!
//! Plain ioctls and not netlink: the dozen calls needed are older than netlink
//! and do not change, and a netlink crate would bring more code than it saves.

use rustix::io::Errno;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, BorrowedFd};

use super::InterfaceName;
use crate::bpf::{self, Instruction};

/// Pass IPv4 and IPv6 frames with partial checksums, and TCP and UDP segments
/// unsegmented, to user space (linux/if_tun.h).
pub(crate) const TUN_F_CSUM: u32 = 0x01;
pub(crate) const TUN_F_TSO4: u32 = 0x02;
pub(crate) const TUN_F_TSO6: u32 = 0x04;
pub(crate) const TUN_F_TSO_ECN: u32 = 0x08;
pub(crate) const TUN_F_USO4: u32 = 0x20;
pub(crate) const TUN_F_USO6: u32 = 0x40;

/// An `in6_ifreq` (linux/ipv6.h), which the libc crate lacks on this target.
#[repr(C)]
struct In6Request {
    address: libc::in6_addr,
    prefix_len: u32,
    index: libc::c_int,
}

fn request(name: &InterfaceName) -> libc::ifreq {
    // SAFETY: `ifreq` is plain data for which all bytes zero is a valid value.
    let mut ifr: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in ifr.ifr_name.iter_mut().zip(name.as_bytes()) {
        *to = *from as libc::c_char;
    }
    ifr
}

/// Performs one ioctl whose argument is a pointer to `argument`.
///
/// # Safety
/// `request` must be an ioctl that reads and writes at most a `T` there.
unsafe fn ioctl<T>(
    fd: BorrowedFd<'_>,
    request: libc::Ioctl,
    argument: &mut T,
) -> Result<(), Errno> {
    loop {
        // SAFETY: the descriptor is open while borrowed; `argument` is a live,
        // exclusive `T`, which by this function's contract the ioctl fits.
        let result = unsafe { libc::ioctl(fd.as_raw_fd(), request, std::ptr::from_mut(argument)) };
        if result >= 0 {
            return Ok(());
        }
        let errno = std::io::Error::last_os_error();
        match Errno::from_io_error(&errno) {
            Some(Errno::INTR) => {}
            Some(errno) => return Err(errno),
            None => return Err(Errno::IO),
        }
    }
}

/// `TUNSETIFF`: creates the device with this name, or attaches to it, as a TAP with the
/// virtio-net header. Returns the resulting name (`%d` filled in).
pub(crate) fn tun_set_iff(
    fd: BorrowedFd<'_>,
    name: &InterfaceName,
) -> Result<InterfaceName, Errno> {
    let mut ifr = request(name);
    ifr.ifr_ifru.ifru_flags =
        (libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes an ifreq.
    unsafe { ioctl(fd, libc::TUNSETIFF, &mut ifr)? };
    let bytes: Vec<u8> = ifr
        .ifr_name
        .iter()
        .take_while(|c| **c != 0)
        .flat_map(|c| c.to_ne_bytes())
        .collect();
    InterfaceName::from_kernel(&bytes).ok_or(Errno::INVAL)
}

/// `TUNSETVNETHDRSZ`: the length of the header before each frame, in bytes.
pub(crate) fn tun_set_header_len(fd: BorrowedFd<'_>, len: usize) -> Result<(), Errno> {
    let mut len = len as libc::c_int;
    // SAFETY: TUNSETVNETHDRSZ reads an int.
    unsafe { ioctl(fd, libc::TUNSETVNETHDRSZ, &mut len) }
}

/// `TUNSETOFFLOAD`: which offloads the kernel may leave to us (`TUN_F_*`).
pub(crate) fn tun_set_offload(fd: BorrowedFd<'_>, flags: u32) -> Result<(), Errno> {
    // SAFETY: TUNSETOFFLOAD takes its argument by value and touches no memory.
    let result = unsafe {
        libc::ioctl(
            fd.as_raw_fd(),
            libc::TUNSETOFFLOAD,
            libc::c_ulong::from(flags),
        )
    };
    if result >= 0 {
        return Ok(());
    }
    Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
}

/// `TUNATTACHFILTER`: only frames for which the program returns other than 0 are queued
/// when the kernel sends them to the device; replaces the previous program.
pub(crate) fn tun_attach_filter(fd: BorrowedFd<'_>, program: &[Instruction]) -> Result<(), Errno> {
    // SAFETY: TUNATTACHFILTER reads a sock_fprog and copies the `len` instructions that it
    // points to, which live as long as this runs.
    bpf::with_program(program, |program| unsafe {
        ioctl(fd, libc::TUNATTACHFILTER, program)
    })
}

/// `TUNDETACHFILTER`: all frames are queued again.
pub(crate) fn tun_detach_filter(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    // SAFETY: TUNDETACHFILTER does not look at its argument.
    unsafe { ioctl(fd, libc::TUNDETACHFILTER, &mut 0u64) }
}

/// The interface's index; `NODEV` if there is none of this name.
pub(crate) fn index(control: BorrowedFd<'_>, name: &InterfaceName) -> Result<i32, Errno> {
    let mut ifr = request(name);
    // SAFETY: SIOCGIFINDEX reads and writes an ifreq, and fills `ifru_ifindex`.
    unsafe {
        ioctl(control, libc::SIOCGIFINDEX, &mut ifr)?;
        Ok(ifr.ifr_ifru.ifru_ifindex)
    }
}

/// The interface's flags (`IFF_*`).
pub(crate) fn flags(control: BorrowedFd<'_>, name: &InterfaceName) -> Result<i32, Errno> {
    let mut ifr = request(name);
    // SAFETY: SIOCGIFFLAGS reads and writes an ifreq, and fills `ifru_flags`.
    unsafe {
        ioctl(control, libc::SIOCGIFFLAGS, &mut ifr)?;
        Ok(i32::from(ifr.ifr_ifru.ifru_flags))
    }
}

/// Sets the interface's flags.
pub(crate) fn set_flags(
    control: BorrowedFd<'_>,
    name: &InterfaceName,
    flags: i32,
) -> Result<(), Errno> {
    let mut ifr = request(name);
    ifr.ifr_ifru.ifru_flags = flags as libc::c_short;
    // SAFETY: SIOCSIFFLAGS reads an ifreq.
    unsafe { ioctl(control, libc::SIOCSIFFLAGS, &mut ifr) }
}

/// The interface's MTU in bytes.
pub(crate) fn mtu(control: BorrowedFd<'_>, name: &InterfaceName) -> Result<usize, Errno> {
    let mut ifr = request(name);
    // SAFETY: SIOCGIFMTU reads and writes an ifreq, and fills `ifru_mtu`.
    let mtu = unsafe {
        ioctl(control, libc::SIOCGIFMTU, &mut ifr)?;
        ifr.ifr_ifru.ifru_mtu
    };
    usize::try_from(mtu).map_err(|_| Errno::INVAL)
}

/// Sets the interface's MTU.
pub(crate) fn set_mtu(
    control: BorrowedFd<'_>,
    name: &InterfaceName,
    mtu: usize,
) -> Result<(), Errno> {
    let mut ifr = request(name);
    ifr.ifr_ifru.ifru_mtu = libc::c_int::try_from(mtu).map_err(|_| Errno::INVAL)?;
    // SAFETY: SIOCSIFMTU reads an ifreq.
    unsafe { ioctl(control, libc::SIOCSIFMTU, &mut ifr) }
}

/// The kernel's hardware address on the interface.
pub(crate) fn hardware_address(
    control: BorrowedFd<'_>,
    name: &InterfaceName,
) -> Result<[u8; 6], Errno> {
    link_address(control, name).map(|(_, address)| address)
}

/// The interface's link type (`ARPHRD_*`) and the kernel's hardware address on it, which
/// is meaningless without a link layer.
pub(crate) fn link_address(
    control: BorrowedFd<'_>,
    name: &InterfaceName,
) -> Result<(u16, [u8; 6]), Errno> {
    let mut ifr = request(name);
    // SAFETY: SIOCGIFHWADDR reads and writes an ifreq, and fills `ifru_hwaddr`.
    let address = unsafe {
        ioctl(control, libc::SIOCGIFHWADDR, &mut ifr)?;
        ifr.ifr_ifru.ifru_hwaddr
    };
    let bytes = std::array::from_fn(|i| address.sa_data[i].to_ne_bytes()[0]);
    Ok((address.sa_family, bytes))
}

/// Adds an address to the kernel's side of the interface.
pub(crate) fn add_address(
    control: BorrowedFd<'_>,
    name: &InterfaceName,
    address: IpAddr,
    prefix_len: u8,
) -> Result<(), Errno> {
    match address {
        IpAddr::V4(address) => {
            set_inet(control, name, libc::SIOCSIFADDR, address)?;
            let mask = u32::MAX
                .checked_shl(32 - u32::from(prefix_len))
                .unwrap_or(0);
            set_inet(control, name, libc::SIOCSIFNETMASK, Ipv4Addr::from(mask))
        }
        IpAddr::V6(address) => {
            let index = index(control, name)?;
            let socket = rustix::net::socket_with(
                rustix::net::AddressFamily::INET6,
                rustix::net::SocketType::DGRAM,
                rustix::net::SocketFlags::CLOEXEC,
                None,
            )?;
            let mut ask = In6Request {
                address: libc::in6_addr {
                    s6_addr: address.octets(),
                },
                prefix_len: u32::from(prefix_len),
                index,
            };
            // SAFETY: on an AF_INET6 socket SIOCSIFADDR reads an in6_ifreq.
            unsafe {
                ioctl(
                    std::os::fd::AsFd::as_fd(&socket),
                    libc::SIOCSIFADDR,
                    &mut ask,
                )
            }
        }
    }
}

fn set_inet(
    control: BorrowedFd<'_>,
    name: &InterfaceName,
    what: libc::Ioctl,
    address: Ipv4Addr,
) -> Result<(), Errno> {
    let mut ifr = request(name);
    let inet = libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: 0,
        sin_addr: libc::in_addr {
            s_addr: u32::from(address).to_be(),
        },
        sin_zero: [0; 8],
    };
    // SAFETY: a sockaddr_in and a sockaddr have the same size, no padding, and
    // any bytes are a valid sockaddr.
    ifr.ifr_ifru.ifru_addr =
        unsafe { std::mem::transmute::<libc::sockaddr_in, libc::sockaddr>(inet) };
    // SAFETY: SIOCSIFADDR and SIOCSIFNETMASK read an ifreq.
    unsafe { ioctl(control, what, &mut ifr) }
}

/// All addresses on this network namespace's interfaces: interface, address, prefix
/// length.
pub(crate) fn addresses() -> Result<Vec<(String, IpAddr, u8)>, Errno> {
    let mut list: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: getifaddrs writes one pointer to `list`.
    if unsafe { libc::getifaddrs(&raw mut list) } != 0 {
        let error = std::io::Error::last_os_error();
        return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO));
    }
    let mut found = Vec::new();
    let mut next = list;
    while !next.is_null() {
        // SAFETY: `next` is a node of the list, valid until freeifaddrs.
        let node = unsafe { &*next };
        next = node.ifa_next;
        if let (Some(address), Some(mask)) = (ip_of(node.ifa_addr), ip_of(node.ifa_netmask)) {
            // SAFETY: `ifa_name` is a C string, valid until freeifaddrs.
            let name = unsafe { std::ffi::CStr::from_ptr(node.ifa_name) };
            let ones = match mask {
                IpAddr::V4(mask) => u32::from(mask).count_ones(),
                IpAddr::V6(mask) => u128::from(mask).count_ones(),
            };
            found.push((name.to_string_lossy().into_owned(), address, ones as u8));
        }
    }
    // SAFETY: `list` came from getifaddrs, and nothing refers to it any more.
    unsafe { libc::freeifaddrs(list) };
    Ok(found)
}

/// Reads an address of a list from getifaddrs.
fn ip_of(address: *const libc::sockaddr) -> Option<IpAddr> {
    if address.is_null() {
        return None;
    }
    // SAFETY: the list's addresses are at least a sockaddr's family long, and
    // as long as that family's type; they live as long as the list.
    unsafe {
        match i32::from((*address).sa_family) {
            libc::AF_INET => {
                let inet = address.cast::<libc::sockaddr_in>().read_unaligned();
                Some(IpAddr::V4(Ipv4Addr::from(u32::from_be(
                    inet.sin_addr.s_addr,
                ))))
            }
            libc::AF_INET6 => {
                let inet = address.cast::<libc::sockaddr_in6>().read_unaligned();
                Some(IpAddr::V6(Ipv6Addr::from(inet.sin6_addr.s6_addr)))
            }
            _ => None,
        }
    }
}
