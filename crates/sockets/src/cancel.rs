//! Calls that wait, and that another thread may cancel, as io_uring's requests are.
//!
//! Owns who is first, the call or its cancellation: a call that waits looks only after it has
//! said so, and is cancelled only between two looks. `native` makes such calls, and programs
//! that use [`Socket`] alone. What waits to send, to receive or to accept waits here, and ends
//! here; an attempt to connect is the adapter's, which is asked.

use crate::errors::SocketError;
use crate::holds::Socket;
use crate::host::Host;
use crate::wait_limit::WaitLimit;
use rustix::io::Errno;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What became of a call that was to be cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelOutcome {
    /// It ends with [`SocketError::Cancelled`], and has done nothing.
    Cancelled,
    /// It is just being done: it ends by itself, by its success or, if it could do nothing, with
    /// [`SocketError::Cancelled`].
    UnderWay,
    /// There is none, or it is done.
    NotFound,
}

impl CancelOutcome {
    /// The errno that io_uring gives for it, 0 for the first.
    #[must_use]
    pub fn errno(self) -> i32 {
        match self {
            Self::Cancelled => 0,
            Self::UnderWay => Errno::ALREADY.raw_os_error(),
            Self::NotFound => Errno::NOENT.raw_os_error(),
        }
    }
}

/// By which one thread cancels a call of another. It may be used again, for one call at a time.
#[derive(Debug, Default)]
pub struct Canceller(Mutex<Call>);

#[derive(Debug, Default)]
enum Call {
    #[default]
    None,
    /// It has found nothing to do, and sleeps on this waiter, or is about to.
    Waits(&'static Host, Option<u32>),
    /// It looks, and whatever it finds it does.
    Looks {
        cancelled: bool,
    },
    /// It is to connect, and the adapter has not been asked to.
    Connects,
    /// The adapter has been asked to.
    Connecting(Socket),
    Cancelled,
}

/// A call while it lasts.
struct OngoingCall<'a>(&'a Canceller);

impl Drop for OngoingCall<'_> {
    fn drop(&mut self) {
        *self.0.call() = Call::None;
    }
}

impl Canceller {
    /// One without a call.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels the call that was begun with this, if one is under way.
    ///
    /// # Errors
    /// Of an attempt to connect: [`SocketError::EngineGone`], [`SocketError::Reentered`].
    pub fn cancel(&self) -> Result<CancelOutcome, SocketError> {
        let mut call = self.call();
        match &mut *call {
            Call::None | Call::Cancelled => Ok(CancelOutcome::NotFound),
            Call::Looks { cancelled } => {
                *cancelled = true;
                Ok(CancelOutcome::UnderWay)
            }
            &mut Call::Waits(host, waiter) => {
                *call = Call::Cancelled;
                if let Some(waiter) = waiter {
                    host.threads().wake_waiter(waiter);
                }
                Ok(CancelOutcome::Cancelled)
            }
            Call::Connects => {
                *call = Call::Cancelled;
                Ok(CancelOutcome::Cancelled)
            }
            Call::Connecting(socket) => {
                let socket = socket.clone();
                drop(call);
                socket.connector().cancel()
            }
        }
    }

    fn call(&self) -> MutexGuard<'_, Call> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, begun: Call) -> Result<OngoingCall<'_>, SocketError> {
        let mut call = self.call();
        if !matches!(*call, Call::None) {
            return Err(SocketError::Refused(Errno::BUSY));
        }
        *call = begun;
        Ok(OngoingCall(self))
    }
}

impl OngoingCall<'_> {
    /// One look of a call on `host`, of a thread that sleeps on `waiter`, unless it was
    /// cancelled.
    fn look<T>(
        &self,
        (host, waiter): (&'static Host, Option<u32>),
        attempt: impl FnOnce() -> Result<T, SocketError>,
    ) -> Result<T, SocketError> {
        {
            let mut call = self.0.call();
            if matches!(*call, Call::Cancelled) {
                return Err(SocketError::Cancelled);
            }
            *call = Call::Looks { cancelled: false };
        }
        let found = attempt();
        if found.as_ref().err() == Some(&SocketError::WouldBlock) {
            let mut call = self.0.call();
            if let Call::Looks { cancelled: true } = *call {
                return Err(SocketError::Cancelled);
            }
            *call = Call::Waits(host, waiter);
        }
        found
    }

    fn is_cancelled(&self) -> bool {
        matches!(*self.0.call(), Call::Cancelled)
    }

    /// The adapter is about to be asked to connect `socket`: from now on it is asked to cancel
    /// that, too, and is told of that later.
    fn ask(&self, socket: &Socket) -> Result<(), SocketError> {
        let mut call = self.0.call();
        if matches!(*call, Call::Cancelled) {
            return Err(SocketError::Cancelled);
        }
        *call = Call::Connecting(socket.clone());
        Ok(())
    }
}

impl Socket {
    /// As [`Socket::wait`], unless another thread cancels it.
    ///
    /// # Errors
    /// As [`Socket::wait`]; [`SocketError::Cancelled`]; EBUSY if another call has `canceller`.
    pub fn wait_unless_cancelled<T>(
        &self,
        canceller: &Canceller,
        wait_limit: WaitLimit,
        mut attempt: impl FnMut() -> Result<T, SocketError>,
    ) -> Result<T, SocketError> {
        let sleeper = (self.host, self.host.threads().my_waiter());
        let call = canceller.begin(Call::Waits(sleeper.0, sleeper.1))?;
        let found = self.wait(None, wait_limit, || call.look(sleeper, &mut attempt));
        match found {
            // Its time ran out, or a signal came, in that moment.
            Err(_) if call.is_cancelled() => Err(SocketError::Cancelled),
            found => found,
        }
    }

