//! What all processes of a session share, and what the engine says to them.

use super::*;
use crate::abi::{Agreed, Completion, Request, SocketId};
use crate::adapter::AdapterSession;
use longshore_ring::{EventfdSignaler, Sleep};

mod workers;

#[test]
fn what_is_under_way_is_known_until_it_is_handled_or_given_up() {
    let geometry = Geometry {
        channels: 128,
        ..Geometry::SMALL
    };
    let arena = Arc::new(Arena::create(geometry).unwrap());
    let session = HostSession::of(&arena);
    let doorbell = Doorbell::new().unwrap();
    let all = || session.under_way().collect::<Vec<_>>();
    let mut ends = [3, 67, 5].map(|index| {
        let adapter = crate::AdapterChannel::new(index);
        (HostChannel::new(arena.clone(), index), adapter)
    });
    let request = Request::Subscribe {
        socket: SocketId {
            index: 0,
            generation: 1,
        },
    };
    for (host, _) in &mut ends {
        host.put(&request).unwrap();
        host.publish(&doorbell, false);
        session.note_under_way(host.index());
    }
    assert_eq!(all(), [(3, 1), (67, 1), (5, 1)]);
    let (host, adapter) = &mut ends[0];
    assert!(adapter.get(&arena).unwrap().is_some());
    adapter.release(&arena);
    assert_eq!(all(), [(67, 1), (5, 1)]);
    session.forget_under_way(67, 0);
    session.forget_under_way(67, 1);
    assert_eq!(all(), [(5, 1)]);
    assert_eq!(arena.header().under_way.load(Ordering::Relaxed), 1 << 5);
    host.put(&request).unwrap();
    host.publish(&doorbell, false);
    session.note_under_way(3);
    assert_eq!(all(), [(3, 2), (5, 1)]);
    arena.control(5).reset();
    assert_eq!(all(), [(3, 2)]);
}

#[test]
fn each_waiter_has_one_owner_and_is_claimed_again_when_it_is_free() {
    let arena = Arc::new(Arena::create(Geometry::SMALL).unwrap());
    let session = HostSession::of(&arena);
    let count = Geometry::SMALL.waiters;
    let claimed: Vec<u32> = (0..count)
        .filter_map(|i| session.claim_waiter(7, i * 5 + 3))
        .collect();
    let mut sorted = claimed.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, (0..count).collect::<Vec<_>>());
    assert_eq!(claimed[0], 3);
    assert_eq!(session.claim_waiter(8, 0), None);
    assert_eq!(arena.claimed_waiters().len(), count as usize);
    assert!(session.free_waiter(5) && !session.free_waiter(count));
    assert_eq!(session.claim_waiter(8, u32::MAX), Some(5));
    assert_eq!(session.waiter(5).owner.load(Ordering::Relaxed), 8);
}

fn both() -> (AdapterSession, HostSession) {
    let signaler = Arc::new(EventfdSignaler::for_one());
    let adapter = AdapterSession::create(Geometry::SMALL, signaler).unwrap();
    let host = HostSession::of(adapter.arena());
    (adapter, host)
}

#[test]
fn what_the_adapter_takes_is_known_by_its_version() {
    type Takes = fn(&HostSession) -> bool;
    let takes: [(Takes, u16); 6] = [
        (HostSession::can_cancel, CANCEL_SINCE),
        (HostSession::supports_low_water, LOW_WATER_SINCE),
        (HostSession::supports_messages, MESSAGES_SINCE),
        (HostSession::supports_message_time, MESSAGES_WITHIN_SINCE),
        (HostSession::supports_accept_on_data, ACCEPT_ON_DATA_SINCE),
        (HostSession::can_take_ports, PORT_OF_SINCE),
    ];
    for version in 11..=21 {
        let agreed = Agreed {
            version,
            ..Agreed::OURS
        };
        let arena = Arena::create_for(Geometry::SMALL, agreed).unwrap();
        let session = HostSession::of(&Arc::new(arena));
        for (takes, since) in takes {
            assert_eq!(takes(&session), version >= since, "{version}, {since}");
        }
    }
}

