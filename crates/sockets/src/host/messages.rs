//! What goes between a process and its engine: requests into its channel,
//! completions out of it, and the calls that wait for an answer.
//!
//! Any thread of the process may drain the channel: completions move the edges of socket blocks,
//! answer pending calls, and reach the ready sets.
//!
//! Owns [`LockedChannel`] and [`Messages`], by which every other module puts its requests.

use super::{Host, LISTED};
use crate::block_words::{advance, report_threshold};
use crate::errors::SocketError;
use crate::fork_lock::{ForkGuard, ForkLock, OnlyThread};
use crate::map::Map;
use crate::pause::pause;
use crate::reported_edges::ReportedEdges;
use crate::turn::{Turn, Wake};
use crate::wait_limit::WaitLimit;
use longshore_hostif::{
    Address, Completion, EdgeFlags, Edges, HostChannel, Hurry, PutError, Request, SocketId,
};
use longshore_ring::{Doorbell, is_confined};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The answer to a call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answer {
    pub(crate) errno: u16,
    pub(crate) value: u64,
    pub(crate) address: Address,
}

/// What is done with the channel, under one lock.
#[derive(Debug)]
pub(crate) struct Dispatch {
    channel: HostChannel,
    /// Requests were published that the engine need not have fetched, and must
    /// before we sleep.
    owes_wake: bool,
    turn: Turn,
    next_tag: u32,
    answers: Map<u32, Option<Answer>>,
    moved: Vec<u32>,
    reported: ReportedEdges,
    /// Where connections stand that this process was given and nobody has accepted yet, by the
    /// indices of their blocks.
    early: Map<u32, (SocketId, Edges)>,
}

impl Dispatch {
    /// Of a process that joined by `channel`, in a session of so many sockets.
    pub(crate) fn new(channel: HostChannel, sockets: usize) -> Self {
        Self {
            channel,
            reported: ReportedEdges::new(sockets),
            owes_wake: false,
            turn: Turn::default(),
            next_tag: 1,
            answers: Map::default(),
            moved: Vec::new(),
            early: Map::default(),
        }
    }

    /// Marks the channel as one that the engine has to look at.
    pub(crate) fn flag(&self) {
        self.channel.flag();
    }

    /// The number of the channel.
    #[cfg(test)]
    pub(crate) fn channel(&self) -> u32 {
        self.channel.index()
    }

    /// Whether something is known of connections that nobody has accepted yet.
    #[cfg(test)]
    pub(crate) fn has_early(&self) -> bool {
        !self.early.is_empty()
    }
}

/// The channel of a process, as its threads share it.
#[derive(Debug)]
pub(crate) struct LockedChannel {
    dispatch: ForkLock<Dispatch>,
    doorbell: Doorbell,
    /// The engine may leave requests lie until this process says that it has no more.
    holds: AtomicBool,
}

impl LockedChannel {
    /// `channel` in a session of so many sockets, to an engine that `doorbell` wakes.
    pub(crate) fn new(channel: HostChannel, doorbell: Doorbell, sockets: usize) -> Self {
        Self {
            dispatch: ForkLock::new(Dispatch::new(channel, sockets)),
            doorbell,
            holds: AtomicBool::new(false),
        }
    }

    /// What wakes the engine.
    #[inline]
    pub(crate) fn doorbell(&self) -> &Doorbell {
        &self.doorbell
    }

    /// No thread does anything with the channel while the guard lives. For a fork.
    pub(crate) fn stop(&self) -> Option<ForkGuard<'_, Dispatch>> {
        self.dispatch.enter().ok()
    }

    /// In a child that was made without our knowing: it has `channel`, and nothing of what its
    /// parent was at.
    pub(crate) fn begin_anew(&self, only: &OnlyThread, channel: HostChannel, sockets: usize) {
        self.dispatch.replace(only, Dispatch::new(channel, sockets));
    }

    /// Whether the engine may leave requests lie.
    pub(crate) fn holds(&self) -> bool {
        self.holds.load(Ordering::Relaxed)
    }
}

/// What a process puts into its channel, and takes out of it.
#[derive(Debug, Clone, Copy)]
pub struct Messages {
    host: &'static Host,
}

