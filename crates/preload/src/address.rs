//! Socket addresses as C has them.

use crate::results::refused;
use crate::user::{In, Out, Zero};
use crate::vectors;
use libc::{c_int, sockaddr, sockaddr_in, sockaddr_in6, sockaddr_storage, socklen_t};
use longshore_sockets::SocketError;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// What a C address is to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Given {
    /// An inet address.
    Inet(SocketAddr),
    /// AF_UNSPEC.
    Unspecified,
    /// Another family, or of a length that none has: the kernel knows what to say to it.
    Other,
}

/// Reads an address. Of one that is nowhere the kernel knows what to say, too.
pub(crate) fn read(addr: In<'_, sockaddr>, len: socklen_t) -> Given {
    let len = len as usize;
    let (least, most) = (
        size_of::<libc::sa_family_t>(),
        size_of::<sockaddr_storage>(),
    );
    if !(least..=most).contains(&len) || !vectors::can_be_read(addr, len) {
        return Given::Other;
    }
    let bytes = addr.cast::<u8>().slice(len);
    let Some(family) = addr.cast::<libc::sa_family_t>().get() else {
        return Given::Other;
    };
    match c_int::from(family) {
        libc::AF_UNSPEC => Given::Unspecified,
        libc::AF_INET => match bytes {
            [_, _, p, q, a, b, c, d, ..] if len >= size_of::<sockaddr_in>() => {
                let ip = Ipv4Addr::new(*a, *b, *c, *d);
                Given::Inet(SocketAddr::new(ip.into(), u16::from_be_bytes([*p, *q])))
            }
            _ => Given::Other,
        },
        // Linux takes it without the scope, too.
        libc::AF_INET6 if len >= 24 => {
            let mut whole = [0; size_of::<sockaddr_in6>()];
            let take = len.min(whole.len());
            whole[..take].copy_from_slice(&bytes[..take]);
            let a: In<'_, sockaddr_in6> = In::from(&whole).cast();
            let a = a.get().unwrap_or_else(Zero::zero);
            let ip = Ipv6Addr::from(a.sin6_addr.s6_addr);
            let port = u16::from_be(a.sin6_port);
            Given::Inet(SocketAddrV6::new(ip, port, 0, a.sin6_scope_id).into())
        }
        _ => Given::Other,
    }
}

/// Reads an address to which a socket is to be bound. Linux takes that of no family for the
/// wildcard of IPv4.
pub(crate) fn read_to_bind(addr: In<'_, sockaddr>, len: socklen_t, v6: bool) -> Given {
    let given = read(addr, len);
    if given != Given::Unspecified || v6 || (len as usize) < size_of::<sockaddr_in>() {
        return given;
    }
    let a: sockaddr_in = addr.cast().get().unwrap_or_else(Zero::zero);
    if a.sin_addr.s_addr != 0 {
        return given;
    }
    let port = u16::from_be(a.sin_port);
    Given::Inet(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port))
}

/// A C address with its length.
#[derive(Clone, Copy)]
pub(crate) struct Native {
    storage: sockaddr_storage,
    pub(crate) len: socklen_t,
}

impl Native {
    /// `addr`, of the engine's, as a socket of the family has it: an IPv6 socket sees
    /// IPv4 peers as mapped addresses, and the engine's link as its number in the
    /// kernel.
    pub(crate) fn of_engine(addr: SocketAddr, v6: bool) -> Self {
        let mut addr = addr;
        if let SocketAddr::V6(addr) = &mut addr
            && addr.ip().is_unicast_link_local()
            && let Some(host) = crate::place::attached()
        {
            addr.set_scope_id(host.routes().scope_for(IpAddr::V6(*addr.ip())));
        }
        Self::new(addr, v6)
    }

    /// The address alone.
    pub(crate) fn storage(&self) -> sockaddr_storage {
        self.storage
    }

