//! What the shim has to say in the programs of a run: it comes by a socket of ours, and is
//! shown here, each kind of thing once. Among a program's own words it would be taken for
//! one of them by whoever reads those.
//!
//! `run` makes the socket, puts its name into the program's environment, and looks here
//! whenever there is something to read.

use longshore_hostif::warning::{
    Destination, NO_KIND, SECRET_BYTES, WARNING_BYTES, WARNINGS_VARIABLE, Warning,
};
use rustix::rand::{GetRandomFlags, getrandom};
use std::collections::HashSet;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Messages received at once: a program that says much keeps nothing else waiting.
const AT_ONCE: usize = 64;
/// Texts of no kind that are remembered; when there are more, the rest is not shown.
const MOST_TEXTS: usize = 256;

/// The socket, and what was received from it.
#[derive(Debug)]
pub(crate) struct Warnings {
    socket: UnixDatagram,
    destination: Destination,
    shown: Shown,
}

/// What was shown.
#[derive(Debug, Default)]
struct Shown {
    kinds: HashSet<u8>,
    texts: HashSet<Vec<u8>>,
}

impl Shown {
    /// Whether this is the first of its kind, or if it is of none, the first that says
    /// this.
    fn is_new(&mut self, warning: &Warning<'_>) -> bool {
        if warning.kind != NO_KIND {
            return self.kinds.insert(warning.kind);
        }
        self.texts.len() < MOST_TEXTS && self.texts.insert(warning.text.to_vec())
    }
}

impl Warnings {
    /// Makes the socket.
    pub(crate) fn listen() -> io::Result<Self> {
        let mut random = [0; 2 * SECRET_BYTES];
        getrandom(&mut random, GetRandomFlags::empty())?;
        let (tail, secret) = random.split_at(SECRET_BYTES);
        let mut name = b"longshore-".to_vec();
        name.extend_from_slice(tail);
        let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
        socket.set_nonblocking(true)?;
        let mut destination = Destination {
            name,
            secret: [0; SECRET_BYTES],
        };
        destination.secret.copy_from_slice(secret);
        Ok(Self {
            socket,
            destination,
            shown: Shown::default(),
        })
    }

    /// The variable by which programs learn of it.
    pub(crate) fn variable(&self) -> (&'static str, OsString) {
        (WARNINGS_VARIABLE, self.destination.encode().into())
    }

    /// Shows what has come.
    pub(crate) fn show(&mut self) {
        let mut message = [0; WARNING_BYTES];
        for _ in 0..AT_ONCE {
            let Ok(len) = self.socket.recv(&mut message) else {
                return;
            };
            let warning = Warning::decode(&message[..len], &self.destination.secret);
            if let Some(warning) = warning.filter(|w| self.shown.is_new(w)) {
                eprintln!("{}", String::from_utf8_lossy(warning.text));
            }
        }
    }
}

impl AsFd for Warnings {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_shown_once_and_each_text_of_none() {
        let mut shown = Shown::default();
        let mut is_new = |kind, text: &str| {
            let text = text.as_bytes();
            shown.is_new(&Warning { kind, text })
        };
        assert!(is_new(3, "a"));
        assert!(!is_new(3, "b"));
        assert!(is_new(4, "a"));
        assert!(is_new(NO_KIND, "a"));
        assert!(is_new(NO_KIND, "b"));
        assert!(!is_new(NO_KIND, "a"));
        for number in 0..MOST_TEXTS {
            is_new(NO_KIND, &number.to_string());
        }
        assert!(!is_new(NO_KIND, "one too many"));
    }
}
