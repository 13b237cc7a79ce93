//! Connections that come in, and what keeps them out: ports where nobody listens, rules, queues,
//! bounds of users, memory and sockets that there are not. What the peer sees of it, what is
//! counted, and that nothing is left.

use super::off_path::{GEOMETRY, accepted};
use super::single::{CLIENT, FIRST_PORT, ISN, SERVER, Single, header};
use super::streams::copy_out;
use crate::Account;
use crate::counters::EngineDrop;
use crate::host::{Defaults, Host};
use crate::session::FEW_CHUNKS;
use longshore_hostif::{
    ACCEPT_RECORD, AcceptRecord, EdgeFlags, Geometry, OptionName, SocketId, SocketKind,
};
use longshore_tcp::{Config, DropReason, EcnMode, FastOpenKey, Instant, Overflow, SynCookies};
use longshore_testbed::packets;
use longshore_wire::SeqNumber;
use longshore_wire::checksum::Partial;
use longshore_wire::ipv4::HEADER_LEN;
use longshore_wire::tcp::{TcpFlags, TcpHeader, Timestamps};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

const SYN: TcpFlags = TcpFlags::SYN;
const ACK: TcpFlags = TcpFlags::ACK;

/// The only answer, if there is one.
fn answer(single: &mut Single) -> Option<TcpHeader> {
    single.turn();
    let mut sent = single.sent();
    assert!(sent.len() <= 1, "{sent:?}");
    sent.pop()
}

/// RFC 9293 section 3.10.7: what comes to no connection is reset, but for resets.
#[test]
fn what_comes_to_nobody_is_reset() {
    let to = |port: u16, flags: TcpFlags| {
        let mut header = header(0, flags, ISN, SeqNumber(99));
        header.dst_port = port;
        header
    };
    // Where nobody listens, and where somebody does.
    let closed = DropReason::NoConnection.name();
    let listens = DropReason::ListenNoSyn.name();
    let cases = [
        (to(81, SYN), Some((SeqNumber(0), ISN.add(1), true)), closed),
        (to(81, ACK), Some((SeqNumber(99), ISN, false)), closed),
        (to(81, SYN | ACK), Some((SeqNumber(99), ISN, false)), closed),
        (to(81, TcpFlags::RST), None, closed),
        (to(80, ACK), Some((SeqNumber(99), ISN, false)), listens),
        (
            to(80, SYN | ACK),
            Some((SeqNumber(99), ISN, false)),
            listens,
        ),
        (to(80, TcpFlags::RST), None, listens),
        (to(80, TcpFlags::FIN), None, listens),
        (to(80, SYN | TcpFlags::FIN), None, listens),
    ];
    for (segment, expected, reason) in cases {
        let mut single = Single::new(GEOMETRY, 1);
        single.listen();
        single.turn();
        single.segment(&segment, &[]);
        let sent = answer(&mut single);
        match expected {
            Some((seq, ack, acknowledges)) => {
                let reset = sent.expect("a reset");
                assert!(reset.flags.contains(TcpFlags::RST), "{segment:?}");
                assert_eq!(reset.seq, seq, "{segment:?}");
                assert_eq!(reset.flags.contains(ACK), acknowledges, "{segment:?}");
                assert!(!acknowledges || reset.ack == ack, "{segment:?}");
                assert_eq!(
                    (reset.src_port, reset.dst_port),
                    (segment.dst_port, FIRST_PORT)
                );
            }
            None => assert_eq!(sent, None, "{segment:?}"),
        }
        assert_eq!(single.dropped(reason), 1, "{segment:?}");
        assert_eq!(single.stack.status().half_open_count(), 0);
    }
}

