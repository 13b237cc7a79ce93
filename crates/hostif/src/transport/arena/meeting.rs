//! The words by which programs and a worker of the engine find each other: who has published
//! requests for it, and whether it sleeps.
//!
//! Owns [`Meeting`], of which each end of a channel has one, as these words are touched for each
//! batch: where a worker's lie is found once.

use super::Arena;
use crate::abi::{Header, RequestsPending, WorkerWords};
use longshore_ring::{SharedArray, Waiter};
use std::mem::offset_of;

/// Those of one worker.
#[derive(Debug)]
pub struct Meeting {
    pending: SharedArray<RequestsPending>,
    engine: SharedArray<Waiter>,
}

impl Meeting {
    /// By which it finds out who has published requests for it.
    #[inline]
    #[must_use]
    pub fn pending(&self) -> &RequestsPending {
        &self.pending[0]
    }

    /// Where it sleeps.
    #[inline]
    #[must_use]
    pub fn engine(&self) -> &Waiter {
        &self.engine[0]
    }
}

impl Arena {
    /// The words by which programs and a worker find each other.
    ///
    /// # Panics
    /// If there is no such worker.
    #[must_use]
    pub fn meeting(&self, worker: u32) -> Meeting {
        let header = offset_of!(Header, requests_pending);
        let (pending, engine) = match worker.checked_sub(1) {
            None => (header, offset_of!(Header, engine)),
            Some(further) => {
                assert!(worker < self.geometry.workers);
                let words = self.at.workers + further as usize * size_of::<WorkerWords>();
                let engine = words + offset_of!(WorkerWords, engine);
                (words + offset_of!(WorkerWords, requests_pending), engine)
            }
        };
        Meeting {
            pending: self.memory.keep(pending, 1),
            engine: self.memory.keep(engine, 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::{Agreed, Geometry};

    /// The second worker's lie where its words begin, and those of each further one behind them.
    #[test]
    fn the_words_of_workers_follow_each_other() {
        let geometry = Geometry {
            workers: 4,
            ..Geometry::SMALL
        };
        let agreed = Agreed::OURS.with_workers(geometry.workers);
        let arena = Arena::create_for(geometry, agreed).unwrap();
        let at = |worker| {
            let meeting = arena.meeting(worker);
            let pending = std::ptr::from_ref(meeting.pending()).addr();
            let engine = std::ptr::from_ref(meeting.engine()).addr();
            [pending, engine]
        };
        let header = std::ptr::from_ref(arena.header()).addr();
        let first = [
            offset_of!(Header, requests_pending),
            offset_of!(Header, engine),
        ];
        assert_eq!(at(0), first.map(|offset| header + offset));
        let words = [
            offset_of!(WorkerWords, requests_pending),
            offset_of!(WorkerWords, engine),
        ];
        for further in 0..3 {
            let begin = header + arena.at.workers + further as usize * size_of::<WorkerWords>();
            assert_eq!(at(further + 1), words.map(|offset| begin + offset));
        }
    }
}
