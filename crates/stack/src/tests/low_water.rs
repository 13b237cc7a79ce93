//! Low-water marks: for less than a program waits for, its threads sleep on, though all is told.

use super::off_path::{GEOMETRY, accepted};
use super::single::Single;
use super::streams::append;
use crate::host::{Defaults, Host};
use crate::socket::Kind;
use longshore_hostif::{
    ACCEPT_RECORD, BlockFlags, Delimiter, EdgeFlags, LengthPrefix, MessageRule, OptionName,
    Request, SocketId, SocketKind,
};
use longshore_ring::Sleep;
use longshore_tcp::{FastOpenKey, Instant};
use longshore_wire::tcp::{TcpFlags, TcpHeader, TcpOptions};
use std::sync::Arc;
use std::sync::atomic::Ordering;

const MARK: usize = 1_000;

/// A connection whose program has a thread that sleeps until there is something.
struct Sleeper {
    single: Single,
    socket: SocketId,
    /// What the peer sends next, if it is on the wire; or else the other end.
    peer: Result<TcpHeader, SocketId>,
    sent: usize,
}

impl Sleeper {
    fn new(over_the_wire: bool, options: &[(OptionName, u64)]) -> Self {
        let mut single = Single::new(GEOMETRY, 1);
        let listener = single.listen();
        single.turn();
        let peer = if over_the_wire {
            Ok(single.connect(0))
        } else {
            let client = single.open(SocketKind::Stream);
            single.connect_to_own(client);
            Err(client)
        };
        single.turn();
        let socket = accepted(&mut single, listener, 0);
        single.edges(listener, ACCEPT_RECORD as u64, EdgeFlags::empty());
        for (name, value) in options {
            single.set(socket, *name, *value);
        }
        single.turn();
        single.discard_completions();
        single.sent();
        let header = single.arena.header();
        header.waiters_end.store(1, Ordering::Release);
        single.arena.control(0).pid.store(1_000, Ordering::Relaxed);
        let waiter = &single.arena.waiters()[0];
        waiter.owner.store(1_000, Ordering::Relaxed);
        single.arena.block(socket.index).add_waiter(0);
        Self {
            single,
            socket,
            peer,
            sent: 0,
        }
    }

    /// The thread sleeps, the peer sends so much, and whether that wakes it; all is told.
    fn is_woken_by(&mut self, len: usize, flags: TcpFlags) -> bool {
        self.sleep();
        let bytes = vec![7; len];
        match &self.peer {
            Ok(next) => {
                let header = TcpHeader {
                    seq: next.seq.add(self.sent as u32),
                    flags: TcpFlags::ACK | flags,
                    ..next.clone()
                };
                self.single.segment(&header, &bytes);
            }
            Err(client) => {
                let client = *client;
                self.single.write(client, self.sent as u64, &bytes);
                if flags.contains(TcpFlags::FIN) {
                    let edge = (self.sent + len) as u64;
                    self.single.says(client, edge, 0, EdgeFlags::SHUT_WR);
                }
            }
        }
        self.sent += len;
        (0..3).for_each(|_| self.single.turn());
        let reported = self.single.told_of(self.socket).expect("all is told");
        assert_eq!(reported.rcv_edge, self.sent as u64);
        self.is_awake()
    }

    /// Bytes that it has sent on the wire since it was last asked.
    fn sends(&mut self) -> u64 {
        let sent = self.single.sent_with_payload();
        sent.iter().map(|sent| sent.payload.len() as u64).sum()
    }

    fn sleep(&self) {
        self.single.arena.waiters()[0].declare(Sleep::Futex);
    }

    fn is_awake(&self) -> bool {
        !self.single.arena.waiters()[0].is_declared()
    }

    /// The program reads all that has come.
    fn reads(&mut self) {
        let edge = self.sent as u64;
        let block = self.single.arena.block(self.socket.index);
        block.rcv.done.store(edge, Ordering::Release);
        self.single.says(self.socket, 0, edge, EdgeFlags::empty());
        self.single.turn();
        self.single.discard_completions();
    }
}