/// RFC 7323 section 7.1: timestamps tell nobody for how long the machine runs, and each peer has its own.
#[test]
fn timestamps_begin_elsewhere_for_each_peer() {
    let mut single = Single::new(GEOMETRY, 1);
    single.listen();
    single.turn();
    let peers = [CLIENT, Ipv4Addr::new(10, 0, 0, 3)];
    let mut answered = |from: Ipv4Addr, number: u16| {
        let mut syn = header(number, TcpFlags::SYN, ISN, SeqNumber(0));
        syn.options.timestamps = Some(Timestamps { val: 1, echo: 0 });
        let between = (from.into(), SERVER.into());
        single.frame_in(&packets::segment(between, &syn, &[]));
        let answer = single.sent().pop().expect("a SYN-ACK");
        answer.options.timestamps.expect("its own").val
    };
    let [one, other] = peers.map(|from| answered(from, 0));
    assert_ne!(one, other);
    assert_eq!(answered(CLIENT, 1), one);
}

/// A SYN-ACK that nobody answers is sent again, each time after twice as long, five times as on Linux;
/// then the peer is told that there is no connection. The stack wakes for that, and for nothing after it.
#[test]
fn a_syn_ack_is_sent_again_until_it_is_given_up() {
    let mut single = Single::new(GEOMETRY, 1);
    single.listen();
    single.turn();
    assert_eq!(single.stack.next_timeout(), None);
    // Also where there was another before.
    for _ in 0..2 {
        single.bring(0, SYN, SeqNumber(0));
        assert!(answer(&mut single).is_some());
        let (begun, mut again) = (single.now, Vec::new());
        while single.stack.status().half_open_count() != 0 {
            let next = single.stack.next_timeout().expect("it waits for an answer");
            let us = next.0.saturating_sub(single.now.0).max(1);
            single.turn_after(us);
            let sent = single.sent();
            again.extend(sent.iter().map(|header| {
                let after = single.now.since(begun) / 1_000_000;
                (after, header.flags.contains(TcpFlags::RST))
            }));
        }
        let times = [1, 3, 7, 15, 31, 63];
        assert_eq!(again, times.map(|after| (after, after == 63)));
        single.turn();
        assert_eq!(single.stack.next_timeout(), None);
    }
}

/// To send a SYN-ACK again is work, after which a turn looks for more; to wait for that is none.
#[test]
fn a_syn_ack_that_is_sent_again_is_work() {
    let mut single = Single::new(GEOMETRY, 1);
    single.listen();
    single.turn();
    single.bring(0, SYN, SeqNumber(0));
    for (us, is_work) in [(10_000, false), (1_000_000, true), (10_000, false)] {
        single.now = single.now.after_us(us);
        single.stack.begin_turn(single.now);
        assert_eq!(single.stack.handle_timeouts(), is_work, "{us}");
        single.turn();
    }
}

/// RFC 9293 section 3.10.7.4: in SYN-RECEIVED, an acknowledgment of what was not sent is reset, with the
/// number that it has, and the attempt goes on.
#[test]
fn an_acknowledgment_that_cannot_be_is_reset_while_half_open() {
    let mut single = Single::new(GEOMETRY, 1);
    let listener = single.listen();
    single.turn();
    single.bring(0, SYN, SeqNumber(0));
    let ack = answer(&mut single).expect("a SYN-ACK").seq.add(1);
    single.bring(0, ACK, ack.add(5));
    let reset = answer(&mut single).expect("a reset");
    assert_eq!((reset.flags, reset.seq), (TcpFlags::RST, ack.add(5)));
    assert_eq!(single.stack.status().half_open_count(), 1);
    single.bring(0, ACK, ack);
    single.turn();
    assert!(single.told_of(listener).is_some());
}

