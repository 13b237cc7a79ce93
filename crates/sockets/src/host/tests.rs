//! What a process knows of its engine, and of the memory that they share.

use super::*;
use crate::testing::Engine;
use crate::testing::fixture::{engine, pattern};
use longshore_hostif::attach::join;

#[test]
fn an_engine_says_how_new_sockets_begin() {
    let (_engine, host, _directory) = engine();
    let header = host.arena.header();
    assert!(!host.is_alone());
    header.engine_alone.store(1, Ordering::Relaxed);
    assert!(host.is_alone());
    for place in [3, 2] {
        header.congestion.store(place, Ordering::Relaxed);
        assert_eq!(host.congestion(), place);
    }
}

/// What the kernel is to take out of the file, as `splice` has it, is what was received.
#[test]
fn a_piece_of_a_stream_is_found_in_the_shared_file() {
    let (_engine, host, _directory) = engine();
    let (a, b) = Engine::pair(host);
    a.write_all(&pattern(100)).unwrap();
    let peeked = b.socket().wait(None, crate::WaitLimit::ENDLESS, || {
        b.socket().receive_stream().peek()
    });
    let peeked = peeked.unwrap();
    let piece = peeked.pieces(10, 50).next().unwrap().unwrap();
    assert!(!piece.is_empty());
    let mut read = vec![0; piece.len()];
    let at = host.offset_in_shared_file(piece);
    rustix::io::pread(host.shared_file(), &mut read, at).unwrap();
    assert_eq!(read, pattern(100)[10..10 + piece.len()]);
}

#[test]
fn an_engine_that_is_rung_wakes() {
    let (engine, host, _directory) = engine();
    let rung = engine.seen.lock().unwrap().rung[0];
    host.ring_engine();
    engine.wait_until("it is awake", |seen| seen.rung[0] > rung);
}

/// An engine may end in order, or be killed; a process that has no place with it has not lost it.
#[test]
fn an_engine_is_lost_when_it_has_ended() {
    let (mut killed, of_killed, _directory) = engine();
    assert!(!of_killed.is_gone() && !of_killed.has_lost_engine());
    killed.kill();
    of_killed.look_at_engine();
    assert!(of_killed.is_gone() && of_killed.has_lost_engine());

    let (_engine, cut_off, _directory) = engine();
    cut_off.cut_off("a reason");
    assert!(cut_off.is_gone() && !cut_off.has_lost_engine());

    let (_engine, of_ended, _directory) = engine();
    // It says so before its connections are closed.
    of_ended.arena.header().closed.store(1, Ordering::SeqCst);
    assert!(of_ended.is_gone() && of_ended.has_lost_engine());
    assert!(!of_ended.health.is_gone());
    of_ended.look_at_engine();
    assert!(of_ended.health.is_gone(), "all who wait are told");
}

#[test]
fn a_place_is_of_the_session_whose_memory_it_shares() {
    let [(ours, host, _ours), (theirs, _, _theirs)] = [(); 2].map(|()| engine());
    let own = rustix::process::geteuid().as_raw();
    assert_eq!(host.engine_user().unwrap(), own);
    let joined = |engine: &Engine| join(engine.path(), engine.token()).unwrap();
    assert!(host.is_of(&joined(&ours)));
    assert!(!host.is_of(&joined(&theirs)));
}
