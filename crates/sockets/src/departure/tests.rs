//! The datagrams that leave, and what they leave with.

use super::*;
use crate::Socket;
use crate::testing::Engine;
use crate::testing::fixture::{Ignored, engine, requested};
use crate::{Host, Received, WaitLimit};
use longshore_hostif::{OpenFlags, SocketKind};
use std::io::IoSliceMut;
use std::sync::atomic::Ordering;

fn bound(host: &'static Host) -> (Socket, SocketAddr) {
    let socket = Engine::open(host, SocketKind::Datagram);
    let local = socket.addresses().bind(Engine::address(0)).unwrap();
    (socket, local)
}

fn send(socket: &Socket, bytes: &[u8], to: Option<SocketAddr>) -> Result<usize, SocketError> {
    socket
        .datagrams()
        .send(&[IoSlice::new(bytes)], to, Departure::default())
}

fn begin(socket: &Socket, bytes: &[u8], to: Option<SocketAddr>) -> Result<usize, SocketError> {
    socket
        .datagrams()
        .begin(&[IoSlice::new(bytes)], to, Departure::default())
}

fn receive(socket: &Socket) -> (Received, Vec<u8>) {
    let mut buf = vec![0; 1 << 17];
    let received = socket.wait(None, WaitLimit::ENDLESS, || {
        socket
            .datagrams()
            .recv(&mut [IoSliceMut::new(&mut buf)], false)
    });
    let received = received.unwrap();
    buf.truncate(received.copied);
    (received, buf)
}

fn refused<T>(errno: Errno) -> Result<T, SocketError> {
    Err(SocketError::Refused(errno))
}

#[test]
fn a_datagram_has_the_room_that_its_version_of_ip_leaves() {
    let v6 = SocketAddr::from((Ipv6Addr::LOCALHOST, 1));
    let mapped = SocketAddr::from((Ipv4Addr::LOCALHOST.to_ipv6_mapped(), 1));
    let v4 = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    assert_eq!(most_payload(Some(v4)), 65_507);
    assert_eq!(most_payload(Some(mapped)), 65_507);
    assert_eq!(most_payload(None), 65_507);
    assert_eq!(most_payload(Some(v6)), 65_527);
    assert_eq!(any_address(false), SocketAddr::from(([0; 4], 0)));
    assert_eq!(any_address(true), SocketAddr::from(([0u16; 8], 0)));
}

#[test]
fn a_train_of_one_is_a_datagram() {
    for (segment, len, fits) in [
        (0, 10, 0),
        (9, 10, 9),
        (10, 10, 0),
        (11, 10, 0),
        (1, 0, 0),
        (1400, 65_000, 1400),
    ] {
        assert_eq!(fitting(segment, len), fits, "{len} bytes by {segment}");
    }
}

#[test]
fn hops_to_a_group_are_set_apart() {
    let sending = Sending {
        hops: Some(9),
        group_hops: 3,
        ..Sending::default()
    };
    let (group, one) = (IpAddr::from([224, 0, 0, 5]), IpAddr::from([10, 0, 0, 5]));
    assert_eq!(hops_to(group, &sending), Some(3));
    assert_eq!(hops_to(one, &sending), Some(9));
    assert_eq!(hops_to("ff02::5".parse().unwrap(), &sending), Some(3));
}

#[test]
fn a_datagram_leaves_with_what_is_said_beside_it_or_was_set() {
    let (_engine, host, _directory) = engine();
    let ((a, from), (b, to)) = (bound(host), bound(host));
    a.datagrams().change_sending(false, |sending| {
        (sending.hops, sending.class) = (Some(40), 8);
    });
    let said = Departure {
        hops: Some(3),
        class: Some(4),
        segment: 2,
        ..Departure::default()
    };
    for (departure, hops, class, segment) in [(Departure::default(), 40, 8, 0), (said, 3, 4, 2)] {
        let sent = a
            .datagrams()
            .send(&[IoSlice::new(b"abcd")], Some(to), departure);
        assert_eq!(sent, Ok(4));
        let (received, bytes) = receive(&b);
        assert_eq!((received.hops, received.class), (hops, class));
        assert_eq!((received.segment, received.from), (segment, Some(from)));
        assert_eq!((received.is_cut, received.is_end()), (false, false));
        assert_eq!(bytes, b"abcd");
    }
}

