//! Calls of a program on its sockets, in any order, over the real descriptors and shared
//! memory to an engine of the tests: what arrives is what was sent, the engine is never
//! given nonsense, and in the end all memory is back.
#![no_main]

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use longshore_hostif::{OpenFlags, SocketKind};
use longshore_sockets::testing::Engine;
use longshore_sockets::{Half, Host, Sending, Socket, SocketError};
use std::io::{IoSlice, IoSliceMut};
use std::sync::OnceLock;

const SLOTS: usize = 5;

#[derive(Debug, Arbitrary)]
enum Call {
    Open(u8),
    Bind(u8),
    Listen(u8, u8),
    Connect(u8, u8),
    Accept(u8, u8),
    Send(u8, u16, bool),
    SendUrgent(u8, u16),
    Recv(u8, u16, bool),
    RecvUrgent(u8, bool),
    Inline(u8, bool),
    Discard(u8, u16),
    Shutdown(u8, u8),
    TakeError(u8),
    Readiness(u8),
    Linger(u8, bool),
    Close(u8),
    Settle,
}

/// A socket, and how far its streams are known to be.
struct Slot {
    socket: Socket,
    sent: u64,
    received: u64,
}

struct Bench {
    engine: Engine,
    host: &'static Host,
    chunks: usize,
    _directory: tempfile::TempDir,
}

fn bench() -> &'static Bench {
    static BENCH: OnceLock<Bench> = OnceLock::new();
    BENCH.get_or_init(|| {
        let directory = tempfile::tempdir().expect("make a directory");
        let engine = Engine::start(directory.path());
        let host = engine.join();
        Bench {
            chunks: host.count_free_chunks(),
            engine,
            host,
            _directory: directory,
        }
    })
}

fuzz_target!(|calls: Vec<Call>| {
    let bench = bench();
    let mut slots: [Option<Slot>; SLOTS] = Default::default();
    // Which byte comes next is known as long as none of them is left out.
    let ordered = !calls.iter().any(|c| matches!(c, Call::SendUrgent(..)));
    for call in &calls {
        if let Err(error) = one(bench, &mut slots, call, ordered) {
            let broken = matches!(error, SocketError::Broken | SocketError::EngineGone);
            assert!(!broken, "{call:?}: {error}");
        }
    }
    drop(slots);
    bench
        .engine
        .wait_until("all sockets closed, no memory in use", |seen| {
            assert_eq!(seen.bad, 0, "the engine was told nonsense");
            seen.open == 0 && seen.rcv_chunks == 0
        });
    assert_eq!(bench.host.count_free_chunks(), bench.chunks);
});

/// Byte `at` of every stream.
fn pattern(at: u64) -> u8 {
    (at * 31 >> 3) as u8
}

fn one(
    bench: &Bench,
    slots: &mut [Option<Slot>; SLOTS],
    call: &Call,
    ordered: bool,
) -> Result<(), SocketError> {
    let index = |slot: u8| usize::from(slot) % SLOTS;
    let slot_of = |slot: u8| slots[index(slot)].as_ref();
    match *call {
        Call::Open(slot) => {
            let socket = bench
                .host
                .sockets()
                .open(SocketKind::Stream, OpenFlags::empty(), 0)?;
            slots[index(slot)] = Some(fresh(socket));
        }
        Call::Bind(slot) => {
            if let Some(s) = slot_of(slot) {
                s.socket.addresses().bind(Engine::address(0))?;
            }
        }
        Call::Listen(slot, backlog) => {
            if let Some(s) = slot_of(slot) {
                s.socket.accept_queue().listen(u32::from(backlog))?;
            }
        }
        Call::Connect(slot, to) => {
            let to = slot_of(to).and_then(|s| s.socket.addresses().local());
            if let (Some(s), Some(to)) = (slot_of(slot), to) {
                s.socket.connector().start(to)?;
            }
        }
        Call::Accept(slot, into) => {
            if let Some(s) = slot_of(slot) {
                let (socket, _, ()) = s.socket.accept_queue().accept_with(|| Ok(()))?;
                slots[index(into)] = Some(fresh(socket));
            }
        }
        Call::Send(slot, len, more) => {
            if let Some(s) = &mut slots[index(slot)] {
                let bytes: Vec<u8> = (s.sent..).take(len.into()).map(pattern).collect();
                s.sent += s.socket.send_stream().send(&[IoSlice::new(&bytes)], more)? as u64;
            }
        }
        Call::Recv(slot, len, keep) => {
            if let Some(s) = &mut slots[index(slot)] {
                let mut bytes = vec![0; len.into()];
                let got = s
                    .socket
                    .receive_stream()
                    .recv(&mut [IoSliceMut::new(&mut bytes)], keep)?;
                let right = (s.received..).map(pattern);
                assert!(!ordered || bytes[..got].iter().copied().eq(right.take(got)));
                if !keep {
                    s.received += got as u64;
                }
            }
        }
        Call::SendUrgent(slot, len) => {
            if let Some(s) = &mut slots[index(slot)] {
                let bytes: Vec<u8> = (s.sent..).take(len.into()).map(pattern).collect();
                s.sent += s
                    .socket
                    .send_stream()
                    .send_with(&[IoSlice::new(&bytes)], Sending::URGENT)?
                    as u64;
            }
        }
        Call::RecvUrgent(slot, keep) => {
            if let Some(s) = slot_of(slot) {
                s.socket.urgent_data().recv(keep)?;
            }
        }
        Call::Inline(slot, on) => {
            if let Some(s) = slot_of(slot) {
                s.socket.urgent_data().set_inline(on);
            }
        }
        Call::Discard(slot, len) => {
            if let Some(s) = &mut slots[index(slot)] {
                s.received += s.socket.receive_stream().discard(len.into())? as u64;
            }
        }
        Call::Shutdown(slot, half) => {
            if let Some(s) = slot_of(slot) {
                s.socket.halves().shut_down(match half % 3 {
                    0 => Half::Read,
                    1 => Half::Write,
                    _ => Half::Both,
                })?;
            }
        }
        Call::TakeError(slot) => {
            slot_of(slot).map(|s| s.socket.pending_error().take());
        }
        Call::Readiness(slot) => {
            slot_of(slot).map(|s| s.socket.readiness());
        }
        Call::Linger(slot, on) => {
            if let Some(s) = slot_of(slot) {
                s.socket.options().set_linger(on.then_some(0));
            }
        }
        Call::Close(slot) => slots[index(slot)] = None,
        Call::Settle => bench.host.messages().flush()?,
    }
    Ok(())
}

fn fresh(socket: Socket) -> Slot {
    Slot {
        socket,
        sent: 0,
        received: 0,
    }
}
