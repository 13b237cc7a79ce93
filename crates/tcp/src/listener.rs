//! The passive open: which segments begin a connection, and the limits of the two queues
//! behind `listen`.
//!
//! Owns [`Listener`]. It holds no connections: the engine does, and notifies it of their
//! transitions. A connection is first *half-open* (a record of SYN-RECEIVED), then
//! *waiting* (established, not accepted yet), then accepted.
//!
//! The backlog has Linux's meaning: the accept queue is full when more than `backlog`
//! connections wait (so `backlog + 1` fit); while it is full, new SYNs and the last ACK
//! of handshakes are dropped, and the peer retransmits them (or, with
//! tcp_abort_on_overflow, the handshake is reset). At most `backlog` connections are
//! half-open, but at least 8 and no more than a limit for large backlogs. SYNs beyond
//! that are answered by a cookie (`syn_cookie.rs`), which takes no memory, or dropped if
//! cookies are off.

use crate::reset::reset_for;
use crate::time::{Instant, SECOND};
use crate::{DropReason, Segment, SynCookies};
use longshore_wire::tcp::{TcpFlags, TcpHeader};

/// The most half-open connections of a listener (Linux's tcp_max_syn_backlog on a machine
/// of this size).
const MAX_HALF_OPEN: u32 = 4096;

/// For this long after the last cookie was sent, acknowledgments are checked for one,
/// microseconds: as long as cookies are valid.
const COOKIES_EXPECTED_US: u64 = 120 * SECOND;

/// A listening endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listener {
    backlog: u32,
    half_open: u32,
    waiting: u32,
    /// Number of SYN-ACK timeouts for which connections wait for data; 0 if they do not.
    defer_accept: u8,
    abort_on_overflow: bool,
    cookies: SynCookies,
    /// When a SYN was last answered by a cookie.
    last_cookie: Option<Instant>,
}

/// How to handle a segment that belongs to no connection.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum ListenVerdict {
    /// Create a connection with `Tcb::accept`. If it becomes half-open, call
    /// [`Listener::on_half_open`].
    Accept,
    /// The queue is full: answer with a [`SynCookie`](crate::SynCookie).
    AnswerWithCookie,
    /// The acknowledgment may carry a cookie: check it; if it is valid and the connection
    /// [may be established](Listener::may_establish), open it. If it is not valid, send
    /// this reset.
    CheckCookie(TcpHeader),
    /// Send this reset.
    Reset(TcpHeader),
    /// Send nothing; count the drop.
    Drop(DropReason),
}

impl Listener {
    /// A listener with this backlog.
    #[must_use]
    pub const fn new(backlog: u32) -> Listener {
        Listener {
            backlog,
            half_open: 0,
            waiting: 0,
            defer_accept: 0,
            abort_on_overflow: false,
            cookies: SynCookies::OnOverflow,
            last_cookie: None,
        }
    }

    /// Sets when SYNs are answered by cookies (net.ipv4.tcp_syncookies).
    pub fn set_cookies(&mut self, when: SynCookies) {
        self.cookies = when;
    }

    /// Sets net.ipv4.tcp_abort_on_overflow.
    pub fn set_abort_on_overflow(&mut self, on: bool) {
        self.abort_on_overflow = on;
    }

    /// Whether a handshake that finds the accept queue full is reset; otherwise its last
    /// acknowledgment is dropped.
    #[must_use]
    pub const fn aborts_on_overflow(&self) -> bool {
        self.abort_on_overflow
    }

    /// `listen` was called again with another backlog.
    pub fn set_backlog(&mut self, backlog: u32) {
        self.backlog = backlog;
    }

    /// TCP_DEFER_ACCEPT: connections wait for data before they are handed out, for about
    /// this many seconds; 0 disables it. As in Linux, the time is counted in
    /// retransmissions of the SYN-ACK.
    pub fn set_defer_accept(&mut self, seconds: u32) {
        let (mut timeouts, mut passed) = (0, 0);
        while passed < seconds && timeouts < 31 {
            passed = passed.saturating_add(1 << timeouts);
            timeouts += 1;
        }
        self.defer_accept = timeouts;
    }

