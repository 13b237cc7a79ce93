//! The virtio-net header in front of each frame (virtio 1.2, section 5.1.6): requested
//! and granted offloads.
//!
//! Owns its encoding, reads and writes of a frame with it, and the loop that looks for a valid
//! one ([`Receive`]). `tap` and `packet` call it.

use crate::{
    Gso, GsoKind, MAX_PIECES, PortCounters, PortError, RECV_ROOM, RecvBuffer, RxChecksum, RxMeta,
    SharedRooms, TxFrame,
};
use rustix::io::Errno;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::OwnedFd;

/// Length of the header on this port, in bytes: the layout without `num_buffers`.
pub(crate) const HEADER_LEN: usize = 10;

/// Most invalid frames dropped in one call before it reports that none is waiting; the
/// descriptor stays readable, so the rest are read in the next round.
const MAX_DISCARDED: usize = 64;

const NEEDS_CSUM: u8 = 1;
const DATA_VALID: u8 = 2;
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
/// Set with TCP when a segment has CWR; the receiver can ignore it.
const GSO_ECN: u8 = 0x80;

fn le16(bytes: &[u8; HEADER_LEN], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

/// Decodes the header of a received frame of `len` bytes. `None` if the frame cannot be
/// what it describes.
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

/// Builds the header of a validated frame.
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

/// Evaluates a read of `got` bytes, the header included, into `room` bytes for the frame.
/// `None`, counted, if it is not a frame: shorter than `least`, truncated, or with an
/// invalid header.
pub(crate) fn accept(
    header: &[u8; HEADER_LEN],
    got: usize,
    room: usize,
    least: usize,
    counters: &mut PortCounters,
) -> Option<RxMeta> {
    let len = got.saturating_sub(HEADER_LEN);
    if len < least {
        counters.drops.rx_runt += 1;
        return None;
    }
    // The kernel truncates a frame to the buffer without an error.
    if len >= room {
        counters.drops.rx_truncated += 1;
        return None;
    }
    let Some((checksum, gso)) = decode(header, len) else {
        counters.drops.rx_bad_offload += 1;
        return None;
    };
    counters.received(len, gso.is_some());
    Some(RxMeta { len, checksum, gso })
}

/// What to do after a read without a frame.
pub(crate) enum ReadOn {
    Again,
    Nothing,
}

/// A port that reads frames with this header from a descriptor.
pub(crate) trait Receive {
    /// The descriptor, and what is counted.
    fn source(&mut self) -> (&OwnedFd, &mut PortCounters);

    /// Evaluates a read of `got` bytes in all into `room`. `None` if the frame is to be
    /// dropped.
    fn accept(&mut self, header: &[u8; HEADER_LEN], got: usize, room: usize) -> Option<RxMeta>;

    /// The meaning of a failed read: try again, no frame, or a permanent error.
    fn read_failed(&mut self, errno: Errno) -> Result<ReadOn, PortError>;

    /// Takes the first valid frame that `read` finds, which has so much `room` for it.
    #[inline]
    fn recv_by(
        &mut self,
        room: usize,
        mut read: impl FnMut(&OwnedFd) -> Result<([u8; HEADER_LEN], usize), Errno>,
    ) -> Result<Option<RxMeta>, PortError> {
        for _ in 0..MAX_DISCARDED {
            let (fd, counters) = self.source();
            counters.rx_calls += 1;
            match read(fd) {
                Ok((header, got)) => {
                    if let Some(meta) = self.accept(&header, got, room) {
                        return Ok(Some(meta));
                    }
                }
                Err(errno) => match self.read_failed(errno)? {
                    ReadOn::Again => {}
                    ReadOn::Nothing => return Ok(None),
                },
            }
        }
        Ok(None)
    }
}

/// Whether a frame may be received into these parts.
pub(crate) fn check_parts(parts: &[IoSliceMut<'_>]) -> Result<(), PortError> {
    let pieces = parts.len();
    if pieces > MAX_PIECES {
        return Err(PortError::TooManyPieces { pieces });
    }
    Ok(())
}

/// Reads a frame into validated parts; returns its header, and the bytes of both.
#[inline]
pub(crate) fn read(
    fd: &OwnedFd,
    parts: &mut [IoSliceMut<'_>],
) -> Result<([u8; HEADER_LEN], usize), Errno> {
    let mut header = [0; HEADER_LEN];
    let used = 1 + parts.len();
    let mut all: [IoSliceMut<'_>; MAX_PIECES + 1] =
        std::array::from_fn(|_| IoSliceMut::new(&mut []));
    all[0] = IoSliceMut::new(&mut header);
    for (slot, part) in all[1..].iter_mut().zip(parts.iter_mut()) {
        *slot = IoSliceMut::new(part);
    }
    let got = rustix::io::readv(fd, &mut all[..used])?;
    Ok((header, got))
}

/// Reads a frame into a buffer for one, its header before it; returns the header, and the bytes
/// of both.
#[inline]
pub(crate) fn read_single(
    fd: &OwnedFd,
    buffer: &mut RecvBuffer,
) -> Result<([u8; HEADER_LEN], usize), Errno> {
    let all = buffer.room_behind(HEADER_LEN);
    let got = rustix::io::read(fd, &mut *all)?;
    let header = all.first_chunk().copied().unwrap_or_default();
    Ok((header, got))
}

/// Reads a frame as [`Port::recv_in_place`](crate::Port::recv_in_place) has it, and its
/// header to before the first bytes; returns the header, and the bytes of both.
#[inline]
pub(crate) fn read_in_place(
    fd: &OwnedFd,
    buffer: &mut RecvBuffer,
    header_len: usize,
    rooms: &SharedRooms<'_>,
) -> Result<([u8; HEADER_LEN], usize), Errno> {
    debug_assert!(header_len + rooms.len() <= RECV_ROOM);
    let (head, tail) = buffer.room_around(HEADER_LEN, header_len, rooms.len());
    let got = rooms.read_around(fd, head, tail)?;
    let header = head.first_chunk().copied().unwrap_or_default();
    Ok((header, got))
}

/// Writes a validated frame with its header.
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
