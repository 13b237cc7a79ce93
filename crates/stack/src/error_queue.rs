//! Reports that a program has not read yet: of errors (IP_RECVERR, IPV6_RECVERR), and of when what it has
//! sent left (SO_TIMESTAMPING).
//!
//! Owns [`ErrorQueue`], which each socket has; its `errors` fills and empties it.

use crate::bytes::{part, put};
use crate::counters::{Counters, EngineDrop};
use crate::send_stamps::SendStamps;
use longshore_hostif::{ERROR_PAYLOAD, ErrorReport};
use std::collections::VecDeque;

/// Reports that a socket keeps; further ones are dropped until some are read.
const MOST: usize = 16;
/// A report with what it quotes.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) report: ErrorReport,
    pub(crate) len: u16,
    pub(crate) payload: [u8; ERROR_PAYLOAD],
}

/// What it has to report, made with the first report or when the program first asks for stamps.
#[derive(Debug, Default)]
pub(crate) struct ErrorQueue(Option<Box<Reports>>);

#[derive(Debug, Default)]
struct Reports {
    /// The oldest first; room for them is made with the first one, and kept.
    errors: VecDeque<Kept>,
    /// When what was sent left, if the program has asked.
    stamps: SendStamps,
}

impl ErrorQueue {
    /// Puts a report behind the others with what it quotes; one that finds no room is counted.
    pub(crate) fn put(&mut self, report: ErrorReport, quoted: &[u8], counters: &mut Counters) {
        let errors = &mut self.0.get_or_insert_default().errors;
        if errors.len() == MOST {
            return counters.drop(EngineDrop::ErrorQueueFull);
        }
        if errors.capacity() == 0 {
            errors.reserve_exact(MOST);
        }
        let len = quoted.len().min(ERROR_PAYLOAD);
        let mut payload = [0; ERROR_PAYLOAD];
        put(&mut payload, 0, part(quoted, 0..len));
        errors.push_back(Kept {
            report,
            len: len as u16,
            payload,
        });
    }

    /// Takes the oldest report of an error out.
    pub(crate) fn take_oldest(&mut self) -> Option<Kept> {
        self.0.as_mut()?.errors.pop_front()
    }

    /// The oldest one.
    pub(crate) fn oldest(&self) -> Option<&ErrorReport> {
        self.0.as_ref()?.errors.front().map(|kept| &kept.report)
    }

    /// How many reports there are, stamps among them.
    pub(crate) fn len(&self) -> u32 {
        let kept = |reports: &Reports| reports.errors.len() + reports.stamps.len();
        self.0.as_deref().map_or(0, kept) as u32
    }

    /// Whether there was anything to report, or asked for, since it was made.
    pub(crate) fn were_any(&self) -> bool {
        self.0.is_some()
    }

    /// Forgets all errors, but not the stamps; whether there was anything to report.
    pub(crate) fn forget(&mut self) -> bool {
        let Some(reports) = &mut self.0 else {
            return false;
        };
        reports.errors = VecDeque::new();
        true
    }

    /// When what was sent left, if the program has asked for that or was told of an error.
    pub(crate) fn stamps(&self) -> Option<&SendStamps> {
        self.0.as_deref().map(|reports| &reports.stamps)
    }

    /// As `stamps`, to change it.
    pub(crate) fn stamps_mut(&mut self) -> Option<&mut SendStamps> {
        self.0.as_deref_mut().map(|reports| &mut reports.stamps)
    }

    /// As `stamps_mut`; made if there are none.
    pub(crate) fn stamps_or_new(&mut self) -> &mut SendStamps {
        &mut self.0.get_or_insert_default().stamps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(errno: u16) -> ErrorReport {
        ErrorReport {
            errno,
            kind: 0,
            code: 0,
            info: 0,
            to: "10.0.0.1:7".parse().unwrap(),
            offender: None,
            stamp: None,
        }
    }

    #[test]
    fn the_oldest_is_read_first_and_what_finds_no_room_is_counted() {
        let (mut queue, mut counters) = (ErrorQueue::default(), Counters::new());
        assert!(!queue.were_any() && queue.take_oldest().is_none());
        for errno in 0..MOST as u16 + 2 {
            queue.put(report(errno), b"quoted", &mut counters);
        }
        assert_eq!(queue.len(), MOST as u32);
        let full = |(name, count): (&str, u64)| (name == "error_queue_full").then_some(count);
        assert_eq!(counters.drops().find_map(full), Some(2));
        for errno in 0..MOST as u16 {
            assert_eq!(queue.oldest().map(|oldest| oldest.errno), Some(errno));
            let kept = queue.take_oldest().unwrap();
            assert_eq!((kept.report.errno, kept.len), (errno, 6));
            assert_eq!(kept.payload[..7], *b"quoted\0");
        }
        assert_eq!((queue.len(), queue.were_any()), (0, true));
        queue.put(report(1), &[], &mut counters);
        assert!(queue.forget() && queue.take_oldest().is_none());
    }
}
