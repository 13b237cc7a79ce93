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

/// Bytes that arrived, by a report on streams; bytes that were sent, by one on datagrams.
#[must_use]
pub fn bytes(report: &Value) -> u64 {
    let end = &report["end"];
    let of = |sum: &str| end[sum]["bytes"].as_u64();
    of("sum_received").or(of("sum")).unwrap_or(0)
}
