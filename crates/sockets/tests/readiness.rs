//! Readiness of sockets, and sets of them.

use longshore_sockets::testing::{Engine, SILENT_PORT};
use longshore_sockets::{EDGE, Half, Host, ONE_SHOT, Ready, ReadySet, Socket};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::BorrowedFd;
use rustix::time::Timespec;
use std::io::{IoSlice, IoSliceMut};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const IN: u32 = Ready::IN.bits();
const OUT: u32 = Ready::OUT.bits();

fn engine() -> (Engine, &'static Host, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let engine = Engine::start(directory.path());
    let host = engine.join();
    (engine, host, directory)
}

/// Sleeps on the set as epoll does; the data words of what is ready. A thread that was not woken
/// for what is there at the end of `limit` has slept through it.
fn wait(host: &'static Host, set: &ReadySet, limit: Duration) -> Vec<(u64, u32)> {
    wait_telling(host, set, limit, || ())
}

/// As `wait`, calling `sleeps` whenever nothing is ready and what comes from then on wakes it.
fn wait_telling(
    host: &'static Host,
    set: &ReadySet,
    limit: Duration,
    mut sleeps: impl FnMut(),
) -> Vec<(u64, u32)> {
    let (wake_fd, _) = set.wake_fd().unwrap().unwrap();
    let deadline = Instant::now() + limit;
    loop {
        set.declare().unwrap();
        let mut found = Vec::new();
        set.harvest(16, |r| found.push((r.data, r.events))).unwrap();
        let left = deadline.saturating_duration_since(Instant::now());
        if !found.is_empty() || left.is_zero() {
            assert!(
                found.is_empty() || !left.is_zero(),
                "slept through {found:?}"
            );
            set.awake();
            return found;
        }
        sleeps();
        // SAFETY: the set's eventfd, which it keeps open.
        let fd = unsafe { BorrowedFd::borrow_raw(wake_fd) };
        let time = Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: i64::from(left.subsec_nanos()),
        };
        poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&time)).unwrap();
        let _ = rustix::io::read(fd, &mut [0; 8]);
        set.awake();
        host.messages().drain_if_free();
    }
}

/// Enough for a busy machine.
const SOON: Duration = Duration::from_secs(60);
const NEVER: Duration = Duration::from_millis(30);

fn read(socket: &Socket) -> usize {
    let mut buf = [0; 64];
    socket
        .receive_stream()
        .recv(&mut [IoSliceMut::new(&mut buf)], false)
        .unwrap_or(0)
}

#[test]
fn masks_are_those_of_linux() {
    let (_engine, host, _directory) = engine();
    let (kind, flags) = (
        longshore_hostif::SocketKind::Stream,
        longshore_hostif::OpenFlags::empty(),
    );
    let fresh = host.sockets().open(kind, flags, 0).unwrap();
    let writable = Ready::OUT | Ready::WRNORM;
    let readable = Ready::IN | Ready::RDNORM;
    assert_eq!(fresh.readiness(), Ready::HUP | writable);
    let _ = fresh.connector().start(Engine::address(SILENT_PORT));
    assert_eq!(fresh.readiness(), Ready::empty());
    let (a, b) = Engine::pair(host);
    assert_eq!(a.socket().readiness(), writable);
    b.finish().unwrap();
    assert_eq!(a.read(&mut [0; 3]), Ok(0));
    assert_eq!(a.socket().readiness(), readable | writable | Ready::RDHUP);
    a.socket().halves().shut_down(Half::Write).unwrap();
    let all = readable | writable | Ready::RDHUP | Ready::HUP;
    assert_eq!(a.socket().readiness(), all);
    let (a, b) = Engine::pair(host);
    b.socket().options().set_linger(Some(0));
    drop(b);
    let set = ReadySet::new(host).unwrap();
    set.add(a.socket(), 1, IN, 0).unwrap();
    let (_, events) = wait(host, &set, SOON)[0];
    assert_eq!(events, IN | (Ready::ERR | Ready::HUP).bits());
}

#[test]
fn level_is_reported_again_and_edge_is_not() {
    let (_engine, host, _directory) = engine();
    let (a, b) = Engine::pair(host);
    let (level, edge) = (ReadySet::new(host).unwrap(), ReadySet::new(host).unwrap());
    level.add(b.socket(), 5, IN, 50).unwrap();
    edge.add(b.socket(), 5, IN | EDGE, 51).unwrap();
    a.write_all(b"one").unwrap();
    assert_eq!(wait(host, &level, SOON), [(50, IN)]);
    assert_eq!(wait(host, &level, SOON), [(50, IN)]);
    assert_eq!(wait(host, &edge, SOON), [(51, IN)]);
    assert_eq!(wait(host, &edge, NEVER), []);
    a.write_all(b"two").unwrap();
    assert_eq!(wait(host, &edge, SOON), [(51, IN)]);
    assert_eq!(read(b.socket()), 6);
    assert_eq!(wait(host, &level, NEVER), []);
}

