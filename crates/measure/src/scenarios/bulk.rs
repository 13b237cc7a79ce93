//! Bulk over one connection, with the kernel at the far end.

use super::{Effort, Placement, Sample, Scenario, counted, first_number, program};
use crate::report::{Better, Target};
use longshore_lab::Lab;

const PORT: u16 = 5001;

struct Bulk {
    name: &'static str,
    /// The program under test, and the one at the far end.
    programs: (&'static str, &'static str),
}

pub(super) fn all() -> Vec<Box<dyn Scenario>> {
    vec![
        Box::new(Bulk {
            name: "bulk to the kernel, POSIX",
            programs: ("source", "pull"),
        }),
        Box::new(Bulk {
            name: "bulk from the kernel, POSIX",
            programs: ("sink", "push"),
        }),
    ]
}

impl Scenario for Bulk {
    fn name(&self) -> &str {
        self.name
    }

    fn unit(&self) -> &'static str {
        "Gb/s"
    }

    fn better(&self) -> Better {
        Better::Higher
    }

    fn target(&self) -> Option<Target> {
        Some(Target::Ratio(0.8))
    }

    fn run(&self, lab: &Lab, placement: Placement, effort: Effort) -> Sample {
        let (host, peer) = placement.hosts(lab);
        let _server = program(&host, self.programs.0)
            .arg(format!("0.0.0.0:{PORT}"))
            .spawn();
        peer.wait_for(host.at(PORT));
        let (said, crossings) = counted(lab, || {
            program(&peer, self.programs.1)
                .arg(host.at(PORT).to_string())
                .arg(effort.pick("700", "2000"))
                .check()
        });
        Sample {
            value: first_number(&said),
            crossings,
        }
    }
}