impl Host {
    /// What goes between this process and its engine.
    #[inline]
    pub fn messages(&'static self) -> Messages {
        Messages { host: self }
    }
}

impl Messages {
    // ---- requests ----

    fn put(self, dispatch: &mut Dispatch, request: &Request) -> Result<(), SocketError> {
        self.put_by(dispatch, |channel| channel.put(request))
    }

    /// Puts a request, as `put` does, as soon as there is room for it.
    #[inline]
    fn put_by(
        self,
        dispatch: &mut Dispatch,
        mut put: impl FnMut(&mut HostChannel) -> Result<(), PutError>,
    ) -> Result<(), SocketError> {
        if self.host.is_cut_off() {
            return Err(SocketError::EngineGone);
        }
        let mut tries = 0u32;
        loop {
            match put(&mut dispatch.channel) {
                Ok(()) => return Ok(()),
                Err(PutError::Corrupt(_) | PutError::NoWorker(_)) => {
                    return Err(SocketError::Broken);
                }
                Err(PutError::Full) => {}
            }
            // What the ring is full of may have been published to be fetched whenever others are. And
            // the engine may be waiting for room in the other ring.
            dispatch.channel.hurry(&self.host.channel.doorbell);
            self.take_completions(dispatch)?;
            tries += 1;
            if tries.is_multiple_of(1000) {
                self.host.look_at_engine();
            }
            if self.host.is_gone() {
                return Err(SocketError::EngineGone);
            }
            if tries > 50 || is_confined() {
                pause(Duration::from_micros(50));
            } else {
                rustix::thread::sched_yield();
            }
        }
    }

    fn publish(self, dispatch: &mut Dispatch, wake: Wake) {
        match wake {
            Wake::Now => {
                dispatch.channel.hurry(&self.host.channel.doorbell);
                dispatch.owes_wake = false;
                dispatch.turn.held = 0;
                self.host.channel.holds.store(false, Ordering::Relaxed);
            }
            Wake::Held | Wake::HeldBack => {
                let hurry = match wake {
                    Wake::HeldBack => Hurry::HeldBack,
                    _ => Hurry::Soon,
                };
                dispatch
                    .channel
                    .publish_for(hurry, &self.host.channel.doorbell, true);
                dispatch.owes_wake = true;
                self.host.channel.holds.store(true, Ordering::Relaxed);
            }
            Wake::Soon => {
                dispatch
                    .channel
                    .publish_for(Hurry::First, &self.host.channel.doorbell, false);
                dispatch.owes_wake = true;
            }
            Wake::Never => {
                dispatch
                    .channel
                    .publish_for(Hurry::First, &self.host.channel.doorbell, false)
            }
            Wake::Along => {
                dispatch
                    .channel
                    .publish_for(Hurry::Later, &self.host.channel.doorbell, false)
            }
        }
    }

    /// Tells of so many bytes that were copied to a stream, of a range of a file that was
    /// appended, or of the end of a stream: the engine fetches it together with what follows
    /// before this process waits for something.
    pub(crate) fn report_written(self, request: &Request, copied: u64) -> Result<(), SocketError> {
        let mut dispatch = self.host.channel.dispatch.enter()?;
        self.put(&mut dispatch, request)?;
        let held_back = EdgeFlags::MORE | EdgeFlags::CORK;
        let is_held_back = matches!(
            request,
            Request::Edges { flags, .. } | Request::SendFile { flags, .. }
                if flags.intersects(held_back)
        );
        let wake = dispatch.turn.note(copied, is_held_back);
        self.publish(&mut dispatch, wake);
        Ok(())
    }

    /// Tells that what one socket has received is sent by another, for which so many bytes were
    /// copied. `moves` moves their edges: no other request of this process comes between.
    pub(crate) fn report_forwarded(
        self,
        request: &Request,
        copied: u64,
        moves: impl FnOnce(),
    ) -> Result<(), SocketError> {
        let mut dispatch = self.host.channel.dispatch.enter()?;
        moves();
        self.put(&mut dispatch, request)?;
        if let Request::Forward { socket, .. } = request {
            self.host.in_flight.note_forwarded(*socket);
        }
        let wake = dispatch.turn.note(copied, false);
        self.publish(&mut dispatch, wake);
        Ok(())
    }

