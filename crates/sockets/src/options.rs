//! Options that the engine or the host library has to know of.

use crate::block_words::{flags_of_written, host_bits, more_bits, readable_from};
use crate::errors::SocketError;
use crate::holds::Socket;
use crate::turn::Wake;
use longshore_hostif::{
    BlockFlags, MessageRule, OptionName, Request, SMALL_SEND_BUFFER, STREAM_MAX, SocketState,
};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// What a program has set for a socket, where the engine or the host library has to know of it.
#[derive(Debug, Clone, Copy)]
pub struct SocketOptions<'a> {
    socket: &'a Socket,
}

impl<'a> SocketOptions<'a> {
    pub(crate) fn of(socket: &'a Socket) -> Self {
        Self { socket }
    }

    /// Sets an option, in the engine's units.
    ///
    /// # Errors
    /// [`SocketError::EngineGone`], [`SocketError::Broken`].
    pub fn set(self, name: OptionName, value: u64) -> Result<(), SocketError> {
        self.note(name, value);
        let socket = self.socket.id;
        // What these hold back goes now.
        let releases = matches!(
            (name, value),
            (OptionName::Cork, 0) | (OptionName::NoDelay, 1..)
        ) && self.socket.block().snd.held() > 0;
        let request = Request::SetOption {
            socket,
            name,
            value,
        };
        if releases {
            return self.socket.host.messages().report_written(&request, 0);
        }
        self.socket.host.messages().report(&request, Wake::Soon)?;
        let is_small = self
            .socket
            .block()
            .flags()
            .contains(BlockFlags::COUNTS_MEMORY);
        if name == OptionName::SendBuffer
            && is_small
            && self.socket.state() == SocketState::Connected
        {
            // The next call may fill it: by then the engine has said in which buffers.
            self.socket.queries().segment_size()?;
        }
        Ok(())
    }

    /// Has it hold back what is less than a full segment, or no longer (TCP_CORK). The engine
    /// is told of it with what is written.
    ///
    /// # Errors
    /// As [`SocketOptions::set`].
    pub fn set_cork(self, on: bool) -> Result<(), SocketError> {
        let block = self.socket.block();
        if on {
            self.socket.set_host_bits(host_bits::CORK);
        } else {
            self.socket.clear_host_bits(host_bits::CORK);
        }
        if block.state() != SocketState::Connected {
            return self.set(OptionName::Cork, u64::from(on));
        }
        // A cork holds what is written from now on, which says so itself, and what was not sent.
        if on && block.snd.held() == 0 {
            return Ok(());
        }
        // A cork that is put in pushes nothing.
        let flags = flags_of_written(block, on);
        let request = self.socket.host.edges(block, self.socket.id, flags);
        self.socket.host.messages().report_written(&request, 0)
    }

    /// Sets several at once.
    ///
    /// # Errors
    /// As [`SocketOptions::set`].
    pub fn set_all(
        self,
        options: impl Iterator<Item = (OptionName, u64)>,
    ) -> Result<(), SocketError> {
        let socket = self.socket.id;
        let requests = options.map(|(name, value)| {
            self.note(name, value);
            Request::SetOption {
                socket,
                name,
                value,
            }
        });
        self.socket.host.messages().report_all(requests, Wake::Soon)
    }

    /// Keeps what our own side of an accepted connection has from its listener.
    pub fn note(self, name: OptionName, value: u64) {
        let block = self.socket.block();
        let limit = value.min(STREAM_MAX) as u32;
        match name {
            OptionName::SendBuffer => {
                block.snd.limit.store(limit, Ordering::Relaxed);
                if limit < SMALL_SEND_BUFFER && !self.socket.is_datagram() {
                    block.set_flags(BlockFlags::COUNTS_MEMORY);
                } else {
                    block.clear_flags(BlockFlags::COUNTS_MEMORY);
                }
            }
            OptionName::ReceiveBuffer => block.rcv.limit.store(limit, Ordering::Relaxed),
            OptionName::ReceiveErrors | OptionName::ReceiveErrors6 if value != 0 => {
                self.socket.set_more_bits(more_bits::ASKS_FOR_ERRORS);
            }
            _ => {}
        }
    }

    /// Sets the longest that calls wait which send, or receive: `None` is as long
    /// as it takes. Rounded up to milliseconds, at most 49 days.
    pub fn set_time_limit(self, sending: bool, limit: Option<Duration>) {
        let word = limit.map_or(0, |l| l.as_micros().div_ceil(1000).max(1));
        let word = u32::try_from(word).unwrap_or(u32::MAX);
        self.socket
            .block()
            .time_limit(sending)
            .store(word, Ordering::Relaxed);
    }

    /// The longest that calls wait which send, or receive.
    pub fn time_limit(self, sending: bool) -> Option<Duration> {
        match self
            .socket
            .block()
            .time_limit(sending)
            .load(Ordering::Relaxed)
        {
            0 => None,
            word => Some(Duration::from_millis(u64::from(word))),
        }
    }

    /// Sets what closing does (SO_LINGER): `None` is off.
    pub fn set_linger(self, seconds: Option<u16>) {
        let word = seconds.map_or(0, |s| u32::from(s) + 1);
        self.socket.block().linger.store(word, Ordering::Relaxed);
    }

    /// What closing does.
    pub fn linger(self) -> Option<u32> {
        self.socket
            .block()
            .linger
            .load(Ordering::Relaxed)
            .checked_sub(1)
    }

