//! ICMPv6 that is sent: echoes, and errors about what has come.

use super::Responder;
use crate::address_pair::AddressPair;
use crate::bytes::put;
use crate::counters::EngineDrop;
use crate::link::WholeMessage;
use longshore_net::DropReason;
use longshore_net::icmp6::{may_answer_error, problem};
use longshore_wire::icmpv6::{self, Icmpv6};
use longshore_wire::ipv6::{
    FRAGMENT_LEN, HEADER_LEN, Ipv6Header, Refusal, Upper, following, next_header,
};
use std::net::Ipv6Addr;

/// Bytes of a packet that an ICMPv6 error quotes: all of the error fits into what every
/// link takes (RFC 4443 section 2.4 c).
const QUOTED: usize = 1280 - HEADER_LEN - icmpv6::HEADER_LEN;

/// A packet that is for us.
pub(crate) struct Packet6<'a> {
    pub(crate) header: Ipv6Header,
    /// From its IP header to its end.
    pub(crate) whole: &'a [u8],
    /// Its frame was not for us alone.
    pub(crate) link_group: bool,
}

impl Packet6<'_> {
    /// Its headers behind the fixed one, up to the first that is no extension header, whatever is in
    /// them: of which kind each is, and where it begins in the payload.
    fn headers(&self) -> impl Iterator<Item = (u8, usize)> + '_ {
        let payload = self.payload();
        let first = Some((self.header.next_header, 0));
        std::iter::successors(first, |(kind, at)| {
            let (next, len) = following(*kind, payload.get(*at..)?)?;
            Some((next, at + len))
        })
    }

    fn payload(&self) -> &[u8] {
        self.whole.get(HEADER_LEN..).unwrap_or_default()
    }

    /// Where the header before the one at `at` in the payload names it.
    fn names_upper_at(&self, at: usize) -> u32 {
        const IN_FIXED_HEADER: u32 = 6;
        let before = self.headers().take_while(|(_, begins)| *begins < at);
        let last = before.last();
        last.map_or(IN_FIXED_HEADER, |(_, begins)| (HEADER_LEN + begins) as u32)
    }

    /// Whether it is itself an ICMPv6 error, or cannot be told not to be one. What is wrong with its
    /// extension headers may be what there is to report: nothing is asked of them here.
    fn carries_error(&self) -> bool {
        const INFORMATIONAL: u8 = 128;
        let kind_at = |at| self.payload().get(at).copied();
        self.headers().last().is_some_and(|(header, at)| {
            header == next_header::ICMPV6 && kind_at(at).is_none_or(|kind| kind < INFORMATIONAL)
        })
    }
}

impl Responder<'_> {
    /// Answers an echo request, with the data that it has brought.
    pub(crate) fn echo6(&mut self, ip: &Ipv6Header, reply: &Icmpv6, data: &[u8]) {
        if self.may_answer() {
            let from = Some(ip.destination).filter(|ip| !ip.is_multicast());
            self.send_icmp6(ip.source, from, reply, data);
        }
    }

    /// The header at `at` of a packet's payload is of a protocol that nobody here speaks.
    pub(crate) fn refuse_upper(&mut self, packet: &Packet6<'_>, at: usize) {
        self.counters.drop(EngineDrop::UnknownProtocol);
        let message = Icmpv6::ParameterProblem {
            code: problem::NEXT_HEADER,
            pointer: packet.names_upper_at(at),
        };
        self.send_error6(packet, &message, false);
    }

    /// The extension headers of a packet are refused.
    pub(crate) fn refuse_extensions(&mut self, packet: &Packet6<'_>, refusal: Refusal) {
        self.counters.drop_net(DropReason::ExtensionHeaders);
        if let Refusal::Problem {
            code,
            pointer,
            to_group_too,
        } = refusal
        {
            let message = Icmpv6::ParameterProblem { code, pointer };
            self.send_error6(packet, &message, to_group_too);
        }
    }

    /// RFC 8200 section 4.5 has senders told of fragments that cannot be.
    pub(crate) fn refuse_fragment(
        &mut self,
        packet: &Packet6<'_>,
        upper: &Upper,
        reason: DropReason,
    ) {
        const PAYLOAD_LENGTH_AT: u32 = 4;
        const OFFSET_AT: u32 = 2;
        let fragment_at = (HEADER_LEN + upper.at - FRAGMENT_LEN) as u32;
        let (code, pointer) = match reason {
            DropReason::FragmentBadLength => (problem::FIELD, PAYLOAD_LENGTH_AT),
            DropReason::FragmentBeyondEnd => (problem::FIELD, fragment_at + OFFSET_AT),
            // RFC 7112 section 5: code 3.
            DropReason::FragmentHeaders => (3, 0),
            _ => return,
        };
        let message = Icmpv6::ParameterProblem { code, pointer };
        self.send_error6(packet, &message, false);
    }

    /// Reports an error about a packet to its sender, within the limit that keeps us
    /// from being used as an amplifier. `to_group_too` is said of errors that are owed
    /// about packets to groups.
    pub(crate) fn send_error6(
        &mut self,
        packet: &Packet6<'_>,
        message: &Icmpv6,
        to_group_too: bool,
    ) {
        let ip = &packet.header;
        let is_error = packet.carries_error();
        if !may_answer_error(ip, packet.link_group, is_error, to_group_too)
            || !self.may_send_error(self.link.addresses.is_ours6(ip.source))
        {
            return;
        }
        let quoted = packet.whole;
        let quoted = quoted.get(..QUOTED.min(quoted.len())).unwrap_or_default();
        let from = Some(ip.destination).filter(|ip| !ip.is_multicast());
        self.send_icmp6(ip.source, from, message, quoted);
    }

    /// An error about the first fragment of a packet that did not come together.
    pub(crate) fn reassembly_failed6(&mut self, header: &Ipv6Header, first: &[u8]) {
        let mut bytes = vec![0; HEADER_LEN + first.len()];
        header.emit(&mut bytes);
        put(&mut bytes, HEADER_LEN, first);
        let packet = Packet6 {
            header: *header,
            whole: &bytes,
            link_group: false,
        };
        self.send_error6(&packet, &Icmpv6::TimeExceeded { code: 1 }, false);
    }

    /// Sends an ICMPv6 message, from the address that is best for it if none is given.
    fn send_icmp6(&mut self, to: Ipv6Addr, from: Option<Ipv6Addr>, icmp: &Icmpv6, data: &[u8]) {
        let Some(from) = from.or_else(|| self.link.addresses.source_for6(to)) else {
            return self.counters.drop(EngineDrop::NoRoute);
        };
        let mut message = vec![0; icmp.header_len() + data.len()];
        put(&mut message, icmp.header_len(), data);
        icmp.emit(from, to, &mut message);
        let message = WholeMessage {
            service: self.link.auto.service_to(to.into()),
            protocol: next_header::ICMPV6,
            bytes: &message,
            most: usize::MAX,
        };
        let addresses = AddressPair::V6 { from, to };
        self.link
            .send_message(&addresses, &message, self.now, self.counters);
    }
}
