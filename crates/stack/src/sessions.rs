//! The sessions of a stack: which of them have something to be shown to their programs, and
//! of which it is looked by itself whether their programs ask for something.
//!
//! Owns [`Sessions`]. However many there are, a turn looks at those alone for which something
//! was done in it, and at those whose programs have asked for something of late. The others
//! are *parked*: their programs ring for the engine when they publish requests
//! ([`PendingRequests::park`](longshore_hostif::adapter::PendingRequests::park)). The loop polls
//! those that are not, and `publish` is what a turn ends with.

use super::account::Account;
use super::at_work::AtWork;
use super::counters::{Counters, EngineDrop, Notice};
use super::session::Session;
use super::slab::Slab;
use super::violation::{Violation, holds};
use longshore_hostif::adapter::{AdapterSession, UnderWay};
use longshore_tcp::Instant;
use std::sync::Arc;

/// So many sessions are polled however little they ask, so that a program and one beside it
/// need not ring. Each costs all others two dozen instructions a look.
const KEPT: usize = 2;
/// Turns in which nothing was asked or done for a session before it is parked: to look so
/// often in vain costs as much as to be rung for once.
const IDLE_TURNS: u64 = 256;

/// All sessions. A key names one until that is removed; afterwards another may have it.
pub struct Sessions {
    slab: Slab<Session>,
    /// Those that were to be changed since they were last published, each once.
    touched: Vec<u32>,
    /// Those that are to be published once more; empty between two turns.
    left: Vec<u32>,
    /// Those that are not parked.
    polled: Vec<u32>,
    /// Which of these is considered next for being parked.
    considered: usize,
    /// When completions are to be published that wait for others, with fixed batching.
    held_until: Instant,
    /// Whose work is being done.
    pub(super) at_work: AtWork,
}

impl Sessions {
    pub(super) const fn new() -> Self {
        Self {
            slab: Slab::new(),
            touched: Vec::new(),
            left: Vec::new(),
            polled: Vec::new(),
            considered: 0,
            held_until: Instant::NEVER,
            at_work: AtWork::Nobodys,
        }
    }

    /// When completions are to be published that wait for others; never without fixed batching.
    pub fn held_until(&self) -> Instant {
        self.held_until
    }

    /// The session of this key.
    #[inline]
    pub fn get(&self, key: u32) -> Option<&Session> {
        self.slab.get(key)
    }

    /// The session of this key, to be changed; it is published at the end of the turn.
    #[inline(always)]
    pub fn get_mut(&mut self, key: u32) -> Option<&mut Session> {
        let session = self.slab.get_mut(key)?;
        if !session.is_touched {
            session.is_touched = true;
            self.touched.push(key);
        }
        Some(session)
    }

    /// As `get_mut`, for what programs are not shown, as counts and memory that is taken: nothing
    /// is published for it.
    #[inline]
    pub(super) fn get_unshown_mut(&mut self, key: u32) -> Option<&mut Session> {
        self.slab.get_mut(key)
    }

    /// As `get_unshown_mut`, of its host's half, for what the loop notes of when it takes requests.
    #[inline]
    pub fn host_unshown_mut(&mut self, key: u32) -> Option<&mut AdapterSession> {
        self.slab.get_mut(key).map(|session| &mut session.host)
    }

    /// Whether the programs of any session that is polled may have asked for something.
    #[inline]
    pub fn have_requests(&self) -> bool {
        self.iter_polled().any(|(_, s)| s.host.pending.has_any())
    }

    /// The key of the socket in a block of a session, if there is one.
    pub fn socket_of(&self, session: u32, index: u32) -> Option<u32> {
        self.get(session)?.key(index)
    }

    /// What the user of a session has, if that has bounds.
    #[inline]
    pub fn account_of(&self, key: u32) -> Option<&Arc<Account>> {
        self.get(key)?.account.as_ref()
    }

    /// A session had no memory for what has come for it, which is counted.
    pub fn arena_is_full(&mut self, key: u32, counters: &mut Counters) {
        counters.drop(EngineDrop::ArenaFull);
        self.notice_arena(key, counters);
    }

    /// A session has so little memory that the window of one of its connections is narrowed,
    /// which is counted.
    pub fn arena_is_short(&mut self, key: u32, counters: &mut Counters) {
        counters.tcp.windows_narrowed += 1;
        self.notice_arena(key, counters);
    }

    /// The operator is told of a session's want of memory when it is so for the first time.
    fn notice_arena(&mut self, key: u32, counters: &mut Counters) {
        if let Some(session) = self.get_mut(key)
            && !std::mem::replace(&mut session.was_full, true)
        {
            counters.notices.push(Notice::ArenaFull { session: key });
        }
    }

    /// Adds a session, whose programs are about to ask for something; its key.
    pub fn insert(&mut self, session: Session) -> u32 {
        let key = self.slab.insert(session);
        self.polled.push(key);
        key
    }