#[test]
fn one_shot_is_armed_by_modify() {
    let (_engine, host, _directory) = engine();
    let (a, b) = Engine::pair(host);
    let set = ReadySet::new(host).unwrap();
    set.add(b.socket(), 5, IN | ONE_SHOT, 1).unwrap();
    a.write_all(b"one").unwrap();
    assert_eq!(wait(host, &set, SOON), [(1, IN)]);
    a.write_all(b"two").unwrap();
    assert_eq!(wait(host, &set, NEVER), []);
    set.modify(b.socket(), 5, IN | ONE_SHOT, 2).unwrap();
    assert_eq!(wait(host, &set, SOON), [(2, IN)]);
}

#[test]
fn room_is_an_edge_only_for_who_ran_out_of_it() {
    let (engine, host, _directory) = engine();
    let (a, b) = Engine::pair(host);
    let set = ReadySet::new(host).unwrap();
    set.add(a.socket(), 5, OUT | EDGE, 1).unwrap();
    assert_eq!(wait(host, &set, SOON), [(1, OUT)]);
    a.write_all(b"acknowledged at once").unwrap();
    assert_eq!(wait(host, &set, NEVER), []);
    engine
        .behavior
        .holds_acknowledgments
        .store(true, Ordering::Relaxed);
    let block = vec![0; 100_000];
    while a
        .socket()
        .send_stream()
        .send(&[IoSlice::new(&block)], false)
        .is_ok()
    {
        while read(b.socket()) != 0 {}
    }
    assert_eq!(wait(host, &set, NEVER), []);
    engine
        .behavior
        .holds_acknowledgments
        .store(false, Ordering::Relaxed);
    let reader = std::thread::spawn(move || while b.read(&mut [0; 50_000]).unwrap_or(0) != 0 {});
    assert_eq!(wait(host, &set, SOON), [(1, OUT)]);
    drop(a);
    reader.join().unwrap();
}

#[test]
fn closed_sockets_leave_their_sets() {
    let (_engine, host, _directory) = engine();
    let (a, b) = Engine::pair(host);
    let set = ReadySet::new(host).unwrap();
    set.add(b.socket(), 5, IN, 1).unwrap();
    set.add(b.socket(), 6, IN, 2).unwrap();
    assert!(set.add(b.socket(), 5, IN, 1).is_err());
    set.remove(b.socket(), 5).unwrap();
    assert!(set.remove(b.socket(), 5).is_err());
    a.write_all(b"x").unwrap();
    assert_eq!(wait(host, &set, SOON), [(2, IN)]);
    drop(b);
    assert!(set.is_empty());
    assert_eq!(wait(host, &set, NEVER), []);
}

#[test]
fn every_thread_that_sleeps_for_a_set_is_woken() {
    let (_engine, host, _directory) = engine();
    let set = ReadySet::new(host).unwrap();
    let pairs: Vec<_> = (0..4).map(|_| Engine::pair(host)).collect();
    for (i, (_, b)) in pairs.iter().enumerate() {
        set.add(b.socket(), i as i32, IN | EDGE, i as u64).unwrap();
    }
    let (tell, reported) = std::sync::mpsc::channel();
    for _ in 0..4 {
        let tell = tell.clone();
        std::thread::spawn(move || tell.send(wait(host, &set, SOON)));
    }
    std::thread::sleep(Duration::from_millis(30));
    for (i, (a, _)) in pairs.iter().enumerate() {
        a.write_all(b"x").unwrap();
        // One of them, and the others sleep on.
        assert_eq!(reported.recv_timeout(SOON), Ok(vec![(i as u64, IN)]));
    }
}

#[test]
fn a_sleeper_is_told_of_what_was_there_when_a_socket_is_added() {
    let (_engine, host, _directory) = engine();
    let set = ReadySet::new(host).unwrap();
    let (a, b) = Engine::pair(host);
    let sleeper = std::thread::spawn(move || wait(host, &set, SOON));
    std::thread::sleep(Duration::from_millis(30));
    // Nobody is woken for it, and nobody looks at what the engine says.
    a.write_all(b"x").unwrap();
    std::thread::sleep(Duration::from_millis(30));
    set.add(b.socket(), 5, IN, 1).unwrap();
    assert_eq!(sleeper.join().unwrap(), [(1, IN)]);
}

/// What a thread finds that sleeps for a socket while the engine ends, and `then` happens.
fn at_the_end(then: impl FnOnce(&'static Host)) -> Vec<(u64, u32)> {
    let (mut engine, host, _directory) = engine();
    let (_a, b) = Engine::pair(host);
    let set = ReadySet::new(host).unwrap();
    set.add(b.socket(), 5, IN, 1).unwrap();
    let began = Instant::now();
    let (tell, reported) = std::sync::mpsc::channel();
    let sleeper = std::thread::spawn(move || {
        wait_telling(host, &set, SOON, || tell.send(()).unwrap_or_default())
    });
    reported.recv().unwrap();
    engine.stop();
    then(host);
    let found = sleeper.join().unwrap();
    let took = began.elapsed();
    assert!(took < SOON / 2, "nobody woke it: {took:?}");
    found
}

#[test]
fn the_engines_end_makes_everything_ready() {
    let all = [(1, IN | (Ready::ERR | Ready::HUP).bits())];
    assert_eq!(at_the_end(|_| ()), all, "it was told by the engine alone");
    for _ in 0..20 {
        assert_eq!(at_the_end(Host::look_at_engine), all);
    }
}
