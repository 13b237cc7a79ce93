//! Packet formats and checksums: parsing and serialisation.
//!
//! It contains the layout of Ethernet, ARP, IPv4, IPv6, ICMP, ICMPv6, UDP, DHCP and TCP
//! headers with TCP's options, sequence numbers, and the Internet checksum in its plain,
//! partial and combined forms. It does no I/O and has no state. All crates above (`tcp`,
//! `net`, `ports`, `engine`) use these types for packets.
//!
//! Each format has two levels: bytes, and a header type whose values are all legal
//! packets. `parse` goes from the first to the second and rejects illegal packets; `emit`
//! goes back. No input causes a panic: `bytes.rs` has the functions that read and write
//! at an offset.

// No number from the wire may make an index panic.
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

pub mod arp;
mod bytes;
pub mod checksum;
pub mod dhcp;
mod drop;
pub mod ethernet;
pub mod icmpv4;
pub mod icmpv6;
pub mod igmp;
pub mod ipv4;
pub mod ipv6;
pub mod membership;
mod seq;
mod start;
pub mod tcp;
pub mod tcp4;
pub mod tcp6;
pub mod udp;

pub use ethernet::MacAddr;
pub use seq::SeqNumber;

crate::drop_reasons! {
    /// Why bytes are not a valid packet.
    pub enum WireError;
    /// Fewer bytes than the header needs.
    Truncated = "truncated",
    /// A length field contradicts the number of bytes.
    BadLength = "bad_length",
    /// A version other than the format's.
    BadVersion = "bad_version",
    /// The checksum does not match.
    BadChecksum = "bad_checksum",
    /// A field has a value that the format does not define.
    BadField = "bad_field",
}

impl core::fmt::Display for WireError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}

impl core::error::Error for WireError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_said_by_the_name_that_it_is_counted_by() {
        assert_eq!(WireError::BadChecksum.to_string(), "bad_checksum");
    }
}
