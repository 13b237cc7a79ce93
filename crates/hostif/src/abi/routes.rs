//! Which destinations are the engine's and which stay with the kernel, as the
//! engine tells its programs: a small table in the arena's header.

use super::Address;
use super::inventory::{Metered, Sides, Word, word, words};
use super::record::{loopback_at, loopback_place};
use longshore_ring::Shared;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// Most routes an engine can tell its programs of.
pub const MAX_ROUTES: usize = 32;
/// The number of the loopback interface in each network namespace.
const LOOPBACK_INTERFACE: u32 = 1;
/// The bits of the table's first word that count its entries.
const COUNT_BITS: u32 = 8;
const COUNT: u32 = (1 << COUNT_BITS) - 1;
/// How often a reader looks at a table that changes under it.
const READS: usize = 10_000;

/// Who has a destination or a local address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// The engine.
    Engine,
    /// The kernel of the program.
    Kernel,
}

/// Who has the loopback addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Loopback {
    /// The kernel: programs on Longshore meet those that are not.
    #[default]
    Kernel,
    /// The engine: 127.0.0.0/8 and ::1 are shared by the programs on it alone.
    Engine,
}

/// A prefix that the engine reaches; `local` if it is its own address. Link-local
/// addresses are the engine's with its own scope alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// The prefix's address.
    pub address: IpAddr,
    /// Its length in bits.
    pub prefix_len: u8,
    /// Whether this is an address of the engine itself.
    pub local: bool,
    /// The number by which programs name the engine's link in link-local addresses: that
    /// of its port's interface in the kernel. 0 if it has none there.
    pub scope: u32,
}

/// Whether an address means something only together with a link.
fn needs_scope(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local())
}

/// Whether it is 255.255.255.255.
fn is_everybody(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V4(ip) if ip.is_broadcast())
}

/// The scope that an address names.
fn scope_of(addr: SocketAddr) -> u32 {
    match addr {
        SocketAddr::V4(_) => 0,
        SocketAddr::V6(addr) => addr.scope_id(),
    }
}

impl Route {
    /// Whether what goes to `addr` goes there.
    fn leads_to(&self, addr: SocketAddr) -> bool {
        let ip = addr.ip().to_canonical();
        let linked = !needs_scope(ip) || (self.scope != 0 && self.scope == scope_of(addr));
        linked && self.contains(ip)
    }

    /// Whether `ip` is in the prefix.
    #[must_use]
    pub fn contains(&self, ip: IpAddr) -> bool {
        let differ = match (self.address, ip) {
            (IpAddr::V4(a), IpAddr::V4(b)) => u128::from(u32::from(a) ^ u32::from(b)) << 96,
            (IpAddr::V6(a), IpAddr::V6(b)) => u128::from(a) ^ u128::from(b),
            _ => return false,
        };
        differ.leading_zeros() >= u32::from(self.prefix_len)
    }
}

#[repr(C)]
#[derive(Debug)]
struct Entry {
    address: [AtomicU64; 3],
    /// Prefix length, and bit 8 if local.
    meta: AtomicU64,
}

/// Bytes of a route in the table.
pub(crate) const ROUTE_BYTES: usize = size_of::<Entry>();

/// The table, in shared memory, written anew when addresses come or go: twice, so that
/// readers have the last one while the next is written, however long its writer is held
/// up.
#[repr(C)]
#[derive(Debug)]
pub struct Routes {
    /// How many entries the last one has, and above that how many were written: if that
    /// is odd, it is the second of `written`.
    count: AtomicU32,
    loopback: AtomicU32,
    /// What the engine's link takes of IPv4 and of IPv6, bytes.
    link_mtu: [AtomicU32; 2],
    /// Whether some path was found to take less.
    narrow_paths: AtomicU32,
    written: [[Entry; MAX_ROUTES]; 2],
}

// SAFETY: atomics alone.
unsafe impl Shared for Routes {}

/// A word of the table.
const REPORTED: Word = word(Sides::ADAPTER, Sides::HOST, Metered::Transfer);

impl Routes {
    /// Its words.
    pub(super) const WORDS: &[Word] = words!(Routes {
        count: REPORTED,
        loopback: REPORTED,
        link_mtu: REPORTED,
        narrow_paths: REPORTED,
        written: REPORTED,
    });

