//! What sockets are bound to and what they begin with, what they are refused, and what is free
//! again when they are closed.

use super::off_path::{GEOMETRY, accepted};
use super::single::{CLIENT, SERVER, Single};
use crate::counters::EngineDrop;
use crate::host::{Defaults, Host};
use crate::local_ports::LocalPorts;
use longshore_hostif::{
    Address, Completion, EdgeFlags, Interface, OptionName, Request, SocketId, SocketKind,
};
use longshore_tcp::{FastOpenKey, Instant};
use longshore_wire::tcp::TcpFlags;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::Ordering;

/// What a request of this kind is answered: an errno, and the address.
fn asks(single: &mut Single, request: &Request) -> (u16, Option<SocketAddr>) {
    single.discard_completions();
    single.ask(0, request);
    single.turn();
    let answered = |completion: &Completion| match completion {
        Completion::Done { errno, address, .. } => Some((*errno, address.get())),
        _ => None,
    };
    single
        .reported()
        .iter()
        .find_map(answered)
        .expect("an answer")
}

pub(super) fn bind(
    single: &mut Single,
    socket: SocketId,
    ip: IpAddr,
    port: u16,
) -> (u16, Option<SocketAddr>) {
    let (tag, waiter) = (1, None);
    let local = SocketAddr::new(ip, port).into();
    asks(
        single,
        &Request::Bind {
            socket,
            tag,
            waiter,
            local,
        },
    )
}

fn connect(single: &mut Single, socket: SocketId, peer: SocketAddr) -> u16 {
    connects(single, socket, peer.into()).0
}

/// The answer, and the address that the socket has then.
pub(super) fn connects(
    single: &mut Single,
    socket: SocketId,
    peer: Address,
) -> (u16, Option<SocketAddr>) {
    let (tag, waiter) = (1, None);
    asks(
        single,
        &Request::Connect {
            socket,
            tag,
            waiter,
            peer,
        },
    )
}

/// Linux's errors of bind(2), by address and kind.
#[test]
fn a_socket_is_bound_to_what_is_there() {
    const ANY: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let own: IpAddr = SERVER.into();
    let broadcast: IpAddr = [10, 0, 0, 255].into();
    let group: IpAddr = [224, 0, 0, 251].into();
    let (stream, datagram) = (SocketKind::Stream, SocketKind::Datagram);
    for (kind, ip, errno) in [
        (stream, own, 0),
        (stream, ANY, 0),
        (stream, CLIENT.into(), 99),
        (stream, broadcast, 99),
        (stream, group, 99),
        (datagram, own, 0),
        (datagram, ANY, 0),
        (datagram, CLIENT.into(), 99),
        (datagram, broadcast, 0),
    ] {
        let mut single = Single::new(GEOMETRY, 1);
        let socket = single.open(kind);
        let (answer, local) = bind(&mut single, socket, ip, 5_000);
        assert_eq!(answer, errno, "{kind:?} {ip}");
        if errno == 0 {
            assert_eq!(local, Some(SocketAddr::new(ip, 5_000)));
            // Once is enough.
            assert_eq!(bind(&mut single, socket, ip, 5_001).0, 22);
        }
    }
}

/// Port 0 stands for one that nobody has.
#[test]
fn a_port_is_chosen_for_whoever_asks_for_any() {
    for kind in [SocketKind::Stream, SocketKind::Datagram] {
        let mut single = Single::new(GEOMETRY, 1);
        let mut ports: Vec<u16> = (0..50)
            .map(|_| {
                let socket = single.open(kind);
                let (errno, local) = bind(&mut single, socket, SERVER.into(), 0);
                assert_eq!(errno, 0);
                local.expect("an address").port()
            })
            .collect();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 50);
        assert!(ports[0] >= 1_024);
    }
}

