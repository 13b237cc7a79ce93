//! Errors about what a socket sent, as its program is told of them, most of which come by ICMP: the
//! pending error, which stands in the socket's block, and a queue of reports for those who ask
//! for it (IP_RECVERR, IPV6_RECVERR).
//!
//! `input` says which socket an error is about, `requests` takes
//! reports out for the host.

use crate::Stack;
use crate::at_work::AtWork;
use crate::bytes::part;
use crate::counters::EngineDrop;
use crate::error_queue::{ErrorQueue, Kept};
use crate::request_error::RequestError;
use crate::socket::{Kind, Socket};
use longshore_hostif::{Address, ERROR_HEADER, ERROR_PAYLOAD, EdgeFlags, ErrorReport};
use longshore_net::icmp::{ErrorKind, IcmpError};
use longshore_wire::ipv4::protocol;
use longshore_wire::udp;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

/// The datagram is longer than may be.
const EMSGSIZE: u16 = 90;

/// An ICMP error with the message that brought it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reported<'a> {
    pub(crate) error: &'a IcmpError,
    /// Who sent the message.
    pub(crate) offender: IpAddr,
    /// What stands behind the message's header.
    pub(crate) data: &'a [u8],
}

impl Reported<'_> {
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
        let told = self.error.told;
        ErrorReport {
            errno: self.error.kind.errno(),
            kind: told.kind,
            code: told.code,
            info: told.info,
            to: SocketAddr::new(self.error.destination, self.error.dst_port),
            offender: Some(self.offender),
        }
    }
}

impl Stack {
    /// A datagram was not sent since it would have had to be cut, which its program
    /// refuses: that is its socket's pending error.
    pub(crate) fn tell_too_long(&mut self, key: u32, to: SocketAddr) {
        self.set_pending_error(key, EMSGSIZE);
        self.report_too_long(key, to.into());
    }

    /// A datagram to `to` was refused since it was too long: who has asked for errors finds a
    /// report of that, and has no pending error. As Linux has it, the report says the port that the
    /// socket is connected to over IPv4, and the one that the datagram was for over IPv6.
    pub(crate) fn report_too_long(&mut self, key: u32, to: Address) {
        let Some(to) = to.get().map(|to| (to.ip().to_canonical(), to.port())) else {
            return;
        };
        let Some(socket) = self.sockets.get_mut(key).filter(|s| s.has_block()) else {
            return;
        };
        let Kind::Datagram(datagrams) = &socket.kind else {
            return;
        };
        if !socket.options.datagrams.asks_for_errors(to.0) {
            return;
        }
        let port = match to {
            (IpAddr::V4(_), _) => datagrams.peer.map_or(0, |peer| peer.port()),
            (IpAddr::V6(_), port) => port,
        };
        let mtu = match socket.options.datagrams.honors_path(to.0) || self.link.is_local(to.0) {
            true => self.link.mtu_to(to.0, self.now),
            false => self.link.link_mtu(to.0),
        };
        let report = ErrorReport {
            errno: EMSGSIZE,
            kind: 0,
            code: 0,
            info: mtu as u32,
            to: SocketAddr::new(to.0, port),
            offender: None,
        };
        self.keep_report(key, report);
    }

    /// Keeps a report that makes no pending error: the socket has an error to tell of all the same.
    fn keep_report(&mut self, key: u32, report: ErrorReport) {
        let Some(socket) = self.sockets.get_mut(key) else {
            return;
        };
        let queue = socket.errors.get_or_insert_with(ErrorQueue::new);
        if !queue.put(report, &[]) {
            self.counters.drop(EngineDrop::ErrorQueueFull);
        }
        let (kept, mut edges) = (socket.kept_errors(), socket.edges());
        edges.flags |= EdgeFlags::SOFT_ERROR;
        socket.note_told(self.now);
        if let Some(s) = self.sessions.get_mut(socket.session) {
            s.host.set_error_reports(socket.id, kept);
            socket.tell(&mut s.host, edges);
        }
    }

