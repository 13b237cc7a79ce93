//! Which sockets this process holds, and how often.
//!
//! A use is a descriptor of the program, or a call that is under way. The first
//! use marks the socket in the channel's bitmap, from which the engine learns
//! what a process that died held; with the last the socket is closed, or left
//! to the other processes that hold it.

use crate::block_words::more_bits;
use crate::errors::SocketError;
use crate::host::{ALONE, Host, INHERITED, KEEPS, LISTED, SUBSCRIBED, WATCHED};
use crate::turn::Wake;
use longshore_hostif::{
    BlockFlags, ChannelState, OpenFlags, Request, SocketBlock, SocketId, SocketKind, SocketState,
};
use std::sync::atomic::{Ordering, fence};

/// A use of a socket: while one lives, the socket is this process's.
#[derive(Debug)]
pub struct Socket {
    pub(crate) host: &'static Host,
    pub(crate) id: SocketId,
}

/// The sockets that a process holds.
#[derive(Debug, Clone, Copy)]
pub struct Sockets {
    host: &'static Host,
}

impl Host {
    /// The sockets that this process holds.
    #[inline]
    pub fn sockets(&'static self) -> Sockets {
        Sockets { host: self }
    }
}

impl Sockets {
    /// Takes a use of a socket that this process holds.
    pub fn acquire(self, id: SocketId) -> Option<Socket> {
        if !self.host.held_sockets.acquire(id) {
            return None;
        }
        let socket = Socket {
            host: self.host,
            id,
        };
        if !self.host.held_sockets.is_marked(id.index, SUBSCRIBED) {
            socket.subscribe(Wake::Now);
        }
        Some(socket)
    }

    /// Opens a new socket on the engine.
    ///
    /// # Errors
    /// [`SocketError::NoSocket`] if the session has no room,
    /// [`SocketError::EngineGone`].
    pub fn open(
        self,
        kind: SocketKind,
        flags: OpenFlags,
        inode: u64,
    ) -> Result<Socket, SocketError> {
        if self.host.is_gone() {
            return Err(SocketError::EngineGone);
        }
        let free = &self.host.arena.header().free_sockets;
        let Some(index) = free.pop(self.host.arena.socket_links())? else {
            if self.host.shortages.note_no_socket() {
                (self.host.hooks.log)(
                    "the session has no free socket: this program has to close some, or to use \
                     an engine with more (`session.sockets` in its configuration, or `longshore run --max-sockets`)",
                );
            }
            return Err(SocketError::NoSocket);
        };
        let Some(block) = self.host.session.get_block(index) else {
            return Err(SocketError::Broken);
        };
        let mut of = BlockFlags::empty();
        of.set(BlockFlags::DATAGRAM, kind == SocketKind::Datagram);
        of.set(BlockFlags::IPV6, flags.contains(OpenFlags::IPV6));
        let worker = self.host.session.worker_for(self.host.own_channel());
        let generation = block.begin_at(worker, SocketState::Open, of);
        block.inode.store(inode, Ordering::Release);
        let id = SocketId { index, generation };
        let socket = self.hold(id, SUBSCRIBED | ALONE);
        if flags.contains(OpenFlags::V6ONLY) {
            socket.set_more_bits(more_bits::V6_ONLY);
        }
        self.host.messages().report(
            &Request::Open {
                socket: id,
                kind,
                flags,
            },
            Wake::Soon,
        )?;
        self.host.under_way().note_opened();
        Ok(socket)
    }

    /// Takes hold of a socket that another process holds too: inherited
    /// through `exec`, or received. `None` if there is no such socket any more.
    pub fn inherit(self, id: SocketId) -> Option<Socket> {
        if let Some(socket) = self.acquire(id) {
            return Some(socket);
        }
        let socket = self.take_hold(id, INHERITED)?;
        socket.subscribe(Wake::Soon);
        Some(socket)
    }

