//! Both ends on one host: with Longshore on one engine, where what one end sends is the other's
//! where it lies; with the kernel over its loopback.

use super::redis::{self, Load};
use super::{About, Effort, Placement, Sample, Scenario, first_number, me, rate_of_wrk};
use crate::installed;
use longshore_testbed::servers::{Nginx, haproxy_config};
use longshore_testbed::{Host, Stack, Testbed};

const BACKEND: u16 = 8001;
const PORT: u16 = 5001;

pub(super) fn all() -> Vec<Box<dyn Scenario>> {
    let one = |name, unit, what, target| -> Box<dyn Scenario> {
        Box::new(OneHost {
            name,
            unit,
            what,
            target,
        })
    };
    let rate = "requests/s";
    vec![
        one("iperf3, one host", "Gb/s", What::Iperf3, 2.5),
        one("bulk, native, one host", "Gb/s", What::Native, 4.0),
        one("redis GET, one host", rate, What::Redis(Load::Get), 4.0),
        one(
            "redis GET, pipeline of 16, one host",
            rate,
            What::Redis(Load::GetBySixteen),
            2.0,
        ),
        one(
            "HAProxy before nginx, 64 KB, one host",
            rate,
            What::Proxy,
            2.0,
        ),
    ]
}

struct OneHost {
    name: &'static str,
    unit: &'static str,
    what: What,
    /// What is aimed at, as a ratio to the kernel.
    target: f64,
}

/// Which programs.
#[derive(Clone, Copy)]
enum What {
    /// iperf3 to itself, one stream.
    Iperf3,
    /// A source and who takes from it, one stream: on Longshore by the native calls, which copy
    /// nothing.
    Native,
    /// redis-benchmark and redis-server.
    Redis(Load),
    /// wrk with 32 connections that are kept, HAProxy, and nginx with one worker.
    Proxy,
}

impl Scenario for OneHost {
    fn about(&self) -> About {
        About::higher(self.name, self.unit).ratio(self.target)
    }

    fn run(&self, bed: &Testbed, placement: Placement, effort: Effort) -> Sample {
        let (host, _) = placement.hosts(bed);
        let script = match self.what {
            What::Iperf3 => iperf3(&host, effort),
            What::Native => bulk(bed.stack(), &host, effort),
            What::Redis(load) => redis(bed, &host, load, effort),
            What::Proxy => proxy(bed, &host, effort),
        };
        let report = host.sh(&script).check();
        let value = match self.what {
            What::Iperf3 => gigabits_of(&report),
            What::Native => first_number(&report),
            What::Redis(load) => load.rate_of(&report),
            What::Proxy => rate_of_wrk(&report),
        };
        // Its engine ends with it, so that it cannot be asked what crossed.
        Sample {
            value,
            crossings: None,
        }
    }
}

/// iperf3 asks until its server is there; its exit status does not say whether it was.
fn iperf3(host: &Host<'_>, effort: Effort) -> String {
    format!(
        "iperf3 -s >/dev/null & server=$!; \
         for i in $(seq 600); do \
            iperf3 -c {ip} -t {seconds} -J >report || true; \
            grep -q sum_received report && break; sleep 0.1; done; \
         cat report; kill $server; wait || true",
        ip = host.ip(),
        seconds = effort.pick(1, 3),
    )
    .replace(
        "report",
        &host.files().join("iperf3.json").display().to_string(),
    )
}

/// The one that takes fails until the source is there.
fn bulk(stack: Stack, host: &Host<'_>, effort: Effort) -> String {
    let (shim, native) = match stack {
        Stack::Longshore => ("env -u LD_PRELOAD", "native-"),
        Stack::Kernel => ("", ""),
    };
    format!(
        "{shim} {me} {word} {native}source {at} & source=$!; \
         for i in $(seq 600); do \
            {shim} {me} {word} {native}pull {at} {milliseconds} && break; sleep 0.1; done; \
         kill $source; wait || true",
        me = me().display(),
        word = installed::WORD,
        at = host.at(PORT),
        milliseconds = effort.pick(700, 2000),
    )
}

fn redis(bed: &Testbed, host: &Host<'_>, load: Load, effort: Effort) -> String {
    let quoted = |words: &[&str]| {
        let words = words.iter().map(|word| format!("'{word}'"));
        words.collect::<Vec<_>>().join(" ")
    };
    format!(
        "redis-server --bind {ip} {server} --dir {directory} >/dev/null & server=$!; \
         for i in $(seq 600); do \
            redis-cli -h {ip} ping 2>/dev/null | grep -q PONG && break; sleep 0.1; done; \
         redis-benchmark -h {ip} {load}; kill $server; wait || true",
        ip = host.ip(),
        server = quoted(&redis::SERVER),
        directory = bed.directory("redis").display(),
        load = quoted(&load.arguments(effort)),
    )
}

fn proxy(bed: &Testbed, host: &Host<'_>, effort: Effort) -> String {
    let _ = bed.payload("www/file", 64 << 10);
    let nginx = Nginx {
        listen: "8001",
        ..Nginx::default()
    };
    format!(
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
    )
}

/// Gb/s that have arrived, of a report of iperf3's.
fn gigabits_of(report: &str) -> f64 {
    let bits = serde_json::from_str::<serde_json::Value>(report)
        .ok()
        .and_then(|report| report["end"]["sum_received"]["bits_per_second"].as_f64());
    bits.unwrap_or_else(|| panic!("no rate in iperf3's report:\n{report}")) / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_that_arrived_is_taken() {
        let report = r#"{"end": {"sum_sent": {"bits_per_second": 3e9},
                                 "sum_received": {"bits_per_second": 2.5e9}}}"#;
        assert!((gigabits_of(report) - 2.5).abs() < 1e-9);
    }
}
