//! Listening, and accepting what the engine has put on the listener's stream.

use crate::block_words::{advance, host_bits, more_bits};
use crate::errors::SocketError;
use crate::halves::Half;
use crate::holds::Socket;
use crate::turn::Wake;
use longshore_hostif::{ACCEPT_RECORD, AcceptRecord, BlockFlags, EdgeFlags, Request, SocketState};
use longshore_ring::Waiter;
use rustix::io::Errno;
use std::sync::atomic::Ordering;

/// The connections that wait at a listener, from when it begins to listen until it stops.
#[derive(Debug, Clone, Copy)]
pub struct AcceptQueue<'a> {
    socket: &'a Socket,
}

impl<'a> AcceptQueue<'a> {
    pub(crate) fn of(socket: &'a Socket) -> Self {
        Self { socket }
    }

    /// Makes it a listener, or changes how many connections may wait.
    ///
    /// # Errors
    /// The engine's reason (EADDRINUSE, EINVAL).
    pub fn listen(self, backlog: u32) -> Result<(), SocketError> {
        let block = self.socket.block();
        match block.state() {
            _ if self.socket.is_datagram() => return Err(SocketError::Refused(Errno::OPNOTSUPP)),
            SocketState::Open | SocketState::Listening => {}
            _ => return Err(SocketError::Refused(Errno::INVAL)),
        }
        let answer = self.socket.call(|socket, tag, waiter| Request::Listen {
            socket,
            tag,
            waiter,
            backlog,
        })?;
        if answer.address.get().is_some() {
            block.set_local(answer.address);
        }
        if block.state() == SocketState::Open {
            // What was shut down before it listened means nothing to a listener.
            block.clear_flags(BlockFlags::SHUT_RD | BlockFlags::SHUT_WR);
        }
        block.change_state(SocketState::Open, SocketState::Listening);
        Ok(())
    }

    /// Shuts a listener down: what waits for it is reset, and what comes is refused, until
    /// it is told to listen again. Of its two halves, only the receiving one means
    /// anything.
    pub(crate) fn stop(self, half: Half) -> Result<(), SocketError> {
        if half == Half::Write {
            return Ok(());
        }
        let block = self.socket.block();
        let accepted;
        {
            let _lock = block.rcv.lock.lock()?;
            // By whatever process.
            accepted = self
                .socket
                .host
                .edges(block, self.socket.id, EdgeFlags::empty());
            if !block.change_state(SocketState::Listening, SocketState::Open) {
                return Err(SocketError::Refused(Errno::NOTCONN));
            }
            self.socket
                .set_more_bits(more_bits::IS_SPENT | more_bits::HAS_LISTENED);
            // Records that are still on their way name connections that are gone by the
            // time that they are looked at.
            let reached = block.rcv.edge.load(Ordering::Acquire);
            advance(&block.rcv.done, reached);
        }
        let shut = self
            .socket
            .host
            .edges(block, self.socket.id, EdgeFlags::SHUT_RD);
        self.socket
            .host
            .messages()
            .report_all([accepted, shut].into_iter(), Wake::Now)?;
        // Those that wait are reset.
        self.socket.host.under_way().await_stopped();
        self.socket.wake_local();
        Ok(())
    }

    /// Whether a connection waits.
    pub fn has_connection(self) -> bool {
        self.socket.block().rcv.held() >= ACCEPT_RECORD as u64
    }

