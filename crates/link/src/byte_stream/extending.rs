//! The example of docs/extending.md, compiled and tried.
#![allow(unreachable_pub, reason = "it is a file of its own in the document")]

use super::{ByteStream, HandshakeError};
use std::os::fd::BorrowedFd;

/// Counts what another stream takes and brings.
#[derive(Debug)]
pub struct Counted<C> {
    stream: C,
    /// Bytes that went.
    pub sent: u64,
    /// Bytes that came.
    pub received: u64,
}

impl<C> Counted<C> {
    /// Stands on `stream`.
    pub fn new(stream: C) -> Counted<C> {
        Counted {
            stream,
            sent: 0,
            received: 0,
        }
    }
}

impl<C: ByteStream> ByteStream for Counted<C> {
    fn fd(&self) -> BorrowedFd<'_> {
        self.stream.fd()
    }

    fn receive(&mut self, to: &mut Vec<u8>) -> Result<bool, HandshakeError> {
        let before = to.len();
        let any = self.stream.receive(to)?;
        self.received += (to.len() - before) as u64;
        Ok(any)
    }

    fn send(&mut self, bytes: &[u8]) -> Result<usize, HandshakeError> {
        let taken = self.stream.send(bytes)?;
        self.sent += taken as u64;
        Ok(taken)
    }

    fn flush(&mut self) -> Result<bool, HandshakeError> {
        self.stream.flush()
    }
}

// The example ends here.

use super::tests::sockets;
use super::{Plain, READ};

#[test]
fn the_document_has_this_example() {
    let document = include_str!("../../../../docs/extending.md");
    let (_, here) = include_str!("extending.rs").split_once("\n\n").unwrap();
    let (example, _) = here.split_once("\n// The example ends here.").unwrap();
    let shown = format!("```rust,ignore\n{example}```");
    assert!(document.contains(&shown), "docs/extending.md has another");
}

#[test]
fn the_example_counts_what_is_carried() {
    let (a, b) = sockets();
    let [mut a, mut b] = [a, b].map(|fd| Counted::new(Plain::new(fd).unwrap()));
    let bytes: Vec<u8> = (0..200_000_u32).map(|i| i as u8).collect();
    let (mut at, mut got) = (0, Vec::with_capacity(READ));
    while got.len() < bytes.len() {
        at += a.send(&bytes[at..]).unwrap();
        a.flush().unwrap();
        b.receive(&mut got).unwrap();
    }
    assert!(got == bytes);
    assert_eq!((a.sent, b.received), (200_000, 200_000));
    assert_eq!((a.received, b.sent), (0, 0));
}
