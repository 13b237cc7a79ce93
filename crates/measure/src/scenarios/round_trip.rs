//! A byte there and back, the kernel asking.

use super::{
    About, Effort, Placement, Sample, Scenario, beside_generator, counted, first_number, program,
};
use crate::generator::Service;
use longshore_testbed::{Host, Testbed};
use std::net::SocketAddr;

const PORT: u16 = 5002;

pub(super) struct RoundTrip;

/// The median of round trips to what echoes there, in us.
fn ask(peer: &Host<'_>, server: SocketAddr, effort: Effort) -> f64 {
    let times = effort.pick("3000", "20000");
    let ping = program(peer, "ping").args([&server.to_string(), times]);
    first_number(&ping.check())
}

impl Scenario for RoundTrip {
    fn about(&self) -> About {
        About::lower("round trip of 1 byte", "us")
            .ratio(1.2)
            .ratio_awake(1.2)
    }

    fn placements(&self) -> &[Placement] {
        &[Placement::SameCore, Placement::TwoCores]
    }

    fn run(&self, bed: &Testbed, placement: Placement, effort: Effort) -> Sample {
        let (host, peer) = placement.hosts(bed);
        let _server = program(&host, "echo")
            .arg(format!("0.0.0.0:{PORT}"))
            .spawn();
        peer.wait_for(host.at(PORT));
        let (value, crossings) = counted(bed, || ask(&peer, host.at(PORT), effort));
        Sample { value, crossings }
    }

    fn run_bare(&self, bed: &Testbed, placement: Placement, effort: Effort) -> Option<f64> {
        let ask = |peer: &Host<'_>, server| ask(peer, server, effort);
        let served = (PORT, Service::Echo);
        Some(beside_generator(bed, placement, served, ask))
    }
}
