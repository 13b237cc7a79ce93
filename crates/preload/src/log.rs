//! What the shim has to say to who runs the program, each thing once.
//!
//! `LONGSHORE_LOG` says how much: `error` (what makes calls fail), `warn` (the
//! default: what is not done as the program asked), `debug` (what went to the
//! kernel and why).

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

/// Writes one line to stderr, if it matters enough.
pub(crate) fn say(level: Level, text: Arguments<'_>) {
    if level > wanted() {
        return;
    }
    let mut line = Line {
        bytes: [0; 512],
        len: 0,
    };
    let _ = write!(line, "longshore[{}]: {text}", std::process::id());
    line.bytes[line.len] = b'\n';
    // SAFETY: descriptor 2 is only written to; if it is closed, that fails.
    let stderr = unsafe { rustix::fd::BorrowedFd::borrow_raw(2) };
    let _ = rustix::io::write(stderr, &line.bytes[..=line.len]);
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
    ZeroCopy,
    Congestion,
    Signal,
    Ring,
}

/// Says something once.
macro_rules! once {
    ($level:ident, $what:ident, $($text:tt)*) => {
        if crate::log::first(crate::log::Once::$what) {
            crate::log::say(crate::log::Level::$level, format_args!($($text)*));
        }
    };
}
pub(crate) use once;
