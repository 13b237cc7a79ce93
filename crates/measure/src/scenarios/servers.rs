//! nginx with one worker, the kernel's wrk asking.

use super::{Effort, Placement, Sample, Scenario, counted, rate_of_wrk};
use crate::report::{Better, Target};
use longshore_testbed::{Testbed, servers::Nginx};

pub(super) fn all() -> Vec<Box<dyn Scenario>> {
    let kept = Web {
        name: "nginx 1 KB, keep-alive",
        size: 1 << 10,
        connections: "-c32",
        close: false,
        halt: 1.2,
        awake: Some(1.3),
    };
    vec![
        Box::new(kept),
        Box::new(Web {
            name: "nginx 1 KB, keep-alive, one connection",
            connections: "-c1",
            halt: 2.5,
            awake: Some(1.2),
            ..kept
        }),
        Box::new(Web {
            name: "nginx 1 KB, close",
            close: true,
            halt: 1.5,
            awake: None,
            ..kept
        }),
        Box::new(Web {
            name: "nginx 64 KB, keep-alive",
            size: 64 << 10,
            halt: 1.1,
            awake: Some(1.0),
            ..kept
        }),
        Box::new(Web {
            name: "nginx 512 KB, keep-alive",
            size: 512 << 10,
            halt: 1.0,
            awake: None,
            ..kept
        }),
    ]
}

#[derive(Clone, Copy)]
struct Web {
    name: &'static str,
    /// Bytes of the file that is asked for.
    size: u64,
    /// wrk's argument for how many connections.
    connections: &'static str,
    /// A connection for each request.
    close: bool,
    /// What is aimed at, as a ratio to the kernel: where idle processors sleep, and where none
    /// does, if that is measured.
    halt: f64,
    awake: Option<f64>,
}

impl Scenario for Web {
    fn name(&self) -> &str {
        self.name
    }

    fn unit(&self) -> &'static str {
        "requests/s"
    }

    fn better(&self) -> Better {
        Better::Higher
    }

    fn target(&self) -> Option<Target> {
        Some(Target::Ratio(self.halt))
    }

    fn target_awake(&self) -> Option<Target> {
        self.awake.map(Target::Ratio)
    }

    fn depends_on_idle(&self) -> bool {
        self.awake.is_some()
    }

    fn run(&self, bed: &Testbed, placement: Placement, effort: Effort) -> Sample {
        let (host, peer) = placement.hosts(bed);
        let _ = bed.payload("www/file", self.size);
        let _nginx = host
            .cmd("nginx")
            .arg("-c")
            .arg(Nginx::default().config(bed))
            .spawn();
        peer.wait_for(host.at(80));
        let (report, crossings) = counted(bed, || {
            let mut wrk =
                peer.cmd("wrk")
                    .args(["-t1", self.connections, effort.pick("-d1s", "-d3s")]);
            if self.close {
                wrk = wrk.args(["-H", "Connection: close"]);
            }
            wrk.arg(format!("http://{}/file", host.ip())).check()
        });
        Sample {
            value: rate_of_wrk(&report),
            crossings,
        }
    }
}
