//! What the benchmark and the experiment count the same parts with: a connection that has
//! carried data, and a packet of it.

use longshore_tcp::{Config, DelayConfig, Instant, Segment, Tcb, Transmit};
use longshore_wire::SeqNumber;
use longshore_wire::ipv4::{self, Ipv4Header, protocol};
use longshore_wire::tcp::{TcpFlags, TcpHeader, TcpOptions, Timestamps};
use std::net::Ipv4Addr;

/// The largest segment without options.
pub const MSS: u16 = 1460;
/// Payload of a full segment with timestamps.
pub const FULL: usize = 1448;
/// The first word of a header: from port 1000 to 80.
pub const PORTS: u32 = 1000 << 16 | 80;
/// Where packets come from and go to.
pub const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
/// The engine's address.
pub const US: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

/// Segments that have been acknowledged when a connection is handed out.
const WARM: usize = 64;

/// Two ends of a connection, of which the first has sent full segments to the second.
#[derive(Debug)]
pub struct Ends {
    /// The sender.
    pub near: Tcb,
    /// The receiver, which reads at once.
    pub far: Tcb,
    /// When the last segment was sent.
    pub now: Instant,
    written: u64,
}

impl Ends {
    /// A connection whose windows have grown; `None` if it did not come about.
    #[must_use]
    pub fn connected() -> Option<Self> {
        let config = Config {
            delay: DelayConfig {
                nodelay: true,
                ..DelayConfig::default()
            },
            ..Config::default()
        };
        let now = Instant(1_000_000);
        let mut near = Tcb::connect(&config, MSS, SeqNumber(100), 5, now);
        let syn = header(&near.poll_transmit(now, 0)?);
        let mut far = Tcb::accept(&config, &Segment::new(&syn, 0), MSS, SeqNumber(900), 7, now);
        let now = Instant(now.0 + 100);
        let answer = header(&far.poll_transmit(now, 0)?);
        let _ = near.on_segment(&Segment::new(&answer, 0), now);
        let ack = header(&near.poll_transmit(now, 0)?);
        let _ = far.on_segment(&Segment::new(&ack, 0), now);
        let mut ends = Self {
            near,
            far,
            now,
            written: 0,
        };
        for _ in 0..WARM {
            let data = ends.send()?;
            ends.receive(&data);
            ends.acknowledge();
        }
        Some(ends)
    }

    /// The program of the first end writes a segment.
    pub fn write(&mut self) {
        self.written += FULL as u64;
        self.near.set_snd_edge(self.written, true);
    }

    /// It does, and the segment is sent; `None` if there is no window.
    pub fn send(&mut self) -> Option<TcpHeader> {
        self.now = Instant(self.now.0 + 50);
        self.write();
        Some(header(&self.near.poll_transmit(self.now, FULL)?))
    }

    /// A full segment arrives at the second end, whose program reads it.
    pub fn receive(&mut self, data: &TcpHeader) {
        let _ = self
            .far
            .on_segment(&Segment::new(data, FULL as u32), self.now);
        let edge = self.far.rcv_edge();
        self.far.set_rcv_consumed(edge, self.now);
    }

    /// What the second end has to acknowledge arrives at the first.
    fn acknowledge(&mut self) {
        while let Some(ack) = self.far.poll_transmit(self.now, 0) {
            let _ = self
                .near
                .on_segment(&Segment::new(&header(&ack), 0), self.now);
        }
        let _ = self.near.take_events();
        let _ = self.far.take_events();
    }
}

/// The header of what an end transmits, from port 1000 to 80.
#[must_use]
pub fn header(transmit: &Transmit) -> TcpHeader {
    transmit.header(1000, 80)
}

/// A header as it lies in a packet.
#[must_use]
pub fn bytes_of(header: &TcpHeader) -> Vec<u8> {
    let mut bytes = vec![0; header.header_len()];
    header.emit(&mut bytes);
    bytes
}

/// The IP header of a segment of so many bytes.
#[must_use]
pub fn ip_header(payload_len: u16) -> Ipv4Header {
    Ipv4Header {
        tos: 0,
        payload_len,
        identification: 7,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        ttl: 64,
        protocol: protocol::TCP,
        source: PEER,
        destination: US,
    }
}

/// The header of a segment with data and timestamps.
#[must_use]
pub fn data_header(seq: u32, ack: u32) -> TcpHeader {
    TcpHeader {
        src_port: 1000,
        dst_port: 80,
        seq: SeqNumber(seq),
        ack: SeqNumber(ack),
        flags: TcpFlags::ACK | TcpFlags::PSH,
        window: 500,
        urgent: 0,
        options: TcpOptions {
            timestamps: Some(Timestamps { val: 10, echo: 0 }),
            ..TcpOptions::default()
        },
    }
}

/// An IP packet of 1,500 bytes with such a segment.
#[must_use]
pub fn packet() -> Vec<u8> {
    let mut bytes = vec![0; 1500];
    ip_header(1480).emit(&mut bytes);
    data_header(1, 1).emit(&mut bytes[ipv4::HEADER_LEN..]);
    bytes
}
