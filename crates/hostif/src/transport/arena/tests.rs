use super::*;

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
