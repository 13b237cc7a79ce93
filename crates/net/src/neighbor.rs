//! The neighbour cache of either version of IP, with the states of RFC 4861 section 7.3,
//! which also serve ARP (RFC 1122 section 2.3.2).
//!
//! The engine has one for each version. It looks up the next hop of each packet and sends
//! the requests that are returned: ARP requests or neighbour solicitations.
//! [`Neighbors::learn`] and [`NeighborEvent::Failed`] say when waiting sockets should
//! look again. Complete packets that no socket keeps wait here ([`Neighbors::hold`], a
//! few for each neighbour), and are taken out in both cases.
//!
//! ```text
//!   lookup            answer               60 s              lookup
//! (none) -> Incomplete -> Reachable --------------> Stale ---------> Delay
//!               | 3 s         ^                       ^                | 5 s
//!               v             | answer                | its own        v
//!             Failed <------- Probe <---------------- request -------- Probe
//! ```
//!
//! A neighbour in Stale, Delay or Probe stays in use.

mod address;
mod held;

use crate::Instant;
pub use address::Address;
use core::net::Ipv4Addr;
use held::Held;
use longshore_wire::MacAddr;
use std::collections::VecDeque;

/// Interval between requests (RFC 1122 section 2.3.2.1: at most one per second; RFC
/// 4861's RETRANS_TIMER).
const RETRY_MS: u64 = 1_000;
/// Requests before a neighbour counts as failed (RFC 4861's MAX_MULTICAST_SOLICIT and
/// MAX_UNICAST_SOLICIT).
const TRIES: u8 = 3;
/// Time between the first use of a stale entry and the request that verifies it (RFC
/// 4861's DELAY_FIRST_PROBE_TIME).
const DELAY_MS: u64 = 5_000;
/// How long no request is sent for a neighbour that did not answer.
const FAILED_MS: u64 = 3_000;

/// The state of a neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// A request was sent; there is no answer yet.
    Incomplete,
    /// It has answered recently.
    Reachable,
    /// It has answered some time ago, or has sent us a request.
    Stale,
    /// A stale entry is in use and will be verified.
    Delay,
    /// A stale entry is in use and being verified.
    Probe,
    /// It did not answer.
    Failed,
}

#[derive(Debug, Clone, Copy)]
struct Entry<A> {
    ip: A,
    mac: MacAddr,
    state: State,
    tries: u8,
    /// When the state changes by itself; unused in Stale.
    until: Instant,
    /// Last looked up, 0 for never.
    used: Instant,
}

/// The result of a lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lookup {
    /// Its hardware address.
    Found(MacAddr),
    /// A request was sent; there is no answer yet.
    Wait,
    /// Send a request now; the cache records it as sent.
    Ask,
    /// It did not answer.
    Failed,
}

/// An event of [`Neighbors::poll`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NeighborEvent<A> {
    /// Broadcast a request for it now.
    Ask(A),
    /// Send it a request at its known hardware address.
    Probe(A, MacAddr),
    /// It did not answer; notify the sockets that wait for it.
    Failed(A),
}

/// Counters of the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NeighborCounters {
    /// Requests asked for.
    pub asked: u64,
    /// Awaited neighbours that were resolved.
    pub resolved: u64,
    /// Neighbours that did not answer.
    pub failed: u64,
    /// Entries evicted for others.
    pub evicted: u64,
    /// Claims about unknown neighbours that were not sent to us.
    pub ignored: u64,
}

/// The neighbour cache.
#[derive(Debug, Clone)]
pub struct Neighbors<A = Ipv4Addr> {
    /// Sorted by address.
    entries: Vec<Entry<A>>,
    capacity: usize,
    /// Not later than the first `until` that causes an event.
    next: Option<Instant>,
    /// Index of the entry that the last lookup found.
    last: usize,
    /// How long an answer is valid, and the interval between requests, in milliseconds.
    reachable_ms: u64,
    retry_ms: u64,
    /// Packets for unresolved neighbours.
    held: Held<A>,
    /// Number of held packets that were dropped.
    overflowed: u64,
    counters: NeighborCounters,
}

