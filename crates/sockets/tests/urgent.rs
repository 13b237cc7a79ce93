//! Urgent data: where it stands apart from the rest of a stream, both ends on one engine.

use longshore_sockets::testing::Engine;
use longshore_sockets::{Ready, Sending, Socket, SocketError, Stream, WaitLimit};
use rustix::io::Errno;
use std::io::{IoSlice, IoSliceMut};

const NONE: Result<Option<u8>, SocketError> = Err(SocketError::Refused(Errno::INVAL));

fn urgent(to: &Stream, bytes: &[u8]) {
    let sent = to
        .socket()
        .send_stream()
        .send_with(&[IoSlice::new(bytes)], Sending::URGENT);
    assert_eq!(sent, Ok(bytes.len()));
}

/// Waits until so many bytes are there, in order or not.
fn arrived(engine: &Engine, socket: &Socket, end: u64) {
    engine.wait_until("the bytes have come", |_| {
        socket.host().messages().drain_if_free();
        socket.receive_stream().received_end() >= end
    });
}

fn read(from: &Stream) -> Result<Vec<u8>, SocketError> {
    let mut buf = [0; 64];
    let n = from
        .socket()
        .receive_stream()
        .recv(&mut [IoSliceMut::new(&mut buf)], false)?;
    Ok(buf[..n].to_vec())
}

#[test]
fn reading_stops_before_it_and_passes_over_it() {
    let directory = tempfile::tempdir().unwrap();
    let engine = Engine::start(directory.path());
    let (a, b) = Engine::pair(engine.join());
    let s = b.socket();
    assert_eq!(s.urgent_data().recv(false), NONE);
    a.write_all(b"ab").unwrap();
    urgent(&a, b"cd");
    a.write_all(b"ef").unwrap();
    arrived(&engine, s, 6);
    assert!(s.readiness().contains(Ready::PRI | Ready::IN));
    assert_eq!(s.receive_stream().readable_bytes(), 3);
    assert!(!s.urgent_data().is_at_mark());
    let peeked = s.receive_stream().peek().unwrap();
    assert!(peeked.stops_at_mark() && peeked.len() == 3);
    drop(peeked);
    assert_eq!(read(&b).unwrap(), b"abc");
    assert!(s.urgent_data().is_at_mark());
    assert_eq!(s.urgent_data().recv(true), Ok(Some(b'd')));
    assert_eq!(s.urgent_data().recv(false), Ok(Some(b'd')));
    assert_eq!(s.urgent_data().recv(false), NONE);
    assert!(!s.readiness().contains(Ready::PRI));
    assert_eq!(read(&b).unwrap(), b"ef");
    assert!(!s.urgent_data().is_at_mark());
}

#[test]
fn alone_it_is_nothing_for_who_reads_in_order() {
    let directory = tempfile::tempdir().unwrap();
    let engine = Engine::start(directory.path());
    let (a, b) = Engine::pair(engine.join());
    let s = b.socket();
    urgent(&a, b"x");
    arrived(&engine, s, 1);
    assert_eq!(s.readiness() & (Ready::IN | Ready::PRI), Ready::PRI);
    let keep = s
        .receive_stream()
        .recv(&mut [IoSliceMut::new(&mut [0; 4])], true);
    assert_eq!(keep, Err(SocketError::WouldBlock));
    assert!(s.urgent_data().is_at_mark());
    // A call that does not only look throws it away, and the engine is told of that, too.
    assert_eq!(read(&b), Err(SocketError::WouldBlock));
    assert!(!s.urgent_data().is_at_mark());
    assert_eq!(s.urgent_data().recv(false), NONE);
    s.host().messages().flush().unwrap();
    engine.wait_until("its memory is back", |seen| seen.rcv_chunks == 0);
    drop((a, b));
    engine.wait_until("all is closed", |seen| {
        assert_eq!(seen.bad, 0);
        seen.open == 0
    });
}

#[test]
fn in_its_place_it_is_read_like_any_other() {
    let directory = tempfile::tempdir().unwrap();
    let engine = Engine::start(directory.path());
    let (a, b) = Engine::pair(engine.join());
    let s = b.socket();
    s.urgent_data().set_inline(true);
    urgent(&a, b"ab");
    a.write_all(b"c").unwrap();
    arrived(&engine, s, 3);
    assert_eq!(s.receive_stream().readable_bytes(), 3);
    assert_eq!(s.urgent_data().recv(false), NONE);
    assert_eq!(read(&b).unwrap(), b"a");
    assert!(s.urgent_data().is_at_mark());
    assert!(s.readiness().contains(Ready::IN | Ready::PRI));
    assert_eq!(read(&b).unwrap(), b"bc");
    assert!(!s.readiness().intersects(Ready::IN | Ready::PRI));
}

#[test]
fn the_next_makes_an_ordinary_byte_of_the_last_but_for_who_stands_there() {
    let directory = tempfile::tempdir().unwrap();
    let engine = Engine::start(directory.path());
    let (a, b) = Engine::pair(engine.join());
    urgent(&a, b"ab");
    arrived(&engine, b.socket(), 2);
    urgent(&a, b"cd");
    arrived(&engine, b.socket(), 4);
    assert_eq!(read(&b).unwrap(), b"abc");
    urgent(&a, b"ef");
    arrived(&engine, b.socket(), 6);
    assert_eq!(read(&b).unwrap(), b"e");
    assert_eq!(b.socket().urgent_data().recv(false), Ok(Some(b'f')));
}

#[test]
fn its_place_is_known_before_it_is_there() {
    let directory = tempfile::tempdir().unwrap();
    let engine = Engine::start(directory.path());
    let (a, b) = Engine::pair(engine.join());
    let much = vec![7; 200_000];
    assert_eq!(
        a.socket().send_stream().send(&[IoSlice::new(&much)], false),
        Ok(much.len())
    );
    urgent(&a, b"x");
    engine.wait_until("the place is known", |_| {
        b.socket().host().messages().drain_if_free();
        b.socket().urgent_data().end() != 0
    });
    let early = b.socket().urgent_data().recv(false);
    assert_eq!(early, Err(SocketError::WouldBlock));
    assert!(!b.socket().readiness().contains(Ready::PRI));
    let mut buf = vec![0; 1 << 20];
    let mut got = 0;
    while got < much.len() {
        let mut read = || {
            b.socket()
                .receive_stream()
                .recv(&mut [IoSliceMut::new(&mut buf)], false)
        };
        got += b
            .socket()
            .wait(None, WaitLimit::ENDLESS, &mut read)
            .unwrap();
    }
    assert_eq!(got, much.len());
    let late = || b.socket().urgent_data().recv(false);
    assert_eq!(
        b.socket().wait(None, WaitLimit::ENDLESS, late),
        Ok(Some(b'x'))
    );
}
