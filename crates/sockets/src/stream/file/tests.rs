//! Which streams take ranges of files, and when the engine is done with them.

use super::*;
use crate::testing::Engine;
use crate::testing::fixture::{pattern, read};
use longshore_hostif::{EdgeFlags, LEAST_RANGE, SocketKind};
use rustix::fs::{MemfdFlags, fstat, memfd_create};
use std::fs::File;
use std::io::Write;
use tempfile::TempDir;

fn engine() -> (Engine, &'static Host, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let engine = Engine::that_takes_files(directory.path());
    let host = engine.join();
    (engine, host, directory)
}

/// A file with these bytes, and what names it.
fn file_of(bytes: &[u8]) -> (File, FileId) {
    let fd = memfd_create("longshore-test", MemfdFlags::CLOEXEC).unwrap();
    let mut file = File::from(fd);
    file.write_all(bytes).unwrap();
    let stat = fstat(&file).unwrap();
    let id = FileId {
        device: stat.st_dev,
        inode: stat.st_ino,
    };
    (file, id)
}

/// Opens a file once more, to be handed over.
fn opened(file: &File) -> Option<OwnedFd> {
    Some(file.try_clone().unwrap().into())
}

/// What opens a file that is not to be opened.
fn never() -> Option<OwnedFd> {
    panic!("opened")
}

/// Ranges stand between bytes that are copied, wherever chunks begin; what is too short for one
/// is copied by the caller.
#[test]
fn a_file_is_sent_in_its_place() {
    let (engine, host, _directory) = engine();
    let content = pattern(3 * CHUNK);
    let (file, id) = file_of(&content);
    for (before, offset, max) in [
        (0, 0, usize::MAX),
        (3, 10, CHUNK),
        (CHUNK - LEAST_RANGE, 0, 1000),
        (CHUNK - LEAST_RANGE + 1, 7, 100_000),
        (CHUNK - 1, 2 * CHUNK, 5000),
    ] {
        let ranges = engine.seen.lock().unwrap().ranges;
        let (a, b) = Engine::pair(host);
        let (stream, head) = (a.socket().send_stream(), pattern(before));
        let shared = stream.share_own_file(id, || opened(&file)).unwrap();
        assert!(shared.len() == content.len() as u64 && !shared.is_empty());
        if before != 0 {
            a.write_all(&head).unwrap();
        }
        let (mut at, mut by_range) = (offset, 0);
        while at < content.len() {
            assert_eq!(stream.write_position(), (before + at - offset) as u64);
            let most = max.min(content.len() - at);
            let left = CHUNK - (before + at - offset) % CHUNK;
            let then = stream.append_range(&shared, at as u64, most, true).unwrap();
            if left.min(most) < LEAST_RANGE {
                assert_eq!(then, Appended::Copy(left.min(LEAST_RANGE)), "{before} {at}");
                let len = left.min(most);
                a.write_all(&content[at..at + len]).unwrap();
                at += len;
                continue;
            }
            // What is left of the last chunk may be too short.
            let behind = (before + at - offset + most) % CHUNK;
            let is_short = most > left && behind < LEAST_RANGE;
            let len = if is_short { most - behind } else { most };
            assert_eq!(then, Appended::Bytes(len), "{before} {at}");
            (at, by_range) = (at + len, by_range + len as u64);
        }
        a.write_all(b"tail").unwrap();
        let all = [&head[..], &content[offset..], b"tail"].concat();
        assert!(read(&b, all.len()) == all, "{before} {offset} {max}");
        let told = engine.seen.lock().unwrap().ranges - ranges;
        assert_eq!(told, by_range, "descriptors tell of all ranges");
    }
    let seen = engine.seen.lock().unwrap();
    assert_eq!((seen.offered, seen.bad), (1, 0), "it was handed over once");
}

#[test]
fn a_range_says_whether_more_follows() {
    let (engine, host, _directory) = engine();
    let (file, id) = file_of(&pattern(1000));
    for more in [false, true] {
        let (a, _b) = Engine::pair(host);
        let (stream, index) = (a.socket().send_stream(), a.socket().id().index);
        let shared = stream.share_own_file(id, || opened(&file)).unwrap();
        let then = stream.append_range(&shared, 0, 1000, more);
        assert_eq!(then, Ok(Appended::Bytes(1000)));
        host.messages().flush().unwrap();
        engine.wait_until("it was told", |seen| {
            seen.reported_flags.contains_key(&index)
        });
        let flags = engine.seen.lock().unwrap().reported_flags[&index];
        assert_eq!(flags.contains(EdgeFlags::MORE), more, "{flags:?}");
        assert_eq!(flags.contains(EdgeFlags::PUSH), !more, "{flags:?}");
        std::mem::forget((a, _b));
    }
}