/// A port that nobody has chosen goes when a datagram socket's peer is taken away, and the address
/// beside which it was chosen stays.
#[test]
fn a_port_that_bind_has_chosen_goes_with_the_peer() {
    let peer = SocketAddr::new(CLIENT.into(), 9);
    for port in [0, 5_000] {
        let mut single = Single::new(GEOMETRY, 1);
        let socket = single.open(SocketKind::Datagram);
        let (_, bound) = bind(&mut single, socket, SERVER.into(), port);
        let bound = bound.expect("an address");
        for _ in 0..2 {
            let (errno, connected) = connects(&mut single, socket, peer.into());
            let connected = connected.expect("an address");
            assert_eq!((errno, connected.ip()), (0, SERVER.into()));
            let (errno, left) = connects(&mut single, socket, Address::NONE);
            assert_eq!(
                (errno, left),
                (0, Some(SocketAddr::new(SERVER.into(), port)))
            );
        }
        if port == 0 {
            // It is there for others.
            let other = single.open(SocketKind::Datagram);
            let errno = bind(&mut single, other, SERVER.into(), bound.port()).0;
            assert_eq!(errno, 0);
        }
    }
}

/// The rules say who binds and connects where; what they deny is counted.
#[test]
fn rules_deny_ports_and_destinations() {
    let mut single = Single::new(GEOMETRY, 1);
    let access = &mut single.stack.settings.access;
    access.bind.0 = vec!["deny tcp any port 5000-5999".parse().unwrap()];
    access.connect.0 = vec!["deny tcp any port 25".parse().unwrap()];
    let socket = single.open(SocketKind::Stream);
    assert_eq!(bind(&mut single, socket, SERVER.into(), 5_000).0, 1);
    assert_eq!(single.dropped(EngineDrop::AccessDenied.name()), 1);
    assert_eq!(bind(&mut single, socket, SERVER.into(), 6_000).0, 0);
    let datagrams = single.open(SocketKind::Datagram);
    assert_eq!(bind(&mut single, datagrams, SERVER.into(), 5_000).0, 0);
    let mail = SocketAddr::new(CLIENT.into(), 25);
    assert_eq!(connect(&mut single, socket, mail), 1);
    assert_eq!(single.dropped(EngineDrop::AccessDenied.name()), 2);
    assert_eq!(single.stack.counters.tcp.active_opens, 0);
}

/// The peer at port 80 refuses the connection of this SYN.
fn refuse(single: &mut Single, syn: &longshore_wire::tcp::TcpHeader) {
    let flags = TcpFlags::RST | TcpFlags::ACK;
    let mut reset = super::single::header(0, flags, longshore_wire::SeqNumber(0), syn.seq.add(1));
    (reset.src_port, reset.dst_port) = (80, syn.src_port);
    single.segment(&reset, &[]);
    single.turn();
}

/// A socket has one connection at a time; one that failed may be tried again.
#[test]
fn a_socket_is_connected_once_at_a_time() {
    let mut single = Single::new(GEOMETRY, 1);
    let socket = single.open(SocketKind::Stream);
    let away = SocketAddr::new(CLIENT.into(), 80);
    assert_eq!(connect(&mut single, socket, away), 0);
    assert_eq!(
        connect(&mut single, socket, away),
        106,
        "it is being connected"
    );
    // It is refused, and tried again from another port.
    let syn = single.sent().pop().expect("a SYN");
    refuse(&mut single, &syn);
    let reported = single.told_of(socket).expect("it is refused");
    assert!(reported.flags.contains(EdgeFlags::DEAD));
    assert_eq!(reported.errno, 111);
    assert_eq!(connect(&mut single, socket, away), 0);
    let again = single.sent().pop().expect("a SYN");
    assert_ne!(again.src_port, syn.src_port);
    let listener = single.listen();
    single.turn();
    assert_eq!(connect(&mut single, listener, away), 22);
    // One of our own is connected to.
    let own = single.open(SocketKind::Stream);
    let here = SocketAddr::new(SERVER.into(), 80);
    assert_eq!(connect(&mut single, own, here), 0);
    assert_eq!(connect(&mut single, own, here), 106);
}

