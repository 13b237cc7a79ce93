//! Datagrams, all on one engine.

use longshore_hostif::{OptionName, SEND_BUFFER};
use longshore_sockets::testing::Engine;
use longshore_sockets::{Datagram, Departure, Host, MOST_PAYLOAD, Ready, SocketError, WaitLimit};
use rustix::io::Errno;
use std::io::{IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::sync::atomic::Ordering;

fn engine() -> (Engine, &'static Host, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let engine = Engine::start(directory.path());
    let host = engine.join();
    (engine, host, directory)
}

fn bound(host: &'static Host) -> (Datagram, SocketAddr) {
    let socket = Datagram::bind(host, Engine::address(0)).unwrap();
    let local = socket.socket().addresses().local().unwrap();
    (socket, local)
}

#[test]
fn datagrams_keep_their_bounds_and_their_senders() {
    let (_engine, host, _directory) = engine();
    let ((a, from), (b, to)) = (bound(host), bound(host));
    let mut buf = vec![0; 70_000];
    for len in [0, 1, 7, 8, 1472, 32_768, MOST_PAYLOAD] {
        let data: Vec<u8> = (0..len).map(|i| (i * 3) as u8).collect();
        assert_eq!(a.send(&data, Some(to)), Ok(len));
        let got = b.recv(&mut buf).unwrap();
        assert_eq!((got.copied, got.len, got.from), (len, len, Some(from)));
        assert!(buf[..len] == data);
    }
}

#[test]
fn what_does_not_fit_is_cut_off_and_said() {
    let (_engine, host, _directory) = engine();
    let ((a, _), (b, to)) = (bound(host), bound(host));
    a.send(b"longer than that", Some(to)).unwrap();
    a.send(b"next", Some(to)).unwrap();
    let got = b.recv(&mut [0; 6]).unwrap();
    assert_eq!((got.copied, got.len), (6, 16));
    let mut buf = [0; 16];
    let peeked = b
        .socket()
        .wait(None, WaitLimit::ENDLESS, || {
            b.socket()
                .datagrams()
                .recv(&mut [IoSliceMut::new(&mut buf)], true)
        })
        .unwrap();
    assert_eq!((peeked.len, b.socket().datagrams().next_len()), (4, 4));
    assert_eq!(b.recv(&mut buf).map(|g| g.len), Ok(4));
    assert_eq!(&buf[..4], b"next");
}

#[test]
fn what_cannot_be_sent_is_refused() {
    let (_engine, host, _directory) = engine();
    let (a, to) = bound(host);
    assert_eq!(
        a.send(&vec![0; MOST_PAYLOAD + 1], Some(to)),
        Err(SocketError::Refused(Errno::MSGSIZE))
    );
    assert_eq!(
        a.send(b"x", None),
        Err(SocketError::Refused(Errno::DESTADDRREQ))
    );
    let taken = Datagram::bind(host, to).err();
    assert_eq!(taken, Some(SocketError::Refused(Errno::ADDRINUSE)));
}

#[test]
fn errors_come_back_to_connected_sockets() {
    let (engine, host, _directory) = engine();
    let (a, _) = bound(host);
    a.connect(Engine::address(1)).unwrap();
    let refused = SocketError::Failed(Errno::CONNREFUSED);
    a.send(b"anyone?", None).unwrap();
    assert_eq!(a.recv(&mut [0; 9]), Err(refused));
    let report = || {
        a.send(b"anyone?", None).unwrap();
        engine.wait_until("the report", |_| {
            host.messages().drain_if_free();
            a.socket().readiness().contains(Ready::ERR)
        });
        assert!(!a.socket().readiness().contains(Ready::IN));
    };
    report();
    assert_eq!(a.send(b"still?", None), Err(refused));
    report();
    assert_eq!(a.socket().pending_error().take(), 111);
    assert_eq!(a.socket().pending_error().take(), 0);
    a.socket().connector().disconnect().unwrap();
    assert_eq!(
        a.socket().addresses().peer(),
        Err(SocketError::Refused(Errno::NOTCONN))
    );
}

#[test]
fn a_sender_is_held_up_by_a_full_stream_alone() {
    let (engine, host, _directory) = engine();
    let ((a, _), (_b, to)) = (bound(host), bound(host));
    engine
        .behavior
        .ignores_requests
        .store(true, Ordering::Relaxed);
    let block = vec![0; 60_000];
    let send = || {
        a.socket()
            .datagrams()
            .send(&[IoSlice::new(&block)], Some(to), Departure::default())
    };
    let mut sent = 0;
    while send().is_ok() {
        sent += block.len();
    }
    assert_eq!(send(), Err(SocketError::WouldBlock));
    assert!(sent + 2 * block.len() > SEND_BUFFER as usize);
    let _ = a.socket().options().set(OptionName::SendBuffer, 1 << 21);
    assert!(send().is_ok());
}
