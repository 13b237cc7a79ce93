//! ICMP errors about what we sent.
//!
//! Owns [`IcmpErrors`]: how an error finds its connection, half-open connection or datagram
//! socket, and what makes one believed; `errors` tells their programs. `input` and `input6` bring
//! what errors of their versions say.

use crate::at_work::AtWork;
use crate::counters::EngineDrop;
use crate::handshake::Handshakes;
use crate::link::net_time;
use crate::socket::Socket;
use crate::socket::{OnNarrowPath, ReportedError, Reporter};
use longshore_net::icmp::{ErrorKind, IcmpError};
use longshore_tcp::IcmpError as TcpIcmp;
use longshore_wire::SeqNumber;
use longshore_wire::ipv4::protocol;
use std::net::{IpAddr, SocketAddr};

/// Finds whom an ICMP error is about, and tells them: borrows the half-open connections with all
/// that their handshakes need, which is what others need, too.
pub(crate) struct IcmpErrors<'a> {
    pub(crate) handshakes: Handshakes<'a>,
}

impl IcmpErrors<'_> {
    /// An ICMP error from `offender`, with what stands behind its header. A sender that does not
    /// know what we sent is not believed (RFC 5927 section 4.1).
    pub(crate) fn icmp_error(&mut self, error: Option<&IcmpError>, offender: IpAddr, data: &[u8]) {
        let reported = error.map(|error| ReportedError {
            error,
            offender,
            data,
        });
        if !reported.is_some_and(|reported| self.is_about_ours(&reported)) {
            self.handshakes
                .responder
                .counters
                .drop(EngineDrop::IcmpAboutNothing);
        }
    }

    /// Tells whom an error is about; whether it is about something that we sent.
    fn is_about_ours(&mut self, reported: &ReportedError<'_>) -> bool {
        let error = reported.error;
        let addresses = &self.handshakes.responder.link.addresses;
        if !addresses.contains(error.source) {
            return false;
        }
        let Some(sender) = self.sender_of(error) else {
            return false;
        };
        if let ErrorKind::FragmentationNeeded { mtu } = error.kind {
            self.path_mtu_reported(reported, mtu, sender);
            return true;
        }
        let kind = tcp_error_of(error.kind);
        match sender {
            Sender::HalfOpen(key, seq) => self.handshakes.error_for_half_open(key, kind, seq),
            Sender::Connection(key, seq) => {
                let Some(c) = self.handshakes.endpoints.sockets.connection_mut(key) else {
                    return false;
                };
                c.tcb.on_icmp(kind, seq);
                let alive = c.tcb.state().is_synchronized();
                self.handshakes.endpoints.sockets.touch(key);
                self.report_error(key, |socket, reporter| {
                    socket.segment_failed(reported, alive, reporter);
                });
            }
            Sender::Datagrams(key) => self.report_error(key, |socket, reporter| {
                socket.datagram_failed(reported, reporter)
            }),
        }
        true
    }

    /// Who has sent what an error quotes: a connection that has the segment in flight, or a socket
    /// that may have sent the datagram.
    fn sender_of(&mut self, error: &IcmpError) -> Option<Sender> {
        let local = SocketAddr::new(error.source, error.src_port);
        let remote = SocketAddr::new(error.destination, error.dst_port);
        let endpoints = &mut *self.handshakes.endpoints;
        let demux = &endpoints.demux;
        match error.protocol {
            protocol::TCP => {
                let sides = (local, remote);
                if let Some((key, seq)) = endpoints.half_open.in_flight(demux, sides, error.tcp_seq)
                {
                    return Some(Sender::HalfOpen(key, seq));
                }
                let (key, seq) = (demux.connection_of(local, remote)?, error.tcp_seq?);
                let c = endpoints.sockets.connection_mut(key)?;
                let is_quoted = c.tcb.send_status().is_in_flight(seq);
                is_quoted.then_some(Sender::Connection(key, seq))
            }
            protocol::UDP => {
                let key = endpoints.sockets.datagram_at(demux, local, remote);
                key.map(Sender::Datagrams)
            }
            _ => None,
        }
    }

    /// Has a socket tell its program of an error, which is the work of its session.
    fn report_error(&mut self, key: u32, report: impl FnOnce(&mut Socket, Reporter<'_>)) {
        self.handshakes.endpoints.sessions.at_work = AtWork::Socket(key);
        if let Some(socket) = self.handshakes.endpoints.sockets.get_mut(key) {
            let reporter = Reporter {
                sessions: &mut self.handshakes.endpoints.sessions,
                counters: self.handshakes.responder.counters,
                now: self.handshakes.responder.now,
            };
            report(socket, reporter);
        }
    }

    /// What a sender does as the path to `to` takes less than it has sent.
    fn reaction_of(&mut self, sender: Sender, to: IpAddr) -> OnNarrowPath {
        let socket = match sender {
            Sender::Connection(key, _) => self.handshakes.endpoints.sockets.get_mut(key),
            Sender::HalfOpen(..) | Sender::Datagrams(_) => None,
        };
        socket.map_or(OnNarrowPath::SendAgain, |socket| {
            socket.options.path.on_narrow_path(to)
        })
    }

    /// RFC 1191: the path takes less than we sent.
    fn path_mtu_reported(&mut self, reported: &ReportedError<'_>, mtu: u16, sender: Sender) {
        let error = reported.error;
        let (now, to) = (self.handshakes.responder.now, error.destination);
        let reaction = self.reaction_of(sender, to);
        if reaction == OnNarrowPath::Nothing {
            return;
        }
        let link = &mut *self.handshakes.responder.link;
        let present = link.mtu_to(to, now);
        let had_none = link.pmtu.is_empty();
        let len = error.original_len;
        let reduced = link.pmtu.reduce(to, mtu, len, present, net_time(now));
        // They know no more than that there are any.
        if had_none && reduced.is_some() {
            self.handshakes.endpoints.sessions.path_mtu_changed(link);
        }
        let headers = crate::address_pair::headers_of_segment(to) as u16;
        let mss = reduced.map(|mtu| mtu.saturating_sub(headers));
        match (sender, mss) {
            (Sender::Connection(key, _), Some(mss)) => {
                let sockets = &mut self.handshakes.endpoints.sockets;
                if let Some(c) = sockets.connection_mut(key) {
                    match reaction {
                        OnNarrowPath::SendAgain => c.tcb.segment_size().set_path_mss(mss),
                        _ => c.tcb.segment_size().note_path_mss(mss),
                    }
                    sockets.touch(key);
                }
            }
            (Sender::HalfOpen(key, _), Some(mss)) => {
                self.handshakes.set_path_of_half_open(key, mss);
            }
            (Sender::Datagrams(key), _) => self.report_error(key, |socket, reporter| {
                socket.datagram_failed(reported, reporter)
            }),
            (_, None) => {}
        }
    }
}