/// What it is when it leaves counts, as Linux has it, and nothing of IPv6 goes without.
#[test]
fn a_datagram_of_ipv4_leaves_without_a_checksum_if_it_is_to() {
    let (_engine, host, _directory) = engine();
    let (a, local) = bound(host);
    let v6 = SocketAddr::from((Ipv6Addr::LOCALHOST, 1));
    let record = |to| a.datagrams().record(4, Some(to), Departure::default());
    let is_unsummed = |to| record(to).map(|record| record.unsummed);
    assert_eq!(is_unsummed(local), Ok(false));
    for ipv6 in [false, true] {
        a.datagrams()
            .change_sending(ipv6, |sending| sending.unsummed = true);
    }
    assert_eq!(is_unsummed(local), Ok(true));
    assert_eq!(is_unsummed(v6), Ok(false));
    let train = Departure {
        segment: 2,
        ..Departure::default()
    };
    let train = |len| a.datagrams().record(len, Some(local), train).map(|_| ());
    assert_eq!(train(3), refused(Errno::INVAL));
    assert_eq!(train(1), refused(Errno::INVAL));
    a.datagrams()
        .change_sending(false, |sending| sending.unsummed = false);
    assert_eq!(train(3), Ok(()));
}

/// Linux: UDP_MAX_SEGMENTS.
#[test]
fn a_train_has_no_more_than_128_datagrams() {
    let (_engine, host, _directory) = engine();
    let ((a, _), (b, to)) = (bound(host), bound(host));
    let by_two = Departure {
        segment: 2,
        ..Departure::default()
    };
    let bytes = [7; 257];
    let send = |len: usize| {
        a.datagrams()
            .send(&[IoSlice::new(&bytes[..len])], Some(to), by_two)
    };
    assert_eq!(send(256), Ok(256));
    assert_eq!(send(255), Ok(255));
    assert_eq!(send(257), refused(Errno::INVAL));
    assert_eq!(receive(&b).0.len, 256);
    assert_eq!(receive(&b).0.len, 255);
}

#[test]
fn a_datagram_leaves_from_an_address_of_the_engine() {
    let (_engine, host, _directory) = engine();
    let ((a, _), (b, to)) = (bound(host), bound(host));
    for (from, expected) in [
        (Engine::address(0).ip(), Ok(1)),
        (IpAddr::from([10, 9, 9, 99]), refused(Errno::NETUNREACH)),
        ("fd00::99".parse().unwrap(), refused(Errno::INVAL)),
    ] {
        let departure = Departure {
            from: Some(from),
            ..Departure::default()
        };
        let sent = a
            .datagrams()
            .send(&[IoSlice::new(b"x")], Some(to), departure);
        assert_eq!(sent, expected, "{from}");
    }
    let own = receive(&b).0.own;
    assert_eq!(own, Some((Engine::address(0).ip(), 0)));
}

#[test]
fn a_socket_of_ipv6_alone_reaches_no_address_of_ipv4() {
    let (_engine, host, _directory) = engine();
    let open = || {
        host.sockets()
            .open(SocketKind::Datagram, OpenFlags::IPV6, 0)
            .unwrap()
    };
    let to_v4 = Engine::address(7);
    let to_v6 = Some("[fd00::1]:7".parse().unwrap());
    let alone = open();
    alone.options().note_v6_only(true);
    assert_eq!(send(&alone, b"x", Some(to_v4)), refused(Errno::NETUNREACH));
    assert_eq!(send(&alone, b"x", to_v6), Ok(1));
    let both = open();
    assert_eq!(send(&both, b"x", Some(to_v4)), Ok(1));
    let mapped = open();
    let ip = Ipv4Addr::new(10, 9, 9, 2).to_ipv6_mapped();
    mapped.block().set_local(SocketAddr::from((ip, 5)).into());
    mapped.block().set_flags(BlockFlags::BOUND);
    assert_eq!(send(&mapped, b"x", to_v6), refused(Errno::AFNOSUPPORT));
    std::mem::forget((alone, both, mapped));
}

