//! Errors about what a socket sent, as its program is told of them, most of which come by ICMP: the
//! pending error, which stands in the socket's block, and a queue of reports for those who ask
//! for it (IP_RECVERR, IPV6_RECVERR).
//!
//! A socket has the errors that are about what it sent: `icmp` says which socket that is,
//! `datagram` what was too long, and `requests` takes reports out for the host.

use crate::bytes::part;
use crate::counters::Counters;
use crate::error_queue::Kept;
use crate::link::Link;
use crate::request_error::RequestError;
use crate::sessions::Sessions;
use crate::socket::{Kind, Socket};
use longshore_hostif::{Address, ERROR_HEADER, ERROR_PAYLOAD, EdgeFlags, ErrorReport};
use longshore_net::icmp::{ErrorKind, IcmpError};
use longshore_tcp::Instant;
use longshore_wire::ipv4::protocol;
use longshore_wire::udp;
use std::net::{IpAddr, SocketAddr};

/// The datagram is longer than may be.
const EMSGSIZE: u16 = 90;

/// An ICMP error with the message that brought it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReportedError<'a> {
    pub(crate) error: &'a IcmpError,
    /// The sender of the message.
    pub(crate) offender: IpAddr,
    /// What stands behind the message's header.
    pub(crate) data: &'a [u8],
}

impl ReportedError<'_> {
    /// The part of the quoted packet that programs get: what a datagram carried, and a
    /// segment from its header on.
    fn quoted(&self) -> &[u8] {
        let at = self.error.payload_at;
        let at = if self.error.protocol == protocol::TCP {
            at.saturating_sub(udp::HEADER_LEN)
        } else {
            at
        };
        self.data.get(at..).unwrap_or_default()
    }

    fn report(&self) -> ErrorReport {
        let reported = self.error.fields;
        ErrorReport {
            errno: self.error.kind.errno(),
            kind: reported.kind,
            code: reported.code,
            info: reported.info,
            to: SocketAddr::new(self.error.destination, self.error.dst_port),
            offender: Some(self.offender),
            stamp: None,
        }
    }
}

/// What reports to programs take: their sessions, and what counts reports that find no room.
pub(crate) struct Reporter<'a> {
    pub(crate) sessions: &'a mut Sessions,
    pub(crate) counters: &'a mut Counters,
    pub(crate) now: Instant,
}

impl Socket {
    /// A datagram was not sent since it would have had to be cut, which its program
    /// refuses: that is its socket's pending error.
    pub(crate) fn note_too_long(&mut self, to: SocketAddr, link: &Link, reporter: Reporter<'_>) {
        self.set_pending_error(EMSGSIZE, reporter.sessions, reporter.now);
        self.report_too_long(to.into(), link, reporter);
    }

    /// A datagram to `to` was refused since it was too long: a socket that has asked for errors finds a
    /// report of that, and has no pending error. As Linux has it, the report says the port that the
    /// socket is connected to over IPv4, and the one that the datagram was for over IPv6.
    pub(crate) fn report_too_long(&mut self, to: Address, link: &Link, reporter: Reporter<'_>) {
        let Some(to) = to.get().map(|to| (to.ip().to_canonical(), to.port())) else {
            return;
        };
        let options = &self.options.datagrams;
        let Kind::Datagram(datagrams) = &self.kind else {
            return;
        };
        if !self.has_block() || !options.asks_for_errors(to.0) {
            return;
        }
        let port = match to {
            (IpAddr::V4(_), _) => datagrams.peer.map_or(0, |peer| peer.port()),
            (IpAddr::V6(_), port) => port,
        };
        let mtu =
            match self.options.path.counts_for_datagrams(to.0) || link.addresses.contains(to.0) {
                true => link.mtu_to(to.0, reporter.now),
                false => link.link_mtu(to.0),
            };
        let report = ErrorReport {
            errno: EMSGSIZE,
            kind: 0,
            code: 0,
            info: mtu as u32,
            to: SocketAddr::new(to.0, port),
            offender: None,
            stamp: None,
        };
        self.keep_report(report, reporter);
    }

    /// Keeps a report that makes no pending error: the socket has an error to tell of all the same.
    fn keep_report(&mut self, report: ErrorReport, reporter: Reporter<'_>) {
        self.errors.put(report, &[], reporter.counters);
        self.tell_of_reports(reporter);
    }

