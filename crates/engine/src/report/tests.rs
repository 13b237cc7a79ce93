//! What is reported of an engine, and to whom.

use super::*;
use crate::testing::common::Host;
use crate::testing::{GEOMETRY, Turned, during_both};
use longshore_hostif::agent::Peer;
use longshore_hostif::{EdgeFlags, Geometry, OptionName, SocketId, SocketKind};
use longshore_ports::memory::{MemoryConfig, pair};
use std::collections::BTreeSet;

/// The user that runs the engine, and sees all.
fn own() -> Asker {
    Asker::own_user()
}

/// Some other user.
fn other_user() -> Asker {
    Asker {
        uid: own().uid + 4_000_001,
    }
}

/// Two engines at the ends of one wire, at 10.0.0.1 and 10.0.0.2.
fn joined() -> (Turned, Turned) {
    let (a, b) = pair(&MemoryConfig::default());
    let one = Turned::with(|config| {
        config.port = Box::new(a);
        config.geometry = Geometry {
            sockets: 1024,
            ..GEOMETRY
        };
    });
    let other = Turned::with(|config| {
        config.port = Box::new(b);
        config.addresses = vec!["10.0.0.2/24".parse().unwrap()];
    });
    (one, other)
}

/// All rows, from a key on: as many answers as that takes.
fn rows(engine: &Engine, asker: Asker, mut from: u32) -> Vec<Vec<SsRow>> {
    let mut pages = Vec::new();
    loop {
        let reply = engine.report().ss(asker, from);
        pages.push(reply.rows);
        match reply.next {
            Some(next) => {
                assert!(next > from, "it goes on");
                from = next;
            }
            None => return pages,
        }
    }
}

const CLOSED: usize = 3;
const BEGUN: usize = 3;

/// An engine with so many sockets, one of them a listener, [`CLOSED`] connections in TIME-WAIT and
/// [`BEGUN`] that are half open; the program on it, its sockets but for the listener, and what else
/// there is.
fn with_sockets(sockets: usize) -> (Turned, Host, Vec<SocketId>, impl Sized) {
    let (mut one, mut other) = joined();
    let (mut host, client, datagrams) = during_both(&mut one, &mut other, move |one, other| {
        let (mut host, mut client) = (Host::new(one), Host::new(other));
        let listener = host.listening("10.0.0.1:80");
        let mut datagrams = Vec::new();
        for _ in 1..sockets {
            let socket = host.open(SocketKind::Datagram);
            host.bind(socket, "10.0.0.1:0".parse().unwrap()).unwrap();
            datagrams.push(socket);
        }
        for _ in 0..CLOSED {
            let socket = client.open(SocketKind::Stream);
            assert_eq!(client.connect(socket, "10.0.0.1:80".parse().unwrap()), 0);
            let accepted = host.accept(listener).socket;
            host.close(accepted);
            client.wait_flag(socket, EdgeFlags::PEER_FIN);
            client.close(socket);
        }
        (host, client, datagrams)
    });
    let waits = |world: &Turned| world.engine.stack.status().wait_count();
    let began = std::time::Instant::now();
    while waits(&one) != CLOSED {
        assert!(began.elapsed() < crate::testing::common::TIMEOUT);
        one.run_pending();
        other.run_pending();
    }
    // Their SYNs are answered, and the answers not heard.
    let client = other.during(move |_| {
        let mut client = client;
        for _ in 0..BEGUN {
            let socket = client.open(SocketKind::Stream);
            client.start_connect(socket, "10.0.0.1:80".parse().unwrap());
        }
        client
    });
    other.run_pending();
    one.run_pending();
    assert_eq!(one.engine.stack.status().half_open_count(), BEGUN);
    host.drain();
    (one, host, datagrams, (other, client))
}

#[test]
fn all_sockets_are_shown_in_answers_of_bounded_length() {
    const PAGE: usize = ROWS_AT_ONCE as usize;
    let all = |sockets| sockets + CLOSED + BEGUN;
    let (mut world, mut host, mut datagrams, _other) = with_sockets(PAGE + 44);
    // The end of a page is among the sockets, among half-open connections, among those in
    // TIME-WAIT, and at the end of all.
    for sockets in [PAGE + 44, PAGE - 1, PAGE - BEGUN - 1, PAGE - BEGUN - CLOSED] {
        for socket in datagrams.split_off(sockets - 1) {
            host.close(socket);
        }
        world.until("the others' end", |engine| {
            engine.stack.status().socket_count() == sockets
        });
        let pages = rows(&world.engine, own(), 0);
        let lengths: Vec<usize> = pages.iter().map(Vec::len).collect();
        let expected = match all(sockets) - PAGE {
            0 => vec![PAGE],
            rest => vec![PAGE, rest],
        };
        assert_eq!(lengths, expected);
        let shown = pages.concat();
        let count = |state: &str| shown.iter().filter(|r| r.state == state).count();
        assert_eq!(count("UNCONN"), sockets - 1);
        assert_eq!(count("LISTEN"), 1);
        assert_eq!(count("SYN-RECV"), BEGUN);
        assert_eq!(count("TIME-WAIT"), CLOSED);
        let names = shown.iter().map(|r| (&r.proto, &r.local, &r.peer));
        assert_eq!(names.collect::<BTreeSet<_>>().len(), all(sockets));
        // Nobody else is shown any.
        let none: [Vec<SsRow>; 1] = [vec![]];
        assert_eq!(rows(&world.engine, other_user(), 0), none);
    }
}

