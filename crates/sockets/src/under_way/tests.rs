//! What waits for the engine, and for what, with an engine that looks at no requests for now.

use super::*;
use crate::testing::Engine;
use crate::testing::fixture::{Ignored, socket_in};
use crate::{Half, Listener, Socket, Stream};
use longshore_hostif::{BlockFlags, OwnersSignal, SocketKind, SocketState};
use std::cell::Cell;
use std::sync::atomic::Ordering;

/// How long something takes.
fn time_of<T>(what: impl FnOnce() -> T) -> (T, Duration) {
    let began = Instant::now();
    (what(), began.elapsed())
}

/// What was sent to sockets of the engine is fetched at once, and is waited for once: an engine that
/// does not get to it holds no further call up.
#[test]
fn what_is_under_way_is_waited_for_once() {
    let ignored = Ignored::new();
    assert!(!ignored.under_way().wait(), "there is nothing");
    ignored.say();
    assert!(
        !ignored.under_way().wait(),
        "nor does it go to a socket of the engine"
    );
    ignored.under_way().note();
    let (is_worth_a_look, took) = time_of(|| ignored.under_way().wait());
    assert!(is_worth_a_look && took >= LONGEST, "{took:?}");
    assert!(ignored.is_hurried());
    assert_eq!(ignored.host.session.under_way().unhandled().next(), None);
    assert!(!ignored.under_way().wait());
}

/// So does a call on a datagram socket or a listener that finds nothing; one on a connection knows
/// what comes to it.
#[test]
fn calls_that_find_nothing_wait_for_what_is_under_way() {
    use SocketState::{Connected, Listening, Open};
    for (kind, state, waits) in [
        (SocketKind::Datagram, Open, true),
        (SocketKind::Stream, Listening, true),
        (SocketKind::Stream, Connected, false),
    ] {
        let ignored = Ignored::new();
        let socket = socket_in(ignored.host, kind, state);
        ignored.under_way().note();
        assert_eq!(
            socket.pair_end().await_coming(),
            waits,
            "{kind:?} {state:?}"
        );
        assert_eq!(ignored.is_hurried(), waits);
        ignored.forget_hurry();
        // A connection whose other end reads on is not reset.
        ignored.say();
        ignored.under_way().note();
        socket.pair_end().await_reset();
        assert!(!ignored.is_hurried());
    }
}

/// An end that the other may have reset, or may have ended, waits for what is under way before a call
/// which that would make fail.
#[test]
fn an_end_waits_for_what_the_other_has_done_to_it() {
    type Call = fn(&Socket);
    let reads: Call = |socket| assert!(socket.receive_stream().peek().unwrap().is_empty());
    let ends: Call = |socket| {
        let _ = socket.halves().are_over();
    };
    let none = BlockFlags::empty();
    let (shut_rd, shut_wr) = (BlockFlags::SHUT_RD, BlockFlags::SHUT_WR);
    for (call, ours, theirs, waits) in [
        (reads, shut_rd, none, false),
        (reads, shut_rd, shut_rd, true),
        (ends, shut_wr, none, false),
        (ends, shut_wr, shut_wr, true),
    ] {
        let ignored = Ignored::new();
        let ignores = &ignored.engine.behavior.ignores_requests;
        ignores.store(false, Ordering::Relaxed);
        let (a, b) = Engine::pair(ignored.host);
        let (here, there) = (a.socket().block(), b.socket().block());
        here.set_other_end(b.socket().id().index);
        there.set_other_end(a.socket().id().index);
        ignored.begin_to_ignore();
        here.set_flags(ours);
        there.set_flags(theirs);
        ignored.say();
        ignored.under_way().note();
        call(a.socket());
        // Once is enough.
        let is_left = ignored.host.session.under_way().unhandled().next();
        assert_eq!(is_left.is_none(), waits, "{ours:?} {theirs:?}");
    }
}

/// A listener that is closed, or shut down for reading, takes its callers with it: both calls wait
/// until the engine knows. Closing what does not listen waits for nothing.
#[test]
fn what_stops_a_listener_waits_for_the_engine() {
    use SocketState::{Connected, Listening};
    type Stops = fn(Socket);
    let closes: Stops = drop;
    let shuts: Stops = |socket| {
        socket.halves().shut_down(Half::Read).unwrap();
        std::mem::forget(socket);
    };
    for (state, stops, waits) in [
        (Listening, closes, true),
        (Listening, shuts, true),
        (Connected, closes, false),
        (Connected, shuts, false),
    ] {
        let ignored = Ignored::new();
        let socket = Engine::open(ignored.host, SocketKind::Stream);
        socket.block().set_state(state);
        ignored.forget_hurry();
        let ((), took) = time_of(|| stops(socket));
        assert_eq!(took >= LONGEST, waits, "{state:?}: {took:?}");
    }
}

#[test]
fn a_wait_for_what_is_under_way_ends_the_turn() {
    let ignored = Ignored::new();
    ignored.write();
    ignored.under_way().note();
    assert!(ignored.under_way().wait());
    assert!(!ignored.host.channel.holds());
    ignored.write();
    ignored.under_way().await_own();
    assert!(!ignored.host.channel.holds());
}

/// Nobody can pass anything on any more.
#[test]
fn an_engine_that_is_gone_is_not_waited_for() {
    let mut ignored = Ignored::new();
    ignored.say();
    ignored.under_way().note();
    ignored.end_engine();
    assert!(!ignored.under_way().wait());
    ignored.under_way().await_own();
    ignored.under_way().await_opened();
    assert!(!ignored.is_hurried(), "nobody would fetch it");
    // Nor is a signal that it was about to raise.
    let socket = &ignored.socket;
    let wait = || time_of(|| ignored.under_way().await_raised(socket.id()));
    let raise = || {
        assert!(wait().1 < LONGEST_RAISED);
        Ok::<_, ()>(())
    };
    socket.block().raise(OwnersSignal::Ready, raise).unwrap();
}

