//! Taking requests out of the channels, no more in a turn than each session and each user
//! may have of it; what is above that waits for the next. Channels whose processes take no
//! answers, or break their rings, are seen to here, too.
//!
//! Owns [`Share`]; the loop calls [`Engine::take_requests`], and each request is done by
//! the module above.

use super::From;
use crate::attach::turns::Of;
use crate::engine::Engine;
use crate::session::{LONGEST_STALL, SHORTEST_STALL, Session};
use longshore_hostif::{EdgeFlags, RING, Request};
use longshore_tcp::Instant;
use std::sync::atomic::Ordering;

/// Requests taken from one channel in one turn, so that a busy process does not
/// keep packets and timers waiting.
const BATCH: u32 = 256;

/// Requests taken from one session in one turn; those of one user have a share, too
/// (`attach::turns`).
const BATCH_OF_A_SESSION: u32 = 1024;

/// How long one session may be served in one turn, and how long all may be, in microseconds:
/// some requests take long, as those for a port where hardly any is free.
const SHARE: u64 = 250;
const ALL_SHARES: u64 = 1_000;

/// What a session may still have of this turn.
#[derive(Debug, Default)]
pub(crate) struct Share {
    /// Requests.
    left: u32,
    /// When its time is over, once a request was served that may take long.
    until: Option<Instant>,
    /// The first session of this turn whose user had had all that it may.
    denied: Option<u32>,
}

impl Share {
    fn is_spent(&self) -> bool {
        self.left == 0
    }
}

impl Engine {
    /// Takes requests from all sessions whose processes have published some;
    /// says whether there were any.
    pub(crate) fn take_requests(&mut self) -> bool {
        let mut any = false;
        let end = self.sessions.end();
        let first = if self.first_session < end {
            self.first_session
        } else {
            0
        };
        self.share.denied = None;
        for session in (first..end).chain(0..first) {
            any |= self.take_requests_in(session);
            if self.slow_request && self.clock.now().since(self.now) >= ALL_SHARES {
                // Those after this one begin the next turn.
                self.first_session = session + 1;
                self.counters.request_waits += 1;
                break;
            }
        }
        // Whose user had no more of this turn comes first in the next.
        if let Some(denied) = self.share.denied {
            self.first_session = denied;
        }
        self.slow_request = false;
        any
    }

    /// Takes requests from one session, if its processes have published some.
    pub(crate) fn take_requests_in(&mut self, session: u32) -> bool {
        let Some(s) = self.sessions.get(session) else {
            return false;
        };
        let pending = &s.arena.header().requests_pending;
        if pending.any.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let user_has = self.requests_left(session);
        let (arena, words) = (s.arena.clone(), s.processes.len() / 64);
        if user_has == 0 {
            self.share.denied.get_or_insert(session);
            self.counters.request_waits += 1;
            return true;
        }
        let first = s.first_word % words;
        let pending = &arena.header().requests_pending;
        pending.any.store(0, Ordering::SeqCst);
        self.share.left = BATCH_OF_A_SESSION.min(user_has);
        self.share.until = None;
        let before = self.share.left;
        for i in (first..words).chain(0..first) {
            let bits = &pending.channels[i];
            let mut word = bits.swap(0, Ordering::AcqRel);
            while word != 0 && !self.share.is_spent() {
                let channel = (i * 64) as u16 + word.trailing_zeros() as u16;
                word &= word - 1;
                self.take_from(From { session, channel });
            }
            if self.share.is_spent() {
                bits.fetch_or(word, Ordering::AcqRel);
                pending.any.store(1, Ordering::Release);
                if let Some(s) = self.sessions.get_mut(session) {
                    s.first_word = i + 1;
                }
                self.counters.request_waits += 1;
                break;
            }
        }
        self.spend_requests(session, before - self.share.left);
        self.share.left != before
    }

    /// How many requests the user of a session may still have served in this turn.
    fn requests_left(&self, session: u32) -> u32 {
        let user = self.sessions.get(session).and_then(|s| s.user.as_ref());
        user.map_or(u32::MAX, |user| {
            user.spent.left(Of::Requests, self.counters.turns)
        })
    }

    fn spend_requests(&self, session: u32, n: u32) {
        if let Some(user) = self.sessions.get(session).and_then(|s| s.user.as_ref()) {
            user.spent.spend(Of::Requests, self.counters.turns, n);
        }
    }

    /// A request that may have taken long was served: the session's share of the turn is
    /// over when it did, or when several have.
    #[cold]
    pub(super) fn spend_time(&mut self) {
        let now = self.clock.now();
        self.slow_request = true;
        let until = *self.share.until.get_or_insert(Instant(now.0 + SHARE));
        if now >= until || now.since(self.now) >= ALL_SHARES {
            self.share.left = 0;
        }
    }

    /// Looks again at channels whose processes took no answers.
    #[cold]
    pub(crate) fn retry_stalled(&mut self) {
        self.stalled_until = Instant::NEVER;
        for session in 0..self.sessions.end() {
            let Some(s) = self.sessions.get_mut(session) else {
                continue;
            };
            if s.stalled_until > self.now {
                self.stalled_until = self.stalled_until.min(s.stalled_until);
                continue;
            }
            s.stalled_until = Instant::NEVER;
            for channel in std::mem::take(&mut s.stalled) {
                Self::look_again(s, channel);
            }
        }
    }

