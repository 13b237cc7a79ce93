//! What a client remembers of servers (RFC 7413 section 4.1.3): cookies, their MSS, and
//! who is better left alone.
//!
//! Owns [`FastOpenCache`]. The engine has one and asks it for the way when a connection
//! begins; what came of it is learned when it is established.

use super::{DEFAULT_MSS, FastOpenOutcome, FastOpenUse};
use crate::time::{Instant, SECOND};
use core::net::IpAddr;
use longshore_wire::tcp::FastOpenCookie;

/// How long Fast Open is left out for a server whose SYNs have twice in a row gone
/// unanswered, doubled with each further one (RFC 7413 section 4.1.3.1 wants it for a
/// while; once is an ordinary loss).
const AVOID_US: u64 = 240 * SECOND;
/// Doublings at most: two hours.
const AVOID_DOUBLINGS: u8 = 5;

/// Servers that a client remembers.
pub(super) const CACHE_SIZE: usize = 64;

/// How a connection uses Fast Open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FastOpenWay {
    /// Its SYN asks for a cookie, in the option of RFC 7413 or in the experiment's.
    Ask {
        /// See above.
        experimental: bool,
    },
    /// Its SYN carries this cookie, and data that fit `mss` bytes (the server's).
    Send {
        /// What the server gave.
        cookie: FastOpenCookie,
        /// See above.
        mss: u16,
    },
    /// Its SYN carries data alone.
    SendBare {
        /// As with a cookie.
        mss: u16,
    },
}

/// Which option is to ask for a cookie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// That of RFC 7413.
    Standard,
    /// It got no cookie: the experiment's, once.
    Experiment,
    /// Neither got one: that of RFC 7413 from now on.
    StandardForGood,
}

/// What a client remembers of one server.
#[derive(Debug, Clone, Copy)]
struct Known {
    server: IpAddr,
    cookie: FastOpenCookie,
    mss: u16,
    kind: Kind,
    /// SYNs in a row that were answered only when they went without Fast Open.
    losses: u8,
    /// Not before this.
    not_before: Instant,
    used: Instant,
}

/// What a client remembers of servers. Bounded; the one that was not used for the
/// longest time makes room.
#[derive(Debug, Clone, Default)]
pub struct FastOpenCache {
    known: Vec<Known>,
}

impl FastOpenCache {
    /// Nothing is known.
    #[must_use]
    pub const fn new() -> FastOpenCache {
        FastOpenCache { known: Vec::new() }
    }

    /// How to open a connection to `server`: `None` without Fast Open.
    pub fn way_to(
        &mut self,
        server: IpAddr,
        usage: FastOpenUse,
        now: Instant,
    ) -> Option<FastOpenWay> {
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
            _ if usage.client_without_cookie => FastOpenWay::SendBare {
                mss: known.map_or(u16::MAX, |k| k.mss),
            },
            Some(k) if !k.cookie.as_bytes().is_empty() => FastOpenWay::Send {
                cookie: k.cookie,
                mss: k.mss,
            },
            Some(k) => FastOpenWay::Ask {
                experimental: k.kind == Kind::Experiment,
            },
            None => FastOpenWay::Ask {
                experimental: false,
            },
        })
    }

    /// What an open has shown. A server that did not take the data keeps its cookie: it
    /// may have had no room, and one that knows the cookie no more gives another.
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
                    _ => Kind::StandardForGood,
                };
            }
        }
    }

    fn entry(&mut self, server: IpAddr, now: Instant) -> &mut Known {
        let at = match self.known.iter().position(|k| k.server == server) {
            Some(at) => at,
            None => {
                if self.known.len() == CACHE_SIZE {
                    let oldest = (0..CACHE_SIZE).min_by_key(|&i| self.known[i].used);
                    self.known.swap_remove(oldest.unwrap_or(0));
                }
                self.known.push(Known {
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
