//! A process at an engine of two workers: it has sockets at both, and what it asks of each goes to
//! the rings of the worker that has it. A worker that is not woken looks at nothing that is to be
//! fetched now, so each of these tests hangs if another's doorbell is rung.
//!
//! All tests of this crate run with two workers where `LONGSHORE_TEST_WORKERS` is 2.

use longshore_hostif::{Features, Geometry, Naming, SocketId, SocketKind};
use longshore_sockets::testing::Engine;
use longshore_sockets::{Datagram, Stream};
use std::sync::atomic::Ordering;
use std::time::Duration;

const GEOMETRY: Geometry = Geometry {
    channels: 64,
    waiters: 256,
    sockets: 256,
    snd_chunks: 256,
    rcv_chunks: 256,
    workers: 2,
};

fn engine() -> (Engine, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    (Engine::with_geometry(directory.path(), GEOMETRY), directory)
}

fn worker_of(socket: SocketId) -> u32 {
    Naming::of(Features::WORKERS).worker(socket)
}

/// How often each worker was woken.
fn rung(engine: &Engine) -> Vec<u64> {
    engine.seen.lock().unwrap().rung.clone()
}

/// Reads as many bytes as were sent.
fn read_all(stream: &Stream, sent: &[u8]) {
    let (mut got, mut to) = (Vec::<u8>::new(), [0; 4096]);
    while got.len() < sent.len() {
        let len = stream.read(&mut to).unwrap();
        assert_ne!(len, 0);
        got.extend(&to[..len]);
    }
    assert_eq!(got, sent);
}

/// Each process opens its sockets at a worker; what it accepts another has. All that is asked of a
/// socket is asked of the one that has it.
#[test]
fn what_is_asked_of_a_socket_goes_to_the_worker_that_has_it() {
    let (engine, _directory) = engine();
    for channel in 0..3 {
        let host = engine.join();
        let (near, far) = Engine::pair(host);
        let (of_near, of_far) = (worker_of(near.socket().id()), worker_of(far.socket().id()));
        assert_eq!((of_near, of_far), (channel % 2, 1 - channel % 2));
        for text in [&b"one"[..], &[7; 200_000]] {
            for (from, to) in [(&near, &far), (&far, &near)] {
                std::thread::scope(|threads| {
                    threads.spawn(|| from.write_all(text).unwrap());
                    read_all(to, text);
                });
            }
        }
        for stream in [&near, &far] {
            let mut info = [0; 100];
            assert_eq!(stream.socket().queries().tcp_info(&mut info).unwrap(), 100);
            assert_eq!(info[50..54], [50, 51, 52, 53]);
        }
        let [one, other] = [(); 2].map(|()| Datagram::bind(host, Engine::address(0)).unwrap());
        let to = other.socket().addresses().local();
        one.send(b"datagram", to).unwrap();
        assert_eq!(other.recv(&mut [0; 100]).unwrap().len, 8);
        near.finish().unwrap();
        assert_eq!(far.read(&mut [0; 1]).unwrap(), 0);
    }
    engine.wait_until("all are closed", |seen| seen.open == 0);
    assert!(engine.all_were_routed());
}

/// A worker that has nothing to do is not woken for what another is asked.
#[test]
fn the_worker_that_is_asked_is_woken_and_no_other() {
    let (engine, _directory) = engine();
    let (near, far) = Engine::pair(engine.join());
    for (from, to) in [(&near, &far), (&far, &near)] {
        std::thread::sleep(Duration::from_millis(100));
        let before = rung(&engine);
        from.write_all(b"asks").unwrap();
        read_all(to, b"asks");
        let its = worker_of(from.socket().id()) as usize;
        let woken: Vec<u64> = rung(&engine)
            .iter()
            .zip(before)
            .map(|(a, b)| a - b)
            .collect();
        assert!(woken[its] > 0 && woken[1 - its] == 0, "{its}: {woken:?}");
    }
}

/// A process that waits until the engine knows of a socket waits for the worker at which it was
/// opened, which is woken for that.
#[test]
fn the_worker_at_which_a_socket_was_opened_is_waited_for() {
    let (engine, _directory) = engine();
    for _ in 0..2 {
        let host = engine.join();
        let (near, far) = Engine::pair(host);
        let ignores = &engine.behavior.ignores_requests;
        ignores.store(true, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(50));
        let socket = Engine::open(host, SocketKind::Stream);
        let its = worker_of(socket.id());
        assert_eq!(its, worker_of(near.socket().id()));
        let before = rung(&engine);
        std::thread::scope(|threads| {
            let waits = threads.spawn(|| host.under_way().await_opened());
            std::thread::sleep(Duration::from_millis(50));
            assert!(!waits.is_finished());
            assert!(rung(&engine)[its as usize] > before[its as usize]);
            ignores.store(false, Ordering::Relaxed);
            waits.join().unwrap();
        });
        engine.wait_until("the pair and this one are open", |seen| seen.open == 3);
        drop((near, far, socket));
        engine.wait_until("all are closed", |seen| seen.open == 0);
    }
}
