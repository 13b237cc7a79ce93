//! TCP segments out: headers written, payload taken where the host wrote it.

use crate::address_pair::{AddressPair, Service};
use crate::counters::{Counters, EngineDrop};
use crate::fast_output::Headers;
use crate::fetched::Fetch;
use crate::link::{Link, NextHop};
use crate::sessions::Sessions;
use crate::socket::{Connection, Kind, PayloadMoved, Socket};
use crate::sockets::Sockets;
use longshore_frames::PortError;
use longshore_frames::in_place;
use longshore_hostif::adapter::{Immediate, MAX_PIECES, SendStreams, Use};
use longshore_hostif::{Crossings, Moved, SharedBytes};
use longshore_tcp::{Instant, State};
use std::ops::Range;

/// Segments that one connection may send in one turn, so that others get theirs.
const SEGMENTS_A_TURN: usize = 32;

/// Payload of a segment that counts as one; of a longer one, as many as these are in it count
/// besides.
const LONGEST_ORDINARY: u64 = 1 << 16;

/// How sending went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    /// All that there was.
    All,
    /// There is more: next turn.
    More,
    /// The next hop is not known yet.
    Unresolved,
}

impl Sockets {
    /// Sends what a connection has to send, [`SEGMENTS_A_TURN`] segments at most.
    pub(crate) fn transmit(
        &mut self,
        key: u32,
        sessions: &mut Sessions,
        link: &mut Link,
        counters: &mut Counters,
        now: Instant,
    ) -> Sent {
        let socket = self.get_mut(key);
        let may_have_to = |s: &&mut Socket| match &s.kind {
            Kind::Stream(c) => c.tcb.may_have_to_send(),
            _ => false,
        };
        socket.filter(may_have_to).map_or(Sent::All, |socket| {
            socket.transmit(sessions, link, counters, now)
        })
    }
}

impl Socket {
    /// Sends what it, a connection, has to send, if there is something, [`SEGMENTS_A_TURN`]
    /// segments at most.
    #[inline(never)]
    pub(crate) fn transmit(
        &mut self,
        sessions: &mut Sessions,
        link: &mut Link,
        counters: &mut Counters,
        now: Instant,
    ) -> Sent {
        let options = &self.options;
        let Kind::Stream(c) = &mut self.kind else {
            return Sent::All;
        };
        let Some(local) = self.bound.local() else {
            return Sent::All;
        };
        let Some(addresses) = &AddressPair::new(local.ip(), c.remote.ip()) else {
            return Sent::All;
        };
        let service = options.service(addresses.to()).without_ecn();
        let hop = match link.next_hop_between(addresses, now, counters) {
            hop @ (NextHop::Neighbor(_) | NextHop::Local) => hop,
            // What is taken from the block counts as sent, so nothing is taken.
            NextHop::Resolving => return Sent::Unresolved,
            NextHop::Unreachable | NextHop::NoRoute => {
                drop_unsent(c, now, counters);
                return Sent::All;
            }
        };
        let by_port = link.output.longest_payload(addresses, hop);
        let mss = usize::from(c.tcb.mss());
        let longest_new = match link.output.longest_new_payload(addresses, by_port) {
            // Whatever is between here and there, and loses long ones, takes others.
            longer if longer > by_port && !c.tcb.send_status().has_repeated_little() => by_port,
            any => any,
        };
        let (longest, longest_new) = (by_port.max(mss), longest_new.max(mss));
        let used = match hop {
            NextHop::Neighbor(_) if link.output.device.capabilities().passes_payload => Use::Pass,
            _ => Use::Read,
        };
        let session = sessions.get_unshown_mut(self.session);
        let mut outlet = Outlet {
            source: session.map(|s| (&s.host.send, &mut s.host.meter.to_adapter)),
            index: self.id.index,
            immediate: &self.immediate,
            moved: &mut self.payload.to_adapter,
            used,
            c,
            port: local.port(),
            addresses,
            hop,
            service,
            longest,
            longest_new,
            now,
            link,
            counters,
        };
        let sent = outlet
            .send_plain()
            .and_then(|sent| outlet.send_others(sent));
        sent.err().unwrap_or(Sent::More)
    }
}

/// Nobody takes what a connection sends: a connection that is being opened ends, of
/// others it is lost.
fn drop_unsent(c: &mut Connection, now: Instant, counters: &mut Counters) {
    if c.tcb.state() == State::SynSent {
        c.unreachable = true;
        c.tcb.abort();
        return;
    }
    while c.tcb.poll_transmit(now, 0).is_some() {
        counters.drop(EngineDrop::Unresolved);
    }
}

/// A connection that sends, in one turn: what it takes its payload from, and where it
/// goes.
struct Outlet<'a> {
    c: &'a mut Connection,
    /// The send streams of its session, and what the session counts; none once the session
    /// has ended, and then no payload can be sent.
    source: Option<(&'a SendStreams, &'a mut Crossings)>,
    index: u32,
    immediate: &'a Immediate,
    moved: &'a mut Moved,
    /// What is done with the payload.
    used: Use,
    port: u16,
    addresses: &'a AddressPair,
    hop: NextHop,
    service: Service,
    /// Payload of one segment at most, bytes.
    longest: usize,
    /// And of one with new data.
    longest_new: usize,
    now: Instant,
    link: &'a mut Link,
    counters: &'a mut Counters,
}

