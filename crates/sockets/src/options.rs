//! Options that the engine or the host library has to know of.

use crate::block_words::{host_bits, more_bits, said_of_written};
use crate::errors::SocketError;
use crate::holds::Socket;
use crate::turn::Wake;
use longshore_hostif::{
    ACCEPT_RECORD, BlockFlags, ErrorReport, MAILBOX_BYTES, MessageRule, OptionName, Query, Request,
    SEND_QUEUE, STREAM_MAX, SendQueue, SocketState,
};
use rustix::io::Errno;
use std::io::IoSliceMut;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Where `tcpi_snd_mss` is in Linux's `struct tcp_info`.
const SND_MSS_AT: usize = 16;
/// And `tcpi_pmtu`.
const PMTU_AT: usize = 60;
/// Where a listener's says how many connections wait (tcpi_unacked).
const WAITING_AT: usize = 24;
/// As much of it as has all of these.
const INFO_BYTES: usize = 64;

impl Socket {
    /// Sets an option, in the engine's units.
    ///
    /// # Errors
    /// [`SocketError::EngineGone`], [`SocketError::Broken`].
    pub fn set_option(&self, name: OptionName, value: u64) -> Result<(), SocketError> {
        self.note_option(name, value);
        let socket = self.id;
        // What these hold back goes now.
        let releases = matches!(
            (name, value),
            (OptionName::Cork, 0) | (OptionName::NoDelay, 1..)
        ) && self.block().snd.held() > 0;
        let request = Request::SetOption {
            socket,
            name,
            value,
        };
        if releases {
            self.host.tell_written(&request, 0)
        } else {
            self.host.tell(&request, Wake::Soon)
        }
    }

    /// Has it hold back what is less than a full segment, or no longer (TCP_CORK). The engine
    /// is told of it with what is written.
    ///
    /// # Errors
    /// As [`Socket::set_option`].
    pub fn set_cork(&self, on: bool) -> Result<(), SocketError> {
        let block = self.block();
        if on {
            self.set_host_bits(host_bits::CORK);
        } else {
            self.clear_host_bits(host_bits::CORK);
        }
        if block.state() != SocketState::Connected {
            return self.set_option(OptionName::Cork, u64::from(on));
        }
        // A cork that is put in pushes nothing.
        let flags = said_of_written(block, on);
        let request = self.host.edges(block, self.id, flags);
        self.host.tell_written(&request, 0)
    }

    /// Sets several at once.
    ///
    /// # Errors
    /// As [`Socket::set_option`].
    pub fn set_options(
        &self,
        options: impl Iterator<Item = (OptionName, u64)>,
    ) -> Result<(), SocketError> {
        let socket = self.id;
        let requests = options.map(|(name, value)| {
            self.note_option(name, value);
            Request::SetOption {
                socket,
                name,
                value,
            }
        });
        self.host.tell_all(requests, Wake::Soon)
    }

    /// Keeps what our own side of an accepted connection has from its listener.
    pub fn note_option(&self, name: OptionName, value: u64) {
        let block = self.block();
        let limit = value.min(STREAM_MAX) as u32;
        match name {
            OptionName::SendBuffer => block.snd.limit.store(limit, Ordering::Relaxed),
            OptionName::ReceiveBuffer => block.rcv.limit.store(limit, Ordering::Relaxed),
            OptionName::ReceiveErrors | OptionName::ReceiveErrors6 if value != 0 => {
                self.set_more_bits(more_bits::ASKS_FOR_ERRORS);
            }
            _ => {}
        }
    }

    /// Sets the longest that calls wait which send, or receive: `None` is as long
    /// as it takes. Rounded up to milliseconds, at most 49 days.
    pub fn set_time_limit(&self, sending: bool, limit: Option<Duration>) {
        let word = limit.map_or(0, |l| l.as_micros().div_ceil(1000).max(1));
        let word = u32::try_from(word).unwrap_or(u32::MAX);
        self.block()
            .half(sending)
            .time_limit
            .store(word, Ordering::Relaxed);
    }

    /// The longest that calls wait which send, or receive.
    pub fn time_limit(&self, sending: bool) -> Option<Duration> {
        match self
            .block()
            .half(sending)
            .time_limit
            .load(Ordering::Relaxed)
        {
            0 => None,
            word => Some(Duration::from_millis(u64::from(word))),
        }
    }

