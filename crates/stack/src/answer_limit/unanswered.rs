//! The frames that were last left without an answer because the engine was behind.
//!
//! An engine that gets less of the processor than its client may not see the end of what its port
//! has for long although nothing waits there: each answer lets the client run, and its next packet
//! is there before the engine looks again. Such a client waits for its answer before it sends more, so what
//! it was refused is the last that came, and the port is empty then. What was left last is kept,
//! and taken once more as soon as that is seen: the client does not wait for its own
//! retransmission, a second for a SYN. In a flood the kept frames are always the newest.
//!
//! Owned by `AnswerLimits`.

use longshore_frames::RxMeta;
use std::collections::VecDeque;

/// Frames that are kept: as many as are answered in a turn of an engine that is behind.
const KEPT: usize = super::FEW as usize;
/// The longest that is kept, in bytes: a SYN with all options by IPv6, or an echo request as `ping`
/// sends it.
const LONGEST: usize = 160;

/// A frame, with what the port has said of it.
pub(crate) struct UnansweredFrame {
    bytes: [u8; LONGEST],
    pub(crate) meta: RxMeta,
}

impl UnansweredFrame {
    /// The frame itself.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.meta.len).unwrap_or_default()
    }
}

/// The newest of them, the oldest first.
#[derive(Default)]
pub(super) struct UnansweredFrames {
    frames: VecDeque<UnansweredFrame>,
}

impl UnansweredFrames {
    /// Keeps a frame if it is not too long; whether one is dropped: this or the oldest.
    pub(super) fn keep(&mut self, frame: &[u8], meta: &RxMeta) -> bool {
        let mut bytes = [0; LONGEST];
        let Some(place) = bytes.get_mut(..frame.len()) else {
            return true;
        };
        place.copy_from_slice(frame);
        let is_full = self.frames.len() == KEPT;
        if is_full {
            self.frames.pop_front();
        }
        let meta = RxMeta {
            len: frame.len(),
            ..*meta
        };
        self.frames.push_back(UnansweredFrame { bytes, meta });
        is_full
    }

    /// The oldest is taken once more.
    pub(super) fn take(&mut self) -> Option<UnansweredFrame> {
        self.frames.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longshore_frames::RxChecksum;

    fn meta(len: usize) -> RxMeta {
        RxMeta {
            len,
            checksum: RxChecksum::Valid,
            gso: None,
        }
    }

    #[test]
    fn the_newest_are_kept_and_none_that_is_long() {
        let mut frames = UnansweredFrames::default();
        for number in 0..20_u8 {
            let frame = vec![number; 1 + usize::from(number)];
            let is_one_dropped = frames.keep(&frame, &meta(frame.len()));
            assert_eq!(is_one_dropped, number >= super::super::FEW, "{number}");
        }
        assert!(frames.keep(&[0; LONGEST + 1], &meta(LONGEST + 1)));
        let kept: Vec<_> = std::iter::from_fn(|| frames.take())
            .map(|frame| (frame.bytes().to_vec(), frame.meta))
            .collect();
        let expected: Vec<_> = (12..20_u8)
            .map(|number| vec![number; 1 + usize::from(number)])
            .map(|bytes| (bytes.clone(), meta(bytes.len())))
            .collect();
        assert_eq!(kept, expected);
        assert!(frames.take().is_none());
    }

    #[test]
    fn as_long_as_may_be() {
        let mut frames = UnansweredFrames::default();
        assert!(!frames.keep(&[7; LONGEST], &meta(LONGEST)));
        assert_eq!(frames.take().expect("kept").bytes(), [7; LONGEST]);
    }
}
