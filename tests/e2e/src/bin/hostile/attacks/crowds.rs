//! Attacks by number: of sessions, processes, connections, sockets, owners, and of bytes
//! that nobody reads.

use super::Attack;
use super::memory::settle;
use crate::guest::Guest;
use longshore_hostif::attach::{Message, dial, join, send};
use longshore_hostif::{CHUNK, ChannelState, DIRECTORY, Request, STREAM_MAX, SocketId, SocketKind};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Channels claimed for processes of others, owners for all sockets, names of children and
/// of eventfds that there are not.
pub(super) fn claim(a: &mut Attack<'_>) {
    let Some(mut g) = a.guest() else { return };
    let sockets = settle(&mut g, a.until);
    for _ in 0..100 {
        if !a.goes_on() {
            return;
        }
        for channel in 1..g.arena.geometry().channels {
            let control = g.arena.control(channel);
            if control.change_state(ChannelState::Free, ChannelState::Reserved) {
                let pid = a.random.of(&[1, 2, std::process::id(), u32::MAX, 1 << 31]);
                control.pid.store(pid, Ordering::Release);
                control.change_state(ChannelState::Reserved, ChannelState::Claimed);
                longshore_hostif::HostChannel::new(g.arena.clone(), channel).flag();
            }
        }
        g.header().reservations.fetch_add(1, Ordering::AcqRel);
        g.ring_doorbell();
        for socket in &sockets {
            let ask = a.random.next();
            let said = match a.random.below(3) {
                0 => Message::Owner {
                    socket: *socket,
                    signals: 2,
                    ask,
                },
                1 => Message::Eventfd {
                    waiter: ask as u32 % 8_192,
                    ask,
                },
                _ => Message::Child(g.token, ask as u32 % 300),
            };
            // What the engine answers is not read, so its room is soon used up.
            let flags = rustix::net::SendFlags::DONTWAIT | rustix::net::SendFlags::NOSIGNAL;
            let _ = rustix::net::send(&g.connection, &said.encode(), flags);
            let (tag, waiter) = (g.tag(), None);
            let _ = g.put(
                &Request::Owner {
                    socket: *socket,
                    tag,
                    waiter,
                },
                Instant::now(),
            );
        }
        g.publish();
        g.drain();
        std::thread::sleep(Duration::from_micros(a.random.below(500)));
    }
}

/// As many sessions and connections as it gets, those that say nothing among them; and all
/// of them go at once.
pub(super) fn crowd(a: &mut Attack<'_>) {
    let most = a.random.of(&[50, 400, 2_000]);
    let mut silent: Vec<OwnedFd> = Vec::new();
    let mut guests: Vec<Guest> = Vec::new();
    for _ in 0..most {
        if !a.goes_on() {
            return;
        }
        match a.random.below(3) {
            0 => silent.extend(dial(a.engine)),
            1 => {
                let Ok(connection) = dial(a.engine) else {
                    continue;
                };
                let mut bytes = Message::Known.encode();
                bytes[8] = a.random.next() as u8;
                let _ = rustix::net::send(&connection, &bytes, rustix::net::SendFlags::NOSIGNAL);
                silent.push(connection);
            }
            _ => guests.extend(Guest::come(a.engine)),
        }
    }
    // All at once have something to say.
    for g in &mut guests {
        let _ = g.open(SocketKind::Stream, Instant::now());
        g.publish();
        g.ring_doorbell();
    }
}

/// Processes that join a session, and die.
pub(super) fn processes(a: &mut Attack<'_>) {
    let Some(mut g) = a.guest() else { return };
    let _ = settle(&mut g, a.until);
    for _ in 0..20 {
        if !a.goes_on() {
            return;
        }
        let (engine, token) = (a.engine.to_owned(), g.token);
        // SAFETY: this process has one thread; the child makes a few calls and ends without
        // any handler.
        let child = unsafe { libc::fork() };
        if child == 0 {
            if let Ok(joined) = join(&engine, token) {
                drop(joined);
            }
            // SAFETY: as above.
            unsafe { libc::_exit(0) };
        }
        let _ = send(g.launcher.as_fd(), &Message::Known, &[]);
        let mut status = 0;
        // SAFETY: a child of this process.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
    }
}

