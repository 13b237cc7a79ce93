//! One process's place in a session: its channel to the engine, what it takes
//! from it, and the calls that wait for an answer.
//!
//! Whoever is there drains the channel: completions move the edges of socket
//! blocks, answer pending calls, and are told to the ready sets (`readiness`).
//! Lock order: a socket's stream locks, the list of what is unreported, the dispatch,
//! the ready sets.

use crate::departure::Unfinished;
use crate::errors::SocketError;
use crate::fork_lock::{ForkGuard, ForkLock};
use crate::join::Hooks;
use crate::ready_sets::ReadySets;
use crate::reported_edges::ReportedEdges;
use crate::stream::SentFiles;
use crate::turn::Turn;
use crate::wait_limit::WaitLimit;
use longshore_hostif::attach::Token;
use longshore_hostif::{
    Address, Arena, Completion, EdgeFlags, Edges, HostChannel, HostSession, Hurry, PutError,
    Request, Routes, SocketId,
};
use longshore_ring::{Doorbell, is_confined};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

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
    pub(crate) channel: HostChannel,
    /// Requests were published that the engine need not have fetched, and must
    /// before we sleep.
    owes_wake: bool,
    turn: Turn,
    next_tag: u32,
    answers: HashMap<u32, Option<Answer>>,
    moved: Vec<u32>,
    news: ReportedEdges,
    /// Where connections stand that this process was given and nobody has accepted yet, by the
    /// indices of their blocks.
    pub(crate) early: HashMap<u32, (SocketId, Edges)>,
}

impl Dispatch {
    /// Of a process that joined by `channel`, in a session of so many sockets.
    pub(crate) fn new(channel: HostChannel, sockets: usize) -> Self {
        Self {
            channel,
            news: ReportedEdges::new(sockets),
            owes_wake: false,
            turn: Turn::default(),
            next_tag: 1,
            answers: HashMap::new(),
            moved: Vec::new(),
            early: HashMap::new(),
        }
    }
}

/// Whether a request is worth waking the engine for, and when it is to be fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wake {
    /// Now.
    Now,
    /// Now, if it sleeps; one that is awake fetches it when this process has no more to say
    /// for now, or after a short time.
    Held,
    /// The same of what the program itself holds back (TCP_CORK, MSG_MORE), and after a longer
    /// time.
    HeldBack,
    /// Before this process sleeps, or a packet comes.
    Soon,
    /// Not at all; it is fetched before a packet comes.
    Never,
    /// Not at all; it is fetched with others.
    Along,
}

/// A process's place in a session. Lives until the process ends.
#[derive(Debug)]
pub struct Host {
    pub(crate) arena: Arc<Arena>,
    pub(crate) session: HostSession,
    pub(crate) hooks: Hooks,
    pub(crate) doorbell: Doorbell,
    pub(crate) connection: OwnedFd,
    /// The channel under whose lock the processes that share the connection ask.
    pub(crate) asks_by: u32,
    /// Where the engine is, and the session.
    pub(crate) engine: PathBuf,
    pub(crate) token: Token,
    pub(crate) dispatch: ForkLock<Dispatch>,
    pub(crate) channel: AtomicU32,
    /// Its pid as the engine knows it, or what stands for it
    /// ([`INTRODUCED`](longshore_hostif::INTRODUCED)).
    pub(crate) pid: AtomicU32,
    /// Pids mean something else to the engine: it is in another namespace. So it stays
    /// for all who descend from this process.
    pub(crate) is_abroad: AtomicBool,
    /// Counts the forks between us and the process that joined.
    pub(crate) epoch: AtomicU32,
    pub(crate) next_waiter: AtomicU32,
    pub(crate) uses: &'static [AtomicU64],
    pub(crate) marks: &'static [AtomicU64],
    /// The engine may leave requests lie until this process says that it has no more.
    pub(crate) holds: AtomicBool,
    /// Sockets of which the engine was not told all that was consumed.
    pub(crate) unreported: ForkLock<Vec<SocketId>>,
    pub(crate) ready_sets: ForkLock<ReadySets>,
    /// Files that were sent and may be worth handing over.
    pub(crate) sent_files: SentFiles,
    /// One query at a time: there is one mailbox.
    pub(crate) query: ForkLock<()>,
    /// Datagrams that were begun and not ended (MSG_MORE, UDP_CORK).
    pub(crate) unfinished: ForkLock<Unfinished>,
    pub(crate) gone: AtomicBool,
    /// It has no channel: it is a child for which there was none.
    pub(crate) cut_off: AtomicBool,
    pub(crate) short: AtomicBool,
    /// It was said that it is.
    pub(crate) was_short: AtomicBool,
    /// It was said that the session has no free socket.
    pub(crate) full: AtomicBool,
}

impl Host {
    /// Which destinations are the engine's.
    pub fn routes(&self) -> &Routes {
        self.session.routes()
    }

