//! When the engine sleeps and what wakes it.
//!
//! After the last piece of work it looks for more for a while, then declares
//! itself asleep in every session that it polls, looks once more, and blocks in `epoll`. A
//! program that publishes requests rings the session's doorbell only if the
//! engine has declared itself. Those of sessions that are parked always do, and so a busy
//! engine looks for doorbells now and then, too.

mod contention;
mod source;
mod spin;

pub(crate) use source::Source;

use crate::adjust::Orders;
use crate::attach::Inbox;
use crate::control::ControlServer;
use crate::placement::Done;
use crate::precedence::Precedence;
use crate::{Engine, EngineError};
use contention::Contention;
use longshore_frames::Port;
use longshore_stack::Session;
use longshore_tcp::Instant;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use spin::Spin;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;
/// The event loop's descriptors and habits.
pub(crate) struct Sleeper {
    epoll: OwnedFd,
    spin: Spin,
    /// Since when there has been nothing to do.
    idle_since: Option<Instant>,
    /// When descriptors other than the port's were last looked at.
    looked_at: Instant,
    contention: Contention,
    pub(crate) precedence: Precedence,
    /// What was found ready; empty between two looks.
    ready: Vec<Source>,
}

/// Ends of processes that are seen to in one look; the others come up again.
const DEATHS_A_LOOK: usize = 4;

/// How often the loop looks at its other descriptors while it is busy, in
/// microseconds.
const LOOK_EVERY: u64 = 1_000;
/// And how often if the doorbells of parked sessions are among them.
const LOOK_FOR_PARKED_EVERY: u64 = 20;

impl Sleeper {
    pub(crate) fn new(
        port: &dyn Port,
        inbox: &Inbox,
        control: Option<&ControlServer>,
        orders: &Orders,
        spin: Duration,
    ) -> Result<Self, Errno> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let sleeper = Self {
            epoll,
            spin: Spin::new(spin.as_micros() as u64),
            idle_since: None,
            looked_at: Instant(0),
            contention: Contention::default(),
            precedence: Precedence::of_this_thread(),
            ready: Vec::new(),
        };
        if let Some(fd) = port.fd() {
            sleeper.watch(fd, Source::Port)?;
        }
        if let Some(fd) = port.link_events_fd() {
            sleeper.watch(fd, Source::PortLink)?;
        }
        sleeper.watch(inbox.fd(), Source::Attach)?;
        sleeper.watch(orders.fd(), Source::Orders)?;
        if let Some(control) = control {
            sleeper.watch(control.fd(), Source::Control)?;
        }
        Ok(sleeper)
    }

    /// Wakes the loop when `fd` is readable.
    pub(crate) fn watch(&self, fd: BorrowedFd<'_>, source: Source) -> Result<(), Errno> {
        let data = epoll::EventData::new_u64(source.encode());
        let mut events = epoll::EventFlags::IN;
        events.set(epoll::EventFlags::ET, matches!(source, Source::Doorbell(_)));
        epoll::add(&self.epoll, fd, data, events)
    }

    /// Requests will come soon.
    pub(crate) fn expect_requests(&mut self) {
        self.spin.lengthen();
    }

    /// No longer.
    pub(crate) fn unwatch(&self, fd: BorrowedFd<'_>) {
        let _ = epoll::delete(&self.epoll, fd);
    }

    fn wait(&self, timeout: Option<Duration>, ready: &mut Vec<Source>) -> Result<(), Errno> {
        let timeout = timeout.and_then(|t| Timespec::try_from(t).ok());
        let mut events = [std::mem::MaybeUninit::<epoll::Event>::uninit(); 64];
        match epoll::wait(&self.epoll, &mut events, timeout.as_ref()) {
            Ok((found, _)) => ready.extend(found.iter().map(|e| Source::decode(e.data.u64()))),
            Err(Errno::INTR) => {}
            Err(e) => return Err(e),
        }
        Ok(())
    }
}

impl Engine {
    /// One turn, and then sleep for at most `timeout` if there was nothing to
    /// do. For those who run the loop themselves.
    ///
    /// # Errors
    /// As [`Engine::run`].
    pub fn turn_and_rest(&mut self, timeout: Duration) -> Result<(), EngineError> {
        if !self.turn()? {
            self.look(Some(timeout))?;
        }
        Ok(())
    }

    /// Between two turns: looks at the other descriptors from time to time,
    /// spins while there may be more to do, sleeps when there is not.
    pub(crate) fn rest(&mut self, worked: bool) -> Result<(), EngineError> {
        let now = self.stack.now();
        let was_kept = self.sleeper.contention.leave(now);
        self.stack.counters.event_loop.precedence +=
            u64::from(self.sleeper.precedence.turn(now, was_kept));
        if self.placer.is_due(now) {
            self.place();
        }
        // What it finds may be work for a turn, before any sleep.
        let every = match self.stack.endpoints.sessions.parked() {
            0 => LOOK_EVERY,
            _ => LOOK_FOR_PARKED_EVERY,
        };
        if self.stack.now().since(self.sleeper.looked_at) >= every
            && self.look(Some(Duration::ZERO))?
        {
            return Ok(());
        }
        if worked {
            self.sleeper.idle_since = None;
        }
        if worked && !self.has_done_all() {
            if self.receiver.receive_policy.gives_way()
                && !self.sleeper.contention.is_contended(self.stack.now())
            {
                self.give_way();
            }
            return Ok(());
        }
        if self.intake.are_soon_due {
            self.await_requests();
            return Ok(());
        }
        self.receiver.receive_policy.rests();
        let since = *self.sleeper.idle_since.get_or_insert(self.stack.now());
        let spins = self.stack.now().since(since) < self.sleeper.spin.length;
        // A port without a descriptor wakes nobody.
        let wakes = self.stack.port().fd().is_some();
        if spins && !(wakes && self.sleeper.contention.is_contended(self.stack.now())) {
            self.give_way();
            return Ok(());
        }
        self.sleep()
    }