/// An attempt to connect is ended where it is under way, told before it is answered.
#[test]
fn an_attempt_over_the_wire_may_be_cancelled() {
    let mut single = Single::new(GEOMETRY, 1);
    let socket = single.open(SocketKind::Stream);
    let cancel = Request::Cancel {
        socket,
        tag: 2,
        waiter: None,
    };
    assert_eq!(asks(&mut single, &cancel).0, 2, "none is under way");
    connect(&mut single, socket, SocketAddr::new(CLIENT.into(), 80));
    single.discard_completions();
    single.ask(0, &cancel);
    single.turn();
    let reported = single.reported();
    let place = |of: &dyn Fn(&Completion) -> bool| reported.iter().position(of);
    let dead = place(&|completion| {
        matches!(completion, Completion::Edges { edges, .. }
            if edges.flags.contains(EdgeFlags::DEAD) && edges.errno == 125)
    });
    let done = place(&|completion| matches!(completion, Completion::Done { errno: 0, .. }));
    assert!(
        dead.is_some() && done.is_some() && dead < done,
        "{reported:?}"
    );
    assert_eq!(asks(&mut single, &cancel).0, 2);
}

/// What was written is delivered after a close, unless it does not linger; unread data is a reason
/// to reset, and so is nothing else.
#[test]
fn how_a_connection_closes_is_seen_by_its_peer() {
    let close = |linger| {
        move |socket, snd_edge| Request::Close {
            socket,
            snd_edge,
            rcv_consumed: 0,
            linger,
        }
    };
    for (unread, linger, resets) in [
        (false, None, false),
        (false, Some(0), true),
        (false, Some(5), false),
        (true, None, true),
    ] {
        let mut single = Single::new(GEOMETRY, 1);
        let listener = single.listen();
        single.turn();
        let next = single.connect(0);
        single.turn();
        let socket = accepted(&mut single, listener, 0);
        single.edges(listener, 64, EdgeFlags::empty());
        if unread {
            single.segment(&next, b"unread");
            single.turn();
        }
        single.sent();
        let edge = super::streams::append(&single.arena, socket.index, 0, b"bye");
        single.ask(0, &close(linger)(socket, edge));
        single.turn();
        let sent = single.sent_with_payload();
        let has = |flag| sent.iter().any(|sent| sent.header.flags.contains(flag));
        assert_eq!(has(TcpFlags::RST), resets, "{unread} {linger:?}");
        assert_eq!(has(TcpFlags::FIN), !resets, "{unread} {linger:?}");
        let written = sent.iter().any(|sent| sent.payload == b"bye");
        assert!(written || unread, "what was written goes first: {linger:?}");
        let left = single.stack.endpoints.sockets.len();
        assert_eq!(left, if resets { 1 } else { 2 });
    }
}

/// A closed socket's port is another's.
#[test]
fn the_port_of_a_closed_socket_is_free() {
    for kind in [SocketKind::Stream, SocketKind::Datagram] {
        let mut single = Single::new(GEOMETRY, 1);
        let first = single.open(kind);
        assert_eq!(bind(&mut single, first, SERVER.into(), 5_000).0, 0);
        let second = single.open(kind);
        single.bind_to(second, 5_000);
        assert!(single.stack.late_binds().are_any(), "it is in use");
        single.close(first);
        single.turn();
        let late = single
            .stack
            .late_binds()
            .take()
            .pop()
            .expect("the second's");
        assert!(single.stack.late_binds().bind_again(&late));
        single.turn();
        assert_eq!(single.answer(), Some(0));
    }
}

