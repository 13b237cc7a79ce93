//! SYN cookies: the engine's half of `tcp`'s `SynCookie`, for listeners whose queue of
//! half-open connections is full.
//!
//! Called by `passive`. A SYN that is answered by a cookie leaves nothing behind; what
//! comes back becomes a half-open connection, and is established by the same
//! acknowledgment.

use crate::Stack;
use crate::socket::{Kind, Options};
use longshore_tcp::{DropReason, Segment, SynCookie};
use longshore_wire::tcp::TcpHeader;
use std::net::SocketAddr;

/// A connection's two ends, ours first.
pub(crate) type Sides = (SocketAddr, SocketAddr);

impl Stack {
    /// Answers a SYN by a cookie.
    pub(crate) fn answer_with_cookie(
        &mut self,
        (local, remote): Sides,
        options: &Options,
        segment: &Segment<'_>,
    ) {
        if !self.may_answer_unsolicited() {
            return;
        }
        let (now, mss) = (self.now, self.mss_to(remote));
        let offset = self.timestamp_offset(local, remote);
        let hash = |numbers: [u32; 2]| self.demux.hash(("cookie", local, remote, numbers));
        let answer = SynCookie::answer(&options.tcp_to(remote), segment, mss, offset, &hash, now);
        if let Some(syn_ack) = answer {
            self.counters.cookies_sent += 1;
            let header = syn_ack.header(local.port(), remote.port());
            self.send_bare(local, remote, &header);
        }
    }

    /// An acknowledgment has come that may carry a cookie; `reset` answers it if it does
    /// not. Gives the half-open connection that it is for, or nothing if that must not
    /// be established now.
    pub(crate) fn check_cookie(
        &mut self,
        listener: u32,
        (local, remote): Sides,
        segment: &Segment<'_>,
        reset: &TcpHeader,
    ) -> Option<u32> {
        let now = self.now;
        let hash = |numbers: [u32; 2]| self.demux.hash(("cookie", local, remote, numbers));
        let Some(cookie) = SynCookie::check(segment, &hash, now) else {
            self.counters.drop_tcp(DropReason::BadCookie);
            self.send_reset(local, remote, reset);
            return None;
        };
        let socket = self.sockets.get_mut(listener)?;
        let (options, session) = (socket.options, socket.session);
        let Kind::Listener(l) = &mut socket.kind else {
            return None;
        };
        if !l.listener.may_establish() {
            self.counters.drop_tcp(DropReason::AcceptQueueFull);
            if l.listener.aborts_on_overflow() {
                self.send_reset(local, remote, reset);
            }
            return None;
        }
        l.listener.on_half_open();
        self.counters.cookies_taken += 1;
        let mss = self.mss_to(remote);
        let offset = self.timestamp_offset(local, remote);
        let tcb = cookie.open(&options.tcp_to(remote), mss, offset, now);
        Some(self.enter_half_open(listener, session, options, (local, remote), tcb))
    }
}