/// A datagram over IPv6 may be 20 bytes longer, whose header is counted apart.
#[test]
fn what_no_datagram_has_room_for_is_refused() {
    let (_engine, host, _directory) = engine();
    let (a, to) = bound(host);
    let v6 = host
        .sockets()
        .open(SocketKind::Datagram, OpenFlags::IPV6, 0)
        .unwrap();
    let to_v6 = Some("[fd00::1]:7".parse().unwrap());
    let bytes = vec![0; MOST_PAYLOAD_V6 + 1];
    for len in [MOST_PAYLOAD + 1, MOST_PAYLOAD_V6 + 1] {
        assert_eq!(send(&a, &bytes[..len], Some(to)), refused(Errno::MSGSIZE));
    }
    assert_eq!(send(&v6, &bytes, to_v6), refused(Errno::MSGSIZE));
    let longest = &bytes[..MOST_PAYLOAD_V6];
    assert_eq!(send(&v6, longest, to_v6), Ok(longest.len()));
    std::mem::forget(v6);
}

#[test]
fn a_socket_that_is_not_bound_is_when_it_sends() {
    let (_engine, host, _directory) = engine();
    let (_b, to) = bound(host);
    let a = Engine::open(host, SocketKind::Datagram);
    assert!(!a.addresses().is_bound());
    assert_eq!(send(&a, b"x", None), refused(Errno::DESTADDRREQ));
    assert!(!a.addresses().is_bound());
    a.pending_error().set(Errno::CONNREFUSED.raw_os_error());
    let failed = Err(SocketError::Failed(Errno::CONNREFUSED));
    assert_eq!(send(&a, b"x", Some(to)), failed);
    assert_eq!(send(&a, b"x", Some(to)), Ok(1));
    assert!(a.addresses().is_bound());
    let port = a.addresses().local().unwrap().port();
    assert_eq!(send(&a, b"x", Some(to)), Ok(1));
    assert_eq!(a.addresses().local().unwrap().port(), port);
}

/// MSG_MORE: the last call sends all, to where the first one said.
#[test]
fn calls_put_a_datagram_together() {
    let (_engine, host, _directory) = engine();
    let ((a, from), (b, to), (c, other)) = (bound(host), bound(host), bound(host));
    assert_eq!(a.datagrams().begun_for(), Ok(None));
    assert_eq!(begin(&a, b"ab", Some(to)), Ok(2));
    assert_eq!(a.datagrams().begun_for(), Ok(Some(to)));
    assert_eq!(begin(&a, b"cd", Some(other)), Ok(2));
    assert_eq!(a.datagrams().begun_for(), Ok(Some(to)));
    assert_eq!(send(&a, b"ef", None), Ok(2));
    assert_eq!(a.datagrams().begun_for(), Ok(None));
    assert_eq!(a.more_bits() & more_bits::UNFINISHED, 0);
    let (received, bytes) = receive(&b);
    assert_eq!((received.from, &bytes[..]), (Some(from), &b"abcdef"[..]));
    // The next one is a datagram of its own.
    assert_eq!(send(&a, b"gh", Some(other)), Ok(2));
    assert_eq!(receive(&c).1, b"gh");
}

