//! Floods that the engine cannot read: what of them it has its port drop.

use super::filtering::{Filter, Filtering};
use super::off_path::GEOMETRY;
use super::single::{FIRST_PORT, ISN, Single, header};
use crate::Notice;
use crate::counters::EngineDrop;
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

/// A client whose packets come one after the other is refused an answer while the engine is behind:
/// it waits then, so that the end of what the port has is seen, and it has its answer at once.
#[test]
fn what_was_left_last_is_answered_when_the_port_is_empty() {
    /// Answers in a look of an engine that is behind, and what is kept of the rest.
    const FEW: u16 = 8;
    for (left, late, lost) in [(1, 1, 0), (FEW, FEW, 0), (FEW + 3, FEW, 3)] {
        let (mut single, _) = listening();
        for _ in 0..LOOKS {
            single.stack.looked_at_port(FRAMES.into(), true);
        }
        let all = FEW + left;
        for number in 0..all {
            let syn = TcpHeader {
                dst_port: 81,
                ..header(number, TcpFlags::SYN, ISN, SeqNumber(0))
            };
            single.segment(&syn, &[]);
        }
        assert_eq!(ports_of_resets(&mut single), ports_of(0..FEW));
        // There is still more: none of them is answered.
        single.stack.looked_at_port(FRAMES.into(), true);
        assert!(ports_of_resets(&mut single).is_empty());
        single.stack.looked_at_port(0, false);
        assert_eq!(ports_of_resets(&mut single), ports_of(all - late..all));
        let unanswered = EngineDrop::UnsolicitedUnanswered.name();
        assert_eq!(single.dropped(unanswered), lost);
        // None is answered twice.
        single.stack.looked_at_port(0, false);
        assert!(ports_of_resets(&mut single).is_empty());
    }
}

/// The ports of these clients.
fn ports_of(clients: std::ops::Range<u16>) -> Vec<u16> {
    clients.map(|number| FIRST_PORT + number).collect()
}

/// To which ports resets were sent.
fn ports_of_resets(single: &mut Single) -> Vec<u16> {
    let sent = single.sent().into_iter();
    let resets = sent.filter(|header| header.flags.contains(TcpFlags::RST));
    resets.map(|header| header.dst_port).collect()
}

/// So many looks that each bring so many SYNs, of clients from this one on, and as many frames.
fn looks(single: &mut Single, first: u16, (looks, syns): (u16, u16), may_have_more: bool) {
    for look in 0..looks {
        for number in 0..syns {
            let client = first + look * syns + number;
            single.bring(client, TcpFlags::SYN, SeqNumber(0));
        }
        single.stack.looked_at_port(FRAMES.into(), may_have_more);
        single.turn();
    }
}

/// When nothing comes any more, the port is told so at the next deadline, though no look sees anything.
#[test]
fn when_a_flood_is_over_the_port_lets_all_through() {
    const WINDOW_US: u64 = 50_000;
    let (mut single, filter) = listening();
    looks(&mut single, 0, (LOOKS, FRAMES), true);
    assert!(filter.syns().is_some_and(|part| part > 0));
    let due = single.stack.next_timeout().expect("it is looked at again");
    assert!(due <= single.now.after_us(WINDOW_US));
    // The last of it was read before the port was told.
    single.stack.looked_at_port(0, false);
    (0..2).for_each(|_| {
        single.turn_after(WINDOW_US);
        single.stack.looked_at_port(0, false);
    });
    assert_eq!(filter.syns(), Some(0));
}

/// SYNs that were all read are not counted among those that come while the engine is behind.
#[test]
fn syns_that_were_read_are_no_part_of_what_comes_later() {
    let (mut single, filter) = listening();
    looks(&mut single, 0, (LOOKS, FRAMES), false);
    looks(&mut single, 0, (LOOKS, 0), true);
    assert_eq!(filter.syns(), None);
}

/// The operator hears of a flood once a minute.
#[test]
fn a_flood_is_told_of_now_and_then() {
    const MINUTE_US: u64 = 60_000_000;
    let (mut single, _) = listening();
    let told = |single: &mut Single| std::mem::take(&mut single.stack.counters.notices);
    let rounds = [(0, 1), (1_000_000, 0), (MINUTE_US, 1)];
    for (round, (after, expected)) in (0..).zip(rounds) {
        single.turn_after(after);
        looks(&mut single, round * 1_000, (2 * LOOKS, FRAMES), true);
        assert_eq!(told(&mut single), vec![Notice::SynFlood; expected]);
        assert!(single.stack.status().syns_dropped_at_port() > 0);
        for _ in 0..3 {
            single.turn_after(100_000);
            single.stack.looked_at_port(0, false);
        }
    }
}
