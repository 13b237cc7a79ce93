//! The frames that the bare generator sends: its port, its addresses, and how long segments may
//! be.
//!
//! Called by the generator for each segment and each answer to ARP.

use super::GeneratorError;
use super::connection::Connection;
use longshore_ports::{BigTcp, GsoKind, Port, PortError, TxChecksum, TxFrame, TxGso};
use longshore_wire::MacAddr;
use longshore_wire::arp::{ArpPacket, Operation};
use longshore_wire::checksum::Partial;
use longshore_wire::ethernet::{self, EtherType, EthernetHeader};
use longshore_wire::ipv4::{self, Ipv4Header, protocol};
use longshore_wire::tcp::{self, TcpFlags, TcpHeader, TcpOptions};
use std::io::IoSlice;
use std::net::Ipv4Addr;

/// What its window field says in all, by 2 to the power of this: 4 MiB, below what the port's
/// queue takes. Connections share it.
pub(super) const SCALE: u8 = 6;
const HEADERS: usize = ethernet::HEADER_LEN + ipv4::HEADER_LEN;

/// Where its frames go.
pub(super) struct Output {
    pub(super) port: Box<dyn Port>,
    mac: MacAddr,
    pub(super) address: Ipv4Addr,
    /// Payload of a packet on the wire, and of a segment before it is cut.
    mss: u16,
    pub(super) piece: usize,
    /// To whom segments may be longer, and how much payload those have.
    big_tcp: Option<BigTcp>,
    /// Its window field.
    pub(super) window: u16,
}

impl Output {
    /// By this port, with these addresses.
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
        let big_tcp = capabilities.big_tcp.map(|big| BigTcp {
            max_bytes: (big.max_bytes - HEADERS - tcp::HEADER_LEN) / mss * mss,
            ..big
        });
        Ok(Output {
            mac: MacAddr(mac),
            address,
            #[expect(clippy::cast_possible_truncation, reason = "at most 65,535")]
            mss: mss as u16,
            piece: longest / mss * mss,
            big_tcp,
            window: u16::MAX,
            port,
        })
    }

    /// Payload of its longest segment.
    pub(super) fn longest(&self) -> usize {
        self.big_tcp
            .map_or(self.piece, |big| big.max_bytes.max(self.piece))
    }

    /// Bytes of a segment to this peer: as many as the port takes, of a window in which several
    /// fit.
    pub(super) fn piece_for(&self, c: &Connection) -> usize {
        let is_for = |big: &BigTcp| big.to == c.peer && c.window as usize >= 4 * big.max_bytes;
        self.big_tcp
            .filter(is_for)
            .map_or(self.piece, |big| big.max_bytes)
    }

    /// Says which station it is.
    pub(super) fn answer(&mut self, asked: &ArpPacket) -> Result<(), PortError> {
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

    /// Accepts a connection, which comes to that port of ours.
    pub(super) fn accept(
        &mut self,
        c: &Connection,
        port: u16,
        scales: bool,
    ) -> Result<(), PortError> {
        let header = TcpHeader {
            seq: super::connection::FIRST,
            options: TcpOptions {
                mss: Some(self.mss),
                window_scale: scales.then_some(SCALE),
                ..TcpOptions::default()
            },
            ..self.header(c, port, TcpFlags::SYN.union(TcpFlags::ACK))
        };
        self.emit(c, &header, &[])
    }

    /// Sends one segment with these bytes.
    pub(super) fn segment(
        &mut self,
        c: &Connection,
        port: u16,
        flags: TcpFlags,
        payload: &[u8],
    ) -> Result<(), PortError> {
        let header = self.header(c, port, flags);
        self.emit(c, &header, payload)
    }

    fn header(&self, c: &Connection, port: u16, flags: TcpFlags) -> TcpHeader {
        TcpHeader {
            src_port: port,
            dst_port: c.peer_port,
            seq: c.next,
            ack: c.expected,
            flags,
            window: self.window,
            urgent: 0,
            options: TcpOptions::default(),
        }
    }

    fn emit(
        &mut self,
        c: &Connection,
        header: &TcpHeader,
        payload: &[u8],
    ) -> Result<(), PortError> {
        let tcp_len = header.header_len();
        let headers = self.headers_of(c, header, tcp_len + payload.len());
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
            payload: &[IoSlice::new(payload)],
            checksum: Some(checksum),
            gso: (payload.len() > usize::from(self.mss)).then_some(gso),
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
