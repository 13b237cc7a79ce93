//! Fast Open (RFC 7413) of whole stacks: which SYNs' data a listener takes, for whom it makes
//! cookies and by which keys, and what a client makes of the cookies of servers.

use super::off_path::{GEOMETRY, accepted};
use super::single::{CLIENT, HALF_OPEN, ISN, SERVER, Sent, Single, header};
use super::streams::copy_out;
use crate::host::{Defaults, Host};
use crate::session::SPARE_CHUNKS;
use longshore_hostif::{
    Completion, EdgeFlags, Geometry, OptionName, Request, SocketId, SocketKind,
};
use longshore_tcp::{FastOpenKey, FastOpenUse, Instant};
use longshore_wire::SeqNumber;
use longshore_wire::tcp::{FastOpenCookie, TcpFlags, TcpHeader};
use std::net::SocketAddr;

const HOUR_US: u64 = 3_600_000_000;
const DATA: &[u8] = b"GET /";

/// A machine with these settings for Fast Open.
struct Machine {
    usage: FastOpenUse,
    keys: Option<(Option<FastOpenKey>, Option<FastOpenKey>)>,
}

impl Host for Machine {
    fn defaults(&mut self, _now: Instant) -> Option<Defaults> {
        Some(Defaults {
            fast_open: self.usage,
            ..Defaults::default()
        })
    }

    fn fast_open_keys(&self) -> Option<(Option<FastOpenKey>, Option<FastOpenKey>)> {
        self.keys
    }

    fn time_of_day_ns(&self) -> u64 {
        0
    }
}

fn key(of: u32) -> FastOpenKey {
    FastOpenKey::parse(&format!("{of:08x}-00000000-00000000-00000000")).unwrap()
}

/// A listener with this queue for SYNs with data, set before it listens.
fn listening(geometry: Geometry, queue: u64, backlog: u32) -> (Single, SocketId) {
    let mut single = Single::new(geometry, 1);
    let listener = single.bind(SocketKind::Stream, 80);
    single.set(listener, OptionName::FastOpen, queue);
    single.listen_at(listener, backlog);
    single.turn();
    single.discard_completions();
    (single, listener)
}

/// Client `number` sends a SYN with this option and this payload; the answer.
fn syn(
    single: &mut Single,
    number: u16,
    cookie: Option<FastOpenCookie>,
    payload: &[u8],
) -> TcpHeader {
    let mut syn = header(number, TcpFlags::SYN, ISN, SeqNumber(0));
    syn.options.fast_open = cookie;
    syn.options.mss = Some(1_460);
    single.sent();
    single.segment(&syn, payload);
    single.turn();
    single.sent().pop().expect("a SYN-ACK")
}

/// The cookie of client `number`, which asks for it and then goes away.
fn asks(single: &mut Single, number: u16) -> Option<FastOpenCookie> {
    let answer = syn(single, number, Some(FastOpenCookie::REQUEST), &[]);
    let reset = header(number, TcpFlags::RST, ISN.add(1), SeqNumber(0));
    single.segment(&reset, &[]);
    single.turn();
    assert_eq!(single.stack.status().half_open_count(), 0);
    answer.options.fast_open
}

/// Whether the SYN-ACK acknowledges the data.
fn takes_data(answer: &TcpHeader) -> bool {
    assert!(answer.flags.contains(TcpFlags::SYN | TcpFlags::ACK));
    answer.ack == ISN.add(1 + DATA.len() as u32)
}

#[test]
fn data_with_the_right_cookie_are_there_before_the_handshake_is_over() {
    let (mut single, listener) = listening(GEOMETRY, 5, 8);
    let cookie = asks(&mut single, 0);
    assert!(cookie.is_some_and(|cookie| cookie.as_bytes().len() == 8));
    let answer = syn(&mut single, 0, cookie, DATA);
    assert!(takes_data(&answer));
    assert_eq!(answer.options.fast_open, None, "it has it");
    assert_eq!(single.stack.counters.tcp.fast_opens, 1);
    assert_eq!(single.stack.status().half_open_count(), 0);
    let socket = accepted(&mut single, listener, 0);
    let mut got = [0; DATA.len()];
    copy_out(&single.arena, socket.index, 0, &mut got);
    assert_eq!(got, DATA);
    // The answer may go before the last segment of the handshake has come.
    single.write(socket, 0, b"200");
    single.turn();
    let sent: Vec<Sent> = single.sent_with_payload();
    assert_eq!(
        sent.last().map(|sent| sent.payload.as_slice()),
        Some(b"200".as_slice())
    );
    // Another client's cookie is another; of one address, it is the same.
    assert_eq!(asks(&mut single, 1), cookie);
}

