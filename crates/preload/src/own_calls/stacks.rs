//! The stacks on which threads do what their own system calls ask for: a few for each thread, as a
//! handler of a signal makes calls, too, while another waits.
//!
//! A goroutine's stack has a few hundred bytes left when it makes a call. The one that handlers of
//! signals run on, if it has one, is left before the call is made: another signal may need it.

use crate::kernel::{self, PR_SET_SYSCALL_USER_DISPATCH};
use crate::mapping::Mapping;
use crate::user::{Argument, Out};
use rustix::mm::MapFlags;
use std::cell::{Cell, RefCell};
use std::sync::atomic::AtomicU8;

/// SIGSYS is not raised for calls (linux/prctl.h).
const PR_SYS_DISPATCH_OFF: usize = 0;
/// Stacks of a thread.
const COUNT: usize = 4;
/// Bytes of each, of which the kernel gives what is used. Handlers of signals may run on it.
const BYTES: usize = 128 << 10;
/// Bytes above them, where a byte for each says that it is in use.
const HEAD: usize = 4096;

/// A byte that says so of no stack.
static NOBODYS: AtomicU8 = AtomicU8::new(0);

thread_local! {
    /// Where this thread's stacks end, and the bytes are; 0 if it has none.
    static END: Cell<usize> = const { Cell::new(0) };
    static OWN: RefCell<Option<Stacks>> = const { RefCell::new(None) };
}

/// The stacks of a thread, which go when it ends.
struct Stacks(#[expect(dead_code, reason = "the memory")] Mapping);

impl Drop for Stacks {
    fn drop(&mut self) {
        // What the thread still calls itself goes to the kernel.
        kernel::dispatch_calls(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_OFF, 0, 0);
        let _ = END.try_with(|end| end.set(0));
    }
}

/// One that nobody used, and is in use now.
pub(super) struct Place {
    /// Its end.
    pub(super) top: usize,
    /// Where the byte is that says so.
    pub(super) in_use: usize,
}

impl Place {
    /// Nobody uses it any more.
    pub(super) fn give_back(self) {
        Out::<u8>::from(Argument::from(self.in_use as u64)).put(0);
    }
}

/// Makes this thread's, unless it has them; says whether it has.
pub(super) fn make() -> bool {
    if END.get() != 0 {
        return true;
    }
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::STACK;
    let Ok(memory) = Mapping::new(COUNT * BYTES + HEAD, flags) else {
        return false;
    };
    END.set(memory.address() + COUNT * BYTES);
    OWN.with(|own| own.replace(Some(Stacks(memory))));
    true
}

/// Takes one of this thread's, if one is free. Called by a handler of a signal that no other
/// interrupts.
pub(super) fn take() -> Option<Place> {
    let end = END.try_with(Cell::get).ok().filter(|end| *end != 0)?;
    let byte = |at: usize| Out::<u8>::from(Argument::from(at as u64));
    let free = (0..COUNT).find(|i| byte(end + i).get() == Some(0))?;
    byte(end + free).put(1);
    Some(Place {
        top: end - free * BYTES,
        in_use: end + free,
    })
}

/// The byte of no stack.
pub(super) fn nobodys() -> usize {
    NOBODYS.as_ptr().expose_provenance()
}
