//! What a completion is to this process: where it moves a socket's edges to, and
//! whether the process is to be told.
//!
//! A socket's block is shared by all processes that may have it, and each gets
//! the same completions; whoever applies one first moves the block. Whether
//! something *happened* therefore cannot be read off the block: the second
//! process would see nothing move and let its own pollers sleep. So each process
//! keeps beside the block what it was told itself. `host` asks here for each
//! completion it takes, under the lock of the channel.

use crate::block_words::{advance, has_room, more_bits, move_mark, take_room_wanted};
use longshore_hostif::{BlockFlags, EdgeFlags, Edges, SocketBlock, SocketId, SocketState};
use std::sync::atomic::Ordering;

/// Where the block's flags stand beside those of the edges.
const SHUT_SHIFT: u32 = 8;

/// How a process has a socket, as far as reports of its edges go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Having {
    /// Not at all: it was told since it may accept it.
    Not,
    /// Alone.
    Alone,
    /// Perhaps with others.
    Shared,
}

/// What this process was told of each socket: three words for each, which take
/// no memory until the socket's first completion.
#[derive(Debug)]
pub(crate) struct ReportedEdges {
    /// Generation and flags; edge of the receive stream; of what is acknowledged.
    reported: Vec<[u64; 3]>,
}

impl ReportedEdges {
    /// For a session of this many sockets.
    pub(crate) fn new(sockets: usize) -> Self {
        Self {
            reported: vec![[0; 3]; sockets],
        }
    }

    /// Moves the edges of `block`, which is socket `id`'s; says whether that may
    /// make the socket ready for something that this process has not seen.
    pub(crate) fn apply(
        &mut self,
        id: SocketId,
        block: &SocketBlock,
        edges: &Edges,
        having: Having,
    ) -> bool {
        let Some(reported) = self.reported.get_mut(id.index as usize) else {
            return false;
        };
        let generation = u64::from(id.generation) << 32;
        if reported[0] & !0xffff_ffff != generation {
            *reported = [generation, 0, 0];
        }
        let shut = block.flags() & (BlockFlags::SHUT_RD | BlockFlags::SHUT_WR);
        let now = u64::from(edges.flags.bits()) | u64::from(shut.bits()) << SHUT_SHIFT;
        let flags = now & !reported[0];
        reported[0] = generation | now;
        let (arrived, acked) = (edges.rcv_edge > reported[1], edges.snd_acked > reported[2]);
        reported[1] = reported[1].max(edges.rcv_edge);
        reported[2] = reported[2].max(edges.snd_acked);

        // Before the edge: a thread that reads up to that must know where to stop.
        if edges.rcv_urgent != 0 {
            move_mark(block, edges.rcv_urgent);
        }
        advance(&block.rcv.edge, edges.rcv_edge);
        let mut ready = arrived && edges.rcv_edge > block.rcv.done.load(Ordering::Acquire);
        // With a low-water mark of what is not sent, room comes without it, too.
        let may_have_room = acked || block.snd.low_water.load(Ordering::Relaxed) != 0;
        ready |= acknowledge(block, edges, may_have_room, having);
        // Another process may have shut a half of what it has too.
        ready |= having == Having::Shared && (flags >> SHUT_SHIFT != 0 || has_stopped(block));
        let is_new = |flag: EdgeFlags| flags & u64::from(flag.bits()) != 0;
        if edges.flags.contains(EdgeFlags::PEER_FIN) {
            let before = block.set_flags(BlockFlags::PEER_FIN);
            ready |= !before.contains(BlockFlags::PEER_FIN) || is_new(EdgeFlags::PEER_FIN);
        }
        if edges.flags.contains(EdgeFlags::FIN_ACKED) {
            block.set_flags(BlockFlags::FIN_ACKED);
        }
        if edges.flags.contains(EdgeFlags::CONNECTED) {
            ready |= block.change_state(SocketState::Connecting, SocketState::Connected)
                || block.change_state(SocketState::Early, SocketState::Connected)
                || is_new(EdgeFlags::CONNECTED);
        }
        ready | fail(block, edges, is_new(EdgeFlags::DEAD))
    }
}

/// The far end has acknowledged more: whether somebody waits for the room. Only the
/// process that has the socket may take the wish for room; with others about, it cannot
/// be told which one's it was.
fn acknowledge(block: &SocketBlock, edges: &Edges, is_new: bool, having: Having) -> bool {
    let acked = edges.snd_acked.min(block.snd.edge.load(Ordering::Acquire));
    advance(&block.snd.done, acked);
    match having {
        _ if !is_new => false,
        Having::Not => false,
        Having::Alone => take_room_wanted(block),
        Having::Shared => take_room_wanted(block) || has_room(block),
    }
}

/// Whether it is a listener no more, which none of its flags tells.
fn has_stopped(block: &SocketBlock) -> bool {
    block.state() == SocketState::Open
        && block.more_bits().load(Ordering::Acquire) & more_bits::HAS_LISTENED != 0
}

/// Whether it has tried to connect in vain, and nobody has anything to be told of that.
fn is_spent(block: &SocketBlock) -> bool {
    block.more_bits().load(Ordering::Acquire) & more_bits::IS_SPENT != 0
}

/// What went wrong, if something did.
fn fail(block: &SocketBlock, edges: &Edges, dies: bool) -> bool {
    let soft = edges.flags.contains(EdgeFlags::SOFT_ERROR);
    let dead = edges.flags.contains(EdgeFlags::DEAD);
    if !soft && !dead {
        return false;
    }
    if dead && block.state() == SocketState::Open && is_spent(block) {
        // Its program was told, by another process.
        return false;
    }
    let first = block.state() != SocketState::Dead || soft;
    if first && edges.errno != 0 {
        block.errno.store(u32::from(edges.errno), Ordering::Release);
    }
    if dead {
        block.set_state(SocketState::Dead);
    }
    first || dies
}

#[cfg(test)]
mod tests;
