//! Whether this program is on Longshore, and its place in the session.

use crate::address_space;
use crate::calls::epoll::family;
use crate::cancel;
use crate::environment;
use crate::fds::{self, Entry};
use crate::log::{Level, say};
use crate::{pipes, room};
use longshore_hostif::attach::{self, AttachError, Joined, Token};
use longshore_sockets::{Hooks, Host, JoinError};
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, Ordering};

const UNKNOWN: u8 = 0;
const OFF: u8 = 1;
const READY: u8 = 2;
const FAILED: u8 = 3;

static MODE: AtomicU8 = AtomicU8::new(UNKNOWN);
/// The same as in [`PAGE`], in all children too.
static HOST: Leaked = Leaked::none();
static PAGE: OwnPage = OwnPage {
    host: Leaked::none(),
    rest: [const { AtomicU8::new(0) }; PAGE_BYTES - size_of::<usize>()],
};
const PAGE_BYTES: usize = 4096;

/// A page of memory that the kernel empties in each child of this process: so a child that
/// was made without our knowing finds out at its first call, at no cost for the others.
#[repr(C, align(4096))]
struct OwnPage {
    host: Leaked,
    rest: [AtomicU8; PAGE_BYTES - size_of::<usize>()],
}

/// A place for the host, which is never freed; zeros are none.
#[repr(transparent)]
struct Leaked(AtomicPtr<Host>);

impl Leaked {
    const fn none() -> Self {
        Self(AtomicPtr::new(std::ptr::null_mut()))
    }

    #[inline]
    fn get(&self) -> Option<&'static Host> {
        // SAFETY: null, or of `set`.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    fn set(&self, host: &'static Host) {
        let host = std::ptr::from_ref(host).cast_mut();
        self.0.store(host, Ordering::Release);
    }
}

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
    match PAGE.host.get() {
        None if MODE.load(Ordering::Relaxed) == READY => begin_anew(),
        host => host,
    }
}

/// The same for who may not find out that this process is a child: it is, if there is none.
pub(crate) fn attached_already() -> Option<&'static Host> {
    PAGE.host.get()
}

/// Whether this process is a child that was made without our knowing, and has not found out.
pub(crate) fn is_unknown_child() -> bool {
    MODE.load(Ordering::Relaxed) == READY && attached_already().is_none()
}

/// This process has its place in the session.
pub(crate) fn own(host: &'static Host) {
    HOST.set(host);
    PAGE.host.set(host);
}

/// Has the kernel empty the page in children.
fn protect_page() {
    let page = &raw const PAGE;
    // SAFETY: a page of our own with nothing but what may be zero in it.
    let done = unsafe { libc::madvise(page.cast_mut().cast(), PAGE_BYTES, libc::MADV_WIPEONFORK) };
    if done != 0 {
        say(
            Level::Debug,
            format_args!("children made by clone(2) share the sockets of their parent"),
        );
    }
}

/// This process is a child that was made by a system call of which we do not know, and
/// makes its first call on a socket: it takes a place of its own in the session.
#[cold]
fn begin_anew() -> Option<&'static Host> {
    static BEGUN: AtomicU32 = AtomicU32::new(0);
    let me = std::process::id();
    if BEGUN.swap(me, Ordering::Relaxed) == me {
        // What is called from here is not for sockets of the engine.
        return None;
    }
    let host = HOST.get()?;
    match cancel::held(|| room::within(take_place)) {
        // SAFETY: what has made this process has made it with one thread, which is here.
        Ok(joined) => room::within(|| unsafe {
            let parents = host.begin_anew(joined, fds::counts().into_iter());
            family::in_child(parents);
            pipes::begin_anew();
        }),
        Err(e) => {
            say(
                Level::Error,
                format_args!("no place in the session for a child: {e}"),
            );
            host.fail_in_child("the sockets of this process fail from now on");
        }
    }
    own(host);
    Some(host)
}

fn take_place() -> Result<Joined, JoinError> {
    let ours = environment::remembered().ok_or(AttachError::NotAnEngine)?;
    let token: Token = ours.session.parse()?;
    Ok(attach::join(Path::new(&ours.engine), token)?)
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
    let hooks = Hooks {
        keep: room::keep,
        discard,
        with_room: |work| room::within(work),
        restarts: crate::signals::restarts,
        is_cancelled: cancel::is_cancelled,
        thread: cancel::thread,
        give_back: pipes::leave_socket,
        log: |text| say(Level::Error, format_args!("{text}")),
    };
    let open = || {
        let joined = take_place()?;
        address_space::reserve(joined.shared_bytes());
        Host::new(joined, hooks)
    };
    let joined = cancel::held(|| room::within(open));
    match joined {
        Ok(host) => {
            protect_page();
            family::begin();
            own(host);
            MODE.store(READY, Ordering::Release);
            Mode::On(host)
        }
        Err(e) => {
            MODE.store(FAILED, Ordering::Release);
            say(
                Level::Error,
                format_args!(
                    "no place in the session, so its sockets fail: {e}{}",
                    address_space::hint()
                ),
            );
            Mode::Failed
        }
    }
}

/// Closes a descriptor that was kept.
pub(crate) fn discard(fd: OwnedFd) {
    let raw = fd.into_raw_fd();
    fds::put(raw, Entry::Kernel);
    // SAFETY: it was owned a line ago.
    cancel::held(|| drop(unsafe { OwnedFd::from_raw_fd(raw) }));
}
