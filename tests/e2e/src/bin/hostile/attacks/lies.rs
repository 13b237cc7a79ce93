//! Requests that no host library makes.

use super::Attack;
use super::memory::settle;
use crate::guest::{Guest, store};
use crate::random::Random;
use longshore_hostif::{
    Address, CHUNK, DATAGRAM_HEADER, DatagramRecord, EdgeFlags, Numbered, OpenFlags, OptionName,
    Query, RING, Request, STREAM_MAX, SocketId, SocketKind, SourceRequest,
};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Addresses of the engine, of others, and of nobody.
fn address(random: &mut Random) -> Address {
    let port = random.of(&[0, 1, 80, 20_000, 20_004, 40_000, u16::MAX]);
    let ip = random.of(&[
        [10, 77, 0, 2],
        [10, 77, 0, 1],
        [10, 77, 0, 99],
        [0, 0, 0, 0],
        [127, 0, 0, 1],
        [224, 0, 0, 9],
        [255, 255, 255, 255],
    ]);
    match random.below(4) {
        0 => Address([random.next(), random.next(), random.next()]),
        1 => SocketAddr::from((std::net::Ipv4Addr::from(ip).to_ipv6_mapped(), port)).into(),
        _ => SocketAddr::from((ip, port)).into(),
    }
}

fn numbered(random: &mut Random) -> Numbered {
    let address = address(random);
    Numbered::from_address(address).unwrap_or(Numbered::new(Ipv4Addr::BROADCAST.into(), 0))
}

/// Any request, with fields that are now right, now wrong.
fn request(random: &mut Random, sockets: &[SocketId]) -> Request {
    let mut socket = random.of(sockets);
    match random.below(12) {
        0 => socket.index = random.bad(u64::from(socket.index)) as u32,
        1 => socket.generation = random.bad(u64::from(socket.generation)) as u32,
        _ => {}
    }
    let tag = random.next() as u32;
    let waiter = Some(random.bad(7) as u16).filter(|w| *w != u16::MAX);
    let edge = random.bad(STREAM_MAX);
    let consumed = random.bad(0);
    match random.below(16) {
        0 => Request::Open {
            socket,
            kind: random.of(&[SocketKind::Stream, SocketKind::Datagram]),
            flags: OpenFlags::from_bits_truncate(random.next() as u8),
        },
        1 => Request::Bind {
            socket,
            tag,
            waiter,
            local: address(random),
        },
        2 => Request::Listen {
            socket,
            tag,
            waiter,
            backlog: random.bad(128) as u32,
        },
        3 => Request::Connect {
            socket,
            tag,
            waiter,
            peer: address(random),
        },
        4 | 5 => Request::Edges {
            socket,
            snd_edge: edge,
            rcv_consumed: consumed,
            flags: EdgeFlags::from_bits_retain(random.next() as u16),
            immediate: 0,
        },
        6 => Request::Urgent {
            socket,
            snd_edge: edge,
            rcv_consumed: consumed,
        },
        7 => Request::Close {
            socket,
            snd_edge: edge,
            rcv_consumed: consumed,
            linger: random.of(&[None, Some(0), Some(1), Some(u32::MAX - 1)]),
        },
        8 => Request::Group {
            socket,
            tag,
            waiter,
            group: address(random),
            join: tag & 1 != 0,
        },
        9 => Request::SetOption {
            socket,
            name: option(random),
            value: random.bad(1),
        },
        10 => Request::Query {
            socket,
            tag,
            waiter,
            query: query(random),
        },
        11 => Request::Owner {
            socket,
            tag,
            waiter,
        },
        12 => Request::Subscribe { socket },
        14 => Request::Sources {
            socket,
            tag,
            waiter,
            group: numbered(random),
            source: numbered(random),
            change: random.of(&SourceRequest::ALL),
        },
        13 => Request::TooLong {
            socket,
            tag,
            waiter,
            to: address(random),
        },
        _ => Request::Unsubscribe { socket },
    }
}

fn option(random: &mut Random) -> OptionName {
    use OptionName as O;
    random.of(&[
        O::NoDelay,
        O::Cork,
        O::KeepAlive,
        O::KeepIdle,
        O::KeepInterval,
        O::KeepCount,
        O::UserTimeout,
        O::ReceiveBuffer,
        O::SendBuffer,
        O::DeferAccept,
        O::QuickAck,
        O::MaxSegment,
        O::Congestion,
        O::TypeOfService,
        O::TimeToLive,
        O::ReuseAddress,
        O::ReusePort,
        O::V6Only,
        O::Stamped,
        O::Linger2,
        O::SynCount,
        O::WindowClamp,
        O::UdpGro,
        O::FastOpen,
        O::FastOpenConnect,
        O::MaxPacingRate,
        O::ReceiveErrors,
        O::ReceiveErrors6,
        O::TrafficClass,
        O::HopLimit,
        O::GroupAll,
        O::PathMtu,
        O::PathMtu6,
        O::NotSentLowat,
    ])
}

fn query(random: &mut Random) -> Query {
    let all = [
        Query::TcpInfo,
        Query::Error,
        Query::SendQueue,
        Query::PathMtu,
        Query::Congestion,
    ];
    random.of(&all)
}

