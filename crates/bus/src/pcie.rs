//! PCI Express of generations 3 to 6 with 1 to 16 lanes.
//!
//! Data move in transaction-layer packets (TLPs): a write is cut at the maximum payload size;
//! a read is asked for in requests of at most the maximum read request size, which go the
//! other way, and answered in completions. A cycle is here the time in which the link moves
//! one byte, so the cycles of an access are the bytes of its packets with all headers.
//!
//! Sources:
//! - PCI Express Base Specification 3.0 to 5.0: encoding of 128 in 130 bits, headers (section
//!   2.2), how often acknowledgments and flow control updates are sent (sections 2.6.1.2 and
//!   3.5.2.1), ordered sets for clock compensation (section 4.2.7); 6.0 for the flits of
//!   generation 6 (section 4.2.3).
//! - Neugebauer, Antichi, Zazo, Audzevich, Lopez-Buedo and Moore, "Understanding PCIe
//!   performance for end host networking" (SIGCOMM 2018), and its open model pcie-bench: which
//!   of these reduce the bandwidth, and the latencies of reads.
//!
//! What is assumed, since nothing measured is published: reads of generations 4 to 6 have the
//! fixed latency of generation 3, which is spent in the host's root complex and memory; a
//! posted write takes half of it; and completions begin at their boundary.

use crate::transfer::{Access, Bus, Cycles, Sums};

/// A generation of PCI Express.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generation {
    /// 8 GT/s.
    Gen3,
    /// 16 GT/s.
    Gen4,
    /// 32 GT/s.
    Gen5,
    /// 64 GT/s, in flits.
    Gen6,
}

impl Generation {
    /// All of them, the oldest first.
    pub const ALL: [Generation; 4] = [
        Generation::Gen3,
        Generation::Gen4,
        Generation::Gen5,
        Generation::Gen6,
    ];

    /// Its number.
    #[must_use]
    pub fn number(self) -> u32 {
        match self {
            Generation::Gen3 => 3,
            Generation::Gen4 => 4,
            Generation::Gen5 => 5,
            Generation::Gen6 => 6,
        }
    }

    /// Transfers of a bit on each lane, in each second.
    fn transfers(self) -> f64 {
        match self {
            Generation::Gen3 => 8e9,
            Generation::Gen4 => 16e9,
            Generation::Gen5 => 32e9,
            Generation::Gen6 => 64e9,
        }
    }
}

/// Widths of a link, in lanes.
pub const LANES: [u32; 5] = [1, 2, 4, 8, 16];

/// Bytes of a packet that are no data, with 64-bit addresses and without the optional digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Headers {
    /// Of a memory write.
    write: u64,
    /// Of a memory read request.
    request: u64,
    /// Of a completion with data.
    completion: u64,
}

/// A header of four words, and of three for a completion; framing with the sequence number, 4
/// bytes, and the link's checksum, 4.
const FRAMED: Headers = Headers {
    write: 24,
    request: 24,
    completion: 20,
};
/// In flits, framing and checksums are the flit's.
const IN_FLITS: Headers = Headers {
    write: 16,
    request: 16,
    completion: 12,
};

/// Acknowledgments and flow control updates, each with framing and checksum, in bytes.
const DLLP: f64 = 8.0;
/// TLP overhead that the specification assumes where it says how often these are sent.
const ASSUMED_OVERHEAD: u64 = 28;
/// The delay inside a port that it allows for from 8 GT/s on, in symbols.
const INTERNAL_DELAY: u64 = 115;
/// A skip ordered set of 4 symbols in each 1,538.
const SKIPS: f64 = 4.0 / 1538.0;
/// Bytes of TLPs in a flit of 256; the others are the data link's 6, the checksum's 8 and the
/// forward error correction's 6.
const TLP_SHARE_OF_FLIT: f64 = 236.0 / 256.0;

/// What a read waits for beside the time on the link, in ns: pcie-bench's 546 ns for 64 bytes
/// less that time.
const READ_NS: f64 = 520.0;
/// What a read takes more if its address is not in the IOMMU's TLB, in ns (pcie-bench).
const IOMMU_MISS_NS: f64 = 280.0;

/// A link and how it is set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pcie {
    /// Its generation.
    pub generation: Generation,
    /// Its width, one of [`LANES`].
    pub lanes: u32,
    /// The maximum payload size (MPS) in bytes: 128 to 4,096.
    pub max_payload: u64,
    /// The maximum read request size (MRRS) in bytes: 128 to 4,096.
    pub max_read_request: u64,
    /// The most data that the host puts into a completion, in bytes: a multiple of the read
    /// completion boundary (RCB), 64, up to the maximum payload size.
    pub max_completion: u64,
    /// Whether the addresses that the adapter reads miss the IOMMU's TLB.
    pub iommu_miss: bool,
}

