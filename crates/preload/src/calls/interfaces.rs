//! The addresses of the machine: `getifaddrs`, and the older SIOCGIFCONF.
//!
//! Both say what the kernel has, and behind that the engine's own addresses, under the name
//! of the interface that the engine's port is or is connected to. A server that binds each
//! address by itself (named, chronyd) is reached at the engine's by that.

use crate::address::Native;
use crate::calls::set_errno;
use crate::namespace;
use crate::real;
use crate::signals::within;
use crate::state::{self, Mode};
use crate::user::{Out, Text, Zero};
use crate::vectors;
use libc::{c_char, c_int, c_uint, c_void, ifaddrs, ifreq, size_t, sockaddr, sockaddr_storage};
use longshore_hostif::Route;
use std::ffi::CStr;
use std::mem::offset_of;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The name where the engine's port has no interface here.
const NAMELESS: &[u8] = b"longshore";
/// What every interface of the engine is.
const FLAGS: c_int = libc::IFF_UP
    | libc::IFF_LOWER_UP
    | libc::IFF_RUNNING
    | libc::IFF_BROADCAST
    | libc::IFF_MULTICAST;
/// The bytes of an interface's statistics, which links have behind `ifa_data`: a
/// `rtnl_link_stats`.
const STATISTICS: usize = 96;
/// The longest address that libc lists: a `sockaddr_ll` with a hardware address of 24 bytes.
const LONGEST: usize = 36;

/// One of the engine's addresses, as it is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Own {
    address: IpAddr,
    prefix_len: u8,
    scope: u32,
}

/// The engine's own addresses with the lengths of their networks' prefixes: the longest
/// among `routes` that holds each.
fn own_addresses(routes: &[Route]) -> Vec<Own> {
    let networks = |own: &Route| {
        let holding = move |r: &&Route| !r.local && r.prefix_len > 0 && r.contains(own.address);
        routes.iter().filter(holding).map(|r| r.prefix_len).max()
    };
    let all = routes
        .iter()
        .filter(|r| r.local && !r.address.is_loopback());
    let listed = all.map(|r| Own {
        address: r.address,
        prefix_len: networks(r).unwrap_or(r.prefix_len),
        scope: r.scope,
    });
    listed.collect()
}

impl Own {
    /// An address as C has it: libc says of which interface one of IPv6 is if it is valid on
    /// that link alone.
    fn native(&self, ip: IpAddr) -> Native {
        let mut address = SocketAddr::new(ip, 0);
        if let SocketAddr::V6(address) = &mut address
            && ip == self.address
            && address.ip().is_unicast_link_local()
        {
            address.set_scope_id(self.scope);
        }
        Native::new(address, ip.is_ipv6())
    }

    fn mask(&self) -> IpAddr {
        let of = |bits: u32| u128::MAX.checked_shl(bits).unwrap_or(0);
        match self.address {
            IpAddr::V4(_) => Ipv4Addr::from(of(32 - u32::from(self.prefix_len)) as u32).into(),
            IpAddr::V6(_) => Ipv6Addr::from(of(128 - u32::from(self.prefix_len))).into(),
        }
    }

    /// The address of everybody in its network; networks of one or two have none (RFC 3021).
    fn broadcast(&self) -> Option<IpAddr> {
        match (self.address, self.mask()) {
            (IpAddr::V4(ip), IpAddr::V4(mask)) if self.prefix_len < 31 => {
                Some(Ipv4Addr::from(u32::from(ip) | !u32::from(mask)).into())
            }
            _ => None,
        }
    }
}

/// libc's `struct ifaddrs`: an entry of a list, with what it points to as long as the list is
/// not given back.
#[repr(C)]
#[derive(Debug)]
pub struct Entry {
    next: Out<'static, Entry>,
    name: Text<'static>,
    flags: c_uint,
    address: Out<'static, sockaddr>,
    mask: Out<'static, sockaddr>,
    broadcast: Out<'static, sockaddr>,
    /// A link's statistics.
    data: Out<'static, [u8; STATISTICS]>,
}

const _: () = assert!(size_of::<Entry>() == size_of::<ifaddrs>());
const _: () = assert!(offset_of!(Entry, address) == offset_of!(ifaddrs, ifa_addr));
const _: () = assert!(offset_of!(Entry, data) == offset_of!(ifaddrs, ifa_data));

/// An entry of the list with all that it points to. The list is one piece of memory, as
/// libc's is, so that libc's `freeifaddrs` gives it back.
#[repr(C)]
struct Record {
    entry: Entry,
    address: sockaddr_storage,
    mask: sockaddr_storage,
    broadcast: sockaddr_storage,
    name: [u8; libc::IFNAMSIZ],
    statistics: [u8; STATISTICS],
}

