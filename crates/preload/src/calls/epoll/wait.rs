//! `epoll_wait` and its kin: what either half has, and one sleep for both.

use crate::calls::timeouts::{is_mask_there, limit_of, longest_sleep};
use crate::calls::{answer, last_error};
use crate::cancel::{held, is_cancelled, point};
use crate::epoll::{Asleep, Instance, Registered, family, instance, of_descriptor};
use crate::owner::Interruption;
use crate::results::refused;
use crate::signals::{self, waits, within};
use crate::user::{In, Out};
use crate::{place, real, vectors};
use libc::{c_int, epoll_event, sigset_t, timespec};
use longshore_sockets::{Host, ReadySet, SocketError, deadline_after, is_confined};
use std::time::{Duration, Instant};

/// One in so many rounds the kernel's half comes first.
const KERNEL_FIRST: u32 = 4;
/// Most events that Linux reports at once (EP_MAX_EVENTS).
const MOST_EVENTS: usize = i32::MAX as usize / size_of::<epoll_event>();
const NOTHING: epoll_event = epoll_event { events: 0, u64: 0 };

/// The program's array, being filled.
struct Found<'a> {
    at: Out<'a, epoll_event>,
    most: usize,
    count: usize,
}

impl<'a> Found<'a> {
    fn room(&self) -> usize {
        self.most - self.count
    }

    /// A place inside the array, which has `most`.
    fn place(&self, i: usize) -> Out<'a, epoll_event> {
        assert!(i < self.most);
        self.at.add(i)
    }

    /// What was put there.
    fn event(&self, i: usize) -> epoll_event {
        self.place(i).get().unwrap_or(NOTHING)
    }

    /// Puts an event there; says whether there was room for it.
    fn push(&mut self, events: u32, data: u64) -> bool {
        let has_room = self.room() != 0;
        if has_room {
            self.place(self.count)
                .put(epoll_event { events, u64: data });
            self.count += 1;
        }
        has_room
    }

    /// What is there with this word, if there is.
    fn merge(&mut self, events: u32, data: u64) -> bool {
        for i in 0..self.count {
            let mut e = self.event(i);
            if { e.u64 } == data {
                e.events |= events;
                self.place(i).put(e);
                return true;
            }
        }
        false
    }
}

/// A wait in progress.
struct Waiting<'a> {
    host: &'static Host,
    instance: &'static Instance,
    epfd: c_int,
    set: Option<ReadySet>,
    mask: In<'a, sigset_t>,
    found: Found<'a>,
    /// The kernel has said that the eventfd was written to, which is for threads that sleep.
    rung: bool,
}

