//! Two ends, two directions, one clock.

use crate::endpoint::{Endpoint, Program};
use crate::rng::Rng;
use crate::wire::{Faults, Packet, Wire};
use longshore_tcp::{
    Config, Ecn, Instant, ListenVerdict, Listener, Segment, State, Tcb, reset_for,
};
use longshore_wire::SeqNumber;
use longshore_wire::tcp::{FastOpenCookie, TcpFlags};

/// Everything that makes a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scenario {
    pub(crate) seed: u64,
    pub(crate) client: (Config, Program, u16),
    pub(crate) server: (Config, Program, u16),
    pub(crate) there: Faults,
    pub(crate) back: Faults,
    pub(crate) iss: (u32, u32),
    /// The client has been here before: it has a cookie (RFC 7413), and the server
    /// takes it, or not.
    pub(crate) fast_open: Option<bool>,
    /// So often in a thousand steps, one end moves to another process.
    pub(crate) moves: u32,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) elapsed: Instant,
    /// Packets that the path lost on the way from the client.
    pub(crate) wire_lost: u64,
    pub(crate) client: Endpoint,
    pub(crate) server: Endpoint,
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}: {:?} wrote {} acked {} got {} read {} events {:?} {:?} {:?}",
            self.name,
            self.tcb.state(),
            self.written,
            self.tcb.snd_acked(),
            self.tcb.rcv_edge(),
            self.tcb.rcv_consumed(),
            self.events,
            self.tcb.error(),
            self.tcb.info(Instant(0)),
        )
    }
}

/// Sends the reset that answers `packet`.
fn answer(packet: &Packet, wire: &mut Wire, now: Instant) {
    let segment = Segment::new(&packet.header, packet.payload.len() as u32);
    if let Some(header) = reset_for(&segment) {
        let payload = Vec::new();
        wire.send(
            Packet {
                header,
                payload,
                gso_size: 0,
                ecn: Ecn::NotCapable,
            },
            now,
        );
    }
}

/// Progress must be made within this much virtual time.
const TIMEOUT_US: u64 = 3_600_000_000;

pub(crate) struct World {
    pub(crate) now: Instant,
    pub(crate) client: Endpoint,
    pub(crate) server: Option<Endpoint>,
    pub(crate) there: Wire,
    pub(crate) back: Wire,
    /// Which end acts next, and when.
    movers: Rng,
    scenario: Scenario,
    progress: (u64, Instant),
}

impl World {
    pub(crate) fn new(s: Scenario) -> World {
        let now = Instant(5_000_000);
        let (cfg, program, mss) = s.client;
        let mut tcb = Tcb::connect(&cfg, mss, SeqNumber(s.iss.0), s.seed as u32, now);
        if s.fast_open.is_some() {
            let cookie = FastOpenCookie::new(&s.seed.to_be_bytes()).expect("eight bytes");
            let way = longshore_tcp::FastOpenMode::SendCookie {
                cookie,
                mss: s.server.2,
            };
            tcb.syn_data().start(way, false);
        }
        let mut client = Endpoint::new("client", tcb, program, (s.seed, !s.seed), s.seed ^ 1);
        if s.fast_open.is_some() {
            client.act(now);
        }
        World {
            now,
            client,
            server: None,
            there: Wire::new(s.there, s.seed ^ 2),
            back: Wire::new(s.back, s.seed ^ 3),
            movers: Rng::new(s.seed ^ 5),
            scenario: s,
            progress: (0, now),
        }
    }

    /// Runs to the end, or panics.
    pub(crate) fn run(mut self) -> Outcome {
        self.client.flush(&mut self.there, self.now);
        while !self.is_done() {
            self.step();
        }
        let server = self.server.expect("no server");
        for end in [&self.client, &server] {
            assert!(end.tcb.error().is_none(), "{end:?}");
        }
        assert_eq!(server.checked, self.client.program.total, "{server:?}");
        assert_eq!(
            self.client.checked, server.program.total,
            "{:?}",
            self.client
        );
        Outcome {
            elapsed: self.now,
            wire_lost: self.there.lost,
            client: self.client,
            server,
        }
    }

