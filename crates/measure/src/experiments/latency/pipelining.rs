//! Message pipelining on a bus that is as fast as the paper's: an adapter that passes on the
//! beginning of a message while the bus carries its end, or that waits for all of it, or that
//! does the former while there is no load and the latter under load.
//!
//! The transfer engine of the crate `bus` runs here on time that is computed, so figures are
//! exact.

use crate::experiment::{Cell, ExperimentError, Sheet};
use longshore_bus::{BusModel, Forwarding, SLOT, TransferEngine};

/// As fast as a 32-bit PCI of 33 MHz, of which the paper's machines had one.
pub(super) const BUS: &str = "bandwidth=1Gb/s,latency=1us";
/// Bytes of a message under load: a page of the paper's Alphas.
const MESSAGE: u64 = 8192;
/// Messages that are handed over at once.
const AT_ONCE: [u64; 5] = [1, 2, 4, 8, 16];

/// The bus, with an adapter that forwards so.
pub(super) fn model(forwarding: Forwarding) -> Result<BusModel, ExperimentError> {
    let bus: BusModel = BUS.parse().map_err(|error| ExperimentError::Program {
        program: "the model of the bus".to_owned(),
        why: format!("{error}"),
    })?;
    Ok(BusModel { forwarding, ..bus })
}

/// How long messages take that are handed over at once, on average, and how often the bus is
/// taken for them.
fn handed_over(model: BusModel, messages: u64) -> (f64, u64) {
    let mut engine = TransferEngine::new(model);
    for _ in 0..messages {
        engine.put_payload(0, MESSAGE, SLOT, false);
        engine.put_request(0, SLOT, true);
    }
    let (mut sum, mut last) = (0, 0);
    while let Some(now) = engine.next_event() {
        last = now;
        while let Some((late, is_request)) = engine.poll_to_adapter(now) {
            sum += if is_request { now - late } else { 0 };
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "a time to show")]
    let mean = sum as f64 / messages as f64;
    (mean, engine.load(last).accesses)
}

/// The sheet: times and accesses by how many messages there are.
pub(super) fn under_load() -> Result<Sheet, ExperimentError> {
    let names = Forwarding::ALL.map(Forwarding::name);
    let accesses = names.map(|name| format!("{name}: accesses"));
    let mut columns = vec![("at once", "messages")];
    columns.extend(names.map(|name| (name, "us")));
    columns.extend(accesses.iter().map(|name| (&**name, "number")));
    let mut sheet = Sheet::new(
        "load",
        &format!(
            "Message pipelining under load: how long 8 KB take to the adapter over {BUS}, on \
             average, and how often the bus is taken"
        ),
        "computed: exact",
        &columns,
    );
    for messages in AT_ONCE {
        let mut all = Vec::new();
        for forwarding in Forwarding::ALL {
            all.push(handed_over(model(forwarding)?, messages));
        }
        let first = [Cell::Count(messages)].into_iter();
        let times = all.iter().map(|(ns, _)| Cell::Number(ns / 1e3));
        let counts = all.iter().map(|(_, accesses)| Cell::Count(*accesses));
        sheet.row(first.chain(times).chain(counts));
    }
    Ok(sheet)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipelining_hastens_one_and_adapts_to_many() {
        let [store, cut, adaptive] = Forwarding::ALL.map(|f| model(f).unwrap());
        let time = |model, messages| handed_over(model, messages).0;
        // Three of four pieces of 2 KB follow, at 8 ns a byte.
        assert!((time(store, 1) - time(cut, 1) - 3.0 * 2048.0 * 8.0).abs() < 1.0);
        assert_eq!(time(adaptive, 1), time(cut, 1));
        assert_eq!(time(adaptive, 16), time(store, 16));
        // A doorbell, a fetch, and a read of each message, or four.
        assert_eq!(handed_over(adaptive, 16).1, 2 + 16);
        assert_eq!(handed_over(cut, 16).1, 2 + 64);
    }
}