impl Pcie {
    /// A link with MPS 256, MRRS 512, completions of the maximum payload size, and no misses
    /// in an IOMMU.
    #[must_use]
    pub fn new(generation: Generation, lanes: u32) -> Self {
        Pcie {
            generation,
            lanes,
            max_payload: 256,
            max_read_request: 512,
            max_completion: 256,
            iommu_miss: false,
        }
    }

    fn headers(&self) -> Headers {
        match self.generation {
            Generation::Gen6 => IN_FLITS,
            _ => FRAMED,
        }
    }

    /// Symbols between two acknowledgments, and between two flow control updates (tables of
    /// sections 2.6.1.2 and 3.5.2.1).
    fn update_interval(&self) -> u64 {
        let tenths = match (self.lanes, self.max_payload) {
            (16, ..=256) => 30,
            (16, _) => 20,
            (8, ..=256) => 25,
            (_, ..=256) if self.lanes < 8 => 14,
            _ => 10,
        };
        let symbols = (self.max_payload + ASSUMED_OVERHEAD) * tenths;
        symbols / (10 * u64::from(self.lanes)) + INTERNAL_DELAY
    }

    /// Bytes of TLPs that the link moves in each direction, each second.
    #[must_use]
    pub fn tlp_rate(&self) -> f64 {
        let raw = self.generation.transfers() * f64::from(self.lanes) / 8.0;
        match self.generation {
            Generation::Gen6 => raw * TLP_SHARE_OF_FLIT * (1.0 - SKIPS),
            _ => {
                #[expect(clippy::cast_precision_loss, reason = "at most some thousands")]
                let interval = self.update_interval() as f64;
                let overhead = 2.0 * DLLP / interval + SKIPS;
                raw * (128.0 / 130.0) * (1.0 - overhead)
            }
        }
    }

    /// Bytes of `data` in packets of at most `most` with a header each; a packet's data are
    /// whole words of 4 bytes.
    fn packets(data: u64, most: u64, header: u64) -> u64 {
        data.div_ceil(most).max(1) * header + data.next_multiple_of(4)
    }

    /// The most that accesses with these sums can take in packets of at most `most` bytes.
    fn most_packets(sums: &Sums, most: u64, header: u64) -> u64 {
        let data = (sums.bytes + 3 * sums.accesses).min(8 * sums.words);
        sums.most_blocks(most / 8) * header + data
    }

    fn nanoseconds(&self, link_bytes: u64) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a duration to show")]
        let bytes = link_bytes as f64;
        bytes / self.tlp_rate() * 1e9
    }
}

impl Default for Pcie {
    /// Generation 3 with 8 lanes.
    fn default() -> Self {
        Pcie::new(Generation::Gen3, 8)
    }
}

impl Bus for Pcie {
    fn cycles(&self, access: Access, bytes: u64) -> Cycles {
        let headers = self.headers();
        if access.is_read() {
            let requests = bytes.div_ceil(self.max_read_request).max(1) * headers.request;
            let answers = Pcie::packets(bytes, self.max_completion, headers.completion);
            Cycles::of(access, answers, requests)
        } else {
            let data = Pcie::packets(bytes, self.max_payload, headers.write);
            Cycles::of(access, data, 0)
        }
    }

    fn most_cycles(&self, access: Access, sums: &Sums) -> Cycles {
        let headers = self.headers();
        let most = |size, header| Pcie::most_packets(sums, size, header);
        if access.is_read() {
            let requests = sums.most_blocks(self.max_read_request / 8);
            let answers = most(self.max_completion, headers.completion);
            Cycles::of(access, answers, requests * headers.request)
        } else {
            Cycles::of(access, most(self.max_payload, headers.write), 0)
        }
    }

    fn frequency(&self) -> f64 {
        self.tlp_rate()
    }

    fn is_shared(&self) -> bool {
        false
    }

    /// The data of a read count twice: on the link, and again until the adapter has them
    /// where it wants them. With that the model is within 5 % of what pcie-bench measured.
    fn latency_ns(&self, access: Access, bytes: u64) -> f64 {
        let Cycles {
            to_host,
            to_adapter,
        } = self.cycles(access, bytes);
        if !access.is_read() {
            return READ_NS / 2.0 + self.nanoseconds(to_host + to_adapter);
        }
        let data = if access.is_to_host() {
            to_host
        } else {
            to_adapter
        };
        let miss = access == Access::AdapterRead && self.iommu_miss;
        let request = self.headers().request;
        READ_NS + if miss { IOMMU_MISS_NS } else { 0.0 } + self.nanoseconds(request + 2 * data)
    }
}

#[cfg(test)]
mod tests;