impl Record {
    /// Fills it with what libc lists.
    fn copy(&'static mut self, of: &Entry) {
        self.entry.flags = of.flags;
        let name = of.name.get().unwrap_or_default();
        self.entry.name = copy_name(&mut self.name, name.to_bytes());
        self.entry.address = copy_address(&mut self.address, of.address);
        self.entry.mask = copy_address(&mut self.mask, of.mask);
        self.entry.broadcast = copy_address(&mut self.broadcast, of.broadcast);
        if let Some(statistics) = of.data.get() {
            self.statistics = statistics;
            self.entry.data = Out::from(&mut self.statistics);
        }
    }

    /// Fills it with one of the engine's addresses.
    fn set(&'static mut self, own: &Own, name: &[u8]) {
        self.entry.flags = FLAGS as u32;
        self.entry.name = copy_name(&mut self.name, name);
        self.address = own.native(own.address).storage();
        self.entry.address = Out::from(&mut self.address).cast();
        self.mask = own.native(own.mask()).storage();
        self.entry.mask = Out::from(&mut self.mask).cast();
        if let Some(broadcast) = own.broadcast() {
            self.broadcast = own.native(broadcast).storage();
            self.entry.broadcast = Out::from(&mut self.broadcast).cast();
        }
    }
}

/// Copies a name to where there are zeros, and says where it is then.
fn copy_name(to: &'static mut [u8; libc::IFNAMSIZ], name: &[u8]) -> Text<'static> {
    let len = name.len().min(to.len() - 1);
    to[..len].copy_from_slice(&name[..len]);
    Text::from(CStr::from_bytes_until_nul(to).unwrap_or_default())
}

/// Copies an address of libc's list, which keeps each where the longest would fit, and says
/// where it is then.
fn copy_address(
    to: &'static mut sockaddr_storage,
    from: Out<'static, sockaddr>,
) -> Out<'static, sockaddr> {
    let Some(bytes) = from.cast::<[u8; LONGEST]>().get() else {
        return Out::null();
    };
    let to = Out::from(to);
    to.cast().put(bytes);
    to.cast()
}

/// A list as `getifaddrs` makes it, which is given back when this goes; null is an empty one.
struct List(Out<'static, Entry>);

impl List {
    /// Its entries.
    fn entries(&self) -> impl Iterator<Item = &Entry> {
        let mut at = self.0;
        std::iter::from_fn(move || {
            let entry = at.as_in().as_ref()?;
            at = entry.next;
            Some(entry)
        })
    }

    /// For C, which gives it back.
    fn into_raw(self) -> Out<'static, Entry> {
        std::mem::ManuallyDrop::new(self).0
    }
}

impl Drop for List {
    fn drop(&mut self) {
        // SAFETY: made by libc, or as libc makes it, and in nobody else's hands.
        unsafe { freeifaddrs(self.0) };
    }
}

mod libcs {
    use super::*;
    real::real! { getifaddrs(list: Out<'_, Out<'static, Entry>>) -> c_int; }
}

/// A list of what libc lists and of the engine's addresses; an empty one without memory.
fn combined(libcs: &List, own: &[Own], name: &[u8]) -> List {
    let count = libcs.entries().count() + own.len();
    // Zeros are numbers and null pointers.
    let block = calloc(count, size_of::<Record>()).cast::<Record>();
    let (mut libcs, mut own) = (libcs.entries(), own.iter());
    for (at, record) in block.slice_mut(count).iter_mut().enumerate() {
        if at + 1 < count {
            record.entry.next = block.add(at + 1).cast();
        }
        if let Some(entry) = libcs.next() {
            record.copy(entry);
        } else if let Some(own) = own.next() {
            record.set(own, name);
        }
    }
    List(block.cast())
}

unsafe extern "C" {
    fn freeifaddrs(list: Out<'static, Entry>);
    safe fn calloc(count: size_t, size: size_t) -> Out<'static, c_void>;
    safe fn if_indextoname<'a>(index: u32, name: &'a mut [u8; libc::IFNAMSIZ]) -> Text<'a>;
}

/// Whether the kernel has an interface of this number, as the engine's link is one.
pub(crate) fn is_there(index: u32) -> bool {
    let mut name = [0; libc::IFNAMSIZ];
    !if_indextoname(index, &mut name).is_null()
}

/// The name of the engine's interface, without its end.
fn interface_name(scope: u32) -> Vec<u8> {
    let mut name = [0u8; libc::IFNAMSIZ];
    if scope == 0 || if_indextoname(scope, &mut name).is_null() {
        return NAMELESS.to_vec();
    }
    name.split(|b| *b == 0).next().unwrap_or(NAMELESS).to_vec()
}

/// The engine's addresses and their interface's name; `None` without an engine. A program may
/// well ask before it has any socket, so this joins.
fn known() -> Option<(Vec<Own>, Vec<u8>)> {
    let Mode::On(host) = state::mode() else {
        return None;
    };
    if namespace::is_another() {
        return None;
    }
    let routes = host.routes();
    let own = own_addresses(&routes.iter().collect::<Vec<_>>());
    (!own.is_empty()).then(|| (own, interface_name(routes.link_scope())))
}

