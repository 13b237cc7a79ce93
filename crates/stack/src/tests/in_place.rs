//! Payload that is received into place, beside a stack that is given the same frames and copies
//! all of them: both answer the same, their programs find the same bytes, and the same has
//! crossed to them, whatever comes where the next segment was expected.

mod side_by_side;

use super::numbers::Numbers;
use super::single::{CLIENT, SERVER};
use super::streams::copy_out;
use crate::stack::in_place::{BULK, LEAST_RUN};
use longshore_hostif::{EdgeFlags, Features};
use longshore_testbed::packets;
use longshore_wire::checksum::Partial;
use longshore_wire::ipv4::{HEADER_LEN, protocol};
use longshore_wire::tcp::{TcpFlags, Timestamps};
use side_by_side::{Both, GEOMETRY, LEN};
use std::sync::atomic::Ordering;

/// The bytes come in place from the first frame after the run on, in chunks that are there and
/// across their ends, long and short.
#[test]
fn bulk_in_order_is_received_into_place() {
    for with_timestamps in [false, true] {
        let mut both = Both::connected(with_timestamps);
        both.run();
        assert_eq!(both.counts(), (0, 0));
        for (i, len) in [LEN, 64_000, 64_900, BULK, LEN].into_iter().enumerate() {
            let packet = both.in_order(0, len);
            both.receive(&[packet]);
            assert_eq!(both.counts(), (i as u64 + 1, 0));
            both.read(0);
        }
        let free = both.sides[0].single.free_chunks();
        assert_eq!(free, both.sides[1].single.free_chunks());
        // Several in a turn, and the last of them short.
        let packets: Vec<_> = [LEN, LEN, 40, LEN, LEN]
            .map(|len| both.in_order(0, len))
            .into();
        both.receive(&packets);
        assert_eq!(both.counts(), (10, 0));
        // Many, of whom the program reads half.
        for _ in 0..40 {
            let packet = both.in_order(0, 64_321);
            both.receive(&[packet]);
            if both.at[0] - both.read[0] > 400_000 {
                both.read(0);
            }
        }
        assert_eq!(both.counts(), (50, 0));
    }
}

