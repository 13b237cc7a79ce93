//! The same where a connection is between two of the engine's own sockets: a program passes on
//! what another program of its engine has sent, or passes on to that what came over the wire.

mod common;

use common::engines::{bytes, stat};
use common::proxy::{Way, World, await_bytes, pass, read_all};
use longshore_hostif::OptionName;
use longshore_ports::memory::MemoryConfig;
use longshore_sockets::{Forwarded, Host, Listener, SocketError, Stream};
use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Which of the two connections of the program are between the engine's own sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Own {
    Source,
    Sink,
    Both,
}

const ALL: [Own; 3] = [Own::Source, Own::Sink, Own::Both];

/// A connection of `world.proxy` to itself or to another program, or to one over the wire: its
/// end, and the other.
fn connection(world: &World, own: Option<&'static Host>) -> (Stream, Stream) {
    if let Some(own) = own {
        let listener = Listener::bind(own, "10.0.0.1:0".parse().unwrap(), 8).unwrap();
        let near = Stream::connect(world.proxy, listener.local().unwrap()).unwrap();
        return (near, listener.accept().unwrap().0);
    }
    let (listener, at) = world.far_listener();
    let near = Stream::connect(world.proxy, at).unwrap();
    (near, listener.accept().unwrap().0)
}

fn way(world: &World, own: Own, other: &'static Host) -> Way {
    let (source, sender) = connection(world, (own != Own::Sink).then_some(other));
    let (sink, receiver) = connection(world, (own != Own::Source).then_some(other));
    Way {
        sender,
        source,
        sink,
        receiver,
    }
}

