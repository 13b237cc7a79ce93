//! The frames of a run, from the capture that its engine writes while it runs.

use crate::crossing::CrossingError;
use longshore_wire::ethernet::{self, EtherType, EthernetHeader};
use longshore_wire::ipv4::{self, Ipv4Header};
use longshore_wire::ipv6::Ipv6Header;
use longshore_wire::tcp::{TcpFlags, TcpHeader};
use pcap_file::PcapError;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::{Block, PcapNgParser};
use std::fs::File;
use std::io::Read;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// A direction bit of a packet block's flags (pcapng, section 4.3.1).
const OUTBOUND: u32 = 2;

/// A frame that passed the engine's port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// It left; else it came.
    pub leaves: bool,
    /// Its bytes, link header included.
    pub bytes: u64,
    /// What it holds, if that is TCP.
    pub segment: Option<Segment>,
}

/// A TCP segment in a frame. It may be longer than the wire takes, if the port cuts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// The connection and direction.
    pub flow: Flow,
    /// Of its first byte, or of the SYN.
    pub seq: u32,
    /// Whether it begins the connection.
    pub syn: bool,
    /// Bytes of headers, link to TCP.
    pub headers: u64,
    /// Bytes of payload.
    pub payload: u64,
}

/// One direction of a connection: from and to.
pub type Flow = [(IpAddr, u16); 2];

impl Frame {
    /// Reads a frame's headers.
    #[must_use]
    pub fn of(bytes: &[u8], original_bytes: u64, leaves: bool) -> Self {
        Frame {
            leaves,
            bytes: original_bytes,
            segment: segment(bytes),
        }
    }
}

fn segment(frame: &[u8]) -> Option<Segment> {
    let link = EthernetHeader::parse(frame).ok()?;
    let packet = frame.get(ethernet::HEADER_LEN..)?;
    let (source, destination, protocol, place) = match link.ether_type {
        EtherType::Ipv4 => {
            let (ip, place) = Ipv4Header::parse(packet).ok()?;
            if ip.more_fragments || ip.fragment_offset != 0 {
                return None;
            }
            let ends = (IpAddr::V4(ip.source), IpAddr::V4(ip.destination));
            (ends.0, ends.1, ip.protocol, place)
        }
        EtherType::Ipv6 => {
            let (ip, place) = Ipv6Header::parse(packet).ok()?;
            let ends = (IpAddr::V6(ip.source), IpAddr::V6(ip.destination));
            (ends.0, ends.1, ip.next_header, place)
        }
        _ => return None,
    };
    if protocol != ipv4::protocol::TCP {
        return None;
    }
    let bytes = packet.get(place.clone())?;
    let (tcp, header) = TcpHeader::parse(bytes).ok()?;
    Some(Segment {
        flow: [(source, tcp.src_port), (destination, tcp.dst_port)],
        seq: tcp.seq.0,
        syn: tcp.flags.contains(TcpFlags::SYN),
        headers: (ethernet::HEADER_LEN + place.start + header) as u64,
        payload: (bytes.len() - header) as u64,
    })
}

/// A capture file that grows while it is read.
pub struct Capture {
    path: PathBuf,
    file: File,
    /// What was read and not understood yet: the beginning of a block.
    rest: Vec<u8>,
    parser: Option<PcapNgParser>,
}

impl Capture {
    /// Opens a file that an engine writes.
    ///
    /// # Errors
    /// [`CrossingError::Capture`].
    pub fn open(path: &Path) -> Result<Self, CrossingError> {
        let file = File::open(path).map_err(|error| bad(path, error))?;
        Ok(Capture {
            path: path.to_owned(),
            file,
            rest: Vec::new(),
            parser: None,
        })
    }

    /// Hands over the frames that were written since this was called last.
    ///
    /// # Errors
    /// [`CrossingError::Capture`].
    pub fn read(&mut self, mut take: impl FnMut(Frame)) -> Result<(), CrossingError> {
        let mut room = vec![0; 1 << 20];
        loop {
            let read = self.file.read(&mut room);
            let read = read.map_err(|error| bad(&self.path, error))?;
            if read == 0 {
                return Ok(());
            }
            self.rest.extend_from_slice(&room[..read]);
            let used = self.parse(&mut take)?;
            self.rest.drain(..used);
        }
    }