/// A listener that is shut down keeps a port that its program has chosen, and gives back any other;
/// it listens again all the same.
#[test]
fn a_port_that_nobody_has_chosen_goes_with_what_listens() {
    let listens = |single: &mut Single, socket| {
        let (tag, waiter, backlog) = (1, None, 8);
        let request = Request::Listen {
            socket,
            tag,
            waiter,
            backlog,
        };
        asks(single, &request).0
    };
    let takes = |single: &mut Single, port| {
        let socket = single.open(SocketKind::Stream);
        single.bind_to(socket, port);
        single.turn();
        single
            .stack
            .late_binds()
            .take()
            .is_empty()
            .then_some(socket)
    };
    for chosen in [0, 5_000] {
        let mut single = Single::new(GEOMETRY, 1);
        let first = single.open(SocketKind::Stream);
        let (_, local) = bind(&mut single, first, SERVER.into(), chosen);
        let port = local.expect("an address").port();
        assert_eq!(listens(&mut single, first), 0);
        assert_eq!(takes(&mut single, port), None);
        let shut = Request::Edges {
            socket: first,
            snd_edge: 0,
            rcv_consumed: 0,
            flags: EdgeFlags::SHUT_RD,
            immediate: 0,
        };
        single.ask(0, &shut);
        single.turn();
        let second = takes(&mut single, port);
        assert_eq!(second.is_some(), chosen == 0);
        assert_eq!(listens(&mut single, first), 0);
        if let Some(second) = second {
            assert_eq!(listens(&mut single, second), 0, "at a port of its own");
        }
    }
}

/// A new stream takes the port of one that its program has bound by number, and that alone.
#[test]
fn a_stream_takes_the_port_of_another() {
    let in_use = |single: &mut Single, port| {
        let socket = single.open(SocketKind::Stream);
        single.bind_to(socket, port);
        single.turn();
        let is_in_use = !single.stack.late_binds().take().is_empty();
        single.close(socket);
        single.turn();
        is_in_use
    };
    let mut single = Single::new(GEOMETRY, 1);
    let old = single.open(SocketKind::Stream);
    assert_eq!(bind(&mut single, old, SERVER.into(), 5_000).0, 0);
    let new = single.open(SocketKind::Stream);
    single.set(new, OptionName::PortOf, old.encode());
    let (errno, local) = bind(&mut single, new, SERVER.into(), 5_000);
    assert_eq!((errno, local), (0, Some(SocketAddr::from((SERVER, 5_000)))));
    assert_eq!(bind(&mut single, new, SERVER.into(), 5_000).0, 22, "once");
    single.close(old);
    single.turn();
    assert!(in_use(&mut single, 5_000), "it is the new one's");
    // One that wants another address after all has not kept it.
    let third = single.open(SocketKind::Stream);
    single.set(third, OptionName::PortOf, new.encode());
    assert_eq!(bind(&mut single, third, SERVER.into(), 5_001).0, 0);
    assert!(!in_use(&mut single, 5_000));
    // One that is bound already takes none.
    let bound = single.open(SocketKind::Stream);
    assert_eq!(bind(&mut single, bound, SERVER.into(), 5_004).0, 0);
    single.set(bound, OptionName::PortOf, third.encode());
    single.close(bound);
    single.turn();
    assert!(in_use(&mut single, 5_001));
    // One that cannot have the address that it wants instead has none, and may be bound to another.
    let refused = single.open(SocketKind::Stream);
    single.set(refused, OptionName::PortOf, third.encode());
    let other = single.open(SocketKind::Stream);
    assert_eq!(bind(&mut single, other, SERVER.into(), 5_005).0, 0);
    assert_eq!(bind_at_once(&mut single, refused, SERVER.into(), 5_005), 98);
    assert_eq!(bind(&mut single, refused, SERVER.into(), 5_001).0, 0);
    let third = refused;
    // What is closed before it was bound has not kept it either.
    let fourth = single.open(SocketKind::Stream);
    single.set(fourth, OptionName::PortOf, third.encode());
    single.close(fourth);
    single.turn();
    assert!(!in_use(&mut single, 5_001));
    // A port that nobody has chosen, a datagram socket's, and none.
    let chosen = single.open(SocketKind::Stream);
    let (_, local) = bind(&mut single, chosen, SERVER.into(), 0);
    let datagrams = single.open(SocketKind::Datagram);
    assert_eq!(bind(&mut single, datagrams, SERVER.into(), 5_002).0, 0);
    for other in [chosen, datagrams, fourth] {
        let socket = single.open(SocketKind::Stream);
        single.set(socket, OptionName::PortOf, other.encode());
        assert_eq!(bind(&mut single, socket, SERVER.into(), 5_003).0, 0);
        single.close(socket);
        single.turn();
    }
    assert!(in_use(&mut single, local.expect("an address").port()));
    // What listens there before it was bound is bound.
    let listener = single.open(SocketKind::Stream);
    single.set(listener, OptionName::PortOf, other.encode());
    single.listen_at(listener, 5);
    single.turn();
    assert_eq!(bind(&mut single, listener, SERVER.into(), 5_005).0, 22);
}

