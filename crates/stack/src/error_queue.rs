//! Reports of errors that a program has not read yet (IP_RECVERR, IPV6_RECVERR).
//!
//! A socket has an [`ErrorQueue`] once there is one; `errors` fills and empties it.

use crate::bytes::{part, put};
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

/// Reports, the oldest first; made with the first one, of which it keeps the room.
#[derive(Debug)]
pub(crate) struct ErrorQueue {
    pub(crate) reports: VecDeque<Kept>,
}

impl ErrorQueue {
    pub(crate) fn new() -> Box<Self> {
        Box::new(Self {
            reports: VecDeque::with_capacity(MOST),
        })
    }

    /// Says whether there was room.
    pub(crate) fn put(&mut self, report: ErrorReport, quoted: &[u8]) -> bool {
        if self.reports.len() == MOST {
            return false;
        }
        let len = quoted.len().min(ERROR_PAYLOAD);
        let mut payload = [0; ERROR_PAYLOAD];
        put(&mut payload, 0, part(quoted, 0..len));
        self.reports.push_back(Kept {
            report,
            len: len as u16,
            payload,
        });
        true
    }
}
