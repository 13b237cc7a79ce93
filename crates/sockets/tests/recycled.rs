//! Memory is used again: a socket shows what it received, and nothing of what lay beside it
//! or was there before.

use longshore_hostif::CHUNK;
use longshore_sockets::testing::{Engine, POISON};
use longshore_sockets::{Datagram, Host, SocketError, Stream, WaitLimit};
use rustix::io::Errno;
use std::io::{IoSlice, IoSliceMut};

/// What no socket is sent: what is in a buffer before the call.
const UNTOUCHED: u8 = 0xee;

/// About the ends of records, pages and chunks, and within the window.
const LENGTHS: [usize; 9] = [
    1,
    7,
    100,
    4095,
    4097,
    CHUNK - 1,
    CHUNK,
    CHUNK + 1,
    2 * CHUNK - 2000,
];

fn engine() -> (Engine, &'static Host, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let engine = Engine::start(directory.path());
    let host = engine.join();
    (engine, host, directory)
}

/// So many bytes of which none is [`POISON`], [`UNTOUCHED`] or of another `seed`.
fn bytes(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|i| 16 * seed + (i % 13) as u8).collect()
}

/// Waits until all of `expected` is there, looking in all ways there are: none shows more.
fn shows_nothing_else(stream: &Stream, expected: &[u8]) {
    let socket = stream.socket();
    let mut buf = vec![UNTOUCHED; expected.len() + 1000];
    loop {
        let seen = socket
            .wait(None, WaitLimit::ENDLESS, || {
                socket
                    .receive_stream()
                    .recv(&mut [IoSliceMut::new(&mut buf)], true)
            })
            .unwrap();
        assert!(buf[..seen] == expected[..seen]);
        assert!(buf[seen..].iter().all(|b| *b == UNTOUCHED));
        if seen == expected.len() {
            break;
        }
    }
    assert_eq!(socket.receive_stream().readable_bytes(), expected.len());
    let peeked = stream.peek().unwrap();
    assert_eq!(peeked.len(), expected.len());
    let pieces = peeked.pieces(0, peeked.len());
    let shown: Vec<u8> = pieces.flat_map(|piece| piece.unwrap().to_vec()).collect();
    assert!(shown == expected);
    let mut end = [UNTOUCHED; 2];
    let last = expected.len() - 1;
    peeked.read_at(last, &mut end[..1]).unwrap();
    assert_eq!(end, [expected[last], UNTOUCHED]);
    let beyond = || peeked.read_at(last, &mut [0; 2]);
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(beyond)).is_err());
}

#[test]
fn a_stream_shows_what_it_received_and_nothing_else() {
    let (engine, host, _directory) = engine();
    for (round, len) in LENGTHS.into_iter().cycle().take(18).enumerate() {
        let (a, b) = Engine::pair(host);
        let seed = (round % 12) as u8;
        let sent = bytes(len, seed);
        a.write_all(&sent).unwrap();
        shows_nothing_else(&b, &sent);
        // The rest of the chunk is still there when some of it was read.
        let mut first = [0];
        assert_eq!(b.read(&mut first), Ok(1));
        let more = bytes(1000, seed);
        a.write_all(&more).unwrap();
        shows_nothing_else(&b, &[&sent[1..], &more].concat());
        drop((a, b));
        engine.wait_until("the chunks were given back", |seen| seen.rcv_chunks == 0);
    }
}

#[test]
fn a_datagram_shows_what_it_brought_and_nothing_else() {
    let (engine, host, _directory) = engine();
    for (round, len) in [0, 1, 7, 8, 9, 1471, 65_000]
        .into_iter()
        .cycle()
        .take(28)
        .enumerate()
    {
        let a = Datagram::bind(host, Engine::address(0)).unwrap();
        let b = Datagram::bind(host, Engine::address(0)).unwrap();
        let sent = bytes(len, (round % 12) as u8);
        a.send(&sent, b.socket().addresses().local()).unwrap();
        for keep in [true, false] {
            let mut buf = vec![UNTOUCHED; len + 100];
            let got = b.socket().wait(None, WaitLimit::ENDLESS, || {
                b.socket()
                    .datagrams()
                    .recv(&mut [IoSliceMut::new(&mut buf)], keep)
            });
            assert_eq!(got.map(|got| (got.copied, got.len)), Ok((len, len)));
            assert!(buf[..len] == sent);
            assert!(buf[len..].iter().all(|b| *b == UNTOUCHED));
            if keep {
                // The calls on streams would show the records themselves.
                let refused = SocketError::Refused(Errno::OPNOTSUPP);
                assert_eq!(b.socket().receive_stream().peek().err(), Some(refused));
                let recv = b
                    .socket()
                    .receive_stream()
                    .recv(&mut [IoSliceMut::new(&mut buf)], true);
                assert_eq!(recv.err(), Some(refused));
                assert_eq!(b.socket().receive_stream().discard(1).err(), Some(refused));
            }
        }
        drop((a, b));
        engine.wait_until("the chunks were given back", |seen| seen.rcv_chunks == 0);
    }
}

/// What may be written to shows what this session has sent at the most.
#[test]
fn room_to_write_shows_nothing_that_was_received() {
    let (_engine, host, _directory) = engine();
    let (a, b) = Engine::pair(host);
    for len in LENGTHS {
        let sent = bytes(len, 3);
        assert!(
            a.socket()
                .send_stream()
                .send(&[IoSlice::new(&sent)], false)
                .is_ok()
        );
        let mut reserved = b.reserve(2 * CHUNK).unwrap();
        let len = reserved.len();
        for piece in reserved.pieces(0, len) {
            let mut unseen = piece.unwrap().iter();
            assert!(unseen.all(|byte| *byte != POISON && !sent.contains(byte)));
        }
        drop(reserved);
        let mut left = sent.len();
        while left != 0 {
            left -= b.read(&mut [0; 4096]).unwrap();
        }
    }
}
