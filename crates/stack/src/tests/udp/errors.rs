//! What the program of a datagram socket is told of errors.

use super::*;
use crate::tests::questions::asks;
use crate::tests::single::NARROW;
use longshore_hostif::{ErrorReport, Query};

/// An ICMP error about what the socket sent.
fn error(udp: &mut Udp, code: u8) {
    let ports = [PORT.to_be_bytes(), PEER_PORT.to_be_bytes()].concat();
    let quoted = [&ports[..], &[0, 18, 0, 0], b"quoted bytes"].concat();
    udp.single.error_about(protocol::UDP, CLIENT, &quoted, code);
    udp.single.turn();
}

/// A program with a peer is told of errors that do not pass by themselves; one that asks is told
/// of all, and finds reports, as many as are kept; others are told of none (ip(7), udp(7)).
#[test]
fn errors_are_told_to_who_has_a_peer_or_asks() {
    const REFUSED: u32 = 111;
    let soft = |edges: Option<Edges>| {
        edges.is_some_and(|edges| edges.flags.contains(EdgeFlags::SOFT_ERROR))
    };
    for (has_peer, asks, reported, reports) in [
        (false, false, false, 0),
        (true, false, true, 0),
        (false, true, true, 1),
        (true, true, true, 1),
    ] {
        let mut udp = Udp::new();
        if has_peer {
            udp.connects(Udp::peer());
        }
        if asks {
            udp.single.set(udp.socket, OptionName::ReceiveErrors, 1);
        }
        udp.single.discard_completions();
        error(&mut udp, unreachable::PORT);
        let block = |udp: &Udp| {
            let block = udp.single.arena.block(udp.socket.index);
            let load = |word: &std::sync::atomic::AtomicU32| word.load(Ordering::Relaxed);
            (load(&block.errno), load(&block.errors))
        };
        assert_eq!(
            soft(udp.single.told_of(udp.socket)),
            reported,
            "{has_peer} {asks}"
        );
        assert_eq!(block(&udp), (if reported { REFUSED } else { 0 }, reports));
        if !asks {
            continue;
        }
        // Sixteen are kept, and then gone with the wish for them.
        (0..20).for_each(|_| error(&mut udp, unreachable::PORT));
        assert_eq!(block(&udp).1, 16);
        assert_eq!(udp.single.dropped(EngineDrop::ErrorQueueFull.name()), 5);
        udp.single.set(udp.socket, OptionName::ReceiveErrors, 0);
        udp.single.turn();
        assert_eq!(block(&udp).1, 0);
    }
    // A network that is not reached now may be later.
    let mut udp = Udp::new();
    udp.connects(Udp::peer());
    udp.single.discard_completions();
    error(&mut udp, 0);
    assert!(!soft(udp.single.told_of(udp.socket)));
}

/// Reports are taken one by one, and each leaves the next one's error behind.
#[test]
fn reports_are_taken_the_oldest_first() {
    let mut udp = Udp::new();
    udp.single.set(udp.socket, OptionName::ReceiveErrors, 1);
    error(&mut udp, unreachable::PORT);
    error(&mut udp, 1);
    let take = |udp: &mut Udp| {
        udp.single.discard_completions();
        udp.single.ask(
            0,
            &Request::Query {
                socket: udp.socket,
                tag: 6,
                waiter: None,
                query: longshore_hostif::Query::Error,
            },
        );
        udp.single.turn();
        let len = udp
            .single
            .reported()
            .iter()
            .find_map(|completion| match completion {
                Completion::Done { tag: 6, value, .. } => Some(*value),
                _ => None,
            });
        let block = udp.single.arena.block(udp.socket.index);
        let errno = block.errno.load(Ordering::Relaxed);
        (
            len.expect("an answer"),
            errno,
            block.errors.load(Ordering::Relaxed),
        )
    };
    let (len, errno, left) = take(&mut udp);
    assert!(len > longshore_hostif::ERROR_HEADER as u64);
    assert_eq!((errno, left), (113, 1));
    let (_, errno, left) = take(&mut udp);
    assert_eq!((errno, left), (0, 0));
    assert_eq!(take(&mut udp).0, 0, "there is none");
}

