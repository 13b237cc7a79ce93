//! What an engine sees to after a panic.

use crate::testing::Turned;
use longshore_hostif::{OpenFlags, OptionName, Request, SocketKind};
use longshore_stack::testing::panic_again_in;

/// A second, in microseconds.
const SECOND: u64 = 1_000_000;

/// Whichever session was being looked over as it panicked may not have been: all are, also one that is
/// parked.
#[test]
fn sessions_are_looked_over_after_a_panic_though_they_are_parked() {
    for panics in [false, true] {
        let mut world = Turned::new();
        let [ill, _well] = world.programs();
        let (mut ill, socket) = world.during(move |_| {
            let mut ill = ill;
            let socket = ill.open_with(SocketKind::Stream, OpenFlags::empty());
            (ill, socket)
        });
        (0..10).for_each(|_| world.later(SECOND));
        assert!(world.engine.stack.endpoints.sessions.park(1));
        let is_listed = |world: &Turned| {
            let session = world.engine.programs.sessions.get(1);
            session.expect("it goes on").is_listed
        };
        assert!(!is_listed(&world));
        if panics {
            panic_again_in(0, 0, 1);
        }
        let option = Request::SetOption {
            socket,
            name: OptionName::KeepIdle,
            value: 1,
        };
        ill.channel.put(&option).unwrap();
        ill.channel.publish(&ill.doorbell, false);
        world.turn();
        assert_eq!(is_listed(&world), panics);
        let contained = world.engine.stack.counters.sessions.contained_panics;
        assert_eq!(contained, u64::from(panics));
    }
}
