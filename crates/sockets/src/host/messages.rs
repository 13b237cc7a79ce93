//! What goes between a process and its engine: requests into its channel,
//! completions out of it, and the calls that wait for an answer.
//!
//! Whoever is there drains the channel: completions move the edges of socket blocks, answer
//! pending calls, and are told to the ready sets.

use super::{Answer, Dispatch, Host, LISTED};
use crate::block_words::{advance, report_threshold};
use crate::errors::SocketError;
use crate::pause::pause;
use crate::turn::Wake;
use crate::wait_limit::WaitLimit;
use longshore_hostif::{
    Completion, EdgeFlags, Edges, HostChannel, Hurry, PutError, Request, SocketId,
};
use longshore_ring::is_confined;
use std::sync::atomic::Ordering;
use std::time::Duration;

impl Host {
    // ---- requests ----

    fn put(&self, dispatch: &mut Dispatch, request: &Request) -> Result<(), SocketError> {
        self.put_by(dispatch, |channel| channel.put(request))
    }

    /// Puts a request, as `put` does, as soon as there is room for it.
    #[inline]
    fn put_by(
        &self,
        dispatch: &mut Dispatch,
        mut put: impl FnMut(&mut HostChannel) -> Result<(), PutError>,
    ) -> Result<(), SocketError> {
        if self.is_cut_off() {
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
            // The engine may be waiting for room in the other ring.
            dispatch.channel.publish(&self.doorbell, true);
            self.take_completions(dispatch)?;
            tries += 1;
            if tries.is_multiple_of(1000) {
                self.look_at_engine();
            }
            if self.is_gone() {
                return Err(SocketError::EngineGone);
            }
            if tries > 50 || is_confined() {
                pause(Duration::from_micros(50));
            } else {
                rustix::thread::sched_yield();
            }
        }
    }

    fn publish(&self, dispatch: &mut Dispatch, wake: Wake) {
        match wake {
            Wake::Now => {
                dispatch.channel.hurry(&self.doorbell);
                dispatch.owes_wake = false;
                dispatch.turn.held = 0;
                self.holds.store(false, Ordering::Relaxed);
            }
            Wake::Held | Wake::HeldBack => {
                let hurry = match wake {
                    Wake::HeldBack => Hurry::HeldBack,
                    _ => Hurry::Soon,
                };
                dispatch.channel.publish_for(hurry, &self.doorbell, true);
                dispatch.owes_wake = true;
                self.holds.store(true, Ordering::Relaxed);
            }
            Wake::Soon => {
                dispatch
                    .channel
                    .publish_for(Hurry::First, &self.doorbell, false);
                dispatch.owes_wake = true;
            }
            Wake::Never => dispatch
                .channel
                .publish_for(Hurry::First, &self.doorbell, false),
            Wake::Along => dispatch
                .channel
                .publish_for(Hurry::Later, &self.doorbell, false),
        }
    }

    /// Tells of so many bytes that were copied to a stream, of a range of a file that was
    /// appended, or of the end of a stream: the engine fetches it together with what follows
    /// before this process waits for something.
    pub(crate) fn report_written(&self, request: &Request, copied: u64) -> Result<(), SocketError> {
        let mut dispatch = self.dispatch.enter()?;
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
        &self,
        request: &Request,
        copied: u64,
        moves: impl FnOnce(),
    ) -> Result<(), SocketError> {
        let mut dispatch = self.dispatch.enter()?;
        moves();
        self.put(&mut dispatch, request)?;
        if let Request::Forward { socket, .. } = request {
            self.forwarded_to.store(socket.encode(), Ordering::Relaxed);
        }
        let wake = dispatch.turn.note(copied, false);
        self.publish(&mut dispatch, wake);
        Ok(())
    }

    /// This process has no more to say for now, but may not sleep: it looks for something in
    /// vain.
    pub fn end_turn(&self) {
        if self.holds.load(Ordering::Relaxed)
            && let Some(mut dispatch) = self.dispatch.try_enter()
        {
            dispatch.turn.end();
            self.publish(&mut dispatch, Wake::Now);
        }
    }

    /// Sends a request that is not answered.
    pub(crate) fn report(&self, request: &Request, wake: Wake) -> Result<(), SocketError> {
        let mut dispatch = self.dispatch.enter()?;
        self.put(&mut dispatch, request)?;
        self.publish(&mut dispatch, wake);
        Ok(())
    }

