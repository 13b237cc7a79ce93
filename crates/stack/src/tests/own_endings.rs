//! How connections between two sockets of the engine end, or do not come about: what the other
//! end is told when one goes, writes to one that is gone, or meets nobody or a rule.

use super::off_path::GEOMETRY;
use super::own_ends::{Own, flags};
use super::single::{CLIENT, Single};
use super::streams::append;
use crate::counters::EngineDrop;
use longshore_hostif::adapter::UnderWay;
use longshore_hostif::{Completion, EdgeFlags, OptionName, Request, SocketId, SocketKind};
use std::net::SocketAddr;

const REFUSED: u16 = 111;
const RESET: u16 = 104;
const BROKEN_PIPE: u16 = 32;

/// What one end does when it goes, and what the other sees of it.
#[test]
fn how_one_end_goes_the_other_is_told() {
    struct Case {
        name: &'static str,
        /// The server has written something that the client does not read.
        unread: bool,
        /// The server has said that it writes no more.
        fin: bool,
        linger: Option<u32>,
        dead: Option<u16>,
    }
    let cases = [
        ("as ever", false, false, None, None),
        ("with something unread", true, false, None, Some(RESET)),
        ("without lingering", false, false, Some(0), Some(RESET)),
        ("after the other's end", false, true, None, None),
        ("reset after the other's end", true, true, None, Some(RESET)),
    ]
    .map(|(name, unread, fin, linger, dead)| Case {
        name,
        unread,
        fin,
        linger,
        dead,
    });
    for case in cases {
        let mut own = Own::new();
        let (client, server, before) = (own.client, own.server, own.sockets());
        let edge = own.writes(client, 0, b"bye");
        if case.unread {
            own.writes(server, 0, b"wait");
        }
        if case.fin {
            let written = if case.unread { 4 } else { 0 };
            own.says(server, written, 0, EdgeFlags::SHUT_WR);
        }
        own.reported();
        own.closes(client, (edge, 0), case.linger);
        let reported = own.reported().1.expect(case.name);
        assert_eq!(reported.rcv_edge, 3, "{}", case.name);
        let is_dead = reported.flags.contains(EdgeFlags::DEAD);
        assert_eq!(
            is_dead.then_some(reported.errno),
            case.dead,
            "{}",
            case.name
        );
        let ended = reported.flags.contains(EdgeFlags::PEER_FIN);
        assert_eq!(ended, case.dead.is_none(), "{}", case.name);
        assert_eq!(own.reads(server, 0, 3), b"bye", "it is there all the same");
        assert_eq!(own.sockets(), before - 1, "{}", case.name);
        // And then the other goes.
        own.closes(server, (0, 3), None);
        assert_eq!(own.sockets(), before - 2, "{}", case.name);
        assert_eq!(own.single.stack.endpoints.demux.flows(), 0);
    }
}

/// What a program asks that has written up to `edge`, and urgently so.
fn urgent(socket: SocketId, edge: u64) -> Request {
    Request::Urgent {
        socket,
        snd_edge: edge,
        rcv_consumed: 0,
    }
}

/// What was said before a connection is reset is passed on before, be it in the same turn: bytes,
/// the end, and which of them is urgent.
#[test]
fn what_was_said_before_a_reset_in_the_same_turn_is_passed_on() {
    for (unread, linger) in [(false, Some(0)), (true, None), (true, Some(0))] {
        let mut own = Own::new();
        let (client, server) = (own.client, own.server);
        if unread {
            own.writes(server, 0, b"wait");
            own.reported();
        }
        let edge = own.single.write(client, 0, b"bye");
        own.single.ask(0, &urgent(client, edge));
        own.single.says(client, edge, 0, EdgeFlags::SHUT_WR);
        own.closes(client, (edge, 0), linger);
        let reported = own.reported().1.expect("the other end is told");
        assert_eq!((reported.rcv_edge, reported.rcv_urgent), (3, 3));
        assert!(reported.flags.contains(EdgeFlags::PEER_FIN));
        assert_eq!(reported.errno, BROKEN_PIPE);
    }
}

