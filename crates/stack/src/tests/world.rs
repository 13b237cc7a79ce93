//! Two machines on a wire, and the time of both.

use super::datagrams;
use super::dhcp_server::DhcpServer;
use super::flood::Flood;
use super::machine::Machine;
use super::numbers::Numbers;
use super::program::{Outcome, Plan};
use super::responses::Response;
use crate::socket::Kind;
use longshore_ports::Faults;
use longshore_ports::sim::{Direction, SimClock, SimConfig, wire};
use longshore_tcp::Instant;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// When the world begins, by the clocks of its machines, in microseconds.
const BEGIN_US: u64 = 1_000_000;
/// No run has more turns than this, or the stacks keep themselves busy.
const MOST_TURNS: u32 = 1_000_000;
/// The server's port.
const PORT: u16 = 80;

/// Everything that a seed decides but for the dice of the wire.
#[derive(Debug)]
pub(super) struct Scenario {
    ipv6: bool,
    wire: SimConfig,
    /// The client's plans; the server's are their mirror images.
    plans: Vec<Plan>,
    /// When each begins, in microseconds.
    begins: Vec<u64>,
    /// The server's program connects to itself: its plans as a client, and when.
    own: Vec<(Plan, u64)>,
    /// What datagrams either end sends.
    datagrams: Option<datagrams::Plan>,
    /// The client's machine has its IPv4 address from a DHCP server.
    dhcp: bool,
    /// SYNs of nobody come to the listener: when the first does, how many there are, and the
    /// time between two, in microseconds.
    flood: Option<(u64, u32, u64)>,
    /// The machine whose link goes down, when that is, and when it comes back.
    unplugged: Option<(usize, u64, u64)>,
    /// When the wire is cut and mended, in microseconds.
    cut: Option<(u64, u64)>,
    /// The machine whose program dies, and when.
    death: Option<(usize, u64)>,
    /// The machine whose stack panics at its work, and at which access to a socket.
    panic: Option<(usize, u32)>,
}

impl Scenario {
    /// Three connections on a wire that does nothing to what it carries: one that asks and is
    /// answered, one that sends more than a chunk, one that receives it.
    pub(super) fn undisturbed() -> Self {
        let plan = |out, back| Plan {
            out,
            back,
            piece: 10_000,
            pause_us: 0,
            response: None,
        };
        let direction = Direction {
            delay: Duration::from_micros(100),
            queue: 1_000_000,
            ..Direction::default()
        };
        Self {
            ipv6: false,
            wire: SimConfig {
                mtu: 1_500,
                offloads: false,
                seed: 1,
                forth: direction,
                back: direction,
            },
            plans: vec![plan(100, 1_000), plan(150_000, 10), plan(10, 150_000)],
            begins: vec![0, 1_000, 2_000],
            own: Vec::new(),
            datagrams: None,
            dhcp: false,
            flood: None,
            unplugged: None,
            cut: None,
            death: None,
            panic: None,
        }
    }

    /// Whether a connection may be reset with both programs alive: of one that was answered
    /// by a cookie nothing is kept until the acknowledgment of that comes. Is it overtaken
    /// or lost, what comes next belongs to no connection.
    fn may_be_reset(&self) -> bool {
        let is_quiet = self.cut.is_none() && self.unplugged.is_none();
        let faults = self.wire.forth.faults;
        let arrives = faults.loss + faults.corrupt + faults.reorder == 0.0;
        self.flood.is_some() && !(is_quiet && arrives)
    }

    /// So many fetches of the same, each on a connection of its own and long after the last.
    pub(super) fn fetches(count: u64) -> Self {
        let mut scenario = Self::undisturbed();
        let fetch = scenario.plans[0];
        scenario.plans = (0..count).map(|_| fetch).collect();
        scenario.begins = (0..count).map(|i| i * 1_000_000).collect();
        scenario
    }

