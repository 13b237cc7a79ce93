//! Options that a socket keeps itself, and those of which the engine is told.

use longshore_hostif::{Delimiter, MessageRule, OptionName, SendQueue, SocketKind, Versions};
use longshore_sockets::testing::Engine;
use longshore_sockets::{Datagram, SocketError, WaitLimit};
use std::io::IoSliceMut;
use std::time::Duration;

fn engine() -> (Engine, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    (Engine::start(directory.path()), directory)
}

/// A time of nothing is the shortest that there is, and one too long the longest.
#[test]
fn time_limits_are_kept_in_whole_milliseconds() {
    let (engine, _directory) = engine();
    let (a, _b) = Engine::pair(engine.join());
    let socket = a.socket();
    let longest = Duration::from_millis(u32::MAX.into());
    for (limit, kept) in [
        (Duration::ZERO, Duration::from_millis(1)),
        (Duration::from_micros(1001), Duration::from_millis(2)),
        (Duration::from_millis(7), Duration::from_millis(7)),
        (Duration::MAX, longest),
    ] {
        socket.options().set_time_limit(true, Some(limit));
        assert_eq!(socket.options().time_limit(true), Some(kept));
        assert_eq!(
            socket.options().time_limit(false),
            None,
            "that of the other half"
        );
    }
    socket.options().set_time_limit(false, Some(longest));
    socket.options().set_time_limit(true, None);
    assert_eq!(socket.options().time_limit(true), None);
    assert_eq!(socket.options().time_limit(false), Some(longest));
}

#[test]
fn what_closing_does_and_how_datagrams_are_cut_is_kept() {
    let (engine, _directory) = engine();
    let (a, _b) = Engine::pair(engine.join());
    let socket = a.socket();
    assert_eq!(
        (socket.options().linger(), socket.datagrams().segment()),
        (None, 0)
    );
    for seconds in [0, 1, u16::MAX] {
        socket.options().set_linger(Some(seconds));
        assert_eq!(socket.options().linger(), Some(seconds.into()));
        socket.datagrams().set_segment(seconds);
        assert_eq!(socket.datagrams().segment(), seconds);
    }
    socket.options().set_linger(None);
    assert_eq!(socket.options().linger(), None);
}

#[test]
fn a_socket_knows_whether_its_program_asks_when_datagrams_came() {
    let (engine, _directory) = engine();
    let socket = Engine::open(engine.join(), SocketKind::Datagram);
    assert!(!socket.options().stamps_arrivals());
    for on in [true, false] {
        socket.options().note_stamps_arrivals(on);
        assert_eq!(socket.options().stamps_arrivals(), on);
    }
}

#[test]
fn the_engine_is_told_how_much_is_waited_for() {
    let (engine, _directory) = engine();
    let (a, _b) = Engine::pair(engine.join());
    let (socket, index) = (a.socket(), a.socket().id().index);
    assert_eq!(socket.options().low_water(), 1);
    socket.options().set_low_water(500).unwrap();
    assert_eq!(socket.options().low_water(), 500);
    engine.wait_until("the mark", |seen| {
        let mark = (index, OptionName::ReceiveLowWater, 500);
        seen.options.contains(&mark)
    });
    socket.options().set_low_water(0).unwrap();
    assert_eq!(socket.options().low_water(), 1);
}