/// SO_RCVLOWAT: so much, and not one byte less, counted from what was read; and the end at once.
#[test]
fn a_reader_is_woken_by_what_it_waits_for() {
    let none = TcpFlags::PSH;
    for over_the_wire in [true, false] {
        let mark = [(OptionName::ReceiveLowWater, MARK as u64)];
        let mut sleeper = Sleeper::new(over_the_wire, &mark);
        assert!(!sleeper.is_woken_by(MARK - 1, none), "{over_the_wire}");
        assert!(sleeper.is_woken_by(1, none), "{over_the_wire}");
        sleeper.reads();
        assert!(!sleeper.is_woken_by(MARK - 1, none), "{over_the_wire}");
        assert!(sleeper.is_woken_by(2, none), "{over_the_wire}");
        sleeper.reads();
        assert!(sleeper.is_woken_by(1, TcpFlags::FIN), "{over_the_wire}");
        let below = sleeper.single.stack.counters.waits.below_low_water;
        assert!(below == 2 || over_the_wire, "{below}");
        // Without a mark each byte is worth it.
        let mut sleeper = Sleeper::new(over_the_wire, &[]);
        assert!(sleeper.is_woken_by(1, none), "{over_the_wire}");
        // One that is set later counts from then on.
        sleeper.reads();
        sleeper.single.set(sleeper.socket, mark[0].0, mark[0].1);
        sleeper.single.turn();
        assert!(!sleeper.is_woken_by(1, none), "{over_the_wire}");
    }
}

/// The marks of both streams are there, also if they are the same.
#[test]
fn one_mark_does_not_take_the_other_away() {
    let marks = [OptionName::ReceiveLowWater, OptionName::NotSentLowat];
    let mut sleeper = Sleeper::new(true, &marks.map(|mark| (mark, MARK as u64)));
    assert!(!sleeper.is_woken_by(MARK - 1, TcpFlags::PSH));
    assert!(sleeper.is_woken_by(1, TcpFlags::PSH));
}

#[test]
fn a_reader_is_woken_as_its_mark_is_lowered() {
    let mark = OptionName::ReceiveLowWater;
    let mut sleeper = Sleeper::new(true, &[(mark, MARK as u64)]);
    assert!(!sleeper.is_woken_by(MARK / 2, TcpFlags::PSH));
    sleeper.single.set(sleeper.socket, mark, 1);
    sleeper.single.turn();
    assert!(sleeper.is_awake());
}

/// A piece of a message wakes nobody, until the time is over for which it may wait; and not then if
/// it was read.
#[test]
fn a_piece_of_a_message_waits_for_its_end_or_its_time() {
    const WITHIN_MS: u64 = 20;
    let rule = MessageRule::Delimiter(Delimiter::new(b"\n").unwrap());
    let whole = (OptionName::ReceiveMessages, rule.encode());
    let within = (OptionName::ReceiveMessagesWithin, WITHIN_MS);
    for (options, is_read, wakes) in [
        (&[whole][..], false, false),
        (&[whole, within], false, true),
        (&[whole, within], true, false),
    ] {
        let mut sleeper = Sleeper::new(true, options);
        assert!(!sleeper.is_woken_by(10, TcpFlags::PSH));
        if is_read {
            sleeper.reads();
        }
        sleeper.sleep();
        sleeper.single.turn_after(1_000 * WITHIN_MS / 2);
        assert!(!sleeper.is_awake(), "{options:?}");
        (0..3).for_each(|_| sleeper.single.turn_after(1_000 * WITHIN_MS));
        assert_eq!(sleeper.is_awake(), wakes, "{options:?} {is_read}");
    }
}

/// Who was woken for a message, or for a piece of one that had waited long enough, is not woken again
/// for the same bytes.
#[test]
fn nobody_is_woken_twice_for_the_same_bytes() {
    const WITHIN_MS: u64 = 20;
    // Each byte is 7, and so is the length: a message has 28 bytes.
    let rule = MessageRule::Length(LengthPrefix {
        offset: 0,
        width: 1,
        is_little_endian: false,
        adjustment: 20,
        maximum: 100,
    });
    let options = [
        (OptionName::ReceiveMessages, rule.encode()),
        (OptionName::ReceiveMessagesWithin, WITHIN_MS),
    ];
    for is_whole in [true, false] {
        let mut sleeper = Sleeper::new(true, &options);
        assert!(!sleeper.is_woken_by(10, TcpFlags::PSH));
        if is_whole {
            assert!(sleeper.is_woken_by(20, TcpFlags::PSH));
        } else {
            (0..3).for_each(|_| sleeper.single.turn_after(1_000 * WITHIN_MS));
            assert!(sleeper.is_awake());
        }
        sleeper.sleep();
        (0..5).for_each(|_| sleeper.single.turn_after(1_000 * WITHIN_MS));
        assert!(!sleeper.is_awake(), "{is_whole}");
    }
}

