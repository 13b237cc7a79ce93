//! The verdicts and the queues.

use super::*;
use longshore_wire::SeqNumber;
use longshore_wire::tcp::TcpOptions;

fn verdict(listener: &Listener, flags: TcpFlags) -> ListenVerdict {
    let header = TcpHeader {
        src_port: 40_000,
        dst_port: 80,
        seq: SeqNumber(100),
        ack: SeqNumber(200),
        flags,
        window: 1000,
        urgent: 0,
        options: TcpOptions::default(),
    };
    listener.on_segment(&Segment::new(&header, 0))
}

#[test]
fn only_a_syn_begins_a_connection() {
    let l = Listener::new(5);
    let drop = ListenVerdict::Drop(DropReason::ListenNoSyn);
    assert_eq!(verdict(&l, TcpFlags::SYN), ListenVerdict::Accept);
    assert_eq!(verdict(&l, TcpFlags::NONE), drop);
    assert_eq!(verdict(&l, TcpFlags::FIN), drop);
    assert_eq!(verdict(&l, TcpFlags::SYN | TcpFlags::FIN), drop);
    assert_eq!(verdict(&l, TcpFlags::RST), drop);
    assert_eq!(verdict(&l, TcpFlags::RST | TcpFlags::ACK), drop);
    for flags in [TcpFlags::ACK, TcpFlags::SYN | TcpFlags::ACK] {
        let ListenVerdict::Reset(reset) = verdict(&l, flags) else {
            panic!("no reset for {flags:?}");
        };
        assert_eq!(reset.flags, TcpFlags::RST);
        assert_eq!(reset.seq, SeqNumber(200));
    }
}

#[test]
fn the_accept_queue_holds_one_more_than_the_backlog() {
    let mut l = Listener::new(2);
    for _ in 0..3 {
        assert_eq!(verdict(&l, TcpFlags::SYN), ListenVerdict::Accept);
        l.on_half_open();
        assert!(l.may_establish());
        l.on_established();
    }
    assert_eq!((l.half_open(), l.waiting()), (0, 3));
    assert!(!l.may_establish());
    let full = ListenVerdict::Drop(DropReason::AcceptQueueFull);
    assert_eq!(verdict(&l, TcpFlags::SYN), full);
    l.on_accepted();
    assert_eq!(verdict(&l, TcpFlags::SYN), ListenVerdict::Accept);
    l.set_backlog(1);
    assert_eq!(verdict(&l, TcpFlags::SYN), full);
}

#[test]
fn half_open_connections_are_bounded() {
    for (backlog, most) in [(0, 8), (100, 100), (1_000_000, 4096)] {
        let mut l = Listener::new(backlog);
        let mut accepted = 0;
        while verdict(&l, TcpFlags::SYN) == ListenVerdict::Accept {
            l.on_half_open();
            accepted += 1;
        }
        assert_eq!(accepted, most);
        let full = ListenVerdict::Drop(DropReason::SynQueueFull);
        assert_eq!(verdict(&l, TcpFlags::SYN), full);
        l.on_half_open_gone();
        assert_eq!(verdict(&l, TcpFlags::SYN), ListenVerdict::Accept);
    }
}

#[test]
fn counting_too_often_does_no_harm() {
    let mut l = Listener::new(1);
    l.on_accepted();
    l.on_half_open_gone();
    l.set_defer_accept(true);
    assert!(l.defers_accept());
    assert_eq!((l.half_open(), l.waiting(), l.backlog()), (0, 0, 1));
}
