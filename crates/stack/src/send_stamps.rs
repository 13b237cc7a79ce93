//! When what a program has sent left, and was acknowledged, as it has asked (SO_TIMESTAMPING): what is
//! to be said, and what it was not told yet.
//!
//! [`SendStamps`] stand beside a socket's reports of errors; `socket::sent` fills them when the
//! socket is flushed, and `errors` hands out what there is.

use longshore_hostif::{SentStamp, SentStampKind};
use std::collections::VecDeque;

/// Positions of a stream for which a program may wait at a time, and stamps that are kept until it
/// takes them; of further ones nothing is said.
const MOST: usize = 128;

/// What is to be said of a position of a stream, as the bits of
/// [`OptionName::StampSent`](longshore_hostif::OptionName).
#[derive(Debug, Clone, Copy)]
struct Asked {
    /// One byte behind that of which it is said, or behind the record of the datagram.
    end: u64,
    kinds: u8,
    /// Which datagram that is.
    key: u32,
}

/// What is to be said of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AskedOfDatagram {
    kinds: u8,
    /// Which one it is, counted from 0; 0 if they are not counted.
    pub(crate) key: u32,
}

impl AskedOfDatagram {
    /// What is said when it leaves, in this order.
    pub(crate) fn kinds(self) -> impl Iterator<Item = SentStampKind> {
        let of = |bit: u8, kind| (self.kinds & bit != 0).then_some(kind);
        [
            of(SCHEDULED, SentStampKind::Scheduled),
            of(SENT, SentStampKind::Sent),
        ]
        .into_iter()
        .flatten()
    }

    /// Whether its packet is said, too.
    pub(crate) fn with_packet(self) -> bool {
        self.kinds & WITH_PACKET != 0
    }
}

const SCHEDULED: u8 = 1;
const SENT: u8 = 2;
const ACKNOWLEDGED: u8 = 4;
const WITH_PACKET: u8 = 8;
/// Bits of the position.
const POSITION: u32 = 48;

/// What is to be said, and what was not taken yet; the oldest first.
#[derive(Debug, Default)]
pub(crate) struct SendStamps {
    /// From where on bytes are counted, if they are.
    keys_from: Option<u64>,
    /// How many datagrams were counted, if they are.
    datagrams: Option<u32>,
    asked: VecDeque<Asked>,
    told: VecDeque<(SentStampKind, SentStamp)>,
}

impl SendStamps {
    /// Counts bytes from here on, or not.
    pub(crate) fn count_from(&mut self, keys_from: Option<u64>) {
        self.keys_from = keys_from;
    }

    /// Counts datagrams from now on, or not.
    pub(crate) fn count_datagrams(&mut self, on: bool) {
        self.datagrams = on.then_some(0);
    }

    /// Takes what is asked for of a stream; `false` if too much is waited for.
    #[must_use]
    pub(crate) fn ask(&mut self, value: u64) -> bool {
        self.push(value, SCHEDULED | SENT | ACKNOWLEDGED, 0)
    }

    /// Takes what is asked for of the next datagram; `false` if too much is waited for.
    #[must_use]
    pub(crate) fn ask_of_datagram(&mut self, value: u64) -> bool {
        let key = self.datagrams.unwrap_or(0);
        if let Some(datagrams) = &mut self.datagrams {
            *datagrams = key.wrapping_add(1);
        }
        self.push(value, SCHEDULED | SENT | WITH_PACKET, key)
    }

    fn push(&mut self, value: u64, known: u8, key: u32) -> bool {
        let asked = Asked {
            end: value & ((1 << POSITION) - 1),
            kinds: (value >> POSITION) as u8 & known,
            key,
        };
        let has_room = self.asked.len() < MOST;
        if has_room && asked.end != 0 && asked.kinds & !WITH_PACKET != 0 {
            if self.asked.capacity() == 0 {
                self.asked.reserve_exact(MOST);
                self.told.reserve_exact(MOST);
            }
            self.asked.push_back(asked);
        }
        has_room
    }