    /// An error about a datagram of its: a connected socket gets it if it will not pass by
    /// itself, and one that has asked for errors gets all, as in Linux.
    pub(crate) fn datagram_failed(&mut self, reported: &ReportedError<'_>, reporter: Reporter<'_>) {
        let connected = matches!(&self.kind, Kind::Datagram(d) if d.peer.is_some());
        let options = &self.options.datagrams;
        let asked = options.asks_for_errors(reported.error.destination);
        let hard = match reported.error.kind {
            ErrorKind::FragmentationNeeded { .. } => {
                let to = reported.error.destination;
                self.options.path.reports_to_datagrams(to)
            }
            kind => kind.is_hard(),
        };
        if asked || (connected && hard) {
            self.failed(reported, asked, reporter);
        }
    }

    /// An error about a segment of its connection. A program that has asked for errors is
    /// told at once if it lives on, and finds a report if it was not made, as in Linux.
    pub(crate) fn segment_failed(
        &mut self,
        reported: &ReportedError<'_>,
        lives: bool,
        reporter: Reporter<'_>,
    ) {
        let to = reported.error.destination;
        if self.options.datagrams.asks_for_errors(to) {
            self.failed(reported, !lives, reporter);
        }
    }

    /// It lives on, and has a pending error; its report is kept if it is `asked` for.
    fn failed(&mut self, reported: &ReportedError<'_>, asked: bool, reporter: Reporter<'_>) {
        if asked && self.has_block() {
            self.errors
                .put(reported.report(), reported.quoted(), reporter.counters);
        }
        let errno = reported.error.kind.errno();
        self.set_pending_error(errno, reporter.sessions, reporter.now);
    }

    fn set_pending_error(&mut self, errno: u16, sessions: &mut Sessions, now: Instant) {
        if !self.has_block() {
            return;
        }
        let mut edges = self.kind.edges();
        edges.flags |= EdgeFlags::SOFT_ERROR;
        self.note_reported(now);
        let kept = self.errors.len();
        if let Some(s) = sessions.get_mut(self.session) {
            s.host.blocks().set_error(self.id, errno.into(), kept);
            self.put_edges(&mut s.host, edges);
        }
    }

    /// Puts the oldest report into the mailbox of `channel`; says how long it is, 0 if
    /// there is none. The next one is the pending error then if it came by ICMP, as in Linux.
    pub(crate) fn take_error(
        &mut self,
        channel: u16,
        sessions: &Sessions,
    ) -> Result<usize, RequestError> {
        let session = sessions.get(self.session);
        let host = &session.ok_or(RequestError::NoSocket)?.host;
        let Some(Kept {
            report,
            len,
            payload,
        }) = self.errors.take_oldest()
        else {
            let Some(report) = self.take_sent_stamp() else {
                return Ok(0);
            };
            host.blocks().set_error_reports(self.id, self.errors.len());
            return Ok(host.write_mailbox(channel, &report.encode()));
        };
        let mut bytes = [0; ERROR_HEADER + ERROR_PAYLOAD];
        bytes[..ERROR_HEADER].copy_from_slice(&report.encode());
        bytes[ERROR_HEADER..].copy_from_slice(&payload);
        if self.has_block() {
            let of_icmp = |next: &&ErrorReport| next.offender.is_some();
            let (next, kept) = (self.errors.oldest().filter(of_icmp), self.errors.len());
            match next.map(|next| next.errno) {
                None if report.offender.is_none() => host.blocks().set_error_reports(self.id, kept),
                errno => host
                    .blocks()
                    .set_error(self.id, errno.unwrap_or(0).into(), kept),
            }
        }
        let bytes = part(&bytes, 0..ERROR_HEADER + usize::from(len));
        Ok(host.write_mailbox(channel, bytes))
    }

    /// The program does not ask for errors any more: those that are kept are gone.
    pub(crate) fn forget_errors(&mut self, sessions: &Sessions) {
        if self.errors.forget()
            && self.has_block()
            && let Some(s) = sessions.get(self.session)
        {
            // What else there is to tell stays.
            s.host
                .blocks()
                .set_error_reports(self.id, self.errors.len());
        }
    }
}
