//! Segmentation and checksum completion in software, for ports that cannot do
//! them and for those that must see each segment as it will be on the wire.
//!
//! A [`Segmenter`] turns the frames that the engine passes to a port into finished
//! frames. TCP follows network cards: sequence numbers advance, FIN and PSH stay with the
//! last segment and CWR with the first (RFC 3168, section 6.1.2). UDP datagrams are split
//! at equal sizes, each with its own header.

use std::io::IoSlice;

use longshore_wire::checksum::Partial;

use crate::{Gso, GsoKind, LinkKind, RxMeta, TxFrame, TxGso};

const TCP_FIN: u8 = 0x01;
const TCP_PSH: u8 = 0x08;
const TCP_CWR: u8 = 0x80;
const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;

/// Why a frame cannot be segmented.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SegmentError {
    /// The headers do not fit into the frame.
    #[error("the frame is shorter than its headers")]
    TooShort,
    /// The frame holds no IPv4 or IPv6 packet, or a fragment of one.
    #[error("the frame holds no whole IP packet")]
    NotIp,
    /// The packet is not of the claimed protocol.
    #[error("the packet is not of the kind claimed for it")]
    WrongKind,
    /// The segment size is 0.
    #[error("a segment size of zero")]
    ZeroSize,
    /// The checksum field lies outside the frame.
    #[error("the checksum field lies outside the frame")]
    BadChecksumField,
}

fn put16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

fn get16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// Completes a checksum whose field holds the pseudo-header's sum: adds up the
/// frame from `start` and writes the complement at `start + offset`. Zero is
/// written as all ones, which UDP demands and TCP allows.
///
/// # Errors
/// [`SegmentError::BadChecksumField`]; the frame is untouched.
pub fn finish_checksum(frame: &mut [u8], start: u16, offset: u16) -> Result<(), SegmentError> {
    let (start, at) = (usize::from(start), usize::from(start) + usize::from(offset));
    if at + 2 > frame.len() {
        return Err(SegmentError::BadChecksumField);
    }
    let checksum = Partial::of(&frame[start..]).finish();
    put16(frame, at, if checksum == 0 { 0xffff } else { checksum });
    Ok(())
}

/// The offsets of a frame's headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Layout {
    /// The IP header.
    ip: usize,
    v6: bool,
    /// The transport header.
    transport: usize,
    tcp: bool,
    /// The payload.
    payload: usize,
}

impl Layout {
    /// Parses the headers of a frame that claims to be of `kind`.
    fn of(headers: &[u8], link: LinkKind, kind: GsoKind) -> Result<Self, SegmentError> {
        let ip = match link {
            LinkKind::Ethernet { .. } => 14,
            LinkKind::Ip => 0,
        };
        let packet = headers.get(ip..).ok_or(SegmentError::TooShort)?;
        let (v6, transport, protocol) = match packet.first().map(|b| b >> 4) {
            Some(4) => Self::ipv4(packet)?,
            Some(6) => Self::ipv6(packet)?,
            Some(_) => return Err(SegmentError::NotIp),
            None => return Err(SegmentError::TooShort),
        };
        let tcp = protocol == PROTOCOL_TCP;
        let fits = match kind {
            GsoKind::Tcp4 => tcp && !v6,
            GsoKind::Tcp6 => tcp && v6,
            GsoKind::Udp => protocol == PROTOCOL_UDP,
        };
        if !fits {
            return Err(SegmentError::WrongKind);
        }
        let transport = ip + transport;
        let length = if tcp {
            let words = headers.get(transport + 12).ok_or(SegmentError::TooShort)? >> 4;
            usize::from(words) * 4
        } else {
            8
        };
        if length < if tcp { 20 } else { 8 } || transport + length > headers.len() {
            return Err(SegmentError::TooShort);
        }
        Ok(Layout {
            ip,
            v6,
            transport,
            tcp,
            payload: transport + length,
        })
    }

