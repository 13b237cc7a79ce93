//! Attacks on the shared memory: words that no host library writes.

use super::Attack;
use crate::guest::{Guest, store};
use crate::random::Random;
use longshore_hostif::{ChannelControl, DIRECTORY, RING, SocketBlock, SocketId, SocketKind};
use longshore_ring::Waiter;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Sockets of each kind of life, so that there is something to be lied about.
pub(super) fn settle(g: &mut Guest, until: Instant) -> Vec<SocketId> {
    let mut all = Vec::new();
    for port in 0..8u16 {
        let Some(stream) = g.open(SocketKind::Stream, until) else {
            break;
        };
        let own = std::net::SocketAddr::from(([10, 77, 0, 2], 20_000 + port));
        let any = std::net::SocketAddr::from(([0, 0, 0, 0], 20_000 + port));
        match port % 4 {
            0 => {
                let _ = g.bind(stream, any, until);
                let _ = g.listen(stream, 128, until);
            }
            1 => {
                let to = std::net::SocketAddr::from(([10, 77, 0, 2], 20_000 + port - 1));
                let connect = |tag| longshore_hostif::Request::Connect {
                    socket: stream,
                    tag,
                    waiter: None,
                    peer: to.into(),
                };
                let _ = g.call(connect, until);
            }
            2 => {
                let _ = g.bind(stream, own, until);
            }
            _ => {}
        }
        all.push(stream);
        if let Some(datagram) = g.open(SocketKind::Datagram, until) {
            let _ = g.bind(datagram, any, until);
            all.push(datagram);
        }
    }
    g.publish();
    all
}

/// A word that may mean something: an index, a flag, a count, or none of it.
fn word(random: &mut Random) -> u64 {
    match random.below(6) {
        0 => random.below(8),
        1 => random.below(70_000) | random.below(70_000) << 32,
        2 => 1 << random.below(64),
        3 => u64::MAX << random.below(64),
        _ => random.bad(RING as u64),
    }
}

/// Words anywhere but in the slabs, most of them where something lies.
pub(super) fn scribble(a: &mut Attack<'_>) {
    let Some(mut g) = a.guest() else { return };
    let sockets = settle(&mut g, a.until);
    let own = g.channel.index() as usize;
    let parts = [
        (0, 4096),
        (
            g.at.controls + own * size_of::<ChannelControl>(),
            size_of::<ChannelControl>(),
        ),
        (g.at.controls, 16 * size_of::<ChannelControl>()),
        (g.at.waiters, 64 * size_of::<Waiter>()),
        (g.at.socket_links, 4096),
        (g.at.held, 64),
        (g.at.requests + own * RING * 64, RING * 64),
        (g.at.blocks, sockets.len().max(1) * size_of::<SocketBlock>()),
        (g.at.snd_directories, sockets.len().max(1) * DIRECTORY * 4),
        (g.at.rcv_directories, sockets.len().max(1) * DIRECTORY * 4),
        (0, g.at.slabs),
    ];
    for _ in 0..400 {
        if !a.goes_on() {
            return;
        }
        for _ in 0..a.random.below(64) {
            let (from, len) = a.random.of(&parts);
            let at = from + a.random.below(len as u64) as usize;
            store(g.word(at), word(&mut a.random));
        }
        if let Some(socket) = sockets.get(a.random.below(sockets.len() as u64) as usize) {
            let (snd, rcv) = (word(&mut a.random), word(&mut a.random));
            let _ = g.edges(*socket, snd, rcv, Instant::now());
        }
        g.publish();
        g.ring_doorbell();
        if a.random.below(4) == 0 {
            g.drain();
        }
        std::thread::sleep(Duration::from_micros(a.random.below(200)));
    }
}