    /// Writes the table; its one writer is the engine. Routes past [`MAX_ROUTES`] are
    /// left out; the return value says how many fitted.
    pub fn publish(&self, routes: &[Route], loopback: Loopback) -> usize {
        let count = routes.len().min(MAX_ROUTES);
        let number = (self.count.load(Ordering::Relaxed) >> COUNT_BITS).wrapping_add(1);
        // A reader of something of what follows sees that this one was not the last.
        fence(Ordering::Release);
        for (entry, route) in self.entries(number).iter().zip(routes) {
            let words = Address::from(SocketAddr::new(route.address, 0)).0;
            for (to, from) in entry.address.iter().zip(words) {
                to.store(from, Ordering::Relaxed);
            }
            let meta = u64::from(route.prefix_len)
                | u64::from(route.local) << 8
                | u64::from(route.scope) << 32;
            entry.meta.store(meta, Ordering::Relaxed);
        }
        self.loopback
            .store(u32::from(loopback == Loopback::Engine), Ordering::Relaxed);
        let done = number << COUNT_BITS | count as u32;
        self.count.store(done, Ordering::Release);
        count
    }

    /// Where the writing of this number is.
    fn entries(&self, number: u32) -> &[Entry; MAX_ROUTES] {
        let [even, odd] = &self.written;
        if number & 1 == 0 { even } else { odd }
    }

    /// The entries' words, all of one writing.
    fn snapshot(&self) -> ([[u64; 4]; MAX_ROUTES], usize) {
        let mut words = [[0; 4]; MAX_ROUTES];
        let mut count = 0;
        // It is over at the first time unless two were written meanwhile.
        for _ in 0..READS {
            let before = self.count.load(Ordering::Acquire);
            count = ((before & COUNT) as usize).min(MAX_ROUTES);
            let entries = self.entries(before >> COUNT_BITS);
            for (to, entry) in words.iter_mut().zip(entries).take(count) {
                let [a, b, c] = &entry.address;
                *to = [a, b, c, &entry.meta].map(|word| word.load(Ordering::Relaxed));
            }
            fence(Ordering::Acquire);
            if self.count.load(Ordering::Relaxed) == before {
                break;
            }
            std::hint::spin_loop();
        }
        (words, count)
    }

