//! Whether this program is on Longshore, and how it takes its place in the session.

use crate::address_space;
use crate::cancel;
use crate::environment;
use crate::fds;
use crate::log::{Level, say};
use crate::{decide, epoll, kept, place, room};
use libc::c_int;
use longshore_hostif::attach::{self, AttachError, Joined, Token};
use longshore_sockets::{
    ForkLock, Hooks, Host, JoinError, OnlyThread, forget_thread_id, is_confined,
};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use std::path::Path;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU32, Ordering};

const UNKNOWN: u8 = 0;
const OFF: u8 = 1;
const READY: u8 = 2;
const FAILED: u8 = 3;

static MODE: AtomicU8 = AtomicU8::new(UNKNOWN);
/// The engine could not be joined as the process may have no more descriptors.
static LACKS_DESCRIPTORS: AtomicBool = AtomicBool::new(false);
/// A child finds it free: the thread of its parent that joins does so for that process alone.
static JOINING: LazyLock<ForkLock<()>> = LazyLock::new(ForkLock::default);

/// What becomes of a new inet socket.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Mode {
    /// The program is not on Longshore.
    Off,
    /// It is.
    On(&'static Host),
    /// It should be, but the engine could not be joined, which its sockets fail with.
    Failed(c_int),
}

/// The engine could not be joined.
fn failed() -> Mode {
    Mode::Failed(if LACKS_DESCRIPTORS.load(Ordering::Relaxed) {
        libc::EMFILE
    } else {
        libc::ENETDOWN
    })
}

/// Whether an engine could not be joined for want of descriptors.
fn lacks_descriptors(why: &JoinError) -> bool {
    matches!(
        why,
        JoinError::Attach(
            AttachError::Broken(Errno::MFILE)
                | AttachError::Unreachable {
                    source: Errno::MFILE,
                    ..
                }
        )
    )
}

/// In a child, which has this thread alone.
pub(crate) fn in_child(only: &OnlyThread) {
    forget_thread_id();
    JOINING.recover(only, || ());
}

/// This process is a child that was made by a system call of which we do not know, and
/// makes its first call on a socket: it takes a place of its own in the session.
fn begin_anew(inherited: &'static Host) -> Option<&'static Host> {
    static BEGUN: AtomicU32 = AtomicU32::new(0);
    let me = std::process::id();
    if BEGUN.swap(me, Ordering::Relaxed) == me {
        // What is called from here is not for sockets of the engine.
        return None;
    }
    match cancel::held(|| room::within(|| take_place(Some(inherited)))) {
        // Of the engine that came after the one of what it has inherited.
        Ok(joined) if !inherited.is_of(&joined) => {
            inherited.fail_in_child("the engine is gone: what this process has inherited fails");
        }
        Ok(joined) => room::within(|| {
            // SAFETY: what has made this process has made it with one thread, which is here,
            // and in no call on a socket.
            let only = unsafe { OnlyThread::new() };
            let wake_fds = inherited.begin_anew(&only, joined, fds::counts().into_iter());
            in_child(&only);
            epoll::family::in_child(&only, wake_fds);
            kept::begin_anew(&only);
            if let Some(name) = place::reserved() {
                inherited.be_child_of(name);
            }
        }),
        Err(e) => {
            say(
                Level::Error,
                format_args!("no place in the session for a child: {e}"),
            );
            inherited.fail_in_child("the sockets of this process fail from now on");
        }
    }
    place::own(inherited);
    Some(inherited)
}

/// Takes a place in the session, at the engine of `before` or the one that has come after it, if this
/// process has had a place there.
fn take_place(before: Option<&Host>) -> Result<Joined, JoinError> {
    let ours = environment::remembered().ok_or(AttachError::NotAnEngine)?;
    let token: Token = ours.session.parse()?;
    let path = Path::new(&ours.engine);
    Ok(match before {
        Some(before) => attach::join_successor(path, token, before.engine_user()?)?,
        None => attach::join(path, token)?,
    })
}

/// Whether the program is on Longshore at all.
#[inline]
pub(crate) fn is_off() -> bool {
    match MODE.load(Ordering::Relaxed) {
        UNKNOWN => !asked_for(),
        mode => mode == OFF,
    }
}

/// Looks at the environment, once there is one.
fn asked_for() -> bool {
    let asked = environment::remembered().is_some();
    if !asked && environment::is_known() {
        MODE.store(OFF, Ordering::Relaxed);
    }
    asked
}

/// Joins the session, unless that has just failed.
pub(crate) fn mode() -> Mode {
    if let Some(host) = place::attached() {
        return Mode::On(if host.is_gone() {
            successor_of(host)
        } else {
            host
        });
    }
    match MODE.load(Ordering::Acquire) {
        OFF => Mode::Off,
        // The program may close some at any time.
        FAILED if !LACKS_DESCRIPTORS.load(Ordering::Relaxed) && !may_look() => failed(),
        _ if !asked_for() => Mode::Off,
        _ => join(),
    }
}

/// Takes a place in the session, after that which it has had at an engine that is gone.
fn open(gone: Option<&Host>) -> Result<&'static Host, JoinError> {
    let hooks = Hooks {
        keep: room::keep,
        discard: room::discard,
        with_room: |work| room::within(work),
        restarts: crate::signals::restarts,
        is_cancelled: cancel::is_cancelled,
        thread: cancel::thread,
        give_back: kept::leave_socket,
        log: |text| say(Level::Error, format_args!("{text}")),
    };
    let joined = take_place(gone)?;
    address_space::reserve(joined.shared_bytes());
    Host::new(joined, hooks)
}

