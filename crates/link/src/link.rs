//! One end of a link: what came over it and is not handled yet, and what is to go.
//!
//! Owns [`Link`], which the agent at the host's end and the proxy at the engine's each have one of,
//! over a [`ByteStream`] of their choice.

use crate::byte_stream::{ByteStream, HandshakeError};
use crate::protocol::{BadFrame, Hello, Message, Parser, Refusal};
use longshore_hostif::SocketId;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// Bytes that wait to go before nothing that can wait is added to them.
const CONGESTED: usize = 512 * 1024;
/// Bytes that are taken from the byte stream at a time, about.
const AT_ONCE: usize = 1024 * 1024;
/// How long the other end may take for its greeting.
const GREET_FOR: Duration = Duration::from_secs(15);

/// Why a link is over.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// What carries it.
    #[error(transparent)]
    Stream(#[from] HandshakeError),
    /// What came means nothing.
    #[error("the other end sent {0}")]
    Frame(#[from] BadFrame),
    /// What came cannot be.
    #[error("the other end sent what cannot be: {0}")]
    Claim(&'static str),
    /// The engine's end serves us not, or no longer.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// One end of a link.
pub struct Link {
    stream: Box<dyn ByteStream>,
    /// What came.
    pub(crate) parser: Parser,
    /// What is to go.
    pub(crate) out: Outbox,
    plain: Vec<u8>,
}

/// What is to go over a link.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    bytes: Vec<u8>,
    sent: usize,
    /// The byte stream has more of it that did not go.
    is_held_up: bool,
}

impl Outbox {
    /// Adds a message.
    pub(crate) fn put(&mut self, message: &Message<'_>) {
        message.encode(&mut self.bytes);
    }

    /// Adds `len` bytes of a stream, which `fill` writes to their place, if it does.
    pub(crate) fn put_payload<E>(
        &mut self,
        socket: SocketId,
        at: u64,
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let start = self.bytes.len();
        self.put(&Message::Payload {
            socket,
            at,
            bytes: &[],
        });
        let body = self.bytes.len();
        self.bytes.resize(body + len, 0);
        if let Err(e) = fill(&mut self.bytes[body..]) {
            self.bytes.truncate(start);
            return Err(e);
        }
        // The length is the lower half of the header's word.
        let longer = (body - start - 8 + len) as u32;
        self.bytes[start..start + 4].copy_from_slice(&longer.to_le_bytes());
        Ok(())
    }

    /// Whether what can wait is to wait.
    pub(crate) fn is_congested(&self) -> bool {
        self.bytes.len() - self.sent >= CONGESTED
    }

    /// Whether something is still to go.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.len() == self.sent && !self.is_held_up
    }
}

impl Link {
    /// One end of a link that is carried by `stream`.
    #[must_use]
    pub fn new(stream: impl ByteStream + 'static) -> Self {
        Self {
            stream: Box::new(stream),
            parser: Parser::default(),
            out: Outbox::default(),
            plain: Vec::new(),
        }
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.stream.fd()
    }

    /// Takes what came, not all of it if it is much; whether there was any.
    pub(crate) fn receive(&mut self) -> Result<bool, LinkError> {
        let mut any = false;
        while self.parser.len() < AT_ONCE {
            self.plain.clear();
            let more = self.stream.receive(&mut self.plain);
            self.parser.push(&self.plain);
            if !more? {
                break;
            }
            any = true;
        }
        // The other end closes when all that it sent is handled, so it has not done that.
        if self.parser.len() >= AT_ONCE && self.has_hung_up() {
            return Err(HandshakeError::Closed.into());
        }
        Ok(any)
    }

    fn has_hung_up(&self) -> bool {
        let gone = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        let mut fds = [PollFd::from_borrowed_fd(self.fd(), PollFlags::RDHUP)];
        let polled = poll(&mut fds, Some(&Timespec::default()));
        polled.is_ok() && fds[0].revents().intersects(gone)
    }

    /// Sends what goes now.
    pub(crate) fn send(&mut self) -> Result<(), LinkError> {
        let out = &mut self.out;
        out.is_held_up = !self.stream.flush()?;
        while !out.is_held_up && out.sent < out.bytes.len() {
            out.sent += self.stream.send(&out.bytes[out.sent..])?;
            out.is_held_up = !self.stream.flush()?;
        }
        if out.sent == out.bytes.len() {
            out.bytes.clear();
            out.sent = 0;
        } else if out.sent >= CONGESTED {
            out.bytes.drain(..out.sent);
            out.sent = 0;
        }
        Ok(())
    }

    /// Waits for a message, for some time, and hands it to `take`: before anything else is
    /// done on this link.
    pub(crate) fn wait_for<T>(
        &mut self,
        take: impl Fn(Message<'_>) -> Option<Result<T, LinkError>>,
    ) -> Result<T, LinkError> {
        let until = Instant::now() + GREET_FOR;
        loop {
            self.send()?;
            self.receive()?;
            if let Some(message) = self.parser.peek()? {
                let taken = take(message).ok_or(LinkError::Claim("a message out of turn"))?;
                self.parser.take();
                return taken;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(HandshakeError::Silent.into());
            }
            self.wait(PollFlags::IN, left);
        }
    }

    /// Sleeps until the byte stream has something to receive or to send; for `most`, no longer.
    pub(crate) fn wait(&self, mut wants: PollFlags, most: Duration) {
        wants.set(PollFlags::OUT, self.wants_room());
        let until = self.stream.next_at();
        let until = until.map_or(most, |at| at.saturating_duration_since(Instant::now()));
        let timeout = Timespec::try_from(until.min(most)).ok();
        let mut fds = [PollFd::from_borrowed_fd(self.fd(), wants)];
        let _ = poll(&mut fds, timeout.as_ref());
    }

    /// Whether something is to go for which there is no room in the byte stream's descriptor.
    pub(crate) fn wants_room(&self) -> bool {
        !self.out.is_empty() && self.stream.wants_room()
    }

    /// Whether the byte stream takes what comes in.
    pub(crate) fn wants_input(&self) -> bool {
        self.stream.wants_input()
    }

    /// When something is to be received or sent that waits for its time alone.
    pub(crate) fn next_at(&self) -> Option<Instant> {
        self.stream.next_at()
    }

    /// Waits for the greeting of the host's end, at the engine's.
    ///
    /// # Errors
    /// [`LinkError`].
    pub fn greeting(&mut self) -> Result<Hello, LinkError> {
        self.wait_for(|message| match message {
            Message::Hello(hello) => Some(Ok(hello)),
            _ => None,
        })
    }

    /// Tells the host's end why it is not served, or no longer; whether it is told is not
    /// waited for.
    pub fn refuse(&mut self, why: Refusal) {
        self.out.put(&Message::Refused(why));
        let _ = self.send();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::byte_stream::Plain;
    use crate::protocol::PAYLOAD;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    /// For which there is no room where it goes: it is not handled, and no more is taken.
    #[test]
    fn an_end_is_noticed_behind_much_that_waits() {
        let flags = SocketFlags::CLOEXEC;
        let (a, b) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
        let mut host = Link::new(Plain::new(a).unwrap());
        let mut engine = Link::new(Plain::new(b).unwrap());
        let socket = SocketId {
            index: 3,
            generation: 9,
        };
        let mut at = 0;
        while engine.parser.len() < AT_ONCE {
            let filled = host
                .out
                .put_payload(socket, at, PAYLOAD, |_| Ok::<(), ()>(()));
            filled.unwrap();
            at += PAYLOAD as u64;
            host.send().unwrap();
            engine.receive().unwrap();
        }
        assert!(!engine.receive().unwrap());
        drop(host);
        let ended = engine.receive();
        let closed = matches!(ended, Err(LinkError::Stream(HandshakeError::Closed)));
        assert!(closed, "{ended:?}");
    }
}
