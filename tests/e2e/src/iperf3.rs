//! iperf3 as a client: its server takes one client at a time, and closes its listener
//! between two.

use crate::{Host, eventually};
use serde_json::Value;
use std::net::IpAddr;

/// Runs iperf3 for a second on `from` against the server at `to`, with more arguments;
/// gives its report. A client that the server has no time for yet comes again.
///
/// # Panics
/// If a test that has begun fails, or none begins.
#[must_use]
pub fn run(from: &Host<'_>, to: IpAddr, extra: &[&str]) -> Value {
    eventually(&format!("iperf3 {extra:?} is served"), || {
        let end = from
            .cmd("iperf3")
            .args(["-c", &to.to_string(), "-t", "1", "--json"])
            .args(extra)
            .run();
        let report: Value = serde_json::from_str(&end.stdout)
            .unwrap_or_else(|e| panic!("{e} in what iperf3 {extra:?} reports: {end:?}"));
        // With a report, its status is 0 in any case.
        let is_done = end.status.success() && report["error"].is_null();
        let has_begun = report["intervals"]
            .as_array()
            .is_some_and(|i| !i.is_empty());
        assert!(is_done || !has_begun, "iperf3 {extra:?}: {end:?}");
        is_done.then_some(report)
    })
}

/// Runs it, and sees that bytes arrive in numbers: a megabyte, or a tenth of one in
/// datagrams, of which a busy machine loses many.
///
/// # Panics
/// Like [`run`], and if they do not.
pub fn check(from: &Host<'_>, to: IpAddr, extra: &[&str]) {
    let report = run(from, to, extra);
    let end = &report["end"];
    // In some versions, that of datagrams has one sum for both ends.
    let sums = ["sum_received", "sum"].map(|sum| end[sum]["bytes"].as_u64());
    let least = if extra.contains(&"-u") {
        100_000
    } else {
        1_000_000
    };
    assert!(
        sums[0].or(sums[1]) > Some(least),
        "iperf3 {extra:?}: {report}"
    );
}
