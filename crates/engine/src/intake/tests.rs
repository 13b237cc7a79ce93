//! What of the time of a turn goes to requests that take long.

use super::*;
use crate::EngineError;
use crate::testing::{config, engine};
use longshore_hostif::attach::{join, new_session};
use longshore_hostif::{Arena, HostChannel, SocketId};
use longshore_ring::Doorbell;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A program whose engine has several workers would ask all of them.
#[test]
fn an_engine_has_one_worker_and_so_have_its_sessions() {
    let dir = tempfile::tempdir().unwrap();
    let (mut config, socket, _wire) = config(dir.path());
    config.geometry.workers = 2;
    let refused = Engine::new(config).map(drop);
    assert!(matches!(refused, Err(EngineError::Workers(2))));
    assert!(!socket.exists());
}

/// A program with a session of its own.
struct Program {
    arena: Arc<Arena>,
    channel: HostChannel,
    doorbell: Doorbell,
    _fds: (OwnedFd, OwnedFd),
}

impl Program {
    fn new(path: &Path) -> Self {
        let (launcher, token) = new_session(path, Default::default()).unwrap();
        let joined = join(path, token).unwrap();
        let arena = Arc::new(Arena::open(joined.arena, joined.geometry).unwrap());
        Self {
            channel: HostChannel::new(arena.clone(), joined.channel),
            arena,
            doorbell: Doorbell::from_fd(joined.doorbell),
            _fds: (launcher, joined.connection),
        }
    }

    /// Asks so often for what may take long.
    fn asks(&mut self, times: u32) {
        for _ in 0..times {
            let nothing = Request::Close {
                socket: SocketId {
                    index: 0,
                    generation: 7,
                },
                snd_edge: 0,
                rcv_consumed: 0,
                linger: None,
            };
            self.channel.put(&nothing).unwrap();
        }
        self.channel.publish(&self.doorbell, false);
    }

    /// How many of its requests were served.
    fn served(&self, asked: u32) -> u32 {
        let control = self.arena.control(self.channel.index());
        let first = control.requested().wrapping_sub(asked);
        (1..=asked)
            .take_while(|n| control.has_handled(first.wrapping_add(*n)))
            .count() as u32
    }
}

/// Once a session has been served for long, the others wait too: the next turn begins with
/// them.
#[test]
fn sessions_share_the_time_of_a_turn() {
    let dir = tempfile::tempdir().unwrap();
    let (mut engine, path, _wire) = engine(dir.path());
    let come = std::thread::spawn(move || [Program::new(&path), Program::new(&path)]);
    while !come.is_finished() {
        engine.turn_and_rest(Duration::from_millis(1)).unwrap();
    }
    let mut programs = come.join().unwrap();
    // The engine takes them on.
    programs.iter_mut().for_each(|p| p.asks(1));
    while programs.iter().any(|p| p.served(1) == 0) {
        engine.turn_and_rest(Duration::from_millis(1)).unwrap();
    }
    programs.iter_mut().for_each(|p| p.asks(3));
    // Turns that have lasted as long as all requests may take, whatever is asked.
    let mut turn = || {
        std::thread::sleep(Duration::from_millis(2));
        let began = engine.clock.now().0 - ALL_SHARES;
        engine.turn_at(Instant(began)).unwrap();
        let mut served = [0, 1].map(|i: usize| programs[i].served(3));
        served.sort_unstable();
        served
    };
    for expected in [[0, 1], [1, 1], [1, 2], [2, 2], [2, 3], [3, 3]] {
        assert_eq!(turn(), expected);
    }
}

/// A session that asks for what takes long has its share of the time, however much the turn
/// has left.
#[test]
fn a_session_has_a_share_of_the_time_of_a_turn() {
    let dir = tempfile::tempdir().unwrap();
    let (mut engine, _path, _wire) = engine(dir.path());
    // The turn has just begun, and goes on beginning.
    engine.stack.set_now(Instant(u64::MAX / 2));
    engine.intake.share.left = 100;
    engine.spend_time();
    assert_eq!(engine.intake.share.left, 100);
    std::thread::sleep(Duration::from_millis(1));
    engine.spend_time();
    assert_eq!(engine.intake.share.left, 0);
}
