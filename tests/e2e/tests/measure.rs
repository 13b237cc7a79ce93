//! `longshore measure`: what it prints, and that its columns fit each other.

use longshore_e2e::{Finished, Stack, Testbed, as_ordinary_user, run_uncounted, with_mounts};
use serde_json::Value;
use std::time::Duration;

/// Its engine is in a namespace of its own, and no testbed's.
fn scenario(body: impl FnOnce(&Testbed) + Send + 'static) {
    run_uncounted(Stack::Longshore, Duration::from_secs(300), body);
}

fn rows(end: &Finished) -> Vec<Value> {
    assert!(end.status.success(), "{end:?}");
    serde_json::from_str(&end.stdout).unwrap_or_else(|e| panic!("{e}: {end:?}"))
}

fn count(row: &Value, direction: &str, figure: &str) -> u64 {
    let value = row[direction][figure].as_u64();
    value.unwrap_or_else(|| panic!("{direction} {figure} of {row}"))
}

/// `cpu` says by functions' names what part of the work they are: a name that no function has any
/// more leaves its functions to another part.
#[test]
fn every_name_by_which_cpu_knows_a_function_is_that_of_one() {
    let program = longshore_testbed::longshore();
    let mut nm = std::process::Command::new("nm");
    nm.arg("--demangle").arg(&program);
    nm.arg(program.with_file_name("liblongshore_preload.so"));
    let found = nm.output().expect("nm runs");
    assert!(found.status.success(), "{found:?}");
    let symbols = String::from_utf8_lossy(&found.stdout);
    let unknown = longshore_measure::experiments::cpu::built_names();
    let unknown: Vec<_> = unknown.filter(|name| !symbols.contains(name)).collect();
    assert!(
        unknown.is_empty(),
        "no function has {unknown:?} in its name"
    );
}

/// What must be so whatever the machine does, of the rows of one fetch.
fn check_fetch(size: u64, mode: &str, rows: &[Value]) {
    let adapters: Vec<&str> = rows.iter().filter_map(|r| r["adapter"].as_str()).collect();
    assert_eq!(
        adapters,
        [
            "longshore",
            "e1000",
            "e1000-tso",
            "e1000-tso-lro",
            "e1000-tso-lro-queues"
        ]
    );
    for row in rows {
        assert_eq!(
            (row["size"].as_u64(), row["mode"].as_str()),
            (Some(size), Some(mode))
        );
        // The file goes to the adapter, and not back.
        assert!(count(row, "send", "bytes") > size, "{row}");
        assert!(count(row, "receive", "transfers") > 0, "{row}");
        for direction in ["receive", "send"] {
            let (transfers, bytes) = (
                count(row, direction, "transfers"),
                count(row, direction, "bytes"),
            );
            let cycles = count(row, direction, "cycles");
            assert!(transfers <= bytes, "{row}");
            assert!(cycles >= 4 * transfers + bytes / 8, "{row}");
            assert!(cycles <= 5 * transfers + bytes / 8, "{row}");
        }
        assert_eq!(count(row, "receive", "round_trips"), 0);
        let waited = count(row, "send", "round_trips");
        assert!(
            (1..=count(row, "send", "transfers")).contains(&waited),
            "{row}"
        );
    }
    // How exactly it repeats is known of what the engine counts.
    let same = rows[0]["repeated"]["same"].as_u64();
    assert_eq!(rows[0]["repeated"]["fetches"], 3, "{rows:?}");
    assert!(same.is_some_and(|same| (1..=3).contains(&same)), "{rows:?}");
    assert!(rows[1..].iter().all(|row| row["repeated"].is_null()));
    let transfers = |row: usize, direction| count(&rows[row], direction, "transfers");
    for direction in ["receive", "send"] {
        assert!(transfers(2, direction) <= transfers(1, direction));
        assert!(transfers(3, direction) <= transfers(2, direction));
    }
    assert!(transfers(0, "send") < transfers(1, "send"), "{rows:?}");
    // By their queues the same frames come, and batches of descriptors are read whole.
    assert!(transfers(4, "receive") <= transfers(3, "receive"));
    let bytes = |row: usize| count(&rows[row], "send", "bytes");
    assert!(bytes(4) > bytes(3), "{rows:?}");
    // A frame received is a transfer, and the descriptor that announces it another.
    assert_eq!(transfers(1, "receive") % 2, 0);
}

