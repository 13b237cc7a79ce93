//! Reports of errors that a program has not read yet (IP_RECVERR, IPV6_RECVERR).
//!
//! Owns [`ErrorQueue`], which each socket has; its `errors` fills and empties it.

use crate::bytes::{part, put};
use crate::counters::{Counters, EngineDrop};
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

/// Reports, the oldest first; room for them is made with the first one, and kept.
#[derive(Debug, Default)]
pub(crate) struct ErrorQueue(Option<Box<Reports>>);

#[derive(Debug)]
struct Reports(VecDeque<Kept>);

impl ErrorQueue {
    /// Puts a report behind the others with what it quotes; one that finds no room is counted.
    pub(crate) fn put(&mut self, report: ErrorReport, quoted: &[u8], counters: &mut Counters) {
        let first = || Box::new(Reports(VecDeque::with_capacity(MOST)));
        let reports = &mut self.0.get_or_insert_with(first).0;
        if reports.len() == MOST {
            return counters.drop(EngineDrop::ErrorQueueFull);
        }
        let len = quoted.len().min(ERROR_PAYLOAD);
        let mut payload = [0; ERROR_PAYLOAD];
        put(&mut payload, 0, part(quoted, 0..len));
        reports.push_back(Kept {
            report,
            len: len as u16,
            payload,
        });
    }

    /// Takes the oldest one out.
    pub(crate) fn take_oldest(&mut self) -> Option<Kept> {
        self.0.as_mut()?.0.pop_front()
    }

    /// The oldest one.
    pub(crate) fn oldest(&self) -> Option<&ErrorReport> {
        self.0.as_ref()?.0.front().map(|kept| &kept.report)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> u32 {
        self.0.as_ref().map_or(0, |reports| reports.0.len() as u32)
    }

    /// Whether there were any since it was made, or emptied by [`forget`](Self::forget).
    pub(crate) fn were_any(&self) -> bool {
        self.0.is_some()
    }

    /// Forgets all; whether there were any.
    pub(crate) fn forget(&mut self) -> bool {
        self.0.take().is_some()
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
        assert!(queue.forget() && !queue.forget() && !queue.were_any());
    }
}
