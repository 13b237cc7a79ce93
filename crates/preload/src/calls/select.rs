//! `select`, `pselect`: the sets become a list for `poll`, and its answer sets.

use crate::calls::poll::{is_ours, limit_of, wait};
use crate::calls::{answer, refused};
use crate::cancel::point;
use crate::{real, state, vectors};
use libc::{c_int, fd_set, pollfd, sigset_t, timespec, timeval};
use longshore_sockets::{Host, SocketError};
use std::time::{Duration, Instant};

/// What each set asks poll for, and what of poll's answer belongs to it, as
/// Linux has it.
const READ: (i16, i16) = (
    libc::POLLIN,
    libc::POLLIN | libc::POLLRDNORM | libc::POLLRDBAND | libc::POLLHUP | libc::POLLERR,
);
const WRITE: (i16, i16) = (
    libc::POLLOUT,
    libc::POLLOUT | libc::POLLWRNORM | libc::POLLWRBAND | libc::POLLERR,
);
const EXCEPT: (i16, i16) = (libc::POLLPRI, libc::POLLPRI);

/// A set of descriptors as C has it: bits, as many as the call says.
#[derive(Clone, Copy)]
struct Bits(*mut u64);

impl Bits {
    /// # Safety
    /// The set has `fd`'s word.
    unsafe fn has(self, fd: usize) -> bool {
        // SAFETY: the caller's promise.
        !self.0.is_null() && unsafe { *self.0.add(fd / 64) } & 1 << (fd % 64) != 0
    }

    /// # Safety
    /// As [`Bits::has`].
    unsafe fn set(self, fd: usize) {
        // SAFETY: the caller's promise.
        unsafe { *self.0.add(fd / 64) |= 1 << (fd % 64) }
    }

    /// # Safety
    /// The set has words for `count` descriptors.
    unsafe fn clear(self, count: usize) {
        if !self.0.is_null() {
            // SAFETY: the caller's promise.
            unsafe { std::ptr::write_bytes(self.0, 0, count.div_ceil(64)) }
        }
    }
}

type Sets = [(Bits, (i16, i16)); 3];

fn sets(read: *mut fd_set, write: *mut fd_set, except: *mut fd_set) -> Sets {
    [
        (Bits(read.cast()), READ),
        (Bits(write.cast()), WRITE),
        (Bits(except.cast()), EXCEPT),
    ]
}

/// The list for poll, if there is anything of ours in the sets.
unsafe fn list(sets: &Sets, count: usize) -> Option<Vec<pollfd>> {
    let bytes = count.div_ceil(64) * size_of::<u64>();
    if sets
        .iter()
        .any(|(set, _)| !set.0.is_null() && vectors::check(set.0, bytes).is_err())
    {
        return None;
    }
    let mut list = Vec::new();
    let mut any = false;
    for fd in 0..count {
        let asked = sets
            .iter()
            // SAFETY: the caller's promise.
            .filter(|(set, _)| unsafe { set.has(fd) })
            .fold(0, |events, (_, (ask, _))| events | ask);
        if asked != 0 {
            any |= is_ours(fd as c_int);
            list.push(pollfd {
                fd: fd as c_int,
                events: asked,
                revents: 0,
            });
        }
    }
    any.then_some(list)
}

/// The same, with who serves them.
unsafe fn with_ours(sets: &Sets, count: c_int) -> Option<(&'static Host, Vec<pollfd>)> {
    let host = state::attached()?;
    // SAFETY: the caller's promise.
    let list = unsafe { list(sets, count.max(0) as usize) }?;
    Some((host, list))
}

/// How long a `select` with this timeout waits at most, as [`limit_of`]; Linux takes more
/// microseconds than a second has.
fn limit_of_select(timeout: Option<&timeval>) -> Option<Option<Duration>> {
    let Some(t) = timeout else {
        return Some(None);
    };
    let seconds = Duration::from_secs(u64::try_from(t.tv_sec).ok()?);
    let micros = Duration::from_micros(u64::try_from(t.tv_usec).ok()?);
    Some(Some(seconds.saturating_add(micros)))
}

unsafe fn run(
    host: &'static Host,
    sets: &Sets,
    count: usize,
    mut list: Vec<pollfd>,
    limit: Option<Duration>,
    mask: *const sigset_t,
) -> Result<c_int, SocketError> {
    wait(host, &mut list, limit, mask)?;
    if list.iter().any(|p| p.revents & libc::POLLNVAL != 0) {
        return Err(refused(libc::EBADF));
    }
    // Whoever was asked for, before the sets are written over.
    let asked: Vec<[bool; 3]> = list
        .iter()
        // SAFETY: the caller's promise.
        .map(|p| std::array::from_fn(|i| unsafe { sets[i].0.has(p.fd as usize) }))
        .collect();
    let mut found = 0;
    for (set, _) in sets {
        // SAFETY: as above.
        unsafe { set.clear(count) };
    }
    for (p, asked) in list.iter().zip(asked) {
        for ((set, (_, belongs)), asked) in sets.iter().zip(asked) {
            if asked && p.revents & belongs != 0 {
                // SAFETY: as above.
                unsafe { set.set(p.fd as usize) };
                found += 1;
            }
        }
    }
    Ok(found)
}

/// `select(2)`.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn select(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *mut timeval,
) -> c_int {
    // SAFETY: the caller's promise.
    point(
        || match unsafe { select_ours(count, read, write, except, timeout) } {
            Some(found) => found,
            // SAFETY: as above.
            None => unsafe { real::select(count, read, write, except, timeout) },
        },
    )
}

/// `select` if there is anything of ours in the sets.
///
/// # Safety
/// As libc's.
unsafe fn select_ours(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *mut timeval,
) -> Option<c_int> {
    let sets = sets(read, write, except);
    // SAFETY: the caller's promise.
    let (host, list) = unsafe { with_ours(&sets, count) }?;
    // SAFETY: as above.
    let limit = limit_of_select(unsafe { timeout.as_ref() })?;
    let start = Instant::now();
    let count = count as usize;
    // SAFETY: as above.
    let found = answer(|| unsafe { run(host, &sets, count, list, limit, std::ptr::null()) });
    if let Some(limit) = limit {
        // Linux says how much time was left.
        let left = limit.saturating_sub(start.elapsed());
        // SAFETY: as above.
        unsafe {
            (*timeout).tv_sec = left.as_secs() as i64;
            (*timeout).tv_usec = i64::from(left.subsec_micros());
        }
    }
    Some(found)
}

/// `pselect(2)`.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pselect(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: the caller's promise.
    point(
        || match unsafe { pselect_ours(count, read, write, except, timeout, mask) } {
            Some(found) => found,
            // SAFETY: as above.
            None => unsafe { real::pselect(count, read, write, except, timeout, mask) },
        },
    )
}

/// `pselect` if there is anything of ours in the sets.
///
/// # Safety
/// As libc's.
unsafe fn pselect_ours(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> Option<c_int> {
    let sets = sets(read, write, except);
    // SAFETY: the caller's promise.
    let (host, list) = unsafe { with_ours(&sets, count) }?;
    // SAFETY: as above.
    let limit = limit_of(unsafe { timeout.as_ref() })?;
    // SAFETY: as above.
    Some(answer(|| unsafe {
        run(host, &sets, count as usize, list, limit, mask)
    }))
}

/// `__select`, as libc exports it.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __select(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *mut timeval,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { select(count, read, write, except, timeout) }
}
