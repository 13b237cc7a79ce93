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
    let told = |errno, rcv_urgent, flags| {
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
    assert!(told(0, 0, F::empty()) && told(0, 0, F::PEER_FIN | F::CONNECTED));
    assert!(!told(5, 0, F::empty()) && !told(0, 1, F::empty()));
    assert!(!told(5, 1, F::empty()) && !told(0, 0, F::DEAD));
}

/// A process that has ended took what it was told, or never will: what is in the way is let go of.
#[test]
fn a_stretch_is_out_of_the_way_once_it_was_read_or_taken_or_placed_for_one_that_is_gone() {
    for how in 0..4 {
        let mut both = Both::new();
        assert!(both.arrive(0, b"abc"));
        both.tell(&[FIRST]);
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