    /// Tells the engine by `request` that a connection was accepted, for which it need not be
    /// woken. If this process was told of the connection before it accepted it, as it was
    /// `given` to it, what it was told counts from now on.
    pub(crate) fn report_accepted(
        &self,
        request: &Request,
        connection: SocketId,
        given: bool,
    ) -> Result<(), SocketError> {
        let mut dispatch = self.dispatch.enter()?;
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
    pub(crate) fn wake_engine(&self) -> Result<(), SocketError> {
        let mut dispatch = self.dispatch.enter()?;
        self.publish(&mut dispatch, Wake::Now);
        Ok(())
    }

    /// Sends several requests at once.
    pub(crate) fn report_all(
        &self,
        requests: impl Iterator<Item = Request>,
        wake: Wake,
    ) -> Result<(), SocketError> {
        let mut dispatch = self.dispatch.enter()?;
        for request in requests {
            self.put(&mut dispatch, &request)?;
        }
        self.publish(&mut dispatch, wake);
        Ok(())
    }

    /// Sends a request and waits for its answer. Signals do not end the wait:
    /// the engine answers at once.
    pub(crate) fn call(
        &'static self,
        request: impl FnOnce(u32, Option<u16>) -> Request,
    ) -> Result<Answer, SocketError> {
        self.call_if(|tag, waiter| Ok(request(tag, waiter)))
    }

    /// As `call`, of a request that may not be wanted any more when it is to be put: nobody puts
    /// another between that question and it.
    pub(crate) fn call_if(
        &'static self,
        request: impl FnOnce(u32, Option<u16>) -> Result<Request, SocketError>,
    ) -> Result<Answer, SocketError> {
        let waiter = self.threads().my_waiter().map(|w| w as u16);
        let tag = {
            let mut dispatch = self.dispatch.enter()?;
            dispatch.next_tag = dispatch.next_tag.wrapping_add(1);
            let tag = dispatch.next_tag;
            self.put(&mut dispatch, &request(tag, waiter)?)?;
            dispatch.answers.insert(tag, None);
            self.publish(&mut dispatch, Wake::Now);
            tag
        };
        let answer = self
            .threads()
            .wait_for(None, None, WaitLimit::ENDLESS, |_| {
                let mut dispatch = self.dispatch.enter()?;
                if let Some(Some(answer)) = dispatch.answers.get(&tag).copied() {
                    dispatch.answers.remove(&tag);
                    return Ok(Some(answer));
                }
                if self.is_gone() {
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
    pub fn drain_if_free(&self) {
        if let Some(mut dispatch) = self.dispatch.try_enter() {
            let _ = self.take_completions(&mut dispatch);
        }
    }

    /// Sees to it that what the engine has told by now counts, also where another thread is
    /// about to make it count: for a call that says how a socket stands. Two loads if there
    /// is nothing; says whether there was something.
    pub fn catch_up(&self) -> bool {
        let is_some = self.session.has_completions(self.own_channel());
        if is_some {
            let _ = self.drain();
        }
        is_some
    }

    /// Takes all completions. After a declaration to sleep it has to be this:
    /// another thread may have taken a completion and not yet applied it.
    pub(crate) fn drain(&self) -> Result<(), SocketError> {
        let mut dispatch = self.dispatch.enter()?;
        self.take_completions(&mut dispatch)
    }

    fn take_completions(&self, dispatch: &mut Dispatch) -> Result<(), SocketError> {
        if self.is_cut_off() {
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
            if let Ok(mut ready_sets) = self.ready_sets.enter() {
                ready_sets.moved(&dispatch.moved);
            }
            dispatch.moved.clear();
        }
        // Not before all of it counts: others look at the ring to know whether it does.
        if any {
            dispatch.channel.release();
        }
        if is_more {
            dispatch.channel.ask_for_more(&self.doorbell);
        }
        Ok(())
    }

    /// Moves a socket's edges; says whether this process was to be told.
    fn apply(&self, dispatch: &mut Dispatch, socket: SocketId, edges: &Edges) -> bool {
        let Some(block) = self.session.get_block(socket.index) else {
            return false;
        };
        // The process that accepts it begins the block, and only then looks here.
        if block.is_before(socket) {
            dispatch.early.insert(socket.index, (socket, *edges));
            return false;
        }
        let reported = &mut dispatch.reported;
        block.is(socket) && reported.apply(socket, block, edges, self.held_sockets.having(socket))
    }

    // ---- before sleeping ----

    /// Says all that was put off, before this process sleeps. An engine that sleeps is
    /// not woken for little that was read, which then does not count as told: it adds up
    /// until it is much.
    ///
    /// # Errors
    /// [`SocketError::Broken`] or [`SocketError::Reentered`].
    pub fn flush(&self) -> Result<(), SocketError> {
        let mut unreported = self.unreported.enter()?;
        let mut dispatch = self.dispatch.enter()?;
        let any = !unreported.is_empty();
        for id in unreported.drain(..) {
            self.held_sockets.unmark(id.index, LISTED);
            let block = self.session.block(id.index);
            if !block.is(id) {
                continue;
            }
            let done = self.read_to_report(block, id);
            let unreported_bytes = done.saturating_sub(block.rcv.reported.load(Ordering::Relaxed));
            if unreported_bytes != 0 {
                let request = self.edges(block, id, EdgeFlags::empty());
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