#[test]
fn without_the_right_cookie_the_handshake_comes_first() {
    let (mut single, _) = listening(GEOMETRY, 5, 8);
    let right = asks(&mut single, 0);
    let wrong = FastOpenCookie::new(&[7; 8]);
    for cookie in [None, Some(FastOpenCookie::REQUEST), wrong] {
        let answer = syn(&mut single, 0, cookie, DATA);
        assert!(!takes_data(&answer));
        assert_eq!(answer.ack, ISN.add(1));
        assert_eq!(answer.options.fast_open, cookie.and(right));
        assert_eq!(single.stack.status().half_open_count(), 1);
        single.segment(&header(0, TcpFlags::RST, ISN.add(1), answer.ack), &[]);
        single.turn();
    }
    assert_eq!(single.stack.counters.tcp.fast_opens, 0);
}

/// The option has its effect before `listen` and after it, and none where it is 0.
#[test]
fn a_listener_says_whether_it_takes_data() {
    let (mut single, listener) = listening(GEOMETRY, 0, 8);
    assert_eq!(asks(&mut single, 0), None);
    single.set(listener, OptionName::FastOpen, 3);
    assert!(asks(&mut single, 0).is_some());
    single.set(listener, OptionName::FastOpen, 0);
    assert_eq!(asks(&mut single, 0), None);
}

/// Where the machine has it for all listeners, their backlog bounds it.
#[test]
fn a_machine_may_have_it_for_all_listeners() {
    for (number, all) in [(0x403, true), (0x3, false)] {
        let mut single = Single::new(GEOMETRY, 1);
        let usage = FastOpenUse::from_number(number);
        single.stack.settings.host = Box::new(Machine { usage, keys: None });
        let listener = single.bind(SocketKind::Stream, 80);
        single.listen_at(listener, 1);
        single.turn();
        let cookie = asks(&mut single, 0);
        assert_eq!(cookie.is_some(), all);
        if all {
            assert!(takes_data(&syn(&mut single, 0, cookie, DATA)));
            assert!(
                !takes_data(&syn(&mut single, 1, cookie, DATA)),
                "one, by its backlog"
            );
        }
    }
}

/// A key of our own makes cookies for an hour, and they are taken for an hour more, with a new one
/// in exchange.
#[test]
fn keys_of_our_own_change_every_hour() {
    let (mut single, _) = listening(GEOMETRY, 5, 8);
    single.turn_after(HOUR_US - single.now.0 % HOUR_US);
    let first = asks(&mut single, 0);
    single.turn_after(HOUR_US / 2);
    assert_eq!(asks(&mut single, 0), first);
    single.turn_after(HOUR_US / 2);
    let second = asks(&mut single, 0);
    assert_ne!(second, first);
    let answer = syn(&mut single, 1, first, DATA);
    assert!(takes_data(&answer));
    assert_eq!(answer.options.fast_open, second);
    single.turn_after(HOUR_US);
    let answer = syn(&mut single, 2, first, DATA);
    assert!(!takes_data(&answer), "two hours later");
}

/// The machine's keys make the cookies that its kernel would, the last one's are taken still.
#[test]
fn keys_of_the_machine_make_its_cookies() {
    let of = |of: u32| key(of).cookie(CLIENT.into(), SERVER.into());
    let cases = [
        // The keys, the cookie that is given, and those that are taken.
        ((Some(key(1)), None), of(1), vec![of(1)]),
        ((Some(key(2)), Some(key(1))), of(2), vec![of(2), of(1)]),
    ];
    for (keys, given, taken) in cases {
        let (mut single, _) = listening(GEOMETRY, 5, 8);
        single.stack.settings.host = Box::new(Machine {
            usage: FastOpenUse::default(),
            keys: Some(keys),
        });
        assert_eq!(asks(&mut single, 0), given);
        for (number, cookie) in [of(1), of(2), of(3)].into_iter().enumerate() {
            let answer = syn(&mut single, 1 + number as u16, cookie, DATA);
            let is_taken = taken.contains(&cookie);
            assert_eq!(takes_data(&answer), is_taken, "{number}");
            let has_it = is_taken && cookie == given;
            assert_eq!(
                answer.options.fast_open,
                (!has_it).then_some(given).flatten()
            );
        }
    }
}

