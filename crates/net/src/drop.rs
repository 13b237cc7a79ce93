//! The reasons for which this crate drops a packet, each enumerated once.

use longshore_wire::WireError;

longshore_wire::drop_reasons! {
    /// Why a packet was dropped.
    pub enum DropReason;
    /// Fewer bytes than the IP header specifies.
    IpTruncated = "ip_truncated",
    /// The IP header's lengths contradict each other.
    IpBadLength = "ip_bad_length",
    /// The IP version is not that of the frame's type.
    IpBadVersion = "ip_bad_version",
    /// The IP header's checksum is wrong.
    IpBadChecksum = "ip_bad_checksum",
    /// Another field of the IP header is invalid.
    IpBadField = "ip_bad_field",
    /// Malformed IP options.
    IpBadOptions = "ip_bad_options",
    /// A source-routed packet (RFC 7126 sections 4.3 and 4.4).
    SourceRouted = "ip_source_routed",
    /// Addressed to another host.
    NotForUs = "ip_not_for_us",
    /// The source cannot be one host (RFC 1122 section 3.2.1.3).
    MartianSource = "ip_martian_source",
    /// A loopback address outside a host (RFC 1122 section 3.2.1.3 g).
    LoopbackOnWire = "ip_loopback_on_wire",
    /// IPv6 extension headers that are malformed, too many, or have a mandatory part that
    /// is not understood.
    ExtensionHeaders = "ip_extension_headers",
    /// The first fragment does not contain all headers (RFC 7112).
    FragmentHeaders = "fragment_headers_cut",
    /// A fragment that is empty, or whose length is not a multiple of eight although more
    /// follow.
    FragmentBadLength = "fragment_bad_length",
    /// A fragment reaches beyond the longest datagram, or beyond its datagram's end.
    FragmentBeyondEnd = "fragment_beyond_end",
    /// Two fragments overlap; their datagram is dropped.
    FragmentOverlap = "fragment_overlap",
    /// A fragment that has already arrived.
    FragmentDuplicate = "fragment_duplicate",
    /// The datagram has more fragments than are kept.
    FragmentTooMany = "fragment_too_many",
    /// Some fragments are not ECN-capable, others are marked CE (RFC 3168 section 5.3).
    FragmentEcn = "fragment_ecn_mixed",
    /// The datagram was not complete in time.
    ReassemblyTimeout = "reassembly_timeout",
    /// An incomplete datagram was evicted for a newer one.
    ReassemblyEvicted = "reassembly_evicted",
    /// A UDP header that contradicts its packet.
    UdpBadLength = "udp_bad_length",
    /// The UDP checksum is wrong, or missing where it is required.
    UdpBadChecksum = "udp_bad_checksum",
}

impl DropReason {
    /// The reason for an invalid IP header.
    #[must_use]
    pub const fn of_ip(error: WireError) -> Self {
        match error {
            WireError::Truncated => Self::IpTruncated,
            WireError::BadLength => Self::IpBadLength,
            WireError::BadVersion => Self::IpBadVersion,
            WireError::BadChecksum => Self::IpBadChecksum,
            WireError::BadField => Self::IpBadField,
        }
    }
}

impl core::fmt::Display for DropReason {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}

impl core::error::Error for DropReason {}

/// A counter for each reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DropCounts([u64; DropReason::COUNT]);

impl DropCounts {
    /// All counters are 0.
    #[must_use]
    pub const fn new() -> Self {
        Self([0; DropReason::COUNT])
    }

    /// Counts one.
    pub fn count(&mut self, reason: DropReason) {
        if let Some(n) = self.0.get_mut(reason.index()) {
            *n += 1;
        }
    }

    /// The count of `reason`.
    #[must_use]
    pub fn get(&self, reason: DropReason) -> u64 {
        self.0.get(reason.index()).copied().unwrap_or(0)
    }

    /// The reasons with a count other than 0.
    pub fn iter(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        DropReason::ALL
            .iter()
            .map(|r| (*r, self.get(*r)))
            .filter(|(_, n)| *n != 0)
    }
}

impl Default for DropCounts {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_have_their_own_name_and_counter() {
        let mut counts = DropCounts::new();
        for (i, reason) in DropReason::ALL.iter().enumerate() {
            assert_eq!(reason.index(), i);
            let same_name = DropReason::ALL
                .iter()
                .filter(|r| r.name() == reason.name())
                .count();
            assert_eq!(same_name, 1, "{reason}");
            (0..=i).for_each(|_| counts.count(*reason));
        }
        assert!(
            counts
                .iter()
                .zip(1u64..)
                .all(|((_, n), expected)| n == expected)
        );
        assert_eq!(counts.iter().count(), DropReason::COUNT);
    }
}
