//! What is said to all programs, and counted; when the engine sleeps; and what memory is taken.

use super::*;
use crate::abi::Request;
use crate::adapter::session::small;
use crate::host::{HostChannel, HostSession};
use crate::meter::Moved;
use crate::{SocketId, chunk_of};
use longshore_ring::Doorbell;

#[test]
#[cfg_attr(miri, ignore = "no memory is mapped twice there")]
fn memory_counts_as_far_as_it_is_in_use_and_while_it_is_there() {
    let session = small();
    let memory = session.memory();
    let before = memory.in_use().unwrap();
    // The first chunk has taken some already.
    let place = session.arena.snd_place(1, 0, 1 << 16).unwrap();
    session.arena.memory().write(place, &[1; 1 << 16]);
    assert_eq!(memory.in_use(), Some(before + (1 << 16)));
    assert!(memory.is_there());
    drop(session);
    assert!(!memory.is_there() && memory.in_use().is_none());
}

/// Each contiguous piece of it is a move.
#[test]
fn what_is_said_to_all_is_read_and_counted() {
    let session = small();
    let host = HostSession::of(session.arena());
    let counted = |say: &dyn Fn()| {
        let before = session.crossings().to_host.control;
        say();
        let mut moved = session.crossings().to_host.control;
        moved.take_out(&before);
        moved
    };
    let moved = |transfers, bytes: u64| Moved {
        transfers,
        bytes,
        words: bytes.div_ceil(8),
    };
    let route = |address: &str| Route {
        address: address.parse().unwrap(),
        prefix_len: 32,
        local: true,
        scope: 0,
    };
    let routes = ["10.0.0.1", "10.0.0.2", "10.0.0.3"].map(route);
    let told = counted(&|| session.publish_routes(&routes, Loopback::Engine));
    assert_eq!(told, moved(2, 3 * ROUTE_BYTES as u64 + 8));
    assert!(host.routes().iter().eq(routes));
    let told = counted(&|| session.publish_mtu([1500, 1400], true));
    assert_eq!(told, moved(1, 12));
    assert_eq!(host.routes().mtu_of_link(), [1500, 1400]);
    assert!(host.routes().has_narrow_paths());
    session.publish_mtu([1500, 1400], false);
    assert!(!host.routes().has_narrow_paths());
    assert_eq!(counted(&|| session.set_congestion(2)), moved(1, 4));
    assert_eq!(counted(&|| session.set_engine_alone(true)), moved(0, 0));
    assert_eq!(counted(&|| session.mark_closed()), moved(1, 4));
    assert_eq!((host.congestion(), host.is_alone()), (2, true));
    assert!(host.is_closed());
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
    session.declare_asleep();
    publish();
    assert!(!rung(), "that can wait");
    // There is something already, which is for now then.
    assert!(!session.park());
    assert!(!session.arena.header().engine.is_declared());
    assert!(session.still_has_requests());
    session.begin_requests();
    assert!(session.park());
    publish();
    assert!(rung());
    session.declare_awake();
    assert!(!session.arena.header().engine.is_declared());
    publish();
    assert!(!rung());
}

#[test]
fn chunks_of_either_slab_are_warm_until_they_are_cooled() {
    let mut session = small();
    assert!(!session.has_warm_chunks() && session.warm_send_chunks(9) == 0);
    let chunks = [(); 2].map(|()| session.arena.take_snd_chunk().unwrap().unwrap());
    for chunk in chunks {
        assert_eq!(chunk_of(chunk), chunk);
        session.arena.give_snd_chunk(chunk).unwrap();
    }
    assert!(session.has_warm_chunks());
    assert_eq!(
        (session.warm_send_chunks(9), session.warm_send_chunks(1)),
        (2, 1)
    );
    for left in [1, 0] {
        assert!(session.cool_send_chunk().unwrap());
        assert_eq!(session.warm_send_chunks(9), left);
    }
    assert!(!session.cool_send_chunk().unwrap() && !session.has_warm_chunks());
    let chunk = session.receive.take().unwrap();
    session.receive.give_back(chunk);
    assert!(session.has_warm_chunks());
}