/// Accurate ECN: the peer is told how many of its bytes came with each codepoint, and with none.
#[test]
fn the_peer_is_told_which_of_its_bytes_were_marked() {
    for (codepoint, expected) in [
        (0, [1, 0, 1]),
        (1, [1, 0, 101]),
        (2, [101, 0, 1]),
        (3, [1, 100, 1]),
    ] {
        let mut single = Single::new(GEOMETRY, 1);
        single.stack.settings.ecn = EcnMode::from_number(5);
        single.listen();
        single.turn();
        let accurate = TcpFlags::AE | TcpFlags::CWR | TcpFlags::ECE;
        single.bring(0, SYN | accurate, SeqNumber(0));
        let ack = answer(&mut single).expect("a SYN-ACK").seq.add(1);
        // That the SYN-ACK came without a codepoint.
        single.bring(0, ACK | TcpFlags::CWR, ack);
        single.turn();
        single.sent();
        let data = header(0, ACK, ISN.add(1), ack);
        let between = (CLIENT.into(), SERVER.into());
        let mut packet = packets::segment(between, &data, &[7; 100]);
        packet[1] |= codepoint;
        packet[10..12].fill(0);
        let sum = Partial::of(&packet[..HEADER_LEN]).finish();
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        single.frame_in(&packet);
        single.turn_after(50_000);
        let acknowledgment = answer(&mut single).expect("an acknowledgment");
        let told = acknowledgment.options.accurate_ecn.expect("its counts");
        // What is left out is as it was at the beginning.
        let fields = [
            told.ect0.unwrap_or(1),
            told.ce.unwrap_or(0),
            told.ect1.unwrap_or(1),
        ];
        assert_eq!(fields, expected, "{codepoint}");
    }
}

/// A peer that the rules keep out sees nothing.
#[test]
fn whom_the_rules_deny_gets_no_answer() {
    let mut single = Single::new(GEOMETRY, 1);
    single.listen();
    single.stack.settings.access.accept.0 = vec!["deny tcp 10.0.0.0/24 port 80".parse().unwrap()];
    single.turn();
    single.bring(0, SYN, SeqNumber(0));
    assert_eq!(answer(&mut single), None);
    assert_eq!(single.dropped(EngineDrop::AccessDenied.name()), 1);
    assert_eq!(single.stack.status().half_open_count(), 0);
}

/// The record says between whom the connection is, what its send buffer holds, and who is told
/// of it; it is counted as what it is.
#[test]
fn a_record_says_whose_connection_it_is() {
    let mut single = Single::new(GEOMETRY, 1);
    let listener = single.listen();
    single.set(listener, OptionName::SendBuffer, 50_000);
    single.turn();
    let before = single.to_host().payload;
    let next = single.connect(3);
    single.turn();
    single.discard_completions();
    let mut record = [0; ACCEPT_RECORD];
    copy_out(&single.arena, listener.index, 0, &mut record);
    let record = AcceptRecord::decode(&record);
    let at = |ip: IpAddr, port| Some(SocketAddr::new(ip, port));
    assert_eq!(record.local.get(), at(SERVER.into(), 80));
    assert_eq!(record.peer.get(), at(CLIENT.into(), next.src_port));
    assert_eq!(record.send_limit, 50_000);
    let after = single.to_host().payload;
    assert_eq!(after.bytes - before.bytes, ACCEPT_RECORD as u64);
    assert_eq!(single.stack.counters.tcp.passive_opens, 1);
    let counted = single.stack.counters.tcp.passive_opens;
    single.connect(4);
    single.turn();
    assert_eq!(single.stack.counters.tcp.passive_opens, counted + 1);
}

/// More half-open connections than a listener has room for are answered by cookies, of which
/// nothing is kept; who brings one back is connected, with what it brings besides.
#[test]
fn beyond_its_half_open_connections_a_listener_answers_by_cookies() {
    const ROOM: u16 = 8;
    let mut single = Single::new(GEOMETRY, 1);
    let listener = single.bind(SocketKind::Stream, 80);
    single.listen_at(listener, ROOM.into());
    single.turn();
    for client in 0..ROOM {
        single.bring(client, SYN, SeqNumber(0));
        assert!(answer(&mut single).is_some());
    }
    assert_eq!(single.stack.counters.tcp.cookies_sent, 0);
    single.bring(ROOM, SYN, SeqNumber(0));
    let cookie = answer(&mut single).expect("a SYN-ACK");
    assert!(cookie.flags.contains(SYN | ACK));
    assert_eq!(single.stack.status().half_open_count(), usize::from(ROOM));
    assert_eq!(single.stack.counters.tcp.cookies_sent, 1);
    // A guess is reset, and the cookie itself is taken.
    let guess = cookie.seq.add(77);
    single.segment(&header(ROOM, ACK, ISN.add(1), guess), &[]);
    let reset = answer(&mut single).expect("a reset");
    assert_eq!(
        (reset.flags.contains(TcpFlags::RST), reset.seq),
        (true, guess)
    );
    single.segment(&header(ROOM, ACK, ISN.add(1), cookie.seq.add(1)), b"hello");
    let acknowledgment = answer(&mut single);
    assert!(acknowledgment.is_none_or(|h| !h.flags.contains(TcpFlags::RST)));
    assert_eq!(single.stack.counters.tcp.cookies_taken, 1);
    let socket = accepted(&mut single, listener, 0);
    let mut got = [0; 5];
    copy_out(&single.arena, socket.index, 0, &mut got);
    assert_eq!(&got, b"hello");
}

