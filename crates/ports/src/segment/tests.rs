//! Segments put together again are what was cut, and each is one that its
//! receiver takes.

use super::*;
use crate::{RxChecksum, TxChecksum};
use proptest::prelude::*;

const LINK: LinkKind = LinkKind::Ethernet { mac: [2; 6] };

/// An independent check: the sum of a pseudo-header and all that it covers,
/// checksum included, folds to all ones (RFC 1071).
fn verifies(frame: &[u8], ip: usize, v6: bool, transport: usize) -> bool {
    let addresses = if v6 {
        &frame[ip + 8..ip + 40]
    } else {
        &frame[ip + 12..ip + 20]
    };
    let protocol = if v6 { frame[ip + 6] } else { frame[ip + 9] };
    let mut all: Vec<u8> = addresses.to_vec();
    all.extend([0, protocol]);
    all.extend(((frame.len() - transport) as u16).to_be_bytes());
    all.extend(&frame[transport..]);
    if all.len() % 2 == 1 {
        all.push(0);
    }
    let mut total = 0u32;
    for pair in all.chunks(2) {
        total += u32::from(pair[0]) * 256 + u32::from(pair[1]);
        total = (total & 0xffff) + (total >> 16);
    }
    total == 0xffff
}

/// Headers of a packet with `options` bytes of TCP options.
fn headers(kind: GsoKind, v6: bool, options: usize, flags: u8, total: usize) -> Vec<u8> {
    let mut f = vec![0x11; 12];
    let tcp = kind != GsoKind::Udp;
    let protocol = if tcp { 6 } else { 17 };
    let transport = if tcp { 20 + options } else { 8 };
    if v6 {
        f.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        f.extend(((transport + total) as u16).to_be_bytes());
        f.extend([protocol, 64]);
        f.extend((0..32).map(|i| i * 3 + 1));
    } else {
        f.extend([8, 0, 0x45, 0]);
        f.extend(((20 + transport + total) as u16).to_be_bytes());
        f.extend([0xff, 0xfe, 0x40, 0, 64, protocol, 0, 0]);
        f.extend([10, 77, 0, 2, 10, 77, 0, 1]);
    }
    if tcp {
        f.extend([0x1f, 0x90, 0xc0, 0x00, 0xff, 0xff, 0xff, 0, 1, 2, 3, 4]);
        f.extend([
            (((20 + options) / 4) as u8) << 4,
            flags,
            0x20,
            0,
            0,
            0,
            0,
            0,
        ]);
        f.extend(vec![1; options]);
    } else {
        f.extend([0x1f, 0x90, 0xc0, 0x00]);
        f.extend(((8 + total) as u16).to_be_bytes());
        f.extend([0, 0]);
    }
    f
}

fn all_of(mut s: Segmenter<'_>) -> Vec<Vec<u8>> {
    let (mut out, mut all) = (Vec::new(), Vec::new());
    while s.next_into(&mut out) {
        all.push(out.clone());
    }
    all
}

fn check(kind: GsoKind, v6: bool, payload: &[u8], size: u16, options: usize, cuts: (usize, usize)) {
    let flags = 0x10 | TCP_FIN | TCP_PSH | TCP_CWR;
    let mut head = headers(kind, v6, options, flags, payload.len());
    let header_len = head.len();
    let transport = 14 + if v6 { 40 } else { 20 };
    let a = cuts.0.min(payload.len());
    let b = cuts.1.clamp(a, payload.len());
    head.extend(&payload[..a]);
    let pieces = [IoSlice::new(&payload[a..b]), IoSlice::new(&payload[b..])];
    let frame = TxFrame {
        headers: &head,
        payload: &pieces,
        checksum: Some(TxChecksum {
            start: transport as u16,
            offset: if kind == GsoKind::Udp { 6 } else { 16 },
        }),
        gso: Some(TxGso {
            kind,
            size,
            header_len: header_len as u16,
        }),
    };
    let segments = all_of(Segmenter::new(&frame, LINK).unwrap());
    assert_eq!(
        segments.len(),
        payload.len().div_ceil(usize::from(size)).max(1)
    );
    let mut joined: Vec<u8> = Vec::new();
    for (i, s) in segments.iter().enumerate() {
        let last = i + 1 == segments.len();
        let body = &s[header_len..];
        assert!(body.len() <= usize::from(size));
        assert!(last || body.len() == usize::from(size));
        if kind == GsoKind::Udp {
            assert_eq!(usize::from(get16(s, transport + 4)), 8 + body.len());
        } else {
            let sequence: [u8; 4] = std::array::from_fn(|i| s[transport + 4 + i]);
            let expected = 0xffff_ff00u32.wrapping_add(joined.len() as u32);
            assert_eq!(u32::from_be_bytes(sequence), expected);
            let has = |flag| s[transport + 13] & flag != 0;
            assert!(has(0x10));
            assert_eq!((has(TCP_FIN), has(TCP_PSH)), (last, last));
            assert_eq!(has(TCP_CWR), i == 0);
        }
        assert!(verifies(s, 14, v6, transport), "segment {i}");
        if v6 {
            assert_eq!(usize::from(get16(s, 18)), s.len() - 54);
        } else {
            assert_eq!(usize::from(get16(s, 16)), s.len() - 14);
            assert_eq!(get16(s, 18), 0xfffeu16.wrapping_add(i as u16));
            assert_eq!(Partial::of(&s[14..34]).finish(), 0);
        }
        joined.extend(body);
    }
    assert_eq!(joined, payload);
}

