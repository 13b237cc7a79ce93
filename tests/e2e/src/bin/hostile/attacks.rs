//! What a hostile program does. Each attack goes on until its time is over, in one session
//! after the other; the caller may kill it at any moment before.

mod crowds;
mod lies;
mod memory;
mod wakes;

use crate::guest::Guest;
use crate::random::Random;
use std::path::Path;
use std::time::Instant;

/// What an attack is given.
pub(crate) struct Attack<'a> {
    pub(crate) engine: &'a Path,
    pub(crate) random: Random,
    pub(crate) until: Instant,
}

impl Attack<'_> {
    pub(crate) fn goes_on(&self) -> bool {
        Instant::now() < self.until
    }

    /// A session. An attacker that is refused one tries again a little later.
    pub(crate) fn guest(&self) -> Option<Guest> {
        let guest = Guest::come(self.engine);
        if guest.is_none() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        guest
    }
}

/// One round of an attack.
pub(crate) type Round = fn(&mut Attack<'_>);

/// All of them. What the first ones leave is there the longest: the engine keeps reservations
/// for 10 s, which pass while the others go on.
pub(crate) const ALL: &[(&str, Round)] = &[
    ("claim", crowds::claim),
    ("scribble", memory::scribble),
    ("aim", memory::aim),
    ("hammer", memory::hammer),
    ("lie", lies::lie),
    ("garble", lies::garble),
    ("datagrams", lies::datagrams),
    ("bind", lies::bind),
    ("stall", wakes::stall),
    ("sleepers", wakes::sleepers),
    ("bells", wakes::bells),
    ("crowd", crowds::crowd),
    ("processes", crowds::processes),
    ("sockets", crowds::sockets),
    ("groups", crowds::groups),
    ("unread", crowds::unread),
];

pub(crate) fn run(round: Round, engine: &Path, seed: u64, until: Instant) {
    // As many descriptors as it may have.
    let mut limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current = limit.maximum;
    let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, limit);
    let random = Random::new(seed);
    let mut attack = Attack {
        engine,
        random,
        until,
    };
    while attack.goes_on() {
        round(&mut attack);
    }
}