    fn is_done(&self) -> bool {
        self.client.is_done() && self.server.as_ref().is_some_and(Endpoint::is_done)
    }

    pub(crate) fn step(&mut self) {
        let next = [
            self.there.next_arrival(),
            self.back.next_arrival(),
            self.client.tcb.deadline(),
            self.client.acts_next(),
            self.server.as_ref().and_then(|s| s.tcb.deadline()),
            self.server.as_ref().and_then(Endpoint::acts_next),
        ];
        let Some(next) = next.into_iter().flatten().min() else {
            panic!(
                "nothing will ever happen: {:?} {:?}",
                self.client, self.server
            );
        };
        self.now = self.now.max(next);
        let now = self.now;
        while let Some((seq, limit)) = self.there.take_report(now) {
            self.client.take_report(seq, limit);
        }
        while let Some((seq, limit)) = self.back.take_report(now) {
            if let Some(server) = &mut self.server {
                server.take_report(seq, limit);
            }
        }
        while let Some(packet) = self.there.receive(now) {
            self.deliver_to_server(&packet);
        }
        while let Some(packet) = self.back.receive(now) {
            let d = self.client.receive(&packet, now);
            if d.reset {
                // TIME-WAIT has run out while the peer still repeats its FIN.
                assert_eq!(self.client.tcb.state(), State::Closed, "the client resets");
                answer(&packet, &mut self.there, now);
            }
        }
        self.client.timer(now);
        self.client.act(now);
        self.client.flush(&mut self.there, now);
        if let Some(server) = &mut self.server {
            server.timer(now);
            server.act(now);
            server.flush(&mut self.back, now);
        }
        self.move_one();
        self.watch();
    }

    /// Moves one end, if it is time.
    fn move_one(&mut self) {
        if !self.movers.permille(self.scenario.moves) {
            return;
        }
        let both = [Some(&mut self.client), self.server.as_mut()];
        let mut ends: Vec<_> = both.into_iter().flatten().collect();
        let which = self.movers.range(0, ends.len() as u64 - 1) as usize;
        let wire = match which {
            0 => &mut self.there,
            _ => &mut self.back,
        };
        ends[which].move_on(wire, self.now);
    }

    fn deliver_to_server(&mut self, packet: &Packet) {
        let now = self.now;
        if let Some(server) = &mut self.server {
            let d = server.receive(packet, now);
            if d.reset {
                assert_eq!(server.tcb.state(), State::Closed, "the server resets");
                answer(packet, &mut self.back, now);
            }
            return;
        }
        let segment = Segment::new(&packet.header, packet.payload.len() as u32);
        let mut listener = Listener::new(5);
        match listener.on_segment(&segment, now) {
            ListenVerdict::Accept => {
                let s = &self.scenario;
                let (cfg, program, mss) = s.server;
                let mut tcb = Tcb::accept(&cfg, &segment, mss, SeqNumber(s.iss.1), 77, now);
                let takes = s.fast_open == Some(true) && segment.header.options.fast_open.is_some();
                let taken = takes.then(|| tcb.syn_data().accept(&segment, now));
                let mut server =
                    Endpoint::new("server", tcb, program, (!s.seed, s.seed), s.seed ^ 4);
                server.take_syn(packet);
                if let Some(place) = taken.and_then(|d| d.place) {
                    server.place(packet, place);
                }
                self.server = Some(server);
            }
            verdict => panic!("{verdict:?} for {packet:?} {:?}", reset_for(&segment)),
        }
        assert!(packet.header.flags.contains(TcpFlags::SYN));
    }

    fn watch(&mut self) {
        let mark = |e: &Endpoint| {
            e.tcb.snd_acked() + e.tcb.rcv_consumed() + e.tcb.rcv_edge() + e.tcb.state() as u64
        };
        let sum = mark(&self.client) + self.server.as_ref().map_or(0, mark);
        if sum != self.progress.0 {
            self.progress = (sum, self.now);
        }
        assert!(
            self.now.since(self.progress.1) < TIMEOUT_US,
            "no progress: {:?} {:?}",
            self.client,
            self.server
        );
    }
}
