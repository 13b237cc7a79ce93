//! Going on in the child of a fork.
//!
//! The forking thread reserves a channel for the child, with a copy of what the
//! parent holds, and takes all locks of the process; then both sides let go of
//! them. The child claims the channel and has the same sockets; the engine
//! finds out by the eventfd that is written to.

use crate::fork_lock::{ForkGuard, OnlyThread};
use crate::host::{Dispatch, Host, own_pid};
use crate::ready_sets::ReadySets;
use crate::unfinished::Unfinished;
use longshore_hostif::attach::Joined;
use longshore_hostif::{ChannelControl, ChannelState, REGISTERED, SocketId};
use longshore_ring::{forget_thread_id, is_confined};
use rustix::io::Errno;
use rustix::process::{Pid, getppid, test_kill_process};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

mod name;

pub use name::{ReservationName, UnknownReservation};

/// How long a fork waits for the channel of a process that has ended.
const FREED_WITHIN: Duration = Duration::from_millis(200);

/// Whether the process that has a channel has ended, as far as it is known by its pid.
fn has_ended(host: &Host, control: &ChannelControl) -> bool {
    let has_process = matches!(control.state(), ChannelState::Claimed | ChannelState::Open);
    if host.identity.has_other_pids() || !has_process {
        return false;
    }
    let pid = i32::try_from(control.pid.load(Ordering::Acquire)).ok();
    let pid = pid.and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) == Err(Errno::SRCH))
}

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
    /// This process is the child of the reservation of this name, and has joined by itself: what
    /// is held for it there goes as soon as it has inherited, or has ended.
    pub fn be_child_of(&self, name: ReservationName) {
        if self.is_cut_off() || name.channel >= self.arena.geometry().channels {
            return;
        }
        let control = self.arena.control(name.channel);
        if control.is_reserved_as(name.number) {
            control.name_child(name.number, self.identity.pid());
        }
    }

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

/// What a parent has reserved for a child. Not given back when it is dropped: in the child it is
/// the parent's.
#[derive(Debug, Clone, Copy)]
pub struct Reservation {
    host: &'static Host,
    channel: u32,
    /// The number of the reservation among those of the channel.
    number: u32,
}

impl Reservation {
    /// Reserves a channel that is free. Where none is, but a process that had one has ended, the
    /// engine is about to free it: it learns of many ends one after the other.
    fn free_channel(host: &'static Host) -> Option<u32> {
        let arena = &host.arena;
        let channels = 0..arena.geometry().channels;
        let reserve = || channels.clone().find(|c| arena.control(*c).reserve());
        let began = Instant::now();
        loop {
            let free = reserve();
            // A filter of system calls may permit neither the question nor the sleep.
            if free.is_some() || began.elapsed() >= FREED_WITHIN || is_confined() {
                return free;
            }
            if !channels.clone().any(|c| has_ended(host, arena.control(c))) {
                // The last of these may have been freed since.
                return reserve();
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Reserves a channel with a copy of what the process of `host` holds, if one is free.
    fn take(host: &'static Host) -> Option<Self> {
        let own = host.own_channel();
        let arena = &host.arena;
        let channel = Self::free_channel(host)?;
        let control = arena.control(channel);
        let number = control.reservations.load(Ordering::Acquire);
        arena.header().reservations.fetch_add(1, Ordering::AcqRel);
        control.pid.store(host.identity.pid(), Ordering::Release);
        arena.reset_channel(channel);
        for (to, from) in arena.held(channel).iter().zip(arena.held(own)) {
            to.store(from.load(Ordering::Acquire), Ordering::Release);
        }
        Some(Self {
            host,
            channel,
            number,
        })
    }

    /// The channel.
    #[must_use]
    pub fn channel(self) -> u32 {
        self.channel
    }

    fn control(self) -> &'static ChannelControl {
        self.host.arena.control(self.channel)
    }

    /// Takes a socket out: the child will not inherit it.
    pub fn leave_out(self, socket: SocketId) {
        self.host.arena.set_held(self.channel, socket.index, false);
    }

    /// Says which child that is, so that the engine finds out if it dies before it has
    /// taken the channel.
    pub fn is_for(self, child: u32) {
        if !self.host.identity.has_other_pids() {
            self.control().name_child(self.number, child);
        }
    }

    /// By which the child is to say that it is for it ([`Host::be_child_of`]). `None` where its
    /// parent can [give](Reservation::give_to) it to the child.
    #[must_use]
    pub fn name(self) -> Option<ReservationName> {
        let name = ReservationName {
            channel: self.channel,
            number: self.number,
        };
        self.host.identity.has_other_pids().then_some(name)
    }

    /// Gives it back where no child took it, if it is still this process's.
    pub fn release(self) {
        let control = self.control();
        // The engine may have given it up, and another thread reserved the channel.
        let ours = control.is_reserved_as(self.number)
            && control.pid.load(Ordering::Acquire) == self.host.identity.pid();
        if !ours {
            return;
        }
        for word in self.host.arena.held(self.channel) {
            word.store(0, Ordering::Release);
        }
        control.change_state(ChannelState::Reserved, ChannelState::Free);
    }

    /// Claims it for a child that libc made without our knowing: that holds what is in it until
    /// the child's own shim takes over, or it ends.
    pub fn give_to(self, child: u32) {
        if self.host.identity.has_other_pids() {
            // The engine could not know it by this pid. It keeps the reservation until the child
            // has joined by itself and says that it is this one (`Reservation::name`), or for a
            // while.
            return;
        }
        let control = self.control();
        // The engine may have given it to another process, whose pid is to stay.
        let ours = self.host.identity.pid();
        let named = control
            .pid
            .compare_exchange(ours, child, Ordering::AcqRel, Ordering::Relaxed);
        if named.is_ok() && control.change_state(ChannelState::Reserved, ChannelState::Claimed) {
            self.host.session.channel(self.channel).flag();
            self.host.ring_engine();
        }
    }

    /// In the child, whose pid is `pid`, and which is about to claim the channel: what stands for
    /// it there. That is its pid, if that is the same for the engine. If not, the engine finds out
    /// which process it is by a connection that it makes.
    fn name_of_child(self, pid: u32) -> u32 {
        if !self.host.identity.has_other_pids() || is_confined() {
            return pid;
        }
        match self.host.connection.claim(self.channel) {
            Ok(()) => REGISTERED | self.channel,
            Err(_) => pid,
        }
    }
}

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
