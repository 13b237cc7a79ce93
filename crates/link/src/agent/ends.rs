//! Processes that end, and closing what nobody has any more.
//!
//! Methods of [`Agent`]; its loop calls them when a pidfd says that a process has ended, and from
//! time to time for those of which nothing tells.

use super::{Agent, CARE_EVERY};
use longshore_hostif::agent::Ended;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use std::time::Instant;

impl Agent {
    /// Microseconds since the agent began.
    fn now(&self) -> u64 {
        self.began.elapsed().as_micros() as u64
    }

    /// The process of a channel has ended: what it published before counts, and what it alone
    /// held is closed.
    pub(super) fn process_ended(&mut self, channel: u16) {
        if let Some(fd) = self.processes.pidfd(channel) {
            let _ = epoll::delete(&self.epoll, fd);
        }
        self.take_last_requests(channel);
        let Some(Ended { name, held }) = self.processes.take_ended(channel) else {
            return;
        };
        self.relay.session.close_channel(channel);
        self.relay.session.wakeups.free_waiters_of(name);
        self.relay.asked.retain(|_, asked| asked.channel != channel);
        for socket in self.relay.sockets.iter_mut() {
            socket.subscribers.remove(channel);
        }
        for index in held {
            self.release(index);
        }
        self.processes.free_channel(channel);
    }

    /// Sees to processes that have ended of which the loop does not know yet.
    pub(super) fn look_for_ends(&mut self) {
        let channels = 0..self.processes.channels() as u16;
        let watched = channels.filter_map(|c| Some((c, self.processes.pidfd(c)?)));
        let watched: Vec<_> = watched.collect();
        let mut fds: Vec<PollFd<'_>> = watched
            .iter()
            .map(|(_, fd)| PollFd::from_borrowed_fd(*fd, PollFlags::IN))
            .collect();
        if !matches!(poll(&mut fds, Some(&Timespec::default())), Ok(1..)) {
            return;
        }
        let ended = fds.iter().zip(&watched);
        let ended = ended.filter(|(fd, _)| !fd.revents().is_empty());
        let ended: Vec<u16> = ended.map(|(_, (channel, _))| *channel).collect();
        for channel in ended {
            self.process_ended(channel);
        }
    }

    /// A process has let go of a socket, which may be on its way to another one.
    pub(super) fn note_transit(&mut self, index: u32) -> bool {
        let now = self.now();
        self.processes.is_in_transit(index) && self.in_transit.note(index, index, now)
    }

    /// A process that held a socket has ended: it is closed if nobody has it now.
    fn release(&mut self, index: u32) {
        let is_anybodys = self.processes.is_held(index) || self.note_transit(index);
        if !is_anybodys {
            self.relay.close_orphan(index);
        }
    }

    /// Whether processes, or sockets, are to be looked at that nothing tells of.
    pub(super) fn wants_care(&self) -> bool {
        self.processes.has_unwatched()
            || self.processes.may_have_reservations()
            || self.processes.is_forking()
            || !self.in_transit.is_empty()
            || self.is_deserted()
    }

    /// Whether nobody is left, and sockets are.
    fn is_deserted(&self) -> bool {
        self.attach.has_ended() && !self.processes.are_any() && !self.relay.sockets.is_empty()
    }

    /// Looks after what nothing tells of, from time to time.
    pub(super) fn take_care(&mut self) {
        let now = Instant::now();
        self.relay.take_idle_chunks(now);
        let us = self.now();
        let _ = self.relay.session.wakeups.close_unused_eventfds(us);
        if now < self.care_at || !self.wants_care() {
            return;
        }
        self.care_at = now + CARE_EVERY;
        self.take_claims();
        let unwatched = self.processes.ask_after_unwatched();
        for channel in unwatched.watched {
            self.watch_process(channel);
        }
        for channel in unwatched.ended {
            self.process_ended(channel);
        }
        let us = self.now();
        for index in self.processes.drop_stale_reservations(us) {
            self.release(index);
        }
        let (processes, sockets) = (&self.processes, &mut self.relay.sockets);
        let lost = {
            let is_there: std::collections::HashSet<u32> = sockets.blocks().into_iter().collect();
            let has_arrived = |_, index| !is_there.contains(&index) || processes.is_held(index);
            self.in_transit.take_lost(us, has_arrived)
        };
        for index in lost {
            self.relay.close_orphan(index);
        }
        if self.is_deserted() {
            for index in self.relay.sockets.blocks() {
                self.relay.close_orphan(index);
            }
        }
    }
}
