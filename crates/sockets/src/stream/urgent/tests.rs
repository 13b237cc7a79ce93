//! The urgent byte by the words of the block, and what a handler finds.

use super::*;
use crate::testing::Engine;
use longshore_hostif::SocketKind;
use std::mem::ManuallyDrop;

#[test]
fn a_handler_in_the_midst_of_a_call_finds_the_byte() {
    let directory = tempfile::tempdir().unwrap();
    let engine = Engine::start(directory.path());
    let host = engine.join();
    let (writer, reader) = Engine::pair(host);
    writer.write_all(b"ab!").unwrap();
    engine.wait_until("all of it", |_| {
        host.messages().drain_if_free();
        reader.socket().receive_stream().readable_bytes() == 3
    });
    // The engine has said so in the block, and the call that is interrupted, which
    // holds the stream and the channel, does not know of it.
    let block = reader.socket().block();
    block.rcv.urgent_come.store(3, Ordering::Release);
    let _stream = block.rcv.lock.lock().unwrap();
    let _channel = host.channel.stop().unwrap();
    assert_eq!(reader.socket().urgent_data().recv(true), Ok(Some(b'!')));
    assert_eq!(reader.socket().urgent_data().recv(false), Ok(Some(b'!')));
    assert!(
        reader.socket().urgent_data().recv(false).is_err(),
        "it was read"
    );
}

const INVALID: Result<Option<u8>, SocketError> = Err(SocketError::Refused(Errno::INVAL));
const NOT_CONNECTED: Result<Option<u8>, SocketError> = Err(SocketError::Refused(Errno::NOTCONN));
const LATER: Result<Option<u8>, SocketError> = Err(SocketError::WouldBlock);

/// The byte at 9, told of and not there: whether it will come.
#[test]
fn an_urgent_byte_that_is_not_there_may_come_or_never_will() {
    use SocketState::*;
    let directory = tempfile::tempdir().unwrap();
    let engine = Engine::start(directory.path());
    let host = engine.join();
    let (fin, shut) = (BlockFlags::PEER_FIN, BlockFlags::SHUT_RD);
    let (none, inline) = (BlockFlags::empty(), BlockFlags::URGENT_INLINE);
    for (state, flags, done, read, expected) in [
        (Connected, none, 0, 0, LATER),
        (Connected, none, 9, 9, LATER),
        (Connected, none, 9, 10, INVALID),
        (Connected, none, 10, 0, INVALID),
        (Connected, inline, 0, 0, INVALID),
        (Connected, fin, 0, 0, Ok(None)),
        (Connected, shut, 0, 0, Ok(None)),
        (Dead, none, 0, 0, NOT_CONNECTED),
        (Dead, fin, 0, 0, Ok(None)),
        (Dead, shut, 0, 0, NOT_CONNECTED),
        (Listening, none, 0, 0, NOT_CONNECTED),
        (Listening, inline, 0, 0, NOT_CONNECTED),
    ] {
        let socket = ManuallyDrop::new(Engine::open(host, SocketKind::Stream));
        let block = socket.block();
        block.set_state(state);
        block.set_flags(flags);
        block.rcv.urgent.store(10, Ordering::Release);
        block.rcv.urgent_come.store(9, Ordering::Release);
        block.rcv.edge.store(9, Ordering::Release);
        block.rcv.done.store(done, Ordering::Release);
        block.rcv.urgent_read.store(read, Ordering::Release);
        assert_eq!(
            socket.urgent_data().recv(true),
            expected,
            "{state:?} {flags:?} {done} {read}"
        );
    }
}

/// What is there before the byte, at it and behind it, of a stream that has `held` bytes more.
#[test]
fn a_stream_is_read_up_to_the_mark_and_goes_on_behind_it() {
    let directory = tempfile::tempdir().unwrap();
    let engine = Engine::start(directory.path());
    let host = engine.join();
    for (done, held, inline, front, is_held_by_mark) in [
        (7, 1, false, (7, 1), false),
        (7, 5, false, (7, 2), false),
        (9, 0, false, (9, 0), false),
        (9, 1, false, (10, 0), true),
        (9, 5, false, (10, 4), true),
        (9, 5, true, (9, 5), true),
        (10, 5, false, (10, 5), false),
    ] {
        let socket = ManuallyDrop::new(Engine::open(host, SocketKind::Stream));
        let block = socket.block();
        block.rcv.urgent.store(10, Ordering::Release);
        block.rcv.done.store(done, Ordering::Release);
        block.rcv.edge.store(done + held, Ordering::Release);
        socket.urgent_data().set_inline(true);
        socket.urgent_data().set_inline(inline);
        let found = socket
            .urgent_data()
            .front_at_urgent(done, held as usize, true);
        assert_eq!(found, Ok(front), "{done} {held} {inline}");
        assert_eq!(
            socket.urgent_data().holds_reader(),
            is_held_by_mark,
            "{done} {held}"
        );
        assert_eq!(block.rcv.done.load(Ordering::Acquire), done, "it was kept");
    }
}

/// What FIONREAD counts, as Linux has it.
#[test]
fn bytes_behind_the_mark_are_not_counted() {
    let directory = tempfile::tempdir().unwrap();
    let engine = Engine::start(directory.path());
    let socket = ManuallyDrop::new(Engine::open(engine.join(), SocketKind::Stream));
    let block = socket.block();
    block.rcv.urgent.store(10, Ordering::Release);
    for (done, held, inline, counted) in [
        (7, 1, false, 1),
        (7, 5, false, 2),
        (9, 5, false, 0),
        (10, 5, false, 5),
        (7, 5, true, 5),
        (9, 5, true, 5),
    ] {
        block.rcv.done.store(done, Ordering::Release);
        block.rcv.edge.store(done + held, Ordering::Release);
        socket.urgent_data().set_inline(inline);
        assert_eq!(
            socket.receive_stream().readable_bytes(),
            counted,
            "{done} {held} {inline}"
        );
        assert_eq!(socket.receive_stream().unread_bytes(), held);
    }
}

#[test]
fn the_signals_of_an_owner_are_counted_by_kind() {
    let directory = tempfile::tempdir().unwrap();
    let engine = Engine::start(directory.path());
    let socket = Engine::open(engine.join(), SocketKind::Stream);
    let before = socket.urgent_data().raised(OwnersSignal::Urgent);
    let raise = || Ok::<_, ()>(());
    socket.block().raise(OwnersSignal::Ready, raise).unwrap();
    assert!(
        !socket
            .urgent_data()
            .raised(OwnersSignal::Urgent)
            .is_after(&before)
    );
    socket.block().raise(OwnersSignal::Urgent, raise).unwrap();
    assert!(
        socket
            .urgent_data()
            .raised(OwnersSignal::Urgent)
            .is_after(&before)
    );
}
