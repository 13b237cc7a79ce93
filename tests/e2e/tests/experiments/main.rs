//! `longshore measure`'s experiments of the papers: shapes, units, and what must be so whatever
//! the machine does.

mod ends;
mod payload;

use longshore_e2e::{Finished, Stack, Testbed, as_ordinary_user, run_uncounted, with_mounts};
use serde_json::Value;
use std::time::Duration;

/// Engines are in a namespace of the experiment's own, and no testbed's.
fn scenario(body: impl FnOnce(&Testbed) + Send + 'static) {
    run_uncounted(Stack::Longshore, Duration::from_secs(300), body);
}

/// An experiment at its smallest, as JSON.
fn smallest(bed: &Testbed, experiment: &str) -> Value {
    let end = bed
        .peer()
        .longshore()
        .args(["measure", experiment, "--quick", "--json"])
        .run();
    assert!(end.status.success(), "{end:?}");
    let all: Value = serde_json::from_str(&end.stdout).unwrap_or_else(|e| panic!("{e}: {end:?}"));
    assert_eq!(all["experiment"], experiment);
    assert_eq!(all["quick"], true, "short runs are marked");
    assert!(all["machine"]["processor"].is_string(), "{all}");
    for (name, sheet) in all["sheets"].as_object().expect("sheets") {
        assert!(!rows(&all, name).is_empty(), "{name} has rows");
        assert!(sheet["basis"].as_str().is_some_and(|b| !b.is_empty()));
        for (column, unit) in sheet["units"].as_object().expect("units") {
            assert!(unit.as_str().is_some_and(|u| !u.is_empty()), "{column}");
        }
        for row in rows(&all, name) {
            for (column, cell) in row.as_object().expect("a row") {
                check_spread(cell);
                // No sample may have fallen into a part.
                let least = cell["least"].as_f64();
                let may_be_none =
                    payload::PARTS.contains(&&**column) || column.contains("wake-ups");
                assert!(may_be_none || least.is_none_or(|least| least > 0.0));
            }
        }
    }
    all
}

/// What was measured in several runs lies between its ends.
fn check_spread(cell: &Value) {
    if let Some(median) = cell["median"].as_f64() {
        let (least, most) = (
            cell["least"].as_f64().unwrap(),
            cell["most"].as_f64().unwrap(),
        );
        assert!(least <= median && median <= most && least >= 0.0, "{cell}");
        assert!(cell["runs"].as_u64() >= Some(1), "{cell}");
    }
}

fn rows<'a>(all: &'a Value, sheet: &str) -> &'a [Value] {
    let rows = all["sheets"][sheet]["rows"].as_array();
    rows.unwrap_or_else(|| panic!("{sheet} in {all}"))
}

/// A figure, of several runs the median.
fn figure(row: &Value, column: &str) -> f64 {
    let cell = &row[column];
    let value = cell.as_f64().or_else(|| cell["median"].as_f64());
    value.unwrap_or_else(|| panic!("{column} of {row}"))
}

fn row<'a>(all: &'a Value, sheet: &str, column: &str, name: &str) -> &'a Value {
    let found = rows(all, sheet).iter().find(|row| row[column] == name);
    found.unwrap_or_else(|| panic!("{name} in {sheet} of {all}"))
}

#[test]
fn all_experiments_are_listed_with_how_long_they_take() {
    scenario(|bed| {
        let end = bed.peer().longshore().arg("measure").run();
        assert!(end.status.success(), "{end:?}");
        for experiment in [
            "bus",
            "predict",
            "host",
            "path",
            "sweep",
            "latency",
            "cpu",
            "characterize",
            "immediate",
            "port",
            "all",
        ] {
            let line = end
                .stdout
                .lines()
                .find(|line| {
                    line.trim()
                        .starts_with(&format!("longshore measure {experiment} "))
                })
                .unwrap_or_else(|| panic!("{experiment} in {end:?}"));
            assert!(line.contains(" s") || line.contains(" min"), "{line}");
        }
    });
}