    /// Takes hold of an accepted connection. `subscribed` if the engine sends
    /// us its completions already.
    pub(crate) fn hold_accepted(self, id: SocketId, subscribed: bool) -> Option<Socket> {
        let socket = self.take_hold(id, ALONE | if subscribed { SUBSCRIBED } else { 0 })?;
        if !subscribed {
            socket.subscribe(Wake::Soon);
        }
        Some(socket)
    }

    fn take_hold(self, id: SocketId, marks: u64) -> Option<Socket> {
        let block = self.host.session.get_block(id.index)?;
        // This process may hold the one that has its place now.
        if !block.is(id) {
            return None;
        }
        self.host.session.note_used(id.index);
        if !self.host.held_sockets.take(id, marks) {
            return None;
        }
        let socket = self.note_held(id);
        // It may have been closed before it counted as held.
        if !block.is(id) {
            self.let_go_silently(socket);
            return None;
        }
        Some(socket)
    }

    /// From now on, any socket of this process may be another's too.
    pub fn share_all(self) {
        for id in self.held() {
            self.host.held_sockets.unmark(id.index, ALONE);
        }
    }

    fn hold(self, id: SocketId, marks: u64) -> Socket {
        self.host.session.note_used(id.index);
        // A fork that finds it among those that are held, and so gives it to the child, finds the
        // mark that nobody else has it, too, and takes it out.
        self.host.held_sockets.begin(id, marks);
        self.note_held(id)
    }

    fn note_held(self, id: SocketId) -> Socket {
        self.host
            .arena
            .set_held(self.host.own_channel(), id.index, true);
        Socket {
            host: self.host,
            id,
        }
    }

    /// Gives a use back of which the engine has nothing to know: the socket is gone. Another may have
    /// come to its place here meanwhile, which stays held.
    fn let_go_silently(self, socket: Socket) {
        let id = socket.id;
        std::mem::forget(socket);
        if self.host.held_sockets.release(id) {
            self.host.held_sockets.take_marks(id.index);
            self.host
                .arena
                .set_held(self.host.own_channel(), id.index, false);
            fence(Ordering::SeqCst);
            if self.host.held_sockets.count(id.index) != 0 {
                self.host
                    .arena
                    .set_held(self.host.own_channel(), id.index, true);
            }
        }
    }

    /// The sockets that this process holds.
    pub(crate) fn held(self) -> impl Iterator<Item = SocketId> {
        let words = self.host.arena.held(self.host.own_channel());
        words.iter().enumerate().flat_map(move |(i, word)| {
            let bits = word.load(Ordering::Acquire);
            (0..64)
                .filter(move |b| bits & 1 << b != 0)
                .map(move |b| self.id_of(i as u32 * 64 + b))
        })
    }

    fn id_of(self, index: u32) -> SocketId {
        let generation = self
            .host
            .session
            .block(index)
            .generation
            .load(Ordering::Acquire);
        SocketId { index, generation }
    }

    /// Takes hold of the socket behind the kernel socket of this inode, if there is one.
    pub fn inherit_inode(self, inode: u64) -> Option<Socket> {
        self.find_inode(inode).and_then(|id| self.inherit(id))
    }

    /// The socket behind the kernel socket of this inode, among all that any
    /// process of the session holds, or that are on their way to one.
    pub(crate) fn find_inode(self, inode: u64) -> Option<SocketId> {
        if self.host.is_gone() {
            // What it is in a session that is over, nobody needs to know any more.
            return None;
        }
        let is_it = |index: &u32| {
            let block = self.host.session.block(*index);
            block.inode.load(Ordering::Acquire) == inode && block.is_in_use()
        };
        let held = (0..self.host.arena.geometry().channels)
            .filter(|c| self.host.arena.control(*c).state() != ChannelState::Free)
            .find_map(|channel| {
                let words = self.host.arena.held(channel).iter().enumerate();
                words
                    .flat_map(|(i, word)| {
                        let bits = word.load(Ordering::Acquire);
                        (0..64)
                            .filter(move |b| bits & 1 << b != 0)
                            .map(move |b| i as u32 * 64 + b)
                    })
                    .find(is_it)
            });
        held.or_else(|| {
            self.host.session.used_blocks().find(|index| {
                is_it(index)
                    && self
                        .host
                        .session
                        .block(*index)
                        .in_transit
                        .load(Ordering::Acquire)
                        != 0
            })
        })
        .map(|index| self.id_of(index))
    }

