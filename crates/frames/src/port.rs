//! The trait that every port implements, and the types by which engine and port describe
//! a frame.

use std::io::{IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::BorrowedFd;

use crate::{PortCounters, PortError, RecvBuffer, SharedRooms};

/// The greatest exponent of SYN dropping: a port passes at least one SYN in two to the
/// power of this.
pub const MAX_SYN_DROP: u8 = 16;

/// The link header in front of the IP header on a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkKind {
    /// Ethernet frames.
    Ethernet {
        /// Our address on this link.
        mac: [u8; 6],
    },
    /// Bare IP packets, without neighbours to resolve.
    Ip,
}

/// The capabilities of a port. They only change with its interface ([`Port::take_link_events`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// The link header in front of the IP header.
    pub link: LinkKind,
    /// The largest IP packet on the wire, in bytes, without link header.
    pub mtu: usize,
    /// The port completes transport checksums of sent frames ([`TxFrame::checksum`]).
    pub tx_checksum: bool,
    /// The port gives payload of more than 512 bytes to the kernel without touching it, if the
    /// checksum is left to it: the bytes may be such that an access would be a fault, and then
    /// [`Port::send`] fails with [`PortError::Unreadable`].
    pub passes_payload: bool,
    /// The port may deliver frames with a checksum that need not be verified
    /// ([`RxChecksum::Valid`], [`RxChecksum::Partial`]).
    pub rx_checksum: bool,
    /// The port segments TCP over IPv4 ([`GsoKind::Tcp4`]).
    pub tso4: bool,
    /// The port segments TCP over IPv6 ([`GsoKind::Tcp6`]).
    pub tso6: bool,
    /// The port segments UDP ([`GsoKind::Udp`]).
    pub uso: bool,
    /// The longest frame to pass for segmentation, link header included, in bytes. Equal
    /// to MTU plus link header on a port without segmentation.
    pub max_gso_bytes: usize,
    /// Where the port takes longer frames than that.
    pub big_tcp: Option<BigTcp>,
    /// The port may deliver several segments as one frame ([`RxMeta::gso`]).
    pub rx_coalesced: bool,
}

/// Frames of TCP over IPv4 that are longer than an IP packet can be, for a kernel that takes
/// them without segmenting them: BIG TCP, in Linux since 6.3. The length in their IP header is
/// 0. For an address of that kernel's own: what it passes on to others it would segment in
/// software.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BigTcp {
    /// The address.
    pub to: Ipv4Addr,
    /// The longest frame, link header included, in bytes.
    pub max_bytes: usize,
}

impl Capabilities {
    /// Length of the link header in front of the IP header, bytes.
    pub fn link_header_len(&self) -> usize {
        match self.link {
            LinkKind::Ethernet { .. } => 14,
            LinkKind::Ip => 0,
        }
    }

    /// The longest frame that the wire carries unsegmented, in bytes.
    pub fn max_frame_len(&self) -> usize {
        self.mtu + self.link_header_len()
    }

    /// Whether the port segments frames of this kind.
    pub fn segments(&self, kind: GsoKind) -> bool {
        match kind {
            GsoKind::Tcp4 => self.tso4,
            GsoKind::Tcp6 => self.tso6,
            GsoKind::Udp => self.uso,
        }
    }

    /// These capabilities without any offload: frames of at most the MTU, with complete
    /// checksums, in both directions.
    #[must_use]
    pub fn without_offloads(self) -> Self {
        Capabilities {
            tx_checksum: false,
            passes_payload: false,
            rx_checksum: false,
            tso4: false,
            tso6: false,
            uso: false,
            max_gso_bytes: self.max_frame_len(),
            big_tcp: None,
            rx_coalesced: false,
            ..self
        }
    }
}

/// The protocol of a coalesced frame's segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GsoKind {
    /// TCP over IPv4.
    Tcp4,
    /// TCP over IPv6.
    Tcp6,
    /// UDP datagrams over IPv4 or IPv6.
    Udp,
}

/// A received frame contains several segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gso {
    /// Their protocol.
    pub kind: GsoKind,
    /// Payload bytes in each segment but the last, at least 1.
    pub size: u16,
}

/// What the port knows of a received frame's transport checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RxChecksum {
    /// Not verified.
    Unknown,
    /// The port verified it.
    Valid,
    /// The frame comes from this machine and was never on a wire: the field contains only
    /// the pseudo-header's sum, and the data need not be verified. To forward or record
    /// such a frame, complete it (`segment::finish_checksum`).
    Partial {
        /// Where the sum begins, from the start of the frame.
        start: u16,
        /// Where the field is, from `start`.
        offset: u16,
    },
}

/// The properties of a received frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RxMeta {
    /// Length of the frame in bytes, link header included.
    pub len: usize,
    /// The state of its transport checksum.
    pub checksum: RxChecksum,
    /// Set if it contains several segments.
    pub gso: Option<Gso>,
}

