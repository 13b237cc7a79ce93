//! Acknowledgments made to lure the sender (Savage and others 1999): in pieces, ahead of
//! the data, or again and again.

use crate::script::{ACK, Script, plain};
use longshore_tcp::{Config, Congestion, DropReason};
use longshore_wire::tcp::TcpOptions;

fn sender(congestion: Congestion) -> Script {
    let cfg = Config {
        congestion,
        ..plain()
    };
    let mut s = Script::established_with(&cfg, TcpOptions::default());
    s.window = u16::MAX;
    let _ = s.arrives(ACK, 0, 0, 1);
    s.writes(1_000_000);
    s
}

/// RFC 3465: an acknowledgment of a segment in a thousand pieces is worth a segment.
#[test]
fn a_segment_acknowledged_byte_by_byte_is_one_segment() {
    for congestion in Congestion::ALL {
        let mut s = sender(congestion);
        s.sent();
        let before = s.tcb.send_status().cwnd();
        for ack in 1..=1_000 {
            s.now = s.now.after_us(10);
            let _ = s.arrives(ACK, 1, ack, 0);
            s.sent();
        }
        let grown = s.tcb.send_status().cwnd() - before;
        assert!(grown <= 1_000, "{congestion:?}: {grown}");
    }
}

/// What was not sent cannot be acknowledged: no growth, and few answers.
#[test]
fn acknowledgments_ahead_of_the_data_are_nothing() {
    for congestion in Congestion::ALL {
        let mut s = sender(congestion);
        let sent = s.sent().iter().map(|t| t.payload_len()).sum::<usize>() as i64;
        let before = s.tcb.send_status().cwnd();
        let mut answers = 0;
        for i in 1..=10_000 {
            s.now = s.now.after_us(1);
            let d = s.arrives(ACK, 1, sent + i, 0);
            assert_eq!(d.drop, Some(DropReason::AckUnsent));
            answers += s.sent().iter().filter(|t| t.payload.is_empty()).count();
        }
        assert_eq!(s.tcb.send_status().cwnd(), before, "{congestion:?}");
        assert_eq!(s.tcb.snd_acked(), 0);
        assert!(answers <= 1, "{congestion:?}: {answers}");
    }
}

/// Without SACK a duplicate stands for a segment that has left the network; there are no
/// more of them than segments were sent.
#[test]
fn duplicates_without_end_let_no_more_go_than_was_in_flight() {
    for congestion in [Congestion::NewReno, Congestion::Cubic, Congestion::Dctcp] {
        let mut s = sender(congestion);
        let flight = s.sent().iter().map(|t| t.payload_len()).sum::<usize>();
        let mut sent = 0;
        for _ in 0..10_000 {
            let _ = s.arrives(ACK, 1, 0, 0);
            sent += s.sent().iter().map(|t| t.payload_len()).sum::<usize>();
        }
        assert!(sent <= flight + 3_000, "{congestion:?}: {sent} of {flight}");
    }
}
