//! The virtio-net header in front of each frame (virtio 1.2, section 5.1.6):
//! offloads asked for and granted.
//!
//! Owns its coding, and reading and writing a frame in pieces behind it. `tap` and `packet`
//! call it.

use crate::{Gso, GsoKind, MAX_PIECES, PortError, RxChecksum, TxFrame};
use rustix::io::Errno;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::OwnedFd;

/// Its length on this port, in bytes: the layout without `num_buffers`.
pub(crate) const HEADER_LEN: usize = 10;

/// How many useless frames one call may throw away before it says that nothing
/// waits; the descriptor stays readable, so the rest are met in the next round.
pub(crate) const MAX_DISCARDED: usize = 64;

const NEEDS_CSUM: u8 = 1;
const DATA_VALID: u8 = 2;
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
/// Set beside TCP when a segment bears CWR; the receiver need not care.
const GSO_ECN: u8 = 0x80;

fn le16(bytes: &[u8; HEADER_LEN], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

/// Reads the header of a received frame of `len` bytes. `None` if it describes
/// something that the frame cannot be.
pub(crate) fn decode(header: &[u8; HEADER_LEN], len: usize) -> Option<(RxChecksum, Option<Gso>)> {
    let checksum = if header[0] & NEEDS_CSUM != 0 {
        let (start, offset) = (le16(header, 6), le16(header, 8));
        if usize::from(start) + usize::from(offset) + 2 > len {
            return None;
        }
        RxChecksum::Partial { start, offset }
    } else if header[0] & DATA_VALID != 0 {
        RxChecksum::Valid
    } else {
        RxChecksum::Unknown
    };
    let kind = match header[1] & !GSO_ECN {
        GSO_NONE => return Some((checksum, None)),
        GSO_TCPV4 => GsoKind::Tcp4,
        GSO_TCPV6 => GsoKind::Tcp6,
        GSO_UDP_L4 => GsoKind::Udp,
        _ => return None,
    };
    let size = le16(header, 4);
    (size != 0).then_some((checksum, Some(Gso { kind, size })))
}

/// Builds the header for a frame that was checked.
pub(crate) fn encode(frame: &TxFrame<'_>) -> [u8; HEADER_LEN] {
    let mut header = [0; HEADER_LEN];
    if let Some(checksum) = frame.checksum {
        header[0] = NEEDS_CSUM;
        header[6..8].copy_from_slice(&checksum.start.to_le_bytes());
        header[8..10].copy_from_slice(&checksum.offset.to_le_bytes());
    }
    if let Some(gso) = frame.gso {
        header[1] = match gso.kind {
            GsoKind::Tcp4 => GSO_TCPV4,
            GsoKind::Tcp6 => GSO_TCPV6,
            GsoKind::Udp => GSO_UDP_L4,
        };
        header[2..4].copy_from_slice(&gso.header_len.to_le_bytes());
        header[4..6].copy_from_slice(&gso.size.to_le_bytes());
    }
    header
}

/// Whether a frame may be received into these parts.
pub(crate) fn check_parts(parts: &[IoSliceMut<'_>]) -> Result<(), PortError> {
    let pieces = parts.len();
    if pieces > MAX_PIECES {
        return Err(PortError::TooManyPieces { pieces });
    }
    Ok(())
}

/// Reads a frame into parts that were checked, and what stands before it into `header`; the
/// bytes of both.
#[inline]
pub(crate) fn read(
    fd: &OwnedFd,
    header: &mut [u8; HEADER_LEN],
    parts: &mut [IoSliceMut<'_>],
) -> Result<usize, Errno> {
    let used = 1 + parts.len();
    let mut all: [IoSliceMut<'_>; MAX_PIECES + 1] =
        std::array::from_fn(|_| IoSliceMut::new(&mut []));
    all[0] = IoSliceMut::new(header);
    for (slot, part) in all[1..].iter_mut().zip(parts.iter_mut()) {
        *slot = IoSliceMut::new(part);
    }
    rustix::io::readv(fd, &mut all[..used])
}

/// Writes a frame that was checked behind its header.
#[inline]
pub(crate) fn write(
    fd: &OwnedFd,
    header: &[u8; HEADER_LEN],
    frame: &TxFrame<'_>,
) -> Result<usize, Errno> {
    let mut all = [IoSlice::new(&[]); MAX_PIECES + 2];
    all[0] = IoSlice::new(header);
    all[1] = IoSlice::new(frame.headers);
    let used = 2 + frame.payload.len();
    all[2..used].copy_from_slice(frame.payload);
    rustix::io::writev(fd, &all[..used])
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