    /// So many fetches of a file from a web server: each on a connection of its own, or all on
    /// one.
    pub(super) fn responses(count: u64, response: Response) -> Self {
        let mut scenario = Self::undisturbed();
        let talks = if response.keeps { 1 } else { count };
        let fetches = count / talks;
        let plan = Plan {
            out: Response::requests(fetches),
            back: fetches * response.len(),
            piece: 100_000,
            pause_us: 0,
            response: Some(response),
        };
        scenario.plans = vec![plan; talks as usize];
        scenario.begins = (0..talks).map(|i| i * 1_000_000).collect();
        scenario
    }

    pub(super) fn of(seed: u64) -> Self {
        let mut n = Numbers::new(seed);
        let connections = 1 + n.below(5);
        let largest = n.pick(&[1_000, 30_000, 200_000]);
        let plan = |n: &mut Numbers| Plan {
            out: 1 + n.below(largest),
            back: n.below(largest),
            piece: n.pick(&[1_000, 10_000, 100_000]),
            pause_us: n.pick(&[0, 0, 0, 1_000, 20_000]),
            response: None,
        };
        let plans: Vec<Plan> = (0..connections).map(|_| plan(&mut n)).collect();
        let begins = plans.iter().map(|_| n.below(300_000)).collect();
        let [forth, back] = [direction(&mut n), direction(&mut n)];
        let wire = SimConfig {
            mtu: n.pick(&[1_280, 1_500, 9_000]),
            offloads: n.below(2) == 0,
            seed,
            forth,
            back,
        };
        let cut = (n.below(4) == 0).then(|| {
            let begins = n.below(400_000);
            (begins, begins + n.below(3_000_000))
        });
        let death = (n.below(4) == 0).then(|| (n.below(2) as usize, n.below(1_000_000)));
        let ipv6 = n.below(3) == 0;
        let datagrams = (n.below(2) == 0).then(|| datagrams::Plan {
            count: 1 + n.below(60) as u32,
            largest: n.pick(&[100, 1_400, 9_000, 20_000]),
            every_us: n.pick(&[100, 5_000, 50_000]),
        });
        let flood = (n.below(4) == 0).then(|| {
            let count = 20 + n.below(200) as u32;
            (n.below(300_000), count, n.pick(&[10, 1_000, 20_000]))
        });
        let unplugged = (n.below(4) == 0).then(|| {
            let down = n.below(1_000_000);
            (n.below(2) as usize, down, down + n.below(2_000_000))
        });
        Self {
            ipv6,
            wire,
            plans,
            begins,
            datagrams,
            dhcp: n.below(4) == 0,
            flood,
            unplugged,
            cut,
            death,
            panic: (n.below(6) == 0).then(|| (n.below(2) as usize, n.below(800) as u32)),
            own: own(&mut n),
        }
    }
}

/// Connections of a program to itself, often with much under way.
fn own(n: &mut Numbers) -> Vec<(Plan, u64)> {
    let connections = n.pick(&[0, 0, 1, 3]);
    let plan = |n: &mut Numbers| Plan {
        out: 1 + n.below(400_000),
        back: n.below(400_000),
        piece: n.pick(&[5_000, 70_000, 100_000]),
        pause_us: n.pick(&[0, 0, 1_000]),
        response: None,
    };
    (0..connections)
        .map(|_| (plan(n), n.below(300_000)))
        .collect()
}

fn direction(n: &mut Numbers) -> Direction {
    let delay = n.pick(&[10, 500, 20_000]);
    let rate = |n: &mut Numbers, of: &[f64]| if n.below(2) == 0 { 0.0 } else { n.pick(of) };
    Direction {
        delay: Duration::from_micros(delay),
        jitter: Duration::from_micros(n.pick(&[0, delay / 2])),
        rate: n.pick(&[None, Some(10_000_000), Some(1_000_000_000)]),
        queue: n.pick(&[20_000, 1_000_000]),
        faults: Faults {
            loss: rate(n, &[0.01, 0.08]),
            duplicate: rate(n, &[0.01, 0.2]),
            corrupt: rate(n, &[0.01, 0.05]),
            reorder: rate(n, &[0.01, 0.2]),
        },
        reorder_by: Duration::from_micros(2 * delay),
    }
}