impl Waiting<'_> {
    /// As `harvest`. A program that takes one event at a time counts on their order: what comes by
    /// another way may say that a socket is somebody else's now, and what is read of it then is
    /// lost. When the kernel's descriptors became ready cannot be known. So they come before the
    /// engine's sockets, of which none counts that became ready after the kernel was asked.
    fn harvest_in_order(&mut self) -> Result<usize, SocketError> {
        let takes_one = self.found.most == 1 && self.found.count == 0;
        let is_ready = || self.set.is_some_and(|set| set.is_ready());
        if !(takes_one && self.instance.has_kernels() && is_ready()) {
            return self.harvest();
        }
        if self.instance.passes_over() {
            self.ask_kernel(1, 0)?;
            if self.found.count != 0 {
                return Ok(1);
            }
        }
        self.instance.end_passing_over();
        self.harvest()
    }

    /// Takes what of the engine's sockets is ready.
    fn harvest(&mut self) -> Result<usize, SocketError> {
        let before = self.found.count;
        if let Some(set) = &self.set {
            let (found, both) = (&mut self.found, self.instance.has_both());
            set.harvest(found.room(), |r| {
                if !(both && found.merge(r.events, r.data)) {
                    found.push(r.events, r.data);
                }
                if both && r.is_last {
                    self.instance.take_out(r.fd);
                }
            })?;
        }
        if self.instance.has_nested() {
            self.harvest_nested()?;
        }
        Ok(self.found.count - before)
    }

    fn harvest_nested(&mut self) -> Result<(), SocketError> {
        let found = &mut self.found;
        self.instance
            .harvest_nested(|events, data| found.merge(events, data) || found.push(events, data))
    }

    /// Asks the kernel's half for what fits, and waits for at most `timeout`
    /// milliseconds.
    fn ask_kernel(&mut self, room: usize, timeout: c_int) -> Result<(), SocketError> {
        let room = room.min(self.found.room());
        if room == 0 {
            return Ok(());
        }
        let at = self.found.place(self.found.count);
        let got = if timeout == 0 {
            match held(|| real::epoll_wait(self.epfd, at, room as c_int, 0)) {
                -1 => Err(last_error()),
                got => Ok(got as usize),
            }
        } else {
            self.sleep_in(self.epfd, at, room, timeout)
        };
        self.take(got?)
    }

    /// Sleeps in an instance of the kernel's.
    fn sleep_in(
        &self,
        epfd: c_int,
        at: Out<'_, epoll_event>,
        room: usize,
        timeout: c_int,
    ) -> Result<usize, SocketError> {
        // A filter of system calls may permit the one and not the other.
        if self.mask.is_null() {
            return waits::epoll_wait(epfd, at, room, timeout);
        }
        // At the mask the kernel looks itself.
        waits::epoll_pwait(epfd, at, room, timeout, self.mask, signals::SET_BYTES)
    }

    /// Sleeps for at most `timeout` milliseconds, and takes what the kernel's half has then.
    fn sleep_on(&mut self, asleep: &Asleep, timeout: c_int) -> Result<(), SocketError> {
        if !asleep.is_own() {
            return self.ask_kernel(usize::MAX, timeout);
        }
        let mut events = [NOTHING; 4];
        let room = events.len();
        let at = Out::from(&mut events[..]);
        let got = self.sleep_in(asleep.fd(), at, room, timeout)?;
        for event in &events[..got] {
            let word = event.u64;
            if word == self.instance.connection_word() {
                self.host.look_at_engine();
            }
            if word == self.instance.program_word() {
                self.ask_kernel(usize::MAX, 0)?;
            }
        }
        Ok(())
    }

    /// Keeps what is for the program of the `got` events that the kernel has put behind
    /// those that are there already.
    fn take(&mut self, got: usize) -> Result<(), SocketError> {
        let first = self.found.count;
        let both = self.instance.has_both();
        let mut repeats = false;
        for i in first..first + got {
            let e = self.found.event(i);
            let (events, word) = (e.events, e.u64);
            if word == self.instance.wake_fd_word() {
                (repeats, self.rung) = (true, true);
                continue;
            }
            if word == self.instance.connection_word() {
                self.host.look_at_engine();
                repeats = true;
                continue;
            }
            if self.is_hollow(word)? {
                continue;
            }
            let beside = match self.instance.reports_once() {
                true => self.instance.note_reported(word)?,
                false => 0,
            };
            let events = events | beside;
            if !(both && self.found.merge(events, word)) {
                self.found.push(events, word);
            }
        }
        // What the kernel said to us alone is not left behind for the program.
        for i in self.found.count..first + got {
            self.found.place(i).put(NOTHING);
        }
        if repeats && self.instance.is_shared() {
            family::repeat();
        }
        Ok(())
    }

    /// Whether an event only says that the eventfd of a nested instance was written
    /// to, for something that is not there any more. Reads the eventfd.
    fn is_hollow(&self, word: u64) -> Result<bool, SocketError> {
        if !self.instance.has_nested() {
            return Ok(false);
        }
        let find = |nested: &[Registered]| nested.iter().find(|r| r.data == word).map(|r| r.inner);
        let Some(inner) = self.instance.with_nested(find)? else {
            return Ok(false);
        };
        let Some(inner) = instance(inner) else {
            return Ok(false);
        };
        let mut fd = libc::pollfd {
            fd: inner.epfd(),
            events: libc::POLLIN,
            revents: 0,
        };
        inner.is_hollow(|| held(|| real::poll(Out::from(&mut fd), 1, 0)) != 0)
    }

    /// Keeps what is for the program of the `got` events that the kernel has put there, and
    /// waits for as long as is `left` if there is none.
    fn go_on_after(
        &mut self,
        got: usize,
        left: impl FnOnce() -> Option<Duration>,
    ) -> Result<c_int, SocketError> {
        self.take(got)?;
        if self.found.count != 0 {
            self.hand_on();
            return Ok(self.found.count as c_int);
        }
        self.run(left()).map(|n| n as c_int)
    }

    /// Goes on at the engine to which this process has attached anew since; whether it has.
    fn moves_on(&mut self) -> bool {
        let now = place::attached().filter(|now| !std::ptr::eq(*now, self.host));
        if let Some(now) = now {
            self.host = now;
            self.set = self.instance.set();
        }
        now.is_some()
    }

    fn run(&mut self, limit: Option<Duration>) -> Result<usize, SocketError> {
        let deadline = deadline_after(limit);
        let mut result = self.run_here(limit);
        // The set that it waited for at the engine before is closed.
        while result == Err(refused(libc::EBADF)) && self.moves_on() {
            let left = deadline.map(|d| d.saturating_duration_since(Instant::now()));
            result = self.run_here(left);
        }
        self.hand_on();
        result
    }

    /// Threads that sleep hear of what was taken from them.
    fn hand_on(&mut self) {
        if std::mem::take(&mut self.rung) {
            self.instance.hand_on();
        }
    }

    fn run_here(&mut self, limit: Option<Duration>) -> Result<usize, SocketError> {
        self.host.under_way().await_own_pairs();
        self.host.messages().catch_up();
        let round = self.instance.next_round();
        let is_kernels_turn = self.instance.has_kernels() && round.is_multiple_of(KERNEL_FIRST);
        if is_kernels_turn {
            self.ask_kernel(self.found.most.div_ceil(2), 0)?;
        }
        self.harvest_in_order()?;
        if limit == Some(Duration::ZERO) {
            return self.look_further(is_kernels_turn);
        }
        if self.found.count != 0 {
            return Ok(self.found.count);
        }
        let interruption = Interruption::begin(|s| self.instance.raised(s));
        self.host.messages().flush()?;
        let host = self.host;
        let concerns_us = self.set.is_some() || self.instance.has_nested();
        if concerns_us
            && host
                .threads()
                .spin(|| Ok(Some(self.harvest_in_order()?).filter(|n| *n != 0)))?
                .is_some()
        {
            return Ok(self.found.count);
        }
        self.sleep(limit, interruption)
    }

    /// The rest of a look that does not wait: it finds all that there is room for, as the program
    /// may look no more. One that may wait comes back for what is left.
    fn look_further(&mut self, has_asked_kernel: bool) -> Result<usize, SocketError> {
        if self.found.count == 0 {
            self.host.messages().flush()?;
            if self.host.under_way().wait() {
                self.harvest_in_order()?;
            }
        }
        if self.found.count == 0 || (self.instance.has_kernels() && !has_asked_kernel) {
            self.ask_kernel(usize::MAX, 0)?;
        }
        Ok(self.found.count)
    }

    fn sleep(
        &mut self,
        limit: Option<Duration>,
        mut interruption: Interruption,
    ) -> Result<usize, SocketError> {
        let deadline = deadline_after(limit);
        let _inside = self.instance.enter_to_wait();
        loop {
            self.moves_on();
            let asleep = self.instance.fall_asleep()?;
            // A set may have come since: another thread registered a socket.
            self.set = self.set.or_else(|| self.instance.set());
            let watched = asleep.is_watched;
            let longest = longest_sleep(self.host, watched);
            let result = match self.harvest_in_order() {
                Ok(0)
                    if is_cancelled()
                        || interruption.has_come(|s| self.instance.raised(s), self.mask, false) =>
                {
                    Err(SocketError::Interrupted)
                }
                Ok(0) => {
                    let left = deadline.map(|d| d.saturating_duration_since(Instant::now()));
                    self.sleep_on(&asleep, milliseconds(longest(left)))
                }
                Ok(_) => self.ask_kernel(usize::MAX, 0),
                Err(e) => Err(e),
            };
            // It has said so to the others.
            drop(asleep);
            self.rung = false;
            result?;
            if is_confined() || !watched {
                self.host.look_at_engine();
            }
            if self.found.count == 0 {
                // The kernel has said first that the engine rings.
                self.host.messages().catch_up();
                self.harvest()?;
            }
            if self.found.count != 0 || deadline.is_some_and(|d| d <= Instant::now()) {
                return Ok(self.found.count);
            }
        }
    }
}

