//! What of files sessions of other versions and features have.

use super::*;

#[test]
fn the_shortest_range_is_as_short_as_the_version_has_it() {
    for (version, least) in [(12, 4096), (13, LEAST_RANGE), (21, LEAST_RANGE)] {
        let (mut adapter, host) = session_of(Agreed {
            version,
            features: Features::FILES,
        });
        assert!(host.takes_files() && host.has_room_for_file());
        assert_eq!(host.least_range(), least);
        let (fd, id) = file(&pattern(8192));
        lend(&mut adapter, &fd, 0).unwrap();
        assert!(adapter.send.has_files());
        write(&adapter, &[0; CHUNK]);
        let held = host.hold_file(id).unwrap();
        assert!(!held.is_empty());
        for (len, is_one) in [(least - 1, false), (least, true)] {
            assert_eq!(host.write_range(INDEX, (0, 0, len), &held, 0), Ok(is_one));
        }
        let (_, got) = gathered(&adapter, 0..least as u64, Use::Read).unwrap();
        assert!(got == pattern(least));
    }
    let (adapter, host) = session(Features::empty());
    assert!(!host.takes_files() && !adapter.send.has_files());
}