/// Tables 2 and 3 of 2005.
#[test]
fn the_machine_itself() {
    scenario(|bed| {
        let all = smallest(bed, "host");
        let near = row(&all, "memory", "where", "L1 cache");
        let far = row(&all, "memory", "where", "main memory");
        assert!(figure(near, "time") < figure(far, "time"), "{all}");
        assert_eq!(all["sheets"]["memory"]["units"]["time"], "ns");
        // The paper's Table 2.
        assert_eq!(figure(far, "2004, 3.2 GHz Xeon"), 111.0);
        let call = row(&all, "reach", "what", "an empty system call");
        let woken = row(&all, "reach", "what", "wake-up by futex");
        assert!(figure(call, "time") < figure(woken, "time"), "{all}");
        for size in rows(&all, "pages") {
            assert!(figure(size, "exchange") > 0.0 && figure(size, "copy, hot") > 0.0);
        }
        for stack in ["Longshore", "kernel"] {
            let first = row(&all, "scaling", "stack", stack);
            assert_eq!(figure(first, "processors"), 1.0);
            assert_eq!(figure(first, "scale, achieved"), 1.0, "{first}");
            assert!(figure(first, "throughput") > 0.0, "{first}");
        }
        for scaled in rows(&all, "scaling") {
            let ratio = figure(scaled, "scale, achieved") / figure(scaled, "scale, ideal");
            assert!(
                (figure(scaled, "ratio") - 100.0 * ratio).abs() < 2.0,
                "{scaled}"
            );
        }
        let left_out = all["left_out"].to_string();
        assert!(left_out.contains("device registers"), "{left_out}");
    });
}

/// An ordinary user sees a table and a plot; progress does not stand in them.
#[test]
fn an_ordinary_user_has_tables_and_plots() {
    scenario(|bed| {
        let plot = bed.directory("plots").join("host.svg");
        std::fs::set_permissions(
            bed.path("plots"),
            std::os::unix::fs::PermissionsExt::from_mode(0o777),
        )
        .expect("may be written to");
        let line = format!("measure host --quick --csv --plot {}", plot.display());
        let Finished {
            status,
            stdout,
            stderr,
            ..
        } = as_ordinary_user(bed, ":", &line).run();
        assert!(status.success(), "{stdout}{stderr}");
        assert!(stdout.starts_with("# Short runs"), "{stdout}");
        assert!(stdout.contains("memory,L1 cache,"), "{stdout}");
        assert!(
            stderr.contains("host: ") && !stdout.contains("host: "),
            "{stderr}"
        );
        let drawing = std::fs::read_to_string(&plot).expect("a plot");
        for words in ["working set, KB", "copy, cold", "scale, ideal"] {
            assert!(drawing.contains(words), "{words}");
        }
    });
}

/// What runs over a TAP device runs for whoever may open one, and its lines of CSV have as many
/// cells as the heading above them.
#[test]
fn an_ordinary_user_has_csv_of_what_needs_a_device() {
    scenario(|bed| {
        for experiment in ["latency", "port"] {
            let line = format!("measure {experiment} --quick --csv");
            let end = as_ordinary_user(bed, ":", &line).run();
            assert!(end.status.success(), "{end:?}");
            let mut lines = end.stdout.lines();
            assert!(
                lines
                    .next()
                    .is_some_and(|line| line.starts_with("# Short runs"))
            );
            let (mut heading, mut rows) = (0, 0);
            for line in lines {
                // A comma within quotes ends no cell.
                let unquoted = line.split('"').step_by(2);
                let cells = unquoted
                    .map(|part| part.matches(',').count())
                    .sum::<usize>();
                if line.starts_with("sheet,") {
                    heading = cells;
                } else {
                    assert_eq!(cells, heading, "{line} of {end:?}");
                    rows += 1;
                }
            }
            assert!(rows > 3 && heading > 2, "{end:?}");
        }
    });
}

/// The paper of 1989.
#[test]
fn the_path_of_a_packet() {
    scenario(|bed| {
        let all = smallest(bed, "path");
        let part = |name: &str| figure(row(&all, "parts", "part", name), "instructions");
        let paper = |name: &str| figure(row(&all, "parts", "part", name), "1989");
        assert_eq!(paper("TCP output of data"), 235.0);
        // A few instructions at least, and not a hundred times the paper's.
        for row in rows(&all, "parts") {
            let (ours, theirs) = (figure(row, "instructions"), figure(row, "1989"));
            assert!((1.0..10.0 * theirs).contains(&ours), "{row}");
        }
        assert!(part("setting it again") <= part("setting a timer"), "{all}");
        // A packet is the sum of its parts.
        let sent = figure(row(&all, "packets", "packet", "data sent"), "instructions");
        let parts = [
            "buffer layer, sending data, no byte moved",
            "TCP output of data",
            "setting it again",
            "IP output",
        ];
        assert_eq!(sent, parts.map(part).iter().sum::<f64>());
        // What is computed for 10 MIPS from 400 instructions is the paper's.
        let computed = row(&all, "rates", "instructions a packet", "paper: 400");
        assert_eq!(figure(computed, "packets"), 25_000.0);
        let fddi: Vec<f64> = rows(&all, "rates")
            .iter()
            .filter(|row| row["packet size"] == 4000)
            .map(|row| figure(row, "bandwidth"))
            .collect();
        assert_eq!(fddi[0], 800.0);
        // In one pass the bytes are read once.
        let touch = |name: &str| figure(row(&all, "bytes", "what", name), "instructions");
        let one_pass = touch("copy and checksum in one pass");
        assert!(one_pass < touch("copy") + touch("checksum"), "{all}");
        for watched in rows(&all, "cache") {
            let share = figure(watched, "connection cached");
            assert!((0.0..=100.0).contains(&share), "{watched}");
        }
        // One connection is that of the segment before but when it begins.
        let echo = row(&all, "cache", "traffic", "echo");
        assert!(figure(echo, "connection cached") > 90.0, "{echo}");
        // Counts repeat.
        let again = smallest(bed, "path");
        assert_eq!(all["sheets"]["parts"], again["sheets"]["parts"]);
    });
}

