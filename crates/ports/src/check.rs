//! Validation of a frame against a port's capabilities, for all ports.

use crate::{Capabilities, GsoKind, MAX_PIECES, PortError, TxFrame};

/// Returns the frame's length if a port with these capabilities accepts it.
pub(crate) fn check(capabilities: &Capabilities, frame: &TxFrame<'_>) -> Result<usize, PortError> {
    let len = frame.frame_len();
    let bad = |reason| Err(PortError::BadOffload { reason });
    let mut limit = capabilities.max_frame_len();
    if frame.payload.len() > MAX_PIECES {
        return Err(PortError::TooManyPieces {
            pieces: frame.payload.len(),
        });
    }
    if let Some(checksum) = frame.checksum {
        if !capabilities.tx_checksum {
            return bad("this port does not complete checksums");
        }
        if usize::from(checksum.start) + usize::from(checksum.offset) + 2 > len {
            return bad("the checksum field lies outside the frame");
        }
    }
    if let Some(gso) = frame.gso {
        if !capabilities.segments(gso.kind) {
            return bad("this port does not segment this kind of frame");
        }
        if frame.checksum.is_none() {
            return bad("segmentation without checksum completion");
        }
        if gso.size == 0 {
            return bad("a segment size of zero");
        }
        if usize::from(gso.header_len) > len {
            return bad("headers longer than the frame");
        }
        limit = capabilities.max_gso_bytes;
        if let Some(big) = capabilities.big_tcp.filter(|_| gso.kind == GsoKind::Tcp4) {
            limit = limit.max(big.max_bytes);
        }
    }
    if len > limit {
        return Err(PortError::TooLong { len, limit });
    }
    Ok(len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BigTcp, LinkKind, TxChecksum, TxGso};

    const CAPABLE: Capabilities = Capabilities {
        link: LinkKind::Ip,
        mtu: 1500,
        tx_checksum: true,
        passes_payload: false,
        rx_checksum: true,
        tso4: true,
        tso6: true,
        uso: true,
        max_gso_bytes: 65_535,
        big_tcp: None,
        rx_coalesced: true,
    };

    fn frame(bytes: &[u8], checksum: Option<(u16, u16)>, gso: Option<(u16, u16)>) -> TxFrame<'_> {
        TxFrame {
            checksum: checksum.map(|(start, offset)| TxChecksum { start, offset }),
            gso: gso.map(|(size, header_len)| TxGso {
                kind: GsoKind::Udp,
                size,
                header_len,
            }),
            ..TxFrame::whole(bytes)
        }
    }

    #[test]
    fn senseless_requests_are_refused() {
        let bytes = [0u8; 60];
        let refused = |checksum, gso| {
            let answer = check(&CAPABLE, &frame(&bytes, checksum, gso));
            matches!(answer, Err(PortError::BadOffload { .. }))
        };
        assert!(refused(Some((50, 9)), None));
        assert!(refused(None, Some((100, 42))));
        assert!(refused(Some((34, 6)), Some((0, 42))));
        assert!(refused(Some((34, 6)), Some((10, 61))));
        assert!(!refused(Some((34, 6)), Some((10, 42))));
    }

    #[test]
    fn offloads_that_the_port_lacks_are_refused() {
        let bytes = [0u8; 60];
        let plain = CAPABLE.without_offloads();
        for f in [
            frame(&bytes, Some((34, 6)), None),
            frame(&bytes, Some((34, 6)), Some((10, 42))),
        ] {
            assert!(matches!(
                check(&plain, &f),
                Err(PortError::BadOffload { .. })
            ));
        }
        assert_eq!(check(&plain, &frame(&bytes, None, None)), Ok(60));
    }

    #[test]
    fn length_is_bounded_by_the_mtu_or_by_what_is_cut() {
        let bytes = [0u8; 2000];
        assert_eq!(
            check(&CAPABLE, &frame(&bytes, None, None)),
            Err(PortError::TooLong {
                len: 2000,
                limit: 1500
            })
        );
        let cut = frame(&bytes, Some((20, 6)), Some((1000, 28)));
        assert_eq!(check(&CAPABLE, &cut), Ok(2000));
    }

    #[test]
    fn longer_frames_are_of_tcp_over_ipv4() {
        let max_bytes = 200_000;
        let big_tcp = Some(BigTcp {
            to: std::net::Ipv4Addr::LOCALHOST,
            max_bytes,
        });
        let capable = Capabilities { big_tcp, ..CAPABLE };
        let bytes = vec![0u8; max_bytes + 1];
        let answer = |len: usize, kind| {
            let mut cut = frame(&bytes[..len], Some((20, 16)), Some((1000, 40)));
            cut.gso.as_mut().unwrap().kind = kind;
            check(&capable, &cut)
        };
        let too_long = |len, limit| Err(PortError::TooLong { len, limit });
        assert_eq!(answer(max_bytes, GsoKind::Tcp4), Ok(max_bytes));
        assert_eq!(
            answer(max_bytes + 1, GsoKind::Tcp4),
            too_long(max_bytes + 1, max_bytes)
        );
        for kind in [GsoKind::Tcp6, GsoKind::Udp] {
            assert_eq!(answer(65_535, kind), Ok(65_535));
            assert_eq!(answer(65_536, kind), too_long(65_536, 65_535));
        }
    }
}
