//! The parts that decide: what is done by each is in the part's own type, which borrows the fields
//! of the stack that it needs for as long as that takes.

use super::Stack;
use crate::flush::Flush;
use crate::half_open::Handshakes;
use crate::icmp::IcmpErrors;
use crate::input::PacketInput;
use crate::requests::{Requests, Setup};
use crate::responder::Responder;
use crate::tcp_input::TcpInput;
use crate::timeouts::Timeouts;
use crate::udp_input::UdpInput;

impl Stack {
    /// What ends a turn.
    pub(crate) fn flushing(&mut self) -> Flush<'_> {
        Flush {
            sockets: &mut self.sockets,
            half_open: &mut self.half_open,
            demux: &mut self.demux,
            sessions: &mut self.sessions,
            link: &mut self.link,
            settings: &self.settings,
            bulk_senders: &mut self.bulk_senders,
            counters: &mut self.counters,
            now: self.now,
        }
    }

    /// What does what is due.
    pub(crate) fn timeouts(&mut self) -> Timeouts<'_> {
        Timeouts {
            tcp: TcpInput {
                sockets: &mut self.sockets,
                half_open: &mut self.half_open,
                demux: &mut self.demux,
                sessions: &mut self.sessions,
                link: &mut self.link,
                limits: &mut self.limits,
                settings: &self.settings,
                counters: &mut self.counters,
                now: self.now,
            },
            next_tick: &mut self.next_tick,
        }
    }

    /// What does as programs ask.
    pub(crate) fn requests(&mut self) -> Requests<'_> {
        Requests {
            setup: Setup {
                sockets: &mut self.sockets,
                half_open: &mut self.half_open,
                demux: &mut self.demux,
                sessions: &mut self.sessions,
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
        PacketInput {
            link: &mut self.link,
            fragments: &mut self.fragments,
            limits: &mut self.limits,
            counters: &mut self.counters,
            now: self.now,
        }
    }

    /// What takes UDP datagrams.
    pub(crate) fn udp_input(&mut self) -> UdpInput<'_> {
        UdpInput {
            sockets: &mut self.sockets,
            demux: &self.demux,
            sessions: &mut self.sessions,
            link: &mut self.link,
            limits: &mut self.limits,
            settings: &self.settings,
            counters: &mut self.counters,
            now: self.now,
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
        TcpInput {
            sockets: &mut self.sockets,
            half_open: &mut self.half_open,
            demux: &mut self.demux,
            sessions: &mut self.sessions,
            link: &mut self.link,
            limits: &mut self.limits,
            settings: &self.settings,
            counters: &mut self.counters,
            now: self.now,
        }
    }

    /// The half-open connections, with what their handshakes need.
    pub(crate) fn handshakes(&mut self) -> Handshakes<'_> {
        Handshakes {
            half_open: &mut self.half_open,
            demux: &mut self.demux,
            sockets: &mut self.sockets,
            sessions: &mut self.sessions,
            responder: Responder {
                link: &mut self.link,
                limits: &mut self.limits,
                counters: &mut self.counters,
                now: self.now,
            },
        }
    }
}
