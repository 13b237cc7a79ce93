//! Requests to forward that no host half of ours makes: nothing is kept of those that are
//! refused.

use super::single::Single;
use super::strangers::accepted;
use crate::memory_pressure::SPARE_CHUNKS;
use longshore_hostif::{EdgeFlags, Geometry, LEAST_FORWARD, Request, SocketKind};
use longshore_wire::tcp::TcpFlags;

const GEOMETRY: Geometry = Geometry {
    channels: 64,
    waiters: 8,
    sockets: 64,
    snd_chunks: 64,
    rcv_chunks: SPARE_CHUNKS + 100,
};
const SEGMENT: usize = 1_024;

#[test]
fn what_is_refused_is_not_kept() {
    let mut single = Single::new(GEOMETRY, 1);
    let listener = single.listen();
    let mut from = single.connect(0);
    single.connect(1);
    single.turn();
    let [source, sink] = [0, 1].map(|which| accepted(&mut single, listener, which));
    from.flags = TcpFlags::ACK | TcpFlags::PSH;
    for _ in 0..LEAST_FORWARD as usize / SEGMENT {
        single.segment(&from, &[7; SEGMENT]);
        from.seq = from.seq.add(SEGMENT as u32);
    }
    single.turn();
    let unconnected = single.bind(SocketKind::Stream, 90);
    for sink in [unconnected, sink].repeat(50) {
        single.ask(
            0,
            &Request::Forward {
                socket: sink,
                // More than a stream can hold.
                snd_edge: 1 << 40,
                rcv_consumed: 0,
                flags: EdgeFlags::PUSH,
                source,
                from: 0,
                to: LEAST_FORWARD,
            },
        );
        single.turn();
    }
    let kept = single.stack.sessions.iter().map(|(_, s)| s.forwards.len());
    assert_eq!(kept.sum::<usize>(), 0);
    assert_eq!(single.stack.counters.forwarded_bytes, 0);
}