/// `getifaddrs(3)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn getifaddrs(list: Out<'_, Out<'static, Entry>>) -> c_int {
    within(|| {
        let result = libcs::getifaddrs(list);
        if result != 0 {
            return result;
        }
        let libcs = list.get().filter(|libcs| !libcs.is_null());
        let (Some(libcs), Some((own, name))) = (libcs, known()) else {
            return 0;
        };
        let both = combined(&List(libcs), &own, &name).into_raw();
        list.put(both);
        if both.is_null() {
            set_errno(libc::ENOMEM);
            return -1;
        }
        0
    })
}

/// What SIOCGIFCONF fills, `struct ifconf`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Configuration<'a> {
    /// Bytes that there is room for, and then those of the entries.
    len: c_int,
    entries: Out<'a, ifreq>,
}

const _: () = assert!(size_of::<Configuration<'_>>() == size_of::<libc::ifconf>());

/// SIOCGIFCONF: IPv4 addresses alone, as many as there is room for; or the room that all
/// take, if there is no buffer.
pub(super) fn configuration(fd: c_int, to: Out<'_, Configuration<'_>>) -> c_int {
    within(|| {
        if !vectors::can_be_written(to, size_of::<Configuration<'_>>()) {
            return real::ioctl(fd, libc::SIOCGIFCONF, to.into());
        }
        let room = to.get().map_or(0, |c| c.len).max(0);
        let result = real::ioctl(fd, libc::SIOCGIFCONF, to.into());
        let (0, Some(mut list), Some((own, name))) = (result, to.get(), known()) else {
            return result;
        };
        let size = size_of::<ifreq>();
        for own in own.iter().filter(|own| own.address.is_ipv4()) {
            let at = list.len as usize;
            if !list.entries.is_null() {
                if at + size > room as usize {
                    break;
                }
                let place = list.entries.cast::<u8>().add(at).cast();
                place.put(request_of(own, &name));
            }
            list.len += size as c_int;
        }
        to.put(list);
        0
    })
}

/// The entry of SIOCGIFCONF's list.
fn request_of(own: &Own, name: &[u8]) -> ifreq {
    let mut request: ifreq = Zero::zero();
    for (to, from) in request
        .ifr_name
        .iter_mut()
        .zip(name.iter().take(libc::IFNAMSIZ - 1))
    {
        *to = *from as c_char;
    }
    // An address of IPv4 is as long as a `sockaddr`.
    request.ifr_ifru.ifru_addr = own.native(own.address).whole::<sockaddr>();
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(address: &str, prefix_len: u8, local: bool) -> Route {
        let address = address.parse().unwrap();
        Route {
            address,
            prefix_len,
            local,
            scope: 3,
        }
    }

    #[test]
    fn an_address_has_the_mask_of_the_longest_network_around_it() {
        let routes = [
            route("0.0.0.0", 0, false),
            route("10.0.0.0", 8, false),
            route("10.77.0.0", 24, false),
            route("10.77.0.2", 32, true),
            route("127.0.0.1", 32, true),
            route("fd00::2", 128, true),
            route("192.168.1.1", 32, true),
            route("192.168.0.0", 31, false),
        ];
        let own = own_addresses(&routes);
        let masks: Vec<_> = own
            .iter()
            .map(|o| (o.mask().to_string(), o.broadcast()))
            .collect();
        let broadcast = "10.77.0.255".parse().unwrap();
        let all_ones = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
        assert_eq!(
            masks,
            [
                ("255.255.255.0".into(), Some(broadcast)),
                (all_ones.into(), None),
                ("255.255.255.255".into(), None),
            ]
        );
        let whole = Own {
            address: own[0].address,
            prefix_len: 0,
            scope: 0,
        };
        assert_eq!(whole.mask(), Ipv4Addr::UNSPECIFIED);
    }

    #[test]
    fn a_list_of_both_points_into_itself() {
        let mut libcs = Out::null();
        assert_eq!(super::libcs::getifaddrs(Out::from(&mut libcs)), 0);
        let all = List(libcs);
        let before = all.entries().count();
        let own = own_addresses(&[
            route("10.77.0.2", 32, true),
            route("fe80::1", 128, true),
            route("fd00::2", 128, true),
        ]);
        let list = combined(&all, &own, b"a-name-that-is-too-long");
        // What it has is copied.
        drop(all);
        assert_eq!(list.entries().count(), before + 3);
        let named = |entry: &Entry| entry.name.get().unwrap().to_str().unwrap().to_owned();
        assert!(list.entries().take(before).any(|e| named(e) == "lo"));
        let last: Vec<_> = list.entries().skip(before).collect();
        assert!(last.iter().all(|e| named(e) == "a-name-that-is-"));
        for (at, scope) in [(1, 3), (2, 0)] {
            let v6 = last[at].address.cast::<libc::sockaddr_in6>().get().unwrap();
            assert_eq!(
                (v6.sin6_family, v6.sin6_scope_id),
                (libc::AF_INET6 as u16, scope)
            );
        }
    }
}
