//! What all sockets have: what they are, the bits that hosts keep for them, and waiting.

use crate::block_words::{host_bits, more_bits};
use crate::errors::SocketError;
use crate::holds::Socket;
use crate::host::Answer;
use crate::reported_edges::Having;
use crate::wait::{Also, Look};
use crate::wait_limit::WaitLimit;
use longshore_hostif::{BlockFlags, Notice, Request, SocketId, SocketState};
use longshore_ring::Waiter;
use rustix::io::Errno;
use std::sync::atomic::Ordering;

impl Socket {
    /// Whether it is a datagram socket.
    pub fn is_datagram(&self) -> bool {
        self.block().flags().contains(BlockFlags::DATAGRAM)
    }

    /// Whether it was made as an IPv6 socket.
    pub fn is_v6(&self) -> bool {
        self.block().flags().contains(BlockFlags::IPV6)
    }

    /// Whether it listens.
    pub fn is_listening(&self) -> bool {
        self.block().state() == SocketState::Listening
    }

    /// Whether the connection is as good as made: a SYN waits for the first write.
    pub fn is_early(&self) -> bool {
        self.block().state() == SocketState::Early
    }

    /// Whether the connection is on its way: after the first write to one that was as
    /// good as made, too.
    pub fn is_connecting(&self) -> bool {
        self.block().state() == SocketState::Connecting
    }

    /// Whether this is an end of a connection within the engine.
    pub fn is_within(&self) -> bool {
        self.block().other_end().is_some()
    }

    /// Its state.
    pub fn state(&self) -> SocketState {
        self.block().state()
    }

    /// Whether a kernel socket beside it is the program's too.
    pub fn has_kernel_side(&self) -> bool {
        self.host_bits() & host_bits::KERNEL_TOO != 0
    }

    /// The bits that the host keeps for it ([`host_bits`]).
    pub fn host_bits(&self) -> u32 {
        self.block().options.load(Ordering::Acquire)
    }

    /// Sets some of them.
    pub fn set_host_bits(&self, bits: u32) {
        self.block().options.fetch_or(bits, Ordering::AcqRel);
    }

    /// Clears some of them.
    pub fn clear_host_bits(&self, bits: u32) {
        self.block().options.fetch_and(!bits, Ordering::AcqRel);
    }

    /// Further bits that the host keeps for it ([`mod@crate::more_bits`]).
    pub fn more_bits(&self) -> u64 {
        self.block().more_bits().load(Ordering::Acquire)
    }

    /// Sets some of them.
    pub fn set_more_bits(&self, bits: u64) {
        self.block().more_bits().fetch_or(bits, Ordering::AcqRel);
    }

    /// Clears some of them.
    pub fn clear_more_bits(&self, bits: u64) {
        self.block().more_bits().fetch_and(!bits, Ordering::AcqRel);
    }

    /// Notes the kernel socket that stands behind its descriptors.
    pub fn set_inode(&self, inode: u64) {
        self.block().inode.store(inode, Ordering::Release);
    }

    /// Notes that a send with MSG_ZEROCOPY is done with its bytes, of which some were `copied`
    /// or none; if the program has asked for that (SO_ZEROCOPY).
    pub fn add_notice(&self, copied: bool) {
        if self.more_bits() & more_bits::ZERO_COPY != 0 {
            self.block().add_notice(copied);
            self.wake_local();
        }
    }

    /// Takes the notice of such sends.
    pub fn take_notice(&self) -> Option<Notice> {
        self.block().take_notice()
    }

    /// Another has taken its place: calls that are under way on it end with ECONNRESET, and with
    /// its last use it is reset.
    pub fn abandon(&self) {
        self.set_more_bits(more_bits::IS_REPLACED);
        self.set_inode(0);
        self.options().set_linger(Some(0));
        self.pending_error().set(Errno::CONNRESET.raw_os_error());
        self.block()
            .set_flags(BlockFlags::SHUT_RD | BlockFlags::SHUT_WR);
        self.wake_local();
    }

    /// Whether a process has put another in its place, which is to be found by the kernel's socket
    /// behind both.
    #[inline]
    pub fn is_replaced(&self) -> bool {
        self.more_bits() & more_bits::IS_REPLACED != 0
    }

