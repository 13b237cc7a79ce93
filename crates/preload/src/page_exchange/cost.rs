//! From how many bytes on exchanging pages is cheaper than copying, measured in this process:
//! with its threads, of which each processor that runs one has to forget what was mapped.

use super::written::Written;
use super::{PAGE, Regions, map, memfd};
use crate::mapping::Mapping;
use rustix::mm::MapFlags;
use std::hint::black_box;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// What is tried, in bytes.
const SIZES: [usize; 4] = [64 << 10, 256 << 10, 512 << 10, 1 << 20];
/// Bytes that payload is taken from in turn, as it is from a stream's memory.
const SOURCE: usize = 4 << 20;
/// How often each is measured; the shortest time counts.
const TIMES: usize = 6;
/// What exchanging may take of a copy's time, in percent, to be worth it.
const WORTH: u32 = 90;

/// Looks at a byte of each page.
fn touch(memory: &Mapping, len: usize) {
    let pages = memory.bytes()[..len].iter().step_by(PAGE);
    black_box(pages.fold(0u8, |sum, byte| sum.wrapping_add(*byte)));
}

/// The least of the sizes from which on it is worth it to send again what was not written to from
/// where it lies, which takes questions to the kernel, and not to copy it.
pub(super) fn least_worth_sending() -> Option<usize> {
    let file = memfd::create("zero-copy", SOURCE as u64)?;
    let map = |flags| Mapping::of(&file, SOURCE, flags).ok();
    let (mut to, from) = (map(MapFlags::SHARED)?, map(MapFlags::PRIVATE)?);
    to.bytes_mut().fill(1);
    let half = SOURCE / 2;
    // What is copied is in the first half of the file, and never what was written.
    let mut copied = |size: usize, at: usize| {
        let to = &mut to.bytes_mut()[half + at % half..][..size];
        to.copy_from_slice(&from.bytes()[..size]);
        black_box(to);
        Some(())
    };
    let (regions, written) = (Regions::open()?, Written::open());
    let asked = |size: usize, _| {
        let start = from.address();
        let range = start..start + size;
        black_box(regions.within(&range).count());
        black_box(written.as_ref()?.within(&range)?);
        Some(())
    };
    let is_worth = |size: &usize| {
        let (copy, asked) = (shortest(*size, &mut copied)?, shortest(*size, asked)?);
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
    let largest = SIZES[SIZES.len() - 1];
    let mut source = Mapping::of(&file, SOURCE, MapFlags::SHARED).ok()?;
    let mut target = Mapping::new(largest, MapFlags::PRIVATE).ok()?;
    source.bytes_mut().fill(1);
    let mut copied = |size: usize, from: usize| {
        let from = &source.bytes()[from..from + size];
        target.bytes_mut()[..size].copy_from_slice(from);
        touch(&target, size);
        Some(())
    };
    let sizes = SIZES.iter();
    let copies: Vec<_> = sizes.map(|size| shortest(*size, &mut copied)).collect();
    let exchanged = |size: usize, from: usize| {
        map(file.as_fd(), target.address(), size, from as u64).ok()?;
        touch(&target, size);
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
fn shortest(size: usize, mut work: impl FnMut(usize, usize) -> Option<()>) -> Option<Duration> {
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
