//! Where the parts of a session lie, what two sides see of them, and which chunks are free.

use super::*;
use std::ops::Range;

#[test]
#[cfg_attr(miri, ignore = "no memory is mapped twice there")]
fn both_sides_see_the_same_parts() {
    let engine = Arena::create(Geometry::SMALL).unwrap();
    let host = Arena::open(
        engine.as_fd().try_clone_to_owned().unwrap(),
        Geometry::SMALL,
    )
    .unwrap();
    engine
        .snd_directory(63)
        .entry(255)
        .store(9, Ordering::Release);
    assert_eq!(
        host.snd_directory(63)
            .entry(2 * 256 - 1)
            .load(Ordering::Acquire),
        9
    );
    let popped = host.header().free_sockets.pop(host.socket_links()).unwrap();
    assert_eq!(popped, Some(0));
    assert!(!host.set_held(63, 63, true));
    assert!(engine.holds(63, 63) && !engine.holds(62, 63));
    assert!(engine.set_held(63, 63, false));
}

#[test]
#[cfg_attr(
    miri,
    ignore = "32,768 addresses take it minutes, and none of them is used"
)]
fn every_entry_of_every_directory_is_another_word() {
    let arena = Arena::create(Geometry::SMALL).unwrap();
    let sockets = 0..Geometry::SMALL.sockets;
    let entry = |receive: bool, socket: u32, number: u64| {
        let directory = if receive {
            arena.rcv_directory(socket)
        } else {
            arena.snd_directory(socket)
        };
        std::ptr::from_ref(directory.entry(number)) as usize
    };
    let mut all: Vec<usize> = [false, true]
        .into_iter()
        .flat_map(|receive| sockets.clone().map(move |socket| (receive, socket)))
        .flat_map(|(receive, socket)| (0..256).map(move |n| entry(receive, socket, n)))
        .collect();
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), count);
    // No others lie among them.
    for all in [false, true] {
        let first = entry(all, 0, 0);
        let end = first + 64 * 256 * size_of::<AtomicU32>();
        assert!(sockets.clone().all(|socket| {
            (0..256).all(|number| (first..end).contains(&entry(all, socket, number)))
        }));
    }
    // The first chunks of all sockets lie close together.
    let span = entry(false, 63, 0) - entry(false, 0, 0);
    assert_eq!(span, 63 * DIRECTORY_GROUP * size_of::<AtomicU32>());
}

#[test]
fn more_waiters_than_there_are_cannot_be_claimed() {
    let arena = Arena::create(Geometry::SMALL).unwrap();
    assert!(arena.claimed_waiters().is_empty());
    arena.header().waiters_end.store(3, Ordering::Relaxed);
    assert_eq!(arena.claimed_waiters().len(), 3);
    arena
        .header()
        .waiters_end
        .store(u32::MAX, Ordering::Relaxed);
    assert_eq!(
        arena.claimed_waiters().len(),
        Geometry::SMALL.waiters as usize
    );
}

#[test]
fn places_outside_a_chunk_do_not_exist() {
    let arena = Arena::create(Geometry::SMALL).unwrap();
    assert!(arena.snd_place(3, CHUNK, 0).is_some());
    assert!(arena.snd_place(3, CHUNK - 1, 2).is_none());
    assert!(arena.snd_place(4, 0, 1).is_none());
    assert!(arena.rcv_place(3, CHUNK, 0).is_some());
    assert!(arena.rcv_place(3, CHUNK - 1, 2).is_none());
    assert!(arena.rcv_place(3, CHUNK + 1, 0).is_none());
    assert!(arena.rcv_place(4, 0, 1).is_none());
    assert!(arena.rcv_place(u32::MAX, usize::MAX, usize::MAX).is_none());
    assert!(arena.get_block(64).is_none());
}

#[test]
#[cfg_attr(miri, ignore = "no memory is mapped twice there")]
fn memory_that_is_no_session_of_ours_is_not_opened() {
    let agreed = Agreed {
        version: 15,
        features: Features::FORWARDS,
    };
    let engine = Arena::create_for(Geometry::SMALL, agreed).unwrap();
    let open = || {
        let fd = engine.as_fd().try_clone_to_owned().unwrap();
        Arena::open(fd, Geometry::SMALL).map(|arena| arena.agreed())
    };
    assert_eq!(open().unwrap(), agreed);
    let header = engine.header();
    header.version.store(99, Ordering::Relaxed);
    let error = open().unwrap_err();
    assert!(matches!(error, ArenaError::Version { theirs: 99, .. }));
    header.version.store(15, Ordering::Relaxed);
    header.magic.store(MAGIC + 1, Ordering::Relaxed);
    assert!(open().is_err());
}

fn range<T>(of: &[T]) -> Range<usize> {
    let range = of.as_ptr_range();
    range.start.addr()..range.end.addr()
}

