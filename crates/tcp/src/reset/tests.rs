//! RFC 9293 section 3.10.7.1, both forms.

use super::*;
use crate::script::{ACK, FIN, RST, SYN};

fn header(flags: TcpFlags) -> TcpHeader {
    TcpHeader {
        src_port: 1,
        dst_port: 2,
        seq: SeqNumber(u32::MAX),
        ack: SeqNumber(77),
        flags,
        window: 5,
        urgent: 0,
        options: TcpOptions::default(),
    }
}

#[test]
fn answers_an_ack_with_its_number() {
    let h = header(ACK | FIN);
    let r = reset_for(&Segment::new(&h, 10)).unwrap();
    assert_eq!((r.seq, r.flags), (SeqNumber(77), RST));
    assert_eq!((r.src_port, r.dst_port), (2, 1));
}

#[test]
fn answers_anything_else_with_what_it_covers() {
    for (flags, len, ack) in [
        (SYN, 0, 0),
        (SYN, 10, 10),
        (FIN, 10, 10),
        (TcpFlags::NONE, 1, 0),
    ] {
        let h = header(flags);
        let r = reset_for(&Segment::new(&h, len)).unwrap();
        assert_eq!((r.seq, r.flags), (SeqNumber(0), RST | ACK));
        assert_eq!(r.ack, SeqNumber(ack), "{flags:?} {len}");
    }
}

#[test]
fn never_answers_a_reset() {
    for flags in [RST, RST | ACK] {
        assert_eq!(reset_for(&Segment::new(&header(flags), 0)), None);
    }
}
