//! What a socket has of its machine's settings when its program asks for nothing else any more.

use super::off_path::GEOMETRY;
use super::single::Single;
use crate::host::{Defaults, Host};
use longshore_hostif::{OptionName, SocketKind};
use longshore_tcp::{FastOpenKey, Instant};

/// net.ipv4.tcp_notsent_lowat.
const OF_MACHINE: u32 = 4_000;

struct Machine;

impl Host for Machine {
    fn defaults(&mut self, _now: Instant) -> Option<Defaults> {
        Some(Defaults {
            not_sent_lowat: OF_MACHINE,
            ..Defaults::default()
        })
    }

    fn fast_open_keys(&self) -> Option<(Option<FastOpenKey>, Option<FastOpenKey>)> {
        None
    }

    fn time_of_day_ns(&self) -> u64 {
        0
    }
}

/// tcp(7): TCP_NOTSENT_LOWAT of 0 is that of the machine.
#[test]
fn no_mark_of_its_own_is_the_mark_of_the_machine() {
    let mut single = Single::new(GEOMETRY, 1);
    let socket = single.open(SocketKind::Stream);
    let mark = |single: &Single| {
        let key = single.stack.endpoints.key_of(single.session(), socket);
        let found = single.stack.endpoints.sockets.get(key.expect("a socket"));
        found.expect("a socket").options.not_sent_lowat
    };
    single.set(socket, OptionName::NotSentLowat, 1);
    assert_eq!(mark(&single), 1);
    single.set(socket, OptionName::NotSentLowat, 0);
    assert_eq!(mark(&single), 0, "nobody has set anything");
    single.stack.settings.host = Box::new(Machine);
    single.set(socket, OptionName::NotSentLowat, 1);
    single.set(socket, OptionName::NotSentLowat, 0);
    assert_eq!(mark(&single), OF_MACHINE);
}
