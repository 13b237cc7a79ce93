//! The edges of urgent data; the rest is in `tests/behaviour/urgent.rs`.

use super::*;
use crate::events::Events;
use crate::script::{ACK, Script};
use crate::state::State;

/// RFC 6093 section 3.1 has 16 bits: further ahead the pointer is as far as it reaches, unless
/// what it would point into was sent.
#[test]
fn a_pointer_that_does_not_reach_points_as_far_as_it_can() {
    let field = |up: Pos, nxt: Pos| {
        let mut s = Script::established();
        s.tcb.snd.write(100_000);
        s.tcb.snd.set_up(up);
        s.tcb.snd.advance(nxt);
        s.tcb.snd.urgent_field(Flags::URGENT, 0)
    };
    let none = (TcpFlags::NONE, 0);
    assert_eq!(field(1, 0), (TcpFlags::URG, 1));
    assert_eq!(field(65_535, 90_000), (TcpFlags::URG, u16::MAX));
    assert_eq!(field(65_536, 65_534), (TcpFlags::URG, u16::MAX));
    assert_eq!(field(65_536, 65_535), none);
    assert_eq!(field(70_000, 65_536), none);
    assert_eq!(field(0, 0), none, "nothing is ahead");
}

#[test]
fn what_is_acknowledged_or_lies_before_the_last_one_is_not_urgent() {
    let mut s = Script::established();
    s.writes(300);
    s.sent();
    let _ = s.arrives(ACK, 0, 100, 0);
    for edge in [0, 50, 100] {
        s.tcb.send_stream().set_urgent(edge);
        assert!(!s.tcb.flags.contains(Flags::URGENT), "{edge}");
    }
    s.tcb.send_stream().set_urgent(200);
    assert_eq!(s.tcb.snd.up(), 200);
    s.tcb.send_stream().set_urgent(150);
    assert_eq!(s.tcb.snd.up(), 200);
    s.tcb.send_stream().set_urgent(1_000);
    assert_eq!(s.tcb.snd.up(), 300, "no further than was written");
    assert!(s.tcb.flags.contains(Flags::URGENT));
}

/// The announcement goes at once only if the window has no room for the data that would have it,
/// once for each urgent byte, and not before the connection is there.
#[test]
fn a_closed_window_is_told_of_urgent_data_once() {
    let mut s = Script::established();
    s.window = 0;
    let _ = s.arrives(ACK, 0, 0, 0);
    s.writes(300);
    s.silent();
    s.tcb.flags |= Flags::ACK_NOW;
    s.tcb.send_stream().set_urgent(100);
    assert_eq!(s.sent_one().urgent, 100);
    s.tcb.send_stream().set_urgent(100);
    s.silent();
    s.tcb.send_stream().set_urgent(200);
    assert_eq!(s.sent_one().urgent, 200);
    let mut s = Script::established();
    s.writes(300);
    s.sent();
    s.tcb.send_stream().set_urgent(100);
    s.silent();
    let mut s = Script::in_state(State::SynSent);
    s.writes(300);
    s.tcb.send_stream().set_urgent(100);
    assert!(!s.tcb.flags.contains(Flags::ACK_NOW));
}

/// "RCV.UP <- max(RCV.UP, SEG.UP)": what has arrived by then is not urgent any more, and what is
/// told twice is told.
#[test]
fn a_pointer_to_what_has_arrived_is_none() {
    let mut s = Script::established();
    let _ = s.arrives(ACK, 0, 0, 10);
    s.events();
    let _ = s.arrives_urgent(ACK, (5, 0), 10, 5);
    assert_eq!(s.tcb.receive_status().urgent(), 0);
    assert!(!s.events().contains(Events::URGENT));
    let _ = s.arrives_urgent(ACK, (15, 0), 10, 20);
    let _ = s.arrives_urgent(ACK, (25, 0), 10, 20);
    assert_eq!(s.tcb.receive_status().urgent(), 45);
    assert!(s.events().contains(Events::URGENT));
}