/// What a listener is told of cookies and of overflow before it listens and afterwards.
#[test]
fn a_full_accept_queue_drops_or_resets() {
    let mut single = Single::new(GEOMETRY, 1);
    let listener = single.bind(SocketKind::Stream, 80);
    single.listen_at(listener, 0);
    single.turn();
    // Both are half open as the queue is empty.
    let iss: Vec<SeqNumber> = (0..2)
        .map(|client| {
            single.bring(client, SYN, SeqNumber(0));
            answer(&mut single).expect("a SYN-ACK").seq.add(1)
        })
        .collect();
    single.bring(0, ACK, iss[0]);
    single.turn();
    single.bring(1, ACK, iss[1]);
    assert_eq!(answer(&mut single), None, "as if it were lost");
    single.bring(2, SYN, SeqNumber(0));
    assert_eq!(answer(&mut single), None);
    assert_eq!(single.dropped(DropReason::AcceptQueueFull.name()), 2);
    assert_eq!(single.stack.status().half_open_count(), 1);
    accepted(&mut single, listener, 0);
    single.edges(listener, 64, EdgeFlags::empty());
    single.turn();
    single.bring(1, ACK, iss[1]);
    single.turn();
    assert_eq!(single.stack.status().half_open_count(), 0);
    accepted(&mut single, listener, 1);
}

/// A user that has as many sockets as it may gets no connection more, which is counted, and
/// another when one is closed.
#[test]
fn a_user_with_all_its_sockets_gets_no_connection() {
    let mut single = Single::new(GEOMETRY, 1);
    let account = Arc::new(Account::new(2));
    single.in_stack_mut().account = Some(account);
    let listener = single.listen();
    single.turn();
    single.connect(0);
    single.turn();
    let first = accepted(&mut single, listener, 0);
    single.edges(listener, 64, EdgeFlags::empty());
    single.bring(1, SYN, SeqNumber(0));
    assert_eq!(answer(&mut single), None);
    assert_eq!(single.dropped(EngineDrop::UserSockets.name()), 1);
    // What its program opens is dead from the beginning.
    let refused = single.open(SocketKind::Stream);
    single.turn();
    let reported = single.told_of(refused).expect("it is refused");
    assert!(reported.flags.contains(EdgeFlags::DEAD));
    assert_eq!(reported.errno, 105);
    assert!(single.stack.counters.sessions.sockets_refused > 0);
    // Reset, so that it is gone at once.
    single.segment(&header(0, TcpFlags::RST, ISN.add(1), SeqNumber(0)), &[]);
    single.close(first);
    single.turn();
    single.connect(2);
    single.turn();
    accepted(&mut single, listener, 1);
}