/// Whether the other program is of the session of the one that passes on.
fn others(world: &World) -> [(bool, &'static Host); 2] {
    [(true, world.proxy), (false, world.other())]
}

/// Payload that has crossed for the session of the program that passes on.
fn crossed(world: &World) -> u64 {
    let crossings = stat(&world.control).sessions[0].crossings;
    let both = [crossings.to_adapter.classes, crossings.to_host.classes];
    both.iter().map(|c| c.payload.bytes + c.immediate).sum()
}

#[test]
fn every_byte_arrives_and_the_program_has_copied_none() {
    const LEN: usize = 4_000_000;
    let world = World::new(&MemoryConfig::default());
    for (is_one, other) in others(&world) {
        for own in ALL {
            for shift in [0, 63, 40_000] {
                let crossed_before = crossed(&world);
                let what = format!("{own:?}, one session: {is_one}");
                world.pass_whole(way(&world, own, other), (LEN, shift), &what);
                let crossed = crossed(&world) - crossed_before;
                // If they are of one session, it has what the other program reads and writes.
                let most = LEN as u64 / 5 + u64::from(shift) * 2;
                assert!(is_one || crossed < most, "{own:?}: {crossed}");
                world.await_no_chunks();
            }
        }
    }
}

/// What was lent is unread when the first is passed on that cannot be lent.
#[test]
fn what_is_lent_and_what_is_passed_on_arrive_in_order() {
    const LENT: usize = 100_000;
    const LEN: usize = 300_000;
    let world = World::new(&MemoryConfig::default());
    let way = way(&world, Own::Sink, world.proxy);
    let engine = || stat(&world.control).engine;
    let before = engine();
    let passed_within = || engine()["cut_through_bytes"] - before["cut_through_bytes"];
    let (ahead, sent) = (bytes(LENT, 1), bytes(LEN, 2));
    way.sink.write_all(&ahead).unwrap();
    await_bytes(&way.receiver, LENT);
    assert!(engine()["lent_bytes"] > before["lent_bytes"]);
    // Some of it is read, within a chunk.
    assert!(read_all(&way.receiver, 1_000) == ahead[..1_000]);
    let unread = way.receiver.peek().unwrap();
    std::thread::scope(|s| {
        s.spawn(|| way.sender.write_all(&sent).unwrap());
        s.spawn(|| pass(&way.source, &way.sink, LEN));
        let began = Instant::now();
        while passed_within() < (LENT + 50_000) as u64 {
            assert!(began.elapsed() < common::TIMEOUT);
            sleep(Duration::from_millis(1));
        }
        // Where it was seen before, it still is.
        let mut seen = Vec::new();
        for piece in unread.pieces(0, unread.len()) {
            seen.extend_from_slice(piece.unwrap());
        }
        assert!(seen == ahead[1_000..]);
        drop(unread);
        let rest = [&ahead[1_000..], &sent].concat();
        assert!(read_all(&way.receiver, rest.len()) == rest);
    });
    drop(way);
    world.await_no_chunks();
}

/// Both ends of the connection that has brought the bytes are closed, or reset, before they are
/// sent.
#[test]
fn who_has_sent_and_received_may_be_gone_before_it_is_passed_on() {
    const LEN: usize = 120_000;
    let world = World::new(&MemoryConfig::default());
    for (is_one, other) in others(&world) {
        for (sender_resets, source_resets, sender_first) in [
            (false, false, true),
            (false, false, false),
            (true, false, true),
            (false, true, false),
        ] {
            let way = way(&world, Own::Source, other);
            let sent = bytes(LEN, 3);
            way.sender.write_all(&sent).unwrap();
            await_bytes(&way.source, LEN);
            // No acknowledgment comes: most of it waits.
            world.gate.store(true, Ordering::Release);
            let mut moved = 0;
            while moved < LEN {
                match way
                    .source
                    .socket()
                    .forwarding(way.sink.socket())
                    .forward(LEN - moved, false)
                {
                    Ok(Forwarded::Bytes(more)) => moved += more,
                    Ok(Forwarded::Copy(_)) | Err(SocketError::WouldBlock) => break,
                    Err(e) => panic!("{e:?}"),
                }
            }
            assert!(moved > LEN / 2, "{moved}");
            if sender_resets {
                way.sender.socket().options().set_linger(Some(0));
            }
            if source_resets {
                way.source.socket().options().set_linger(Some(0));
            }
            let mut ends = [way.sender, way.source];
            if !sender_first {
                ends.reverse();
            }
            for end in ends {
                drop(end);
                // The engine knows of it.
                world.proxy.messages().flush().unwrap();
                other.messages().flush().unwrap();
                sleep(Duration::from_millis(10));
            }
            // Others take what memory is free.
            let noise = connection(&world, Some(world.proxy));
            noise.0.write_all(&[0xee; 400_000]).unwrap();
            way.sink.finish().unwrap();
            world.gate.store(false, Ordering::Release);
            let got = read_all(&way.receiver, LEN);
            assert!(
                got == sent[..moved],
                "one session: {is_one}, {sender_resets}, {source_resets}, {sender_first}"
            );
            drop((way.sink, way.receiver, noise));
            world.await_no_chunks();
        }
    }
}

/// The connection over which it is sent ends in any way: what it has not sent counts as read, and
/// another takes the rest.
#[test]
fn who_passes_on_may_end() {
    const LEN: usize = 3_000_000;
    let world = World::new(&MemoryConfig::default());
    for (is_one, other) in others(&world) {
        for own in ALL {
            for closes in [false, true] {
                let way = way(&world, own, other);
                let sent = bytes(LEN, 3);
                std::thread::scope(|s| {
                    s.spawn(|| {
                        way.sender.write_all(&sent).unwrap();
                        way.sender.finish().unwrap();
                    });
                    pass(&way.source, &way.sink, 60_000);
                    await_bytes(&way.receiver, 60_000);
                    if closes {
                        // By the one that passes on.
                        way.sink.socket().options().set_linger(Some(0));
                        drop(way.sink);
                        assert!(read_all(&way.source, LEN) == sent[60_000..]);
                        return;
                    }
                    // Nothing was read there: a reset.
                    drop(way.receiver);
                    let (began, mut passed) = (Instant::now(), 60_000);
                    loop {
                        let forwarded = way
                            .source
                            .socket()
                            .forwarding(way.sink.socket())
                            .forward(20_000, false);
                        match forwarded {
                            Ok(Forwarded::Bytes(moved)) => passed += moved,
                            Ok(Forwarded::Copy(_)) if way.sink.write(&[]).is_err() => break,
                            Ok(Forwarded::Copy(_)) => {
                                let why = format!("{own:?}, one session: {is_one}");
                                assert!(began.elapsed() < common::TIMEOUT, "{why}");
                                if way.source.peek().unwrap().is_empty() {
                                    break;
                                }
                                match way
                                    .source
                                    .socket()
                                    .forwarding(way.sink.socket())
                                    .copy(1, false)
                                {
                                    Ok(moved) => passed += moved,
                                    Err(SocketError::WouldBlock) => {}
                                    Err(_) => break,
                                }
                            }
                            Err(SocketError::WouldBlock) => {
                                assert!(began.elapsed() < common::TIMEOUT);
                            }
                            Err(_) => break,
                        }
                    }
                    assert!(read_all(&way.source, LEN) == sent[passed..]);
                });
                drop((way.sender, way.source));
                world.await_no_chunks();
            }
        }
    }
}

/// A program that sends itself what it has received from itself, for ever, keeps nothing when
/// its connections are closed.
#[test]
fn circles_keep_nothing() {
    let world = World::new(&MemoryConfig::default());
    let (a, a_end) = connection(&world, Some(world.proxy));
    let (b, b_end) = connection(&world, Some(world.proxy));
    a.write_all(&bytes(200_000, 1)).unwrap();
    await_bytes(&a_end, 200_000);
    for _ in 0..200 {
        for (from, to) in [(&a_end, &b), (&b_end, &a), (&a_end, &a)] {
            match from.socket().forwarding(to.socket()).forward(40_000, false) {
                Ok(_) | Err(SocketError::WouldBlock) => {}
                Err(e) => panic!("{e:?}"),
            }
        }
        world.proxy.messages().flush().unwrap();
    }
    assert!(world.forwarded() > 400_000, "{}", world.forwarded());
    drop((a, a_end, b, b_end));
    world.await_no_chunks();
}

/// A program that takes more than its sender's buffer is before it passes that on is not waited
/// for: what it keeps is limited by what the engine holds for it.
#[test]
fn who_takes_much_at_once_is_not_waited_for() {
    const LEN: usize = 200_000;
    let world = World::new(&MemoryConfig::default());
    let way = way(&world, Own::Source, world.other());
    let small = [(OptionName::SendBuffer, 64 * 1024)];
    way.sender
        .socket()
        .options()
        .set_all(small.into_iter())
        .unwrap();
    let sent = bytes(LEN, 3);
    std::thread::scope(|s| {
        s.spawn(|| way.sender.write_all(&sent).unwrap());
        let (mut kept, began, mut taken) = (None, Instant::now(), Vec::new());
        loop {
            let take = |pieces: &[&[u8]]| {
                let before = taken.len();
                pieces
                    .iter()
                    .for_each(|piece| taken.extend_from_slice(piece));
                Ok(taken.len() - before)
            };
            match way.source.socket().keeping().take(&mut kept, LEN, take) {
                Ok(Some(_)) | Err(SocketError::WouldBlock) => {
                    let much = kept.as_ref().is_some_and(|kept| kept.len() > 60_000);
                    assert!(!much && began.elapsed() < common::TIMEOUT, "{kept:?}");
                }
                Ok(None) if kept.is_none() => sleep(Duration::from_millis(1)),
                // What follows is to be copied, and what is kept first.
                Ok(None) => break,
                Err(e) => panic!("{e:?}"),
            }
        }
        let mut kept = kept.unwrap();
        let len = kept.len();
        way.source
            .socket()
            .keeping()
            .give_back(&mut kept, len)
            .unwrap();
        taken.extend(read_all(&way.source, LEN - taken.len()));
        assert!(taken == sent);
    });
}

/// More was written than the engine lets a reader have unread: what there is is read at once,
/// and is not waited for together with what comes when that was read.
#[test]
fn what_there_is_no_room_for_is_not_waited_for() {
    const LEN: usize = 600_000;
    const ROUNDS: usize = 30;
    let world = World::new(&MemoryConfig::default());
    let (writer, reader) = connection(&world, Some(world.proxy));
    let (sent, mut got) = (bytes(LEN, 0), vec![0; LEN]);
    let mut waited = 0;
    for _ in 0..ROUNDS {
        writer.write_all(&sent).unwrap();
        let (began, mut at) = (Instant::now(), 0);
        while at < LEN {
            at += reader.read(&mut got[at..]).unwrap();
        }
        waited += usize::from(began.elapsed() >= Duration::from_millis(20));
        assert!(got == sent);
    }
    // As long as a call waits for what does not come.
    assert!(waited < ROUNDS / 3, "{waited} of {ROUNDS}");
}