    /// Whether a connection whose SYN-ACK was retransmitted this often still waits for
    /// data: the engine then drops its bare acknowledgments.
    #[must_use]
    pub const fn defers_accept(&self, repeated: u8) -> bool {
        repeated < self.defer_accept
    }

    /// The backlog.
    #[must_use]
    pub const fn backlog(&self) -> u32 {
        self.backlog
    }

    /// Connections in SYN-RECEIVED.
    #[must_use]
    pub const fn half_open(&self) -> u32 {
        self.half_open
    }

    /// Connections that wait to be accepted.
    #[must_use]
    pub const fn waiting(&self) -> u32 {
        self.waiting
    }

    /// Whether the accept queue is full.
    #[must_use]
    pub const fn accept_queue_full(&self) -> bool {
        self.waiting > self.backlog
    }

    /// Handles a segment for the listener's port that belongs to no connection.
    ///
    /// RFC 9293 section 3.10.7.2 (LISTEN): first a RST is ignored; second an ACK is
    /// answered by a reset; third a SYN begins a connection; anything else is
    /// dropped.
    pub fn on_segment(&mut self, segment: &Segment<'_>, now: Instant) -> ListenVerdict {
        let flags = segment.header.flags;
        if flags.contains(TcpFlags::RST) {
            return ListenVerdict::Drop(DropReason::ListenNoSyn);
        }
        if flags.contains(TcpFlags::ACK) {
            let expected = !flags.contains(TcpFlags::SYN)
                && self
                    .last_cookie
                    .is_some_and(|at| now.since(at) < COOKIES_EXPECTED_US);
            return match reset_for(segment) {
                Some(reset) if expected => ListenVerdict::CheckCookie(reset),
                Some(reset) => ListenVerdict::Reset(reset),
                None => ListenVerdict::Drop(DropReason::ListenNoSyn),
            };
        }
        // A FIN with a SYN is typical of a scan, not of a client; like Linux we do not
        // accept a connection for it.
        if !flags.contains(TcpFlags::SYN) || flags.contains(TcpFlags::FIN) {
            return ListenVerdict::Drop(DropReason::ListenNoSyn);
        }
        if self.accept_queue_full() {
            return ListenVerdict::Drop(DropReason::AcceptQueueFull);
        }
        let full = self.half_open >= self.backlog.clamp(8, MAX_HALF_OPEN);
        match self.cookies {
            SynCookies::Off if full => ListenVerdict::Drop(DropReason::SynQueueFull),
            SynCookies::OnOverflow if full => self.expect_cookie(now),
            SynCookies::Always => self.expect_cookie(now),
            SynCookies::Off | SynCookies::OnOverflow => ListenVerdict::Accept,
        }
    }

    fn expect_cookie(&mut self, now: Instant) -> ListenVerdict {
        self.last_cookie = Some(now);
        ListenVerdict::AnswerWithCookie
    }

    /// Whether a half-open connection may become established. While it may not, the
    /// engine drops what arrives for connections in SYN-RECEIVED (except for resets) with
    /// [`DropReason::AcceptQueueFull`], and their SYN-ACK is retransmitted.
    #[must_use]
    pub const fn may_establish(&self) -> bool {
        !self.accept_queue_full()
    }

    /// A connection was created for a SYN.
    pub fn on_half_open(&mut self) {
        self.half_open += 1;
    }

    /// A connection waits to be accepted.
    pub fn on_waiting(&mut self) {
        self.waiting += 1;
    }

    /// A half-open connection has become established, or has ended.
    pub fn on_half_open_gone(&mut self) {
        self.half_open = self.half_open.saturating_sub(1);
    }

    /// All half-open connections are given up.
    pub fn on_half_open_given_up(&mut self) {
        self.half_open = 0;
    }

    /// So many waiting connections were accepted.
    pub fn on_accepted(&mut self, count: u32) {
        self.waiting = self.waiting.saturating_sub(count);
    }
}

#[cfg(test)]
mod tests;
