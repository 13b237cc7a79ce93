//! What holds in all synchronized states alike: the checks of RFC 5961 and PAWS, and
//! the abort.

use crate::script::{ACK, RST, SYN, Script};
use longshore_tcp::{DropReason, Error, Events, State};

/// The states in which a connection exists on both sides, with RCV.NXT and the
/// acknowledgment that the peer would send, as positions.
const LIVE: [(State, i64, i64); 6] = [
    (State::Established, 0, 0),
    (State::FinWait1, 0, 0),
    (State::FinWait2, 0, 1),
    (State::CloseWait, 1, 0),
    (State::Closing, 1, 0),
    (State::LastAck, 1, 0),
];

#[test]
fn a_reset_at_rcv_nxt_ends_it() {
    for (state, rcv_nxt, _) in LIVE {
        let mut s = Script::in_state(state);
        let d = s.arrives(RST, rcv_nxt, 0, 0);
        assert_eq!(d.drop, None, "{state:?}");
        assert_eq!(s.tcb.state(), State::Closed, "{state:?}");
        assert!(
            s.events().contains(Events::RESET | Events::CLOSED),
            "{state:?}"
        );
        s.silent();
        assert_eq!(s.tcb.deadline(), None);
        let error = match state {
            State::CloseWait => Some(Error::BrokenPipe),
            State::Closing | State::LastAck => None,
            _ => Some(Error::Reset),
        };
        assert_eq!(s.tcb.error(), error, "{state:?}");
    }
}

#[test]
fn a_reset_elsewhere_in_the_window_is_challenged() {
    for (state, rcv_nxt, _) in LIVE {
        let mut s = Script::in_state(state);
        // Once the peer has closed, its window has nothing in it.
        let window = s.tcb.rcv_limit() as i64 - rcv_nxt;
        if window < 2 {
            continue;
        }
        let d = s.arrives(RST, rcv_nxt + 1, 0, 0);
        assert_eq!(d.drop, Some(DropReason::RstNotExact), "{state:?}");
        assert_eq!(s.tcb.state(), state);
        s.acks(rcv_nxt);
    }
}

#[test]
fn a_reset_outside_the_window_is_ignored() {
    for (state, rcv_nxt, _) in LIVE {
        for at in [rcv_nxt - 1, rcv_nxt + 30_000] {
            let mut s = Script::in_state(state);
            let d = s.arrives(RST, at, 0, 0);
            assert_eq!(d.drop, Some(DropReason::RstUnacceptable), "{state:?}");
            assert_eq!(s.tcb.state(), state);
            s.silent();
        }
    }
}

#[test]
fn a_syn_is_challenged() {
    for (state, rcv_nxt, ack) in LIVE {
        for flags in [SYN, SYN | ACK] {
            let mut s = Script::in_state(state);
            let d = s.arrives(flags, rcv_nxt, ack, 0);
            assert_eq!(d.drop, Some(DropReason::SynInConnection), "{state:?}");
            assert_eq!(s.tcb.state(), state);
            s.acks(rcv_nxt);
        }
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

#[test]
fn an_ack_of_what_was_never_sent_is_challenged() {
    for (state, rcv_nxt, _) in LIVE {
        let mut s = Script::in_state(state);
        let d = s.arrives(ACK, rcv_nxt, 1000, 0);
        assert_eq!(d.drop, Some(DropReason::AckUnsent), "{state:?}");
        assert_eq!(s.tcb.state(), state);
        s.acks(rcv_nxt);
    }
}

#[test]
fn an_ack_too_far_back_is_challenged() {
    for (state, rcv_nxt, _) in LIVE {
        let mut s = Script::in_state(state);
        let d = s.arrives(ACK, rcv_nxt, -40_000, 0);
        assert_eq!(d.drop, Some(DropReason::AckTooOld), "{state:?}");
        s.acks(rcv_nxt);
    }
}

#[test]
fn an_old_ack_within_the_window_is_nothing() {
    for (state, rcv_nxt, _) in LIVE {
        let mut s = Script::in_state(state);
        let d = s.arrives(ACK, rcv_nxt, -1, 0);
        assert_eq!(d.drop, None, "{state:?}");
        assert_eq!(s.tcb.state(), state);
        s.silent();
    }
}

#[test]
fn a_segment_without_ack_is_dropped() {
    for (state, rcv_nxt, _) in LIVE {
        let mut s = Script::in_state(state);
        let d = s.arrives(longshore_wire::tcp::TcpFlags::NONE, rcv_nxt, 0, 10);
        assert_eq!(d.drop, Some(DropReason::NoAck), "{state:?}");
        assert_eq!(d.place, None);
        assert_eq!(s.tcb.state(), state);
    }
}

#[test]
fn a_segment_beyond_the_window_is_answered() {
    for (state, rcv_nxt, ack) in LIVE {
        let mut s = Script::in_state(state);
        let d = s.arrives(ACK, rcv_nxt + 30_000, ack, 100);
        assert_eq!(d.drop, Some(DropReason::OutOfWindow), "{state:?}");
        assert_eq!(d.place, None);
        s.acks(rcv_nxt);
    }
}

#[test]
fn a_keepalive_probe_is_answered() {
    for (state, rcv_nxt, ack) in LIVE {
        let mut s = Script::in_state(state);
        let d = s.arrives(ACK, rcv_nxt - 1, ack, 0);
        assert_eq!(d.drop, Some(DropReason::Duplicate), "{state:?}");
        s.acks(rcv_nxt);
    }
}

#[test]
fn abort_resets_where_the_peer_would_wait() {
    for (state, rcv_nxt, _) in LIVE {
        let mut s = Script::in_state(state);
        s.tcb.abort();
        assert_eq!(s.tcb.state(), State::Closed);
        assert!(s.events().contains(Events::CLOSED));
        assert_eq!(s.tcb.error(), Some(Error::Aborted));
        if matches!(state, State::Closing | State::LastAck) {
            s.silent();
        } else {
            let t = s.sent_one();
            assert_eq!(t.flags, RST | ACK, "{state:?}");
            assert_eq!(s.ack_of(&t), rcv_nxt);
            s.silent();
        }
        assert_eq!(s.tcb.deadline(), None);
    }
}

#[test]
fn writes_count_only_where_the_stream_is_open() {
    for (state, _, _) in LIVE {
        let mut s = Script::in_state(state);
        s.writes(10);
        let open = matches!(state, State::Established | State::CloseWait);
        assert_eq!(s.tcb.snd_edge(), if open { 10 } else { 0 }, "{state:?}");
        if open {
            assert_eq!(s.sent_one().payload, 0..10);
        } else {
            s.silent();
        }
    }
}
