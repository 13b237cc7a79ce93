//! Putting IPv6 packets together (RFC 8200 section 4.5).

use super::{Fragment, Key, Reassembler, Whole};
use crate::{DropReason, Instant};
use longshore_wire::ipv6::{FragmentHeader, Ipv6Header, walk};

/// The longest payload of a packet.
const MAX_PAYLOAD: u32 = 65_535;

impl Reassembler<Ipv6Header> {
    /// Takes a fragment of an IPv6 packet: `bytes` stand behind its fragment header,
    /// which begins `at` bytes into the packet's payload. Gives the packet if it was
    /// the last that was missing: its payload is what stood behind the fragment
    /// headers, its next header what the first fragment said.
    ///
    /// Headers before the fragment header have been walked through and are not kept.
    ///
    /// # Errors
    /// Why it was not kept; its packet may have gone with it.
    pub fn add_v6(
        &mut self,
        header: &Ipv6Header,
        fragment: &FragmentHeader,
        at: usize,
        bytes: &[u8],
        now: Instant,
    ) -> Result<Option<Whole<Ipv6Header>>, DropReason> {
        if fragment.offset == 0 && !holds_all_headers(fragment.next_header, bytes) {
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

/// Whether the first fragment reaches to the header of what the packet carries (RFC
/// 7112): eight bytes of it are what filters and ICMP errors look at.
fn holds_all_headers(next_header: u8, bytes: &[u8]) -> bool {
    const LOOKED_AT: usize = 8;
    walk(next_header, bytes)
        .is_ok_and(|upper| upper.fragment.is_none() && bytes.len() >= upper.at + LOOKED_AT)
}

#[cfg(test)]
mod tests;
