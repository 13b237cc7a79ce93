//! `longshore ss`: the engines' sockets, in the manner of `ss -tiup`, with what
//! crossed for each.

use crate::args::ShowArguments;
use crate::control::ask_all;
use crate::errors::{Error, system};
use longshore_engine::control::{ClassesStat, CrossingStat, SsRow, TcpStat};
use std::fmt::Write;

/// Runs the command.
pub(crate) fn run(arguments: &ShowArguments) -> Result<(), Error> {
    let engines = ask_all(arguments, |engine| {
        let stat = engine.stat()?;
        Ok((stat.pid, stat.addresses, engine.ss()?))
    })?;
    if arguments.json {
        let all: Vec<_> = engines
            .iter()
            .map(|(pid, addresses, rows)| {
                serde_json::json!({ "pid": pid, "addresses": addresses, "sockets": rows })
            })
            .collect();
        return crate::print_json(&all);
    }
    let mut out = String::new();
    for (pid, addresses, rows) in &engines {
        if engines.len() > 1 {
            let _ = writeln!(out, "engine {pid} at {}", addresses.join(" and "));
        }
        table(&mut out, rows, &program_name);
    }
    crate::print(&out).map_err(system("print"))
}

/// One engine's sockets, for its log.
pub(crate) fn listing(rows: &[SsRow]) -> String {
    let mut out = String::new();
    table(&mut out, rows, &program_name);
    out
}

/// The name of a process, from the kernel.
fn program_name(pid: u32) -> Option<String> {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(name.trim_end().to_owned())
}

fn table(out: &mut String, rows: &[SsRow], name: &dyn Fn(u32) -> Option<String>) {
    let width =
        |of: fn(&SsRow) -> usize, least: usize| rows.iter().map(of).max().unwrap_or(0).max(least);
    let local = width(|r| r.local.len(), 18) + 2;
    let peer = width(|r| r.peer.len(), 18) + 2;
    let _ = writeln!(
        out,
        "{:<6}{:<12}{:>10} {:>9}  {:<local$}{:<peer$}Process",
        "Netid", "State", "Recv-Q", "Send-Q", "Local:Port", "Peer:Port"
    );
    for row in rows {
        let line = format!(
            "{:<6}{:<12}{:>10} {:>9}  {:<local$}{:<peer$}{}",
            row.proto,
            row.state,
            row.recv_q,
            row.send_q,
            row.local,
            row.peer,
            users(&row.pids, name)
        );
        let _ = writeln!(out, "{}", line.trim_end());
        let details = details(row);
        if !details.is_empty() {
            let _ = writeln!(out, "\t {details}");
        }
    }
}

fn users(pids: &[u32], name: &dyn Fn(u32) -> Option<String>) -> String {
    if pids.is_empty() {
        return String::new();
    }
    let user = |pid: &u32| format!("(\"{}\",pid={pid})", name(*pid).unwrap_or_default());
    let users: Vec<String> = pids.iter().map(user).collect();
    format!("users:({})", users.join(","))
}

/// The second line of a row.
pub(crate) fn details(row: &SsRow) -> String {
    let mut words = Vec::new();
    if let Some((timer, left)) = &row.timer {
        let repeats = row.timer_repeats;
        words.push(format!("timer:({timer},{},{repeats})", span(*left)));
    }
    if let Some(tcp) = &row.tcp {
        tcp_words(&mut words, tcp);
    }
    let crossing = |name: &str, c: &CrossingStat| {
        (*c != CrossingStat::default()).then(|| {
            format!(
                "{name}:{}/{}B/{}d/{}w",
                c.transfers, c.bytes, c.descriptors, c.wakeups
            )
        })
    };
    let (to_engine, to_program) = (&row.crossings.to_adapter, &row.crossings.to_host);
    words.extend(crossing("to_engine", to_engine));
    words.extend(classes("to_engine_by", &to_engine.classes));
    words.extend(crossing("to_program", to_program));
    words.extend(classes("to_program_by", &to_program.classes));
    words.join(" ")
}

/// What crossed by its class, those left out of which nothing did.
fn classes(name: &str, c: &ClassesStat) -> Option<String> {
    let moved = c.named().into_iter();
    let mut parts: Vec<String> = moved
        .filter(|(_, moved)| moved.transfers != 0)
        .map(|(class, moved)| format!("{class}={}/{}B", moved.transfers, moved.bytes))
        .collect();
    if c.immediate != 0 {
        parts.push(format!("immediate={}B", c.immediate));
    }
    (!parts.is_empty()).then(|| format!("{name}:{}", parts.join(",")))
}

/// A time until a timer runs out, in the units of `ss -o`: minutes and seconds, seconds
/// with milliseconds below ten, milliseconds.
fn span(ms: u64) -> String {
    let (minutes, seconds, ms) = (ms / 60_000, ms / 1000 % 60, ms % 1000);
    match (minutes, seconds) {
        (0, 0) => format!("{ms}ms"),
        (0, 1..10) if ms != 0 => format!("{seconds}.{ms:03}sec"),
        (0, _) => format!("{seconds}sec"),
        (10.., _) | (_, 0) => format!("{minutes}min"),
        _ => format!("{minutes}min{seconds}sec"),
    }
}

