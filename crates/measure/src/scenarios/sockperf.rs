//! Messages of 64 bytes there and back by sockperf, the kernel asking: the median of their times,
//! over TCP and over UDP. A mean would be that of the few in which something else had the
//! processor.

use super::{About, Effort, Placement, Sample, Scenario, counted, first_number};
use longshore_testbed::{Testbed, eventually};

const PORT: &str = "11111";

pub(super) fn all() -> Vec<Box<dyn Scenario>> {
    vec![
        Box::new(Sockperf {
            name: "sockperf, round trip of 64 bytes by TCP",
            tcp: &["--tcp"],
            awake: 1.0,
        }),
        Box::new(Sockperf {
            name: "sockperf, round trip of 64 bytes by UDP",
            tcp: &[],
            awake: 1.1,
        }),
    ]
}

struct Sockperf {
    name: &'static str,
    /// What makes it use TCP.
    tcp: &'static [&'static str],
    /// What is aimed at where no processor sleeps, as a ratio to the kernel.
    awake: f64,
}

impl Scenario for Sockperf {
    fn about(&self) -> About {
        About::lower(self.name, "us")
            .ratio(1.0)
            .ratio_awake(self.awake)
    }

    fn run(&self, bed: &Testbed, placement: Placement, effort: Effort) -> Sample {
        let (host, peer) = placement.hosts(bed);
        let server = host
            .cmd("sockperf")
            .args(["server", "-i", "0.0.0.0", "-p", PORT])
            .args(self.tcp)
            .spawn();
        // What it prints last before it waits for messages.
        eventually("sockperf serves", || {
            server.stdout().contains("[tid ").then_some(())
        });
        let (report, crossings) = counted(bed, || {
            peer.cmd("sockperf")
                .args(["ping-pong", "-i", &host.ip().to_string(), "-p", PORT])
                .args(self.tcp)
                .args(["-m", "64", "--full-rtt", "-t", effort.pick("1", "3")])
                .check()
        });
        Sample {
            value: median_of(&report),
            crossings,
        }
    }
}

/// The median time in a report of sockperf's, in microseconds.
fn median_of(report: &str) -> f64 {
    let median = report
        .lines()
        .find_map(|line| line.split_once("percentile 50.000 =")?.1.into());
    first_number(median.unwrap_or_else(|| panic!("no median in sockperf's report:\n{report}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_found_among_the_percentiles() {
        let report = "sockperf: Summary: Round trip is 29.084 usec\n\
                      sockperf: ---> percentile 75.000 =   12.037\n\
                      sockperf: ---> percentile 50.000 =   11.366\n\
                      sockperf: ---> percentile 25.000 =   11.226\n";
        assert!((median_of(report) - 11.366).abs() < 1e-9);
    }
}
