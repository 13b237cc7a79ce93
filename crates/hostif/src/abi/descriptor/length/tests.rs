//! What a descriptor is does not depend on what lies behind its words.

use super::super::tests::{completion, request};
use super::*;
use crate::abi::{Edges, FileExtent, SocketId};
use proptest::prelude::*;

const SOCKET: SocketId = SocketId {
    index: 3,
    generation: 9,
};

fn edges(snd_edge: u64, rcv_consumed: u64, immediate: u16) -> Request {
    Request::Edges {
        socket: SOCKET,
        snd_edge,
        rcv_consumed,
        flags: EdgeFlags::PUSH,
        immediate,
    }
}

/// A slot that had `before`, with the first words of another message.
fn over(before: &Message, fields: &[u64]) -> Message {
    let mut slot = *before;
    slot[..fields.len()].copy_from_slice(fields);
    slot
}

/// What is taken off a ring: a message, or two.
fn taken(m: &Message) -> Vec<Request> {
    let decoded = |m: &Message| Request::decode(m).unwrap();
    match Request::with_close(m) {
        Some((close, edges)) => edges.iter().map(decoded).chain([decoded(&close)]).collect(),
        None => vec![decoded(m)],
    }
}

proptest! {
    #[test]
    fn requests_come_back_whatever_is_behind(
        r in request(), before: Message, has_lengths: bool, bits in 0u32..64,
    ) {
        // Edges near and far, below and above 2^48.
        let r = match r {
            Request::Edges { socket, snd_edge, rcv_consumed, flags, immediate } => Request::Edges {
                socket,
                snd_edge: snd_edge >> bits,
                rcv_consumed: rcv_consumed >> bits,
                flags: flags - EdgeFlags::CLOSE,
                immediate,
            },
            r => r,
        };
        let stored = r.stored(has_lengths);
        let slot = over(&before, stored.fields());
        prop_assert_eq!(taken(&slot), vec![r]);
        let len = Request::immediate_in(&slot).unwrap().len;
        prop_assert_eq!(stored.more(), Request::more_in(&slot, len));
        if has_lengths {
            prop_assert_eq!(stored.left(), Request::left_in(&slot, len));
            let words = stored.fields().len() as u32 + u32::from(len).div_ceil(8);
            prop_assert_eq!(r.ring_bytes(), words * 8);
            prop_assert_eq!(words, 8 * (1 + stored.more()) - stored.left());
        } else {
            prop_assert_eq!((stored.left(), slot), (0, over(&slot, stored.fields())));
            prop_assert!(len != 0 || stored.fields() == r.encode());
        }
    }

    #[test]
    fn completions_come_back_whatever_is_behind(
        c in completion(), before: Message, version in 17u16..20, bits in 0u32..64, plain: bool,
    ) {
        let c = match c {
            Completion::Edges { socket, mut edges } => {
                edges.rcv_edge >>= bits;
                if plain {
                    (edges.errno, edges.rcv_urgent) = (0, 0);
                }
                Completion::Edges { socket, edges }
            }
            Completion::Done { socket, tag, errno, value, address } => Completion::Done {
                socket,
                tag,
                errno,
                value: value >> bits,
                address: if plain { Address::NONE } else { address },
            },
            c => c,
        };
        let (message, words) = c.stored(version);
        prop_assert_eq!(Completion::decode(&over(&before, &message[..words])), Ok(c));
        prop_assert!(version >= LENGTHS_SINCE || (words, message) == (WORDS, c.encode()));
    }

    #[test]
    fn any_message_has_a_length(mut m: Message, kind in 0u8..80) {
        for kind in [None, Some(kind)] {
            m[0] = kind.map_or(m[0], |kind| m[0] & !0xff | u64::from(kind));
            let len = Request::immediate_in(&m).map_or(0, |said| said.len);
            prop_assert!(Request::more_in(&m, len) <= 20 && Request::left_in(&m, len) < 8);
            let _ = Request::with_close(&m);
        }
    }
}

#[test]
fn slots_are_taken_as_they_fill() {
    for (len, far, more, bytes) in [
        (0, false, 0, 24),
        (40, false, 0, 64),
        (41, false, 1, 72),
        (104, false, 1, 128),
        (105, false, 2, 136),
        (MAX_IMMEDIATE as u16, false, 20, 24 + 1312),
        (0, true, 0, 32),
        (32, true, 0, 64),
        (33, true, 1, 72),
        (MAX_IMMEDIATE as u16, true, 20, 32 + 1312),
    ] {
        let request = edges(if far { 1 << 48 } else { (1 << 48) - 1 }, 7, len);
        let more_bytes = (request.stored(true).more(), request.ring_bytes());
        assert_eq!(more_bytes, (more, bytes), "{len} {far}");
        let old = request.stored(false);
        assert_eq!(old.more(), u32::from(len).saturating_sub(32).div_ceil(64));
    }
}

