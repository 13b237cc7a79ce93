//! What the sending half keeps beside its edges: how far a connection was sent, if it has
//! TCP_NOTSENT_LOWAT, and how a datagram socket sends, as its program has set it: kept in the
//! socket's block, by the host alone, and copied to the record of each datagram. So what a program
//! sets later does not reach what it has sent before.

use super::SocketBlock;
use crate::abi::PathMtu;
use std::sync::atomic::{AtomicU64, Ordering};

/// What the datagrams of one version of IP leave with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sending {
    /// IP_TTL or IPV6_UNICAST_HOPS; `None` leaves it to the engine.
    pub hops: Option<u8>,
    /// IP_TOS or IPV6_TCLASS.
    pub class: u8,
    /// IP_MULTICAST_TTL or IPV6_MULTICAST_HOPS.
    pub group_hops: u8,
    /// IP_MULTICAST_LOOP or IPV6_MULTICAST_LOOP.
    pub looped: bool,
    /// IP_MTU_DISCOVER or IPV6_MTU_DISCOVER.
    pub path_mtu: PathMtu,
    /// IPV6_DONTFRAG: what the path does not take is refused.
    pub whole: bool,
    /// IPV6_MTU, set to the least that a path of IPv6 takes: what is longer than that is cut, or
    /// refused, as if its path took no more.
    pub least: bool,
    /// SO_NO_CHECK: it leaves without a checksum (IPv4 alone).
    pub unsummed: bool,
}

impl Default for Sending {
    fn default() -> Self {
        Self {
            hops: None,
            class: 0,
            group_hops: 1,
            looped: true,
            path_mtu: PathMtu::default(),
            whole: false,
            least: false,
            unsummed: false,
        }
    }
}

/// What the engine says of a stream that has a low-water mark of what is not sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NotSent {
    /// How far the windows let it be sent, were it written; at least how far it was.
    pub sendable: u64,
    /// Bytes of one buffer: before the next is begun the mark is looked at. 0 if a write ends
    /// at the mark.
    pub size_goal: u32,
    /// The mark where its program has set none (net.ipv4.tcp_notsent_lowat), bytes; 0 for none.
    pub usual: u32,
}

const HAS_HOPS: u32 = 1 << 24;
const NOT_LOOPED: u32 = 1 << 25;
const PATH_MTU_SHIFT: u32 = 26;
const WHOLE: u32 = 1 << 29;
const LEAST: u32 = 1 << 30;
const UNSUMMED: u32 = 1 << 31;

impl Sending {
    /// In a word, which is zero for the default.
    fn encode(self) -> u32 {
        let hops = self.hops.map_or(0, |hops| HAS_HOPS | u32::from(hops));
        let looped = if self.looped { 0 } else { NOT_LOOPED };
        let path_mtu = self.path_mtu as u32 ^ PathMtu::default() as u32;
        hops | u32::from(self.class) << 8
            | u32::from(self.group_hops ^ 1) << 16
            | looped
            | if self.whole { WHOLE } else { 0 }
            | if self.least { LEAST } else { 0 }
            | if self.unsummed { UNSUMMED } else { 0 }
            | path_mtu << PATH_MTU_SHIFT
    }

    fn decode(word: u32) -> Self {
        let path_mtu = word >> PATH_MTU_SHIFT ^ PathMtu::default() as u32;
        Self {
            hops: (word & HAS_HOPS != 0).then_some(word as u8),
            class: (word >> 8) as u8,
            group_hops: (word >> 16) as u8 ^ 1,
            looped: word & NOT_LOOPED == 0,
            path_mtu: PathMtu::from_raw(path_mtu),
            whole: word & WHOLE != 0,
            least: word & LEAST != 0,
            unsummed: word & UNSUMMED != 0,
        }
    }
}

impl SocketBlock {
    /// Where both stand, IPv4's in the lower half.
    fn sending_word(&self) -> &AtomicU64 {
        &self.snd.sending_or_notices
    }

    /// Further bits that the host keeps (`sockets` says what they mean).
    pub fn more_bits(&self) -> &AtomicU64 {
        &self.snd.more_bits
    }

    /// Says how far the stream may be sent, for one that has a low-water mark of what is not
    /// (TCP_NOTSENT_LOWAT); its one writer is the engine. Whether who was held up by the
    /// mark may go on now, as Linux has it: less than half of it is left.
    pub fn note_sent(&self, edge: u64, sendable: u64, lowat: u32) -> bool {
        let before = self.snd.sent_or_notices.swap(sendable, Ordering::AcqRel);
        is_held_up(edge, before, lowat.into()) && !is_held_up(edge, sendable, lowat.into())
    }