    /// After `exec`: lets go of what the last image held and this one has no
    /// descriptor for.
    pub fn drop_unused(self) {
        let held: Vec<SocketId> = self.held().collect();
        for id in held {
            if self.host.held_sockets.count(id.index) == 0 {
                self.close_last(id);
            }
        }
        // What its parent still keeps for it can go.
        self.host
            .arena
            .control(self.host.own_channel())
            .note_inherited();
    }

    /// Before `exec`, which closes all descriptors of a socket: leaves it to the other
    /// processes that hold it. `false` if there is none, and so this process keeps it.
    ///
    /// # Errors
    /// [`SocketError::Broken`], [`SocketError::EngineGone`].
    pub fn leave_to_others(self, id: SocketId) -> Result<bool, SocketError> {
        let own = self.host.own_channel();
        if self.host.is_cut_off() || !self.host.session.block(id.index).is(id) {
            return Ok(true);
        }
        self.host.arena.set_held(own, id.index, false);
        fence(Ordering::SeqCst);
        if !self.is_held_by_other_channels(id.index) {
            self.host.arena.set_held(own, id.index, true);
            return Ok(false);
        }
        self.host.held_sockets.unmark(id.index, SUBSCRIBED | ALONE);
        self.host
            .messages()
            .report(&Request::Unsubscribe { socket: id }, Wake::Soon)?;
        Ok(true)
    }

    /// The `exec` has failed: this process holds the socket as before, if it is still there.
    pub fn hold_again(self, id: SocketId) {
        if !self.host.is_cut_off() && self.host.session.block(id.index).is(id) {
            self.host
                .arena
                .set_held(self.host.own_channel(), id.index, true);
            drop(self.acquire(id));
        }
    }

    /// Puts a socket on the list of those to be told of before we sleep.
    pub(crate) fn list_unreported(self, id: SocketId) -> Result<(), SocketError> {
        let held = &self.host.held_sockets;
        if !held.is_marked(id.index, LISTED) && held.mark(id.index, LISTED) {
            self.host.unreported.enter()?.push(id);
        }
        Ok(())
    }

    fn release(self, id: SocketId) {
        if self.host.held_sockets.release(id) {
            self.close_last(id);
        }
    }

    /// The last use in this process is gone.
    fn close_last(self, id: SocketId) {
        if self.host.is_cut_off() {
            return;
        }
        let marks = self.host.held_sockets.take_marks(id.index);
        if marks & KEEPS != 0
            && let Ok(mut kept) = self.host.kept.enter()
        {
            kept.remove(&id.index);
        }
        if marks & WATCHED != 0
            && let Ok(mut ready_sets) = self.host.ready_sets.enter()
        {
            ready_sets.forget(&self.host.session, id.index);
        }
        let block = self.host.session.block(id.index);
        if block.more_bits().load(Ordering::Relaxed) & more_bits::UNFINISHED != 0
            && let Ok(mut unfinished) = self.host.unfinished.enter()
        {
            unfinished.remove(&id);
        }
        if !block.is(id) {
            self.host
                .arena
                .set_held(self.host.own_channel(), id.index, false);
            return;
        }
        self.host
            .arena
            .set_held(self.host.own_channel(), id.index, false);
        fence(Ordering::SeqCst);
        // What waits at a listener is reset.
        let other = block.other_end();
        let is_listening = block.state() == SocketState::Listening;
        let lives_on = marks & ALONE == 0
            && is_kept(
                || block.in_transit.load(Ordering::Acquire) != 0,
                || self.is_held_by_other_channels(id.index),
            );
        let request = if lives_on {
            Request::Unsubscribe { socket: id }
        } else {
            block.close();
            self.host.under_way().await_raised(id);
            Request::Close {
                socket: id,
                snd_edge: block.snd.edge.load(Ordering::Acquire),
                rcv_consumed: block.rcv.done.load(Ordering::Acquire),
                linger: block.linger.load(Ordering::Relaxed).checked_sub(1),
            }
        };
        // An engine that is gone has closed it already.
        let _ = self.host.messages().report_written(&request, 0);
        match other {
            Some(other) => self.host.under_way().note_done_to_pair(other),
            None if is_listening && !lives_on => self.host.under_way().await_stopped(),
            None => {}
        }
    }