/// What comes instead of the next segment goes its usual way, and the next after it is right.
#[test]
fn what_comes_instead_goes_its_usual_way() {
    // Makes packets, of which so many are the next segments of client 0.
    type Make = fn(&mut Both) -> Vec<Vec<u8>>;
    let cases: [(&str, Make, u64); 19] = [
        (
            "another connection's",
            |both| vec![both.in_order(1, LEN)],
            1,
        ),
        (
            "a short one of another's",
            |both| vec![both.in_order(1, 30)],
            1,
        ),
        (
            "one that came before",
            |both| vec![both.packet(0, both.at[0] - 5_000, 5_000, |_| ())],
            1,
        ),
        (
            "one that came in part",
            |both| {
                let packet = both.packet(0, both.at[0] - 100, LEN, |_| ());
                both.advance(0, LEN - 100);
                vec![packet]
            },
            1,
        ),
        (
            "one behind a hole, then what is missing",
            |both| {
                let late = both.packet(0, both.at[0] + 9_000, LEN, |_| ());
                let missing = both.packet(0, both.at[0], 9_000, |_| ());
                both.advance(0, LEN + 9_000);
                vec![late, missing]
            },
            1,
        ),
        (
            "one with the end of the stream",
            |both| {
                let fin = both.packet(0, both.at[0], LEN, |h| {
                    h.flags = TcpFlags::ACK | TcpFlags::FIN
                });
                both.advance(0, LEN);
                vec![fin]
            },
            1,
        ),
        (
            "the end of the stream alone",
            |both| {
                vec![both.packet(0, both.at[0], 0, |h| {
                    h.flags = TcpFlags::ACK | TcpFlags::FIN
                })]
            },
            0,
        ),
        (
            "a reset",
            |both| vec![both.packet(0, both.at[0], 0, |h| h.flags = TcpFlags::RST)],
            0,
        ),
        (
            "a reset with a payload",
            |both| vec![both.packet(0, both.at[0], 600, |h| h.flags = TcpFlags::RST)],
            1,
        ),
        (
            "an acknowledgment",
            |both| vec![both.packet(0, both.at[0], 0, |_| ())],
            0,
        ),
        (
            "one beyond the window",
            |both| vec![both.packet(0, both.at[0] + (1 << 24), LEN, |_| ())],
            1,
        ),
        (
            "one with urgent data",
            |both| {
                let urgent = both.packet(0, both.at[0], LEN, |h| {
                    h.flags = TcpFlags::ACK | TcpFlags::URG;
                    h.urgent = 10;
                });
                both.advance(0, LEN);
                vec![urgent]
            },
            1,
        ),
        (
            "one with another header",
            |both| {
                let other = both.packet(0, both.at[0], LEN, |h| {
                    h.options.timestamps = match h.options.timestamps {
                        None => Some(Timestamps { val: 5, echo: 0 }),
                        Some(_) => None,
                    };
                });
                // Without the timestamps that were agreed on it is dropped.
                if both.next[0].options.timestamps.is_none() {
                    both.advance(0, LEN);
                }
                vec![other]
            },
            1,
        ),
        (
            "one that acknowledges what was not sent",
            |both| vec![both.packet(0, both.at[0], LEN, |h| h.ack = h.ack.add(1_000))],
            1,
        ),
        (
            "one that met congestion",
            |both| {
                let mut marked = both.in_order(0, LEN);
                marked[1] = 3;
                vec![with_sum(marked)]
            },
            1,
        ),
        (
            "one with options of IPv4",
            |both| {
                let mut packet = both.in_order(0, LEN);
                let len = (packet.len() + 4) as u16;
                packet[0] = 0x46;
                packet[2..4].copy_from_slice(&len.to_be_bytes());
                packet.splice(HEADER_LEN..HEADER_LEN, [1, 1, 1, 1]);
                vec![with_sum(packet)]
            },
            1,
        ),
        (
            "fragments",
            |both| {
                let packet = both.in_order(0, LEN);
                let (header, payload) = packet.split_at(HEADER_LEN);
                let part = |from: usize, to: usize, more: bool| {
                    let mut part = header.to_vec();
                    let len = (HEADER_LEN + to - from) as u16;
                    part[2..4].copy_from_slice(&len.to_be_bytes());
                    let place = (from / 8) as u16 | if more { 0x2000 } else { 0 };
                    part[6..8].copy_from_slice(&place.to_be_bytes());
                    part.extend_from_slice(&payload[from..to]);
                    with_sum(part)
                };
                vec![part(0, 8_000, true), part(8_000, payload.len(), false)]
            },
            1,
        ),
        (
            "an echo",
            |_| {
                let mut echo = vec![8, 0, 0, 0];
                echo.extend([7; 3_000]);
                let sum = Partial::of(&echo).finish();
                echo[2..4].copy_from_slice(&sum.to_be_bytes());
                let between = (CLIENT.into(), SERVER.into());
                vec![packets::packet(between, protocol::ICMP, &echo)]
            },
            1,
        ),
        (
            "a packet whose length is wrong",
            |both| {
                let mut packet = both.packet(0, both.at[0], LEN, |_| ());
                packet.truncate(9_000);
                vec![packet]
            },
            1,
        ),
    ];
    for with_timestamps in [false, true] {
        for (name, make, missed) in cases {
            let mut both = Both::connected(with_timestamps);
            both.run();
            println!("{name}");
            let packets = make(&mut both);
            both.receive(&packets);
            assert_eq!(both.counts(), (0, missed), "{name}");
            both.read(0);
            both.read(1);
            // What follows, if anything may.
            for number in [0, 1, 0, 0, 0, 0, 0, 0, 0, 0] {
                let packet = both.in_order(number, LEN);
                both.receive(&[packet]);
                both.read(number);
            }
            let free = both.sides[0].single.free_chunks();
            assert_eq!(free, both.sides[1].single.free_chunks(), "{name}");
        }
    }
}

