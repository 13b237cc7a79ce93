//! Frames kept in memory between two calls, and queues of them that reuse
//! their buffers, so that nothing is allocated per frame in the long run.

use std::collections::VecDeque;
use std::io::IoSliceMut;

use crate::{Gso, RxChecksum, RxMeta, TxFrame};

/// A frame and its offload information.
#[derive(Debug)]
pub(crate) struct StoredFrame {
    pub(crate) bytes: Vec<u8>,
    pub(crate) checksum: RxChecksum,
    pub(crate) gso: Option<Gso>,
}

impl StoredFrame {
    fn empty() -> Self {
        StoredFrame {
            bytes: Vec::new(),
            checksum: RxChecksum::Unknown,
            gso: None,
        }
    }

    /// Copies a frame as its receiver is to see it without further processing.
    pub(crate) fn copy_tx(&mut self, frame: &TxFrame<'_>) {
        self.bytes.clear();
        self.bytes.extend_from_slice(frame.headers);
        for piece in frame.payload {
            self.bytes.extend_from_slice(piece);
        }
        self.checksum = match frame.checksum {
            Some(c) => RxChecksum::Partial {
                start: c.start,
                offset: c.offset,
            },
            None => RxChecksum::Unknown,
        };
        self.gso = frame.gso.map(|g| Gso {
            kind: g.kind,
            size: g.size,
        });
    }

    /// Takes a copy of complete bytes.
    pub(crate) fn copy_whole(&mut self, bytes: &[u8]) {
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
        self.checksum = RxChecksum::Unknown;
        self.gso = None;
    }

    /// Fills `parts` in order. `None` if they are too short.
    pub(crate) fn scatter(&self, parts: &mut [IoSliceMut<'_>]) -> Option<RxMeta> {
        let mut rest = self.bytes.as_slice();
        for part in parts {
            let (now, later) = rest.split_at(rest.len().min(part.len()));
            part[..now.len()].copy_from_slice(now);
            rest = later;
        }
        rest.is_empty().then_some(RxMeta {
            len: self.bytes.len(),
            checksum: self.checksum,
            gso: self.gso,
        })
    }
}

/// A queue of frames.
#[derive(Debug, Default)]
pub(crate) struct FrameQueue {
    waiting: VecDeque<StoredFrame>,
    free: Vec<StoredFrame>,
}

/// Buffers kept for reuse by one queue; further ones are freed.
const KEPT: usize = 1024;

impl FrameQueue {
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// A frame to fill, reused if possible.
    pub(crate) fn take_empty(&mut self) -> StoredFrame {
        self.free.pop().unwrap_or_else(StoredFrame::empty)
    }

    /// Returns a frame's buffer for reuse.
    pub(crate) fn recycle(&mut self, frame: StoredFrame) {
        if self.free.len() < KEPT {
            self.free.push(frame);
        }
    }

    pub(crate) fn push(&mut self, frame: StoredFrame) {
        self.waiting.push_back(frame);
    }

    pub(crate) fn pop(&mut self) -> Option<StoredFrame> {
        self.waiting.pop_front()
    }

    pub(crate) fn front(&self) -> Option<&StoredFrame> {
        self.waiting.front()
    }
}