/// The kernel's milliseconds, rounded up; -1 is for ever.
fn milliseconds(left: Option<Duration>) -> c_int {
    left.map_or(-1, |l| {
        c_int::try_from(l.as_micros().div_ceil(1000)).unwrap_or(c_int::MAX)
    })
}

/// Waits, if the instance has anything to do with the engine.
fn wait(
    epfd: c_int,
    events: Out<'_, epoll_event>,
    most: c_int,
    limit: Option<Duration>,
    mask: In<'_, sigset_t>,
    plain: impl FnOnce() -> c_int,
) -> c_int {
    let Some(instance) = of_descriptor(epfd) else {
        return plain();
    };
    let host = place::attached();
    if instance.is_shared() {
        within(|| instance.look_for_decided());
    }
    let (set, nested) = within(|| (instance.set(), instance.has_nested_sets()));
    let concerns_us = set.is_some() || nested;
    // A thread that sleeps there may still be given a socket of the engine by another thread, and is
    // rung then.
    let sleeps = limit != Some(Duration::ZERO);
    let room = usize::try_from(most).unwrap_or(0);
    // Of more the kernel says that there cannot be so many.
    let nowhere = room > MOST_EVENTS
        || !vectors::can_be_written(events, size_of::<epoll_event>())
        || !is_mask_there(mask);
    let waiting = |host, set| Waiting {
        host,
        instance,
        epfd,
        set,
        mask,
        found: Found {
            at: events,
            most: room,
            count: 0,
        },
        rung: false,
    };
    if let Some(host) = host.filter(|_| concerns_us && room != 0 && !nowhere) {
        return point(|| answer(|| waiting(host, set).run(limit).map(|n| n as c_int)));
    }
    if let Some(host) = host {
        // What was put off is said before the program sleeps.
        within(|| _ = host.messages().flush());
    }
    let deadline = deadline_after(limit.filter(|_| sleeps));
    let got = if sleeps {
        instance.wait_in_kernel(plain)
    } else {
        plain()
    };
    if got > 0 && !nowhere && instance.reports_once() {
        within(|| {
            for e in events.slice_mut(got as usize) {
                // Where a signal handler asks, its thread may be looking at the same lists.
                let _ = instance.note_reported(e.u64);
            }
        });
    }
    let set = instance.set();
    match place::attached() {
        // Another thread has made a socket of the engine's of one that is in here, and rung:
        // that was not for the program.
        // In an instance that several processes have, it may have been one of another process.
        Some(host)
            if got > 0 && (set.is_some() || instance.has_nested_sets() || instance.is_shared()) =>
        {
            let left = || match sleeps {
                true => deadline.map(|d| d.saturating_duration_since(Instant::now())),
                false => limit,
            };
            point(|| answer(|| waiting(host, set).go_on_after(got as usize, left)))
        }
        _ => got,
    }
}

