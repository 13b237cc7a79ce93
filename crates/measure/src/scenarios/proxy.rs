//! A proxy, the server behind it and the load generator before it, all on one host: with Longshore
//! on one engine, where what the server sends is passed on by reference.

use super::{Effort, Placement, Sample, Scenario, rate_of_wrk};
use crate::report::{Better, Target};
use longshore_testbed::Testbed;
use longshore_testbed::servers::{Nginx, haproxy_config};

const BACKEND: u16 = 8001;

pub(super) fn all() -> Vec<Box<dyn Scenario>> {
    vec![Box::new(Proxy)]
}

/// HAProxy before nginx with one worker, wrk with 32 connections that are kept.
struct Proxy;

impl Scenario for Proxy {
    fn name(&self) -> &str {
        "HAProxy before nginx, 64 KB, one host"
    }

    fn unit(&self) -> &'static str {
        "requests/s"
    }

    fn better(&self) -> Better {
        Better::Higher
    }

    fn target(&self) -> Option<Target> {
        Some(Target::Ratio(2.0))
    }

    fn run(&self, bed: &Testbed, placement: Placement, effort: Effort) -> Sample {
        let (host, _) = placement.hosts(bed);
        let _ = bed.payload("www/file", 64 << 10);
        let nginx = Nginx {
            listen: "8001",
            ..Nginx::default()
        };
        let script = format!(
            "nginx -c {nginx} & haproxy -db -f {haproxy} & proxy=$!; \
             for i in $(seq 600); do \
                curl -sf -o /dev/null http://{ip}/file && break; sleep 0.1; done; \
             wrk -t1 -c32 {duration} http://{ip}/file; \
             kill $proxy $(cat {pid}); wait || true",
            nginx = nginx.config(bed).display(),
            haproxy = haproxy_config(bed, 80, &[host.at(BACKEND).to_string()]).display(),
            ip = host.ip(),
            duration = effort.pick("-d1s", "-d3s"),
            pid = nginx.pid_file(bed).display(),
        );
        let report = host.sh(&script).check();
        Sample {
            value: rate_of_wrk(&report),
            // Its engine ends with it.
            crossings: None,
        }
    }
}