#[test]
fn a_row_says_what_a_socket_is_and_whose() {
    let (world, host, _, _other) = with_sockets(2);
    let rows = rows(&world.engine, own(), 0).concat();
    let own = vec![std::process::id()];
    let [listener, datagram] = &rows[..2] else {
        panic!("{rows:?}");
    };
    assert_eq!((&*listener.proto, &*datagram.proto), ("tcp", "udp"));
    assert_eq!((&*listener.local, &*listener.peer), ("10.0.0.1:80", "*:*"));
    assert_eq!(listener.pids, own);
    assert_eq!(listener.send_q, 128);
    assert!(datagram.crossings.to_adapter.classes.descriptor.bytes != 0);
    let status = world.engine.stack.status();
    for half in rows.iter().filter(|r| r.state == "SYN-RECV") {
        assert_eq!((&*half.proto, &*half.local), ("tcp", "10.0.0.1:80"));
        assert!(half.peer.starts_with("10.0.0.2:"), "{half:?}");
        let mut all = status.half_open(0).map(|(_, of)| of);
        let known = all.find(|of| of.peer.to_string() == half.peer).unwrap();
        let ms = known.retransmitted_in / 1_000;
        assert_eq!(half.timer, Some(("on".to_owned(), ms)));
        assert!((100..=1_000).contains(&ms), "{half:?}");
        assert_eq!(half.timer_repeats, 0);
    }
    for wait in rows.iter().filter(|r| r.state == "TIME-WAIT") {
        assert_eq!((&*wait.proto, &*wait.local), ("tcp", "10.0.0.1:80"));
        let (timer, ms) = wait.timer.clone().unwrap();
        assert_eq!(timer, "timewait");
        assert!((30_000..=60_000).contains(&ms), "{wait:?}");
    }
    drop(host);
}

/// Both ends of a connection over TCP, and what is on its way.
#[test]
fn a_connection_is_shown_with_what_tcp_knows_of_it() {
    let (mut one, mut other) = joined();
    let hosts = during_both(&mut one, &mut other, |one, other| {
        let (mut host, mut client) = (Host::new(one), Host::new(other));
        let listener = host.listening("10.0.0.1:80");
        let socket = client.open(SocketKind::Stream);
        assert_eq!(client.connect(socket, "10.0.0.1:80".parse().unwrap()), 0);
        let accepted = host.accept(listener).socket;
        client.set(socket, OptionName::KeepAlive, 1);
        client.send(socket, &[7; 1000], EdgeFlags::empty());
        assert_eq!(host.receive(accepted, 600).len(), 600);
        (host, client)
    });
    for _ in 0..2 {
        one.run_pending();
        other.run_pending();
    }
    let shown = |world: &Turned| {
        let rows = rows(&world.engine, own(), 0).concat();
        rows.into_iter().find(|r| r.state == "ESTAB").unwrap()
    };
    let (of_host, of_client) = (shown(&one), shown(&other));
    assert_eq!(of_host.local, of_client.peer);
    assert_eq!((of_host.recv_q, of_client.recv_q), (400, 0));
    let tcp = of_host.tcp.unwrap();
    assert_eq!((tcp.bytes_received, tcp.mss), (1000, 1448));
    let (timer, ms) = of_client.timer.unwrap();
    assert_eq!(timer, "keepalive");
    assert!((7_000_000..=7_200_000).contains(&ms), "{ms}");
    assert_eq!(of_client.tcp.unwrap().bytes_sent, 1000);
    let classes = of_host.crossings.to_host.classes;
    assert_eq!(classes.payload.bytes + classes.immediate, 1000);
    drop(hosts);
}

#[test]
fn what_tcp_knows_is_told_in_the_units_of_ss() {
    let info = TcpInfo {
        congestion: "cubic",
        window_scaling: true,
        snd_wscale: 7,
        rcv_wscale: 8,
        snd_ssthresh: 20,
        last_data_sent_us: 5_999,
        last_data_recv_us: 7_000,
        ..TcpInfo::default()
    };
    let stat = tcp_stat(&info);
    assert_eq!(stat.congestion, "cubic");
    assert_eq!(stat.window_scale, Some((7, 8)));
    assert_eq!(stat.ssthresh, Some(20));
    assert_eq!((stat.last_snd_ms, stat.last_rcv_ms), (Some(5), Some(7)));
    let stat = tcp_stat(&TcpInfo {
        window_scaling: false,
        snd_ssthresh: u32::MAX,
        ..info
    });
    assert_eq!((stat.window_scale, stat.ssthresh), (None, None));
}

