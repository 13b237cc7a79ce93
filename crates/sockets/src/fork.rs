//! Going on in the child of a fork.
//!
//! The forking thread reserves a channel for the child, with a copy of what the
//! parent holds, and takes all locks of the process; then both sides let go of
//! them. The child claims the channel and has the same sockets; the engine
//! finds out by the eventfd that is written to.

mod reservation;

pub use reservation::Reservation;

use crate::fork_lock::{ForkGuard, OnlyThread};
use crate::host::{Dispatch, Host, own_pid};
use crate::ready_sets::ReadySets;
use crate::unfinished::Unfinished;
use longshore_hostif::attach::Joined;
use longshore_hostif::{ChannelState, SocketId};
use longshore_ring::forget_thread_id;
use rustix::process::getppid;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

/// The locks and the reservation, between `prepare` and what follows the fork.
#[derive(Debug)]
pub struct Forking {
    host: &'static Host,
    reservation: Option<Reservation>,
    unfinished: Option<ForkGuard<'static, Unfinished>>,
    unreported: Option<ForkGuard<'static, Vec<SocketId>>>,
    dispatch: Option<ForkGuard<'static, Dispatch>>,
    ready_sets: Option<ForkGuard<'static, ReadySets>>,
    kept: Option<ForkGuard<'static, BTreeMap<u32, u64>>>,
}

impl Host {
    /// Reserves a channel with a copy of what this process holds.
    pub fn reserve_channel(&'static self) -> Option<Reservation> {
        if self.is_gone() {
            return None;
        }
        self.under_way().await_before_giving();
        self.sockets().share_all();
        let reservation = Reservation::take(self)?;
        // Other threads may have got sockets meanwhile.
        self.sockets().share_all();
        Some(reservation)
    }

    /// Keeps the sets of sockets as they are while a child is made without [`Host::before_fork`]:
    /// it has them as its parent does, and not as one that was being changed.
    pub fn hold_sets(&'static self) -> HeldSets {
        HeldSets(self.ready_sets.enter().ok())
    }

    /// Before the fork.
    pub fn before_fork(&'static self) -> Forking {
        let _ = self.messages().flush();
        self.under_way().await_before_giving();
        let unfinished = self.unfinished.enter().ok();
        let unreported = self.unreported.enter().ok();
        let dispatch = self.channel.stop();
        let ready_sets = self.ready_sets.enter().ok();
        let kept = self.kept.enter().ok();
        let reservation = self.reserve_channel();
        Forking {
            host: self,
            reservation,
            unfinished,
            unreported,
            dispatch,
            ready_sets,
            kept,
        }
    }
}

impl Host {
    /// In a child that was made without our knowing, which has found that out: it has its
    /// parent's memory, with the locks as they were. `joined` is its own place in the
    /// session. `descriptors` says how many descriptors it has for each socket. Gives the
    /// eventfds on which its parent sleeps for its ready sets.
    pub fn begin_anew(
        &'static self,
        only: &OnlyThread,
        joined: Joined,
        descriptors: impl Iterator<Item = (SocketId, u32)>,
    ) -> Vec<OwnedFd> {
        forget_thread_id();
        // What the parent's threads had to sleep on is not ours.
        self.identity.enter_child();
        let channel = joined.channel;
        self.ready_sets.recover(only, ReadySets::default);
        self.query.recover(only, || ());
        self.unreported.replace(only, Vec::new());
        self.unfinished.replace(only, Unfinished::default());
        self.kept.replace(only, BTreeMap::new());
        let channel_words = self.session.channel(channel);
        self.channel
            .begin_anew(only, channel_words, self.held_sockets.capacity());
        let left = self
            .ready_sets
            .enter()
            .map(|mut ready_sets| ready_sets.leave_to_parent());
        let pid = self.arena.control(channel).pid.load(Ordering::Relaxed);
        self.identity.join_anew(channel, pid);
        self.held_sockets.forget_all();
        for (id, count) in descriptors {
            self.arena.set_held(channel, id.index, true);
            if self.arena.block(id.index).is(id) {
                self.held_sockets.set_count(id, count);
            } else {
                self.arena.set_held(channel, id.index, false);
            }
        }
        // What it was held for and has no descriptor of.
        self.sockets().drop_unused();
        left.unwrap_or_default()
    }

    /// As `begin_anew`, without a place in the session: its sockets fail.
    pub fn fail_in_child(&self, why: &str) {
        forget_thread_id();
        self.identity.enter_child();
        self.cut_off(why);
    }
}

/// The sets of sockets of a process, which no thread changes while this lives.
#[derive(Debug)]
pub struct HeldSets(#[expect(dead_code, reason = "a lock")] Option<ForkGuard<'static, ReadySets>>);

impl Forking {
    /// In the parent, after the fork.
    pub fn in_parent(self) -> Option<Reservation> {
        self.reservation
    }

    /// In the child. `descriptors` says how many descriptors it has for each
    /// socket. Gives its host, which is the child's own now.
    pub fn in_child(
        mut self,
        only: &OnlyThread,
        descriptors: impl Iterator<Item = (SocketId, u32)>,
    ) -> &'static Host {
        forget_thread_id();
        let host = self.host;
        host.identity.enter_child();
        // Its parent's threads need not have their answers before a fork.
        host.query.recover(only, || ());
        self.leave_to_parent();
        let Some(reservation) = self.reservation else {
            drop(self);
            if host.is_gone() {
                host.be_cut_off();
                return host;
            }
            host.cut_off(
                "the session has no room for another process: sockets fail in this one; \
                 use an engine with more (`session.processes` in its configuration, or `longshore run --max-processes`)",
            );
            return host;
        };
        // The parent may have had its children begin a namespace of pids (unshare, setns),
        // from which it cannot be seen.
        if getppid().is_none() {
            host.identity.leave_namespace();
        }
        let channel = reservation.channel();
        let pid = reservation.name_of_child(own_pid());
        host.identity.take_channel(channel, pid);
        for (id, count) in descriptors {
            host.held_sockets.set_count(id, count);
        }
        if let Some(dispatch) = &mut self.dispatch {
            **dispatch = Dispatch::new(host.session.channel(channel), host.held_sockets.capacity());
            let control = host.arena.control(channel);
            control.pid.store(pid, Ordering::Release);
            let claimed = control.change_state(ChannelState::Reserved, ChannelState::Claimed);
            dispatch.flag();
            if !claimed {
                drop(self);
                host.cut_off(
                    "this process was held up for too long after its fork: its sockets fail",
                );
                return host;
            }
        }
        drop(self);
        host.ring_engine();
        host
    }

    /// Lets go, in the child, of what is the parent's alone: the sockets that it holds, until
    /// the child's descriptors are counted, what it has begun and what it keeps.
    fn leave_to_parent(&mut self) {
        let host = self.host;
        let parents: Vec<SocketId> = host.sockets().held().collect();
        for id in parents {
            host.held_sockets.set_count(id, 0);
        }
        if let Some(unreported) = &mut self.unreported {
            unreported.clear();
        }
        if let Some(ready_sets) = &mut self.ready_sets {
            ready_sets
                .leave_to_parent()
                .into_iter()
                .for_each(host.hooks.discard);
        }
        if let Some(kept) = &mut self.kept {
            kept.clear();
        }
        if let Some(unfinished) = &mut self.unfinished {
            unfinished.clear();
        }
    }
}

#[cfg(test)]
mod tests;
