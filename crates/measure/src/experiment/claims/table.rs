//! The claims, those that differ by a few words and a figure as tables.

use super::{Claim, Holds, Place, crossings, shown};

/// All of them, by paper.
pub(super) fn claims() -> Vec<Claim> {
    let mut all: Vec<Claim> = PARTS.iter().map(|row| of_path("parts", row)).collect();
    all.extend(WHOLE.iter().map(|row| of_path("packets", row)));
    all.extend(RATES.iter().map(Single::claim));
    all.extend(TIMES.iter().map(Single::claim));
    all.extend(payloads());
    all.extend(RATIOS.iter().map(Single::claim));
    all.extend(crossings::claims());
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
const PARTS: [Instructions; 13] = [
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
    ("the buffer layer, sending data", "40", "buffer layer, sending data, no byte moved", 40.0,
     Some("where the bytes lie is read from memory that a program shares, and is checked")),
    ("the buffer layer, receiving an acknowledgment", "30", "buffer layer, an acknowledgment for whose room a program waits", 30.0,
     Some("the program is in another address space, and told by a descriptor; of few acknowledgments: \
           where it does not wait for room, nothing is done")),
];

#[rustfmt::skip]
const WHOLE: [Instructions; 3] = [
    ("receiving data, all added up", "344", "data received", 344.0, None),
    ("receiving an acknowledgment, the dearest way", "about 335", "acknowledgment received", 336.0, None),
    ("sending data", "377", "data sent", 377.0, None),
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
            less_than: None,
        },
        unit: "instructions",
        holds: Holds::AtMost(most),
        why,
        varies: false,
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
                less_than: None,
            },
            unit: self.unit,
            holds: self.holds,
            why: self.why,
            varies: false,
        }
    }
}

const RATES: [Single; 7] = [
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
        says: "with packets of 4,000 bytes these are 800 Mb/s",
        theirs: "800",
        here: ["path", "rates", "here, 4000 bytes", "bandwidth"],
        unit: "Mb/s",
        holds: Holds::AtLeast(800.0),
        why: None,
    },
    Single {
        paper: "1989",
        says: "and 530 Mb/s where every other packet is acknowledged",
        theirs: "530",
        here: [
            "path",
            "rates",
            "here, 4000 bytes",
            "every other one acknowledged",
        ],
        unit: "Mb/s",
        holds: Holds::AtLeast(530.0),
        why: None,
    },
    Single {
        paper: "1989",
        says: "packets of 500 bytes fill a network of 100 Mb/s",
        theirs: "100",
        here: ["path", "rates", "here, 500 bytes", "bandwidth"],
        unit: "Mb/s",
        holds: Holds::AtLeast(100.0),
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

/// A size in words, and in bytes.
type Size = (&'static str, &'static str);

const SMALL: Size = ("64 bytes", "64");
const PACKET: Size = ("1,460 bytes", "1460");
const LARGE: Size = ("64 KB", "65536");

/// The columns of Table 1.
const COLUMNS: [&str; 6] = [
    "instructions",
    "branches",
    "memory accesses",
    "TLB misses",
    "I-cache misses",
    "D-cache misses",
];

/// Lines of Table 1: the sheet of the direction, the size, and a figure for each column.
const TABLE_1: [(&str, Size, [f64; 6]); 6] = [
    ("transmit", SMALL, [4536.0, 843.6, 1.0, 9.0, 5.9, 39.2]),
    ("transmit", PACKET, [6713.0, 1359.6, 7.7, 11.7, 34.2, 102.1]),
    (
        "transmit",
        LARGE,
        [55_597.0, 11_172.9, 114.0, 96.0, 296.7, 958.4],
    ),
    ("receive", SMALL, [3759.0, 768.1, 3.1, 6.2, 9.1, 17.9]),
    ("receive", PACKET, [6473.0, 1329.6, 73.0, 11.0, 25.8, 202.3]),
    (
        "receive",
        LARGE,
        [245_148.0, 51_144.1, 4758.8, 331.5, 751.2, 14_415.3],
    ),
];

/// Why more is taken here, where that is.
fn why_more(sheet: &str, (_, bytes): Size, column: &str) -> Option<&'static str> {
    Some(match (sheet, bytes, column) {
        (_, _, "I-cache misses") => {
            "program and engine take turns, and the code of both is more than the simulated cache \
             holds"
        }
        ("transmit", "65536", "D-cache misses") => {
            "what a program sends is copied into the stream; the paper's socket had no buffer"
        }
        ("transmit", "64", _) => {
            "each payload is handed over and acknowledged by itself, in two turns of the engine; \
             the paper's stack gathered small ones"
        }
        ("transmit", _, _) => "each payload is handed over by itself, and copied into the stream",
        ("receive", "64", _) => {
            "bytes that come in a completion are kept by the engine, too, until they are read"
        }
        _ => return None,
    })
}

/// Whether the figure differs by some misses from run to run, as pages and lines lie otherwise, and
/// so few are counted that this decides.
fn is_near((_, bytes): Size, column: &str) -> bool {
    column == "TLB misses" || bytes == "64" && column == "memory accesses"
}

/// Each figure of these lines.
fn payloads() -> impl Iterator<Item = Claim> {
    TABLE_1.iter().flat_map(|(sheet, size, figures)| {
        let doing = match *sheet {
            "transmit" => "sending",
            _ => "receiving",
        };
        COLUMNS
            .iter()
            .zip(figures)
            .map(move |(column, theirs)| Claim {
                paper: "2003",
                says: format!("{doing} {}: {column}", size.0),
                theirs: shown(*theirs),
                here: Place {
                    experiment: "characterize",
                    sheet,
                    row: size.1.to_owned(),
                    column: (*column).to_owned(),
                    less_than: None,
                },
                unit: "",
                holds: Holds::AtMost(*theirs),
                why: why_more(sheet, *size, column),
                varies: is_near(*size, column),
            })
    })
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