/// What the engine has told before counts after each wait, whether or not there was anything to wait
/// for.
#[test]
fn what_the_engine_has_told_counts_after_a_wait() {
    type Wait = fn(&Ignored);
    let waits: [(&str, Wait); 4] = [
        ("noted", |i| {
            i.under_way().note();
            assert!(i.under_way().wait());
        }),
        ("under way", |i| {
            i.say();
            i.under_way().note();
            assert!(i.under_way().wait());
        }),
        ("own", |i| i.under_way().await_own()),
        ("own that is ignored", |i| {
            i.say();
            i.under_way().await_own();
        }),
    ];
    for (what, wait) in waits {
        let ignored = Ignored::new();
        let host = ignored.host;
        let ignores = &ignored.engine.behavior.ignores_requests;
        ignores.store(false, Ordering::Relaxed);
        let (a, b) = Engine::pair(host);
        a.write_all(b"x").unwrap();
        ignored.begin_to_ignore();
        ignored.engine.wait_until("it has told of it", |_| {
            host.session.has_completions(host.own_channel())
        });
        assert_eq!(b.socket().block().rcv.held(), 0);
        wait(&ignored);
        assert_eq!(b.socket().block().rcv.held(), 1, "{what}");
    }
}

/// Of what this process has done to its own connections, a call that says how one is waits for all,
/// and the next one for nothing.
#[test]
fn what_was_done_to_own_connections_is_waited_for_once() {
    let ignored = Ignored::new();
    ignored.say();
    ignored.under_way().await_own_pairs();
    assert!(!ignored.is_hurried(), "nothing was done to them");
    ignored.under_way().note_done_to_own();
    let ((), took) = time_of(|| ignored.under_way().await_own_pairs());
    assert!(ignored.is_hurried() && took >= LONGEST, "{took:?}");
    ignored.forget_hurry();
    ignored.under_way().await_own_pairs();
    assert!(!ignored.is_hurried());
}

/// A connection that waits for a place in the queue gets it when another is accepted, for which the
/// engine is woken.
#[test]
fn the_engine_is_woken_for_a_place_that_is_waited_for() {
    let ignored = Ignored::new();
    let host = ignored.host;
    let ignores = &ignored.engine.behavior.ignores_requests;
    ignores.store(false, Ordering::Relaxed);
    let listener = Listener::bind(host, Engine::address(0), 8).unwrap();
    let to = listener.local().unwrap();
    let _clients = [(); 2].map(|()| Stream::connect(host, to).unwrap());
    ignored.begin_to_ignore();
    for is_waited_for in [false, true] {
        if is_waited_for {
            let block = listener.socket().block();
            block.set_flags(BlockFlags::HAS_ENTERING);
        }
        let queue = listener.socket().accept_queue();
        assert!(queue.accept_with(|| Ok(())).is_ok());
        assert_eq!(ignored.is_hurried(), is_waited_for);
    }
}

/// Before another process gets a socket, the engine has heard that it was opened.
#[test]
fn the_engine_knows_of_a_socket_before_another_process_gets_it() {
    let mut times = Vec::new();
    for holds_back in [false, true] {
        let ignored = Ignored::new();
        let host = ignored.host;
        host.under_way().await_before_giving();
        assert!(!ignored.is_hurried(), "it knows of all");
        let _opened = Engine::open(host, SocketKind::Stream);
        ignored.forget_hurry();
        if holds_back {
            ignored.write();
        }
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| time_of(|| host.under_way().await_before_giving()));
            ignored
                .engine
                .wait_until("it is hurried", |_| ignored.is_hurried());
            let ignores = &ignored.engine.behavior.ignores_requests;
            ignores.store(false, Ordering::Relaxed);
            let ((), took) = waiting.join().unwrap();
            let (ring, number) = host.in_flight.opened();
            let is_known = host.session.has_handled(ring, number);
            assert!(is_known || took >= LONGEST_OPENED, "{took:?}");
            times.push(took);
        });
        assert!(!host.channel.holds(), "the turn is over");
    }
    // No longer than it takes, which may be long if the machine has much to do.
    assert!(times.iter().any(|took| *took < LONGEST_OPENED), "{times:?}");
}

/// It ends as soon as the condition holds, and with what that is.
#[test]
fn a_wait_lasts_until_it_is_over_or_too_long() {
    assert!(wait_until(Duration::ZERO, || true));
    let count = Cell::new(0_u32);
    let is_over = |n: u32| {
        count.set(count.get() + 1);
        count.get() > n
    };
    assert!(wait_until(Duration::from_secs(60), || is_over(3)));
    assert_eq!(count.get(), 4);
    // Looks that only give way take no time that counts.
    count.set(0);
    assert!(wait_until(Duration::ZERO, || is_over(LOOKS)));
    count.set(0);
    assert!(!wait_until(Duration::ZERO, || is_over(LOOKS + 1)));
    assert_eq!(count.get(), LOOKS + 1);
    // Those with a pause do.
    let began = Instant::now();
    count.set(0);
    assert!(!wait_until(Duration::from_millis(5), || is_over(
        u32::MAX - 1
    )));
    assert!(began.elapsed() >= Duration::from_millis(5));
    // At least one, also where those before have taken as long.
    assert!((LOOKS + 1..=LOOKS + 1 + 5_000 / 20).contains(&count.get()));
}
