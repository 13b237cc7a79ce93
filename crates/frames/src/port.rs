//! The trait that every carrier of frames implements, and the words in which
//! the engine and a carrier talk about a frame.

use std::io::{IoSlice, IoSliceMut};
use std::net::IpAddr;
use std::os::fd::BorrowedFd;

use crate::{PortCounters, PortError};

/// The longest frame that any port carries: an IP packet of 65,535 bytes
/// behind an Ethernet header with one VLAN tag.
pub const MAX_FRAME: usize = 65_535 + 14 + 4;

/// The size of a receive buffer that no frame can overflow. One byte more than
/// [`MAX_FRAME`], because some systems do not tell a frame that fills the
/// buffer from one that was cut to fit it.
pub const RECV_ROOM: usize = MAX_FRAME + 1;

/// Where [`Port::recv_single`] puts a frame: room for any, and before it for what a port's
/// driver says of a frame in front of it, so that both come in one piece.
#[derive(Debug)]
pub struct RecvBuffer(Box<[u8]>);

/// The room before the frame, in bytes: the longest virtio-net header.
const HEADROOM: usize = 12;

impl RecvBuffer {
    /// An empty one.
    pub fn new() -> Self {
        Self(vec![0; HEADROOM + RECV_ROOM].into())
    }

    /// The room for a frame, [`RECV_ROOM`] bytes.
    #[inline]
    pub fn room(&mut self) -> &mut [u8] {
        &mut self.0[HEADROOM..]
    }

    /// The same with the `before` bytes in front of it, at most 12.
    #[inline]
    pub fn room_behind(&mut self, before: usize) -> &mut [u8] {
        &mut self.0[HEADROOM - before..]
    }

    /// The frame of `len` bytes that was received last; empty if that is longer than any.
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

/// One SYN in two to the power of this is the fewest that a port lets through.
pub const MAX_SYN_DROP: u8 = 16;

/// The most pieces in which a frame's payload may be given to [`Port::send`].
pub const MAX_PIECES: usize = 16;

/// What stands in front of the IP header on this port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkKind {
    /// Ethernet frames; the address that the engine's side should use.
    Ethernet {
        /// Our address on this link.
        mac: [u8; 6],
    },
    /// Bare IP packets, without neighbours to resolve.
    Ip,
}

/// What a port can do. Changes only with its interface ([`Port::take_news`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// What stands in front of the IP header.
    pub link: LinkKind,
    /// The largest IP packet on the wire, in bytes, link header not counted.
    pub mtu: usize,
    /// The port completes transport checksums on the way out
    /// ([`TxFrame::checksum`]).
    pub tx_checksum: bool,
    /// The port may deliver frames whose checksum it vouches for
    /// ([`RxChecksum::Valid`], [`RxChecksum::Partial`]).
    pub rx_checksum: bool,
    /// The port segments TCP over IPv4 ([`GsoKind::Tcp4`]).
    pub tso4: bool,
    /// The port segments TCP over IPv6 ([`GsoKind::Tcp6`]).
    pub tso6: bool,
    /// The port segments UDP ([`GsoKind::Udp`]).
    pub uso: bool,
    /// The longest frame to hand over for segmentation, link header included,
    /// in bytes. Equal to MTU and link header on a port without segmentation.
    pub max_gso_bytes: usize,
    /// The port may deliver several segments as one frame ([`RxMeta::gso`]).
    pub rx_coalesced: bool,
}

impl Capabilities {
    /// Bytes of link header in front of the IP header.
    pub fn link_header_len(&self) -> usize {
        match self.link {
            LinkKind::Ethernet { .. } => 14,
            LinkKind::Ip => 0,
        }
    }

    /// The longest frame that fits the wire unsegmented, in bytes.
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

    /// The same port without any offload: frames of at most the MTU, with
    /// complete checksums, in both directions.
    #[must_use]
    pub fn without_offloads(self) -> Self {
        Capabilities {
            tx_checksum: false,
            rx_checksum: false,
            tso4: false,
            tso6: false,
            uso: false,
            max_gso_bytes: self.max_frame_len(),
            rx_coalesced: false,
            ..self
        }
    }
}

/// Which protocol's segments a coalesced frame holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GsoKind {
    /// TCP over IPv4.
    Tcp4,
    /// TCP over IPv6.
    Tcp6,
    /// UDP datagrams over IPv4 or IPv6.
    Udp,
}

/// A received frame holds several segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gso {
    /// Of which protocol.
    pub kind: GsoKind,
    /// Payload bytes in each segment but the last, at least 1.
    pub size: u16,
}

/// What the port knows about a received frame's transport checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RxChecksum {
    /// Nothing: it must be verified.
    Unknown,
    /// The port verified it.
    Valid,
    /// The frame comes from this machine and never was on a wire: the field
    /// holds only the pseudo-header's sum, and the data is to be believed. To
    /// forward or record such a frame, complete it (`segment::finish_checksum`).
    Partial {
        /// Where summing starts, from the start of the frame.
        start: u16,
        /// Where the field is, from `start`.
        offset: u16,
    },
}

/// What came with a received frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RxMeta {
    /// Length of the frame in bytes, link header included.
    pub len: usize,
    /// What is known of its transport checksum.
    pub checksum: RxChecksum,
    /// Set if it holds several segments.
    pub gso: Option<Gso>,
}

/// The port is to complete a transport checksum: the field already holds the
/// pseudo-header's sum (folded, not complemented).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TxChecksum {
    /// Where summing starts, from the start of the frame: the transport header.
    pub start: u16,
    /// Where the field is, from `start`: 16 for TCP, 6 for UDP.
    pub offset: u16,
}

