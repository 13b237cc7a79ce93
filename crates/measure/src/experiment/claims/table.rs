//! The claims, those that differ by a few words and a figure as tables.

use super::{Claim, Holds, Place};
use crate::report::grouped;

/// All of them, by paper.
pub(super) fn claims() -> Vec<Claim> {
    let mut all: Vec<Claim> = PARTS.iter().map(|row| of_path("parts", row)).collect();
    all.extend(WHOLE.iter().map(|row| of_path("packets", row)));
    all.extend(RATES.iter().map(Single::claim));
    all.extend(TIMES.iter().map(Single::claim));
    all.extend(PAYLOADS.iter().map(Payload::claim));
    all.extend(RATIOS.iter().map(Single::claim));
    all.extend(CROSSINGS.iter().map(Crossing::claim));
    all
}

// ---- 1989: instructions ----

/// What is claimed, the paper's figure, the row here, the most that it may be, and why it is
/// more where it is.
type Instructions = (
    &'static str,
    &'static str,
    &'static str,
    f64,
    Option<&'static str>,
);

#[rustfmt::skip]
const PARTS: [Instructions; 11] = [
    ("TCP input takes a receiver of data few instructions", "186", "TCP input, receiver of data", 186.0, None),
    ("and a sender of data a few more", "191 to 213", "TCP input, sender of data", 213.0, None),
    ("TCP output", "235", "TCP output of data", 235.0, None),
    ("and of an acknowledgment, which it does not tell from data", "235", "TCP output of an acknowledgment", 235.0,
     Some("it carries SACK and decides of the window, of which header prediction knows nothing")),
    ("IP input", "57", "IP input", 57.0, None),
    ("IP output", "61", "IP output", 61.0, None),
    ("finding a connection by a hash", "about 25", "finding the connection, not the last one", 25.0,
     Some("the hash has a secret, so that nobody can choose connections that meet in one slot")),
    ("setting a timer", "35", "setting a timer", 35.0,
     Some("by one: entry, exit and loads of what counts are among them, some ten")),
    ("setting it again", "41", "setting it again", 41.0, None),
    ("clearing it", "17", "clearing it", 17.0, None),
    ("the buffer layer, receiving data", "35", "buffer layer, receiving data, no byte moved", 35.0,
     Some("the place is in memory that a program shares, and is checked")),
];

#[rustfmt::skip]
const WHOLE: [Instructions; 3] = [
    ("receiving data, all added up", "344", "data received", 344.0, None),
    ("receiving an acknowledgment, the dearest way", "about 335", "acknowledgment received", 336.0, None),
    ("sending data", "337", "data sent", 337.0, None),
];

fn of_path(sheet: &'static str, row: &Instructions) -> Claim {
    let (says, theirs, row, most, why) = *row;
    Claim {
        paper: "1989",
        says: says.to_owned(),
        theirs: theirs.to_owned(),
        here: Place {
            experiment: "path",
            sheet,
            row: row.to_owned(),
            column: "instructions".to_owned(),
        },
        unit: "instructions",
        holds: Holds::AtMost(most),
        why,
    }
}

// ---- claims each of its own ----

