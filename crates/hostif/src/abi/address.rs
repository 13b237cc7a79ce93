//! Socket addresses as they cross: three words.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

const FAMILY_V4: u64 = 4;
const FAMILY_V6: u64 = 6;

/// An address and a port in 24 bytes, with the scope of one of IPv6; all zero is
/// "none".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Address(pub [u64; 3]);

impl Address {
    /// No address.
    pub const NONE: Self = Self([0; 3]);

    /// The address, if there is one and it is well formed.
    pub fn get(self) -> Option<SocketAddr> {
        let [first, high, low] = self.0;
        let port = (first >> 16) as u16;
        match first & 0xffff {
            FAMILY_V4 => Some(SocketAddrV4::new(Ipv4Addr::from(high as u32), port).into()),
            FAMILY_V6 => {
                let ip = Ipv6Addr::from(u128::from(high) << 64 | u128::from(low));
                let scope = (first >> 32) as u32;
                Some(SocketAddrV6::new(ip, port, 0, scope).into())
            }
            _ => None,
        }
    }
}

impl From<SocketAddr> for Address {
    fn from(addr: SocketAddr) -> Self {
        let port = u64::from(addr.port()) << 16;
        match addr {
            SocketAddr::V4(addr) => Self([FAMILY_V4 | port, u64::from(u32::from(*addr.ip())), 0]),
            SocketAddr::V6(addr) => {
                let bits = u128::from(*addr.ip());
                let scope = u64::from(addr.scope_id()) << 32;
                Self([FAMILY_V6 | port | scope, (bits >> 64) as u64, bits as u64])
            }
        }
    }
}

impl From<Option<SocketAddr>> for Address {
    fn from(addr: Option<SocketAddr>) -> Self {
        addr.map_or(Self::NONE, Self::from)
    }
}

/// A group or one of its sources, with a number in the place of the port
/// ([`SourceRequest`](crate::SourceRequest)). It crosses as an [`Address`] does, without a scope;
/// here it is small, so that no other request takes more room for its sake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Numbered {
    /// One of IPv4 is mapped.
    ip: Ipv6Addr,
    number: u16,
}

impl Numbered {
    /// This address, with this number.
    pub fn new(ip: IpAddr, number: u16) -> Self {
        let ip = match ip {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        Self { ip, number }
    }

    /// The address, of IPv4 if it is one that is mapped, and the number.
    pub fn get(self) -> (IpAddr, u16) {
        (self.ip.to_canonical(), self.number)
    }

    /// What an address of these words stands for, if it is well formed.
    pub fn from_address(address: Address) -> Option<Self> {
        let address = address.get()?;
        Some(Self::new(address.ip(), address.port()))
    }
}

impl From<Numbered> for Address {
    fn from(numbered: Numbered) -> Self {
        SocketAddr::from(numbered.get()).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn comes_back_as_it_went(ip: IpAddr, port: u16, scope: u32) {
            let mut addr = SocketAddr::new(ip, port);
            if let SocketAddr::V6(addr) = &mut addr {
                addr.set_scope_id(scope);
            }
            prop_assert_eq!(Address::from(addr).get(), Some(addr));
        }

        #[test]
        fn any_words_are_survived(words: [u64; 3]) {
            let _ = Address(words).get();
        }
    }

    proptest! {
        #[test]
        fn a_numbered_one_comes_back_as_it_went(ip: IpAddr, number: u16) {
            let numbered = Numbered::new(ip, number);
            prop_assert_eq!(numbered.get(), (ip.to_canonical(), number));
            prop_assert_eq!(Numbered::from_address(numbered.into()), Some(numbered));
        }
    }

    #[test]
    fn no_address_has_a_number() {
        assert_eq!(Numbered::from_address(Address::NONE), None);
    }

    #[test]
    fn zero_is_none() {
        assert_eq!(Address::NONE.get(), None);
    }

    #[test]
    fn one_that_there_is_comes_back_too() {
        let some = Some("10.0.0.1:80".parse().unwrap());
        assert_eq!(Address::from(some).get(), some);
        assert_eq!(Address::from(None), Address::NONE);
    }
}
