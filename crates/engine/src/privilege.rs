//! The programs that may bind the ports that only the privileged may (those below
//! net.ipv4.ip_unprivileged_port_start).
//!
//! Asked by `intake` when a program binds such a port, which is seldom: it reads a file
//! of /proc. The rule is Linux's, CAP_NET_BIND_SERVICE, as the process has it at that time,
//! so that a program that has given its privileges away has not got them here either.

use crate::session::Session;
use longshore_hostif::Address;
use longshore_stack::{LowPorts, Settings};
use longshore_tcp::Instant;
use std::fs::read_to_string;

/// CAP_NET_BIND_SERVICE, as a bit of the sets in /proc.
const BIND_SERVICE: u64 = 1 << 10;

/// What /proc says of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Credentials {
    /// The effective user.
    uid: u32,
    /// The effective capabilities.
    capabilities: u64,
}

impl Credentials {
    /// From /proc/PID/status.
    fn parse(status: &str) -> Option<Self> {
        let value = |name| status.lines().find_map(|line| line.strip_prefix(name));
        Some(Self {
            uid: value("Uid:")?.split_whitespace().nth(1)?.parse().ok()?,
            capabilities: u64::from_str_radix(value("CapEff:")?.trim(), 16).ok()?,
        })
    }

    /// Whether it may, in a session that belongs to `owner`. A process names itself by
    /// its pid, so one that is another user's counts only in a session of root's.
    fn may_bind_low_ports(&self, owner: u32) -> bool {
        (owner == 0 || self.uid == owner) && self.capabilities & BIND_SERVICE != 0
    }
}

/// Whether the process of `channel` of a session may bind the port of this address; asked in this
/// `turn` of the engine.
pub(crate) fn may_bind(
    session: Option<&mut Session>,
    (channel, turn): (u16, u64),
    local: Address,
    (settings, now): (&mut Settings, Instant),
) -> bool {
    let port = local.get().map_or(0, |local| local.port());
    let everybodys = settings.host.defaults(now).unwrap_or_default();
    if port == 0 || port >= everybodys.unprivileged_from {
        return true;
    }
    let Some(session) = session else {
        return false;
    };
    match settings.access.low_ports {
        LowPorts::All => return true,
        LowPorts::Root => return session.uid == 0,
        LowPorts::Host => {}
    }
    // To ask the kernel takes as long as many other requests. A process that was refused is told
    // so after this turn, so what it does about that counts in a later one.
    let found = Some((channel, turn));
    if session.unprivileged == found {
        return false;
    }
    let pid = session.processes.pid(channel);
    let may = pid.is_some_and(|pid| may_bind_low_ports(pid, session.uid));
    if !may {
        session.unprivileged = found;
    }
    may
}