/// A claim that is like no other.
struct Single {
    paper: &'static str,
    says: &'static str,
    theirs: &'static str,
    /// Experiment, sheet, row and column of the figure here.
    here: [&'static str; 4],
    unit: &'static str,
    holds: Holds,
    why: Option<&'static str>,
}

impl Single {
    fn claim(&self) -> Claim {
        let [experiment, sheet, row, column] = self.here;
        Claim {
            paper: self.paper,
            says: self.says.to_owned(),
            theirs: self.theirs.to_owned(),
            here: Place {
                experiment,
                sheet,
                row: row.to_owned(),
                column: column.to_owned(),
            },
            unit: self.unit,
            holds: self.holds,
            why: self.why,
        }
    }
}

const RATES: [Single; 4] = [
    Single {
        paper: "1989",
        says: "25,000 packets a second at 10 MIPS",
        theirs: "25,000",
        here: ["path", "rates", "here", "packets"],
        unit: "packets/s",
        holds: Holds::AtLeast(25_000.0),
        why: None,
    },
    Single {
        paper: "1989",
        says: "a copy and a checksum in one pass cost less than one after the other",
        theirs: "fewer memory cycles",
        here: ["path", "bytes", "one pass by two", "ratio"],
        unit: "x",
        holds: Holds::AtMost(1.0),
        why: None,
    },
    Single {
        paper: "1989",
        says: "a packet is nearly always of the connection before, one at a time",
        theirs: "93.2 %",
        here: ["path", "cache", "echo", "connection cached"],
        unit: "%",
        holds: Holds::AtLeast(93.2),
        why: None,
    },
    Single {
        paper: "1989",
        says: "and on a busy server, too",
        theirs: "89.8 %",
        here: ["path", "cache", "nginx, wrk", "connection cached"],
        unit: "%",
        holds: Holds::AtLeast(89.8),
        why: Some(
            "32 clients that ask in turn leave no two segments of one connection beside each other",
        ),
    },
];

/// Ratios of times, of 1999 and 2001.
const TIMES: [Single; 9] = [
    Single {
        paper: "1999",
        says: "with 8 KB packets a copied stream is faster than with 1,500 bytes",
        theirs: "up to 1.7 x",
        here: [
            "sweep",
            "gains",
            "receiving, copied: MTU 9000 by 1500",
            "gain",
        ],
        unit: "x",
        holds: Holds::AtLeast(1.1),
        why: None,
    },
    Single {
        paper: "1999",
        says: "without a copy and without checksums of the host more is received, 8 KB packets",
        theirs: "up to 1.7 x",
        here: [
            "sweep",
            "gains",
            "receiving, MTU 9000: in place, port sums by copied, engine sums",
            "gain",
        ],
        unit: "x",
        holds: Holds::AtLeast(1.1),
        why: None,
    },
    Single {
        paper: "2001",
        says: "packets beyond 16 KB gain little",
        theirs: "little",
        here: [
            "sweep",
            "gains",
            "receiving, copied: MTU 32768 by 16384",
            "gain",
        ],
        unit: "x",
        holds: Holds::AtMost(1.1),
        why: Some(
            "each packet takes a system call of the TAP device, which is dear beside its copy",
        ),
    },
    Single {
        paper: "2001",
        says: "avoiding the copy pays where the program touches its data, too, 8 KB packets",
        theirs: "1.26 x",
        here: [
            "sweep",
            "gains",
            "sending, touched, MTU 9000: in place by copied",
            "gain",
        ],
        unit: "x",
        holds: Holds::AtLeast(1.0),
        why: None,
    },
    Single {
        paper: "2001",
        says: "handling packets takes a third with 8 KB of what it takes with 1,500 bytes",
        theirs: "22 by 65 %",
        here: ["cpu", "packets", "receiving, 9000", "of 1500's"],
        unit: "%",
        holds: Holds::AtMost(34.0),
        why: Some("most of what is left are wake-ups, which do not come with each packet"),
    },
    Single {
        paper: "2001",
        says: "and a sixth with 32 KB",
        theirs: "10 by 65 %",
        here: ["cpu", "packets", "receiving, 32768", "of 1500's"],
        unit: "%",
        holds: Holds::AtMost(15.5),
        why: Some("for the same reason"),
    },
    Single {
        paper: "2001",
        says: "of the time for wake-ups, buffers, TCP/IP and driver, interrupts (wake-ups here) are a fifth or more, packets of 1,500 bytes",
        theirs: "20 to 25 %",
        here: ["cpu", "packets", "receiving, 1500", "wake-ups of handling"],
        unit: "%",
        holds: Holds::AtLeast(20.0),
        why: Some("under load nobody is woken: the engine finds the next packet by itself"),
    },
    Single {
        paper: "2001",
        says: "TCP/IP itself takes little of the processor, even with 1,500 bytes",
        theirs: "at most 12 %",
        here: ["cpu", "shares", "receiving, 1500", "TCP/IP"],
        unit: "%",
        holds: Holds::AtMost(12.0),
        why: Some("the rest became cheaper, and the share is of the time used, not of all"),
    },
    Single {
        paper: "2001",
        says: "data is touched no more without a copy and without checksums of the host, 32 KB",
        theirs: "24 to about 0 %",
        here: ["cpu", "shares", "receiving, 32768, both", "data access"],
        unit: "%",
        holds: Holds::AtMost(5.0),
        why: Some("a TAP's packets are copied by the system call that reads them, and once more"),
    },
];

// ---- 2003: payloads ----

/// A figure of Table 1.
struct Payload {
    /// In words, and in bytes.
    size: (&'static str, &'static str),
    /// In words, and the sheet.
    direction: (&'static str, &'static str),
    column: &'static str,
    theirs: u32,
    why: Option<&'static str>,
}

const SENDING: (&str, &str) = ("sending", "transmit");
const RECEIVING: (&str, &str) = ("receiving", "receive");
const SMALL: (&str, &str) = ("64 bytes", "64");
const PACKET: (&str, &str) = ("1,460 bytes", "1460");
const LARGE: (&str, &str) = ("64 KB", "65536");

const fn payload(
    direction: (&'static str, &'static str),
    size: (&'static str, &'static str),
    column: &'static str,
    theirs: u32,
    why: Option<&'static str>,
) -> Payload {
    Payload {
        size,
        direction,
        column,
        theirs,
        why,
    }
}

#[rustfmt::skip]
const PAYLOADS: [Payload; 11] = [
    payload(SENDING, SMALL, "instructions", 4536,
        Some("each payload is handed over and acknowledged by itself, in two turns of the engine; \
              the paper's stack gathered small ones")),
    payload(SENDING, PACKET, "instructions", 6713,
        Some("the same: a payload of a packet is not gathered either, but copied into the stream")),
    payload(SENDING, LARGE, "instructions", 55_597, None),
    payload(RECEIVING, SMALL, "instructions", 3759,
        Some("bytes that come in a completion are kept by the engine, too, until they are read")),
    payload(RECEIVING, PACKET, "instructions", 6473, None),
    payload(RECEIVING, LARGE, "instructions", 245_148, None),
    payload(SENDING, LARGE, "memory accesses", 114, None),
    payload(RECEIVING, PACKET, "memory accesses", 73, None),
    payload(RECEIVING, LARGE, "memory accesses", 4759, None),
    payload(SENDING, LARGE, "D-cache misses", 958,
        Some("what a program sends is copied into the stream; the paper's socket had no buffer")),
    payload(RECEIVING, LARGE, "D-cache misses", 14_415, None),
];

impl Payload {
    fn claim(&self) -> Claim {
        let (direction, sheet) = self.direction;
        let (size, row) = self.size;
        Claim {
            paper: "2003",
            says: format!("{direction} {size}: {}", self.column),
            theirs: grouped(self.theirs.into()),
            here: Place {
                experiment: "characterize",
                sheet,
                row: row.to_owned(),
                column: self.column.to_owned(),
            },
            unit: "",
            holds: Holds::AtMost(self.theirs.into()),
            why: self.why,
        }
    }
}

const RATIOS: [Single; 3] = [
    Single {
        paper: "2003",
        says: "64 bytes take fewer instructions to receive than to send",
        theirs: "0.83 x",
        here: ["characterize", "ratios", "64", "here"],
        unit: "x",
        holds: Holds::AtMost(1.0),
        why: None,
    },
    Single {
        paper: "2003",
        says: "64 KB take several times the instructions to receive that they take to send",
        theirs: "4.4 x",
        here: ["characterize", "ratios", "65536", "here"],
        unit: "x",
        holds: Holds::AtLeast(4.0),
        why: Some("a segment that comes as predicted takes a tenth of what it took"),
    },
    Single {
        paper: "2003",
        says: "of the memory accesses in receiving 64 KB many are for payload",
        theirs: "43 %",
        here: ["characterize", "copies", "65536", "share of receiving"],
        unit: "%",
        holds: Holds::AtLeast(43.0),
        why: None,
    },
];

// ---- 2005: crossings ----

/// A figure of Tables 4 and 5: no more moves here.
struct Crossing {
    /// In words, and in bytes.
    size: (&'static str, u32),
    /// The paper's adapter.
    adapter: &'static str,
    /// Transfers, bytes or cycles, and to whom.
    what: (&'static str, Way),
    theirs: u32,
}

#[derive(Clone, Copy)]
enum Way {
    ToHost,
    ToAdapter,
}

use Way::{ToAdapter, ToHost};

const fn crossing(
    size: (&'static str, u32),
    adapter: &'static str,
    what: (&'static str, Way),
    theirs: u32,
) -> Crossing {
    Crossing {
        size,
        adapter,
        what,
        theirs,
    }
}

const KB_1: (&str, u32) = ("1 KB", 1 << 10);
const KB_64: (&str, u32) = ("64 KB", 64 << 10);
const KB_512: (&str, u32) = ("512 KB", 512 << 10);
const OFFLOAD: &str = "offload";
const BATCHING: &str = "batching 10";
/// Its figures are of packets that are replayed.
const CONVENTIONAL: &str = "of a conventional adapter";

#[rustfmt::skip]
const CROSSINGS: [Crossing; 38] = [
    crossing(KB_1, OFFLOAD, ("transfers", ToHost), 11),
    crossing(KB_1, OFFLOAD, ("bytes", ToHost), 252),
    crossing(KB_1, OFFLOAD, ("cycles", ToHost), 78),
    crossing(KB_1, OFFLOAD, ("transfers", ToAdapter), 9),
    crossing(KB_1, OFFLOAD, ("bytes", ToAdapter), 1301),
    crossing(KB_1, OFFLOAD, ("cycles", ToAdapter), 200),
    crossing(KB_1, BATCHING, ("transfers", ToHost), 7),
    crossing(KB_1, BATCHING, ("bytes", ToHost), 244),
    crossing(KB_1, BATCHING, ("cycles", ToHost), 60),
    crossing(KB_1, BATCHING, ("transfers", ToAdapter), 5),
    crossing(KB_1, BATCHING, ("bytes", ToAdapter), 1294),
    crossing(KB_1, BATCHING, ("cycles", ToAdapter), 183),
    crossing(KB_64, OFFLOAD, ("transfers", ToHost), 39),
    crossing(KB_64, OFFLOAD, ("bytes", ToHost), 821),
    crossing(KB_64, OFFLOAD, ("cycles", ToHost), 269),
    crossing(KB_64, OFFLOAD, ("transfers", ToAdapter), 56),
    crossing(KB_64, OFFLOAD, ("bytes", ToAdapter), 66_389),
    crossing(KB_64, OFFLOAD, ("cycles", ToAdapter), 8532),
    crossing(KB_64, BATCHING, ("transfers", ToHost), 9),
    crossing(KB_64, BATCHING, ("bytes", ToHost), 761),
    crossing(KB_64, BATCHING, ("cycles", ToHost), 134),
    crossing(KB_64, BATCHING, ("transfers", ToAdapter), 21),
    crossing(KB_64, BATCHING, ("bytes", ToAdapter), 66_319),
    crossing(KB_64, BATCHING, ("cycles", ToAdapter), 8385),
    crossing(KB_512, OFFLOAD, ("transfers", ToHost), 189),
    crossing(KB_512, OFFLOAD, ("bytes", ToHost), 4706),
    crossing(KB_512, OFFLOAD, ("cycles", ToHost), 1394),
    crossing(KB_512, OFFLOAD, ("transfers", ToAdapter), 370),
    crossing(KB_512, OFFLOAD, ("bytes", ToAdapter), 529_131),
    crossing(KB_512, OFFLOAD, ("cycles", ToAdapter), 67_683),
    crossing(KB_512, BATCHING, ("transfers", ToHost), 24),
    crossing(KB_512, BATCHING, ("bytes", ToHost), 4375),
    crossing(KB_512, BATCHING, ("cycles", ToHost), 648),
    crossing(KB_512, BATCHING, ("transfers", ToAdapter), 148),
    crossing(KB_512, BATCHING, ("bytes", ToAdapter), 528_686),
    crossing(KB_512, BATCHING, ("cycles", ToAdapter), 66_683),
    crossing(KB_1, CONVENTIONAL, ("transfers", ToHost), 12),
    crossing(KB_1, CONVENTIONAL, ("transfers", ToAdapter), 9),
];

impl Crossing {
    fn claim(&self) -> Claim {
        let ((size, bytes), (unit, way)) = (self.size, self.what);
        let (direction, to) = match way {
            ToHost => ("receive", "to the host"),
            ToAdapter => ("send", "to the adapter"),
        };
        let (says, adapter) = match self.adapter {
            CONVENTIONAL => (format!("{size}: {unit} {CONVENTIONAL} {to}"), "e1000"),
            column => (format!("{size}, {column}: {unit} {to}"), "longshore"),
        };
        Claim {
            paper: "2005",
            says,
            theirs: grouped(self.theirs.into()),
            here: Place {
                experiment: "bus",
                sheet: "fetches",
                row: format!("{adapter} {bytes} close"),
                column: format!("{direction} {unit}"),
            },
            unit: "",
            holds: Holds::AtMost(self.theirs.into()),
            why: None,
        }
    }
}