/// All of it is one page, which goes on where it was.
#[test]
fn all_is_a_page_that_can_be_resumed_and_claims() {
    scenario(|bed| {
        let at = bed.directory("report");
        let (page, table) = (at.join("all.html"), at.join("claims.md"));
        let run = |more: &[&str]| {
            bed.peer()
                .longshore()
                .args(["measure", "all", "--quick", "--only", "path", "--out"])
                .arg(&page)
                .arg("--claims")
                .arg(&table)
                .arg("--plots")
                .arg(&at)
                .args(more)
                .run()
        };
        let end = run(&[]);
        assert!(end.status.success(), "{end:?}");
        let html = std::fs::read_to_string(&page).expect("a page");
        for words in [
            "<svg",
            "An Analysis of TCP",
            "--quick",
            "TCP output of data",
        ] {
            assert!(html.contains(words), "{words}");
        }
        let plot = std::fs::read_to_string(at.join("path.svg")).expect("a plot");
        assert!(plot.contains("Instructions of a packet"), "{plot}");
        let claims = std::fs::read_to_string(&table).expect("claims");
        assert!(claims.contains("| 1989 | TCP output | 235 |"), "{claims}");
        // What is there is not measured again.
        let end = run(&[]);
        assert!(
            end.status.success() && end.stderr.contains("is there already"),
            "{end:?}"
        );
        // A claim that held has to hold again.
        let result = at.join("all.html.results").join("path.json");
        let text = std::fs::read_to_string(&result).expect("a result");
        let mut all: Value = serde_json::from_str(&text).expect("JSON");
        let sheet = all["sheets"].as_array_mut().expect("sheets").iter_mut();
        for cells in sheet.flat_map(|s| s["rows"].as_array_mut().expect("rows")) {
            if cells[0] == "TCP output of data" {
                cells[1] = 1000.into();
            }
        }
        std::fs::write(&result, all.to_string()).expect("a result");
        let end = run(&[]);
        assert_eq!(end.status.code(), Some(1), "{end:?}");
        assert!(
            end.stderr
                .contains("1989: TCP output (235 there, 1,000 here)"),
            "{end:?}"
        );
        assert_eq!(std::fs::read_to_string(&table).expect("claims"), claims);
        // What was measured before this program was built is measured again.
        let file = std::fs::File::options().write(true).open(&result);
        let long_ago = std::time::SystemTime::UNIX_EPOCH;
        file.and_then(|file| file.set_modified(long_ago))
            .expect("a time");
        let end = run(&[]);
        assert!(
            end.status.success() && !end.stderr.contains("is there already"),
            "{end:?}"
        );
        assert!(run(&["--fresh"]).status.success());
    });
}

/// Fig. 6 of 1999.
#[test]
fn the_latency_of_datagrams() {
    scenario(|bed| {
        let all = smallest(bed, "latency");
        let sizes: Vec<f64> = rows(&all, "latency")
            .iter()
            .map(|r| figure(r, "size"))
            .collect();
        assert_eq!(sizes, [1.0, 1024.0, 8192.0]);
        for row in rows(&all, "latency") {
            assert!(figure(row, "Longshore") > 0.0 && figure(row, "kernel, loopback") > 0.0);
        }
        assert_eq!(all["sheets"]["latency"]["units"]["Longshore"], "us");
        // 8 KB cannot be there and back before a bus of 1 Gb/s has carried them, 65 us each way.
        let large = rows(&all, "latency").last().expect("a row");
        for forwarding in ["store", "cut-through", "adaptive"] {
            let least = large[format!("on the bus: {forwarding}")]["least"].as_f64();
            let bound = if forwarding == "store" { 65.0 } else { 40.0 };
            assert!(least.is_some_and(|us| us > bound), "{large}");
        }
        // Computed: alone a message is cut through, and among others stored.
        for row in rows(&all, "load") {
            let like = match figure(row, "at once") {
                1.0 => "cut-through",
                _ => "store",
            };
            assert_eq!(figure(row, "adaptive"), figure(row, like), "{row}");
            assert!(
                figure(row, "adaptive: accesses") <= figure(row, "cut-through: accesses"),
                "{row}"
            );
        }
    });
}

