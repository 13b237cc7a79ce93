//! What all sockets have: addresses, binding, shutting down, waiting.

use crate::block_words::{host_bits, more_bits};
use crate::errors::SocketError;
use crate::holds::Socket;
use crate::reported_edges::Having;
use crate::wait::{Also, Look};
use crate::wait_limit::WaitLimit;
use longshore_hostif::{Address, BlockFlags, EdgeFlags, Notice, Request, SocketState};
use longshore_ring::Waiter;
use rustix::io::Errno;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::Ordering;

/// Which half of a connection is shut down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Half {
    /// The receiving half.
    Read,
    /// The sending half.
    Write,
    /// Both.
    Both,
}

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

    /// Its local address, if it has one.
    pub fn local(&self) -> Option<SocketAddr> {
        self.block().local().get()
    }

    /// Its peer, if it has one.
    ///
    /// # Errors
    /// ENOTCONN without one.
    pub fn peer(&self) -> Result<SocketAddr, SocketError> {
        self.await_reset();
        self.host.catch_up();
        let block = self.block();
        let connected = match block.state() {
            SocketState::Connected | SocketState::Closing => true,
            SocketState::Open => self.is_datagram(),
            _ => false,
        };
        let connected = connected && !self.is_over_within();
        let peer = block.peer().get().filter(|_| connected);
        peer.ok_or(SocketError::Refused(Errno::NOTCONN))
    }

    /// Takes the pending error (SO_ERROR): an errno, 0 if there is none.
    pub fn take_error(&self) -> u32 {
        self.await_reset();
        self.connector().catch_up_untold();
        if self.host.is_gone() && self.block().state() != SocketState::Dead {
            return Errno::NETDOWN.raw_os_error() as u32;
        }
        let errno = self.block().take_errno();
        if errno != 0 {
            self.clear_more_bits(more_bits::IS_TAKEN);
        }
        // A program that has cancelled an attempt may make another, with whatever call that was told.
        if errno == Errno::CANCELED.raw_os_error() as u32 {
            let _ = self.connector().told_of_failure(errno);
        }
        errno
    }

    /// The pending error goes before anything else, and is taken.
    pub(crate) fn report_pending(&self) -> Result<(), SocketError> {
        let block = self.block();
        if block.errno.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        match block.take_errno() {
            0 => Ok(()),
            errno => {
                self.clear_more_bits(more_bits::IS_TAKEN);
                Err(SocketError::failed(errno))
            }
        }
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

    /// Gives it a pending error, an errno.
    pub fn set_error(&self, errno: i32) {
        self.block()
            .errno
            .store(errno.unsigned_abs(), Ordering::Release);
    }

    /// A call that has done a part of its work says so, and not what kept it from the rest: the
    /// pending error, if it has taken that, is the next call's.
    pub fn leave_error(&self, error: SocketError) {
        if let SocketError::Failed(errno) = error {
            let errno = errno.raw_os_error().unsigned_abs();
            let place = &self.block().errno;
            // One that has come since stays.
            let _ = place.compare_exchange(0, errno, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// Another has taken its place: calls that are under way on it end with ECONNRESET, and with
    /// its last use it is reset.
    pub fn abandon(&self) {
        self.set_more_bits(more_bits::IS_REPLACED);
        self.set_inode(0);
        self.set_linger(Some(0));
        self.set_error(Errno::CONNRESET.raw_os_error());
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
        self.host.set_watched(self.id.index);
        let mut ready_sets = self.host.ready_sets.enter()?;
        ready_sets.replace(&self.host.session, old.id.index, self.id);
        Ok(())
    }

    /// Binds it; port 0 asks for one. Returns the address it has now.
    ///
    /// # Errors
    /// The engine's reason (EADDRINUSE, EADDRNOTAVAIL, EINVAL if it is bound).
    pub fn bind(&self, local: SocketAddr) -> Result<SocketAddr, SocketError> {
        let socket = self.id;
        let mut flags = BlockFlags::BOUND;
        flags.set(BlockFlags::PORT_GIVEN, local.port() != 0);
        flags.set(BlockFlags::ADDRESS_GIVEN, !local.ip().is_unspecified());
        let local = Address::from(local);
        let answer = self.host.call(|tag, waiter| Request::Bind {
            socket,
            tag,
            waiter,
            local,
        })?;
        let block = self.block();
        block.set_local(answer.address);
        // What was kept of the socket in whose place it is.
        block.clear_flags(BlockFlags::ADDRESS_GIVEN | BlockFlags::PORT_GIVEN);
        block.set_flags(flags);
        answer.address.get().ok_or(SocketError::Broken)
    }

    /// Shows an address as that of a socket which is not bound any more: as Linux has it, the
    /// port is still to be seen.
    pub fn show_local(&self, was: SocketAddr) {
        let ip = match was.ip() {
            ip if self.block().flags().contains(BlockFlags::ADDRESS_GIVEN) => ip,
            _ if self.is_v6() => Ipv6Addr::UNSPECIFIED.into(),
            _ => Ipv4Addr::UNSPECIFIED.into(),
        };
        let shown = SocketAddr::new(ip, was.port());
        self.block().set_local(Address::from(shown));
    }

    /// The address that its program has bound it to, or the socket in whose place it is.
    pub fn given_address(&self) -> Option<IpAddr> {
        let is_given = self.block().flags().contains(BlockFlags::ADDRESS_GIVEN);
        self.local().filter(|_| is_given).map(|local| local.ip())
    }

    /// It is in the place of `old`, and reaches others from the address that the program has bound
    /// that to, though it is not bound.
    pub fn keep_address_of(&self, old: &Self) {
        if let Some(ip) = old.given_address() {
            self.block().set_flags(BlockFlags::ADDRESS_GIVEN);
            self.block().set_local(SocketAddr::new(ip, 0).into());
        }
    }

    /// Whether it is a connection that both sides have ended, all of which has arrived.
    pub fn is_ended_by_both(&self) -> bool {
        let both = BlockFlags::SHUT_WR | BlockFlags::PEER_FIN;
        self.block().flags().contains(both) && self.send_stream().unacked_bytes() == 0
    }

    /// Whether the peer has ended its half of the connection.
    pub fn has_peer_ended(&self) -> bool {
        self.block().flags().contains(BlockFlags::PEER_FIN)
    }

    /// Which halves were shut down: the receiving one, the sending one.
    pub fn shut_halves(&self) -> (bool, bool) {
        let flags = self.block().flags();
        (
            flags.contains(BlockFlags::SHUT_RD),
            flags.contains(BlockFlags::SHUT_WR),
        )
    }

    /// Whether it has a port, that it was bound to or that it was given.
    pub fn is_bound(&self) -> bool {
        let flags = self.block().flags();
        let is_over = self.is_spent() || (self.state() == SocketState::Dead && !self.is_datagram());
        flags.contains(BlockFlags::BOUND) && (!is_over || flags.contains(BlockFlags::PORT_GIVEN))
    }

    /// Whether it has been a listener, and is none any more.
    pub fn has_listened(&self) -> bool {
        self.more_bits() & more_bits::HAS_LISTENED != 0
    }

    /// What the program has bound it to, if that was a port by number: what outlives a
    /// connection.
    pub fn bound_port(&self) -> Option<SocketAddr> {
        let (flags, local) = (self.block().flags(), self.local()?);
        if !flags.contains(BlockFlags::PORT_GIVEN) {
            return None;
        }
        let ip = match local.ip() {
            ip if flags.contains(BlockFlags::ADDRESS_GIVEN) => ip,
            _ if self.is_v6() => Ipv6Addr::UNSPECIFIED.into(),
            _ => Ipv4Addr::UNSPECIFIED.into(),
        };
        Some(SocketAddr::new(ip, local.port()))
    }

    /// Whether it has tried to connect in vain, or was a listener, and is neither bound nor used
    /// for Linux, but for what its program has bound it to.
    pub fn is_spent(&self) -> bool {
        self.state() == SocketState::Open && self.more_bits() & more_bits::IS_SPENT != 0
    }

    /// Whether other processes may have it, too.
    pub fn is_shared(&self) -> bool {
        self.host.having(self.id) == Having::Shared
    }

    /// Shuts a half down, or both.
    ///
    /// # Errors
    /// ENOTCONN if it is not connected.
    pub fn shutdown(&self, half: Half) -> Result<(), SocketError> {
        self.await_reset();
        self.host.catch_up();
        let block = self.block();
        match block.state() {
            _ if self.is_over_within() => return Err(SocketError::Refused(Errno::NOTCONN)),
            SocketState::Listening => return self.accept_queue().stop(half),
            SocketState::Connecting => {
                self.host.drain_if_free();
                if self.connector().give_up(Errno::CONNRESET)? {
                    return Ok(());
                }
            }
            SocketState::Connected | SocketState::Closing | SocketState::Early => {
                // As Linux has it, it counts as told that it was made.
                self.set_host_bits(host_bits::CONNECT_TOLD);
            }
            SocketState::Open if self.is_datagram() && block.peer().get().is_some() => {}
            SocketState::Open if self.is_datagram() => {
                // As Linux has it, it is shut down and who waits for it wakes, though the call
                // fails.
                self.shut(half, EdgeFlags::PUSH)?;
                return Err(SocketError::Refused(Errno::NOTCONN));
            }
            SocketState::Open => {
                self.note_shut(half != Half::Write, half != Half::Read);
                self.wake_local();
                return Err(SocketError::Refused(Errno::NOTCONN));
            }
            _ => return Err(SocketError::Refused(Errno::NOTCONN)),
        }
        self.shut(half, EdgeFlags::PUSH)
    }

    /// Notes that halves of a socket without a connection were shut down, of which the engine
    /// has nothing to know. That lasts until it listens, or an attempt to connect has failed.
    pub fn note_shut(&self, read: bool, write: bool) {
        let mut mark = BlockFlags::empty();
        mark.set(BlockFlags::SHUT_RD, read);
        mark.set(BlockFlags::SHUT_WR, write);
        if !mark.is_empty() {
            self.block().set_flags(mark);
        }
    }

    /// A stream that was shut down without a connection is so no more.
    pub fn forget_shut(&self) {
        let both = BlockFlags::SHUT_RD | BlockFlags::SHUT_WR;
        self.block().clear_flags(both);
        self.wake_local();
    }

    /// Shuts the sending half down to wait until the peer has acknowledged the end of it
    /// ([`Socket::is_end_acked`]).
    ///
    /// # Errors
    /// As [`Socket::shutdown`].
    pub fn shutdown_to_linger(&self) -> Result<(), SocketError> {
        match self.block().state() {
            SocketState::Connected | SocketState::Closing => {
                self.shut(Half::Write, EdgeFlags::PUSH | EdgeFlags::LINGERS)
            }
            _ => Err(SocketError::Refused(Errno::NOTCONN)),
        }
    }

    /// Whether the peer has acknowledged the end of the sending half, for who has shut it
    /// down to linger; or never will.
    pub fn is_end_acked(&self) -> bool {
        let block = self.block();
        block.flags().contains(BlockFlags::FIN_ACKED) || block.state() != SocketState::Connected
    }

    fn shut(&self, half: Half, mut flags: EdgeFlags) -> Result<(), SocketError> {
        let block = self.block();
        let mut mark = BlockFlags::empty();
        if half != Half::Write {
            mark |= BlockFlags::SHUT_RD;
            flags |= EdgeFlags::SHUT_RD;
        }
        if half != Half::Read {
            mark |= BlockFlags::SHUT_WR;
            flags |= EdgeFlags::SHUT_WR;
        }
        if mark.contains(BlockFlags::SHUT_WR) {
            // Behind whoever is writing.
            let _lock = block.snd.lock_to_send()?;
            block.set_flags(mark);
        } else {
            block.set_flags(mark);
        }
        let request = self.host.edges(block, self.id, flags);
        self.host.tell_written(&request, 0)?;
        self.note_done();
        self.wake_local();
        Ok(())
    }

    /// Wakes those of this process that wait for the socket, and tells the
    /// ready sets: something changed that the engine had no part in.
    pub(crate) fn wake_local(&self) {
        Waiter::fence();
        if let Ok(mut ready_sets) = self.host.ready_sets.enter() {
            ready_sets.moved_by_us(&self.host.session, self.id.index);
        }
        for index in self.block().waiters() {
            if let Some(waiter) = self.host.session.get_waiter(index)
                && waiter.is_declared()
            {
                self.host.wake_sleeper(index, waiter);
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
        self.host.wait_for(index, also, wait_limit, |look| {
            or_not_yet(|| attempt(look))()
        })
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
        self.host.look_awhile(or_not_yet(attempt))
    }

    /// As `look_awhile`, for who has just looked and found that `attempt` would block.
    ///
    /// # Errors
    /// As [`Socket::look_awhile`].
    pub fn look_again<T>(
        &self,
        attempt: impl FnMut() -> Result<T, SocketError>,
    ) -> Result<Option<T>, SocketError> {
        self.host.look_again(or_not_yet(attempt))
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