/// Requests with wrong fields, as many as the rings take.
pub(super) fn lie(a: &mut Attack<'_>) {
    let Some(mut g) = a.guest() else { return };
    let sockets = settle(&mut g, a.until);
    if sockets.is_empty() {
        return;
    }
    for _ in 0..2_000 {
        if !a.goes_on() {
            return;
        }
        for _ in 0..a.random.below(64) {
            let lie = request(&mut a.random, &sockets);
            if g.channel.put(&lie).is_err() {
                break;
            }
        }
        g.publish();
        if a.random.below(3) != 0 {
            g.drain();
        }
        std::thread::sleep(Duration::from_micros(a.random.below(100)));
    }
}

/// Messages that are no requests.
pub(super) fn garble(a: &mut Attack<'_>) {
    let Some(mut g) = a.guest() else { return };
    let sockets = settle(&mut g, a.until);
    if sockets.is_empty() {
        return;
    }
    let slots = g.at.requests + g.channel.index() as usize * RING * 64;
    for _ in 0..500 {
        if !a.goes_on() {
            return;
        }
        for _ in 0..256 {
            let some = request(&mut a.random, &sockets);
            if g.channel.put(&some).is_err() {
                break;
            }
        }
        for _ in 0..256 {
            let at = slots + a.random.below(RING as u64 * 64) as usize;
            let bad = match a.random.below(3) {
                0 => a.random.below(16),
                _ => a.random.next(),
            };
            store(g.word(at), bad);
        }
        g.publish();
        g.drain();
        std::thread::sleep(Duration::from_micros(a.random.below(300)));
    }
}

/// Writes to a send stream, of which one chunk is enough.
fn write(g: &Guest, socket: SocketId, at: u64, bytes: &[u8], chunk: u32) {
    let directory = g.arena.snd_directory(socket.index);
    directory
        .entry(at / CHUNK as u64)
        .store(chunk, Ordering::Release);
    let within = (at % CHUNK as u64) as usize;
    if let Some(place) = g.arena.snd_place(chunk, within, bytes.len()) {
        g.arena.memory().write(place, bytes);
    }
}

/// Datagrams that are cut into thousands, to many, to nobody, or longer than they are.
pub(super) fn datagrams(a: &mut Attack<'_>) {
    let Some(mut g) = a.guest() else { return };
    let mut sockets = Vec::new();
    for _ in 0..40 {
        let Some(socket) = g.open(SocketKind::Datagram, a.until) else {
            break;
        };
        let any = SocketAddr::from(([0, 0, 0, 0], 0));
        let _ = g.bind(socket, any, a.until);
        if let Ok(Some(chunk)) = g.arena.take_snd_chunk() {
            sockets.push((socket, chunk, 0u64));
        }
    }
    while a.goes_on() {
        for (socket, chunk, edge) in &mut sockets {
            let mut at = *edge % CHUNK as u64;
            let mut sent = 0;
            while sent < 64 {
                let len = a.random.of(&[0, 1, 64, 1_400, 9_000, 40_000]);
                let record = DatagramRecord {
                    segment: a.random.of(&[0, 0, 1, 2, 500]),
                    ..DatagramRecord::new(len, address(&mut a.random))
                };
                let mut bytes = record.encode();
                if a.random.below(50) == 0 {
                    let at = a.random.below(DATAGRAM_HEADER as u64) as usize;
                    bytes[at] = a.random.next() as u8;
                }
                if at + record.span() > CHUNK as u64 {
                    break;
                }
                write(&g, *socket, at, &bytes, *chunk);
                at += record.span();
                sent += 1;
            }
            // The rest of the chunk means nothing, so it is another stream next time.
            *edge = *edge - *edge % CHUNK as u64 + at;
            let _ = g.edges(*socket, *edge, 0, Instant::now());
            if at + 2_048 > CHUNK as u64 {
                *edge = (*edge / CHUNK as u64 + 1) * CHUNK as u64;
            }
        }
        g.publish();
        g.drain();
        if a.random.below(200) == 0 {
            return;
        }
        std::thread::sleep(Duration::from_micros(a.random.below(200)));
    }
}

/// Addresses that are in use, again and again; and so many ports that hardly one is left.
pub(super) fn bind(a: &mut Attack<'_>) {
    let Some(mut g) = a.guest() else { return };
    let Some(first) = g.open(SocketKind::Stream, a.until) else {
        return;
    };
    let taken = SocketAddr::from(([0, 0, 0, 0], 30_000 + a.random.below(1_000) as u16));
    let _ = g.bind(first, taken, a.until);
    let _ = g.listen(first, 1, a.until);
    let many = a.random.below(3) != 0;
    let kind = a.random.of(&[SocketKind::Stream, SocketKind::Datagram]);
    let any = Address::from(SocketAddr::from(([0, 0, 0, 0], 0)));
    let until = a.until;
    let mut sockets = Vec::new();
    for _ in 0..if many { 30_000 } else { 500 } {
        let Some(socket) = g.open(kind, until) else {
            break;
        };
        let (tag, waiter) = (g.tag(), None);
        let bind = Request::Bind {
            socket,
            tag,
            waiter,
            local: any,
        };
        if !g.put(&bind, until) {
            return;
        }
        sockets.push(socket);
    }
    let until = a.until.min(Instant::now() + Duration::from_millis(700));
    while Instant::now() < until && !sockets.is_empty() {
        for _ in 0..RING / 2 {
            let Some(socket) = g.open(SocketKind::Stream, until) else {
                break;
            };
            let local = a.random.of(&[Address::from(taken), any]);
            let (tag, waiter) = (g.tag(), None);
            let bind = Request::Bind {
                socket,
                tag,
                waiter,
                local,
            };
            let _ = g.put(&bind, until);
            let _ = g.close(socket, until);
        }
        g.publish();
        g.drain();
    }
}
