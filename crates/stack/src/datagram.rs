//! UDP sockets: what they are bound to, and how they are found. What comes for them is
//! `udp_input`'s, and [`outgoing`] has how each datagram leaves.
//!
//! Owns [`DatagramOutput`]; `flush` calls it for each UDP socket that a turn has touched.

mod left;
mod outgoing;

use outgoing::DatagramSender;

use crate::at_work::AtWork;
use crate::counters::{Counters, EngineDrop};
use crate::demux::{Demux, Ports};
use crate::endpoints::Endpoints;
use crate::link::Link;
use crate::sessions::Sessions;
use crate::settings::Settings;
use crate::socket::{Kind, Socket};
use crate::sockets::Sockets;
use crate::turns::DATAGRAM;
use longshore_tcp::Instant;
use std::net::SocketAddr;

/// Datagrams that one socket may send in one turn.
const DATAGRAMS_A_TURN: u32 = 64;

impl Sockets {
    /// The UDP socket that has what comes from `remote` to `local`.
    pub(crate) fn datagram_at(
        &self,
        demux: &Demux,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> Option<u32> {
        let spread = || demux.hash((local, remote));
        let key = demux.udp.find_datagram(local, remote, spread)?;
        let is_datagram = matches!(self.get(key)?.kind, Kind::Datagram(_));
        is_datagram.then_some(key)
    }
}

/// Sends what hosts have written to UDP sockets, and tells them of what has come.
pub(crate) struct DatagramOutput<'a> {
    pub(crate) endpoints: &'a mut Endpoints,
    pub(crate) link: &'a mut Link,
    pub(crate) settings: &'a Settings,
    pub(crate) counters: &'a mut Counters,
    pub(crate) now: Instant,
}

impl DatagramOutput<'_> {
    /// Sends what the host of a socket has written, as much of it as goes in one turn, and tells it
    /// of what has come. Whether the socket is to be forgotten: no process holds it, and nothing of
    /// it is left to be sent.
    pub(crate) fn flush(&mut self, key: u32) -> bool {
        let now = self.now;
        let Some(socket) = self.endpoints.sockets.get_mut(key) else {
            return false;
        };
        let mut sender = DatagramSender {
            link: self.link,
            counters: self.counters,
            settings: self.settings,
            now,
        };
        sender.send_some(
            key,
            socket,
            &mut self.endpoints.sessions,
            &mut self.endpoints.demux.udp,
        );
        let edges = socket.kind.edges();
        let (orphan, quarter) = (socket.orphan, u64::from(socket.options.send_buffer / 4));
        let Kind::Datagram(d) = &mut socket.kind else {
            return false;
        };
        let more = d.snd_done < d.snd_edge;
        if orphan && !more {
            return true;
        }
        let unsaid = edges.snd_acked - d.reported.snd_acked;
        if edges.rcv_edge > d.reported.rcv_edge || unsaid >= quarter {
            socket.note_reported(now);
            if let Some(s) = self.endpoints.sessions.get_mut(socket.session) {
                socket.put_edges(&mut s.host, edges);
            }
        }
        self.endpoints.sockets.arm_quiet_datagram(key, now);
        if more {
            self.endpoints.sockets.have_datagrams = true;
            self.endpoints.sockets.have_more_to_pass |= !self.link.output.own.is_empty();
            self.endpoints.sockets.touch(key);
        }
        false
    }

    /// Sends of all sockets that have something to send, ahead of the turn's end. Those that are
    /// done with are forgotten then.
    pub(crate) fn flush_ahead(&mut self) {
        if !std::mem::take(&mut self.endpoints.sockets.have_datagrams) {
            return;
        }
        for i in 0..self.endpoints.sockets.dirty.len() {
            let key = self.endpoints.sockets.dirty.get(i).copied();
            let sender = key.filter(|key| {
                let kind = self.endpoints.sockets.get(*key).map(|s| &s.kind);
                matches!(kind, Some(Kind::Datagram(d)) if d.snd_done < d.snd_edge)
            });
            if let Some(key) = sender {
                self.endpoints.sessions.at_work = AtWork::Socket(key);
                let _ = self.flush(key);
            }
        }
    }
}

impl DatagramSender<'_> {
    /// Sends what a socket's stream has, [`DATAGRAMS_A_TURN`] datagrams at most.
    fn send_some(
        &mut self,
        key: u32,
        socket: &mut Socket,
        sessions: &mut Sessions,
        ports: &mut Ports,
    ) {
        let mut sent = 0;
        while sent < DATAGRAMS_A_TURN {
            match self.send_next(key, socket, sessions, ports) {
                Some(0) => break,
                Some(n) => {
                    sent += n;
                    self.counters.datagrams.output += u64::from(n * DATAGRAM);
                }
                None => {
                    // The stream makes no sense: nothing of it is sent any more.
                    self.counters.drop(EngineDrop::BadStream);
                    if let Kind::Datagram(d) = &mut socket.kind {
                        d.snd_done = d.snd_edge;
                    }
                    break;
                }
            }
        }
    }
}