/// It moves on with what is looked at, and back with what is read.
#[test]
fn looking_begins_where_it_was_told_to() {
    let (engine, _directory) = engine();
    let (a, b) = Engine::pair(engine.join());
    let socket = b.socket();
    a.write_all(b"0123456789").unwrap();
    let take = |len: usize, leave| {
        let mut bytes = vec![0; len];
        let mut recv = || {
            socket
                .receive_stream()
                .recv(&mut [IoSliceMut::new(&mut bytes)], leave)
        };
        let len = socket.wait(None, WaitLimit::ENDLESS, &mut recv).unwrap();
        bytes.truncate(len);
        bytes
    };
    assert_eq!(
        (socket.peek_offset().get(), take(3, true)),
        (None, b"012".to_vec())
    );
    socket.peek_offset().set(Some(2));
    assert_eq!(
        (take(3, true), socket.peek_offset().get()),
        (b"234".to_vec(), Some(5))
    );
    assert_eq!(
        (take(9, true), socket.peek_offset().get()),
        (b"56789".to_vec(), Some(10))
    );
    let none = socket
        .receive_stream()
        .recv(&mut [IoSliceMut::new(&mut [0; 3])], true);
    assert_eq!(none, Err(SocketError::WouldBlock));
    assert_eq!(
        (take(4, false), socket.peek_offset().get()),
        (b"0123".to_vec(), Some(6))
    );
    socket.peek_offset().set(Some(1));
    assert_eq!(
        (take(2, false), socket.peek_offset().get()),
        (b"45".to_vec(), Some(0))
    );
    assert_eq!(take(2, true), b"67");
    socket.peek_offset().set(None);
    assert_eq!(
        (take(2, true), socket.peek_offset().get()),
        (b"67".to_vec(), None)
    );
    // At its end there is no more to see, wherever looking begins.
    a.finish().unwrap();
    socket.peek_offset().set(Some(4));
    assert_eq!(take(3, true), b"");
    assert_eq!(socket.peek_offset().get(), Some(4));
}

/// An engine that speaks no more than this version.
fn of_version(newest: u16) -> (Engine, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let versions = Versions {
        newest,
        ..Versions::OURS
    };
    (Engine::of_release(directory.path(), versions), directory)
}

/// An engine that is not told of a mark makes no room for it.
#[test]
fn a_mark_that_the_engine_is_not_told_of_is_half_of_the_buffer_at_most() {
    for (version, expected) in [(13, 64 * 1024), (14, 1 << 20)] {
        let (engine, _directory) = of_version(version);
        let (a, _b) = Engine::pair(engine.join());
        a.socket().options().set_low_water(1 << 20).unwrap();
        assert_eq!(a.socket().options().low_water(), expected);
    }
}

/// What an engine would not heed it is not told.
#[test]
fn an_engine_is_told_what_its_version_has() {
    use OptionName as Name;
    let within = Duration::from_micros(1500);
    let rule = MessageRule::Delimiter(Delimiter::new(b"\r\n").unwrap());
    let all = [
        (14, Name::ReceiveLowWater, 500),
        (15, Name::ReceiveMessages, rule.encode()),
        (16, Name::ReceiveMessages, 0),
        (16, Name::ReceiveMessagesWithin, 2),
        (17, Name::AcceptOnData, 3),
        (21, Name::PortOf, 0),
    ];
    for version in [13, 14, 15, 16, 17, 20, 21, 22, 23, 24, 25] {
        let (engine, _directory) = of_version(version);
        let (a, b) = Engine::pair(engine.join());
        let socket = a.socket();
        socket.options().set_low_water(500).unwrap();
        socket.options().set_messages(Some(rule), None).unwrap();
        socket.options().set_messages(None, Some(within)).unwrap();
        socket
            .options()
            .set_accept_on_data(Some(2 * within))
            .unwrap();
        socket.options().take_port_of(b.socket()).unwrap();
        assert_eq!(socket.options().distinguishes_groups(), version >= 22);
        assert_eq!(socket.host().distinguishes_interfaces(), version >= 23);
        assert_eq!(socket.options().stamps_sent(), version >= 23);
        assert_eq!(socket.host().sends_unsummed(), version >= 24);
        assert_eq!(socket.host().binds_addresses_alone(), version >= 25);
        socket.options().set(Name::KeepCount, 9).unwrap();
        let (index, other) = (socket.id().index, b.socket().id().encode());
        let mut expected: Vec<_> = all
            .iter()
            .filter(|(since, ..)| *since <= version)
            .map(|(_, name, value)| (index, *name, *value))
            .collect();
        if let Some((_, Name::PortOf, value)) = expected.last_mut() {
            *value = other;
        }
        expected.push((index, Name::KeepCount, 9));
        engine.wait_until("the last", |seen| seen.options.last() == expected.last());
        assert_eq!(engine.seen.lock().unwrap().options, expected, "{version}");
    }
}

