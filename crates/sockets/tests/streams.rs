//! Connections, both ends on one engine.

use longshore_hostif::{CHUNK, OptionName};
use longshore_sockets::testing::{Engine, SILENT_PORT};
use longshore_sockets::{Half, Host, LONGEST_SLEEP, Listener, SocketError, Stream, WaitLimit};
use rustix::io::Errno;
use std::io::{IoSlice, IoSliceMut};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

fn engine() -> (Engine, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    (Engine::start(directory.path()), directory)
}

/// A thread that is woken is awake soon; one that is not looks by itself after
/// [`LONGEST_SLEEP`].
/// `round` gives the time from the call that wakes to the one that was awake. A busy
/// machine may hold up one round or another, but not all.
fn is_woken(mut round: impl FnMut() -> Duration) {
    let took: Vec<_> = std::iter::repeat_with(&mut round).take(20).collect();
    let soonest = took.iter().min();
    assert!(soonest < Some(&(LONGEST_SLEEP / 2)), "{took:?}");
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len as u64).map(|i| ((i * i) >> 5) as u8).collect()
}

fn read_to_end(stream: &Stream) -> Vec<u8> {
    let (mut all, mut buf) = (Vec::new(), vec![0; 50_000]);
    loop {
        match stream.read(&mut buf).unwrap() {
            0 => return all,
            n => all.extend_from_slice(&buf[..n]),
        }
    }
}

/// All chunks of the send slab that nobody has.
fn free_chunks(host: &'static Host) -> usize {
    host.count_free_chunks()
}

#[test]
fn bytes_arrive_in_order_and_memory_comes_back() {
    let (engine, _directory) = engine();
    let host = engine.join();
    let before = free_chunks(host);
    let (a, b) = Engine::pair(host);
    let data = pattern(3_000_000);
    std::thread::scope(|s| {
        s.spawn(|| {
            a.write_all(&data).unwrap();
            a.finish().unwrap();
        });
        assert!(read_to_end(&b) == data);
    });
    b.write_all(b"back").unwrap();
    let mut buf = [0; 10];
    assert_eq!(a.read(&mut buf), Ok(4));
    drop((a, b));
    engine.wait_until("all sockets closed", |s| s.open == 0 && s.rcv_chunks == 0);
    assert_eq!(free_chunks(host), before);
}

/// Sockets without connections that wait, whose places are before and after the listener's, do
/// not change what is counted of those that do.
#[test]
fn connections_are_counted_at_the_listener_that_has_them() {
    let (engine, _directory) = engine();
    let host = engine.join();
    let before = Listener::bind(host, Engine::address(0), 8).unwrap();
    let listener = Listener::bind(host, Engine::address(0), 8).unwrap();
    let after = Listener::bind(host, Engine::address(0), 8).unwrap();
    for _ in 0..20 {
        let a = Stream::connect(host, listener.local().unwrap()).unwrap();
        let (b, _) = listener.accept().unwrap();
        b.write_all(b"x").unwrap();
        assert_eq!(a.read(&mut [0; 2]), Ok(1));
    }
    drop((before, after));
}

#[test]
fn memory_of_an_idle_connection_is_given_back() {
    let (engine, _directory) = engine();
    let host = engine.join();
    let (a, b) = Engine::pair(host);
    let before = free_chunks(host);
    let mut buf = vec![0; 1000];
    for _ in 0..200 {
        a.write_all(&pattern(1000)).unwrap();
        let mut got = 0;
        while got < 1000 {
            got += b.read(&mut buf).unwrap();
        }
    }
    // The chunk with the last bytes goes with the next call; no more than one.
    assert!(free_chunks(host) + 1 >= before);
    host.messages().flush().unwrap();
    engine.wait_until("receive chunks back", |s| s.rcv_chunks == 0);
}

#[test]
fn a_writer_waits_for_room_and_a_nonblocking_one_is_told() {
    let (engine, _directory) = engine();
    let host = engine.join();
    let (a, b) = Engine::pair(host);
    engine
        .behavior
        .holds_acknowledgments
        .store(true, Ordering::Relaxed);
    a.socket()
        .options()
        .set(OptionName::SendBuffer, 10_000)
        .unwrap();
    let data = pattern(10_000);
    assert_eq!(
        a.socket().send_stream().send(&[IoSlice::new(&data)], false),
        Ok(10_000)
    );
    let more = a
        .socket()
        .send_stream()
        .send(&[IoSlice::new(b"more")], false);
    assert_eq!(more, Err(SocketError::WouldBlock));
    let wait_limit = WaitLimit::of_call(Some(Duration::from_millis(30)));
    let waited = a.socket().wait(None, wait_limit, || {
        a.socket().send_stream().send(&[IoSlice::new(b"x")], false)
    });
    assert_eq!(waited, Err(SocketError::TimedOut));
    let writer = std::thread::spawn(move || a.write(b"more").unwrap());
    std::thread::sleep(Duration::from_millis(20));
    engine
        .behavior
        .holds_acknowledgments
        .store(false, Ordering::Relaxed);
    assert_eq!(writer.join().unwrap(), 4);
    let mut buf = vec![0; 20_000];
    assert!(b.read(&mut buf).unwrap() >= 4);
}

