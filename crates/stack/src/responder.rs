//! What answers packets that belong to no socket: resets, SYN-ACKs, cookies, echoes, errors.
//!
//! Owns [`Responder`], which borrows the link with what limits such answers and counts them. The
//! ways in make one where something is to be answered: `tcp_input`, `passive` and `half_open`
//! for segments, `input`, `input6`, `icmp` and `fragments` for packets. What goes in ICMP and
//! ICMPv6 is in files of their own.

mod icmp;
mod icmp6;

pub(crate) use icmp6::Packet6;

use crate::address_pair::{AddressPair, Service, Sides};
use crate::answer_limit::AnswerLimits;
use crate::counters::{Counters, EngineDrop};
use crate::link::{Link, NextHop};
use crate::socket::Options;
use longshore_frames::RxMeta;
use longshore_tcp::{Disposition, Instant, Tcb};
use longshore_wire::SeqNumber;
use longshore_wire::tcp::TcpHeader;
use std::net::SocketAddr;

/// Bytes of TCP in a packet of IPv4 that no router ever cuts (RFC 791 section 3.1: 68 bytes with the
/// header). As in Linux, such a SYN-ACK has DF whatever its listener says.
const LONGEST_UNCUT: usize = 68 - longshore_wire::ipv4::HEADER_LEN;

/// Sends answers, as far as they may be sent.
pub(crate) struct Responder<'a> {
    pub(crate) link: &'a mut Link,
    pub(crate) limits: &'a mut AnswerLimits,
    pub(crate) counters: &'a mut Counters,
    pub(crate) now: Instant,
}

/// What a segment asks for beside what its connection sends.
#[derive(Debug)]
pub(crate) enum Response {
    Nothing,
    /// A reset in answer.
    Reset,
    /// The connection is over, and this is the SYN of the next: it goes to the
    /// listener, and the new ISS after this number.
    Reopen(SeqNumber),
}

impl Response {
    /// Of one that does not end what it is a segment of.
    pub(crate) fn of(disposition: &Disposition) -> Self {
        if disposition.reset {
            Self::Reset
        } else {
            Self::Nothing
        }
    }
}

impl<'a> Responder<'a> {
    /// Of what these limit and count.
    #[inline(always)]
    pub(crate) fn new(
        link: &'a mut Link,
        limits: &'a mut AnswerLimits,
        counters: &'a mut Counters,
        now: Instant,
    ) -> Self {
        Self {
            link,
            limits,
            counters,
            now,
        }
    }

    /// The same, for a part of the time in which this has what it borrows.
    #[inline(always)]
    pub(crate) fn reborrow(&mut self) -> Responder<'_> {
        Responder::new(self.link, self.limits, self.counters, self.now)
    }

    /// Whether what asks for an answer, and belongs to no connection, gets it now.
    pub(crate) fn may_answer(&mut self) -> bool {
        self.limits.may_answer()
    }

    /// A packet has been taken, with this frame of its own if it has one: what was refused an answer
    /// is kept or counted.
    #[inline]
    pub(crate) fn settle(&mut self, frame: Option<(&[u8], &RxMeta)>) {
        self.limits.settle(frame, self.counters);
    }

    /// Sends a reset in answer to a segment of no connection, if that may be answered; whether it may.
    pub(crate) fn send_reset(
        &mut self,
        local: SocketAddr,
        remote: SocketAddr,
        header: &TcpHeader,
    ) -> bool {
        let may = self.may_answer();
        if may {
            self.counters.tcp.resets_out += 1;
            self.send_bare(local, remote, header);
        }
        may
    }

    /// Sends a segment without payload that belongs to no block.
    pub(crate) fn send_bare(&mut self, local: SocketAddr, remote: SocketAddr, header: &TcpHeader) {
        if let Some(addresses) = AddressPair::new(local.ip(), remote.ip()) {
            // As Linux has it for what no socket sends.
            let service = Service {
                dont_fragment: true,
                ..self.link.auto.service_to(addresses.to())
            };
            self.send_alone(&addresses, service, header);
        }
    }

    /// As `send_bare`, for a connection that has no block yet.
    fn send_alone(&mut self, addresses: &AddressPair, service: Service, header: &TcpHeader) {
        let hop = self
            .link
            .next_hop_between(addresses, self.now, self.counters);
        if matches!(hop, NextHop::Unreachable | NextHop::NoRoute) {
            return self.counters.drop(EngineDrop::Unresolved);
        }
        let sent = self
            .link
            .output
            .send_segment(addresses, hop, service, header, &[], None);
        if sent.is_err() {
            self.counters.drop(EngineDrop::PortRefused);
        }
        self.counters.tcp.segments_out += 1;
    }

    /// Sends what a half-open connection has to send, with the options of its listener.
    pub(crate) fn send_all_of(&mut self, options: &Options, (local, remote): Sides, tcb: &mut Tcb) {
        let Some(addresses) = AddressPair::new(local.ip(), remote.ip()) else {
            return;
        };
        let service = options.service(addresses.to()).without_ecn();
        while let Some(segment) = tcb.poll_transmit(self.now, 0) {
            let header = segment.header(local.port(), remote.port());
            self.counters.tcp.retransmissions += u64::from(segment.retransmission);
            let mut service = service.marked(segment.ecn as u8);
            service.dont_fragment |= header.header_len() <= LONGEST_UNCUT;
            self.send_alone(&addresses, service, &header);
        }
    }
}
