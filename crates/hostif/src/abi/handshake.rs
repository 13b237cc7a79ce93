//! What is said in the handshake: its messages and their bytes, and why it may fail.
//!
//! Owns [`Message`] and its parts; `transport::attach` sends and receives them.

use super::{Geometry, MAGIC, SocketId, Versions};
use rustix::io::Errno;

/// Bytes of a session's token.
pub const TOKEN_BYTES: usize = 16;
/// Signals that an owner of a socket may get.
pub const MOST_SIGNALS: u32 = 2;
/// Bytes of a message.
pub const MESSAGE_BYTES: usize = 64;
/// The environment variable with the session's token, in hexadecimal.
pub const SESSION_VARIABLE: &str = "LONGSHORE_SESSION";

/// A session's secret name: random, from the kernel's generator.
#[derive(Clone, Copy, Eq)]
pub struct Token(pub [u8; TOKEN_BYTES]);

impl PartialEq for Token {
    /// Takes as long whichever bytes differ: the time of a refusal says nothing about a token.
    fn eq(&self, other: &Self) -> bool {
        let bytes = self.0.iter().zip(other.0);
        let differing = bytes.fold(0, |differing, (a, b)| differing | (a ^ b));
        std::hint::black_box(differing) == 0
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(..)")
    }
}

impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl std::str::FromStr for Token {
    type Err = AttachError;
    fn from_str(s: &str) -> Result<Self, AttachError> {
        if s.len() != TOKEN_BYTES * 2 || !s.is_ascii() {
            return Err(AttachError::BadToken);
        }
        let mut bytes = [0; TOKEN_BYTES];
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte =
                u8::from_str_radix(&s[2 * i..2 * i + 2], 16).map_err(|_| AttachError::BadToken)?;
        }
        Ok(Self(bytes))
    }
}

/// Why the engine turned a process away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum Refusal {
    /// It has no version of the interface that both speak, or that the session has.
    Version = 1,
    /// It has no session of this token.
    UnknownSession = 2,
    /// The session has as many processes as it can.
    NoChannel = 3,
    /// The engine lacks memory or descriptors.
    NoResources = 4,
    /// The engine is going down.
    Draining = 5,
    /// The caller's user may not use this engine.
    NotAllowed = 6,
    /// A session has this token already.
    HasSession = 7,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Version => {
                "it speaks other versions of the interface; use a release that has one in common"
            }
            Self::UnknownSession => "it does not know this session; was the engine restarted?",
            Self::NoChannel => "the session has no room for another process",
            Self::NoResources => "it is out of memory or file descriptors",
            Self::Draining => "it is shutting down",
            Self::NotAllowed => "its configuration does not allow this user",
            Self::HasSession => "it has a session of this name already",
        })
    }
}

/// Why a session could not be joined.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// No connection to the engine.
    #[error("cannot reach the engine at {path}: {source}")]
    Unreachable {
        /// The socket's path.
        path: String,
        /// The kernel's reason.
        source: Errno,
    },
    /// The connection failed in the middle.
    #[error("the engine went away during the handshake: {0}")]
    Broken(Errno),
    /// The engine said no.
    #[error("the engine refused: {0}")]
    Refused(Refusal),
    /// What came is no message of this protocol.
    #[error("what answers there is not a Longshore engine")]
    NotAnEngine,
    /// The engine that listens there now is neither of the user of the one that is gone nor root's.
    #[error(
        "the engine at {path} is of user {uid}, and neither of that of the engine before nor root's"
    )]
    OtherUser {
        /// The socket's path.
        path: String,
        /// Its user.
        uid: u32,
    },
    /// The engine has given another number of doorbells than it has workers.
    #[error("the engine has {workers} workers and has given {doorbells} doorbells")]
    Doorbells {
        /// Doorbells that it gave.
        doorbells: u32,
        /// Workers that it has.
        workers: u32,
    },
    /// The token is not one.
    #[error("{SESSION_VARIABLE} is not a session token")]
    BadToken,
}

/// What a launcher wants of its session, beyond what the engine gives to all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SessionOptions {
    /// The congestion control of new sockets, by its place in
    /// [`CONGESTION_NAMES`](crate::CONGESTION_NAMES); none for the engine's choice.
    pub congestion: Option<u8>,
    /// Whether what is bound to the wildcard is bound on the kernel, too; none for the
    /// engine's choice.
    pub kernel_too: Option<bool>,
    /// All payload is to cross by itself, none with a descriptor
    /// ([`IMMEDIATE_DATA`](crate::Features::IMMEDIATE_DATA)).
    pub without_immediate_data: bool,
}

