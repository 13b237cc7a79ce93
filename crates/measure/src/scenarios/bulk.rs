//! Bulk with the kernel at the far end: over one connection and over several, in large
//! pieces, and in small ones, where the cost of a call shows.

use super::{
    About, Effort, Placement, Sample, Scenario, beside_generator, counted, first_number, program,
    without_shim,
};
use crate::report::Target;
use longshore_testbed::{Host, Stack, Testbed};
use std::net::SocketAddr;

const PORT: u16 = 5001;

#[derive(Clone, Copy)]
struct Bulk {
    name: &'static str,
    /// The program under test, and the one at the far end.
    programs: (&'static str, &'static str),
    /// What stands in for it on Longshore, written for it.
    native: Option<&'static str>,
    /// Bytes in each call of the program under test, if it is not to choose.
    size: Option<&'static str>,
    /// Connections at once.
    streams: &'static str,
    target: Option<Target>,
}

pub(super) fn all() -> Vec<Box<dyn Scenario>> {
    let out = Bulk {
        name: "bulk to the kernel, POSIX",
        programs: ("source", "pull"),
        native: None,
        size: None,
        streams: "1",
        target: Some(Target::Ratio(1.35)),
    };
    let back = Bulk {
        name: "bulk from the kernel, POSIX",
        programs: ("sink", "push"),
        target: Some(Target::Ratio(1.3)),
        ..out
    };
    let native_out = Bulk {
        name: "bulk to the kernel, native",
        native: Some("native-source"),
        target: Some(Target::Ratio(1.0)),
        ..out
    };
    let native_back = Bulk {
        name: "bulk from the kernel, native",
        native: Some("native-sink"),
        target: Some(Target::Ratio(1.0)),
        ..back
    };
    let eight_out = Bulk {
        name: "8 streams to the kernel, POSIX",
        streams: "8",
        target: Some(Target::Ratio(1.2)),
        ..out
    };
    let eight_back = Bulk {
        name: "8 streams from the kernel, POSIX",
        streams: "8",
        target: Some(Target::Ratio(1.2)),
        ..back
    };
    let mut all: Vec<Box<dyn Scenario>> = vec![
        Box::new(out),
        Box::new(back),
        Box::new(native_out),
        Box::new(native_back),
        Box::new(eight_out),
        Box::new(eight_back),
    ];
    for (name, size) in [
        ("sends of 64 bytes", "64"),
        ("sends of 1 KB", "1024"),
        ("sends of 16 KB", "16384"),
    ] {
        all.push(Box::new(Bulk {
            name,
            size: Some(size),
            target: None,
            ..out
        }));
    }
    all
}

impl Bulk {
    /// Gb/s that the program at the far end sees of what is there.
    fn ask(&self, peer: &Host<'_>, server: SocketAddr, effort: Effort) -> f64 {
        let said = program(peer, self.programs.1)
            .arg(server.to_string())
            .args([effort.pick("700", "2000"), self.streams])
            .check();
        first_number(&said)
    }
}

impl Scenario for Bulk {
    fn about(&self) -> About {
        About {
            target: self.target,
            ..About::higher(self.name, "Gb/s")
        }
    }

    fn run(&self, bed: &Testbed, placement: Placement, effort: Effort) -> Sample {
        let (host, peer) = placement.hosts(bed);
        let server = match self.native {
            Some(native) if bed.stack() == Stack::Longshore => without_shim(&host, native),
            _ => program(&host, self.programs.0),
        };
        let _server = server
            .arg(format!("0.0.0.0:{PORT}"))
            .args(self.size)
            .spawn();
        peer.wait_for(host.at(PORT));
        let (value, crossings) = counted(bed, || self.ask(&peer, host.at(PORT), effort));
        Sample { value, crossings }
    }

    fn run_bare(&self, bed: &Testbed, placement: Placement, effort: Effort) -> Option<f64> {
        // What a program's calls cost is not in the generator.
        if self.native.is_some() || self.size.is_some() {
            return None;
        }
        let service = self.programs.0.parse().ok()?;
        let ask = |peer: &Host<'_>, server| self.ask(peer, server, effort);
        Some(beside_generator(bed, placement, (PORT, service), ask))
    }
}
