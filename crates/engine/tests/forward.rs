//! A program that passes on what one connection brings to another, by reference: every byte
//! arrives, whichever connection ends first, and the memory comes back.

mod common;

use common::engines::{bytes, sockets, stat};
use common::proxy::{World, await_bytes, pass, read_all};
use longshore_engine::control::CrossingStat;
use longshore_ports::memory::MemoryConfig;
use longshore_sockets::{Forwarded, NotForwarded, SocketError, Stream};
use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// On wires that look at the payload and that do not, and where nothing lies in one place of
/// a chunk as it does in the other.
#[test]
fn every_byte_arrives_and_none_was_copied() {
    const LEN: usize = 6_000_000;
    for offloads in [false, true] {
        let world = World::new(&MemoryConfig {
            offloads,
            ..MemoryConfig::default()
        });
        for shift in [0, 1, 63, 40_000] {
            world.pass_whole(world.way(), (LEN, shift), "over the wire");
            world.await_no_chunks();
        }
    }
}

/// What is short is copied between what is not, as the header of each response.
#[test]
fn what_is_copied_and_what_is_not_arrive_in_order() {
    let world = World::new(&MemoryConfig::default());
    let way = world.way();
    let sent = bytes(1_000_000, 5);
    std::thread::scope(|s| {
        s.spawn(|| way.sender.write_all(&sent).unwrap());
        s.spawn(|| {
            let mut passed = 0;
            while passed < sent.len() {
                let mut header = vec![0; 300.min(sent.len() - passed)];
                let read = way.source.read(&mut header).unwrap();
                way.sink.write_all(&header[..read]).unwrap();
                passed += read;
                let body = 9_000.min(sent.len() - passed);
                pass(&way.source, &way.sink, body);
                passed += body;
            }
        });
        assert!(read_all(&way.receiver, sent.len()) == sent);
    });
    assert!(world.forwarded() > 100_000);
}

/// The window opens only when the far end has acknowledged: one that does not read holds up
/// who sends, though the proxy has passed on all that has come.
#[test]
fn who_does_not_read_holds_up_who_sends() {
    const LEN: usize = 30_000_000;
    let world = World::new(&MemoryConfig::default());
    let way = world.way();
    let sent = bytes(LEN, 7);
    std::thread::scope(|s| {
        s.spawn(|| {
            way.sender.write_all(&sent).unwrap();
            way.sender.finish().unwrap();
        });
        s.spawn(|| {
            pass(&way.source, &way.sink, usize::MAX);
            way.sink.finish().unwrap();
        });
        let mut last = 0;
        loop {
            sleep(Duration::from_millis(200));
            let now = world.forwarded();
            if now == last && now != 0 {
                break;
            }
            last = now;
        }
        assert!(last < LEN as u64, "all of it was taken");
        assert!(read_all(&way.receiver, LEN + 1) == sent);
    });
}

/// The connection that has received the bytes is closed before they are sent, with and
/// without others behind them.
#[test]
fn who_has_received_may_be_gone_before_it_is_sent() {
    const LEN: usize = 50_000;
    let world = World::new(&MemoryConfig::default());
    for resets in [false, true] {
        let way = world.way();
        let sent = bytes(LEN, 3);
        std::thread::scope(|s| {
            s.spawn(|| {
                way.sender.write_all(&sent).unwrap();
                way.sender.write_all(b"behind").unwrap();
            });
            await_bytes(&way.source, 10_000);
        });
        await_bytes(&way.source, LEN + 6);
        // No acknowledgment comes: most of it waits.
        world.gate.store(true, Ordering::Release);
        let moved = way.source.forward(&way.sink, LEN).unwrap();
        assert!(moved > 30_000);
        if !resets {
            let rest = LEN + 6 - moved;
            assert_eq!(read_all(&way.source, rest).len(), rest);
        }
        drop(way.source);
        way.sink.finish().unwrap();
        // The engine knows of it.
        world.proxy.messages().flush().unwrap();
        sleep(Duration::from_millis(50));
        world.gate.store(false, Ordering::Release);
        assert!(read_all(&way.receiver, LEN) == sent[..moved]);
        drop((way.sender, way.sink, way.receiver));
        world.await_no_chunks();
    }
}

