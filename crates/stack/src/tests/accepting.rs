//! Edges of a connection that say that it was accepted: as if its listener's had said how far the
//! records were read, whatever the host claims.

use super::off_path::{GEOMETRY, accepted};
use super::single::Single;
use crate::socket::Kind;
use longshore_hostif::{ACCEPT_RECORD, EdgeFlags, SocketId, SocketKind};

const RECORD: u64 = ACCEPT_RECORD as u64;

/// A stack whose listener has so many connections that nobody has accepted.
fn waiting(count: u16) -> (Single, SocketId, Vec<SocketId>) {
    let mut single = Single::new(GEOMETRY, 2);
    let listener = single.listen();
    for number in 0..count {
        single.connect(number);
    }
    single.turn();
    let connections = (0..count).map(|which| accepted(&mut single, listener, which.into()));
    let connections = connections.collect();
    (single, listener, connections)
}

/// How many connections wait by the listener's queue, and how many have a listener.
fn unaccepted(single: &Single, listener: SocketId, connections: &[SocketId]) -> (usize, usize) {
    let stack = &single.stack;
    let kind_of = |id: SocketId| {
        let key = stack.endpoints.key_of(single.session(), id)?;
        stack.endpoints.sockets.get(key).map(|socket| &socket.kind)
    };
    let Some(Kind::Listener(l)) = kind_of(listener) else {
        panic!("it listens")
    };
    let waits = |id: &SocketId| match kind_of(*id) {
        Some(Kind::Stream(c)) => c.listener.is_some(),
        Some(Kind::Pair(p)) => p.listener.is_some(),
        _ => false,
    };
    let count = connections.iter().filter(|id| waits(id)).count();
    (l.queue.len(), count)
}

fn says(single: &mut Single, connection: SocketId) {
    single.edges(connection, 0, EdgeFlags::ACCEPTED);
    single.turn();
}

#[test]
fn those_before_it_are_accepted_with_it() {
    let (mut single, listener, all) = waiting(4);
    let left = |single: &Single| unaccepted(single, listener, &all);
    assert_eq!(left(&single), (4, 4));
    says(&mut single, all[1]);
    assert_eq!(left(&single), (2, 2));
    // Said again, and of one that was accepted before.
    for again in [1, 0] {
        says(&mut single, all[again]);
        assert_eq!(left(&single), (2, 2));
    }
    // By the listener's own edges, and what is late then.
    single.edges(listener, 3 * RECORD, EdgeFlags::empty());
    says(&mut single, all[2]);
    assert_eq!(left(&single), (1, 1));
    says(&mut single, all[3]);
    assert_eq!(left(&single), (0, 0));
    // Later ones are counted on.
    single.connect(9);
    single.turn();
    let next = accepted(&mut single, listener, 4);
    assert_eq!(unaccepted(&single, listener, &[next]), (1, 1));
    says(&mut single, next);
    assert_eq!(unaccepted(&single, listener, &[next]), (0, 0));
    let session = single.stack.endpoints.sessions.get(single.session());
    assert_eq!(session.unwrap().host.meter.bad_descriptors(), 0);
}

#[test]
fn what_never_waited_is_not_accepted() {
    let (mut single, listener, all) = waiting(2);
    let client = single.open(SocketKind::Stream);
    single.turn();
    single.connect_to_own(client);
    for liar in [listener, client, single.bind(SocketKind::Datagram, 90)] {
        single.edges(liar, 0, EdgeFlags::ACCEPTED);
        single.turn();
        assert_eq!(unaccepted(&single, listener, &all), (3, 2));
    }
}

/// One end of a connection within the engine waits as any other does.
#[test]
fn an_end_of_a_connection_of_its_own_is_accepted_so() {
    let (mut single, listener, all) = waiting(1);
    let client = single.open(SocketKind::Stream);
    single.connect_to_own(client);
    single.turn();
    let own = accepted(&mut single, listener, 1);
    let all = [all[0], own];
    assert_eq!(unaccepted(&single, listener, &all), (2, 2));
    says(&mut single, own);
    assert_eq!(unaccepted(&single, listener, &all), (0, 0));
}
