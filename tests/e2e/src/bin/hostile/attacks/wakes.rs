//! Attacks on what the engine does for sleepers: answers that nobody takes, sleepers that do
//! not sleep, and eventfds that are dear to ring.

use super::Attack;
use super::memory::settle;
use longshore_hostif::attach::{Message, receive};
use longshore_hostif::{Query, RING, Request};
use longshore_ring::Sleep;
use rustix::event::epoll;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Questions whose answers nobody takes; then sleep.
pub(super) fn stall(a: &mut Attack<'_>) {
    let Some(mut g) = a.guest() else { return };
    let sockets = settle(&mut g, a.until);
    for _ in 0..50 {
        for _ in 0..RING {
            let Some(socket) = sockets.first().copied() else {
                return;
            };
            let (tag, waiter) = (g.tag(), Some(a.random.below(4_096) as u16));
            let query = a
                .random
                .of(&[Query::TcpInfo, Query::SendQueue, Query::Error]);
            let ask = Request::Query {
                socket,
                tag,
                waiter,
                query,
            };
            if g.channel.put(&ask).is_err() {
                break;
            }
        }
        g.publish();
        // It says that there is more, and that it waits for nobody.
        g.ring_doorbell();
        if !a.goes_on() {
            return;
        }
        std::thread::sleep(Duration::from_micros(a.random.below(2_000)));
        if a.random.below(10) == 0 {
            g.drain();
        }
    }
}

/// All waiters say that they sleep, as soon as they were woken.
pub(super) fn sleepers(a: &mut Attack<'_>) {
    let Some(mut g) = a.guest() else { return };
    let sockets = settle(&mut g, a.until);
    let until = a.until.min(Instant::now() + Duration::from_millis(700));
    let how = a.random.of(&[Sleep::Futex, Sleep::Eventfd]);
    if matches!(how, Sleep::Eventfd) {
        for waiter in 0..256 {
            let ask = Message::Eventfd { waiter, ask: 1 };
            if !g.say(&ask) || receive(g.connection.as_fd()).is_err() {
                break;
            }
        }
    }
    g.header().waiters_end.store(u32::MAX, Ordering::Relaxed);
    while Instant::now() < until {
        for waiter in g.arena.waiters() {
            waiter.declare(how);
        }
        for socket in &sockets {
            g.arena
                .block(socket.index)
                .unlisted_waiters
                .store(1, Ordering::Relaxed);
            let _ = g.put(&Request::Subscribe { socket: *socket }, Instant::now());
        }
        g.publish();
        g.drain();
    }
}

/// An eventfd that very many epoll instances watch.
pub(super) fn bells(a: &mut Attack<'_>) {
    let Some(mut g) = a.guest() else { return };
    let sockets = settle(&mut g, a.until);
    let ask = Message::Eventfd { waiter: 0, ask: 1 };
    let Some(bell) = Some(()).filter(|()| g.say(&ask)).and_then(|()| {
        let (_, fds) = receive(g.connection.as_fd()).ok()?;
        fds.into_iter().next()
    }) else {
        return;
    };
    // Each copy of it counts anew.
    let copies: Vec<OwnedFd> = (0..150).map_while(|_| bell.try_clone().ok()).collect();
    let sets: Vec<OwnedFd> = (0..150)
        .map_while(|_| epoll::create(epoll::CreateFlags::CLOEXEC).ok())
        .collect();
    for set in &sets {
        for copy in &copies {
            let data = epoll::EventData::new_u64(1);
            let _ = epoll::add(set, copy, data, epoll::EventFlags::IN);
        }
        if !a.goes_on() {
            return;
        }
    }
    let until = a.until.min(Instant::now() + Duration::from_millis(1_500));
    while Instant::now() < until {
        g.arena.waiters()[0].declare(Sleep::Eventfd);
        for socket in &sockets {
            g.arena.block(socket.index).add_waiter(0);
            let _ = g.put(&Request::Subscribe { socket: *socket }, Instant::now());
        }
        g.publish();
        g.drain();
    }
}
