//! The parts that decide: what is done by each is in the part's own type, which borrows the fields
//! of the stack that it needs for as long as that takes.
//!
//! Owns [`Answering`], which makes those that take packets, and says for which of them what a packet
//! has brought is.

use super::Stack;
use crate::at_work::AtWork;
use crate::endpoints::Endpoints;
use crate::flush::Flush;
use crate::fragments::Fragments;
use crate::handshake::Handshakes;
use crate::icmp::IcmpErrors;
use crate::input::{Arrived, PacketInput};
use crate::requests::{Requests, Setup};
use crate::responder::Responder;
use crate::settings::Settings;
use crate::tcp_input::TcpInput;
use crate::timeouts::Timeouts;
use crate::udp_input::UdpInput;
use longshore_frames::RxMeta;
use longshore_tcp::Instant;

impl Stack {
    /// What takes packets, and does what is due.
    #[inline]
    pub(super) fn answering(&mut self) -> Answering<'_> {
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
}

/// All that may answer a packet: what packets do, from their frame to the socket that they are for,
/// and what timers do. Each part takes what it needs.
pub(super) struct Answering<'a> {
    endpoints: &'a mut Endpoints,
    responder: Responder<'a>,
    settings: &'a Settings,
    fragments: &'a mut Fragments,
    next_tick: &'a mut Instant,
}

impl Answering<'_> {
    /// A frame of which nothing is known beforehand.
    pub(super) fn frame(&mut self, frame: &[u8], meta: &RxMeta) {
        let arrived = self.packets().frame(frame, meta);
        // One frame of several would not bring what they have brought together.
        let is_alone = !matches!(arrived, Arrived::Whole(_));
        self.take(arrived);
        self.responder.settle(is_alone.then_some((frame, meta)));
    }

    /// What a packet has brought goes to those that it is for.
    fn take(&mut self, arrived: Arrived<'_>) {
        match arrived {
            Arrived::Nothing => {}
            Arrived::Neighbor => self.endpoints.sockets.retry_unresolved(),
            Arrived::Whole(whole) => {
                let arrived = self.packets().whole(&whole);
                self.take(arrived);
            }
            Arrived::Segment(carried) => self.tcp().tcp_in(&carried),
            Arrived::Datagram(carried) => self.udp().take(&carried),
            Arrived::Error {
                error,
                offender,
                data,
            } => self
                .icmp_errors()
                .icmp_error(error.as_ref(), offender, data),
        }
    }

    /// Takes the packets that were sent to addresses of our own; says how many.
    #[inline(never)]
    pub(super) fn take_own(&mut self) -> usize {
        let mut count = 0;
        while let Some(own) = self.responder.link.output.own.pop_front() {
            count += 1;
            let arrived = self.packets().own_packet(&own);
            self.take(arrived);
        }
        self.responder.settle(None);
        self.endpoints.sessions.at_work = AtWork::Nobodys;
        count
    }

    /// What does what is due.
    pub(super) fn timeouts(&mut self) -> Timeouts<'_> {
        Timeouts {
            tcp: TcpInput {
                endpoints: self.endpoints,
                responder: self.responder.reborrow(),
                settings: self.settings,
            },
            next_tick: self.next_tick,
        }
    }

    /// The half-open connections, with what their handshakes need.
    pub(super) fn handshakes(&mut self) -> Handshakes<'_> {
        Handshakes {
            endpoints: self.endpoints,
            responder: self.responder.reborrow(),
        }
    }

    fn packets(&mut self) -> PacketInput<'_> {
        PacketInput {
            responder: self.responder.reborrow(),
            fragments: self.fragments,
        }
    }

    fn udp(&mut self) -> UdpInput<'_> {
        UdpInput {
            endpoints: self.endpoints,
            responder: self.responder.reborrow(),
            settings: self.settings,
        }
    }

    fn tcp(&mut self) -> TcpInput<'_> {
        TcpInput {
            endpoints: self.endpoints,
            responder: self.responder.reborrow(),
            settings: self.settings,
        }
    }

    fn icmp_errors(&mut self) -> IcmpErrors<'_> {
        IcmpErrors {
            handshakes: self.handshakes(),
        }
    }
}