/// A program that is missing is named, with its package, and the rest is measured; a plot that
/// cannot be written is known before anything is measured.
#[test]
fn what_cannot_be_measured_is_left_out_and_said() {
    scenario(|bed| {
        let at = bed.directory("without");
        let page = at.join("all.html");
        let before = format!(
            "mount -t tmpfs none {at}/programs; \
             for p in /usr/bin/*; do case $p in */valgrind) ;; *) ln -s $p {at}/programs;; esac; \
             done; export PATH={at}/programs",
            at = at.display(),
        );
        let all = "measure all --quick --only path --only latency --out";
        let arguments = format!("{all} {}", page.display());
        std::fs::create_dir(at.join("programs")).expect("a directory");
        let end = with_mounts(bed, &before, &arguments).run();
        assert_eq!(end.status.code(), Some(125), "{end:?}");
        let html = std::fs::read_to_string(&page).expect("a page");
        for words in [
            "<li>path: valgrind is not installed",
            "package valgrind",
            "id=\"latency\"",
        ] {
            assert!(html.contains(words), "{words}: {html}");
        }
        let said = end.stderr.matches("valgrind is not installed").count();
        assert_eq!(said, 1, "{end:?}");
        let end = bed
            .peer()
            .longshore()
            .args(["measure", "latency", "--quick", "--plot"])
            .arg(at.join("nowhere").join("x.svg"))
            .run();
        assert_eq!(end.status.code(), Some(125), "{end:?}");
        assert!(end.stderr.contains("cannot write"), "{end:?}");
        assert!(!end.stderr.contains("run 1"), "{end:?}");
    });
}

/// Whoever may make no TAP device has what needs none, and later the rest.
#[test]
fn without_a_tap_device_counts_are_there() {
    scenario(|bed| {
        let page = bed.directory("closed").join("all.html");
        let all = "measure all --quick --only path --only latency --out";
        let arguments = format!("{all} {}", page.display());
        let end = with_mounts(bed, "mount -t tmpfs none /dev/net", &arguments).run();
        assert_eq!(end.status.code(), Some(125), "{end:?}");
        let html = std::fs::read_to_string(&page).expect("a page");
        for words in [
            "TCP output of data",
            "<li>real traffic: it runs over a TAP device",
            "<li>latency: it runs over a TAP device, and /dev/net/tun cannot be opened",
            "modprobe tun",
        ] {
            assert!(html.contains(words), "{words}: {html}");
        }
        let end = with_mounts(bed, ":", &arguments).run();
        assert!(end.status.success(), "{end:?}");
        assert!(!end.stderr.contains("is there already"), "{end:?}");
        let html = std::fs::read_to_string(&page).expect("a page");
        assert!(
            html.contains("redis GET") && !html.contains("real traffic:"),
            "{html}"
        );
    });
}

/// What ports give at best, beside both stacks.
#[test]
fn ports_by_themselves() {
    scenario(|bed| {
        let all = smallest(bed, "port");
        let who = [
            "Longshore on TAP",
            "kernel, loopback",
            "bare TAP",
            "bare TAP, never asleep",
            "bare packet socket",
        ];
        let directions = ["to the kernel", "from the kernel"];
        for (sheet, column, names) in [
            ("bulk", "direction", &directions[..]),
            ("round trips", "message", &["1 byte"]),
        ] {
            assert_eq!(rows(&all, sheet).len(), names.len());
            for name in names {
                let row = row(&all, sheet, column, name);
                for who in who {
                    assert!(figure(row, who) > 0.0, "{who} of {row}");
                    check_spread(&row[who]);
                }
            }
        }
        for row in rows(&all, "bulk") {
            let share = 100.0 * figure(row, who[0]) / figure(row, who[2]);
            assert!(
                (figure(row, "Longshore of bare TAP") - share).abs() < 1.0,
                "{row}"
            );
        }
        // A message through memory costs no system call.
        for row in rows(&all, "frames") {
            assert!(
                figure(row, "memory wire") > figure(row, "packet socket"),
                "{row}"
            );
            assert!(figure(row, "TAP") > 0.0, "{row}");
        }
    });
}