    /// Whether what is bound to the wildcard is the engine's alone, and not the kernel's, too.
    pub fn is_alone(&self) -> bool {
        self.session.is_alone()
    }

    /// The congestion control that new sockets begin with, by its place in
    /// [`CONGESTION_NAMES`](longshore_hostif::CONGESTION_NAMES).
    pub fn congestion(&self) -> u32 {
        self.session.congestion()
    }

    /// The connection to the engine: it is readable or hung up when the engine
    /// is gone.
    pub fn connection(&self) -> BorrowedFd<'_> {
        self.connection.as_fd()
    }

    /// The numbers of the descriptors that it keeps open.
    pub fn descriptors(&self) -> [RawFd; 3] {
        [
            self.connection.as_raw_fd(),
            self.doorbell.as_fd().as_raw_fd(),
            self.arena.as_fd().as_raw_fd(),
        ]
    }

    pub(crate) fn ring_engine(&self) {
        self.doorbell.ring();
    }

    // ---- the engine's health ----

    /// Whether the engine is known to be gone.
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed) || self.session.is_closed()
    }

    /// Whether it has no channel of its own: the one that it knows is its parent's.
    pub(crate) fn is_cut_off(&self) -> bool {
        self.cut_off.load(Ordering::Relaxed)
    }

    /// A child without a channel fails from now on, and does nothing to its parent's.
    pub(crate) fn cut_off(&self, why: &str) {
        self.cut_off.store(true, Ordering::Relaxed);
        self.fail_from_now(why);
    }

    /// Looks whether the engine lives, and says so to all who wait for it if it
    /// does not.
    pub fn look_at_engine(&self) {
        if self.gone.load(Ordering::Relaxed) {
            return;
        }
        let mut fds = [PollFd::new(&self.connection, PollFlags::IN)];
        let at_once = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let hung_up = poll(&mut fds, Some(&at_once)).is_ok_and(|n| n != 0)
            && fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR);
        if hung_up {
            self.lose_engine();
        } else {
            self.observe_end();
        }
    }

    /// Says so to all who wait for the engine, if it has ended in order.
    pub(crate) fn observe_end(&self) {
        if self.session.is_closed() && !self.gone.load(Ordering::Relaxed) {
            self.lose_engine();
        }
    }

    /// From now on all calls fail: the engine is gone.
    pub(crate) fn lose_engine(&self) {
        self.fail_from_now(
            "the engine is gone: this program's sockets fail from now on; start it again",
        );
    }

    /// From now on all calls fail, for this reason.
    pub(crate) fn fail_from_now(&self, why: &str) {
        if !self.gone.swap(true, Ordering::AcqRel) {
            (self.hooks.log)(why);
        }
        if let Ok(mut ready_sets) = self.ready_sets.enter() {
            ready_sets.all_moved(&self.session);
        }
    }

    /// Notes that the session is short of send memory: who waits for it looks
    /// again by himself.
    pub(crate) fn set_short(&self, short: bool) {
        if self.short.load(Ordering::Relaxed) == short {
            return;
        }
        self.short.store(short, Ordering::Relaxed);
        if short && !self.was_short.swap(true, Ordering::Relaxed) {
            (self.hooks.log)(
                "the session has no memory left for what it sends, and waits for some; use an \
                 engine with more (`session.send_mib` in its configuration)",
            );
        }
    }

    /// Whether the session was short of send memory lately.
    pub fn is_short(&self) -> bool {
        self.short.load(Ordering::Relaxed)
    }

    // ---- requests ----

    fn put(&self, dispatch: &mut Dispatch, request: &Request) -> Result<(), SocketError> {
        if self.is_cut_off() {
            return Err(SocketError::EngineGone);
        }
        let mut tries = 0u32;
        loop {
            match dispatch.channel.put(request) {
                Ok(()) => return Ok(()),
                Err(PutError::Corrupt(_)) => return Err(SocketError::Broken),
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
                // Not libc's, at which a thread that was cancelled would end.
                let _ = rustix::thread::nanosleep(&Timespec {
                    tv_sec: 0,
                    tv_nsec: 50_000,
                });
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
    pub(crate) fn tell_written(&self, request: &Request, copied: u64) -> Result<(), SocketError> {
        let mut dispatch = self.dispatch.enter()?;
        self.put(&mut dispatch, request)?;
        let held_back = EdgeFlags::MORE | EdgeFlags::CORK;
        let is_held_back =
            matches!(request, Request::Edges { flags, .. } if flags.intersects(held_back));
        let wake = dispatch.turn.note(copied, is_held_back);
        self.publish(&mut dispatch, wake);
        Ok(())
    }

    /// Tells that what one socket has received is sent by another, for which so many bytes were
    /// copied. `moves` moves their edges: no other request of this process comes between.
    pub(crate) fn tell_forwarded(
        &self,
        request: &Request,
        copied: u64,
        moves: impl FnOnce(),
    ) -> Result<(), SocketError> {
        let mut dispatch = self.dispatch.enter()?;
        moves();
        self.put(&mut dispatch, request)?;
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
    pub(crate) fn tell(&self, request: &Request, wake: Wake) -> Result<(), SocketError> {
        let mut dispatch = self.dispatch.enter()?;
        self.put(&mut dispatch, request)?;
        self.publish(&mut dispatch, wake);
        Ok(())
    }

    /// Tells the engine by `request` that a connection was accepted, for which it need not be
    /// woken. `given` is the connection if this process was told of it before it accepted it:
    /// what it was told counts from now on.
    pub(crate) fn tell_accepted(
        &self,
        request: &Request,
        given: Option<SocketId>,
    ) -> Result<(), SocketError> {
        let mut dispatch = self.dispatch.enter()?;
        let early = given.and_then(|socket| dispatch.early.remove(&socket.index));
        if let Some((socket, edges)) = early {
            self.apply(&mut dispatch, socket, &edges);
        }
        self.put(&mut dispatch, request)?;
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
    pub(crate) fn tell_all(
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

    /// The same of a request that may not be wanted any more when it is to be put: nobody puts
    /// another between that question and it.
    pub(crate) fn call_if(
        &'static self,
        request: impl FnOnce(u32, Option<u16>) -> Result<Request, SocketError>,
    ) -> Result<Answer, SocketError> {
        let waiter = self.my_waiter().map(|w| w as u16);
        let tag = {
            let mut dispatch = self.dispatch.enter()?;
            dispatch.next_tag = dispatch.next_tag.wrapping_add(1);
            let tag = dispatch.next_tag;
            self.put(&mut dispatch, &request(tag, waiter)?)?;
            dispatch.answers.insert(tag, None);
            self.publish(&mut dispatch, Wake::Now);
            tag
        };
        let answer = self.wait_for(None, None, WaitLimit::ENDLESS, |_| {
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
    /// is nothing.
    pub fn catch_up(&self) {
        if self.session.has_completions(self.own_channel()) {
            let _ = self.drain();
        }
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
                    let news = self.apply(dispatch, socket, &edges);
                    dispatch.moved.extend(news.then_some(socket.index));
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

    /// Moves a socket's edges; says whether that is news to this process.
    fn apply(&self, dispatch: &mut Dispatch, socket: SocketId, edges: &Edges) -> bool {
        let Some(block) = self.session.get_block(socket.index) else {
            return false;
        };
        // Who accepts it begins the block, and only then looks here.
        if block.next_generation() == socket.generation {
            dispatch.early.insert(socket.index, (socket, *edges));
            return false;
        }
        let news = &mut dispatch.news;
        block.is(socket) && news.apply(socket, block, edges, self.having(socket))
    }

    // ---- before sleeping ----

    /// Says all that was put off, before this process sleeps. An engine that sleeps is
    /// not woken for little that was read, which then does not count as told: it adds up
    /// until it is much.
    ///
    /// # Errors
    /// [`SocketError::Broken`] or [`SocketError::Reentered`].
    pub fn settle(&self) -> Result<(), SocketError> {
        let mut unreported = self.unreported.enter()?;
        let mut dispatch = self.dispatch.enter()?;
        let any = !unreported.is_empty();
        for id in unreported.drain(..) {
            self.unlist(id);
            let block = self.session.block(id.index);
            if !block.is(id) {
                continue;
            }
            let done = block.rcv.done.load(Ordering::Acquire);
            let unheard = done.saturating_sub(block.rcv.told.load(Ordering::Relaxed));
            if unheard != 0 {
                let request = crate::stream::edges(block, id, EdgeFlags::empty());
                self.put(&mut dispatch, &request)?;
            }
            // The engine may have come to want it sooner since it was read.
            if unheard >= crate::stream::telling_threshold(block) {
                block.rcv.told.fetch_max(done, Ordering::AcqRel);
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

    /// Chunks of the send slab that nobody has, found by taking them all.
    #[cfg(any(test, feature = "testing"))]
    pub fn count_free_chunks(&self) -> usize {
        let take = || self.arena.take_snd_chunk().ok().flatten();
        let all: Vec<u32> = std::iter::from_fn(take).collect();
        for chunk in all.iter().rev() {
            let _ = self.arena.give_snd_chunk(*chunk);
        }
        all.len()
    }

    /// The lock on what is done with the channel, for fork.
    pub(crate) fn stop_dispatch(&'static self) -> Option<ForkGuard<'static, Dispatch>> {
        self.dispatch.enter().ok()
    }
}

pub(crate) fn own_pid() -> u32 {
    rustix::process::getpid().as_raw_nonzero().get() as u32
}
