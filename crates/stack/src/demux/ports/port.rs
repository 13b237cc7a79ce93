//! One port: the classes of those who are bound to it, by address.
//!
//! Owns [`Port`]. `table` has one for each port that is bound, and the look-up of a packet goes
//! through the few classes here that may take it.

use super::bound::Bound;
use super::class::Class;
use crate::demux::flow::{Keyed, bits};
use std::collections::HashMap;
use std::net::IpAddr;

/// Those who have a port. How many classes there are of a wildcard, or of one address, depends on the
/// users and the flags of those who are bound to it; how many addresses there are is nothing to those who
/// look for what is bound to one, or to one that is to be bound.
#[derive(Debug)]
pub(super) struct Port {
    /// Of those that are bound to a wildcard.
    to_any: Vec<Class>,
    /// Of the others, by address.
    by_address: HashMap<u128, Vec<Class>, Keyed>,
    /// How those others are bound [but for their addresses](Bound::at_some_address), and how many so.
    at_some_address: Vec<(Bound, u32)>,
}

impl Port {
    /// Nobody has it.
    pub(super) fn new(hash: Keyed) -> Self {
        Self {
            to_any: Vec::new(),
            by_address: HashMap::with_hasher(hash),
            at_some_address: Vec::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.to_any.is_empty() && self.by_address.is_empty()
    }

    /// The classes that a packet to `ip` may be for, and others.
    #[inline]
    pub(super) fn near(&self, ip: IpAddr) -> impl Iterator<Item = &Class> + Clone {
        let own = match self.by_address.is_empty() {
            true => None,
            false => self.by_address.get(&bits(ip)),
        };
        self.to_any.iter().chain(own.map_or(&[][..], Vec::as_slice))
    }

    /// The classes that packets to `ip` are for.
    #[inline]
    pub(super) fn taking(&self, ip: IpAddr) -> impl Iterator<Item = &Class> + Clone {
        self.near(ip).filter(move |class| class.bound.takes(ip))
    }

    /// How those are bound that are bound to a wildcard.
    pub(super) fn to_any(&self) -> impl Iterator<Item = &Bound> {
        self.to_any.iter().map(|class| &class.bound)
    }

    /// Whether this is so of one of those who have the port that may get the same packets as `new`,
    /// other than the socket that is bound as `me`.
    pub(super) fn has_other(
        &self,
        new: &Bound,
        me: Option<&Bound>,
        is_so: impl Fn(&Bound) -> bool,
    ) -> bool {
        let is_so_of = |class: &Class| class.has_others_than(me) && is_so(&class.bound);
        if !new.is_to_any() {
            return self.near(new.address).any(is_so_of);
        }
        let me = me.filter(|me| !me.is_to_any());
        let me = me.map(|me| me.at_some_address());
        let mut at_some_address = self.at_some_address.iter();
        let is_so_there = |(bound, count): &(Bound, u32)| {
            *count > u32::from(me.as_ref() == Some(bound)) && is_so(bound)
        };
        self.to_any.iter().any(is_so_of) || at_some_address.any(is_so_there)
    }

    /// How many are compared with `new` for [`has_other`](Self::has_other).
    pub(super) fn compared_with(&self, new: &Bound) -> usize {
        if new.is_to_any() {
            self.ways()
        } else {
            self.near(new.address).count()
        }
    }

    /// In how many ways sockets are bound to it, whatever their addresses.
    pub(super) fn ways(&self) -> usize {
        self.to_any.len() + self.at_some_address.len()
    }

    /// Whether somebody is bound to it in the way of `new`.
    pub(super) fn has_way(&self, new: &Bound) -> bool {
        if new.is_to_any() {
            return self.to_any().any(|bound| bound == new);
        }
        let way = new.at_some_address();
        self.at_some_address.iter().any(|(bound, _)| *bound == way)
    }

    // ---- Who comes and goes. ----

    fn classes_mut(&mut self, bound: &Bound) -> Option<&mut Vec<Class>> {
        if bound.is_to_any() {
            Some(&mut self.to_any)
        } else {
            self.by_address.get_mut(&bits(bound.address))
        }
    }

    /// The class of those who are bound so.
    pub(super) fn class_mut(&mut self, bound: &Bound) -> Option<&mut Class> {
        let mut classes = self.classes_mut(bound)?.iter_mut();
        classes.find(|class| class.bound == *bound)
    }

    /// One more is bound so: the class that it belongs to.
    pub(super) fn enter(&mut self, bound: &Bound) -> Option<&mut Class> {
        if !bound.is_to_any() {
            self.by_address.entry(bits(bound.address)).or_default();
            self.count_at_some_address(bound);
        }
        let classes = self.classes_mut(bound)?;
        let at = classes.iter().position(|class| class.bound == *bound);
        let at = at.unwrap_or_else(|| {
            if classes.is_empty() {
                // Of one address there is hardly ever another.
                classes.reserve_exact(1);
            }
            classes.push(Class::new(*bound));
            classes.len() - 1
        });
        let class = classes.get_mut(at)?;
        class.count += 1;
        Some(class)
    }

    fn count_at_some_address(&mut self, bound: &Bound) {
        let way = bound.at_some_address();
        let mut ways = self.at_some_address.iter_mut();
        match ways.find(|(bound, _)| *bound == way) {
            Some((_, count)) => *count += 1,
            None => self.at_some_address.push((way, 1)),
        }
    }

    /// One of those who are bound so goes, which its class does not name any more.
    pub(super) fn leave(&mut self, bound: &Bound) {
        let Some(classes) = self.classes_mut(bound) else {
            return;
        };
        let of = classes.iter_mut().find(|class| class.bound == *bound);
        let Some(class) = of else {
            return;
        };
        class.count -= 1;
        if class.count == 0 {
            classes.retain(|class| class.count != 0);
        }
        if bound.is_to_any() {
            return;
        }
        if classes.is_empty() {
            self.by_address.remove(&bits(bound.address));
        }
        let way = bound.at_some_address();
        let mut ways = self.at_some_address.iter_mut();
        if let Some((_, count)) = ways.find(|(bound, _)| *bound == way) {
            *count -= 1;
        }
        self.at_some_address.retain(|(_, count)| *count != 0);
    }
}