/// The connection over which they are sent is reset: what it has not sent counts as read.
#[test]
fn who_sends_may_be_reset() {
    let world = World::new(&MemoryConfig::default());
    let way = world.way();
    let sent = bytes(3_000_000, 3);
    std::thread::scope(|s| {
        s.spawn(|| {
            way.sender.write_all(&sent).unwrap();
            way.sender.finish().unwrap();
        });
        pass(&way.source, &way.sink, 50_000);
        await_bytes(&way.receiver, 50_000);
        // Nothing was read there: a reset.
        drop(way.receiver);
        let began = Instant::now();
        let mut passed = 50_000;
        loop {
            match way
                .source
                .socket()
                .forwarding(way.sink.socket())
                .forward(20_000, false)
            {
                Ok(Forwarded::Bytes(moved)) => passed += moved,
                Ok(Forwarded::Copy(NotForwarded::Kind)) => break,
                Ok(Forwarded::Copy(_)) | Err(SocketError::WouldBlock) => {}
                Err(_) => break,
            }
            assert!(began.elapsed() < common::TIMEOUT);
        }
        // Another takes the rest.
        assert!(read_all(&way.source, sent.len()) == sent[passed..]);
    });
    drop((way.sender, way.source, way.sink));
    world.await_no_chunks();
}

/// It is one socket, or it is little: then it is copied, and why is said.
#[test]
fn what_cannot_be_passed_on_by_reference_says_why() {
    let world = World::new(&MemoryConfig::default());
    let way = world.way();
    let data = bytes(100_000, 1);
    way.sender.write_all(&data).unwrap();
    await_bytes(&way.source, data.len());
    let why = |to: &Stream, max| {
        way.source
            .socket()
            .forwarding(to.socket())
            .forward(max, false)
            .unwrap()
    };
    assert_eq!(
        why(&way.source, 50_000),
        Forwarded::Copy(NotForwarded::Unsupported)
    );
    assert_eq!(why(&way.sink, 100), Forwarded::Copy(NotForwarded::Short));
    assert_eq!(world.forwarded(), 0);
}

/// What the meter has of payload in one direction: in all, and what of it came with descriptors.
fn payload(crossed: &CrossingStat) -> (u64, u64) {
    let immediate = crossed.classes.immediate;
    (crossed.classes.payload.bytes + immediate, immediate)
}

/// What is passed on by reference has not crossed: the meter has what the program has read and
/// written itself, for the connections and for all of the session.
#[test]
fn the_meter_has_what_a_program_has_touched() {
    const HEADER: usize = 300;
    const LEN: usize = 2_000_000;
    let world = World::new(&MemoryConfig::default());
    let way = world.way();
    let of_session = || {
        let crossings = stat(&world.control).sessions[0].crossings;
        [crossings.to_host, crossings.to_adapter].map(|c| payload(&c).0)
    };
    let before = of_session();
    let sent = bytes(HEADER + LEN, 3);
    std::thread::scope(|s| {
        s.spawn(|| way.sender.write_all(&sent).unwrap());
        s.spawn(|| {
            let header = read_all(&way.source, HEADER);
            way.sink.write_all(&header).unwrap();
            pass(&way.source, &way.sink, LEN);
        });
        assert!(read_all(&way.receiver, sent.len()) == sent);
    });
    let touched = sent.len() as u64 - world.forwarded();
    assert!(touched < LEN as u64 / 10, "{touched} were copied");
    let rows = sockets(&world.control);
    let row = |of: &Stream| {
        let local = of.socket().addresses().local().unwrap().to_string();
        rows.iter()
            .find(|row| row.local == local && row.state == "ESTAB")
            .unwrap()
    };
    let (source, sink) = (row(&way.source).crossings, row(&way.sink).crossings);
    let ((to_host, immediate), (to_adapter, _)) =
        (payload(&source.to_host), payload(&sink.to_adapter));
    // What came with a descriptor has crossed, whatever was done with it then.
    assert!(
        to_host >= touched && to_host - immediate <= touched,
        "{to_host} of {touched}, {immediate} with descriptors"
    );
    let was_repeated = stat(&world.control).tcp["retransmissions"] != 0;
    assert!(
        to_adapter == touched || was_repeated && to_adapter > touched,
        "{to_adapter} of {touched}"
    );
    let after = of_session();
    assert_eq!(
        [after[0] - before[0], after[1] - before[1]],
        [to_host, to_adapter]
    );
    let pieces = source.to_host.classes.payload;
    assert!(pieces.transfers <= pieces.bytes, "{pieces:?}");
}
