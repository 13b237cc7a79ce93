//! What the adapter writes to the blocks of sockets and reads of them, beside descriptors.
//!
//! [`Blocks`] is borrowed of an [`AdapterSession`](super::AdapterSession); the stack calls it.
//!
//! A block that is asked for exists: its index was checked when the socket was opened. That of
//! a connection that waits to be accepted is not begun: what is written to it is left out, and
//! said once it is accepted.

use super::session_meter::SessionMeter;
use crate::abi::{AcceptRecord, BlockFlags, NotSent, SocketBlock, SocketId, SocketState};
use crate::transport::Arena;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes of most words of a block.
const WORD: usize = size_of::<u32>();

/// The blocks of a session's sockets, at one worker.
#[derive(Debug, Clone, Copy)]
pub struct Blocks<'a> {
    pub(super) arena: &'a Arena,
    pub(super) worker: u32,
    pub(super) meter: &'a SessionMeter,
}

impl<'a> Blocks<'a> {
    /// Takes a block for a connection that is handed over to its host, if one is free: it is
    /// the host that begins it. `is_used` says of an index whether a socket of the engine has
    /// it: a program that gave back what is in use harms itself.
    pub fn take(&self, is_used: impl FnOnce(u32) -> bool) -> Option<SocketId> {
        let free = &self.arena.header().free_sockets;
        let index = free.pop(self.arena.socket_links()).ok().flatten()?;
        if is_used(index) {
            self.meter.note_bad_descriptor();
            return None;
        }
        let block = self.arena.get_block(index)?;
        let generation = block.next_generation(self.arena.naming(), self.worker);
        Some(SocketId { index, generation })
    }

    /// Begins the block of a connection within the engine, which its other end's host looks at
    /// before it is accepted.
    pub fn begin(&self, flags: BlockFlags, accepted: &AcceptRecord) {
        let block = self.arena.block(accepted.socket.index);
        block.begin_connected(flags, accepted);
        self.meter
            .note_word(accepted.socket.index, size_of::<SocketBlock>());
    }