    /// Takes a session out.
    pub fn remove(&mut self, key: u32) -> Option<Session> {
        let session = self.slab.remove(key)?;
        self.polled.retain(|polled| *polled != key);
        self.touched.retain(|touched| *touched != key);
        Some(session)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.slab.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many are parked.
    pub fn parked(&self) -> usize {
        self.len() - self.polled.len()
    }

    /// All of them with their keys.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Session)> {
        self.slab.iter()
    }

    /// The keys of all.
    pub fn keys(&self) -> Vec<u32> {
        self.slab.keys()
    }

    /// The keys of those that are polled.
    #[inline]
    pub fn polled(&self) -> &[u32] {
        &self.polled
    }

    /// Those that are polled, with their keys.
    #[inline]
    pub fn iter_polled(&self) -> impl Iterator<Item = (u32, &Session)> {
        let polled = self.polled.iter().copied();
        polled.filter_map(|key| Some((key, self.slab.get(key)?)))
    }

    /// A session is polled from now on, until nothing was asked or done for it for some turns.
    pub fn poll(&mut self, key: u32, turn: u64) {
        if let Some(session) = self.slab.get_mut(key) {
            session.active_in = turn;
            if std::mem::take(&mut session.is_parked) {
                session.host.pending.declare_awake();
                self.polled.push(key);
            }
        }
    }

    /// Whether more are polled than a few.
    #[inline]
    pub fn polls_many(&self) -> bool {
        self.polled.len() > KEPT
    }

    /// Considers the next of those that are polled for being parked: its key, if it is idle.
    pub fn next_idle(&mut self, turn: u64) -> Option<u32> {
        self.considered += 1;
        if self.considered >= self.polled.len() {
            self.considered = 0;
        }
        let key = self.polled.get(self.considered).copied()?;
        let session = self.slab.get(key)?;
        let is_idle = !session.is_touched && turn.saturating_sub(session.active_in) > IDLE_TURNS;
        (is_idle && self.polls_many()).then_some(key)
    }

    /// Parks a session, unless its programs have asked for something.
    pub fn park(&mut self, key: u32) -> bool {
        let Some(session) = self.slab.get_mut(key) else {
            return false;
        };
        if !session.is_parked && session.host.pending.park() {
            session.is_parked = true;
            self.polled.retain(|polled| *polled != key);
        }
        session.is_parked
    }

    /// The sockets of a session are gone, and nothing more is done for it.
    pub(super) fn condemn(&mut self, key: u32) {
        if let Some(session) = self.slab.get_mut(key) {
            session.condemn();
        }
    }

    /// Whether there is a session of this key that is not condemned.
    pub(super) fn is_served(&self, key: u32) -> bool {
        self.get(key).is_some_and(|s| !s.is_condemned())
    }

    /// All sessions are published in this turn or the next.
    pub(super) fn remake_lists(&mut self) {
        self.left.clear();
        self.touched = self.slab.keys();
        for (_, session) in self.slab.iter_mut_with_keys() {
            session.is_touched = true;
            session.postponed.clear();
        }
    }

    /// Shows programs what was done for them, of which that is `under_way` from one socket of
    /// the stack to another cannot be seen yet; in how many sessions others are still to be woken. Those
    /// have their turn again.
    #[inline]
    pub(super) fn publish(&mut self, turn: u64, now: Instant, under_way: UnderWay) -> u64 {
        if self.touched.is_empty() {
            return 0;
        }
        self.publish_touched(turn, now, under_way)
    }

    #[inline(never)]
    fn publish_touched(&mut self, turn: u64, now: Instant, under_way: UnderWay) -> u64 {
        let mut waits = 0;
        self.held_until = Instant::NEVER;
        for i in 0..self.touched.len() {
            let key = self.touched.get(i).copied();
            let Some((key, session)) = key.and_then(|key| Some((key, self.slab.get_mut(key)?)))
            else {
                continue;
            };
            self.at_work = AtWork::Session(key);
            session.active_in = turn;
            if let Some(until) = session.host.completions_held_until(now.0) {
                self.held_until = self.held_until.min(Instant(until));
                self.left.push(key);
                continue;
            }
            let owes_wakeups = session.publish(turn);
            let is_unreleased = session.host.release_requests(under_way);
            session.is_touched = owes_wakeups || is_unreleased;
            if session.is_touched {
                waits += u64::from(owes_wakeups);
                self.left.push(key);
            }
            if session.is_parked {
                self.poll(key, turn);
            }
        }
        self.at_work = AtWork::Nobodys;
        self.touched.clear();
        if !self.left.is_empty() {
            std::mem::swap(&mut self.touched, &mut self.left);
        }
        waits
    }
}

impl Sessions {
    /// Whether each is on the lists that it says it is on, once.
    pub(super) fn check(&self) -> Result<(), Violation> {
        for (key, session) in self.iter() {
            let times = |list: &[u32]| list.iter().filter(|listed| **listed == key).count();
            let (touched, polled) = (times(&self.touched), times(&self.polled));
            let is_right = touched == usize::from(session.is_touched);
            holds(is_right, key, "a session is not published as it should be")?;
            let is_right = polled == usize::from(!session.is_parked);
            holds(is_right, key, "a session is not polled as it should be")?;
        }
        Ok(())
    }
}