/// A session without a block for a connection more resets it, and counts that; one without memory
/// for the record has the last segment of the handshake come again.
#[test]
fn without_a_place_for_it_a_connection_is_not_accepted() {
    let geometry = Geometry {
        sockets: 64,
        ..GEOMETRY
    };
    let mut single = Single::new(geometry, 1);
    let listener = single.listen();
    for _ in 2..geometry.sockets {
        single.open(SocketKind::Stream);
    }
    single.turn();
    single.connect(0);
    single.turn();
    single.sent();
    let before = single.stack.endpoints.sockets.len();
    single.connect(1);
    single.turn();
    let reset = single.sent().pop().expect("a reset");
    assert!(reset.flags.contains(TcpFlags::RST));
    assert_eq!(single.dropped(EngineDrop::NoSocketLeft.name()), 1);
    assert_eq!(single.stack.endpoints.sockets.len(), before);
    accepted(&mut single, listener, 0);

    for (chunks, room) in [(FEW_CHUNKS, false), (FEW_CHUNKS + 1, true)] {
        let geometry = Geometry {
            rcv_chunks: chunks,
            ..GEOMETRY
        };
        let mut single = Single::new(geometry, 1);
        single.listen();
        single.turn();
        single.connect(0);
        single.turn();
        assert_eq!(single.stack.status().half_open_count(), usize::from(!room));
        let passive = single.stack.counters.tcp.passive_opens;
        assert_eq!(passive, u64::from(room), "{chunks}");
        assert_eq!(single.dropped("arena_full"), u64::from(!room), "{chunks}");
    }
}

/// A listener that nobody has bound gets a port; one that was shut down refuses, is told so by
/// nobody else, and listens again when it is asked to.
#[test]
fn a_listener_may_be_shut_down_and_listen_again() {
    let mut single = Single::new(GEOMETRY, 1);
    let socket = single.open(SocketKind::Stream);
    single.listen_at(socket, 5);
    single.turn();
    let local = |single: &Single, socket: SocketId| {
        let key = single
            .stack
            .endpoints
            .sessions
            .socket_of(single.session(), socket.index);
        single
            .stack
            .endpoints
            .sockets
            .get(key.unwrap())
            .unwrap()
            .bound
            .local()
    };
    assert!(local(&single, socket).is_some_and(|local| local.port() != 0));

    let listener = single.listen();
    single.turn();
    let next = single.connect(0);
    single.turn();
    single.bring(1, SYN, SeqNumber(0));
    single.turn();
    single.sent();
    single.edges(listener, 0, EdgeFlags::SHUT_RD);
    single.turn();
    let resets: Vec<u16> = single.sent().iter().map(|h| h.dst_port).collect();
    assert!(resets.contains(&next.src_port), "what waits is reset");
    assert_eq!(single.stack.status().half_open_count(), 0);
    single.bring(2, SYN, SeqNumber(0));
    let refused = answer(&mut single).expect("a reset");
    assert!(refused.flags.contains(TcpFlags::RST));
    single.listen_at(listener, 5);
    single.bring(2, SYN, SeqNumber(0));
    let again = answer(&mut single).expect("a SYN-ACK");
    assert!(again.flags.contains(SYN));
    single.bring(2, ACK, again.seq.add(1));
    single.turn();
    assert_eq!(single.stack.status().half_open_count(), 0);
    // Another socket cannot listen there meanwhile.
    let other = single.open(SocketKind::Stream);
    single.bind_to(other, 80);
    single.turn();
    assert!(
        single.stack.late_binds().are_any(),
        "it waits for the address"
    );
}

/// A listener's options hold for it from the first, whether they are set before `listen` or after.
#[test]
fn a_listener_defers_as_it_was_told_before_it_listened() {
    for before in [true, false] {
        let mut single = Single::new(GEOMETRY, 1);
        let listener = single.bind(SocketKind::Stream, 80);
        if before {
            single.set(listener, OptionName::DeferAccept, 5);
        }
        single.listen_at(listener, 5);
        if !before {
            single.set(listener, OptionName::DeferAccept, 5);
        }
        single.turn();
        let next = single.connect(0);
        single.turn();
        assert_eq!(single.stack.status().half_open_count(), 1);
        assert_eq!(single.dropped(DropReason::DeferAccept.name()), 1);
        single.segment(&next, b"now");
        single.turn();
        assert_eq!(single.stack.status().half_open_count(), 0);
        let socket = accepted(&mut single, listener, 0);
        let mut got = [0; 3];
        copy_out(&single.arena, socket.index, 0, &mut got);
        assert_eq!(&got, b"now");
    }
}