impl SessionOptions {
    fn encode(self) -> u64 {
        let congestion = self.congestion.map_or(0, |place| u64::from(place) + 1);
        let kernel_too = match self.kernel_too {
            None => 0,
            Some(false) => 1,
            Some(true) => 2,
        };
        congestion | kernel_too << 8 | u64::from(self.without_immediate_data) << 16
    }

    fn decode(word: u64) -> Result<Self, AttachError> {
        let congestion = match word & 0xff {
            0 => None,
            n if n as usize <= crate::CONGESTION_NAMES.len() => Some(n as u8 - 1),
            _ => return Err(AttachError::NotAnEngine),
        };
        let kernel_too = match word >> 8 & 0xff {
            0 => None,
            1 => Some(false),
            2 => Some(true),
            _ => return Err(AttachError::NotAnEngine),
        };
        let without_immediate_data = match word >> 16 {
            0 => false,
            1 => true,
            _ => return Err(AttachError::NotAnEngine),
        };
        Ok(SessionOptions {
            congestion,
            kernel_too,
            without_immediate_data,
        })
    }
}

/// What goes over the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message {
    /// A launcher asks for a session.
    NewSession(SessionOptions),
    /// The session's token.
    Session(Token),
    /// A process asks to join.
    Join(Token),
    /// It may: its channel and the arena's geometry; the arena and the doorbell
    /// come beside.
    Welcome(u32, Geometry),
    /// A program asks for an eventfd for this waiter. The engine answers with the same
    /// message and the eventfd beside it.
    Eventfd {
        /// The waiter that it wakes.
        waiter: u32,
        /// The program's mark of what it asks, which comes back.
        ask: u64,
    },
    /// Whoever owns this socket (F_SETOWN) is to get SIGURG, and SIGIO if there are two
    /// `signals`; nobody owns it any more if there are none. The engine answers with the
    /// same message and a Unix socket beside it for each signal, which becomes readable
    /// when the signal is due: the program has it raise the signal (O_ASYNC). A
    /// descriptor ([`Request::Owner`](crate::Request::Owner)) says that it does.
    Owner {
        /// The socket.
        socket: SocketId,
        /// Signals, at most [`MOST_SIGNALS`].
        signals: u32,
        /// The program's mark of what it asks, which comes back.
        ask: u64,
    },
    /// Whoever sends this, over a connection of its own, claims this channel of this
    /// session after a fork: its pid means nothing to the engine. Answered by
    /// [`Message::Known`].
    Child(Token, u32),
    /// The engine knows who claims the channel.
    Known,
    /// A program hands over a file, whose descriptor is beside this, to send ranges of it. The
    /// same comes back once the engine has it among the session's files.
    File {
        /// The program's mark of what it asks, which comes back.
        ask: u64,
    },
    /// The engine of a session is gone: its launcher asks the engine that has come for one of the
    /// same token, to which the processes that have it attach anew. Answered by
    /// [`Message::Session`]. It is a session of the launcher's user, beside those that other users
    /// have opened by the same token, and is not for their processes.
    Renew(Token, SessionOptions),
    /// No.
    Refused(Refusal),
}

impl Message {
    /// Its bytes, as this release says it.
    pub fn encode(&self) -> [u8; MESSAGE_BYTES] {
        self.encode_as(&Versions::OURS)
    }

    /// Its bytes, as one says it that speaks `versions`.
    pub fn encode_as(&self, versions: &Versions) -> [u8; MESSAGE_BYTES] {
        let mut w = [0u64; MESSAGE_BYTES / 8];
        let kind = self.encode_body(&mut w);
        (w[0], w[1]) = (MAGIC, kind | versions.encode());
        let mut bytes = [0; MESSAGE_BYTES];
        for (to, from) in bytes.chunks_exact_mut(8).zip(w) {
            to.copy_from_slice(&from.to_le_bytes());
        }
        bytes
    }

