//! Putting completions into channels, publishing them in batches, and waking
//! those that wait for them and sleep, and nobody else.

use super::{Session, Subscribers};
use crate::attach::User;
use crate::attach::turns::Of;
use longshore_hostif::{BlockFlags, Completion, EdgeFlags, Edges, PutError, SocketId};
use longshore_ring::{Sleep, Waiter};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Turns for which requests that were taken wait for packets between our own sockets: one
/// may not look at them, and the next takes all that there are.
const MOST_TURNS: u8 = 2;
/// Threads and poll sets of one session that are woken in one turn.
const WAKEUPS_A_TURN: usize = 32;

impl Session {
    /// Stages an answer for one channel. There is room for it, unless the process does
    /// what none of ours does, and has itself to blame.
    pub(crate) fn put_answer(&mut self, channel: u16, answer: &Completion) {
        let Some(Some(process)) = self.processes.get_mut(usize::from(channel)) else {
            return;
        };
        match process.channel.put(&self.arena, answer) {
            Ok(()) => self.stage(channel),
            Err(_) => self.bad_descriptors += 1,
        }
    }

    /// Stages where a socket's edges are for one channel; whether there was room. If there
    /// was none the socket is noted, and the process told that there is more: it lets us
    /// know when it has made room, and is told then where they are by that time.
    pub(crate) fn put_edges(&mut self, channel: u16, socket: SocketId, edges: Edges) -> bool {
        let Some(Some(process)) = self.processes.get_mut(usize::from(channel)) else {
            return true;
        };
        let completion = Completion::Edges { socket, edges };
        let mut put = process.channel.put(&self.arena, &completion);
        let is_full = put == Err(PutError::Full);
        if is_full {
            self.put_off += 1;
            process.untold.insert(socket.index, self.by_index.len());
            match process.channel.say_more(&self.arena) {
                Ok(true) => put = Ok(()),
                Ok(false) => return false,
                Err(e) => put = Err(e),
            }
        }
        match put {
            Ok(()) => self.stage(channel),
            // The process broke its own ring; it hears no more of us.
            Err(_) => self.bad_descriptors += 1,
        }
        !is_full
    }

    /// Requests of a channel were taken in this turn.
    pub(crate) fn note_taken(&mut self, channel: u16) {
        if !self.taken.contains(&channel) {
            self.taken.push(channel);
        }
    }

    /// Gives the places of requests that were taken back to the hosts, which know by this
    /// that whatever they led to can be seen. `is_done` unless packets from one of our own
    /// sockets to another are under way, for which it waits a little.
    pub(crate) fn release_taken(&mut self, is_done: bool) {
        if self.taken.is_empty() {
            return;
        }
        if !is_done && self.taken_for < MOST_TURNS {
            self.taken_for += 1;
            return;
        }
        self.taken_for = 0;
        for channel in self.taken.drain(..) {
            if let Some(Some(process)) = self.processes.get_mut(usize::from(channel)) {
                process.channel.release(&self.arena);
            }
        }
    }

    /// Something is staged for a channel.
    fn stage(&mut self, channel: u16) {
        if !self.staged.contains(&channel) {
            self.staged.push(channel);
        }
    }

    /// The next socket of which the process of `channel` is to be told again.
    pub(crate) fn next_untold(&mut self, channel: u16) -> Option<u32> {
        let process = self.processes.get_mut(usize::from(channel))?.as_mut()?;
        process.untold.take()
    }

    /// The process of `channel` wants to be heard: whether it is to be told of sockets for
    /// which there was no room.
    pub(crate) fn has_untold(&mut self, channel: u16) -> bool {
        let Some(Some(process)) = self.processes.get_mut(usize::from(channel)) else {
            return false;
        };
        process.channel.look_for_room(&self.arena);
        !process.untold.is_empty()
    }

    /// Stages where `socket`'s edges are for all who subscribed to it, and notes whom to
    /// wake. That it is dead is said in its block, too: a program that only writes has no
    /// cause to look at what it is told.
    pub(crate) fn post(&mut self, socket: SocketId, to: &Subscribers, edges: Edges) {
        to.for_each(|channel| {
            self.put_edges(channel, socket, edges);
        });
        self.touched.push(socket.index);
        if !self.owners.is_empty() {
            self.stir(socket, &edges);
        }
        if edges.flags.contains(EdgeFlags::DEAD) {
            let block = self.arena.block(socket.index);
            block.set_flags(BlockFlags::FAILED);
        }
    }

