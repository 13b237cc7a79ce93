//! Datagrams that are put together by several calls (MSG_MORE, UDP_CORK): a process keeps them,
//! `departure` adds to them and sends them, and `fork` sees to it that a child begins with none.

use crate::errors::SocketError;
use crate::map::Map;
use longshore_hostif::{DatagramRecord, SocketId};
use rustix::io::Errno;
use std::net::SocketAddr;

/// Datagrams that calls of this process have begun, and another is to end.
pub(crate) type Unfinished = Map<SocketId, Begun>;

/// A datagram that more is to be added to. Where it goes, and how, was said first.
#[derive(Debug)]
pub(crate) struct Begun {
    pub(crate) record: DatagramRecord,
    /// The TTL, the type of service and the flags of SO_TIMESTAMPING that were given beside its
    /// beginning.
    pub(crate) said: (Option<u8>, Option<u8>, Option<u32>),
    pub(crate) bytes: Vec<u8>,
}

impl Begun {
    /// Whether a call that adds to it may name `to`, where it does not go: as Linux has it, what
    /// goes to an address of IPv6 is not added to by one that names an address of IPv4.
    ///
    /// # Errors
    /// EINVAL.
    pub(crate) fn may_go_to(&self, to: Option<SocketAddr>) -> Result<(), SocketError> {
        let is_v4 = |to: SocketAddr| to.ip().to_canonical().is_ipv4();
        let goes_by_v6 = self.record.peer.get().is_some_and(|peer| !is_v4(peer));
        if goes_by_v6 && to.is_some_and(is_v4) {
            Err(SocketError::Refused(Errno::INVAL))
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longshore_hostif::Address;

    /// Linux refuses this, and no other change of address while a datagram is put together.
    #[test]
    fn what_goes_to_an_address_of_ipv6_is_not_added_to_by_a_call_that_names_one_of_ipv4() {
        let (v4, mapped) = ("10.0.0.1:7", "[::ffff:10.0.0.1]:7");
        let (v6, other) = ("[fd00::1]:7", "[fd00::2]:8");
        for (goes, to, is_refused) in [
            (Some(v6), Some(v4), true),
            (Some(v6), Some(mapped), true),
            (Some(v6), Some(other), false),
            (Some(v6), None, false),
            (Some(v4), Some(v6), false),
            (Some(v4), Some(mapped), false),
            (Some(mapped), Some(v4), false),
            (None, Some(v4), false),
        ] {
            let of = |text: &str| text.parse::<SocketAddr>().unwrap();
            let peer = goes.map_or(Address::default(), |goes| of(goes).into());
            let begun = Begun {
                record: DatagramRecord::new(1, peer),
                said: (None, None, None),
                bytes: vec![7],
            };
            let expected = match is_refused {
                true => Err(SocketError::Refused(Errno::INVAL)),
                false => Ok(()),
            };
            assert_eq!(begun.may_go_to(to.map(of)), expected, "{goes:?} {to:?}");
        }
    }
}
