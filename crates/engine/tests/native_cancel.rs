//! Calls of native programs that another thread cancels, on a whole engine that sleeps between
//! two of them: each ends, has done nothing, and what comes later is not lost.

mod common;

use common::engines::{alone, run};
use longshore_hostif::attach::new_session;
use longshore_sockets::{CancelOutcome, Canceller, Hooks, Host, Listener, SocketError, Stream};
use std::time::{Duration, Instant};

/// How long a call may take to end that was cancelled.
const SOON: Duration = Duration::from_secs(20);

/// Cancels what `call` does once it has lasted for `after`; how it ended.
fn cancelled<T: Send>(
    canceller: &Canceller,
    after: Duration,
    call: impl FnOnce() -> Result<T, SocketError> + Send,
) -> Result<(), SocketError> {
    std::thread::scope(|threads| {
        let caller = threads.spawn(call);
        std::thread::sleep(after);
        let began = Instant::now();
        // One that is just looking ends by itself, and says that it was cancelled.
        while !caller.is_finished() && canceller.cancel().unwrap() != CancelOutcome::Cancelled {
            assert!(began.elapsed() < SOON);
            std::thread::yield_now();
        }
        let ended = caller.join().unwrap().map(drop);
        assert!(began.elapsed() < SOON);
        ended
    })
}

fn with_program(test: impl FnOnce(&'static Host)) {
    let directory = tempfile::tempdir().unwrap();
    let (config, _wire) = alone(directory.path());
    let engine = run(config);
    let (_launcher, token) = new_session(&engine.path, Default::default()).unwrap();
    test(Host::join(&engine.path, token, Hooks::default()).unwrap());
}

/// When the thread is about to begin, sleeps on its word, or in poll.
const MOMENTS: [Duration; 3] = [
    Duration::ZERO,
    Duration::from_millis(5),
    Duration::from_millis(50),
];

#[test]
fn a_connect_that_nobody_answers_ends() {
    with_program(|host| {
        let canceller = Canceller::new();
        for after in MOMENTS {
            let ended = cancelled(&canceller, after, || {
                Stream::connect_unless_cancelled(host, "10.0.0.9:80".parse().unwrap(), &canceller)
            });
            assert_eq!(ended, Err(SocketError::Cancelled));
        }
    });
}

#[test]
fn an_accept_and_a_receive_end_and_lose_nothing() {
    with_program(|host| {
        let canceller = Canceller::new();
        let listener = Listener::bind(host, "10.0.0.1:0".parse().unwrap(), 8).unwrap();
        let to = listener.local().unwrap();
        for after in MOMENTS {
            let ended = cancelled(&canceller, after, || {
                listener.accept_unless_cancelled(&canceller)
            });
            assert_eq!(ended, Err(SocketError::Cancelled));
            let near = Stream::connect(host, to).unwrap();
            let (far, _) = listener.accept_unless_cancelled(&canceller).unwrap();
            let mut got = [0; 5];
            let ended = cancelled(&canceller, after, || {
                far.read_unless_cancelled(&mut got, &canceller)
            });
            assert_eq!(ended, Err(SocketError::Cancelled));
            near.write_all(b"later").unwrap();
            assert_eq!(far.read_unless_cancelled(&mut got, &canceller), Ok(5));
            assert_eq!(&got, b"later");
        }
    });
}
