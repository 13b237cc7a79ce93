//! Instances in other instances, at whatever depth the kernel takes them: whether anything of
//! the engine's is in them, and whether it is ready.
//!
//! The kernel sees in an inner instance what is the kernel's, and the eventfd on which the
//! engine wakes us; whether that was for anything is looked up here. Called by all who
//! sleep for an instance (`epoll_wait`, `poll`, `select`).

use super::{Instance, Registered, instance};
use longshore_hostif::{OwnersSignal, Raised};
use longshore_sockets::{ReadySet, SocketError};
use std::ops::Add;
use std::sync::atomic::Ordering;

/// How often the kernel is asked again about what is not there any more: the engine may ring
/// once more for what was taken meanwhile.
const MOST_ASKED: usize = 4;

/// What an instance can be ready for.
const READABLE: u32 = (libc::EPOLLIN | libc::EPOLLRDNORM) as u32;

impl Instance {
    /// Whether there are instances in this one.
    pub(crate) fn has_nested(&self) -> bool {
        self.has_nested.load(Ordering::Relaxed)
    }

    /// Whether this one, or any in it, has a ready set.
    pub(crate) fn has_sets(&self) -> bool {
        self.set().is_some() || self.has_nested_sets()
    }

    /// Whether any instance in this one has a ready set.
    pub(crate) fn has_nested_sets(&self) -> bool {
        self.has_nested()
            && self
                .with_nested(|nested| nested.iter().any(|r| has_sets(r.inner)))
                .unwrap_or(false)
    }

    /// Looks at what is registered of the instances that are in this one.
    ///
    /// # Errors
    /// If a signal handler has interrupted this thread while it was looking.
    pub(crate) fn with_nested<T>(
        &self,
        look: impl FnOnce(&[Registered]) -> T,
    ) -> Result<T, SocketError> {
        Ok(look(&self.lists.enter()?.nested))
    }

    /// Takes those of the instances in this one that are ready for sockets of the engine, each by
    /// what is asked of it and its word, of which `report` says whether there was room for it.
    ///
    /// # Errors
    /// As [`Self::with_nested`].
    pub(crate) fn harvest_nested(
        &self,
        mut report: impl FnMut(u32, u64) -> bool,
    ) -> Result<(), SocketError> {
        for r in &mut self.lists.enter()?.nested {
            let is_reported = is_nested_ready(r) && report(r.events & READABLE, r.data);
            if is_reported && r.is_once() {
                self.silence_nested(r);
            }
        }
        Ok(())
    }

    /// The instances in this one and in those, by their numbers.
    ///
    /// # Errors
    /// As [`Self::with_nested`].
    pub(super) fn all_within(&self) -> Result<Vec<u32>, SocketError> {
        let mut found = Vec::new();
        self.gather_within(&mut found)?;
        Ok(found)
    }

    fn gather_within(&self, found: &mut Vec<u32>) -> Result<(), SocketError> {
        if !self.has_nested() {
            return Ok(());
        }
        let inner = |nested: &[Registered]| nested.iter().map(|r| r.inner).collect();
        let numbers: Vec<u32> = self.with_nested(inner)?;
        for number in numbers {
            if !found.contains(&number) {
                found.push(number);
                instance(number).map_or(Ok(()), |inner| inner.gather_within(found))?;
            }
        }
        Ok(())
    }

    /// Those of it and of the instances `within` it that have a ready set, each with that.
    pub(super) fn having_sets(
        &'static self,
        within: &[u32],
    ) -> impl Iterator<Item = (&'static Self, ReadySet)> {
        let within = within.iter().filter_map(|number| instance(*number));
        let all = std::iter::once(self).chain(within);
        all.filter_map(|of| Some((of, of.set()?)))
    }

    /// Its ready set, and those of the instances in it.
    pub(super) fn sets(&'static self) -> Result<Vec<ReadySet>, SocketError> {
        let within = self.all_within()?;
        Ok(self.having_sets(&within).map(|(_, set)| set).collect())
    }

    /// Whether any of the engine's sockets in it, or in instances in it, is ready.
    pub(crate) fn is_ready(&self) -> bool {
        self.set().is_some_and(|set| set.is_ready())
            || self.has_nested()
                && self
                    .with_nested(|nested| nested.iter().any(is_nested_ready))
                    .unwrap_or(false)
    }

    /// How often the owners of all its sockets were signalled, all together.
    pub(crate) fn raised(&'static self, signal: OwnersSignal) -> Raised {
        let within = self.all_within().unwrap_or_default();
        let each = self.having_sets(&within).map(|(_, set)| set.raised(signal));
        each.fold(Raised::default(), Raised::add)
    }

    /// Whether what the kernel says of this instance is of the eventfds in it alone, which were
    /// written to for what is not there any more, or of the engine's end. Reads them, and takes out
    /// the connection to an engine that is gone. `is_reported` asks the kernel again.
    ///
    /// # Errors
    /// As [`Self::with_nested`].
    pub(crate) fn is_hollow(
        &'static self,
        is_reported: impl FnMut() -> bool,
    ) -> Result<bool, SocketError> {
        let within = self.all_within()?;
        let all: Vec<_> = self.having_sets(&within).collect();
        let is_hollow = self.silence_all(&all, is_reported);
        for (_, set) in &all {
            set.hand_on();
        }
        is_hollow
    }

    fn silence_all(
        &self,
        all: &[(&'static Self, ReadySet)],
        mut is_reported: impl FnMut() -> bool,
    ) -> Result<bool, SocketError> {
        for _ in 0..MOST_ASKED {
            if all.is_empty() || self.is_ready() {
                return Ok(false);
            }
            for (_, set) in all {
                set.silence()?;
            }
            if !is_reported() {
                return Ok(true);
            }
            for (of, _) in all {
                of.take_lost_connection_out();
            }
        }
        Ok(false)
    }
}

fn has_sets(number: u32) -> bool {
    instance(number).is_some_and(Instance::has_sets)
}

/// Whether an instance that is registered in another is to be reported for the engine's sockets.
fn is_nested_ready(r: &Registered) -> bool {
    !r.disarmed && r.events & READABLE != 0 && instance(r.inner).is_some_and(Instance::is_ready)
}
