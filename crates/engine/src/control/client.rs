//! A client of the control socket: who it is, its question so far, and what is left of the
//! answer to it. The server in `server.rs` calls it when its socket is ready.

use super::{ControlReply, ControlRequest};
use rustix::io::Errno;
use std::os::fd::OwnedFd;

/// The longest question, in bytes.
const LONGEST_QUESTION: usize = 1024;

/// The user that asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asker {
    /// Its user.
    pub uid: u32,
}

impl Asker {
    /// The user that the engine runs as.
    pub(crate) fn own_user() -> Self {
        let uid = rustix::process::geteuid().as_raw();
        Self { uid }
    }

    /// Root and the engine's own user see everybody's sockets; others see their own.
    pub fn sees_all(self) -> bool {
        self.uid == 0 || self == Self::own_user()
    }
}

#[derive(Debug)]
pub(super) struct Client {
    pub(super) fd: OwnedFd,
    pub(super) asker: Asker,
    /// When it was last active, as the server counts it.
    pub(super) activity: u64,
    question: Vec<u8>,
    answer: Vec<u8>,
    /// Bytes of the answer that are gone.
    written: usize,
}

/// Answers a client why its request is refused.
pub(super) fn turn_away(fd: OwnedFd, why: &str) {
    // Its question would be lost with the connection, and the answer with that.
    let _ = rustix::net::shutdown(&fd, rustix::net::Shutdown::Read);
    let mut client = Client::new(fd, Asker { uid: u32::MAX }, 0);
    let _ = client.receive();
    client.leave(why);
}

impl Client {
    /// A client with nothing asked yet; `activity` orders it among the others.
    pub(super) fn new(fd: OwnedFd, asker: Asker, activity: u64) -> Self {
        Self {
            fd,
            asker,
            activity,
            question: Vec::new(),
            answer: Vec::new(),
            written: 0,
        }
    }

    /// Whether the next thing that it can do is to ask; else it has an answer to take.
    pub(super) fn waits_for_question(&self) -> bool {
        self.answer.is_empty() && !self.question.contains(&b'\n')
    }

    /// Says why there is no answer, as far as it can be written, and closes.
    pub(super) fn leave(mut self, why: &str) {
        if self.answer.is_empty() {
            let message = why.to_owned();
            let reply = ControlReply::Error { message };
            self.answer = serde_json::to_vec(&reply).unwrap_or_default();
            self.answer.push(b'\n');
        }
        self.write_answer();
    }

    /// Does what can be done for the client now: one question at most. False if
    /// it is gone.
    pub(super) fn serve(
        &mut self,
        answer: &mut dyn FnMut(Asker, ControlRequest) -> ControlReply,
    ) -> bool {
        if self.answer.is_empty() {
            let Some(end) = (match self.receive() {
                Ok(end) => end,
                Err(()) => return false,
            }) else {
                return true;
            };
            let line: Vec<u8> = self.question.drain(..=end).collect();
            let reply = match serde_json::from_slice(&line) {
                Ok(request) => answer(self.asker, request),
                Err(error) => ControlReply::Error {
                    message: format!("this engine does not understand the question: {error}"),
                },
            };
            if serde_json::to_writer(&mut self.answer, &reply).is_err() {
                return false;
            }
            self.answer.push(b'\n');
        }
        self.write_answer()
    }

    /// Reads what is there; the end of the first line, if there is a whole one.
    fn receive(&mut self) -> Result<Option<usize>, ()> {
        let whole = |q: &[u8]| q.iter().position(|b| *b == b'\n');
        if let Some(end) = whole(&self.question) {
            return Ok(Some(end));
        }
        let mut bytes = [0; LONGEST_QUESTION];
        match rustix::io::read(&self.fd, &mut bytes) {
            Ok(0) => return Err(()),
            Ok(n) => self.question.extend_from_slice(&bytes[..n]),
            Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
            Err(_) => return Err(()),
        }
        let end = whole(&self.question);
        if end.is_none() && self.question.len() > LONGEST_QUESTION {
            return Err(());
        }
        Ok(end)
    }

    /// Writes what can be written. False if the client is gone.
    fn write_answer(&mut self) -> bool {
        use rustix::net::{SendFlags, send};
        while self.written < self.answer.len() {
            match send(&self.fd, &self.answer[self.written..], SendFlags::NOSIGNAL) {
                Ok(n) => self.written += n,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return true,
                Err(_) => return false,
            }
        }
        self.answer.clear();
        self.written = 0;
        true
    }
}