/// The port is to cut a frame into segments. Needs [`TxFrame::checksum`]; the
/// pseudo-header's sum in the field is over the length of the whole frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TxGso {
    /// Of which protocol.
    pub kind: GsoKind,
    /// Payload bytes in each segment but the last, at least 1.
    pub size: u16,
    /// Length of all headers, link to transport, to be repeated on each
    /// segment, in bytes.
    pub header_len: u16,
}

/// A frame to send. Borrowed: the port has copied or sent it when
/// [`Port::send`] returns.
#[derive(Debug, Clone, Copy)]
pub struct TxFrame<'a> {
    /// All headers, link to transport, and as much of the payload as the
    /// sender likes.
    pub headers: &'a [u8],
    /// The rest, in at most [`MAX_PIECES`] pieces.
    pub payload: &'a [IoSlice<'a>],
    /// Set if the port is to complete the transport checksum.
    pub checksum: Option<TxChecksum>,
    /// Set if the port is to cut the frame into segments.
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

/// Something that carries frames.
///
/// Calls come in any order, from one thread. A caller drains the port with
/// [`recv`](Port::recv) or [`recv_scatter`](Port::recv_scatter) until it
/// answers `None`, sends what it has, calls [`flush`](Port::flush) once at the
/// end of its round, and may then sleep on [`fd`](Port::fd). No call blocks.
pub trait Port: Send {
    /// What this port can do; changes only in [`Port::take_news`].
    fn capabilities(&self) -> &Capabilities;

    /// Receives one frame into `parts`, filled in order: headers into the
    /// first, say, and payload to where it is expected to belong. `None` when
    /// nothing waits. A frame longer than all parts together is dropped and
    /// counted; [`RECV_ROOM`] bytes suffice for any.
    ///
    /// Bytes of `parts` past the frame's length may have been overwritten.
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

    /// Receives one frame into a buffer that has room before it, which is a little
    /// cheaper where a driver writes something there.
    ///
    /// # Errors
    /// [`PortError::Down`] or [`PortError::Os`].
    fn recv_single(&mut self, buffer: &mut RecvBuffer) -> Result<Option<RxMeta>, PortError> {
        self.recv(buffer.room())
    }

    /// Sends one frame, wholly or not at all.
    ///
    /// # Errors
    /// [`PortError::Full`] when it would block; any other for a frame that
    /// will never be taken, or a port that is gone.
    fn send(&mut self, frame: &TxFrame<'_>) -> Result<(), PortError>;

    /// Pushes out what `send` may have kept to go out in one batch. What finds
    /// no room is kept for the next call.
    ///
    /// # Errors
    /// [`PortError::Down`] or [`PortError::Os`].
    fn flush(&mut self) -> Result<(), PortError> {
        Ok(())
    }

    /// A descriptor that is readable when frames wait, to sleep on. `None` on a
    /// port that only moves when its caller does.
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// A second descriptor to sleep on, readable when the port's interface has
    /// come, changed or gone. `None` on a port with which that cannot happen.
    fn news_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// To be called when [`news_fd`](Port::news_fd) is readable. Says whether
    /// [`capabilities`](Port::capabilities) have changed.
    fn take_news(&mut self) -> bool {
        false
    }

    /// Whether the link has come back since this was last asked: it could not carry frames,
    /// or there was no interface, and now it can. What was known of the stations on it may
    /// be void. News of it comes as of the interface ([`news_fd`](Port::news_fd)), and it
    /// counts once [`take_news`](Port::take_news) was called.
    fn link_has_returned(&mut self) -> bool {
        false
    }

    /// From now on the engine has these addresses, each with the length of its prefix,
    /// and no others; `dhcp` says that it wants what servers send to DHCP clients, too.
    /// A port that shows all frames has nothing to do.
    ///
    /// # Errors
    /// [`PortError::Os`]; what the port lets through is then what it was.
    fn set_addresses(&mut self, addresses: &[(IpAddr, u8)], dhcp: bool) -> Result<(), PortError> {
        let _ = (addresses, dhcp);
        Ok(())
    }

    /// From now on the engine wants what is sent to these groups, too, and to no others.
    /// A port that shows all frames has nothing to do.
    ///
    /// # Errors
    /// [`PortError::Os`]; what the port lets through is then what it was.
    fn set_groups(&mut self, groups: &[IpAddr]) -> Result<(), PortError> {
        let _ = groups;
        Ok(())
    }

    /// From now on one SYN in `1 << shift` reaches the port's queue, by chance, and the others
    /// are dropped before it (0: all reach it; at most [`MAX_SYN_DROP`](crate::MAX_SYN_DROP)).
    /// Says whether the port can do this.
    ///
    /// # Errors
    /// [`PortError::Os`]; what the port lets through is then what it was.
    fn drop_syns(&mut self, shift: u8) -> Result<bool, PortError> {
        let _ = shift;
        Ok(false)
    }

    /// Whether the port's interface is there. While it is not, what is sent is
    /// lost and nothing comes.
    fn is_attached(&self) -> bool {
        true
    }

    /// Why the interface that is there cannot be used as it is now, for the operator: told
    /// once, after [`take_news`](Port::take_news), and again when it is something else.
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

    fn send(&mut self, frame: &TxFrame<'_>) -> Result<(), PortError> {
        (**self).send(frame)
    }

    fn flush(&mut self) -> Result<(), PortError> {
        (**self).flush()
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        (**self).fd()
    }

    fn news_fd(&self) -> Option<BorrowedFd<'_>> {
        (**self).news_fd()
    }

    fn take_news(&mut self) -> bool {
        (**self).take_news()
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