/// What has happened in a run, or in several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Report {
    /// All frames received, and when.
    pub(super) trace: u64,
    /// Connections that ended with all their bytes, at either end, and others.
    pub(super) whole: u64,
    pub(super) short: u64,
    pub(super) retransmissions: u64,
    pub(super) resets: u64,
    pub(super) bad_checksums: u64,
    /// Segments that header prediction took.
    pub(super) predicted: u64,
    /// Datagrams that arrived, and those of them that are longer than 1,500 bytes.
    pub(super) datagrams: u64,
    pub(super) long_datagrams: u64,
    /// SYNs answered by a cookie, and cookies that came back.
    pub(super) cookies_sent: u64,
    pub(super) cookies_taken: u64,
    /// Links that came back, and leases that were granted.
    pub(super) returns: u64,
    pub(super) leases: u64,
    /// Panics that ended a session alone.
    pub(super) panics: u64,
    /// Bytes that were read where they had been written.
    pub(super) lent: u64,
}

impl Report {
    /// Adds what has happened in another run.
    pub(super) fn add(&mut self, other: &Self) {
        self.whole += other.whole;
        self.short += other.short;
        self.retransmissions += other.retransmissions;
        self.resets += other.resets;
        self.bad_checksums += other.bad_checksums;
        self.predicted += other.predicted;
        self.datagrams += other.datagrams;
        self.long_datagrams += other.long_datagrams;
        self.cookies_sent += other.cookies_sent;
        self.cookies_taken += other.cookies_taken;
        self.returns += other.returns;
        self.leases += other.leases;
        self.panics += other.panics;
        self.lent += other.lent;
    }

    fn of(machine: &Machine) -> Self {
        let of = |what| {
            let outcomes = machine.program.outcomes();
            outcomes.filter(|(_, outcome)| *outcome == what).count() as u64
        };
        let counters = &machine.stack.counters;
        let bad = |(name, count): (&str, u64)| (name == "bad_transport_checksum").then_some(count);
        Self {
            trace: machine.trace(),
            whole: of(Outcome::Whole),
            short: of(Outcome::Short),
            retransmissions: counters.retransmissions,
            resets: counters.resets_out,
            bad_checksums: counters.drops().find_map(bad).unwrap_or(0),
            predicted: counters.predicted_data + counters.predicted_acks,
            datagrams: machine.program.arrived().count,
            long_datagrams: machine.program.arrived().long,
            cookies_sent: counters.cookies_sent,
            cookies_taken: counters.cookies_taken,
            returns: machine.returns,
            panics: counters.contained_panics,
            lent: counters.lent_bytes,
            leases: machine.dhcp_server.as_ref().map_or(0, |s| s.granted),
        }
    }
}

