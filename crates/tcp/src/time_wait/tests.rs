//! The small record: RFC 9293 section 3.10.7.4 and RFC 6191.

use super::*;
use crate::script::{ACK, FIN, RST, SYN};
use longshore_wire::tcp::{TcpHeader, TcpOptions, Timestamps};

const NOW: Instant = Instant(100 * SECOND);

fn record(timestamps: bool) -> TimeWait {
    TimeWait {
        expires: NOW.after_us(TIME_WAIT_US),
        last_ack: Instant(0),
        snd_nxt: 1_000,
        rcv_nxt: 5_000,
        ts_recent: 300,
        ts_offset: 9,
        window: 100,
        timestamps,
    }
}

fn arrives(
    record: &mut TimeWait,
    flags: TcpFlags,
    seq: u32,
    ts: Option<u32>,
    now: Instant,
) -> TimeWaitVerdict {
    let header = TcpHeader {
        src_port: 1,
        dst_port: 2,
        seq: SeqNumber(seq),
        ack: SeqNumber(1_000),
        flags,
        window: 5,
        urgent: 0,
        options: TcpOptions {
            timestamps: ts.map(|val| Timestamps { val, echo: 0 }),
            ..TcpOptions::default()
        },
    };
    record.on_segment(&Segment::new(&header, 0), now)
}

#[test]
fn is_small() {
    assert!(size_of::<TimeWait>() <= 64);
}

#[test]
fn a_fin_is_acknowledged_and_restarts_the_wait() {
    let mut r = record(true);
    let later = NOW.after_us(SECOND);
    for _ in 0..3 {
        let TimeWaitVerdict::Ack(t) = arrives(&mut r, FIN | ACK, 4_999, Some(301), later) else {
            panic!("no acknowledgment");
        };
        assert_eq!((t.seq.0, t.ack.0, t.window), (1_000, 5_000, 100));
        let ts = t.options.timestamps.unwrap();
        assert_eq!((ts.val, ts.echo), (101_000 + 9, 300));
    }
    assert_eq!(r.expires(), later.after_us(TIME_WAIT_US));
}

#[test]
fn old_segments_are_answered_now_and_then() {
    let mut r = record(false);
    assert!(matches!(
        arrives(&mut r, ACK, 4_000, None, NOW),
        TimeWaitVerdict::Ack(_)
    ));
    let drop = TimeWaitVerdict::Drop(DropReason::TimeWait);
    assert_eq!(arrives(&mut r, ACK, 4_000, None, NOW), drop);
    assert!(matches!(
        arrives(&mut r, ACK, 4_000, None, NOW.after_us(SECOND)),
        TimeWaitVerdict::Ack(_)
    ));
    assert_eq!(
        arrives(&mut r, ACK, 5_000, None, NOW.after_us(2 * SECOND)),
        drop
    );
    assert_eq!(r.expires(), NOW.after_us(TIME_WAIT_US));
}

#[test]
fn resets_must_be_exact() {
    let unacceptable = TimeWaitVerdict::Drop(DropReason::RstUnacceptable);
    assert_eq!(
        arrives(&mut record(false), RST, 4_999, None, NOW),
        unacceptable
    );
    assert_eq!(
        arrives(&mut record(false), RST, 5_001, None, NOW),
        unacceptable
    );
    assert_eq!(
        arrives(&mut record(false), RST, 5_000, None, NOW),
        TimeWaitVerdict::Close
    );
}

#[test]
fn a_syn_reopens_by_sequence_number_or_timestamp() {
    let reopens = |timestamps, seq, ts| {
        let verdict = arrives(&mut record(timestamps), SYN, seq, ts, NOW);
        matches!(verdict, TimeWaitVerdict::Reopen { .. })
    };
    assert!(reopens(false, 5_001, None));
    assert!(!reopens(false, 5_000, None));
    assert!(!reopens(false, 4_000, None));
    // With timestamps, they decide.
    assert!(reopens(true, 4_000, Some(301)));
    assert!(!reopens(true, 9_000, Some(299)));
    assert!(reopens(true, 9_000, Some(300)));
    assert!(!reopens(true, 4_000, Some(300)));
    let TimeWaitVerdict::Reopen { iss_after } = arrives(&mut record(false), SYN, 6_000, None, NOW)
    else {
        panic!();
    };
    assert_eq!(iss_after.0, 1_000 + 65_535);
}

/// Only a SYN opens it anew, and only an acknowledgment is answered; that not more often than at
/// each interval, to the microsecond.
#[test]
fn what_is_newer_and_no_syn_opens_nothing() {
    for flags in [TcpFlags::NONE, FIN] {
        let mut r = record(false);
        assert_eq!(
            arrives(&mut r, flags, 6_000, None, NOW),
            TimeWaitVerdict::Drop(DropReason::NoAck)
        );
    }
    let mut r = record(false);
    r.last_ack = NOW;
    let early = NOW.after_us(ACK_INTERVAL_US - 1);
    assert_eq!(
        arrives(&mut r, ACK, 4_000, None, early),
        TimeWaitVerdict::Drop(DropReason::TimeWait)
    );
    let due = NOW.after_us(ACK_INTERVAL_US);
    assert!(matches!(
        arrives(&mut r, ACK, 4_000, None, due),
        TimeWaitVerdict::Ack(_)
    ));
    assert_eq!(r.last_ack, due);
}
