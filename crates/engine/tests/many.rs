//! More sockets with news than a completion ring has places: each is told of, in work
//! bounded by their number, whatever the pace at which the host takes what it is told.

mod common;

use common::engines::{alone, run};
use common::second::Second;
use common::{Host, TIMEOUT};
use longshore_hostif::{
    Completion, DATAGRAM_HEADER, DatagramRecord, EdgeFlags, Geometry, HostChannel, RING, Request,
    SocketId, SocketKind,
};
use longshore_ring::Doorbell;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Room for a chunk to each of so many sockets.
const GEOMETRY: Geometry = Geometry {
    channels: 64,
    waiters: 64,
    sockets: 61_440,
    snd_chunks: 64,
    rcv_chunks: 65_536,
    workers: 1,
};
const MANY: u16 = 60_000;
const FIRST_PORT: u16 = 2_000;

/// So many sockets, each bound to a port of its own, and one that sends.
fn sockets(host: &mut Host, count: u16) -> (Vec<SocketId>, SocketId) {
    let mut bound = |port: u16| {
        let socket = host.open(SocketKind::Datagram);
        let at = SocketAddr::new("10.0.0.1".parse().unwrap(), port);
        host.bind(socket, at).unwrap();
        socket
    };
    let all = (0..count).map(|i| bound(FIRST_PORT + i)).collect();
    (all, bound(FIRST_PORT - 1))
}

/// A datagram of no bytes to each of so many sockets, in one go.
fn send_to_all(host: &mut Host, sender: SocketId, count: u16) {
    let mut records = Vec::new();
    for i in 0..count {
        let to = SocketAddr::new("10.0.0.1".parse().unwrap(), FIRST_PORT + i);
        let record = DatagramRecord::new(0, to.into());
        records.extend(record.encode());
    }
    host.send(sender, &records, EdgeFlags::empty());
}

/// Takes at most `most` completions; where the streams of which sockets reach by them.
fn take(channel: &mut HostChannel, doorbell: &Doorbell, most: usize, reached: &mut [u64]) -> usize {
    let (mut taken, mut is_more) = (0, false);
    while taken < most
        && let Some(completion) = channel.get().unwrap()
    {
        taken += 1;
        match completion.expect("the engine makes sense") {
            Completion::Edges { socket, edges } => {
                let at = &mut reached[socket.index as usize];
                *at = edges.rcv_edge.max(*at);
            }
            Completion::More => is_more = true,
            Completion::Done { .. } => {}
        }
    }
    channel.release();
    if is_more {
        channel.ask_for_more(doorbell);
    }
    taken
}

/// Waits until the first datagram for a socket is in its stream.
fn await_datagram(host: &Host, socket: SocketId) {
    let began = Instant::now();
    let directory = host.arena.rcv_directory(socket.index);
    while directory.entry(0).load(Ordering::Acquire) == 0 {
        assert!(began.elapsed() < TIMEOUT, "the datagrams do not come");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_host_that_stalls_hears_of_sixty_thousand() {
    let dir = tempfile::tempdir().unwrap();
    let (mut config, _other) = alone(dir.path());
    config.geometry = GEOMETRY;
    let engine = run(config);
    let mut host = Host::new(&engine.path);
    let (sockets, sender) = sockets(&mut host, MANY);
    host.drain();
    send_to_all(&mut host, sender, MANY);
    let began = Instant::now();
    await_datagram(&host, sockets[usize::from(MANY) - 1]);
    // The second finds nobody told of the first, but for those in the ring.
    send_to_all(&mut host, sender, MANY);
    let mut reached = vec![0; GEOMETRY.sockets as usize];
    let (mut taken, mut round) = (0, 0usize);
    let all = 2 * DATAGRAM_HEADER as u64;
    while sockets.iter().any(|s| reached[s.index as usize] < all) {
        assert!(
            began.elapsed() < TIMEOUT,
            "{} were not told of",
            sockets
                .iter()
                .filter(|s| reached[s.index as usize] < all)
                .count()
        );
        round += 1;
        let most = [1, 7, 300, RING][round % 4];
        let got = take(&mut host.channel, &host.doorbell, most, &mut reached);
        taken += got;
        if got == 0 {
            std::thread::sleep(Duration::from_micros(200));
        }
    }
    // Each was told of both, or of one and then the other; and so often that there is more.
    let most = 2 * usize::from(MANY) + 4 * usize::from(MANY) / 100 + 4 * RING;
    assert!(taken <= most, "{taken} completions for {MANY} sockets");
}

/// Sockets of two processes, of which the second takes nothing until the first has heard of all:
/// both of their rings overflow, each by itself.
#[test]
fn each_process_hears_of_all_that_it_shares_at_its_own_pace() {
    const SHARED: u16 = 8 * RING as u16;
    let dir = tempfile::tempdir().unwrap();
    let (mut config, _other) = alone(dir.path());
    config.geometry = GEOMETRY;
    let engine = run(config);
    let mut host = Host::new(&engine.path);
    let (sockets, sender) = sockets(&mut host, SHARED);
    let mut second = Second::join(&host);
    let began = Instant::now();
    for socket in &sockets {
        let socket = *socket;
        while second.channel.put(&Request::Subscribe { socket }).is_err() {
            assert!(began.elapsed() < TIMEOUT, "its requests are not taken");
            second.channel.publish(&host.doorbell, true);
            std::thread::yield_now();
        }
    }
    second.channel.publish(&host.doorbell, true);
    host.drain();
    send_to_all(&mut host, sender, SHARED);
    await_datagram(&host, sockets[usize::from(SHARED) - 1]);
    send_to_all(&mut host, sender, SHARED);
    let all = 2 * DATAGRAM_HEADER as u64;
    let Host {
        channel, doorbell, ..
    } = &mut host;
    for (channel, who) in [(channel, "the first"), (&mut second.channel, "the second")] {
        let mut reached = vec![0; GEOMETRY.sockets as usize];
        let mut round = 0usize;
        while sockets.iter().any(|s| reached[s.index as usize] < all) {
            assert!(began.elapsed() < TIMEOUT, "{who} does not hear of all");
            round += 1;
            let most = [1, 7, 300, RING][round % 4];
            if take(channel, doorbell, most, &mut reached) == 0 {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
    }
}
