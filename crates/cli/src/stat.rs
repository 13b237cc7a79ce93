//! `longshore stat`: what engines have done, one block for each.

use crate::args::ShowArguments;
use crate::bus::{TransportStat, transports_of};
use crate::control::ask_all;
use crate::errors::{Error, system};
use longshore_engine::control::{Counts, CrossingStat, StatReply};
use serde::Serialize;
use std::fmt::Write;

/// Runs the command.
pub(crate) fn run(arguments: &ShowArguments) -> Result<(), Error> {
    let replies = ask_all(arguments, |engine| {
        Ok(Shown {
            stat: engine.stat()?,
            transports: transports_of(engine.path()),
        })
    })?;
    if arguments.json {
        return crate::print_json(&replies);
    }
    let blocks: Vec<String> = replies.iter().map(Shown::block).collect();
    crate::print(&blocks.join("\n")).map_err(system("print"))
}

/// What is shown of an engine.
#[derive(Debug, Serialize)]
struct Shown {
    #[serde(flatten)]
    stat: StatReply,
    /// What carries the requests of its programs, where that is not memory.
    transports: Vec<TransportStat>,
}

impl Shown {
    fn block(&self) -> String {
        let transports: String = self.transports.iter().map(transport).collect();
        block(&self.stat) + &transports
    }
}

/// A transport's part of its engine's block.
fn transport(t: &TransportStat) -> String {
    let share = |of: f64| format!("{:.1} %", of * 100.0);
    let limit = match t.limit.as_str() {
        "bus" => "the bus is taken all of the time, and is the limit",
        "latency" => "something is always under way: the latency of the bus is the limit",
        _ => "the bus waits for the programs and this machine: it is not the limit",
    };
    let rows = [
        (
            "to host",
            t.bytes_to_host,
            t.taken_to_host,
            t.in_flight_to_host,
        ),
        (
            "to adapter",
            t.bytes_to_adapter,
            t.taken_to_adapter,
            t.in_flight_to_adapter,
        ),
    ];
    let mut out = format!(
        "\n  {:<22}{:>14}{:>18}{:>14}\n",
        t.name, "taken", "bytes", "in flight"
    );
    for (name, bytes, taken, in_flight) in rows {
        let _ = writeln!(
            out,
            "    {name:<20}{:>14}{bytes:>18}{in_flight:>14}",
            share(taken)
        );
    }
    let _ = writeln!(
        out,
        "    {} accesses, {} requests wait; this machine adds {:.1} us to a message",
        t.accesses,
        t.waiting,
        t.late_ns as f64 / 1e3
    );
    let _ = writeln!(out, "    {limit}");
    out
}

/// One engine's block.
pub(crate) fn block(s: &StatReply) -> String {
    let mut out = String::new();
    let mut line = |text: String| {
        out.push_str(&text);
        out.push('\n');
    };
    line(format!(
        "engine {} at {} on {}, MTU {}, up {}",
        s.pid,
        s.addresses.join(" and "),
        s.port.name,
        s.port.mtu,
        duration(s.uptime_ms)
    ));
    let gateway = if s.gateways.is_empty() {
        "none".to_owned()
    } else {
        s.gateways.join(" and ")
    };
    line(format!(
        "  version {}, interface {}, gateway {gateway}, loopback with the {}",
        s.version, s.abi, s.loopback
    ));
    if !s.sandbox.is_empty() {
        line(format!("  sandbox: {}", s.sandbox));
    }
    line(String::new());
    line(format!(
        "  {:<22}{:>14}{:>18}{:>14}{:>14}",
        "packets", "frames", "bytes", "coalesced", "calls"
    ));
    for (name, t) in [("in", &s.port.rx), ("out", &s.port.tx)] {
        line(format!(
            "    {name:<20}{:>14}{:>18}{:>14}{:>14}",
            t.frames, t.bytes, t.gso_frames, t.calls
        ));
    }
    if s.port.tx_full > 0 {
        line(format!("    the wire had no room {} times", s.port.tx_full));
    }
    line(String::new());
    line(format!(
        "  {:<22}{:>14}{:>18}{:>14}{:>14}",
        "crossings", "transfers", "bytes", "descriptors", "wake-ups"
    ));
    line(crossing("program to engine", &s.crossings.to_adapter));
    line(crossing("engine to program", &s.crossings.to_host));
    for (title, counts) in [("tcp", &s.tcp), ("ip", &s.net), ("engine", &s.engine)] {
        section(&mut out, title, counts);
    }
    if s.drops.values().all(|n| *n == 0) {
        out.push_str("\n  drops: none\n");
    } else {
        section(&mut out, "drops", &s.drops);
    }
    sessions(&mut out, s);
    out
}

