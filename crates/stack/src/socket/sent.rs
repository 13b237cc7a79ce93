//! When the last byte of what a socket's program has written was sent, and acknowledged, for programs
//! that ask (SO_TIMESTAMPING): asked for with each write, noted when the socket is flushed, and
//! told as the reports of errors are.

use crate::counters::EngineDrop;
use crate::send_stamps::SendStamps;
use crate::socket::errors::Reporter;
use crate::socket::{Kind, Socket};
use longshore_hostif::{EdgeFlags, ErrorReport, OptionName, SentStamp, SentStampKind};

/// "No message of the desired type", the errno of what is no error.
const ENOMSG: u16 = 42;

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
        Some(ErrorReport {
            errno: ENOMSG,
            kind: 0,
            code: 0,
            info: kind as u32,
            to,
            offender: None,
            stamp: Some(stamp),
        })
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
