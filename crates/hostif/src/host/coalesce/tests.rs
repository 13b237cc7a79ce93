//! What two requests say that are one.

use super::*;

const SOCKET: SocketId = SocketId {
    index: 1,
    generation: 2,
};

const OTHER: SocketId = SocketId {
    index: 2,
    generation: 2,
};

fn edges(snd_edge: u64, rcv_consumed: u64, flags: EdgeFlags) -> Request {
    Request::Edges {
        socket: SOCKET,
        snd_edge,
        rcv_consumed,
        flags,
        immediate: 0,
    }
}

fn both(first: Request, then: Request) -> Option<Request> {
    coalesce(&Moved::of(&first).unwrap(), &then, 5, true)
}

#[test]
fn where_a_record_ends_is_not_lost() {
    use EdgeFlags as F;
    let ends = F::PUSH | F::RECORD_END;
    let record = edges(20, 7, ends);
    assert_eq!(both(edges(10, 7, F::PUSH), record), Some(record));
    assert_eq!(
        both(record, edges(20, 9, F::empty())),
        Some(edges(20, 9, ends))
    );
    assert_eq!(both(record, edges(30, 7, F::PUSH)), None);
    assert_eq!(both(edges(30, 7, F::PUSH), record), None, "told late");
    assert_eq!(both(record, record), Some(record));
}

#[test]
fn edges_add_up() {
    use EdgeFlags as F;
    let none = F::empty();
    assert_eq!(
        both(edges(10, 7, F::PUSH), edges(20, 5, F::PUSH)),
        Some(edges(20, 7, F::PUSH))
    );
    assert_eq!(
        both(edges(10, 7, F::MORE), edges(20, 7, F::MORE)),
        Some(edges(20, 7, F::MORE))
    );
    assert_eq!(
        both(edges(10, 7, F::MORE), edges(20, 7, F::PUSH)),
        Some(edges(20, 7, F::PUSH))
    );
    // What was only read changes nothing of what waits.
    assert_eq!(
        both(edges(10, 7, F::MORE), edges(10, 9, none)),
        Some(edges(10, 9, F::MORE))
    );
    assert_eq!(
        both(edges(10, 7, F::MORE), edges(10, 7, F::PUSH)),
        Some(edges(10, 7, F::PUSH))
    );
    // The cork goes in, something is written, and it is out again.
    let cork = F::MORE | F::CORK;
    for (first, then, expected) in [
        (edges(10, 7, none), edges(10, 7, cork), edges(10, 7, cork)),
        (edges(10, 7, cork), edges(20, 7, cork), edges(20, 7, cork)),
        (edges(20, 7, cork), edges(20, 9, none), edges(20, 9, cork)),
        (
            edges(20, 7, cork),
            edges(20, 7, F::PUSH),
            edges(20, 7, F::PUSH),
        ),
    ] {
        assert_eq!(both(first, then), Some(expected));
    }
    let shut = F::SHUT_WR | F::LINGERS;
    assert_eq!(
        both(edges(10, 7, F::PUSH), edges(10, 7, shut)),
        Some(edges(10, 7, F::PUSH | shut))
    );
}

/// A listener's shutdown resets what is not known to have been accepted by then.
#[test]
fn what_was_accepted_is_told_before_its_listener_is_shut_down() {
    use EdgeFlags as F;
    let shut = edges(0, 128, F::SHUT_RD);
    let accepted = edges(0, 64, F::empty());
    assert_eq!(both(accepted, shut), None);
    let first = Moved::of(&accepted).unwrap().accepting(OTHER);
    assert_eq!(coalesce(&first, &shut, 0, true), None);
    // A connection that has written is no listener.
    let written = edges(10, 7, F::PUSH);
    let shut = edges(10, 7, F::PUSH | F::SHUT_RD);
    assert_eq!(both(written, shut), Some(shut));
}

/// Edges with so much immediate data.
fn with(snd_edge: u64, immediate: u16, flags: EdgeFlags) -> Request {
    Request::Edges {
        socket: SOCKET,
        snd_edge,
        rcv_consumed: 0,
        flags,
        immediate,
    }
}

