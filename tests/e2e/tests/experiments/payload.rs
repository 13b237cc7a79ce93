//! What payload costs: bandwidth by the largest packet, where processor time goes, immediate
//! data, sizes.

use super::{figure, rows, scenario, smallest};
use longshore_e2e::skip;
use serde_json::Value;
use std::process::Command;

/// Fig. 2 of 2001.
#[test]
fn bandwidth_by_the_largest_packet() {
    scenario(|bed| {
        let all = smallest(bed, "sweep");
        let bandwidth = rows(&all, "bandwidth");
        assert_eq!(bandwidth.len(), 2 * 10, "two sizes of packets, ten ways");
        for row in bandwidth {
            assert!([1500, 9000].map(Value::from).contains(&row["MTU"]), "{row}");
            for who in ["port cuts and sums", "engine cuts and sums"] {
                assert!(figure(row, who) > 0.0, "{row}");
            }
        }
        let touched = |row: &&Value| {
            row["payload"]
                .as_str()
                .is_some_and(|p| p.contains("touched"))
        };
        assert_eq!(bandwidth.iter().filter(touched).count(), 2 * 5);
        // With a processor for each, a program that sleeps at once is woken more often; here
        // others have them, and only that both were counted can be told.
        let wake_ups = rows(&all, "wake-ups");
        assert_eq!(wake_ups.len(), 2, "{all}");
        for row in wake_ups {
            assert!(figure(row, "not suppressed: wake-ups") > 0.0, "{row}");
            assert!(spent(row, "suppressed: wake-ups") >= 0.0, "{row}");
        }
        let exchanged = |row: &&Value| {
            row["payload"]
                .as_str()
                .is_some_and(|p| p.contains("pages exchanged"))
        };
        assert_eq!(
            bandwidth.iter().filter(exchanged).count(),
            2 * 4,
            "both directions, touched and not"
        );
        assert!(
            all["left_out"].to_string().contains("checksum offload"),
            "{all}"
        );
    });
}

/// What processor time goes to.
pub(super) const PARTS: [&str; 9] = [
    "data access",
    "wake-ups",
    "memory",
    "buffers",
    "TCP/IP",
    "driver",
    "far end",
    "other",
    "unknown",
];

/// Why perf does not run, if it does not. Ubuntu's is a script that looks for the one of the
/// kernel that runs, and has it for its own kernels alone.
fn perf_is_lacking() -> Option<String> {
    let said = Command::new("perf").arg("--version").output();
    let said = said.expect("perf is installed (Debian's package linux-perf)");
    let why = String::from_utf8_lossy(&said.stderr).trim().to_owned();
    (!said.status.success()).then_some(why)
}

/// Fig. 3 of 2001.
#[test]
fn where_the_time_goes() {
    if let Some(why) = perf_is_lacking() {
        skip(&why.replace('\n', " "));
        return;
    }
    scenario(|bed| {
        let all = smallest(bed, "cpu");
        let (shares, times) = (rows(&all, "shares"), rows(&all, "times"));
        assert_eq!(shares.len(), 2, "{all}");
        for (share, time) in shares.iter().zip(times) {
            let sum = |row: &Value| PARTS.map(|part| spent(row, part)).iter().sum::<f64>();
            assert!((sum(share) - 100.0).abs() < 1e-6, "{share}");
            let whole = figure(time, "all");
            assert!(
                whole > 0.0 && (sum(time) / whole - 1.0).abs() < 0.001,
                "{time}"
            );
            // Payload is copied.
            assert!(spent(share, "data access") > 0.0, "{share}");
            for part in ["other", "unknown"] {
                assert!(spent(share, part) < 25.0, "{share}: {all}");
            }
        }
        // And packets are made of it; beside other work a row has few samples.
        let packets: f64 = shares.iter().map(|share| spent(share, "TCP/IP")).sum();
        assert!(packets > 0.0, "{all}");
        // Each sampled function is of the part that the table says.
        let table = rows(&all, "table");
        for row in rows(&all, "functions") {
            let function = row["function"].as_str().expect("a name");
            let rule = table.iter().find(|rule| {
                let mut names = rule["pieces of names"].as_str().expect("names").split(' ');
                rule["whose"] == row["whose"] && names.any(|name| function.contains(name))
            });
            let part = rule
                .map_or(&Value::from("other"), |rule| &rule["part"])
                .clone();
            assert!(part == row["part"] || row["part"] == "unknown", "{row}");
        }
        let first = &rows(&all, "packets")[0];
        assert_eq!(figure(first, "of 1500's"), 100.0, "{first}");
    });
}