/// Both halves of an end are shut down in the turn in which the other end has sent: what was sent
/// before is there to be read, and what is sent after it is answered by a reset.
#[test]
fn what_was_sent_before_both_halves_are_shut_in_the_same_turn_comes() {
    let both = EdgeFlags::SHUT_RD | EdgeFlags::SHUT_WR;
    for steps in [
        vec![both],
        vec![EdgeFlags::SHUT_RD, EdgeFlags::SHUT_WR],
        vec![EdgeFlags::SHUT_WR, EdgeFlags::SHUT_RD],
    ] {
        let mut own = Own::new();
        let (client, server) = (own.client, own.server);
        let edge = own.single.write(client, 0, b"bye");
        for shut in &steps {
            own.single.says(server, 0, 0, *shut);
        }
        own.single.turn();
        let (of_client, of_server) = own.reported();
        assert_eq!(of_server.expect("bytes have come").rcv_edge, 3, "{steps:?}");
        assert!(!flags(of_server).contains(EdgeFlags::DEAD), "{steps:?}");
        assert!(!flags(of_client).contains(EdgeFlags::DEAD), "{steps:?}");
        own.writes(client, edge, b"more");
        assert!(flags(own.reported().0).contains(EdgeFlags::DEAD));
    }
}

/// What the other end holds back was not sent before: it is not there to be read, and is answered by a reset
/// as it comes.
#[test]
fn what_is_held_back_comes_after_both_halves_are_shut() {
    let mut own = Own::new();
    let (client, server) = (own.client, own.server);
    let edge = append(&own.single.arena, client.index, 0, b"held back");
    own.says(client, edge, 0, EdgeFlags::MORE);
    own.says(server, 0, 0, EdgeFlags::SHUT_RD | EdgeFlags::SHUT_WR);
    own.single.turn();
    let of_server = own.reported().1;
    assert!(of_server.is_none_or(|edges| edges.rcv_edge == 0));
    (0..2).for_each(|_| own.single.turn_after(300_000));
    let (of_client, of_server) = own.reported();
    assert!(flags(of_client).contains(EdgeFlags::DEAD));
    assert_eq!(
        of_server.map(|edges| (edges.rcv_edge, edges.errno)),
        Some((0, RESET))
    );
}

/// Of two urgent bytes in one turn the receiver is told one after the other: who stands at the first
/// passes it as the second comes.
#[test]
fn urgent_bytes_of_one_turn_are_told_one_after_the_other() {
    let mut own = Own::new();
    let (client, server) = (own.client, own.server);
    own.reported();
    for edge in 1..=3 {
        append(&own.single.arena, client.index, edge - 1, b"u");
        own.single.ask(0, &urgent(client, edge));
    }
    own.single.turn();
    let told = own.single.reported();
    let marks: Vec<_> = told
        .iter()
        .filter_map(|one| match one {
            Completion::Edges { socket, edges } if *socket == server => {
                Some((edges.rcv_edge, edges.rcv_urgent))
            }
            _ => None,
        })
        .collect();
    assert_eq!(marks, [(1, 1), (2, 2), (3, 3)]);
}

/// Both say that they send no more, and one closes without lingering, in one turn: there is nothing to
/// be reset.
#[test]
fn what_both_end_in_the_same_turn_is_not_reset() {
    for client_first in [true, false] {
        let mut own = Own::new();
        let (client, server) = (own.client, own.server);
        let edge = own.single.write(client, 0, b"bye");
        let mut ends = [(client, edge), (server, 0)];
        if !client_first {
            ends.reverse();
        }
        for (end, edge) in ends {
            own.single.says(end, edge, 0, EdgeFlags::SHUT_WR);
        }
        own.closes(client, (edge, 0), Some(0));
        let reported = own.reported().1.expect("the other end is told");
        assert_eq!(reported.rcv_edge, 3);
        assert!(reported.flags.contains(EdgeFlags::PEER_FIN));
        assert!(!reported.flags.contains(EdgeFlags::DEAD));
    }
}

/// After both have said that they send no more, there is no connection to be reset.
#[test]
fn what_both_have_ended_is_not_reset() {
    for linger in [None, Some(0)] {
        let mut own = Own::new();
        let (client, server) = (own.client, own.server);
        own.writes(server, 0, b"wait");
        own.says(server, 4, 0, EdgeFlags::SHUT_WR);
        own.says(client, 0, 0, EdgeFlags::SHUT_WR);
        assert!(flags(own.reported().1).contains(EdgeFlags::PEER_FIN));
        own.closes(client, (0, 0), linger);
        assert!(
            !flags(own.reported().1).contains(EdgeFlags::DEAD),
            "{linger:?}"
        );
    }
}