/// UDP_CORK: all is one datagram until it is taken out.
#[test]
fn a_cork_holds_back_what_is_sent() {
    let (_engine, host, _directory) = engine();
    let ((a, _), (b, to)) = (bound(host), bound(host));
    assert_eq!(a.datagrams().finish(), Ok(()), "nothing was begun");
    a.set_more_bits(more_bits::CORKED);
    assert_eq!(send(&a, b"ab", Some(to)), Ok(2));
    assert_eq!(send(&a, b"cd", Some(to)), Ok(2));
    assert_eq!(a.datagrams().begun_for(), Ok(Some(to)));
    a.clear_more_bits(more_bits::CORKED);
    assert_eq!(a.datagrams().finish(), Ok(()));
    assert_eq!(receive(&b).1, b"abcd");
    assert_eq!(a.datagrams().begun_for(), Ok(None));
    assert_eq!(a.more_bits() & more_bits::UNFINISHED, 0);
    assert_eq!(a.datagrams().finish(), Ok(()));
    assert_eq!(send(&a, b"ef", Some(to)), Ok(2));
    assert_eq!(receive(&b).1, b"ef");
}

/// As Linux has it, what was begun is dropped with what is too much.
#[test]
fn a_datagram_that_grows_too_long_is_dropped() {
    let (_engine, host, _directory) = engine();
    let ((a, _), (b, to)) = (bound(host), bound(host));
    let most = vec![7; MOST_PAYLOAD - 2];
    assert_eq!(begin(&a, b"ab", Some(to)), Ok(2));
    assert_eq!(begin(&a, &most, Some(to)), Ok(most.len()));
    assert_eq!(begin(&a, b"c", Some(to)), refused(Errno::MSGSIZE));
    assert_eq!(a.datagrams().begun_for(), Ok(None));
    assert_eq!(a.more_bits() & more_bits::UNFINISHED, 0);
    assert_eq!(begin(&a, b"x", Some(to)), Ok(1));
    assert_eq!(send(&a, b"y", None), Ok(1));
    assert_eq!(receive(&b).1, b"xy");
}

#[test]
fn what_was_begun_of_a_half_that_is_shut_down_is_not_sent() {
    let (_engine, host, _directory) = engine();
    let (a, to) = bound(host);
    a.block().set_flags(BlockFlags::SHUT_WR);
    assert_eq!(begin(&a, b"ab", Some(to)), Err(SocketError::BrokenPipe));
    // Where it goes is looked for first.
    assert_eq!(begin(&a, b"ab", None), refused(Errno::DESTADDRREQ));
    assert_eq!(a.datagrams().begun_for(), Ok(None));
}

/// Linux: of IPv4 the datagram goes to the new peer, and to one of IPv6 nothing of IPv4 is added.
#[test]
fn what_was_begun_goes_where_its_socket_is_connected() {
    let (_engine, host, _directory) = engine();
    let ((a, _), (b, to), (c, other)) = (bound(host), bound(host), bound(host));
    assert_eq!(begin(&a, b"ab", Some(to)), Ok(2));
    a.connector().start(other).unwrap();
    assert_eq!(a.datagrams().begun_for(), Ok(Some(other)));
    assert_eq!(send(&a, b"cd", None), Ok(2));
    assert_eq!(receive(&c).1, b"abcd");
    let v6 = host
        .sockets()
        .open(SocketKind::Datagram, OpenFlags::IPV6, 0)
        .unwrap();
    let to_v6 = "[fd00::1]:7".parse().unwrap();
    assert_eq!(begin(&v6, b"ab", Some(to_v6)), Ok(2));
    assert_eq!(begin(&v6, b"cd", Some(to)), refused(Errno::INVAL));
    assert_eq!(begin(&v6, b"cd", Some(to_v6)), Ok(2));
    assert_eq!(begin(&v6, b"ef", None), Ok(2));
    v6.datagrams().redirect_begun(Address::from(other)).unwrap();
    assert_eq!(v6.datagrams().begun_for(), Ok(Some(to_v6)));
    // Nor to one of IPv6 what was begun for IPv4.
    assert_eq!(begin(&a, b"ef", Some(to)), Ok(2));
    a.datagrams().redirect_begun(Address::from(to_v6)).unwrap();
    assert_eq!(a.datagrams().begun_for(), Ok(Some(to)));
    drop(b);
    std::mem::forget(v6);
}

