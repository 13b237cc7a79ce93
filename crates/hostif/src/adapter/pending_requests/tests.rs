//! When requests are fetched, of which channels, and when the engine sleeps.

use super::*;
use crate::SocketId;
use crate::abi::Request;
use crate::adapter::session::small;
use crate::adapter::{AdapterSession, Immediate, Next, UnderWay};
use crate::host::HostChannel;
use longshore_ring::Doorbell;
use std::sync::Arc;

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

#[test]
fn a_channel_that_was_not_looked_at_is_flagged_again_and_no_other() {
    let session = open_many();
    assert_eq!(
        (session.pending.words(), session.pending.flagged_words()),
        (2, 0)
    );
    assert!(!session.pending.has_any());
    session.pending.flag_channel(70);
    assert!(session.pending.has_any() && session.pending.flagged_words() == 0b10);
    assert_eq!(
        (session.pending.take_flags(0), session.pending.take_flags(1)),
        (0, 1 << 6)
    );
    assert_eq!(
        (
            session.pending.take_flags(1),
            session.pending.flagged_words()
        ),
        (0, 0)
    );
    session.pending.flag_again(0, 0b101);
    assert_eq!(
        (
            session.pending.flagged_words(),
            session.pending.take_flags(0)
        ),
        (0b01, 0b101)
    );
}

#[test]
fn requests_that_wait_for_others_are_for_now_if_there_are_any() {
    let mut session = small();
    session.open_channel(3);
    assert!(!session.pending.hurry() && !session.pending.has_any());
    let mut host = HostChannel::new(session.arena().clone(), 3);
    host.put(&subscribe()).unwrap();
    host.publish_for(Hurry::Later, &Doorbell::new().unwrap(), false);
    assert!(!session.still_has_requests());
    assert!(session.pending.hurry() && session.still_has_requests());
}

/// What is fetched soon is the earlier of the two.
#[test]
fn those_that_are_held_back_are_fetched_with_those_that_are_due_soon() {
    let mut session = small();
    let any = &session.arena().header().requests_pending.any;
    any.store(Hurry::HeldBack as u32, Ordering::Relaxed);
    let delays = Delays {
        soon: 50,
        held_back: 1000,
    };
    assert_eq!(session.requests_due(7, delays), Due::At(1007));
    let any = &session.arena().header().requests_pending.any;
    any.fetch_or(Hurry::Soon as u32, Ordering::Relaxed);
    assert_eq!(session.requests_due(8, delays), Due::Soon);
    assert_eq!(session.requests_due(58, delays), Due::Now);
}

/// Each request that can wait is waited for from when it was first seen on.
#[test]
fn requests_wait_for_as_long_as_they_may_and_the_next_as_long_again() {
    let delays = Delays {
        soon: 50,
        held_back: 2_000,
    };
    for (hurry, wait) in [(Hurry::Soon, 50), (Hurry::HeldBack, 2_000)] {
        let mut session = open_many();
        let (arena, doorbell) = (Arc::clone(session.arena()), Doorbell::new().unwrap());
        let mut host = HostChannel::new(arena, 70);
        assert_eq!(session.requests_due(0, delays), Due::Never);
        for began in [1_000, 10_000] {
            host.put(&subscribe()).unwrap();
            host.publish_for(hurry, &doorbell, false);
            let later = match hurry {
                Hurry::Soon => Due::Soon,
                _ => Due::At(began + wait),
            };
            assert_eq!(session.requests_due(began, delays), later);
            assert_eq!(session.requests_due(began + wait - 1, delays), later);
            assert_eq!(session.requests_due(began + wait, delays), Due::Now);
            session.pending.begin();
            assert_eq!(session.pending.take_flags(1), 1 << 6);
            let taken = Next::Request(subscribe().encode(), Immediate::default());
            assert_eq!(session.next_request(70, 8), taken);
            session.channels.note_taken(70);
            assert!(!session.release_requests(UnderWay::Nothing));
        }
    }
}

/// Whatever the number of their channel.
#[test]
fn requests_of_any_channel_make_a_batch() {
    use crate::adapter::Batching;
    let mut session = open_many();
    session.set_batching(Batching::fixed(2, 1000).unwrap());
    let mut host = HostChannel::new(session.arena().clone(), 70);
    let delays = Delays {
        soon: 50,
        held_back: 1000,
    };
    for due in [Due::At(1007), Due::Now] {
        host.put(&subscribe()).unwrap();
        host.publish(&Doorbell::new().unwrap(), false);
        assert_eq!(session.requests_due(7, delays), due);
    }
    for (descriptors, microseconds) in [(0, 5), (5, 0), (0, 0)] {
        assert_eq!(Batching::fixed(descriptors, microseconds), None);
    }
}

#[test]
#[cfg_attr(miri, ignore = "it reads an eventfd")]
fn an_engine_that_has_parked_is_rung_for_whatever_is_published() {
    let mut session = small();
    session.open_channel(3);
    let doorbell = Doorbell::new().unwrap();
    let rung = || rustix::io::read(&doorbell, &mut [0; 8]).is_ok();
    let mut host = HostChannel::new(session.arena().clone(), 3);
    let mut publish = || {
        let socket = SocketId {
            index: 1,
            generation: 1,
        };
        host.put(&Request::Subscribe { socket }).unwrap();
        host.publish_for(crate::Hurry::Later, &doorbell, false);
    };
    session.pending.declare_asleep();
    publish();
    assert!(!rung(), "that can wait");
    // There is something already, which is for now then.
    assert!(!session.pending.park());
    assert!(!session.arena.header().engine.is_declared());
    assert!(session.still_has_requests());
    session.pending.begin();
    assert!(session.pending.park());
    publish();
    assert!(rung());
    session.pending.declare_awake();
    assert!(!session.arena.header().engine.is_declared());
    publish();
    assert!(!rung());
}