#[test]
fn reservations_are_filled_in_place_and_lapse_unused() {
    let (engine, _directory) = engine();
    let host = engine.join();
    let (a, b) = Engine::pair(host);
    let before = free_chunks(host);
    // The second round begins in the middle of a chunk.
    for _ in 0..2 {
        drop(a.reserve(200_000).unwrap());
        assert_eq!(free_chunks(host), before);
        let mut reserved = a.reserve(3 * CHUNK).unwrap();
        let len = reserved.len();
        let mut next = 0u8;
        for piece in reserved.pieces(0, len) {
            for byte in piece.unwrap() {
                *byte = next;
                next = next.wrapping_add(1);
            }
        }
        reserved.commit(70_000, false).unwrap();
        let mut got = 0usize;
        while got < 70_000 {
            let peeked = b.peek().unwrap();
            let len = peeked.len();
            for piece in peeked.pieces(0, len) {
                for byte in piece.unwrap() {
                    assert_eq!(*byte, got as u8);
                    got += 1;
                }
            }
            peeked.consume(len).unwrap();
        }
        // What was acknowledged is given back by the next call.
        engine.wait_until("acknowledged", |_| {
            host.messages().drain_if_free();
            a.socket().send_stream().unacked_bytes() == 0
        });
    }
}

#[test]
fn peeked_bytes_stay() {
    let (engine, _directory) = engine();
    let (a, b) = Engine::pair(engine.join());
    a.write_all(b"hello").unwrap();
    let mut buf = [0; 3];
    let peek = || {
        b.socket()
            .receive_stream()
            .recv(&mut [IoSliceMut::new(&mut [0; 9])], true)
    };
    assert_eq!(b.socket().wait(None, WaitLimit::ENDLESS, peek), Ok(5));
    assert_eq!(b.read(&mut buf), Ok(3));
    assert_eq!(b.socket().receive_stream().readable_bytes(), 2);
    assert_eq!(b.socket().receive_stream().discard(10), Ok(2));
}

#[test]
fn halves_are_shut_and_say_so() {
    let (engine, _directory) = engine();
    let (a, b) = Engine::pair(engine.join());
    a.socket().halves().shut_down(Half::Write).unwrap();
    assert_eq!(a.write(b"x"), Err(SocketError::BrokenPipe));
    let mut buf = [0; 3];
    assert_eq!(b.read(&mut buf), Ok(0));
    b.write_all(b"abc").unwrap();
    assert_eq!(a.read(&mut buf), Ok(3));
}

#[test]
fn a_reader_that_sleeps_is_woken_by_its_own_sides_shutdown() {
    let (engine, _directory) = engine();
    let host = engine.join();
    is_woken(|| {
        let (a, _b) = Engine::pair(host);
        let reader = a.clone();
        let sleeper = std::thread::spawn(move || reader.read(&mut [0; 3]));
        std::thread::sleep(Duration::from_millis(30));
        let start = Instant::now();
        a.socket().halves().shut_down(Half::Read).unwrap();
        assert_eq!(sleeper.join().unwrap(), Ok(0));
        start.elapsed()
    });
}

#[test]
fn resets_are_reported_once() {
    let (engine, _directory) = engine();
    let (a, b) = Engine::pair(engine.join());
    b.socket().options().set_linger(Some(0));
    drop(b);
    let mut buf = [0; 3];
    assert_eq!(a.read(&mut buf), Err(SocketError::Failed(Errno::CONNRESET)));
    assert_eq!(a.read(&mut buf), Ok(0));
    assert_eq!(a.write(b"x"), Err(SocketError::BrokenPipe));
}

#[test]
fn a_writer_that_never_looks_is_told_of_a_reset() {
    let (engine, _directory) = engine();
    let (a, b) = Engine::pair(engine.join());
    let write = || a.socket().send_stream().send(&[IoSlice::new(b"x")], false);
    assert_eq!(write(), Ok(1));
    b.socket().options().set_linger(Some(0));
    drop(b);
    let reset = Err(SocketError::Failed(Errno::CONNRESET));
    engine.wait_until("told", |_| match write() {
        Ok(_) => false,
        failed => {
            assert_eq!(failed, reset);
            true
        }
    });
    assert_eq!(write(), Err(SocketError::BrokenPipe));
}