/// With no room for it the datagram stays begun, without what the call wanted to add.
#[test]
fn what_was_begun_waits_for_room() {
    let (engine, host, _directory) = engine();
    let ignores = &engine.behavior.ignores_requests;
    let has_room = |socket: &Socket, has: bool| {
        let (limit, edge) = if has { (0, 0) } else { (1, 8) };
        ignores.store(!has, Ordering::Relaxed);
        let snd = &socket.block().snd;
        snd.limit.store(limit, Ordering::Relaxed);
        snd.edge.store(edge, Ordering::Relaxed);
    };
    // Nothing is a beginning, too.
    for (first, all) in [(&b"ab"[..], &b"abef"[..]), (b"", b"ef")] {
        let ((a, _), (b, to)) = (bound(host), bound(host));
        assert_eq!(begin(&a, first, Some(to)), Ok(first.len()));
        has_room(&a, false);
        assert_eq!(send(&a, b"cd", None), Err(SocketError::WouldBlock));
        assert_eq!(a.datagrams().finish(), Err(SocketError::WouldBlock));
        assert_eq!(a.datagrams().begun_for(), Ok(Some(to)));
        has_room(&a, true);
        assert_eq!(send(&a, b"ef", None), Ok(2));
        assert_eq!(receive(&b).1, all);
    }
    // What this process has not begun is not begun by a call without room for it.
    let ((a, _), (_b, to)) = (bound(host), bound(host));
    a.set_more_bits(more_bits::UNFINISHED);
    has_room(&a, false);
    assert_eq!(send(&a, b"ab", Some(to)), Err(SocketError::WouldBlock));
    assert_eq!(a.more_bits() & more_bits::UNFINISHED, 0);
    assert!(host.unfinished.enter().unwrap().get(&a.id()).is_none());
    has_room(&a, true);
}

/// IP_PMTUDISC_DO and IPV6_DONTFRAG: what a link does not take is refused, by whatever header
/// there is before it.
#[test]
fn what_is_not_to_be_cut_fits_its_link_or_is_refused() {
    let (_engine, host, _directory) = engine();
    let link = 1500;
    host.routes().publish_mtu([link; 2], false);
    let far = |host: &str| Some(SocketAddr::new(host.parse().unwrap(), 7));
    for (flags, to, header) in [
        (OpenFlags::empty(), far("10.9.9.77"), 28),
        (OpenFlags::IPV6, far("fd00::77"), 48),
    ] {
        let a = host.sockets().open(SocketKind::Datagram, flags, 0).unwrap();
        let fits = link - header;
        let bytes = vec![0; 3000];
        let send = |len: usize, departure| {
            a.datagrams()
                .send(&[IoSlice::new(&bytes[..len])], to, departure)
        };
        let whole = Departure {
            whole: Some(true),
            ..Departure::default()
        };
        let train = Departure {
            segment: fits as u16,
            ..whole
        };
        let too_long = Departure {
            segment: fits as u16 + 1,
            ..whole
        };
        assert_eq!(
            send(fits + 1, Departure::default()),
            Ok(fits + 1),
            "it is cut"
        );
        assert_eq!(send(fits, whole), Ok(fits));
        assert_eq!(send(fits + 1, whole), refused(Errno::MSGSIZE));
        assert_eq!(send(3000, train), Ok(3000));
        assert_eq!(send(3000, too_long), refused(Errno::MSGSIZE));
        a.datagrams()
            .change_sending(a.is_v6(), |sending| sending.path_mtu = PathMtu::Probe);
        assert_eq!(
            send(fits + 1, Departure::default()),
            refused(Errno::MSGSIZE)
        );
        std::mem::forget(a);
    }
}