    /// This process has no more to say for now, but may not sleep: it looks for something in
    /// vain.
    pub fn end_turn(self) {
        if self.host.channel.holds.load(Ordering::Relaxed)
            && let Some(mut dispatch) = self.host.channel.dispatch.try_enter()
        {
            dispatch.turn.end();
            self.publish(&mut dispatch, Wake::Now);
        }
    }

    /// Sends a request that is not answered.
    pub(crate) fn report(self, request: &Request, wake: Wake) -> Result<(), SocketError> {
        let mut dispatch = self.host.channel.dispatch.enter()?;
        self.put(&mut dispatch, request)?;
        self.publish(&mut dispatch, wake);
        Ok(())
    }

    /// Tells the engine by `request` that a connection was accepted, for which it need not be
    /// woken. If this process was told of the connection before it accepted it, as it was
    /// `given` to it, what it was told counts from now on.
    pub(crate) fn report_accepted(
        self,
        request: &Request,
        connection: SocketId,
        given: bool,
    ) -> Result<(), SocketError> {
        let mut dispatch = self.host.channel.dispatch.enter()?;
        let early = given.then(|| dispatch.early.remove(&connection.index));
        if let Some((socket, edges)) = early.flatten() {
            self.apply(&mut dispatch, socket, &edges);
        }
        self.put_by(&mut dispatch, |channel| {
            channel.put_accepted(request, connection)
        })?;
        self.publish(&mut dispatch, Wake::Never);
        Ok(())
    }

    /// Wakes the engine, if it sleeps, for what was published without that.
    pub(crate) fn wake_engine(self) -> Result<(), SocketError> {
        let mut dispatch = self.host.channel.dispatch.enter()?;
        self.publish(&mut dispatch, Wake::Now);
        Ok(())
    }

    /// Sends several requests at once.
    pub(crate) fn report_all(
        self,
        requests: impl Iterator<Item = Request>,
        wake: Wake,
    ) -> Result<(), SocketError> {
        let mut dispatch = self.host.channel.dispatch.enter()?;
        for request in requests {
            self.put(&mut dispatch, &request)?;
        }
        self.publish(&mut dispatch, wake);
        Ok(())
    }

    /// Sends a request and waits for its answer. Signals do not end the wait:
    /// the engine answers at once.
    pub(crate) fn call(
        self,
        request: impl FnOnce(u32, Option<u16>) -> Request,
    ) -> Result<Answer, SocketError> {
        self.call_if(|tag, waiter| Ok(request(tag, waiter)))
    }

    /// As `call`, of a request that may not be wanted any more when it is to be put: nobody puts
    /// another between that question and it.
    pub(crate) fn call_if(
        self,
        request: impl FnOnce(u32, Option<u16>) -> Result<Request, SocketError>,
    ) -> Result<Answer, SocketError> {
        let waiter = self.host.threads().my_waiter().map(|w| w as u16);
        let tag = {
            let mut dispatch = self.host.channel.dispatch.enter()?;
            dispatch.next_tag = dispatch.next_tag.wrapping_add(1);
            let tag = dispatch.next_tag;
            self.put(&mut dispatch, &request(tag, waiter)?)?;
            dispatch.answers.insert(tag, None);
            self.publish(&mut dispatch, Wake::Now);
            tag
        };
        let answer = self
            .host
            .threads()
            .wait_for(None, None, WaitLimit::ENDLESS, |_| {
                let mut dispatch = self.host.channel.dispatch.enter()?;
                if let Some(Some(answer)) = dispatch.answers.get(&tag).copied() {
                    dispatch.answers.remove(&tag);
                    return Ok(Some(answer));
                }
                if self.host.is_gone() {
                    return Err(SocketError::EngineGone);
                }
                Ok(None)
            })?;
        match answer.errno {
            0 => Ok(answer),
            errno => Err(SocketError::Refused(rustix::io::Errno::from_raw_os_error(
                i32::from(errno) & 0xfff,
            ))),
        }
    }

    // ---- completions ----