    /// Sets how many bytes make it readable (SO_RCVLOWAT). For fewer the adapter wakes nobody, and
    /// a receive buffer that is tuned grows to twice as many
    /// (interface version 14; without it, more than half of the buffer is not waited for); a
    /// call that looks sees them all the same.
    ///
    /// # Errors
    /// As [`SocketOptions::set`].
    pub fn set_low_water(self, bytes: u32) -> Result<(), SocketError> {
        let is_told =
            !self.socket.is_datagram() && self.socket.host.session.agreed().supports_low_water();
        let block = self.socket.block();
        let mark = if is_told {
            bytes
        } else {
            bytes.min((block.rcv_limit() / 2) as u32)
        };
        block.rcv.low_water.store(mark, Ordering::Relaxed);
        self.socket.wake_local();
        if !is_told {
            return Ok(());
        }
        self.set(OptionName::ReceiveLowWater, bytes.into())
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
    /// As [`SocketOptions::set`].
    pub fn set_messages(
        self,
        rule: Option<MessageRule>,
        within: Option<Duration>,
    ) -> Result<(), SocketError> {
        let session = &self.socket.host.session;
        // No piece may wait for longer than was said.
        let is_kept = within.is_none() || session.agreed().supports_message_time();
        if self.socket.is_datagram() || !session.agreed().supports_messages() || !is_kept {
            return Ok(());
        }
        let value = rule.map_or(0, |rule| rule.encode());
        let milliseconds = within.map(|within| within.as_micros().div_ceil(1000).max(1));
        let milliseconds = milliseconds.map(|m| u64::from(u32::try_from(m).unwrap_or(u32::MAX)));
        let within = milliseconds.map(|m| (OptionName::ReceiveMessagesWithin, m));
        self.set_all(
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
    /// As [`SocketOptions::set`].
    pub fn set_accept_on_data(self, within: Option<Duration>) -> Result<(), SocketError> {
        if self.socket.is_datagram() || !self.socket.host.session.agreed().supports_accept_on_data()
        {
            return Ok(());
        }
        let milliseconds = within.map_or(0, |within| within.as_micros().div_ceil(1000).max(1));
        let value = u64::try_from(milliseconds).unwrap_or(u64::MAX);
        self.set(OptionName::AcceptOnData, value)
    }

    /// A new stream stands for `old` from now on, and has the port that its program has bound that
    /// to, once it is bound to the same address: also where connections of that one go on, or
    /// another process has it, too. Without effect before interface version 21.
    ///
    /// # Errors
    /// As [`SocketOptions::set`].
    pub fn take_port_of(self, old: &Socket) -> Result<(), SocketError> {
        if !self.socket.host.session.agreed().can_take_ports() {
            return Ok(());
        }
        self.set(OptionName::PortOf, old.id.encode())
    }

    /// Whether the engine has a setting for the groups of IPv6 beside that for those of IPv4
    /// (IPV6_MULTICAST_ALL), or one for both.
    pub fn distinguishes_groups(self) -> bool {
        self.socket.host.session.agreed().distinguishes_groups()
    }

    /// Whether the engine says when what was sent left, and was acknowledged.
    pub fn stamps_sent(self) -> bool {
        self.socket.host.session.agreed().stamps_sent()
    }

    /// Whether its program asks when each datagram came (SOF_TIMESTAMPING_RX_SOFTWARE).
    pub fn stamps_arrivals(self) -> bool {
        let flags = self.socket.block().flags();
        flags.contains(BlockFlags::STAMPS_ARRIVALS)
    }

    /// Notes whether it does; the engine is to be told by [`OptionName::Stamped`].
    pub fn note_stamps_arrivals(self, on: bool) {
        if on {
            self.socket.block().set_flags(BlockFlags::STAMPS_ARRIVALS);
        } else {
            self.socket.block().clear_flags(BlockFlags::STAMPS_ARRIVALS);
        }
    }

    /// Has errors of a datagram socket told as urgent data is, too (SO_SELECT_ERR_QUEUE).
    pub fn set_errors_urgent(self, on: bool) {
        if on {
            self.socket.block().set_flags(BlockFlags::ERRORS_ARE_URGENT);
        } else {
            self.socket
                .block()
                .clear_flags(BlockFlags::ERRORS_ARE_URGENT);
        }
    }

    /// Whether it is a socket of IPv6 that is not to reach any address of IPv4 (IPV6_V6ONLY).
    pub fn is_v6_only(self) -> bool {
        self.socket.more_bits() & more_bits::V6_ONLY != 0
    }

    /// Has it be a socket of IPv6 alone, or of both versions.
    ///
    /// # Errors
    /// As [`SocketOptions::set`].
    pub fn set_v6_only(self, on: bool) -> Result<(), SocketError> {
        self.note_v6_only(on);
        self.set(OptionName::V6Only, u64::from(on))
    }

    /// As `set_v6_only`, of one for which the engine has it by its address, or from its listener.
    pub fn note_v6_only(self, on: bool) {
        if on {
            self.socket.set_more_bits(more_bits::V6_ONLY);
        } else {
            self.socket.clear_more_bits(more_bits::V6_ONLY);
        }
    }

    /// How many bytes make it readable, at least 1: what was set, but no more than half of what it
    /// may hold unread at present.
    pub fn low_water(self) -> u64 {
        readable_from(self.socket.block())
    }

    /// Sets how much may be written and not sent (TCP_NOTSENT_LOWAT) on our side; 0 leaves it to
    /// the engine, and all ones is as much as the buffer holds. What the connection can send at once
    /// does not count as soon as the engine has said how much that is, after it was told.
    pub fn set_not_sent_lowat(self, bytes: u32) {
        self.socket
            .block()
            .snd
            .low_water
            .store(bytes, Ordering::Release);
        self.socket.wake_local();
    }
}

#[cfg(test)]
mod tests;