    /// The datagram whose record ends at `end` is done with: what is to be said if it has left. Of
    /// those before it nothing is said any more.
    pub(crate) fn take_asked(&mut self, end: u64) -> Option<AskedOfDatagram> {
        while let Some(asked) = self.asked.pop_front_if(|asked| asked.end <= end) {
            if asked.end == end {
                let Asked { kinds, key, .. } = asked;
                return Some(AskedOfDatagram { kinds, key });
            }
        }
        None
    }

    /// Keeps what is said without a packet; `false` if there is no room for it.
    #[must_use]
    pub(crate) fn tell(&mut self, kind: SentStampKind, stamp: SentStamp) -> bool {
        let has_room = self.told.len() < MOST;
        if has_room {
            self.told.push_back((kind, stamp));
        }
        has_room
    }

    /// Whether something is still to be said.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.asked.is_empty()
    }

    /// Whether there is something to say of a stream that was sent and acknowledged so far.
    pub(crate) fn is_due(&self, sent: u64, acked: u64) -> bool {
        let is_due = |asked: &Asked| {
            asked.kinds & !ACKNOWLEDGED != 0 && asked.end <= sent || asked.end <= acked
        };
        self.asked.iter().any(is_due)
    }

    /// Keeps what there is to say at `at_ns` (nanoseconds since 1970) of a stream that was sent and
    /// acknowledged so far; how much there was no room for.
    pub(crate) fn note(&mut self, sent: u64, acked: u64, at_ns: u64) -> usize {
        let (told, keys_from, mut lost) = (&mut self.told, self.keys_from, 0);
        let mut say = |kind, end: u64| {
            if told.len() == MOST {
                lost += 1;
                return;
            }
            let key = keys_from.map_or(0, |from| end.wrapping_sub(from).wrapping_sub(1) as u32);
            let at_ns = at_ns.max(1);
            told.push_back((kind, SentStamp { at_ns, key }));
        };
        for asked in &mut self.asked {
            if asked.end > sent {
                continue;
            }
            if asked.kinds & SCHEDULED != 0 {
                say(SentStampKind::Scheduled, asked.end);
            }
            if asked.kinds & SENT != 0 {
                say(SentStampKind::Sent, asked.end);
            }
            asked.kinds &= ACKNOWLEDGED;
        }
        for asked in &mut self.asked {
            if asked.kinds == ACKNOWLEDGED && asked.end <= acked {
                say(SentStampKind::Acknowledged, asked.end);
                asked.kinds = 0;
            }
        }
        self.asked.retain(|asked| asked.kinds != 0);
        lost
    }

    /// How many stamps were not taken.
    pub(crate) fn len(&self) -> usize {
        self.told.len()
    }

    /// Takes the oldest stamp.
    pub(crate) fn take(&mut self) -> Option<(SentStampKind, SentStamp)> {
        self.told.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use SentStampKind::{Acknowledged, Scheduled, Sent};

    fn asks(stamps: &mut SendStamps, end: u64, kinds: u8) -> bool {
        stamps.ask(end | u64::from(kinds) << POSITION)
    }

    /// Each as it leaves, whatever became of those before it; hardware's stamps are counted, too.
    #[test]
    fn datagrams_are_counted_as_they_are_asked_about() {
        let ask = |stamps: &mut SendStamps, end: u64, kinds: u8| {
            stamps.ask_of_datagram(end | u64::from(kinds) << POSITION)
        };
        let kinds = |asked: AskedOfDatagram| asked.kinds().collect::<Vec<_>>();
        let mut stamps = SendStamps::default();
        assert!(ask(&mut stamps, 40, SENT));
        stamps.count_datagrams(true);
        assert!(ask(&mut stamps, 80, 0) && ask(&mut stamps, 120, SENT | WITH_PACKET));
        assert!(ask(&mut stamps, 160, SCHEDULED | SENT | ACKNOWLEDGED));
        assert_eq!(stamps.take_asked(39), None);
        let first = stamps.take_asked(40).unwrap();
        assert_eq!(
            (kinds(first), first.key, first.with_packet()),
            (vec![Sent], 0, false)
        );
        assert_eq!(stamps.take_asked(80), None, "hardware has no clock");
        let second = stamps.take_asked(120).unwrap();
        assert_eq!(
            (kinds(second), second.key, second.with_packet()),
            (vec![Sent], 1, true)
        );
        assert!(ask(&mut stamps, 200, SENT));
        let last = stamps.take_asked(200).unwrap();
        assert_eq!((kinds(last), last.key), (vec![Sent], 3), "one was left out");
        assert!(!stamps.is_waiting());
        let stamp = SentStamp { at_ns: 1, key: 0 };
        assert!((0..MOST).all(|_| stamps.tell(Sent, stamp)) && !stamps.tell(Sent, stamp));
    }

    fn taken(stamps: &mut SendStamps) -> Vec<(SentStampKind, u64, u32)> {
        std::iter::from_fn(|| stamps.take())
            .map(|(kind, stamp)| (kind, stamp.at_ns, stamp.key))
            .collect()
    }

    #[test]
    fn each_is_said_once_when_it_has_happened() {
        let mut stamps = SendStamps::default();
        stamps.count_from(Some(100));
        assert!(asks(&mut stamps, 2_100, 7) && asks(&mut stamps, 4_100, 7));
        assert!(!stamps.is_due(2_099, 100) && stamps.is_due(2_100, 100));
        assert_eq!(stamps.note(4_099, 100, 10), 0);
        assert_eq!(
            taken(&mut stamps),
            [(Scheduled, 10, 1_999), (Sent, 10, 1_999)]
        );
        assert!(!stamps.is_due(4_099, 2_099));
        assert_eq!(stamps.note(4_100, 2_100, 20), 0);
        let expected = [
            (Scheduled, 20, 3_999),
            (Sent, 20, 3_999),
            (Acknowledged, 20, 1_999),
        ];
        assert_eq!(taken(&mut stamps), expected);
        assert!(stamps.is_waiting() && !stamps.is_due(9_000, 4_099));
        assert_eq!(stamps.note(9_000, 4_100, 30), 0);
        assert_eq!(taken(&mut stamps), [(Acknowledged, 30, 3_999)]);
        assert!(!stamps.is_waiting());
    }

    #[test]
    fn what_is_asked_for_alone_is_said_and_bytes_need_not_be_counted() {
        for (kinds, expected) in [
            (1, &[Scheduled][..]),
            (2, &[Sent]),
            (4, &[Acknowledged]),
            (6, &[Sent, Acknowledged]),
            (0, &[]),
            (8, &[]),
        ] {
            let mut stamps = SendStamps::default();
            assert!(asks(&mut stamps, 10, kinds));
            stamps.note(10, 9, 5);
            stamps.note(10, 10, 5);
            let kinds: Vec<_> = taken(&mut stamps).iter().map(|(kind, ..)| *kind).collect();
            assert_eq!(kinds, expected);
        }
        let mut stamps = SendStamps::default();
        assert!(asks(&mut stamps, 10, 2));
        stamps.note(10, 0, 5);
        assert_eq!(taken(&mut stamps), [(Sent, 5, 0)]);
    }

    /// A program that asks and never looks.
    #[test]
    fn no_more_is_kept_than_there_is_room_for() {
        let mut stamps = SendStamps::default();
        let most = MOST as u64;
        assert!((1..=most).all(|end| asks(&mut stamps, end, 7)));
        assert!(!asks(&mut stamps, most + 1, 7));
        assert_eq!(stamps.note(most, 0, 1), MOST);
        assert_eq!((stamps.len(), stamps.is_waiting()), (MOST, true));
        assert_eq!(stamps.note(most, most, 2), MOST);
        assert!(!stamps.is_waiting());
        assert_eq!(taken(&mut stamps).len(), MOST);
    }
}