/// `epoll_wait(2)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn epoll_wait(
    epfd: c_int,
    events: Out<'_, epoll_event>,
    most: c_int,
    timeout: c_int,
) -> c_int {
    epoll_pwait(epfd, events, most, timeout, In::null())
}

/// `epoll_pwait(2)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn epoll_pwait(
    epfd: c_int,
    events: Out<'_, epoll_event>,
    most: c_int,
    timeout: c_int,
    mask: In<'_, sigset_t>,
) -> c_int {
    let limit = u64::try_from(timeout).ok().map(Duration::from_millis);
    wait(epfd, events, most, limit, mask, || {
        if mask.is_null() {
            real::epoll_wait(epfd, events, most, timeout)
        } else {
            real::epoll_pwait(epfd, events, most, timeout, mask)
        }
    })
}

/// `epoll_pwait2(2)`; with sockets of the engine its time is rounded up to
/// milliseconds.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn epoll_pwait2(
    epfd: c_int,
    events: Out<'_, epoll_event>,
    most: c_int,
    timeout: In<'_, timespec>,
    mask: In<'_, sigset_t>,
) -> c_int {
    let plain = || real::epoll_pwait2(epfd, events, most, timeout, mask);
    let Some(limit) = limit_of(timeout) else {
        return plain();
    };
    wait(epfd, events, most, limit, mask, plain)
}
