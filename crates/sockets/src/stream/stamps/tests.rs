//! What a program has asked for with SO_TIMESTAMPING, as the engine is told of it.

use super::*;
use crate::block_words::more_bits;
use crate::testing::{Engine, Seen};
use crate::{Departure, Sending, Socket};
use longshore_hostif::{SocketKind, datagram_span};
use std::io::IoSlice;

fn set(socket: &Socket, flags: u32) {
    socket.clear_more_bits(more_bits::TIMESTAMPING);
    socket.set_more_bits(u64::from(flags) << more_bits::TIMESTAMPING_SHIFT);
}

/// The ends of writes of which the engine was asked to say this.
fn asked(seen: &Seen, socket: &Socket, when: StampedWhen) -> impl Iterator<Item = u64> {
    let of_socket = move |(index, name, _): &(u32, OptionName, u64)| {
        *index == socket.id.index && *name == OptionName::StampSent
    };
    let asked = seen.options.iter().copied().filter(of_socket);
    asked.map(move |(_, _, value)| {
        assert_eq!(value >> POSITION, u64::from(when.bits()));
        value & ((1 << POSITION) - 1)
    })
}

#[test]
fn each_flag_asks_for_its_stamp_alone() {
    let directory = tempfile::tempdir().unwrap();
    let engine = Engine::start(directory.path());
    let (a, _b) = Engine::pair(engine.join());
    let all = [
        (TX_SCHED, StampedWhen::SCHEDULED),
        (TX_SOFTWARE, StampedWhen::SENT),
        (TX_ACK, StampedWhen::ACKNOWLEDGED),
    ];
    for chosen in 0..8 {
        let (mut flags, mut expected) = (0, StampedWhen::empty());
        for (number, (flag, when)) in all.into_iter().enumerate() {
            if chosen >> number & 1 != 0 {
                flags |= flag;
                expected |= when;
            }
        }
        // What else SO_TIMESTAMPING and other options say asks for none.
        let all_flags = more_bits::TIMESTAMPING >> more_bits::TIMESTAMPING_SHIFT;
        for others in [0, all_flags as u32] {
            set(
                a.socket(),
                flags | others & !(TX_SCHED | TX_SOFTWARE | TX_ACK),
            );
            let stamped_when = a.socket().send_stream().stamped_when();
            assert_eq!(stamped_when, expected, "{flags:#x} {others:#x}");
        }
    }
}

#[test]
fn the_engine_is_asked_for_the_end_of_a_write() {
    let directory = tempfile::tempdir().unwrap();
    let engine = Engine::start(directory.path());
    let (a, _b) = Engine::pair(engine.join());
    let ask = |edge| a.socket().send_stream().ask_for_stamps(edge).unwrap();
    let beyond = 1 << POSITION;
    // Nothing is asked for, and then what no position can say.
    ask(5);
    set(a.socket(), TX_ACK | TX_SOFTWARE);
    ask(7);
    ask(beyond);
    ask(beyond - 1);
    ask(9);
    let expected = [7, beyond - 1, 9];
    a.write_all(b"which wakes the engine").unwrap();
    let when = StampedWhen::SENT | StampedWhen::ACKNOWLEDGED;
    engine.wait_until("the engine was asked", |seen| {
        asked(seen, a.socket(), when).eq(expected)
    });
}

/// Of a write that does not fit nothing is said, unless its caller goes on with the rest.
#[test]
fn a_write_that_is_cut_is_stamped_only_if_its_caller_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let engine = Engine::start(directory.path());
    let holds = &engine.behavior.holds_acknowledgments;
    holds.store(true, Ordering::Relaxed);
    let (a, _b) = Engine::pair(engine.join());
    set(a.socket(), TX_ACK);
    for (limit, len, sending, written) in [
        (100, 40, Sending::empty(), 40),
        (100, 10, Sending::STAMPED, 10),
        (100, 100, Sending::STAMPED, 50),
        (200, 200, Sending::STAMPED_IN_PART, 100),
    ] {
        a.socket().block().snd.limit.store(limit, Ordering::Relaxed);
        let stream = a.socket().send_stream();
        let sent = stream.send_with(&[IoSlice::new(&vec![7; len])], sending);
        assert_eq!(sent, Ok(written), "{limit} {len}");
    }
    engine.wait_until("the engine was asked", |seen| {
        asked(seen, a.socket(), StampedWhen::ACKNOWLEDGED).eq([50, 200])
    });
}

/// Where its record ends in the send stream; of one beside which it is said that nothing is to be
/// told, nothing.
#[test]
fn the_engine_is_asked_for_the_end_of_the_record_of_a_datagram() {
    let directory = tempfile::tempdir().unwrap();
    let engine = Engine::start(directory.path());
    let socket = Engine::open(engine.join(), SocketKind::Datagram);
    let to = socket.addresses().bind(Engine::address(0)).unwrap();
    set(&socket, TX_SOFTWARE | OPT_TSONLY);
    let mut ends = 0;
    let mut expected = Vec::new();
    for (len, stamped) in [(10, None), (7, Some(0)), (20, None)] {
        let departure = Departure {
            stamped,
            ..Departure::default()
        };
        let sent = socket
            .datagrams()
            .send(&[IoSlice::new(&vec![7; len])], Some(to), departure);
        assert_eq!(sent, Ok(len));
        ends += datagram_span(len as u32);
        expected.extend(stamped.is_none().then_some(ends));
    }
    engine.wait_until("the engine was asked", |seen| {
        asked(seen, &socket, StampedWhen::SENT).eq(expected.iter().copied())
    });
}

/// As Linux has it: what is said beside a datagram takes the place of what is asked of all, and the
/// acknowledgment is of TCP alone.
#[test]
fn what_is_said_beside_a_datagram_counts_for_it_alone() {
    let (sent, packet) = (StampedWhen::SENT, StampedWhen::WITH_PACKET);
    for (flags, said, expected) in [
        (0, None, None),
        (TX_ACK | OPT_TSONLY, None, None),
        (TX_SOFTWARE | TX_ACK, None, Some(sent | packet)),
        (TX_SOFTWARE | OPT_TSONLY, None, Some(sent)),
        (TX_SOFTWARE, Some(0), None),
        (OPT_TSONLY, Some(TX_SCHED), Some(StampedWhen::SCHEDULED)),
        (TX_HARDWARE | OPT_TSONLY, None, Some(StampedWhen::empty())),
    ] {
        assert_eq!(StampedWhen::of_datagram(flags, said), expected, "{flags}");
    }
}
