use super::*;
use proptest::prelude::*;

#[test]
fn values_on_the_wire() {
    const SECOND: u32 = 1_000;
    const MINUTE: u32 = 60_000;
    // What is set, the option's value, and what that says.
    let table = [
        (1, 1, SECOND),
        (999, 1, SECOND),
        (1_000, 1, SECOND),
        (1_001, 2, 2 * SECOND),
        (90_500, 91, 91 * SECOND),
        (32_767 * SECOND, 0x7fff, 32_767 * SECOND),
        (32_767 * SECOND + 1, 0x8000 | 547, 547 * MINUTE),
        (600 * MINUTE, 0x8000 | 600, 600 * MINUTE),
        (32_767 * MINUTE, 0xffff, 32_767 * MINUTE),
        (u32::MAX, 0xffff, 32_767 * MINUTE),
    ];
    for (set, wire, read) in table {
        assert_eq!(to_wire(set), wire, "{set}");
        assert_eq!(from_wire(wire), Some(read), "{set}");
    }
    assert_eq!(to_wire(0), 0);
    // RFC 5482 section 3.2: 0 is ignored, in either unit.
    assert_eq!(from_wire(0), None);
    assert_eq!(from_wire(MINUTES), None);
}

proptest! {
    /// No timeout comes out shorter than it was set, unless it is longer than fits, and
    /// none by more than its unit longer.
    #[test]
    fn nothing_is_told_shorter_than_it_is(ms in 1..u32::MAX) {
        let read = from_wire(to_wire(ms)).unwrap();
        let unit = if ms > LONGEST * 1_000 { 60_000 } else { 1_000 };
        prop_assert!(read >= ms.min(LONGEST * 60_000));
        prop_assert!(read - ms.min(read) < unit);
    }

    /// Every value of the option is decoded, and encoded to the same time again.
    #[test]
    fn whatever_comes_is_understood(value: u16) {
        match from_wire(value) {
            None => prop_assert_eq!(value & !MINUTES, 0),
            Some(ms) => prop_assert_eq!(from_wire(to_wire(ms)), Some(ms)),
        }
    }
}

/// The peer advertises a user timeout.
fn advises(tcb: &mut crate::Tcb, option: Option<u16>) {
    tcb.liveness.handle_user_timeout_option(
        &tcb.flight,
        &mut tcb.timers,
        &mut tcb.cfg,
        &mut tcb.flags,
        option,
    );
}

/// What the peer advises is its advice, however often it says so: the user's own value takes its
/// place, and an orphan has none.
#[test]
fn advice_that_is_repeated_is_advice() {
    use crate::script::{Script, plain};
    let cfg = Config {
        user_timeout_option: true,
        ..plain()
    };
    let mut s = Script::established_with(&cfg, Default::default());
    for seconds in [200, 300] {
        advises(&mut s.tcb, Some(seconds));
        assert_eq!(s.tcb.cfg.user_timeout_ms, u32::from(seconds) * 1_000);
        assert_eq!(
            s.tcb.cfg.advertised_user_timeout(s.tcb.flags),
            None,
            "it is not ours to tell"
        );
    }
    s.tcb.settings().set_user_timeout(7_000);
    s.tcb.settings().set_user_timeout(8_000);
    let told = s.sent_one();
    assert_eq!(told.options.user_timeout, Some(8));
    advises(&mut s.tcb, Some(200));
    assert_eq!(s.tcb.cfg.user_timeout_ms, 8_000);
    s.silent();
    let mut s = Script::established_with(&cfg, Default::default());
    advises(&mut s.tcb, Some(200));
    advises(&mut s.tcb, Some(200));
    s.tcb.close(s.now);
    assert_eq!(s.tcb.cfg.user_timeout_ms, 0);
}
