//! A hostile neighbour: programs of an ordinary user that attack a shared engine of root's
//! by all that they share with it (`src/bin/hostile`), while innocent programs exchange 64
//! bytes each millisecond over the same engine, and another joins groups. The engine lives, the
//! innocent get every reply about as soon as beside a neighbour that is merely busy and join every
//! group, and nothing is left of
//! the attackers when they are gone. Longshore only.
//!
//! What is attacked, and how, follows from a seed, which is printed and may be given
//! (`LONGSHORE_SEED`); `LONGSHORE_ATTACKS` names some of the attacks, and in a soak run
//! `LONGSHORE_MINUTES` says how long they go on.

use longshore_e2e::{Cmd, Engine, Host, Proc, Stack, Testbed, eventually, run, soak};
use std::fmt::Write as _;
use std::time::{Duration, Instant};

const HOSTILE: &str = env!("CARGO_BIN_EXE_hostile");

/// How long each attack goes on at a time.
const SLICE: Duration = Duration::from_millis(700);
/// The 99th percentile of what innocent programs wait beside a neighbour that is merely
/// busy may be doubled; below this it is not looked at, in microseconds: the attackers'
/// threads run, too, and where all processors are taken a thread of the engine's or of an
/// innocent program waits for the next tick of the kernel's, which is 4 ms with HZ=250. A
/// ping is up to both.
const FLOOR: u64 = 8_000;
/// The same of what they wait without the time in which a processor was waited for, which is
/// what the engine takes for others first: some turns of 1 ms.
const OWN_FLOOR: u64 = 2_500;

/// What an innocent program has noticed.
struct Ping {
    name: &'static str,
    process: Proc,
    /// Of the command's lines.
    seen: usize,
}

/// A window of pings: the 99th percentile of the time to a reply, and the most, in
/// microseconds; and the former without the time in which the engine and both ends of the
/// ping waited for a processor.
#[derive(Debug, Clone, Copy)]
struct Window {
    p99: u64,
    most: u64,
    own: u64,
}

impl Ping {
    /// The windows since it was last asked.
    fn windows(&mut self) -> Vec<Window> {
        self.process.assert_running();
        let said = self.process.stdout();
        let whole = said.rfind('\n').map_or("", |end| &said[..end]);
        let lines: Vec<&str> = whole.lines().collect();
        let new = lines[self.seen.min(lines.len())..].iter().map(|line| {
            let numbers: Vec<u64> = line
                .split(' ')
                .map(|n| n.parse().expect("a number"))
                .collect();
            Window {
                p99: numbers[1],
                most: numbers[2],
                own: numbers[3],
            }
        });
        let new = new.collect();
        self.seen = lines.len();
        new
    }
}

/// The one in the middle.
fn median(mut of: Vec<u64>) -> u64 {
    of.sort_unstable();
    of.get(of.len() / 2).copied().unwrap_or(0)
}

fn ping(name: &'static str, process: Proc) -> Ping {
    let mut ping = Ping {
        name,
        process,
        seen: 0,
    };
    eventually("a ping is answered", || {
        (!ping.windows().is_empty()).then_some(())
    });
    ping
}

/// Descriptors that the engine may have made meanwhile for those who stay.
const FEW: u64 = 8;

/// What the engine may have more of its own than after the first round, KiB: its tables are as
/// large as they ever were, and attacks meet there as chance has it.
const MOST_GROWN: u64 = 64 << 10;

/// What of the engine would show a leak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Held {
    sessions: u64,
    sockets: u64,
    descriptors: u64,
}

fn held(engine: &Engine<'_>) -> Held {
    let stat = engine.stat();
    let descriptors = std::fs::read_dir(format!("/proc/{}/fd", engine.pid()));
    Held {
        sessions: stat["sessions"].as_array().map_or(0, Vec::len) as u64,
        sockets: stat["engine"]["sockets"].as_u64().expect("a number"),
        descriptors: descriptors.expect("the engine lives").count() as u64,
    }
}

/// The engine's own memory, KiB.
fn memory(engine: &Engine<'_>) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", engine.pid()));
    let status = status.expect("the engine lives");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.and_then(|n| n.parse().ok()).expect("a number")
}

struct Arena<'l> {
    bed: &'l Testbed,
    host: &'l Host<'l>,
    engine: Engine<'l>,
    pings: Vec<Ping>,
    random: u64,
}

