//! What all sockets say of themselves, and how their calls wait.

use super::*;
use crate::readiness::Ready;
use crate::testing::Engine;
use crate::testing::fixture::engine;
use crate::{Host, Listener};
use longshore_hostif::{OpenFlags, SocketKind};

#[test]
fn what_a_socket_is_is_what_it_was_opened_as() {
    let (_engine, host, _directory) = engine();
    for kind in [SocketKind::Stream, SocketKind::Datagram] {
        for flags in [OpenFlags::empty(), OpenFlags::IPV6] {
            let socket = host.sockets().open(kind, flags, 77).unwrap();
            assert_eq!(socket.is_datagram(), kind == SocketKind::Datagram);
            assert_eq!(socket.is_v6(), flags == OpenFlags::IPV6);
            assert!(!socket.is_listening() && !socket.has_kernel_side());
            assert!(!socket.is_spent() && !socket.has_listened() && !socket.is_replaced());
            assert_eq!(host.sockets().find_inode(77), Some(socket.id()));
            socket.set_inode(78);
            assert_eq!(host.sockets().find_inode(77), None);
            assert_eq!(host.sockets().find_inode(78), Some(socket.id()));
        }
    }
}

#[test]
fn bits_are_set_and_cleared_one_by_one() {
    let (_engine, host, _directory) = engine();
    let socket = Engine::open(host, SocketKind::Stream);
    socket.set_host_bits(host_bits::KERNEL_TOO);
    socket.set_host_bits(host_bits::CORK);
    assert!(socket.has_kernel_side());
    assert_eq!(socket.host_bits(), host_bits::KERNEL_TOO | host_bits::CORK);
    socket.clear_host_bits(host_bits::KERNEL_TOO);
    assert!(!socket.has_kernel_side());
    assert_eq!(socket.host_bits(), host_bits::CORK);
    socket.set_more_bits(more_bits::LEFT | more_bits::DROPS);
    socket.clear_more_bits(more_bits::DROPS);
    assert_eq!(socket.more_bits(), more_bits::LEFT);
}

#[test]
fn a_socket_whose_place_another_has_taken_ends_its_calls() {
    let (_engine, host, _directory) = engine();
    let (a, _b) = Engine::pair(host);
    let socket = a.socket();
    socket.set_inode(99);
    socket.abandon();
    assert!(socket.is_replaced());
    assert_eq!(host.sockets().find_inode(99), None);
    assert_eq!(
        socket.options().linger(),
        Some(0),
        "it is reset with its last use"
    );
    assert_eq!(socket.halves().shut(), (true, true));
    assert_eq!(
        socket.pending_error().take(),
        Errno::CONNRESET.raw_os_error() as u32
    );
}

#[test]
fn notices_are_kept_for_a_program_that_asks_for_them() {
    let (_engine, host, _directory) = engine();
    let socket = Engine::open(host, SocketKind::Stream);
    socket.add_notice(true);
    assert_eq!(socket.take_notice(), None);
    socket.set_more_bits(more_bits::ZERO_COPY);
    socket.add_notice(false);
    socket.add_notice(true);
    let notice = socket.take_notice().unwrap();
    assert_eq!((notice.sends, notice.copied), (0..=1, true));
    assert_eq!(socket.take_notice(), None);
}

#[test]
fn a_look_for_a_while_ends_with_what_is_found_or_with_an_error() {
    let (_engine, host, _directory) = engine();
    let socket = Engine::open(host, SocketKind::Stream);
    assert_eq!(socket.look_awhile(|| Ok(7)), Ok(Some(7)));
    let mut looks = 0;
    let mut never = || {
        looks += 1;
        Err::<(), _>(SocketError::WouldBlock)
    };
    assert_eq!(socket.look_again(&mut never), Ok(None));
    assert_eq!(socket.look_awhile(&mut never), Ok(None));
    assert!(looks != 0);
    let fails = || Err::<(), _>(SocketError::BrokenPipe);
    assert_eq!(socket.look_awhile(fails), Err(SocketError::BrokenPipe));
}