    /// Takes whole blocks from what was read; how many bytes they were.
    fn parse(&mut self, take: &mut impl FnMut(Frame)) -> Result<usize, CrossingError> {
        let mut left = self.rest.as_slice();
        if self.parser.is_none() {
            match PcapNgParser::new(left) {
                Ok((behind, parser)) => (left, self.parser) = (behind, Some(parser)),
                Err(PcapError::IncompleteBuffer) => return Ok(0),
                Err(error) => return Err(bad(&self.path, error)),
            }
        }
        while let Some(parser) = &mut self.parser {
            match parser.next_block(left) {
                Ok((behind, block)) => {
                    left = behind;
                    if let Block::EnhancedPacket(packet) = block {
                        take(frame(&packet));
                    }
                }
                Err(PcapError::IncompleteBuffer) => break,
                Err(error) => return Err(bad(&self.path, error)),
            }
        }
        Ok(self.rest.len() - left.len())
    }
}

fn frame(packet: &EnhancedPacketBlock<'_>) -> Frame {
    let leaves = packet.options.iter().any(
        |option| matches!(option, EnhancedPacketOption::Flags(flags) if flags & OUTBOUND != 0),
    );
    Frame::of(&packet.data, u64::from(packet.original_len), leaves)
}

fn bad(path: &Path, why: impl ToString) -> CrossingError {
    CrossingError::Capture {
        path: path.to_owned(),
        why: why.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longshore_ports::capture::CapturePort;
    use longshore_ports::memory::{MemoryConfig, pair};
    use longshore_ports::{Port, TxFrame};
    use std::io::Write;

    /// A frame with a TCP segment of so much payload, without checksums of TCP.
    fn tcp(payload: usize, flags: u8) -> Vec<u8> {
        let mut frame = vec![0_u8; 14 + 20 + 32 + payload];
        frame[12..14].copy_from_slice(&[8, 0]);
        let total = u16::try_from(20 + 32 + payload).unwrap();
        frame[14] = 0x45;
        frame[16..18].copy_from_slice(&total.to_be_bytes());
        frame[22] = 64;
        frame[23] = 6;
        frame[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        let sum = longshore_wire::checksum::Partial::of(&frame[14..34]).finish();
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        frame[34..38].copy_from_slice(&[0, 80, 1, 0]);
        frame[38..42].copy_from_slice(&7_u32.to_be_bytes());
        frame[46] = 0x80;
        frame[47] = flags;
        frame[54..66].fill(1);
        frame
    }

    #[test]
    fn headers_are_read_and_what_is_no_tcp_is_a_frame_all_the_same() {
        let bytes = tcp(100, 2);
        let frame = Frame::of(&bytes, 166, true);
        let segment = frame.segment.unwrap();
        assert_eq!((segment.headers, segment.payload), (66, 100));
        assert_eq!((segment.seq, segment.syn), (7, true));
        assert_eq!(segment.flow[0], ("10.0.0.1".parse().unwrap(), 80));
        assert_eq!(segment.flow[1], ("10.0.0.2".parse().unwrap(), 256));
        let arp = [vec![0; 12], vec![8, 6], vec![0; 28]].concat();
        let frame = Frame::of(&arp, 42, false);
        assert_eq!((frame.bytes, frame.segment), (42, None));
        for cut in 0..bytes.len() {
            let _ = Frame::of(&bytes[..cut], 166, true);
        }
    }

    #[test]
    fn a_growing_file_is_read_as_far_as_it_is_whole() {
        let directory = tempfile::tempdir().unwrap();
        let (whole, growing) = (
            directory.path().join("whole"),
            directory.path().join("growing"),
        );
        let (port, mut far) = pair(&MemoryConfig::default());
        let mut port = CapturePort::to_file(port, &whole, None).unwrap();
        port.send(&TxFrame::whole(&tcp(10, 2))).unwrap();
        far.send(&TxFrame::whole(&tcp(20, 16))).unwrap();
        port.recv(&mut [0; 2000]).unwrap().unwrap();
        port.flush().unwrap();
        let bytes = std::fs::read(&whole).unwrap();

        let mut output = File::create(&growing).unwrap();
        let mut capture = Capture::open(&growing).unwrap();
        let mut frames = Vec::new();
        for byte in bytes {
            output.write_all(&[byte]).unwrap();
            capture.read(|frame| frames.push(frame)).unwrap();
        }
        let seen: Vec<_> = frames.iter().map(|f| (f.leaves, f.bytes)).collect();
        assert_eq!(seen, [(true, 76), (false, 86)]);
    }

    #[test]
    fn what_is_no_capture_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), [7; 100]).unwrap();
        let mut capture = Capture::open(file.path()).unwrap();
        assert!(capture.read(|_| ()).is_err());
    }
}