/// How often a program looks whether there is another engine, at most, in milliseconds.
const LOOK_EVERY: i64 = 100;

/// Whether it is time to look whether there is an engine, where none could be joined.
#[cold]
fn may_look() -> bool {
    static NEXT: AtomicI64 = AtomicI64::new(i64::MIN);
    let now = clock_gettime(ClockId::Monotonic);
    let now = now.tv_sec * 1000 + now.tv_nsec / 1_000_000;
    let (next, order) = (NEXT.load(Ordering::Relaxed), Ordering::Relaxed);
    let to = now + LOOK_EVERY;
    let is_time = now >= next && NEXT.compare_exchange(next, to, order, order).is_ok();
    is_time && !is_confined()
}

/// This program's place at the engine that came after `gone`, for the sockets that it makes from
/// now on; or `gone`, as long as there is none. A descriptor names its socket by its place in the
/// session, so those of the engine that is gone, which fail, have to be closed before.
#[cold]
fn successor_of(gone: &'static Host) -> &'static Host {
    if !may_look() || fds::are_engines() || !gone.has_lost_engine() {
        return gone;
    }
    let Ok(_alone) = JOINING.enter() else {
        return gone;
    };
    match place::attached() {
        Some(host) if !std::ptr::eq(host, gone) => return host,
        _ => {}
    }
    let Ok(host) = cancel::held(|| room::within(|| open(Some(gone)))) else {
        return gone;
    };
    kept::leave_all();
    room::within(|| epoll::leave(gone));
    place::own(host);
    say(
        Level::Warn,
        format_args!("attached anew, to the engine that has come"),
    );
    host
}

fn join() -> Mode {
    let Ok(_alone) = JOINING.enter() else {
        return failed();
    };
    if let Some(host) = place::attached() {
        return Mode::On(host);
    }
    let has_failed = MODE.load(Ordering::Acquire) == FAILED;
    match cancel::held(|| room::within(|| open(None))) {
        Ok(host) => {
            if !place::protect_page() {
                say(
                    Level::Debug,
                    format_args!("children made by clone(2) share the sockets of their parent"),
                );
            }
            epoll::family::begin();
            place::own(host);
            place::children_begin_by(begin_anew);
            fds::shared_are_known_by(decide::look_for);
            fds::replaced_are_known_by(decide::follow);
            MODE.store(READY, Ordering::Release);
            Mode::On(host)
        }
        Err(e) if has_failed => {
            LACKS_DESCRIPTORS.store(lacks_descriptors(&e), Ordering::Relaxed);
            failed()
        }
        Err(e) => {
            LACKS_DESCRIPTORS.store(lacks_descriptors(&e), Ordering::Relaxed);
            MODE.store(FAILED, Ordering::Release);
            // Not again at once.
            let _ = may_look();
            say(
                Level::Error,
                format_args!(
                    "no place in the session, so its sockets fail: {e}{}",
                    address_space::hint()
                ),
            );
            failed()
        }
    }
}