fn tcp_words(words: &mut Vec<String>, t: &TcpStat) {
    let ms = |us: u64| format!("{}.{:03}", us / 1000, us % 1000);
    let mut flag = |set: bool, word: &str| {
        if set {
            words.push(word.to_owned());
        }
    };
    flag(t.timestamps, "ts");
    flag(t.sack, "sack");
    flag(!t.congestion.is_empty(), &t.congestion);
    if let Some((theirs, ours)) = t.window_scale {
        words.push(format!("wscale:{theirs},{ours}"));
    }
    words.push(format!("rto:{}", ms(t.rto_us)));
    if t.rtt_us > 0 {
        words.push(format!("rtt:{}/{}", ms(t.rtt_us), ms(t.rttvar_us)));
    }
    let mut count = |name: &str, n: u64| {
        if n > 0 {
            words.push(format!("{name}:{n}"));
        }
    };
    count("mss", t.mss.into());
    count("pmtu", t.pmtu.into());
    // In segments, as the kernel's ss has it.
    count("cwnd", t.cwnd / u64::from(t.mss.max(1)));
    count(
        "ssthresh",
        t.ssthresh.unwrap_or(0) / u64::from(t.mss.max(1)),
    );
    count("bytes_sent", t.bytes_sent);
    count("bytes_retrans", t.bytes_retransmitted);
    count("bytes_acked", t.bytes_acked);
    count("bytes_received", t.bytes_received);
    count("segs_out", t.segs_out);
    count("segs_in", t.segs_in);
    count("retrans", t.retransmissions);
    count("in_flight", t.in_flight);
    count("snd_wnd", t.snd_wnd);
    count("rcv_wnd", t.rcv_wnd);
    for (name, n) in [("lastsnd", t.last_snd_ms), ("lastrcv", t.last_rcv_ms)] {
        words.extend(n.map(|n| format!("{name}:{n}")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longshore_engine::control::MovedStat;

    #[test]
    fn rows_read_like_those_of_ss() {
        let row = SsRow {
            proto: "tcp".to_owned(),
            state: "ESTAB".to_owned(),
            local: "10.77.0.2:80".to_owned(),
            peer: "10.77.0.1:40000".to_owned(),
            recv_q: 7,
            pids: vec![12, 13],
            tcp: Some(TcpStat {
                congestion: "cubic".to_owned(),
                sack: true,
                window_scale: Some((7, 10)),
                rto_us: 201_500,
                rtt_us: 1_250,
                rttvar_us: 40,
                mss: 1448,
                cwnd: 14_480,
                ..Default::default()
            }),
            timer: Some(("on".to_owned(), 180)),
            ..Default::default()
        };
        let mut out = String::new();
        table(&mut out, &[row], &|pid| {
            (pid == 12).then(|| "nginx".to_owned())
        });
        let lines: Vec<&str> = out.lines().collect();
        assert!(lines[0].starts_with("Netid State"));
        assert!(lines[1].starts_with("tcp   ESTAB                7         0  10.77.0.2:80"));
        assert!(lines[1].ends_with("users:((\"nginx\",pid=12),(\"\",pid=13))"));
        assert_eq!(
            lines[2].trim(),
            "timer:(on,180ms,0) sack cubic wscale:7,10 rto:201.500 rtt:1.250/0.040 mss:1448 cwnd:10"
        );
    }

    #[test]
    fn long_numbers_stand_apart() {
        let row = SsRow {
            send_q: 4_294_967_295,
            recv_q: 4_294_967_295,
            ..SsRow::default()
        };
        let mut out = String::new();
        table(&mut out, &[row], &|_| None);
        assert!(out.contains(" 4294967295 4294967295\n"), "{out}");
    }

    #[test]
    fn crossings_are_shown_where_there_are_any() {
        let mut row = SsRow::default();
        assert_eq!(details(&row), "");
        row.crossings.to_adapter = CrossingStat {
            transfers: 3,
            bytes: 4096,
            descriptors: 2,
            wakeups: 1,
            classes: ClassesStat {
                descriptor: MovedStat {
                    transfers: 1,
                    bytes: 128,
                    words: 16,
                },
                payload: MovedStat {
                    transfers: 2,
                    bytes: 3968,
                    words: 496,
                },
                immediate: 30,
                ..ClassesStat::default()
            },
        };
        assert_eq!(
            details(&row),
            "to_engine:3/4096B/2d/1w \
             to_engine_by:descriptor=1/128B,payload=2/3968B,immediate=30B"
        );
    }

    #[test]
    fn the_time_that_is_left_reads_like_that_of_ss() {
        let all = [7, 9_250, 12_345, 61_000, 120_000, 7_199_000].map(span);
        let expected = ["7ms", "9.250sec", "12sec", "1min1sec", "2min", "119min"];
        assert_eq!(all, expected);
        let row = SsRow {
            timer: Some(("keepalive".to_owned(), 7_199_000)),
            ..SsRow::default()
        };
        assert_eq!(details(&row), "timer:(keepalive,119min,0)");
    }
}