    /// What the engine has said last.
    pub(crate) fn not_sent(&self) -> NotSent {
        NotSent {
            sendable: self.snd.sent_or_notices.load(Ordering::Relaxed),
            size_goal: self.syn_room_or_size_goal.load(Ordering::Relaxed),
            usual: self.usual_lowat.load(Ordering::Relaxed),
        }
    }

    /// Says that.
    pub(crate) fn set_not_sent(&self, not_sent: &NotSent) {
        let NotSent {
            sendable,
            size_goal,
            usual,
        } = *not_sent;
        self.snd.sent_or_notices.store(sendable, Ordering::Release);
        self.note_size_goal(size_goal, usual);
    }

    /// Says all of that but how far the stream may be sent.
    pub(crate) fn note_size_goal(&self, size_goal: u32, usual: u32) {
        self.syn_room_or_size_goal
            .store(size_goal, Ordering::Release);
        self.usual_lowat.store(usual, Ordering::Release);
    }

    /// The low-water mark, bytes: the program's, or the usual one; `None` if there is none.
    #[inline]
    fn lowat(&self) -> Option<u64> {
        let own = self.snd.low_water.load(Ordering::Relaxed);
        let usual = self.usual_lowat.load(Ordering::Relaxed);
        if own | usual == 0 {
            return None;
        }
        let lowat = if own == 0 { usual } else { own };
        // All ones is none, too, and takes the place of the usual one.
        (lowat != u32::MAX).then_some(lowat.into())
    }

    /// How far the windows let the stream be sent: it will be without waiting for the peer.
    pub(super) fn sendable(&self) -> u64 {
        let sendable = self.snd.sent_or_notices.load(Ordering::Acquire);
        sendable.max(self.snd.done.load(Ordering::Acquire))
    }

    /// How much more may be written before as much as the low-water mark is not sent. As Linux
    /// looks at the mark when it begins a buffer, and fills what it has begun, that is the mark
    /// rounded up to whole buffers.
    #[inline]
    pub fn room_before_lowat(&self) -> u64 {
        match self.lowat() {
            None => u64::MAX,
            Some(lowat) => self.room_before(lowat),
        }
    }

    // Few sockets have a mark: those that have none do not make room for what it takes to compare.

    #[cold]
    fn room_before(&self, lowat: u64) -> u64 {
        let size_goal = self.syn_room_or_size_goal.load(Ordering::Acquire).max(1);
        let most = lowat.next_multiple_of(size_goal.into());
        let edge = self.snd.edge.load(Ordering::Acquire);
        self.sendable().saturating_add(most).saturating_sub(edge)
    }

    /// Whether as little is not sent as whoever was held up by the low-water mark waits for: less
    /// than half of it.
    #[inline]
    pub fn is_below_lowat(&self) -> bool {
        self.lowat().is_none_or(|lowat| self.is_below(lowat))
    }

    #[cold]
    fn is_below(&self, lowat: u64) -> bool {
        let edge = self.snd.edge.load(Ordering::Acquire);
        !is_held_up(edge, self.sendable(), lowat)
    }

    /// What its datagrams of one version of IP leave with.
    pub fn sending(&self, ipv6: bool) -> Sending {
        let word = self.sending_word().load(Ordering::Acquire);
        Sending::decode((word >> shift(ipv6)) as u32)
    }

    /// Changes that.
    pub fn change_sending(&self, ipv6: bool, change: impl Fn(&mut Sending)) {
        let shift = shift(ipv6);
        let changed = |word: u64| {
            let mut sending = Sending::decode((word >> shift) as u32);
            change(&mut sending);
            let others = word & !(u64::from(u32::MAX) << shift);
            Some(others | u64::from(sending.encode()) << shift)
        };
        // It always has a value, so it always succeeds.
        let _ = self
            .sending_word()
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, changed);
    }
}

/// Whether half of the mark `lowat` or more is not sent of a stream.
fn is_held_up(edge: u64, sendable: u64, lowat: u64) -> bool {
    edge.saturating_sub(sendable).saturating_mul(2) >= lowat
}

