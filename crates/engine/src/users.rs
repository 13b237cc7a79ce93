//! What each user has of the engine, and may have: connections, sessions, descriptors.
//!
//! Shared by the thread that attaches programs and by the loop, which takes descriptors for
//! sessions. Root, and the user that the engine runs as, are bounded by the totals alone:
//! they could end it.

use longshore_hostif::adapter::MemoryOf;
use longshore_stack::Account;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Whether this user is root, or the one that the engine runs as.
pub(crate) fn is_trusted(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw()
}

/// How much a user may have at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) connections: u32,
    pub(crate) sessions: u32,
    /// Eventfds and Unix sockets, which the engine makes when a program asks.
    pub(crate) descriptors: u32,
    /// What its programs have chosen, or the operator.
    pub(crate) chosen: UserLimits,
}

/// What the sessions of one ordinary user may have together, where the operator says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UserLimits {
    /// Sockets of the engine, those that no program holds any more among them.
    pub sockets: u32,
    /// Memory of arenas that is in use, bytes.
    pub memory: u64,
}

impl Default for UserLimits {
    /// Two full sessions of sockets, and a quarter of the machine's memory.
    fn default() -> Self {
        // Asked once: an engine that runs may ask no more.
        static ALL: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
        let all = ALL.get_or_init(|| {
            let system = rustix::system::sysinfo();
            (system.totalram as u64).saturating_mul(u64::from(system.mem_unit))
        });
        Self {
            sockets: 2 * longshore_hostif::Geometry::DEFAULT.sockets,
            memory: all / 4,
        }
    }
}

impl Limits {
    /// As much as one user may have, where the engine may have so many descriptors: a
    /// quarter of everything.
    pub(crate) fn of_one(connections: u32, descriptors: u64) -> Self {
        Self {
            connections: connections / 4,
            sessions: connections / 16,
            descriptors: (descriptors / 4).min(u64::from(u32::MAX)) as u32,
            chosen: UserLimits::default(),
        }
    }

    const NONE: Self = Self {
        connections: u32::MAX,
        sessions: u32::MAX,
        descriptors: u32::MAX,
        chosen: UserLimits {
            sockets: u32::MAX,
            memory: u64::MAX,
        },
    };
}

/// How often something was refused, by what it lacked.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Connections, since there are as many as there may be.
    pub(crate) all_connections: AtomicU64,
    /// Connections, since the user has as many as it may have.
    pub(crate) user_connections: AtomicU64,
    /// Connections of users who may not use the engine.
    pub(crate) not_allowed: AtomicU64,
    /// Connections closed because nothing was said over them in time.
    pub(crate) silent: AtomicU64,
    /// Sessions.
    pub(crate) user_sessions: AtomicU64,
    /// Descriptors.
    pub(crate) user_descriptors: AtomicU64,
    /// Sessions refused or ended for want of memory.
    pub(crate) user_memory: AtomicU64,
}

/// Counts one more.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// One user.
#[derive(Debug)]
pub(crate) struct User {
    pub(crate) uid: u32,
    limits: Limits,
    connections: AtomicU32,
    sessions: AtomicU32,
    descriptors: AtomicU32,
    /// Its sockets, and what its sessions have had of a turn of the loop.
    pub(crate) account: Arc<Account>,
    /// The memory of its sessions, each with the session's number.
    memory: Mutex<Vec<(u64, MemoryOf)>>,
    pub(crate) counts: Arc<Counts>,
}

/// What a user has some of.
#[derive(Debug, Clone, Copy)]
enum What {
    Connection,
    Session,
    Descriptors(u32),
}

/// Some of what a user may have; given back when dropped.
#[derive(Debug)]
pub(crate) struct Share {
    of: Arc<User>,
    what: What,
}

impl Drop for Share {
    fn drop(&mut self) {
        let (counter, n) = self.of.counter(self.what);
        counter.fetch_sub(n, Ordering::AcqRel);
    }
}

