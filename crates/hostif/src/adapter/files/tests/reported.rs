//! Ranges that a descriptor has told of, and the records of those that none has.

use super::*;

/// A record is read where its range is entered, and those before it in its chunk where nothing that
/// was fetched last has led there. Of a range that was told none is.
#[test]
fn records_are_read_of_ranges_that_were_not_told() {
    let (mut adapter, host) = session(Features::FILES);
    let (fd, id) = file(&pattern(2 * CHUNK));
    lend(&mut adapter, &fd, 0).unwrap();
    write(&adapter, &[b'-'; 2 * CHUNK]);
    let chunk = CHUNK as u64;
    let held = host.hold_file(id).unwrap();
    for (number, within, len, offset) in [
        (0, 100, 400, 0),
        (0, 1000, CHUNK - 1000, 5000),
        (1, 0, 300, 5000 + CHUNK - 1000),
    ] {
        let span = (number, within, len);
        assert_eq!(
            host.ranges(INDEX).write(span, &held, offset as u64),
            Ok(true)
        );
    }
    let mut reported = ReportedRange::default();
    let extent = |reported: &ReportedRange, range: std::ops::Range<u64>, goes_on| {
        let found = adapter
            .send
            .extent(reported, INDEX, range, goes_on)
            .unwrap();
        let Extent::Fetched(bytes) = found.extent else {
            panic!("nothing was received");
        };
        let records = found.records;
        assert_eq!(records.bytes, 24 * records.transfers);
        (bytes, records.transfers)
    };
    let all = chunk + 300;
    for (from, goes_on, found) in [
        (0, false, (100, 0)),
        (100, true, (400, 1)),
        (200, true, (300, 0)),
        (200, false, (300, 1)),
        (500, true, (500, 0)),
        (500, false, (500, 1)),
        (1000, true, (all - 1000, 2)),
        (1000, false, (all - 1000, 3)),
        (1001, true, (all - 1001, 1)),
        (chunk, true, (300, 1)),
        (chunk + 1, true, (299, 0)),
    ] {
        assert_eq!(
            extent(&reported, from..all, goes_on),
            found,
            "{from} {goes_on}"
        );
    }
    reported.report(&held.extent(5000, CHUNK - 700).unwrap(), all, 0);
    for (from, goes_on, found) in [
        (100, false, (400, 1)),
        (500, false, (500, 1)),
        (1000, false, (all - 1000, 0)),
        (chunk + 1, false, (299, 0)),
    ] {
        assert_eq!(
            extent(&reported, from..all, goes_on),
            found,
            "{from} {goes_on}"
        );
    }
    // It alone is in its chunk: what lies before it needs no record, and what follows it does.
    let mut reported = ReportedRange::default();
    reported.report(&held.extent(0, 400).unwrap(), 500, 0);
    assert_eq!(extent(&reported, 0..500, false), (100, 0));
    for goes_on in [false, true] {
        assert_eq!(extent(&reported, 500..900, goes_on), (400, 1));
    }
}

/// What a descriptor has told of a file is gathered though no record says so, with what lies beside
/// it.
#[test]
fn a_range_that_was_told_is_gathered_without_its_records() {
    let (mut adapter, host) = session(Features::FILES);
    let content = pattern(3 * CHUNK);
    let (fd, id) = file(&content);
    lend(&mut adapter, &fd, 0).unwrap();
    let mut expected = vec![b'-'; 2 * CHUNK];
    write(&adapter, &expected);
    let held = host.hold_file(id).unwrap();
    let (start, len) = (300, CHUNK + 1000);
    expected[start..start + len].copy_from_slice(&content[70..70 + len]);
    let mut reported = ReportedRange::default();
    let edge = (start + len) as u64;
    reported.report(&held.extent(70, len).unwrap(), edge, 0);
    for used in [Use::Read, Use::Pass] {
        for (from, to, parts) in [
            (0, edge + 9, 3),
            (299, edge, 2),
            (301, edge - 1, 1),
            (0, 300, 1),
        ] {
            let (count, got) = gathered_told(&adapter, &reported, from..to, used).unwrap();
            assert!(got == expected[from as usize..to as usize], "{from} {to}");
            assert_eq!(count, if used == Use::Pass { parts } else { 1 });
        }
    }
    // Records of it are not looked at.
    for (number, within, len) in [(0, start, CHUNK - start), (1, 0, len + start - CHUNK)] {
        assert_eq!(
            host.ranges(INDEX).write((number, within, len), &held, 0),
            Ok(true)
        );
        spoil_record(&adapter, number, within);
    }
    for (from, to, gathered) in [
        (0, edge, Ok(2)),
        (0, 300, Ok(1)),
        (0, edge + 1, Err(BadStream)),
    ] {
        let count = gathered_told(&adapter, &reported, from..to, Use::Pass).map(|(count, _)| count);
        assert_eq!(count, gathered, "{from} {to}");
    }
    // There is no such file.
    let mut reported = ReportedRange::default();
    let extent = FileExtent {
        file: 9,
        offset: 0,
        len: len as u32,
    };
    reported.report(&extent, edge, 0);
    let found = gathered_told(&adapter, &reported, start as u64..edge, Use::Pass);
    assert_eq!(found, Err(BadStream));
}