/// The states that operators see (`longshore ss`) are those that TCP would be in.
#[test]
fn ends_stand_as_those_of_tcp_would() {
    let mut own = Own::new();
    let (client, server) = (own.client, own.server);
    let states = |own: &Own| {
        let of = |end: SocketId| {
            let mut all = own.single.stack.status().sockets(0);
            let status = all.find(|(_, s)| s.block == Some(end.index));
            status.map(|(_, s)| s.state)
        };
        [client, server].map(of)
    };
    assert_eq!(states(&own), [Some("ESTAB"); 2]);
    own.says(client, 0, 0, EdgeFlags::SHUT_WR);
    own.reported();
    assert_eq!(states(&own), [Some("FIN-WAIT-2"), Some("CLOSE-WAIT")]);
    own.closes(client, (0, 0), None);
    own.reported();
    assert_eq!(states(&own), [None, Some("CLOSE-WAIT")]);
    own.writes(server, 0, b"hello?");
    own.reported();
    assert_eq!(states(&own), [None, Some("CLOSED")]);
}

/// What becomes of an end that its program has closed is told to nobody.
#[test]
fn who_has_closed_is_told_nothing() {
    let mut own = Own::with(&[], &[(OptionName::SendBuffer, 160_000)]);
    let (client, server) = (own.client, own.server);
    let edge = own.writes(client, 0, &vec![1; 100_000]);
    own.reported();
    own.closes(client, (edge, 0), None);
    assert!(own.reported().0.is_none());
    // All of it is read, or the other end goes.
    own.says(server, 0, 50_000, EdgeFlags::empty());
    assert!(own.reported().0.is_none());
    own.closes(server, (0, 50_000), Some(0));
    own.single.turn();
    assert!(own.reported().0.is_none());
    assert_eq!(own.sockets(), 1);
}

/// What is written to an end that is gone is answered by a reset: EPIPE where that had said that
/// it writes no more.
#[test]
fn who_writes_to_an_end_that_is_gone_is_reset() {
    let mut own = Own::new();
    let (client, server) = (own.client, own.server);
    own.closes(client, (0, 0), None);
    own.reported();
    own.writes(server, 0, b"hello?");
    let reported = own.reported().1.expect("a reset");
    assert!(reported.flags.contains(EdgeFlags::DEAD));
    assert_eq!(reported.errno, BROKEN_PIPE);

    // The same where both halves of it are shut down, which has not closed.
    let mut own = Own::new();
    let (client, server) = (own.client, own.server);
    own.says(client, 0, 0, EdgeFlags::SHUT_RD);
    own.writes(server, 0, b"a");
    assert!(
        !flags(own.reported().1).contains(EdgeFlags::DEAD),
        "one half"
    );
    own.says(client, 0, 0, EdgeFlags::SHUT_WR);
    own.reported();
    // Though the client has been looked at in this turn before.
    own.single.says(client, 0, 0, EdgeFlags::empty());
    own.writes(server, 1, b"b");
    own.single.turn();
    let (to_client, to_server) = own.reported();
    assert_eq!(to_server.map(|edges| edges.errno), Some(BROKEN_PIPE));
    assert_eq!(to_client.map(|edges| edges.errno), Some(RESET));
}

#[test]
fn where_nobody_listens_a_connection_is_refused() {
    let mut single = Single::new(GEOMETRY, 1);
    let client = single.open(SocketKind::Stream);
    single.connect_to_own(client);
    single.turn();
    let reported = single.told_of(client).expect("it is refused");
    assert!(reported.flags.contains(EdgeFlags::DEAD));
    assert_eq!(reported.errno, REFUSED);
    assert_eq!(single.stack.counters.tcp.active_opens, 0);
    assert_eq!(single.dropped(EngineDrop::AccessDenied.name()), 0);
}

/// By the rules for who may come, which hold for the engine's own programs, too.
#[test]
fn a_connection_that_the_rules_deny_is_refused_and_counted() {
    let mut single = Single::new(GEOMETRY, 1);
    single.listen();
    single.stack.settings.access.accept.0 = vec!["deny tcp any port 80".parse().unwrap()];
    let client = single.open(SocketKind::Stream);
    single.connect_to_own(client);
    single.turn();
    assert_eq!(
        single.told_of(client).map(|reported| reported.errno),
        Some(REFUSED)
    );
    assert_eq!(single.dropped(EngineDrop::AccessDenied.name()), 1);
}