    /// `addr` as a socket of the family has it: an IPv6 socket sees IPv4 peers
    /// as mapped addresses.
    pub(crate) fn new(addr: SocketAddr, v6: bool) -> Self {
        let mut storage: sockaddr_storage = Zero::zero();
        let len = if v6 {
            let ip = match addr.ip() {
                IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                IpAddr::V6(ip) => ip,
            };
            let a = sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: addr.port().to_be(),
                sin6_flowinfo: 0,
                sin6_addr: libc::in6_addr {
                    s6_addr: ip.octets(),
                },
                sin6_scope_id: match addr {
                    SocketAddr::V4(_) => 0,
                    SocketAddr::V6(addr) => addr.scope_id(),
                },
            };
            Out::from(&mut storage).cast().put(a);
            size_of::<sockaddr_in6>()
        } else {
            let ip = match addr.ip().to_canonical() {
                IpAddr::V4(ip) => ip,
                IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED,
            };
            let a = sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: addr.port().to_be(),
                sin_addr: libc::in_addr {
                    s_addr: u32::from(ip).to_be(),
                },
                sin_zero: [0; 8],
            };
            Out::from(&mut storage).cast().put(a);
            size_of::<sockaddr_in>()
        };
        Self {
            storage,
            len: len as socklen_t,
        }
    }

    /// It, as its family has it in whole.
    pub(crate) fn whole<A: Copy + Zero>(&self) -> A {
        const { assert!(size_of::<A>() <= size_of::<sockaddr_storage>()) };
        In::from(&self.storage).cast().get().unwrap_or_else(A::zero)
    }

    /// It, for a call of libc.
    pub(crate) fn as_in(&self) -> In<'_, sockaddr> {
        In::from(&self.storage).cast()
    }

    /// Where C wants it, copies what fits there, and says how long it is.
    ///
    /// # Errors
    /// EFAULT; EINVAL for a negative length.
    pub(crate) fn copy_out(
        &self,
        addr: Out<'_, sockaddr>,
        len: Out<'_, socklen_t>,
    ) -> Result<(), SocketError> {
        if addr.is_null() {
            return Ok(());
        }
        self.tell(addr, len)
    }

    /// As `copy_out`, where C has asked for it: also for its length alone, by a null pointer and a
    /// length of 0.
    ///
    /// # Errors
    /// As `copy_out`.
    pub(crate) fn tell(
        &self,
        addr: Out<'_, sockaddr>,
        len: Out<'_, socklen_t>,
    ) -> Result<(), SocketError> {
        vectors::check_room(len, size_of::<socklen_t>())?;
        let room = len.get().unwrap_or(0);
        if room.cast_signed() < 0 {
            return Err(refused(libc::EINVAL));
        }
        let take = room.min(self.len) as usize;
        if take != 0 {
            vectors::check_room(addr, take)?;
        }
        addr.put_bytes(self.as_in().cast().slice(take));
        len.put(self.len);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_back() {
        for (text, v6) in [
            ("10.1.2.3:80", false),
            ("[2001:db8::7]:443", true),
            ("[fe80::7%3]:443", true),
        ] {
            let addr: SocketAddr = text.parse().unwrap();
            let native = Native::new(addr, v6);
            let given = read(native.as_in(), native.len);
            assert_eq!(given, Given::Inet(addr));
        }
    }

    #[test]
    fn an_ipv6_socket_sees_mapped_addresses() {
        let native = Native::new("10.1.2.3:80".parse().unwrap(), true);
        let mapped = "[::ffff:10.1.2.3]:80".parse().unwrap();
        let given = read(native.as_in(), native.len);
        assert_eq!(given, Given::Inet(mapped));
    }

    #[test]
    fn what_is_short_or_foreign_is_left_to_the_kernel() {
        let native = Native::new("10.1.2.3:80".parse().unwrap(), false);
        assert_eq!(read(native.as_in(), 8), Given::Other);
        assert_eq!(read(In::null(), 16), Given::Other);
    }
}
