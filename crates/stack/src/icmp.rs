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
use crate::socket::{ReportedError, Reporter};
use longshore_net::icmp::{ErrorKind, IcmpError};
use longshore_tcp::IcmpError as TcpIcmp;
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
        let local = SocketAddr::new(error.source, error.src_port);
        let remote = SocketAddr::new(error.destination, error.dst_port);
        if !self
            .handshakes
            .responder
            .link
            .addresses
            .contains(error.source)
        {
            return false;
        }
        if let ErrorKind::FragmentationNeeded { mtu } = error.kind {
            return self.path_mtu_reported(reported, mtu, local, remote);
        }
        match error.protocol {
            protocol::TCP => {
                let kind = tcp_error_of(error.kind);
                if let Some((key, seq)) = self.handshakes.endpoints.half_open.in_flight(
                    &self.handshakes.endpoints.demux,
                    (local, remote),
                    error.tcp_seq,
                ) {
                    self.handshakes.error_for_half_open(key, kind, seq);
                    return true;
                }
                if let (Some(key), Some(seq)) = (
                    self.handshakes.endpoints.demux.connection_of(local, remote),
                    error.tcp_seq,
                ) && let Some(c) = self.handshakes.endpoints.sockets.connection_mut(key)
                    && c.tcb.send_status().is_in_flight(seq)
                {
                    c.tcb.on_icmp(kind, seq);
                    let alive = c.tcb.state().is_synchronized();
                    self.handshakes.endpoints.sockets.touch(key);
                    self.report_error(key, |socket, reporter| {
                        socket.segment_failed(reported, alive, reporter);
                    });
                    return true;
                }
                false
            }
            protocol::UDP => {
                let key = self.handshakes.endpoints.sockets.datagram_at(
                    &self.handshakes.endpoints.demux,
                    local,
                    remote,
                );
                if let Some(key) = key {
                    self.report_error(key, |socket, reporter| {
                        socket.datagram_failed(reported, reporter)
                    });
                }
                key.is_some()
            }
            _ => false,
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

    /// RFC 1191: the path takes less than we sent. Believed only for a connection that has
    /// the quoted segment in flight, and for a socket that may have sent the datagram;
    /// whether it is.
    fn path_mtu_reported(
        &mut self,
        reported: &ReportedError<'_>,
        mtu: u16,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> bool {
        let error = reported.error;
        let mut datagrams = None;
        let mut half_open = None;
        let key = match error.protocol {
            protocol::TCP => {
                let key = self.handshakes.endpoints.demux.connection_of(local, remote);
                let quoted = key
                    .and_then(|key| self.handshakes.endpoints.sockets.connection_mut(key))
                    .zip(error.tcp_seq);
                let is_quoted =
                    quoted.is_some_and(|(c, seq)| c.tcb.send_status().is_in_flight(seq));
                half_open = self.handshakes.endpoints.half_open.in_flight(
                    &self.handshakes.endpoints.demux,
                    (local, remote),
                    error.tcp_seq,
                );
                if !is_quoted && half_open.is_none() {
                    return false;
                }
                key
            }
            protocol::UDP => {
                datagrams = self.handshakes.endpoints.sockets.datagram_at(
                    &self.handshakes.endpoints.demux,
                    local,
                    remote,
                );
                if datagrams.is_none() {
                    return false;
                }
                None
            }
            _ => return false,
        };
        let (now, to) = (self.handshakes.responder.now, error.destination);
        let present = self.handshakes.responder.link.mtu_to(to, now);
        let had_none = self.handshakes.responder.link.pmtu.is_empty();
        let reduced = self.handshakes.responder.link.pmtu.reduce(
            to,
            mtu,
            error.original_len,
            present,
            net_time(now),
        );
        // They know no more than that there are any.
        if had_none && reduced.is_some() {
            self.handshakes
                .endpoints
                .sessions
                .path_mtu_changed(self.handshakes.responder.link);
        }
        let headers = crate::address_pair::headers_of_segment(error.destination) as u16;
        let mss = reduced.map(|mtu| mtu.saturating_sub(headers));
        if let (Some(mss), Some(key)) = (mss, key)
            && let Some(c) = self.handshakes.endpoints.sockets.connection_mut(key)
        {
            c.tcb.segment_size().set_path_mss(mss);
            self.handshakes.endpoints.sockets.touch(key);
        }
        if let (Some(mss), Some((key, _))) = (mss, half_open) {
            self.handshakes.set_path_of_half_open(key, mss);
        }
        if let Some(key) = datagrams {
            self.report_error(key, |socket, reporter| {
                socket.datagram_failed(reported, reporter)
            });
        }
        true
    }
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
