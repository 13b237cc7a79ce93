//! Random faults of frames, for the simulated wire and the fault injector.

use crate::random::Random;

/// Fault probabilities, 0 to 1, drawn independently for every frame.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Faults {
    /// The frame is dropped.
    pub loss: f64,
    /// The frame arrives twice.
    pub duplicate: f64,
    /// One bit after the link header is flipped.
    pub corrupt: f64,
    /// The frame arrives after some that were sent later.
    pub reorder: f64,
}

/// How often each fault has occurred.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FaultCounts {
    /// Frames to which faults were applied.
    pub frames: u64,
    /// Frames lost.
    pub lost: u64,
    /// Frames sent twice.
    pub duplicated: u64,
    /// Frames with a flipped bit.
    pub corrupted: u64,
    /// Frames delayed past later ones.
    pub reordered: u64,
}

/// The faults of one frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameFaults {
    pub(crate) lost: bool,
    pub(crate) duplicated: bool,
    /// The bit to flip, counted from the start of the frame.
    pub(crate) corrupt_bit: Option<usize>,
    pub(crate) late: bool,
}

/// The random source of one direction.
#[derive(Debug)]
pub(crate) struct Dice {
    faults: Faults,
    pub(crate) random: Random,
    pub(crate) counts: FaultCounts,
}

impl Dice {
    pub(crate) fn new(faults: Faults, seed: u64) -> Self {
        Dice {
            faults,
            random: Random::new(seed),
            counts: FaultCounts::default(),
        }
    }

    /// Draws the faults of a frame of `len` bytes with a link header of `link` bytes, and
    /// counts them. Always draws the same number of random values.
    pub(crate) fn roll(&mut self, len: usize, link: usize) -> FrameFaults {
        let lost = self.random.chance(self.faults.loss);
        let duplicated = self.random.chance(self.faults.duplicate) && !lost;
        let corrupted = self.random.chance(self.faults.corrupt) && !lost && len > link;
        let bit = self.random.below(8 * len.saturating_sub(link) as u64) as usize;
        let late = self.random.chance(self.faults.reorder) && !lost;
        self.counts.frames += 1;
        self.counts.lost += u64::from(lost);
        self.counts.duplicated += u64::from(duplicated);
        self.counts.corrupted += u64::from(corrupted);
        self.counts.reordered += u64::from(late);
        FrameFaults {
            lost,
            duplicated,
            corrupt_bit: corrupted.then_some(8 * link + bit),
            late,
        }
    }
}

impl FrameFaults {
    /// Flips the bit, if one is to be flipped.
    pub(crate) fn corrupt(&self, frame: &mut [u8]) {
        if let Some(bit) = self.corrupt_bit
            && let Some(byte) = frame.get_mut(bit / 8)
        {
            *byte ^= 1 << (bit % 8);
        }
    }
}
