//! Every drop has its reason, in each state where a connection exists on both sides.
//! What is answered is in the scripts of `tests/states`.

use crate::script::{ACK, FIN, RST, SYN, Script};
use longshore_tcp::{DropReason, State};
use longshore_wire::tcp::TcpFlags;

/// The states, with RCV.NXT and the acknowledgment that the peer would send, as
/// positions.
const LIVE: [(State, i64, i64); 6] = [
    (State::Established, 0, 0),
    (State::FinWait1, 0, 0),
    (State::FinWait2, 0, 1),
    (State::CloseWait, 1, 0),
    (State::Closing, 1, 0),
    (State::LastAck, 1, 0),
];

#[test]
fn every_drop_has_its_reason() {
    for (state, nxt, ack) in LIVE {
        let receives = state.may_receive_data();
        let cases = [
            (RST, nxt, 0, 0, None),
            (
                RST,
                nxt + 1,
                0,
                0,
                receives.then_some(DropReason::RstNotExact),
            ),
            (RST, nxt - 2, 0, 0, Some(DropReason::RstUnacceptable)),
            (RST, nxt + 30_000, 0, 0, Some(DropReason::RstUnacceptable)),
            (SYN, nxt, 0, 0, Some(DropReason::SynInConnection)),
            (SYN | ACK, nxt, ack, 0, Some(DropReason::SynInConnection)),
            (ACK, nxt, 1_000, 0, Some(DropReason::AckUnsent)),
            (ACK, nxt, -40_000, 0, Some(DropReason::AckTooOld)),
            (ACK, nxt, ack - 1, 0, None),
            (TcpFlags::NONE, nxt, 0, 10, Some(DropReason::NoAck)),
            (FIN, nxt, 0, 0, Some(DropReason::NoAck)),
            (ACK, nxt + 30_000, ack, 100, Some(DropReason::OutOfWindow)),
            (ACK, nxt - 1, ack, 0, Some(DropReason::Duplicate)),
            (ACK, nxt - 1, ack, 1, Some(DropReason::Duplicate)),
            (
                ACK,
                nxt,
                ack,
                9,
                (!receives).then_some(DropReason::AfterFin),
            ),
        ];
        for (flags, seq, ack, len, reason) in cases {
            let mut s = Script::in_state(state);
            // Once the peer has closed, its window has nothing in it.
            if flags == RST && seq == nxt + 1 && !receives {
                continue;
            }
            let d = s.arrives(flags, seq, ack, len);
            assert_eq!(d.drop, reason, "{state:?} {flags:?} {seq} {ack} {len}");
            assert!(d.place.is_none() || reason.is_none(), "{state:?} {flags:?}");
        }
        let mut s = Script::in_state(state);
        s.tcb.close(s.now);
        let orphan = s.arrives(ACK, nxt, ack, 10);
        let reason = match receives {
            true => DropReason::AfterClose,
            false => DropReason::AfterFin,
        };
        assert_eq!(orphan.drop, Some(reason), "{state:?}");
    }
}

#[test]
fn challenges_are_limited() {
    for (state, rcv_nxt, ack) in LIVE {
        let mut s = Script::in_state(state);
        let mut answered = 0;
        for _ in 0..100 {
            let _ = s.arrives(SYN, rcv_nxt, ack, 0);
            answered += s.sent().len();
            s.now = s.now.after_ms(10);
        }
        assert!(
            (1..=2).contains(&answered),
            "{state:?}: {answered} in a second"
        );
    }
}
