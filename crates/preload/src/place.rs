//! This process's place in the session, where everybody asks for it. What takes it, and what a
//! child does that has none of its own yet, is in `state`, which says so here.

use crate::leaked::Leaked;
use longshore_sockets::{Host, ReservationName};
use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU8;

/// The host of [`PAGE`], which all children find here, too.
static HOST: Leaked<Host> = Leaked::none();
static PAGE: OwnPage = OwnPage {
    host: Leaked::none(),
    rest: [const { AtomicU8::new(0) }; PAGE_BYTES - size_of::<usize>()],
};
/// Bytes of the largest page that a kernel for this architecture may have.
const PAGE_BYTES: usize = if cfg!(target_arch = "x86_64") {
    4096
} else {
    65536
};
/// How a child takes a place of its own that has inherited one: set once a place was taken.
static BEGIN_ANEW: OnceLock<BeginAnew> = OnceLock::new();

thread_local! {
    /// What was reserved for this process, by its one thread.
    static RESERVED: Cell<Option<ReservationName>> = const { Cell::new(None) };
}

/// Takes a place of its own for a child that has its parent's, if it can.
pub(crate) type BeginAnew = fn(inherited: &'static Host) -> Option<&'static Host>;

/// A page of memory that the kernel empties in each child of this process: so a child that
/// was made without our knowing finds out at its first call, at no cost for the others.
#[repr(C)]
#[cfg_attr(target_arch = "x86_64", repr(align(4096)))]
#[cfg_attr(not(target_arch = "x86_64"), repr(align(65536)))]
struct OwnPage {
    host: Leaked<Host>,
    rest: [AtomicU8; PAGE_BYTES - size_of::<usize>()],
}

/// The place in the session, if it was taken already.
#[inline]
pub(crate) fn attached() -> Option<&'static Host> {
    match PAGE.host.get() {
        None => begin_anew(),
        host => host,
    }
}

/// As `attached`, for a caller that may not find out that this process is a child: it is, if there is none.
pub(crate) fn attached_already() -> Option<&'static Host> {
    PAGE.host.get()
}

/// Whether this process is a child that was made without our knowing, and has not found out.
pub(crate) fn is_unknown_child() -> bool {
    BEGIN_ANEW.get().is_some() && attached_already().is_none()
}

/// This process is a child that was made without the handlers of `fork`, for which its parent has
/// reserved this: what it has inherited is held there, and the engine does not know for whom.
pub(crate) fn reserved_is(name: Option<ReservationName>) {
    let _ = RESERVED.try_with(|r| r.set(name));
}

/// What was reserved for this process, if it is such a child.
pub(crate) fn reserved() -> Option<ReservationName> {
    RESERVED.try_with(Cell::get).ok().flatten()
}

/// This process has its place in the session.
pub(crate) fn own(host: &'static Host) {
    HOST.set(host);
    PAGE.host.set(host);
}

/// The first place was taken: children that inherit it are to begin anew in this way.
pub(crate) fn children_begin_by(begin: BeginAnew) {
    let _ = BEGIN_ANEW.set(begin);
}

#[cold]
fn begin_anew() -> Option<&'static Host> {
    let begin = BEGIN_ANEW.get()?;
    begin(HOST.get()?)
}

/// Has the kernel empty the page in children; says whether it will.
pub(crate) fn protect_page() -> bool {
    let page = &raw const PAGE;
    // SAFETY: a page of our own with nothing but what may be zero in it.
    let done = unsafe { libc::madvise(page.cast_mut().cast(), PAGE_BYTES, libc::MADV_WIPEONFORK) };
    done == 0
}