/// The words on which something depends, each with what would be worst.
pub(super) fn aim(a: &mut Attack<'_>) {
    let Some(mut g) = a.guest() else { return };
    let sockets = settle(&mut g, a.until);
    let channels = g.arena.geometry().channels;
    let own = g.channel.index();
    match a.random.below(8) {
        // A free list that is a circle, for whoever walks along it.
        0 => {
            for index in 0..g.arena.geometry().sockets {
                let next = (index + 1) % g.arena.geometry().sockets;
                g.arena.socket_links()[index as usize].store(next + 1, Ordering::Relaxed);
            }
            for _ in 0..200 {
                let _ = g.arena.give_snd_chunk(a.random.below(64) as u32);
            }
        }
        // Chunks that were given back many times, which makes a circle, too.
        1 => {
            let most = u64::from(g.arena.geometry().snd_chunks);
            for chunk in 0..most {
                let _ = g.arena.give_snd_chunk(chunk as u32);
            }
            let _ = g.arena.give_snd_chunk(a.random.below(most) as u32);
        }
        // All waiters claim to sleep, and each socket to have waiters without a place.
        2 => {
            g.header().waiters_end.store(u32::MAX, Ordering::Relaxed);
            for waiter in g.arena.waiters() {
                waiter.declare(longshore_ring::Sleep::Futex);
            }
            for socket in &sockets {
                g.arena
                    .block(socket.index)
                    .unlisted_waiters
                    .store(u32::MAX, Ordering::Relaxed);
            }
        }
        // All channels have published something.
        3 => {
            for word in &g.header().requests_pending.channels {
                word.store(u64::MAX, Ordering::Relaxed);
            }
        }
        // Channels are reserved, and claimed, for whoever.
        4 => {
            for channel in 0..channels {
                let control = g.arena.control(channel);
                if channel != own {
                    control.pid.store(a.random.next() as u32, Ordering::Relaxed);
                    control.set_state(a.random.of(&[
                        longshore_hostif::ChannelState::Reserved,
                        longshore_hostif::ChannelState::Claimed,
                        longshore_hostif::ChannelState::Open,
                    ]));
                    for word in g.arena.held(channel).iter().take(8) {
                        word.store(u64::MAX, Ordering::Relaxed);
                    }
                }
            }
            g.header().reservations.fetch_add(1, Ordering::AcqRel);
        }
        // The consumer of completions goes back, by as much as the ring has.
        5 => {
            let control = g.at.controls + own as usize * size_of::<ChannelControl>();
            for line in (64..640).step_by(64) {
                let at = control + line;
                let now = g.word(at).load(Ordering::Relaxed) as u32;
                let back = now.wrapping_sub(RING as u32 - a.random.below(3) as u32);
                store(g.word(at), u64::from(back));
            }
        }
        // All sockets are on their way, and nobody holds them.
        6 => {
            for socket in &sockets {
                g.arena
                    .block(socket.index)
                    .in_transit
                    .store(u32::MAX, Ordering::Relaxed);
                g.arena.set_held(own, socket.index, false);
                let _ = g.put(
                    &longshore_hostif::Request::Unsubscribe { socket: *socket },
                    a.until,
                );
            }
        }
        // Directories that lead nowhere, or all to one chunk, and edges behind.
        _ => {
            for socket in &sockets {
                let to = a.random.of(&[0, 1, u32::MAX, 1 << 30]);
                let directory = g.arena.snd_directory(socket.index);
                for number in 0..DIRECTORY as u64 {
                    directory.entry(number).store(to, Ordering::Relaxed);
                }
                let _ = g.edges(*socket, longshore_hostif::STREAM_MAX, 0, a.until);
            }
        }
    }
    for _ in 0..50 {
        if !a.goes_on() {
            return;
        }
        g.publish();
        g.ring_doorbell();
        for socket in &sockets {
            let subscribe = longshore_hostif::Request::Subscribe { socket: *socket };
            let _ = g.put(&subscribe, Instant::now());
        }
        g.publish();
        std::thread::sleep(Duration::from_micros(a.random.below(500)));
        g.drain();
    }
}

/// Words that both sides change by compare-and-swap never hold still.
pub(super) fn hammer(a: &mut Attack<'_>) {
    let Some(mut g) = a.guest() else { return };
    let until = a.until.min(Instant::now() + Duration::from_millis(500));
    let sockets = settle(&mut g, until);
    let over = AtomicBool::new(false);
    let base = std::ptr::from_ref(g.header()) as usize;
    // The list of free sockets, and those of chunks, which follow.
    let first = std::ptr::from_ref(&g.header().free_sockets) as usize - base;
    let (arena, raw) = (g.arena.clone(), [first, first + 64, first + 128]);
    let other = arena.memory();
    std::thread::scope(|s| {
        s.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                for at in raw {
                    let head: &std::sync::atomic::AtomicU64 = other.at(at);
                    for _ in 0..64 {
                        head.fetch_add(1 << 32, Ordering::Relaxed);
                    }
                }
            }
        });
        while Instant::now() < until {
            for socket in &sockets {
                let _ = g.close(*socket, until);
                let open = longshore_hostif::Request::Open {
                    socket: *socket,
                    kind: SocketKind::Stream,
                    flags: longshore_hostif::OpenFlags::empty(),
                };
                let _ = g.put(&open, until);
            }
            g.publish();
            g.drain();
            std::thread::sleep(Duration::from_micros(a.random.below(100)));
        }
        over.store(true, Ordering::Relaxed);
    });
}
