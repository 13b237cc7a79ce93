//! Which version of IP a socket of IPv6 reaches: both, unless it is bound to an address of one of
//! them, or is to be of IPv6 alone (IPV6_V6ONLY).
//!
//! Called by `preload` before it connects or sends, and by `departure`.

use crate::block_words::more_bits;
use crate::errors::SocketError;
use crate::holds::Socket;
use longshore_hostif::OptionName;
use std::net::SocketAddr;

impl Socket {
    /// Whether it is a socket of IPv6 that is bound to an address of IPv4, and so reaches no
    /// others.
    pub fn is_bound_to_mapped(&self) -> bool {
        self.is_v6()
            && self
                .local()
                .is_some_and(|local| local.ip().to_canonical().is_ipv4())
    }

    /// Whether it is bound to an address of IPv6, and so reaches no others.
    fn is_bound_to_v6(&self) -> bool {
        let is_v6 =
            |local: SocketAddr| local.ip().to_canonical().is_ipv6() && !local.ip().is_unspecified();
        self.local().is_some_and(is_v6)
    }

    /// Whether it reaches no address of IPv4.
    pub fn reaches_v6_alone(&self) -> bool {
        self.is_v6_only() || self.is_bound_to_v6()
    }

    /// Whether it is a socket of IPv6 that is not to reach any address of IPv4 (IPV6_V6ONLY).
    pub fn is_v6_only(&self) -> bool {
        self.more_bits() & more_bits::V6_ONLY != 0
    }

    /// Has it be a socket of IPv6 alone, or of both versions.
    ///
    /// # Errors
    /// As [`Socket::set_option`].
    pub fn set_v6_only(&self, on: bool) -> Result<(), SocketError> {
        self.note_v6_only(on);
        self.set_option(OptionName::V6Only, u64::from(on))
    }

    /// As `set_v6_only`, of one for which the engine has it by its address, or from its listener.
    pub fn note_v6_only(&self, on: bool) {
        if on {
            self.set_more_bits(more_bits::V6_ONLY);
        } else {
            self.clear_more_bits(more_bits::V6_ONLY);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Engine;
    use longshore_hostif::{OpenFlags, SocketKind};

    /// Linux: an address of IPv6 that a socket is bound to is one that it sends from, and one of
    /// IPv4 as well.
    #[test]
    fn a_socket_of_ipv6_reaches_what_its_address_does() {
        let directory = tempfile::tempdir().unwrap();
        let engine = Engine::start(directory.path());
        let host = engine.join();
        for (flags, local, is_mapped, reaches_v6_alone) in [
            (OpenFlags::IPV6, None, false, false),
            (OpenFlags::IPV6, Some("[::]:5"), false, false),
            (OpenFlags::IPV6, Some("[fd00::1]:5"), false, true),
            (OpenFlags::IPV6, Some("[::ffff:10.9.9.2]:5"), true, false),
            (OpenFlags::empty(), Some("10.9.9.2:5"), false, false),
        ] {
            let socket = host.open(SocketKind::Datagram, flags, 0).unwrap();
            if let Some(local) = local {
                let local: SocketAddr = local.parse().unwrap();
                socket.block().set_local(local.into());
            }
            assert_eq!(socket.is_bound_to_mapped(), is_mapped, "{local:?}");
            assert_eq!(socket.reaches_v6_alone(), reaches_v6_alone, "{local:?}");
        }
    }

    #[test]
    fn the_engine_is_told_of_a_socket_of_ipv6_alone() {
        let directory = tempfile::tempdir().unwrap();
        let engine = Engine::start(directory.path());
        let host = engine.join();
        let socket = host.open(SocketKind::Stream, OpenFlags::IPV6, 0).unwrap();
        let index = socket.id().index;
        for on in [true, false] {
            socket.set_v6_only(on).unwrap();
            assert_eq!((socket.is_v6_only(), socket.reaches_v6_alone()), (on, on));
            host.flush().unwrap();
            let told = (index, OptionName::V6Only, u64::from(on));
            engine.wait_until("it was told", |seen| seen.options.last() == Some(&told));
        }
    }
}
