//! What the shim has to say to the person who runs the program, each thing once: to the launcher,
//! which shows it, so that it does not stand among what the program writes; to standard
//! error where there is no launcher to report it to.
//!
//! `LONGSHORE_LOG` says how much: `error` (what makes calls fail), `warn` (the
//! default: what is not done as the program asked), `debug` (what went to the
//! kernel and why).

use crate::environment::remembered;
use longshore_hostif::warning::{NO_KIND, WARNING_BYTES, Warning};
use longshore_sockets::is_confined;
use rustix::net::{
    AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, sendto, socket_with,
};
use std::fmt::{Arguments, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// How much it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Error,
    Warn,
    Debug,
}

/// The environment variable.
const VARIABLE: &str = "LONGSHORE_LOG";

fn wanted() -> Level {
    static WANTED: OnceLock<Level> = OnceLock::new();
    *WANTED.get_or_init(|| match std::env::var(VARIABLE).as_deref() {
        Ok("error") => Level::Error,
        Ok("debug") => Level::Debug,
        _ => Level::Warn,
    })
}

/// A line that does not grow past its buffer, so that nothing is allocated.
struct Line {
    bytes: [u8; 512],
    len: usize,
}

impl Write for Line {
    fn write_str(&mut self, s: &str) -> std::fmt::Result {
        let room = self.bytes.len() - 1 - self.len;
        let take = s.len().min(room);
        self.bytes[self.len..self.len + take].copy_from_slice(&s.as_bytes()[..take]);
        self.len += take;
        Ok(())
    }
}

/// Reports to the launcher; says whether it took that. A program under a filter of system calls
/// can make no socket for that.
fn report_to_launcher(kind: u8, text: &[u8]) -> bool {
    let to = remembered().and_then(|remembered| remembered.warnings.as_ref());
    let Some(to) = to.filter(|_| !is_confined()) else {
        return false;
    };
    let mut message = [0; WARNING_BYTES];
    let len = Warning { kind, text }.encode(&to.secret, &mut message);
    let (unix, datagrams) = (AddressFamily::UNIX, SocketType::DGRAM);
    let socket = socket_with(unix, datagrams, SocketFlags::CLOEXEC, None);
    let (Ok(socket), Ok(name)) = (socket, SocketAddrUnix::new_abstract_name(&to.name)) else {
        return false;
    };
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    sendto(&socket, &message[..len], flags, &name).is_ok()
}

/// Says something that may be said more than once, if it matters enough.
pub(crate) fn say(level: Level, text: Arguments<'_>) {
    say_kind(level, NO_KIND, text);
}

/// Says something of a kind that needs to be shown once, if it matters enough. What is
/// asked for to find a fault stands where it happens, among the program's own words.
pub(crate) fn say_kind(level: Level, kind: u8, text: Arguments<'_>) {
    let process = std::process::id();
    put(level, kind, format_args!("longshore[{process}]: {text}"));
}

/// Warns of a program, whoever executes it: the launcher shows the same text once.
pub(crate) fn warn_of_program(text: Arguments<'_>) {
    put(
        Level::Warn,
        NO_KIND,
        format_args!("longshore: warning: {text}"),
    );
}

fn put(level: Level, kind: u8, text: Arguments<'_>) {
    if level > wanted() {
        return;
    }
    let mut line = Line {
        bytes: [0; 512],
        len: 0,
    };
    let _ = line.write_fmt(text);
    if level != Level::Debug && report_to_launcher(kind, &line.bytes[..line.len]) {
        return;
    }
    line.bytes[line.len] = b'\n';
    let _ = rustix::io::write(crate::results::borrow(2), &line.bytes[..=line.len]);
}

/// Whether this is the first time for `what`, one of 64 things.
pub(crate) fn first(what: Once) -> bool {
    static SAID: AtomicU64 = AtomicU64::new(0);
    let bit = 1 << (what as u32);
    SAID.fetch_or(bit, Ordering::Relaxed) & bit == 0
}

/// What is said once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Once {
    KernelPort,
    Option,
    Numbers,
    KeptNumber,
    Resource,
    Congestion,
    Signal,
    Ring,
    OwnWaits,
    Aio,
}

/// Says something once.
macro_rules! once {
    ($level:ident, $what:ident, $($text:tt)*) => {
        if crate::log::first(crate::log::Once::$what) {
            let kind = crate::log::Once::$what as u8;
            crate::log::say_kind(crate::log::Level::$level, kind, format_args!($($text)*));
        }
    };
}
pub(crate) use once;