    /// The process takes no answers: its requests wait, ever longer, until it has taken
    /// some. Nothing tells the engine when.
    #[cold]
    fn stall(&mut self, from: From) {
        let now = self.now;
        let Some(s) = self.sessions.get_mut(from.session) else {
            return;
        };
        if !s.stalled.contains(&from.channel) {
            s.stalled.push(from.channel);
        }
        s.stalled_until = s.stalled_until.min(Instant(now.0 + s.stalled_for));
        s.stalled_for = (2 * s.stalled_for).min(LONGEST_STALL);
        self.stalled_until = self.stalled_until.min(s.stalled_until);
        self.counters.stalled_channels += 1;
    }

    /// The process broke a ring: nothing is taken from it any more.
    #[cold]
    fn break_channel(&mut self, from: From) {
        if let Some(s) = self.sessions.get_mut(from.session)
            && let Some(Some(process)) = s.processes.get_mut(usize::from(from.channel))
        {
            process.is_broken = true;
            s.bad_descriptors += 1;
            self.counters.broken_channels += 1;
        }
    }

    /// Takes requests of one channel of a session.
    pub(crate) fn take_requests_of(&mut self, session: u32, channel: u32) {
        if let Some(s) = self.sessions.get(session)
            && (channel as usize) < s.processes.len()
        {
            let channel = channel as u16;
            self.share.left = BATCH + 1;
            self.share.until = None;
            self.take_from(From { session, channel });
        }
    }

    fn take_from(&mut self, from: From) -> bool {
        if let Some(s) = self.sessions.get_mut(from.session)
            && s.processes[usize::from(from.channel)].is_none()
        {
            let adopted = s.adopt(from.channel).is_some();
            let has_reservation = s.has_new_reservation;
            // Who claims it was asked of the kernel, which takes its time.
            self.spend_time();
            if !adopted {
                if has_reservation {
                    self.keep_house_soon();
                }
                return false;
            }
            self.watch_process(from.session, from.channel);
        }
        self.tell_rest(from);
        // An answer must find room: otherwise the rest waits until the process has
        // taken what it has.
        self.take_some(from, BATCH, 8)
    }

    /// Tells a process that may have room again of the sockets for which it had none: no
    /// more than there is room for, each where its edges are by now.
    fn tell_rest(&mut self, from: From) {
        let Some(s) = self.sessions.get_mut(from.session) else {
            return;
        };
        if !s.has_untold(from.channel) {
            return;
        }
        while let Some(index) = s.next_untold(from.channel) {
            let key = s.key(index);
            let Some(socket) = key.and_then(|key| self.sockets.get_mut(key)) else {
                continue;
            };
            if !socket.subscribers.contains(from.channel) {
                continue;
            }
            let mut edges = socket.edges();
            // A pending error is told once, which may have been then.
            let block = s.arena.block(index);
            if block.has_error() && !edges.flags.contains(EdgeFlags::DEAD) {
                edges.flags |= EdgeFlags::SOFT_ERROR;
                edges.errno = 0;
            }
            if !s.put_edges(from.channel, socket.id, edges) {
                break;
            }
            socket.meter.to_host.descriptors += 1;
            s.wake_for(index);
        }
    }

    /// Takes all that a process published before it died or became another program,
    /// however much that is. Answers that find no room have nobody to read them.
    pub(crate) fn take_last(&mut self, session: u32, channel: u16) {
        self.share.left = RING as u32 + 1;
        self.take_some(From { session, channel }, RING as u32, 0);
    }

    /// Takes at most `most` requests of one channel, while there is room for `room`
    /// completions; says whether there were any.
    fn take_some(&mut self, from: From, most: u32, room: u32) -> bool {
        let mut taken = 0;
        while let Some(s) = self.sessions.get_mut(from.session) {
            let Some(Some(process)) = s.processes.get_mut(usize::from(from.channel)) else {
                break;
            };
            if process.is_broken {
                break;
            }
            if taken == most || self.share.left == 0 {
                Self::look_again(s, from.channel);
                break;
            }
            match process.channel.room(&s.arena) {
                Ok(free) if free >= room + process.owed => {}
                Ok(_) => {
                    // What it has published is looked at only when there is some.
                    if process.channel.pending(&s.arena) {
                        self.stall(from);
                    }
                    break;
                }
                Err(_) => {
                    self.break_channel(from);
                    break;
                }
            }
            let message = match process.channel.get(&s.arena) {
                Ok(Some(message)) => message,
                Ok(None) => break,
                Err(_) => {
                    self.break_channel(from);
                    break;
                }
            };
            taken += 1;
            self.share.left -= 1;
            match Request::decode(&message) {
                Ok(request) => {
                    if self.serve(from, &request).is_err() {
                        self.count_bad(from.session);
                    }
                }
                Err(_) => self.count_bad(from.session),
            }
        }
        if taken != 0
            && let Some(s) = self.sessions.get_mut(from.session)
        {
            s.note_taken(from.channel);
            s.stalled_for = SHORTEST_STALL;
            s.meter.to_adapter.batch(taken);
        }
        taken != 0
    }

    fn look_again(s: &Session, channel: u16) {
        let pending = &s.arena.header().requests_pending;
        pending.channels[usize::from(channel) / 64].fetch_or(1 << (channel % 64), Ordering::AcqRel);
        pending.any.store(1, Ordering::Release);
    }

    pub(super) fn count_bad(&mut self, session: u32) {
        if let Some(s) = self.sessions.get_mut(session) {
            s.bad_descriptors += 1;
        }
    }
}
