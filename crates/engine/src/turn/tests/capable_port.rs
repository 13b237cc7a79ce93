//! Turns at a port that receives into place and drops SYNs: what it and the stack are told.

use crate::Config;
use crate::testing::common::Host;
use crate::testing::{Turned, during_both};
use longshore_hostif::{EdgeFlags, Hurry, OptionName, Request, SocketId, SocketKind};
use longshore_ports::memory::{MemoryConfig, MemoryPort, pair};
use longshore_ports::{Capabilities, Port, PortCounters, PortError, RxMeta, TxFrame};
use longshore_testbed::packets::{segment, syn};
use longshore_wire::tcp::TcpOptions;
use std::io::IoSliceMut;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// Such a port; what it is told of SYNs is noted.
struct Capable {
    port: MemoryPort,
    dropped: Arc<AtomicU8>,
}

impl Port for Capable {
    fn capabilities(&self) -> &Capabilities {
        self.port.capabilities()
    }

    fn recv_scatter(&mut self, parts: &mut [IoSliceMut<'_>]) -> Result<Option<RxMeta>, PortError> {
        self.port.recv_scatter(parts)
    }

    fn receives_in_place(&self) -> bool {
        true
    }

    fn send(&mut self, frame: &TxFrame<'_>) -> Result<(), PortError> {
        self.port.send(frame)
    }

    fn drop_syns(&mut self, shift: u8) -> Result<bool, PortError> {
        self.dropped.store(shift, Ordering::Relaxed);
        Ok(true)
    }

    fn counters(&self) -> &PortCounters {
        self.port.counters()
    }
}

/// An engine at one, whose wire carries packets without a link's header; the other end of that,
/// and what the port is told of SYNs.
fn capable(change: impl FnOnce(&mut Config)) -> (Turned, MemoryPort, Arc<AtomicU8>) {
    let (port, wire) = pair(&MemoryConfig {
        ethernet: false,
        ..MemoryConfig::default()
    });
    let dropped = Arc::new(AtomicU8::new(0));
    let port = Capable {
        port,
        dropped: dropped.clone(),
    };
    let world = Turned::with(|config| {
        config.port = Box::new(port);
        change(config);
    });
    (world, wire, dropped)
}

/// A connection over which payload comes that is received into place.
struct Bulk {
    sender: (Turned, Host, SocketId),
    receiver: (Turned, Host, SocketId),
}

impl Bulk {
    fn new() -> Self {
        // One session, of programs that may see each other's bytes.
        let (mut receiver, wire, _) = capable(|config| {
            config.private = true;
            // With more than is kept free for the largest window.
            config.geometry.rcv_chunks = 512;
        });
        let mut sender = Turned::with(|config| {
            config.port = Box::new(wire);
            config.addresses = vec!["10.0.0.2/24".parse().unwrap()];
        });
        let ends = during_both(&mut receiver, &mut sender, |receives, sends| {
            let (mut server, mut client) = (Host::new(receives), Host::new(sends));
            let listener = server.listening("10.0.0.1:80");
            let socket = client.open(SocketKind::Stream);
            assert_eq!(client.connect(socket, "10.0.0.1:80".parse().unwrap()), 0);
            let accepted = server.accept(listener).socket;
            ((server, accepted), (client, socket))
        });
        let ((server, accepted), (client, socket)) = ends;
        let mut bulk = Self {
            sender: (sender, client, socket),
            receiver: (receiver, server, accepted),
        };
        // More than has to be seen after one that was not as expected. The sender may repeat itself
        // where the machine is slow.
        for sent in 0..1_000 {
            if sent >= 20 && bulk.receiver.0.engine.stack.expects_bulk() {
                return bulk;
            }
            bulk.send();
            bulk.receiver.0.run_pending();
            bulk.read();
        }
        panic!("no bulk is expected");
    }

    /// One long frame is sent.
    fn send(&mut self) {
        let (world, host, socket) = &mut self.sender;
        host.send(*socket, &[7; LEN], EdgeFlags::empty());
        world.run_pending();
    }

