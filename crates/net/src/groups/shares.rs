//! How much of what a link has room for each session and each user takes, so that none takes the
//! room that another needs.
//!
//! Owns [`Member`], [`Full`], and what is counted by them: [`Taken`] has the groups, and each group
//! of `groups` has [`Shares`] of its sources. A group that several join counts once for each of
//! them, however many of its sockets are members.

use super::merged::{Filter, Merged};
use std::collections::BTreeMap;

/// Most groups that are kept.
pub const MOST: usize = 512;
/// Most sources that the memberships in one group list.
pub const MOST_SOURCES: usize = 1_024;

/// For whom a membership is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// The session.
    pub session: u32,
    /// Its user, if users have bounds.
    pub user: Option<u32>,
}

/// What leaves no room for a membership.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// There are [`MOST`] groups, or [`MOST_SOURCES`] sources of this one.
    Link,
    /// The session has half as many.
    Session,
    /// The user has a quarter, in all of its sessions.
    User,
}

/// Who has a share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Taker {
    Session(u32),
    User(u32),
}

impl Taker {
    /// As much as it may have of what there is for all, and what is said where it has that.
    fn most(self, all: usize) -> (usize, Full) {
        match self {
            Self::Session(_) => (all / 2, Full::Session),
            Self::User(_) => (all / 4, Full::User),
        }
    }
}

impl Member {
    fn takers(self) -> impl Iterator<Item = Taker> {
        let user = self.user.map(Taker::User);
        user.into_iter().chain([Taker::Session(self.session)])
    }
}

/// How many groups each has that has some.
#[derive(Debug)]
pub(super) struct Taken(BTreeMap<Taker, usize>);

impl Taken {
    pub(super) const NONE: Self = Self(BTreeMap::new());

    /// Whether there is room for a group in which these have such shares.
    pub(super) fn check<A: Copy + Ord>(
        &self,
        by: Member,
        shares: Option<&Shares<A>>,
    ) -> Result<(), Full> {
        for taker in by.takers() {
            let (most, full) = taker.most(MOST);
            let is_new = shares.is_none_or(|shares| shares.place_of(taker).is_err());
            if is_new && self.0.get(&taker).is_some_and(|groups| *groups >= most) {
                return Err(full);
            }
        }
        Ok(())
    }

    /// A group is nobody's any more.
    pub(super) fn give_back<A>(&mut self, shares: &Shares<A>) {
        for (taker, _) in &shares.0 {
            self.give_back_one(*taker);
        }
    }

    fn give_back_one(&mut self, taker: Taker) {
        if let Some(groups) = self.0.get_mut(&taker) {
            *groups -= 1;
            if *groups == 0 {
                self.0.remove(&taker);
            }
        }
    }
}

/// What each receives of a group that has a part in it, by the order of takers.
#[derive(Debug)]
pub(super) struct Shares<A>(Vec<(Taker, Merged<A>)>);

impl<A: Copy + Ord> Shares<A> {
    pub(super) const NONE: Self = Self(Vec::new());

    fn place_of(&self, taker: Taker) -> Result<usize, usize> {
        self.0.binary_search_by_key(&taker, |(of, _)| *of)
    }

    /// Whether there is room for the sources of the one filter where a membership has the other
    /// now.
    pub(super) fn check(
        &self,
        by: Member,
        (from, to): (Filter<'_, A>, Filter<'_, A>),
    ) -> Result<(), Full> {
        for taker in by.takers() {
            let (most, full) = taker.most(MOST_SOURCES);
            let place = self.place_of(taker).ok();
            let share = place.and_then(|at| self.0.get(at));
            if share.is_some_and(|(_, received)| received.len_after(from, to) > most) {
                return Err(full);
            }
        }
        Ok(())
    }

    /// A membership changes from one filter to the other. Who has none any more has no share,
    /// unless it is `last`: who has left a group last has it until that was told, so that it
    /// does not fill the table with groups that are about to go.
    pub(super) fn change(
        &mut self,
        by: Member,
        (from, to): (Filter<'_, A>, Filter<'_, A>),
        taken: &mut Taken,
        last: bool,
    ) {
        for taker in by.takers() {
            let place = self.place_of(taker);
            let (Ok(at) | Err(at)) = place;
            if place.is_err() {
                self.0.insert(at, (taker, Merged::EMPTY));
                *taken.0.entry(taker).or_default() += 1;
            }
            if let Some((_, received)) = self.0.get_mut(at) {
                received.remove(from);
                received.add(to);
            }
        }
        if !last {
            self.0.retain(|(taker, received)| {
                if received.is_none() {
                    taken.give_back_one(*taker);
                }
                !received.is_none()
            });
        }
    }
}
