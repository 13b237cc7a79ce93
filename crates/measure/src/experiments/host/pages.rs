//! What it takes to hand payload over by exchanging pages, and by copying it.

use super::{Effort, keep_to};
use crate::experiment::{Cell, ExperimentError, Sheet, Spread, system};
use crate::experiments::ns_each;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::fs::File;
use std::hint::black_box;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes that are handed over at once.
const SIZES: [usize; 6] = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 2 << 20];
const PAGE: usize = 4096;
/// What cold memory is taken from: more than caches hold.
const COLD: usize = 128 << 20;

/// A range of addresses that shows one half of a file, or the other.
struct Window {
    file: File,
    address: *mut core::ffi::c_void,
    bytes: usize,
}

impl Window {
    fn new(bytes: usize) -> rustix::io::Result<Self> {
        let file = File::from(memfd_create("longshore-measure", MemfdFlags::CLOEXEC)?);
        ftruncate(&file, 2 * bytes as u64)?;
        // SAFETY: the kernel chooses a range of addresses that nothing else is in.
        let address = unsafe {
            mmap(
                null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                &file,
                0,
            )
        }?;
        Ok(Window {
            file,
            address,
            bytes,
        })
    }

    /// Shows the half, and touches each page.
    fn exchange(&mut self, half: usize) -> rustix::io::Result<()> {
        // SAFETY: the range is this window's own, which no reference points into, and remains
        // mapped to the file throughout.
        let address = unsafe {
            mmap(
                self.address,
                self.bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::FIXED,
                &self.file,
                (half * self.bytes) as u64,
            )
        }?;
        for at in (0..self.bytes).step_by(PAGE) {
            // SAFETY: within the range, which is readable and whose file is as long.
            black_box(unsafe { address.cast::<u8>().add(at).read_volatile() });
        }
        Ok(())
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: the range is this window's own, and nothing uses it any more.
        let _ = unsafe { munmap(self.address, self.bytes) };
    }
}

/// Microseconds of an exchange.
fn exchange(effort: Effort, bytes: usize) -> rustix::io::Result<Option<Spread>> {
    let mut window = Window::new(bytes)?;
    // The file's pages are made.
    window.exchange(0)?;
    window.exchange(1)?;
    let times = effort.times(
        u32::try_from(40 * (1 << 20) / bytes)
            .unwrap_or(1)
            .clamp(200, 4000),
    );
    let (mut half, mut failed) = (0, Ok(()));
    let spread = effort.spread(|| {
        ns_each(times, || {
            half ^= 1;
            if let Err(error) = window.exchange(half) {
                failed = Err(error);
            }
        }) / 1e3
    });
    failed.map(|()| spread)
}

/// As `exchange`, while a thread of this process is busy on another processor, which has to forget
/// the pages, too.
fn exchange_beside(
    effort: Effort,
    bytes: usize,
    other: usize,
) -> rustix::io::Result<Option<Spread>> {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _ = keep_to(&[other]);
            while !done.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let spread = exchange(effort, bytes);
        done.store(true, Ordering::Relaxed);
        spread
    })
}

/// Microseconds of a copy, `from` as much memory as this.
fn copy(effort: Effort, bytes: usize, from: usize) -> Option<Spread> {
    let (source, mut target) = (vec![1_u8; from], vec![0_u8; bytes]);
    let times = effort.times(
        u32::try_from(64 * (1 << 20) / bytes)
            .unwrap_or(1)
            .clamp(20, 4000),
    );
    let mut at = 0;
    effort.spread(|| {
        ns_each(times, || {
            target.copy_from_slice(&source[at..at + bytes]);
            black_box(&mut target);
            at = if at + 2 * bytes > from { 0 } else { at + bytes };
        }) / 1e3
    })
}

/// Exchanges and copies of each size.
pub(super) fn sheet(effort: Effort, processors: &[usize]) -> Result<Sheet, ExperimentError> {
    let mut sheet = Sheet::new(
        "pages",
        "Handing payload over: exchanging its pages and touching each, or copying it",
        &effort.basis(),
        &[
            ("size", "KB"),
            ("exchange", "us"),
            ("exchange beside a thread", "us"),
            ("copy, cold", "us"),
            ("copy, hot", "us"),
        ],
    );
    for bytes in SIZES {
        let beside = processors.get(1).map(|other| {
            keep_to(&processors[..1])?;
            let spread = exchange_beside(effort, bytes, *other);
            keep_to(processors)?;
            spread
        });
        let beside = beside.transpose().map_err(system("exchange pages"))?;
        sheet.row([
            Cell::Count(bytes as u64 >> 10),
            exchange(effort, bytes)
                .map_err(system("exchange pages"))?
                .into(),
            beside.flatten().into(),
            copy(effort, bytes, COLD).into(),
            copy(effort, bytes, bytes).into(),
        ]);
    }
    Ok(sheet)
}