/// What has proved its address by a cookie alone counts until its handshake is over, or it is
/// dead; beyond the queue's length an ordinary handshake comes first.
#[test]
fn the_queue_bounds_what_a_cookie_alone_has_opened() {
    let (mut single, _) = listening(GEOMETRY, 1, 8);
    let cookie = asks(&mut single, 0);
    let first = syn(&mut single, 0, cookie, DATA);
    assert!(takes_data(&first));
    let second = syn(&mut single, 1, cookie, DATA);
    assert!(!takes_data(&second));
    single.bring(1, TcpFlags::RST, second.ack);
    // The first's handshake is over.
    let next = ISN.add(1 + DATA.len() as u32);
    single.segment(&header(0, TcpFlags::ACK, next, first.seq.add(1)), &[]);
    let third = syn(&mut single, 2, cookie, DATA);
    assert!(takes_data(&third));
    // The third is reset before its own is.
    single.segment(&header(2, TcpFlags::RST, next, SeqNumber(0)), &[]);
    single.turn();
    assert!(takes_data(&syn(&mut single, 3, cookie, DATA)));
}

/// Data need memory; what was not taken for want of it does not count.
#[test]
fn data_are_taken_where_there_is_room_for_them() {
    for (chunks, takes) in [(SPARE_CHUNKS - 1, false), (SPARE_CHUNKS, true)] {
        let geometry = Geometry {
            rcv_chunks: chunks,
            ..GEOMETRY
        };
        let (mut single, _) = listening(geometry, 1, 8);
        let cookie = asks(&mut single, 0);
        assert_eq!(
            takes_data(&syn(&mut single, 0, cookie, DATA)),
            takes,
            "{chunks}"
        );
    }
}

/// A listener that waits for data takes a SYN that has some, and not one that has none, which does
/// not count then.
#[test]
fn a_listener_that_waits_for_data_takes_those_of_a_syn() {
    let (mut single, listener) = listening(GEOMETRY, 1, HALF_OPEN as u32);
    single.set(listener, OptionName::DeferAccept, 10);
    let cookie = asks(&mut single, 0);
    let answer = syn(&mut single, 0, cookie, &[]);
    assert_eq!(single.stack.status().half_open_count(), 1, "it waits");
    single.bring(0, TcpFlags::RST, answer.ack);
    single.turn();
    let answer = syn(&mut single, 1, cookie, DATA);
    assert!(takes_data(&answer));
    assert_eq!(single.stack.status().half_open_count(), 0);
}

/// The program connects to port 80 of the peer with TCP_FASTOPEN_CONNECT; the socket, and how many
/// bytes of its first write go with the SYN.
fn connects(single: &mut Single) -> (SocketId, u64) {
    let socket = single.open(SocketKind::Stream);
    single.set(socket, OptionName::FastOpenConnect, 1);
    let peer = SocketAddr::new(CLIENT.into(), 80).into();
    let (tag, waiter) = (5, None);
    single.discard_completions();
    single.sent();
    single.ask(
        0,
        &Request::Connect {
            socket,
            tag,
            waiter,
            peer,
        },
    );
    single.turn();
    let answer = single
        .reported()
        .into_iter()
        .find_map(|completion| match completion {
            Completion::Done {
                tag: 5,
                value,
                errno: 0,
                ..
            } => Some(value),
            _ => None,
        });
    (socket, answer.expect("an answer"))
}

/// The peer answers a SYN, with this cookie, and has `taken` so much of what came with it.
fn answers(single: &mut Single, syn: &TcpHeader, cookie: Option<FastOpenCookie>, taken: u32) {
    let flags = TcpFlags::SYN | TcpFlags::ACK;
    let mut answer = header(0, flags, SeqNumber(500), syn.seq.add(1 + taken));
    (answer.src_port, answer.dst_port) = (80, syn.src_port);
    answer.options.fast_open = cookie;
    answer.options.mss = Some(1_000);
    single.segment(&answer, &[]);
    single.turn();
}