/// The smallest run, on two buses.
#[test]
fn a_fetch_is_shown_as_json() {
    scenario(|bed| {
        let measure = |bus: &str| {
            bed.peer()
                .longshore()
                .args(["measure", "bus", "--json", "--size", "1", "--fetches", "3"])
                .args(["--bus", bus])
                .run()
        };
        let on_pcix = rows(&measure("pcix"));
        assert_eq!(on_pcix.len(), 10);
        check_fetch(1024, "close", &on_pcix[..5]);
        check_fetch(1024, "keep-alive", &on_pcix[5..]);
        let close = &on_pcix[1];
        // SYN-ACK, ACK, the answer, FIN: two transfers each, and the answer's payload.
        assert_eq!(count(close, "send", "transfers"), 9, "{close}");
        // The headers of packets take bytes of the link.
        for row in rows(&measure("pcie-gen4x8")) {
            let (cycles, bytes) = (count(&row, "send", "cycles"), count(&row, "send", "bytes"));
            assert!(
                cycles >= bytes + 20 * count(&row, "send", "transfers"),
                "{row}"
            );
        }
    });
}

/// The batches of queues are as large as is asked for: what is sent in one burst is read with one,
/// and if the queue's buffers are used up, those are another.
#[test]
fn queues_prefetch_as_many_descriptors_as_is_asked_for() {
    scenario(|bed| {
        for prefetch in [2, 256] {
            let end = bed
                .peer()
                .longshore()
                .args(["measure", "bus", "--json", "--size", "1", "--fetches", "1"])
                .args(["--queues", "2", "--prefetch", &prefetch.to_string()])
                .run();
            let all = rows(&end);
            let kept = |adapter: &str| {
                let found = |row: &&Value| row["adapter"] == adapter && row["mode"] == "keep-alive";
                let row = all.iter().find(found).expect(adapter);
                (count(row, "send", "transfers"), count(row, "send", "bytes"))
            };
            // Two descriptors, and what they describe, in two pieces.
            let (_, others) = kept("e1000-tso-lro");
            let (transfers, bytes) = kept("e1000-tso-lro-queues");
            assert!((3..=4).contains(&transfers), "{end:?}");
            let batches = (transfers - 2) * 16 * prefetch;
            assert_eq!(bytes, others - 2 * 16 + batches, "{end:?}");
        }
    });
}

/// An ordinary user measures, too, and sees what offload does for larger files.
#[test]
fn an_ordinary_user_sees_tables_with_the_papers_figures() {
    scenario(|bed| {
        let end = as_ordinary_user(bed, ":", "measure bus --size 64 --fetches 3").run();
        assert!(end.status.success(), "{end:?}");
        for words in [
            "One fetch of 64 KB, a connection for each request, accepted with it, on pcix",
            "69474",
            "66319",
        ] {
            assert!(end.stdout.contains(words), "{words}: {end:?}");
        }
    });
}

/// A short run has fewer loads, and each of its rows says what it is.
#[test]
fn short_runs_are_marked() {
    scenario(|bed| {
        let measure = |how: &str| {
            bed.peer()
                .longshore()
                .args(["measure", "bus", "--quick", how])
                .run()
        };
        let all = rows(&measure("--json"));
        assert!(all.iter().all(|row| row["quick"] == true), "{all:?}");
        let mut workloads: Vec<&str> = all.iter().filter_map(|r| r["workload"].as_str()).collect();
        workloads.dedup();
        assert_eq!(workloads, ["nginx", "redis GET", "echo"]);
        let csv = measure("--csv");
        assert!(csv.stdout.starts_with("# Short runs"), "{csv:?}");
    });
}