#[test]
fn the_last_words_and_the_close_are_one_descriptor() {
    let with_close = |r: Request| {
        let mut m = r.stored(true).message;
        m[0] |= CLOSE;
        taken(&m)
    };
    let close = Request::Close {
        socket: SOCKET,
        snd_edge: 50,
        rcv_consumed: 7,
        linger: None,
    };
    assert_eq!(with_close(edges(50, 7, 20)), [edges(50, 7, 20), close]);
    // Alone it is a close in three words; one that lingers has its own.
    assert_eq!(
        (taken(&close.stored(true).message), close.ring_bytes()),
        (vec![close], 24)
    );
    let lingers = Request::Close {
        socket: SOCKET,
        snd_edge: 50,
        rcv_consumed: 7,
        linger: Some(0),
    };
    assert_eq!(
        (taken(&lingers.stored(true).message), lingers.ring_bytes()),
        (vec![lingers], 40)
    );
}

#[test]
fn bytes_of_a_file_take_a_word_and_a_close_none() {
    let sends = Request::SendFile {
        socket: SOCKET,
        snd_edge: 5000,
        rcv_consumed: 7,
        flags: EdgeFlags::empty(),
        extent: FileExtent {
            file: 31,
            offset: 1 << 20,
            len: 5000,
        },
    };
    assert_eq!(sends.ring_bytes(), edges(5000, 7, 0).ring_bytes() + 8);
    let close = Request::Close {
        socket: SOCKET,
        snd_edge: 5000,
        rcv_consumed: 7,
        linger: None,
    };
    let mut m = sends.stored(true).message;
    assert_eq!(taken(&m), [sends]);
    m[0] |= CLOSE;
    assert_eq!(taken(&m), [sends, close]);
}

/// The descriptor that says besides that its connection was accepted is as long as without.
#[test]
fn that_a_connection_was_accepted_takes_no_room() {
    let with = |flags| Request::Edges {
        socket: SOCKET,
        snd_edge: 50,
        rcv_consumed: 7,
        flags,
        immediate: 20,
    };
    let accepted = with(EdgeFlags::PUSH | EdgeFlags::ACCEPTED);
    assert_eq!(accepted.ring_bytes(), edges(50, 7, 20).ring_bytes());
    let mut m = accepted.stored(true).message;
    assert_eq!(taken(&m), [accepted]);
    let close = Request::Close {
        socket: SOCKET,
        snd_edge: 50,
        rcv_consumed: 7,
        linger: None,
    };
    m[0] |= CLOSE;
    assert_eq!(taken(&m), [accepted, close]);
    // What says nothing but both is two things, too.
    let mut m = Request::Edges {
        socket: SOCKET,
        snd_edge: 0,
        rcv_consumed: 7,
        flags: EdgeFlags::ACCEPTED | EdgeFlags::CLOSE,
        immediate: 0,
    }
    .stored(true)
    .message;
    assert_eq!(taken(&m).len(), 2);
    m[0] = m[0] & !0xff | u64::from(kind::NEAR_EDGES);
    assert_eq!(taken(&m).len(), 1);
}

#[test]
fn an_answer_without_an_address_has_three_words() {
    let answer = |value, address| Completion::Done {
        socket: SOCKET,
        tag: 7,
        errno: 98,
        value,
        address,
    };
    let some = Address([4, 5, 0]);
    let bytes = |value, address| answer(value, address).ring_bytes();
    assert_eq!(bytes((1 << 48) - 1, Address::NONE), 24);
    assert_eq!([bytes(1 << 48, Address::NONE), bytes(0, some)], [56; 2]);
    let before = SHORT_DONE_SINCE - 1;
    assert_eq!(answer(0, Address::NONE).stored(before).1, 7);
}

#[test]
fn what_is_told_without_an_error_has_three_words() {
    let reported = |rcv_edge, errno, rcv_urgent| {
        let edges = Edges {
            rcv_edge,
            errno,
            rcv_urgent,
            ..Edges::default()
        };
        let socket = SOCKET;
        Completion::Edges { socket, edges }.ring_bytes()
    };
    assert_eq!(reported((1 << 48) - 1, 0, 0), 24);
    assert_eq!(
        [
            reported(1 << 48, 0, 0),
            reported(1, 1, 0),
            reported(1, 0, 1)
        ],
        [48; 3]
    );
}

#[test]
fn edges_are_near_where_neither_has_more_than_48_bits() {
    const FAR: u64 = 1 << 48;
    for (snd_edge, rcv_consumed, near) in [
        (0, 0, true),
        (FAR - 1, FAR - 1, true),
        (FAR, 0, false),
        (0, FAR, false),
        (FAR, FAR, false),
    ] {
        assert_eq!(are_near(snd_edge, rcv_consumed), near);
    }
}

#[test]
fn answers_are_short_since_the_version_that_has_them() {
    let done = Completion::Done {
        socket: crate::SocketId {
            index: 1,
            generation: 2,
        },
        tag: 3,
        errno: 0,
        value: 5,
        address: Address::NONE,
    };
    for (version, words) in [
        (LENGTHS_SINCE - 1, WORDS),
        (SHORT_DONE_SINCE - 1, 7),
        (SHORT_DONE_SINCE, 3),
    ] {
        let (message, stored) = done.stored(version);
        assert_eq!(stored, words, "{version}");
        assert_eq!(Completion::decode(&message), Ok(done));
    }
}
