//! Socket addresses as they cross: three words.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const FAMILY_V4: u64 = 4;
const FAMILY_V6: u64 = 6;

/// An address and a port in 24 bytes; all zero is "none".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Address(pub [u64; 3]);

impl Address {
    /// No address.
    pub const NONE: Self = Self([0; 3]);

    /// The address, if there is one and it is well formed.
    pub fn get(self) -> Option<SocketAddr> {
        let port = (self.0[0] >> 16) as u16;
        let ip: IpAddr = match self.0[0] & 0xffff {
            FAMILY_V4 => Ipv4Addr::from(self.0[1] as u32).into(),
            FAMILY_V6 => Ipv6Addr::from(u128::from(self.0[1]) << 64 | u128::from(self.0[2])).into(),
            _ => return None,
        };
        Some(SocketAddr::new(ip, port))
    }
}

impl From<SocketAddr> for Address {
    fn from(addr: SocketAddr) -> Self {
        let port = u64::from(addr.port()) << 16;
        match addr.ip() {
            IpAddr::V4(ip) => Self([FAMILY_V4 | port, u64::from(u32::from(ip)), 0]),
            IpAddr::V6(ip) => {
                let bits = u128::from(ip);
                Self([FAMILY_V6 | port, (bits >> 64) as u64, bits as u64])
            }
        }
    }
}

impl From<Option<SocketAddr>> for Address {
    fn from(addr: Option<SocketAddr>) -> Self {
        addr.map_or(Self::NONE, Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn comes_back_as_it_went(ip: IpAddr, port: u16) {
            let addr = SocketAddr::new(ip, port);
            prop_assert_eq!(Address::from(addr).get(), Some(addr));
        }

        #[test]
        fn any_words_are_survived(words: [u64; 3]) {
            let _ = Address(words).get();
        }
    }

    #[test]
    fn zero_is_none() {
        assert_eq!(Address::NONE.get(), None);
    }
}
