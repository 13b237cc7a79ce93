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

    /// Fills the beginning of `buffer`. `None` if it is too short.
    #[inline]
    pub(crate) fn copy_to(&self, buffer: &mut [u8]) -> Option<RxMeta> {
        let room = buffer.get_mut(..self.bytes.len())?;
        room.copy_from_slice(&self.bytes);
        Some(self.meta())
    }

    /// Fills `parts` in order. `None` if they are too short.
    pub(crate) fn scatter(&self, parts: &mut [IoSliceMut<'_>]) -> Option<RxMeta> {
        let mut rest = self.bytes.as_slice();
        for part in parts {
            let (now, later) = rest.split_at(rest.len().min(part.len()));
            part[..now.len()].copy_from_slice(now);
            rest = later;
        }
        rest.is_empty().then(|| self.meta())
    }

    #[inline]
    fn meta(&self) -> RxMeta {
        RxMeta {
            len: self.bytes.len(),
            checksum: self.checksum,
            gso: self.gso,
        }
    }
}

/// A queue of frames. Each is moved three times on its way, and so lies in a box.
#[derive(Debug, Default)]
pub(crate) struct FrameQueue {
    waiting: VecDeque<Box<StoredFrame>>,
    #[expect(clippy::vec_box, reason = "the same boxes are used again")]
    free: Vec<Box<StoredFrame>>,
}

/// Buffers kept for reuse by one queue; further ones are freed.
const KEPT: usize = 1024;

impl FrameQueue {
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// A frame to fill, reused if possible.
    pub(crate) fn take_empty(&mut self) -> Box<StoredFrame> {
        let boxed = || Box::new(StoredFrame::empty());
        self.free.pop().unwrap_or_else(boxed)
    }

    /// Returns a frame's buffer for reuse.
    pub(crate) fn recycle(&mut self, frame: Box<StoredFrame>) {
        if self.free.len() < KEPT {
            self.free.push(frame);
        }
    }

    pub(crate) fn push(&mut self, frame: Box<StoredFrame>) {
        self.waiting.push_back(frame);
    }

    pub(crate) fn pop(&mut self) -> Option<Box<StoredFrame>> {
        self.waiting.pop_front()
    }

    pub(crate) fn front(&self) -> Option<&StoredFrame> {
        self.waiting.front().map(|frame| &**frame)
    }
}