    /// As [`Connector::connect`](crate::Connector::connect), unless another thread cancels it.
    ///
    /// # Errors
    /// As [`Connector::connect`](crate::Connector::connect); [`SocketError::Cancelled`]; EBUSY if another call has `canceller`.
    pub fn connect_unless_cancelled(
        &self,
        canceller: &Canceller,
        peer: SocketAddr,
        wait_limit: WaitLimit,
    ) -> Result<(), SocketError> {
        let call = canceller.begin(Call::Connects)?;
        self.connect_for(&call, peer, wait_limit)
    }

    fn connect_for(
        &self,
        call: &OngoingCall<'_>,
        peer: SocketAddr,
        wait_limit: WaitLimit,
    ) -> Result<(), SocketError> {
        let mut begun = self.connector().start_if(peer, || call.ask(self));
        if begun == Err(SocketError::Refused(Errno::ALREADY)) {
            // Another call has asked, and this one waits with it.
            begun = call.ask(self).and(begun);
        }
        match self.connector().finish(begun, wait_limit) {
            Err(SocketError::Failed(Errno::CANCELED)) => Err(SocketError::Cancelled),
            _ if call.is_cancelled() => Err(SocketError::Cancelled),
            connected => connected,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Engine, SILENT_PORT};
    use longshore_hostif::{OpenFlags, SocketKind, SocketState};

    /// A call that is cancelled before the adapter knows of it asks for nothing.
    #[test]
    fn an_attempt_that_was_not_asked_for_is_cancelled() {
        let directory = tempfile::tempdir().unwrap();
        let engine = Engine::start(directory.path());
        let host = engine.join();
        let silent = Engine::address(SILENT_PORT);
        let canceller = Canceller::new();
        for kind in [SocketKind::Stream, SocketKind::Datagram] {
            let socket = host.sockets().open(kind, OpenFlags::empty(), 0).unwrap();
            let call = canceller.begin(Call::Connects).unwrap();
            assert_eq!(canceller.cancel(), Ok(CancelOutcome::Cancelled));
            assert_eq!(canceller.cancel(), Ok(CancelOutcome::NotFound));
            let connected = socket.connect_for(&call, silent, WaitLimit::ENDLESS);
            assert_eq!(connected, Err(SocketError::Cancelled));
            assert_eq!(socket.block().state(), SocketState::Open);
            // It has no address, as it would if the adapter had been asked.
            assert!(
                !socket
                    .block()
                    .flags()
                    .contains(longshore_hostif::BlockFlags::BOUND)
            );
        }
        // One that waits for another's attempt is told of it, too.
        let socket = host
            .sockets()
            .open(SocketKind::Stream, OpenFlags::empty(), 0)
            .unwrap();
        assert_eq!(
            socket.connector().start(silent),
            Err(SocketError::InProgress)
        );
        let call = canceller.begin(Call::Connects).unwrap();
        assert_eq!(canceller.cancel(), Ok(CancelOutcome::Cancelled));
        let connected = socket.connect_for(&call, silent, WaitLimit::ENDLESS);
        assert_eq!(connected, Err(SocketError::Cancelled));
        assert!(socket.is_connecting(), "the other call's is under way");
    }

    #[test]
    fn an_outcome_is_what_io_uring_gives_for_it() {
        assert_eq!(CancelOutcome::Cancelled.errno(), 0);
        assert_eq!(CancelOutcome::UnderWay.errno(), 114);
        assert_eq!(CancelOutcome::NotFound.errno(), 2);
    }

    /// Whatever ends a call, it was cancelled if it was told so, and otherwise not.
    #[test]
    fn a_call_that_was_cancelled_says_so_alone() {
        let directory = tempfile::tempdir().unwrap();
        let engine = Engine::start(directory.path());
        let host = engine.join();
        let socket = Engine::open(host, SocketKind::Stream);
        let canceller = Canceller::new();
        let soon = WaitLimit::of_call(Some(std::time::Duration::from_millis(1)));
        let never = || Err::<(), _>(SocketError::WouldBlock);
        let waited = socket.wait_unless_cancelled(&canceller, soon, never);
        assert_eq!(waited, Err(SocketError::TimedOut));
        // In the moment in which its time runs out, or it fails otherwise.
        let waited = socket.wait_unless_cancelled(&canceller, WaitLimit::ENDLESS, || {
            *canceller.call() = Call::Cancelled;
            Err::<(), _>(SocketError::BrokenPipe)
        });
        assert_eq!(waited, Err(SocketError::Cancelled));
        let to = Engine::address(1);
        for is_cancelled in [false, true] {
            let call = canceller.begin(Call::Connects).unwrap();
            // It was made already, and this call is told of that.
            let socket = Engine::open(host, SocketKind::Stream);
            socket.block().set_state(SocketState::Connected);
            if is_cancelled {
                *canceller.call() = Call::Cancelled;
            }
            let connected = socket.connect_for(&call, to, WaitLimit::ENDLESS);
            let expected = if is_cancelled {
                Err(SocketError::Cancelled)
            } else {
                Ok(())
            };
            assert_eq!(connected, expected);
            std::mem::forget(socket);
        }
    }
}
