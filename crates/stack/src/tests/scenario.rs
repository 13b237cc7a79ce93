//! What happens in a run of the simulation, as a seed decides it: connections, datagrams, what
//! the wire does, and which machine fails when.

use super::datagrams;
use super::numbers::Numbers;
use super::responses::Response;
use super::talk::Plan;
use longshore_ports::Faults;
use longshore_ports::sim::{Direction, SimConfig};
use std::time::Duration;

/// Everything that a seed decides but for the dice of the wire.
#[derive(Debug)]
pub(super) struct Scenario {
    pub(super) ipv6: bool,
    pub(super) wire: SimConfig,
    /// The client's plans; the server's are their mirror images.
    pub(super) plans: Vec<Plan>,
    /// When each begins, in microseconds.
    pub(super) begins: Vec<u64>,
    /// The server's program connects to itself: its plans as a client, and when.
    pub(super) own: Vec<(Plan, u64)>,
    /// Connections that the server's program passes on, by their numbers, and the machine that
    /// it passes them on to.
    pub(super) onward: Vec<(u16, usize)>,
    /// What datagrams either end sends.
    pub(super) datagrams: Option<datagrams::Plan>,
    /// The client's machine has its IPv4 address from a DHCP server.
    pub(super) dhcp: bool,
    /// SYNs of nobody come to the listener: when the first does, how many there are, and the
    /// time between two, in microseconds.
    pub(super) flood: Option<(u64, u32, u64)>,
    /// The machine whose link goes down, when that is, and when it comes back.
    pub(super) unplugged: Option<(usize, u64, u64)>,
    /// When the wire is cut and mended, in microseconds.
    pub(super) cut: Option<(u64, u64)>,
    /// The machine whose program dies, and when.
    pub(super) death: Option<(usize, u64)>,
    /// The machine whose stack panics at its work, and at which access to a socket.
    pub(super) panic: Option<(usize, u32)>,
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
            onward: Vec::new(),
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
    pub(super) fn may_be_reset(&self) -> bool {
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
        let dhcp = n.below(4) == 0;
        let panic = (n.below(6) == 0).then(|| (n.below(2) as usize, n.below(800) as u32));
        let own = own(&mut n);
        let all = (plans.len() + own.len()) as u16;
        let onward = (0..all).map(|number| (number, n.below(8) as usize));
        let onward = onward.filter(|(_, machine)| *machine < 2).collect();
        Self {
            ipv6,
            wire,
            plans,
            begins,
            datagrams,
            dhcp,
            flood,
            unplugged,
            cut,
            death,
            panic,
            own,
            onward,
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