#[test]
fn immediate_data_is_that_of_both_where_it_is_in_one_piece() {
    use EdgeFlags as F;
    let of_both = |first: Request, then: Request| match both(first, then) {
        Some(Request::Edges { immediate, .. }) => Some(immediate),
        Some(_) => panic!("edges are edges"),
        None => None,
    };
    let most = MAX_IMMEDIATE as u16;
    let none = F::empty();
    let first = with(110, 10, F::PUSH);
    assert_eq!(of_both(first, with(130, 20, F::PUSH)), Some(30));
    assert_eq!(of_both(first, with(131, 20, F::PUSH)), Some(0), "a gap");
    assert_eq!(
        of_both(first, with(110 + u64::from(most), most, F::PUSH)),
        Some(0)
    );
    assert_eq!(of_both(first, with(110, 0, none)), Some(10), "it reads");
    assert_eq!(of_both(first, with(110, 0, F::SHUT_WR)), Some(10));
    assert_eq!(of_both(first, with(90, 5, F::PUSH)), Some(10), "an old one");
    assert_eq!(of_both(first, with(9000, 0, F::PUSH)), None, "much follows");
    assert_eq!(
        of_both(with(110, 0, F::PUSH), with(120, 10, F::PUSH)),
        Some(0)
    );
    assert_eq!(
        of_both(with(110, 0, none), with(120, 10, F::PUSH)),
        Some(10)
    );
    let corked = F::MORE | F::CORK;
    let (set, then) = (with(5, 0, corked), with(15, 10, corked));
    assert_eq!(of_both(set, then), Some(10), "it wrote nothing");
}

/// Edges that append bytes of a file.
fn sends(snd_edge: u64, (file, offset, len): (u16, u32, u32), flags: EdgeFlags) -> Request {
    Request::SendFile {
        socket: SOCKET,
        snd_edge,
        rcv_consumed: 0,
        flags,
        extent: FileExtent { file, offset, len },
    }
}

#[test]
fn bytes_of_a_file_go_on_with_the_next_ones_of_it_and_nothing_else() {
    use EdgeFlags as F;
    let first = sends(1100, (3, 500, 100), F::PUSH);
    let next = sends(1300, (3, 600, 200), F::PUSH);
    assert_eq!(both(first, next), Some(sends(1300, (3, 500, 300), F::PUSH)));
    for other in [
        sends(1300, (4, 600, 200), F::PUSH),
        sends(1300, (3, 601, 200), F::PUSH),
        sends(1301, (3, 600, 200), F::PUSH),
        sends(1300, (3, 600, 0), F::PUSH),
        edges(1300, 0, F::PUSH),
        with(1300, 200, F::PUSH),
    ] {
        assert_eq!(both(first, other), None);
    }
    // What is copied before, not with its descriptor, goes with it; what says no more, too.
    assert_eq!(both(edges(1000, 0, F::PUSH), first), Some(first));
    assert_eq!(both(with(1000, 20, F::PUSH), first), None);
    let uncorked = sends(1100, (3, 500, 100), F::PUSH | F::SHUT_WR);
    let corked = sends(1100, (3, 500, 100), F::MORE | F::CORK);
    assert_eq!(
        both(corked, edges(1100, 0, F::PUSH | F::SHUT_WR)),
        Some(uncorked)
    );
    assert_eq!(both(first, sends(900, (9, 0, 64), F::PUSH)), Some(first));
    assert_eq!(
        both(edges(0, 0, F::ACCEPTED), first),
        None,
        "no room for both"
    );
    let far = edges(1100, 1 << 48, F::empty());
    assert_eq!(both(first, far), None);
}

#[test]
fn a_close_goes_with_bytes_of_a_file_if_all_is_said() {
    use EdgeFlags as F;
    let close = |snd_edge, linger| Request::Close {
        socket: SOCKET,
        snd_edge,
        rcv_consumed: 0,
        linger,
    };
    let first = sends(1100, (3, 500, 100), F::PUSH);
    let closed = sends(1100, (3, 500, 100), F::PUSH | F::CLOSE);
    assert_eq!(both(first, close(1100, None)), Some(closed));
    assert_eq!(both(first, close(1101, None)), None);
    assert_eq!(both(first, close(1100, Some(1))), None);
}

