//! What a flood of SYNs leaves of a connection that was there before it: of a stream of
//! 200 Mb/s each way, through the same port, its goodput beside the flood in percent of
//! that without.

use super::{About, Effort, Placement, Sample, Scenario, counted, first_number, program};
use longshore_testbed::{Testbed, eventually};

const PORT: u16 = 5003;

/// Bytes in a second of the stream.
const STEADY: &str = "25000000";

/// A flood of a rate.
struct Flood {
    name: &'static str,
    /// SYNs in a second; 0 as many as a thread of the kernel's end can send.
    rate: &'static str,
}

pub(super) fn all() -> Vec<Box<dyn Scenario>> {
    vec![
        Box::new(Flood {
            name: "goodput beside a flood of 50,000 SYN/s",
            rate: "50000",
        }),
        Box::new(Flood {
            name: "goodput beside a flood of 200,000 SYN/s",
            rate: "200000",
        }),
        Box::new(Flood {
            name: "goodput beside a flood without limit",
            rate: "0",
        }),
    ]
}

impl Scenario for Flood {
    fn about(&self) -> About {
        About::higher(self.name, "%").value(90.0)
    }

    fn run(&self, bed: &Testbed, placement: Placement, effort: Effort) -> Sample {
        let (host, peer) = placement.hosts(bed);
        let _server = program(&host, "mirror")
            .arg(format!("0.0.0.0:{PORT}"))
            .spawn();
        peer.wait_for(host.at(PORT));
        let time = effort.pick(1_000, 5_000);
        let stream = program(&peer, "steady")
            .arg(host.at(PORT).to_string())
            .arg(STEADY)
            .arg(time.to_string())
            .spawn();
        eventually("the stream's rate without a flood", || {
            stream.stdout().contains('\n').then_some(())
        });
        let (said, crossings) = counted(bed, || {
            // It begins in the stream's pause and outlasts it.
            let flood = program(&peer, "flood")
                .arg(host.at(PORT).to_string())
                .arg(self.rate)
                .arg((time + 1_000).to_string())
                .spawn();
            let said = stream.wait().check();
            flood.wait().check();
            said
        });
        let rates: Vec<f64> = said.lines().map(first_number).collect();
        Sample {
            value: 100.0 * rates[1] / rates[0],
            crossings,
        }
    }
}
