//! Datagrams that come: records of header and payload in the receive stream. How they
//! leave is in `departure`.

use crate::block_words::more_bits;
use crate::errors::SocketError;
use crate::holds::Socket;
use crate::stream::Peeked;
use longshore_hostif::{
    Address, DATAGRAM_HEADER, DatagramRecord, GROUP_BYTES, Request, STAMP_BYTES, Stamp,
};
use std::io::IoSliceMut;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;

/// With either of these, the time of arrival is told beside each datagram.
const TOLD_BESIDE: u64 = more_bits::TIMESTAMP | more_bits::TIMESTAMP_NS;

/// A datagram that was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// Bytes that were copied out.
    pub copied: usize,
    /// Bytes that it had.
    pub len: usize,
    /// Whether there was no room for all of what was asked for (MSG_TRUNC).
    pub is_cut: bool,
    /// Its sender.
    pub from: Option<SocketAddr>,
    /// If not 0, it is a train of datagrams of this size.
    pub segment: u16,
    /// The address of the engine that it came to, if it was one of its own, with the
    /// number of the engine's link.
    pub own: Option<(IpAddr, u32)>,
    /// The group's or broadcast address that it was sent to, if it was to one.
    pub to: Option<IpAddr>,
    /// The TTL or hop limit that it came with.
    pub hops: u8,
    /// The type of service or traffic class that it came with.
    pub class: u8,
    /// When it came, and what was lost before it, if the socket asks for that.
    pub stamp: Option<Stamp>,
}

impl Received {
    /// Of a socket that is shut down for reading.
    const NOTHING: Self = Self {
        copied: 0,
        len: 0,
        is_cut: false,
        from: None,
        segment: 0,
        own: None,
        to: None,
        hops: 0,
        class: 0,
        stamp: None,
    };
}

impl Received {
    /// Whether it is no datagram: the socket is shut down for reading.
    pub fn is_end(&self) -> bool {
        self.from.is_none()
    }
}

/// Where a datagram lies in what can be read.
struct Place {
    /// Where its record begins.
    first: usize,
    record: DatagramRecord,
    /// Bytes of it that are left behind.
    offset: usize,
}

impl Place {
    /// The datagram in which the byte `offset` of all payload lies: those before it are left
    /// behind (SO_PEEK_OFF).
    #[inline]
    fn at_offset(peeked: &Peeked<'_>, mut offset: usize) -> Result<Self, SocketError> {
        let (mut first, mut record) = (0, record_at(peeked, 0)?);
        while offset != 0 && offset >= record.len as usize {
            offset -= record.len as usize;
            first += record.span() as usize;
            if first >= peeked.len() {
                return Err(SocketError::WouldBlock);
            }
            record = record_at(peeked, first)?;
        }
        Ok(Self {
            first,
            record,
            offset,
        })
    }
}

/// What a datagram socket receives and sends, a record in its streams for each.
#[derive(Debug, Clone, Copy)]
pub struct Datagrams<'a> {
    pub(super) socket: &'a Socket,
}

impl<'a> Datagrams<'a> {
    pub(crate) fn of(socket: &'a Socket) -> Self {
        Self { socket }
    }

