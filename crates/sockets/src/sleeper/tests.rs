//! The threads that are woken in the kernel's poll, and for what.

use super::*;
use crate::testing::Engine;
use crate::testing::fixture::engine;
use longshore_hostif::EdgeFlags;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;

/// Whether an eventfd rings, within so many seconds.
fn rings(fd: RawFd, seconds: i64) -> bool {
    // SAFETY: the eventfd is this thread's, which keeps it open.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    let time = Timespec {
        tv_sec: seconds,
        tv_nsec: 0,
    };
    poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&time)).unwrap() == 1
}

#[test]
fn what_happens_to_a_listed_socket_wakes_the_thread() {
    let (_engine, host, _directory) = engine();
    let (a, b) = Engine::pair(host);
    let socket = b.socket();
    let sleeper = host.sleeper();
    let fd = sleeper.wake_fd().unwrap();
    let (waiter, _) = sleeper.mine.unwrap();
    let waiter_of = host.session.waiters().at(waiter);
    // One that was just made has rung already.
    sleeper.awake(true);
    assert!(!rings(fd, 0));
    sleeper.list(socket);
    assert_eq!(socket.uses(), 2, "the socket stays open meanwhile");
    for round in 1..=2 {
        sleeper.declare().unwrap();
        assert!(waiter_of.is_declared());
        a.write_all(b"x").unwrap();
        host.messages().flush().unwrap();
        assert!(rings(fd, 60), "round {round}");
        sleeper.awake(true);
        assert!(!waiter_of.is_declared() && !rings(fd, 0));
        assert_eq!(b.read(&mut [0; 9]), Ok(1));
    }
    // What has rung, and is not said to have, rings on.
    sleeper.declare().unwrap();
    a.write_all(b"x").unwrap();
    host.messages().flush().unwrap();
    assert!(rings(fd, 60));
    sleeper.awake(false);
    assert!(rings(fd, 0));
    sleeper.awake(true);
    sleeper.declare().unwrap();
    assert!(socket.block().waiters().any(|index| index == waiter));
    drop(sleeper);
    assert!(!waiter_of.is_declared());
    assert!(!socket.block().waiters().any(|index| index == waiter));
    assert_eq!(socket.uses(), 1);
}

/// What came before a thread sleeps wakes it no more: it has to be seen by its last look.
#[test]
fn who_is_about_to_sleep_has_heard_all() {
    let (engine, host, _directory) = engine();
    let (a, b) = Engine::pair(host);
    let sleeper = host.sleeper();
    sleeper.list(b.socket());
    a.write_all(b"x").unwrap();
    host.messages().flush().unwrap();
    engine.wait_until("it has come", |seen| seen.rcv_chunks == 1);
    // It is told at the end of that turn.
    let turns = engine.seen.lock().unwrap().turns;
    engine.wait_until("it was told", |seen| seen.turns > turns + 1);
    assert_eq!(b.socket().receive_stream().received_end(), 0);
    sleeper.declare().unwrap();
    assert_eq!(b.socket().receive_stream().received_end(), 1);
}

/// What it has said before is no longer held back: it may be what another answers to. And one that
/// is awake for another reason is not to be woken.
#[test]
fn who_is_about_to_sleep_has_said_all() {
    let (_engine, host, _directory) = engine();
    let (a, _b) = Engine::pair(host);
    let sleeper = host.sleeper();
    let (socket, block) = (a.socket(), a.socket().block());
    let request = host.edges(block, socket.id(), EdgeFlags::MORE);
    host.messages().report_written(&request, 0).unwrap();
    assert!(host.channel.holds());
    sleeper.declare().unwrap();
    assert!(!host.channel.holds());
    let waiter = host.session.waiters().at(sleeper.mine.unwrap().0);
    assert!(waiter.is_declared());
    sleeper.awake(false);
    assert!(!waiter.is_declared());
}

#[test]
fn without_a_waiter_a_thread_is_told_so() {
    let (_engine, host, _directory) = engine();
    let socket = Engine::open(host, longshore_hostif::SocketKind::Stream);
    let sleeper = Sleeper {
        host,
        mine: None,
        listed: RefCell::new(Vec::new()),
    };
    assert_eq!(sleeper.wake_fd(), None);
    sleeper.list(&socket);
    assert_eq!((socket.uses(), socket.block().waiters().count()), (1, 0));
    assert_eq!(sleeper.declare(), Ok(()));
    sleeper.awake(true);
}
