//! A process under a filter of system calls: it sleeps with what it has, and asks for nothing.

use longshore_hostif::SocketKind;
use longshore_sockets::testing::Engine;
use longshore_sockets::{Ready, ReadySet, is_confined};
use std::process::Command;
use std::time::{Duration, Instant};

#[test]
fn a_confined_process_waits_with_what_was_prepared() {
    let directory = tempfile::tempdir().unwrap();
    let engine = Engine::start(directory.path());
    let host = engine.join();
    let (a, b) = Engine::pair(host);
    let (prepared, late) = (ReadySet::new(host).unwrap(), ReadySet::new(host).unwrap());
    let fd = prepared.wake_fd().unwrap().unwrap().0;
    // All other places of the session are those of a process that has ended.
    let mut ended = Command::new("true").spawn().unwrap();
    ended.wait().unwrap();
    while let Some(reservation) = host.reserve_channel() {
        reservation.give_to(ended.id());
    }
    assert!(!is_confined());
    host.threads().confine();
    assert!(is_confined());
    // Nothing is made any more, and what there is stays.
    assert_eq!(late.wake_fd(), Ok(None));
    assert_eq!(prepared.wake_fd(), Ok(Some((fd, false))));
    let mut looks = 0;
    let spun = host.threads().spin(|| {
        looks += 1;
        Ok(None::<()>)
    });
    assert_eq!((spun, looks), (Ok(None), 0), "it gives way to nobody");
    // A fork without room does not ask whether these live, nor sleep until one is free.
    let fails_at_once = || {
        let began = Instant::now();
        host.reserve_channel().is_none() && began.elapsed() < Duration::from_millis(100)
    };
    assert!((0..5).any(|_| fails_at_once()));
    // Threads sleep and are woken as before.
    let reads = std::thread::spawn(move || b.read(&mut [0; 9]));
    std::thread::sleep(Duration::from_millis(30));
    a.write_all(b"abc").unwrap();
    assert_eq!(reads.join().unwrap(), Ok(3));
    host.threads().unconfine();
    assert!(!is_confined());
    assert!(late.wake_fd().unwrap().is_some());
    let socket = Engine::open(host, SocketKind::Datagram);
    assert!(socket.readiness().contains(Ready::OUT));
}
