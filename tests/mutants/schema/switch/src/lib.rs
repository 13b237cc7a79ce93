//! The switch of all mutants of a build: called by the code that `longshore-mutants` has
//! rewritten, in the tests of that code and in the processes that they start.
//!
//! `LONGSHORE_MUTANT` is the number of the one mutant that is there. With
//! `LONGSHORE_MUTANTS_REACHED`, none is: the file of that name has a byte for each, and those
//! of the mutants that are asked for become 1. The file is mapped, so that nothing is lost
//! where a process is killed.

use std::ffi::{c_int, c_long, c_void};
use std::fs::OpenOptions;
use std::os::fd::AsRawFd;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicUsize, Ordering::*};

/// The environment has not been read yet.
const UNREAD: u32 = u32::MAX;
/// What is reached is written down.
const RECORDING: u32 = u32::MAX - 1;
/// There is no mutant.
const NONE: u32 = u32::MAX - 2;

static ACTIVE: AtomicU32 = AtomicU32::new(UNREAD);
static REACHED: AtomicPtr<AtomicU8> = AtomicPtr::new(null_mut());
static COUNT: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" {
    fn mmap(
        at: *mut c_void,
        len: usize,
        prot: c_int,
        flags: c_int,
        fd: c_int,
        offset: c_long,
    ) -> *mut c_void;
}

/// Whether the mutant of this number is there.
#[inline]
pub fn on(mutant: u32) -> bool {
    let active = ACTIVE.load(Relaxed);
    active == mutant || (active >= RECORDING && asked(mutant))
}

#[cold]
fn asked(mutant: u32) -> bool {
    if ACTIVE.load(Relaxed) == UNREAD {
        let active = match std::env::var("LONGSHORE_MUTANT") {
            Ok(number) => number.parse().unwrap_or(NONE),
            Err(_) if map_reached().is_some() => RECORDING,
            Err(_) => NONE,
        };
        ACTIVE.store(active, Release);
    }
    let active = ACTIVE.load(Acquire);
    let reached = REACHED.load(Relaxed);
    if active == RECORDING && (mutant as usize) < COUNT.load(Relaxed) {
        // SAFETY: `map_reached` has mapped COUNT bytes there for good before RECORDING was
        // stored, and they are atomic.
        unsafe { (*reached.add(mutant as usize)).store(1, Relaxed) };
    }
    active == mutant
}

/// Maps the file for what is reached, if there is one.
fn map_reached() -> Option<()> {
    const PROT_READ_WRITE: c_int = 3;
    const MAP_SHARED: c_int = 1;
    let name = std::env::var_os("LONGSHORE_MUTANTS_REACHED")?;
    let file = OpenOptions::new().read(true).write(true).open(name).ok()?;
    let len = usize::try_from(file.metadata().ok()?.len()).ok()?;
    // SAFETY: a new mapping, of all of a file that only ever has this length.
    let at = unsafe {
        mmap(
            null_mut(),
            len,
            PROT_READ_WRITE,
            MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    if at.is_null() || at as isize == -1 {
        return None;
    }
    COUNT.store(len, Relaxed);
    REACHED.store(at.cast(), Relaxed);
    Some(())
}