/// TCP_NOTSENT_LOWAT: who is held up by the mark is woken when less than half of it is left, though no
/// quarter of the buffer has become free, and whatever else it waits for.
#[test]
fn a_writer_is_woken_when_little_is_left_to_be_sent() {
    const LOWAT: u32 = 4_000;
    const WRITTEN: u64 = 60_000;
    let not_sent = (OptionName::NotSentLowat, u64::from(LOWAT));
    let receive = (OptionName::ReceiveLowWater, MARK as u64);
    // Within the engine so much goes to who does not read.
    let buffer = (OptionName::SendBuffer, 160_000);
    let room = 50_000;
    for (over_the_wire, waits_for_both) in
        [(true, false), (true, true), (false, false), (false, true)]
    {
        let marks = [not_sent, buffer, receive];
        let marks = &marks[..if waits_for_both { 3 } else { 2 }];
        let mut sleeper = Sleeper::new(over_the_wire, marks);
        let arena = Arc::clone(&sleeper.single.arena);
        let block = arena.block(sleeper.socket.index);
        block.snd.low_water.store(LOWAT, Ordering::Relaxed);
        sleeper
            .single
            .write(sleeper.socket, 0, &vec![7; WRITTEN as usize]);
        (0..2).for_each(|_| sleeper.single.turn());
        sleeper.single.discard_completions();
        sleeper.sleep();
        let mut sent = match over_the_wire {
            true => sleeper.sends(),
            false => room,
        };
        let mut acked = 0;
        while (WRITTEN - sent) >= u64::from(LOWAT) / 2 {
            assert!(
                !sleeper.is_awake(),
                "{over_the_wire} {waits_for_both} {sent}"
            );
            acked += 536;
            // Too little to read comes with it.
            let little = usize::from(waits_for_both);
            match sleeper.peer.clone() {
                Ok(next) => {
                    let header = TcpHeader {
                        seq: next.seq.add(sleeper.sent as u32),
                        ack: next.ack.add(acked as u32),
                        ..next
                    };
                    sleeper.single.segment(&header, &[7; 1][..little]);
                    sleeper.single.turn();
                    sent += sleeper.sends();
                }
                Err(client) => {
                    let at = sleeper.sent as u64;
                    let edge = append(&arena, client.index, at, &[7; 1][..little]);
                    sleeper.single.says(client, edge, acked, EdgeFlags::PUSH);
                    (0..2).for_each(|_| sleeper.single.turn());
                    sent = room + acked;
                }
            }
            sleeper.sent += little;
            sleeper.single.discard_completions();
        }
        assert!(
            acked < buffer.1 / 4,
            "less than who waits for room is told of"
        );
        assert!(sleeper.is_awake(), "{over_the_wire} {waits_for_both}");
    }
}

/// Urgent data is no matter of how much it is.
#[test]
fn a_reader_is_woken_for_urgent_data_below_its_mark() {
    for over_the_wire in [true, false] {
        let mark = [(OptionName::ReceiveLowWater, MARK as u64)];
        let mut sleeper = Sleeper::new(over_the_wire, &mark);
        assert!(!sleeper.is_woken_by(1, TcpFlags::PSH));
        match sleeper.peer.clone() {
            Ok(next) => {
                let header = TcpHeader {
                    seq: next.seq.add(1),
                    flags: TcpFlags::ACK | TcpFlags::URG,
                    urgent: 1,
                    ..next
                };
                sleeper.single.segment(&header, b"!");
            }
            Err(client) => {
                let snd_edge = append(&sleeper.single.arena, client.index, 1, b"!");
                let urgent = Request::Urgent {
                    socket: client,
                    snd_edge,
                    rcv_consumed: 0,
                };
                sleeper.single.ask(0, &urgent);
            }
        }
        (0..2).for_each(|_| sleeper.single.turn());
        assert!(sleeper.is_awake(), "{over_the_wire}");
    }
}

