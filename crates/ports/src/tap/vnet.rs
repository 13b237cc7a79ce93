//! What the virtio-net header in front of each frame says, in this crate's
//! words; the bytes are `longshore_wire::virtio_net`'s.

use longshore_wire::virtio_net::{
    DATA_VALID, GSO_ECN, GSO_NONE, GSO_TCPV4, GSO_TCPV6, GSO_UDP_L4, HEADER_LEN, NEEDS_CSUM,
    VirtioNetHeader,
};

use crate::{Gso, GsoKind, RxChecksum, TxFrame};

/// Reads the header of a received frame of `len` bytes. `None` if it describes
/// something that the frame cannot be.
pub(super) fn decode(bytes: &[u8; HEADER_LEN], len: usize) -> Option<(RxChecksum, Option<Gso>)> {
    let header = VirtioNetHeader::parse(bytes).ok()?;
    let checksum = if header.flags & NEEDS_CSUM != 0 {
        let (start, offset) = (header.csum_start, header.csum_offset);
        if usize::from(start) + usize::from(offset) + 2 > len {
            return None;
        }
        RxChecksum::Partial { start, offset }
    } else if header.flags & DATA_VALID != 0 {
        RxChecksum::Valid
    } else {
        RxChecksum::Unknown
    };
    // That a segment bears CWR is in its TCP header too.
    let kind = match header.gso_type & !GSO_ECN {
        GSO_NONE => return Some((checksum, None)),
        GSO_TCPV4 => GsoKind::Tcp4,
        GSO_TCPV6 => GsoKind::Tcp6,
        GSO_UDP_L4 => GsoKind::Udp,
        _ => return None,
    };
    let size = header.gso_size;
    (size != 0).then_some((checksum, Some(Gso { kind, size })))
}

/// Builds the header for a frame that was checked.
pub(super) fn encode(frame: &TxFrame<'_>) -> [u8; HEADER_LEN] {
    let mut header = VirtioNetHeader::default();
    if let Some(checksum) = frame.checksum {
        header.flags = NEEDS_CSUM;
        header.csum_start = checksum.start;
        header.csum_offset = checksum.offset;
    }
    if let Some(gso) = frame.gso {
        header.gso_type = match gso.kind {
            GsoKind::Tcp4 => GSO_TCPV4,
            GsoKind::Tcp6 => GSO_TCPV6,
            GsoKind::Udp => GSO_UDP_L4,
        };
        header.hdr_len = gso.header_len;
        header.gso_size = gso.size;
    }
    header.emit()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{TxChecksum, TxGso};
    use proptest::prelude::*;

    #[test]
    fn what_is_asked_for_reads_back_as_granted() {
        let bytes = [0u8; 3000];
        let frame = TxFrame {
            checksum: Some(TxChecksum {
                start: 34,
                offset: 16,
            }),
            gso: Some(TxGso {
                kind: GsoKind::Tcp4,
                size: 1448,
                header_len: 66,
            }),
            ..TxFrame::whole(&bytes)
        };
        let header = encode(&frame);
        assert_eq!(header, [1, 1, 66, 0, 0xa8, 5, 34, 0, 16, 0]);
        let partial = RxChecksum::Partial {
            start: 34,
            offset: 16,
        };
        let gso = Gso {
            kind: GsoKind::Tcp4,
            size: 1448,
        };
        assert_eq!(decode(&header, bytes.len()), Some((partial, Some(gso))));
    }

    proptest! {
        #[test]
        fn any_header_is_survived_and_points_into_the_frame(
            header: [u8; HEADER_LEN], len in 0usize..70_000
        ) {
            if let Some((checksum, gso)) = decode(&header, len) {
                if let RxChecksum::Partial { start, offset } = checksum {
                    prop_assert!(usize::from(start) + usize::from(offset) + 2 <= len);
                }
                prop_assert!(gso.is_none_or(|g| g.size > 0));
            }
        }
    }
}
