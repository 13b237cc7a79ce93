//! Rings that were broken, requests that take the place of others, flags, and room for answers.

use super::*;
use crate::abi::{EdgeFlags, Hurry};
use crate::adapter::AdapterSession;
use crate::adapter::session::small;
use crate::host::HostChannel;
use longshore_ring::Doorbell;
use std::sync::Arc;

/// Whatever its process makes of the ring afterwards, nothing is taken from it any more.
#[test]
fn a_ring_that_was_broken_stays_broken() {
    let mut session = small();
    session.open_channel(3);
    let (arena, doorbell) = (Arc::clone(session.arena()), Doorbell::new().unwrap());
    let socket = crate::abi::SocketId {
        index: 1,
        generation: 1,
    };
    let request = Request::Subscribe { socket };
    let asks = |host: &mut HostChannel| {
        host.put(&request).unwrap();
        host.publish(&doorbell, false);
    };
    let mut host = HostChannel::new(Arc::clone(&arena), 3);
    for _ in 0..2 {
        asks(&mut host);
        assert_eq!(
            session.next_request(3, 8),
            Next::Request(request.encode(), Immediate::default())
        );
    }
    // One that counts from the beginning again takes back what was published.
    asks(&mut HostChannel::new(arena, 3));
    assert_eq!(session.next_request(3, 8), Next::Broken);
    assert_eq!(session.meter.bad_descriptors(), 1);
    asks(&mut host);
    assert_eq!(session.next_request(3, 8), Next::Nothing);
    assert_eq!(session.meter.bad_descriptors(), 1);
    // The channel's next process begins anew.
    session.close_channel(3);
    session.open_channel(3);
    assert_eq!(
        session.next_request(3, 8),
        Next::Request(request.encode(), Immediate::default())
    );
}

/// The engine is woken for a request that its host takes back in that moment, finds nothing
/// and sleeps again: it is woken for what takes its place, though that could wait by itself.
#[test]
fn what_takes_the_place_of_an_urgent_request_is_urgent() {
    let mut session = small();
    session.open_channel(3);
    let (arena, doorbell) = (Arc::clone(session.arena()), Doorbell::new().unwrap());
    let edges = |rcv_consumed| Request::Edges {
        socket: crate::abi::SocketId {
            index: 1,
            generation: 1,
        },
        snd_edge: 0,
        rcv_consumed,
        flags: EdgeFlags::empty(),
        immediate: 0,
    };
    let mut host = HostChannel::new(Arc::clone(&arena), 3);
    for is_urgent in [true, false] {
        host.put(&edges(10)).unwrap();
        host.publish_for(Hurry::Later, &doorbell, false);
        if is_urgent {
            host.hurry(&doorbell);
        }
        host.put(&edges(20)).unwrap();
        session.pending.begin();
        assert_eq!(session.pending.take_flags(0), 1 << 3);
        assert_eq!(session.next_request(3, 8), Next::Nothing);
        session.pending.declare_asleep();
        assert!(!session.still_has_requests());
        host.publish_for(Hurry::Later, &doorbell, false);
        assert_eq!(arena.header().engine.is_declared(), !is_urgent);
        assert_eq!(session.still_has_requests(), is_urgent);
        let Next::Request(taken, _) = session.next_request(3, 8) else {
            panic!("it was published")
        };
        assert_eq!(Request::decode(&taken), Ok(edges(20)));
        session.pending.declare_awake();
    }
}

fn open_many() -> AdapterSession {
    let geometry = crate::abi::Geometry {
        channels: 128,
        ..crate::abi::Geometry::SMALL
    };
    let signaler = Arc::new(longshore_ring::EventfdSignaler::for_one());
    let mut session = AdapterSession::create(geometry, signaler).unwrap();
    session.open_channel(70);
    session
}

fn subscribe() -> Request {
    let socket = crate::abi::SocketId {
        index: 1,
        generation: 1,
    };
    Request::Subscribe { socket }
}

