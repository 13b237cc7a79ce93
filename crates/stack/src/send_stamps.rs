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
    /// One byte behind that of which it is said.
    end: u64,
    kinds: u8,
}

const SCHEDULED: u8 = 1;
const SENT: u8 = 2;
const ACKNOWLEDGED: u8 = 4;
/// Bits of the position.
const POSITION: u32 = 48;

/// What is to be said, and what was not taken yet; the oldest first.
#[derive(Debug, Default)]
pub(crate) struct SendStamps {
    /// From where on bytes are counted, if they are.
    keys_from: Option<u64>,
    asked: VecDeque<Asked>,
    told: VecDeque<(SentStampKind, SentStamp)>,
}

impl SendStamps {
    /// Counts bytes from here on, or not.
    pub(crate) fn count_from(&mut self, keys_from: Option<u64>) {
        self.keys_from = keys_from;
    }

    /// Takes what is asked for; `false` if too much is waited for.
    #[must_use]
    pub(crate) fn ask(&mut self, value: u64) -> bool {
        let asked = Asked {
            end: value & ((1 << POSITION) - 1),
            kinds: (value >> POSITION) as u8 & (SCHEDULED | SENT | ACKNOWLEDGED),
        };
        let has_room = self.asked.len() < MOST;
        if has_room && asked.end != 0 && asked.kinds != 0 {
            if self.asked.capacity() == 0 {
                self.asked.reserve_exact(MOST);
                self.told.reserve_exact(MOST);
            }
            self.asked.push_back(asked);
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
