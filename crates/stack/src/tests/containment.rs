//! A panic in the work for a half-open connection ends no session: that connection alone is
//! forgotten, whatever the panic has left half done.

use super::single::{Single, header};
use crate::testing::{Wanted, panic_in_half_open, panic_no_more};
use longshore_hostif::Geometry;
use longshore_wire::SeqNumber;
use longshore_wire::tcp::TcpFlags;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

const GEOMETRY: Geometry = Geometry {
    channels: 64,
    waiters: 64,
    sockets: 64,
    snd_chunks: 8,
    rcv_chunks: 64,
};
const HALF_OPEN: u16 = 200;

/// A turn in which a panic that was wanted is contained; whether there was one.
fn turn(single: &mut Single) -> bool {
    let Err(panic) = catch_unwind(AssertUnwindSafe(|| single.turn())) else {
        return false;
    };
    if !panic.is::<Wanted>() {
        resume_unwind(panic);
    }
    assert_eq!(single.stack.contain_panic(), Some(Vec::new()), "no session");
    single.stack.check().unwrap();
    true
}

#[test]
fn a_panic_while_half_open_connections_are_reset_ends_no_session() {
    for step in [0, 1, 2, 3, 7, 126, 127, 128, 399] {
        let mut single = Single::new(GEOMETRY, 1);
        let listener = single.listen();
        (0..HALF_OPEN).for_each(|n| single.bring(n, TcpFlags::SYN, SeqNumber(0)));
        single.close(listener);
        // Another listener has the port, and connections of its own.
        single.listen();
        (300..310).for_each(|n| single.bring(n, TcpFlags::SYN, SeqNumber(0)));
        single.sent();
        panic_in_half_open(step);
        let (mut panics, mut resets) = (0, 0);
        while single.stack.has_work_left() {
            panics += u32::from(turn(&mut single));
            let sent = single.sent();
            resets += sent
                .iter()
                .filter(|s| s.flags.contains(TcpFlags::RST))
                .count();
        }
        panic_no_more();
        assert_eq!(panics, 1, "step {step}");
        assert_eq!(single.stack.counters.contained_panics, 1);
        assert_eq!(single.stack.half_open_count(), 10, "step {step}");
        assert_eq!(resets, usize::from(HALF_OPEN), "step {step}");
        // The session goes on.
        let next = single.connect(400);
        single.segment(&next, b"served");
        single.turn_after(100_000);
        let answer = single.sent().pop().expect("it is acknowledged");
        assert_eq!(
            answer.ack,
            header(400, TcpFlags::ACK, next.seq.add(6), next.ack).seq
        );
    }
}
