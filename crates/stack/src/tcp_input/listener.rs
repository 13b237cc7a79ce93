//! Segments that no connection takes: what a listener makes of them, and the connection that the
//! last one of a handshake completes.

use super::TcpInput;
use crate::access::Transport;
use crate::at_work::AtWork;
use crate::counters::EngineDrop;
use crate::responder::Response;
use crate::socket::Kind;
use longshore_tcp::{Disposition, DropReason, ListenVerdict, Segment, reset_for};
use longshore_wire::SeqNumber;
use longshore_wire::tcp::TcpFlags;
use std::net::SocketAddr;

impl TcpInput<'_> {
    /// A segment that no connection takes goes to the listener at its address; where there
    /// is none, a reset answers it. `iss_after`: the SYN follows a connection of the same
    /// addresses, whose sequence numbers ended there (RFC 6191).
    pub(super) fn segment_for_listener(
        &mut self,
        (local, remote): (SocketAddr, SocketAddr),
        segment: &Segment<'_>,
        payload: &[u8],
        iss_after: Option<SeqNumber>,
    ) {
        let is_syn = segment.header.flags & (TcpFlags::SYN | TcpFlags::ACK) == TcpFlags::SYN;
        if is_syn {
            self.responder.limits.syn_came();
        }
        let spread = self.endpoints.demux.hash((local, remote));
        let found = self.endpoints.demux.tcp.find_listener(local, spread);
        self.endpoints.sessions.at_work = found.map_or(AtWork::Nobodys, AtWork::Socket);
        let Some((key, socket)) =
            found.and_then(|key| Some((key, self.endpoints.sockets.get_mut(key)?)))
        else {
            self.responder.counters.drop_tcp(DropReason::NoConnection);
            if let Some(reset) = reset_for(segment)
                && self.responder.send_reset(local, remote, &reset)
                && is_syn
            {
                self.responder.limits.syn_served();
            }
            return;
        };
        let Kind::Listener(l) = &mut socket.kind else {
            return;
        };
        if !self
            .settings
            .access
            .may_accept(Transport::Tcp, remote.ip(), local.port())
        {
            return self.responder.counters.drop(EngineDrop::AccessDenied);
        }
        match l.listener.on_segment(segment, self.responder.now) {
            ListenVerdict::Drop(reason) => self.responder.counters.drop_tcp(reason),
            ListenVerdict::Reset(reset) => {
                self.responder.counters.drop_tcp(DropReason::ListenNoSyn);
                self.responder.send_reset(local, remote, &reset);
            }
            ListenVerdict::AnswerWithCookie => {
                let options = socket.options;
                let sides = (local, remote);
                self.responder
                    .answer_with_cookie(&self.endpoints.demux, sides, &options, segment);
            }
            ListenVerdict::CheckCookie(_) | ListenVerdict::Accept
                if self
                    .endpoints
                    .sessions
                    .account_of(socket.session)
                    .is_some_and(|account| account.is_out_of_sockets()) =>
            {
                self.responder.counters.drop(EngineDrop::UserSockets);
            }
            ListenVerdict::CheckCookie(reset) => {
                let sides = (local, remote);
                let mut handshakes = self.handshakes();
                let advanced = handshakes.check_cookie(key, sides, segment, &reset);
                let response = self.take_advanced(advanced, payload);
                self.respond(response, local, remote, segment, payload);
            }
            ListenVerdict::Accept => {
                // The keys of Fast Open's cookies are the host's.
                let (sides, host) = ((local, remote), &*self.settings.host);
                let mut handshakes = self.handshakes();
                let made = handshakes.accept_syn(key, sides, segment, iss_after, host);
                if let Some(made) = made {
                    self.open_fast(made, key, segment, payload);
                }
            }
        }
    }

    /// A connection has been made for a SYN whose cookie is right.
    fn open_fast(&mut self, key: u32, listener: u32, segment: &Segment<'_>, payload: &[u8]) {
        let now = self.responder.now;
        let Some(c) = self.endpoints.sockets.connection_mut(key) else {
            return;
        };
        c.fast_open_of = Some(listener);
        let disposition = c.tcb.syn_data().accept(segment, now);
        self.responder.counters.tcp.fast_opens += 1;
        self.admission().established(key);
        if let Some(place) = disposition.place
            && let Some(bytes) = payload.get(..place.len as usize)
        {
            self.place(key, place.stream_offset, bytes);
        }
    }

    /// The segment that ends a handshake was handled: its connection is handed over, and
    /// what else it asks for is done.
    pub(super) fn handshake_done(
        &mut self,
        key: u32,
        disposition: &Disposition,
        payload: &[u8],
    ) -> Response {
        self.endpoints.sessions.at_work = AtWork::Socket(key);
        self.responder.counters.prediction.missed_data += u64::from(!payload.is_empty());
        if let Some(reason) = disposition.drop {
            self.responder.counters.drop_tcp(reason);
        }
        self.admission().established(key);
        self.finish_segment(key, disposition, payload)
    }
}
