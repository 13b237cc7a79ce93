//! What all processes of a session share, and what the engine says to them.

use super::*;
use crate::abi::{Agreed, Completion, Request, SocketId};
use crate::adapter::AdapterSession;
use longshore_ring::{EventfdSignaler, Sleep};

mod workers;

fn both() -> (AdapterSession, HostSession) {
    let signaler = Arc::new(EventfdSignaler::for_one());
    let adapter = AdapterSession::create(Geometry::SMALL, signaler).unwrap();
    let host = HostSession::of(adapter.arena());
    (adapter, host)
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