impl User {
    fn counter(&self, what: What) -> (&AtomicU32, u32) {
        match what {
            What::Connection => (&self.connections, 1),
            What::Session => (&self.sessions, 1),
            What::Descriptors(n) => (&self.descriptors, n),
        }
    }

    fn take(self: &Arc<Self>, what: What, most: u32, refused: &AtomicU64) -> Option<Share> {
        let (counter, n) = self.counter(what);
        let fits = |now: u32| now.checked_add(n).filter(|sum| *sum <= most);
        if counter
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, fits)
            .is_err()
        {
            count(refused);
            return None;
        }
        let of = self.clone();
        Some(Share { of, what })
    }

    /// One connection more.
    pub(crate) fn take_connection(self: &Arc<Self>) -> Option<Share> {
        let (most, refused) = (self.limits.connections, &self.counts.user_connections);
        self.take(What::Connection, most, refused)
    }

    /// One session more.
    pub(crate) fn take_session(self: &Arc<Self>) -> Option<Share> {
        let (most, refused) = (self.limits.sessions, &self.counts.user_sessions);
        self.take(What::Session, most, refused)
    }

    /// The memory of a session of this number counts from now on.
    pub(crate) fn note_memory(&self, session: u64, memory: MemoryOf) {
        if self.limits.chosen.memory == u64::MAX {
            return;
        }
        let mut all = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(_, memory)| memory.is_there());
        all.push((session, memory));
    }

    /// If its sessions take more memory than they may: the number of the one that takes
    /// most.
    pub(crate) fn overdrawn(&self) -> Option<u64> {
        let memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = memory.iter();
        let taken = taken.filter_map(|(session, memory)| Some((memory.in_use()?, *session)));
        let (mut all, mut largest) = (0, (0, 0));
        for (bytes, session) in taken {
            all += bytes;
            largest = largest.max((bytes, session));
        }
        (all > self.limits.chosen.memory).then(|| {
            count(&self.counts.user_memory);
            largest.1
        })
    }

    /// So many descriptors more.
    pub(crate) fn take_descriptors(self: &Arc<Self>, n: u32) -> Option<Share> {
        let (most, refused) = (self.limits.descriptors, &self.counts.user_descriptors);
        self.take(What::Descriptors(n), most, refused)
    }
}

/// All users that have something.
#[derive(Debug)]
pub(crate) struct Users {
    limits: Mutex<Limits>,
    known: Mutex<HashMap<u32, Arc<User>>>,
    pub(crate) counts: Arc<Counts>,
}

