//! SYN cookies: the engine's half of `tcp`'s `SynCookie`, for listeners whose queue of
//! half-open connections is full.
//!
//! Called by `passive`. A SYN that is answered by a cookie leaves nothing behind; the
//! acknowledgment that brings the cookie back makes the connection.

use crate::address_pair::Sides;
use crate::demux::Demux;
use crate::handshake::{Advanced, Handshakes};
use crate::responder::Responder;
use crate::responder::Response;
use crate::socket::{Kind, Options};
use longshore_tcp::{DropReason, Segment, SynCookie};
use longshore_wire::tcp::TcpHeader;

impl Responder<'_> {
    /// Answers a SYN by a cookie.
    pub(crate) fn answer_with_cookie(
        &mut self,
        demux: &Demux,
        (local, remote): Sides,
        options: &Options,
        segment: &Segment<'_>,
    ) {
        if !self.may_answer() {
            return;
        }
        let (now, mss) = (self.now, self.link.mss_to(remote.ip(), self.now));
        let offset = demux.timestamp_offset(local, remote);
        let hash = |numbers: [u32; 2]| demux.hash(("cookie", local, remote, numbers));
        let answer = SynCookie::answer(&options.tcp_to(remote), segment, mss, offset, &hash, now);
        if let Some(syn_ack) = answer {
            self.counters.tcp.cookies_sent += 1;
            let header = syn_ack.header(local.port(), remote.port());
            self.send_bare(local, remote, &header);
        }
    }
}

impl Handshakes<'_> {
    /// An acknowledgment has come that may carry a cookie; `reset` answers it if it does
    /// not. If it does, and completes the handshake, it makes the connection at once: there
    /// was no SYN-ACK to be retransmitted, so that nothing is deferred (TCP_DEFER_ACCEPT),
    /// as in Linux.
    pub(crate) fn check_cookie(
        &mut self,
        listener: u32,
        (local, remote): Sides,
        segment: &Segment<'_>,
        reset: &TcpHeader,
    ) -> Advanced {
        let now = self.responder.now;
        let hash = |numbers: [u32; 2]| {
            self.endpoints
                .demux
                .hash(("cookie", local, remote, numbers))
        };
        let Some(cookie) = SynCookie::check(segment, &hash, now) else {
            self.responder.counters.drop_tcp(DropReason::BadCookie);
            self.responder.send_reset(local, remote, reset);
            return Advanced::Remains(Response::Nothing);
        };
        let Some(socket) = self.endpoints.sockets.get(listener) else {
            return Advanced::Remains(Response::Nothing);
        };
        let (options, session) = (socket.options, socket.session);
        let Kind::Listener(l) = &socket.kind else {
            return Advanced::Remains(Response::Nothing);
        };
        if !l.listener.may_establish() {
            let resets = l.listener.aborts_on_overflow();
            self.responder
                .counters
                .drop_tcp(DropReason::AcceptQueueFull);
            if resets {
                self.responder.send_reset(local, remote, reset);
            }
            return Advanced::Remains(Response::Nothing);
        }
        if !self
            .endpoints
            .sessions
            .has_room_to_accept(session, self.responder.counters)
        {
            return Advanced::Remains(Response::Nothing);
        }
        let mss = self.responder.link.mss_to(remote.ip(), self.responder.now);
        let offset = self.endpoints.demux.timestamp_offset(local, remote);
        let mut tcb = cookie.open(&options.tcp_to(remote), mss, offset, now);
        let disposition = tcb.on_segment(segment, now);
        if !tcb.state().is_synchronized() {
            // Nothing is kept: the peer's next acknowledgment has the cookie, too.
            if let Some(reason) = disposition.drop {
                self.responder.counters.drop_tcp(reason);
            }
            return Advanced::Remains(Response::of(&disposition));
        }
        self.responder.counters.tcp.cookies_taken += 1;
        let share = self
            .endpoints
            .sessions
            .take_socket_share(session, self.responder.counters)
            .flatten();
        let made = self.enter_connection(listener, options, (local, remote), share, tcb);
        Advanced::Complete(made, disposition)
    }
}
