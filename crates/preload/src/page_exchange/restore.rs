//! Exchanged pages become the program's own again, or others' that the program asks for: before
//! somebody else could have them (a fork, a socket that is closed or shared), when the program
//! empties or moves its memory, and before a filter of system calls.
//!
//! Called by what forks, closes and shares (`fork`, `fds`), by `calls::memory` and by `filter`.

use super::regions::File;
use super::{ANY, Holder, STATE, State, is_used, mode};
use crate::{place, signals};
use longshore_hostif::SocketId;
use longshore_hostif::zero_copy::ZeroCopy;
use longshore_sockets::{ForkGuard, OnlyThread};
use rustix::io::Errno;
use rustix::mm::{MapFlags, MremapFlags, ProtFlags, mmap_anonymous, mremap_fixed};
use std::ops::Range;
use std::ptr;
use std::sync::atomic::Ordering;

fn leave(which: impl Fn(&Holder) -> bool) {
    if is_used() {
        signals::within(|| {
            if let Ok(mut state) = STATE.enter() {
                state.leave(which);
            }
        });
    }
}

/// This process lets go of a socket, or shares it: what the program sees of it becomes its own.
#[inline]
pub(crate) fn leave_socket(id: SocketId) {
    leave(|holder| holder.kept.socket() == id);
}

/// As `leave_socket`, of all sockets: another process may have the memory from now on.
pub(crate) fn leave_all() {
    if is_used() {
        signals::within(|| {
            if let Ok(mut state) = STATE.enter() {
                state.leave_everything();
            }
        });
    }
}

/// While it lives, no memory is changed.
pub(crate) struct Stopped(ForkGuard<'static, State>);

/// Before a fork: what it returns is to live until after it.
pub(crate) fn before_fork() -> Option<Stopped> {
    if mode() == ZeroCopy::Never {
        return None;
    }
    let mut state = STATE.enter().ok()?;
    signals::within(|| state.leave_everything());
    // The child would ask about its parent.
    if let Some(regions) = state.regions.take() {
        regions.close();
    }
    Some(Stopped(state))
}

/// What was stopped before the fork is over, in the child.
pub(crate) fn in_child(stopped: Option<Stopped>) {
    if let Some(Stopped(mut state)) = stopped {
        state.sent.begin_anew();
    }
}

/// While the result lives, no memory is changed by another thread.
pub(crate) fn stop() -> Option<Stopped> {
    STATE.enter().ok().map(Stopped)
}

/// In a child that was made without our knowing: nothing of its parent's is its own.
pub(crate) fn begin_anew(only: &OnlyThread) {
    if !is_used() {
        return;
    }
    STATE.recover(only, State::default);
    if let Ok(mut state) = STATE.enter() {
        state.holders.clear();
        if let Some(regions) = state.regions.take() {
            regions.close();
        }
        state.sent.begin_anew();
    }
}

/// The program says that it does not need what is in this memory any more (MADV_DONTNEED, and
/// MADV_FREE): of ours it becomes memory of zeros, where else the engine's would show.
pub(crate) fn empty(range: &Range<usize>) {
    replace(|state, file| {
        for part in state.mapped_within(range, file) {
            let how = ProtFlags::READ | ProtFlags::WRITE;
            let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
            let at = ptr::with_exposed_provenance_mut(part.start);
            // SAFETY: the program does not need what is there.
            if unsafe { mmap_anonymous(at, part.len(), how, flags) }.is_ok() {
                state.changes_back(&part);
            }
        }
    });
}

/// The program is going to move this memory: if some of it is ours, all becomes memory as it
/// was before, with what is in it, in one piece, for the kernel moves no other.
pub(crate) fn make_plain(range: &Range<usize>) {
    replace(|state, file| {
        let is_ours = !state.mapped_within(range, file).is_empty();
        if is_ours && state.may_change(range) && copy_of(range).is_ok() {
            state.changes_back(range);
        }
    });
}

/// The program is going to have a filter of system calls, under which nothing here can be
/// done any more: all memory that is ours becomes plain.
pub(crate) fn end() {
    if !is_used() {
        return;
    }
    leave_all();
    replace(|state, file| {
        for part in state.mapped_within(&(0..usize::MAX), file) {
            if copy_of(&part).is_ok() {
                state.changes_back(&part);
            }
        }
    });
    ANY.store(false, Ordering::Relaxed);
}

/// Puts a copy in the place of this memory.
fn copy_of(range: &Range<usize>) -> Result<(), Errno> {
    let how = ProtFlags::READ | ProtFlags::WRITE;
    let len = range.len();
    let to = ptr::with_exposed_provenance_mut::<u8>(range.start);
    // SAFETY: new memory, filled with what is in the program's, whose place it takes. A program
    // lets nobody write to memory that it moves.
    unsafe {
        let copy = mmap_anonymous(ptr::null_mut(), len, how, MapFlags::PRIVATE)?;
        ptr::copy_nonoverlapping(to, copy.cast::<u8>(), len);
        mremap_fixed(copy, len, len, MremapFlags::MAYMOVE, to.cast())?;
    }
    Ok(())
}

/// Has `change` change what is ours, of the file that is shared with the engine.
fn replace(change: impl FnOnce(&mut State, File)) {
    signals::within(|| {
        let host = place::attached_already();
        let Some(file) = host.and_then(|host| File::of(host.shared_file())) else {
            return;
        };
        if let Ok(mut state) = STATE.enter() {
            change(&mut state, file);
            state.give_back_unseen();
        }
    });
}