/// As many sockets as it gets, and a listener beside them that begins and ends.
pub(super) fn sockets(a: &mut Attack<'_>) {
    let Some(mut g) = a.guest() else { return };
    let mut held = Vec::new();
    while let Some(socket) = g.open(SocketKind::Stream, a.until) {
        held.push(socket);
        if held.len() % 256 == 0 {
            g.publish();
            if !a.goes_on() {
                return;
            }
        }
    }
    let until = a.until.min(Instant::now() + Duration::from_millis(1_500));
    let Some(mut last) = held.pop() else { return };
    while Instant::now() < until {
        let at = SocketAddr::from(([0, 0, 0, 0], 31_000));
        for _ in 0..16 {
            let (tag, waiter) = (g.tag(), None);
            let _ = g.put(
                &Request::Bind {
                    socket: last,
                    tag,
                    waiter,
                    local: at.into(),
                },
                until,
            );
            let _ = g.put(
                &Request::Listen {
                    socket: last,
                    tag,
                    waiter,
                    backlog: 9,
                },
                until,
            );
            let _ = g.close(last, until);
            let generation = last.generation;
            last = SocketId {
                generation: generation.wrapping_add(1),
                ..last
            };
            let open = Request::Open {
                socket: last,
                kind: SocketKind::Stream,
                flags: longshore_hostif::OpenFlags::empty(),
            };
            let _ = g.put(&open, until);
        }
        g.publish();
        g.drain();
    }
}

/// Connections to itself, over each of which it sends all that goes, and reads nothing.
pub(super) fn unread(a: &mut Attack<'_>) {
    let Some(mut g) = a.guest() else { return };
    let Some(listener) = g.open(SocketKind::Stream, a.until) else {
        return;
    };
    let at = SocketAddr::from(([10, 77, 0, 2], 32_000 + a.random.below(500) as u16));
    let _ = g.bind(listener, at, a.until);
    let _ = g.listen(listener, 4_096, a.until);
    let Ok(Some(chunk)) = g.arena.take_snd_chunk() else {
        return;
    };
    for _ in 0..64 {
        let Some(socket) = g.open(SocketKind::Stream, a.until) else {
            return;
        };
        let (tag, waiter) = (g.tag(), None);
        let _ = g.put(
            &Request::Connect {
                socket,
                tag,
                waiter,
                peer: at.into(),
            },
            a.until,
        );
        let directory = g.arena.snd_directory(socket.index);
        for number in 0..DIRECTORY as u64 {
            directory.entry(number).store(chunk, Ordering::Release);
        }
        let _ = g.edges(socket, STREAM_MAX - CHUNK as u64, 0, a.until);
        g.publish();
        g.drain();
        if !a.goes_on() {
            return;
        }
    }
    let until = a.until.min(Instant::now() + Duration::from_millis(300));
    while Instant::now() < until {
        g.ring_doorbell();
        g.drain();
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// As many groups as it may join, and others in their places, in one session and in several.
pub(super) fn groups(a: &mut Attack<'_>) {
    let mut guests: Vec<_> = (0..a.random.below(3) + 1)
        .filter_map(|_| a.guest())
        .collect();
    let v6 = a.random.below(2) == 0;
    let mut joined: Vec<(usize, SocketId, SocketAddr)> = Vec::new();
    for round in 0..400 {
        let which = a.random.below(guests.len().max(1) as u64) as usize;
        let Some(g) = guests.get_mut(which).filter(|_| a.goes_on()) else {
            return;
        };
        let Some(socket) = g.open(SocketKind::Datagram, a.until) else {
            return;
        };
        // As many as a socket may join, and one more.
        for _ in 0..=20 {
            let number = a.random.next() as u32;
            let group = match v6 {
                false => std::net::Ipv4Addr::from(0xef00_0000 | (number >> 8)).into(),
                true => std::net::Ipv6Addr::from((0xff15_u128 << 112) | u128::from(number)).into(),
            };
            let group = SocketAddr::new(group, 0);
            if change_group(g, socket, group, true, a.until) {
                joined.push((which, socket, group));
            }
        }
        if round % 8 == 0 {
            for (which, socket, group) in joined.drain(..) {
                let g = &mut guests[which];
                let _ = change_group(g, socket, group, false, a.until);
            }
        }
        guests[which].publish();
        guests[which].drain();
    }
}

/// Whether that could be asked.
fn change_group(
    g: &mut Guest,
    socket: SocketId,
    group: SocketAddr,
    join: bool,
    until: Instant,
) -> bool {
    let request = Request::Group {
        socket,
        tag: g.tag(),
        waiter: None,
        group: group.into(),
        join,
    };
    g.put(&request, until)
}