    fn ipv4(packet: &[u8]) -> Result<(bool, usize, u8), SegmentError> {
        if packet.len() < 20 {
            return Err(SegmentError::TooShort);
        }
        let length = usize::from(packet[0] & 0xf) * 4;
        // More-fragments, or an offset: there is no transport header to replicate.
        if length < 20 || get16(packet, 6) & 0x3fff != 0 {
            return Err(SegmentError::NotIp);
        }
        Ok((false, length, packet[9]))
    }

    /// Skips hop-by-hop, routing and destination options (RFC 8200, section 4); offloads
    /// do not apply after any other header.
    fn ipv6(packet: &[u8]) -> Result<(bool, usize, u8), SegmentError> {
        let (mut at, mut next) = (40, *packet.get(6).ok_or(SegmentError::TooShort)?);
        while matches!(next, 0 | 43 | 60) {
            let header = packet.get(at..at + 2).ok_or(SegmentError::TooShort)?;
            next = header[0];
            at += 8 * (usize::from(header[1]) + 1);
        }
        Ok((true, at, next))
    }

    /// The sum of the pseudo-header for `length` bytes of transport header and
    /// payload, at most 65,535.
    fn pseudo_header(&self, frame: &[u8], length: usize) -> Partial {
        let addresses = if self.v6 {
            &frame[self.ip + 8..self.ip + 40]
        } else {
            &frame[self.ip + 12..self.ip + 20]
        };
        let protocol = if self.tcp { PROTOCOL_TCP } else { PROTOCOL_UDP };
        let [high, low] = (length as u16).to_be_bytes();
        Partial::of(addresses).plus(Partial::of(&[0, protocol, high, low]))
    }
}

/// The work to do on the frame.
#[derive(Debug, Clone, Copy)]
enum Work {
    /// Nothing: it is complete.
    Copy,
    /// Complete its checksum.
    Checksum { start: u16, offset: u16 },
    /// Segment it.
    Cut { layout: Layout, size: usize },
}

/// Generates the finished frames of one frame with offload requests.
#[derive(Debug)]
pub struct Segmenter<'a> {
    headers: &'a [u8],
    /// The first piece of payload, which the sender put after the headers.
    first: &'a [u8],
    payload: &'a [IoSlice<'a>],
    work: Work,
    /// Total payload bytes.
    total: usize,
    /// Payload bytes generated so far.
    done: usize,
    /// Segments generated so far.
    index: usize,
    finished: bool,
}

impl<'a> Segmenter<'a> {
    /// Starts with a frame to be sent on a link of this kind.
    ///
    /// # Errors
    /// [`SegmentError`] if its headers are not as claimed.
    pub fn new(frame: &TxFrame<'a>, link: LinkKind) -> Result<Self, SegmentError> {
        let (headers, work) = match (frame.gso, frame.checksum) {
            (Some(gso), _) => {
                let layout = Layout::of(frame.headers, link, gso.kind)?;
                if gso.size == 0 {
                    return Err(SegmentError::ZeroSize);
                }
                let size = usize::from(gso.size);
                (&frame.headers[..layout.payload], Work::Cut { layout, size })
            }
            (None, Some(c)) => (
                frame.headers,
                Work::Checksum {
                    start: c.start,
                    offset: c.offset,
                },
            ),
            (None, None) => (frame.headers, Work::Copy),
        };
        if let Work::Checksum { start, offset } = work
            && usize::from(start) + usize::from(offset) + 2 > frame.frame_len()
        {
            return Err(SegmentError::BadChecksumField);
        }
        Ok(Segmenter {
            headers,
            first: &frame.headers[headers.len()..],
            payload: frame.payload,
            work,
            total: frame.frame_len() - headers.len(),
            done: 0,
            index: 0,
            finished: false,
        })
    }

