//! Which streams take ranges of files, and when the engine is done with them.

use super::*;
use crate::testing::Engine;
use longshore_hostif::{Features, SocketKind, Versions};

#[test]
fn a_connection_takes_files_that_are_worth_it() {
    let directory = tempfile::tempdir().unwrap();
    // An engine of several workers takes none.
    let mut one_worker = Versions::OURS;
    one_worker.features.remove(Features::WORKERS);
    let engine = Engine::of_release(directory.path(), one_worker);
    let host = engine.join();
    let (a, _b) = Engine::pair(host);
    let open = Engine::open(host, SocketKind::Stream);
    assert!(host.session.takes_files());
    assert!(a.socket().send_stream().takes_ranges() && !open.send_stream().takes_ranges());
    for (len, is_worth_it) in [
        (0, false),
        (WORTH - 1, false),
        (WORTH, true),
        (u64::MAX, true),
    ] {
        assert_eq!(
            a.socket().send_stream().takes_files(len),
            is_worth_it,
            "{len}"
        );
        assert!(!open.send_stream().takes_files(len));
    }
    // A file that the engine takes by no means is not opened twice.
    let never = || panic!("opened");
    let id = FileId {
        device: 1,
        inode: 2,
    };
    assert!(open.send_stream().share_file(id, u64::MAX, never).is_none());
    assert!(
        a.socket()
            .send_stream()
            .share_file(id, WORTH - 1, never)
            .is_none()
    );
    assert!(
        a.socket()
            .send_stream()
            .share_own_file(id, || None)
            .is_none()
    );
}

#[test]
fn what_was_sent_is_done_with_when_it_is_acknowledged_or_its_socket_is_over() {
    let directory = tempfile::tempdir().unwrap();
    let engine = Engine::start(directory.path());
    let host = engine.join();
    let (a, _b) = Engine::pair(host);
    let (id, block) = (a.socket().id(), a.socket().block());
    block.snd.done.store(10, Ordering::Release);
    for (end, is_done) in [(0, true), (9, true), (10, true), (11, false)] {
        assert_eq!(host.is_acknowledged(id, end), is_done, "{end}");
    }
    let before = SocketId {
        generation: id.generation.wrapping_sub(1),
        ..id
    };
    assert!(
        host.is_acknowledged(before, u64::MAX),
        "its place is another's"
    );
    block.snd.done.store(0, Ordering::Release);
}