impl Users {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits: Mutex::new(limits),
            known: Mutex::new(HashMap::new()),
            counts: Arc::new(Counts::default()),
        }
    }

    /// What users may have who come from now on.
    pub(crate) fn set_limits(&self, chosen: UserLimits) {
        let mut limits = self.limits.lock().unwrap_or_else(PoisonError::into_inner);
        limits.chosen = chosen;
    }

    /// Sessions, by their numbers, that are to end because their user's take too much memory.
    pub(crate) fn overdrawn(&self) -> Vec<u64> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.values().filter_map(|user| user.overdrawn()).collect()
    }

    /// Whether anybody's memory is to be looked at.
    pub(crate) fn any_with_memory(&self) -> bool {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.values().any(|user| {
            let memory = user.memory.lock().unwrap_or_else(PoisonError::into_inner);
            memory.iter().any(|(_, memory)| memory.is_there())
        })
    }

    /// A user, who is forgotten when nobody has it any more.
    pub(crate) fn get(&self, uid: u32) -> Arc<User> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(user) = known.get(&uid) {
            return user.clone();
        }
        known.retain(|_, user| Arc::strong_count(user) > 1);
        let (limits, account) = if is_trusted(uid) {
            (Limits::NONE, Account::without_bounds())
        } else {
            let limits = *self.limits.lock().unwrap_or_else(PoisonError::into_inner);
            (limits, Account::new(limits.chosen.sockets))
        };
        let user = Arc::new(User {
            uid,
            limits,
            connections: AtomicU32::new(0),
            sessions: AtomicU32::new(0),
            descriptors: AtomicU32::new(0),
            account: Arc::new(account),
            memory: Mutex::new(Vec::new()),
            counts: self.counts.clone(),
        });
        known.insert(uid, user.clone());
        user
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longshore_hostif::Geometry;
    use longshore_hostif::adapter::{AdapterSession, ReceiveStream};
    use longshore_ring::EventfdSignaler;

    #[test]
    fn a_user_has_what_it_may_and_no_more_until_it_gives_some_back() {
        let users = Users::new(Limits {
            connections: 2,
            sessions: 1,
            descriptors: 4,
            chosen: UserLimits {
                sockets: 2,
                memory: 1 << 20,
            },
        });
        let (one, other) = (users.get(4_000_001), users.get(4_000_002));
        let held = [one.take_connection(), one.take_connection()];
        assert!(held.iter().all(Option::is_some));
        assert!(one.take_connection().is_none());
        assert!(other.take_connection().is_some(), "each has its own");
        drop(held);
        assert!(one.take_connection().is_some());
        let few = one.take_descriptors(3);
        assert!(few.is_some() && one.take_descriptors(2).is_none());
        assert_eq!(users.counts.user_connections.load(Ordering::Relaxed), 1);
        assert_eq!(users.counts.user_descriptors.load(Ordering::Relaxed), 1);
        let sockets = [one.account.take_socket(), one.account.take_socket()];
        assert!(sockets.iter().all(Option::is_some));
        assert!(one.account.take_socket().is_none());
        let root = users.get(0);
        let many: Vec<_> = (0..100).map(|_| root.take_session()).collect();
        assert!(
            many.iter().all(Option::is_some),
            "root could end the engine"
        );
    }

    #[test]
    fn one_user_may_have_a_quarter_of_what_there_is() {
        let limits = Limits::of_one(4096, 1000);
        let Limits {
            connections,
            sessions,
            descriptors,
            ..
        } = limits;
        assert_eq!((connections, sessions, descriptors), (1024, 256, 250));
        assert_eq!(Limits::of_one(4096, u64::MAX).descriptors, u32::MAX);
        let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap();
        let total = meminfo
            .lines()
            .find_map(|line| line.strip_prefix("MemTotal:"));
        let kib: u64 = total
            .unwrap()
            .trim()
            .trim_end_matches(" kB")
            .parse()
            .unwrap();
        let quarter = kib * 1024 / 4;
        let chosen = limits.chosen;
        assert!(
            (quarter / 2..quarter * 2).contains(&chosen.memory),
            "{chosen:?}"
        );
        let sockets = Geometry::DEFAULT.sockets;
        assert_eq!(chosen.sockets, 2 * sockets, "two sessions of them");
    }

    /// Root, and the user that the engine runs as, could end it anyway.
    #[test]
    fn users_who_could_end_the_engine_have_no_bounds_and_all_others_have() {
        let own = rustix::process::geteuid().as_raw();
        let trusts = |own: u32| {
            assert!(is_trusted(0) && is_trusted(own));
            assert!(!is_trusted(own + 1));
        };
        trusts(own);
        if own == 0 {
            // As an engine that is not root's.
            let as_other = move || {
                rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(65_533)).unwrap();
                trusts(65_533);
            };
            std::thread::spawn(as_other).join().unwrap();
        }
        let users = Users::new(Limits::of_one(0, 0));
        for uid in [0, own] {
            let user = users.get(uid);
            assert!(user.take_connection().is_some());
            let signaler = Arc::new(EventfdSignaler::for_one());
            let session = AdapterSession::create(Geometry::DEFAULT, signaler).unwrap();
            user.note_memory(7, session.memory());
            assert!(!users.any_with_memory(), "it is not even looked at");
        }
        let other = users.get(own + 1);
        assert!(other.take_connection().is_none());
        assert!(other.take_session().is_none());
        assert!(other.take_descriptors(1).is_none());
        let counts = &users.counts;
        let all = [
            &counts.user_connections,
            &counts.user_sessions,
            &counts.user_descriptors,
        ];
        assert_eq!(all.map(|n| n.load(Ordering::Relaxed)), [1; 3]);
    }

    /// A user is known as long as it has something, and then for as long as nobody else comes.
    #[test]
    fn users_who_have_nothing_any_more_are_forgotten() {
        let users = Users::new(Limits::of_one(64, 64));
        let known = |users: &Users| {
            let mut known: Vec<u32> = users.known.lock().unwrap().keys().copied().collect();
            known.sort_unstable();
            known
        };
        let (one, other) = (users.get(4_000_001), users.get(4_000_002));
        let share = one.take_connection().unwrap();
        drop((one, other));
        assert_eq!(known(&users), [4_000_001, 4_000_002]);
        users.get(4_000_003);
        assert_eq!(known(&users), [4_000_001, 4_000_003]);
        // All that have something are that one user's.
        assert_eq!(users.get(4_000_001).connections.load(Ordering::Relaxed), 1);
        drop(share);
        assert_eq!(users.get(4_000_001).connections.load(Ordering::Relaxed), 0);
        // And the memory of sessions that have ended is not kept.
        let user = users.get(4_000_001);
        let signaler = Arc::new(EventfdSignaler::for_one());
        for session in 0..3 {
            let memory = AdapterSession::create(Geometry::DEFAULT, signaler.clone());
            user.note_memory(session, memory.unwrap().memory());
        }
        assert_eq!(user.memory.lock().unwrap().len(), 1);
    }

    #[test]
    fn memory_counts_as_far_as_it_is_in_use_and_the_largest_session_is_named() {
        let users = Users::new(Limits::of_one(16, 16));
        users.set_limits(UserLimits {
            sockets: 1,
            memory: 3 << 20,
        });
        let user = users.get(4_000_001);
        let (geometry, signaler) = (Geometry::DEFAULT, Arc::new(EventfdSignaler::for_one()));
        let session = || AdapterSession::create(geometry, signaler.clone()).unwrap();
        let mut sessions = [session(), session()];
        user.note_memory(7, sessions[0].memory());
        user.note_memory(8, sessions[1].memory());
        assert_eq!(users.overdrawn(), [0u64; 0], "it takes next to nothing");
        let fill = |session: &mut AdapterSession, chunks: usize| {
            let (mut stream, bytes) = (ReceiveStream::EMPTY, vec![1; chunks << 16]);
            let placed = stream.place(0, 0, &bytes, &mut session.receive, 1);
            assert!(placed.is_ok());
        };
        fill(&mut sessions[0], 20);
        assert_eq!(users.overdrawn(), [0u64; 0]);
        fill(&mut sessions[1], 40);
        assert_eq!(users.counts.user_memory.load(Ordering::Relaxed), 0);
        assert_eq!(users.overdrawn(), [8]);
        assert_eq!(users.counts.user_memory.load(Ordering::Relaxed), 1);
        // All that it may have is not too much.
        let all: u64 = sessions.iter().map(|s| s.memory().in_use().unwrap()).sum();
        for (memory, expected) in [(all, None), (all - 1, Some(8))] {
            users.set_limits(UserLimits { sockets: 1, memory });
            let later = users.get(memory as u32);
            later.note_memory(7, sessions[0].memory());
            later.note_memory(8, sessions[1].memory());
            assert_eq!(later.overdrawn(), expected);
        }
        assert!(users.any_with_memory());
        drop(sessions);
        assert!(!users.any_with_memory() && users.overdrawn().is_empty());
        assert_eq!(users.counts.user_memory.load(Ordering::Relaxed), 2);
    }
}