/// A part's figure, which may be nothing.
fn spent(row: &Value, part: &str) -> f64 {
    row[part]["median"]
        .as_f64()
        .unwrap_or_else(|| panic!("{part} of {row}"))
}

/// Payload with its descriptor, and apart.
#[test]
fn immediate_data_and_without() {
    scenario(|bed| {
        let all = smallest(bed, "immediate");
        for row in rows(&all, "crossings") {
            for (way, transfers) in [("with", 1.0), ("apart", 2.0)] {
                for direction in ["to the host", "to the adapter"] {
                    // Now and then the two ends of an exchange do not keep time.
                    let moved = figure(row, &format!("{way}: {direction}"));
                    assert!((moved - transfers).abs() < 0.5, "{way}, {direction}: {row}");
                }
            }
            assert!(figure(row, "with: moved") <= figure(row, "apart: moved") + 64.0);
        }
        for row in rows(&all, "cycles") {
            for bus in ["pcix", "pcie-gen3x8", "pcie-gen5x8", "cxl"] {
                let [with, apart] =
                    ["with", "apart"].map(|way| figure(row, &format!("{way}: {bus}")));
                assert!(with < apart, "{bus}: {row}");
            }
        }
        for row in rows(&all, "instructions") {
            for direction in ["sending", "receiving"] {
                let [with, apart] =
                    ["with", "apart"].map(|way| figure(row, &format!("{way}: {direction}")));
                assert!((0.8..1.5).contains(&(with / apart)), "{direction}: {row}");
            }
        }
        assert!(rows(&all, "pays").len() > 6, "{all}");
    });
}

/// The paper of 2003.
#[test]
fn payloads_by_their_size() {
    scenario(|bed| {
        let all = smallest(bed, "characterize");
        let sizes = [64.0, 8192.0];
        for direction in ["transmit", "receive"] {
            let counts = rows(&all, direction);
            assert_eq!([0, 1].map(|i| figure(&counts[i], "payload")), sizes);
            for row in counts {
                let [instructions, branches, misses, memory] = [
                    "instructions",
                    "branches",
                    "D-cache misses",
                    "memory accesses",
                ]
                .map(|column| figure(row, column));
                assert!(branches < instructions && misses > 0.0, "{row}");
                // A few thousand instructions, as in the paper, and each byte copied 32 at a time.
                assert!((500.0..50_000.0).contains(&instructions), "{row}");
                assert!(figure(row, "TLB misses") < instructions, "{row}");
                // What misses the second level has missed the first.
                let first = misses + figure(row, "I-cache misses");
                assert!(memory <= first, "{row}");
            }
            for column in ["instructions", "D-cache misses"] {
                assert!(figure(&counts[0], column) < figure(&counts[1], column));
            }
        }
        assert_eq!(
            figure(&rows(&all, "receive")[1], "2003: instructions"),
            31_955.0
        );
        for row in rows(&all, "copies") {
            let (lines, received) = (figure(row, "lines of payload"), figure(row, "receiving"));
            assert_eq!(64.0 * lines, figure(row, "payload"));
            // Payload comes from no cache.
            assert!(lines <= received + 1.0, "{row}");
            assert!((0.0..=100.0).contains(&figure(row, "share of receiving")));
        }
        for row in rows(&all, "scaling") {
            for column in ["sending", "receiving"] {
                assert!((37.5..=100.0).contains(&figure(row, column)), "{row}");
            }
        }
        for row in rows(&all, "latency") {
            let most = 100.0 / figure(row, "memory's time");
            assert!((1.0..=most).contains(&figure(row, "here")), "{row}");
        }
        // Memory that becomes faster is never slower.
        let rates = rows(&all, "frequency");
        let fastest = rates.iter().filter(|row| figure(row, "clock") == 10.0);
        assert!(fastest.clone().count() == 4);
        for row in fastest {
            assert!(figure(row, "pscale") >= figure(row, "mscale"), "{row}");
        }
        for row in rows(&all, "throughput") {
            assert!(figure(row, "sending") > 0.0 && figure(row, "receiving") > 0.0);
            assert!(figure(row, "sending: engine") > 0.0, "{row}");
        }
        for row in rows(&all, "times") {
            assert!(figure(row, "sending, each instruction") > 0.0, "{row}");
        }
    });
}
