//! A byte there and back, the kernel asking.

use super::{About, Effort, Placement, Sample, Scenario, counted, first_number, program};
use longshore_testbed::Testbed;

const PORT: u16 = 5002;

pub(super) struct RoundTrip;

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
        let (said, crossings) = counted(bed, || {
            program(&peer, "ping")
                .arg(host.at(PORT).to_string())
                .arg(effort.pick("3000", "20000"))
                .check()
        });
        Sample {
            value: first_number(&said),
            crossings,
        }
    }
}
