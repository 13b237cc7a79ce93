//! Our IPv6 addresses, and duplicate address detection (RFC 4862 section 5.4).
//!
//! For each address one neighbour solicitation asks whether another host has it; if
//! there is no answer within a second, the address is unique. It is used meanwhile, as
//! RFC 4429 allows, because programs start at once; if another host answers, it is
//! given up. The engine sends what [`Addresses::poll`] returns and reports conflicts to
//! it. Addresses that [`router`](crate::router) has generated have lifetimes (RFC 4862
//! section 5.5.4).

use crate::source::Candidate;
use crate::{Cidr, Instant};
use core::net::{IpAddr, Ipv6Addr};
use longshore_wire::ipv6::{ALL_NODES, solicited_node};

/// Time between the solicitation and the conclusion that the address is unique (RFC
/// 4861's RETRANS_TIMER; RFC 4862's DupAddrDetectTransmits is 1).
const WAIT_MS: u64 = 1_000;
/// Most addresses that are kept.
pub const MOST: usize = 16;

/// The state of an address in duplicate address detection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// In use; detection has not finished.
    Optimistic,
    /// In use, and unique.
    Preferred,
    /// Another host has it: not in use.
    Duplicate,
    /// Its valid lifetime is over: not in use. Its entry is kept until it is needed, so
    /// that the order of the others does not change.
    Expired,
}

/// The lifetimes of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifetimes {
    /// Until then the address may be used.
    pub valid: Instant,
    /// Until then it is preferred for new connections over deprecated ones.
    pub preferred: Instant,
}

impl Lifetimes {
    /// The lifetimes of an address that was configured by hand.
    pub const FOR_EVER: Self = Self {
        valid: Instant(u64::MAX),
        preferred: Instant(u64::MAX),
    };
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    address: Ipv6Addr,
    prefix_len: u8,
    state: State,
    asked: bool,
    /// When the solicitation is to be sent, or detection ends.
    due: Instant,
    lifetimes: Lifetimes,
    deprecated: bool,
    /// For a generated address: how many earlier ones with its prefix were duplicates.
    made: Option<u8>,
}

impl Entry {
    const fn is_in_use(&self) -> bool {
        matches!(self.state, State::Optimistic | State::Preferred)
    }
}

/// The parameters of a generated address, for generating another one in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Generated {
    /// How many earlier ones were duplicates.
    pub attempt: u8,
    /// The length of its prefix, in bits.
    pub prefix_len: u8,
    /// Its lifetimes.
    pub lifetimes: Lifetimes,
}

/// A result of [`Addresses::poll`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Send a neighbour solicitation for it.
    Claim(Ipv6Addr),
    /// There was no answer: the address is unique.
    Ours(Ipv6Addr),
    /// Its valid lifetime is over.
    Expired(Ipv6Addr),
}

/// The addresses.
#[derive(Debug, Clone, Default)]
pub struct Addresses {
    entries: Vec<Entry>,
}

