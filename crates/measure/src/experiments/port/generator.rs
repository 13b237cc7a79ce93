//! The bare generator: as much TCP as a kernel's program at the far end needs, and nothing
//! else. It serves one connection after the other from one hot buffer, without timers, without
//! retransmission and without a program beside it, so what it reaches is a bound for each
//! stack on the same port.
//!
//! Owns the port while it serves. Called by the experiment, in a thread of its own.

use longshore_ports::{BigTcp, GsoKind, Port, PortError, RecvBuffer, TxChecksum, TxFrame, TxGso};
use longshore_wire::arp::{ArpPacket, Operation};
use longshore_wire::checksum::Partial;
use longshore_wire::ethernet::{self, EtherType, EthernetHeader};
use longshore_wire::ipv4::{self, Ipv4Header, protocol};
use longshore_wire::tcp::{self, TcpFlags, TcpHeader, TcpOptions};
use longshore_wire::{MacAddr, SeqNumber};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::IoSlice;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};

/// Its TCP ports, each with a part of its own.
pub(super) const SOURCE: u16 = 5001;
/// Takes all that comes, and says how much that was.
pub(super) const SINK: u16 = 5002;
/// Sends back what comes.
pub(super) const ECHO: u16 = 5003;

/// Frames that are read before anything is sent, and segments that are sent before the port
/// is read again, at most.
const BATCH: usize = 16;
/// How long it sleeps before it looks whether it is to end.
const NAP: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 10_000_000,
};
/// What its window field says, by 2 to the power of this: 4 MiB, below what the port's queue
/// takes.
const SCALE: u8 = 6;
const WINDOW: u16 = u16::MAX;
const HEADERS: usize = ethernet::HEADER_LEN + ipv4::HEADER_LEN;
/// Its first sequence number.
const FIRST: SeqNumber = SeqNumber(1);

/// How it waits for frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    /// It sleeps until the port is readable.
    Sleeping,
    /// It reads again and again.
    Looking,
}

/// Why it cannot serve.
#[derive(Debug, thiserror::Error)]
pub(super) enum GeneratorError {
    /// It would have to cut segments and make checksums itself.
    #[error("the port neither segments nor makes checksums")]
    NoOffloads,
}

/// One of them.
pub(super) struct Generator {
    port: Box<dyn Port>,
    mac: MacAddr,
    address: Ipv4Addr,
    /// Payload of a packet on the wire, and of a segment before it is cut.
    mss: u16,
    piece: usize,
    /// To whom segments may be longer, and how much payload those have.
    big_tcp: Option<BigTcp>,
    room: RecvBuffer,
    hot: Vec<u8>,
    connection: Option<Connection>,
}

/// What it knows of its connection.
#[derive(Debug)]
struct Connection {
    part: u16,
    peer: Ipv4Addr,
    peer_mac: MacAddr,
    peer_port: u16,
    /// The oldest byte that is not acknowledged, and the next to be sent.
    unacknowledged: SeqNumber,
    next: SeqNumber,
    /// What the peer's window is, in bytes, and its scale.
    window: u32,
    scale: u8,
    /// The next byte to be received.
    expected: SeqNumber,
    received: u64,
    /// Bytes to be sent back.
    to_echo: usize,
    owes: Owes,
}

/// What a connection is to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owes {
    Nothing,
    Acknowledgment,
    /// The peer has ended.
    End,
}

/// One segment that came, read.
struct Segment {
    from: MacAddr,
    source: Ipv4Addr,
    header: TcpHeader,
    payload: usize,
}

