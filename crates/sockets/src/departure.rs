//! How datagrams leave: what a program has set for a socket, what it says beside one
//! datagram, and datagrams that are put together by several calls (MSG_MORE, UDP_CORK).
//!
//! All that a datagram needs is settled when it is sent and stands in its record: what
//! the program changes afterwards, its peer among it, is for later ones.

use crate::block_words::more_bits;
use crate::datagram::Datagrams;
use crate::errors::SocketError;
use crate::unfinished::Begun;
use longshore_hostif::Owner;
use longshore_hostif::{
    Address, BlockFlags, DATAGRAM_HEADER, DatagramRecord, PathMtu, Request, Sending, datagram_span,
};
use rustix::io::Errno;
use std::io::IoSlice;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::Ordering;

/// Most payload of a datagram over IPv4.
pub const MOST_PAYLOAD: usize = 65_507;
/// Most payload of a datagram over IPv6, which does not count its own header.
pub const MOST_PAYLOAD_V6: usize = 65_527;
/// Bytes of a UDP header, and of the headers of IPv4 and IPv6.
const UDP_HEADER: usize = 8;
const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;
/// What each path of IPv6 takes (RFC 8200, section 5).
pub const LEAST_MTU_V6: usize = 1280;
/// Datagrams that a train may have (Linux: UDP_MAX_SEGMENTS).
const MOST_SEGMENTS: usize = 128;

/// What is said beside one datagram; what is not is as the socket has it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Departure {
    /// The one of the engine's own addresses that it leaves from.
    pub from: Option<IpAddr>,
    /// If not 0, it is a train of datagrams of this size.
    pub segment: u16,
    /// Its TTL or hop limit.
    pub hops: Option<u8>,
    /// Its type of service or traffic class.
    pub class: Option<u8>,
    /// Whether it is refused if its path does not take it whole (IPV6_DONTFRAG).
    pub whole: Option<bool>,
    /// What is to be told of when it leaves, as flags of SO_TIMESTAMPING.
    pub stamped: Option<u32>,
}