/// A connection that is over has no port any more that nobody has chosen, though its sockets are
/// still there.
#[test]
fn what_is_over_has_no_port() {
    for is_reset in [false, true] {
        let mut own = Own::new();
        let (session, client) = (own.single.session(), own.client);
        let port = |own: &Own| {
            let key = own.single.stack.endpoints.key_of(session, client)?;
            Some(
                own.single
                    .stack
                    .endpoints
                    .sockets
                    .get(key)?
                    .bound
                    .local()?
                    .port(),
            )
        };
        let port = port(&own).expect("the client has one");
        let is_free = |own: &mut Own| {
            let other = own.single.open(SocketKind::Stream);
            own.single.bind_to(other, port);
            own.single.turn();
            let is_free = own.single.stack.late_binds().take().is_empty();
            own.single.close(other);
            own.single.turn();
            is_free
        };
        assert!(!is_free(&mut own));
        own.says(client, 0, 0, EdgeFlags::SHUT_WR);
        own.single.turn();
        assert!(!is_free(&mut own), "the other half goes on");
        if is_reset {
            let close = Request::Close {
                socket: own.server,
                snd_edge: 0,
                rcv_consumed: 0,
                linger: Some(0),
            };
            own.single.ask(0, &close);
        } else {
            own.says(own.server, 0, 0, EdgeFlags::SHUT_WR);
        }
        own.single.turn();
        assert!(own.single.stack.endpoints.key_of(session, client).is_some());
        assert!(is_free(&mut own), "reset: {is_reset}");
    }
}

/// What the other end is told in a later turn is under way until then: a host takes what was handled
/// for what can be seen.
#[test]
fn what_is_told_later_is_under_way() {
    const SHUT: EdgeFlags = EdgeFlags::SHUT_WR;
    let close = |own: &mut Own, linger| {
        let request = Request::Close {
            socket: own.server,
            snd_edge: 0,
            rcv_consumed: 0,
            linger,
        };
        own.single.ask(0, &request);
    };
    let all = [false, true];
    let cases = all.into_iter().flat_map(|apart| {
        let ends = [(None, true), (Some(0), true), (None, false)];
        ends.into_iter().flat_map(move |(linger, closes)| {
            all.into_iter()
                .map(move |first| (apart, first, linger, closes))
        })
    });
    for (apart, client_is_first, linger, closes) in cases {
        let case = (apart, client_is_first, linger, closes);
        let mut own = Own::new();
        let (client, server) = (own.client, own.server);
        if client_is_first {
            own.single.says(client, 0, 0, SHUT);
            if apart {
                own.single.turn();
            }
        }
        match closes {
            true => close(&mut own, linger),
            false => own.single.says(server, 0, 0, SHUT),
        }
        if !client_is_first {
            if apart {
                own.single.turn();
            }
            own.single.says(client, 0, 0, SHUT);
        }
        let mut turns = 0;
        loop {
            own.single.turn();
            turns += 1;
            let ended = EdgeFlags::PEER_FIN | EdgeFlags::DEAD;
            if flags(own.reported().0).intersects(ended) {
                break;
            }
            let stack = &own.single.stack;
            let under_way = stack
                .endpoints
                .sockets
                .under_way(!stack.link().output.own.is_empty());
            assert_ne!(under_way, UnderWay::Nothing, "{case:?}");
            assert!(turns < 3, "{case:?}");
        }
    }
}

/// A host that connects a socket which it has closed, before the engine has forgotten it, gets nothing
/// that stays: no connection, and no SYN that is sent again.
#[test]
fn what_is_closed_is_not_connected() {
    let mut own = Own::new();
    let (client, before) = (own.client, own.sockets());
    let connect = Request::Connect {
        socket: client,
        tag: 1,
        waiter: None,
        peer: SocketAddr::new(CLIENT.into(), 80).into(),
    };
    own.single.reset(client);
    own.single.ask(0, &connect);
    own.single.turn();
    own.single.sent();
    (0..3).for_each(|_| own.single.turn_after(1_100_000));
    assert!(own.single.sent().is_empty());
    assert_eq!(own.sockets(), before - 1);
}
