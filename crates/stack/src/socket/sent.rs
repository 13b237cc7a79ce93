//! When the last byte of what a socket's program has written was sent, and acknowledged, or a datagram
//! left, for programs that ask (SO_TIMESTAMPING): asked for with each write, noted when the socket is
//! flushed, or the datagram leaves, and told as the reports of errors are.

use crate::counters::EngineDrop;
use crate::send_stamps::{AskedOfDatagram, SendStamps};
use crate::socket::errors::Reporter;
use crate::socket::{Kind, Socket};
use longshore_hostif::{EdgeFlags, ErrorReport, OptionName, SentStamp, SentStampKind, SocketKind};
use std::net::SocketAddr;

/// "No message of the desired type", the errno of what is no error.
const ENOMSG: u16 = 42;

/// What a program is told of a stamp of what went to `to`.
fn report_of(kind: SentStampKind, stamp: SentStamp, to: SocketAddr) -> ErrorReport {
    ErrorReport {
        errno: ENOMSG,
        kind: 0,
        code: 0,
        info: kind as u32,
        to,
        offender: None,
        stamp: Some(stamp),
    }
}

impl Socket {
    /// How far its stream was sent and acknowledged; what goes to a socket of our own is both
    /// once it is there. `None` if it is no stream.
    fn sent_and_acked(&self) -> Option<(u64, u64)> {
        match &self.kind {
            Kind::Stream(c) => Some((c.tcb.send_status().sent(), c.tcb.snd_acked())),
            Kind::Pair(p) => Some((p.snd.moved(), p.snd.moved())),
            Kind::Listener(_) | Kind::Datagram(_) | Kind::Idle(_) => None,
        }
    }

    /// Its program asks when what it is about to write is sent, or how that is counted; `false` if it
    /// asks for more than is kept.
    #[must_use]
    pub(crate) fn ask_for_stamps(&mut self, name: OptionName, value: u64) -> bool {
        if self.kind.opened_as() == SocketKind::Datagram {
            let stamps = self.errors.stamps_or_new();
            if name == OptionName::StampSent {
                return stamps.ask_of_datagram(value);
            }
            stamps.count_datagrams(value != 0);
            return true;
        }
        let Some((_, acked)) = self.sent_and_acked() else {
            return true;
        };
        let edge = self.kind.snd_edge();
        let stamps = self.errors.stamps_or_new();
        match name {
            OptionName::SentKeys => {
                stamps.count_from(match value {
                    1 => Some(acked),
                    2 => Some(edge),
                    _ => None,
                });
                true
            }
            OptionName::StampSent => stamps.ask(value),
            _ => true,
        }
    }

    /// Whether its program is still to be told of something.
    pub(crate) fn waits_for_stamps(&self) -> bool {
        self.errors.stamps().is_some_and(SendStamps::is_waiting)
    }

    /// It was flushed: what was sent or acknowledged now has its time, which `time_of_day_ns` says.
    pub(crate) fn note_sent_stamps(
        &mut self,
        reporter: Reporter<'_>,
        time_of_day_ns: impl FnOnce() -> u64,
    ) {
        let Some((sent, acked)) = self.sent_and_acked() else {
            return;
        };
        let Some(stamps) = self.errors.stamps_mut() else {
            return;
        };
        if !stamps.is_due(sent, acked) {
            return;
        }
        for _ in 0..stamps.note(sent, acked, time_of_day_ns()) {
            reporter.counters.drop(EngineDrop::ErrorQueueFull);
        }
        self.tell_of_reports(reporter);
    }

    /// Takes the oldest stamp, as a report.
    pub(crate) fn take_sent_stamp(&mut self) -> Option<ErrorReport> {
        let (kind, stamp): (SentStampKind, SentStamp) = self.errors.stamps_mut()?.take()?;
        let to = match &self.kind {
            Kind::Stream(c) => c.remote,
            Kind::Pair(p) => p.remote,
            Kind::Listener(_) | Kind::Datagram(_) | Kind::Idle(_) => self.bound.local()?,
        };
        Some(report_of(kind, stamp, to))
    }

    /// A datagram has left `from` our own address at `at_ns` (nanoseconds since 1970), of which this is
    /// `asked`; `packet` is what it left as.
    pub(crate) fn note_datagram_left(
        &mut self,
        asked: AskedOfDatagram,
        (from, at_ns): (SocketAddr, u64),
        packet: &[u8],
        reporter: Reporter<'_>,
    ) {
        let stamp = SentStamp {
            at_ns: at_ns.max(1),
            key: asked.key,
        };
        for kind in asked.kinds() {
            if asked.with_packet() {
                let report = report_of(kind, stamp, from);
                self.errors.put(report, packet, reporter.counters);
            } else if !self.errors.stamps_or_new().tell(kind, stamp) {
                reporter.counters.drop(EngineDrop::ErrorQueueFull);
            }
        }
        self.tell_of_reports(reporter);
    }

    /// Its host is told that it has reports, where there is no pending error.
    pub(super) fn tell_of_reports(&mut self, reporter: Reporter<'_>) {
        if !self.has_block() {
            return;
        }
        let (kept, mut edges) = (self.errors.len(), self.kind.edges());
        edges.flags |= EdgeFlags::SOFT_ERROR;
        self.note_reported(reporter.now);
        if let Some(s) = reporter.sessions.get_mut(self.session) {
            s.host.blocks().set_error_reports(self.id, kept);
            self.put_edges(&mut s.host, edges);
        }
    }
}
