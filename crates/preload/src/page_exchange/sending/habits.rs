//! The buffers that a program sends again as they are: of those alone nothing has to be copied, and
//! to exchange the pages of others costs more than a copy.
//!
//! Owns [`Habits`], which `sending` asks with `--zero-copy auto`: numbers alone.

use std::ops::Range;

/// Buffers that are remembered.
const REMEMBERED: usize = 16;
/// How often the same was sent of a buffer, in turn, before its pages are exchanged.
const OFTEN: u32 = 3;
/// How often a buffer is copied that the program has written to after all.
const COPIED: u32 = 256;
/// Words of a buffer by which it is known that the program has written to it.
const WORDS: usize = 16;

/// A buffer that was sent.
#[derive(Debug)]
struct Buffer {
    range: Range<usize>,
    /// What stood in it, here and there.
    sample: u64,
    /// How often it was sent with that in it.
    times: u32,
    /// How often it is copied yet.
    copied: u32,
}

/// What a program does with its buffers; the last one that was sent is the last.
#[derive(Debug, Default)]
pub(super) struct Habits(Vec<Buffer>);

impl Habits {
    /// A buffer at `range` is sent, or the rest of one: whether it is to be expected that it will
    /// be sent again as it is.
    pub(super) fn sends_again(&mut self, range: &Range<usize>, bytes: &[u8]) -> bool {
        let is_it = |one: &Buffer| one.range.end == range.end && one.range.start <= range.start;
        let Some(at) = self.0.iter().rposition(is_it) else {
            if self.0.len() == REMEMBERED {
                self.0.remove(0);
            }
            self.0.push(Buffer {
                range: range.clone(),
                sample: sample(bytes),
                times: 1,
                copied: 0,
            });
            return false;
        };
        let mut buffer = self.0.remove(at);
        let is_rest = buffer.range.start != range.start;
        if !is_rest {
            let sample = sample(bytes);
            let times = buffer.times.saturating_add(1);
            buffer.times = if sample == buffer.sample { times } else { 1 };
            buffer.sample = sample;
            buffer.copied = buffer.copied.saturating_sub(1);
        }
        let again = buffer.copied == 0 && buffer.times >= OFTEN;
        self.0.push(buffer);
        again
    }

    /// The program has written to much of the buffer that was sent last since its pages were
    /// exchanged.
    pub(super) fn was_written_to(&mut self) {
        if let Some(buffer) = self.0.last_mut() {
            (buffer.times, buffer.copied) = (0, COPIED);
        }
    }
}

/// Some words of these bytes in one.
fn sample(bytes: &[u8]) -> u64 {
    const WORD: usize = size_of::<u64>();
    let step = (bytes.len() / WORDS).max(WORD);
    let words = bytes.chunks_exact(step).filter_map(|c| c.first_chunk());
    words.fold(0, |sum: u64, word| {
        (sum.rotate_left(5) ^ u64::from_le_bytes(*word)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(of: &[u8]) -> Range<usize> {
        let start = of.as_ptr().addr();
        start..start + of.len()
    }

    #[test]
    fn what_is_sent_again_as_it_is_becomes_known() {
        let (mut habits, mut bytes) = (Habits::default(), vec![7; 1 << 16]);
        let mut send = |bytes: &[u8]| habits.sends_again(&range(bytes), bytes);
        let first: Vec<_> = (0..4).map(|_| send(&bytes)).collect();
        assert_eq!(first, [false, false, true, true]);
        // The rest of it, which did not fit.
        assert!(send(&bytes[1000..]));
        bytes[4096 * 3] = 1;
        assert!(!send(&bytes) && !send(&bytes[1000..]) && !send(&bytes) && send(&bytes));
        habits.was_written_to();
        let mut copied = 0;
        while !habits.sends_again(&range(&bytes), &bytes) {
            copied += 1;
        }
        assert_eq!(copied, COPIED - 1);
    }

    #[test]
    fn only_so_many_are_remembered() {
        let (mut habits, bytes) = (Habits::default(), vec![0; 1 << 16]);
        for start in 0..2 * REMEMBERED {
            let part = &bytes[start * 1024..(start + 1) * 1024];
            assert!(!habits.sends_again(&range(part), part));
        }
        assert_eq!(habits.0.len(), REMEMBERED);
    }
}
