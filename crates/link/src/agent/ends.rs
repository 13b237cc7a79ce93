//! Processes that end, and closing what nobody has any more.
//!
//! Methods of [`Agent`]; its loop calls them when a pidfd says that a process has ended, and from
//! time to time for those of which nothing tells.

use super::{Agent, CARE_EVERY};
use crate::protocol::Message;
use longshore_hostif::agent::Ended;
use longshore_hostif::{Request, STREAM_MAX};
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use std::time::{Duration, Instant};

/// How long a send stream is idle before its chunks are taken back.
pub(super) const IDLE_FOR: Duration = Duration::from_millis(100);

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
        self.session.close_channel(channel);
        self.session.wakeups.free_waiters_of(name);
        self.asked.retain(|_, asked| asked.channel != channel);
        for socket in self.sockets.iter_mut() {
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
            self.close_orphan(index);
        }
    }

    /// Closes a socket that nobody has; what its program has written is delivered, unless it has
    /// said that closing it resets its connection (SO_LINGER).
    fn close_orphan(&mut self, index: u32) {
        let Some(socket) = self.sockets.at(index).filter(|s| !s.is_orphan) else {
            return;
        };
        socket.is_orphan = true;
        // As its program has noted, checked as if it had said so.
        let noted = self.session.blocks().edges_noted(socket.id);
        let linger = self.session.blocks().linger_noted(socket.id);
        let (written, read) = noted.unwrap_or((socket.relayed, socket.consumed));
        let most = socket.edges.snd_acked.saturating_add(STREAM_MAX);
        let close = Request::Close {
            socket: socket.id,
            snd_edge: if written <= most {
                written
            } else {
                socket.relayed
            },
            rcv_consumed: if read <= socket.placed {
                read
            } else {
                socket.consumed
            },
            linger: linger.filter(|seconds| *seconds == 0),
        };
        self.send(close);
    }

    /// A socket's Close has gone. Its block is kept until the engine's end is done with it.
    pub(super) fn finish_close(&mut self, index: u32) {
        let Some(mut socket) = self.sockets.remove(index) else {
            return;
        };
        self.session.owners().forget(index);
        let slab = &mut self.session.receive;
        socket.consume(socket.placed, slab);
        self.sockets.leaving.insert(socket.name, socket.id);
        let mut refused: Vec<_> = Vec::new();
        for (_, index) in std::mem::take(&mut socket.unaccepted) {
            if let Some(mut connection) = self.sockets.remove(index) {
                connection.consume(connection.placed, &mut self.session.receive);
                self.session.blocks().give_back(connection.id);
                refused.push((connection.name, connection.relayed, connection.consumed));
            }
        }
        let listener = socket.name;
        self.sockets.waiting.retain(|waiting| {
            if waiting.listener == listener {
                refused.push((waiting.socket, 0, 0));
            }
            waiting.listener != listener
        });
        for (socket, snd_edge, rcv_consumed) in refused {
            let reset = Request::Close {
                socket,
                snd_edge,
                rcv_consumed,
                linger: Some(0),
            };
            self.link.out.put(&Message::Descriptor(reset.encode()));
        }
    }

    /// When the send stream that has been idle longest is to be looked at.
    pub(super) fn next_idle(&self) -> Option<Instant> {
        self.idle.front().map(|(at, _)| *at)
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
        self.attach.has_ended() && !self.processes.are_any() && !self.sockets.is_empty()
    }

    /// Looks after what nothing tells of, from time to time.
    pub(super) fn take_care(&mut self) {
        let now = Instant::now();
        self.take_idle_chunks(now);
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
        let (processes, sockets) = (&self.processes, &mut self.sockets);
        let lost = {
            let is_there: std::collections::HashSet<u32> = sockets.blocks().into_iter().collect();
            let has_arrived = |_, index| !is_there.contains(&index) || processes.is_held(index);
            self.in_transit.take_lost(us, has_arrived)
        };
        for index in lost {
            self.close_orphan(index);
        }
        if self.is_deserted() {
            for index in self.sockets.blocks() {
                self.close_orphan(index);
            }
        }
    }

    /// Takes back the chunks of send streams that are idle.
    fn take_idle_chunks(&mut self, now: Instant) {
        while let Some((at, id)) = self.idle.front().copied()
            && at <= now
        {
            self.idle.pop_front();
            let Some(socket) = self.sockets.get(id) else {
                continue;
            };
            socket.is_idle_noted = false;
            if socket.edges.snd_acked == socket.relayed {
                self.session
                    .send_slab()
                    .take_chunks(id.index, socket.relayed);
            }
        }
    }
}
