//! What the words of a socket's block say of its streams, whichever thread or process asks:
//! whether there is room, how much need not be told, where the urgent byte is, and the bits
//! that hosts keep there for themselves.
//!
//! Called by all that reads or writes streams, and by `host` for what the engine has told.

use longshore_hostif::{BlockFlags, EdgeFlags, STREAM_MAX, SocketBlock};
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Bits that the host keeps in a block's `options`.
pub mod host_bits {
    /// Somebody waits for room in the send stream.
    pub const WANTS_ROOM: u32 = 1;
    /// A kernel socket stands beside: what comes there is the program's too.
    pub const KERNEL_TOO: u32 = 2;
    /// The program was told that its connection is made.
    pub const CONNECT_REPORTED: u32 = 4;
    /// The kernel socket has a receive timeout that the program did not set.
    pub const OUR_TIMEOUT: u32 = 8;
    /// The program wants its calls not to wait (O_NONBLOCK). Only kept for those
    /// that cannot ask the kernel.
    pub const NONBLOCKING: u32 = 16;
    /// TCP_NODELAY is on.
    pub const NO_DELAY: u32 = 32;
    /// TCP_CORK is on.
    pub const CORK: u32 = 64;
    /// From this bit on: options that the program has set.
    pub const OPTIONS_SHIFT: u32 = 7;
}

/// Bits that the host keeps in a block's `more_bits`, below SO_PEEK_OFF's.
pub mod more_bits {
    /// UDP_CORK is on.
    pub const CORKED: u64 = 1;
    /// A datagram was begun that is not sent yet.
    pub const UNFINISHED: u64 = 2;
    /// SO_TIMESTAMP is on.
    pub const TIMESTAMP: u64 = 4;
    /// SO_TIMESTAMPNS is on.
    pub const TIMESTAMP_NS: u64 = 8;
    /// SO_RXQ_OVFL is on.
    pub const DROPS: u64 = 16;
    /// IP_RECVORIGDSTADDR is on.
    pub const DESTINATION: u64 = 32;
    /// IPV6_RECVORIGDSTADDR is on.
    pub const DESTINATION6: u64 = 64;
    /// TCP_INQ is on.
    pub const LEFT: u64 = 128;
    /// SO_ZEROCOPY is on.
    pub const ZERO_COPY: u64 = 256;
    /// IP_RECVERR or IPV6_RECVERR was set.
    pub const ASKS_FOR_ERRORS: u64 = 512;
    /// Of what was sent to an address of the engine, one was not refused, and none since.
    pub const IS_TAKEN: u64 = 1024;
    /// It has tried to connect in vain, or listened, and does neither any more: it is to be
    /// replaced by a new one before it is bound or listens, or connects after it has listened.
    pub const IS_SPENT: u64 = 2048;
    /// It was a listener.
    pub const HAS_LISTENED: u64 = 4096;
    /// Another has taken its place in the process that used it again: in the others, too, when
    /// they next look.
    pub const IS_REPLACED: u64 = 8192;
    /// IPV6_V6ONLY is on, by the program or since it is bound to an address of IPv6.
    pub const V6_ONLY: u64 = 16_384;
    /// It was asked when the last datagram came (SIOCGSTAMP), and will be again.
    pub const LAST_ARRIVAL: u64 = 32_768;
    /// It is bound to the loopback (SO_BINDTODEVICE).
    pub const BY_LOOPBACK: u64 = 1 << 19;
    /// It is bound to the engine's link.
    pub const BY_LINK: u64 = 1 << 31;
    /// IP_BIND_ADDRESS_NO_PORT is on.
    pub const ADDRESS_ALONE: u64 = 1 << 32;
    /// It is bound to an address without a port, and the engine knows.
    pub const WITHOUT_PORT: u64 = 1 << 33;
    /// What it sends to groups of IPv4 goes to the loopback (IP_MULTICAST_IF).
    pub const GROUPS_BY_LOOPBACK: u64 = 1 << 34;
    /// What it sends to groups of IPv6 does (IPV6_MULTICAST_IF).
    pub const GROUPS6_BY_LOOPBACK: u64 = 1 << 35;
    /// From this bit on, what SO_TIMESTAMPING is set to (`posix` says how).
    pub const TIMESTAMPING_SHIFT: u32 = 16;
    /// All of these bits, between which BY_LOOPBACK and BY_LINK stand.
    pub const TIMESTAMPING: u64 = 0x7ff7 << TIMESTAMPING_SHIFT;
    /// From this bit on, SO_PEEK_OFF's.
    pub(crate) const PEEK_OFFSET_SHIFT: u32 = 36;
}

