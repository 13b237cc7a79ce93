//! Reading from a receive stream: what lies between what is consumed and the
//! edge, in chunks that the engine placed it in.

use super::places;
use crate::block_words::{advance, report_threshold};
use crate::errors::SocketError;
use crate::holds::Socket;
use crate::turn::Wake;
use longshore_hostif::{BlockFlags, EdgeFlags, STREAM_MAX, SocketBlock, SocketState};
use longshore_ring::Locked;
use std::io::IoSliceMut;
use std::sync::atomic::Ordering;

/// The bytes that a socket has received: what has come and was not read, where it lies, and how
/// the engine is told of what was read. A datagram socket's are records, and so are a listener's.
#[derive(Debug, Clone, Copy)]
pub struct ReceiveStream<'a> {
    pub(super) socket: &'a Socket,
    pub(super) block: &'static SocketBlock,
}

/// The bytes at the front of a receive stream, to be looked at in place and
/// then consumed. Nobody else reads the stream meanwhile.
#[derive(Debug)]
pub struct Peeked<'a> {
    stream: ReceiveStream<'a>,
    lock: Locked<'static>,
    pub(super) from: u64,
    len: usize,
}

impl<'a> ReceiveStream<'a> {
    #[inline]
    pub(crate) fn of(socket: &'a Socket) -> Self {
        let block = socket.block();
        Self { socket, block }
    }

    /// What is to say about a receive stream that is empty: the end of the
    /// stream, an error, or that more may come.
    pub(super) fn end_of_stream(self) -> Result<(), SocketError> {
        let block = self.block;
        // What has come to an end that is shut down is not waited for, but for a reset.
        if block.flags().contains(BlockFlags::SHUT_RD) {
            self.socket.pair_end().await_reset();
        }
        // In the order opposite to that in which another thread or process writes them.
        let state = block.state();
        let has_failed = block.errno.load(Ordering::Acquire) != 0;
        let flags = block.flags();
        if flags.contains(BlockFlags::PEER_FIN) {
            // The end stays the end; what went wrong after it is for a call that asks or writes.
            return Ok(());
        }
        if has_failed {
            match block.take_errno() {
                0 => {}
                errno => return Err(SocketError::failed(errno)),
            }
        }
        if flags.contains(BlockFlags::SHUT_RD) {
            return Ok(());
        }
        match state {
            SocketState::Dead | SocketState::Closing | SocketState::Free => Ok(()),
            SocketState::Open if flags.contains(BlockFlags::DATAGRAM) => {
                Err(self.would_block_or_gone())
            }
            SocketState::Open | SocketState::Listening => {
                Err(SocketError::Refused(rustix::io::Errno::NOTCONN))
            }
            SocketState::Connecting | SocketState::Connected | SocketState::Early => {
                Err(self.would_block_or_gone())
            }
        }
    }

    fn would_block_or_gone(self) -> SocketError {
        if self.socket.host.is_gone() {
            SocketError::failed(rustix::io::Errno::CONNRESET.raw_os_error() as u32)
        } else {
            SocketError::WouldBlock
        }
    }

