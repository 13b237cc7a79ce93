//! The bare generator: as much TCP as a kernel's program at the far end needs, and nothing
//! else. It serves connections from ready-made bytes, without timers, without retransmission and
//! without a program beside it, so what it reaches is a bound for each stack on the same port.
//!
//! Owns the port while it serves: what goes out is in `output`, what it knows of a connection in
//! `connection`, what it does at each TCP port in `service`. Called by the experiment `port`, in a
//! thread of its own, and by the bench, as a program of its own, in the place of a stack and its
//! server.

mod connection;
mod output;
mod service;

pub use service::{NoService, Service};

use connection::{Connection, Segment};
use longshore_ports::{LinkKind, Port, PortError, RecvBuffer};
use longshore_wire::MacAddr;
use longshore_wire::arp::ArpPacket;
use longshore_wire::ethernet::{self, EtherType, EthernetHeader};
use longshore_wire::ipv4::{Ipv4Header, protocol};
use longshore_wire::tcp::{TcpFlags, TcpHeader};
use output::Output;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use service::Served;
use std::collections::{HashMap, VecDeque};
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};

/// Frames that are read before anything is sent, and segments that are sent of one connection
/// before another has its turn, at most.
const BATCH: usize = 16;
/// How long it sleeps before it looks whether it is to end.
const NAP: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 10_000_000,
};

/// How it waits for frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// It sleeps until the port is readable.
    Sleeping,
    /// It reads again and again.
    Looking,
}

/// Why it cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum GeneratorError {
    /// It would have to cut segments and make checksums itself.
    #[error("the port neither segments nor makes checksums")]
    NoOffloads,
    /// It has frames of Ethernet alone.
    #[error("the port has no Ethernet header")]
    NoEthernet,
}

/// One of them.
pub struct Generator {
    output: Output,
    room: RecvBuffer,
    served: Vec<Served>,
    connections: Connections,
}

/// Its connections, by the peer's port: all peers are programs of one host.
#[derive(Debug, Default)]
struct Connections {
    by_port: HashMap<u16, Connection>,
    /// Those that may have something to send.
    due: VecDeque<u16>,
}

impl Generator {
    /// One that answers for `address`, and serves at these TCP ports.
    ///
    /// # Errors
    /// The port has no Ethernet header or lacks offloads.
    pub fn new(
        port: Box<dyn Port>,
        address: Ipv4Addr,
        services: &[(u16, Service)],
    ) -> Result<Self, GeneratorError> {
        let LinkKind::Ethernet { mac } = port.capabilities().link else {
            return Err(GeneratorError::NoEthernet);
        };
        let output = Output::new(port, mac, address)?;
        let longest = output.longest();
        let services = services.iter();
        Ok(Generator {
            served: services
                .map(|(port, service)| Served::new(*port, *service, longest))
                .collect(),
            output,
            room: RecvBuffer::new(),
            connections: Connections::default(),
        })
    }