#[test]
fn connecting_is_refused_is_under_way_and_times_out() {
    let (engine, _directory) = engine();
    let host = engine.join();
    let refused = Stream::connect(host, Engine::address(1)).err();
    assert_eq!(refused, Some(SocketError::Failed(Errno::CONNREFUSED)));
    let open = |port: u16| {
        let kind = longshore_hostif::SocketKind::Stream;
        let socket = host
            .sockets()
            .open(kind, longshore_hostif::OpenFlags::empty(), 0)
            .unwrap();
        let started = socket.connector().start(Engine::address(port));
        assert_eq!(started, Err(SocketError::InProgress));
        socket
    };
    let silent = open(SILENT_PORT);
    assert_eq!(
        silent.connector().start(Engine::address(SILENT_PORT)),
        Err(SocketError::Refused(Errno::ALREADY))
    );
    assert_eq!(
        silent.addresses().peer(),
        Err(SocketError::Refused(Errno::NOTCONN))
    );
    // A call that finds the attempt under way is told that, also when its time is over.
    let wait_limit = WaitLimit::of_call(Some(Duration::from_millis(20)));
    assert_eq!(
        silent
            .connector()
            .connect(Engine::address(SILENT_PORT), wait_limit),
        Err(SocketError::Refused(Errno::ALREADY))
    );
    let listener = Listener::bind(host, Engine::address(0), 8).unwrap();
    let ready = open(listener.local().unwrap().port());
    let (_server, _) = listener.accept().unwrap();
    let again = |expected| {
        assert_eq!(ready.connector().start(listener.local().unwrap()), expected);
    };
    engine.wait_until("connected", |_| {
        host.messages().drain_if_free();
        ready.addresses().peer().is_ok()
    });
    again(Ok(()));
    again(Err(SocketError::Refused(Errno::ISCONN)));
}

#[test]
fn options_and_information_cross() {
    let (engine, _directory) = engine();
    let (a, _b) = Engine::pair(engine.join());
    let options = [(OptionName::NoDelay, 1), (OptionName::KeepIdle, 30)];
    a.socket().options().set_all(options.into_iter()).unwrap();
    let mut info = [0; 200];
    assert_eq!(a.socket().queries().tcp_info(&mut info), Ok(104));
    assert_eq!(info[103], 103);
    let index = a.socket().id().index;
    engine.wait_until("options", |s| {
        options
            .iter()
            .all(|(n, v)| s.options.contains(&(index, *n, *v)))
    });
}

#[test]
fn edges_that_were_left_out_come_later() {
    let (engine, _directory) = engine();
    let (a, b) = Engine::pair(engine.join());
    is_woken(|| {
        engine.behavior.loses.store(1, Ordering::Relaxed);
        a.write_all(b"lost").unwrap();
        let start = Instant::now();
        assert_eq!(b.read(&mut [0; 9]), Ok(4));
        start.elapsed()
    });
}

#[test]
fn two_processes_share_a_connection() {
    let (engine, _directory) = engine();
    let (first, second) = (engine.join(), engine.join());
    let (a, b) = Engine::pair(first);
    let shared = second.sockets().inherit(b.socket().id()).unwrap();
    b.socket().share();
    drop(b);
    a.write_all(b"for the other").unwrap();
    let mut buf = [0; 20];
    let got = shared.wait(None, WaitLimit::ENDLESS, || {
        shared
            .receive_stream()
            .recv(&mut [IoSliceMut::new(&mut buf)], false)
    });
    assert_eq!(got, Ok(13));
    drop(shared);
    assert_eq!(a.read(&mut buf), Ok(0));
}

#[test]
fn any_process_accepts_from_a_shared_listener() {
    let (engine, _directory) = engine();
    let (first, second) = (engine.join(), engine.join());
    let listener = Listener::bind(first, Engine::address(0), 8).unwrap();
    let other = second.sockets().inherit(listener.socket().id()).unwrap();
    listener.socket().share();
    for accept_here in [true, false, false, true] {
        let client = Stream::connect(first, listener.local().unwrap()).unwrap();
        client.write_all(b"hi").unwrap();
        let socket = if accept_here {
            listener.accept().unwrap().0.socket().clone()
        } else {
            let accept = || other.accept_queue().accept_with(|| Ok(()));
            other.wait(None, WaitLimit::ENDLESS, accept).unwrap().0
        };
        let mut buf = [0; 9];
        let read = || {
            socket
                .receive_stream()
                .recv(&mut [IoSliceMut::new(&mut buf)], false)
        };
        assert_eq!(socket.wait(None, WaitLimit::ENDLESS, read), Ok(2));
    }
}