/// Totals are everybody's, sessions their user's.
#[test]
fn a_session_is_told_of_to_its_user_alone() {
    let mut world = Turned::new();
    let [host] = world.programs();
    let chunks = [(); 3].map(|()| host.arena.take_snd_chunk().unwrap().unwrap());
    let stat = world.engine.report().stat(own());
    let [session] = stat.sessions[..] else {
        panic!("{stat:?}");
    };
    let uid = own().uid;
    assert_eq!((session.id, session.uid, session.processes), (0, uid, 1));
    assert_eq!((session.snd_chunks, session.rcv_chunks), (3, 0));
    let most = (session.snd_chunks_max, session.rcv_chunks_max);
    assert_eq!(most, (GEOMETRY.snd_chunks, GEOMETRY.rcv_chunks));
    assert_eq!(session.sockets_max, GEOMETRY.sockets);
    let others = world.engine.report().stat(other_user());
    assert_eq!(others.sessions, []);
    assert_eq!(others.crossings, stat.crossings);
    // The user that runs the engine sees everybody's sessions, and each other user its own.
    world.engine.programs.sessions.get_mut(0).unwrap().uid = other_user().uid;
    let other = Asker {
        uid: other_user().uid + 1,
    };
    for (asker, expected) in [(own(), 1), (other_user(), 1), (other, 0)] {
        let listed = world.engine.report().stat(asker).sessions;
        assert_eq!(listed.len(), expected, "{asker:?}");
    }
    for chunk in chunks {
        host.arena.give_snd_chunk(chunk).unwrap();
    }
}

#[test]
fn whoever_may_use_an_engine_may_ask_it() {
    let open = Turned::new();
    assert!(open.engine.report().may_ask(other_user()));
    let listed = other_user().uid;
    let closed = Turned::with(|config| config.users = vec![listed]);
    let may = |uid| closed.engine.report().may_ask(Asker { uid });
    assert!(may(listed) && may(0) && may(own().uid));
    assert!(!may(listed + 1));
}

#[test]
fn requests_that_cannot_be_count_with_claims_that_cannot_be() {
    let mut world = Turned::new();
    let _host: [Host; 1] = world.programs();
    let bad = |world: &Turned| world.engine.statistics().drops[BAD_DESCRIPTORS];
    assert_eq!(bad(&world), 0);
    let half = world.engine.stack.endpoints.sessions.get_mut(0).unwrap();
    (0..5).for_each(|_| half.host.meter.note_bad_descriptor());
    let session = world.engine.programs.sessions.get_mut(0).unwrap();
    let (pid, pidfd) = (0, None);
    session.processes.register_child(9_999, Peer { pid, pidfd });
    assert_eq!(bad(&world), 6);
    assert_eq!(world.engine.statistics().drops[MISROUTED_REQUESTS], 0);
}

#[test]
fn an_engine_says_what_it_is() {
    let mut world = Turned::with(|config| {
        config.loopback = Loopback::Engine;
        config.gateways = vec!["10.0.0.254".parse().unwrap()];
    });
    world.engine.set_sandbox("nothing is left");
    world.later(5_000_000);
    let stat = world.engine.statistics();
    assert_eq!(stat.pid, std::process::id());
    assert_eq!(
        (&*stat.loopback, &*stat.sandbox),
        ("engine", "nothing is left")
    );
    assert_eq!(stat.gateways, ["10.0.0.254"]);
    assert!(
        stat.addresses.contains(&"10.0.0.1/24".to_owned()),
        "{:?}",
        stat.addresses
    );
    assert!(
        (5_000..100_000).contains(&stat.uptime_ms),
        "{}",
        stat.uptime_ms
    );
    assert_eq!((&*stat.port.name, stat.port.mtu), ("memory", 1500));
    assert_eq!(Turned::new().engine.statistics().loopback, "kernel");
}

/// What sessions count for themselves is reported of all together.
#[test]
fn sockets_in_messages_that_are_too_many_are_counted_over_all_sessions() {
    let mut world = Turned::new();
    let _programs: [Host; 2] = world.programs();
    for (key, overflows) in [(0, 1), (1, 2)] {
        let session = world.engine.programs.sessions.get_mut(key).unwrap();
        let mut index = 0;
        while session.in_transit.overflows() < overflows {
            session.in_transit.note(index, index, 1);
            index += 1;
        }
    }
    assert_eq!(world.engine.statistics().engine["transit_overflows"], 3);
}
