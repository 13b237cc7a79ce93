//! redis-server, the kernel's redis-benchmark asking by 50 connections.

use super::{About, Effort, Placement, Sample, Scenario, beside_generator, counted, first_number};
use crate::generator::Service;
use longshore_testbed::{Host, Testbed};
use std::net::SocketAddr;

pub(super) const PORT: u16 = 6379;

pub(super) fn all() -> Vec<Box<dyn Scenario>> {
    vec![
        Box::new(Redis {
            about: About::higher("redis GET", "requests/s").ratio(1.4),
            load: Load::Get,
        }),
        Box::new(Redis {
            about: About::higher("redis GET, pipeline of 16", "requests/s")
                .ratio(1.1)
                .ratio_awake(1.1),
            load: Load::GetBySixteen,
        }),
        Box::new(Redis {
            about: About::higher("redis SET, 16 KB", "requests/s").ratio(1.5),
            load: Load::SetLarge,
        }),
    ]
}

/// What redis-benchmark asks for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Load {
    /// One value after the other by each connection.
    Get,
    /// 16 at once.
    GetBySixteen,
    /// Values of 16 KB are set.
    SetLarge,
}

impl Load {
    /// The command as it stands in the report.
    fn command(self) -> &'static str {
        match self {
            Load::Get | Load::GetBySixteen => "GET",
            Load::SetLarge => "SET",
        }
    }

    /// redis-benchmark's arguments but for where the server is.
    pub(super) fn arguments(self, effort: Effort) -> [&'static str; 11] {
        let (test, pipeline, bytes, requests) = match self {
            Load::Get => ("get", "1", "3", effort.pick("100000", "300000")),
            Load::GetBySixteen => ("get", "16", "3", effort.pick("1000000", "3000000")),
            Load::SetLarge => ("set", "1", "16384", effort.pick("50000", "150000")),
        };
        [
            "--csv", "-c", "50", "-t", test, "-P", pipeline, "-d", bytes, "-n", requests,
        ]
    }

    /// Requests a second of the report.
    pub(super) fn rate_of(self, report: &str) -> f64 {
        let begin = format!("\"{}\",\"", self.command());
        let rate = report
            .lines()
            .find_map(|line| line.strip_prefix(&begin)?.split('"').next());
        first_number(
            rate.unwrap_or_else(|| panic!("no rate in redis-benchmark's report:\n{report}")),
        )
    }
}

/// redis-server's arguments on any stack, but for its address and directory.
pub(super) const SERVER: [&str; 4] = ["--protected-mode", "no", "--save", ""];

struct Redis {
    load: Load,
    about: About,
}

impl Redis {
    /// Requests a second that redis-benchmark gets answered there.
    fn ask(&self, peer: &Host<'_>, server: SocketAddr, effort: Effort) -> f64 {
        let report = peer
            .cmd("redis-benchmark")
            .args(["-h", &server.ip().to_string()])
            .args(self.load.arguments(effort))
            .check();
        self.load.rate_of(&report)
    }
}

impl Scenario for Redis {
    fn about(&self) -> About {
        self.about
    }

    fn run(&self, bed: &Testbed, placement: Placement, effort: Effort) -> Sample {
        let (host, peer) = placement.hosts(bed);
        let _redis = host
            .cmd("redis-server")
            .args(["--bind", "0.0.0.0"])
            .args(SERVER)
            .arg("--dir")
            .arg(bed.directory("redis"))
            .spawn();
        peer.wait_for(host.at(PORT));
        let (value, crossings) = counted(bed, || self.ask(&peer, host.at(PORT), effort));
        Sample { value, crossings }
    }

    fn run_bare(&self, bed: &Testbed, placement: Placement, effort: Effort) -> Option<f64> {
        let service = match self.load {
            Load::Get | Load::GetBySixteen => Service::RedisString { bytes: 3 },
            Load::SetLarge => Service::RedisOk,
        };
        let ask = |peer: &Host<'_>, server| self.ask(peer, server, effort);
        Some(beside_generator(bed, placement, (PORT, service), ask))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_of_the_command_is_found_in_the_report() {
        let report = "\"test\",\"rps\",\"avg_latency_ms\"\n\"SET\",\"50000.5\",\"0.3\"\n\"GET\",\"92166.7\",\"0.3\"\n";
        assert!((Load::Get.rate_of(report) - 92166.7).abs() < 1e-9);
        assert!((Load::SetLarge.rate_of(report) - 50000.5).abs() < 1e-9);
    }
}