impl<'a> Outlet<'a> {
    /// Sends segments with a plain header, if they go over the port, and says how many.
    /// As an error: how sending went, if it ends with them.
    #[inline]
    fn send_plain(&mut self) -> Result<usize, Sent> {
        let NextHop::Neighbor(neighbor) = self.hop else {
            return Ok(0);
        };
        let mut segments = 0;
        while segments < SEGMENTS_A_TURN
            && let Some(segment) = self.c.tcb.poll_plain(self.now, self.longest_new)
        {
            let len = u64::from(segment.payload_len);
            let sent = loop {
                let mut pieces = [SharedBytes::EMPTY; MAX_PIECES];
                let count = if len == 0 {
                    0
                } else {
                    self.gather(
                        segment.payload_start..segment.payload_start + len,
                        &mut pieces,
                    )?
                };
                let headers = Headers::keep(
                    &mut self.c.headers,
                    self.link,
                    self.addresses,
                    (self.port, self.c.remote.port()),
                    neighbor,
                    self.service,
                );
                let pieces = in_place(pieces.get(..count).unwrap_or_default());
                let sent = self.link.output.send_plain(headers, &segment, pieces);
                if sent.is_ok() || !self.is_to_be_read(sent) {
                    break sent;
                }
            };
            segments += self.count(len);
            self.note(sent)?;
            // To poll for what is not there, in both ways, takes ten times as much.
            if !self.c.tcb.may_have_to_send() {
                return Err(Sent::All);
            }
        }
        Ok(segments)
    }

    /// Sends what else there is, `segments` having been sent.
    fn send_others(&mut self, mut segments: usize) -> Result<(), Sent> {
        while segments < SEGMENTS_A_TURN {
            let longest = match self.c.tcb.send_status().may_repeat() {
                true => self.longest,
                false => self.longest_new,
            };
            let segment = self.c.tcb.poll_transmit(self.now, longest);
            let segment = segment.ok_or(Sent::All)?;
            let len = segment.payload_len();
            let header = segment.header(self.port, self.c.remote.port());
            let sent = loop {
                let mut pieces = [SharedBytes::EMPTY; MAX_PIECES];
                let count = if len == 0 {
                    0
                } else {
                    self.gather(segment.payload.clone(), &mut pieces)?
                };
                let sent = self.link.output.send_segment(
                    self.addresses,
                    self.hop,
                    self.service.marked(segment.ecn as u8),
                    &header,
                    in_place(pieces.get(..count).unwrap_or_default()),
                    (len > usize::from(segment.mss)).then_some(segment.mss),
                );
                if sent.is_ok() || !self.is_to_be_read(sent) {
                    break sent;
                }
            };
            segments += self.count(len as u64);
            self.counters.tcp.retransmissions += u64::from(segment.retransmission);
            self.note(sent)?;
        }
        Ok(())
    }

    /// A segment with so many bytes of payload is sent; says for how many it counts.
    #[inline]
    fn count(&mut self, len: u64) -> usize {
        let more = len / LONGEST_ORDINARY;
        self.counters.tcp.segments_out += 1;
        self.counters.tcp.longer_segments_out += more;
        1 + more as usize
    }

    /// The pieces of a payload, counted as taken from the host; says how many.
    #[inline]
    fn gather(
        &mut self,
        range: Range<u64>,
        pieces: &mut [SharedBytes<'a>; MAX_PIECES],
    ) -> Result<usize, Sent> {
        let (streams, crossed) = self.source.as_mut().ok_or(Sent::All)?;
        let streams: &'a SendStreams = streams;
        let (index, immediate) = (self.index, self.immediate);
        let reported = (immediate, self.c.fetched.reported());
        let Ok((count, at_hand)) =
            streams.gather_with(reported, index, range.clone(), self.used, pieces)
        else {
            self.counters.drop(EngineDrop::BadStream);
            self.c.tcb.abort();
            return Err(Sent::More);
        };
        // What crossed with its descriptor was counted with that.
        let from = range.start + at_hand;
        if from == range.end {
            self.c.fetched.skip(from);
            return Ok(count);
        }
        let mut end = self.c.tcb.snd_edge();
        if streams.has_immediate(immediate) && immediate.start() > from {
            end = end.min(immediate.start());
        }
        let fetched = self.c.fetched.send(streams, index, &(from..range.end), end);
        if fetched != Fetch::default() {
            PayloadMoved::count([self.moved, &mut crossed.payload], &fetched.payload);
            crossed.control.add(&fetched.records);
        }
        Ok(count)
    }

    /// Whether the payload of a segment is a file's that has become shorter: it is read from
    /// now on, and the segment sent once more.
    #[cold]
    fn is_to_be_read(&mut self, sent: Result<(), PortError>) -> bool {
        let is_unreadable = sent == Err(PortError::Unreadable);
        is_unreadable && std::mem::replace(&mut self.used, Use::Read) == Use::Pass
    }

    /// What the port said of a segment. A full one takes more in the next turn.
    #[inline]
    fn note(&mut self, sent: Result<(), PortError>) -> Result<(), Sent> {
        if sent.is_err() {
            self.counters.drop(EngineDrop::PortRefused);
        }
        if sent == Err(PortError::Full) {
            return Err(Sent::More);
        }
        Ok(())
    }
}
