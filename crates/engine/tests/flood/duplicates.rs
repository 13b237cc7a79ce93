//! Duplicates that come in one turn of the loop: each is reported.

use super::goodput::{Bench, MSS, stream};
use longshore_wire::SeqNumber;

/// RFC 2883 section 4: an acknowledgment reports one duplicate, and a sender takes back what
/// it did about a loss once each of its repetitions was reported.
#[test]
fn each_of_the_duplicates_in_a_turn_is_reported() {
    let mut bench = Bench::new();
    bench.turns(4, 0);
    let (client, last) = (bench.client, bench.last.clone());
    let mut expected = Vec::new();
    for at in [0, 3, 9].map(|n| n * MSS) {
        let mut again = last.clone();
        again.seq = bench.iss.add(at as u32);
        bench.bring(client, &again, &stream(at as u64, MSS));
        expected.push((again.seq, again.seq.add(MSS as u32)));
    }
    bench.engine.turn().unwrap();
    let frames = bench.frames();
    let reports = frames
        .iter()
        .filter_map(|(header, _)| header.options.sack.iter().next());
    assert_eq!(reports.collect::<Vec<(SeqNumber, SeqNumber)>>(), expected);
}