const fn shift(ipv6: bool) -> u32 {
    if ipv6 { 32 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::block::tests::block;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_set_is_kept(hops: Option<u8>, class: u8, group_hops: u8, looped: bool, whole: bool, least: bool, unsummed: bool, raw: u32) {
            let path_mtu = PathMtu::from_raw(raw);
            let sending = Sending { hops, class, group_hops, looped, path_mtu, whole, least, unsummed };
            prop_assert_eq!(Sending::decode(sending.encode()), sending);
        }
    }

    #[test]
    fn who_was_held_up_goes_on_below_half_of_the_mark() {
        let memory = longshore_ring::SharedMemory::create("block", 4096).unwrap();
        let block: &SocketBlock = memory.at(0);
        let free = crate::BlockFlags::empty();
        block.begin(crate::SocketState::Connected, free);
        assert_eq!(block.room_before_lowat(), u64::MAX);
        block.snd.low_water.store(100, Ordering::Relaxed);
        block.snd.edge.store(100, Ordering::Relaxed);
        assert_eq!(block.room_before_lowat(), 0);
        assert!(!block.note_sent(100, 50, 100));
        assert_eq!(block.room_before_lowat(), 50);
        assert!(block.note_sent(100, 51, 100));
        assert!(!block.note_sent(100, 100, 100), "it was told");
        assert_eq!(block.room_before_lowat(), 100);
    }

    /// Of one version of IP, and of no other; nor of the bits beside.
    #[test]
    fn what_is_set_for_one_version_of_ip_leaves_the_other_alone() {
        let b = block();
        b.more_bits().store(u64::MAX, Ordering::Relaxed);
        for round in 0..2 {
            b.change_sending(false, |sending| sending.class = 4 + round);
            b.change_sending(true, |sending| sending.hops = Some(6 - round));
            b.change_sending(true, |sending| sending.class = 9);
            let of = |hops, class| Sending {
                hops,
                class,
                ..Sending::default()
            };
            assert_eq!(b.sending(false), of(None, 4 + round));
            assert_eq!(b.sending(true), of(Some(6 - round), 9));
        }
        assert_eq!(b.more_bits().load(Ordering::Relaxed), u64::MAX);
    }

    /// The word is what a program of another release sees.
    #[test]
    fn each_part_has_its_bits() {
        let set = |set: fn(&mut Sending)| {
            let mut sending = Sending::default();
            set(&mut sending);
            sending.encode()
        };
        assert_eq!(set(|s| s.hops = Some(9)), 1 << 24 | 9);
        assert_eq!(set(|s| s.class = 9), 9 << 8);
        assert_eq!(set(|s| s.group_hops = 8), 9 << 16);
        assert_eq!(set(|s| s.looped = false), 1 << 25);
        assert_eq!(set(|s| s.whole = true), 1 << 29);
        assert_eq!(set(|s| s.least = true), 1 << 30);
        assert_eq!(set(|s| s.unsummed = true), 1 << 31);
    }

    #[test]
    fn how_far_it_was_sent_is_what_was_said_last_or_acknowledged() {
        let b = block();
        b.snd.low_water.store(100, Ordering::Relaxed);
        b.snd.edge.store(100, Ordering::Relaxed);
        b.note_sent(100, 40, 100);
        assert_eq!((b.not_sent().sendable, b.room_before_lowat()), (40, 40));
        b.snd.done.store(60, Ordering::Relaxed);
        assert_eq!((b.not_sent().sendable, b.room_before_lowat()), (40, 60));
    }

    /// A buffer that is begun is filled, and what the windows take is not counted.
    #[test]
    fn what_may_be_written_is_whole_buffers_beyond_what_may_be_sent() {
        let b = block();
        b.snd.low_water.store(4_000, Ordering::Relaxed);
        let not_sent = NotSent {
            sendable: 10_000,
            size_goal: 16_000,
            usual: 9,
        };
        b.set_not_sent(&not_sent);
        assert_eq!(b.not_sent(), not_sent);
        assert_eq!(b.room_before_lowat(), 26_000);
        b.snd.edge.store(26_000, Ordering::Relaxed);
        assert_eq!(b.room_before_lowat(), 0);
        assert!(!b.is_below_lowat());
        for (sendable, room, is_below) in [
            (20_000, 10_000, false),
            (24_000, 14_000, false),
            (24_001, 14_001, true),
            (30_000, 20_000, true),
        ] {
            b.note_sent(26_000, sendable, 4_000);
            assert_eq!(b.room_before_lowat(), room, "{sendable}");
            assert_eq!(b.is_below_lowat(), is_below, "{sendable}");
        }
        b.snd.low_water.store(16_001, Ordering::Relaxed);
        assert_eq!(b.room_before_lowat(), 30_000 + 32_000 - 26_000);
    }

    #[test]
    fn the_usual_mark_counts_where_the_program_has_set_none() {
        let b = block();
        b.snd.edge.store(100, Ordering::Relaxed);
        b.note_size_goal(0, 150);
        assert_eq!((b.room_before_lowat(), b.is_below_lowat()), (50, false));
        b.snd.low_water.store(150, Ordering::Relaxed);
        assert_eq!(b.room_before_lowat(), 50, "both are the same");
        b.snd.low_water.store(500, Ordering::Relaxed);
        assert_eq!((b.room_before_lowat(), b.is_below_lowat()), (400, true));
        b.snd.low_water.store(u32::MAX, Ordering::Relaxed);
        assert_eq!(
            (b.room_before_lowat(), b.is_below_lowat()),
            (u64::MAX, true)
        );
    }

    #[test]
    fn nothing_set_is_the_default() {
        assert_eq!(Sending::default().encode(), 0);
        assert_eq!(Sending::decode(0), Sending::default());
    }
}
