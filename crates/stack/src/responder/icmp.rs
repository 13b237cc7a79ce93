//! ICMP for IPv4 that is sent: echoes, and errors about what has come.

use super::Responder;
use crate::address_pair::{AddressPair, Service};
use crate::bytes::put;
use crate::link::WholeMessage;
use longshore_net::icmp::may_answer_error;
use longshore_wire::icmpv4::{self, Icmpv4};
use longshore_wire::ipv4::{self, Ipv4Header, protocol};

/// Bytes of a packet that an ICMP error quotes behind the IP header (RFC 1812
/// section 4.3.2.3 allows 576 in all; Linux does the same).
const QUOTED: usize = 576 - 2 * ipv4::HEADER_LEN - icmpv4::HEADER_LEN;

impl Responder<'_> {
    /// Answers an echo request, with the data that it has brought.
    pub(crate) fn echo(&mut self, ip: &Ipv4Header, reply: &Icmpv4, data: &[u8]) {
        if self.may_answer() {
            self.send_icmp(ip, reply, data);
        }
    }

    /// Reports an error about a packet to its sender (RFC 1122 section 3.2.2), within
    /// the limit that keeps us from being used as an amplifier.
    pub(crate) fn send_error(
        &mut self,
        ip: &Ipv4Header,
        payload: &[u8],
        message: &Icmpv4,
        broadcast: bool,
    ) {
        let is_own = self.link.addresses.is_ours(ip.source);
        if !may_answer_error(ip, broadcast, false) || !self.may_send_error(is_own) {
            return;
        }
        let quoted = payload.get(..QUOTED.min(payload.len())).unwrap_or_default();
        let mut original = vec![0; ipv4::HEADER_LEN + quoted.len()];
        ip.emit(&mut original);
        if let Some(place) = original.get_mut(ipv4::HEADER_LEN..) {
            place.copy_from_slice(quoted);
        }
        self.send_icmp(ip, message, &original);
    }

    /// Whether one more error may be sent now; what goes to our own programs has no limit, as
    /// over Linux's loopback.
    pub(super) fn may_send_error(&mut self, is_own: bool) -> bool {
        is_own || self.limits.may_send_error(self.now)
    }

    /// Sends an ICMP message back to where `ip` came from.
    fn send_icmp(&mut self, ip: &Ipv4Header, icmp: &Icmpv4, data: &[u8]) {
        let mut message = vec![0; icmpv4::HEADER_LEN + data.len()];
        put(&mut message, icmpv4::HEADER_LEN, data);
        icmp.emit(&mut message);
        let addresses = AddressPair::V4 {
            from: ip.destination,
            to: ip.source,
        };
        let message = WholeMessage {
            service: Service::DEFAULT,
            protocol: protocol::ICMP,
            bytes: &message,
            most: usize::MAX,
        };
        self.link
            .send_message(&addresses, &message, self.now, self.counters);
    }
}