#[test]
fn a_close_goes_with_immediate_data_if_all_is_said() {
    use EdgeFlags as F;
    let first = with(110, 10, F::PUSH);
    let close = Request::Close {
        socket: SOCKET,
        snd_edge: 110,
        rcv_consumed: 0,
        linger: None,
    };
    let closed = with(110, 10, F::PUSH | F::CLOSE);
    assert_eq!(both(first, close), Some(closed));
    assert_eq!(
        coalesce(&Moved::of(&first).unwrap(), &close, 5, false),
        None
    );
    // Not where more was written, it lingers, another half is shut down, or it is far.
    let (written, lingering) = (
        Request::Close {
            socket: SOCKET,
            snd_edge: 111,
            rcv_consumed: 0,
            linger: None,
        },
        Request::Close {
            socket: SOCKET,
            snd_edge: 110,
            rcv_consumed: 0,
            linger: Some(1),
        },
    );
    assert_eq!([both(first, written), both(first, lingering)], [None; 2]);
    assert_eq!(both(with(110, 10, F::PUSH | F::SHUT_RD), close), None);
    let far = Request::Close {
        socket: SOCKET,
        snd_edge: 110,
        rcv_consumed: 1 << 48,
        linger: None,
    };
    assert_eq!(both(first, far), None);
}

#[test]
fn what_goes_at_once_is_not_held_by_what_waits() {
    let first = edges(10, 0, EdgeFlags::PUSH);
    for then in [
        edges(20, 0, EdgeFlags::MORE),
        edges(10, 0, EdgeFlags::MORE | EdgeFlags::CORK),
        edges(20, 0, EdgeFlags::PUSH | EdgeFlags::CORK),
    ] {
        assert_eq!(both(first, then), None);
    }
    let corked = EdgeFlags::PUSH | EdgeFlags::CORK;
    let then = edges(20, 0, EdgeFlags::MORE | EdgeFlags::CORK);
    assert_eq!(both(edges(10, 0, corked), then), None);
    assert_eq!(
        both(edges(10, 0, corked), edges(20, 0, corked)),
        Some(edges(20, 0, corked))
    );
}

#[test]
fn others_stay_apart() {
    let other = SocketId {
        index: 3,
        generation: 2,
    };
    let (first, subscribe) = (
        edges(10, 0, EdgeFlags::PUSH),
        Request::Subscribe { socket: SOCKET },
    );
    assert_eq!(both(first, subscribe), None);
    assert!(Moved::of(&subscribe).is_none());
    let then = Request::Edges {
        socket: other,
        snd_edge: 20,
        rcv_consumed: 0,
        flags: EdgeFlags::PUSH,
        immediate: 0,
    };
    assert_eq!(both(first, then), None);
    let late = edges(20, 0, EdgeFlags::PUSH);
    assert_eq!(both(edges(10, 0, EdgeFlags::SHUT_WR), late), None);
}

#[test]
fn a_close_takes_with_it_what_was_written_and_read() {
    let close = |snd_edge, rcv_consumed, linger| Request::Close {
        socket: SOCKET,
        snd_edge,
        rcv_consumed,
        linger,
    };
    for linger in [None, Some(0), Some(3)] {
        assert_eq!(
            both(edges(10, 7, EdgeFlags::MORE), close(20, 3, linger)),
            Some(close(20, 7, linger))
        );
    }
    let shut = edges(10, 7, EdgeFlags::SHUT_WR);
    assert_eq!(both(shut, close(10, 7, None)), None);
}

/// What was said with what was written last counts.
#[test]
fn that_more_follows_is_not_said_of_what_follows() {
    let first = edges(10, 7, EdgeFlags::MORE);
    let then = edges(20, 7, EdgeFlags::empty());
    assert_eq!(both(first, then), Some(then));
}