/// A packet whose IPv4 header has the right sum.
fn with_sum(mut packet: Vec<u8>) -> Vec<u8> {
    let len = usize::from(packet[0] & 15) * 4;
    packet[10..12].fill(0);
    let sum = Partial::of(&packet[..len]).finish();
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet
}

/// Two connections by turns: it is tried less and less.
#[test]
fn what_is_wrong_again_and_again_is_tried_less() {
    let mut both = Both::connected(true);
    for _ in 0..200 {
        let two = usize::from(LEAST_RUN);
        let mut packets: Vec<_> = (0..two).map(|_| both.in_order(0, LEN)).collect();
        packets.extend((0..two).map(|_| both.in_order(1, LEN)));
        both.receive(&packets);
        both.read(0);
        both.read(1);
    }
    let (right, wrong) = both.counts();
    assert!(right == 0 && wrong <= 5, "{right}, {wrong}");
    // A run is found again all the same.
    for _ in 0..40 {
        let packet = both.in_order(1, LEN);
        both.receive(&[packet]);
        both.read(1);
    }
    assert!(both.counts().0 >= 5, "{:?}", both.counts());
}

/// Short frames are received as ever.
#[test]
fn short_frames_are_not_received_into_place() {
    let mut both = Both::connected(false);
    both.run();
    let packets: Vec<_> = (0..30).map(|_| both.in_order(0, BULK - 1)).collect();
    both.receive(&packets);
    let tried = both.sides[0].wanted.into_place.load(Ordering::Relaxed);
    assert!(tried <= 2, "{tried}");
}

/// Nothing is taken by what a port does not vouch for, and none of it is lost.
#[test]
fn what_is_not_vouched_for_is_copied() {
    let mut both = Both::connected(false);
    both.run();
    for side in &both.sides {
        side.wanted.doubts.store(1, Ordering::Relaxed);
    }
    let packets: Vec<_> = (0..10).map(|_| both.in_order(0, LEN)).collect();
    both.receive(&packets);
    assert_eq!(both.counts().0, 0);
    let mut damaged = both.packet(0, both.at[0], LEN, |_| ());
    damaged[10_000] ^= 1;
    let payload = damaged[damaged.len() - LEN..].to_vec();
    both.receive(&[damaged]);
    // Beside no other session its sum was made while it was copied, to behind the stream's edge.
    let at = both.at[0];
    let lies_there = both.sides.each_ref().map(|side| {
        let mut bytes = vec![0; 5_000];
        copy_out(&side.single.arena, side.sockets[0].index, at, &mut bytes);
        payload.starts_with(&bytes)
    });
    assert_eq!(lies_there, [true, false]);
    let next = both.in_order(0, LEN);
    both.receive(&[next]);
}

/// What programs have asked for is done before the first frame of a turn.
#[test]
fn the_first_frame_waits_for_requests() {
    let mut both = Both::connected(false);
    both.run();
    let packet = both.in_order(0, LEN);
    let side = &mut both.sides[0];
    let header = side.single.arena.header();
    header.requests_pending.any.store(1, Ordering::Relaxed);
    side.single.carry(&packet);
    let before = side.counts();
    assert!(side.receive_one(true));
    assert_eq!((before, side.counts()), ((0, 0), (0, 1)));
    side.single.turn();
    both.sides[1].receive(&[packet]);
    both.compare();
    // The others do not.
    let packet = both.in_order(0, LEN);
    both.receive(&[packet]);
    assert_eq!(both.counts(), (1, 1));
}

/// Another session's bytes must not be where this one could read them: from the second session
/// on, and after its end, nothing is received into place.
#[test]
fn with_another_session_nothing_is_received_into_place() {
    let mut both = Both::connected(false);
    let single = &mut both.sides[0].single;
    let (session, _) = single.add_session(GEOMETRY, Features::empty());
    both.run();
    let packets: Vec<_> = (0..5).map(|_| both.in_order(0, LEN)).collect();
    both.receive(&packets);
    both.read(0);
    both.sides[0]
        .single
        .stack
        .lifecycle()
        .close_session(session);
    let packets: Vec<_> = (0..5).map(|_| both.in_order(0, LEN)).collect();
    both.receive(&packets);
    assert_eq!(both.counts(), (0, 0));
    assert_eq!(both.sides[0].wanted.into_place.load(Ordering::Relaxed), 0);
}

