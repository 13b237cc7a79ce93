//! Attempts to connect that are cancelled: whether the peer's answer or the program is first, and
//! what each of them hears. The far end of the wire is the test's own.

mod common;

use common::engines::start;
use common::{Host, TIMEOUT};
use longshore_hostif::{EdgeFlags, Loopback, Request, SocketId, SocketKind};
use longshore_ports::memory::{MemoryConfig, MemoryPort, pair};
use longshore_ports::{Port, TxFrame};
use longshore_testbed::packets::ipv4;
use longshore_wire::checksum::Partial;
use longshore_wire::ipv4::{HEADER_LEN, protocol};
use longshore_wire::tcp::{CHECKSUM_OFFSET, TcpFlags, TcpHeader, TcpOptions};
use std::net::Ipv4Addr;
use std::time::Instant;

const US: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 9);
const PEER_PORT: u16 = 80;
const ENOENT: u16 = 2;
const EALREADY: u16 = 114;
const ECANCELED: u16 = 125;

struct Far(MemoryPort);

impl Far {
    /// The next segment that comes with these of SYN, ACK and RST.
    fn segment(&mut self, flags: TcpFlags) -> TcpHeader {
        const LOOKED_AT: TcpFlags = TcpFlags::SYN.union(TcpFlags::ACK).union(TcpFlags::RST);
        let start = Instant::now();
        let mut frame = vec![0; 70_000];
        loop {
            if let Some(meta) = self.0.recv(&mut frame).unwrap() {
                let bytes = &frame[..meta.len];
                if bytes[9] == protocol::TCP
                    && let Ok((header, _)) = TcpHeader::parse(&bytes[HEADER_LEN..])
                    && header.flags & LOOKED_AT == flags
                {
                    return header;
                }
            }
            assert!(start.elapsed() < TIMEOUT, "nothing comes");
            std::thread::yield_now();
        }
    }

    fn send(&mut self, port: u16, flags: TcpFlags, answered: &TcpHeader) {
        let header = TcpHeader {
            src_port: PEER_PORT,
            dst_port: port,
            seq: longshore_wire::SeqNumber(7000),
            ack: answered.seq.add(1),
            flags,
            window: 1000,
            urgent: 0,
            options: TcpOptions::default(),
        };
        let mut bytes = vec![0; 60];
        let len = header.emit(&mut bytes);
        bytes.truncate(len);
        let pseudo = Partial::of_pseudo_v4(PEER, US, protocol::TCP, len as u32);
        let sum = pseudo.plus(Partial::of(&bytes)).finish();
        bytes[CHECKSUM_OFFSET..][..2].copy_from_slice(&sum.to_be_bytes());
        let packet = ipv4((PEER, US), protocol::TCP, 64, &bytes);
        self.0.send(&TxFrame::whole(&packet)).unwrap();
        self.0.flush().unwrap();
    }
}

fn with_wire(test: impl FnOnce(Host, Far)) {
    let dir = tempfile::tempdir().unwrap();
    let (ours, far) = pair(&MemoryConfig {
        offloads: false,
        ethernet: false,
        ..MemoryConfig::default()
    });
    let port = Box::new(ours);
    let engine = start(dir.path(), "10.0.0.1/24", port, Loopback::Kernel, true);
    test(Host::new(&engine.path), Far(far));
}

fn cancel(host: &mut Host, socket: SocketId) -> u16 {
    host.call(|tag| Request::Cancel {
        socket,
        tag,
        waiter: None,
    })
}

fn begin(host: &mut Host, socket: SocketId) {
    let begun = host.start_connect(socket, (PEER, PEER_PORT).into());
    assert_eq!(begun, (0, 0));
}

#[test]
fn an_attempt_that_is_not_answered_ends_and_the_peer_is_reset_if_it_answers_then() {
    with_wire(|mut host, mut far| {
        let socket = host.open(SocketKind::Stream);
        begin(&mut host, socket);
        let syn = far.segment(TcpFlags::SYN);
        assert_eq!(cancel(&mut host, socket), 0);
        // Told before the answer.
        let edges = host.edges(socket).unwrap();
        assert!(edges.flags.contains(EdgeFlags::DEAD));
        assert_eq!(edges.errno, ECANCELED);
        far.send(syn.src_port, TcpFlags::SYN | TcpFlags::ACK, &syn);
        far.segment(TcpFlags::RST);
        assert_eq!(cancel(&mut host, socket), ENOENT, "none is under way");

        begin(&mut host, socket);
        let syn = far.segment(TcpFlags::SYN);
        far.send(syn.src_port, TcpFlags::SYN | TcpFlags::ACK, &syn);
        host.wait("a connection", |h| {
            let edges = h.edges(socket)?;
            edges.flags.contains(EdgeFlags::CONNECTED).then_some(())
        });
        assert_eq!(cancel(&mut host, socket), ENOENT, "it is done");
        let edges = host.edges(socket).unwrap();
        assert!(!edges.flags.contains(EdgeFlags::DEAD));
    });
}

#[test]
fn an_attempt_that_meets_the_peers_own_goes_on() {
    with_wire(|mut host, mut far| {
        let socket = host.open(SocketKind::Stream);
        begin(&mut host, socket);
        let syn = far.segment(TcpFlags::SYN);
        far.send(syn.src_port, TcpFlags::SYN, &syn);
        far.segment(TcpFlags::SYN | TcpFlags::ACK);
        assert_eq!(cancel(&mut host, socket), EALREADY);
        far.send(syn.src_port, TcpFlags::SYN | TcpFlags::ACK, &syn);
        host.wait("a connection", |h| {
            let edges = h.edges(socket)?;
            edges.flags.contains(EdgeFlags::CONNECTED).then_some(())
        });
    });
}

#[test]
fn an_attempt_that_stands_in_the_line_of_an_own_listener_leaves_it() {
    with_wire(|mut host, _far| {
        let listener = host.open(SocketKind::Stream);
        let at = "10.0.0.1:80".parse().unwrap();
        host.bind(listener, at).unwrap();
        host.call(|tag| Request::Listen {
            socket: listener,
            tag,
            waiter: None,
            backlog: 0,
        });
        let first = host.open(SocketKind::Stream);
        assert_eq!(host.connect(first, at), 0);
        let [second, third] = [(); 2].map(|()| host.open(SocketKind::Stream));
        for socket in [second, third] {
            assert_eq!(host.start_connect(socket, at), (0, 0));
        }
        assert_eq!(cancel(&mut host, second), 0);
        assert_eq!(host.edges(second).unwrap().errno, ECANCELED);
        assert_eq!(cancel(&mut host, first), ENOENT);
        let peers = [first, third].map(|_| host.accept(listener).peer.get().unwrap().port());
        host.tcp_info(listener);
        assert!(!host.has_record(listener), "two connections came");
        assert_ne!(peers[0], peers[1]);
    });
}