/// A process asks and takes no answers: those that it is owed find room all the same.
#[test]
fn no_request_is_taken_whose_answer_might_find_no_room() {
    let mut session = open_many();
    let (arena, doorbell) = (Arc::clone(session.arena()), Doorbell::new().unwrap());
    let mut host = HostChannel::new(arena, 70);
    assert_eq!(session.next_request(70, 2000), Next::Nothing, "none waits");
    host.put(&subscribe()).unwrap();
    host.put(&subscribe()).unwrap();
    host.publish(&doorbell, false);
    let room = crate::abi::RING as u32;
    assert_eq!(session.next_request(70, room + 1), Next::NoRoom);
    session.channels.owe_answer(70);
    session.channels.owe_answer(70);
    assert_eq!(session.next_request(70, room - 1), Next::NoRoom);
    let taken = Next::Request(subscribe().encode(), Immediate::default());
    assert_eq!(session.next_request(70, room - 2), taken);
    session.channels.pay_answer(70);
    assert_eq!(session.next_request(70, room - 1), taken);
    // One that is paid twice owes nothing.
    session.channels.pay_answer(70);
    session.channels.pay_answer(70);
    session.channels.owe_answer(70);
    host.put(&subscribe()).unwrap();
    host.publish(&doorbell, false);
    assert_eq!(session.next_request(70, room), Next::NoRoom);
    assert_eq!(session.next_request(70, room - 1), taken);
}

/// However much a process is owed that takes no more: what it has asked for is done.
#[test]
fn the_last_requests_of_a_process_need_no_room_for_answers() {
    let mut session = open_many();
    let (arena, doorbell) = (Arc::clone(session.arena()), Doorbell::new().unwrap());
    let mut host = HostChannel::new(arena, 70);
    host.put(&subscribe()).unwrap();
    host.publish(&doorbell, false);
    for _ in 0..=crate::abi::RING {
        session.channels.owe_answer(70);
    }
    assert_eq!(session.next_request(70, 0), Next::NoRoom);
    let taken = Next::Request(subscribe().encode(), Immediate::default());
    assert_eq!(session.last_request(70), taken);
    assert_eq!(session.last_request(70), Next::Nothing);
}

#[test]
fn a_channel_is_open_while_a_process_has_it() {
    let mut session = open_many();
    assert!(
        session.channels.is_open(70)
            && !session.channels.is_open(3)
            && !session.channels.is_open(u16::MAX)
    );
    session.close_channel(70);
    assert!(!session.channels.is_open(70));
    // There is no such channel.
    session.open_channel(u16::MAX);
    session.close_channel(u16::MAX);
    assert!(!session.channels.is_open(u16::MAX));
}

/// Packets between sockets of the engine are under way: the places of requests are kept for two
/// turns, and those of the next requests for two again.
#[test]
fn places_of_requests_are_kept_for_a_few_turns_at_most() {
    let mut session = open_many();
    let (arena, doorbell) = (Arc::clone(session.arena()), Doorbell::new().unwrap());
    let mut host = HostChannel::new(Arc::clone(&arena), 70);
    let given_back = || arena.control(70).requests.given_back();
    for taken in 1..4 {
        host.put(&subscribe()).unwrap();
        host.publish(&doorbell, false);
        assert!(matches!(session.next_request(70, 8), Next::Request(..)));
        session.channels.note_taken(70);
        session.channels.note_taken(70);
        for _ in 0..2 {
            assert!(session.release_requests(UnderWay::Passing));
            assert_eq!(given_back(), taken - 1);
        }
        assert!(!session.release_requests(UnderWay::Passing));
        assert_eq!(given_back(), taken);
        assert!(
            !session.release_requests(UnderWay::Passing),
            "there are none"
        );
    }
}

/// What is under way of one request gives no place back of a later one, which has its own
/// turns for what it leads to.
#[test]
fn a_request_is_kept_for_two_turns_of_its_own() {
    let mut session = small();
    session.open_channel(3);
    let (arena, doorbell) = (Arc::clone(session.arena()), Doorbell::new().unwrap());
    let socket = crate::abi::SocketId {
        index: 1,
        generation: 1,
    };
    let request = Request::Subscribe { socket };
    let mut host = HostChannel::new(Arc::clone(&arena), 3);
    let mut turn = |session: &mut AdapterSession, asks: u32, under_way| {
        for _ in 0..asks {
            host.put(&request).unwrap();
            host.publish(&doorbell, false);
            let taken = Next::Request(request.encode(), Immediate::default());
            assert_eq!(session.next_request(3, 8), taken);
            session.channels.note_taken(3);
        }
        let are_kept = session.release_requests(under_way);
        (arena.control(3).requests.given_back(), are_kept)
    };
    use UnderWay::{Nothing, Passing, Queued};
    for (asks, under_way, given_back) in [
        (1, Passing, (0, true)),
        (2, Passing, (0, true)),
        (1, Passing, (1, true)),
        (0, Passing, (3, true)),
        (0, Passing, (4, false)),
        (1, Passing, (4, true)),
        (1, Nothing, (6, false)),
        (0, Passing, (6, false)),
        (2, Passing, (6, true)),
        (0, Queued, (6, true)),
        (0, Queued, (6, true)),
        (0, Passing, (6, true)),
        (0, Passing, (8, false)),
        (0, Nothing, (8, false)),
        (1, Nothing, (9, false)),
    ] {
        let was = turn(&mut session, asks, under_way);
        assert_eq!(was, given_back, "{asks} asked, {under_way:?}");
    }
    // More than a turn takes, again and again, keeps them not for ever.
    turn(&mut session, 1, Queued);
    let turns = (0..1000).position(|_| turn(&mut session, 0, Queued).0 == 10);
    assert_eq!(turns, Some(usize::from(MOST_QUEUED) + 1));
}

