//! PostgreSQL with its own load generator, the kernel asking: eight clients that select one row
//! at a time. Each client has a process of the server's, and each transaction is a round trip.

use super::{About, Effort, Placement, Sample, Scenario, counted, first_number};
use longshore_testbed::Testbed;
use longshore_testbed::servers::postgres;

pub(super) fn all() -> Vec<Box<dyn Scenario>> {
    vec![Box::new(Select)]
}

/// `pgbench -S` with eight clients in two threads.
struct Select;

impl Scenario for Select {
    fn about(&self) -> About {
        About::higher(
            "PostgreSQL, pgbench select-only, 8 clients",
            "transactions/s",
        )
        .ratio(1.0)
    }

    fn run(&self, bed: &Testbed, placement: Placement, effort: Effort) -> Sample {
        let (host, peer) = placement.hosts(bed);
        postgres::make_database(bed);
        let _server = postgres::start(bed, &host);
        peer.wait_for(host.at(postgres::PORT));
        let pgbench = || {
            let at = host.ip().to_string();
            let pgbench = format!("{}/pgbench", postgres::programs());
            peer.cmd(pgbench).args(["-h", &at, "-U", "postgres"])
        };
        pgbench().args(["-i", "-q", "-s", "10", "postgres"]).check();
        let (report, crossings) = counted(bed, || {
            pgbench()
                .args(["-n", "-S", "-c", "8", "-j", "2"])
                .args(["-T", effort.pick("2", "5"), "postgres"])
                .check()
        });
        Sample {
            value: rate_of(&report),
            crossings,
        }
    }
}

/// Transactions a second of a report of pgbench's, connecting not counted.
fn rate_of(report: &str) -> f64 {
    let rate = report.lines().find_map(|line| line.strip_prefix("tps ="));
    first_number(rate.unwrap_or_else(|| panic!("no rate in pgbench's report:\n{report}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_found_in_the_report() {
        let report = "number of failed transactions: 0 (0.000%)\n\
                      latency average = 0.200 ms\n\
                      tps = 40012.5 (without initial connection time)\n";
        assert!((rate_of(report) - 40012.5).abs() < 1e-9);
    }
}
