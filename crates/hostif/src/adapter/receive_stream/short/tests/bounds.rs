//! How far a stretch that is held may grow, and what can be told with it.

use super::*;

/// So many bytes arrive where the stream has come to `at`, one behind the other; whether each is
/// held.
fn held(at: u64, lens: &[usize]) -> Vec<bool> {
    let mut both = Both::new();
    both.edges.rcv_edge = at;
    let (slab, index) = (&mut both.adapter.receive, both.id.index);
    let mut edge = at;
    let hold = |len: &usize| {
        let held = both
            .stream
            .hold([at, at, edge], &vec![7; *len], slab, index);
        edge += *len as u64;
        held
    };
    lens.iter().map(hold).collect()
}

#[test]
fn a_stretch_grows_as_far_as_a_descriptor_and_its_chunk_go() {
    let chunk = CHUNK as u64;
    assert_eq!(held(0, &[MOST_DATA]), [true]);
    assert_eq!(held(0, &[MOST_DATA + 1]), [false]);
    assert_eq!(held(0, &[MOST_DATA - 1, 1, 1]), [true, true, false]);
    assert_eq!(held(chunk - 100, &[100]), [true]);
    assert_eq!(held(chunk - 100, &[101]), [false]);
    assert_eq!(held(chunk - 100, &[60, 40]), [true, true]);
    assert_eq!(held(chunk - 100, &[60, 41]), [true, false]);
    assert_eq!(held(3 * chunk - 100, &[60, 40, 1]), [true, true, false]);
    assert_eq!(held(0, &[0]), [false]);
}

/// A stream that has a chunk keeps it, whatever others are free.
#[test]
fn a_stream_that_has_begun_goes_on_in_its_chunk() {
    let mut both = Both::new();
    let (slab, index) = (&mut both.adapter.receive, both.id.index);
    let free = slab.take().unwrap();
    both.stream.place(0, 0, b"abc", slab, index).unwrap();
    slab.give_back(free);
    // Its directory names the other, as a program may have it.
    let entry = slab.arena.rcv_directory(index).entry(0);
    entry.store(free, Ordering::Relaxed);
    assert!(both.stream.hold([0, 3, 3], b"def", slab, index));
    assert_eq!((both.stream.chunks(), slab.in_use()), (1, 1));
    let mut got = [0; 6];
    assert!(both.stream.copy_out(0, &mut got, slab));
    assert_eq!(&got, b"abcdef");
}

#[test]
fn what_is_told_with_payload_is_plain() {
    let mut both = Both::new();
    assert!(both.arrive(0, b"abc"));
    let reported = |errno, rcv_urgent, flags| {
        let edges = Edges {
            errno,
            rcv_urgent,
            flags,
            ..both.edges
        };
        let slab = &both.adapter.receive;
        both.stream.data(both.id, &edges, slab).is_some()
    };
    use EdgeFlags as F;
    assert!(reported(0, 0, F::empty()) && reported(0, 0, F::PEER_FIN | F::CONNECTED));
    assert!(!reported(5, 0, F::empty()) && !reported(0, 1, F::empty()));
    assert!(!reported(5, 1, F::empty()) && !reported(0, 0, F::DEAD));
}

/// A process that has ended took what it was told, or never will: what is in the way is let go of.
#[test]
fn a_stretch_is_out_of_the_way_once_it_was_read_or_taken_or_placed_for_one_that_is_gone() {
    for how in 0..4 {
        let mut both = Both::new();
        assert!(both.arrive(0, b"abc"));
        both.report(&[FIRST]);
        if how == 3 {
            // Placed, as another is told of it, too.
            assert_eq!(both.stage(&[FIRST, SECOND]).bytes, 3);
        }
        let consumed = match how {
            0 => 2,
            1 => 3,
            2 => {
                both.take(0, true);
                0
            }
            _ => {
                both.adapter.close_channel(FIRST);
                0
            }
        };
        assert_eq!(both.arrive(consumed, b"def"), how != 0, "{how}");
    }
}

fn of_version(version: u16) -> Both {
    let agreed = Agreed {
        version,
        ..Agreed::OURS
    };
    let signaler = Arc::new(longshore_ring::EventfdSignaler::for_one());
    Both::of(AdapterSession::create_for(Geometry::SMALL, agreed, signaler).unwrap())
}

/// It takes whole slots before the version whose descriptors have lengths.
#[test]
fn payload_is_told_since_the_version_that_has_it() {
    for (version, placed, slots) in [(11, 100, 1), (12, 0, 2), (17, 0, 2)] {
        let mut both = of_version(version);
        assert!(both.arrive(0, &[7; 100]));
        assert_eq!(both.report(&[FIRST]).bytes, placed, "{version}");
        let bytes = both.adapter.meter.to_host.descriptors.bytes;
        assert_eq!(bytes, slots * 64, "{version}");
        let payload = both.adapter.meter.to_host.payload;
        assert_eq!(payload.bytes, placed);
    }
}