impl Addresses {
    /// No addresses.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            entries: Vec::new(),
        }
    }

    /// Adds an address with the length of its prefix; the solicitation is sent at `at`
    /// (RFC 4862 section 5.4.2: after a random delay of up to a second). Returns whether
    /// it was added: there is room for [`MOST`], each of them once.
    pub fn add(&mut self, address: Ipv6Addr, prefix_len: u8, at: Instant) -> bool {
        self.insert(address, at, None, prefix_len, Lifetimes::FOR_EVER)
    }

    /// As [`add`](Self::add), for a generated address.
    pub fn add_made(&mut self, address: Ipv6Addr, made: &Generated, at: Instant) -> bool {
        let attempt = Some(made.attempt);
        self.insert(address, at, attempt, made.prefix_len, made.lifetimes)
    }

    fn insert(
        &mut self,
        address: Ipv6Addr,
        at: Instant,
        made: Option<u8>,
        prefix_len: u8,
        lifetimes: Lifetimes,
    ) -> bool {
        let expired = |e: &Entry| e.state == State::Expired;
        let known = self.entries.iter().find(|e| e.address == address);
        if known.is_some_and(|e| !expired(e)) {
            return false;
        }
        // It reuses its own entry if there is one, or that of an expired address if the
        // table is full.
        let replaced = match known {
            Some(_) => Some(address),
            None if self.entries.len() < MOST => None,
            None => match self.entries.iter().find(|e| expired(e)) {
                Some(other) => Some(other.address),
                None => return false,
            },
        };
        if !crate::input6::may_be_source(address) {
            return false;
        }
        let entry = Entry {
            address,
            prefix_len: prefix_len.min(128),
            state: State::Optimistic,
            asked: false,
            due: at,
            lifetimes,
            deprecated: false,
            made,
        };
        let of_place = |e: &&mut Entry| Some(e.address) == replaced;
        match self.entries.iter_mut().find(of_place) {
            Some(place) => *place = entry,
            None => self.entries.push(entry),
        }
        true
    }

    /// The parameters of a generated address.
    #[must_use]
    pub fn made(&self, ip: Ipv6Addr) -> Option<Generated> {
        let e = self.entries.iter().find(|e| e.address == ip)?;
        Some(Generated {
            attempt: e.made?,
            prefix_len: e.prefix_len,
            lifetimes: e.lifetimes,
        })
    }

    /// The generated addresses in use with a prefix, and when their valid lifetimes end.
    pub fn made_with(
        &self,
        prefix: Ipv6Addr,
        prefix_len: u8,
    ) -> impl Iterator<Item = (Ipv6Addr, Instant)> + '_ {
        let network = Cidr {
            address: prefix.into(),
            prefix_len,
        };
        let of_prefix = move |e: &&Entry| {
            let same = e.prefix_len == prefix_len && network.contains(e.address.into());
            e.made.is_some() && e.state != State::Expired && same
        };
        let all = self.entries.iter().filter(of_prefix);
        all.map(|e| (e.address, e.lifetimes.valid))
    }

    /// Changes the lifetimes of an address.
    pub fn set_lifetimes(&mut self, ip: Ipv6Addr, lifetimes: Lifetimes, now: Instant) {
        if let Some(e) = self.entries.iter_mut().find(|e| e.address == ip) {
            e.lifetimes = lifetimes;
            e.deprecated = lifetimes.preferred <= now;
        }
    }

    /// Whether `ip` is one of our addresses.
    #[inline]
    #[must_use]
    pub fn is_ours(&self, ip: Ipv6Addr) -> bool {
        self.find(ip).is_some()
    }

    /// Whether `ip` is one of our addresses, and known to be unique.
    #[must_use]
    pub fn is_certain(&self, ip: Ipv6Addr) -> bool {
        self.find(ip).is_some_and(|e| e.state == State::Preferred)
    }

    /// Whether we listen to the group `ip`: all nodes, and the solicited-node groups of
    /// our addresses (even of one that is a duplicate: its owner was found by
    /// solicitation).
    #[must_use]
    pub fn listens_to(&self, ip: Ipv6Addr) -> bool {
        ip == ALL_NODES || self.groups().any(|group| group == ip)
    }

    /// The solicited-node groups of our addresses, each once.
    pub fn groups(&self) -> impl Iterator<Item = Ipv6Addr> + '_ {
        let live = |e: &&Entry| e.state != State::Expired;
        let all = self.entries.iter().enumerate();
        all.filter(move |(_, e)| live(e)).filter_map(move |(i, e)| {
            let group = solicited_node(e.address);
            let before = self.entries.iter().take(i);
            let earlier = before
                .filter(live)
                .any(|b| solicited_node(b.address) == group);
            (!earlier).then_some(group)
        })
    }

    /// Another host claims `ip`, or performs duplicate address detection for it:
    /// returns whether we have to give it up. An address known to be unique is kept: the
    /// later host has to yield (RFC 4862 section 5.4.4 leaves that to us).
    pub fn conflict(&mut self, ip: Ipv6Addr) -> bool {
        let found = self.entries.iter_mut().find(|e| e.address == ip);
        match found {
            Some(e) if e.state == State::Optimistic => {
                e.state = State::Duplicate;
                true
            }
            _ => false,
        }
    }

    /// Calls `tell` with each event that is due.
    pub fn poll(&mut self, now: Instant, mut tell: impl FnMut(Event)) {
        for e in &mut self.entries {
            if e.is_in_use() && e.lifetimes.valid <= now {
                e.state = State::Expired;
                tell(Event::Expired(e.address));
            }
            e.deprecated |= e.lifetimes.preferred <= now;
            if e.state != State::Optimistic || now < e.due {
                continue;
            }
            if e.asked {
                e.state = State::Preferred;
                tell(Event::Ours(e.address));
            } else {
                e.asked = true;
                e.due = now.after_ms(WAIT_MS);
                tell(Event::Claim(e.address));
            }
        }
    }

    /// When [`poll`](Self::poll) has an event.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        const NEVER: Instant = Instant(u64::MAX);
        let of = |e: &Entry| {
            let asks = e.state == State::Optimistic;
            let asks = if asks { e.due } else { NEVER };
            let ages = if e.deprecated {
                e.lifetimes.valid
            } else {
                e.lifetimes.preferred
            };
            asks.min(ages)
        };
        let in_use = self.entries.iter().filter(|e| e.is_in_use());
        in_use.map(of).min().filter(|due| *due != NEVER)
    }

    /// Our address towards `destination` (RFC 6724).
    #[must_use]
    pub fn source_for(&self, destination: Ipv6Addr) -> Option<Ipv6Addr> {
        let usable = self.entries.iter().filter(|e| e.is_in_use());
        let candidates = usable.map(|e| Candidate {
            address: e.address,
            prefix_len: e.prefix_len,
            deprecated: e.deprecated || e.state == State::Optimistic,
        });
        crate::source::select(candidates, destination)
    }

    /// All addresses, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = (Cidr, State)> + '_ {
        self.entries.iter().map(|e| {
            let cidr = Cidr {
                address: IpAddr::V6(e.address),
                prefix_len: e.prefix_len,
            };
            (cidr, e.state)
        })
    }

    #[inline]
    fn find(&self, ip: Ipv6Addr) -> Option<&Entry> {
        self.entries
            .iter()
            .find(|e| e.address == ip && e.is_in_use())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);
    const LINK: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2);

    fn at(ms: u64) -> Instant {
        Instant(1).after_ms(ms)
    }

    fn events(a: &mut Addresses, ms: u64) -> Vec<Event> {
        let mut all = Vec::new();
        a.poll(at(ms), |e| all.push(e));
        all
    }

    fn having() -> Addresses {
        let mut a = Addresses::new();
        assert!(a.add(A, 64, at(300)));
        a
    }

    #[test]
    fn a_second_of_silence_makes_it_ours() {
        let mut a = having();
        assert!(a.is_ours(A) && !a.is_certain(A), "in use at once");
        assert_eq!(a.deadline(), Some(at(300)));
        assert_eq!(events(&mut a, 299), []);
        assert_eq!(events(&mut a, 310), [Event::Claim(A)]);
        assert_eq!(events(&mut a, 1_309), []);
        assert_eq!(a.deadline(), Some(at(1_310)));
        assert_eq!(events(&mut a, 1_310), [Event::Ours(A)]);
        assert!(a.is_certain(A));
        assert_eq!(a.deadline(), None);
        assert!(!a.conflict(A), "too late");
        assert!(a.is_ours(A));
    }

    #[test]
    fn who_has_it_already_keeps_it() {
        let mut a = having();
        events(&mut a, 300);
        assert!(a.conflict(A));
        assert!(!a.is_ours(A) && !a.conflict(A));
        assert_eq!(events(&mut a, 5_000), []);
        assert_eq!(a.source_for(A), None);
        assert_eq!(a.iter().next().map(|(_, s)| s), Some(State::Duplicate));
        assert!(!a.conflict(LINK));
    }

    #[test]
    fn groups_are_those_of_the_addresses() {
        let mut a = having();
        assert!(a.add(LINK, 64, at(0)), "the same last three bytes");
        assert_eq!(a.groups().collect::<Vec<_>>(), [solicited_node(A)]);
        assert!(a.listens_to(solicited_node(A)) && a.listens_to(ALL_NODES));
        assert!(!a.listens_to(longshore_wire::ipv6::ALL_ROUTERS));
    }

    #[test]
    fn the_table_is_bounded_and_takes_hosts_alone() {
        let mut a = Addresses::new();
        assert!(!a.add(Ipv6Addr::LOCALHOST, 128, at(0)));
        assert!(!a.add(ALL_NODES, 64, at(0)));
        for i in 0..MOST as u16 + 3 {
            let ip = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 1, i);
            assert_eq!(a.add(ip, 64, at(0)), usize::from(i) < MOST);
            assert!(!a.add(ip, 64, at(0)), "there already");
        }
        assert_eq!(a.iter().count(), MOST);
    }

    #[test]
    fn what_we_made_has_an_end_and_keeps_its_place() {
        let mut a = Addresses::new();
        let made = Generated {
            attempt: 0,
            prefix_len: 64,
            lifetimes: Lifetimes {
                valid: at(9_000),
                preferred: at(5_000),
            },
        };
        assert!(a.add_made(A, &made, at(0)) && !a.add_made(A, &made, at(0)));
        let b = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 3);
        a.add(b, 64, at(0));
        events(&mut a, 0);
        events(&mut a, 1_000);
        let to = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
        assert_eq!((a.source_for(to), a.deadline()), (Some(A), Some(at(5_000))));
        assert_eq!(events(&mut a, 5_000), []);
        assert_eq!(a.source_for(to), Some(b), "no longer preferred");
        assert!(a.is_ours(A));
        assert_eq!(a.deadline(), Some(at(9_000)));
        assert_eq!(events(&mut a, 9_000), [Event::Expired(A)]);
        assert!(!a.is_ours(A) && a.deadline().is_none());
        assert_eq!(a.groups().collect::<Vec<_>>(), [solicited_node(b)]);
        let places = |a: &Addresses| a.iter().map(|(c, _)| c.address).collect::<Vec<_>>();
        assert_eq!(places(&a), [IpAddr::V6(A), IpAddr::V6(b)]);
        assert!(a.add_made(A, &made, at(9_000)), "it may come again");
        assert_eq!(places(&a).len(), 2);
    }

    /// RFC 4862 section 5.5.4: deprecated from the end of the preferred lifetime on, until another
    /// one is given.
    #[test]
    fn an_address_is_deprecated_while_others_are_preferred() {
        let mut a = Addresses::new();
        let lifetimes = |preferred| Lifetimes {
            valid: at(90_000),
            preferred: at(preferred),
        };
        let made = Generated {
            attempt: 0,
            prefix_len: 64,
            lifetimes: lifetimes(5_000),
        };
        let b = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 3);
        assert!(a.add_made(A, &made, at(0)) && a.add(b, 64, at(0)));
        events(&mut a, 0);
        events(&mut a, 1_000);
        let to = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
        for (now, source) in [(4_999, A), (5_000, b), (5_001, b), (6_000, b)] {
            events(&mut a, now);
            assert_eq!(a.source_for(to), Some(source), "{now}");
        }
        for (preferred, source) in [(6_001, A), (6_000, b), (5_999, b), (9_000, A)] {
            a.set_lifetimes(A, lifetimes(preferred), at(6_000));
            assert_eq!(a.source_for(to), Some(source), "{preferred}");
        }
        // Those of a prefix that were made, and not what was given.
        let of = |prefix: Ipv6Addr, len| a.made_with(prefix, len).collect::<Vec<_>>();
        assert_eq!(of(A, 64), [(A, at(90_000))]);
        assert_eq!(of(A, 63), []);
        assert_eq!(of(Ipv6Addr::new(0xfd01, 0, 0, 0, 0, 0, 0, 0), 64), []);
    }

    #[test]
    fn what_is_certain_is_preferred() {
        let mut a = having();
        let b = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 3);
        a.add(b, 64, at(9_000));
        events(&mut a, 300);
        events(&mut a, 1_300);
        let to = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 7);
        assert_eq!(a.source_for(to), Some(A));
        assert_eq!(a.source_for(b), Some(b));
    }
}