impl<'a> Datagrams<'a> {
    /// Sends a datagram to `to`, or to the socket's peer.
    ///
    /// # Errors
    /// [`SocketError::WouldBlock`] if there is no room for it now, EMSGSIZE if
    /// there never is, or its path does not take it and it is not to be cut;
    /// EINVAL of a train that is too long, or is to have no checksums;
    /// EDESTADDRREQ without a destination; and if `departure.from` is not the engine's:
    /// ENETUNREACH, in IPv6 EINVAL, as Linux has it.
    pub fn send(
        self,
        parts: &[IoSlice<'_>],
        to: Option<SocketAddr>,
        departure: Departure,
    ) -> Result<usize, SocketError> {
        let len = parts.iter().map(|p| p.len()).sum();
        if self.socket.more_bits() & (more_bits::CORKED | more_bits::UNFINISHED) != 0 {
            return self.add(parts, to, departure, false);
        }
        let record = self.record(len, to, departure)?;
        if self.write_record(&record, parts, departure.stamped)? {
            self.await_refusal();
        }
        Ok(len)
    }

    /// As `send_datagram`, of the beginning of a datagram or a further part of it: more follows
    /// (MSG_MORE).
    ///
    /// # Errors
    /// As [`Datagrams::send`].
    pub fn begin(
        self,
        parts: &[IoSlice<'_>],
        to: Option<SocketAddr>,
        departure: Departure,
    ) -> Result<usize, SocketError> {
        self.add(parts, to, departure, true)
    }

    /// Where the datagram goes that this process has begun on it, if it has.
    ///
    /// # Errors
    /// [`SocketError::Reentered`].
    pub fn begun_for(self) -> Result<Option<SocketAddr>, SocketError> {
        if self.socket.more_bits() & more_bits::UNFINISHED == 0 {
            return Ok(None);
        }
        let unfinished = self.socket.host.unfinished.enter()?;
        Ok(unfinished
            .get(&self.socket.id)
            .and_then(|begun| begun.record.peer.get()))
    }

    /// Adds to the datagram that was begun, or begins one, and sends it unless more
    /// follows.
    fn add(
        self,
        parts: &[IoSlice<'_>],
        to: Option<SocketAddr>,
        departure: Departure,
        more: bool,
    ) -> Result<usize, SocketError> {
        let len: usize = parts.iter().map(|p| p.len()).sum();
        let mut unfinished = self.socket.host.unfinished.enter()?;
        // Where a new one goes, Linux looks for before it refuses to send.
        let record = match unfinished.get(&self.socket.id) {
            Some(begun) => begun.may_go_to(to).map(|()| begun.record)?,
            None => self.record(len, to, departure)?,
        };
        if self.socket.block().flags().contains(BlockFlags::SHUT_WR) {
            return Err(SocketError::BrokenPipe);
        }
        let before = unfinished.remove(&self.socket.id);
        let was_begun = before.is_some();
        let (bytes, said) = before.map(|begun| (begun.bytes, begun.said)).unzip();
        let mut begun = Begun {
            record,
            said: said.unwrap_or((departure.hops, departure.class, departure.stamped)),
            bytes: bytes.unwrap_or_default(),
        };
        let before = begun.bytes.len();
        if before + len > most_payload(begun.record.peer.get()) {
            // Linux drops what was there with what is too much.
            self.socket.clear_more_bits(more_bits::UNFINISHED);
            return Err(self.too_long(begun.record.peer.get()));
        }
        for part in parts {
            begun.bytes.extend_from_slice(part);
        }
        if more || self.socket.more_bits() & more_bits::CORKED != 0 {
            unfinished.insert(self.socket.id, begun);
            self.socket.set_more_bits(more_bits::UNFINISHED);
            return Ok(len);
        }
        let may_be_refused = match self.send_begun(&begun) {
            Err(SocketError::WouldBlock) if was_begun => {
                begun.bytes.truncate(before);
                unfinished.insert(self.socket.id, begun);
                return Err(SocketError::WouldBlock);
            }
            done => {
                self.socket.clear_more_bits(more_bits::UNFINISHED);
                done?
            }
        };
        drop(unfinished);
        if may_be_refused {
            self.await_refusal();
        }
        Ok(len)
    }

    /// The socket has another peer: a datagram of IPv4 that was begun goes there, as Linux has it,
    /// which keeps where the one goes where it looks for the way to the other.
    pub(crate) fn redirect_begun(self, peer: Address) -> Result<(), SocketError> {
        let is_v4 = |to: Address| to.get().is_some_and(|to| to.ip().to_canonical().is_ipv4());
        if self.socket.more_bits() & more_bits::UNFINISHED != 0
            && is_v4(peer)
            && let Some(begun) = self
                .socket
                .host
                .unfinished
                .enter()?
                .get_mut(&self.socket.id)
            && is_v4(begun.record.peer)
        {
            begun.record.peer = peer;
        }
        Ok(())
    }

    /// Says whether it goes to an address of the engine.
    fn send_begun(self, begun: &Begun) -> Result<bool, SocketError> {
        let len = begun.bytes.len();
        let segment = fitting(begun.record.segment, len);
        let mut record = DatagramRecord {
            len: len as u32,
            segment,
            ..begun.record
        };
        let to = record.peer.get().map(|to| to.ip().to_canonical());
        if let Some(to) = to.filter(IpAddr::is_ipv4) {
            // As Linux has it, which notes these for IPv6 when a datagram is begun, and for IPv4 when
            // it leaves.
            let sending = self.socket.block().sending(false);
            let (hops, class, _) = begun.said;
            record.hops = hops.or(hops_to(to, &sending));
            record.class = class.unwrap_or(sending.class);
            record.unsummed = sending.unsummed;
        }
        self.check_whole(&record)?;
        self.write_record(&record, &[IoSlice::new(&begun.bytes)], begun.said.2)
    }

    /// Sends what was begun, if something was: the cork is out (UDP_CORK).
    ///
    /// # Errors
    /// As [`Datagrams::send`].
    pub fn finish(self) -> Result<(), SocketError> {
        let mut unfinished = self.socket.host.unfinished.enter()?;
        let Some(begun) = unfinished.remove(&self.socket.id) else {
            return Ok(());
        };
        let done = self.send_begun(&begun);
        if done == Err(SocketError::WouldBlock) {
            unfinished.insert(self.socket.id, begun);
        } else {
            self.socket.clear_more_bits(more_bits::UNFINISHED);
        }
        drop(unfinished);
        if done? {
            self.await_refusal();
        }
        Ok(())
    }

    /// The record of a datagram of `len` bytes, as all stands now.
    fn record(
        self,
        len: usize,
        to: Option<SocketAddr>,
        departure: Departure,
    ) -> Result<DatagramRecord, SocketError> {
        let from = departure.from.map(|ip| self.place_of(ip.to_canonical()));
        let from = from.transpose()?;
        let block = self.socket.block();
        let to = to.or_else(|| block.peer().get());
        let Some(to) = to else {
            return Err(SocketError::Refused(Errno::DESTADDRREQ));
        };
        let ip = to.ip().to_canonical();
        let own = self.place_by_loopback(ip).or(from).unwrap_or(0);
        if self.socket.addresses().is_bound_to_mapped() && ip.is_ipv6() {
            return Err(SocketError::Refused(Errno::AFNOSUPPORT));
        }
        if self.socket.addresses().reaches_v6_alone() && ip.is_ipv4() {
            return Err(SocketError::Refused(Errno::NETUNREACH));
        }
        if len > MOST_PAYLOAD && len > most_payload(Some(to)) {
            return Err(self.too_long(Some(to)));
        }
        self.socket.pending_error().report()?;
        self.bind_to_send()?;
        let sending = block.sending(ip.is_ipv6());
        let record = DatagramRecord {
            own,
            segment: fitting(departure.segment, len),
            hops: departure.hops.or(hops_to(ip, &sending)),
            class: departure.class.unwrap_or(sending.class),
            looped: sending.looped,
            path_mtu: match departure.whole.unwrap_or(sending.whole) {
                _ if sending.path_mtu.refuses() => sending.path_mtu,
                true => PathMtu::Do,
                false if sending.least => PathMtu::Least,
                false => sending.path_mtu,
            },
            unsummed: ip.is_ipv4() && sending.unsummed,
            ..DatagramRecord::new(len as u32, Address::from(to))
        };
        // As Linux has it, also of a train of one.
        let is_refused = record.unsummed && departure.segment != 0;
        let parts = len.div_ceil(record.segment.max(1).into());
        if is_refused || record.segment != 0 && parts > MOST_SEGMENTS {
            return Err(SocketError::Refused(Errno::INVAL));
        }
        self.check_whole(&record)?;
        Ok(record)
    }

    /// Binds a datagram socket that nobody has bound: each send does, also one that fails. One whose
    /// port went with its peer has kept the address that its program has bound it to.
    ///
    /// # Errors
    /// The engine's.
    pub fn bind_to_send(self) -> Result<(), SocketError> {
        if !self.socket.block().flags().contains(BlockFlags::BOUND) {
            // As Linux has it, of what `bind` calls an address in use.
            let none_left = |e| match e {
                SocketError::Refused(Errno::ADDRINUSE) => SocketError::Refused(Errno::AGAIN),
                e => e,
            };
            self.socket
                .addresses()
                .bind_to_any_port()
                .map_err(none_left)?;
        }
        Ok(())
    }

    /// Whether the path takes the datagram, if it is not to be cut.
    fn check_whole(self, record: &DatagramRecord) -> Result<(), SocketError> {
        // The datagrams of a train are never cut further.
        let refuses =
            record.path_mtu.refuses() || record.segment != 0 && record.path_mtu == PathMtu::Least;
        let Some(to) = record.peer.get().filter(|_| refuses) else {
            return Ok(());
        };
        let payload = match record.segment {
            0 => record.len as usize,
            segment => segment.into(),
        };
        let ip = to.ip().to_canonical();
        let header = if ip.is_ipv4() {
            IPV4_HEADER
        } else {
            IPV6_HEADER
        };
        let packet = payload + UDP_HEADER + header;
        let routes = self.socket.host.routes();
        let most = match self.socket.block().sending(ip.is_ipv6()).least {
            true => routes.link_mtu(ip).min(LEAST_MTU_V6),
            false => routes.link_mtu(ip),
        };
        let fits = packet <= most
            && (!self.may_be_narrow(record.path_mtu, to)
                || packet <= self.socket.queries().path_mtu()? as usize);
        match record.segment {
            _ if fits => Ok(()),
            0 => Err(self.too_long(Some(to))),
            // Of trains Linux reports nothing.
            _ => Err(SocketError::Refused(Errno::MSGSIZE)),
        }
    }

    /// A datagram to `to` is too long. If the program asks for reports of errors, it finds one of
    /// that among those of what was sent before.
    #[cold]
    fn too_long(self, to: Option<SocketAddr>) -> SocketError {
        let asks = self.socket.more_bits() & more_bits::ASKS_FOR_ERRORS != 0;
        if asks
            && self.socket.host.session.agreed().reports_too_long()
            && let Some(to) = to
        {
            let to = Address::from(to);
            // Where the engine cannot be told, its end is what the next call tells of.
            let _ = self.socket.call(|socket, tag, waiter| Request::TooLong {
                socket,
                tag,
                waiter,
                to,
            });
        }
        SocketError::Refused(Errno::MSGSIZE)
    }

    /// Whether the engine has to be asked what the path to `to` takes. It knows that of
    /// the peer alone; of others it says afterwards that it was too much.
    fn may_be_narrow(self, path_mtu: PathMtu, to: SocketAddr) -> bool {
        path_mtu.honors_path_mtu()
            && self.socket.host.routes().has_narrow_paths()
            && self.socket.block().peer().get() == Some(to)
            && self.socket.host.routes().owner_of(to) == Owner::Engine
    }

    /// The place of the loopback address from which something to the group `to` leaves, if it is the
    /// loopback's: it stays within the host.
    fn place_by_loopback(self, to: IpAddr) -> Option<u8> {
        if !to.is_multicast() {
            return None;
        }
        let (chosen, own) = match to {
            IpAddr::V4(_) => (more_bits::GROUPS_BY_LOOPBACK, Ipv4Addr::LOCALHOST.into()),
            IpAddr::V6(_) => (more_bits::GROUPS6_BY_LOOPBACK, Ipv6Addr::LOCALHOST.into()),
        };
        match self.socket.more_bits() & (chosen | more_bits::BY_LOOPBACK) {
            0 => None,
            _ => self.socket.host.routes().own_place(own),
        }
    }

    fn place_of(self, own: IpAddr) -> Result<u8, SocketError> {
        let foreign = if own.is_ipv4() {
            Errno::NETUNREACH
        } else {
            Errno::INVAL
        };
        let place = self.socket.host.routes().own_place(own);
        place.ok_or(SocketError::Refused(foreign))
    }

    /// Says whether a refusal of it may be told of at once: it goes to an address of the engine, and
    /// to no other than the peer, if there is one.
    fn write_record(
        self,
        record: &DatagramRecord,
        parts: &[IoSlice<'_>],
        stamped: Option<u32>,
    ) -> Result<bool, SocketError> {
        let span = datagram_span(record.len) as usize;
        let mut reserved = self.socket.send_stream().reserve_record(span)?;
        reserved.write_at(0, &record.encode())?;
        let mut at = DATAGRAM_HEADER;
        for part in parts {
            reserved.write_at(at, part)?;
            at += part.len();
        }
        reserved.ask_for_stamp(span, stamped)?;
        reserved.commit(span, false)?;
        let peer = || self.socket.block().peer().get();
        let Some(to) = record.peer.get().or_else(peer) else {
            return Ok(false);
        };
        let (routes, ip) = (self.socket.host.routes(), to.ip().to_canonical());
        let is_own = ip.is_loopback() || routes.own_place(ip).is_some();
        if is_own {
            self.socket.host.under_way().note();
        }
        Ok(is_own && peer().is_none_or(|peer| peer == to))
    }

    /// A datagram has left of which a refusal may be told of at once. On Linux that is there when the
    /// call that has sent it returns, and so it is here for a program that is told of refusals,
    /// until one was taken: of a peer that is there each next datagram is not waited for.
    pub(crate) fn await_refusal(self) {
        let bits = self.socket.more_bits();
        let asks = bits & more_bits::ASKS_FOR_ERRORS != 0;
        if bits & more_bits::IS_TAKEN == 0 && (asks || self.socket.block().peer().get().is_some()) {
            self.socket.host.under_way().await_own();
            if !self.socket.block().has_error() {
                self.socket.set_more_bits(more_bits::IS_TAKEN);
            }
        }
    }

    /// Sets the size of the datagrams that a large one is cut into
    /// (UDP_SEGMENT).
    pub fn set_segment(self, bytes: u16) {
        self.socket
            .block()
            .snd
            .low_water
            .store(u32::from(bytes), Ordering::Relaxed);
    }

    /// That size; 0 if datagrams are sent as they are.
    pub fn segment(self) -> u16 {
        self.socket.block().snd.low_water.load(Ordering::Relaxed) as u16
    }

    /// Changes what its datagrams of one version of IP leave with, from the next one on.
    pub fn change_sending(self, ipv6: bool, change: impl Fn(&mut Sending)) {
        self.socket.block().change_sending(ipv6, change);
    }
}

/// Most payload of a datagram to `to`.
fn most_payload(to: Option<SocketAddr>) -> usize {
    match to {
        Some(to) if to.ip().to_canonical().is_ipv6() => MOST_PAYLOAD_V6,
        _ => MOST_PAYLOAD,
    }
}

/// The size of a train's datagrams, 0 if `len` bytes are one.
fn fitting(segment: u16, len: usize) -> u16 {
    if usize::from(segment) < len {
        segment
    } else {
        0
    }
}

fn hops_to(ip: IpAddr, sending: &Sending) -> Option<u8> {
    if ip.is_multicast() {
        Some(sending.group_hops)
    } else {
        sending.hops
    }
}

/// The wildcard address of a family, with port 0.
pub fn any_address(v6: bool) -> SocketAddr {
    if v6 {
        SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0))
    } else {
        SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0))
    }
}

#[cfg(test)]
mod tests;
