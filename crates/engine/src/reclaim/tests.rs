//! The memory of a session that goes back to the system, and when.

use super::*;
use crate::testing::GEOMETRY;
use longshore_hostif::Arena;
use longshore_hostif::adapter::ReceiveStream;
use longshore_ring::EventfdSignaler;
use std::os::fd::AsFd;
use std::sync::Arc;

/// A session, and its memory as its programs have it.
fn session() -> (AdapterSession, Arena) {
    let signaler = Arc::new(EventfdSignaler::for_one());
    let session = AdapterSession::create(GEOMETRY, signaler).unwrap();
    let memory = session.memory_fd().as_fd().try_clone_to_owned().unwrap();
    let arena = Arena::open(memory, GEOMETRY).unwrap();
    (session, arena)
}

/// So many chunks of each slab are used at once, and then free.
fn use_some(both: &mut (AdapterSession, Arena), chunks: usize) {
    use_of_each(both, chunks, chunks);
}

fn use_of_each((session, arena): &mut (AdapterSession, Arena), received: usize, sent: usize) {
    let (mut stream, bytes) = (ReceiveStream::EMPTY, vec![1; received << 16]);
    let placed = stream.place(0, 0, &bytes, &mut session.receive, 1);
    assert!(placed.is_ok());
    stream.consume(bytes.len() as u64, true, &mut session.receive);
    let taken: Vec<u32> = (0..sent)
        .map(|_| arena.take_snd_chunk().unwrap().unwrap())
        .collect();
    for chunk in taken {
        arena.give_snd_chunk(chunk).unwrap();
    }
}

/// Free chunks that take memory: received ones, and those that were sent.
fn warm(session: &AdapterSession) -> (usize, u32) {
    (session.receive.warm(), session.send_slab().warm(1_000))
}

#[test]
fn chunks_that_nobody_wants_for_some_looks_go_back_some_at_a_time() {
    const MANY: usize = 2 * PART + 5;
    let mut both = session();
    let mut reclaim = Reclaim::default();
    assert_eq!(
        reclaim.go_on(&mut both.0, Instant(1)),
        None,
        "there are none"
    );
    use_some(&mut both, MANY);
    assert!(reclaim.is_wanted(&both.0));
    let mut now = Instant(5_000_000);
    for _ in 0..LOOKS {
        let at = reclaim.go_on(&mut both.0, now).unwrap();
        assert_eq!(at, Instant(now.0 + LOOK_EVERY));
        // A call before that finds nothing to do.
        let before = Instant(at.0 - 1);
        assert_eq!(reclaim.go_on(&mut both.0, before), Some(at));
        assert_eq!(warm(&both.0), (MANY, MANY as u32));
        now = at;
    }
    for left in [MANY - PART, MANY - 2 * PART] {
        let at = reclaim.go_on(&mut both.0, now).unwrap();
        assert_eq!(warm(&both.0), (left, left as u32));
        assert_eq!(at, Instant(now.0 + NEXT_PART));
        now = at;
    }
    let at = reclaim.go_on(&mut both.0, now).unwrap();
    assert_eq!(warm(&both.0), (0, 0));
    assert_eq!(at, Instant(now.0 + LOOK_EVERY), "there is no other part");
    assert_eq!(reclaim.go_on(&mut both.0, at), None);
    assert!(!reclaim.is_wanted(&both.0));
    // Later ones have as long.
    use_some(&mut both, 1);
    now = Instant(at.0 + 1);
    for _ in 0..LOOKS {
        now = reclaim.go_on(&mut both.0, now).unwrap();
        assert_eq!(warm(&both.0), (1, 1));
    }
    reclaim.go_on(&mut both.0, now);
    assert_eq!(warm(&both.0), (0, 0));
}

/// As long as either slab has some, the next part follows soon.
#[test]
fn the_memory_of_either_slab_goes_back_without_the_others() {
    const MANY: usize = PART + 5;
    for (received, sent) in [(MANY, 0), (0, MANY)] {
        let mut both = session();
        let mut reclaim = Reclaim::default();
        use_of_each(&mut both, received, sent);
        let mut now = Instant(5_000_000);
        for _ in 0..LOOKS {
            now = reclaim.go_on(&mut both.0, now).unwrap();
        }
        let next = reclaim.go_on(&mut both.0, now).unwrap();
        assert_eq!(next, Instant(now.0 + NEXT_PART));
        let (receives, sends) = warm(&both.0);
        assert_eq!(receives + sends as usize, 5);
        reclaim.go_on(&mut both.0, next);
        assert_eq!(warm(&both.0), (0, 0));
    }
}

#[test]
fn chunks_that_were_wanted_meanwhile_are_kept() {
    const MANY: usize = 8;
    const WANTED: usize = 6;
    let mut both = session();
    let mut reclaim = Reclaim::default();
    use_some(&mut both, MANY);
    let mut now = Instant(5_000_000);
    now = reclaim.go_on(&mut both.0, now).unwrap();
    // A look finds most of them in use; they are free again at the next.
    let bytes = vec![1; WANTED << 16];
    let mut stream = ReceiveStream::EMPTY;
    let placed = stream.place(0, 0, &bytes, &mut both.0.receive, 1);
    assert!(placed.is_ok());
    let taken = [(); WANTED].map(|()| both.1.take_snd_chunk().unwrap().unwrap());
    now = reclaim.go_on(&mut both.0, now).unwrap();
    stream.consume(bytes.len() as u64, true, &mut both.0.receive);
    for chunk in taken {
        both.1.give_snd_chunk(chunk).unwrap();
    }
    now = reclaim.go_on(&mut both.0, now).unwrap();
    assert_eq!(warm(&both.0), (MANY, MANY as u32));
    reclaim.go_on(&mut both.0, now);
    assert_eq!(warm(&both.0), (WANTED, WANTED as u32));
}

#[test]
fn a_kernel_that_has_refused_is_not_asked_again() {
    let mut both = session();
    use_some(&mut both, 2);
    let mut reclaim = Reclaim {
        refused: true,
        ..Reclaim::default()
    };
    for now in [1, 5_000_000, 10_000_000] {
        assert_eq!(reclaim.go_on(&mut both.0, Instant(now)), None);
    }
    assert_eq!(warm(&both.0), (2, 2));
}