/// Those of one channel, and those of all.
#[test]
#[cfg_attr(miri, ignore = "it takes minutes there, and nothing is unsafe")]
fn rings_and_bitmaps_of_channels_lie_side_by_side() {
    let geometry = Geometry {
        sockets: 192,
        ..Geometry::SMALL
    };
    let arena = Arena::create(geometry).unwrap();
    let of = |channel| {
        [
            range(arena.request_slots(channel)),
            range(arena.completion_slots(channel)),
            range(arena.held(channel)),
        ]
    };
    let mut all: Vec<_> = (0..64).flat_map(of).collect();
    all.sort_unstable_by_key(|range| range.start);
    assert!(all.windows(2).all(|two| two[0].end <= two[1].start));
    for part in 0..3 {
        let mut begins: Vec<_> = (0..64).map(|channel| of(channel)[part].clone()).collect();
        assert!(begins.windows(2).all(|two| two[0].end == two[1].start));
        begins.dedup();
        assert_eq!(begins.len(), 64);
    }
    arena.set_held(1, 130, true);
    assert!(arena.holds(1, 130) && !arena.holds(0, 130) && !arena.holds(1, 129));
}

#[test]
fn what_was_agreed_and_how_much_there_is_decides_what_is_taken() {
    let takes = |features, snd_chunks| {
        let agreed = Agreed {
            features,
            ..Agreed::OURS
        };
        let geometry = Geometry {
            snd_chunks,
            ..Geometry::SMALL
        };
        let arena = Arena::create_for(geometry, agreed).unwrap();
        let forwards = (arena.takes_forwards(), arena.takes_forwards_within());
        (arena.takes_files(), forwards.0, forwards.1)
    };
    use Features as F;
    let all = F::FILES | F::FORWARDS | F::FORWARDS_WITHIN;
    assert_eq!(takes(F::empty(), 4), (false, false, false));
    assert_eq!(takes(F::FILES, 4), (true, false, false));
    assert_eq!(takes(F::FORWARDS, 4), (false, true, false));
    assert_eq!(takes(F::FORWARDS_WITHIN, 4), (false, false, false));
    assert_eq!(takes(all, 4), (true, true, true));
    if cfg!(not(miri)) {
        // An entry has room for the number of a chunk and of a range of these.
        assert_eq!(takes(all, MOST_CHUNKS), (true, true, true));
        assert_eq!(takes(all, MOST_CHUNKS + 1), (false, false, false));
    }
}

#[test]
fn chunks_that_were_used_are_taken_first_and_have_their_memory_given_back() {
    let arena = Arena::create(Geometry::SMALL).unwrap();
    let free = || {
        let (warm, cold) = arena.free_snd_chunks();
        assert_eq!(arena.has_warm_snd_chunk(), warm != 0);
        assert_eq!(arena.warm_snd_chunks(9), warm);
        assert_eq!(arena.warm_snd_chunks(1), warm.min(1));
        (warm, cold)
    };
    assert_eq!(free(), (0, 4));
    assert!(!arena.cool_snd_chunk().unwrap());
    let [a, b] = [(); 2].map(|()| arena.take_snd_chunk().unwrap().unwrap());
    assert_eq!(free(), (0, 2));
    for chunk in [a, b] {
        let place = arena.snd_place(chunk, 100, 3).unwrap();
        arena.memory().write(place, b"abc");
        arena.give_snd_chunk(chunk).unwrap();
    }
    assert_eq!(free(), (2, 2));
    assert_eq!(arena.take_snd_chunk().unwrap(), Some(b));
    arena.give_snd_chunk(b).unwrap();
    assert!(arena.cool_snd_chunk().unwrap());
    assert_eq!(free(), (1, 3));
    let read = |chunk| {
        let mut bytes = [1; 3];
        arena
            .memory()
            .read(arena.snd_place(chunk, 100, 3).unwrap(), &mut bytes);
        bytes
    };
    assert_eq!((read(a), read(b)), (*b"abc", [0; 3]));
    assert!(arena.give_snd_chunk(4).is_err());
}

/// Each by its last value, and in this order.
#[test]
#[cfg_attr(miri, ignore = "it takes minutes there, and nothing is unsafe")]
fn no_part_of_a_session_lies_in_another() {
    let geometry = Geometry {
        sockets: 128,
        snd_chunks: 2000,
        ..Geometry::SMALL
    };
    let arena = Arena::create(geometry).unwrap();
    let entry =
        |directory: Directory<'_>, number| range(std::slice::from_ref(directory.entry(number)));
    let base = range(std::slice::from_ref(arena.header())).start;
    let slab = |at: Option<usize>| base + at.unwrap();
    let parts = [
        range(std::slice::from_ref(arena.header())),
        range(std::slice::from_ref(arena.control(0))),
        range(std::slice::from_ref(arena.control(63))),
        range(arena.waiters()),
        range(arena.socket_links()),
        range(arena.held(0)),
        range(arena.held(63)),
        range(arena.request_slots(0)),
        range(arena.request_slots(63)),
        range(arena.completion_slots(0)),
        range(arena.completion_slots(63)),
        range(std::slice::from_ref(arena.block(0))),
        range(std::slice::from_ref(arena.block(127))),
        entry(arena.snd_directory(0), 0),
        entry(arena.snd_directory(127), 255),
        entry(arena.rcv_directory(0), 0),
        entry(arena.rcv_directory(127), 255),
        slab(arena.snd_place(0, 0, 0))..slab(arena.snd_place(1999, CHUNK, 0)),
        slab(arena.rcv_place(0, 0, 0))..slab(arena.rcv_place(3, CHUNK, 0)),
    ];
    for two in parts.windows(2) {
        assert!(two[0].end <= two[1].start, "{two:x?}");
    }
    assert!(parts[18].end <= base + arena.memory().len());
}