    /// Notes that `waiter` is to be woken after the next publication.
    pub(crate) fn wake_later(&mut self, waiter: Option<u16>) {
        self.to_wake.extend(waiter.map(u32::from));
    }

    /// Shows the processes what is staged and wakes those noted that sleep.
    /// Who waits for a socket is read after the fence: a sleeper that listed
    /// itself later than that finds the completions when it looks once more.
    /// Says whether others are still to be woken: they have to wait for the next turn.
    pub(crate) fn publish(&mut self, turn: u64) -> bool {
        if self.staged.is_empty() && self.touched.is_empty() && !self.owes_wakeups() {
            return false;
        }
        for channel in self.staged.drain(..) {
            if let Some(Some(process)) = self.processes.get_mut(usize::from(channel)) {
                self.meter
                    .to_host
                    .batch(process.channel.publish(&self.arena));
            }
        }
        if !self.urged.is_empty() {
            // Before the wake-ups: a call that a signal is to interrupt still sleeps.
            self.signal_owners();
        }
        Waiter::fence();
        let mut everybody = false;
        for index in self.touched.drain(..) {
            let block = self.arena.block(index);
            self.to_wake.extend(block.waiters());
            everybody |= block.unlisted_waiters.load(Ordering::Relaxed) != 0;
        }
        if everybody {
            self.everybody_from = Some(0);
        }
        if !self.owes_wakeups() {
            return false;
        }
        self.wake_some(turn);
        self.owes_wakeups()
    }

    /// Wakes those that are to be woken, as many as a turn may: the others have to wait for
    /// the next.
    fn wake_some(&mut self, turn: u64) {
        let left = |user: &Arc<User>| user.spent.left(Of::Wakeups, turn) as usize;
        let most = self.user.as_ref().map_or(WAKEUPS_A_TURN, left);
        let most = most.min(WAKEUPS_A_TURN);
        let mut to_wake = std::mem::take(&mut self.to_wake);
        if to_wake.len() > most {
            to_wake.sort_unstable();
            to_wake.dedup();
        }
        let some = to_wake.len().min(most);
        for waiter in to_wake.drain(..some) {
            self.wake(waiter);
        }
        self.to_wake = to_wake;
        if let Some(user) = &self.user {
            user.spent.spend(Of::Wakeups, turn, some as u32);
        }
        let Some(from) = self.everybody_from.filter(|_| self.to_wake.is_empty()) else {
            return;
        };
        let end = self.arena.claimed_waiters().len() as u32;
        let to = end.min(from + (most - some) as u32);
        if let Some(user) = &self.user {
            user.spent.spend(Of::Wakeups, turn, to.saturating_sub(from));
        }
        for waiter in from..to {
            self.wake(waiter);
        }
        self.everybody_from = (to < end).then_some(to);
    }

    /// Whether some are still to be woken.
    pub(crate) fn owes_wakeups(&self) -> bool {
        !self.to_wake.is_empty() || self.everybody_from.is_some()
    }

    fn wake(&mut self, waiter: u32) {
        let Some(word) = self.arena.waiters().get(waiter as usize) else {
            self.bad_descriptors += 1;
            return;
        };
        match word.take() {
            None => return,
            Some(Sleep::Eventfd) => self.bells.ring(waiter),
            Some(Sleep::Futex) => word.wake_futex(),
        }
        self.meter.to_host.wakeups += 1;
    }

    /// Wakes all that sleep: they look for themselves what happened.
    pub(crate) fn wake_everybody(&mut self) {
        for waiter in 0..self.arena.claimed_waiters().len() as u32 {
            self.wake(waiter);
        }
    }

    /// Frees the waiters of the process of this name, which is gone.
    pub(super) fn free_waiters_of(&mut self, name: u32) {
        for (i, waiter) in self.arena.claimed_waiters().iter().enumerate() {
            if waiter.owner.load(Ordering::Relaxed) == name {
                self.bells.forget(i as u32);
                waiter.cancel();
                waiter.owner.store(0, Ordering::Release);
            }
        }
    }
}
