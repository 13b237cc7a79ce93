//! The glossary (docs/glossary.md) is held to what `stat` and `ss` print: no counter, no
//! field of their JSON and no word of their tables is missing there.

use crate::ss::details;
use longshore_engine::control::{
    ClassesStat, CrossingStat, SessionStat, SsReply, SsRow, StatReply, TcpStat,
};
use serde_json::Value;
use std::fmt::Write;
use std::path::{Path, PathBuf};

const BEGIN: &str = "<!-- made by the test `glossary::counters_are_explained` -->\n";
const END: &str = "<!-- end -->\n";

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/glossary.md")
}

fn glossary() -> String {
    std::fs::read_to_string(path()).unwrap()
}

/// The tables of counters, a section each.
fn tables() -> String {
    let all = longshore_engine::counters();
    let mut out = String::new();
    for (section, title) in [
        ("tcp", "TCP"),
        ("net", "IP and UDP (`ip` in the text)"),
        ("engine", "The engine"),
        ("drops", "Drops"),
    ] {
        let _ = write!(
            out,
            "\n### {title}\n\n| counter | unit | what it counts |\n"
        );
        out.push_str("| --- | --- | --- |\n");
        for c in all.iter().filter(|c| c.section == section) {
            let help = without_links(&c.help.replace('|', "\\|"));
            let help = help.trim_end_matches('.');
            let _ = writeln!(out, "| `{}` | {} | {help} |", c.name, c.unit);
        }
    }
    out.push('\n');
    out
}

/// The text without the links to items of the code, which lead nowhere from a document.
fn without_links(help: &str) -> String {
    let (mut text, mut rest) = (String::new(), help);
    while let Some((before, link)) = rest.split_once("[`")
        && let Some((name, target)) = link.split_once("`](")
        && let Some((_, after)) = target.split_once(')')
    {
        text += &format!("{before}`{name}`");
        rest = after;
    }
    text + rest
}

/// `LONGSHORE_WRITE=1 cargo test -p longshore-cli glossary` writes the tables down.
#[test]
fn counters_are_explained() {
    let text = glossary();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (there, after) = rest.split_once(END).unwrap();
    let wanted = tables();
    if std::env::var_os("LONGSHORE_WRITE").is_some() {
        std::fs::write(path(), format!("{before}{BEGIN}{wanted}{END}{after}")).unwrap();
        return;
    }
    let missing: Vec<&str> = wanted.lines().filter(|l| !there.contains(l)).collect();
    assert!(
        there == wanted,
        "docs/glossary.md is not up to date with the counters ({missing:?}): run \
         `LONGSHORE_WRITE=1 cargo test -p longshore-cli glossary`"
    );
}

/// All keys of objects in a value, at any depth.
fn keys(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, inner) in map {
                into.push(key.clone());
                keys(inner, into);
            }
        }
        Value::Array(list) => list.iter().for_each(|inner| keys(inner, into)),
        _ => {}
    }
}

fn full_row() -> SsRow {
    let crossing = CrossingStat {
        transfers: 1,
        classes: ClassesStat {
            immediate: 1,
            ..Default::default()
        },
        ..Default::default()
    };
    let mut row = SsRow {
        timer: Some(("on".to_owned(), 200)),
        tcp: Some(TcpStat {
            congestion: "cubic".to_owned(),
            timestamps: true,
            sack: true,
            window_scale: Some((7, 7)),
            rto_us: 1,
            rtt_us: 1,
            rttvar_us: 1,
            mss: 1,
            pmtu: 1,
            cwnd: 1,
            ssthresh: Some(1),
            bytes_sent: 1,
            bytes_retransmitted: 1,
            bytes_acked: 1,
            bytes_received: 1,
            segs_out: 1,
            segs_in: 1,
            retransmissions: 1,
            in_flight: 1,
            snd_wnd: 1,
            rcv_wnd: 1,
            last_snd_ms: Some(1),
            last_rcv_ms: Some(1),
        }),
        ..Default::default()
    };
    row.crossings.to_adapter = crossing;
    row.crossings.to_host = crossing;
    row
}

#[test]
fn fields_and_words_are_explained() {
    let text = glossary();
    let stat = StatReply {
        sessions: vec![SessionStat::default()],
        ..Default::default()
    };
    let ss = SsReply {
        rows: vec![full_row()],
        ..Default::default()
    };
    let mut wanted = Vec::new();
    keys(&serde_json::to_value(stat).unwrap(), &mut wanted);
    keys(&serde_json::to_value(ss.rows).unwrap(), &mut wanted);
    let row = details(&full_row());
    let words = row.split_whitespace().filter(|word| *word != "cubic");
    wanted.extend(words.map(|word| match word.split_once(':') {
        Some((name, _)) => format!("{name}:"),
        None => word.to_owned(),
    }));
    // The columns of both tables.
    for column in [
        "Netid",
        "State",
        "Recv-Q",
        "Send-Q",
        "Local:Port",
        "Peer:Port",
        "Process",
    ] {
        wanted.push(column.to_owned());
    }
    for word in wanted {
        assert!(
            text.contains(&format!("`{word}`")) || text.contains(&format!("`{word}N")),
            "docs/glossary.md does not explain `{word}`"
        );
    }
}
