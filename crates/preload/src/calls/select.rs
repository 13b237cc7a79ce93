//! `select`, `pselect`: the sets become a list for `poll`, and its answer sets.

use crate::calls::poll::{is_ours, wait};
use crate::calls::timeouts::{is_mask_there, limit_of};
use crate::calls::{answer, refused, unless_kernels};
use crate::cancel::point;
use crate::user::{In, Out};
use crate::{place, real, vectors};
use libc::{c_int, fd_set, pollfd, sigset_t, timespec, timeval};
use longshore_sockets::{Host, SocketError};
use std::time::{Duration, Instant};

/// What each set asks poll for, and what of poll's answer belongs to it, as
/// Linux has it: one that was closed while the call waited belongs to all.
const READ: (i16, i16) = (
    libc::POLLIN,
    libc::POLLIN
        | libc::POLLRDNORM
        | libc::POLLRDBAND
        | libc::POLLHUP
        | libc::POLLERR
        | libc::POLLNVAL,
);
const WRITE: (i16, i16) = (
    libc::POLLOUT,
    libc::POLLOUT | libc::POLLWRNORM | libc::POLLWRBAND | libc::POLLERR | libc::POLLNVAL,
);
const EXCEPT: (i16, i16) = (libc::POLLPRI, libc::POLLPRI | libc::POLLNVAL);

/// Of what there is of a descriptor, what belongs to a set that it is in: of an error, nobody is told who
/// waits for what is urgent alone.
fn counts(entry: &pollfd) -> i16 {
    let sets = [READ, WRITE, EXCEPT].into_iter();
    let of_sets = sets.filter(|(asks, _)| entry.events & asks != 0);
    of_sets.fold(0, |all, (_, belongs)| all | belongs)
}

/// A set of descriptors as C has it: bits, as many as the call says.
#[derive(Clone, Copy)]
struct Bits<'a>(Out<'a, u64>);

impl Bits<'_> {
    fn has(self, fd: usize) -> bool {
        !self.0.is_null()
            && self
                .0
                .add(fd / 64)
                .get()
                .is_some_and(|word| word & 1 << (fd % 64) != 0)
    }

    fn set(self, fd: usize) {
        let word = self.0.add(fd / 64);
        word.put(word.get().unwrap_or(0) | 1 << (fd % 64));
    }

    fn clear(self, count: usize) {
        let bytes = count.div_ceil(64) * size_of::<u64>();
        self.0.cast::<u8>().slice_mut(bytes).fill(0);
    }
}

type Sets<'a> = [(Bits<'a>, (i16, i16)); 3];

fn sets<'a>(read: Out<'a, fd_set>, write: Out<'a, fd_set>, except: Out<'a, fd_set>) -> Sets<'a> {
    [
        (Bits(read.cast()), READ),
        (Bits(write.cast()), WRITE),
        (Bits(except.cast()), EXCEPT),
    ]
}

