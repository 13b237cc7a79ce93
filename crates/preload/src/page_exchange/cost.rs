//! From how many bytes on exchanging pages is cheaper than copying, measured in this process:
//! with its threads, of which each processor that runs one has to forget what was mapped.

use super::written::Written;
use super::{PAGE, Regions, map, memfd};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use std::hint::black_box;
use std::os::fd::AsFd;
use std::ptr;
use std::time::{Duration, Instant};

/// What is tried, in bytes.
const SIZES: [usize; 4] = [64 << 10, 256 << 10, 512 << 10, 1 << 20];
/// Bytes that payload is taken from in turn, as it is from a stream's memory.
const SOURCE: usize = 4 << 20;
/// How often each is measured; the shortest time counts.
const TIMES: usize = 6;
/// What exchanging may take of a copy's time, in percent, to be worth it.
const WORTH: u32 = 90;

/// Memory of this measurement's own.
struct Memory {
    at: *mut u8,
    len: usize,
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: nobody else has it.
        let _ = unsafe { munmap(self.at.cast(), self.len) };
    }
}

impl Memory {
    fn bytes(&self, at: usize, len: usize) -> &[u8] {
        assert!(at + len <= self.len);
        // SAFETY: within it, and mapped; what is mapped in its place meanwhile is as long.
        unsafe { std::slice::from_raw_parts(self.at.add(at), len) }
    }

    /// Looks at a byte of each page.
    fn touch(&self, len: usize) {
        let pages = self.bytes(0, len).iter().step_by(PAGE);
        black_box(pages.fold(0u8, |sum, byte| sum.wrapping_add(*byte)));
    }
}

/// The least of the sizes from which on it is worth it to send again what was not written to from
/// where it lies, which takes questions to the kernel, and not to copy it.
pub(super) fn least_worth_sending() -> Option<usize> {
    let file = memfd::create("zero-copy", SOURCE as u64)?;
    let (how, anywhere) = (ProtFlags::READ | ProtFlags::WRITE, ptr::null_mut());
    let map = |flags| {
        // SAFETY: new memory.
        let at = unsafe { mmap(anywhere, SOURCE, how, flags, &file, 0) }.ok()?;
        Some(Memory {
            at: at.cast(),
            len: SOURCE,
        })
    };
    let (to, from) = (map(MapFlags::SHARED)?, map(MapFlags::PRIVATE)?);
    // SAFETY: it is the whole of it, in no other hands.
    unsafe { ptr::write_bytes(to.at, 1, SOURCE) };
    let half = SOURCE / 2;
    let copied = |size: usize, at: usize| {
        // SAFETY: both are as long, and apart: what is copied is never what was written.
        unsafe { ptr::copy_nonoverlapping(from.at, to.at.add(half + at % half), size) };
        Some(())
    };
    let (regions, written) = (Regions::open()?, Written::open());
    let asked = |size: usize, _| {
        let start = from.at.addr();
        let range = start..start + size;
        black_box(regions.within(&range).count());
        black_box(written.as_ref()?.within(&range)?);
        Some(())
    };
    let is_worth = |size: &usize| {
        let (copy, asked) = (shortest(*size, copied)?, shortest(*size, asked)?);
        Some(asked * 100 <= copy * WORTH)
    };
    let worth: Vec<_> = SIZES.iter().map(is_worth).collect();
    regions.close();
    if let Some(written) = written {
        written.close();
    }
    first_of(&worth)
}

/// The first of the sizes from which on all are worth it.
fn first_of(worth: &[Option<bool>]) -> Option<usize> {
    let not_worth = worth.iter().rposition(|worth| *worth != Some(true));
    SIZES.get(not_worth.map_or(0, |last| last + 1)).copied()
}

/// The least of the sizes from which on it is worth it; `None` if none is, or nothing can be
/// measured.
pub(super) fn least_worth() -> Option<usize> {
    let file = memfd::create("zero-copy", SOURCE as u64)?;
    let (how, anywhere) = (ProtFlags::READ | ProtFlags::WRITE, ptr::null_mut());
    let largest = SIZES[SIZES.len() - 1];
    // SAFETY: new memory.
    let (source, target) = unsafe {
        let source = mmap(anywhere, SOURCE, how, MapFlags::SHARED, &file, 0).ok()?;
        let source = Memory {
            at: source.cast(),
            len: SOURCE,
        };
        let target = mmap_anonymous(anywhere, largest, how, MapFlags::PRIVATE).ok()?;
        let target = Memory {
            at: target.cast(),
            len: largest,
        };
        (source, target)
    };
    // SAFETY: it is the whole of it, in no other hands.
    unsafe { ptr::write_bytes(source.at, 1, SOURCE) };
    let copied = |size: usize, from: usize| {
        // SAFETY: both are as long, and apart.
        unsafe { ptr::copy_nonoverlapping(source.at.add(from), target.at, size) };
        target.touch(size);
        Some(())
    };
    let copies: Vec<_> = SIZES.iter().map(|size| shortest(*size, copied)).collect();
    let exchanged = |size: usize, from: usize| {
        map(
            file.as_fd(),
            target.at.expose_provenance(),
            size,
            from as u64,
        )
        .ok()?;
        target.touch(size);
        Some(())
    };
    let is_worth = |(size, copy): (&usize, &Option<Duration>)| {
        let exchange = shortest(*size, exchanged)?;
        Some(exchange * 100 <= (*copy)? * WORTH)
    };
    let worth: Vec<_> = SIZES.iter().zip(&copies).map(is_worth).collect();
    first_of(&worth)
}

/// The shortest time that `work` takes for so many bytes, from one place of the source after
/// the other.
fn shortest(size: usize, work: impl Fn(usize, usize) -> Option<()>) -> Option<Duration> {
    let times = (0..TIMES).map(|turn| {
        let begun = Instant::now();
        work(size, turn * size % SOURCE)?;
        Some(begun.elapsed())
    });
    times.collect::<Option<Vec<_>>>()?.into_iter().min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_measured_is_one_of_the_sizes() {
        assert!(least_worth().is_none_or(|least| SIZES.contains(&least)));
        assert!(least_worth_sending().is_none_or(|least| SIZES.contains(&least)));
    }

    #[test]
    fn it_is_worth_it_from_where_all_larger_ones_are() {
        let (yes, no) = (Some(true), Some(false));
        assert_eq!(first_of(&[yes; 4]), Some(SIZES[0]));
        assert_eq!(first_of(&[yes, no, yes, yes]), Some(SIZES[2]));
        assert_eq!(first_of(&[yes, yes, yes, None]), None);
    }
}
