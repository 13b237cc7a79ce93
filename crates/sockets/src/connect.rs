//! Making connections.

use crate::block_words::{host_bits, more_bits};
use crate::cancel::CancelOutcome;
use crate::errors::SocketError;
use crate::holds::Socket;
use crate::host::Answer;
use crate::turn::Wake;
use crate::wait_limit::WaitLimit;
use longshore_hostif::{Address, BlockFlags, EdgeFlags, Request, SocketState};
use rustix::io::Errno;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;

/// A socket's way to a peer: an attempt to connect from its beginning to what the program is told
/// of it, and the peer of a datagram socket.
#[derive(Debug, Clone, Copy)]
pub struct Connector<'a> {
    socket: &'a Socket,
}

impl<'a> Connector<'a> {
    pub(crate) fn of(socket: &'a Socket) -> Self {
        Self { socket }
    }

    /// Begins to connect; the connection is there when the socket becomes
    /// ready for writing. On a datagram socket it sets the peer, and is done.
    ///
    /// # Errors
    /// [`SocketError::InProgress`] if it is on its way now; EALREADY and EISCONN
    /// if it was before; the engine's reason if it cannot be.
    pub fn start(self, peer: SocketAddr) -> Result<(), SocketError> {
        self.start_if(peer, || Ok(()))
    }

    /// As `start_connect`, unless `may_ask` fails, which is called just before the engine is asked:
    /// nothing else is asked of it in between.
    pub(crate) fn start_if(
        self,
        peer: SocketAddr,
        may_ask: impl FnOnce() -> Result<(), SocketError>,
    ) -> Result<(), SocketError> {
        let block = self.socket.block();
        self.catch_up_unreported();
        if self.socket.is_datagram() {
            return self.connect_datagram(Address::from(peer), may_ask);
        }
        if let Some(said) = self.already() {
            return said;
        }
        if !block.change_state(SocketState::Open, SocketState::Connecting) {
            return Err(SocketError::Refused(Errno::ALREADY));
        }
        let peer = Address::from(peer);
        block.set_peer(peer);
        match self.ask(peer, may_ask) {
            Ok(answer) => {
                block.set_local(answer.address);
                block.set_flags(BlockFlags::BOUND);
                if answer.value == 0 {
                    return Err(SocketError::InProgress);
                }
                let room = u32::try_from(answer.value).unwrap_or(u32::MAX);
                block.syn_room_or_size_goal.store(room, Ordering::Release);
                block.change_state(SocketState::Connecting, SocketState::Early);
                self.note_reported()
            }
            Err(e) => {
                block.set_peer(Address::NONE);
                block.change_state(SocketState::Connecting, SocketState::Open);
                Err(e)
            }
        }
    }

    /// What a call that connects says of a stream which cannot be connected any more, or is already,
    /// wherever to; `None` if it can be.
    pub fn already(self) -> Option<Result<(), SocketError>> {
        let block = self.socket.block();
        let refused = |why| Some(Err(SocketError::Refused(why)));
        match block.state() {
            SocketState::Open => None,
            SocketState::Connecting => refused(Errno::ALREADY),
            SocketState::Connected | SocketState::Early => Some(self.note_reported()),
            // It was connected, and is for Linux until it is disconnected.
            SocketState::Dead if self.socket.host_bits() & host_bits::CONNECT_REPORTED != 0 => {
                refused(Errno::ISCONN)
            }
            SocketState::Dead => Some(Err(match block.take_errno() {
                // The error was taken by SO_ERROR.
                0 => self.report_failure(Errno::CONNABORTED.raw_os_error() as u32),
                errno => self.report_failure(errno),
            })),
            SocketState::Listening => refused(Errno::ISCONN),
            _ => refused(Errno::INVAL),
        }
    }

    /// Catches up with the engine. Of a connection of which no call has told yet, what is on its way
    /// to this socket counts, too, as it would have come on Linux: that its listener is gone.
    pub fn catch_up_unreported(self) {
        self.socket.host.messages().catch_up();
        if self.socket.block().state() == SocketState::Connected
            && self.socket.host_bits() & host_bits::CONNECT_REPORTED == 0
        {
            self.socket.host.under_way().wait();
        }
    }

    /// Asks the engine to connect, unless `may_ask` fails, and waits for what it says.
    fn ask(
        self,
        peer: Address,
        may_ask: impl FnOnce() -> Result<(), SocketError>,
    ) -> Result<Answer, SocketError> {
        let socket = self.socket.id;
        self.socket.host.messages().call_if(|tag, waiter| {
            may_ask()?;
            Ok(Request::Connect {
                socket,
                tag,
                waiter,
                peer,
            })
        })
    }