    /// The block of a socket, if its host has begun it: that of a connection which was not
    /// accepted yet means nothing.
    pub(super) fn begun(&self, id: SocketId) -> Option<&'a SocketBlock> {
        let block = self.arena.get_block(id.index)?;
        (!block.is_before(id)).then_some(block)
    }

    /// Gives the block of a socket back, of which the adapter has no more to say. One that its
    /// host has closed says so itself.
    pub fn give_back(&self, id: SocketId) {
        match self.begun(id) {
            Some(block) if block.is_in_use() => {
                block.set_state(SocketState::Free);
                self.meter.note_word(id.index, WORD);
            }
            Some(_) => {}
            None => {
                self.arena.block(id.index).skip(id.generation);
                // State and generation are side by side.
                self.meter.note_word(id.index, 2 * WORD);
            }
        }
        let free = &self.arena.header().free_sockets;
        if free.push(self.arena.socket_links(), id.index).is_err() {
            self.meter.note_bad_descriptor();
        }
    }

    /// Whether there is a block of this index.
    #[must_use]
    pub fn has(&self, index: u32) -> bool {
        index < self.arena.geometry().sockets
    }

    /// How many bytes a send stream may hold, from now on.
    pub fn set_send_limit(&self, index: u32, bytes: u32) {
        self.write(index, &self.arena.block(index).snd.limit, bytes);
    }

    /// Writes a word of block `index` that another is to be, and counts it.
    fn write(&self, index: u32, word: &AtomicU32, value: u32) {
        if word.load(Ordering::Relaxed) != value {
            word.store(value, Ordering::Release);
            self.meter.note_word(index, WORD);
        }
    }

    /// As `set_send_limit`, unless the program has set one: the engine is told of that next.
    pub fn suggest_send_limit(&self, index: u32, bytes: u32) {
        let limit = &self.arena.block(index).snd.limit;
        let was = limit.compare_exchange(0, bytes, Ordering::AcqRel, Ordering::Relaxed);
        if was.is_ok() {
            self.meter.note_word(index, WORD);
        }
    }

    /// How many bytes a host may read before it has to say so at once; 0 leaves it to the
    /// host.
    pub fn set_unreported_limit(&self, id: SocketId, bytes: u32) {
        if let Some(block) = self.begun(id) {
            self.write(id.index, &block.unreported_limit, bytes);
        }
    }

    /// Whether connections wait to enter the full queue of a listener: its host says at once
    /// what it has accepted.
    pub fn mark_waiting(&self, index: u32, waits: bool) {
        let block = self.arena.block(index);
        if block.flags().contains(BlockFlags::HAS_ENTERING) == waits {
            return;
        }
        if waits {
            block.set_flags(BlockFlags::HAS_ENTERING);
        } else {
            block.clear_flags(BlockFlags::HAS_ENTERING);
        }
        self.meter.note_word(index, WORD);
    }

    /// Says which socket of this session is at the other end of a connection within the
    /// engine.
    pub fn set_other_end(&self, index: u32, other: u32) {
        self.arena.block(index).set_other_end(other);
        self.meter.note_word(index, WORD);
    }

    /// The pending error of a socket, an errno (0 for none), and how many error reports are
    /// kept for its program.
    pub fn set_error(&self, id: SocketId, errno: u32, reports: u32) {
        if let Some(block) = self.begun(id) {
            self.write(id.index, &block.errors, reports);
            self.write(id.index, &block.errno, errno);
        }
    }

    /// How many error reports are kept for the program of a socket.
    pub fn set_error_reports(&self, id: SocketId, reports: u32) {
        if let Some(block) = self.begun(id) {
            self.write(id.index, &block.errors, reports);
        }
    }

    /// No error reports are kept for the program of a socket any more.
    pub fn forget_error_reports(&self, index: u32) {
        self.write(index, &self.arena.block(index).errors, 0);
    }

    /// Whether the program of a socket has an error to take.
    #[must_use]
    pub fn has_error(&self, id: SocketId) -> bool {
        self.begun(id).is_some_and(SocketBlock::has_error)
    }

    /// Says how far a stream with a low-water mark may be sent, and what goes with that; whether
    /// its writer, who has written up to `edge` and was held up by the mark, may go on now. No if
    /// there is no such block.
    #[must_use]
    pub fn note_sent(&self, id: SocketId, edge: u64, not_sent: &NotSent, low_water: u32) -> bool {
        let Some(block) = self.begun(id) else {
            return false;
        };
        let before = block.not_sent();
        if before.sendable != not_sent.sendable {
            self.meter.note_word(id.index, size_of::<u64>());
        }
        if (before.size_goal, before.usual) != (not_sent.size_goal, not_sent.usual) {
            self.meter_size_goal(id.index);
            block.note_size_goal(not_sent.size_goal, not_sent.usual);
        }
        block.note_sent(edge, not_sent.sendable, low_water)
    }

    /// Says the same of a connection before it is accepted, whose record says that it has a mark.
    pub fn begin_not_sent(&self, index: u32, not_sent: &NotSent) {
        self.arena.block(index).set_not_sent(not_sent);
        self.meter.note_word(index, size_of::<u64>());
        self.meter_size_goal(index);
    }

    /// Counts the two words in which the host is told how much is sent at once, and the usual mark.
    fn meter_size_goal(&self, index: u32) {
        self.meter.note_word(index, WORD);
        self.meter.note_word(index, WORD);
    }

    /// How far the host has written and read, as it has noted and may not have said yet:
    /// (send stream, receive stream). `None` if it has not begun.
    #[must_use]
    pub fn edges_noted(&self, id: SocketId) -> Option<(u64, u64)> {
        let block = self.begun(id)?;
        let written = block.snd.edge.load(Ordering::Acquire);
        Some((written, block.rcv.done.load(Ordering::Acquire)))
    }

    /// What closing a socket does, as its host has noted (SO_LINGER): a time in seconds, of which
    /// 0 resets its connection.
    #[must_use]
    pub fn linger_noted(&self, id: SocketId) -> Option<u32> {
        let word = self.begun(id)?.linger.load(Ordering::Relaxed);
        word.checked_sub(1)
    }
}

#[cfg(test)]
mod tests;