/// The other end of a connection within the session reads the chunks itself.
#[test]
fn a_connection_within_the_session_takes_no_ranges() {
    let (_engine, host, _directory) = engine();
    let (a, b) = Engine::pair(host);
    let (file, id) = file_of(&pattern(WORTH as usize));
    let stream = a.socket().send_stream();
    let shared = stream.share_own_file(id, || opened(&file)).unwrap();
    a.socket().block().set_other_end(b.socket().id().index);
    assert!(!stream.takes_ranges() && !stream.takes_files(WORTH));
    assert!(stream.share_file(id, WORTH, never).is_none());
    let then = stream.append_range(&shared, 0, 1000, false);
    assert_eq!(then, Ok(Appended::Copy(usize::MAX)));
    assert_eq!(stream.write_position(), 0);
    std::mem::forget((a, b));
}

/// One that is sent for the first time is not worth it, and one that was refused is not offered
/// again.
#[test]
fn a_file_is_handed_over_when_it_is_sent_again() {
    let (engine, host, _directory) = engine();
    let (a, _b) = Engine::pair(host);
    let stream = a.socket().send_stream();
    let offered = || engine.seen.lock().unwrap().offered;
    let (file, id) = file_of(&pattern(WORTH as usize));
    assert!(stream.share_file(id, WORTH, never).is_none());
    assert!(stream.share_file(id, WORTH, || None).is_none());
    assert!(stream.share_file(id, WORTH, never).is_none(), "it was once");
    assert_eq!(offered(), 0);

    let (other, id) = file_of(&pattern(WORTH as usize));
    assert!(stream.share_file(id, WORTH, never).is_none());
    let shared = stream.share_file(id, WORTH, || opened(&other)).unwrap();
    assert_eq!((shared.len(), offered()), (WORTH, 1));
    assert!(stream.share_file(id, WORTH, never).is_some());
    assert!(stream.share_own_file(id, never).is_some());

    engine.behavior.refuses_files.store(true, Ordering::Relaxed);
    let (refused, id) = file_of(&pattern(WORTH as usize));
    assert!(stream.share_file(id, WORTH, never).is_none());
    assert!(stream.share_file(id, WORTH, || opened(&refused)).is_none());
    assert_eq!(offered(), 2);
    assert!(stream.share_file(id, WORTH, never).is_none());
    assert!(stream.share_own_file(id, || opened(&refused)).is_none());
    assert_eq!(offered(), 3);
    drop((file, other, refused));
}

/// Its place is free as soon as nobody sends of it, and no sooner; then it is offered at once.
#[test]
fn a_file_stays_while_it_is_held_and_is_offered_again_after_that() {
    let (engine, host, _directory) = engine();
    let (a, _b) = Engine::pair(host);
    let stream = a.socket().send_stream();
    let (file, id) = file_of(&pattern(WORTH as usize));
    assert!(stream.share_file(id, WORTH, never).is_none());
    let shared = stream.share_file(id, WORTH, || opened(&file)).unwrap();
    engine.behavior.lets_files_go.store(true, Ordering::Relaxed);
    let turns = engine.seen.lock().unwrap().turns;
    engine.wait_until("it has looked", |seen| seen.turns > turns + 1);
    drop(stream.share_own_file(id, never).expect("it is held"));
    drop(shared);
    engine.wait_until("it is let go of", |_| host.session.hold_file(id).is_none());
    engine
        .behavior
        .lets_files_go
        .store(false, Ordering::Relaxed);
    assert!(stream.share_file(id, WORTH, || opened(&file)).is_some());
    assert_eq!(engine.seen.lock().unwrap().offered, 2);
}

#[test]
fn a_file_that_there_is_no_room_for_is_not_opened() {
    let (engine, host, _directory) = engine();
    let (a, _b) = Engine::pair(host);
    let stream = a.socket().send_stream();
    let mut files = Vec::new();
    while host.session.has_room_for_file() {
        let (file, id) = file_of(b"x");
        assert!(stream.share_own_file(id, || opened(&file)).is_some());
        files.push(file);
    }
    assert!(files.len() > 1 && engine.seen.lock().unwrap().offered == files.len());
    let (_file, id) = file_of(&pattern(WORTH as usize));
    assert!(stream.share_own_file(id, never).is_none());
    for _ in 0..3 {
        assert!(stream.share_file(id, WORTH, never).is_none());
    }
}

#[test]
fn a_connection_takes_files_that_are_worth_it() {
    let (_engine, host, _directory) = engine();
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