#[test]
fn what_the_engine_says_to_all_is_read() {
    let (adapter, host) = both();
    let said = || (host.is_alone(), host.congestion(), host.is_closed());
    assert_eq!(said(), (false, 0, false));
    adapter.header().set_engine_alone(true);
    assert_eq!(said(), (true, 0, false));
    adapter.header().set_congestion(2);
    assert_eq!(said(), (true, 2, false));
    adapter.header().mark_closed();
    assert_eq!(said(), (true, 2, true));
    adapter.header().set_engine_alone(false);
    assert_eq!(said(), (false, 2, true));
}

#[test]
fn what_a_channel_has_is_its_own() {
    let (adapter, host) = both();
    let control = adapter.arena().control(3);
    control.pid.store(77, Ordering::Relaxed);
    assert_eq!((host.name_of(3), host.name_of(4)), (77, 0));
    control.write_mailbox(b"an answer");
    assert_eq!(&host.read_mailbox(3)[..10], b"an answer\0");
    assert_eq!(host.read_mailbox(4)[0], 0);
    let asking = host.asking(3).lock().unwrap();
    assert!(control.asking.try_lock().is_none());
    assert!(host.asking(4).try_lock().is_some());
    drop(asking);
}

#[test]
fn requests_are_handled_once_their_places_are_given_back() {
    let (adapter, host) = both();
    let arena = adapter.arena();
    let mut ends = (
        HostChannel::new(arena.clone(), 3),
        crate::AdapterChannel::new(3),
    );
    let socket = SocketId {
        index: 0,
        generation: 1,
    };
    assert_eq!((host.requested(3), host.has_handled(3, 0)), (0, true));
    for number in 1..=2 {
        ends.0.put(&Request::Unsubscribe { socket }).unwrap();
        assert_eq!(ends.0.staged(), number);
    }
    ends.0.publish(&Doorbell::new().unwrap(), false);
    assert_eq!((host.requested(3), ends.0.staged()), (2, 0));
    assert!(!host.has_handled(3, 1));
    assert!(ends.1.get(arena).unwrap().is_some());
    ends.1.release(arena);
    assert!(host.has_handled(3, 1) && !host.has_handled(3, 2));
    assert!(!host.has_completions(3));
    ends.1.put(arena, &Completion::More).unwrap();
    ends.1.publish(arena);
    assert!(host.has_completions(3) && !host.has_completions(4));
    assert!(ends.0.pending());
    assert!(ends.0.get().unwrap().is_some());
    assert!(host.has_completions(3), "it may not be applied yet");
    ends.0.release();
    assert!(!host.has_completions(3) && !ends.0.pending());
}

#[test]
fn blocks_are_in_use_up_to_the_highest_that_was_ever_held() {
    let (_adapter, host) = both();
    assert_eq!(host.used_blocks(), 0..0);
    for (index, end) in [(0, 1), (1, 2), (5, 6), (2, 6), (6, 7), (1000, 64)] {
        host.note_used(index);
        assert_eq!(host.used_blocks(), 0..end);
    }
}

/// Whoever had it before may have died while it slept.
#[test]
fn a_waiter_is_awake_when_it_is_claimed_and_when_it_is_free() {
    let (_adapter, host) = both();
    host.waiter(3).declare(Sleep::Futex);
    assert_eq!(host.claim_waiter(7, 3), Some(3));
    assert!(!host.waiter(3).is_declared());
    host.waiter(3).declare(Sleep::Futex);
    assert!(host.free_waiter(3) && !host.waiter(3).is_declared());
}

#[test]
fn one_look_says_whether_anything_is_under_way() {
    let (_adapter, host) = both();
    assert!(!host.has_under_way());
    host.note_under_way(3);
    assert!(host.has_under_way());
    // Nothing was published, so all is handled.
    assert_eq!(host.under_way().next(), None);
    assert!(!host.has_under_way());
}

#[test]
#[cfg_attr(miri, ignore = "it reads an eventfd")]
fn an_engine_that_sleeps_is_woken_to_fetch_what_was_for_later() {
    let (adapter, host) = both();
    let doorbell = Doorbell::new().unwrap();
    let rung = || rustix::io::read(&doorbell, &mut [0; 8]).is_ok();
    let any = &adapter.arena().header().requests_pending.any;
    any.store(Hurry::Later as u32, Ordering::Relaxed);
    host.hurry_all(&doorbell);
    assert!(!rung(), "it is awake");
    let both = Hurry::Later as u32 | Hurry::Now as u32;
    assert_eq!(any.load(Ordering::Relaxed), both);
    adapter.pending.declare_asleep();
    host.hurry_all(&doorbell);
    assert!(rung());
}