/// IPV6_MTU: what is longer than each path takes is told to be cut to that, or refused if it is
/// not to be cut. What goes to addresses of IPv4 is not concerned.
#[test]
fn what_is_longer_than_the_least_mtu_is_cut_or_refused() {
    let (_engine, host, _directory) = engine();
    host.routes().publish_mtu([9000; 2], false);
    let v6 = OpenFlags::IPV6;
    let a = host.sockets().open(SocketKind::Datagram, v6, 0).unwrap();
    let far = |host: &str| Some(SocketAddr::new(host.parse().unwrap(), 7));
    let (to, to_v4) = (far("fd00::77"), far("::ffff:10.9.9.77"));
    let fits = LEAST_MTU_V6 - 48;
    let bytes = vec![0; 3000];
    let send = |len: usize, to, departure| {
        a.datagrams()
            .send(&[IoSlice::new(&bytes[..len])], to, departure)
    };
    let usual = Departure::default();
    let path_mtu = |to, departure| {
        a.datagrams()
            .record(fits + 1, to, departure)
            .unwrap()
            .path_mtu
    };
    let whole = Departure {
        whole: Some(true),
        ..usual
    };
    let train = |segment: usize| Departure {
        segment: segment as u16,
        ..usual
    };
    assert_eq!(path_mtu(to, usual), PathMtu::Want);
    assert_eq!(send(fits + 1, to, whole), Ok(fits + 1));
    a.datagrams()
        .change_sending(true, |sending| sending.least = true);
    assert_eq!(path_mtu(to, usual), PathMtu::Least);
    assert_eq!(path_mtu(to_v4, usual), PathMtu::Want);
    assert_eq!(send(fits + 1, to, usual), Ok(fits + 1));
    assert_eq!(send(fits, to, whole), Ok(fits));
    assert_eq!(send(fits + 1, to, whole), refused(Errno::MSGSIZE));
    assert_eq!(send(fits + 1, to_v4, whole), Ok(fits + 1));
    assert_eq!(send(3000, to, train(fits)), Ok(3000));
    assert_eq!(send(3000, to, train(fits + 1)), refused(Errno::MSGSIZE));
    a.datagrams()
        .change_sending(true, |sending| sending.path_mtu = PathMtu::Interface);
    assert_eq!(send(fits + 1, to, usual), refused(Errno::MSGSIZE));
    a.datagrams()
        .change_sending(true, |sending| sending.least = false);
    assert_eq!(send(fits + 1, to, usual), Ok(fits + 1));
    std::mem::forget(a);
}

#[test]
fn a_datagram_may_come_in_pieces() {
    let (_engine, host, _directory) = engine();
    let ((a, _), (b, to)) = (bound(host), bound(host));
    let parts = [&b"ab"[..], b"", b"cde", b"f"].map(IoSlice::new);
    let sent = a.datagrams().send(&parts, Some(to), Departure::default());
    assert_eq!(sent, Ok(6));
    assert_eq!(receive(&b).1, b"abcdef");
}

/// Linux: a call that begins a datagram tells of the pending error, as one that sends it.
#[test]
fn a_pending_error_keeps_a_datagram_from_being_begun() {
    let (_engine, host, _directory) = engine();
    let (a, to) = bound(host);
    a.pending_error().set(Errno::CONNREFUSED.raw_os_error());
    let failed = Err(SocketError::Failed(Errno::CONNREFUSED));
    assert_eq!(begin(&a, b"ab", Some(to)), failed);
    assert_eq!(a.datagrams().begun_for(), Ok(None));
    assert_eq!(begin(&a, b"ab", Some(to)), Ok(2));
}

