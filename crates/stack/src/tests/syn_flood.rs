//! Floods that the engine cannot read: what of them it has its port drop.

use super::filtering::{Filter, Filtering};
use super::off_path::GEOMETRY;
use super::single::{ISN, Single, header};
use longshore_hostif::Features;
use longshore_ports::memory::{MemoryConfig, pair};
use longshore_wire::SeqNumber;
use longshore_wire::tcp::{TcpFlags, TcpHeader};

/// Looks at a port that always has more, after which the engine is behind.
const LOOKS: u16 = 10;
const FRAMES: u16 = 20;

/// Of SYNs that are more than can be read, the port lets a part through; other segments that belong to no
/// connection are none, whatever they are.
#[test]
fn a_port_is_told_to_drop_what_is_a_syn() {
    let (syn, ack) = (TcpFlags::SYN, TcpFlags::ACK);
    for (flags, are_dropped) in [
        (syn, true),
        (syn | TcpFlags::ECE | TcpFlags::CWR, true),
        (ack, false),
        (syn | ack, false),
        (TcpFlags::RST, false),
        (TcpFlags::FIN, false),
    ] {
        let (mut single, filter) = listening();
        for number in 0..LOOKS * FRAMES {
            single.bring(number, flags, SeqNumber(0));
            if number % FRAMES == FRAMES - 1 {
                single.stack.looked_at_port(FRAMES.into(), true);
                single.turn();
            }
        }
        let part = filter.syns();
        assert_eq!(part.is_some_and(|part| part > 0), are_dropped, "{flags:?}");
    }
}

/// A port with its filter, and a stack behind it with a listener.
fn listening() -> (Single, Filter) {
    let (port, wire) = pair(&MemoryConfig {
        ethernet: false,
        offloads: false,
        ..MemoryConfig::default()
    });
    let (port, filter) = Filtering::new(port);
    let ends = (Box::new(port) as _, wire);
    let none = Features::empty();
    let mut single = Single::over(ends, &["10.0.0.1/24"], false, GEOMETRY, 1, none);
    single.listen();
    single.turn();
    (single, filter)
}

/// One client connects and closes, again and again, and is on the engine's processor before the
/// engine: what it sends next is there as soon as it has its answer, so that no look sees the end.
#[test]
fn a_client_that_connects_again_and_again_is_no_flood() {
    const CONNECTIONS: u16 = 60;
    const A_LOOK: u16 = 6;
    let (mut single, filter) = listening();
    for number in 0..CONNECTIONS {
        let next = single.connect(number);
        single.bring(number, TcpFlags::FIN | TcpFlags::ACK, next.ack);
        if number % A_LOOK == A_LOOK - 1 {
            single.stack.looked_at_port((3 * A_LOOK).into(), true);
            single.turn();
        }
    }
    assert_eq!(filter.syns(), None);
    assert_eq!(single.stack.status().syns_dropped_at_port(), 0);
}

/// The same at a port where nobody listens: each SYN is answered by a reset.
#[test]
fn a_client_that_is_refused_again_and_again_is_no_flood() {
    const A_LOOK: u16 = 8;
    let (mut single, filter) = listening();
    for number in 0..20 * A_LOOK {
        let syn = TcpHeader {
            dst_port: 81,
            ..header(number, TcpFlags::SYN, ISN, SeqNumber(0))
        };
        single.segment(&syn, &[]);
        let answer = single.sent().pop().expect("a reset");
        assert!(answer.flags.contains(TcpFlags::RST));
        if number % A_LOOK == A_LOOK - 1 {
            single.stack.looked_at_port(A_LOOK.into(), true);
            single.turn();
        }
    }
    assert_eq!(filter.syns(), None);
}
