//! What is made of the engine's answers, and of those that cannot be.

use super::*;
use crate::testing::Engine;
use crate::testing::fixture::{engine, socket_in};
use crate::{Listener, Stream};
use longshore_hostif::{SocketKind, SocketState};

/// From now on the engine answers this.
fn answers(engine: &Engine, bytes: &[u8]) {
    *engine.behavior.answer.lock().unwrap() = Some(bytes.to_vec());
}

#[test]
fn a_congestion_control_is_one_that_is_known() {
    let (engine, host, _directory) = engine();
    let (a, _b) = Engine::pair(host);
    for name in longshore_hostif::CONGESTION_NAMES {
        answers(&engine, name.as_bytes());
        assert_eq!(a.socket().queries().congestion(), Ok(name));
    }
    for wrong in [&b""[..], b"cubi", b"cubic2"] {
        answers(&engine, wrong);
        let name = a.socket().queries().congestion();
        assert_eq!(name, Err(SocketError::Broken));
    }
}

/// RFC 9293, 3.3.2: in TIME-WAIT and after it nothing is left but what is late.
#[test]
fn a_connection_is_gone_when_both_ends_of_it_are_acknowledged() {
    let (engine, host, _directory) = engine();
    let (a, _b) = Engine::pair(host);
    for state in 0..=12 {
        answers(&engine, &[state; INFO_BYTES]);
        let is_gone = a.socket().queries().is_gone();
        assert_eq!(is_gone, matches!(state, 6 | 7), "{state}");
    }
}

#[test]
fn what_is_too_short_to_have_a_number_has_none() {
    let (engine, host, _directory) = engine();
    let (a, _b) = Engine::pair(host);
    let queries = a.socket().queries();
    let info: Vec<u8> = (0..INFO_BYTES as u8).collect();
    answers(&engine, &info[..INFO_BYTES - 1]);
    let broken = Err(SocketError::Broken);
    assert_eq!(
        (queries.segment_size(), queries.path_mtu()),
        (broken, broken)
    );
    answers(&engine, &info);
    let number = |at: u8| Ok(u32::from_le_bytes([at, at + 1, at + 2, at + 3]));
    assert_eq!(queries.segment_size(), number(16));
    assert_eq!(queries.path_mtu(), number(60));
}

#[test]
fn a_datagram_sockets_path_is_that_to_its_peer() {
    let (engine, host, _directory) = engine();
    let socket = Engine::open(host, SocketKind::Datagram);
    answers(&engine, &[]);
    let none = Err(SocketError::Refused(Errno::NOTCONN));
    assert_eq!(socket.queries().path_mtu(), none);
    answers(&engine, &1400_u32.to_ne_bytes());
    assert_eq!(socket.queries().path_mtu(), Ok(1400));
}

/// Linux shows how many connections wait in tcpi_unacked.
#[test]
fn a_listener_says_how_many_connections_wait() {
    let (engine, host, _directory) = engine();
    let listener = Listener::bind(host, Engine::address(0), 8).unwrap();
    let to = listener.local().unwrap();
    let _streams = [(); 3].map(|()| Stream::connect(host, to).unwrap());
    engine.wait_until("they wait", |_| {
        host.messages().drain_if_free();
        listener.socket().block().rcv.held() == 3 * ACCEPT_RECORD as u64
    });
    let mut info = [9; INFO_BYTES];
    let got = listener.socket().queries().tcp_info(&mut info);
    assert_eq!(got, Ok(INFO_BYTES));
    let as_answered = |range: std::ops::Range<u8>| {
        info[range.start.into()..range.end.into()]
            .iter()
            .copied()
            .eq(range)
    };
    assert!(as_answered(0..24) && as_answered(28..64));
    assert_eq!(info[24..28], 3_u32.to_le_bytes());
    // One that asks for less than that gets less.
    let mut short = [0; 26];
    assert_eq!(listener.socket().queries().tcp_info(&mut short), Ok(26));
    assert!(short.iter().copied().eq(0..26));
}

#[test]
fn what_is_under_way_is_asked_for_if_there_may_be_some() {
    let (engine, host, _directory) = engine();
    let socket = socket_in(host, SocketKind::Stream, SocketState::Connected);
    let queue = SendQueue {
        unacked: 70,
        unsent: 7,
    };
    answers(&engine, &queue.encode());
    let ask = || socket.queries().send_queue();
    assert_eq!(ask(), Ok(SendQueue::default()), "nothing was written");
    socket.block().set_flags(BlockFlags::SHUT_WR);
    assert_eq!(ask(), Ok(queue), "a FIN counts");
    socket.block().clear_flags(BlockFlags::SHUT_WR);
    socket.block().snd.edge.store(100, Ordering::Relaxed);
    assert_eq!(ask(), Ok(queue));
    for len in [SEND_QUEUE - 1, SEND_QUEUE + 1] {
        answers(&engine, &vec![1; len]);
        assert_eq!(ask(), Err(SocketError::Broken), "{len}");
    }
    // A signal handler that interrupts one who asks.
    let _asks = host.query.enter().unwrap();
    let as_told = SendQueue {
        unacked: 100,
        unsent: 0,
    };
    assert_eq!(ask(), Ok(as_told));
}

#[test]
fn an_error_report_is_copied_as_far_as_there_is_room() {
    let (engine, host, _directory) = engine();
    let socket = Engine::open(host, SocketKind::Datagram);
    let report = ErrorReport {
        errno: 111,
        kind: 3,
        code: 3,
        info: 0,
        to: Engine::address(7),
        offender: None,
        stamp: None,
    };
    let mut bytes = report.encode().to_vec();
    bytes.extend_from_slice(b"quoted");
    answers(&engine, &bytes);
    let take = |one: &mut [u8], two: &mut [u8]| {
        let parts = &mut [IoSliceMut::new(one), IoSliceMut::new(two)];
        socket.queries().take_error_report(parts)
    };
    let (mut one, mut two) = ([b'-'; 4], [b'-'; 4]);
    let none = Err(SocketError::WouldBlock);
    assert_eq!(
        take(&mut one, &mut two),
        none,
        "the engine has told of none"
    );
    socket.block().errors.store(1, Ordering::Relaxed);
    assert_eq!(take(&mut one, &mut two), Ok((report, 6)));
    assert_eq!((&one, &two), (b"quot", b"ed--"));
    assert_eq!(take(&mut one[..1], &mut two[..2]), Ok((report, 6)));
    assert_eq!(two, *b"uo--");
    answers(&engine, &[]);
    assert_eq!(take(&mut one, &mut two), none, "another has taken it");
    answers(&engine, &bytes[..9]);
    assert_eq!(take(&mut one, &mut two), Err(SocketError::Broken));
}