/// A request to complete a transport checksum: the field already contains the
/// pseudo-header's sum (folded, not complemented).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TxChecksum {
    /// Where the sum begins, from the start of the frame: the transport header.
    pub start: u16,
    /// Where the field is, from `start`: 16 for TCP, 6 for UDP.
    pub offset: u16,
}

/// A request to segment a frame. Requires [`TxFrame::checksum`]; the pseudo-header's sum
/// in the field is for the length of the whole frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TxGso {
    /// Their protocol.
    pub kind: GsoKind,
    /// Payload bytes in each segment but the last, at least 1.
    pub size: u16,
    /// Length of all headers, link to transport, which are repeated on each segment, in
    /// bytes.
    pub header_len: u16,
}

/// A frame to send. Borrowed: the port has copied or sent it when [`Port::send`] returns.
#[derive(Debug, Clone, Copy)]
pub struct TxFrame<'a> {
    /// All headers, link to transport, and any part of the payload.
    pub headers: &'a [u8],
    /// The rest of the payload, in at most [`MAX_PIECES`](crate::MAX_PIECES) pieces.
    pub payload: &'a [IoSlice<'a>],
    /// Set if the port is to complete the transport checksum.
    pub checksum: Option<TxChecksum>,
    /// Set if the port is to segment the frame.
    pub gso: Option<TxGso>,
}

impl<'a> TxFrame<'a> {
    /// A complete frame in one piece.
    pub fn whole(frame: &'a [u8]) -> Self {
        TxFrame {
            headers: frame,
            payload: &[],
            checksum: None,
            gso: None,
        }
    }

    /// Length of headers and payload together, in bytes.
    #[inline]
    pub fn frame_len(&self) -> usize {
        self.headers.len() + self.payload.iter().map(|piece| piece.len()).sum::<usize>()
    }
}

/// A device that carries frames.
///
/// Methods may be called in any order, from one thread. The caller reads the port by
/// [`recv`](Port::recv) or [`recv_scatter`](Port::recv_scatter) until it returns `None`,
/// sends its frames, calls [`flush`](Port::flush) once at the end of its round, and may
/// then sleep on [`fd`](Port::fd). No call blocks.
pub trait Port: Send {
    /// The port's capabilities; they only change in [`Port::take_link_events`].
    fn capabilities(&self) -> &Capabilities;