    /// Ends an attempt to connect, as Linux does when either half is shut down: a thread that waits
    /// for it is told so by `errno`. Says whether there was one.
    pub(crate) fn give_up(self, errno: Errno) -> Result<bool, SocketError> {
        let block = self.socket.block();
        if !block.change_state(SocketState::Connecting, SocketState::Dead) {
            return Ok(false);
        }
        self.socket.pending_error().set(errno.raw_os_error());
        self.end_attempt()?;
        self.socket.wake_local();
        Ok(true)
    }

    /// Ends an attempt to connect, unless the peer has answered it: the adapter decides. A thread that
    /// waits for it is told that it was cancelled, and it may be repeated.
    ///
    /// # Errors
    /// [`SocketError::EngineGone`], [`SocketError::Reentered`].
    pub fn cancel(self) -> Result<CancelOutcome, SocketError> {
        self.socket.host.messages().catch_up();
        if !self.socket.is_connecting() {
            return Ok(CancelOutcome::NotFound);
        }
        if !self.socket.host.session.agreed().can_cancel() {
            let ended = self.give_up(Errno::CANCELED)?;
            return Ok(if ended {
                CancelOutcome::Cancelled
            } else {
                CancelOutcome::NotFound
            });
        }
        let answer = self.socket.call(|socket, tag, waiter| Request::Cancel {
            socket,
            tag,
            waiter,
        });
        match answer {
            Ok(_) => Ok(CancelOutcome::Cancelled),
            Err(SocketError::Refused(Errno::ALREADY)) => Ok(CancelOutcome::UnderWay),
            Err(SocketError::Refused(Errno::NOENT)) => Ok(CancelOutcome::NotFound),
            Err(e) => Err(e),
        }
    }

    /// A call that connects tells that the attempt has failed by `errno`: another may be made from
    /// now on, and until then the socket has no connection, as one that is new.
    pub(crate) fn report_failure(self, errno: u32) -> SocketError {
        let block = self.socket.block();
        if self.was_never_connected() {
            block.set_peer(Address::NONE);
            let ended = BlockFlags::SHUT_RD | BlockFlags::SHUT_WR | BlockFlags::PEER_FIN;
            block.clear_flags(ended);
            self.socket.set_more_bits(more_bits::IS_SPENT);
            // As Linux has it, the port is still to be seen, though it is not bound any more.
            if let Some(local) = self.socket.addresses().local() {
                self.socket.addresses().show_local(local);
            }
            self.leave_address();
            block.change_state(SocketState::Dead, SocketState::Open);
        }
        SocketError::failed(errno)
    }

    /// Of a socket that was bound to a port at all addresses, the engine keeps the address of its way
    /// to the peer until a call that connects has told that the attempt has failed, as Linux does:
    /// tells it so.
    fn leave_address(self) {
        let addresses = self.socket.addresses();
        if addresses.bound_port().is_some() && addresses.given_address().is_none() {
            // With the engine the address is gone, too.
            let _ = self.end_attempt();
        }
    }

    /// Tells the engine that both halves are shut: an attempt to connect is over.
    fn end_attempt(self) -> Result<(), SocketError> {
        let both = EdgeFlags::SHUT_RD | EdgeFlags::SHUT_WR;
        let host = self.socket.host;
        let request = host.edges(self.socket.block(), self.socket.id, both);
        host.messages().report(&request, Wake::Now)
    }

    /// It is new, and in the place of `old`, whose connection is over or whose attempt to connect
    /// has failed: so it is with this one, of which calls say what they would have said of that.
    pub fn is_over_like(self, old: &Socket) {
        let ended = BlockFlags::SHUT_RD | BlockFlags::SHUT_WR | BlockFlags::PEER_FIN;
        let block = self.socket.block();
        block.set_flags(old.block().flags() & ended);
        self.socket
            .set_host_bits(old.host_bits() & host_bits::CONNECT_REPORTED);
        if let Some(local) = old.addresses().local() {
            // Until it is bound, it shows the address of that.
            block.set_local(local.into());
        }
        block.change_state(SocketState::Open, SocketState::Dead);
    }