/// A socket is counted from the request by which it is opened, with the doorbell that was rung
/// for it.
#[test]
fn what_crosses_for_a_socket_is_counted_from_its_first_request_on() {
    let mut session = small();
    session.open_channel(3);
    let mut host = HostChannel::new(session.arena().clone(), 3);
    let socket = subscribe().socket();
    let open = Request::Open {
        socket,
        kind: crate::SocketKind::Stream,
        flags: crate::OpenFlags::empty(),
    };
    let mut fetched = |session: &mut AdapterSession, request, rings| {
        host.put(&request).unwrap();
        host.publish(&Doorbell::new().unwrap(), false);
        (0..rings).for_each(|_| session.meter.note_doorbell());
        assert!(matches!(session.next_request(3, 8), Next::Request(..)));
        let to_adapter = session.meter.of(socket).to_adapter;
        (to_adapter.descriptors.count, to_adapter.wakeups)
    };
    assert_eq!(
        fetched(&mut session, subscribe(), 1),
        (0, 0),
        "it is not open"
    );
    assert_eq!(fetched(&mut session, open, 2), (1, 2));
    assert_eq!(fetched(&mut session, subscribe(), 0), (2, 2));
    assert_eq!(fetched(&mut session, subscribe(), 1), (3, 3));
    assert_eq!(session.meter.to_adapter.wakeups, 4);
    assert_eq!(session.meter.to_adapter.descriptors.count, 4);
}

/// What one of them was told is not told the next.
#[test]
fn whoever_has_a_channel_anew_is_another_process() {
    let mut session = small();
    for _ in 0..2 {
        let reported = session.receive.epochs.reported(3, 0);
        assert!(session.receive.epochs.is_there(&reported));
        session.open_channel(3);
        assert!(!session.receive.epochs.is_there(&reported));
    }
}

/// For an adapter that has agreed to no immediate data: what is said beside edges is a request of
/// its own.
#[test]
fn requests_come_one_by_one() {
    let session = small();
    let arena = session.arena();
    let (mut host, mut adapter) = (HostChannel::new(arena.clone(), 5), AdapterChannel::new(5));
    let socket = subscribe().socket();
    let edges = |flags| Request::Edges {
        socket,
        snd_edge: 0,
        rcv_consumed: 5,
        flags,
        immediate: 0,
    };
    assert_eq!(adapter.next(arena), Ok(None));
    host.put(&subscribe()).unwrap();
    host.put(&edges(EdgeFlags::ACCEPTED)).unwrap();
    let close = Request::Close {
        socket,
        snd_edge: 0,
        rcv_consumed: 5,
        linger: None,
    };
    host.put(&close).unwrap();
    host.publish(&Doorbell::new().unwrap(), false);
    for request in [subscribe(), edges(EdgeFlags::ACCEPTED), close] {
        assert!(adapter.pending(arena));
        let message = adapter.next(arena).unwrap().unwrap();
        assert_eq!(Request::decode(&message), Ok(request));
    }
    assert!(!adapter.pending(arena));
    assert_eq!(adapter.next(arena), Ok(None));
}

/// However many wait in the last channel that is looked at.
#[test]
fn as_many_requests_are_counted_as_are_asked_for() {
    let mut session = open_many();
    let doorbell = Doorbell::new().unwrap();
    for (channel, count) in [(3, 3), (70, 5)] {
        if channel == 3 {
            session.open_channel(3);
        }
        let mut host = HostChannel::new(Arc::clone(session.arena()), channel);
        for _ in 0..count {
            host.put(&subscribe()).unwrap();
        }
        host.publish(&doorbell, false);
    }
    let waiting = |most| session.channels.waiting(&session.pending, most);
    assert_eq!([0, 2, 3, 4, 8, 9].map(waiting), [0, 2, 3, 4, 8, 8]);
}