/// What the engine has found out of the path to the peer counts where a datagram is not to be cut;
/// of other paths it says afterwards that they took less.
#[test]
fn the_path_to_the_peer_is_asked_for() {
    let (engine, host, _directory) = engine();
    let peer = SocketAddr::new("10.9.9.77".parse().unwrap(), 7);
    let other = SocketAddr::new("10.9.9.78".parse().unwrap(), 7);
    let kernels = SocketAddr::new("192.0.2.1".parse().unwrap(), 7);
    let path: usize = 1000;
    let answer = (path as u32).to_ne_bytes().to_vec();
    *engine.behavior.answer.lock().unwrap() = Some(answer);
    let fits = path - 28;
    for (to, is_narrow, path_mtu, most) in [
        (peer, true, PathMtu::Want, fits),
        (peer, false, PathMtu::Want, 1472),
        (peer, true, PathMtu::Probe, 1472),
        (other, true, PathMtu::Want, 1472),
        (kernels, true, PathMtu::Want, 1472),
    ] {
        host.routes().publish_mtu([1500; 2], is_narrow);
        let a = Engine::open(host, SocketKind::Datagram);
        let connected = if to == other { peer } else { to };
        a.connector().start(connected).unwrap();
        a.datagrams()
            .change_sending(false, |sending| sending.path_mtu = path_mtu);
        let checked = |len: usize, segment: usize| {
            let departure = Departure {
                whole: Some(true),
                segment: segment as u16,
                ..Departure::default()
            };
            a.datagrams().record(len, Some(to), departure).map(drop)
        };
        let what = (to, is_narrow, path_mtu);
        assert_eq!(checked(most, 0), Ok(()), "{what:?}");
        assert_eq!(checked(most + 1, 0), refused(Errno::MSGSIZE), "{what:?}");
        assert_eq!(checked(1500, most), Ok(()), "{what:?}");
        let too_long = checked(1500, most + 1);
        assert_eq!(too_long, refused(Errno::MSGSIZE), "{what:?}");
    }
}

/// What calls have put together is looked at as a whole.
#[test]
fn what_was_begun_fits_its_link_or_is_refused() {
    let (_engine, host, _directory) = engine();
    host.routes().publish_mtu([1500; 2], false);
    let a = Engine::open(host, SocketKind::Datagram);
    let to = Some(SocketAddr::new("10.9.9.77".parse().unwrap(), 7));
    let whole = Departure {
        whole: Some(true),
        ..Departure::default()
    };
    for (second, sent) in [(472, Ok(472)), (473, refused(Errno::MSGSIZE))] {
        let bytes = [0; 1000];
        let begun = a.datagrams().begin(&[IoSlice::new(&bytes)], to, whole);
        assert_eq!(begun, Ok(1000));
        let parts = [IoSlice::new(&bytes[..second])];
        assert_eq!(a.datagrams().send(&parts, to, whole), sent);
    }
}

/// IP_RECVERR: a report of what was too long is among those of the engine; of trains there is none.
#[test]
fn the_engine_reports_what_was_too_long_to_those_that_ask() {
    let (_engine, host, _directory) = engine();
    host.routes().publish_mtu([1500; 2], false);
    let (a, _) = bound(host);
    let to = Some(SocketAddr::new("10.9.9.77".parse().unwrap(), 7));
    let bytes = vec![0; 70_000];
    let send = |len: usize, segment| {
        let departure = Departure {
            whole: Some(true),
            segment,
            ..Departure::default()
        };
        let before = requested(host);
        let parts = [IoSlice::new(&bytes[..len])];
        let sent = a.datagrams().send(&parts, to, departure);
        assert_eq!(sent, refused(Errno::MSGSIZE));
        requested(host) - before
    };
    assert_eq!([send(70_000, 0), send(1473, 0), send(3000, 1473)], [0; 3]);
    a.set_more_bits(more_bits::ASKS_FOR_ERRORS);
    assert_eq!([send(70_000, 0), send(1473, 0)], [1; 2]);
    assert_eq!(send(3000, 1473), 0);
}

