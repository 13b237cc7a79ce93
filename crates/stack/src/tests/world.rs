//! Two machines on a wire, and the time of both.

use super::flood::Flood;
use super::machine::Machine;
use super::numbers::Numbers;
use super::report::Report;
use super::scenario::Scenario;
use super::talk::{Outcome, Plan};
use crate::socket::Kind;
use crate::testing::dhcp_server::DhcpServer;
use longshore_ports::sim::{SimClock, wire};
use longshore_tcp::Instant;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// When the world begins, by the clocks of its machines, in microseconds.
const BEGIN_US: u64 = 1_000_000;
/// No run has more turns than this, or the stacks keep themselves busy.
const MOST_TURNS: u32 = 1_000_000;
/// The server's port.
const PORT: u16 = 80;

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

    /// As `new`, of another scenario than the seed's; what crosses is seen if it is
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
        let plans: Vec<Plan> = scenario.plans.iter().chain(own).map(mirrored).collect();
        for (number, machine) in &scenario.onward {
            let to = SocketAddr::new([client, server][*machine], PORT);
            machines[1].program.pass_on_to(*number, to);
        }
        if scenario.onward.iter().any(|(_, machine)| *machine == 0) {
            machines[0].program.listen(local, plans.clone());
        }
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

    /// As `run`, and leaves what has become of the machines.
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
            let sockets = machine.stack.endpoints.sockets.iter();
            let sockets = sockets.map(|(key, s)| match &s.kind {
                Kind::Stream(c) => format!("{key}: {} {:?} {:?}", c.remote, c.tcb.state(), s.id),
                _ => format!("{key}: {:?}", s.id),
            });
            let ends: Vec<_> = machine.program.outcomes().collect();
            let [alive, waits] = [machine.is_alive(), machine.stack.status().has_fragments()];
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
        let mac = server.stack.link().output.device.mac();
        while let Some(syn) = self.flood.as_mut().and_then(|f| f.next(mac, now)) {
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
            !m.is_alive() || (are_over && m.program.has_sent_all() && m.program.has_passed_all_on())
        };
        self.machines.iter().all(is_over)
    }

    fn is_over(&self) -> bool {
        let is_empty = |m: &Machine| {
            let are_none = m.stack.endpoints.sockets.len() == 0
                && m.stack.endpoints.demux.waiting_count() == 0;
            are_none && !m.stack.status().has_fragments()
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
        let ends = self.machines.iter().flat_map(|m| m.program.outcomes());
        let ends: Vec<_> = ends.collect();
        let all = self.scenario.plans.len() + self.scenario.own.len();
        for number in 0..all as u16 {
            let whole = ends.iter().filter(|end| **end == (number, Outcome::Whole));
            assert_eq!(whole.count(), 2, "connection {number}: {ends:?}");
        }
    }
}
