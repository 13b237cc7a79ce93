//! An engine that was killed: whoever sleeps for it hears of it from the kernel.

use longshore_sockets::testing::Engine;
use longshore_sockets::{LONGEST_SLEEP, Listener};
use std::time::{Duration, Instant};

/// How long threads sleep on after the engine's death that wait for data and for a
/// connection.
fn they_sleep_on() -> Duration {
    let directory = tempfile::tempdir().unwrap();
    let mut engine = Engine::start(directory.path());
    Engine::let_sleepers_look();
    let host = engine.join();
    let (_near, far) = Engine::pair(host);
    let listener = Listener::bind(host, Engine::address(0), 8).unwrap();
    let reads = std::thread::spawn(move || far.read(&mut [0; 8]).is_err());
    let accepts = std::thread::spawn(move || listener.accept().is_err());
    std::thread::sleep(Duration::from_millis(50));
    let killed = Instant::now();
    engine.kill();
    assert!(reads.join().unwrap() && accepts.join().unwrap());
    killed.elapsed()
}

#[test]
fn who_sleeps_for_an_engine_that_is_killed_wakes_at_once() {
    // Others may hold up a thread that was woken, but not each time.
    let took: Vec<Duration> = (0..5).map(|_| they_sleep_on()).collect();
    assert!(took.iter().min() < Some(&(LONGEST_SLEEP / 2)), "{took:?}");
}
