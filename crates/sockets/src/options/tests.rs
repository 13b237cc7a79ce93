//! What a socket keeps of what was set.

use super::*;
use crate::testing::Engine;
use crate::testing::fixture::engine;
use longshore_hostif::SocketKind;

/// Linux counts what the bytes of a small send buffer take of its memory, of streams alone.
#[test]
fn a_small_send_buffer_counts_what_its_bytes_take() {
    let (_engine, host, _directory) = engine();
    let small = u64::from(SMALL_SEND_BUFFER) - 1;
    for (kind, counts) in [(SocketKind::Stream, true), (SocketKind::Datagram, false)] {
        let socket = Engine::open(host, kind);
        let block = socket.block();
        for (bytes, is_small) in [
            (small, true),
            (small + 1, false),
            (small, true),
            (1 << 20, false),
        ] {
            socket.options().note(OptionName::SendBuffer, bytes);
            assert_eq!(block.snd.limit.load(Ordering::Relaxed), bytes as u32);
            let has_flag = block.flags().contains(BlockFlags::COUNTS_MEMORY);
            assert_eq!(has_flag, is_small && counts, "{kind:?} {bytes}");
        }
    }
}
