//! What programs written for Longshore call, beyond reading and writing.

use longshore_hostif::OpenFlags;
use longshore_sockets::testing::Engine;
use longshore_sockets::{Listener, SocketError, Stream};
use rustix::io::Errno;

/// The tests' engine forwards nothing, so that the bytes are copied: to a program it is the same.
#[test]
fn a_proxy_passes_on_what_it_receives() {
    let directory = tempfile::tempdir().unwrap();
    let engine = Engine::start(directory.path());
    let host = engine.join();
    let ((a, near), (far, b)) = (Engine::pair(host), Engine::pair(host));
    assert_eq!(near.forward(&far, 0), Ok(0), "nothing was asked for");
    a.write_all(b"abcdefgh").unwrap();
    assert_eq!(near.forward(&far, 3), Ok(3));
    let mut moved = 3;
    while moved < 8 {
        moved += near.forward(&far, 100).unwrap();
    }
    let (mut got, mut buf) = (Vec::new(), [0; 20]);
    while got.len() < 8 {
        let read = b.read(&mut buf).unwrap();
        got.extend_from_slice(&buf[..read]);
    }
    assert_eq!(got, b"abcdefgh");
    a.finish().unwrap();
    assert_eq!(near.forward(&far, 100), Ok(0), "the end of the stream");
    far.finish().unwrap();
    assert_eq!(near.forward(&far, 100), Ok(0));
    assert_eq!(b.read(&mut buf), Ok(0));
    b.finish().unwrap();
    assert_eq!(b.finish(), Ok(()));
}

#[test]
fn a_listener_has_the_address_that_it_was_bound_to() {
    let directory = tempfile::tempdir().unwrap();
    let engine = Engine::start(directory.path());
    let host = engine.join();
    let listener = Listener::bind(host, Engine::address(4000), 8).unwrap();
    assert_eq!(listener.local(), Some(Engine::address(4000)));
    assert!(listener.socket().is_listening());
    let opened = engine.seen.lock().unwrap().opened.clone();
    let index = listener.socket().id().index;
    assert_eq!(opened.get(&index), Some(&OpenFlags::REUSE_ADDRESS));
    let taken = Listener::bind(host, Engine::address(4000), 8).err();
    assert_eq!(taken, Some(SocketError::Refused(Errno::ADDRINUSE)));
    let client = Stream::connect(host, Engine::address(4000)).unwrap();
    let (server, from) = listener.accept().unwrap();
    assert_eq!(client.socket().addresses().local(), Some(from));
    assert_eq!(
        server.socket().addresses().local(),
        Some(Engine::address(4000))
    );
    assert!(!client.socket().is_v6());
}

/// As io::Error, for programs that know no others.
#[test]
fn each_error_has_the_errno_that_linux_gives() {
    for (error, errno) in [
        (SocketError::WouldBlock, Errno::AGAIN),
        (SocketError::TimedOut, Errno::AGAIN),
        (SocketError::Reentered, Errno::AGAIN),
        (SocketError::Interrupted, Errno::INTR),
        (SocketError::Restarts, Errno::INTR),
        (SocketError::InProgress, Errno::INPROGRESS),
        (SocketError::Cancelled, Errno::CANCELED),
        (SocketError::BrokenPipe, Errno::PIPE),
        (SocketError::Refused(Errno::INVAL), Errno::INVAL),
        (SocketError::Failed(Errno::CONNRESET), Errno::CONNRESET),
        (SocketError::EngineGone, Errno::NETDOWN),
        (SocketError::NoSocket, Errno::NFILE),
        (SocketError::Broken, Errno::IO),
    ] {
        assert_eq!(error.errno(), errno.raw_os_error(), "{error:?}");
        let as_io = std::io::Error::from(error);
        assert_eq!(as_io.raw_os_error(), Some(errno.raw_os_error()));
    }
}
