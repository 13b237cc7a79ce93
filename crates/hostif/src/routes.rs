//! Which destinations are the engine's and which stay with the kernel, as the
//! engine tells its programs: a small table in the arena's header.

use crate::Address;
use longshore_ring::Shared;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Most routes an engine can tell its programs of.
pub const MAX_ROUTES: usize = 32;

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
    /// The engine: 127.0.0.0/8 is shared by the programs on it alone. ::1 stays
    /// with the kernel.
    Engine,
}

/// A prefix that the engine reaches; `local` if it is its own address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// The prefix's address.
    pub address: IpAddr,
    /// Its length in bits.
    pub prefix_len: u8,
    /// Whether this is an address of the engine itself.
    pub local: bool,
}

impl Route {
    fn contains(&self, ip: IpAddr) -> bool {
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

/// The table, in shared memory.
#[repr(C)]
#[derive(Debug)]
pub struct Routes {
    count: AtomicU32,
    loopback: AtomicU32,
    entries: [Entry; MAX_ROUTES],
}

// SAFETY: atomics alone.
unsafe impl Shared for Routes {}

impl Routes {
    /// Writes the table, before any program sees it. Routes past
    /// [`MAX_ROUTES`] are left out; the return value says how many fitted.
    pub fn publish(&self, routes: &[Route], loopback: Loopback) -> usize {
        let count = routes.len().min(MAX_ROUTES);
        for (entry, route) in self.entries.iter().zip(routes) {
            let words = Address::from(SocketAddr::new(route.address, 0)).0;
            for (to, from) in entry.address.iter().zip(words) {
                to.store(from, Ordering::Relaxed);
            }
            let meta = u64::from(route.prefix_len) | u64::from(route.local) << 8;
            entry.meta.store(meta, Ordering::Relaxed);
        }
        self.loopback
            .store(u32::from(loopback == Loopback::Engine), Ordering::Relaxed);
        self.count.store(count as u32, Ordering::Release);
        count
    }

    /// The routes.
    pub fn iter(&self) -> impl Iterator<Item = Route> + '_ {
        let count = (self.count.load(Ordering::Acquire) as usize).min(MAX_ROUTES);
        self.entries[..count].iter().filter_map(|e| {
            let words = std::array::from_fn(|i| e.address[i].load(Ordering::Relaxed));
            let meta = e.meta.load(Ordering::Relaxed);
            let address = Address(words).get()?.ip();
            let longest = if address.is_ipv4() { 32 } else { 128 };
            let prefix_len = (meta as u8).min(longest);
            Some(Route {
                address,
                prefix_len,
                local: meta & 0x100 != 0,
            })
        })
    }

    /// Who has the loopback addresses.
    pub fn loopback(&self) -> Loopback {
        if self.loopback.load(Ordering::Relaxed) == 0 {
            Loopback::Kernel
        } else {
            Loopback::Engine
        }
    }

    /// Whether a loopback address is the engine's: of IPv4's alone, the only kind
    /// that it speaks.
    fn has_loopback(&self, ip: IpAddr) -> bool {
        ip.is_ipv4() && self.loopback() == Loopback::Engine
    }

    /// Who carries a connection or datagram to `ip`.
    pub fn owner_of(&self, ip: IpAddr) -> Owner {
        let ip = ip.to_canonical();
        let engine = if ip.is_loopback() {
            self.has_loopback(ip)
        } else {
            self.iter().any(|r| r.contains(ip))
        };
        if engine { Owner::Engine } else { Owner::Kernel }
    }

    /// Who has a socket bound to `ip`: the engine for its own addresses and
    /// for the wildcard, under which programs expect to be reached everywhere.
    pub fn owner_of_local(&self, ip: IpAddr) -> Owner {
        let ip = ip.to_canonical();
        let engine = ip.is_unspecified()
            || (ip.is_loopback() && self.has_loopback(ip))
            || self.iter().any(|r| r.local && r.address == ip);
        if engine { Owner::Engine } else { Owner::Kernel }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(loopback: Loopback) -> Box<Routes> {
        let routes = Box::new(Routes {
            count: AtomicU32::new(0),
            loopback: AtomicU32::new(0),
            entries: std::array::from_fn(|_| Entry {
                address: std::array::from_fn(|_| AtomicU64::new(0)),
                meta: AtomicU64::new(0),
            }),
        });
        let route = |address: &str, prefix_len, local| Route {
            address: address.parse().unwrap(),
            prefix_len,
            local,
        };
        let given = [route("10.77.0.2", 32, true), route("10.77.0.0", 24, false)];
        assert_eq!(routes.publish(&given, loopback), 2);
        routes
    }

    #[test]
    fn destinations_go_where_they_are_routed() {
        let t = table(Loopback::Kernel);
        let owner = |ip: &str| t.owner_of(ip.parse().unwrap());
        assert_eq!(owner("10.77.0.1"), Owner::Engine);
        assert_eq!(owner("::ffff:10.77.0.1"), Owner::Engine);
        assert_eq!(owner("10.78.0.1"), Owner::Kernel);
        assert_eq!(owner("127.0.0.1"), Owner::Kernel);
        assert_eq!(owner("::1"), Owner::Kernel);
        let ours = table(Loopback::Engine);
        assert_eq!(ours.owner_of("::1".parse().unwrap()), Owner::Kernel);
        assert_eq!(
            table(Loopback::Engine).owner_of("127.0.0.9".parse().unwrap()),
            Owner::Engine
        );
    }

    #[test]
    fn wildcard_and_own_addresses_are_bound_on_the_engine() {
        let t = table(Loopback::Kernel);
        let owner = |ip: &str| t.owner_of_local(ip.parse().unwrap());
        assert_eq!(owner("0.0.0.0"), Owner::Engine);
        assert_eq!(owner("::"), Owner::Engine);
        assert_eq!(owner("10.77.0.2"), Owner::Engine);
        assert_eq!(owner("10.77.0.1"), Owner::Kernel);
        assert_eq!(owner("127.0.0.1"), Owner::Kernel);
    }
}