/// Without a size, other servers and clients are measured, too.
#[test]
fn loads_are_means_of_requests() {
    scenario(|bed| {
        let end = bed
            .peer()
            .longshore()
            .args(["measure", "bus", "--json", "--fetches", "1"])
            .run();
        let all = rows(&end);
        // Three sizes, two modes, five adapters, of nginx; lighttpd need not be installed.
        assert!(all[..30].iter().all(|row| row["workload"] == "nginx"));
        let loads: Vec<&Value> = all.iter().filter(|r| r["operations"].is_u64()).collect();
        for (workload, connections, least) in [
            ("nginx, wrk", 32, 100),
            ("redis GET", 1, 5_000),
            ("redis GET, 16 at once", 1, 80_000),
            ("redis GET", 50, 50_000),
            ("echo", 1, 2_000),
        ] {
            let found =
                |row: &&&Value| row["workload"] == workload && row["connections"] == connections;
            let one: Vec<&&Value> = loads.iter().filter(found).collect();
            assert!(
                !one.is_empty() && one.len().is_multiple_of(5),
                "{workload}: {end:?}"
            );
            for row in one {
                assert!(row["operations"].as_u64() >= Some(least), "{row}");
                for direction in ["receive", "send"] {
                    let figure = |name: &str| row[direction][name].as_f64().expect(name);
                    assert!(figure("transfers") > 0.0, "{row}");
                    // Each transfer takes PCI-X four cycles, and each eight bytes one.
                    assert!(figure("cycles") >= 4.0 * figure("transfers"), "{row}");
                    assert!(figure("cycles") >= figure("bytes") / 8.0, "{row}");
                }
            }
        }
        // What is asked 16 at once crosses in fewer transfers.
        let transfers = |workload: &str| {
            let row = loads
                .iter()
                .find(|r| r["workload"] == workload && r["adapter"] == "longshore");
            row.and_then(|row| row["send"]["transfers"].as_f64())
                .expect(workload)
        };
        assert!(
            transfers("redis GET, 16 at once") < transfers("redis GET"),
            "{end:?}"
        );
    });
}

/// A program of the user's, until it ends.
#[test]
fn a_program_is_measured_until_its_end() {
    scenario(|bed| {
        let end = bed
            .peer()
            .longshore()
            .args(["measure", "bus", "--csv", "--addr", "10.77.0.2/24", "--"])
            .args([
                "/bin/sh",
                "-c",
                "curl -s --connect-timeout 1 http://10.77.0.9/; exit 3",
            ])
            .run();
        assert_eq!(end.status.code(), Some(3), "{end:?}");
        let lines: Vec<&str> = end.stdout.lines().collect();
        assert_eq!(lines.len(), 6, "{end:?}");
        assert!(
            lines[1].starts_with("longshore,") && lines[2].starts_with("e1000,"),
            "{end:?}"
        );
        // It asked for a connection at least.
        assert!(!lines[1].ends_with(",0,0,0,0"), "{end:?}");
    });
}

/// What is missing or wrong is said, with what can be done.
#[test]
fn what_cannot_be_measured_is_said() {
    scenario(|bed| {
        let longshore = || bed.peer().longshore();
        let end = longshore().args(["measure", "bus", "--bus", "isa"]).run();
        assert_eq!(end.status.code(), Some(2), "{end:?}");
        assert!(
            end.stderr.contains("pcie-gen3x8") && end.stderr.contains("cxl"),
            "{end:?}"
        );
        let end = longshore().arg("measure").run();
        assert!(
            end.status.success() && end.stdout.contains("longshore measure bus"),
            "{end:?}"
        );
        // A mount hides where nginx is.
        let end = with_mounts(bed, "mount -t tmpfs none /usr/sbin", "measure bus").run();
        assert_eq!(end.status.code(), Some(125), "{end:?}");
        for words in ["nginx is not installed", "nginx-light"] {
            assert!(end.stderr.contains(words), "{words}: {end:?}");
        }
    });
}