    /// Takes all completions, unless another thread is at it.
    pub fn drain_if_free(self) {
        if let Some(mut dispatch) = self.host.channel.dispatch.try_enter() {
            let _ = self.take_completions(&mut dispatch);
        }
    }

    /// Sees to it that what the engine has told by now counts, also where another thread is
    /// about to make it count: for a call that says how a socket stands. Two loads if there
    /// is nothing; says whether there was something.
    pub fn catch_up(self) -> bool {
        let is_some = self.host.session.has_completions(self.host.own_channel());
        if is_some {
            let _ = self.drain();
        }
        is_some
    }

    /// Takes all completions. After a declaration to sleep it has to be this:
    /// another thread may have taken a completion and not yet applied it.
    pub(crate) fn drain(self) -> Result<(), SocketError> {
        let mut dispatch = self.host.channel.dispatch.enter()?;
        self.take_completions(&mut dispatch)
    }

    fn take_completions(self, dispatch: &mut Dispatch) -> Result<(), SocketError> {
        if self.host.is_cut_off() {
            return Ok(());
        }
        let (mut any, mut is_more) = (false, false);
        while let Some(completion) = dispatch.channel.get()? {
            any = true;
            match completion {
                Some(Completion::Edges { socket, edges }) => {
                    let is_new = self.apply(dispatch, socket, &edges);
                    dispatch.moved.extend(is_new.then_some(socket.index));
                }
                Some(Completion::Done {
                    tag,
                    errno,
                    value,
                    address,
                    ..
                }) => {
                    // A call that was given up has no entry.
                    if let Some(entry) = dispatch.answers.get_mut(&tag) {
                        *entry = Some(Answer {
                            errno,
                            value,
                            address,
                        });
                    }
                }
                Some(Completion::More) => is_more = true,
                None => {}
            }
        }
        if !dispatch.moved.is_empty() {
            if let Ok(mut ready_sets) = self.host.ready_sets.enter() {
                ready_sets.moved(&dispatch.moved);
            }
            dispatch.moved.clear();
        }
        // Not before all of it counts: others look at the ring to know whether it does.
        if any {
            dispatch.channel.release();
        }
        if is_more {
            dispatch.channel.ask_for_more(&self.host.channel.doorbell);
        }
        Ok(())
    }

    /// Moves a socket's edges; says whether this process was to be told.
    fn apply(self, dispatch: &mut Dispatch, socket: SocketId, edges: &Edges) -> bool {
        let Some(block) = self.host.session.get_block(socket.index) else {
            return false;
        };
        // The process that accepts it begins the block, and only then looks here.
        if block.is_before(socket) {
            dispatch.early.insert(socket.index, (socket, *edges));
            return false;
        }
        let reported = &mut dispatch.reported;
        block.is(socket)
            && reported.apply(socket, block, edges, self.host.held_sockets.having(socket))
    }

    // ---- before sleeping ----

    /// Says all that was put off, before this process sleeps. An engine that sleeps is
    /// not woken for little that was read, which then does not count as told: it adds up
    /// until it is much.
    ///
    /// # Errors
    /// [`SocketError::Broken`] or [`SocketError::Reentered`].
    pub fn flush(self) -> Result<(), SocketError> {
        let mut unreported = self.host.unreported.enter()?;
        let mut dispatch = self.host.channel.dispatch.enter()?;
        let any = !unreported.is_empty();
        for id in unreported.drain(..) {
            self.host.held_sockets.unmark(id.index, LISTED);
            let block = self.host.session.block(id.index);
            if !block.is(id) {
                continue;
            }
            let done = self.host.read_to_report(block, id);
            let unreported_bytes = done.saturating_sub(block.rcv.reported.load(Ordering::Relaxed));
            if unreported_bytes != 0 {
                let request = self.host.edges(block, id, EdgeFlags::empty());
                self.put(&mut dispatch, &request)?;
            }
            // The engine may have come to want it sooner since it was read.
            if unreported_bytes >= report_threshold(block) {
                advance(&block.rcv.reported, done);
                dispatch.owes_wake = true;
            }
        }
        dispatch.turn.end();
        if dispatch.owes_wake {
            self.publish(&mut dispatch, Wake::Now);
        } else if any {
            self.publish(&mut dispatch, Wake::Along);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
