//! What a program asks of a socket that the engine alone knows: what does not fit a descriptor
//! comes in the channel's mailbox.

use crate::errors::SocketError;
use crate::holds::Socket;
use longshore_hostif::{
    ACCEPT_RECORD, BlockFlags, ErrorReport, MAILBOX_BYTES, Query, Request, SEND_QUEUE, SendQueue,
};
use rustix::io::Errno;
use std::io::IoSliceMut;
use std::sync::atomic::Ordering;

/// What `tcpi_state`, the first byte of Linux's `struct tcp_info`, says of a connection that both
/// sides have ended: that it waits for late segments, or is forgotten.
const TIME_WAIT: u8 = 6;
const CLOSE: u8 = 7;
/// Where `tcpi_snd_mss` is in Linux's `struct tcp_info`.
const SND_MSS_AT: usize = 16;
/// And `tcpi_pmtu`.
const PMTU_AT: usize = 60;
/// Where a listener's says how many connections wait (tcpi_unacked).
const WAITING_AT: usize = 24;
/// As much of it as has all of these.
const INFO_BYTES: usize = 64;

/// Questions to the engine about a socket.
#[derive(Debug, Clone, Copy)]
pub struct Queries<'a> {
    socket: &'a Socket,
}

impl<'a> Queries<'a> {
    pub(crate) fn of(socket: &'a Socket) -> Self {
        Self { socket }
    }

    /// The most payload that a segment to the peer has now, in bytes.
    ///
    /// # Errors
    /// The engine's reason.
    pub fn segment_size(self) -> Result<u32, SocketError> {
        self.number_of_tcp_info::<SND_MSS_AT>()
    }

    /// The largest packet that the path to the peer takes, as far as is known, in bytes.
    ///
    /// # Errors
    /// ENOTCONN if it is a datagram socket without a peer; the engine's reason.
    pub fn path_mtu(self) -> Result<u32, SocketError> {
        if !self.socket.is_datagram() {
            return self.number_of_tcp_info::<PMTU_AT>();
        }
        match self.ask(Query::PathMtu)? {
            (_, 0) => Err(SocketError::Refused(Errno::NOTCONN)),
            (mailbox, _) => {
                let bytes = mailbox.first_chunk().ok_or(SocketError::Broken)?;
                Ok(u32::from_ne_bytes(*bytes))
            }
        }
    }

    /// The name of its congestion control.
    ///
    /// # Errors
    /// The engine's reason.
    pub fn congestion(self) -> Result<&'static str, SocketError> {
        let (mailbox, len) = self.ask(Query::Congestion)?;
        let name = mailbox.get(..len).ok_or(SocketError::Broken)?;
        let mut known = longshore_hostif::CONGESTION_NAMES.into_iter();
        known
            .find(|known| known.as_bytes() == name)
            .ok_or(SocketError::Broken)
    }

    /// Copies what Linux's `struct tcp_info` would hold to `to`; returns how
    /// many bytes the engine had of it.
    ///
    /// # Errors
    /// The engine's reason.
    pub fn tcp_info(self, to: &mut [u8]) -> Result<usize, SocketError> {
        let (mailbox, have) = self.ask(Query::TcpInfo)?;
        let len = to.len().min(have);
        to[..len].copy_from_slice(&mailbox[..len]);
        if self.socket.is_listening()
            && let Some(waiting) = to[..len].get_mut(WAITING_AT..WAITING_AT + size_of::<u32>())
        {
            // What was accepted, the engine is told of later.
            let records = self.socket.block().rcv.held() / ACCEPT_RECORD as u64;
            let records = u32::try_from(records).unwrap_or(u32::MAX);
            waiting.copy_from_slice(&records.to_le_bytes());
        }
        Ok(len)
    }

    /// Whether the engine has a connection no more, but for what of it may still be on its way, as
    /// the peer has acknowledged the end of it. `false` if the engine does not say.
    pub(crate) fn is_gone(self) -> bool {
        let state = self.ask(Query::TcpInfo).map(|(mailbox, _)| mailbox[0]);
        matches!(state, Ok(TIME_WAIT | CLOSE))
    }

    /// The number at offset `AT` of Linux's `struct tcp_info`.
    fn number_of_tcp_info<const AT: usize>(self) -> Result<u32, SocketError> {
        let mut info = [0; INFO_BYTES];
        if self.tcp_info(&mut info)? < info.len() {
            return Err(SocketError::Broken);
        }
        Ok(u32::from_le_bytes(std::array::from_fn(|i| info[AT + i])))
    }

    /// What was written and not acknowledged, as the engine has it now. For a signal
    /// handler that cannot ask: as it was told.
    ///
    /// # Errors
    /// [`SocketError::EngineGone`], [`SocketError::Broken`].
    pub fn send_queue(self) -> Result<SendQueue, SocketError> {
        let held = self.socket.send_stream().unacked_bytes();
        if held == 0 && !self.socket.block().flags().contains(BlockFlags::SHUT_WR) {
            return Ok(SendQueue::default());
        }
        match self.ask(Query::SendQueue) {
            Ok((mailbox, SEND_QUEUE)) => {
                let bytes = mailbox.first_chunk().ok_or(SocketError::Broken)?;
                Ok(SendQueue::decode(bytes))
            }
            Ok(_) => Err(SocketError::Broken),
            Err(SocketError::Reentered) => Ok(SendQueue {
                unacked: held as u64,
                unsent: 0,
            }),
            Err(e) => Err(e),
        }
    }

    /// Takes the oldest report of an ICMP error (IP_RECVERR); what it quotes is copied to
    /// `parts` as far as it fits. The second number is how long that is.
    ///
    /// # Errors
    /// [`SocketError::WouldBlock`] if there is none; the engine's reason.
    pub fn take_error_report(
        self,
        parts: &mut [IoSliceMut<'_>],
    ) -> Result<(ErrorReport, usize), SocketError> {
        if self.socket.block().errors.load(Ordering::Acquire) == 0 {
            return Err(SocketError::WouldBlock);
        }
        let (mailbox, have) = self.ask(Query::Error)?;
        if have == 0 {
            // Somebody else was faster.
            return Err(SocketError::WouldBlock);
        }
        let report = ErrorReport::decode(&mailbox[..have]);
        let (report, quoted) = report.ok_or(SocketError::Broken)?;
        let mut rest = quoted;
        for part in parts {
            let (now, later) = rest.split_at(part.len().min(rest.len()));
            part[..now.len()].copy_from_slice(now);
            rest = later;
        }
        Ok((report, quoted.len()))
    }

    /// Asks the engine what does not fit a descriptor: the mailbox, and how much of it
    /// is the answer.
    fn ask(self, query: Query) -> Result<([u8; MAILBOX_BYTES], usize), SocketError> {
        let _alone = self.socket.host.query.enter()?;
        let answer = self.socket.call(|socket, tag, waiter| Request::Query {
            socket,
            tag,
            waiter,
            query,
        })?;
        let have = usize::try_from(answer.value).unwrap_or(usize::MAX);
        Ok((
            self.socket.host.session.read_mailbox(self.socket.rings()),
            have.min(MAILBOX_BYTES),
        ))
    }
}

#[cfg(test)]
mod tests;