/// What goes to an address of the engine is noted as under way, and a program that is told of
/// refusals waits for the engine, until one of its datagrams was taken.
#[test]
fn what_goes_to_the_engine_is_waited_for_by_those_that_are_told_of_refusals() {
    let far = SocketAddr::new("10.9.9.77".parse().unwrap(), 7);
    let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 7));
    let own = Engine::address(7);
    let none = Err(SocketError::WouldBlock);
    type Sends = fn(&Socket, SocketAddr) -> Result<usize, SocketError>;
    let ways: [Sends; 3] = [
        |socket, to| send(socket, b"x", Some(to)),
        |socket, to| {
            begin(socket, b"x", Some(to))?;
            send(socket, b"y", None)
        },
        |socket, to| {
            begin(socket, b"x", Some(to))?;
            socket.datagrams().finish().map(|()| 1)
        },
    ];
    let ignored = Ignored::new();
    for sends in ways {
        for (to, asks, is_connected, is_noted, waits) in [
            (far, true, false, false, false),
            (own, false, false, true, false),
            (own, true, false, true, true),
            (own, false, true, true, true),
            (loopback, true, false, true, true),
        ] {
            let socket = Engine::open(ignored.host, SocketKind::Datagram);
            socket.block().set_flags(BlockFlags::BOUND);
            if asks {
                socket.set_more_bits(more_bits::ASKS_FOR_ERRORS);
            }
            if is_connected {
                socket.block().set_peer(to.into());
            }
            let what = (to, asks, is_connected);
            ignored.forget_hurry();
            assert_ne!(sends(&socket, to), none, "{what:?}");
            assert_eq!(ignored.is_hurried(), waits, "{what:?}");
            let is_taken = socket.more_bits() & more_bits::IS_TAKEN != 0;
            assert_eq!(is_taken, waits, "{what:?}");
            let noted = ignored
                .host
                .session
                .under_way()
                .unhandled()
                .collect::<Vec<_>>();
            assert_eq!(!noted.is_empty(), is_noted, "{what:?}");
            for (ring, number) in noted {
                ignored.host.session.under_way().forget(ring, number);
            }
            // It was not refused, and so the next one is not waited for.
            ignored.forget_hurry();
            assert_ne!(sends(&socket, to), none, "{what:?}");
            assert!(!ignored.is_hurried(), "{what:?}");
            for (ring, number) in ignored
                .host
                .session
                .under_way()
                .unhandled()
                .collect::<Vec<_>>()
            {
                ignored.host.session.under_way().forget(ring, number);
            }
            std::mem::forget(socket);
        }
    }
    // Of what goes to another than its peer it is told nothing.
    let socket = Engine::open(ignored.host, SocketKind::Datagram);
    socket.block().set_flags(BlockFlags::BOUND);
    socket.block().set_peer(loopback.into());
    for (to, waits) in [(own, false), (loopback, true)] {
        ignored.forget_hurry();
        assert_eq!(send(&socket, b"x", Some(to)), Ok(1));
        assert_eq!(ignored.is_hurried(), waits, "{to}");
    }
    std::mem::forget(socket);
    // One that was is waited for again.
    let socket = Engine::open(ignored.host, SocketKind::Datagram);
    socket.set_more_bits(more_bits::ASKS_FOR_ERRORS);
    socket
        .pending_error()
        .set(Errno::CONNREFUSED.raw_os_error());
    socket.datagrams().await_refusal();
    assert_eq!(socket.more_bits() & more_bits::IS_TAKEN, 0);
    std::mem::forget(socket);
}

/// SO_PEEK_OFF is for calls that look.
#[test]
fn a_datagram_is_received_from_its_beginning() {
    let (_engine, host, _directory) = engine();
    let ((a, _), (b, to)) = (bound(host), bound(host));
    b.peek_offset().set(Some(2));
    assert_eq!(send(&a, b"abcd", Some(to)), Ok(4));
    assert_eq!(receive(&b).1, b"abcd");
}

#[test]
fn the_engine_is_asked_to_join_a_group() {
    let (_engine, host, _directory) = engine();
    let (a, _) = bound(host);
    let before = requested(host);
    let group = IpAddr::from([224, 0, 0, 9]);
    assert_eq!(a.datagrams().change_group(group, true), Ok(()));
    assert_eq!(requested(host), before + 1);
}
