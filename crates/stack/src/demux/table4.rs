//! The connections of IPv4, by the addresses and ports of their segments.
//!
//! Owns [`Table4`]: open addressing in slots of 16 bytes, at most half of them in use,
//! so that what is looked for stands where its hash says or in one of the next few.
//! The demultiplexer keeps one; the few packets of IPv6 have a map of their own. A key
//! of 12 bytes takes one product with two secrets, so that nobody can choose flows that
//! meet (what peers see of a hash is made by
//! [`KeyedHash`](crate::secrets::KeyedHash), not here).

use longshore_wire::tcp4::Flow4;

/// The key of a slot that is free. No socket has it.
pub(super) const NO_KEY: u32 = u32::MAX;

/// The smallest table with anything in it, slots.
const LEAST: usize = 64;

/// A flow's words, and the key of its socket.
#[derive(Debug, Clone, Copy)]
struct Slot {
    addresses: u64,
    ports: u32,
    key: u32,
}

const FREE: Slot = Slot {
    addresses: 0,
    ports: 0,
    key: NO_KEY,
};

/// The table.
#[derive(Debug)]
pub(super) struct Table4 {
    /// None, or a power of two; at least half of them are free.
    slots: Box<[Slot]>,
    used: usize,
    /// The bits of a slot's number.
    mask: usize,
    secret: [u64; 2],
}

impl Table4 {
    /// An empty table that hashes with `secret`, random words.
    pub(super) fn new(secret: [u64; 2]) -> Self {
        Self {
            slots: Box::default(),
            used: 0,
            mask: 0,
            secret,
        }
    }

    /// A hash of which 40 bits count. The ends of both halves of the product tell less of
    /// what the words differ in than the middle.
    #[inline(always)]
    fn hash(&self, addresses: u64, ports: u32) -> u64 {
        let [a, b] = self.secret;
        let product = u128::from(addresses ^ a) * u128::from(u64::from(ports) ^ b);
        (product as u64 ^ (product >> 64) as u64) >> 24
    }

    /// The slot where the search for a flow begins.
    #[inline(always)]
    fn home(&self, addresses: u64, ports: u32) -> usize {
        self.hash(addresses, ports) as usize & self.mask
    }

    /// The key that is kept for a flow.
    #[inline(always)]
    pub(super) fn get(&self, flow: &Flow4) -> Option<u32> {
        let (addresses, ports) = flow.words();
        let home = self.home(addresses, ports);
        // Nothing is found in a table without slots.
        let slot = self.slots.get(home)?;
        if slot.ports == ports && slot.addresses == addresses && slot.key != NO_KEY {
            return Some(slot.key);
        }
        if slot.key == NO_KEY {
            return None;
        }
        self.get_beyond(home, addresses, ports)
    }

    /// As `get`, if another flow is at its `home`.
    #[inline(always)]
    fn get_beyond(&self, home: usize, addresses: u64, ports: u32) -> Option<u32> {
        let mut at = home;
        loop {
            at = self.next(at);
            let slot = self.slots.get(at)?;
            if slot.key == NO_KEY {
                return None;
            }
            if slot.ports == ports && slot.addresses == addresses {
                return Some(slot.key);
            }
        }
    }

    #[inline]
    fn next(&self, at: usize) -> usize {
        (at + 1) & self.mask
    }

    /// Where a flow stands, or else the free slot where it would; there must be one.
    fn find(&self, addresses: u64, ports: u32) -> usize {
        let mut at = self.home(addresses, ports);
        while let Some(slot) = self.slots.get(at)
            && slot.key != NO_KEY
            && (slot.addresses, slot.ports) != (addresses, ports)
        {
            at = self.next(at);
        }
        at
    }

    /// Whether a flow stands where its search begins.
    #[cfg(feature = "bench")]
    pub(super) fn is_at_home(&self, flow: &Flow4) -> bool {
        let (addresses, ports) = flow.words();
        self.find(addresses, ports) == self.home(addresses, ports)
    }

    /// Keeps `key`, which is not [`NO_KEY`], for a flow, in place of what was kept.
    pub(super) fn insert(&mut self, flow: &Flow4, key: u32) {
        if 2 * (self.used + 1) > self.slots.len() {
            self.grow();
        }
        let (addresses, ports) = flow.words();
        self.put(Slot {
            addresses,
            ports,
            key,
        });
    }

    fn put(&mut self, new: Slot) {
        let at = self.find(new.addresses, new.ports);
        if let Some(slot) = self.slots.get_mut(at) {
            self.used += usize::from(slot.key == NO_KEY);
            *slot = new;
        }
    }

    #[cold]
    fn grow(&mut self) {
        let len = (2 * self.slots.len()).max(LEAST);
        let old = std::mem::replace(&mut self.slots, vec![FREE; len].into());
        self.mask = len - 1;
        self.used = 0;
        for slot in old.into_iter().filter(|slot| slot.key != NO_KEY) {
            self.put(slot);
        }
    }

    /// How many flows there are.
    pub(super) fn len(&self) -> usize {
        self.used
    }

    /// Forgets all flows.
    pub(super) fn clear(&mut self) {
        *self = Self::new(self.secret);
    }

    /// Forgets a flow.
    pub(super) fn remove(&mut self, flow: &Flow4) {
        let (addresses, ports) = flow.words();
        let mut free = self.find(addresses, ports);
        if self.slots.get(free).is_none_or(|slot| slot.key == NO_KEY) {
            return;
        }
        self.used -= 1;
        // What follows without a gap moves up if its search comes past the free slot.
        let mask = self.mask;
        let mut at = free;
        loop {
            at = self.next(at);
            let slot = self.slots.get(at).copied().unwrap_or(FREE);
            if slot.key == NO_KEY {
                break;
            }
            let home = self.home(slot.addresses, slot.ports);
            let from_home = at.wrapping_sub(home) & mask;
            if from_home >= at.wrapping_sub(free) & mask {
                self.set(free, slot);
                free = at;
            }
        }
        self.set(free, FREE);
    }

    fn set(&mut self, at: usize, slot: Slot) {
        if let Some(place) = self.slots.get_mut(at) {
            *place = slot;
        }
    }
}

#[cfg(test)]
mod tests;