/// However many a program asks for, no more connections wait at a listener than the machine says
/// (net.core.somaxconn), as it does when `listen` is called.
#[test]
fn a_machine_says_how_many_connections_may_wait() {
    struct Machine(u32);
    impl Host for Machine {
        fn defaults(&mut self, _now: Instant) -> Option<Defaults> {
            Some(Defaults {
                most_backlog: self.0,
                ..Defaults::default()
            })
        }
        fn fast_open_keys(&self) -> Option<(Option<FastOpenKey>, Option<FastOpenKey>)> {
            None
        }
        fn time_of_day_ns(&self) -> u64 {
            0
        }
    }
    let mut single = Single::new(GEOMETRY, 1);
    let listener = single.bind(SocketKind::Stream, 80);
    let mut asked = |most: Option<u32>, backlog| {
        single.stack.settings.host = match most {
            Some(most) => Box::new(Machine(most)),
            None => Box::new(super::machine::Alone),
        };
        single.listen_at(listener, backlog);
        single.turn();
        let mut all = single.stack.status().sockets(0);
        let listener = all.find(|(_, status)| status.state == "LISTEN");
        listener.map(|(_, status)| status.send_q)
    };
    assert_eq!(asked(Some(128), u32::MAX), Some(128));
    assert_eq!(asked(Some(128), 7), Some(7));
    // At the next call, also of a listener that there is.
    assert_eq!(asked(Some(512), u32::MAX), Some(512));
    assert_eq!(asked(None, u32::MAX), Some(4096));
}

/// What the machine says of overflow (tcp_abort_on_overflow, tcp_syncookies) holds for listeners.
#[test]
fn a_machine_says_what_overflow_leads_to() {
    struct Machine(Overflow);
    impl Host for Machine {
        fn defaults(&mut self, _now: Instant) -> Option<Defaults> {
            let tcp = Config {
                overflow: self.0,
                ..Config::default()
            };
            Some(Defaults {
                tcp,
                ..Defaults::default()
            })
        }
        fn fast_open_keys(&self) -> Option<(Option<FastOpenKey>, Option<FastOpenKey>)> {
            None
        }
        fn time_of_day_ns(&self) -> u64 {
            0
        }
    }
    let machine = |syn_cookies, abort| {
        let mut single = Single::new(GEOMETRY, 1);
        single.stack.settings.host = Box::new(Machine(Overflow { syn_cookies, abort }));
        let listener = single.bind(SocketKind::Stream, 80);
        single.listen_at(listener, 0);
        single.turn();
        single
    };
    // The second handshake finds the accept queue full.
    let mut single = machine(SynCookies::Off, true);
    let iss: Vec<SeqNumber> = (0..2)
        .map(|client| {
            single.bring(client, SYN, SeqNumber(0));
            answer(&mut single).expect("a SYN-ACK").seq.add(1)
        })
        .collect();
    single.bring(0, ACK, iss[0]);
    single.turn();
    single.sent();
    single.bring(1, ACK, iss[1]);
    assert!(answer(&mut single).is_some_and(|h| h.flags.contains(TcpFlags::RST)));
    assert_eq!(single.stack.status().half_open_count(), 0);
    // With the table full, or from the first on.
    let mut single = machine(SynCookies::Off, false);
    for client in 0..8 {
        single.bring(client, SYN, SeqNumber(0));
        assert!(answer(&mut single).is_some());
    }
    single.bring(8, SYN, SeqNumber(0));
    assert_eq!(answer(&mut single), None);
    assert_eq!(single.dropped(DropReason::SynQueueFull.name()), 1);
    let mut single = machine(SynCookies::Always, false);
    single.bring(0, SYN, SeqNumber(0));
    assert!(answer(&mut single).is_some());
    assert_eq!(single.stack.status().half_open_count(), 0);
    assert_eq!(single.stack.counters.tcp.cookies_sent, 1);
}
