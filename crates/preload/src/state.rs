//! Whether this program is on Longshore, and its place in the session.

use crate::cancel;
use crate::fds::{self, Entry};
use crate::log::{Level, say};
use longshore_hostif::attach::{ENGINE_VARIABLE, SESSION_VARIABLE, Token};
use longshore_sockets::{Hooks, Host};
use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::process::{Resource, getrlimit};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering};

/// Where our own descriptors go, if the limit allows.
const KEPT_FROM: i32 = 960;

const UNKNOWN: u8 = 0;
const OFF: u8 = 1;
const READY: u8 = 2;
const FAILED: u8 = 3;

static MODE: AtomicU8 = AtomicU8::new(UNKNOWN);
static HOST: AtomicPtr<Host> = AtomicPtr::new(std::ptr::null_mut());
static JOINING: Mutex<()> = Mutex::new(());

/// What becomes of a new inet socket.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Mode {
    /// The program is not on Longshore.
    Off,
    /// It is.
    On(&'static Host),
    /// It should be, but the engine could not be joined.
    Failed,
}

/// The place in the session, if it was taken already.
#[inline]
pub(crate) fn attached() -> Option<&'static Host> {
    let host = HOST.load(Ordering::Acquire);
    // SAFETY: null, or a host that was leaked.
    unsafe { host.as_ref() }
}

/// Whether the program is on Longshore at all.
#[inline]
pub(crate) fn is_off() -> bool {
    match MODE.load(Ordering::Relaxed) {
        UNKNOWN => !asked_for(),
        mode => mode == OFF,
    }
}

/// Looks at the environment, once.
fn asked_for() -> bool {
    let asked =
        std::env::var_os(ENGINE_VARIABLE).is_some() && std::env::var_os(SESSION_VARIABLE).is_some();
    if asked {
        true
    } else {
        MODE.store(OFF, Ordering::Relaxed);
        false
    }
}

/// Joins the session if that was not tried before.
pub(crate) fn mode() -> Mode {
    if let Some(host) = attached() {
        return Mode::On(host);
    }
    match MODE.load(Ordering::Acquire) {
        OFF => Mode::Off,
        FAILED => Mode::Failed,
        _ if !asked_for() => Mode::Off,
        _ => join(),
    }
}

fn join() -> Mode {
    let _alone = JOINING.lock().unwrap_or_else(|e| e.into_inner());
    if let Some(host) = attached() {
        return Mode::On(host);
    }
    if MODE.load(Ordering::Acquire) == FAILED {
        return Mode::Failed;
    }
    let path = PathBuf::from(std::env::var_os(ENGINE_VARIABLE).unwrap_or_default());
    let token = std::env::var(SESSION_VARIABLE).unwrap_or_default();
    let hooks = Hooks {
        keep,
        discard,
        restarts: crate::signals::restarts,
        is_cancelled: cancel::is_cancelled,
        thread: cancel::thread,
        log: |text| say(Level::Error, format_args!("{text}")),
    };
    let joined = token
        .parse::<Token>()
        .map_err(Into::into)
        .and_then(|token| cancel::held(|| Host::join(&path, token, hooks)));
    match joined {
        Ok(host) => {
            HOST.store(std::ptr::from_ref(host).cast_mut(), Ordering::Release);
            MODE.store(READY, Ordering::Release);
            Mode::On(host)
        }
        Err(e) => {
            MODE.store(FAILED, Ordering::Release);
            say(
                Level::Error,
                format_args!("no place in the session, so its sockets fail: {e}"),
            );
            Mode::Failed
        }
    }
}

/// Moves a descriptor of ours to a high number and protects it there.
fn keep(fd: OwnedFd) -> OwnedFd {
    let below_limit = || {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(1 << 20);
        fcntl_dupfd_cloexec(&fd, KEPT_FROM.min(limit.saturating_sub(64) as i32))
    };
    // Nearly every program may have descriptors as high as that.
    let high = fcntl_dupfd_cloexec(&fd, KEPT_FROM).or_else(|_| below_limit());
    let fd = match high {
        Ok(high) => high,
        Err(_) => {
            let _ = fcntl_setfd(&fd, FdFlags::CLOEXEC);
            fd
        }
    };
    fds::put(fd.as_raw_fd(), Entry::Kept);
    fd
}

/// Closes a descriptor that was kept.
fn discard(fd: OwnedFd) {
    let raw = fd.into_raw_fd();
    fds::put(raw, Entry::Kernel);
    // SAFETY: it was owned a line ago.
    cancel::held(|| drop(unsafe { OwnedFd::from_raw_fd(raw) }));
}
