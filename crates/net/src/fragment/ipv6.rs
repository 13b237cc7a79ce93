//! Reassembly of IPv6 packets (RFC 8200 section 4.5).

use super::{Fragment, Key, Reassembled, Reassembler};
use crate::{DropReason, Instant};
use longshore_wire::ipv6::{FragmentHeader, Ipv6Header, walk};

/// The longest payload of a packet.
const MAX_PAYLOAD: u32 = 65_535;

impl Reassembler<Ipv6Header> {
    /// Adds a fragment of an IPv6 packet: `bytes` follow its fragment header, which
    /// begins `at` bytes into the packet's payload. Returns the packet if that completes
    /// it: its payload consists of the bytes after the fragment headers, its next header
    /// is that of the first fragment.
    ///
    /// Headers before the fragment header have already been processed and are not kept.
    ///
    /// # Errors
    /// Why it was not kept; its packet may have been dropped too.
    pub fn add_v6(
        &mut self,
        header: &Ipv6Header,
        fragment: &FragmentHeader,
        at: usize,
        bytes: &[u8],
        now: Instant,
    ) -> Result<Option<Reassembled<Ipv6Header>>, DropReason> {
        if fragment.offset == 0 && !contains_all_headers(fragment.next_header, bytes) {
            return Err(DropReason::FragmentHeaders);
        }
        let key = Key {
            source: header.source.into(),
            destination: header.destination.into(),
            identification: fragment.identification,
            protocol: 0,
        };
        let piece = Fragment {
            offset: fragment.offset.into(),
            more: fragment.more,
            ecn: header.ecn(),
            bytes,
        };
        let first = Ipv6Header {
            next_header: fragment.next_header,
            ..*header
        };
        let most = MAX_PAYLOAD.saturating_sub(at as u32);
        let whole = self.put(key, &first, &piece, most, now)?;
        Ok(whole.map(|(mut whole, ecn)| {
            whole.header.traffic_class = whole.header.traffic_class & !3 | ecn;
            whole.header.payload_len = whole.payload.len() as u16;
            whole
        }))
    }
}

/// Whether the first fragment contains all headers (RFC 7112), including eight bytes of
/// the upper-layer header, which filters and ICMP errors use.
fn contains_all_headers(next_header: u8, bytes: &[u8]) -> bool {
    const LOOKED_AT: usize = 8;
    walk(next_header, bytes)
        .is_ok_and(|upper| upper.fragment.is_none() && bytes.len() >= upper.at + LOOKED_AT)
}

#[cfg(test)]
mod tests;