/// The next call may fill it: the engine has said by then in which buffers. Its answers here are too
/// short to be any, so that a call that waits for one fails.
#[test]
fn a_small_send_buffer_is_set_once_the_engine_has_answered() {
    let (engine, _directory) = engine();
    let host = engine.join();
    let (a, _b) = Engine::pair(host);
    let datagrams = Datagram::bind(host, Engine::address(0)).unwrap();
    *engine.behavior.answer.lock().unwrap() = Some(Vec::new());
    let (small, large) = (4608, 1 << 20);
    for (socket, name, value, expected) in [
        (a.socket(), OptionName::SendBuffer, large, Ok(())),
        (
            a.socket(),
            OptionName::SendBuffer,
            small,
            Err(SocketError::Broken),
        ),
        (a.socket(), OptionName::KeepIdle, 5, Ok(())),
        (datagrams.socket(), OptionName::SendBuffer, small, Ok(())),
    ] {
        assert_eq!(socket.options().set(name, value), expected, "{name:?}");
    }
}

/// The engine of these tests answers whatever it is asked with 104 bytes that count.
#[test]
fn what_the_engine_answers_is_read_where_it_stands() {
    let (engine, _directory) = engine();
    let (a, _b) = Engine::pair(engine.join());
    let socket = a.socket();
    for (room, len) in [(0, 0), (10, 10), (104, 104), (200, 104)] {
        let mut info = vec![0xff; room];
        assert_eq!(socket.queries().tcp_info(&mut info), Ok(len));
        assert!(info[..len].iter().copied().eq(0..len as u8));
        assert!(info[len..].iter().all(|byte| *byte == 0xff));
    }
    let number = |at: u8| Ok(u32::from_le_bytes(std::array::from_fn(|i| at + i as u8)));
    assert_eq!(
        (socket.queries().segment_size(), socket.queries().path_mtu()),
        (number(16), number(60))
    );
    assert_eq!(
        socket.queries().congestion(),
        Err(SocketError::Broken),
        "no such name"
    );
    // Of nothing that is under way it is not asked.
    assert_eq!(socket.queries().send_queue(), Ok(SendQueue::default()));
    let none = socket.queries().take_error_report(&mut []);
    assert_eq!(none, Err(SocketError::WouldBlock));
}

/// A size beyond what a stream may have is as much as that.
#[test]
fn the_engine_hears_of_options_in_their_order() {
    let (engine, _directory) = engine();
    let (a, _b) = Engine::pair(engine.join());
    let (socket, index) = (a.socket(), a.socket().id().index);
    let all = [
        (OptionName::SendBuffer, 1 << 40),
        (OptionName::ReceiveBuffer, 70_000),
        (OptionName::KeepIdle, 7),
    ];
    socket.options().set_all(all.into_iter()).unwrap();
    socket.options().set(OptionName::NoDelay, 1).unwrap();
    let reported = all.into_iter().chain([(OptionName::NoDelay, 1)]);
    let reported: Vec<_> = reported.map(|(name, value)| (index, name, value)).collect();
    engine.wait_until("all of them", |seen| seen.options == reported);
}

/// By one call or by several, what this side needs of an option is kept.
#[test]
fn a_socket_keeps_what_was_set_for_it() {
    use longshore_sockets::{host_bits, more_bits};
    let (engine, _directory) = engine();
    let (a, b) = Engine::pair(engine.join());
    for (socket, size) in [(a.socket(), 12_345), (b.socket(), 23_456)] {
        let options = [(OptionName::ReceiveBuffer, size)];
        socket.options().set_all(options.into_iter()).unwrap();
        assert_eq!(socket.receive_stream().limit(), size);
        let asks = || socket.more_bits() & more_bits::ASKS_FOR_ERRORS != 0;
        for name in [OptionName::ReceiveErrors, OptionName::ReceiveErrors6] {
            socket.clear_more_bits(more_bits::ASKS_FOR_ERRORS);
            socket.options().set(name, 0).unwrap();
            assert!(!asks());
            socket.options().set(name, 1).unwrap();
            assert!(asks());
        }
        for on in [true, false] {
            socket.options().set_cork(on).unwrap();
            assert_eq!(socket.host_bits() & host_bits::CORK != 0, on);
        }
    }
}