/// Whether process `pid`, of a session that user `owner` has opened, may bind the ports of
/// the privileged.
fn may_bind_low_ports(pid: u32, owner: u32) -> bool {
    let users = |of: &str| read_to_string(format!("/proc/{of}/uid_map"));
    let pid = pid.to_string();
    let status = read_to_string(format!("/proc/{pid}/status"));
    let (Ok(status), Ok(theirs), Ok(ours)) = (status, users(&pid), users("self")) else {
        // What cannot be seen is left to the user who has opened the session.
        return owner == 0;
    };
    // A capability counts for the engine's ports only if it is one among the engine's users:
    // in a namespace of users that it has made, everybody has all of them.
    theirs == ours && Credentials::parse(&status).is_some_and(|c| c.may_bind_low_ports(owner))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Turned;
    use crate::testing::common::Host;

    const STATUS: &str = "Name:\tnginx\nUid:\t0\t33\t0\t33\nGid:\t0\t0\t0\t0\n\
                          CapInh:\t0000000000000000\nCapPrm:\t000001ffffffffff\n\
                          CapEff:\t0000000000000400\n";

    #[test]
    fn the_effective_user_and_capabilities_count() {
        let c = Credentials::parse(STATUS).unwrap();
        assert_eq!((c.uid, c.capabilities), (33, BIND_SERVICE));
        assert!(c.may_bind_low_ports(33) && c.may_bind_low_ports(0));
        assert!(!c.may_bind_low_ports(1000), "another user's process");
        let without = Credentials {
            capabilities: !BIND_SERVICE,
            ..c
        };
        assert!(!without.may_bind_low_ports(33) && !without.may_bind_low_ports(0));
    }

    #[test]
    fn what_is_no_status_says_nothing() {
        for text in ["", "Uid:\t0\n", "Uid:\t0\t0\t0\t0\nCapEff:\tx\n"] {
            assert_eq!(Credentials::parse(text), None);
        }
    }

    /// Whether the process of a session and channel may bind this port, asked in a turn of its own.
    fn may_bind_port(world: &mut Turned, from: (u32, u16), port: u16) -> bool {
        world.turn();
        may_bind_now(world, from, port)
    }

    /// As `may_bind_port`, in the same turn as the last.
    fn may_bind_now(world: &mut Turned, (key, channel): (u32, u16), port: u16) -> bool {
        let local = std::net::SocketAddr::from(([10, 0, 0, 1], port));
        let engine = &mut world.engine;
        let turn = engine.stack.counters.event_loop.turns;
        let now = engine.stack.now();
        let session = engine.programs.sessions.get_mut(key);
        let settings = &mut engine.stack.settings;
        may_bind(session, (channel, turn), local.into(), (settings, now))
    }

    #[test]
    fn low_ports_are_for_whom_the_rule_says() {
        let mut world = Turned::new();
        let [host]: [Host; 1] = world.programs();
        let own = (0, host.channel.index() as u16);
        let (nobody, elsewhere) = ((0, 40), (9, own.1));
        let status = read_to_string("/proc/self/status").unwrap();
        let may = Credentials::parse(&status).unwrap().capabilities & BIND_SERVICE != 0;
        let uid = rustix::process::geteuid().as_raw();
        for from in [own, nobody, elsewhere] {
            for port in [0, 1_024, 65_535] {
                assert!(may_bind_port(&mut world, from, port), "{port}");
            }
        }
        let low = |world: &mut Turned, from| {
            let [first, last] = [1, 1_023].map(|port| may_bind_port(world, from, port));
            assert_eq!(first, last);
            first
        };
        let is_now_of = |world: &mut Turned, uid| {
            world.engine.programs.sessions.get_mut(0).unwrap().uid = uid;
        };
        // As on the host: a process that has the capability, in a session of its own user's or root's.
        assert_eq!(low(&mut world, own), may);
        assert!(!low(&mut world, nobody) && !low(&mut world, elsewhere));
        is_now_of(&mut world, uid + 1);
        assert!(!low(&mut world, own));
        world.engine.stack.settings.access.low_ports = LowPorts::Root;
        assert!(!low(&mut world, own) && !low(&mut world, elsewhere));
        is_now_of(&mut world, 0);
        assert!(low(&mut world, own) && low(&mut world, nobody));
        world.engine.stack.settings.access.low_ports = LowPorts::All;
        is_now_of(&mut world, uid + 1);
        assert!(low(&mut world, own) && low(&mut world, nobody));
        assert!(!low(&mut world, elsewhere));
    }

    /// To ask the kernel takes long.
    #[test]
    fn a_process_that_was_refused_is_asked_about_once_in_a_turn() {
        let mut world = Turned::new();
        let [host]: [Host; 1] = world.programs();
        let own = (0, host.channel.index() as u16);
        let is_now_of = |world: &mut Turned, uid| {
            world.engine.programs.sessions.get_mut(0).unwrap().uid = uid;
        };
        let status = read_to_string("/proc/self/status").unwrap();
        let may = Credentials::parse(&status).unwrap().capabilities & BIND_SERVICE != 0;
        let uid = rustix::process::geteuid().as_raw();
        assert_eq!(may_bind_port(&mut world, own, 1), may);
        assert_eq!(may_bind_now(&mut world, own, 1), may);
        is_now_of(&mut world, uid + 1);
        assert!(!may_bind_port(&mut world, own, 1));
        is_now_of(&mut world, uid);
        assert!(!may_bind_now(&mut world, own, 1));
        assert_eq!(may_bind_port(&mut world, own, 1), may);
    }

    #[test]
    fn this_process_is_what_it_is() {
        let status = read_to_string("/proc/self/status").unwrap();
        let c = Credentials::parse(&status).unwrap();
        let own = rustix::process::geteuid().as_raw();
        assert_eq!(c.uid, own);
        let may = may_bind_low_ports(std::process::id(), own);
        assert_eq!(may, c.capabilities & BIND_SERVICE != 0);
        // What cannot be seen is left to the user who has opened the session.
        assert!(!may_bind_low_ports(u32::MAX, own.max(1)));
        assert!(may_bind_low_ports(u32::MAX, 0));
    }
}
