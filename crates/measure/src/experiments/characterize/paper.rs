//! What the paper of 2003 has in its tables.

use super::payloads::Direction;

/// What a payload takes, by one direction of Table 1.
#[derive(Debug, Clone, Copy)]
pub(super) struct Taken {
    pub(super) instructions: f64,
    pub(super) branches: f64,
    /// Misses of the second-level cache.
    pub(super) memory: f64,
    pub(super) tlb: f64,
    pub(super) instruction_misses: f64,
    pub(super) data_misses: f64,
}

/// A line of the tables.
pub(super) struct Line {
    pub(super) size: usize,
    /// Table 1, by direction.
    taken: [Taken; 2],
    /// Table 2, by direction, in percent; the table ends at 4,096 bytes.
    scaling: Option<[f64; 2]>,
    /// Table 3: of receiving, in percent.
    pub(super) copies: f64,
}

impl Line {
    /// Table 1.
    pub(super) fn taken(&self, direction: Direction) -> &Taken {
        &self.taken[direction as usize]
    }

    /// Table 2.
    pub(super) fn scaling(&self, direction: Direction) -> Option<f64> {
        self.scaling.map(|both| both[direction as usize])
    }
}

/// The frequencies of Table 2, in GHz.
pub(super) const FREQUENCIES: [f64; 2] = [0.6, 1.6];

const fn taken(all: [f64; 6]) -> Taken {
    let [
        instructions,
        branches,
        memory,
        tlb,
        instruction_misses,
        data_misses,
    ] = all;
    Taken {
        instructions,
        branches,
        memory,
        tlb,
        instruction_misses,
        data_misses,
    }
}

const fn line(
    size: usize,
    scaling: Option<[f64; 2]>,
    copies: f64,
    transmit: [f64; 6],
    receive: [f64; 6],
) -> Line {
    Line {
        size,
        taken: [taken(transmit), taken(receive)],
        scaling,
        copies,
    }
}

#[rustfmt::skip]
pub(super) const LINES: [Line; 12] = [
    line(64, Some([63.0, 68.0]), 65.0,
         [  4536.0,    843.6,   1.0,  9.0,   5.9,  39.2], [   3759.0,    768.1,    3.1,   6.2,   9.1,     17.9]),
    line(128, Some([64.0, 64.0]), 61.0,
         [  4305.0,    863.0,   1.6,  7.2,   7.2,  40.9], [   3892.0,    788.3,    6.5,   6.3,   9.6,     28.2]),
    line(256, Some([64.0, 56.0]), 61.0,
         [  4600.0,    918.9,   3.5, 10.4,   9.4,  48.0], [   4134.0,    844.2,   13.1,   6.8,  11.2,     46.0]),
    line(512, Some([56.0, 46.0]), 62.0,
         [  5088.0,   1026.4,   4.5,  8.3,  15.3,  62.1], [   4607.0,    947.6,   25.9,   7.7,  14.2,     82.3]),
    line(1024, Some([52.0, 37.0]), 63.0,
         [  5597.0,   1128.9,   5.7,  9.7,  21.6,  80.6], [   5608.0,   1142.5,   50.9,  10.1,  21.5,    153.1]),
    line(1460, Some([46.0, 33.0]), 63.0,
         [  6713.0,   1359.6,   7.7, 11.7,  34.2, 102.1], [   6473.0,   1329.6,   73.0,  11.0,  25.8,    202.3]),
    line(2048, Some([56.0, 41.0]), 63.0,
         [  7978.0,   1590.1,   7.7, 24.4,  54.8, 158.3], [   9779.0,   2023.3,  101.5,  13.5,  39.7,    304.6]),
    line(4096, Some([47.0, 55.0]), 58.0,
         [  8540.0,   1765.7,   9.2, 25.7,  56.1, 179.0], [ 21_547.0,   4515.3,  219.1,  43.9, 109.1,    791.5]),
    line(8192, None, 54.0,
         [10_675.0,   2167.8,  12.6, 31.5,  83.9, 217.2], [ 31_955.0,   6436.0,  474.6,  56.6, 135.2,   1600.7]),
    line(16_384, None, 47.0,
         [14_766.0,   3028.8,  20.9, 45.5, 140.7, 299.7], [ 56_225.0, 11_754.8, 1079.5,  97.0, 227.7,   3330.2]),
    line(32_768, None, 45.0,
         [22_320.0,   4604.7,  34.0, 64.6, 196.0, 426.9], [130_440.0, 22_680.7, 2286.7, 176.1, 409.4,   7196.8]),
    line(65_536, None, 43.0,
         [55_597.0, 11_172.9, 114.0, 96.0, 296.7, 958.4], [245_148.0, 51_144.1, 4758.8, 331.5, 751.2, 14_415.3]),
];

/// The sizes of a quick run.
pub(super) const QUICK: [usize; 2] = [64, 8192];