    /// Sets what closing does (SO_LINGER): `None` is off.
    pub fn set_linger(&self, seconds: Option<u16>) {
        let word = seconds.map_or(0, |s| u32::from(s) + 1);
        self.block().linger.store(word, Ordering::Relaxed);
    }

    /// What closing does.
    pub fn linger(&self) -> Option<u32> {
        self.block().linger.load(Ordering::Relaxed).checked_sub(1)
    }

    /// Sets how many bytes make it readable (SO_RCVLOWAT). For fewer the adapter wakes nobody
    /// (interface version 14); a call that looks sees them all
    /// the same.
    ///
    /// # Errors
    /// As [`Socket::set_option`].
    pub fn set_low_water(&self, bytes: u32) -> Result<(), SocketError> {
        self.block().rcv.low_water.store(bytes, Ordering::Relaxed);
        self.wake_local();
        if self.is_datagram() || !self.host.session.heeds_low_water() {
            return Ok(());
        }
        self.set_option(OptionName::ReceiveLowWater, bytes.into())
    }

    /// Tells the adapter how the messages of this connection end, from what was read so far on;
    /// `None` for no messages. It wakes nobody for a piece of one then, unless that is half of
    /// the receive buffer, or `within` is over since its first bytes came (rounded up to
    /// milliseconds, 49 days at most; interface version 16, and for ever without it), or the
    /// stream ends, fails or has urgent data; a call that looks sees
    /// all that has come. A program that waits for what does not end so changes the rule first. The
    /// connections that a listener accepts have its rule, from their first byte on. Without effect
    /// before interface version 15, over a link, and between two sockets of one engine that
    /// exchange no packets.
    ///
    /// # Errors
    /// As [`Socket::set_option`].
    pub fn set_messages(
        &self,
        rule: Option<MessageRule>,
        within: Option<Duration>,
    ) -> Result<(), SocketError> {
        let session = &self.host.session;
        // No piece may wait for longer than was said.
        let is_kept = within.is_none() || session.heeds_time_for_messages();
        if self.is_datagram() || !session.heeds_messages() || !is_kept {
            return Ok(());
        }
        let value = rule.map_or(0, |rule| rule.encode());
        let milliseconds = within.map(|within| within.as_micros().div_ceil(1000).max(1));
        let milliseconds = milliseconds.map(|m| u64::from(u32::try_from(m).unwrap_or(u32::MAX)));
        let within = milliseconds.map(|m| (OptionName::ReceiveMessagesWithin, m));
        self.set_options(
            [(OptionName::ReceiveMessages, value)]
                .into_iter()
                .chain(within),
        )
    }

    /// Has the connections of this listener wait for data before it is told of them, for `within`
    /// at most (rounded up to milliseconds, a minute at most); `None` to be told at once. So the
    /// record of a connection crosses with the first data of it. Unlike TCP_DEFER_ACCEPT, which
    /// comes before this, it counts in milliseconds, and has nothing sent again. Without effect
    /// before interface version 17, and over a link.
    ///
    /// # Errors
    /// As [`Socket::set_option`].
    pub fn set_accept_on_data(&self, within: Option<Duration>) -> Result<(), SocketError> {
        if self.is_datagram() || !self.host.session.heeds_accept_on_data() {
            return Ok(());
        }
        let milliseconds = within.map_or(0, |within| within.as_micros().div_ceil(1000).max(1));
        let value = u64::try_from(milliseconds).unwrap_or(u64::MAX);
        self.set_option(OptionName::AcceptOnData, value)
    }

    /// A new stream stands for `old` from now on, and has the port that its program has bound that
    /// to, once it is bound to the same address: also where connections of that one go on, or
    /// another process has it, too. Without effect before interface version 21.
    ///
    /// # Errors
    /// As [`Socket::set_option`].
    pub fn take_port_of(&self, old: &Self) -> Result<(), SocketError> {
        if !self.host.session.can_take_ports() {
            return Ok(());
        }
        self.set_option(OptionName::PortOf, old.id.encode())
    }