#[test]
fn a_client_asks_for_a_cookie_and_sends_data_with_the_next_syn() {
    let mut single = Single::new(GEOMETRY, 1);
    let (first, room) = connects(&mut single);
    assert_eq!(room, 0, "there is no cookie");
    let syn = single.sent().pop().expect("a SYN");
    assert_eq!(syn.options.fast_open, Some(FastOpenCookie::REQUEST));
    let cookie = FastOpenCookie::new(b"cookie42");
    answers(&mut single, &syn, cookie, 0);
    assert_eq!(
        single.told_of(first).map(|reported| reported.flags),
        Some(EdgeFlags::CONNECTED)
    );
    // The next waits for what is written, which goes with it.
    let (second, room) = connects(&mut single);
    assert!(room > 900, "{room}");
    assert_eq!(single.sent(), []);
    single.write(second, 0, DATA);
    single.turn();
    let sent = single.sent_with_payload().pop().expect("a SYN");
    assert_eq!(sent.header.options.fast_open, cookie);
    assert_eq!(sent.payload, DATA);
    answers(&mut single, &sent.header, None, DATA.len() as u32);
    let reported = single.told_of(second).expect("it is connected");
    assert_eq!(reported.flags, EdgeFlags::CONNECTED);
    // One that writes nothing goes without.
    let (third, _) = connects(&mut single);
    assert_eq!(single.sent(), []);
    single.ask(
        0,
        &Request::Edges {
            socket: third,
            snd_edge: 0,
            rcv_consumed: 0,
            flags: EdgeFlags::PUSH,
            immediate: 0,
        },
    );
    single.turn();
    let sent = single.sent_with_payload().pop().expect("a SYN");
    assert_eq!(
        (sent.header.options.fast_open, sent.payload.len()),
        (cookie, 0)
    );
}

/// A server that answers without a cookie is asked once more, by the option of the experiments, and then
/// as any other. What else comes of its connections says nothing of that.
#[test]
fn a_server_without_a_cookie_is_asked_by_the_other_option_once() {
    let mut single = Single::new(GEOMETRY, 1);
    for is_experimental in [false, true, false] {
        let (socket, _) = connects(&mut single);
        let syn = single.sent().pop().expect("a SYN");
        let asked = FastOpenCookie::REQUEST.as_experiment(is_experimental);
        assert_eq!(syn.options.fast_open, Some(asked));
        answers(&mut single, &syn, None, 0);
        let flags = TcpFlags::FIN | TcpFlags::ACK;
        let mut end = header(0, flags, SeqNumber(501), syn.seq.add(1));
        (end.src_port, end.dst_port) = (80, syn.src_port);
        single.segment(&end, &[]);
        single.turn();
        let told = single.told_of(socket).expect("the end");
        assert!(told.flags.contains(EdgeFlags::PEER_FIN));
    }
}

/// Whoever has a connection before its handshake is over, and closes it without having written
/// anything, wants nothing more of it: it is gone, and its SYN is not sent again. What was written
/// is still to arrive.
#[test]
fn an_early_connection_without_data_ends_when_it_is_closed() {
    let before: [EdgeFlags; 3] = [
        EdgeFlags::empty(),
        EdgeFlags::PUSH,
        EdgeFlags::PUSH | EdgeFlags::SHUT_WR,
    ];
    for (flags, written) in before.into_iter().flat_map(|f| [(f, 0), (f, DATA.len())]) {
        let mut single = Single::new(GEOMETRY, 1);
        let (first, _) = connects(&mut single);
        let syn = single.sent().pop().expect("a SYN");
        answers(&mut single, &syn, FastOpenCookie::new(b"cookie42"), 0);
        single.close(first);
        single.turn();
        let others = single.stack.endpoints.sockets.len();
        let (early, _) = connects(&mut single);
        if written != 0 {
            single.write(early, 0, DATA);
            single.turn();
        }
        if !flags.is_empty() {
            single.edges(early, 0, flags);
            single.turn();
        }
        single.ask(
            0,
            &Request::Close {
                socket: early,
                snd_edge: written as u64,
                rcv_consumed: 0,
                linger: None,
            },
        );
        single.turn();
        single.sent();
        let what = format!("{flags:?} {written}");
        let left = single.stack.endpoints.sockets.len() - others;
        assert_eq!(left, usize::from(written != 0), "{what}");
        single.turn_after(1_100_000);
        let again = single.sent();
        let is_syn = again
            .iter()
            .any(|sent| sent.flags.contains(TcpFlags::SYN) && sent.src_port != syn.src_port);
        assert_eq!(is_syn, written != 0, "{what}");
    }
}

/// Where the machine has Fast Open for no client, a SYN is as any other.
#[test]
fn a_machine_may_have_it_for_no_client() {
    let mut single = Single::new(GEOMETRY, 1);
    single.stack.settings.host = Box::new(Machine {
        usage: FastOpenUse::from_number(2),
        keys: None,
    });
    let (_, room) = connects(&mut single);
    assert_eq!(room, 0);
    assert_eq!(single.sent().pop().expect("a SYN").options.fast_open, None);
}