    fn was_never_connected(self) -> bool {
        let block = self.socket.block();
        self.socket.host_bits() & host_bits::CONNECT_REPORTED == 0
            && block.snd.edge.load(Ordering::Acquire) == 0
            && block.rcv.edge.load(Ordering::Acquire) == 0
    }

    /// The first call after the connection was made is told so; the others that
    /// it is made already.
    ///
    /// # Errors
    /// EISCONN.
    pub fn note_reported(self) -> Result<(), SocketError> {
        if self.socket.host_bits() & host_bits::CONNECT_REPORTED != 0 {
            return Err(SocketError::Refused(Errno::ISCONN));
        }
        self.socket.set_host_bits(host_bits::CONNECT_REPORTED);
        Ok(())
    }

    /// Connects, and waits until the connection is made or has failed.
    ///
    /// # Errors
    /// As [`Connector::start`], and why the connection was not made
    /// (ECONNREFUSED, ETIMEDOUT, EHOSTUNREACH).
    pub fn connect(self, peer: SocketAddr, wait_limit: WaitLimit) -> Result<(), SocketError> {
        let begun = self.start(peer);
        self.finish(begun, wait_limit)
    }

    /// Waits until what has `begun` is made or has failed.
    pub(crate) fn finish(
        self,
        begun: Result<(), SocketError>,
        wait_limit: WaitLimit,
    ) -> Result<(), SocketError> {
        let is_under_way = matches!(
            begun,
            Err(SocketError::InProgress | SocketError::Refused(Errno::ALREADY))
        );
        if !is_under_way {
            return begun;
        }
        match self.wait(wait_limit) {
            Ok(()) => {
                self.socket.set_host_bits(host_bits::CONNECT_REPORTED);
                Ok(())
            }
            // As Linux has it: it goes on being made, as this call has begun it or found it.
            Err(SocketError::TimedOut) => begun,
            Err(e) => Err(e),
        }
    }

    /// A thread that writes first waits until the connection is made: what does not fit the
    /// SYN may be written with it, and goes with the acknowledgment of the answer.
    pub fn write_past_syn(self) {
        self.socket
            .block()
            .syn_room_or_size_goal
            .store(u32::MAX, Ordering::Release);
    }

    /// Waits until a connection that is on its way is made or has failed.
    ///
    /// # Errors
    /// Why it was not made; [`SocketError::TimedOut`].
    pub fn wait(self, wait_limit: WaitLimit) -> Result<(), SocketError> {
        let block = self.socket.block();
        self.socket.wait(None, wait_limit, || match block.state() {
            SocketState::Connecting if self.socket.host.is_gone() => Err(SocketError::EngineGone),
            // Another call has taken the attempt back: the descriptor stands for another socket.
            SocketState::Connecting if self.socket.is_replaced() => {
                Err(SocketError::failed(Errno::CONNRESET.raw_os_error() as u32))
            }
            SocketState::Connecting => Err(SocketError::WouldBlock),
            SocketState::Dead => match block.take_errno() {
                // It was made, and closed at once.
                0 => Ok(()),
                errno => Err(self.report_failure(errno)),
            },
            // It has failed, and another call was told why: as on Linux, this one is told that alone.
            SocketState::Open => Err(SocketError::failed(Errno::CONNABORTED.raw_os_error() as u32)),
            _ => {
                self.socket.set_host_bits(host_bits::CONNECT_REPORTED);
                Ok(())
            }
        })
    }

    /// Sets a datagram socket's peer; [`Address::NONE`] takes it away.
    pub(crate) fn connect_datagram(
        self,
        peer: Address,
        may_ask: impl FnOnce() -> Result<(), SocketError>,
    ) -> Result<(), SocketError> {
        let answer = self.ask(peer, may_ask)?;
        let block = self.socket.block();
        block.set_local(answer.address);
        if answer.address.get().is_some_and(|local| local.port() != 0) {
            block.set_flags(BlockFlags::BOUND);
        } else {
            block.clear_flags(BlockFlags::BOUND);
        }
        block.set_peer(peer);
        self.socket.clear_more_bits(more_bits::IS_TAKEN);
        self.socket.datagrams().redirect_begun(peer)
    }

    /// Takes a datagram socket's peer away (connect to AF_UNSPEC), and its port, if that was
    /// not bound to.
    ///
    /// # Errors
    /// The engine's.
    pub fn disconnect(self) -> Result<(), SocketError> {
        self.connect_datagram(Address::NONE, || Ok(()))
    }
}

#[cfg(test)]
mod tests;
