//! What carries the bytes of a link.
//!
//! [`Plain`] is a stream socket, for two ends on one machine.
//! [`Secured`] is a stream socket with the Noise protocol on it (NNpsk0: both ends have one
//! key, and agree on new ones for each link): a host without the key cannot begin a link, read
//! what goes over it, change it or repeat it.

use crate::place::Key;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use snow::{Builder, TransportState};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// What carries the bytes of a link, whole and in order. Neither call waits.
pub trait ByteStream {
    /// Readable when something comes, writable when something can go.
    fn fd(&self) -> BorrowedFd<'_>;

    /// Appends some of what came to `to`; says whether there was any.
    ///
    /// # Errors
    /// [`HandshakeError`] if the link is over.
    fn receive(&mut self, to: &mut Vec<u8>) -> Result<bool, HandshakeError>;

    /// Takes some of `bytes` to send them; says how many.
    ///
    /// # Errors
    /// As [`ByteStream::receive`].
    fn send(&mut self, bytes: &[u8]) -> Result<usize, HandshakeError>;

    /// Sends on what was taken; whether all of it went.
    ///
    /// # Errors
    /// As [`ByteStream::receive`].
    fn flush(&mut self) -> Result<bool, HandshakeError>;

    /// Whether what did not go waits for room in [`ByteStream::fd`].
    fn wants_room(&self) -> bool {
        true
    }

    /// Whether it takes what comes in, so that this is worth waiting for.
    fn wants_input(&self) -> bool {
        true
    }

    /// When something is to be received or sent that waits for its time alone.
    fn next_at(&self) -> Option<Instant> {
        None
    }
}

/// Which end of a link this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The host's, which connects.
    Host,
    /// The engine's.
    Engine,
}

/// Why a link cannot be, or can be no longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// The other end has closed it.
    #[error("the other end has closed it")]
    Closed,
    /// The other end has closed it instead of answering, as it does where the key is another.
    #[error("the other end does not answer; it may have another key (--link-key)")]
    NoAnswer,
    /// The other end has another key, or somebody else has said something.
    #[error("the other end does not have the key of --link-key")]
    NotAuthentic,
    /// The other end does not speak in time.
    #[error("the other end is silent")]
    Silent,
    /// The socket.
    #[error("{0}")]
    Broken(#[from] Errno),
}

const PATTERN: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";
/// Both ends must mean this protocol.
const PROLOGUE: &[u8] = b"longshore link 1";
/// Bytes of the longest message of Noise, and of what it adds to what it carries.
const LONGEST: usize = 65_535;
const TAG: usize = 16;
/// Bytes of a message of the handshake: a public key and a tag.
const GREETING: usize = 32 + TAG;
/// Bytes that are read at a time.
const READ: usize = 256 * 1024;
/// How long the other end may take for its part of the handshake.
const GREET_FOR: Duration = Duration::from_secs(5);

/// A stream socket as it is, between two ends that were started together on one machine.
#[derive(Debug)]
pub struct Plain {
    fd: OwnedFd,
    is_held_up: bool,
}

impl Plain {
    /// On a connected socket.
    ///
    /// # Errors
    /// The kernel's.
    pub fn new(fd: OwnedFd) -> Result<Self, HandshakeError> {
        rustix::io::ioctl_fionbio(&fd, true)?;
        Ok(Self {
            fd,
            is_held_up: false,
        })
    }
}

impl ByteStream for Plain {
    fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    fn receive(&mut self, to: &mut Vec<u8>) -> Result<bool, HandshakeError> {
        read_some(&self.fd, to)
    }

    fn send(&mut self, bytes: &[u8]) -> Result<usize, HandshakeError> {
        let flags = rustix::net::SendFlags::NOSIGNAL;
        let sent = rustix::io::retry_on_intr(|| rustix::net::send(&self.fd, bytes, flags));
        self.is_held_up = !matches!(sent, Ok(n) if n == bytes.len());
        match sent {
            Err(Errno::AGAIN) => Ok(0),
            sent => Ok(sent?),
        }
    }

    fn flush(&mut self) -> Result<bool, HandshakeError> {
        Ok(!std::mem::take(&mut self.is_held_up))
    }
}