/// What the engine lets a stream hold unread, in units of what it is to be told of at once.
const HELD: u64 = 4;

/// Bytes that the engine lets a stream hold unread, if it has said so: it does where that is less
/// than the usual receive buffer.
pub(crate) fn small_room(block: &SocketBlock) -> Option<u64> {
    match block.unreported_limit.load(Ordering::Relaxed) {
        0 => None,
        part => Some(u64::from(part) * HELD),
    }
}

/// How many bytes make a stream readable (SO_RCVLOWAT): what its program has said, but no more
/// than half of what it may hold unread, since the far end may send no more than that. At least
/// 1.
#[inline]
pub(crate) fn readable_from(block: &SocketBlock) -> u64 {
    let mark = u64::from(block.rcv.low_water.load(Ordering::Relaxed));
    if mark <= 1 {
        return 1;
    }
    let set = match block.rcv.limit.load(Ordering::Relaxed) {
        0 => STREAM_MAX,
        limit => u64::from(limit).min(STREAM_MAX),
    };
    let most = small_room(block).map_or(set, |room| room.min(set));
    mark.min(most / 2).max(1)
}

/// How much consumed data the engine may not know of before it is told at once: a
/// quarter of the receive buffer, or less where the far end has less room than that.
pub(crate) fn report_threshold(block: &SocketBlock) -> u64 {
    let unreported_limit = match block.unreported_limit.load(Ordering::Relaxed) {
        0 => u64::MAX,
        unreported_limit => unreported_limit.into(),
    };
    (block.rcv_limit() / 4)
        .min(unreported_limit)
        .clamp(1, 128 * 1024)
}

/// Whether a writer would be told that it may write.
pub(crate) fn has_room(block: &SocketBlock) -> bool {
    block.is_send_buffer_writable() && passes_lowat(block)
}

/// Whether a writer of a connection is told so in spite of TCP_NOTSENT_LOWAT.
fn passes_lowat(block: &SocketBlock) -> bool {
    block.flags().contains(BlockFlags::DATAGRAM) || block.is_below_lowat()
}

/// How many bytes may be written. As Linux has it, who waits for room in a small send buffer goes on
/// when a writer would be told of it, not with the first that is free.
pub(crate) fn room_to_write(block: &SocketBlock) -> u64 {
    let is_waiting = || block.options.load(Ordering::Relaxed) & host_bits::WANTS_ROOM != 0;
    let counts_memory = block.flags().contains(BlockFlags::COUNTS_MEMORY);
    if counts_memory && is_waiting() && !has_room(block) {
        return 0;
    }
    block.send_room().min(block.room_before_lowat())
}

/// If somebody waits for room and there is now, takes the wish; says whether.
pub(crate) fn take_room_wanted(block: &SocketBlock) -> bool {
    use host_bits::WANTS_ROOM;
    // Behind `advance` of what is acknowledged, as `want_room` is before its look at that: one of
    // the two sees the other.
    block.options.load(Ordering::SeqCst) & WANTS_ROOM != 0
        && has_room(block)
        && block.options.fetch_and(!WANTS_ROOM, Ordering::AcqRel) & WANTS_ROOM != 0
}