/// A mark makes a receive buffer that is tuned, and a clamp, grow to twice as much; a buffer that
/// was set stays.
#[test]
fn a_receive_buffer_grows_to_a_mark() {
    const MARK: u64 = 300_000;
    for (before, expected) in [
        (None, 2 * MARK),
        (Some((OptionName::WindowClamp, 5_000)), 2 * MARK),
        (Some((OptionName::ReceiveBuffer, 40_000)), 40_000),
    ] {
        let mut single = Single::new(GEOMETRY, 1);
        let listener = single.listen();
        single.turn();
        let scaled = TcpOptions {
            window_scale: Some(7),
            ..TcpOptions::default()
        };
        single.connect_with(0, scaled);
        single.turn();
        let socket = accepted(&mut single, listener, 0);
        if let Some((name, value)) = before {
            single.set(socket, name, value);
        }
        single.set(socket, OptionName::ReceiveLowWater, MARK);
        single.turn();
        let endpoints = &single.stack.endpoints;
        let key = endpoints.sessions.socket_of(single.session, socket.index);
        let kind = key
            .and_then(|key| endpoints.sockets.get(key))
            .map(|s| &s.kind);
        let Some(Kind::Stream(c)) = kind else {
            panic!("no connection");
        };
        assert_eq!(u64::from(c.tcb.widest_window()), expected);
    }
}

/// More than half of the buffer is not waited for, since no more may come.
#[test]
fn no_more_than_half_of_the_buffer_is_waited_for() {
    const BUFFER: usize = 8_000;
    let options = [
        (OptionName::ReceiveBuffer, BUFFER as u64),
        (OptionName::ReceiveLowWater, 1_000_000),
    ];
    let mut sleeper = Sleeper::new(false, &options);
    assert!(!sleeper.is_woken_by(BUFFER / 2 - 1, TcpFlags::PSH));
    assert!(sleeper.is_woken_by(1, TcpFlags::PSH));
}