/// A row of what crossed in one direction, and one for each class that did.
fn crossing(name: &str, c: &CrossingStat) -> String {
    let mut out = format!(
        "    {name:<20}{:>14}{:>18}{:>14}{:>14}",
        c.transfers, c.bytes, c.descriptors, c.wakeups
    );
    for (class, moved) in c.classes.named() {
        if moved.transfers != 0 {
            let _ = write!(
                out,
                "\n      {class:<18}{:>14}{:>18}",
                moved.transfers, moved.bytes
            );
        }
    }
    if c.classes.immediate != 0 {
        let bytes = c.classes.immediate;
        let _ = write!(out, "\n      {:<32}{bytes:>18}", "payload in descriptors");
    }
    out
}

/// Named counts, those that are zero left out.
fn section(out: &mut String, title: &str, counts: &Counts) {
    let counts: Vec<_> = counts.iter().filter(|(_, n)| **n != 0).collect();
    if counts.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n  {title}");
    for (name, n) in counts {
        let _ = writeln!(out, "    {:<30}{n:>14}", name.replace('_', " "));
    }
}

fn sessions(out: &mut String, s: &StatReply) {
    if s.sessions.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "\n  {:<10}{:>8}{:>11}{:>18}{:>20}{:>20}",
        "session", "user", "processes", "sockets", "send chunks", "receive chunks"
    );
    for x in &s.sessions {
        let of = |used: u32, max: u32| format!("{used} of {max}");
        let _ = writeln!(
            out,
            "  {:<10}{:>8}{:>11}{:>18}{:>20}{:>20}",
            x.id,
            x.uid,
            x.processes,
            of(x.sockets, x.sockets_max),
            of(x.snd_chunks, x.snd_chunks_max),
            of(x.rcv_chunks, x.rcv_chunks_max)
        );
    }
    for x in &s.sessions {
        let _ = writeln!(
            out,
            "\n  {:<22}{:>14}{:>18}{:>14}{:>14}",
            format!("session {}", x.id),
            "transfers",
            "bytes",
            "descriptors",
            "wake-ups"
        );
        let _ = writeln!(
            out,
            "{}",
            crossing("program to engine", &x.crossings.to_adapter)
        );
        let _ = writeln!(
            out,
            "{}",
            crossing("engine to program", &x.crossings.to_host)
        );
    }
}

/// A time span for people.
fn duration(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0..60 => format!("{}.{} s", seconds, ms % 1000 / 100),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longshore_engine::control::SessionStat;

    #[test]
    fn a_block_has_what_happened_and_nothing_that_did_not() {
        let mut s = StatReply {
            pid: 42,
            addresses: vec!["10.77.0.2/24".to_owned(), "fd00::2/64".to_owned()],
            uptime_ms: 61_000,
            loopback: "kernel".to_owned(),
            ..Default::default()
        };
        s.port.name = "tap:longshore0".to_owned();
        s.crossings.to_host.descriptors = 1234;
        s.tcp.insert("fast_path_hits".to_owned(), 99);
        s.tcp.insert("retransmissions".to_owned(), 0);
        let text = block(&s);
        assert!(text.starts_with("engine 42 at 10.77.0.2/24 and fd00::2/64 on tap:longshore0"));
        assert!(text.contains("up 1 min 1 s"));
        assert!(text.contains("1234") && text.contains("fast path hits"));
        assert!(!text.contains("retransmissions"));
        assert!(text.contains("drops: none"));
        s.drops.insert("bad_checksum".to_owned(), 3);
        s.sessions.push(SessionStat {
            sockets: 5,
            sockets_max: 64,
            ..Default::default()
        });
        let text = block(&s);
        assert!(text.contains("bad checksum") && !text.contains("none\n"));
        assert!(text.contains("5 of 64"));
    }

    #[test]
    fn durations() {
        let all = [1_234, 59_999, 3_599_000, 7_260_000, 90_000_000].map(duration);
        assert_eq!(
            all,
            ["1.2 s", "59.9 s", "59 min 59 s", "2 h 1 min", "1 d 1 h"]
        );
    }
}