proptest! {
    #[test]
    fn segments_join_to_what_was_cut(
        kind in prop_oneof![Just(GsoKind::Tcp4), Just(GsoKind::Tcp6), Just(GsoKind::Udp)],
        udp6: bool,
        payload in proptest::collection::vec(any::<u8>(), 0..20_000),
        size in 1u16..9000,
        options in 0usize..=10,
        cuts: (u16, u16),
    ) {
        // Few enough segments to keep the test short.
        let size = size.max((payload.len() / 200) as u16 + 1);
        let v6 = match kind {
            GsoKind::Tcp4 => false,
            GsoKind::Tcp6 => true,
            GsoKind::Udp => udp6,
        };
        check(kind, v6, &payload, size, options * 4, (cuts.0.into(), cuts.1.into()));
    }

    #[test]
    fn any_bytes_are_survived(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        ethernet: bool,
        size: u16,
        start: u16,
        offset: u16,
    ) {
        let link = if ethernet { LINK } else { LinkKind::Ip };
        for kind in [GsoKind::Tcp4, GsoKind::Tcp6, GsoKind::Udp] {
            let frame = TxFrame {
                checksum: Some(TxChecksum { start, offset }),
                gso: Some(TxGso { kind, size, header_len: 7 }),
                ..TxFrame::whole(&bytes)
            };
            if let Ok(s) = Segmenter::new(&frame, link) {
                all_of(s);
            }
        }
        let mut copy = bytes.clone();
        let _ = finish_checksum(&mut copy, start, offset);
    }
}

#[test]
fn a_partial_checksum_is_completed() {
    let mut frame = headers(GsoKind::Tcp4, false, 0, 0x10, 5);
    frame.extend(b"hello");
    let pseudo = Partial::of(&frame[26..34])
        .plus(Partial::of(&[0, 6, 0, 25]))
        .unfinished();
    put16(&mut frame, 50, pseudo);
    let meta = RxMeta {
        len: frame.len(),
        checksum: RxChecksum::Partial {
            start: 34,
            offset: 16,
        },
        gso: None,
    };
    let finished = all_of(Segmenter::of_received(&frame, &meta, LINK).unwrap());
    assert_eq!(finished.len(), 1);
    assert!(verifies(&finished[0], 14, false, 34));
}

#[test]
fn frames_that_are_not_what_they_claim_are_refused() {
    let udp = headers(GsoKind::Udp, false, 0, 0, 0);
    let gso = |kind, size| {
        Some(TxGso {
            kind,
            size,
            header_len: 0,
        })
    };
    let refused = |bytes: &[u8], gso| {
        let frame = TxFrame {
            gso,
            ..TxFrame::whole(bytes)
        };
        Segmenter::new(&frame, LINK).unwrap_err()
    };
    assert_eq!(
        refused(&udp, gso(GsoKind::Tcp4, 9)),
        SegmentError::WrongKind
    );
    assert_eq!(refused(&udp, gso(GsoKind::Udp, 0)), SegmentError::ZeroSize);
    assert_eq!(
        refused(&udp[..40], gso(GsoKind::Udp, 9)),
        SegmentError::TooShort
    );
    let mut fragment = udp.clone();
    fragment[21] = 8;
    assert_eq!(
        refused(&fragment, gso(GsoKind::Udp, 9)),
        SegmentError::NotIp
    );
}