/// The list for poll, if there is anything of ours in the sets.
fn list(sets: &Sets<'_>, count: usize) -> Option<Vec<pollfd>> {
    let bytes = count.div_ceil(64) * size_of::<u64>();
    if sets
        .iter()
        .any(|(set, _)| !set.0.is_null() && !vectors::can_be_written(set.0, bytes))
    {
        return None;
    }
    let mut list = Vec::new();
    let mut any = false;
    for fd in 0..count {
        let asked = sets
            .iter()
            .filter(|(set, _)| set.has(fd))
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

/// As `list`, with the host that serves them.
fn with_ours(sets: &Sets<'_>, count: c_int) -> Option<(&'static Host, Vec<pollfd>)> {
    let host = place::attached()?;
    let list = list(sets, count.max(0) as usize)?;
    Some((host, list))
}

/// How long a `select` with this timeout waits at most, as [`limit_of`]; Linux takes more
/// microseconds than a second has.
fn limit_of_select(timeout: In<'_, timeval>) -> Option<Option<Duration>> {
    if timeout.is_null() {
        return Some(None);
    }
    vectors::check(timeout, size_of::<timeval>()).ok()?;
    let t = timeout.get()?;
    let seconds = Duration::from_secs(u64::try_from(t.tv_sec).ok()?);
    let micros = Duration::from_micros(u64::try_from(t.tv_usec).ok()?);
    Some(Some(seconds.saturating_add(micros)))
}

fn run(
    host: &'static Host,
    sets: &Sets<'_>,
    count: usize,
    mut list: Vec<pollfd>,
    limit: Option<Duration>,
    mask: In<'_, sigset_t>,
) -> Result<c_int, SocketError> {
    // In which sets each is, before they are written over; and whether it is there at all.
    let asked = |p: &pollfd| {
        let in_sets = std::array::from_fn(|i| sets[i].0.has(p.fd as usize));
        (in_sets, is_ours(p.fd))
    };
    let asked: Vec<([bool; 3], bool)> = list.iter().map(asked).collect();
    wait(host, (&mut list, counts), limit, mask)?;
    let is_none = |p: &pollfd| p.revents & libc::POLLNVAL != 0;
    let mut both = list.iter().zip(&asked);
    if both.any(|(p, (_, was_there))| is_none(p) && !was_there) {
        return Err(refused(libc::EBADF));
    }
    let mut found = 0;
    for (set, _) in sets {
        set.clear(count);
    }
    for (p, (asked, _)) in list.iter().zip(asked) {
        for ((set, (_, belongs)), asked) in sets.iter().zip(asked) {
            if asked && p.revents & belongs != 0 {
                set.set(p.fd as usize);
                found += 1;
            }
        }
    }
    Ok(found)
}

/// `select(2)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn select(
    count: c_int,
    read: Out<'_, fd_set>,
    write: Out<'_, fd_set>,
    except: Out<'_, fd_set>,
    timeout: Out<'_, timeval>,
) -> c_int {
    point(|| {
        let ours = unless_kernels(|| select_ours(count, read, write, except, timeout));
        ours.unwrap_or_else(|| real::select(count, read, write, except, timeout))
    })
}

/// `select` if there is anything of ours in the sets.
fn select_ours(
    count: c_int,
    read: Out<'_, fd_set>,
    write: Out<'_, fd_set>,
    except: Out<'_, fd_set>,
    timeout: Out<'_, timeval>,
) -> Option<c_int> {
    let sets = sets(read, write, except);
    let (host, list) = with_ours(&sets, count)?;
    let limit = limit_of_select(timeout.as_in())?;
    let start = Instant::now();
    let count = count as usize;
    let found = answer(|| run(host, &sets, count, list, limit, In::null()));
    if let Some(limit) = limit {
        // Linux says how much time was left.
        let left = limit.saturating_sub(start.elapsed());
        timeout.put(timeval {
            tv_sec: left.as_secs() as i64,
            tv_usec: i64::from(left.subsec_micros()),
        });
    }
    Some(found)
}

/// `pselect(2)`.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn pselect(
    count: c_int,
    read: Out<'_, fd_set>,
    write: Out<'_, fd_set>,
    except: Out<'_, fd_set>,
    timeout: In<'_, timespec>,
    mask: In<'_, sigset_t>,
) -> c_int {
    point(|| {
        let ours = unless_kernels(|| pselect_ours(count, read, write, except, timeout, mask));
        ours.unwrap_or_else(|| real::pselect(count, read, write, except, timeout, mask))
    })
}

/// `pselect` if there is anything of ours in the sets.
fn pselect_ours(
    count: c_int,
    read: Out<'_, fd_set>,
    write: Out<'_, fd_set>,
    except: Out<'_, fd_set>,
    timeout: In<'_, timespec>,
    mask: In<'_, sigset_t>,
) -> Option<c_int> {
    let sets = sets(read, write, except);
    let (host, list) = with_ours(&sets, count)?;
    let limit = limit_of(timeout).filter(|_| is_mask_there(mask))?;
    Some(answer(|| {
        run(host, &sets, count as usize, list, limit, mask)
    }))
}

/// `__select`, as libc exports it.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn __select(
    count: c_int,
    read: Out<'_, fd_set>,
    write: Out<'_, fd_set>,
    except: Out<'_, fd_set>,
    timeout: Out<'_, timeval>,
) -> c_int {
    select(count, read, write, except, timeout)
}
