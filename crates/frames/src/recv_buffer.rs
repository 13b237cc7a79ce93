//! The buffer into which frames are received, and how long frames are.

use crate::SharedRooms;

/// The longest frame that any port carries: an IP packet of 65,535 bytes
/// behind an Ethernet header with one VLAN tag.
pub const MAX_FRAME: usize = 65_535 + 14 + 4;

/// The size of a receive buffer that no frame can overflow. One byte more than
/// [`MAX_FRAME`], because some systems do not distinguish a frame that fills the buffer
/// from one that was truncated.
pub const RECV_ROOM: usize = MAX_FRAME + 1;

/// The buffer of [`Port::recv_single`](crate::Port::recv_single): room for any frame, and
/// before it for a driver's header, so that both are read in one piece.
#[derive(Debug)]
pub struct RecvBuffer(Box<[u8; HEADROOM + RECV_ROOM]>);

/// The room before the frame, in bytes: the longest virtio-net header.
const HEADROOM: usize = 12;

impl RecvBuffer {
    /// An empty buffer.
    pub fn new() -> Self {
        Self(Box::new([0; HEADROOM + RECV_ROOM]))
    }

    /// The room for a frame, [`RECV_ROOM`] bytes.
    #[inline]
    pub fn room(&mut self) -> &mut [u8] {
        &mut self.0[HEADROOM..]
    }

    /// As [`room`](Self::room), with the `before` bytes in front of it, at most 12.
    #[inline]
    pub fn room_behind(&mut self, before: usize) -> &mut [u8] {
        &mut self.0[HEADROOM - before..]
    }

    /// The room for a frame without the `gap` bytes that follow its first `header_len`: what
    /// is before the gap, with the `before` bytes in front of it, at most 12, and what is
    /// behind it. A gap that reaches beyond the room ends with it.
    pub fn room_around(
        &mut self,
        before: usize,
        header_len: usize,
        gap: usize,
    ) -> (&mut [u8], &mut [u8]) {
        let room = self.room_behind(before);
        let (head, rest) = room.split_at_mut((before + header_len).min(room.len()));
        let gap = gap.min(rest.len());
        (head, &mut rest[gap..])
    }

    /// Takes the bytes behind the first `header_len` of a frame with `len` bytes from `rooms`,
    /// as many as there are.
    pub fn close_gap(&mut self, header_len: usize, len: usize, rooms: &SharedRooms<'_>) {
        let end = len.min(header_len.saturating_add(rooms.len()));
        if let Some(gap) = self.room().get_mut(header_len..end) {
            rooms.copy_to(gap);
        }
    }

    /// The most recently received frame, with `len` bytes; empty if that is longer than
    /// any frame.
    #[inline]
    pub fn frame(&self, len: usize) -> &[u8] {
        self.0[HEADROOM..].get(..len).unwrap_or_default()
    }
}

impl Default for RecvBuffer {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_room_around_a_gap_is_the_room_without_it() {
        let mut buffer = RecvBuffer::new();
        let (head, tail) = buffer.room_around(10, 66, 1000);
        assert_eq!((head.len(), tail.len()), (76, RECV_ROOM - 1066));
        head.fill(1);
        tail.fill(3);
        assert_eq!(buffer.frame(66), [1; 66]);
        assert_eq!(
            buffer.frame(1067)[65..],
            [&[1; 1][..], &[0; 1000], &[3]].concat()
        );
        for gap in [RECV_ROOM - 66, RECV_ROOM, usize::MAX] {
            let (head, tail) = buffer.room_around(0, 66, gap);
            assert_eq!((head.len(), tail.len()), (66, 0));
        }
        let (head, tail) = buffer.room_around(0, RECV_ROOM + 9, 9);
        assert_eq!((head.len(), tail.len()), (RECV_ROOM, 0));
    }
}
