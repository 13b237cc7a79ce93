//! The relay between kernel sockets, which it cannot tell from an engine's.

use super::*;
use crate::expose_order::ExposeOrder;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv6Addr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

/// A port that is free.
fn any_port() -> Expose {
    Expose {
        listen: Outside::At(([127, 0, 0, 1], 0).into()),
        port: 1,
        passes: Passes::Streams(None),
    }
}

/// An exposed port is there on all addresses, of both versions of IP where the kernel has both.
#[test]
fn a_port_without_an_address_is_everywhere() {
    let outside = |passes| {
        listen(&Expose {
            listen: Outside::Everywhere(0),
            port: 1,
            passes,
        })
        .unwrap()
    };
    let loopback = |port| {
        let v6 = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok();
        let v4 = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        [v4].into_iter()
            .chain(v6.then(|| (Ipv6Addr::LOCALHOST, port).into()))
    };
    let streams = TcpListener::from(outside(Passes::Streams(None)));
    for at in loopback(streams.local_addr().unwrap().port()) {
        connect(at);
    }
    let datagrams = UdpSocket::from(outside(Passes::Datagrams));
    datagrams.set_nonblocking(false).unwrap();
    for at in loopback(datagrams.local_addr().unwrap().port()) {
        let client = UdpSocket::bind((at.ip(), 0)).unwrap();
        client.send_to(b"x", at).unwrap();
        assert_eq!(datagrams.recv(&mut [0; 9]).unwrap(), 1);
    }
}

/// One address is that alone.
#[test]
fn a_port_of_an_address_is_nowhere_else() {
    let listener = TcpListener::from(listen(&any_port()).unwrap());
    let port = listener.local_addr().unwrap().port();
    connect((Ipv4Addr::LOCALHOST, port).into());
    assert!(TcpStream::connect((Ipv4Addr::new(127, 0, 0, 2), port)).is_err());
    assert!(TcpStream::connect((Ipv6Addr::LOCALHOST, port)).is_err());
}

/// A relay to a listener; its address.
fn relay_to(target: SocketAddr) -> SocketAddr {
    relay_with(target, None)
}

fn relay_with(target: SocketAddr, proxy: Option<Proxy>) -> SocketAddr {
    let listener = listen(&any_port()).unwrap();
    let std_listener = TcpListener::from(listener.try_clone().unwrap());
    let address = std_listener.local_addr().unwrap();
    let leads = Leads {
        listener,
        target,
        proxy,
    };
    thread::spawn(move || Relay::new(vec![leads]).unwrap().run());
    address
}

fn server(serve: impl Fn(TcpStream) + Send + Sync + Copy + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            thread::spawn(move || serve(stream));
        }
    });
    address
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + i / 251) as u8).collect()
}

fn connect(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(to).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    stream
}

#[test]
fn bytes_pass_both_ways_and_half_closes_with_them() {
    // Answers only when the other side has said that it is done.
    let target = server(|mut stream| {
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        all.reverse();
        stream.write_all(&all).unwrap();
    });
    let relay = relay_to(target);
    for len in [0, 1, 1000, 20_000_000] {
        let mut stream = connect(relay);
        let sent = pattern(len);
        stream.write_all(&sent).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut got = Vec::new();
        stream.read_to_end(&mut got).unwrap();
        got.reverse();
        assert!(got == sent, "{len} bytes");
    }
}

#[test]
fn the_program_may_end_first() {
    let target = server(|mut stream| {
        stream.write_all(b"bye").unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
        assert_eq!(rest, b"late words");
    });
    let mut stream = connect(relay_to(target));
    let mut got = Vec::new();
    stream.read_to_end(&mut got).unwrap();
    assert_eq!(got, b"bye");
    stream.write_all(b"late words").unwrap();
}

#[test]
fn many_connections_at_once() {
    let target = server(|mut stream| {
        let mut buf = [0; 4096];
        while let Ok(n @ 1..) = stream.read(&mut buf) {
            stream.write_all(&buf[..n]).unwrap();
        }
    });
    let relay = relay_to(target);
    let mut streams: Vec<_> = (0..200).map(|_| connect(relay)).collect();
    for round in 0..3u8 {
        for (i, stream) in (0u8..).zip(&mut streams) {
            stream.write_all(&[round, i]).unwrap();
        }
        for (i, stream) in (0u8..).zip(&mut streams) {
            let mut got = [0; 2];
            stream.read_exact(&mut got).unwrap();
            assert_eq!(got, [round, i]);
        }
    }
}

#[test]
fn a_reader_that_stops_holds_its_own_connection_only() {
    let target = server(|mut stream| {
        let chunk = pattern(1 << 20);
        while stream.write_all(&chunk).is_ok() {}
    });
    let relay = relay_to(target);
    let stopped = connect(relay);
    thread::sleep(Duration::from_millis(100));
    let mut other = connect(relay);
    let mut got = vec![0; 3 << 20];
    other.read_exact(&mut got).unwrap();
    assert!(got[..1 << 20] == pattern(1 << 20));
    drop(stopped);
}

#[test]
fn when_nobody_listens_the_client_is_reset() {
    let nobody = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let mut stream = connect(relay_to(nobody));
    let error = stream.read(&mut [0; 1]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

#[test]
fn a_reset_passes_through() {
    let target = server(|mut stream| {
        stream.read_exact(&mut [0; 5]).unwrap();
        let fd = OwnedFd::from(stream);
        sockopt::set_socket_linger(&fd, Some(Duration::ZERO)).unwrap();
    });
    let mut stream = connect(relay_to(target));
    stream.write_all(b"hello").unwrap();
    let error = stream.read(&mut [0; 1]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

#[test]
fn a_port_that_is_taken_is_an_error_with_a_hint() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let text = format!("127.0.0.1:{}:80", taken.local_addr().unwrap().port());
    let error = listen(&text.parse::<ExposeOrder>().unwrap().0[0]).unwrap_err();
    assert!(error.to_string().contains("cannot listen on 127.0.0.1"));
    assert!(error.hint().unwrap().contains("another HOSTPORT"));
}

#[test]
fn the_program_is_told_who_its_client_is() {
    let target = server(|mut stream| {
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        stream.write_all(&all).unwrap();
    });
    for (version, start) in [
        (Proxy::V1, &b"PROXY TCP4 127.0.0.1 "[..]),
        (Proxy::V2, b"\r\n\r\n"),
    ] {
        let relay = relay_with(target, Some(version));
        let mut stream = connect(relay);
        let own = stream.local_addr().unwrap();
        stream.write_all(b"words").unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut got = Vec::new();
        stream.read_to_end(&mut got).unwrap();
        let header = proxy::header(version, own, relay);
        assert!(header.starts_with(start));
        assert_eq!(got, [&header[..], b"words"].concat());
    }
}