impl<A: Address> Neighbors<A> {
    /// An empty cache of at most `capacity` neighbours, at least one.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self {
            entries: Vec::new(),
            capacity: capacity.max(1),
            next: None,
            last: 0,
            reachable_ms: A::REACHABLE_MS,
            retry_ms: RETRY_MS,
            held: Held::new(),
            overflowed: 0,
            counters: NeighborCounters::default(),
        }
    }

    /// Sets how long answers are valid and the interval between requests, in milliseconds
    /// (RFC 4861 section 6.3.4).
    pub const fn set_times(&mut self, reachable_ms: Option<u32>, retry_ms: Option<u32>) {
        if let Some(ms) = reachable_ms {
            self.reachable_ms = ms as u64;
        }
        if let Some(ms) = retry_ms {
            self.retry_ms = ms as u64;
        }
    }

    /// Looks up the hardware address of `ip`.
    #[inline]
    pub fn lookup(&mut self, ip: A, now: Instant) -> Lookup {
        if let Some(e) = self.entries.get_mut(self.last)
            && e.ip == ip
            && match e.state {
                State::Reachable => now < e.until,
                State::Delay | State::Probe => true,
                State::Incomplete | State::Stale | State::Failed => false,
            }
        {
            e.used = now;
            return Lookup::Found(e.mac);
        }
        self.lookup_slow(ip, now)
    }

    fn lookup_slow(&mut self, ip: A, now: Instant) -> Lookup {
        let found = self.find(ip).ok();
        let Some((at, e)) = found.and_then(|at| Some((at, self.entries.get_mut(at)?))) else {
            self.insert(Entry {
                ip,
                mac: MacAddr::default(),
                state: State::Incomplete,
                tries: 1,
                until: now.after_ms(self.retry_ms),
                used: now,
            });
            self.arm(now.after_ms(self.retry_ms));
            self.counters.asked += 1;
            return Lookup::Ask;
        };
        self.last = at;
        e.used = now;
        if e.state == State::Reachable && now >= e.until {
            e.state = State::Stale;
        }
        match e.state {
            State::Reachable | State::Delay | State::Probe => Lookup::Found(e.mac),
            State::Stale => {
                e.state = State::Delay;
                e.until = now.after_ms(DELAY_MS);
                let (mac, until) = (e.mac, e.until);
                self.arm(until);
                Lookup::Found(mac)
            }
            State::Incomplete => Lookup::Wait,
            State::Failed if now < e.until => Lookup::Failed,
            State::Failed => {
                e.state = State::Incomplete;
                e.tries = 1;
                e.until = now.after_ms(self.retry_ms);
                let until = e.until;
                self.arm(until);
                self.counters.asked += 1;
                Lookup::Ask
            }
        }
    }

    /// A neighbour has claimed that `ip` is at `mac`: in an answer or request `to_us`, or
    /// by broadcast. A claim that was not sent to us only updates an existing entry.
    /// Returns whether waiting packets can be sent.
    pub fn learn(&mut self, ip: A, mac: MacAddr, to_us: bool, now: Instant) -> bool {
        self.process_claim(ip, mac, to_us, to_us, now)
    }

    /// `ip` has sent us a request with its hardware address `mac`, which does not prove
    /// that it receives our packets (RFC 4861 section 7.2.3). Returns whether waiting
    /// packets can be sent.
    pub fn asked_by(&mut self, ip: A, mac: MacAddr, now: Instant) -> bool {
        self.process_claim(ip, mac, true, false, now)
    }

    /// An advertisement of `ip` (RFC 4861 section 7.2.5), with its hardware address if it
    /// has that option; an answer to us if `solicited`. Returns whether waiting packets
    /// can be sent.
    pub fn advertised(
        &mut self,
        ip: A,
        mac: Option<MacAddr>,
        solicited: bool,
        overrides: bool,
        now: Instant,
    ) -> bool {
        let mac = mac.filter(|mac| mac.is_unicast());
        let Some(e) = entry_of(&mut self.entries, ip) else {
            self.counters.ignored += 1;
            return false;
        };
        let awaited = matches!(e.state, State::Incomplete | State::Failed);
        let differs = mac.is_some_and(|mac| mac != e.mac);
        if awaited && mac.is_none() {
            self.counters.ignored += 1;
            return false;
        }
        if differs && !overrides && !awaited {
            // Another host claims the address too; a request will decide which is right.
            if e.state == State::Reachable {
                e.state = State::Stale;
            }
            return false;
        }
        e.mac = mac.unwrap_or(e.mac);
        if solicited {
            e.state = State::Reachable;
            e.until = now.after_ms(self.reachable_ms);
        } else if awaited || differs {
            e.state = State::Stale;
        }
        self.counters.resolved += u64::from(awaited);
        awaited
    }

    /// Processes the claim that `ip` is at `mac`. `create` says whether to add an entry
    /// if there is none; `confirms`, whether the claim makes a requested entry reachable.
    fn process_claim(
        &mut self,
        ip: A,
        mac: MacAddr,
        create: bool,
        confirms: bool,
        now: Instant,
    ) -> bool {
        if !mac.is_unicast() || !ip.may_be_neighbor() {
            self.counters.ignored += 1;
            return false;
        }
        let Some(e) = entry_of(&mut self.entries, ip) else {
            if create {
                self.insert(Entry {
                    ip,
                    mac,
                    state: State::Stale,
                    tries: 0,
                    until: now,
                    used: Instant(0),
                });
            } else {
                self.counters.ignored += 1;
            }
            return false;
        };
        let awaited = matches!(e.state, State::Incomplete | State::Failed);
        let asked = awaited || e.state == State::Probe;
        if confirms && asked {
            e.state = State::Reachable;
            e.until = now.after_ms(self.reachable_ms);
        } else if awaited || e.mac != mac {
            e.state = State::Stale;
        }
        e.mac = mac;
        self.counters.resolved += u64::from(awaited);
        awaited
    }

    /// Holds a complete packet for the unresolved neighbour `ip`: as many as fit, the
    /// newest. [`release`](Self::release) returns them when `ip` was resolved or has
    /// failed.
    pub fn hold(&mut self, ip: A, packet: Vec<u8>) {
        let awaited = entry_of(&mut self.entries, ip).is_some_and(|e| e.state == State::Incomplete);
        let dropped = if awaited {
            self.held.push(ip, packet)
        } else {
            1
        };
        self.overflowed += dropped;
    }

    /// Returns and resets the number of held packets that were dropped, because there
    /// were too many, their neighbour's entry was evicted, or they were for a neighbour
    /// without a request.
    pub fn take_overflowed(&mut self) -> u64 {
        std::mem::take(&mut self.overflowed)
    }

    /// Takes the packets that are held for `ip`, oldest first.
    pub fn release(&mut self, ip: A) -> VecDeque<Vec<u8>> {
        self.held.take(ip)
    }

    /// The transport has confirmed that packets to `ip` arrive (RFC 4861 section 7.3.1):
    /// its address need not be verified.
    pub fn confirm(&mut self, ip: A, now: Instant) {
        if let Some(e) = entry_of(&mut self.entries, ip)
            && !matches!(e.state, State::Incomplete | State::Failed)
        {
            e.state = State::Reachable;
            e.until = now.after_ms(self.reachable_ms);
        }
    }

    /// Restarts the requests for all unresolved neighbours: earlier requests could not be
    /// answered, since our address was not known to be unique yet (RFC 4429 section 3.3).
    pub fn ask_again(&mut self, now: Instant) {
        for e in &mut self.entries {
            if e.state == State::Incomplete {
                (e.tries, e.until) = (0, now);
                self.next = Some(now);
            }
        }
    }

    /// The link was down, or is another: a neighbour in use is verified now; requests for
    /// one that was unresolved or had failed restart.
    pub fn link_returned(&mut self, now: Instant) {
        for e in &mut self.entries {
            match e.state {
                State::Stale => continue,
                State::Reachable if now >= e.until => {
                    e.state = State::Stale;
                    continue;
                }
                State::Reachable | State::Delay => e.state = State::Probe,
                State::Incomplete | State::Probe | State::Failed => {}
            }
            (e.tries, e.until) = (0, now);
            if e.state != State::Failed {
                self.next = Some(now);
            }
        }
    }

    /// Calls `tell` with each event that is due.
    pub fn poll(&mut self, now: Instant, mut tell: impl FnMut(NeighborEvent<A>)) {
        if self.next.is_none_or(|next| now < next) {
            return;
        }
        let mut next = None::<Instant>;
        for e in &mut self.entries {
            let waits = matches!(e.state, State::Incomplete | State::Delay | State::Probe);
            if !waits {
                continue;
            }
            if now >= e.until {
                match e.state {
                    State::Delay => {
                        e.state = State::Probe;
                        e.tries = 1;
                    }
                    _ if e.tries < TRIES => e.tries += 1,
                    _ => {
                        e.state = State::Failed;
                        e.until = now.after_ms(FAILED_MS);
                        self.counters.failed += 1;
                        tell(NeighborEvent::Failed(e.ip));
                        continue;
                    }
                }
                e.until = now.after_ms(self.retry_ms);
                self.counters.asked += 1;
                tell(match e.state {
                    State::Probe => NeighborEvent::Probe(e.ip, e.mac),
                    _ => NeighborEvent::Ask(e.ip),
                });
            }
            next = Some(next.map_or(e.until, |n| n.min(e.until)));
        }
        self.next = next;
    }

    /// When [`poll`](Self::poll) should be called next; sometimes earlier than necessary,
    /// never later.
    #[must_use]
    pub const fn deadline(&self) -> Option<Instant> {
        self.next
    }

    /// The number of unresolved neighbours.
    #[must_use]
    pub fn pending(&self) -> usize {
        let waited = self.entries.iter();
        waited.filter(|e| e.state == State::Incomplete).count()
    }

    /// All entries, by address, with the hardware address if it is known.
    pub fn iter(&self) -> impl Iterator<Item = (A, State, Option<MacAddr>)> + '_ {
        self.entries.iter().map(|e| {
            let none = matches!(e.state, State::Incomplete | State::Failed);
            (e.ip, e.state, (!none).then_some(e.mac))
        })
    }

    /// The counters of the cache.
    #[must_use]
    pub const fn counters(&self) -> &NeighborCounters {
        &self.counters
    }

    fn find(&self, ip: A) -> Result<usize, usize> {
        self.entries.binary_search_by_key(&ip, |e| e.ip)
    }

    fn arm(&mut self, until: Instant) {
        self.next = Some(self.next.map_or(until, |n| n.min(until)));
    }

    /// Inserts an entry for an address that has none. If the cache is full it replaces
    /// the least useful one: a failed one first, then the least recently used, unresolved
    /// ones last.
    fn insert(&mut self, entry: Entry<A>) {
        if self.entries.len() >= self.capacity {
            let rank = |e: &Entry<A>| match e.state {
                State::Failed => 0,
                State::Incomplete => 2,
                _ => 1,
            };
            let all = self.entries.iter().enumerate();
            if let Some((victim, _)) = all.min_by_key(|(_, e)| (rank(e), e.used)) {
                let gone = self.entries.remove(victim);
                self.counters.evicted += 1;
                self.overflowed += self.held.take(gone.ip).len() as u64;
            }
        }
        if let Err(at) = self.find(entry.ip) {
            self.entries.insert(at, entry);
        }
    }
}

/// The entry of `ip` in `entries`, which are sorted by address.
fn entry_of<A: Ord>(entries: &mut [Entry<A>], ip: A) -> Option<&mut Entry<A>> {
    let at = entries.binary_search_by(|e| e.ip.cmp(&ip)).ok()?;
    entries.get_mut(at)
}

#[cfg(test)]
mod tests;