    /// Serves until it is to `end`.
    ///
    /// # Errors
    /// Those of its port.
    pub fn serve(mut self, wait: Wait, end: &AtomicBool) -> Result<(), PortError> {
        while !end.load(Ordering::Relaxed) {
            let worked = self.turn()?;
            if !worked
                && wait == Wait::Sleeping
                && let Some(fd) = self.output.port.fd()
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
            && let Some(meta) = self.output.port.recv_single(&mut self.room)?
        {
            read += 1;
            self.take(meta.len)?;
        }
        let sent = self.send_all()?;
        self.output.port.flush()?;
        Ok(read + sent != 0)
    }

    /// Takes the frame that was just read.
    fn take(&mut self, len: usize) -> Result<(), PortError> {
        let frame = self.room.frame(len);
        let Ok(link) = EthernetHeader::parse(frame) else {
            return Ok(());
        };
        let packet = &frame[ethernet::HEADER_LEN..];
        match link.ether_type {
            EtherType::Arp => match ArpPacket::parse(packet) {
                Ok(asked) => self.output.answer(&asked),
                Err(_) => Ok(()),
            },
            EtherType::Ipv4 => {
                let Some(segment) = segment_of(link.source, packet, self.output.address) else {
                    return Ok(());
                };
                self.connections
                    .take(&segment, &self.served, &mut self.output)
            }
            _ => Ok(()),
        }
    }

    /// Sends what connections are to send by now; how many segments those were.
    fn send_all(&mut self) -> Result<usize, PortError> {
        let mut sent = 0;
        for _ in 0..self.connections.due.len() {
            match self.connections.send_next(&self.served, &mut self.output) {
                Ok(segments) => sent += segments,
                // There is room when the peer has read.
                Err(PortError::Full) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(sent)
    }
}

/// Reads a segment, which that station sent, if it is for `address`.
fn segment_of(from: MacAddr, packet: &[u8], address: Ipv4Addr) -> Option<Segment<'_>> {
    let (ip, range) = Ipv4Header::parse(packet).ok()?;
    if ip.destination != address || ip.protocol != protocol::TCP || ip.is_fragment() {
        return None;
    }
    let segment = packet.get(range)?;
    let (header, len) = TcpHeader::parse(segment).ok()?;
    Some(Segment {
        from,
        source: ip.source,
        header,
        payload: segment.get(len..)?,
    })
}

impl Connections {
    /// Takes a segment: one that begins a connection, or is of one.
    fn take(
        &mut self,
        segment: &Segment<'_>,
        served: &[Served],
        output: &mut Output,
    ) -> Result<(), PortError> {
        let header = &segment.header;
        let Some(at) = served.iter().position(|s| s.port == header.dst_port) else {
            return Ok(());
        };
        if header.flags.contains(TcpFlags::SYN) {
            return self.begin(segment, at, &served[at], output);
        }
        let port = header.src_port;
        let Some(c) = self.by_port.get_mut(&port).filter(|c| c.served == at) else {
            return Ok(());
        };
        if header.flags.contains(TcpFlags::RST) {
            self.forget(port, output);
            return Ok(());
        }
        c.take(segment, &served[at]);
        if c.is_over() {
            self.forget(port, output);
        } else if !std::mem::replace(&mut c.is_due, true) {
            self.due.push_back(port);
        }
        Ok(())
    }

    /// A connection begins, in the place of an earlier one from that port.
    fn begin(
        &mut self,
        syn: &Segment<'_>,
        at: usize,
        served: &Served,
        output: &mut Output,
    ) -> Result<(), PortError> {
        let c = Connection::new(syn, at, served.service);
        let scales = syn.header.options.window_scale.is_some();
        output.accept(&c, served.port, scales)?;
        self.by_port.insert(c.peer_port, c);
        self.share_window(output);
        Ok(())
    }

    /// The connection from that port is over.
    fn forget(&mut self, port: u16, output: &mut Output) {
        self.by_port.remove(&port);
        self.share_window(output);
    }

    /// What the port's queue takes is for all that may send.
    fn share_window(&self, output: &mut Output) {
        let sharers = u16::try_from(self.by_port.len()).unwrap_or(u16::MAX);
        output.window = u16::MAX / sharers.max(1);
    }

    /// Sends what the next connection in the queue is to send, and queues it anew if it could send
    /// more; how many segments those were.
    fn send_next(&mut self, served: &[Served], output: &mut Output) -> Result<usize, PortError> {
        let Some(port) = self.due.pop_front() else {
            return Ok(0);
        };
        let Some(c) = self.by_port.get_mut(&port) else {
            return Ok(0);
        };
        let result = send_of(c, &served[c.served], output);
        c.is_due = matches!(result, Ok(BATCH..) | Err(PortError::Full));
        let is_over = c.is_over();
        if c.is_due {
            self.due.push_back(port);
        } else if is_over {
            self.forget(port, output);
        }
        result
    }
}

/// Sends what a connection may send, [`BATCH`] segments at most; how many those were.
fn send_of(c: &mut Connection, served: &Served, output: &mut Output) -> Result<usize, PortError> {
    let mut sent = 0;
    while sent < BATCH {
        let piece = c.next_piece(output.piece_for(c));
        if piece == 0 {
            break;
        }
        let bytes = served.stretch(c.sent(), piece);
        let flags = TcpFlags::ACK.union(TcpFlags::PSH);
        output.segment(c, served.port, flags, bytes)?;
        c.has_sent(piece);
        sent += 1;
    }
    if c.is_to_end() {
        end(c, served, output)?;
        sent += 1;
    }
    if c.owes_acknowledgment {
        output.segment(c, served.port, TcpFlags::ACK, &[])?;
        c.owes_acknowledgment = false;
        sent += 1;
    }
    Ok(sent)
}

/// Ends its side, too; a sink says how much came before.
fn end(c: &mut Connection, served: &Served, output: &mut Output) -> Result<(), PortError> {
    let count = c.received().to_be_bytes();
    let bytes = match served.service {
        Service::Sink => &count[..],
        _ => &[],
    };
    let flags = TcpFlags::ACK.union(TcpFlags::PSH).union(TcpFlags::FIN);
    output.segment(c, served.port, flags, bytes)?;
    c.end(bytes.len());
    Ok(())
}

#[cfg(test)]
mod tests;