    /// The bytes that have arrived and were not consumed. Empty at the end of
    /// the stream.
    ///
    /// # Errors
    /// [`SocketError::WouldBlock`] if there are none yet; the socket's pending
    /// error; ENOTCONN on a listener, whose stream is of connections; EOPNOTSUPP on a UDP
    /// socket, whose stream is of records, with what lay in memory before between them.
    pub fn peek(self) -> Result<Peeked<'a>, SocketError> {
        self.look(usize::MAX, true)
    }

    /// As `peek`, for a call that asks for `wanted` bytes; `keep` says that nothing is to be
    /// consumed, and no urgent byte thrown away either.
    pub(super) fn look(self, wanted: usize, keep: bool) -> Result<Peeked<'a>, SocketError> {
        let block = self.block;
        if block.state() == SocketState::Listening {
            return Err(SocketError::Refused(rustix::io::Errno::NOTCONN));
        }
        if block.flags().contains(BlockFlags::DATAGRAM) {
            return Err(SocketError::Refused(rustix::io::Errno::OPNOTSUPP));
        }
        self.look_at_any(wanted, keep)
    }

    /// The records of datagrams that have arrived.
    ///
    /// # Errors
    /// As [`ReceiveStream::peek`].
    pub(crate) fn peek_at_records(self) -> Result<Peeked<'a>, SocketError> {
        self.look_at_any(usize::MAX, true)
    }

    /// As `peek_at_records`, for a call that only asks how much there is: it takes no pending
    /// error, be it one that comes meanwhile, and finds nothing where there is none.
    pub(crate) fn count_records(self) -> Result<Peeked<'a>, SocketError> {
        self.look_at_held(usize::MAX, true)
    }

    fn look_at_any(self, wanted: usize, keep: bool) -> Result<Peeked<'a>, SocketError> {
        let mut peeked = self.look_at_held(wanted, keep)?;
        if peeked.is_empty() {
            self.socket.host.messages().end_turn();
            self.end_of_stream()?;
            // The end may have come after the last bytes did, and after we
            // looked for those.
            (peeked.from, peeked.len) = self.front(keep)?;
        }
        Ok(peeked)
    }

    /// What is there, after a moment for what is on its way.
    fn look_at_held(self, wanted: usize, keep: bool) -> Result<Peeked<'a>, SocketError> {
        let lock = self.block.rcv.lock.lock()?;
        let (mut from, mut len) = self.front(keep)?;
        if len < wanted {
            self.socket.host.messages().catch_up();
            (from, len) = self.front(keep)?;
            // What this process has sent since to its own sockets counts, as it would on Linux: a
            // call that gives less would not know of it.
            if len != 0 && len < wanted && !self.socket.is_datagram() {
                self.socket.host.under_way().await_own_pairs();
                (from, len) = self.front(keep)?;
            }
        }
        if len == 0 && self.socket.pair_end().await_coming() {
            (from, len) = self.front(keep)?;
        }
        Ok(Peeked {
            stream: self,
            from,
            lock,
            len,
        })
    }

    /// Where reading in order goes on, and how many bytes are there.
    fn front(self, keep: bool) -> Result<(u64, usize), SocketError> {
        let block = self.block;
        let from = block.rcv.done.load(Ordering::Acquire);
        // The mark is looked for after the edge, as it was moved before it.
        let held = block.rcv.edge.load(Ordering::Acquire).saturating_sub(from);
        if held > STREAM_MAX {
            return Err(SocketError::Broken);
        }
        if block.rcv.urgent.load(Ordering::Relaxed) > from {
            return self
                .socket
                .urgent_data()
                .front_at_urgent(from, held as usize, keep);
        }
        Ok((from, held as usize))
    }

    /// Copies the bytes at offset `at` of the receive stream, which must hold
    /// them, for a caller that has its lock.
    pub(crate) fn copy_from(self, at: u64, to: &mut [u8]) -> Result<(), SocketError> {
        let memory = self.socket.host.arena.memory();
        let mut done = 0;
        for place in self.rcv_places(at, to.len()) {
            let (place, len) = place?;
            memory.read(place, &mut to[done..done + len]);
            done += len;
        }
        Ok(())
    }

    /// Where `len` bytes from offset `at` of the receive stream on lie.
    fn rcv_places(
        self,
        at: u64,
        len: usize,
    ) -> impl Iterator<Item = Result<(usize, usize), SocketError>> + use<> {
        let arena = &self.socket.host.arena;
        let directory = arena.rcv_directory(self.socket.id.index);
        places(
            at,
            len,
            move |number| directory.entry(number).load(Ordering::Acquire),
            |entry, within, len| arena.received_place(entry, within, len),
        )
    }

    /// Bytes that can be read now (FIONREAD): up to the urgent byte, if there is one.
    pub fn readable_bytes(self) -> usize {
        let held = self.block.rcv.held().min(STREAM_MAX) as usize;
        self.socket.urgent_data().readable_in_order(held)
    }

    /// Bytes that have come and were not read (TCP_INQ), the urgent one with them.
    pub fn unread_bytes(self) -> u64 {
        self.block.rcv.held().min(STREAM_MAX)
    }

    /// How far the receive stream reaches, in bytes since it began.
    #[cfg(any(test, feature = "testing"))]
    pub fn received_end(self) -> u64 {
        self.block.rcv.edge.load(Ordering::Acquire)
    }

    /// Bytes that the receive stream has room for: what is read and kept takes some of it.
    pub fn limit(self) -> u64 {
        self.block.rcv_limit()
    }

    /// How many bytes of the receive stream were read, since it began.
    pub fn read_position(self) -> u64 {
        self.block.rcv.done.load(Ordering::Relaxed)
    }

    /// Copies bytes of the receive stream out, and consumes them unless `keep`: then it looks
    /// from the [peek offset](crate::PeekOffset::get) on, if there is one.
    /// Returns how many; 0 is the end of the stream.
    ///
    /// # Errors
    /// As [`ReceiveStream::peek`].
    pub fn recv(self, parts: &mut [IoSliceMut<'_>], keep: bool) -> Result<usize, SocketError> {
        if keep && let Some(offset) = self.socket.peek_offset().get() {
            return self.peek_from(offset as usize, parts);
        }
        let wanted = parts.iter().map(|part| part.len()).sum::<usize>().max(1);
        let peeked = self.look(wanted, keep)?;
        let mut read = 0;
        for part in parts {
            let fits = part.len().min(peeked.len() - read);
            peeked.read_at(read, &mut part[..fits])?;
            read += fits;
            if read == peeked.len() {
                break;
            }
        }
        if !keep {
            peeked.consume(read)?;
            self.socket.peek_offset().note_consumed(read);
        }
        Ok(read)
    }

    /// Copies out what lies behind the first `offset` bytes of a receive stream, and leaves
    /// it there; 0 is the end of the stream.
    ///
    /// # Errors
    /// As [`ReceiveStream::peek`]; [`SocketError::WouldBlock`] if there is no more than `offset`.
    pub(super) fn peek_from(
        self,
        offset: usize,
        parts: &mut [IoSliceMut<'_>],
    ) -> Result<usize, SocketError> {
        let wanted = parts.iter().map(|part| part.len()).sum::<usize>().max(1);
        let mut is_over = false;
        loop {
            let peeked = self.look(offset.saturating_add(wanted), true)?;
            if peeked.len() > offset {
                let mut at = offset;
                for part in parts {
                    let fits = part.len().min(peeked.len() - at);
                    peeked.read_at(at, &mut part[..fits])?;
                    at += fits;
                }
                drop(peeked);
                self.socket.peek_offset().note_peeked(at - offset);
                return Ok(at - offset);
            }
            if is_over {
                return Ok(0);
            }
            self.end_of_stream()?;
            // It may have come after we looked, and bytes before it.
            is_over = true;
        }
    }

    /// Throws at most `max` bytes of the receive stream away, as MSG_TRUNC does;
    /// returns how many.
    ///
    /// # Errors
    /// As [`ReceiveStream::peek`].
    pub fn discard(self, max: usize) -> Result<usize, SocketError> {
        let peeked = self.look(max.max(1), false)?;
        let len = peeked.len().min(max);
        peeked.consume(len)?;
        self.socket.peek_offset().note_consumed(len);
        Ok(len)
    }

    /// More was read, or what was kept is kept no longer: the engine is told at once if that is
    /// much, and otherwise later.
    #[inline]
    pub(super) fn note_read(self) -> Result<(), SocketError> {
        let block = self.block;
        let read = self.socket.host.read_to_report(block, self.socket.id);
        let reported = block.rcv.reported.load(Ordering::Relaxed);
        if read.saturating_sub(reported) >= report_threshold(block) {
            advance(&block.rcv.reported, read);
            let request = self
                .socket
                .host
                .edges(block, self.socket.id, EdgeFlags::empty());
            return match self.socket.host.messages().report(&request, Wake::Now) {
                // The bytes are read all the same.
                Err(SocketError::EngineGone) => Ok(()),
                other => other,
            };
        }
        self.socket.host.sockets().list_unreported(self.socket.id)
    }
}

impl Peeked<'_> {
    /// Bytes that are there.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the stream has ended.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether an urgent byte follows them, at which reading stops.
    pub fn stops_at_mark(&self) -> bool {
        let end = self.from + self.len as u64;
        self.stream.block.rcv.urgent.load(Ordering::Relaxed) == end + 1
    }

    /// Copies the bytes at offset `at` out; they must be inside.
    ///
    /// # Errors
    /// [`SocketError::Broken`] if the engine's directory names no chunk.
    pub fn read_at(&self, at: usize, to: &mut [u8]) -> Result<(), SocketError> {
        self.check_inside(at, to.len());
        self.stream.copy_from(self.from + at as u64, to)
    }

    /// The pieces of memory of `len` bytes from `at` on, in order. The engine
    /// could still change them: what is decided on them must be copied first.
    pub fn pieces(
        &self,
        at: usize,
        len: usize,
    ) -> impl Iterator<Item = Result<&[u8], SocketError>> {
        self.check_inside(at, len);
        let memory = self.stream.socket.host.arena.memory();
        let places = self.stream.rcv_places(self.from + at as u64, len);
        places.map(move |place| {
            let (place, len) = place?;
            // SAFETY: the engine leaves what it has delivered alone until it is
            // consumed, which needs us gone; what a hostile one changes is
            // payload, on which this library decides nothing.
            Ok(unsafe { memory.bytes(place, len) })
        })
    }

    fn check_inside(&self, at: usize, len: usize) {
        assert!(at <= self.len && len <= self.len - at);
    }

    /// Consumes the first `len` bytes: their memory is the engine's again.
    ///
    /// # Errors
    /// [`SocketError::Broken`], [`SocketError::Reentered`].
    pub fn consume(self, len: usize) -> Result<(), SocketError> {
        let len = len.min(self.len) as u64;
        if len == 0 {
            return Ok(());
        }
        let stream = self.stream;
        let done = self.from + len;
        stream.block.rcv.done.store(done, Ordering::Release);
        drop(self.lock);
        stream.socket.keeping().limit(done);
        stream.note_read()
    }
}

#[cfg(test)]
mod tests;
