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