impl Generator {
    /// One that answers for `address`.
    pub(super) fn new(
        port: Box<dyn Port>,
        mac: [u8; 6],
        address: Ipv4Addr,
    ) -> Result<Self, GeneratorError> {
        let capabilities = port.capabilities();
        if !capabilities.tso4 || !capabilities.tx_checksum {
            return Err(GeneratorError::NoOffloads);
        }
        let headers = ipv4::HEADER_LEN + tcp::HEADER_LEN;
        let mss = capabilities.mtu.min(usize::from(u16::MAX)) - headers;
        let longest = capabilities.max_gso_bytes - ethernet::HEADER_LEN - headers;
        let piece = longest / mss * mss;
        let big_tcp = capabilities.big_tcp.map(|big| BigTcp {
            max_bytes: (big.max_bytes - HEADERS - tcp::HEADER_LEN) / mss * mss,
            ..big
        });
        let most = big_tcp.map_or(piece, |big| big.max_bytes.max(piece));
        Ok(Generator {
            mac: MacAddr(mac),
            address,
            #[expect(clippy::cast_possible_truncation, reason = "at most 65,535")]
            mss: mss as u16,
            piece,
            room: RecvBuffer::new(),
            big_tcp,
            hot: vec![b'b'; most],
            connection: None,
            port,
        })
    }