/// A turn that reads the port in vain keeps no chunk.
#[test]
fn a_look_in_vain_keeps_no_memory() {
    let mut both = Both::connected(false);
    both.run();
    both.receive(&[]);
    let [placing, copying] = &both.sides;
    assert_eq!(placing.single.free_chunks(), copying.single.free_chunks());
}

/// Without room for a frame it is not tried: the window is nearly full, or the slab.
#[test]
fn what_has_no_room_is_not_tried() {
    let mut both = Both::connected(false);
    both.run();
    // Nobody reads; the window stays what it was.
    while both.sides[0].wanted.into_place.load(Ordering::Relaxed) < 100 {
        let packet = both.in_order(0, LEN);
        both.receive(&[packet]);
        let edge = both.sides[0].received(0, both.read[0]).len() as u64;
        if both.read[0] + edge < both.at[0] {
            break;
        }
    }
    let (right, wrong) = both.counts();
    let before = both.sides[0].wanted.into_place.load(Ordering::Relaxed);
    assert!(right > 2 && wrong <= 2, "{right}, {wrong}");
    for _ in 0..3 {
        let packet = both.in_order(0, LEN);
        both.receive(&[packet]);
    }
    assert_eq!(
        both.sides[0].wanted.into_place.load(Ordering::Relaxed),
        before
    );
}

/// Whatever comes in whatever order, damaged or not, and however much of it is read.
#[test]
fn any_frames_lead_to_the_same() {
    let (mut right, mut wrong) = (0, 0);
    for seed in 0..40 {
        let mut numbers = Numbers::new(seed);
        let mut both = Both::connected(numbers.below(2) == 0);
        both.may_be_damaged = numbers.below(2) == 0;
        for _ in 0..40 {
            let count = numbers.below(6);
            let packets: Vec<_> = (0..count).map(|_| both.any(&mut numbers)).collect();
            both.receive(&packets);
            both.catch_up();
            if numbers.below(2) == 0 {
                both.read(numbers.below(2) as u16);
            }
        }
        let counts = both.counts();
        (right, wrong) = (right + counts.0, wrong + counts.1);
    }
    assert!(right > 300 && wrong > 40, "{right}, {wrong}");
}

/// A program writes over what is received into place, and harms nobody but itself.
#[test]
fn a_program_that_writes_there_harms_itself_alone() {
    let mut right = 0;
    for seed in 0..20 {
        let mut numbers = Numbers::new(seed);
        let mut both = Both::connected(false);
        let side = &mut both.sides[0];
        let scribble = 1 + numbers.below(255) as u32;
        side.wanted.scribble.store(scribble, Ordering::Relaxed);
        both.run();
        for _ in 0..50 {
            let len = numbers.pick(&[500, LEN, 64_000]);
            let packet = match numbers.below(16) {
                0 => both.in_order(1, len),
                1 => both.packet(0, both.at[0] + 2_000, 5_000, |_| ()),
                2 => packets::packet((CLIENT.into(), SERVER.into()), protocol::UDP, &[9; 3_000]),
                3 => packets::packet((CLIENT.into(), SERVER.into()), protocol::ICMP, &[3; 900]),
                _ => both.in_order(0, len),
            };
            let side = &mut both.sides[0];
            side.receive(&[packet]);
            for number in 0..2 {
                let edge = side.reported(number).unwrap_or(0);
                let socket = side.sockets[usize::from(number)];
                side.single.edges(socket, edge, EdgeFlags::empty());
            }
            side.single.turn();
        }
        right += both.counts().0;
    }
    assert!(right > 50, "{right}");
}
