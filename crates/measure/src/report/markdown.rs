//! Rows as the two tables of the documents: all figures, for `docs/performance.md`, and the
//! ratios that a reader of the README looks for.
//!
//! Owns which rows the short table has, and under what names. `longshore-bench --markdown`
//! calls it.

use super::{Better, Row, Target, median, number};
use std::fmt::Write as _;

/// A line of the short table: what it says, how the processors idled, and the rows (name and
/// placement) whose ratios it shows, or whose figures, where the kernel has nothing to be
/// compared with.
type Line = (
    &'static str,
    &'static str,
    &'static [(&'static str, &'static str)],
);

const SHORT: [Line; 17] = [
    (
        "bulk, one stream, MTU 1500, POSIX calls: to the kernel / from it",
        "halt",
        &[
            ("bulk to the kernel, POSIX", "free"),
            ("bulk from the kernel, POSIX", "free"),
        ],
    ),
    (
        "the same by the native calls",
        "halt",
        &[
            ("bulk to the kernel, native", "free"),
            ("bulk from the kernel, native", "free"),
        ],
    ),
    (
        "the same with 8 streams, POSIX calls",
        "halt",
        &[
            ("8 streams to the kernel, POSIX", "free"),
            ("8 streams from the kernel, POSIX", "free"),
        ],
    ),
    (
        "one stream of small sends: 64 bytes / 1 KB / 16 KB each",
        "halt",
        &[
            ("sends of 64 bytes", "free"),
            ("sends of 1 KB", "free"),
            ("sends of 16 KB", "free"),
        ],
    ),
    (
        "round trip of 1 byte (smaller is better): two cores / same core",
        "halt",
        &[
            ("round trip of 1 byte", "two cores"),
            ("round trip of 1 byte", "same core"),
        ],
    ),
    (
        "the same while no processor sleeps",
        "awake",
        &[
            ("round trip of 1 byte", "two cores"),
            ("round trip of 1 byte", "same core"),
        ],
    ),
    (
        "sockperf, 64 bytes, while no processor sleeps (smaller is better): TCP / UDP",
        "awake",
        &[
            ("sockperf, round trip of 64 bytes by TCP", "free"),
            ("sockperf, round trip of 64 bytes by UDP", "free"),
        ],
    ),
    (
        "nginx, 1 KB, one connection that is kept: processors that sleep",
        "halt",
        &[("nginx 1 KB, keep-alive, one connection", "free")],
    ),
    (
        "nginx, 1 KB, requests a second: keep-alive / a connection each",
        "halt",
        &[
            ("nginx 1 KB, keep-alive", "free"),
            ("nginx 1 KB, close", "free"),
        ],
    ),
    (
        "nginx, keep-alive, 64 KB / 512 KB",
        "halt",
        &[
            ("nginx 64 KB, keep-alive", "free"),
            ("nginx 512 KB, keep-alive", "free"),
        ],
    ),
    (
        "redis GET, requests a second: one by one / 16 at once",
        "halt",
        &[("redis GET", "free"), ("redis GET, pipeline of 16", "free")],
    ),
    (
        "PostgreSQL, pgbench select-only with 8 clients",
        "halt",
        &[("PostgreSQL, pgbench select-only, 8 clients", "free")],
    ),
    (
        "both ends on one host: iperf3 / bulk by native calls / redis GET one by one / 16 at once",
        "halt",
        &[
            ("iperf3, one host", "free"),
            ("bulk, native, one host", "free"),
            ("redis GET, one host", "free"),
            ("redis GET, pipeline of 16, one host", "free"),
        ],
    ),
    (
        "HAProxy before nginx, 64 KB, with their client on one host",
        "halt",
        &[("HAProxy before nginx, 64 KB, one host", "free")],
    ),
    (
        "goodput left beside all SYNs that one thread can send, of the kernel's",
        "halt",
        &[("goodput beside a flood without limit", "free")],
    ),
    (
        "processor taken by an idle engine and program, 10,000 connections open",
        "halt",
        &[("idle, 10,000 connections", "free")],
    ),
    (
        "memory of an idle connection, both sides, before / after a request",
        "halt",
        &[
            ("memory of an idle connection", "free"),
            ("memory of a connection after a request", "free"),
        ],
    ),
];

/// Both tables, each with a heading that says where it belongs.
#[must_use]
pub fn tables(rows: &[Row]) -> String {
    format!(
        "docs/performance.md:\n\n{}\nREADME.md:\n\n{}",
        long(rows),
        short(rows)
    )
}

/// All rows: medians, least and greatest, ratio, and what is wanted.
fn long(rows: &[Row]) -> String {
    let mut text = String::from(
        "| measurement | placement, idle | unit | Longshore | kernel | bare port | ratio | wanted |\n\
         | --- | --- | --- | ---: | ---: | ---: | ---: | --- |\n",
    );
    for row in rows {
        let ratio = row.ratio().map_or_else(String::new, in_short);
        let _ = writeln!(
            text,
            "| {} | {}, {} | {} | {} | {} | {} | {ratio} | {} |",
            row.name,
            row.placement,
            row.idle,
            row.unit,
            runs(&row.longshore),
            runs(&row.kernel),
            runs(&row.bare),
            wanted(row)
        );
    }
    text
}