/// The machines, the wire and what is still to happen.
pub(super) struct World {
    scenario: Scenario,
    clock: SimClock,
    flood: Option<Flood>,
    pub(super) machines: [Machine; 2],
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        Self::of(Scenario::of(seed), seed, false)
    }

    /// The same, of another scenario than the seed's; what crosses is seen if it is
    /// `observed`.
    pub(super) fn of(scenario: Scenario, seed: u64, observed: bool) -> Self {
        let (one, two, clock) = wire(&scenario.wire);
        let now = Instant(BEGIN_US);
        let at = |host: u8| [format!("10.0.0.{host}/24"), format!("fd00::{host}/64")];
        let machine = |port, host: u8, dhcp: bool| {
            let addresses = at(host).map(|text| text.parse().unwrap());
            let addresses = &addresses[usize::from(dhcp)..];
            Machine::new(port, addresses, dhcp, 2 * seed + u64::from(host), now)
        };
        let mut machines = [machine(one, 1, scenario.dhcp), machine(two, 2, false)];
        machines[1].dhcp_server = scenario.dhcp.then(DhcpServer::default);
        if observed {
            machines.iter_mut().for_each(Machine::observe);
        }
        let texts = if scenario.ipv6 {
            ["fd00::1", "fd00::2"]
        } else {
            ["10.0.0.1", "10.0.0.2"]
        };
        let [client, server] = texts.map(|text| text.parse::<IpAddr>().unwrap());
        if let Some(plan) = scenario.datagrams {
            machines[0].program.exchange(0, server, plan, now);
            machines[1].program.exchange(1, client, plan, now);
        }
        let flood = scenario.flood.map(|(begins, left, every_us)| Flood {
            due: now.after_us(begins),
            left,
            every_us,
            ipv6: scenario.ipv6,
            numbers: Numbers::new(seed),
        });
        let to = SocketAddr::new(server, PORT);
        for (number, (plan, begin)) in scenario.plans.iter().zip(&scenario.begins).enumerate() {
            let at = now.after_us(*begin);
            machines[0].program.connect(number as u16, *plan, to, at);
        }
        let first_own = scenario.plans.len();
        for (number, (plan, begin)) in (first_own..).zip(&scenario.own) {
            let at = now.after_us(*begin);
            machines[1].program.connect(number as u16, *plan, to, at);
        }
        let mirrored = |plan: &Plan| Plan {
            out: plan.back,
            back: plan.out,
            ..*plan
        };
        let local: SocketAddr = "[::]:80".parse().unwrap();
        let own = scenario.own.iter().map(|(plan, _)| plan);
        let plans = scenario.plans.iter().chain(own).map(mirrored).collect();
        machines[1].program.listen(local, plans);
        if let Some(response) = scenario.plans.first().and_then(|plan| plan.response) {
            machines[1].lend(&response);
        }
        if let Some((which, left)) = scenario.panic {
            machines[which].panic_after(left);
        }
        machines.iter_mut().for_each(Machine::note_step);
        Self {
            scenario,
            clock,
            flood,
            machines,
        }
    }

    fn now(&self) -> Instant {
        Instant(BEGIN_US + self.clock.now().as_micros() as u64)
    }

    /// Runs until nothing is left to be done.
    pub(super) fn run(mut self) -> Report {
        self.run_to_end()
    }

    /// The same, and leaves what has become of the machines.
    pub(super) fn run_to_end(&mut self) -> Report {
        for _ in 0..MOST_TURNS {
            let busy = self.turn();
            if self.is_over() {
                self.check_outcomes();
                let [mut report, other] = [0, 1].map(|i| Report::of(&self.machines[i]));
                report.add(&other);
                report.trace ^= other.trace.rotate_left(1);
                return report;
            }
            let Some(next) = self.next(busy) else {
                panic!(
                    "nothing is to happen any more, and it is not over: {}",
                    self.state()
                );
            };
            self.clock
                .advance_to(Duration::from_micros(next.0 - BEGIN_US));
        }
        panic!("it does not come to an end: {}", self.state());
    }

    /// What there still is, for those who look for the reason.
    fn state(&self) -> String {
        let of = |machine: &Machine| {
            let sockets = machine.stack.sockets.iter();
            let sockets = sockets.map(|(key, s)| match &s.kind {
                Kind::Stream(c) => format!("{key}: {} {:?} {:?}", c.remote, c.tcb.state(), s.id),
                _ => format!("{key}: {:?}", s.id),
            });
            let ends: Vec<_> = machine.program.outcomes().collect();
            let [alive, waits] = [machine.is_alive(), machine.stack.has_fragments()];
            let sockets: Vec<_> = sockets.collect();
            format!("alive {alive}, fragments {waits}, {ends:?}, sockets {sockets:?}")
        };
        let [one, two] = [0, 1].map(|i| of(&self.machines[i]));
        format!("{:?}\none: {one}\ntwo: {two}", self.now())
    }

    fn turn(&mut self) -> bool {
        let now = self.now();
        let since = now.0 - BEGIN_US;
        let is_cut = |(from, to): (u64, u64)| (from..to).contains(&since);
        let is_cut = self.scenario.cut.is_some_and(is_cut);
        if let Some((which, at)) = self.scenario.death
            && at <= since
        {
            self.machines[which].kill();
        }
        if let Some((which, down, up)) = self.scenario.unplugged {
            self.machines[which].set_link(!(down..up).contains(&since), now);
        }
        let [_, server] = &mut self.machines;
        let station = server.stack.link.mac;
        while let Some(syn) = self.flood.as_mut().and_then(|f| f.next(station, now)) {
            server.bring(syn);
        }
        let is_done = self.are_talks_over();
        let mut busy = false;
        for machine in &mut self.machines {
            busy |= machine.turn(now, is_cut);
            if !cfg!(debug_assertions) {
                // Otherwise it does so itself.
                machine.stack.check().unwrap();
            }
            if machine.is_running() {
                busy |= machine.program.step(now);
                if is_done {
                    busy |= machine.program.stop_listening();
                    busy |= machine.program.stop_exchange();
                }
                machine.note_step();
            }
        }
        busy
    }

    /// Whether all connections have ended at both ends, as far as there is somebody.
    fn are_talks_over(&self) -> bool {
        let is_over = |m: &Machine| {
            let mut outcomes = m.program.outcomes();
            let are_over = outcomes.all(|(_, outcome)| outcome != Outcome::Open);
            !m.is_alive() || (are_over && m.program.has_sent_all())
        };
        self.machines.iter().all(is_over)
    }

    fn is_over(&self) -> bool {
        let is_empty = |m: &Machine| {
            let are_none = m.stack.sockets.len() == 0 && m.stack.demux.waiting_count() == 0;
            are_none && !m.stack.has_fragments()
        };
        self.are_talks_over()
            && self.machines.iter().all(is_empty)
            && self.clock.next_arrival().is_none()
    }

    /// When something happens next.
    fn next(&self, busy: bool) -> Option<Instant> {
        let now = self.now();
        if busy {
            return Some(now.after_us(1));
        }
        let arrival = self.clock.next_arrival().map(|at| {
            let us = at.as_nanos().div_ceil(1_000) as u64;
            Instant(BEGIN_US + us)
        });
        let death = self.scenario.death.map(|(_, at)| Instant(BEGIN_US + at));
        let links = self.scenario.unplugged.into_iter();
        let links = links.flat_map(|(_, down, up)| [down, up].map(|at| Instant(BEGIN_US + at)));
        let flood = self.flood.as_ref().and_then(Flood::next_timeout);
        let planned = links.chain(death).filter(|at| *at > now).chain(flood);
        let timeouts = self.machines.iter().filter_map(Machine::next_timeout);
        let next = timeouts.chain(arrival).chain(planned).min()?;
        Some(next.max(now.after_us(1)))
    }

    fn check_outcomes(&self) {
        for machine in &self.machines {
            machine.assert_empty();
        }
        let dies = self.scenario.death.is_some() || self.scenario.panic.is_some();
        if dies || self.scenario.may_be_reset() {
            return;
        }
        let client: Vec<_> = self.machines[0].program.outcomes().collect();
        assert_eq!(client.len(), self.scenario.plans.len());
        for (number, outcome) in client {
            assert_eq!(outcome, Outcome::Whole, "connection {number}, client");
        }
        let server: Vec<_> = self.machines[1].program.outcomes().collect();
        for number in 0..self.scenario.plans.len() as u16 {
            assert!(
                server.contains(&(number, Outcome::Whole)),
                "connection {number}, server: {server:?}"
            );
        }
        for number in (self.scenario.plans.len() as u16..).take(self.scenario.own.len()) {
            let ends = server.iter().filter(|of| **of == (number, Outcome::Whole));
            assert_eq!(ends.count(), 2, "own connection {number}: {server:?}");
        }
    }
}
