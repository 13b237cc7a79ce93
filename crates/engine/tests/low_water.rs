//! What a program waits for is told to the engine: for less than that it wakes nobody, but a thread that
//! looks sees it.

mod common;

use common::Host;
use common::engines::{alone, run_with, start};
use longshore_engine::TimedRule;
use longshore_hostif::{
    Delimiter, EdgeFlags, LengthPrefix, Loopback, MessageRule, OptionName, SocketId, SocketKind,
};
use longshore_ports::memory::{MemoryConfig, pair};
use longshore_ring::Sleep;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const LISTENER: &str = "10.0.0.1:80";
/// The waiter of one that waits to read.
const WAITER: u32 = 5;
const MARK: usize = 1000;

/// A program with a connection to itself, whose accepted end somebody waits for.
struct Waiting {
    host: Host,
    writes: SocketId,
    reads: SocketId,
    sent: u64,
}

impl Waiting {
    fn new(host: Host) -> Self {
        Self::accepted_by(host, &[])
    }

    /// As `new`, if its listener was told this.
    fn accepted_by(mut host: Host, options: &[(OptionName, u64)]) -> Self {
        let listener = host.listening(LISTENER);
        for (name, value) in options {
            host.set(listener, *name, *value);
        }
        let writes = host.open(SocketKind::Stream);
        assert_eq!(host.connect(writes, LISTENER.parse().unwrap()), 0);
        let reads = host.accept(listener).socket;
        host.arena
            .header()
            .waiters_end
            .store(WAITER + 1, Ordering::Release);
        host.arena.block(reads.index).add_waiter(WAITER);
        Self {
            host,
            writes,
            reads,
            sent: 0,
        }
    }

    fn sleep(&self) {
        self.host.arena.waiters()[WAITER as usize].declare(Sleep::Futex);
    }

    fn sleeps(&self) -> bool {
        self.host.arena.waiters()[WAITER as usize].is_declared()
    }

    fn wakes(&mut self) {
        self.host.wait("a wake-up", |h| {
            let waiter = &h.arena.waiters()[WAITER as usize];
            (!waiter.is_declared()).then_some(())
        });
    }

    /// Sends so much, and waits until it is told of and the thread that is to be woken for it is awake.
    fn send(&mut self, len: usize) {
        self.send_bytes(&vec![7; len]);
    }

    fn send_bytes(&mut self, bytes: &[u8]) {
        self.host.send(self.writes, bytes, EdgeFlags::empty());
        self.sent += bytes.len() as u64;
        let (reads, sent) = (self.reads, self.sent);
        self.host.wait("what was sent", |h| {
            (h.edges(reads)?.rcv_edge == sent).then_some(())
        });
        for _ in 0..2 {
            self.host.tcp_info(reads);
        }
    }

    /// Reads all, which the engine is not told.
    fn read(&self) {
        let half = &self.host.arena.block(self.reads.index).rcv;
        half.done.store(self.sent, Ordering::Release);
    }
}

/// Such a program on an engine of its own, whose two ends talk by either way.
fn with_and_without_cut_through(test: impl Fn(&mut Waiting)) {
    for cut_through in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let (wire, _other) = pair(&MemoryConfig::default());
        let (wire, loopback) = (Box::new(wire), Loopback::Kernel);
        let engine = start(dir.path(), "10.0.0.1/24", wire, loopback, cut_through);
        test(&mut Waiting::new(Host::new(&engine.path)));
    }
}

#[test]
fn nobody_is_woken_for_less_than_he_waits_for() {
    with_and_without_cut_through(|it| {
        it.sleep();
        it.send(MARK / 10);
        it.wakes();
        it.read();

        it.host
            .set(it.reads, OptionName::ReceiveLowWater, MARK as u64);
        it.host.tcp_info(it.reads);
        for _ in 0..3 {
            it.sleep();
            it.send(MARK / 2);
            assert!(it.sleeps(), "half of it came");
            it.send(MARK / 2);
            it.wakes();
            it.read();
        }
        it.sleep();
        it.send(MARK / 2);
        assert!(it.sleeps());
        it.host
            .set(it.reads, OptionName::ReceiveLowWater, MARK as u64 / 2);
        it.wakes();
        it.host
            .set(it.reads, OptionName::ReceiveLowWater, MARK as u64);
        it.host.tcp_info(it.reads);
        it.sleep();
        it.host.send(it.writes, &[], EdgeFlags::SHUT_WR);
        it.wakes();
    });
}

#[test]
fn half_of_the_buffer_is_enough_whatever_is_waited_for() {
    const BUFFER: u64 = 64 * 1024;
    with_and_without_cut_through(|it| {
        it.host.set(it.reads, OptionName::ReceiveBuffer, BUFFER);
        it.host
            .set(it.reads, OptionName::ReceiveLowWater, u64::from(u32::MAX));
        it.host.tcp_info(it.reads);
        it.sleep();
        it.send(BUFFER as usize / 2 - 1);
        assert!(it.sleeps());
        it.send(1);
        it.wakes();
    });
}

/// Such a program whose two ends exchange packets.
fn with_packets(test: impl FnOnce(&mut Waiting)) {
    with_packets_and(&[], BTreeMap::new(), test);
}

/// As `with_packets`, if its listener was told this, or its engine that of ports. The engine sleeps
/// when it has nothing to do.
fn with_packets_and(
    options: &[(OptionName, u64)],
    messages: BTreeMap<u16, TimedRule>,
    test: impl FnOnce(&mut Waiting),
) {
    let dir = tempfile::tempdir().unwrap();
    let (mut config, _other) = alone(dir.path());
    config.cut_through = false;
    let engine = run_with(config, |engine| engine.set_messages(messages));
    test(&mut Waiting::accepted_by(Host::new(&engine.path), options));
}