/// The lines of [`SHORT`] of which there is anything.
fn short(rows: &[Row]) -> String {
    let mut text = String::from("| Longshore divided by the kernel | |\n| --- | --- |\n");
    for (name, idle, parts) in SHORT {
        let figure = |(name, placement): &(&str, &str)| {
            let row = rows
                .iter()
                .find(|r| r.name == *name && r.placement == *placement && r.idle == idle)?;
            match row.ratio() {
                Some(ratio) => Some(in_short(ratio)),
                None => Some(format!("{} {}", number(median(&row.longshore)?), row.unit)),
            }
        };
        let figures: Vec<String> = parts.iter().filter_map(figure).collect();
        if figures.len() == parts.len() {
            let _ = writeln!(text, "| {name} | {} |", figures.join(" / "));
        }
    }
    text
}

/// The median of the runs, and the least and the greatest, if there are several.
fn runs(values: &[f64]) -> String {
    let Some(middle) = median(values) else {
        return String::new();
    };
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let greatest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    match values.len() {
        1 => number(middle),
        _ => format!(
            "{} ({} to {})",
            number(middle),
            number(least),
            number(greatest)
        ),
    }
}

/// A ratio with two digits after the point, or none from ten on.
fn in_short(ratio: f64) -> String {
    match ratio {
        r if r >= 9.95 => format!("{r:.0}"),
        r => format!("{r:.2}"),
    }
}

/// What is aimed at, and whether it was missed.
fn wanted(row: &Row) -> String {
    let most = match row.better {
        Better::Higher => "at least",
        Better::Lower => "at most",
    };
    let Some(Target::Ratio(limit) | Target::Value(limit)) = row.target else {
        return String::new();
    };
    let missed = if row.met() == Some(false) {
        ": missed"
    } else {
        ""
    };
    format!("{most} {limit}{missed}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, placement: &str, longshore: &[f64], kernel: &[f64]) -> Row {
        Row {
            name: name.into(),
            unit: "Gb/s",
            better: Better::Higher,
            placement: placement.into(),
            idle: "halt",
            longshore: longshore.to_vec(),
            kernel: kernel.to_vec(),
            bare: Vec::new(),
            target: Some(Target::Ratio(0.8)),
            crossings: None,
        }
    }

    #[test]
    fn all_rows_are_in_the_long_table() {
        let bulk = row(
            "bulk to the kernel, POSIX",
            "free",
            &[7.0, 5.0, 6.0],
            &[8.0],
        );
        let rows = [
            Row {
                bare: vec![9.0],
                ..bulk
            },
            row("else", "free", &[3.0], &[]),
        ];
        let text = long(&rows);
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(
            lines,
            [
                "| bulk to the kernel, POSIX | free, halt | Gb/s | 6.00 (5.00 to 7.00) | 8.00 \
                 | 9.00 | 0.75 | at least 0.8: missed |",
                "| else | free, halt | Gb/s | 3.00 |  |  |  | at least 0.8 |",
            ]
        );
    }

    #[test]
    fn a_line_of_the_short_table_needs_all_its_rows() {
        let both = [
            row("bulk to the kernel, POSIX", "free", &[6.0], &[8.0]),
            row("bulk from the kernel, POSIX", "free", &[88.0], &[8.0]),
            row("redis GET", "free", &[1.0], &[1.0]),
            row("idle, 10,000 connections", "free", &[0.0], &[]),
        ];
        let text = short(&both);
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(
            lines,
            [
                "| bulk, one stream, MTU 1500, POSIX calls: to the kernel / from it | 0.75 / 11 |",
                "| processor taken by an idle engine and program, 10,000 connections open \
                 | 0.00 Gb/s |",
            ]
        );
    }

    #[test]
    fn a_line_shows_the_rows_of_its_idle_mode() {
        let of = |placement, longshore: f64, idle| Row {
            idle,
            ..row("round trip of 1 byte", placement, &[longshore], &[10.0])
        };
        let both = [
            of("two cores", 5.0, "halt"),
            of("two cores", 12.0, "awake"),
            of("same core", 11.0, "awake"),
        ];
        let text = short(&both);
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(
            lines,
            ["| the same while no processor sleeps | 1.20 / 1.10 |"]
        );
    }

    /// A row whose name has been changed would be missing without a word.
    #[test]
    fn the_short_table_names_rows_that_are_measured() {
        let all = crate::scenarios::all();
        for (line, idle, parts) in SHORT {
            for (name, placement) in parts {
                let is_there = all.iter().any(|s| {
                    s.about().name == *name
                        && s.placements().iter().any(|p| p.name() == *placement)
                        && (idle == "halt" || s.about().awake.is_some())
                });
                assert!(is_there, "{line}: {name}, {placement}");
            }
        }
    }
}