    /// An error about a datagram: a connected socket gets it if it will not pass by
    /// itself, and who has asked for errors gets all, as in Linux.
    pub(crate) fn datagram_error(&mut self, key: u32, reported: &Reported<'_>) {
        self.sessions.at_work = AtWork::Socket(key);
        let Some(socket) = self.sockets.get(key) else {
            return;
        };
        let connected = matches!(&socket.kind, Kind::Datagram(d) if d.peer.is_some());
        let asked = socket
            .options
            .datagrams
            .asks_for_errors(reported.error.destination);
        let hard = match reported.error.kind {
            ErrorKind::FragmentationNeeded { .. } => socket
                .options
                .datagrams
                .reports_path(reported.error.destination),
            kind => kind.is_hard(),
        };
        if asked || (connected && hard) {
            self.socket_failed(key, reported, asked);
        }
    }

    /// An error about a segment of a connection. A program that has asked for errors is
    /// told at once if it lives on, and finds a report if it was not made, as in Linux.
    pub(crate) fn connection_error(&mut self, key: u32, reported: &Reported<'_>, lives: bool) {
        self.sessions.at_work = AtWork::Socket(key);
        let to = reported.error.destination;
        let asks = |s: &Socket| s.options.datagrams.asks_for_errors(to);
        if self.sockets.get(key).is_some_and(asks) {
            self.socket_failed(key, reported, !lives);
        }
    }

    /// A socket that lives on has a pending error; its report is kept if it is `asked`
    /// for.
    pub(crate) fn socket_failed(&mut self, key: u32, reported: &Reported<'_>, asked: bool) {
        let Some(socket) = self.sockets.get_mut(key).filter(|s| s.has_block()) else {
            return;
        };
        if asked {
            let queue = socket.errors.get_or_insert_with(ErrorQueue::new);
            if !queue.put(reported.report(), reported.quoted()) {
                self.counters.drop(EngineDrop::ErrorQueueFull);
            }
        }
        self.set_pending_error(key, reported.error.kind.errno());
    }

    fn set_pending_error(&mut self, key: u32, errno: u16) {
        let Some(socket) = self.sockets.get_mut(key).filter(|s| s.has_block()) else {
            return;
        };
        let mut edges = socket.edges();
        edges.flags |= EdgeFlags::SOFT_ERROR;
        socket.note_told(self.now);
        let kept = socket.kept_errors();
        if let Some(s) = self.sessions.get_mut(socket.session) {
            s.host.set_error(socket.id, errno.into(), kept);
            socket.tell(&mut s.host, edges);
        }
    }

    /// Puts the oldest report into the mailbox of `channel`; says how long it is, 0 if
    /// there is none. The next one is the pending error then if it came by ICMP, as in Linux.
    pub(crate) fn take_error(&mut self, channel: u16, key: u32) -> Result<usize, RequestError> {
        let socket = self.sockets.get_mut(key).ok_or(RequestError::NoSocket)?;
        let session = self.sessions.get(socket.session);
        let host = &session.ok_or(RequestError::NoSocket)?.host;
        let queue = socket.errors.as_mut().map(|queue| &mut queue.reports);
        let Some(Kept {
            report,
            len,
            payload,
        }) = queue.and_then(VecDeque::pop_front)
        else {
            return Ok(0);
        };
        let mut bytes = [0; ERROR_HEADER + ERROR_PAYLOAD];
        bytes[..ERROR_HEADER].copy_from_slice(&report.encode());
        bytes[ERROR_HEADER..].copy_from_slice(&payload);
        if socket.has_block() {
            let of_icmp = |kept: &&Kept| kept.report.offender.is_some();
            let next = socket.errors.as_ref().and_then(|q| q.reports.front());
            let (next, kept) = (next.filter(of_icmp), socket.kept_errors());
            match next.map(|next| next.report.errno) {
                None if report.offender.is_none() => host.set_error_reports(socket.id, kept),
                errno => host.set_error(socket.id, errno.unwrap_or(0).into(), kept),
            }
        }
        let bytes = part(&bytes, 0..ERROR_HEADER + usize::from(len));
        Ok(host.write_mailbox(channel, bytes))
    }

    /// The program does not ask for errors any more: those that are kept are gone.
    pub(crate) fn forget_errors(&mut self, key: u32) {
        let Some(socket) = self.sockets.get_mut(key) else {
            return;
        };
        if socket.errors.take().is_some()
            && socket.has_block()
            && let Some(s) = self.sessions.get(socket.session)
        {
            s.host.forget_error_reports(socket.id.index);
        }
    }
}

impl Socket {
    pub(crate) fn kept_errors(&self) -> u32 {
        self.errors.as_ref().map_or(0, |q| q.reports.len() as u32)
    }
}