/// Appends what a socket has, not more than is read at a time; whether there was any.
fn read_some(fd: &OwnedFd, to: &mut Vec<u8>) -> Result<bool, HandshakeError> {
    let start = to.len();
    to.resize(start + READ, 0);
    let got = rustix::io::retry_on_intr(|| rustix::io::read(fd, &mut to[start..]));
    to.truncate(start + got.unwrap_or(0));
    match got {
        Ok(0) => Err(HandshakeError::Closed),
        Ok(_) => Ok(true),
        Err(Errno::AGAIN) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// A stream socket, authenticated and encrypted.
#[derive(Debug)]
pub struct Secured {
    fd: OwnedFd,
    noise: TransportState,
    /// What came and is not whole messages yet.
    incoming: Vec<u8>,
    /// What is to go, and how much of it has.
    outgoing: Vec<u8>,
    sent: usize,
}

impl Secured {
    /// Shakes hands with the other end of a connected socket: until it is done this waits, for
    /// 5 seconds at most.
    ///
    /// # Errors
    /// [`HandshakeError`].
    pub fn establish(fd: OwnedFd, role: Role, key: &Key) -> Result<Self, HandshakeError> {
        let fail = |_| HandshakeError::NotAuthentic;
        let params = PATTERN.parse().map_err(fail)?;
        let builder = Builder::new(params)
            .prologue(PROLOGUE)
            .and_then(|b| b.psk(0, key.bytes()))
            .map_err(fail)?;
        let until = Instant::now() + GREET_FOR;
        let mut greeting = [0; 2 * GREETING];
        rustix::io::ioctl_fionbio(&fd, true)?;
        let noise = match role {
            Role::Host => {
                let mut noise = builder.build_initiator().map_err(fail)?;
                let len = noise.write_message(&[], &mut greeting).map_err(fail)?;
                send_greeting(&fd, &greeting[..len])?;
                let theirs = receive_greeting(&fd, until).map_err(|e| match e {
                    HandshakeError::Closed | HandshakeError::Broken(Errno::CONNRESET) => {
                        HandshakeError::NoAnswer
                    }
                    other => other,
                })?;
                noise.read_message(&theirs, &mut greeting).map_err(fail)?;
                noise
            }
            Role::Engine => {
                let mut noise = builder.build_responder().map_err(fail)?;
                let theirs = receive_greeting(&fd, until)?;
                noise.read_message(&theirs, &mut greeting).map_err(fail)?;
                let len = noise.write_message(&[], &mut greeting).map_err(fail)?;
                send_greeting(&fd, &greeting[..len])?;
                noise
            }
        };
        Ok(Self {
            fd,
            noise: noise.into_transport_mode().map_err(fail)?,
            incoming: Vec::new(),
            outgoing: Vec::new(),
            sent: 0,
        })
    }

    /// Decrypts the whole messages that came.
    fn decrypt(&mut self, to: &mut Vec<u8>) -> Result<(), HandshakeError> {
        let mut at = 0;
        while let Some((len, rest)) = self.incoming[at..].split_first_chunk::<2>() {
            let len = usize::from(u16::from_le_bytes(*len));
            let Some(message) = rest.get(..len) else {
                break;
            };
            let start = to.len();
            to.resize(start + len, 0);
            let read = self.noise.read_message(message, &mut to[start..]);
            let read = read.map_err(|_| HandshakeError::NotAuthentic)?;
            to.truncate(start + read);
            at += 2 + len;
        }
        self.incoming.drain(..at);
        Ok(())
    }
}

/// A message of the handshake is small: the socket takes it at once.
fn send_greeting(fd: &OwnedFd, greeting: &[u8]) -> Result<(), HandshakeError> {
    let flags = rustix::net::SendFlags::NOSIGNAL;
    match rustix::net::send(fd, greeting, flags)? {
        sent if sent == greeting.len() => Ok(()),
        _ => Err(HandshakeError::Broken(Errno::AGAIN)),
    }
}

fn receive_greeting(fd: &OwnedFd, until: Instant) -> Result<[u8; GREETING], HandshakeError> {
    let mut greeting = [0; GREETING];
    let mut got = 0;
    while got < GREETING {
        match rustix::io::read(fd, &mut greeting[got..]) {
            Ok(0) => return Err(HandshakeError::Closed),
            Ok(n) => got += n,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(HandshakeError::Silent);
                }
                let left = Timespec::try_from(left).ok();
                let mut fds = [PollFd::new(fd, PollFlags::IN)];
                let _ = poll(&mut fds, left.as_ref());
            }
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(greeting)
}

impl ByteStream for Secured {
    fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    fn receive(&mut self, to: &mut Vec<u8>) -> Result<bool, HandshakeError> {
        let any = read_some(&self.fd, &mut self.incoming)?;
        self.decrypt(to)?;
        Ok(any)
    }

    fn send(&mut self, bytes: &[u8]) -> Result<usize, HandshakeError> {
        let mut taken = 0;
        while taken < bytes.len() && self.outgoing.len() < READ {
            let len = (bytes.len() - taken).min(LONGEST - TAG);
            let start = self.outgoing.len();
            self.outgoing.resize(start + 2 + len + TAG, 0);
            let (header, body) = self.outgoing[start..].split_at_mut(2);
            let part = &bytes[taken..taken + len];
            let written = self.noise.write_message(part, body);
            let written = written.map_err(|_| HandshakeError::NotAuthentic)?;
            header.copy_from_slice(&(written as u16).to_le_bytes());
            taken += len;
        }
        self.flush()?;
        Ok(taken)
    }

    fn flush(&mut self) -> Result<bool, HandshakeError> {
        while self.sent < self.outgoing.len() {
            let flags = rustix::net::SendFlags::NOSIGNAL;
            match rustix::net::send(&self.fd, &self.outgoing[self.sent..], flags) {
                Ok(n) => self.sent += n,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(false),
                Err(errno) => return Err(errno.into()),
            }
        }
        self.outgoing.clear();
        self.sent = 0;
        Ok(true)
    }
}

#[cfg(test)]
mod extending;
#[cfg(test)]
mod tests;
