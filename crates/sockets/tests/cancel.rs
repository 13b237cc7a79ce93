//! Calls that another thread cancels: each ends by what it has done or by its cancellation, and
//! both threads hear of the same.

use longshore_hostif::Versions;
use longshore_sockets::testing::{Engine, SILENT_PORT};
use longshore_sockets::{CancelOutcome, Canceller, Listener, SocketError, Stream, WaitLimit};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a thread may take to end that was woken.
const SOON: Duration = Duration::from_secs(20);

/// Cancels what `call` does, once it waits; how it ended.
fn cancelled<T: Send>(
    canceller: &Canceller,
    call: impl FnOnce() -> Result<T, SocketError> + Send,
) -> Result<T, SocketError> {
    std::thread::scope(|threads| {
        let caller = threads.spawn(call);
        let began = Instant::now();
        // It sleeps by then, or has not begun.
        std::thread::sleep(Duration::from_millis(50));
        while !caller.is_finished() && canceller.cancel().unwrap() != CancelOutcome::Cancelled {
            assert!(began.elapsed() < SOON);
            std::thread::yield_now();
        }
        assert_eq!(canceller.cancel(), Ok(CancelOutcome::NotFound));
        caller.join().unwrap()
    })
}

#[test]
fn a_receive_a_send_and_an_accept_end_and_lose_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let engine = Engine::start(directory.path());
    let host = engine.join();
    let (near, far) = Engine::pair(host);
    let canceller = Canceller::new();
    let mut got = [0; 5];
    let read = cancelled(&canceller, || {
        far.read_unless_cancelled(&mut got, &canceller)
    });
    assert_eq!(read, Err(SocketError::Cancelled));
    near.write_all(b"later").unwrap();
    assert_eq!(far.read_unless_cancelled(&mut got, &canceller), Ok(5));
    assert_eq!(&got, b"later");

    let mut written = 0;
    let wrote = cancelled(&canceller, || {
        loop {
            written += near.write_unless_cancelled(&[7; 10_000], &canceller)?;
        }
    });
    assert_eq!(wrote.map(|()| 0), Err(SocketError::Cancelled));
    near.finish().unwrap();
    let (mut read, mut buf) = (0, vec![0; 10_000]);
    loop {
        match far.read(&mut buf).unwrap() {
            0 => break,
            len => read += len,
        }
    }
    assert_eq!(read, written, "what was written before is sent");

    let listener = Listener::bind(host, Engine::address(0), 8).unwrap();
    let accepted = cancelled(&canceller, || listener.accept_unless_cancelled(&canceller));
    assert_eq!(accepted.map(drop), Err(SocketError::Cancelled));
    let _stream = Stream::connect(host, listener.local().unwrap()).unwrap();
    listener.accept_unless_cancelled(&canceller).unwrap();
}

#[test]
fn an_attempt_to_connect_is_ended_by_the_engine_and_may_be_repeated() {
    for versions in [Versions::OURS, before_cancel()] {
        let directory = tempfile::tempdir().unwrap();
        let engine = Engine::of_release(directory.path(), versions);
        let host = engine.join();
        let canceller = Canceller::new();
        let listener = Listener::bind(host, Engine::address(0), 8).unwrap();
        let stream = Stream::connect(host, listener.local().unwrap()).unwrap();
        assert_eq!(
            stream.socket().connector().cancel(),
            Ok(CancelOutcome::NotFound)
        );
        let silent = Engine::address(SILENT_PORT);
        let connected = cancelled(&canceller, || {
            Stream::connect_unless_cancelled(host, silent, &canceller)
        });
        assert_eq!(connected.map(drop), Err(SocketError::Cancelled));
    }
}

/// An engine of the release before.
fn before_cancel() -> Versions {
    Versions {
        newest: 13,
        ..Versions::OURS
    }
}

#[test]
fn a_cancelled_socket_connects_again() {
    let directory = tempfile::tempdir().unwrap();
    let engine = Engine::start(directory.path());
    let host = engine.join();
    let listener = Listener::bind(host, Engine::address(0), 8).unwrap();
    let flags = longshore_hostif::OpenFlags::empty();
    let kind = longshore_hostif::SocketKind::Stream;
    let socket = host.sockets().open(kind, flags, 0).unwrap();
    let silent = Engine::address(SILENT_PORT);
    assert_eq!(
        socket.connector().start(silent),
        Err(SocketError::InProgress)
    );
    assert_eq!(socket.connector().cancel(), Ok(CancelOutcome::Cancelled));
    let errno = rustix::io::Errno::CANCELED.raw_os_error() as u32;
    assert_eq!(socket.pending_error().take(), errno);
    let to = listener.local().unwrap();
    assert_eq!(socket.connector().connect(to, WaitLimit::ENDLESS), Ok(()));
    listener.accept().unwrap();
    // The engine has ended the attempt itself.
    let seen = engine.seen.lock().unwrap();
    assert_eq!(seen.reported_flags.get(&socket.id().index), None);
}

#[test]
fn whoever_is_first_both_hear_of_the_same() {
    const ROUNDS: usize = 500;
    let directory = tempfile::tempdir().unwrap();
    let engine = Engine::start(directory.path());
    let host = engine.join();
    let (near, far) = Engine::pair(host);
    let (canceller, ends) = (Canceller::new(), AtomicBool::new(false));
    let (mut read, mut cancelled) = (0, 0);
    std::thread::scope(|threads| {
        let outcomes = threads.spawn(|| {
            let mut cancelled = 0;
            while !ends.load(Ordering::Acquire) {
                cancelled += usize::from(canceller.cancel() == Ok(CancelOutcome::Cancelled));
            }
            cancelled
        });
        for round in 0..ROUNDS {
            near.write_all(&[round as u8]).unwrap();
            let mut got = [0; 1];
            loop {
                match far.read_unless_cancelled(&mut got, &canceller) {
                    Ok(1) => break,
                    Err(SocketError::Cancelled) => cancelled += 1,
                    other => panic!("{other:?}"),
                }
            }
            assert_eq!(got, [round as u8]);
            read += 1;
        }
        ends.store(true, Ordering::Release);
        assert!(outcomes.join().unwrap() <= cancelled);
    });
    assert_eq!(read, ROUNDS);
}
