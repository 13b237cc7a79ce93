//! What a process has published before it ended or became another program.

use super::*;

/// The next program on the channel gives its own questions the same tags.
#[test]
fn what_a_process_has_asked_last_is_answered_to_nobody() {
    let (mut world, mut host, _) = quiet();
    let (mut host, socket) = world.during(move |_| {
        let socket = host.open(SocketKind::Datagram);
        (host, socket)
    });
    let question = |tag| Request::Query {
        socket,
        tag,
        waiter: None,
        query: Query::TcpInfo,
    };
    let channel = host.channel.index() as u16;
    for (tag, is_last) in [(101, false), (102, true)] {
        host.channel.put(&question(tag)).unwrap();
        host.channel.publish(&host.doorbell, false);
        if is_last {
            assert_eq!(world.engine.requests().take_last(0, channel), 1);
        }
        world.run_pending();
        host.drain();
        assert_eq!(host.done_with(tag).is_none(), is_last);
    }
}

/// A full ring whose descriptors each say two things of their socket.
#[test]
fn all_that_a_process_has_asked_last_is_taken() {
    let (mut world, mut host, _) = quiet();
    let accepted_and_closed = Request::Edges {
        socket: NOBODY,
        snd_edge: 0,
        rcv_consumed: 0,
        flags: EdgeFlags::ACCEPTED | EdgeFlags::CLOSE,
        immediate: 0,
    };
    (0..RING).for_each(|_| host.channel.put(&accepted_and_closed).unwrap());
    assert!(host.channel.put(&TRIFLE).is_err(), "there is room for more");
    host.channel.publish(&host.doorbell, false);
    let channel = host.channel.index() as u16;
    let taken = world.engine.requests().take_last(0, channel);
    assert_eq!(taken, 2 * RING as u32);
}

/// Nobody asks again for what is left then.
#[test]
fn what_a_process_has_asked_last_is_taken_whole_however_long_that_takes() {
    let (mut world, mut host, _) = quiet();
    for generation in 1..4 {
        let socket = SocketId {
            index: 0,
            generation,
        };
        let nothing = Request::Close {
            socket,
            snd_edge: 0,
            rcv_consumed: 0,
            linger: None,
        };
        host.channel.put(&nothing).unwrap();
    }
    host.channel.publish(&host.doorbell, false);
    // The turn has lasted as long as all requests may take.
    std::thread::sleep(Duration::from_millis(2));
    let channel = host.channel.index() as u16;
    assert_eq!(world.engine.requests().take_last(0, channel), 3);
    assert_eq!(world.engine.requests().take_last(0, channel), 0);
}