/// Messages that are sent.
const MESSAGES: usize = 20;

/// How often the program is woken for messages that come in pieces, of which it reads each when
/// it is.
fn wake_ups(it: &mut Waiting, pieces: &[&[u8]]) -> usize {
    let mut woken = 0;
    it.sleep();
    for _ in 0..MESSAGES {
        for piece in pieces {
            it.send_bytes(piece);
            if !it.sleeps() {
                woken += 1;
                it.read();
                it.sleep();
            }
        }
    }
    woken
}

#[test]
fn a_program_that_says_how_messages_end_is_woken_once_for_each() {
    let long = [&[0, 1, 44][..], &[b'x'; 300]].concat();
    let pieces: &[&[u8]] = &[&long[..2], &long[2..40], &long[40..302], &long[302..]];
    let prefix = MessageRule::Length(LengthPrefix {
        offset: 1,
        width: 2,
        is_little_endian: false,
        adjustment: 0,
        maximum: 1000,
    });
    let blank = MessageRule::Delimiter(Delimiter::new(b"\r\n\r\n").unwrap());
    let lines: &[&[u8]] = &[b"GET / HTTP/1.1\r\n", b"a: b\r\n\r", b"\n"];
    for (rule, pieces) in [(prefix, pieces), (blank, lines)] {
        with_packets(|it| {
            assert_eq!(wake_ups(it, pieces), MESSAGES * pieces.len());
            it.host
                .set(it.reads, OptionName::ReceiveMessages, rule.encode());
            it.host.tcp_info(it.reads);
            assert_eq!(wake_ups(it, pieces), MESSAGES);
            it.host.set(it.reads, OptionName::ReceiveMessages, 0);
            it.host.tcp_info(it.reads);
            assert_eq!(wake_ups(it, pieces), MESSAGES * pieces.len());
        });
    }
}

/// A request of HTTP ends with a blank line.
fn blank_line() -> MessageRule {
    MessageRule::Delimiter(Delimiter::new(b"\r\n\r\n").unwrap())
}

/// What a listener is told.
type Told = Vec<(OptionName, u64)>;

/// For so long its end is waited for.
const WITHIN: Duration = Duration::from_millis(300);

/// How the listener of a program can have that rule: it has told itself, or the engine was, which
/// the last of them is not of its port.
fn told_of_requests(within_ms: u32) -> [(Told, BTreeMap<u16, TimedRule>); 3] {
    let rule = blank_line();
    let said = vec![
        (OptionName::ReceiveMessages, rule.encode()),
        (OptionName::ReceiveMessagesWithin, within_ms.into()),
    ];
    let timed = TimedRule { rule, within_ms };
    let of_port = |port| BTreeMap::from([(port, timed)]);
    [
        (said, BTreeMap::new()),
        (Vec::new(), of_port(80)),
        (Vec::new(), of_port(81)),
    ]
}

#[test]
fn an_accepted_connection_has_the_rule_of_its_listener_or_of_its_port() {
    let lines: &[&[u8]] = &[b"GET / HTTP/1.1\r\n", b"a: b\r\n\r", b"\n"];
    let [own, of_port, of_another] = told_of_requests(0);
    for (options, messages) in [own, of_port] {
        with_packets_and(&options, messages, |it| {
            assert_eq!(wake_ups(it, lines), MESSAGES);
            it.host.set(it.reads, OptionName::ReceiveMessages, 0);
            it.host.tcp_info(it.reads);
            assert_eq!(wake_ups(it, lines), MESSAGES * lines.len());
        });
    }
    with_packets_and(&[], of_another.1, |it| {
        assert_eq!(wake_ups(it, lines), MESSAGES * lines.len());
    });
}

#[test]
fn a_piece_wakes_when_its_time_is_over_and_what_was_read_by_then_does_not() {
    let [own, of_port, _] = told_of_requests(WITHIN.as_millis() as u32);
    for (options, messages) in [own, of_port] {
        with_packets_and(&options, messages, |it| {
            for _ in 0..2 {
                let since = Instant::now();
                it.sleep();
                it.send_bytes(b"GET /");
                it.wakes();
                assert!(since.elapsed() >= WITHIN, "{:?}", since.elapsed());
            }
            it.read();
            let since = Instant::now();
            it.sleep();
            it.send_bytes(b" HTTP/1.1\r\n");
            it.read();
            if since.elapsed() < WITHIN {
                std::thread::sleep(2 * WITHIN);
                assert!(it.sleeps(), "it has read that");
            }
        });
    }
}

#[test]
fn the_end_and_a_full_buffer_wake_though_no_message_is_whole() {
    const BUFFER: u64 = 64 * 1024;
    let rule = MessageRule::Delimiter(Delimiter::new(b"\n").unwrap());
    with_packets(|it| {
        it.host.set(it.reads, OptionName::ReceiveBuffer, BUFFER);
        it.host
            .set(it.reads, OptionName::ReceiveMessages, rule.encode());
        it.host.tcp_info(it.reads);
        it.sleep();
        it.send(BUFFER as usize / 2 - 1);
        assert!(it.sleeps());
        it.send(1);
        it.wakes();
        it.read();
        it.sleep();
        it.send(10);
        assert!(it.sleeps());
        it.host.send(it.writes, &[], EdgeFlags::SHUT_WR);
        it.wakes();
    });
}