    /// Looks on which processor the loop had better run.
    #[cold]
    fn place(&mut self) {
        let port = self.stack.port().counters();
        let done = Done {
            frames: port.rx_frames + port.tx_frames,
            bytes: port.rx_bytes + port.tx_bytes,
            own_bytes: self.stack.counters.own_bytes.cut_through,
        };
        let pid = self.intake.last_served.and_then(|from| {
            let session = self.programs.sessions.get(from.session)?;
            session.processes.pid(from.channel).filter(|pid| *pid != 0)
        });
        let moved = self.placer.look(self.stack.now(), done, pid);
        self.stack.counters.event_loop.placements += u64::from(moved);
    }

    /// Whether a turn that has just been is known to have left nothing for the next.
    fn has_done_all(&self) -> bool {
        let is_contended = self.sleeper.contention.is_contended(self.stack.now());
        self.receiver.receive_policy.has_seen_all(is_contended)
            && self.programs.teardowns().is_empty()
            && !self.stack.has_work_left()
            && self.stack.port().fd().is_some()
    }

    /// Requests are soon due. A thread that is given way to and keeps the processor would keep
    /// them waiting for longer than they may.
    fn await_requests(&mut self) {
        if self.sleeper.contention.is_contended(self.stack.now()) {
            self.intake.is_in_hurry = true;
        } else {
            self.give_way();
        }
    }

    fn give_way(&mut self) {
        self.sleeper.contention.enter(self.stack.now());
        std::thread::yield_now();
    }

    fn sleep(&mut self) -> Result<(), EngineError> {
        for (_, session) in self.stack.endpoints.sessions.iter_polled() {
            session.host.pending.declare_asleep();
        }
        let is_pending = |s: &Session| s.host.still_has_requests() || s.host.owes_wakeups();
        let pending = self
            .stack
            .endpoints
            .sessions
            .iter_polled()
            .any(|(_, s)| is_pending(s));
        let timeout = if pending {
            Some(Duration::ZERO)
        } else {
            self.next_deadline()
        };
        self.stack.counters.event_loop.sleeps += 1;
        let began = self.stack.now();
        let result = self.look(timeout);
        self.sleeper.spin.slept(self.stack.now().since(began));
        self.sleeper.precedence.slept(self.stack.now());
        for (_, session) in self.stack.endpoints.sessions.iter_polled() {
            session.host.pending.declare_awake();
        }
        self.sleeper.idle_since = None;
        result.map(drop)
    }

    /// Whether maintenance has anything to wait for.
    pub(crate) fn needs_maintenance(&self) -> bool {
        self.lifetime.is_draining()
            || self.stack.status().has_fragments()
            || self.programs.need_maintenance(&self.stack)
    }

    /// How long there is nothing to do, by the clock.
    pub(crate) fn next_deadline(&self) -> Option<Duration> {
        let now = self.clock.now();
        let maintenance = Some(self.programs.schedule.at()).filter(|_| self.needs_maintenance());
        [
            self.stack.next_timeout(),
            Some(self.intake.stalled.until()).filter(|at| *at != Instant::NEVER),
            Some(self.intake.held_back_until).filter(|at| *at != Instant::NEVER),
            Some(self.stack.endpoints.sessions.held_until()).filter(|at| *at != Instant::NEVER),
            Some(self.sleeper.precedence.until()).filter(|at| *at != Instant::NEVER),
            maintenance,
        ]
        .into_iter()
        .flatten()
        .min()
        .map(|t| Duration::from_micros(t.since(now)))
    }

    /// Waits for events for at most `timeout` and serves those that are not
    /// packets or requests; says whether there were any events.
    fn look(&mut self, timeout: Option<Duration>) -> Result<bool, EngineError> {
        let mut ready = std::mem::take(&mut self.sleeper.ready);
        self.sleeper.wait(timeout, &mut ready)?;
        self.stack.set_now(self.clock.now());
        self.sleeper.looked_at = self.stack.now();
        let any = !ready.is_empty();
        for source in ready.drain(..) {
            match source {
                Source::PortLink => {
                    self.stack.handle_port_change();
                    if let Some(refusal) = self.stack.port_mut().take_refusal() {
                        (self.about.notice)(&refusal);
                    }
                }
                Source::Port => {}
                // It counts on, and is not read: only that it rings is of interest. What
                // its programs say of how often they rang it could be anything.
                Source::Doorbell(session) => {
                    if let Some(s) = self.stack.endpoints.sessions.get_mut(session) {
                        s.host.meter.note_doorbell();
                    }
                    let turn = self.stack.counters.event_loop.turns;
                    self.stack.endpoints.sessions.poll(session, turn);
                }
                Source::Attach => {
                    for event in self.attach.inbox.take() {
                        self.attaching().handle(event);
                    }
                }
                Source::Deaths => self.maintenance().take_deaths(DEATHS_A_LOOK),
                Source::Control => self.answer_control(),
                Source::Orders => self.take_orders(),
            }
        }
        self.sleeper.ready = ready;
        Ok(any)
    }
}

#[cfg(test)]
mod tests;