    /// It is read, and the sender hears of that.
    fn read(&mut self) {
        let (world, host, socket) = &mut self.receiver;
        assert_eq!(host.receive(*socket, LEN), [7; LEN]);
        world.run_pending();
        self.sender.0.run_pending();
    }
}

/// Less than a sender may send at once when it begins to (RFC 6928).
const LEN: usize = 12_000;

/// An option that was set before a segment came holds for that segment.
#[test]
fn what_was_asked_before_a_segment_came_is_done_before_it_is_received_into_place() {
    let mut bulk = Bulk::new();
    bulk.send();
    let (world, host, socket) = &mut bulk.receiver;
    let counts = &world.engine.stack.counters.prediction;
    let (in_place, missed) = (counts.in_place, counts.in_place_missed);
    let request = Request::SetOption {
        socket: *socket,
        name: OptionName::KeepIdle,
        value: 1,
    };
    host.channel.put(&request).unwrap();
    host.channel
        .publish_for(Hurry::First, &host.doorbell, false);
    // As of a turn in which it is not due yet.
    world.engine.receive().unwrap();
    assert!(!world.engine.requests().take_all(), "it was taken");
    let counts = &world.engine.stack.counters.prediction;
    assert_eq!(counts.in_place, in_place);
    assert!(counts.in_place_missed > missed);
    world.run_pending();
    bulk.read();
    // Where nothing was asked, it is, and that is work.
    bulk.send();
    assert!(bulk.receiver.0.engine.receive().unwrap());
    bulk.receiver.0.run_pending();
    assert_eq!(
        bulk.receiver.0.engine.stack.counters.prediction.in_place,
        in_place + 1
    );
}

/// One short frame may be the end of what was written at once; a second one ends the run.
#[test]
fn short_frames_end_what_is_received_into_place() {
    let mut bulk = Bulk::new();
    for is_expected in [true, false] {
        let any = TxFrame::whole(&[0xff; 60]);
        bulk.sender.0.engine.stack.port_mut().send(&any).unwrap();
        bulk.receiver.0.run_pending();
        assert_eq!(bulk.receiver.0.engine.stack.expects_bulk(), is_expected);
    }
}

/// An engine at such a port and a program that listens at its port 80, the other end of the wire, and
/// what the port is told of SYNs.
fn listening() -> (Turned, Host, MemoryPort, Arc<AtomicU8>) {
    let (mut world, wire, dropped) = capable(|_| ());
    let host = world.during(|path| {
        let mut host = Host::new(path);
        host.listening("10.0.0.1:80");
        host
    });
    (world, host, wire, dropped)
}

/// A client's SYN from this port comes.
fn send_syn(wire: &mut MemoryPort, src_port: u16) {
    let from = std::net::Ipv4Addr::new(10, 0, 0, 9).into();
    let header = syn((src_port, 80), TcpOptions::default());
    let packet = segment((from, [10, 0, 0, 1].into()), &header, &[]);
    wire.send(&TxFrame::whole(&packet)).unwrap();
}

/// A timer that goes off is work, beside what is asked.
#[test]
fn a_turn_with_a_request_and_a_timer_says_so() {
    let (mut world, mut host, mut wire, _) = listening();
    send_syn(&mut wire, 1_024);
    world.run_pending();
    let sent = |world: &Turned| world.engine.stack.port().counters().tx_frames;
    let before = sent(&world);
    world.engine.clock.advance(1_500_000);
    host.open(SocketKind::Stream);
    assert!(world.turn());
    assert_eq!(sent(&world), before + 1, "the SYN-ACK again");
}

/// A turn that takes one frame because they come one by one leaves no others behind.
#[test]
fn frames_that_come_one_by_one_are_no_flood() {
    for (count, share) in [(1, 0), (70, 2)] {
        let (mut world, _host, mut wire, dropped) = listening();
        let mut next = 1_024;
        let mut send = |wire: &mut MemoryPort| {
            next += 1;
            send_syn(wire, next);
        };
        // They come alone, as is seen by looking for the next.
        for _ in 0..16 {
            send(&mut wire);
            world.engine.receiver.receive_policy.rests();
            world.turn();
        }
        for _ in 0..16 {
            (0..count).for_each(|_| send(&mut wire));
            if count == 1 {
                world.engine.receiver.receive_policy.rests();
                assert_eq!(world.engine.receiver.receive_policy.most(), 1);
            }
            world.turn();
        }
        assert_eq!(dropped.load(Ordering::Relaxed), share);
    }
}