    /// Whether another process has it. Channels are asked only about a socket that was once
    /// handed on: a proxy wants to know for each piece that it passes on.
    #[inline]
    pub(crate) fn is_held_elsewhere(self, index: u32) -> bool {
        !self.host.held_sockets.is_marked(index, ALONE) && self.is_held_by_other_channels(index)
    }

    fn is_held_by_other_channels(self, index: u32) -> bool {
        let own = self.host.own_channel();
        (0..self.host.arena.geometry().channels).any(|c| {
            c != own
                && self.host.arena.control(c).state() != ChannelState::Free
                && self.host.arena.holds(c, index)
        })
    }
}

/// Whether a socket that this process gives up is on its way to another, or is held by one. In this
/// order: what arrives is held before it is on its way no more.
fn is_kept(is_in_transit: impl FnOnce() -> bool, is_held: impl FnOnce() -> bool) -> bool {
    is_in_transit() || is_held()
}

impl Socket {
    /// Its name.
    pub fn id(&self) -> SocketId {
        self.id
    }

    /// Its host.
    pub fn host(&self) -> &'static Host {
        self.host
    }

    pub(crate) fn block(&self) -> &'static SocketBlock {
        self.host.session.block(self.id.index)
    }

    /// The number of this process's rings at the worker that has it.
    pub(crate) fn rings(&self) -> u32 {
        let session = &self.host.session;
        session.ring(self.host.own_channel(), session.worker_of(self.id))
    }

    /// Gives the use to somebody who counts it himself, with
    /// [`Socket::from_use`] to take it back.
    pub fn into_use(self) -> SocketId {
        let id = self.id;
        std::mem::forget(self);
        id
    }

    /// Takes a use back that [`Socket::into_use`] gave away.
    pub fn from_use(host: &'static Host, id: SocketId) -> Self {
        Self { host, id }
    }

    /// How many uses of it this process has; another process counts as one.
    pub fn uses(&self) -> u32 {
        let here = self.host.held_sockets.count(self.id.index);
        here + u32::from(self.host.sockets().is_held_elsewhere(self.id.index))
    }

    /// Another process may hold it too from now on.
    pub fn share(&self) {
        self.host.held_sockets.unmark(self.id.index, ALONE);
    }

    /// A descriptor of it is about to be passed to a process, perhaps another:
    /// until it arrives, the socket stays open without anybody's holding it.
    pub fn send_off(&self) {
        self.host.under_way().await_before_giving();
        self.share();
        self.block().in_transit.fetch_add(1, Ordering::AcqRel);
    }

    /// A descriptor has arrived, and is held here; or it was not sent after all.
    pub fn arrived(&self) {
        let _ =
            self.block()
                .in_transit
                .fetch_update(Ordering::AcqRel, Ordering::Acquire, |count| {
                    count.checked_sub(1)
                });
    }

    pub(crate) fn subscribe(&self, wake: Wake) {
        let held = &self.host.held_sockets;
        if held.mark(self.id.index, SUBSCRIBED) {
            let request = Request::Subscribe { socket: self.id };
            if self.host.messages().report(&request, wake).is_err() {
                held.unmark(self.id.index, SUBSCRIBED);
            }
        }
    }
}

impl Clone for Socket {
    fn clone(&self) -> Self {
        self.host.held_sockets.acquire_another(self.id);
        Self {
            host: self.host,
            id: self.id,
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.host.sockets().release(self.id);
    }
}

#[cfg(test)]
mod tests;
