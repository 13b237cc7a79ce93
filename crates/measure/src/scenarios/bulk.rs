//! Bulk over one connection, with the kernel at the far end: in large pieces, and in
//! small ones, where the cost of a call shows.

use super::{Effort, Placement, Sample, Scenario, counted, first_number, program, without_shim};
use crate::report::{Better, Target};
use longshore_lab::{Host, Lab, Stack};

const PORT: u16 = 5001;

#[derive(Clone, Copy)]
struct Bulk {
    name: &'static str,
    /// The program under test, and the one at the far end.
    programs: (&'static str, &'static str),
    /// What stands in for it on Longshore, written for it.
    native: Option<&'static str>,
}

pub(super) fn all() -> Vec<Box<dyn Scenario>> {
    let out = Bulk {
        name: "bulk to the kernel, POSIX",
        programs: ("source", "pull"),
        native: None,
    };
    let back = Bulk {
        name: "bulk from the kernel, POSIX",
        programs: ("sink", "push"),
        native: None,
    };
    let native_out = Bulk {
        name: "bulk to the kernel, native",
        native: Some("native-source"),
        ..out
    };
    let native_back = Bulk {
        name: "bulk from the kernel, native",
        native: Some("native-sink"),
        ..back
    };
    let mut all: Vec<Box<dyn Scenario>> = vec![
        Box::new(out),
        Box::new(back),
        Box::new(native_out),
        Box::new(native_back),
    ];
    for (name, size) in [
        ("sends of 64 bytes", "64"),
        ("sends of 1 KB", "1024"),
        ("sends of 16 KB", "16384"),
    ] {
        all.push(Box::new(Small { name, size }));
    }
    all
}

/// A program that sends without end, little with each call.
struct Small {
    name: &'static str,
    /// Bytes in each.
    size: &'static str,
}

impl Scenario for Small {
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

    fn run(&self, lab: &Lab, placement: Placement, effort: Effort) -> Sample {
        let (host, peer) = placement.hosts(lab);
        let source = program(&host, "source-of").arg(format!("0.0.0.0:{PORT}"));
        let _source = source.arg(self.size).spawn();
        peer.wait_for(host.at(PORT));
        pulled(lab, &host, &peer, "pull", effort)
    }
}

/// The kernel's program moves bulk, and says how fast.
fn pulled(lab: &Lab, host: &Host<'_>, peer: &Host<'_>, how: &str, effort: Effort) -> Sample {
    let (said, crossings) = counted(lab, || {
        program(peer, how)
            .arg(host.at(PORT).to_string())
            .arg(effort.pick("700", "2000"))
            .check()
    });
    Sample {
        value: first_number(&said),
        crossings,
    }
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
        Some(Target::Ratio(if self.native.is_some() { 1.0 } else { 0.8 }))
    }

    fn run(&self, lab: &Lab, placement: Placement, effort: Effort) -> Sample {
        let (host, peer) = placement.hosts(lab);
        let server = match self.native {
            Some(native) if lab.stack() == Stack::Longshore => without_shim(&host, native),
            _ => program(&host, self.programs.0),
        };
        let _server = server.arg(format!("0.0.0.0:{PORT}")).spawn();
        peer.wait_for(host.at(PORT));
        pulled(lab, &host, &peer, self.programs.1, effort)
    }
}