impl Arena<'_> {
    fn next(&mut self) -> u64 {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        self.random >> 33
    }

    /// What the innocent noticed while something else went on: for each the median of
    /// the windows' 99th percentiles, and the most of all.
    fn beside(&mut self, what: impl FnOnce(&mut Self)) -> Vec<Window> {
        self.pings.iter_mut().for_each(|ping| drop(ping.windows()));
        what(self);
        let noticed = |ping: &mut Ping| {
            // At least one that was all within.
            let windows = eventually("pings are answered", || {
                let windows = ping.windows();
                (!windows.is_empty()).then_some(windows)
            });
            let middle = |of: fn(&Window) -> u64| median(windows.iter().map(of).collect());
            Window {
                p99: middle(|w| w.p99),
                most: windows.iter().map(|w| w.most).max().unwrap_or(0),
                own: middle(|w| w.own),
            }
        };
        self.pings.iter_mut().map(noticed).collect()
    }

    fn attack(&mut self, name: &str) -> Vec<Window> {
        let seed = self.next();
        let attacker = self
            .bed
            .peer()
            .cmd(HOSTILE)
            .arg("attack")
            .arg(self.engine.socket());
        let attacker = attacker.args([name, &seed.to_string(), "60"]);
        // It is killed at a moment that it does not know.
        let length = SLICE + Duration::from_millis(self.next() % 200);
        self.beside(|_| {
            let mut attacker = attacker.spawn();
            std::thread::sleep(length);
            attacker.assert_running();
        })
    }

    /// A neighbour that is merely busy.
    fn busy(&mut self) -> Vec<Window> {
        let at = self.host.ip().to_string();
        let neighbour = self.engine.cmd(HOSTILE).args(["bulk", &at, "9009"]);
        self.beside(|_| {
            let neighbour = neighbour.spawn();
            std::thread::sleep(2 * SLICE);
            drop(neighbour);
        })
    }

    /// Until nothing is left of whoever has gone. That may take a while: a channel that was
    /// reserved for a child is kept for the child for 10 s, and what was written and not yet
    /// delivered is for 60 s.
    fn quiet(&self, before: Held) {
        let began = Instant::now();
        let mut is_long = false;
        loop {
            let now = held(&self.engine);
            let same = |h: Held| (h.sessions, h.sockets);
            if same(now) == same(before) && now.descriptors <= before.descriptors + FEW {
                eprintln!("nothing is left {:.1?} after", began.elapsed());
                return;
            }
            if began.elapsed() > Duration::from_secs(15) && !is_long {
                is_long = true;
                eprintln!("what is left for long: {}", self.left(now, before));
            }
            assert!(
                began.elapsed() < Duration::from_secs(100),
                "something is left: {}",
                self.left(now, before)
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Arena<'_> {
    /// What is there now, and was not before.
    fn left(&self, now: Held, before: Held) -> String {
        let ss = self.host.longshore().args(["ss", "--engine"]);
        let sockets = ss.arg(self.engine.socket()).check();
        format!("{now:?}, before {before:?}\n{sockets}")
    }
}

fn seed() -> u64 {
    let given = std::env::var("LONGSHORE_SEED").ok();
    given.map_or_else(
        || std::process::id().into(),
        |seed| seed.parse().expect("LONGSHORE_SEED is a number"),
    )
}

/// The names of the attacks.
fn attacks(bed: &Testbed) -> Vec<String> {
    let all = bed.peer().cmd(HOSTILE).arg("list").check();
    let wanted = std::env::var("LONGSHORE_ATTACKS").ok();
    let is_wanted = |name: &&str| {
        wanted
            .as_ref()
            .is_none_or(|wanted| wanted.split(',').any(|w| w == *name))
    };
    all.lines().filter(is_wanted).map(str::to_owned).collect()
}

/// How often an attack is tried that has made the innocent wait for too long, each time after
/// a busy neighbour: the machine may have been busy with something else. If it always is, the
/// last ones are judged only without the time for which others ran instead: the kernel says how
/// long that was for each ping, and it is not the engine that shares out the processors.
const TRIES: usize = 6;
const TRIES_AS_THEY_ARE: usize = 3;

impl Arena<'_> {
    /// All attacks, one after the other; what the innocent noticed, and of which attacks too
    /// much.
    fn round(&mut self, names: &[String]) -> (String, Vec<String>) {
        let (mut table, mut bad) = (String::new(), Vec::new());
        let mut busy = self.busy();
        for name in names {
            let is_good = (0..TRIES).any(|again| {
                if again != 0 {
                    busy = self.busy();
                }
                let noticed = self.attack(name);
                let only_own = again >= TRIES_AS_THEY_ARE;
                self.compare(name, only_own, &noticed, &busy, &mut table)
            });
            if !is_good {
                bad.push(name.clone());
            }
        }
        (table, bad)
    }

    /// Whether what the innocent noticed is no worse than what they do beside a busy one.
    fn compare(
        &self,
        name: &str,
        only_own: bool,
        seen: &[Window],
        busy: &[Window],
        table: &mut String,
    ) -> bool {
        let mut is_good = true;
        for ((ping, w), busy) in self.pings.iter().zip(seen).zip(busy) {
            let is_bad = (!only_own && w.p99 > FLOOR.max(2 * busy.p99))
                || w.own > OWN_FLOOR.max(2 * busy.own);
            is_good &= !is_bad;
            let _ = writeln!(
                table,
                "{name:>10} {:>18}: p99 {:>7} us, {:>7} us its own, most {:>7} us; \
                 beside a busy one {:>7} us, {:>7} us its own, {:>7} us{}",
                ping.name,
                w.p99,
                w.own,
                w.most,
                busy.p99,
                busy.own,
                busy.most,
                if is_bad { "  TOO LONG" } else { "" }
            );
        }
        is_good
    }
}

fn attacked(bed: &Testbed, length: Duration) {
    let seed = seed();
    eprintln!("LONGSHORE_SEED={seed}");
    let host = bed.host(0);
    // As many as there are ephemeral ports, and a few.
    let engine = host.engine("[user]\nsockets = 32768");
    let at = format!("{}:7007", host.ip());
    let mut echo = engine.cmd(HOSTILE).args(["echo", "7007"]).spawn();
    eventually("the echo listens", || {
        echo.stdout().contains("listens").then_some(())
    });
    let parts = [engine.pid(), echo.program_pid("hostile")].map(|pid| pid.to_string());
    let ping_at = |cmd: Cmd| cmd.args(["ping", &at]).args(&parts).spawn();
    let inside = ping_at(engine.cmd(HOSTILE));
    let outside = ping_at(bed.peer().cmd(HOSTILE));
    let pings = vec![
        ping("within the engine", inside),
        ping("over the wire", outside),
    ];
    let mut member = engine.cmd(HOSTILE).arg("member").spawn();
    eventually("groups are joined", || {
        member.stdout().contains("joins").then_some(())
    });
    let names = attacks(bed);
    let mut arena = Arena {
        bed,
        host: &host,
        engine,
        pings,
        random: seed,
    };
    let mut before = held(&arena.engine);
    // Those who stay have all that they need once there was something to wait for.
    let _ = arena.busy();
    before.descriptors = before.descriptors.max(held(&arena.engine).descriptors);
    let began = Instant::now();
    let (mut first, mut round) = (None, 0);
    while round < 2 || began.elapsed() < length {
        let (table, bad) = arena.round(&names);
        eprint!("{table}");
        echo.assert_running();
        member.assert_running();
        arena.quiet(before);
        assert!(bad.is_empty(), "{bad:?}, LONGSHORE_SEED={seed}\n{table}");
        // The tables of the first round stay as large as they were.
        let now = memory(&arena.engine);
        let grown = now.saturating_sub(*first.get_or_insert(now));
        eprintln!("the engine has {now} KiB of its own, {grown} KiB more than after a round");
        assert!(
            grown < MOST_GROWN,
            "the engine keeps {grown} KiB, LONGSHORE_SEED={seed}"
        );
        round += 1;
    }
}

#[test]
fn a_hostile_neighbour_is_no_worse_than_a_busy_one() {
    let minutes = std::env::var("LONGSHORE_MINUTES").ok();
    let minutes = minutes.and_then(|m| m.parse().ok()).unwrap_or(60);
    let length = Duration::from_secs(60 * soak(0, minutes));
    let limit = length + Duration::from_secs(soak(400, 3_000));
    run(Stack::Longshore, limit, move |bed| attacked(bed, length));
}