    /// Serves until it is to `end`.
    pub(super) fn serve(mut self, wait: Wait, end: &AtomicBool) -> Result<(), PortError> {
        while !end.load(Ordering::Relaxed) {
            let worked = self.turn()?;
            if !worked
                && wait == Wait::Sleeping
                && let Some(fd) = self.port.fd()
            {
                let _ = poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&NAP));
            }
        }
        Ok(())
    }

    /// Reads some frames and sends some segments; whether there were any.
    fn turn(&mut self) -> Result<bool, PortError> {
        let mut read = 0;
        while read < BATCH
            && let Some(meta) = self.port.recv_single(&mut self.room)?
        {
            read += 1;
            self.take(meta.len)?;
        }
        let sent = self.send_all()?;
        self.port.flush()?;
        Ok(read + sent != 0)
    }

    /// Takes the frame that was just read.
    fn take(&mut self, len: usize) -> Result<(), PortError> {
        let frame = self.room.frame(len);
        let Ok(link) = EthernetHeader::parse(frame) else {
            return Ok(());
        };
        let payload = &frame[ethernet::HEADER_LEN..];
        match link.ether_type {
            EtherType::Arp => match ArpPacket::parse(payload) {
                Ok(asked) => self.answer(&asked),
                Err(_) => Ok(()),
            },
            EtherType::Ipv4 => {
                if let Some(segment) = self.read(link.source, payload) {
                    self.take_segment(&segment)?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Says which station it is.
    fn answer(&mut self, asked: &ArpPacket) -> Result<(), PortError> {
        if asked.operation != Operation::Request || asked.target_ip != self.address {
            return Ok(());
        }
        let mut frame = [0; ethernet::HEADER_LEN + longshore_wire::arp::PACKET_LEN];
        let link = EthernetHeader {
            destination: asked.sender_mac,
            source: self.mac,
            ether_type: EtherType::Arp,
        };
        let at = link.emit(&mut frame);
        let answer = ArpPacket {
            operation: Operation::Reply,
            sender_mac: self.mac,
            sender_ip: self.address,
            target_mac: asked.sender_mac,
            target_ip: asked.sender_ip,
        };
        answer.emit(&mut frame[at..]);
        self.port.send(&TxFrame::whole(&frame))
    }

    /// Reads a segment that is for it.
    fn read(&self, from: MacAddr, packet: &[u8]) -> Option<Segment> {
        let (ip, range) = Ipv4Header::parse(packet).ok()?;
        if ip.destination != self.address || ip.protocol != protocol::TCP || ip.is_fragment() {
            return None;
        }
        let segment = packet.get(range)?;
        let (header, len) = TcpHeader::parse(segment).ok()?;
        Some(Segment {
            from,
            source: ip.source,
            header,
            payload: segment.len() - len,
        })
    }

    fn take_segment(&mut self, segment: &Segment) -> Result<(), PortError> {
        let flags = segment.header.flags;
        if flags.contains(TcpFlags::SYN) {
            return self.begin(segment);
        }
        let Some(c) = self.connection.as_mut().filter(|c| c.is_of(segment)) else {
            return Ok(());
        };
        if flags.contains(TcpFlags::RST) {
            self.connection = None;
            return Ok(());
        }
        c.take(segment);
        Ok(())
    }

    /// A connection begins, in the place of the last.
    fn begin(&mut self, segment: &Segment) -> Result<(), PortError> {
        let header = &segment.header;
        if ![SOURCE, SINK, ECHO].contains(&header.dst_port) {
            return Ok(());
        }
        let mut c = Connection {
            part: header.dst_port,
            peer: segment.source,
            peer_mac: segment.from,
            peer_port: header.src_port,
            unacknowledged: FIRST,
            next: FIRST,
            window: u32::from(header.window),
            scale: header.options.window_scale.unwrap_or(0),
            expected: header.seq.add(1),
            received: 0,
            to_echo: 0,
            owes: Owes::Nothing,
        };
        let options = TcpOptions {
            mss: Some(self.mss),
            window_scale: header.options.window_scale.map(|_| SCALE),
            ..TcpOptions::default()
        };
        self.emit(&c, TcpFlags::SYN.union(TcpFlags::ACK), options, 0)?;
        c.next = c.next.add(1);
        self.connection = Some(c);
        Ok(())
    }

    /// Sends what the connection is to send by now; how many segments those were.
    fn send_all(&mut self) -> Result<usize, PortError> {
        let Some(mut c) = self.connection.take() else {
            return Ok(0);
        };
        let result = self.send_of(&mut c);
        self.connection = Some(c);
        match result {
            // There is room when the peer has read.
            Err(PortError::Full) => Ok(0),
            result => result,
        }
    }

    fn send_of(&mut self, c: &mut Connection) -> Result<usize, PortError> {
        let mut sent = 0;
        if c.owes == Owes::End {
            self.end(c)?;
            sent += 1;
        }
        loop {
            let piece = match c.part {
                SOURCE => self.piece_for(c),
                _ => c.to_echo.min(self.piece),
            };
            if piece == 0 || sent >= BATCH || !c.has_room_for(piece) {
                break;
            }
            let flags = TcpFlags::ACK.union(TcpFlags::PSH);
            self.emit(c, flags, TcpOptions::default(), piece)?;
            #[expect(clippy::cast_possible_truncation, reason = "at most 65,535")]
            let len = piece as u32;
            c.next = c.next.add(len);
            c.owes = Owes::Nothing;
            sent += 1;
            if c.part != SOURCE {
                c.to_echo -= piece;
            }
        }
        if c.owes == Owes::Acknowledgment {
            self.emit(c, TcpFlags::ACK, TcpOptions::default(), 0)?;
            c.owes = Owes::Nothing;
            sent += 1;
        }
        Ok(sent)
    }

    /// Bytes of a segment to this peer: as many as the port takes, of a window in which several
    /// fit.
    fn piece_for(&self, c: &Connection) -> usize {
        let is_for = |big: &BigTcp| big.to == c.peer && c.window as usize >= 4 * big.max_bytes;
        self.big_tcp
            .filter(is_for)
            .map_or(self.piece, |big| big.max_bytes)
    }

    /// Ends its side, too; the end that took all says how much that was before.
    fn end(&mut self, c: &mut Connection) -> Result<(), PortError> {
        let count = c.received.to_be_bytes();
        let len = if c.part == SINK { count.len() } else { 0 };
        self.hot[..len].copy_from_slice(&count[..len]);
        let flags = TcpFlags::ACK.union(TcpFlags::PSH).union(TcpFlags::FIN);
        self.emit(c, flags, TcpOptions::default(), len)?;
        #[expect(clippy::cast_possible_truncation, reason = "8 bytes at most")]
        let len = len as u32;
        c.next = c.next.add(len + 1);
        // Whatever else comes is not for a connection of ours.
        c.part = 0;
        c.to_echo = 0;
        c.owes = Owes::Nothing;
        Ok(())
    }

    /// Sends one segment with so many bytes of the hot buffer.
    fn emit(
        &mut self,
        c: &Connection,
        flags: TcpFlags,
        options: TcpOptions,
        payload: usize,
    ) -> Result<(), PortError> {
        let header = TcpHeader {
            src_port: c.part,
            dst_port: c.peer_port,
            seq: c.next,
            ack: c.expected,
            flags,
            window: WINDOW,
            urgent: 0,
            options,
        };
        let tcp_len = header.header_len();
        let headers = self.headers_of(c, &header, tcp_len + payload);
        #[expect(clippy::cast_possible_truncation, reason = "lengths of headers")]
        let (checksum, gso) = (
            TxChecksum {
                start: HEADERS as u16,
                offset: tcp::CHECKSUM_OFFSET as u16,
            },
            TxGso {
                kind: GsoKind::Tcp4,
                size: self.mss,
                header_len: (HEADERS + tcp_len) as u16,
            },
        );
        self.port.send(&TxFrame {
            headers: &headers[..HEADERS + tcp_len],
            payload: &[IoSlice::new(&self.hot[..payload])],
            checksum: Some(checksum),
            gso: (payload > usize::from(self.mss)).then_some(gso),
        })
    }

    /// The headers of a segment of this length, TCP's with it, of which the port completes the
    /// checksum.
    fn headers_of(
        &self,
        c: &Connection,
        header: &TcpHeader,
        segment_len: usize,
    ) -> [u8; HEADERS + tcp::MAX_HEADER_LEN] {
        let mut headers = [0; HEADERS + tcp::MAX_HEADER_LEN];
        let link = EthernetHeader {
            destination: c.peer_mac,
            source: self.mac,
            ether_type: EtherType::Ipv4,
        };
        let at = link.emit(&mut headers);
        let ip = Ipv4Header {
            tos: 0,
            payload_len: ipv4::payload_len(segment_len),
            identification: 0,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            ttl: 64,
            protocol: protocol::TCP,
            source: self.address,
            destination: c.peer,
        };
        ip.emit(&mut headers[at..]);
        header.emit(&mut headers[HEADERS..]);
        #[expect(clippy::cast_possible_truncation, reason = "no frame is longer")]
        let sum = Partial::of_pseudo_v4(self.address, c.peer, protocol::TCP, segment_len as u32);
        let field = HEADERS + tcp::CHECKSUM_OFFSET;
        headers[field..field + 2].copy_from_slice(&sum.unfinished().to_be_bytes());
        headers
    }
}

impl Connection {
    fn is_of(&self, segment: &Segment) -> bool {
        self.peer == segment.source
            && (self.part, self.peer_port) == (segment.header.dst_port, segment.header.src_port)
    }

    /// Takes what a segment says and has. What is not the next is not kept: the peer sends it
    /// again.
    fn take(&mut self, segment: &Segment) {
        let header = &segment.header;
        if header.flags.contains(TcpFlags::ACK) && header.ack.le(self.next) {
            if self.unacknowledged.lt(header.ack) {
                self.unacknowledged = header.ack;
            }
            self.window = u32::from(header.window) << self.scale.min(14);
        }
        let ends = header.flags.contains(TcpFlags::FIN);
        if segment.payload == 0 && !ends {
            return;
        }
        self.owes = Owes::Acknowledgment;
        if header.seq != self.expected {
            return;
        }
        #[expect(clippy::cast_possible_truncation, reason = "at most 65,535")]
        let len = segment.payload as u32;
        self.expected = self.expected.add(len);
        self.received += u64::from(len);
        if self.part == ECHO {
            self.to_echo += segment.payload;
        }
        if ends {
            self.expected = self.expected.add(1);
            self.owes = Owes::End;
        }
    }

    /// Whether the peer's window takes so many bytes more.
    fn has_room_for(&self, bytes: usize) -> bool {
        let under_way = self.next.sub(self.unacknowledged);
        usize::try_from(under_way).is_ok_and(|sent| sent + bytes <= self.window as usize)
    }
}

#[cfg(test)]
mod tests;
