//! What a program wants to know of a socket, as the answer that goes to its channel's mailbox.
//!
//! Owns [`Reader`], which borrows what it reads; `requests` asks it at the end of a turn.

use crate::link::Link;
use crate::request_error::RequestError;
use crate::socket::{Kind, Socket};
use crate::sockets::Sockets;
use longshore_hostif::{Query, SendQueue};
use longshore_tcp::Instant;

/// Reads how a socket stands.
pub(super) struct Reader<'a> {
    pub(super) sockets: &'a Sockets,
    pub(super) link: &'a Link,
    pub(super) now: Instant,
}

impl Reader<'_> {
    /// What is answered to this query of a socket. Nothing is to a query for errors: those are
    /// taken out of the socket.
    pub(super) fn answer(&self, key: u32, query: Query) -> Result<Vec<u8>, RequestError> {
        let socket = self.sockets.get(key).ok_or(RequestError::NoSocket)?;
        match query {
            Query::TcpInfo => self.tcp_info(socket),
            Query::SendQueue => Ok(send_queue(socket)),
            Query::PathMtu => Ok(self.path_mtu(socket)),
            Query::Congestion => Ok(socket.options.tcp.congestion.name().into()),
            Query::Error => Ok(Vec::new()),
        }
    }

    fn path_mtu(&self, socket: &Socket) -> Vec<u8> {
        let peer = match &socket.kind {
            Kind::Datagram(d) => d.peer,
            _ => None,
        };
        let mtu = peer.map(|peer| self.link.mtu_to(peer.ip().to_canonical(), self.now));
        mtu.map_or_else(Vec::new, |mtu| (mtu as u32).to_ne_bytes().into())
    }

    fn tcp_info(&self, socket: &Socket) -> Result<Vec<u8>, RequestError> {
        Ok(match &socket.kind {
            Kind::Stream(c) => crate::info::linux_tcp_info(&c.tcb.info(self.now)),
            Kind::Pair(p) => {
                let other = self.sockets.get(p.other).and_then(|s| match &s.kind {
                    Kind::Pair(q) => Some((q, &s.options)),
                    _ => None,
                });
                crate::info::of_pair(p, &socket.options, other)
            }
            Kind::Listener(_) | Kind::Idle(_) => crate::info::without_connection(&socket.kind),
            Kind::Datagram(_) => return Err(RequestError::Invalid),
        })
    }
}

fn send_queue(socket: &Socket) -> Vec<u8> {
    let (unacked, unsent) = match &socket.kind {
        Kind::Stream(c) => c.tcb.send_status().queue(),
        // What has crossed is acknowledged.
        Kind::Pair(p) => (p.snd.unmoved(), p.snd.unmoved()),
        Kind::Datagram(d) => (d.snd_edge - d.snd_done, 0),
        Kind::Listener(_) | Kind::Idle(_) => (0, 0),
    };
    SendQueue { unacked, unsent }.encode().into()
}
