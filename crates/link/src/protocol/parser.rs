//! Takes frames out of the bytes that come over a link.
//!
//! Owns [`Parser`], which a [`Link`](crate::link::Link) feeds with what its byte stream has received.

use super::fields::BadMessage;
use super::messages::{Message, PAYLOAD};

/// Bytes of a frame's header.
pub const FRAME_HEADER: usize = 8;
/// Bytes of the longest body: a piece of payload, with the socket that it is of and where it
/// belongs.
pub const LONGEST_BODY: usize = PAYLOAD + 16;

/// What came is no frame of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadFrame {
    /// It says that it is longer than any is.
    #[error("a frame of {0} bytes")]
    TooLong(u32),
    /// Its body is not what its kind has.
    #[error(transparent)]
    Message(#[from] BadMessage),
}

/// Bytes that came and were not taken yet: never more than the largest frame and what was
/// pushed last.
#[derive(Debug, Default)]
pub struct Parser {
    bytes: Vec<u8>,
    /// So many of them were taken.
    taken: usize,
}

impl Parser {
    /// Adds what came.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.taken == self.bytes.len() {
            self.bytes.clear();
            self.taken = 0;
        } else if self.taken > LONGEST_BODY {
            self.bytes.drain(..self.taken);
            self.taken = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Bytes that were not taken.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len() - self.taken
    }

    /// Whether all were.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The next message, if all of it is there. It is taken by [`Parser::take`]: whoever has no
    /// room for it looks at it again.
    ///
    /// # Errors
    /// [`BadFrame`]; nothing that follows means anything then.
    pub fn peek(&self) -> Result<Option<Message<'_>>, BadFrame> {
        let Some((kind, body)) = self.frame()? else {
            return Ok(None);
        };
        Ok(Some(Message::decode(kind, body)?))
    }

    /// Takes the message that [`Parser::peek`] gave.
    pub fn take(&mut self) {
        if let Ok(Some((_, body))) = self.frame() {
            self.taken += FRAME_HEADER + body.len();
        }
    }

    fn frame(&self) -> Result<Option<(u32, &[u8])>, BadFrame> {
        first_frame(self.bytes.get(self.taken..).unwrap_or_default())
    }
}

/// The kind and the body of the frame that these bytes begin with, if all of it is there.
///
/// # Errors
/// [`BadFrame::TooLong`].
pub fn first_frame(bytes: &[u8]) -> Result<Option<(u32, &[u8])>, BadFrame> {
    let Some((header, rest)) = bytes.split_first_chunk::<FRAME_HEADER>() else {
        return Ok(None);
    };
    let word = u64::from_le_bytes(*header);
    let (len, kind) = (word as u32, (word >> 32) as u32);
    if len as usize > LONGEST_BODY {
        return Err(BadFrame::TooLong(len));
    }
    Ok(rest.get(..len as usize).map(|body| (kind, body)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use longshore_hostif::SocketId;
    use proptest::prelude::*;

    const SOCKET: SocketId = SocketId {
        index: 3,
        generation: 9,
    };

    #[test]
    fn a_frame_that_is_too_long_is_refused_before_it_has_come() {
        let mut parser = Parser::default();
        parser.push(&(LONGEST_BODY as u64 + 1).to_le_bytes());
        assert_eq!(
            parser.peek(),
            Err(BadFrame::TooLong(LONGEST_BODY as u32 + 1))
        );
    }

    #[test]
    fn a_message_stays_until_it_is_taken() {
        let mut bytes = Vec::new();
        Message::Gone(SOCKET).encode(&mut bytes);
        Message::Bye.encode(&mut bytes);
        let mut parser = Parser::default();
        parser.push(&bytes);
        for _ in 0..2 {
            assert_eq!(parser.peek(), Ok(Some(Message::Gone(SOCKET))));
        }
        parser.take();
        assert_eq!(parser.peek(), Ok(Some(Message::Bye)));
        parser.take();
        assert_eq!(parser.peek(), Ok(None));
        assert!(parser.is_empty());
    }

    proptest! {
        /// However the bytes are cut, the messages are the same.
        #[test]
        fn messages_come_in_any_pieces(
            payloads in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 1..20),
            cuts in proptest::collection::vec(1usize..200, 1..50),
        ) {
            let mut bytes = Vec::new();
            for (at, payload) in payloads.iter().enumerate() {
                let socket = SOCKET;
                Message::Payload { socket, at: at as u64, bytes: payload }.encode(&mut bytes);
            }
            let (mut parser, mut got, mut cuts) = (Parser::default(), Vec::new(), cuts.iter().cycle());
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let (piece, after) = rest.split_at(rest.len().min(*cuts.next().unwrap()));
                parser.push(piece);
                rest = after;
                while let Some(message) = parser.peek().unwrap() {
                    if let Message::Payload { bytes, .. } = message {
                        got.push(bytes.to_vec());
                    }
                    parser.take();
                }
            }
            prop_assert_eq!(got, payloads);
            prop_assert!(parser.is_empty());
        }

        /// Whatever comes, it is messages or refused, and no more is kept than came.
        #[test]
        fn any_bytes_may_come(pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..100), 0..20)) {
            let mut parser = Parser::default();
            let mut pushed = 0;
            for piece in &pieces {
                parser.push(piece);
                pushed += piece.len();
                loop {
                    match parser.peek() {
                        Ok(Some(_)) => parser.take(),
                        Ok(None) => break,
                        Err(_) => return Ok(()),
                    }
                }
                prop_assert!(parser.len() <= pushed);
            }
        }
    }
}