    /// Receives a datagram; what does not fit `parts` is cut off. `keep` leaves
    /// it there.
    ///
    /// # Errors
    /// [`SocketError::WouldBlock`] if there is none, the socket's pending error,
    /// the error that an ICMP message reports.
    pub fn recv(self, parts: &mut [IoSliceMut<'_>], keep: bool) -> Result<Received, SocketError> {
        let block = self.socket.block();
        self.socket.pending_error().report()?;
        let offset = match self.socket.peek_offset().get() {
            Some(offset) if keep => offset as usize,
            _ => 0,
        };
        let peeked = self.socket.receive_stream().peek_at_records()?;
        if peeked.is_empty() {
            // Shut down for reading.
            return Ok(Received::NOTHING);
        }
        let Place {
            first,
            record,
            offset,
        } = Place::at_offset(&peeked, offset)?;
        let (begins, span) = (first + record.payload_at(), record.span());
        let to = group_of(&peeked, first, &record)?;
        let stamp = stamp_of(&peeked, first, &record)?;
        if let Some(stamp) = stamp {
            self.note_arrival(stamp);
        }
        let len = record.len as usize;
        let mut copied = 0;
        let room: usize = parts.iter().map(|part| part.len()).sum();
        for part in parts {
            let fits = part.len().min(len - offset - copied);
            peeked.read_at(begins + offset + copied, &mut part[..fits])?;
            copied += fits;
        }
        if !keep {
            peeked.consume(span as usize)?;
        }
        Ok(Received {
            copied,
            len,
            // As Linux has it, also where it ends with the room.
            is_cut: room < len - offset || (offset != 0 && room == len - offset),
            from: record.peer.get().or_else(|| block.peer().get()),
            segment: record.segment,
            own: self.own_address(record.own),
            to,
            hops: record.hops.unwrap_or(0),
            class: record.class,
            stamp,
        })
    }

    /// Joins a group on the engine's link, or leaves it.
    ///
    /// # Errors
    /// EADDRINUSE if it has joined already, EADDRNOTAVAIL if it has not, ENOBUFS if there
    /// are too many, EINVAL if it is no group.
    pub fn change_group(self, group: IpAddr, join: bool) -> Result<(), SocketError> {
        let group = Address::from(SocketAddr::new(group, 0));
        let answer = self.socket.call(|socket, tag, waiter| Request::Group {
            socket,
            tag,
            waiter,
            group,
            join,
        });
        answer.map(|_| ())
    }

    /// The engine's address at `place`; the one that the socket is bound to, if
    /// there is none.
    fn own_address(self, place: u8) -> Option<(IpAddr, u32)> {
        let own = self.socket.host.routes().own_address(place);
        own.map(|r| (r.address, r.scope)).or_else(|| {
            let ip = self.socket.addresses().local()?.ip().to_canonical();
            (!ip.is_unspecified()).then(|| (ip, self.socket.host.routes().link_scope()))
        })
    }

    /// A datagram that is received came then, which is asked for afterwards (SIOCGSTAMP). As Linux has
    /// it, where the time is told beside each (SO_TIMESTAMP), it is not kept.
    fn note_arrival(self, stamp: Stamp) {
        let asked = self.socket.more_bits() & (more_bits::LAST_ARRIVAL | TOLD_BESIDE);
        if asked == more_bits::LAST_ARRIVAL && !self.socket.options().stamps_arrivals() {
            let last = &self.socket.block().rcv.urgent_read;
            last.store(stamp.arrived_ns, Ordering::Relaxed);
        }
    }

    /// When the last datagram came that was received, in nanoseconds since 1970; `None` if none has.
    /// Of one that came before it was first asked for, it is `now`, from then on, as Linux has it.
    pub fn last_arrival(self, now: u64) -> Option<u64> {
        let rcv = &self.socket.block().rcv;
        match rcv.urgent_read.load(Ordering::Relaxed) {
            0 => {
                let is_kept = self.socket.more_bits() & TOLD_BESIDE == 0;
                let has_come = is_kept && rcv.done.load(Ordering::Acquire) != 0;
                has_come.then(|| rcv.urgent_read.store(now, Ordering::Relaxed))?;
                Some(now)
            }
            last => Some(last),
        }
    }

    /// Bytes of the next datagram (FIONREAD), 0 if there is none.
    pub fn next_len(self) -> usize {
        // A call that asks how much there is does not take the pending error.
        let Ok(peeked) = self.socket.receive_stream().count_records() else {
            return 0;
        };
        if peeked.is_empty() {
            self.socket.host.messages().end_turn();
        }
        let mut header = [0; DATAGRAM_HEADER];
        if peeked.len() < DATAGRAM_HEADER || peeked.read_at(0, &mut header).is_err() {
            return 0;
        }
        DatagramRecord::decode(&header).len as usize
    }
}

/// The record at offset `at` of those that are there.
fn record_at(peeked: &Peeked<'_>, at: usize) -> Result<DatagramRecord, SocketError> {
    let rest = peeked.len() - at;
    if rest < DATAGRAM_HEADER {
        return Err(SocketError::Broken);
    }
    let mut header = [0; DATAGRAM_HEADER];
    peeked.read_at(at, &mut header)?;
    let record = DatagramRecord::decode(&header);
    if record.span() > rest as u64 {
        return Err(SocketError::Broken);
    }
    Ok(record)
}

/// The group or broadcast address that a datagram was sent to, if it was to one.
fn group_of(
    peeked: &Peeked<'_>,
    first: usize,
    record: &DatagramRecord,
) -> Result<Option<IpAddr>, SocketError> {
    if !record.to_group {
        return Ok(None);
    }
    let mut group = [0; GROUP_BYTES];
    peeked.read_at(first + DATAGRAM_HEADER, &mut group)?;
    Ok(Some(IpAddr::from(group).to_canonical()))
}

/// When a datagram came, if its socket asks for that.
fn stamp_of(
    peeked: &Peeked<'_>,
    first: usize,
    record: &DatagramRecord,
) -> Result<Option<Stamp>, SocketError> {
    if !record.stamped {
        return Ok(None);
    }
    let mut bytes = [0; STAMP_BYTES];
    peeked.read_at(first + record.stamp_at(), &mut bytes)?;
    Ok(Some(Stamp::decode(&bytes)))
}

#[cfg(test)]
mod tests;