/// Who has sent what an error quotes, by key; of a segment, with the sequence number that is quoted.
#[derive(Debug, Clone, Copy)]
enum Sender {
    Connection(u32, SeqNumber),
    HalfOpen(u32, SeqNumber),
    Datagrams(u32),
}

/// What an ICMP error is to a connection: each has the errno that Linux gives for it.
fn tcp_error_of(kind: ErrorKind) -> TcpIcmp {
    match kind {
        ErrorKind::NetUnreachable | ErrorKind::NetUnknown | ErrorKind::NetProhibited => {
            TcpIcmp::NetUnreachable
        }
        ErrorKind::PortUnreachable => TcpIcmp::PortUnreachable,
        ErrorKind::ProtocolUnreachable => TcpIcmp::ProtocolUnreachable,
        ErrorKind::ParameterProblem | ErrorKind::NextHeaderUnknown => TcpIcmp::NotUnderstood,
        ErrorKind::SourceRouteFailed => TcpIcmp::SourceRouteFailed,
        ErrorKind::HostUnknown => TcpIcmp::HostUnknown,
        ErrorKind::HostIsolated => TcpIcmp::HostIsolated,
        ErrorKind::Prohibited => TcpIcmp::Prohibited,
        ErrorKind::HostUnreachable
        | ErrorKind::HostProhibited
        | ErrorKind::FragmentationNeeded { .. }
        | ErrorKind::TimeExceeded
        | ErrorKind::ReassemblyTimeExceeded => TcpIcmp::HostUnreachable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_and_a_datagram_socket_get_the_same_errno() {
        for kind in [
            ErrorKind::NetUnreachable,
            ErrorKind::HostUnreachable,
            ErrorKind::ProtocolUnreachable,
            ErrorKind::PortUnreachable,
            ErrorKind::SourceRouteFailed,
            ErrorKind::NetUnknown,
            ErrorKind::HostUnknown,
            ErrorKind::HostIsolated,
            ErrorKind::NetProhibited,
            ErrorKind::HostProhibited,
            ErrorKind::Prohibited,
            ErrorKind::TimeExceeded,
            ErrorKind::ReassemblyTimeExceeded,
            ErrorKind::ParameterProblem,
            ErrorKind::NextHeaderUnknown,
        ] {
            assert_eq!(tcp_error_of(kind).error().errno(), kind.errno(), "{kind:?}");
        }
    }
}
