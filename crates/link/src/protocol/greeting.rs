//! What the two ends begin with: the host's says what it speaks and wants, the engine's what it
//! gives, or why it gives nothing.

use super::fields::{BadMessage, Fields, put_words};
use longshore_hostif::attach::SessionOptions;
use longshore_hostif::{Agreed, CONGESTION_NAMES, Geometry, Versions};

/// The version of the protocol. Both ends have the same.
pub const VERSION: u16 = 1;
/// What a greeting begins with.
const MAGIC: u64 = u64::from_le_bytes(*b"LONGLINK");

/// What the host's end begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    /// The version of the protocol that it speaks.
    pub version: u16,
    /// The version of the host/adapter interface's descriptors.
    pub interface: u16,
    /// What it wants of its session.
    pub options: SessionOptions,
}

impl Hello {
    /// That of this release.
    #[must_use]
    pub fn ours(options: SessionOptions) -> Self {
        Self {
            version: VERSION,
            interface: Agreed::OURS.version,
            options,
        }
    }

    /// Whether this release can speak with the end that says it.
    #[must_use]
    pub fn is_understood(&self) -> bool {
        let interface = Agreed {
            version: self.interface,
            ..Agreed::OURS
        };
        self.version == VERSION && Versions::OURS.include(&interface)
    }
}

/// What the engine's end answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Welcome {
    /// How much a session of the engine has.
    pub geometry: Geometry,
    /// What is bound to the wildcard is bound on the engine alone.
    pub engine_alone: bool,
}

/// Why the engine's end serves nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[repr(u8)]
pub enum Refusal {
    /// It speaks another version.
    #[error("it speaks another version of the link's protocol; use one release for both")]
    Version = 1,
    /// The engine gives no session.
    #[error(
        "its engine gives no session: it is ending, has no resources left, or does not serve this user"
    )]
    Engine = 2,
    /// The session was over.
    #[error("the session has ended")]
    Over = 3,
    /// What came over the link made no sense.
    #[error("it did not understand what was sent")]
    Protocol = 4,
}

impl Refusal {
    pub(super) fn from_raw(raw: u8) -> Option<Self> {
        let all = [Self::Version, Self::Engine, Self::Over, Self::Protocol];
        all.into_iter().find(|r| *r as u8 == raw)
    }
}

impl Hello {
    pub(super) fn encode(&self, to: &mut Vec<u8>) {
        put_words(to, &[MAGIC]);
        to.extend(self.version.to_le_bytes());
        to.extend(self.interface.to_le_bytes());
        let kernel_too = self.options.kernel_too;
        to.push(self.options.congestion.map_or(0, |place| place + 1));
        to.push(kernel_too.map_or(0, |yes| 1 + u8::from(yes)));
    }

    pub(super) fn decode(fields: &mut Fields<'_>) -> Result<Self, BadMessage> {
        if fields.u64()? != MAGIC {
            return Err(fields.bad("magic"));
        }
        let (version, interface) = (fields.u16()?, fields.u16()?);
        let congestion = match fields.u8()? {
            0 => None,
            n if usize::from(n) <= CONGESTION_NAMES.len() => Some(n - 1),
            _ => return Err(fields.bad("congestion control")),
        };
        let kernel_too = match fields.u8()? {
            0 => None,
            1 => Some(false),
            2 => Some(true),
            _ => return Err(fields.bad("owner of wildcards")),
        };
        Ok(Self {
            version,
            interface,
            options: SessionOptions {
                congestion,
                kernel_too,
                ..SessionOptions::default()
            },
        })
    }
}

impl Welcome {
    pub(super) fn encode(&self, to: &mut Vec<u8>) {
        let g = &self.geometry;
        for n in [g.channels, g.waiters, g.sockets, g.snd_chunks, g.rcv_chunks] {
            to.extend(n.to_le_bytes());
        }
        to.push(u8::from(self.engine_alone));
    }

    pub(super) fn decode(fields: &mut Fields<'_>) -> Result<Self, BadMessage> {
        let geometry = Geometry {
            channels: fields.u32()?,
            waiters: fields.u32()?,
            sockets: fields.u32()?,
            snd_chunks: fields.u32()?,
            rcv_chunks: fields.u32()?,
            workers: 1,
        };
        if !geometry.is_valid() {
            return Err(fields.bad("geometry"));
        }
        Ok(Self {
            geometry,
            engine_alone: fields.flag("flag")?,
        })
    }
}