    /// Whether the engine has a setting for the groups of IPv6 beside that for those of IPv4
    /// (IPV6_MULTICAST_ALL), or one for both.
    pub fn tells_groups_apart(&self) -> bool {
        self.host.session.tells_groups_apart()
    }

    /// How many bytes make it readable; at least 1.
    pub fn low_water(&self) -> u64 {
        u64::from(self.block().rcv.low_water.load(Ordering::Relaxed)).max(1)
    }

    /// Sets how much may be written and not sent (TCP_NOTSENT_LOWAT); 0 is as much as the
    /// buffer holds.
    pub fn set_not_sent_lowat(&self, bytes: u32) {
        self.block().snd.low_water.store(bytes, Ordering::Release);
        self.wake_local();
    }

    /// The most payload that a segment to the peer has now, in bytes.
    ///
    /// # Errors
    /// The engine's reason.
    pub fn segment_size(&self) -> Result<u32, SocketError> {
        self.number_of_tcp_info::<SND_MSS_AT>()
    }

    /// The largest packet that the path to the peer takes, as far as is known, in bytes.
    ///
    /// # Errors
    /// ENOTCONN if it is a datagram socket without a peer; the engine's reason.
    pub fn path_mtu(&self) -> Result<u32, SocketError> {
        if !self.is_datagram() {
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
    pub fn congestion(&self) -> Result<&'static str, SocketError> {
        let (mailbox, len) = self.ask(Query::Congestion)?;
        let name = mailbox.get(..len).ok_or(SocketError::Broken)?;
        let mut known = longshore_hostif::CONGESTION_NAMES.into_iter();
        known
            .find(|known| known.as_bytes() == name)
            .ok_or(SocketError::Broken)
    }

    /// The number at offset `AT` of Linux's `struct tcp_info`.
    fn number_of_tcp_info<const AT: usize>(&self) -> Result<u32, SocketError> {
        let mut info = [0; INFO_BYTES];
        if self.tcp_info(&mut info)? < info.len() {
            return Err(SocketError::Broken);
        }
        Ok(u32::from_le_bytes(std::array::from_fn(|i| info[AT + i])))
    }

    /// Copies what Linux's `struct tcp_info` would hold to `to`; returns how
    /// many bytes the engine had of it.
    ///
    /// # Errors
    /// The engine's reason.
    pub fn tcp_info(&self, to: &mut [u8]) -> Result<usize, SocketError> {
        let (mailbox, have) = self.ask(Query::TcpInfo)?;
        let len = to.len().min(have);
        to[..len].copy_from_slice(&mailbox[..len]);
        if self.is_listening()
            && let Some(waiting) = to[..len].get_mut(WAITING_AT..WAITING_AT + size_of::<u32>())
        {
            // What was accepted, the engine is told of later.
            let records = self.block().rcv.held() / ACCEPT_RECORD as u64;
            let records = u32::try_from(records).unwrap_or(u32::MAX);
            waiting.copy_from_slice(&records.to_le_bytes());
        }
        Ok(len)
    }

    /// What was written and not acknowledged, as the engine has it now. For a signal
    /// handler that cannot ask: as it was told.
    ///
    /// # Errors
    /// [`SocketError::EngineGone`], [`SocketError::Broken`].
    pub fn send_queue(&self) -> Result<SendQueue, SocketError> {
        let held = self.send_stream().unacked_bytes();
        if held == 0 && !self.block().flags().contains(BlockFlags::SHUT_WR) {
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
        &self,
        parts: &mut [IoSliceMut<'_>],
    ) -> Result<(ErrorReport, usize), SocketError> {
        if self.block().errors.load(Ordering::Acquire) == 0 {
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
    fn ask(&self, query: Query) -> Result<([u8; MAILBOX_BYTES], usize), SocketError> {
        let _alone = self.host.query.enter()?;
        let socket = self.id;
        let answer = self.host.call(|tag, waiter| Request::Query {
            socket,
            tag,
            waiter,
            query,
        })?;
        let have = usize::try_from(answer.value).unwrap_or(usize::MAX);
        Ok((
            self.host.session.read_mailbox(self.rings()),
            have.min(MAILBOX_BYTES),
        ))
    }
}
