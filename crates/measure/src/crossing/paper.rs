//! Tables 4 and 5 of Freimuth et al., "Server network scalability and TCP offload" (USENIX
//! 2005): what one HTTP transfer moves.

use longshore_bus::Tally;

/// One column of both tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// To the host.
    pub receive: Tally,
    /// To the adapter.
    pub send: Tally,
}

/// What the paper found for one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Paper {
    /// Bytes of the file.
    pub size: u64,
    /// The conventional adapter, in both tables.
    pub e1000: Column,
    /// Its offload prototype, Table 4.
    pub offload: Column,
    /// The offload prototype with descriptors in batches of ten, Table 5.
    pub batching: Column,
}

/// Transfers, cycles and bytes to the host, then to the adapter.
const fn column(receive: [u64; 3], send: [u64; 3]) -> Column {
    const fn tally([transfers, cycles, bytes]: [u64; 3]) -> Tally {
        Tally {
            transfers,
            bytes,
            cycles,
            round_trips: 0,
        }
    }
    Column {
        receive: tally(receive),
        send: tally(send),
    }
}

/// All of its sizes. It does not count round trips.
pub const PAPER: [Paper; 3] = [
    Paper {
        size: 1 << 10,
        e1000: column([12, 119, 538], [9, 237, 1572]),
        offload: column([11, 78, 252], [9, 200, 1301]),
        batching: column([7, 60, 244], [5, 183, 1294]),
    },
    Paper {
        size: 64 << 10,
        e1000: column([62, 559, 2385], [159, 9366, 69_474]),
        offload: column([39, 269, 821], [56, 8532, 66_389]),
        batching: column([9, 134, 761], [21, 8385, 66_319]),
    },
    Paper {
        size: 512 << 10,
        e1000: column([363, 3260, 13_900], [1222, 74_244, 552_132]),
        offload: column([189, 1394, 4706], [370, 67_683, 529_131]),
        batching: column([24, 648, 4375], [148, 66_683, 528_686]),
    },
];

impl Paper {
    /// What it found for files of so many bytes.
    #[must_use]
    pub fn of(size: u64) -> Option<&'static Paper> {
        PAPER.iter().find(|paper| paper.size == size)
    }
}