/// How much is written to a connection and sent at once, and what is left of it: its mark, which
/// the listener, the machine or it itself has, rounded up to whole buffers.
#[test]
fn a_write_fills_the_windows_and_the_buffers_that_the_mark_begins() {
    const LOWAT: u32 = 4_000;
    /// net.ipv4.tcp_notsent_lowat.
    struct Machine(u32);
    impl Host for Machine {
        fn defaults(&mut self, _now: Instant) -> Option<Defaults> {
            Some(Defaults {
                not_sent_lowat: self.0,
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
    let not_sent = OptionName::NotSentLowat;
    for (of_machine, of_listener, own) in [
        (LOWAT, None, None),
        (0, Some(LOWAT), None),
        (0, None, Some(LOWAT)),
        (1, None, Some(LOWAT)),
        (LOWAT, None, Some(u32::MAX)),
    ] {
        let mut single = Single::new(GEOMETRY, 1);
        single.stack.settings.host = Box::new(Machine(of_machine));
        let listener = single.listen();
        if let Some(bytes) = of_listener {
            single.set(listener, not_sent, bytes.into());
        }
        single.turn();
        let peer = single.connect(0);
        single.turn();
        let socket = accepted(&mut single, listener, 0);
        let arena = Arc::clone(&single.arena);
        let block = arena.block(socket.index);
        let set = own.or(of_listener).unwrap_or(0);
        block.snd.low_water.store(set, Ordering::Relaxed);
        if let Some(bytes) = own {
            single.set(socket, not_sent, bytes.into());
            single.turn();
        }
        single.sent();
        let case = (of_machine, of_listener, own);
        if own == Some(u32::MAX) {
            assert_eq!(block.room_before_lowat(), u64::MAX, "{case:?}");
            continue;
        }
        let room = block.room_before_lowat();
        block.snd.edge.store(room, Ordering::Relaxed);
        single.write(socket, 0, &vec![7; room as usize]);
        single.turn();
        let sent: usize = single
            .sent_with_payload()
            .iter()
            .map(|s| s.payload.len())
            .sum();
        // Half of the peer's window, in whole segments of 536 bytes, the default.
        let buffer = 30_000 / 536 * 536;
        assert_eq!((room, sent), (10 * 536 + buffer, 5_360), "{case:?}");
        assert_eq!(block.room_before_lowat(), 0, "{case:?}");
        assert!(!block.is_below_lowat(), "{case:?}");
        // All but less than half of the mark has left.
        let mut acked = 0;
        while !block.is_below_lowat() {
            acked += 536;
            let header = TcpHeader {
                ack: peer.ack.add(acked),
                ..peer.clone()
            };
            single.segment(&header, &[]);
            single.turn();
        }
        let sent: usize = single
            .sent_with_payload()
            .iter()
            .map(|s| s.payload.len())
            .sum();
        let left = room - 5_360 - sent as u64;
        assert!(left < u64::from(LOWAT) / 2, "{case:?}: {left}");
    }
}

/// The host of a program that has made its send buffer small knows where Linux's buffers would begin
/// before it writes: two of half of the peer's window each behind what may be sent at once.
#[test]
fn a_small_send_buffer_is_one_of_memory() {
    const SIZE_GOAL: u64 = 30_000 / 536 * 536;
    const BUFFER: u64 = 40_000;
    for of_listener in [false, true] {
        let mut single = Single::new(GEOMETRY, 1);
        let listener = single.listen();
        if of_listener {
            single.set(listener, OptionName::SendBuffer, BUFFER);
        }
        single.turn();
        let peer = single.connect(0);
        single.turn();
        let socket = accepted(&mut single, listener, 0);
        let arena = Arc::clone(&single.arena);
        let block = arena.block(socket.index);
        if !of_listener {
            single.set(socket, OptionName::SendBuffer, BUFFER);
            single.turn();
        }
        block.set_flags(BlockFlags::COUNTS_MEMORY);
        single.sent();
        let room = block.send_room();
        assert_eq!(room, 10 * 536 + 2 * SIZE_GOAL, "{of_listener}");
        block.snd.edge.store(room, Ordering::Relaxed);
        single.write(socket, 0, &vec![7; room as usize]);
        single.turn();
        assert_eq!(block.send_room(), 0, "{of_listener}");
        assert!(!block.is_send_buffer_writable(), "{of_listener}");
        // More may be sent with each acknowledgment, so what follows would begin further on.
        let mut acked = 0;
        while !block.is_send_buffer_writable() {
            acked += 536;
            let header = TcpHeader {
                ack: peer.ack.add(acked),
                ..peer.clone()
            };
            single.segment(&header, &[]);
            single.turn();
            block.snd.done.store(acked.into(), Ordering::Relaxed);
        }
        let held = room - u64::from(acked);
        assert!(held < BUFFER * 2 / 3, "{of_listener}: {held}");
        assert!(block.send_room() > SIZE_GOAL / 2, "{of_listener}");
    }
}

/// A quarter of a small send buffer may be more than all that it holds; of a large one it never is,
/// however full that is.
#[test]
fn who_is_short_of_memory_is_told_of_each_acknowledgment() {
    for (buffer, writes) in [
        (4_608, [(400, None), (2_400, Some(500))]),
        (100_000, [(400, None), (95_000, None)]),
    ] {
        acknowledges(buffer, &writes);
    }
}

/// A program with a send buffer of so many bytes writes so much, one after the other, of which a little
/// is acknowledged; how much of that it is told of.
fn acknowledges(buffer: u64, writes: &[(usize, Option<u64>)]) {
    let mut single = Single::new(GEOMETRY, 1);
    let listener = single.listen();
    single.turn();
    let peer = single.connect(0);
    single.turn();
    let socket = accepted(&mut single, listener, 0);
    single.set(socket, OptionName::SendBuffer, buffer);
    single.set(socket, OptionName::NoDelay, 1);
    // A mark of the other stream is no matter.
    single.set(socket, OptionName::ReceiveLowWater, 1_000);
    single.turn();
    let mut acked = 0;
    for &(written, told) in writes {
        let before = acked;
        single.write(socket, before, &vec![7; written]);
        single.turn();
        single.discard_completions();
        acked = before + told.unwrap_or(400);
        let header = TcpHeader {
            ack: peer.ack.add(acked as u32),
            ..peer.clone()
        };
        single.segment(&header, &[]);
        single.turn();
        let said = single.told_of(socket).map(|edges| edges.snd_acked);
        assert_eq!(said, told.map(|_| acked), "{buffer} {written}");
    }
}
