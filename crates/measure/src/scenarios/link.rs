//! Bulk where the engine is on another machine, over an encrypted link: here the two are network
//! namespaces, and TCP between them the kernel's.

use super::{About, Effort, Placement, Sample, Scenario, first_number, me, program};
use crate::installed;
use longshore_testbed::{Stack, Testbed};
use std::os::unix::fs::PermissionsExt;

const PORT: u16 = 5001;
/// Where the engine takes links.
const LINK_PORT: u16 = 4077;

struct OverALink {
    name: &'static str,
    /// The program behind the link, and the one at the far end of its connection.
    programs: [&'static str; 2],
}

pub(super) fn all() -> Vec<Box<dyn Scenario>> {
    vec![
        Box::new(OverALink {
            name: "bulk to the kernel, over a link",
            programs: ["source", "pull"],
        }),
        Box::new(OverALink {
            name: "bulk from the kernel, over a link",
            programs: ["sink", "push"],
        }),
    ]
}

impl Scenario for OverALink {
    fn about(&self) -> About {
        About::higher(self.name, "Gb/s")
    }

    fn run(&self, bed: &Testbed, _placement: Placement, effort: Effort) -> Sample {
        let (engine_host, program_host, peer) = (bed.host(0), bed.host(1), bed.peer());
        let place = format!("tcp:{}:{LINK_PORT}", engine_host.gateway());
        let key = bed.file("link.key", "a5".repeat(32));
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).expect("a mode");
        let key = key.display().to_string();
        let [ours, far] = self.programs;
        let (_engine, server) = match bed.stack() {
            Stack::Longshore => {
                let options = ["--link", &place, "--link-key", &key];
                let engine = engine_host.engine_with("", &options);
                let server = program_host
                    .longshore()
                    .args(["run", "--engine", &format!("link:{place}"), "--link-key"])
                    .args([&key, "--"])
                    .arg(me())
                    .args([installed::WORD, ours]);
                (Some(engine), server)
            }
            _ => (None, program(&engine_host, ours)),
        };
        let _server = server.arg(format!("0.0.0.0:{PORT}")).spawn();
        peer.wait_for(engine_host.at(PORT));
        let said = program(&peer, far)
            .arg(engine_host.at(PORT).to_string())
            .args([effort.pick("700", "2000"), "1"])
            .check();
        Sample {
            value: first_number(&said),
            crossings: None,
        }
    }
}
