//! Bulk between the kernel and a program whose engine is on another machine: a link between two
//! namespaces, over TCP and encrypted, as its users have it.

use super::{Effort, Placement, Sample, Scenario, counted, first_number, me, program};
use crate::installed;
use crate::report::{Better, Target};
use longshore_testbed::{Cmd, Engine, Host, Stack, Testbed};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

const PORT: u16 = 5001;
/// Where links come in.
const LINK_PORT: u16 = 4077;

struct Linked {
    name: &'static str,
    /// The program under test, and the one at the far end.
    programs: (&'static str, &'static str),
}

pub(super) fn all() -> Vec<Box<dyn Scenario>> {
    vec![
        Box::new(Linked {
            name: "bulk to the kernel, over a link",
            programs: ("source", "pull"),
        }),
        Box::new(Linked {
            name: "bulk from the kernel, over a link",
            programs: ("sink", "push"),
        }),
    ]
}

fn key(bed: &Testbed) -> PathBuf {
    let path = bed.file("link.key", "a".repeat(64));
    let mode = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(&path, mode).expect("a key that others cannot read");
    path
}

/// An engine that takes links.
fn engine<'h>(host: &'h Host<'_>, key: &str) -> Engine<'h> {
    let place = format!("tcp:{}:{LINK_PORT}", host.gateway());
    // Its own defaults, CUBIC among them, whatever the machine has.
    host.engine_with("sysctl = \"none\"", &["--link", &place, "--link-key", key])
}

/// One of our programs on another machine, on that engine.
fn linked(host: &Host<'_>, engine_of: &Host<'_>, key: &str, name: &str) -> Cmd {
    let place = format!("link:{}:{LINK_PORT}", engine_of.gateway());
    host.longshore()
        .args(["run", "--engine", &place, "--link-key", key, "--"])
        .arg(me())
        .arg(installed::WORD)
        .arg(name)
}

impl Scenario for Linked {
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
        None
    }

    fn run(&self, bed: &Testbed, placement: Placement, effort: Effort) -> Sample {
        let (host, peer) = placement.hosts(bed);
        let key = key(bed);
        let key = key.to_str().expect("a name that can be printed");
        let on_link = (bed.stack() == Stack::Longshore).then(|| (engine(&host, key), bed.host(1)));
        let server = match &on_link {
            Some((_, programs)) => linked(programs, &host, key, self.programs.0),
            None => program(&host, self.programs.0),
        };
        let _server = server.arg(format!("0.0.0.0:{PORT}")).spawn();
        peer.wait_for(host.at(PORT));
        let (said, crossings) = counted(bed, || {
            program(&peer, self.programs.1)
                .arg(host.at(PORT).to_string())
                .args([effort.pick("700", "2000"), "1"])
                .check()
        });
        Sample {
            value: first_number(&said),
            crossings,
        }
    }
}