/// Notes that somebody waits for room; says whether there is some after all.
pub(crate) fn want_room(block: &SocketBlock) -> bool {
    block
        .options
        .fetch_or(host_bits::WANTS_ROOM, Ordering::SeqCst);
    fence(Ordering::SeqCst);
    has_room(block)
}

/// The flags of what was written last: whether `more` follows at once (MSG_MORE), and
/// whether the socket is corked (TCP_CORK). The two are apart, for what was written without
/// MSG_MORE is pushed when a cork is taken out, or passed by (TCP_NODELAY).
pub(crate) fn flags_of_written(block: &SocketBlock, more: bool) -> EdgeFlags {
    let mut flags = if more {
        EdgeFlags::MORE
    } else {
        EdgeFlags::PUSH
    };
    let options = block.options.load(Ordering::Acquire);
    flags.set(EdgeFlags::CORK, options & host_bits::CORK != 0);
    flags
}

/// Moves an edge forward to `to`, unless it is there already: then the memory that the engine looks
/// at, too, is not written to.
#[inline]
pub(crate) fn advance(edge: &AtomicU64, to: u64) {
    if edge.load(Ordering::Acquire) < to {
        edge.fetch_max(to, Ordering::SeqCst);
    }
}

/// The position of the urgent byte, if the program has not read past it, and how many
/// bytes of the stream come before it.
pub(crate) fn ahead(block: &SocketBlock) -> Option<(u64, u64)> {
    ahead_of(block, block.rcv.urgent.load(Ordering::Acquire))
}

/// As `ahead`, for the urgent byte before `urgent`.
pub(crate) fn ahead_of(block: &SocketBlock, urgent: u64) -> Option<(u64, u64)> {
    let mark = urgent.checked_sub(1)?;
    let before = mark.checked_sub(block.rcv.done.load(Ordering::Acquire))?;
    Some((mark, before))
}

pub(crate) fn is_at_mark(block: &SocketBlock) -> bool {
    ahead(block).is_some_and(|(_, before)| before == 0)
}

pub(crate) fn is_inline(block: &SocketBlock) -> bool {
    block.flags().contains(BlockFlags::URGENT_INLINE)
}

/// Whether the program stands before an urgent byte that is not for those who read in
/// order.
pub(crate) fn stands_at_mark(block: &SocketBlock) -> bool {
    is_at_mark(block) && !is_inline(block)
}

/// Whether there is an urgent byte to be read (POLLPRI).
pub(crate) fn is_urgent(block: &SocketBlock) -> bool {
    let read = block.rcv.urgent_read.load(Ordering::Acquire);
    ahead(block)
        .is_some_and(|(mark, _)| block.rcv.edge.load(Ordering::Acquire) > mark && read <= mark)
}