    /// Writes the words behind the first two; gives its kind.
    fn encode_body(&self, w: &mut [u64; MESSAGE_BYTES / 8]) -> u64 {
        let token = |w: &mut [u64; 8], t: &Token| {
            let n = u128::from_le_bytes(t.0);
            (w[2], w[3]) = (n as u64, (n >> 64) as u64);
        };
        match self {
            Self::NewSession(options) => {
                w[2] = options.encode();
                1
            }
            Self::Session(t) => {
                token(w, t);
                2
            }
            Self::Join(t) => {
                token(w, t);
                3
            }
            Self::Welcome(channel, g) => {
                w[2] = u64::from(*channel);
                w[3] = u64::from(g.channels) | u64::from(g.waiters) << 32;
                w[4] = u64::from(g.sockets) | u64::from(g.snd_chunks) << 32;
                w[5] = u64::from(g.rcv_chunks) | u64::from(g.workers) << 32;
                4
            }
            Self::Eventfd { waiter, ask } => {
                w[2] = u64::from(*waiter);
                w[3] = *ask;
                5
            }
            Self::Refused(why) => {
                w[2] = *why as u64;
                6
            }
            Self::Owner {
                socket,
                signals,
                ask,
            } => {
                w[2] = socket.encode();
                w[3] = *ask;
                w[4] = u64::from(*signals);
                7
            }
            Self::Child(t, channel) => {
                token(w, t);
                w[4] = u64::from(*channel);
                8
            }
            Self::Known => 9,
            Self::File { ask } => {
                w[3] = *ask;
                10
            }
            Self::Renew(t, options) => {
                token(w, t);
                w[4] = options.encode();
                11
            }
        }
    }

    /// Reads a message.
    ///
    /// # Errors
    /// [`Refusal::Version`] as [`AttachError::Refused`] if its sender speaks no version that
    /// this release does, [`AttachError::NotAnEngine`] if it is none.
    pub fn decode(bytes: &[u8]) -> Result<Self, AttachError> {
        Self::decode_as(bytes, &Versions::OURS).map(|(message, _)| message)
    }

    /// As `decode`, for one that speaks `ours`; says what its sender speaks, too.
    ///
    /// # Errors
    /// As [`Message::decode`].
    pub fn decode_as(bytes: &[u8], ours: &Versions) -> Result<(Self, Versions), AttachError> {
        let bytes: &[u8; MESSAGE_BYTES] = bytes.try_into().map_err(|_| AttachError::NotAnEngine)?;
        let mut w = [0u64; MESSAGE_BYTES / 8];
        for (to, from) in w.iter_mut().zip(bytes.chunks_exact(8)) {
            *to = u64::from_le_bytes(from.try_into().unwrap_or_default());
        }
        if w[0] != MAGIC {
            return Err(AttachError::NotAnEngine);
        }
        let theirs = Versions::decode(w[1]);
        if ours.agree(&theirs).is_none() {
            return Err(AttachError::Refused(Refusal::Version));
        }
        Ok((Self::decode_body(&w)?, theirs))
    }

    /// The message of these words, the second of which has its kind.
    fn decode_body(w: &[u64; MESSAGE_BYTES / 8]) -> Result<Self, AttachError> {
        let token = || Token((u128::from(w[2]) | u128::from(w[3]) << 64).to_le_bytes());
        Ok(match w[1] as u16 {
            1 => Self::NewSession(SessionOptions::decode(w[2])?),
            2 => Self::Session(token()),
            3 => Self::Join(token()),
            4 => Self::Welcome(
                w[2] as u32,
                Geometry {
                    channels: w[3] as u32,
                    waiters: (w[3] >> 32) as u32,
                    sockets: w[4] as u32,
                    snd_chunks: (w[4] >> 32) as u32,
                    rcv_chunks: w[5] as u32,
                    // An engine that knows of one alone says nothing of them.
                    workers: ((w[5] >> 32) as u32).max(1),
                },
            ),
            5 => Self::Eventfd {
                waiter: w[2] as u32,
                ask: w[3],
            },
            6 => Self::Refused(match w[2] {
                1 => Refusal::Version,
                2 => Refusal::UnknownSession,
                3 => Refusal::NoChannel,
                5 => Refusal::Draining,
                6 => Refusal::NotAllowed,
                7 => Refusal::HasSession,
                _ => Refusal::NoResources,
            }),
            7 => Self::Owner {
                socket: SocketId::decode(w[2]),
                ask: w[3],
                signals: u32::try_from(w[4])
                    .ok()
                    .filter(|n| *n <= MOST_SIGNALS)
                    .ok_or(AttachError::NotAnEngine)?,
            },
            8 => Self::Child(
                token(),
                u32::try_from(w[4]).map_err(|_| AttachError::NotAnEngine)?,
            ),
            9 => Self::Known,
            10 => Self::File { ask: w[3] },
            11 => Self::Renew(token(), SessionOptions::decode(w[4])?),
            _ => return Err(AttachError::NotAnEngine),
        })
    }
}