    /// Accepts the next connection. `prepare` is called before it is taken off the queue, if
    /// one waits, and leaves it there by failing. It may make system calls: the listener is
    /// not locked meanwhile, and so somebody else may have taken the connection after it.
    ///
    /// # Errors
    /// [`SocketError::WouldBlock`] if none waits, EINVAL if the socket does not
    /// listen, what `prepare` says.
    pub fn accept_with<T>(
        self,
        prepare: impl FnOnce() -> Result<T, SocketError>,
    ) -> Result<(Socket, AcceptRecord, T), SocketError> {
        let block = self.socket.block();
        if self.socket.is_datagram() {
            return Err(SocketError::Refused(Errno::OPNOTSUPP));
        }
        if block.state() != SocketState::Listening || block.flags().contains(BlockFlags::SHUT_RD) {
            return Err(SocketError::Refused(Errno::INVAL));
        }
        if !self.has_connection() {
            self.socket.host.messages().catch_up();
        }
        if !self.has_connection() {
            self.socket.host.under_way().wait();
        }
        if !self.has_connection() {
            return Err(self.no_connection());
        }
        let prepared = prepare()?;
        let (accepted, record) = self.take_connection()?;
        if block.flags().contains(BlockFlags::HAS_ENTERING) {
            let _ = self.socket.host.messages().wake_engine();
        }
        let accepted = accepted.ok_or(SocketError::Refused(Errno::CONNABORTED))?;
        accepted.set_host_bits(host_bits::CONNECT_REPORTED);
        self.hand_on_limits(&accepted);
        Ok((accepted, record, prepared))
    }

    fn no_connection(self) -> SocketError {
        if self.socket.host.is_gone() {
            SocketError::EngineGone
        } else {
            SocketError::WouldBlock
        }
    }

    /// Takes a connection off the queue: `None` in its place if it was reset in that moment.
    /// No system call is made under the lock: a process that is stopped in one would keep
    /// all others from accepting.
    fn take_connection(self) -> Result<(Option<Socket>, AcceptRecord), SocketError> {
        let (block, host) = (self.socket.block(), self.socket.host);
        let _lock = block.rcv.lock.lock()?;
        loop {
            if !self.has_connection() {
                return Err(self.no_connection());
            }
            let at = block.rcv.done.load(Ordering::Relaxed);
            let record = self.record_at(at)?;
            let next = at + ACCEPT_RECORD as u64;
            let of = host.session.get_block(record.socket.index);
            if !of.is_some_and(|of| of.begin_accepted(&record, block)) {
                // It was reset and forgotten before anybody wanted it.
                block.rcv.done.store(next, Ordering::Release);
                continue;
            }
            let ours = record.subscriber.map(u32::from) == Some(host.own_channel());
            let is_known = ours && host.held_sockets.knows_waiting(self.socket.id);
            let accepted = host.sockets().hold_accepted(record.socket, is_known);
            block.rcv.done.store(next, Ordering::Release);
            advance(&block.rcv.reported, next);
            let request = host.edges(block, self.socket.id, EdgeFlags::empty());
            // The engine counts who waits, but need not know it now, unless somebody
            // waits for this. It looks at what is published after it has marked the line.
            let _ = host
                .messages()
                .report_accepted(&request, record.socket, ours);
            Waiter::fence();
            return Ok((accepted, record));
        }
    }

    /// Gives an accepted connection what its listener was set to.
    fn hand_on_limits(self, accepted: &Socket) {
        let (of, block) = (accepted.block(), self.socket.block());
        if block.flags().contains(BlockFlags::ADDRESS_GIVEN) {
            of.set_flags(BlockFlags::ADDRESS_GIVEN);
        }
        if self.socket.options().is_v6_only() {
            accepted.options().note_v6_only(true);
        }
        let timestamping = self.socket.more_bits() & more_bits::TIMESTAMPING;
        if timestamping != 0 {
            accepted.set_more_bits(timestamping);
        }
        for (to, from) in [
            (&of.linger, &block.linger),
            (&of.rcv.limit, &block.rcv.limit),
            (&of.rcv.low_water, &block.rcv.low_water),
            (&of.snd.time_limit, &block.snd.time_limit),
            (&of.rcv.time_limit, &block.rcv.time_limit),
        ] {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    fn record_at(self, at: u64) -> Result<AcceptRecord, SocketError> {
        let mut bytes = [0; ACCEPT_RECORD];
        self.socket.receive_stream().copy_from(at, &mut bytes)?;
        Ok(AcceptRecord::decode(&bytes))
    }
}

#[cfg(test)]
mod tests;