/// ip(7): a report has where the datagram went, and what was quoted of its payload.
#[test]
fn a_report_has_what_was_quoted_of_the_datagram() {
    let mut udp = Udp::new();
    udp.single.set(udp.socket, OptionName::ReceiveErrors, 1);
    error(&mut udp, unreachable::PORT);
    let (errno, bytes) = asks(&mut udp.single, udp.socket, Query::Error);
    let (report, quoted) = ErrorReport::decode(&bytes).expect("a report");
    assert_eq!((errno, report.errno, report.to), (0, 111, Udp::peer()));
    assert_eq!(report.offender, Some(CLIENT.into()));
    assert!(quoted.starts_with(b"quoted bytes"), "{quoted:?}");
}

/// Linux: whoever asks for errors finds a report of a datagram that was too long for its path, which
/// is no pending error. It says the port to which the socket is connected.
#[test]
fn a_datagram_that_is_too_long_is_reported_to_who_asks() {
    const MESSAGE_SIZE: u16 = 90;
    for (wants_reports, has_peer) in [(false, false), (true, false), (true, true)] {
        let mut udp = Udp::new();
        if has_peer {
            udp.connects(Udp::peer());
        }
        let wanted = u64::from(wants_reports);
        udp.single
            .set(udp.socket, OptionName::ReceiveErrors, wanted);
        udp.single.discard_completions();
        let to = SocketAddr::new(CLIENT.into(), 77);
        let too_long = Request::TooLong {
            socket: udp.socket,
            tag: 5,
            waiter: None,
            to: to.into(),
        };
        udp.single.ask(0, &too_long);
        udp.single.turn();
        assert_eq!(udp.single.answer(), Some(0));
        let block = udp.single.arena.block(udp.socket.index);
        let told = [&block.errno, &block.errors].map(|word| word.load(Ordering::Relaxed));
        assert_eq!(told, [0, u32::from(wants_reports)], "{has_peer}");
        let (_, bytes) = asks(&mut udp.single, udp.socket, Query::Error);
        let report = ErrorReport::decode(&bytes);
        assert_eq!(report.is_some(), wants_reports, "{has_peer}");
        let Some((report, quoted)) = report else {
            continue;
        };
        let port = if has_peer { PEER_PORT } else { 0 };
        assert_eq!((report.errno, report.info), (MESSAGE_SIZE, MTU as u32));
        assert_eq!(report.to, SocketAddr::new(CLIENT.into(), port));
        assert!(report.offender.is_none() && quoted.is_empty());
    }
}

/// What was not sent since it may not be cut is a pending error, and a report to who asks: that is
/// taken, and the error stays.
#[test]
fn the_error_of_a_datagram_that_is_too_long_outlives_its_report() {
    const MESSAGE_SIZE: u32 = 90;
    for asked in [false, true] {
        let mut udp = Udp::new();
        udp.single
            .set(udp.socket, OptionName::ReceiveErrors, asked.into());
        udp.sends(|record| record.path_mtu = PathMtu::Do, MTU);
        let told = |udp: &Udp| {
            let block = udp.single.arena.block(udp.socket.index);
            [&block.errno, &block.errors].map(|word| word.load(Ordering::Relaxed))
        };
        assert_eq!(told(&udp), [MESSAGE_SIZE, asked.into()]);
        let (_, bytes) = asks(&mut udp.single, udp.socket, Query::Error);
        let report = ErrorReport::decode(&bytes);
        assert_eq!(report.is_some(), asked);
        assert_eq!(told(&udp), [MESSAGE_SIZE, 0]);
    }
}

/// A report of what was too long says what its path takes, as far as that is known.
#[test]
fn a_report_of_what_was_too_long_says_what_its_path_takes() {
    let mut udp = Udp::new();
    error(&mut udp, unreachable::FRAGMENTATION_NEEDED);
    udp.single.set(udp.socket, OptionName::ReceiveErrors, 1);
    let too_long = Request::TooLong {
        socket: udp.socket,
        tag: 5,
        waiter: None,
        to: Udp::peer().into(),
    };
    udp.single.ask(0, &too_long);
    udp.single.turn();
    let (_, bytes) = asks(&mut udp.single, udp.socket, Query::Error);
    let (report, _) = ErrorReport::decode(&bytes).expect("a report");
    assert_eq!(report.info, u32::from(NARROW));
}