/// Whose port another has taken connects from a port of its own, though the program has chosen the one that
/// it had.
#[test]
fn who_has_no_port_any_more_connects_from_another() {
    let mut single = Single::new(GEOMETRY, 1);
    let old = single.open(SocketKind::Stream);
    assert_eq!(bind(&mut single, old, SERVER.into(), 5_000).0, 0);
    let away = SocketAddr::new(CLIENT.into(), 80);
    for takes_it in [false, true] {
        if takes_it {
            let new = single.open(SocketKind::Stream);
            single.set(new, OptionName::PortOf, old.encode());
            assert_eq!(bind(&mut single, new, SERVER.into(), 5_000).0, 0);
        }
        assert_eq!(connect(&mut single, old, away), 0);
        let syn = single.sent().pop().expect("a SYN");
        assert_eq!(syn.src_port == 5_000, !takes_it);
        refuse(&mut single, &syn);
    }
}

/// What the machine has set (net.ipv4.ip_autobind_reuse) counts for streams with SO_REUSEADDR that find
/// no port that nobody has, unless two of one user have SO_REUSEPORT, too.
#[test]
fn streams_share_what_they_are_given_where_the_machine_lets_them() {
    struct Machine(bool);
    impl Host for Machine {
        fn defaults(&mut self, _now: Instant) -> Option<Defaults> {
            Some(Defaults {
                local_ports: LocalPorts::new(7_000, 7_000)?,
                autobind_reuse: self.0,
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
    let is_given = |single: &mut Single, machine: bool, options: &[OptionName]| {
        single.stack.settings.host = Box::new(Machine(machine));
        let socket = single.open(SocketKind::Stream);
        for option in options {
            single.set(socket, *option, 1);
        }
        single.bind_to(socket, 0);
        single.turn();
        single.stack.late_binds().take().is_empty()
    };
    let (address, port) = (OptionName::ReuseAddress, OptionName::ReusePort);
    for (machine, options, expected) in [
        (true, &[address][..], true),
        (false, &[address], false),
        (true, &[], false),
        (true, &[port], false),
        (true, &[address], true),
        (true, &[address, port], true),
        (true, &[address, port], false),
        (true, &[address], true),
    ] {
        let is_given = is_given(&mut single, machine, options);
        assert_eq!(is_given, expected, "{machine} {options:?}");
    }
}

/// New sockets begin with the machine's settings, and their hosts are told of those that they need.
#[test]
fn new_sockets_begin_with_the_settings_of_the_machine() {
    struct Machine(u32);
    impl Host for Machine {
        fn defaults(&mut self, _now: Instant) -> Option<Defaults> {
            Some(Defaults {
                send_buffer: self.0,
                local_ports: LocalPorts::new(7_000, 7_001)?,
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
    let limit = |single: &Single, socket: SocketId| {
        let block = single.arena.block(socket.index);
        block.snd.limit.load(Ordering::Relaxed)
    };
    let usual = single.open(SocketKind::Stream);
    let before = limit(&single, usual);
    single.stack.settings.host = Box::new(Machine(33_000));
    let stream = single.open(SocketKind::Stream);
    let datagrams = single.open(SocketKind::Datagram);
    assert_eq!(limit(&single, stream), 33_000);
    assert_eq!(limit(&single, datagrams), before);
    single.set(stream, OptionName::SendBuffer, 44_000);
    assert_eq!(limit(&single, stream), 44_000);
    for socket in [stream, datagrams] {
        let (_, local) = bind(&mut single, socket, SERVER.into(), 0);
        assert!(matches!(local.expect("an address").port(), 7_000 | 7_001));
    }
    // Without the machine's settings, the usual ones are those of sockets that are opened.
    single.stack.settings.host = Box::new(super::machine::Alone);
    let socket = single.open(SocketKind::Stream);
    let (_, local) = bind(&mut single, socket, SERVER.into(), 0);
    assert!(local.expect("an address").port() >= 32_768);
}

/// Linux: of one that was bound to a port alone, the address of an attempt that has failed is left as
/// its program has ended that in both directions.
#[test]
fn the_address_of_a_failed_attempt_is_left_with_it() {
    const ANY: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let both = EdgeFlags::SHUT_RD | EdgeFlags::SHUT_WR;
    for (flags, left) in [
        (EdgeFlags::SHUT_RD, false),
        (EdgeFlags::SHUT_WR, false),
        (both, true),
    ] {
        let mut single = Single::new(GEOMETRY, 1);
        let socket = single.open(SocketKind::Stream);
        assert_eq!(bind(&mut single, socket, ANY, 5_000).0, 0);
        let away = SocketAddr::new(CLIENT.into(), 80);
        assert_eq!(connect(&mut single, socket, away), 0);
        let syn = single.sent().pop().expect("a SYN");
        refuse(&mut single, &syn);
        single.edges(socket, 0, flags);
        let session = single.session();
        let key = single.stack.endpoints.key_of(session, socket).unwrap();
        let local = single.stack.endpoints.sockets.get(key).unwrap();
        let ip = if left { ANY } else { SERVER.into() };
        let expected = SocketAddr::new(ip, 5_000);
        assert_eq!(local.bound.local(), Some(expected), "{flags:?}");
    }
}

/// Linux: a connection is with one host.
#[test]
fn no_connection_is_made_to_many_hosts() {
    const UNREACHABLE: u16 = 101;
    let mut single = Single::new(GEOMETRY, 1);
    for many in [[224, 0, 0, 251], [10, 0, 0, 255], [255; 4]] {
        let socket = single.open(SocketKind::Stream);
        let peer = SocketAddr::new(many.into(), 80);
        assert_eq!(connect(&mut single, socket, peer), UNREACHABLE, "{many:?}");
    }
    assert!(single.sent().is_empty());
}

/// SO_BINDTODEVICE of one that is bound: another may have the port at the other interface.
#[test]
fn a_port_is_that_of_the_interface_that_is_chosen_later() {
    const ANY: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let by = |interface: Interface| interface as u64;
    for kind in [SocketKind::Stream, SocketKind::Datagram] {
        let mut single = Single::new(GEOMETRY, 1);
        let first = single.open(kind);
        assert_eq!(bind(&mut single, first, ANY, 90).0, 0);
        let interface = OptionName::Interface;
        let second = single.open(kind);
        single.set(second, interface, by(Interface::Loopback));
        assert_eq!(bind_at_once(&mut single, second, ANY, 90), 98, "{kind:?}");
        single.set(first, interface, by(Interface::Link));
        assert_eq!(bind_at_once(&mut single, second, ANY, 90), 0, "{kind:?}");
    }
}

/// As `bind`, of an address that does not become free.
pub(super) fn bind_at_once(single: &mut Single, socket: SocketId, ip: IpAddr, port: u16) -> u16 {
    single.discard_completions();
    let (tag, waiter) = (1, None);
    let local = SocketAddr::new(ip, port).into();
    single.ask(
        0,
        &Request::Bind {
            socket,
            tag,
            waiter,
            local,
        },
    );
    for late in single.stack.late_binds().take() {
        single.stack.endpoints.sessions.give_bind_up(&late);
    }
    single.turn();
    single.answer().expect("an answer")
}
