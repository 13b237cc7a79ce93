//! A client's cache of servers (RFC 7413 section 4.1.3): their cookies, their MSS, and
//! for which of them Fast Open is disabled.
//!
//! Owns [`FastOpenCache`]. The engine has one; it looks a server up when a connection is
//! opened, and records the outcome when it is established.

use super::{DEFAULT_MSS, FastOpenOutcome, FastOpenUse};
use crate::time::{Instant, SECOND};
use core::net::IpAddr;
use longshore_wire::tcp::FastOpenCookie;

/// How long Fast Open is disabled for a server whose SYNs have gone unanswered twice in a
/// row, microseconds; doubled with each further one (RFC 7413 section 4.1.3.1 asks for
/// some time; a single one is an ordinary loss).
const AVOID_US: u64 = 240 * SECOND;
/// The most doublings: about two hours.
const AVOID_DOUBLINGS: u8 = 5;

/// The number of servers in the cache.
pub(super) const CACHE_SIZE: usize = 64;

/// How a connection uses Fast Open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FastOpenMode {
    /// The SYN requests a cookie, in the option of RFC 7413 or in that of the experiment.
    RequestCookie {
        /// The experiment's option is used.
        experimental: bool,
    },
    /// The SYN carries this cookie, and data that fits `mss` bytes.
    SendCookie {
        /// The cookie that the server granted.
        cookie: FastOpenCookie,
        /// The server's MSS, bytes.
        mss: u16,
    },
    /// The SYN carries data without a cookie.
    SendWithoutCookie {
        /// The server's MSS, bytes.
        mss: u16,
    },
}

/// Which option requests a cookie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// That of RFC 7413.
    Standard,
    /// RFC 7413's got no cookie: the experiment's is tried once.
    Experiment,
    /// Neither got one: that of RFC 7413 from now on.
    StandardOnly,
}

/// What a client remembers of one server.
#[derive(Debug, Clone, Copy)]
struct Entry {
    server: IpAddr,
    cookie: FastOpenCookie,
    mss: u16,
    kind: Kind,
    /// SYNs in a row that were answered only when sent without Fast Open.
    losses: u8,
    /// Fast Open is disabled until then.
    not_before: Instant,
    used: Instant,
}

/// The servers that a client remembers. Bounded; the least recently used entry is
/// replaced.
#[derive(Debug, Clone, Default)]
pub struct FastOpenCache {
    known: Vec<Entry>,
}

impl FastOpenCache {
    /// An empty cache.
    #[must_use]
    pub const fn new() -> FastOpenCache {
        FastOpenCache { known: Vec::new() }
    }

    /// How to open a connection to `server`; `None` means without Fast Open.
    pub fn mode_for(
        &mut self,
        server: IpAddr,
        usage: FastOpenUse,
        now: Instant,
    ) -> Option<FastOpenMode> {
        if !usage.client {
            return None;
        }
        let mut known = self.known.iter_mut().find(|k| k.server == server);
        if let Some(known) = &mut known {
            known.used = now;
            if now < known.not_before {
                return None;
            }
        }
        Some(match known {
            _ if usage.client_without_cookie => FastOpenMode::SendWithoutCookie {
                mss: known.map_or(u16::MAX, |k| k.mss),
            },
            Some(k) if !k.cookie.as_bytes().is_empty() => FastOpenMode::SendCookie {
                cookie: k.cookie,
                mss: k.mss,
            },
            Some(k) => FastOpenMode::RequestCookie {
                experimental: k.kind == Kind::Experiment,
            },
            None => FastOpenMode::RequestCookie {
                experimental: false,
            },
        })
    }

    /// Records the outcome of an open. A server that did not accept the data keeps its
    /// cookie: it may have had no room, and a server that no longer accepts a cookie
    /// grants another.
    pub fn learn(&mut self, server: IpAddr, outcome: &FastOpenOutcome, now: Instant) {
        let known = self.entry(server, now);
        known.mss = outcome.mss;
        if let Some(cookie) = outcome.cookie {
            known.cookie = cookie;
            known.losses = 0;
        } else if outcome.fell_back {
            known.losses = known.losses.saturating_add(1);
            if known.losses > 1 {
                let doublings = (known.losses - 2).min(AVOID_DOUBLINGS);
                known.not_before = now.after_us(AVOID_US << doublings);
            }
        } else {
            known.losses = 0;
            if outcome.sent == 0 && known.cookie.as_bytes().is_empty() {
                known.kind = match known.kind {
                    Kind::Standard if !outcome.experimental => Kind::Experiment,
                    _ => Kind::StandardOnly,
                };
            }
        }
    }

    fn entry(&mut self, server: IpAddr, now: Instant) -> &mut Entry {
        let at = match self.known.iter().position(|k| k.server == server) {
            Some(at) => at,
            None => {
                if self.known.len() == CACHE_SIZE {
                    let oldest = (0..CACHE_SIZE).min_by_key(|&i| self.known[i].used);
                    self.known.swap_remove(oldest.unwrap_or(0));
                }
                self.known.push(Entry {
                    server,
                    cookie: FastOpenCookie::REQUEST,
                    mss: DEFAULT_MSS,
                    kind: Kind::Standard,
                    losses: 0,
                    not_before: Instant(0),
                    used: now,
                });
                self.known.len() - 1
            }
        };
        self.known[at].used = now;
        &mut self.known[at]
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.known.len()
    }
}
