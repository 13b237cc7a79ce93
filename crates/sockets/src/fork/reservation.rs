//! A channel of the session that a process has reserved for a child, with a copy of what it holds.
//!
//! Owns [`Reservation`]. `fork` takes one before each fork; the shim's `posix_spawn`, and what
//! makes a child without the handlers of `fork`, take one by [`Host::reserve_channel`].

use crate::host::Host;
use longshore_hostif::{ChannelControl, ChannelState, REGISTERED, SocketId};
use longshore_ring::is_confined;
use std::sync::atomic::Ordering;

/// What a parent has reserved for a child. Not given back when it is dropped: in the child it is
/// the parent's.
#[derive(Debug, Clone, Copy)]
pub struct Reservation {
    host: &'static Host,
    channel: u32,
    /// Which of the channel's reservations it is.
    number: u32,
}

impl Reservation {
    /// Reserves a channel with a copy of what the process of `host` holds, if one is free.
    pub(super) fn take(host: &'static Host) -> Option<Self> {
        let own = host.own_channel();
        let arena = &host.arena;
        let channel =
            (0..arena.geometry().channels).find(|channel| arena.control(*channel).reserve())?;
        let control = arena.control(channel);
        let number = control.reservations.load(Ordering::Acquire);
        arena.header().reservations.fetch_add(1, Ordering::AcqRel);
        control.pid.store(host.identity.pid(), Ordering::Release);
        arena.reset_channel(channel);
        for (to, from) in arena.held(channel).iter().zip(arena.held(own)) {
            to.store(from.load(Ordering::Acquire), Ordering::Release);
        }
        Some(Self {
            host,
            channel,
            number,
        })
    }

    /// The channel.
    #[must_use]
    pub fn channel(self) -> u32 {
        self.channel
    }

    fn control(self) -> &'static ChannelControl {
        self.host.arena.control(self.channel)
    }

    /// Takes a socket out: the child will not inherit it.
    pub fn leave_out(self, socket: SocketId) {
        self.host.arena.set_held(self.channel, socket.index, false);
    }

    /// Says which child that is, so that the engine finds out if it dies before it has
    /// taken the channel.
    pub fn is_for(self, child: u32) {
        if !self.host.identity.has_other_pids() {
            self.control().name_child(self.number, child);
        }
    }

    /// Gives it back where no child took it, if it is still this process's.
    pub fn release(self) {
        let control = self.control();
        let ours = control.state() == ChannelState::Reserved
            && control.pid.load(Ordering::Acquire) == self.host.identity.pid();
        if !ours {
            return;
        }
        for word in self.host.arena.held(self.channel) {
            word.store(0, Ordering::Release);
        }
        control.change_state(ChannelState::Reserved, ChannelState::Free);
    }

    /// Claims it for a child that libc made without our knowing: that holds what is in it until
    /// the child's own shim takes over, or it ends.
    pub fn give_to(self, child: u32) {
        if self.host.identity.has_other_pids() {
            // The engine could not know it by this pid. It keeps the reservation for a
            // while, in which the child joins by itself.
            return;
        }
        let control = self.control();
        // The engine may have given it to another process, whose pid is to stay.
        let ours = self.host.identity.pid();
        let named = control
            .pid
            .compare_exchange(ours, child, Ordering::AcqRel, Ordering::Relaxed);
        if named.is_ok() && control.change_state(ChannelState::Reserved, ChannelState::Claimed) {
            self.host.session.channel(self.channel).flag();
            self.host.ring_engine();
        }
    }

    /// In the child, whose pid is `pid`, and which is about to claim the channel: what stands for
    /// it there. That is its pid, if that is the same for the engine. If not, the engine finds out
    /// which process it is by a connection that it makes.
    pub(super) fn name_of_child(self, pid: u32) -> u32 {
        if !self.host.identity.has_other_pids() || is_confined() {
            return pid;
        }
        match self.host.connection.claim(self.channel) {
            Ok(()) => REGISTERED | self.channel,
            Err(_) => pid,
        }
    }
}