    /// Takes `old`'s places in the ready sets of this process.
    ///
    /// # Errors
    /// [`SocketError::Reentered`].
    pub fn take_places_of(&self, old: &Self) -> Result<(), SocketError> {
        self.host.held_sockets.set_watched(self.id.index);
        let mut ready_sets = self.host.ready_sets.enter()?;
        ready_sets.replace(&self.host.session, old.id.index, self.id);
        Ok(())
    }

    /// Whether it has been a listener, and is none any more.
    pub fn has_listened(&self) -> bool {
        self.more_bits() & more_bits::HAS_LISTENED != 0
    }

    /// Whether it has tried to connect in vain, or was a listener, and is neither bound nor used
    /// for Linux, but for what its program has bound it to.
    pub fn is_spent(&self) -> bool {
        self.state() == SocketState::Open && self.more_bits() & more_bits::IS_SPENT != 0
    }

    /// Whether other processes may have it, too.
    pub fn is_shared(&self) -> bool {
        self.host.held_sockets.having(self.id) == Having::Shared
    }

    /// Wakes those of this process that wait for the socket, and tells the
    /// ready sets: something changed that the engine had no part in.
    pub(crate) fn wake_local(&self) {
        Waiter::fence();
        if let Ok(mut ready_sets) = self.host.ready_sets.enter() {
            ready_sets.moved_by_us(&self.host.session, self.id.index);
        }
        for index in self.block().waiters() {
            if let Some(waiter) = self.host.session.waiters().get(index)
                && waiter.is_declared()
            {
                self.host.threads().wake_sleeper(index, waiter);
            }
        }
    }

    /// Waits until `attempt` succeeds or fails with anything but
    /// [`SocketError::WouldBlock`].
    ///
    /// # Errors
    /// That error; [`SocketError::TimedOut`], [`SocketError::Interrupted`] or
    /// [`SocketError::Restarts`] by its limit.
    pub fn wait<T>(
        &self,
        also: Also<'_>,
        wait_limit: WaitLimit,
        mut attempt: impl FnMut() -> Result<T, SocketError>,
    ) -> Result<T, SocketError> {
        self.wait_by_looks(also, wait_limit, |_| attempt())
    }

    /// As `wait`, for an attempt that is told whether the thread was woken for it: the adapter
    /// does that when it has a reason.
    ///
    /// # Errors
    /// As [`Socket::wait`].
    pub fn wait_by_looks<T>(
        &self,
        also: Also<'_>,
        wait_limit: WaitLimit,
        mut attempt: impl FnMut(Look) -> Result<T, SocketError>,
    ) -> Result<T, SocketError> {
        let index = Some(self.id.index);
        self.host
            .threads()
            .wait_for(index, also, wait_limit, |look| {
                or_not_yet(|| attempt(look))()
            })
    }

    /// Sends a request for this socket, of this tag and waiter, and waits for its answer. Signals do
    /// not end the wait: the engine answers at once.
    pub(crate) fn call(
        &self,
        request: impl FnOnce(SocketId, u32, Option<u16>) -> Request,
    ) -> Result<Answer, SocketError> {
        let request = |tag, waiter| request(self.id, tag, waiter);
        self.host.messages().call(request)
    }

    /// Looks for a short while whether `attempt` succeeds, giving way to others in
    /// between, but does not sleep.
    ///
    /// # Errors
    /// Its own, but for [`SocketError::WouldBlock`], which is `None`.
    pub fn look_awhile<T>(
        &self,
        attempt: impl FnMut() -> Result<T, SocketError>,
    ) -> Result<Option<T>, SocketError> {
        self.host.threads().look_awhile(or_not_yet(attempt))
    }

    /// As `look_awhile`, for a caller that has just looked and found that `attempt` would block.
    ///
    /// # Errors
    /// As [`Socket::look_awhile`].
    pub fn look_again<T>(
        &self,
        attempt: impl FnMut() -> Result<T, SocketError>,
    ) -> Result<Option<T>, SocketError> {
        self.host.threads().look_again(or_not_yet(attempt))
    }
}

/// An attempt that would block has found nothing yet.
fn or_not_yet<T>(
    mut attempt: impl FnMut() -> Result<T, SocketError>,
) -> impl FnMut() -> Result<Option<T>, SocketError> {
    move || match attempt() {
        Ok(value) => Ok(Some(value)),
        Err(SocketError::WouldBlock) => Ok(None),
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests;
