//! Both ends of a channel over one arena.

use super::{Arena, PutError};
use crate::{AdapterChannel, Completion, Geometry, HostChannel, MAILBOX_BYTES, Request, SocketId};
use longshore_ring::Doorbell;
use std::sync::Arc;

#[test]
fn requests_and_completions_cross() {
    let arena = Arc::new(Arena::create(Geometry::SMALL).unwrap());
    let (mut host, mut adapter) = (HostChannel::new(arena.clone(), 3), AdapterChannel::new(3));
    let doorbell = Doorbell::new().unwrap();
    let socket = SocketId {
        index: 1,
        generation: 2,
    };
    let request = Request::Subscribe { socket };
    host.put(&request).unwrap();
    assert_eq!(adapter.get(&arena).unwrap(), None);
    host.publish(&doorbell, true);
    let got = adapter.get(&arena).unwrap().unwrap();
    assert_eq!(Request::decode(&got), Ok(request));
    let edges = crate::Edges {
        rcv_edge: 1,
        snd_acked: 2,
        flags: crate::EdgeFlags::CONNECTED,
        errno: 0,
        rcv_urgent: 0,
    };
    let completion = Completion::Edges { socket, edges };
    adapter.put(&arena, &completion).unwrap();
    assert!(!host.pending());
    assert_eq!(adapter.publish(&arena), 1);
    assert_eq!(host.get().unwrap(), Some(Some(completion)));
    assert_eq!(host.get().unwrap(), None);
}

#[test]
#[cfg_attr(
    miri,
    ignore = "its rings are too long for it; those of the crate ring are not"
)]
fn a_full_ring_says_so_and_empties_again() {
    let arena = Arc::new(Arena::create(Geometry::SMALL).unwrap());
    let (mut host, mut adapter) = (HostChannel::new(arena.clone(), 0), AdapterChannel::new(0));
    let doorbell = Doorbell::new().unwrap();
    let request = Request::Subscribe {
        socket: SocketId {
            index: 1,
            generation: 2,
        },
    };
    for _ in 0..crate::RING {
        host.put(&request).unwrap();
    }
    assert_eq!(host.put(&request), Err(PutError::Full));
    host.publish(&doorbell, false);
    while adapter.get(&arena).unwrap().is_some() {}
    adapter.release(&arena);
    assert_eq!(host.put(&request), Ok(()));
}

#[test]
fn mailboxes_carry_bytes() {
    let arena = Arena::create(Geometry::SMALL).unwrap();
    let bytes: Vec<u8> = (0..237u32).map(|b| b as u8).collect();
    assert_eq!(arena.control(1).write_mailbox(&bytes), 237);
    assert_eq!(arena.control(1).read_mailbox()[..237], bytes);
    assert_eq!(arena.control(1).write_mailbox(&[7; 1000]), MAILBOX_BYTES);
}
