//! What is reported once (EPOLLONESHOT), and then no more until the program sets it again:
//! whichever half of an instance has reported it, the other reports it no more.
//!
//! Of what stands in the lists (sockets that nobody has decided about, and instances in
//! instances) it is noted here that the kernel has reported it, so that it is not as new in a ready
//! set. Called by `epoll_wait`.

use super::{Instance, Registered};
use crate::real;
use crate::user::Out;
use libc::epoll_event;
use longshore_sockets::SocketError;
use std::sync::atomic::Ordering;

const ONCE: u32 = libc::EPOLLONESHOT as u32;

impl Registered {
    /// Whether it is to be reported at most once.
    pub(crate) fn is_once(&self) -> bool {
        self.events & ONCE != 0
    }
}

impl Instance {
    /// Notes what is asked for: something that is reported once may be among it.
    pub(crate) fn note_once(&self, events: u32) {
        if events & ONCE != 0 {
            self.has_once.store(true, Ordering::Relaxed);
        }
    }

    /// Whether anything of the lists, or in both halves, may have been asked for once.
    pub(crate) fn reports_once(&self) -> bool {
        self.has_once.load(Ordering::Relaxed)
    }

    /// The kernel has reported what was registered with this word. What the engine's half has
    /// to say of the same, if that was for once.
    ///
    /// # Errors
    /// If a signal handler has interrupted this thread while it was looking.
    pub(crate) fn note_reported(&self, data: u64) -> Result<u32, SocketError> {
        let mut lists = self.lists.enter()?;
        let lists = &mut *lists;
        for r in lists.undecided.iter_mut().chain(&mut lists.nested) {
            r.disarmed |= r.is_once() && r.data == data;
        }
        match self.set().filter(|_| self.has_both()) {
            Some(set) => set.report_also(data),
            None => Ok(0),
        }
    }

    /// An instance in this one was reported for once, by what the engine has of it.
    pub(super) fn silence_nested(&self, r: &mut Registered) {
        r.disarmed = true;
        // An instance has neither errors nor an end which the kernel would report all the same.
        let mut nothing = epoll_event {
            events: ONCE,
            u64: r.data,
        };
        let change = libc::EPOLL_CTL_MOD;
        real::epoll_ctl(self.epfd(), change, r.fd, Out::from(&mut nothing));
    }
}