    /// Receives one frame into `parts`, filled in order: for example headers into the
    /// first, and payload where it is expected to belong. `None` if no frame is waiting.
    /// A frame longer than all parts together is dropped and counted;
    /// [`RECV_ROOM`](crate::RECV_ROOM) bytes suffice for any.
    ///
    /// Bytes of `parts` beyond the frame's length may be overwritten.
    ///
    /// # Errors
    /// [`PortError::Down`] or [`PortError::Os`].
    fn recv_scatter(&mut self, parts: &mut [IoSliceMut<'_>]) -> Result<Option<RxMeta>, PortError>;

    /// Receives one frame into `buf`. As [`recv_scatter`](Port::recv_scatter)
    /// with one part.
    ///
    /// # Errors
    /// [`PortError::Down`] or [`PortError::Os`].
    fn recv(&mut self, buf: &mut [u8]) -> Result<Option<RxMeta>, PortError> {
        self.recv_scatter(&mut [IoSliceMut::new(buf)])
    }

    /// Receives one frame into a buffer that has room before it, which is slightly
    /// cheaper if a driver writes a header there.
    ///
    /// # Errors
    /// [`PortError::Down`] or [`PortError::Os`].
    fn recv_single(&mut self, buffer: &mut RecvBuffer) -> Result<Option<RxMeta>, PortError> {
        self.recv(buffer.room())
    }

    /// Whether [`recv_in_place`](Port::recv_in_place) saves a copy.
    fn receives_in_place(&self) -> bool {
        false
    }

    /// Receives one frame, of which the bytes behind the first `header_len` go to `rooms` as
    /// far as there is room, and all others to where they lie in the buffer with those
    /// ([`RecvBuffer::close_gap`]). Bytes of `rooms` beyond the frame's length may be
    /// overwritten. `rooms` have at most [`RECV_ROOM`](crate::RECV_ROOM) bytes less
    /// `header_len`.
    ///
    /// By default the frame is received into the buffer and copied.
    ///
    /// # Errors
    /// [`PortError::Down`] or [`PortError::Os`].
    fn recv_in_place(
        &mut self,
        buffer: &mut RecvBuffer,
        header_len: usize,
        rooms: &SharedRooms<'_>,
    ) -> Result<Option<RxMeta>, PortError> {
        let meta = self.recv_single(buffer)?;
        if let Some(meta) = &meta {
            let behind = buffer.frame(meta.len).get(header_len..).unwrap_or_default();
            rooms.fill(&behind[..behind.len().min(rooms.len())]);
        }
        Ok(meta)
    }

    /// Sends one frame, completely or not at all.
    ///
    /// # Errors
    /// [`PortError::Full`] when it would block; others for a frame that will never be
    /// accepted, or a port that is gone.
    fn send(&mut self, frame: &TxFrame<'_>) -> Result<(), PortError>;

    /// Sends frames that `send` has kept for a batch. Those without room are kept for the
    /// next call.
    ///
    /// # Errors
    /// [`PortError::Down`] or [`PortError::Os`].
    fn flush(&mut self) -> Result<(), PortError> {
        Ok(())
    }

    /// A descriptor to sleep on, readable when frames are waiting. `None` on a port that
    /// is only driven by its caller.
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// A second descriptor to sleep on, readable when the port's interface has appeared,
    /// changed or disappeared. `None` on a port where that cannot happen.
    fn link_events_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// To be called when [`link_events_fd`](Port::link_events_fd) is readable. Returns whether
    /// [`capabilities`](Port::capabilities) have changed.
    fn take_link_events(&mut self) -> bool {
        false
    }

    /// Whether the link has returned since the last call: it could not carry frames, or
    /// there was no interface, and now it can. State about the stations on it may be
    /// invalid. Notifications arrive as for the interface ([`link_events_fd`](Port::link_events_fd)),
    /// and take effect with [`take_link_events`](Port::take_link_events).
    fn link_has_returned(&mut self) -> bool {
        false
    }

    /// Sets the engine's addresses, each with the length of its prefix; `dhcp` says that
    /// it also needs packets to DHCP clients. A port that receives all frames does
    /// nothing.
    ///
    /// # Errors
    /// [`PortError::Os`]; the filter is then unchanged.
    fn set_addresses(&mut self, addresses: &[(IpAddr, u8)], dhcp: bool) -> Result<(), PortError> {
        let _ = (addresses, dhcp);
        Ok(())
    }

    /// Sets the groups whose packets the engine receives. A port that receives all frames
    /// does nothing.
    ///
    /// # Errors
    /// [`PortError::Os`]; the filter is then unchanged.
    fn set_groups(&mut self, groups: &[IpAddr]) -> Result<(), PortError> {
        let _ = groups;
        Ok(())
    }

    /// Passes one SYN in `1 << shift` to the port's queue, at random, and drops the
    /// others before it (0: all are passed; at most
    /// [`MAX_SYN_DROP`]). Returns whether the port supports this.
    ///
    /// # Errors
    /// [`PortError::Os`]; the filter is then unchanged.
    fn drop_syns(&mut self, shift: u8) -> Result<bool, PortError> {
        let _ = shift;
        Ok(false)
    }

    /// Whether the port's interface exists. While it does not, sent frames are dropped
    /// and none arrive.
    fn is_attached(&self) -> bool {
        true
    }

    /// Why the existing interface cannot be used in its present state, for the operator:
    /// returned once after [`take_link_events`](Port::take_link_events), and again when the reason
    /// changes.
    fn take_refusal(&mut self) -> Option<String> {
        None
    }

    /// Totals since the port was opened.
    fn counters(&self) -> &PortCounters;
}

impl<P: Port + ?Sized> Port for Box<P> {
    fn capabilities(&self) -> &Capabilities {
        (**self).capabilities()
    }

    fn recv_scatter(&mut self, parts: &mut [IoSliceMut<'_>]) -> Result<Option<RxMeta>, PortError> {
        (**self).recv_scatter(parts)
    }

    fn recv(&mut self, buf: &mut [u8]) -> Result<Option<RxMeta>, PortError> {
        (**self).recv(buf)
    }

    fn recv_single(&mut self, buffer: &mut RecvBuffer) -> Result<Option<RxMeta>, PortError> {
        (**self).recv_single(buffer)
    }

    fn receives_in_place(&self) -> bool {
        (**self).receives_in_place()
    }

    fn recv_in_place(
        &mut self,
        buffer: &mut RecvBuffer,
        header_len: usize,
        rooms: &SharedRooms<'_>,
    ) -> Result<Option<RxMeta>, PortError> {
        (**self).recv_in_place(buffer, header_len, rooms)
    }

    fn send(&mut self, frame: &TxFrame<'_>) -> Result<(), PortError> {
        (**self).send(frame)
    }

    fn flush(&mut self) -> Result<(), PortError> {
        (**self).flush()
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        (**self).fd()
    }

    fn link_events_fd(&self) -> Option<BorrowedFd<'_>> {
        (**self).link_events_fd()
    }

    fn take_link_events(&mut self) -> bool {
        (**self).take_link_events()
    }

    fn link_has_returned(&mut self) -> bool {
        (**self).link_has_returned()
    }

    fn set_addresses(&mut self, addresses: &[(IpAddr, u8)], dhcp: bool) -> Result<(), PortError> {
        (**self).set_addresses(addresses, dhcp)
    }

    fn set_groups(&mut self, groups: &[IpAddr]) -> Result<(), PortError> {
        (**self).set_groups(groups)
    }

    fn drop_syns(&mut self, shift: u8) -> Result<bool, PortError> {
        (**self).drop_syns(shift)
    }

    fn is_attached(&self) -> bool {
        (**self).is_attached()
    }

    fn take_refusal(&mut self) -> Option<String> {
        (**self).take_refusal()
    }

    fn counters(&self) -> &PortCounters {
        (**self).counters()
    }
}

#[cfg(test)]
mod tests;