#[test]
fn one_that_is_held_up_in_accept_holds_up_nobody_else() {
    let (engine, _directory) = engine();
    let (first, second) = (engine.join(), engine.join());
    let listener = Listener::bind(first, Engine::address(0), 8).unwrap();
    let other = second.sockets().inherit(listener.socket().id()).unwrap();
    listener.socket().share();
    let _client = Stream::connect(first, listener.local().unwrap()).unwrap();
    let accepted_by_other = || {
        // As long as the first is in a system call of its accept.
        let accepting = std::thread::spawn(move || {
            let accept = || other.accept_queue().accept_with(|| Ok(()));
            other.wait(None, WaitLimit::ENDLESS, accept).map(drop)
        });
        let deadline = Instant::now() + Duration::from_secs(60);
        while !accepting.is_finished() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(accepting.is_finished(), "the listener is locked");
        assert!(accepting.join().unwrap().is_ok());
        Ok(())
    };
    let asks = || match listener.socket().accept_queue().has_connection() {
        true => Ok(()),
        false => Err(SocketError::WouldBlock),
    };
    let socket = listener.socket();
    socket.wait(None, WaitLimit::ENDLESS, asks).unwrap();
    let held_up = socket
        .accept_queue()
        .accept_with(accepted_by_other)
        .map(drop);
    assert_eq!(held_up, Err(SocketError::WouldBlock));
}

#[test]
fn connections_that_wait_are_not_bytes_to_read() {
    let (engine, _directory) = engine();
    let host = engine.join();
    let listener = Listener::bind(host, Engine::address(0), 8).unwrap();
    let client = Stream::connect(host, listener.local().unwrap()).unwrap();
    client.write_all(b"hi").unwrap();
    let asks = || match listener.socket().accept_queue().has_connection() {
        true => Ok(()),
        false => Err(SocketError::WouldBlock),
    };
    assert_eq!(
        listener.socket().wait(None, WaitLimit::ENDLESS, asks),
        Ok(())
    );
    let not_connected = Err(SocketError::Refused(Errno::NOTCONN));
    for keep in [true, false] {
        let read = listener
            .socket()
            .receive_stream()
            .recv(&mut [IoSliceMut::new(&mut [0; 99])], keep);
        assert_eq!(read, not_connected);
    }
    assert_eq!(
        listener.socket().receive_stream().discard(99),
        not_connected
    );
    let (accepted, _) = listener.accept().unwrap();
    assert_eq!(accepted.read(&mut [0; 9]), Ok(2));
}

#[test]
fn a_listener_that_closes_resets_who_waits() {
    let (engine, _directory) = engine();
    let host = engine.join();
    let listener = Listener::bind(host, Engine::address(0), 8).unwrap();
    let client = Stream::connect(host, listener.local().unwrap()).unwrap();
    drop(listener);
    assert_eq!(
        client.read(&mut [0; 9]),
        Err(SocketError::Failed(Errno::CONNRESET))
    );
    drop(client);
    engine.wait_until("all sockets closed", |seen| seen.open == 0);
}

#[test]
fn an_engine_that_ends_ends_all_waits() {
    is_woken(|| {
        let (mut engine, _directory) = engine();
        let host = engine.join();
        let (a, _b) = Engine::pair(host);
        let reader = std::thread::spawn(move || a.read(&mut [0; 9]));
        std::thread::sleep(Duration::from_millis(30));
        let start = Instant::now();
        engine.stop();
        assert_eq!(
            reader.join().unwrap(),
            Err(SocketError::Failed(Errno::CONNRESET))
        );
        let took = start.elapsed();
        let listened = Listener::bind(host, Engine::address(0), 8).err();
        assert_eq!(listened, Some(SocketError::EngineGone));
        took
    });
}

#[test]
fn a_full_request_ring_is_waited_for() {
    let (engine, _directory) = engine();
    let (a, b) = Engine::pair(engine.join());
    engine
        .behavior
        .ignores_requests
        .store(true, Ordering::Relaxed);
    let writer = std::thread::spawn(move || {
        for _ in 0..3000 {
            a.socket().options().set(OptionName::NoDelay, 1).unwrap();
        }
        a.write_all(b"after all").unwrap();
    });
    std::thread::sleep(Duration::from_millis(50));
    assert!(!writer.is_finished());
    engine
        .behavior
        .ignores_requests
        .store(false, Ordering::Relaxed);
    writer.join().unwrap();
    assert_eq!(b.read(&mut [0; 20]), Ok(9));
}
