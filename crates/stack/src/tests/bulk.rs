//! Several streams that fill their send buffers on a short path share what the caches hold.

use super::off_path::accepted;
use super::single::Single;
use super::streams::append;
use crate::session::SPARE_CHUNKS;
use crate::socket::Kind;
use longshore_hostif::{EdgeFlags, Geometry, Request, SocketId};
use longshore_wire::tcp::TcpHeader;
use std::sync::atomic::Ordering;

pub(super) const GEOMETRY: Geometry = Geometry {
    channels: 64,
    waiters: 8,
    sockets: 64,
    snd_chunks: 128,
    rcv_chunks: SPARE_CHUNKS + 100,
    workers: 1,
};
/// The size of each send buffer at the beginning, and what each program has written.
const SIZE: u32 = 2 << 20;
const WRITTEN: usize = 600_000;

/// `count` connections whose programs have written [`WRITTEN`] bytes each, the last of them with
/// a send buffer that its program has set; what their peers send next.
fn filled(single: &mut Single, count: u16) -> Vec<(SocketId, TcpHeader)> {
    let listener = single.listen();
    let next: Vec<_> = (0..count).map(|n| single.connect(n)).collect();
    single.turn();
    let sockets: Vec<_> = (0..count.into())
        .map(|which| accepted(single, listener, which))
        .collect();
    for socket in &sockets {
        let snd_edge = append(&single.arena, socket.index, 0, &[7; WRITTEN]);
        let request = Request::Edges {
            socket: *socket,
            snd_edge,
            rcv_consumed: 0,
            flags: EdgeFlags::PUSH,
            immediate: 0,
        };
        single.ask(0, &request);
    }
    let keys = single.stack.endpoints.sockets.iter();
    let keys: Vec<u32> = keys
        .filter(|(_, socket)| matches!(socket.kind, Kind::Stream(_)))
        .map(|(key, _)| key)
        .collect();
    for key in keys {
        let socket = single.stack.endpoints.sockets.get_mut(key).unwrap();
        socket.options.send_buffer = SIZE;
        socket.options.send_fixed = socket.id == sockets[sockets.len() - 1];
        let session = single.stack.endpoints.sessions.get(socket.session).unwrap();
        session.host.blocks().set_send_limit(socket.id.index, SIZE);
    }
    single.turn();
    sockets.into_iter().zip(next).collect()
}

/// Each peer acknowledges a little more, twice; the sizes of the send buffers then, as the
/// programs see them.
fn acknowledged(single: &mut Single, streams: &mut [(SocketId, TcpHeader)]) -> Vec<u32> {
    for _ in 0..2 {
        for (_, next) in &mut *streams {
            next.ack = next.ack.add(500);
            single.segment(next, &[]);
        }
        single.turn();
    }
    let limit = |(socket, _): &(SocketId, TcpHeader)| {
        let block = single.arena.block(socket.index);
        block.snd.limit.load(Ordering::Acquire)
    };
    streams.iter().map(limit).collect()
}

#[test]
fn bulk_senders_on_short_paths_share_what_the_caches_hold() {
    let mut single = Single::new(GEOMETRY, 1);
    let mut streams = filled(&mut single, 9);
    let mut sizes = acknowledged(&mut single, &mut streams);
    assert_eq!(sizes.pop(), Some(SIZE), "its program has set it");
    // Sizes change in steps: what is not much more than the share stays.
    let share = 768 << 10;
    assert!(sizes.iter().all(|s| s - s / 4 <= share), "{sizes:?}");
}

#[test]
fn few_bulk_senders_keep_their_send_buffers() {
    let mut single = Single::new(GEOMETRY, 1);
    let mut streams = filled(&mut single, 2);
    assert_eq!(acknowledged(&mut single, &mut streams), [SIZE; 2]);
}
