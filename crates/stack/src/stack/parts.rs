//! The parts that decide: what is done by each is in the part's own type, which borrows the fields
//! of the stack that it needs for as long as that takes.

use super::Stack;
use crate::endpoints::Endpoints;
use crate::flush::Flush;
use crate::fragments::Fragments;
use crate::handshake::Handshakes;
use crate::icmp::IcmpErrors;
use crate::input::PacketInput;
use crate::requests::{Requests, Setup};
use crate::responder::Responder;
use crate::settings::Settings;
use crate::tcp_input::TcpInput;
use crate::timeouts::Timeouts;
use crate::udp_input::UdpInput;
use longshore_tcp::Instant;

/// What the parts that may answer a packet are made of: each takes what it needs.
struct Answering<'a> {
    endpoints: &'a mut Endpoints,
    responder: Responder<'a>,
    settings: &'a Settings,
    fragments: &'a mut Fragments,
    next_tick: &'a mut Instant,
}

impl Stack {
    #[inline]
    fn answering(&mut self) -> Answering<'_> {
        Answering {
            endpoints: &mut self.endpoints,
            responder: Responder::new(
                &mut self.link,
                &mut self.limits,
                &mut self.counters,
                self.now,
            ),
            settings: &self.settings,
            fragments: &mut self.fragments,
            next_tick: &mut self.next_tick,
        }
    }

    /// What ends a turn.
    pub(crate) fn flushing(&mut self) -> Flush<'_> {
        Flush {
            endpoints: &mut self.endpoints,
            link: &mut self.link,
            settings: &self.settings,
            counters: &mut self.counters,
            now: self.now,
        }
    }

    /// What does what is due.
    pub(crate) fn timeouts(&mut self) -> Timeouts<'_> {
        let parts = self.answering();
        Timeouts {
            tcp: TcpInput {
                endpoints: parts.endpoints,
                responder: parts.responder,
                settings: parts.settings,
            },
            next_tick: parts.next_tick,
        }
    }

    /// What does as programs ask.
    pub(crate) fn requests(&mut self) -> Requests<'_> {
        Requests {
            setup: Setup {
                endpoints: &mut self.endpoints,
                link: &mut self.link,
                settings: &mut self.settings,
                counters: &mut self.counters,
                now: self.now,
            },
            unanswered: &mut self.unanswered,
        }
    }

    /// What takes packets.
    pub(crate) fn packet_input(&mut self) -> PacketInput<'_> {
        let parts = self.answering();
        PacketInput {
            responder: parts.responder,
            fragments: parts.fragments,
        }
    }

    /// What takes UDP datagrams.
    pub(crate) fn udp_input(&mut self) -> UdpInput<'_> {
        let parts = self.answering();
        UdpInput {
            endpoints: parts.endpoints,
            responder: parts.responder,
            settings: parts.settings,
        }
    }

    /// What tells of ICMP errors.
    pub(crate) fn icmp_errors(&mut self) -> IcmpErrors<'_> {
        IcmpErrors {
            handshakes: self.handshakes(),
        }
    }

    /// What segments do.
    pub(crate) fn tcp_input(&mut self) -> TcpInput<'_> {
        let parts = self.answering();
        TcpInput {
            endpoints: parts.endpoints,
            responder: parts.responder,
            settings: parts.settings,
        }
    }

    /// The half-open connections, with what their handshakes need.
    pub(crate) fn handshakes(&mut self) -> Handshakes<'_> {
        let parts = self.answering();
        Handshakes {
            endpoints: parts.endpoints,
            responder: parts.responder,
        }
    }
}
