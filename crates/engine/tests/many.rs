//! More sockets with news than a completion ring has places: each is told of, in work
//! bounded by their number, whatever the pace at which the host takes what it is told.

mod common;

use common::engines::{alone, run};
use common::{Host, TIMEOUT};
use longshore_hostif::{
    Completion, DATAGRAM_HEADER, DatagramRecord, EdgeFlags, Geometry, RING, SocketId, SocketKind,
};
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

/// A datagram of no bytes to each of the sockets, in one go.
fn send_to_all(host: &mut Host, sender: SocketId) {
    let mut records = Vec::new();
    for i in 0..MANY {
        let to = SocketAddr::new("10.0.0.1".parse().unwrap(), FIRST_PORT + i);
        let record = DatagramRecord::new(0, to.into());
        records.extend(record.encode());
    }
    host.send(sender, &records, EdgeFlags::empty());
}

/// Takes at most `most` completions; where the streams of which sockets reach by them.
fn take(host: &mut Host, most: usize, reached: &mut [u64]) -> usize {
    let (mut taken, mut is_more) = (0, false);
    while taken < most
        && let Some(completion) = host.channel.get().unwrap()
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
    host.channel.release();
    if is_more {
        host.channel.ask_for_more(&host.doorbell);
    }
    taken
}

#[test]
fn a_host_that_stalls_hears_of_sixty_thousand() {
    let dir = tempfile::tempdir().unwrap();
    let (mut config, _other) = alone(dir.path());
    config.geometry = GEOMETRY;
    let engine = run(config);
    let mut host = Host::new(&engine.path);
    let sockets: Vec<SocketId> = (0..MANY)
        .map(|i| {
            let socket = host.open(SocketKind::Datagram);
            let at = SocketAddr::new("10.0.0.1".parse().unwrap(), FIRST_PORT + i);
            host.bind(socket, at).unwrap();
            socket
        })
        .collect();
    let sender = host.open(SocketKind::Datagram);
    host.bind(sender, "10.0.0.1:1999".parse().unwrap()).unwrap();
    let last = sockets[usize::from(MANY) - 1];
    let has_come = |host: &Host| {
        let directory = host.arena.rcv_directory(last.index);
        directory.entry(0).load(Ordering::Acquire) != 0
    };
    host.drain();
    send_to_all(&mut host, sender);
    let began = Instant::now();
    while !has_come(&host) {
        assert!(began.elapsed() < TIMEOUT, "the datagrams do not come");
        std::thread::sleep(Duration::from_millis(1));
    }
    // The second finds nobody told of the first, but for those in the ring.
    send_to_all(&mut host, sender);
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
        let got = take(&mut host, most, &mut reached);
        taken += got;
        if got == 0 {
            std::thread::sleep(Duration::from_micros(200));
        }
    }
    // Each was told of both, or of one and then the other; and so often that there is more.
    let most = 2 * usize::from(MANY) + 4 * usize::from(MANY) / 100 + 4 * RING;
    assert!(taken <= most, "{taken} completions for {MANY} sockets");
}
