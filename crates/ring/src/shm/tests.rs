//! What is in shared memory, how it is reached, and how long it is there.

use super::*;
use crate::testing::is_mapped;
use rustix::fs::fstat;
use std::sync::atomic::Ordering;

#[test]
fn all_ways_lead_to_the_same_bytes_until_they_are_released() {
    let a = SharedMemory::create("test", 3 * 4096).unwrap();
    let words = || a.array::<AtomicU32>(4096, 1024);
    words()[1].store(u32::from_ne_bytes(*b"abcd"), Ordering::Relaxed);
    a.write(4102, b"gh");
    let span = a.span(4096, 12);
    span.room(8, 4).unwrap().fill(b"ijkl");
    // SAFETY: there is no other reference to it.
    unsafe { a.bytes_mut(4100, 2) }.copy_from_slice(b"ef");
    let mut got = [0; 12];
    a.read(4096, &mut got);
    assert_eq!(&got, b"\0\0\0\0efghijkl");
    // SAFETY: as above.
    assert_eq!(unsafe { a.bytes(4100, 8) }, b"efghijkl");
    assert_eq!(
        words()[1].load(Ordering::Relaxed),
        u32::from_ne_bytes(*b"efgh")
    );
    a.populate(2 * 4096);
    a.release(4096, 4096).unwrap();
    assert!(words().iter().all(|w| w.load(Ordering::Relaxed) == 0));
    drop(a);
    span.room(0, 2).unwrap().fill(b"ok");
}

#[test]
#[cfg_attr(miri, ignore = "no memory is mapped twice there")]
fn two_mappings_show_the_same_memory() {
    let a = SharedMemory::create("test", 8192).unwrap();
    let b = SharedMemory::open(a.as_fd().try_clone_to_owned().unwrap(), 8192).unwrap();
    a.at::<AtomicU32>(4096).store(7, Ordering::Release);
    assert_eq!(b.at::<AtomicU32>(4096).load(Ordering::Acquire), 7);
    a.write(100, b"abc");
    let mut got = [0; 3];
    b.read(100, &mut got);
    assert_eq!(&got, b"abc");
}

#[test]
#[cfg_attr(miri, ignore = "no memory is mapped twice there")]
fn a_span_is_filled_within_its_bounds_and_outlives_its_memory() {
    let a = SharedMemory::create("test", 8192).unwrap();
    let b = SharedMemory::open(a.as_fd().try_clone_to_owned().unwrap(), 8192).unwrap();
    let span = a.span(8000, 100);
    drop(a);
    span.room(0, 3).unwrap().fill(b"abc");
    let written = span.room(97, 3).unwrap().fill_by(|to| {
        to.iter().zip(b"xyz").for_each(|(to, from)| to.set(*from));
        to.len()
    });
    assert_eq!(written, 3);
    assert!(span.room(100, 0).is_some());
    for (at, len) in [(98, 3), (100, 1), (101, 0), (u64::MAX, 2), (0, usize::MAX)] {
        assert!(span.room(at, len).is_none(), "{len} at {at}");
    }
    let mut got = [0; 100];
    b.read(8000, &mut got);
    assert_eq!(
        (&got[..3], &got[3..97], &got[97..]),
        (&b"abc"[..], &[0; 94][..], &b"xyz"[..])
    );
}

#[test]
#[cfg_attr(miri, ignore = "it has no memory that is taken when it is touched")]
fn a_page_taken_before_keeps_what_is_in_it() {
    let a = SharedMemory::create("test", 1 << 20).unwrap();
    a.write(8192, b"abc");
    let blocks = |a: &SharedMemory| fstat(a.as_fd()).unwrap().st_blocks;
    let before = blocks(&a);
    a.populate(8192);
    assert_eq!(blocks(&a), before, "it was there");
    // As any length of memory, none can be populated, by a kernel that can do that.
    // SAFETY: nothing is done to no memory.
    let can = unsafe { libc::madvise(a.base.as_ptr().cast(), 0, libc::MADV_POPULATE_WRITE) };
    a.populate(1 << 19);
    assert_eq!(blocks(&a) > before, can == 0);
    let mut got = [0; 3];
    a.read(8192, &mut got);
    assert_eq!(&got, b"abc");
}

#[test]
#[cfg_attr(miri, ignore = "it maps nothing")]
fn memory_is_mapped_as_long_as_anything_of_it_is_kept() {
    let memory = SharedMemory::create("longshore-test-kept", 8192).unwrap();
    assert_eq!((memory.len(), memory.is_empty()), (8192, false));
    let (span, array) = (memory.span(0, 10), memory.keep::<AtomicU32>(0, 1));
    drop(memory);
    drop(span);
    assert!(is_mapped("longshore-test-kept"));
    drop(array);
    assert!(!is_mapped("longshore-test-kept"));
}

#[test]
fn bytes_of_the_memory_are_found_in_it() {
    let memory = SharedMemory::create("test", 4096).unwrap();
    for (offset, len) in [(0, 1), (4000, 96), (4096, 0)] {
        // SAFETY: nobody else has the memory.
        let bytes = unsafe { memory.bytes(offset, len) };
        assert_eq!(memory.offset_of(bytes), offset);
    }
}

#[test]
#[should_panic(expected = "assertion")]
fn other_bytes_are_not() {
    let memory = SharedMemory::create("test", 4096).unwrap();
    let _ = memory.offset_of(b"abc");
}

#[test]
#[cfg_attr(miri, ignore = "no memory is mapped twice there")]
fn memory_of_another_size_is_refused() {
    let a = SharedMemory::create("test", 8192).unwrap();
    let fd = a.as_fd().try_clone_to_owned().unwrap();
    assert!(matches!(
        SharedMemory::open(fd, 16384),
        Err(ShmError::NotOurs { expected: 16384 })
    ));
}

#[test]
fn bytes_are_copied_though_their_places_overlap() {
    let memory = SharedMemory::create("test", 4096).unwrap();
    memory.write(4080, b"0123456789abcdef");
    memory.copy(4084, 4080, 12);
    let mut got = [0; 16];
    memory.read(4080, &mut got);
    assert_eq!(&got, b"456789abcdefcdef");
}