#[test]
fn those_that_wait_are_woken_for_what_is_told_with_payload() {
    let mut both = Both::new();
    assert!(both.arrive(0, b"abc"));
    assert_eq!(both.stage(&[FIRST]), Placed::default());
    let sleeper = both.host.waiters().claim(7, 0).unwrap();
    both.host
        .waiters()
        .at(sleeper)
        .declare(longshore_ring::Sleep::Futex);
    both.host.block(both.id.index).add_waiter(sleeper);
    both.adapter.publish();
    assert_eq!(both.adapter.wake(8), 1);
    assert!(!both.host.waiters().at(sleeper).is_declared());
}

/// The process that was told is told of other edges, and has the bytes.
#[test]
fn what_one_process_was_told_is_not_placed_for_it() {
    let mut both = Both::new();
    assert!(both.arrive(0, b"abc"));
    assert_eq!(both.report(&[FIRST]), Placed::default());
    both.edges.snd_acked = 5;
    assert_eq!(both.report(&[FIRST]), Placed::default());
    assert_eq!(both.report(&[SECOND]).bytes, 3);
    assert_eq!(both.report(&[SECOND]), Placed::default(), "once");
}

/// What was not told, and what was told and read, keeps no memory.
#[test]
fn a_stretch_that_was_read_keeps_its_chunk_from_nobody() {
    for reported in [false, true] {
        let mut both = Both::new();
        let all = both.adapter.receive.available();
        assert!(both.arrive(0, b"abc"));
        if reported {
            both.report(&[FIRST]);
        }
        both.consume(3, true);
        assert_eq!(both.adapter.receive.available(), all);
        assert_eq!(both.adapter.receive.held.in_use(), 0);
    }
}

/// A process has been told of bytes that nobody needs any more, and has not taken them: their chunk
/// is free once it has, or has ended.
#[test]
fn a_chunk_that_was_withheld_is_found_when_it_is_needed() {
    for how in 0..3 {
        let mut both = Both::new();
        let all = both.adapter.receive.available();
        assert!(both.arrive(0, b"abc"));
        both.report(&[FIRST]);
        both.consume(0, true);
        assert_eq!(both.adapter.receive.available(), all - 1);
        if how == 2 {
            both.adapter.close_channel(FIRST);
            assert_eq!(both.adapter.receive.available(), all);
            continue;
        }
        both.take(0, true);
        let slab = &mut both.adapter.receive;
        if how == 0 {
            assert_eq!((0..all).filter_map(|_| slab.take()).count() as u32, all);
        } else {
            let chunk = slab.entered(both.id.index, 0);
            assert!(slab.take_again(chunk) && !slab.take_again(chunk));
        }
    }
}

/// An adapter that is at fault may name any.
#[test]
fn payload_for_a_socket_that_there_is_not_is_passed_over() {
    let mut both = Both::new();
    assert!(both.arrive(0, b"abc"));
    let slab = &both.adapter.receive;
    let (data, payload) = both.stream.data(both.id, &both.edges, slab).unwrap();
    let payload = payload.to_vec();
    let sockets = Geometry::SMALL.sockets;
    for (index, is_there) in [(sockets - 1, true), (sockets, false), (u32::MAX, false)] {
        let mut named = data;
        named.socket.index = index;
        let AdapterSession {
            channels, meter, ..
        } = &mut both.adapter;
        let put = channels.put_data(FIRST, &named, &payload, meter);
        assert!(put.is_some());
        both.adapter.publish();
        let got = both.channels[0].get().unwrap().expect("it was published");
        assert_eq!(got.is_some(), is_there, "{index}");
        both.channels[0].release();
    }
}

/// Another process was told as much or more meanwhile, and may have written more since.
#[test]
fn payload_that_is_no_news_says_nothing_of_the_send_stream() {
    for (known, snd_acked) in [(2, 4), (3, 0), (9, 0)] {
        let mut both = Both::new();
        assert!(both.arrive(0, b"abc"));
        both.edges.snd_acked = 4;
        assert_eq!(both.report(&[FIRST]), Placed::default());
        let block = both.host.block(both.id.index);
        block.snd.edge.store(10, Ordering::Release);
        block.rcv.edge.store(known, Ordering::Release);
        let edges = both.take(0, true).expect("it was told");
        assert_eq!((edges.rcv_edge, edges.snd_acked), (3, snd_acked), "{known}");
    }
}
