//! Two machines on a wire, and the time of both.

use super::machine::Machine;
use super::program::{Outcome, Plan};
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

/// Numbers that a seed repeats (xorshift64*).
#[derive(Debug)]
struct Numbers(u64);

impl Numbers {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) % bound
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

/// Everything that a seed decides but for the dice of the wire.
#[derive(Debug)]
pub(super) struct Scenario {
    ipv6: bool,
    wire: SimConfig,
    /// The client's plans; the server's are their mirror images.
    plans: Vec<Plan>,
    /// When each begins, in microseconds.
    begins: Vec<u64>,
    /// When the wire is cut and mended, in microseconds.
    cut: Option<(u64, u64)>,
    /// The machine whose program dies, and when.
    death: Option<(usize, u64)>,
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
            cut: None,
            death: None,
        }
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
        Self {
            ipv6: n.below(3) == 0,
            wire,
            plans,
            begins,
            cut,
            death,
        }
    }
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
        }
    }
}

/// The machines, the wire and what is still to happen.
pub(super) struct World {
    scenario: Scenario,
    clock: SimClock,
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
        let machine = |port, host: u8| {
            let addresses = at(host).map(|text| text.parse().unwrap());
            Machine::new(port, &addresses, 2 * seed + u64::from(host), now)
        };
        let mut machines = [machine(one, 1), machine(two, 2)];
        if observed {
            machines.iter_mut().for_each(Machine::observe);
        }
        let server: IpAddr = if scenario.ipv6 {
            "fd00::2".parse().unwrap()
        } else {
            "10.0.0.2".parse().unwrap()
        };
        let to = SocketAddr::new(server, PORT);
        for (number, (plan, begin)) in scenario.plans.iter().zip(&scenario.begins).enumerate() {
            let at = now.after_us(*begin);
            machines[0].program.connect(number as u16, *plan, to, at);
        }
        let mirrored = |plan: &Plan| Plan {
            out: plan.back,
            back: plan.out,
            ..*plan
        };
        let local: SocketAddr = "[::]:80".parse().unwrap();
        let plans = scenario.plans.iter().map(mirrored).collect();
        machines[1].program.listen(local, plans);
        machines.iter_mut().for_each(Machine::note_step);
        Self {
            scenario,
            clock,
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
                panic!("nothing is to happen any more, and it is not over");
            };
            self.clock
                .advance_to(Duration::from_micros(next.0 - BEGIN_US));
        }
        panic!("it does not come to an end");
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
        let is_done = self.are_talks_over();
        let mut busy = false;
        for machine in &mut self.machines {
            busy |= machine.turn(now, is_cut);
            machine.stack.check().unwrap();
            if machine.is_alive() {
                busy |= machine.program.step(now);
                if is_done {
                    machine.program.stop_listening();
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
            !m.is_alive() || outcomes.all(|(_, outcome)| outcome != Outcome::Open)
        };
        self.machines.iter().all(is_over)
    }

    fn is_over(&self) -> bool {
        let is_empty =
            |m: &Machine| m.stack.sockets.len() == 0 && m.stack.demux.waiting_count() == 0;
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
        let death = death.filter(|at| *at > now);
        let timeouts = self.machines.iter().filter_map(Machine::next_timeout);
        let next = timeouts.chain(arrival).chain(death).min()?;
        Some(next.max(now.after_us(1)))
    }

    fn check_outcomes(&self) {
        for machine in &self.machines {
            machine.assert_empty();
        }
        if self.scenario.death.is_some() {
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
    }
}