/// The engine has told of an urgent byte before `urgent`.
#[cold]
pub(crate) fn move_mark(block: &SocketBlock, urgent: u64) {
    let before = block.rcv.urgent.fetch_max(urgent, Ordering::AcqRel);
    if before >= urgent || before == 0 || is_inline(block) {
        return;
    }
    // A reader that stood at the last mark does not come upon its byte now that it is an ordinary
    // one.
    let old = before - 1;
    if block.rcv.edge.load(Ordering::Acquire) > old {
        let done = &block.rcv.done;
        let _ = done.compare_exchange(old, before, Ordering::AcqRel, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Engine;
    use longshore_hostif::SocketState;
    use longshore_ring::SharedMemory;
    use std::ops::Deref;

    /// Blocks are only ever made of zeroed memory.
    struct InMemory(SharedMemory);

    impl Deref for InMemory {
        type Target = SocketBlock;

        fn deref(&self) -> &SocketBlock {
            self.0.at(0)
        }
    }

    fn block(flags: BlockFlags) -> InMemory {
        let block = InMemory(SharedMemory::create("block", 4096).unwrap());
        block.begin(SocketState::Connected, flags);
        block
    }

    #[test]
    fn the_engine_is_told_after_a_quarter_of_the_buffer_or_what_it_asks_for() {
        let b = block(BlockFlags::empty());
        for (buffer, asked, threshold) in [
            (1000, 0, 250),
            (1000, 100, 100),
            (1000, 300, 250),
            (3, 0, 1),
            (4 << 20, 0, 128 * 1024),
        ] {
            b.rcv.limit.store(buffer, Ordering::Relaxed);
            b.unreported_limit.store(asked, Ordering::Relaxed);
            assert_eq!(report_threshold(&b), threshold, "{buffer} {asked}");
        }
    }

    /// A mark holds up to half of what may be unread: as was set, as the engine says, or as much as
    /// a stream can hold.
    #[test]
    fn a_mark_is_no_more_than_half_of_the_room() {
        let b = block(BlockFlags::empty());
        for (mark, set, small, expected) in [
            (0, 0, 0, 1),
            (1, 0, 1, 1),
            (500, 0, 0, 500),
            (u32::MAX, 0, 0, STREAM_MAX / 2),
            (500, 0, 250, 500),
            (501, 0, 250, 500),
            (501, 800, 0, 400),
            (501, 800, 150, 300),
            (2, 1, 0, 1),
        ] {
            b.rcv.low_water.store(mark, Ordering::Relaxed);
            b.rcv.limit.store(set, Ordering::Relaxed);
            b.unreported_limit.store(small, Ordering::Relaxed);
            assert_eq!(readable_from(&b), expected, "{mark} {set} {small}");
        }
    }

    /// The buffer has a third free, and less than half of the mark is not sent; that is no datagram's.
    #[test]
    fn whoever_waits_for_room_is_told_once_when_there_is_some() {
        for flags in [BlockFlags::empty(), BlockFlags::DATAGRAM] {
            let b = block(flags);
            b.snd.limit.store(300, Ordering::Relaxed);
            b.snd.edge.store(201, Ordering::Relaxed);
            b.options.store(host_bits::CORK, Ordering::Relaxed);
            assert!(!take_room_wanted(&b) && !want_room(&b), "it is full");
            assert!(!take_room_wanted(&b));
            b.snd.done.store(1, Ordering::Relaxed);
            assert!(take_room_wanted(&b) && !take_room_wanted(&b));
            assert!(want_room(&b), "there is some already");
            assert!(take_room_wanted(&b));
            let options = b.options.load(Ordering::Relaxed);
            assert_eq!(options, host_bits::CORK, "the others stay");
            b.snd.low_water.store(200, Ordering::Relaxed);
            assert_eq!(has_room(&b), flags.contains(BlockFlags::DATAGRAM));
        }
    }

    /// Two buffers of 4,000 bytes and what is beside them leave room, but no third of the limit.
    #[test]
    fn who_waits_for_memory_goes_on_when_a_third_is_free() {
        let b = block(BlockFlags::COUNTS_MEMORY);
        b.snd.limit.store(12_000, Ordering::Relaxed);
        b.syn_room_or_size_goal.store(4_000, Ordering::Relaxed);
        b.snd.edge.store(8_000, Ordering::Relaxed);
        assert_eq!(room_to_write(&b), 4_000, "nobody has waited");
        assert!(!want_room(&b));
        assert_eq!(room_to_write(&b), 0);
        b.snd.done.store(3_000, Ordering::Relaxed);
        assert!(room_to_write(&b) != 0 && take_room_wanted(&b));
        let b = block(BlockFlags::empty());
        b.snd.limit.store(12_000, Ordering::Relaxed);
        b.snd.edge.store(11_000, Ordering::Relaxed);
        assert!(!want_room(&b));
        assert_eq!(room_to_write(&b), 1_000, "bytes are counted");
    }

    #[test]
    fn what_is_said_of_what_was_written_is_whether_it_waits() {
        let b = block(BlockFlags::empty());
        b.options.store(host_bits::NO_DELAY, Ordering::Relaxed);
        assert_eq!(flags_of_written(&b, false), EdgeFlags::PUSH);
        assert_eq!(flags_of_written(&b, true), EdgeFlags::MORE);
        b.options.fetch_or(host_bits::CORK, Ordering::Relaxed);
        let cork = EdgeFlags::CORK;
        assert_eq!(flags_of_written(&b, false), EdgeFlags::PUSH | cork);
        assert_eq!(flags_of_written(&b, true), EdgeFlags::MORE | cork);
    }

    /// The byte at 9, and where the program stands, how far its stream reaches, and what was read
    /// apart.
    #[test]
    fn an_urgent_byte_is_there_once_it_has_come_and_until_it_was_read() {
        let b = block(BlockFlags::empty());
        assert!(!is_at_mark(&b) && !stands_at_mark(&b) && !is_urgent(&b));
        b.rcv.urgent.store(10, Ordering::Relaxed);
        for (done, edge, read, at_mark, urgent) in [
            (8, 9, 0, false, false),
            (8, 10, 0, false, true),
            (9, 10, 0, true, true),
            (9, 10, 9, true, true),
            (9, 10, 10, true, false),
            (10, 12, 0, false, false),
        ] {
            b.rcv.done.store(done, Ordering::Relaxed);
            b.rcv.edge.store(edge, Ordering::Relaxed);
            b.rcv.urgent_read.store(read, Ordering::Relaxed);
            assert_eq!((is_at_mark(&b), is_urgent(&b)), (at_mark, urgent), "{done}");
            assert_eq!(stands_at_mark(&b), at_mark);
        }
        b.rcv.done.store(9, Ordering::Relaxed);
        b.set_flags(BlockFlags::URGENT_INLINE);
        assert!(is_at_mark(&b) && !stands_at_mark(&b));
    }

    /// A program that stands at one urgent byte passes it when the next is told of, if it has come
    /// and is not read in its place.
    #[test]
    fn the_last_urgent_byte_is_passed_by_who_stands_there() {
        let inline = BlockFlags::URGENT_INLINE;
        let none = BlockFlags::empty();
        for (flags, done, edge, urgent, then) in [
            (none, 9, 10, 20, 10),
            (none, 9, 9, 20, 9),
            (none, 8, 10, 20, 8),
            (none, 9, 10, 10, 9),
            (inline, 9, 10, 20, 9),
        ] {
            let b = block(flags);
            b.rcv.done.store(done, Ordering::Relaxed);
            b.rcv.edge.store(edge, Ordering::Relaxed);
            move_mark(&b, 10);
            assert_eq!(b.rcv.done.load(Ordering::Relaxed), done, "the first");
            move_mark(&b, urgent);
            assert_eq!(b.rcv.done.load(Ordering::Relaxed), then, "{done} {edge}");
            assert_eq!(b.rcv.urgent.load(Ordering::Relaxed), urgent);
        }
    }

    #[test]
    fn little_that_is_read_adds_up_until_the_engine_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let engine = Engine::start(directory.path());
        let host = engine.join();
        let (writer, reader) = Engine::pair(host);
        writer.write_all(&[7; 1500]).unwrap();
        let block = reader.socket().block();
        block.unreported_limit.store(1000, Ordering::Relaxed);
        // Each time the process is about to sleep after it has read so much.
        for (read, reported) in [(400, 0), (400, 0), (200, 1000), (200, 1000)] {
            let mut buf = vec![0; read];
            assert_eq!(reader.read(&mut buf).unwrap(), read);
            host.messages().flush().unwrap();
            assert_eq!(block.rcv.reported.load(Ordering::Relaxed), reported);
        }
        // What was little becomes much.
        block.unreported_limit.store(200, Ordering::Relaxed);
        host.sockets()
            .list_unreported(reader.socket().id())
            .unwrap();
        host.messages().flush().unwrap();
        assert_eq!(block.rcv.reported.load(Ordering::Relaxed), 1200);
    }
}