    /// Starts with a received frame, as if to forward it.
    ///
    /// # Errors
    /// As [`Segmenter::new`].
    pub fn of_received(
        frame: &'a [u8],
        meta: &RxMeta,
        link: LinkKind,
    ) -> Result<Self, SegmentError> {
        let checksum = match meta.checksum {
            crate::RxChecksum::Partial { start, offset } => {
                Some(crate::TxChecksum { start, offset })
            }
            crate::RxChecksum::Unknown | crate::RxChecksum::Valid => None,
        };
        let gso = meta.gso.map(|Gso { kind, size }| TxGso {
            kind,
            size,
            header_len: 0,
        });
        let frame = TxFrame {
            checksum,
            gso,
            ..TxFrame::whole(&frame[..meta.len.min(frame.len())])
        };
        Self::new(&frame, link)
    }

    /// Writes the next finished frame into `out`, replacing its contents. False if there
    /// is none.
    pub fn next_into(&mut self, out: &mut Vec<u8>) -> bool {
        if self.finished {
            return false;
        }
        out.clear();
        out.extend_from_slice(self.headers);
        let left = self.total - self.done;
        match self.work {
            Work::Copy => {
                self.append(out, left);
                self.finished = true;
            }
            Work::Checksum { start, offset } => {
                self.append(out, left);
                let fits = finish_checksum(out, start, offset);
                debug_assert!(fits.is_ok(), "checked when the segmenter was made");
                self.finished = true;
            }
            Work::Cut { layout, size } => {
                let len = left.min(size);
                let before = self.done;
                self.append(out, len);
                self.finished = self.done == self.total;
                self.patch(out, layout, before, len);
                self.index += 1;
            }
        }
        true
    }

    /// Appends the next `len` bytes of payload.
    fn append(&mut self, out: &mut Vec<u8>, len: usize) {
        let (mut skip, mut want) = (self.done, len);
        let pieces = std::iter::once(self.first).chain(self.payload.iter().map(|p| &**p));
        for piece in pieces {
            if want == 0 {
                break;
            }
            if skip >= piece.len() {
                skip -= piece.len();
                continue;
            }
            let take = want.min(piece.len() - skip);
            out.extend_from_slice(&piece[skip..skip + take]);
            skip = 0;
            want -= take;
        }
        self.done += len;
    }

    /// Adjusts the copied headers to the segment at payload offset `at`.
    fn patch(&self, frame: &mut [u8], layout: Layout, at: usize, len: usize) {
        let Layout { ip, transport, .. } = layout;
        let packet_len = frame.len() - ip;
        let transport_len = frame.len() - transport;
        if layout.v6 {
            put16(frame, ip + 4, (packet_len - 40) as u16);
        } else {
            put16(frame, ip + 2, packet_len as u16);
            let id = get16(frame, ip + 4).wrapping_add(self.index as u16);
            put16(frame, ip + 4, id);
            put16(frame, ip + 10, 0);
            let header = &frame[ip..ip + usize::from(frame[ip] & 0xf) * 4];
            let header_sum = Partial::of(header).finish();
            put16(frame, ip + 10, header_sum);
        }
        let field = if layout.tcp {
            let sequence: [u8; 4] = std::array::from_fn(|i| frame[transport + 4 + i]);
            let sequence = u32::from_be_bytes(sequence).wrapping_add(at as u32);
            frame[transport + 4..transport + 8].copy_from_slice(&sequence.to_be_bytes());
            if !self.finished {
                frame[transport + 13] &= !(TCP_FIN | TCP_PSH);
            }
            if self.index > 0 {
                frame[transport + 13] &= !TCP_CWR;
            }
            transport + 16
        } else {
            put16(frame, transport + 4, (8 + len) as u16);
            transport + 6
        };
        put16(frame, field, 0);
        let pseudo_header = layout.pseudo_header(frame, transport_len);
        let checksum = pseudo_header
            .plus(Partial::of(&frame[transport..]))
            .finish();
        put16(frame, field, if checksum == 0 { 0xffff } else { checksum });
    }
}

#[cfg(test)]
mod tests;
