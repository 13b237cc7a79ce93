//! Unmodified servers, the kernel's load generators asking.

use super::{Effort, Placement, Sample, Scenario, counted};
use crate::report::{Better, Target};
use longshore_testbed::{Testbed, servers::Nginx};

pub(super) fn all() -> Vec<Box<dyn Scenario>> {
    vec![
        Box::new(Web {
            name: "nginx 1 KB, keep-alive",
            size: 1 << 10,
            close: false,
            target: Some(Target::Ratio(0.7)),
        }),
        Box::new(Web {
            name: "nginx 1 KB, close",
            size: 1 << 10,
            close: true,
            target: Some(Target::Ratio(0.7)),
        }),
        Box::new(Web {
            name: "nginx 64 KB, keep-alive",
            size: 64 << 10,
            close: false,
            target: None,
        }),
        Box::new(Web {
            name: "nginx 512 KB, keep-alive",
            size: 512 << 10,
            close: false,
            target: None,
        }),
        Box::new(Redis {
            name: "redis GET",
            pipeline: "1",
        }),
        Box::new(Redis {
            name: "redis GET, pipeline of 16",
            pipeline: "16",
        }),
    ]
}

/// nginx with one worker, wrk with 32 connections.
struct Web {
    name: &'static str,
    /// Bytes of the file that is asked for.
    size: u64,
    /// A connection for each request.
    close: bool,
    target: Option<Target>,
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
        self.target
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
            let mut wrk = peer
                .cmd("wrk")
                .args(["-t1", "-c32", effort.pick("-d1s", "-d3s")]);
            if self.close {
                wrk = wrk.args(["-H", "Connection: close"]);
            }
            wrk.arg(format!("http://{}/file", host.ip())).check()
        });
        Sample {
            value: super::rate_of_wrk(&report),
            crossings,
        }
    }
}

/// redis-server, redis-benchmark with 50 connections.
struct Redis {
    name: &'static str,
    pipeline: &'static str,
}

impl Scenario for Redis {
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
        Some(Target::Ratio(0.7))
    }

    fn run(&self, bed: &Testbed, placement: Placement, effort: Effort) -> Sample {
        let (host, peer) = placement.hosts(bed);
        let _redis = host
            .cmd("redis-server")
            .args([
                "--bind",
                "0.0.0.0",
                "--protected-mode",
                "no",
                "--save",
                "",
                "--dir",
            ])
            .arg(bed.directory("redis"))
            .spawn();
        peer.wait_for(host.at(6379));
        let requests = match self.pipeline {
            "1" => effort.pick("100000", "300000"),
            _ => effort.pick("1000000", "3000000"),
        };
        let (report, crossings) = counted(bed, || {
            peer.cmd("redis-benchmark")
                .args([
                    "-h",
                    &host.ip().to_string(),
                    "-t",
                    "get",
                    "--csv",
                    "-c",
                    "50",
                ])
                .args(["-P", self.pipeline, "-n", requests])
                .check()
        });
        let rate = report
            .lines()
            .find_map(|line| line.strip_prefix("\"GET\",\"")?.split('"').next())
            .unwrap_or_else(|| panic!("no rate in redis-benchmark's report:\n{report}"));
        Sample {
            value: super::first_number(rate),
            crossings,
        }
    }
}