    /// The routes.
    pub fn iter(&self) -> impl Iterator<Item = Route> + '_ {
        let (words, count) = self.snapshot();
        words.into_iter().take(count).filter_map(|[a, b, c, meta]| {
            let words = [a, b, c];
            let address = Address(words).get()?.ip();
            let longest = if address.is_ipv4() { 32 } else { 128 };
            let prefix_len = (meta as u8).min(longest);
            Some(Route {
                address,
                prefix_len,
                local: meta & 0x100 != 0,
                scope: (meta >> 32) as u32,
            })
        })
    }

    /// The engine's own address at this place ([`DatagramRecord`]'s `own`), with its scope;
    /// with the loopback interface's number if it is a loopback address.
    ///
    /// [`DatagramRecord`]: crate::DatagramRecord
    pub fn own_address(&self, place: u8) -> Option<Route> {
        if let Some(address) = loopback_at(place) {
            return (self.loopback() == Loopback::Engine).then_some(Route {
                address,
                prefix_len: if address.is_ipv4() { 32 } else { 128 },
                local: true,
                scope: LOOPBACK_INTERFACE,
            });
        }
        let before = usize::from(place).checked_sub(1)?;
        self.iter().filter(|r| r.local).nth(before)
    }

    /// The place of one of the engine's own addresses.
    pub fn own_place(&self, ip: IpAddr) -> Option<u8> {
        if self.loopback() == Loopback::Engine
            && let Some(place) = loopback_place(ip)
        {
            return Some(place);
        }
        let at = self
            .iter()
            .filter(|r| r.local)
            .position(|r| r.address == ip)?;
        u8::try_from(at + 1).ok()
    }

    /// Who has the loopback addresses.
    pub fn loopback(&self) -> Loopback {
        if self.loopback.load(Ordering::Relaxed) == 0 {
            Loopback::Kernel
        } else {
            Loopback::Engine
        }
    }

    /// Says what the link takes of IPv4 and of IPv6, in bytes, and whether some path takes
    /// less; its one writer is the engine.
    pub fn publish_mtu(&self, link: [usize; 2], narrow_paths: bool) {
        for (word, mtu) in self.link_mtu.iter().zip(link) {
            word.store(u32::try_from(mtu).unwrap_or(u32::MAX), Ordering::Relaxed);
        }
        let narrow = u32::from(narrow_paths);
        self.narrow_paths.store(narrow, Ordering::Release);
    }

    /// What the link takes of IPv4 and of IPv6, bytes.
    pub fn mtu_of_link(&self) -> [u32; 2] {
        self.link_mtu
            .each_ref()
            .map(|mtu| mtu.load(Ordering::Relaxed))
    }

    /// The longest packet to `to` that the engine's link takes, bytes; what goes to the
    /// engine's own addresses uses no link.
    pub fn link_mtu(&self, to: IpAddr) -> usize {
        let to = to.to_canonical();
        if to.is_loopback() || self.own_place(to).is_some() {
            return usize::from(u16::MAX);
        }
        let [of_v4, of_v6] = &self.link_mtu;
        let word = if to.is_ipv6() { of_v6 } else { of_v4 };
        word.load(Ordering::Relaxed) as usize
    }

    /// Whether some path was found to take less than its link.
    pub fn has_narrow_paths(&self) -> bool {
        self.narrow_paths.load(Ordering::Acquire) != 0
    }

    /// Whether `ip` is a broadcast address of the engine's link (RFC 1122 section
    /// 3.2.1.3 c and d).
    pub fn is_broadcast(&self, ip: IpAddr) -> bool {
        let IpAddr::V4(ip) = ip.to_canonical() else {
            return false;
        };
        // Networks of one or two addresses have none (RFC 3021), so most are told apart
        // by two bits.
        if u32::from(ip) & 3 != 3 {
            return false;
        }
        let last = |r: &Route| {
            let host_bits = u32::MAX.checked_shr(u32::from(r.prefix_len)).unwrap_or(0);
            !r.local && r.prefix_len < 31 && u32::from(ip) | host_bits == u32::from(ip)
        };
        ip.is_broadcast() || self.iter().any(|r| last(&r) && r.contains(IpAddr::V4(ip)))
    }

    /// Whether groups and broadcasts of the version of `to` reach the engine's link:
    /// those of a scope that needs it have to name it, or none.
    fn leads_to_all(&self, to: SocketAddr) -> bool {
        let v4 = to.ip().to_canonical().is_ipv4();
        let scope = scope_of(to);
        let own = |r: &Route| r.local && r.address.is_ipv4() == v4;
        self.iter()
            .any(|r| own(&r) && (scope == 0 || scope == r.scope))
    }

    /// The number by which programs name the engine's link; 0 if they cannot.
    pub fn link_scope(&self) -> u32 {
        self.iter().map(|r| r.scope).find(|s| *s != 0).unwrap_or(0)
    }

    /// Who carries a connection or datagram to `to`. What goes to a group or to
    /// everybody is the engine's, unless it names another link.
    pub fn owner_of(&self, to: SocketAddr) -> Owner {
        let ip = to.ip().to_canonical();
        let engine = if ip.is_loopback() {
            self.loopback() == Loopback::Engine
        } else if ip.is_multicast() || is_everybody(ip) {
            self.leads_to_all(to)
        } else {
            self.iter().any(|r| r.leads_to(to))
        };
        if engine { Owner::Engine } else { Owner::Kernel }
    }

    /// Who has a socket bound to `local`: the engine for its own addresses, for groups
    /// and broadcast addresses that reach its link, and for the wildcard, under which
    /// programs expect to be reached everywhere.
    pub fn owner_of_local(&self, local: SocketAddr) -> Owner {
        let ip = local.ip().to_canonical();
        let engine = ip.is_unspecified()
            || ((ip.is_multicast() || is_everybody(ip)) && self.leads_to_all(local))
            || self.is_broadcast(ip)
            || (ip.is_loopback() && self.loopback() == Loopback::Engine)
            || self.iter().any(|r| r.local && r.leads_to(local));
        if engine { Owner::Engine } else { Owner::Kernel }
    }

    /// The scope that a program sees in an address of the engine's: its link's for a
    /// link-local one, and none otherwise.
    pub fn scope_for(&self, ip: IpAddr) -> u32 {
        if needs_scope(ip) {
            self.iter().find(|r| r.contains(ip)).map_or(0, |r| r.scope)
        } else {
            0
        }
    }
}

#[cfg(test)]
mod tests;
