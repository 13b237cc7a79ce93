use super::*;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::os::unix::fs::PermissionsExt;
use std::thread;

fn key(digit: char) -> Key {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("key");
    std::fs::write(&path, String::from(digit).repeat(64)).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    Key::read(&path).unwrap()
}

pub(super) fn sockets() -> (OwnedFd, OwnedFd) {
    let flags = SocketFlags::CLOEXEC;
    socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap()
}

type Established = Result<Secured, HandshakeError>;

fn establish(host: Key, engine: Key) -> (Established, Established) {
    let (a, b) = sockets();
    let engine = thread::spawn(move || Secured::establish(b, Role::Engine, &engine));
    let host = Secured::establish(a, Role::Host, &host);
    (host, engine.join().unwrap())
}

fn receive_all(stream: &mut Secured, to: &mut Vec<u8>) -> Result<(), HandshakeError> {
    while stream.receive(to)? {}
    Ok(())
}

#[test]
fn bytes_arrive_both_ways_whatever_the_socket_takes() {
    let (host, engine) = establish(key('a'), key('a'));
    let (mut host, mut engine) = (host.unwrap(), engine.unwrap());
    let bytes: Vec<u8> = (0..3_000_000u32).map(|i| (i * 7 / 5) as u8).collect();
    for _ in 0..2 {
        let (mut at, mut got) = (0, Vec::new());
        while got.len() < bytes.len() {
            at += host.send(&bytes[at..]).unwrap();
            host.flush().unwrap();
            receive_all(&mut engine, &mut got).unwrap();
        }
        assert!(got == bytes);
        std::mem::swap(&mut host, &mut engine);
    }
}

#[test]
fn what_goes_over_the_socket_cannot_be_read() {
    let (a, b) = sockets();
    let (c, d) = sockets();
    let engine = thread::spawn(move || Secured::establish(d, Role::Engine, &key('a')));
    // A third party between the ends, which passes on what they say.
    let between = thread::spawn(move || {
        let (mut seen, mut bytes) = (Vec::new(), [0; 4096]);
        for (from, to) in [(&b, &c), (&c, &b), (&b, &c)] {
            let n = rustix::io::read(from, &mut bytes).unwrap();
            seen.extend_from_slice(&bytes[..n]);
            assert_eq!(rustix::io::write(to, &bytes[..n]), Ok(n));
        }
        seen
    });
    let mut host = Secured::establish(a, Role::Host, &key('a')).unwrap();
    let mut engine = engine.join().unwrap().unwrap();
    let secret = b"what the program has written";
    host.send(secret).unwrap();
    let seen = between.join().unwrap();
    assert!(!seen.windows(secret.len()).any(|w| w == secret));
    let mut got = Vec::new();
    receive_all(&mut engine, &mut got).unwrap_err();
    assert_eq!(got, secret);
}

#[test]
fn another_key_is_refused_by_both_ends() {
    let (host, engine) = establish(key('a'), key('b'));
    assert_eq!(engine.unwrap_err(), HandshakeError::NotAuthentic);
    assert_eq!(host.unwrap_err(), HandshakeError::NoAnswer);
}

#[test]
fn a_host_without_the_key_gets_no_answer() {
    let (a, b) = sockets();
    let engine = thread::spawn(move || Secured::establish(b, Role::Engine, &key('a')));
    rustix::io::write(&a, &[0x5a; 1000]).unwrap();
    assert_eq!(
        engine.join().unwrap().unwrap_err(),
        HandshakeError::NotAuthentic
    );
    // What it is closed with is a reset: not all that it sent was read.
    let got = rustix::io::read(&a, &mut [0; 16]);
    assert!(matches!(got, Ok(0) | Err(Errno::CONNRESET)), "{got:?}");
}

#[test]
fn what_was_changed_on_the_way_ends_the_link() {
    let (host, engine) = establish(key('a'), key('a'));
    let (host, mut engine) = (host.unwrap(), engine.unwrap());
    // A message of the right form that was not made with the keys of this link.
    let mut forged = vec![7; 2 + 40];
    forged[..2].copy_from_slice(&40u16.to_le_bytes());
    rustix::io::write(&host.fd, &forged).unwrap();
    let got = receive_all(&mut engine, &mut Vec::new());
    assert_eq!(got, Err(HandshakeError::NotAuthentic));
}

#[test]
fn an_end_that_closes_is_noticed() {
    let (host, engine) = establish(key('a'), key('a'));
    drop(host);
    let got = receive_all(&mut engine.unwrap(), &mut Vec::new());
    assert_eq!(got, Err(HandshakeError::Closed));
}