/// Waits until the engine has told of something that nobody has taken from the channel.
fn is_reported(host: &Host) {
    for _ in 0..12_000 {
        if host.session.has_completions(host.own_channel()) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    panic!("nothing was told");
}

/// A call says how things stand, though its process has not looked at the channel since.
#[test]
fn what_the_engine_has_told_counts_for_each_call() {
    use crate::{Departure, Sending};
    use std::io::{IoSlice, IoSliceMut};
    let (_engine, host, _directory) = engine();
    let (a, b) = Engine::pair(host);
    let urgent = |bytes| {
        a.socket()
            .send_stream()
            .send_with(&[IoSlice::new(bytes)], Sending::URGENT)
    };
    host.messages().drain_if_free();
    assert_eq!(urgent(b"ab"), Ok(2));
    is_reported(host);
    // Its place may be told before the byte is.
    while b.socket().urgent_data().recv(false) != Ok(Some(b'b')) {
        is_reported(host);
    }
    let mut buf = [0; 9];
    let mut read = || {
        b.socket()
            .receive_stream()
            .recv(&mut [IoSliceMut::new(&mut buf)], false)
    };
    assert_eq!(read(), Ok(1));
    assert_eq!(read(), Err(SocketError::WouldBlock));
    host.messages().flush().unwrap();
    host.messages().drain_if_free();
    a.write_all(b"abc").unwrap();
    is_reported(host);
    while read() != Ok(3) {
        is_reported(host);
    }
    // A connection, at both ends.
    let listener = Listener::bind(host, Engine::address(0), 8).unwrap();
    let client = Engine::open(host, SocketKind::Stream);
    let begun = client.connector().start(listener.local().unwrap());
    assert_eq!(begun, Err(SocketError::InProgress));
    while listener
        .socket()
        .accept_queue()
        .accept_with(|| Ok(()))
        .is_err()
    {
        is_reported(host);
    }
    while client.addresses().peer().is_err() {
        is_reported(host);
    }
    // A datagram.
    let (c, d) = (
        Engine::open(host, SocketKind::Datagram),
        Engine::open(host, SocketKind::Datagram),
    );
    let to = d.addresses().bind(Engine::address(0)).unwrap();
    c.addresses().bind(Engine::address(0)).unwrap();
    host.messages().drain_if_free();
    let sent = c
        .datagrams()
        .send(&[IoSlice::new(b"abcd")], Some(to), Departure::default());
    assert_eq!(sent, Ok(4));
    while d.datagrams().next_len() != 4 {
        is_reported(host);
    }
}

#[test]
fn a_socket_is_shared_from_when_another_process_may_have_it() {
    let (_engine, host, _directory) = engine();
    let socket = Engine::open(host, SocketKind::Stream);
    assert!(!socket.is_shared());
    socket.share();
    assert!(socket.is_shared());
    // One that was accepted is this process's alone, as one that was made here.
    let (_client, accepted) = Engine::pair(host);
    assert!(!accepted.socket().is_shared());
}

/// A call that would block has found nothing yet, and one that fails says so.
#[test]
fn a_look_finds_what_a_call_gives() {
    let (_engine, host, _directory) = engine();
    let socket = Engine::open(host, SocketKind::Stream);
    type Look = fn(&Socket, Result<u8, SocketError>) -> Result<Option<u8>, SocketError>;
    let looks: [Look; 2] = [
        |socket, result| socket.look_awhile(|| result),
        |socket, result| socket.look_again(|| result),
    ];
    for look in looks {
        // Each in a thread of its own, which has looked for nothing in vain.
        let look = |result| {
            std::thread::scope(|scope| scope.spawn(|| look(&socket, result)).join().unwrap())
        };
        assert_eq!(look(Ok(5)), Ok(Some(5)));
        assert_eq!(look(Err(SocketError::WouldBlock)), Ok(None));
        let fails = Err(SocketError::BrokenPipe);
        assert_eq!(look(fails), Err(SocketError::BrokenPipe));
    }
}

/// TCP_NOTSENT_LOWAT, of what was written and not sent.
#[test]
fn a_stream_is_writable_with_less_unsent_than_was_set() {
    let (_engine, host, _directory) = engine();
    let socket = std::mem::ManuallyDrop::new(Engine::open(host, SocketKind::Stream));
    socket.block().set_state(SocketState::Connected);
    socket.block().snd.edge.store(100, Ordering::Relaxed);
    for (bytes, writable) in [(0, true), (100, false), (200, false), (201, true)] {
        socket.options().set_not_sent_lowat(bytes);
        let ready = socket.readiness();
        assert_eq!(ready.contains(Ready::OUT), writable, "{bytes}");
    }
}
