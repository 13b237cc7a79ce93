//! The fields of a body: how they are written, and taken from bytes that anybody may have sent.

use longshore_hostif::SocketId;

/// A body is not what its kind has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadMessage {
    /// There is no such kind.
    #[error("a message of unknown kind {0}")]
    Kind(u32),
    /// It is longer or shorter than its kind is.
    #[error("a message of kind {0} with {1} bytes")]
    Length(u32, usize),
    /// A field has a value that cannot be.
    #[error("a message of kind {0} with a bad {1}")]
    Field(u32, &'static str),
}

pub(super) fn put_socket(to: &mut Vec<u8>, socket: SocketId) {
    to.extend(socket.index.to_le_bytes());
    to.extend(socket.generation.to_le_bytes());
}

pub(super) fn put_words(to: &mut Vec<u8>, words: &[u64]) {
    to.extend(words.iter().flat_map(|w| w.to_le_bytes()));
}

/// The fields of a body, taken from its beginning.
pub(super) struct Fields<'a> {
    pub(super) kind: u32,
    pub(super) len: usize,
    pub(super) rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], BadMessage> {
        let (first, rest) = self
            .rest
            .split_first_chunk()
            .ok_or(BadMessage::Length(self.kind, self.len))?;
        self.rest = rest;
        Ok(*first)
    }

    pub(super) fn u8(&mut self) -> Result<u8, BadMessage> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub(super) fn u16(&mut self) -> Result<u16, BadMessage> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(super) fn u32(&mut self) -> Result<u32, BadMessage> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(super) fn u64(&mut self) -> Result<u64, BadMessage> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(super) fn flag(&mut self, name: &'static str) -> Result<bool, BadMessage> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(BadMessage::Field(self.kind, name)),
        }
    }

    pub(super) fn words<const N: usize>(&mut self) -> Result<[u64; N], BadMessage> {
        let mut words = [0; N];
        for word in &mut words {
            *word = self.u64()?;
        }
        Ok(words)
    }

    pub(super) fn socket(&mut self) -> Result<SocketId, BadMessage> {
        let (index, generation) = (self.u32()?, self.u32()?);
        Ok(SocketId { index, generation })
    }

    pub(super) fn all(&mut self, most: usize) -> Result<&'a [u8], BadMessage> {
        if self.rest.len() > most {
            return Err(BadMessage::Length(self.kind, self.len));
        }
        Ok(std::mem::take(&mut self.rest))
    }

    pub(super) fn end(self) -> Result<(), BadMessage> {
        match self.rest {
            [] => Ok(()),
            _ => Err(BadMessage::Length(self.kind, self.len)),
        }
    }

    pub(super) fn bad(&self, name: &'static str) -> BadMessage {
        BadMessage::Field(self.kind, name)
    }
}
