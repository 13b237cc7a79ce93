//! The files that are offered: those that are sent again.

use super::*;

fn file(device: u64, inode: u64) -> FileId {
    FileId { device, inode }
}

/// Not the first time, once the second time; and again once the engine had it.
#[test]
fn a_file_is_offered_when_it_is_sent_again() {
    for id in [file(1, 2), file(1, 3), file(0, 7), file(u64::MAX, 7)] {
        let sent = SentFiles::new();
        let asks = || sent.is_to_be_offered(id);
        assert_eq!(
            [asks(), asks(), asks(), asks()],
            [false, true, false, false]
        );
        sent.note_taken(id);
        assert_eq!([asks(), asks()], [true, false]);
        let taken = SentFiles::new();
        taken.note_taken(id);
        assert!(taken.is_to_be_offered(id), "the engine has let go of it");
    }
}

/// As many as stand one after the other in a directory, and no more in one place.
#[test]
fn files_are_told_apart() {
    let sent = SentFiles::new();
    let all: Vec<FileId> = (1_000..1_000 + REMEMBERED as u64)
        .map(|inode| file(3, inode))
        .collect();
    for expected in [false, true, false] {
        for id in &all {
            assert_eq!(sent.is_to_be_offered(*id), expected, "{id:?}");
        }
    }
    for (one, other) in [
        (file(1, 5), file(2, 5)),
        (file(1, 5), file(1, 5 + REMEMBERED as u64)),
        (file(1, 5), file(1, 5 | 1 << 32)),
        (file(1, 4), file(0, 4)),
    ] {
        let sent = SentFiles::new();
        assert!(!sent.is_to_be_offered(one));
        assert!(!sent.is_to_be_offered(other), "{one:?} {other:?}");
        assert!(sent.is_to_be_offered(other));
        assert!(!sent.is_to_be_offered(one), "the other has its place");
    }
}
