//! The handshake by which a process joins a session: fixed messages over a
//! Unix socket (SOCK_SEQPACKET), descriptors beside them.
//!
//! A launcher asks for a new session and gets its token; a program that finds
//! the token in its environment joins and gets the arena, the doorbell and a
//! channel. The connection stays open: a child of `fork` inherits it, and both ask
//! for eventfds over it, one after the other. Descriptors go from the engine to
//! programs alone: closing one that a program had made could hold up the engine. The
//! session ends when its launcher's connection is closed and its last process gone.

use crate::layout::ABI_VERSION;
use crate::{Geometry, SocketId, layout::MAGIC};
use longshore_ring::is_confined;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recvmsg,
    sendmsg, socket_with,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Bytes of a session's token.
pub const TOKEN_BYTES: usize = 16;
/// Descriptors beside a message, at most.
pub const MOST_FDS: usize = 4;
/// Signals that an owner of a socket may get.
pub const MOST_SIGNALS: u32 = 2;
/// Bytes of a message.
pub const MESSAGE_BYTES: usize = 64;
/// The environment variable that names the engine's socket.
pub const ENGINE_VARIABLE: &str = "LONGSHORE_ENGINE";
/// The environment variable with the session's token, in hexadecimal.
pub const SESSION_VARIABLE: &str = "LONGSHORE_SESSION";

/// How long a process that joins stays awake for the answer: as long as an engine that
/// was asleep takes.
const AWAKE_FOR: Duration = Duration::from_micros(200);

/// A session's secret name.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Token(pub [u8; TOKEN_BYTES]);

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
    /// It has another version of the interface.
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
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Version => "it has another version of the interface",
            Self::UnknownSession => "it does not know this session; was the engine restarted?",
            Self::NoChannel => "the session has no room for another process",
            Self::NoResources => "it is out of memory or file descriptors",
            Self::Draining => "it is shutting down",
            Self::NotAllowed => "its configuration does not allow this user",
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
    /// What is bound to the wildcard is bound on the engine alone, and not on the kernel
    /// beside it.
    pub engine_alone: bool,
}

impl SessionOptions {
    fn encode(self) -> u64 {
        let congestion = self.congestion.map_or(0, |place| u64::from(place) + 1);
        congestion | u64::from(self.engine_alone) << 8
    }

    fn decode(word: u64) -> Result<Self, AttachError> {
        let congestion = match word & 0xff {
            0 => None,
            n if n as usize <= crate::CONGESTION_NAMES.len() => Some(n as u8 - 1),
            _ => return Err(AttachError::NotAnEngine),
        };
        Ok(SessionOptions {
            congestion,
            engine_alone: word & 0x100 != 0,
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
    /// message, the eventfd's name and the eventfd beside it.
    Eventfd {
        /// The waiter that it wakes.
        waiter: u32,
        /// The program's mark of what it asks, which comes back.
        ask: u64,
        /// The name that the engine gives the eventfd; 0 in what is asked.
        name: u32,
    },
    /// This waiter is woken by the eventfd of this name, which the engine made for
    /// another waiter. Not answered.
    SameEventfd {
        /// The waiter.
        waiter: u32,
        /// The eventfd's name.
        name: u32,
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
    /// No.
    Refused(Refusal),
}

impl Message {
    /// Its bytes.
    pub fn encode(&self) -> [u8; MESSAGE_BYTES] {
        let mut w = [0u64; MESSAGE_BYTES / 8];
        w[0] = MAGIC;
        let token = |w: &mut [u64; 8], t: &Token| {
            let n = u128::from_le_bytes(t.0);
            (w[2], w[3]) = (n as u64, (n >> 64) as u64);
        };
        let kind: u64 = match self {
            Self::NewSession(options) => {
                w[2] = options.encode();
                1
            }
            Self::Session(t) => {
                token(&mut w, t);
                2
            }
            Self::Join(t) => {
                token(&mut w, t);
                3
            }
            Self::Welcome(channel, g) => {
                w[2] = u64::from(*channel);
                w[3] = u64::from(g.channels) | u64::from(g.waiters) << 32;
                w[4] = u64::from(g.sockets) | u64::from(g.snd_chunks) << 32;
                w[5] = u64::from(g.rcv_chunks);
                4
            }
            Self::Eventfd { waiter, ask, name } => {
                w[2] = u64::from(*waiter) | u64::from(*name) << 32;
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
                w[2] = u64::from(socket.index) | u64::from(socket.generation) << 32;
                w[3] = *ask;
                w[4] = u64::from(*signals);
                7
            }
            Self::Child(t, channel) => {
                token(&mut w, t);
                w[4] = u64::from(*channel);
                8
            }
            Self::SameEventfd { waiter, name } => {
                w[2] = u64::from(*waiter) | u64::from(*name) << 32;
                9
            }
            Self::Known => 10,
        };
        w[1] = kind | u64::from(ABI_VERSION) << 32;
        let mut bytes = [0; MESSAGE_BYTES];
        for (to, from) in bytes.chunks_exact_mut(8).zip(w) {
            to.copy_from_slice(&from.to_le_bytes());
        }
        bytes
    }

    /// Reads a message.
    ///
    /// # Errors
    /// [`Refusal::Version`] as [`AttachError::Refused`] if it is of another
    /// version, [`AttachError::NotAnEngine`] if it is none.
    pub fn decode(bytes: &[u8]) -> Result<Self, AttachError> {
        let bytes: &[u8; MESSAGE_BYTES] = bytes.try_into().map_err(|_| AttachError::NotAnEngine)?;
        let mut w = [0u64; MESSAGE_BYTES / 8];
        for (to, from) in w.iter_mut().zip(bytes.chunks_exact(8)) {
            *to = u64::from_le_bytes(from.try_into().unwrap_or_default());
        }
        if w[0] != MAGIC {
            return Err(AttachError::NotAnEngine);
        }
        if (w[1] >> 32) as u32 != ABI_VERSION {
            return Err(AttachError::Refused(Refusal::Version));
        }
        let token = || Token((u128::from(w[2]) | u128::from(w[3]) << 64).to_le_bytes());
        Ok(match w[1] as u32 {
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
                },
            ),
            5 => Self::Eventfd {
                waiter: w[2] as u32,
                name: (w[2] >> 32) as u32,
                ask: w[3],
            },
            6 => Self::Refused(match w[2] {
                1 => Refusal::Version,
                2 => Refusal::UnknownSession,
                3 => Refusal::NoChannel,
                5 => Refusal::Draining,
                6 => Refusal::NotAllowed,
                _ => Refusal::NoResources,
            }),
            7 => Self::Owner {
                socket: SocketId {
                    index: w[2] as u32,
                    generation: (w[2] >> 32) as u32,
                },
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
            9 => Self::SameEventfd {
                waiter: w[2] as u32,
                name: (w[2] >> 32) as u32,
            },
            10 => Self::Known,
            _ => return Err(AttachError::NotAnEngine),
        })
    }
}

/// Receives a message of a program, and no descriptors: those that come beside it are
/// closed by the kernel, in this thread, which may take as long as their owner likes.
///
/// # Errors
/// As [`receive`].
pub fn receive_from_program(connection: BorrowedFd<'_>) -> Result<Message, AttachError> {
    let mut bytes = [0; MESSAGE_BYTES];
    let got = rustix::io::retry_on_intr(|| {
        rustix::net::recv(connection, &mut bytes[..], RecvFlags::DONTWAIT)
    });
    match got.map_err(AttachError::Broken)?.0 {
        0 => Err(AttachError::Broken(Errno::CONNRESET)),
        len => Message::decode(&bytes[..len]),
    }
}

/// Sends a message with descriptors beside it, never blocking for long.
///
/// # Errors
/// The kernel's.
pub fn send(
    connection: BorrowedFd<'_>,
    message: &Message,
    fds: &[BorrowedFd<'_>],
) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(fds));
    }
    let bytes = message.encode();
    let flags = SendFlags::NOSIGNAL;
    rustix::io::retry_on_intr(|| {
        sendmsg(connection, &[IoSlice::new(&bytes)], &mut control, flags)
    })?;
    Ok(())
}

/// Receives a message and at most [`MOST_FDS`] descriptors.
///
/// # Errors
/// [`AttachError::Broken`] with the kernel's reason (`WOULDBLOCK` on a
/// non-blocking connection without a message, `CONNRESET` at its end), or what
/// [`Message::decode`] says.
pub fn receive(connection: BorrowedFd<'_>) -> Result<(Message, Vec<OwnedFd>), AttachError> {
    receive_with(connection, RecvFlags::empty())
}

/// The same, without waiting: `WOULDBLOCK` if there is none.
///
/// # Errors
/// As [`receive`].
pub fn receive_now(connection: BorrowedFd<'_>) -> Result<(Message, Vec<OwnedFd>), AttachError> {
    receive_with(connection, RecvFlags::DONTWAIT)
}

/// The same for what is sent at once: to be woken takes longer than the answer, so this
/// gives way to whoever prepares it for a while before it sleeps.
fn receive_soon(connection: BorrowedFd<'_>) -> Result<(Message, Vec<OwnedFd>), AttachError> {
    let began = Instant::now();
    while !is_confined() && began.elapsed() < AWAKE_FOR {
        match receive_with(connection, RecvFlags::DONTWAIT) {
            Err(AttachError::Broken(Errno::AGAIN)) => rustix::thread::sched_yield(),
            other => return other,
        }
    }
    receive(connection)
}

fn receive_with(
    connection: BorrowedFd<'_>,
    flags: RecvFlags,
) -> Result<(Message, Vec<OwnedFd>), AttachError> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [0; MESSAGE_BYTES];
    let got = rustix::io::retry_on_intr(|| {
        let mut parts = [IoSliceMut::new(&mut bytes)];
        recvmsg(
            connection,
            &mut parts,
            &mut control,
            flags | RecvFlags::CMSG_CLOEXEC,
        )
    })
    .map_err(AttachError::Broken)?;
    let mut fds = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    if got.bytes == 0 {
        return Err(AttachError::Broken(Errno::CONNRESET));
    }
    Ok((Message::decode(&bytes[..got.bytes])?, fds))
}

/// Connects to the engine's socket.
///
/// # Errors
/// [`AttachError::Unreachable`].
pub fn dial(path: &Path) -> Result<OwnedFd, AttachError> {
    let fail = |source| AttachError::Unreachable {
        path: path.display().to_string(),
        source,
    };
    let fd = socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )
    .map_err(fail)?;
    connect(&fd, &SocketAddrUnix::new(path).map_err(fail)?).map_err(fail)?;
    Ok(fd)
}

/// Sends the first message. An engine that [`turn_away`]s may have done so before that: then
/// the pipe is broken, and the refusal there to be read.
fn ask(connection: BorrowedFd<'_>, message: &Message) -> Result<(), AttachError> {
    match send(connection, message, &[]) {
        Ok(()) | Err(Errno::PIPE) => Ok(()),
        Err(errno) => Err(AttachError::Broken(errno)),
    }
}

/// Refuses a connection, which does not block, that is to be closed then, whether or not it
/// has said what it wants.
pub fn turn_away(connection: &OwnedFd, why: Refusal) {
    // What is unread when a connection is closed has the kernel throw the answer away.
    let _ = rustix::net::shutdown(connection, rustix::net::Shutdown::Read);
    let mut bytes = [0; MESSAGE_BYTES];
    while let Ok((1.., _)) = rustix::net::recv(connection, &mut bytes, RecvFlags::DONTWAIT) {}
    let _ = send(connection.as_fd(), &Message::Refused(why), &[]);
}

/// Asks for a new session. The session lives at least as long as the
/// connection that is returned.
///
/// # Errors
/// [`AttachError`].
pub fn new_session(path: &Path, options: SessionOptions) -> Result<(OwnedFd, Token), AttachError> {
    let connection = dial(path)?;
    ask(connection.as_fd(), &Message::NewSession(options))?;
    match receive(connection.as_fd())? {
        (Message::Session(token), _) => Ok((connection, token)),
        (Message::Refused(why), _) => Err(AttachError::Refused(why)),
        _ => Err(AttachError::NotAnEngine),
    }
}

/// Tells the engine, over a connection of its own, that this process claims `channel` of
/// the session, and waits until it knows.
///
/// # Errors
/// [`AttachError`].
pub fn claim(path: &Path, token: Token, channel: u32) -> Result<(), AttachError> {
    let connection = dial(path)?;
    ask(connection.as_fd(), &Message::Child(token, channel))?;
    match receive_soon(connection.as_fd())?.0 {
        Message::Known => Ok(()),
        Message::Refused(why) => Err(AttachError::Refused(why)),
        _ => Err(AttachError::NotAnEngine),
    }
}

/// What a process gets when it joins.
#[derive(Debug)]
pub struct Joined {
    /// The connection, to be kept open.
    pub connection: OwnedFd,
    /// Its channel, with empty rings.
    pub channel: u32,
    /// The arena's geometry.
    pub geometry: Geometry,
    /// The arena's memory.
    pub arena: OwnedFd,
    /// The engine's doorbell.
    pub doorbell: OwnedFd,
    /// Where the engine is.
    pub engine: PathBuf,
    /// The session.
    pub token: Token,
}

/// Joins a session.
///
/// # Errors
/// [`AttachError`].
pub fn join(path: &Path, token: Token) -> Result<Joined, AttachError> {
    let connection = dial(path)?;
    ask(connection.as_fd(), &Message::Join(token))?;
    let (message, fds) = receive_soon(connection.as_fd())?;
    match message {
        Message::Welcome(channel, geometry) => {
            let [arena, doorbell]: [OwnedFd; 2] =
                fds.try_into().map_err(|_| AttachError::NotAnEngine)?;
            if !geometry.is_valid() || channel >= geometry.channels {
                return Err(AttachError::NotAnEngine);
            }
            Ok(Joined {
                connection,
                channel,
                geometry,
                arena,
                doorbell,
                engine: path.to_owned(),
                token,
            })
        }
        Message::Refused(why) => Err(AttachError::Refused(why)),
        _ => Err(AttachError::NotAnEngine),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn messages_come_back() {
        let all = [
            Message::NewSession(SessionOptions::default()),
            Message::NewSession(SessionOptions {
                congestion: Some(2),
                engine_alone: true,
            }),
            Message::Session(Token([7; 16])),
            Message::Join(Token([9; 16])),
            Message::Welcome(3, Geometry::DEFAULT),
            Message::Eventfd {
                waiter: 12,
                ask: u64::MAX,
                name: 7,
            },
            Message::SameEventfd { waiter: 8, name: 3 },
            Message::Owner {
                socket: SocketId {
                    index: 3,
                    generation: 4,
                },
                signals: 2,
                ask: 1 << 40,
            },
            Message::Child(Token([5; 16]), 9),
            Message::Known,
            Message::Refused(Refusal::Draining),
        ];
        for m in all {
            assert_eq!(Message::decode(&m.encode()).unwrap(), m);
        }
    }

    #[test]
    fn another_version_is_told_apart() {
        let mut bytes = Message::NewSession(SessionOptions::default()).encode();
        bytes[12] ^= 1;
        assert!(matches!(
            Message::decode(&bytes),
            Err(AttachError::Refused(Refusal::Version))
        ));
    }

    #[test]
    #[cfg_attr(miri, ignore = "it has no sockets of packets")]
    fn who_is_turned_away_is_told_why_whenever_he_asks() {
        use rustix::net::socketpair;
        for early in [true, false] {
            let (ours, theirs) = socketpair(
                AddressFamily::UNIX,
                SocketType::SEQPACKET,
                SocketFlags::CLOEXEC,
                None,
            )
            .unwrap();
            if early {
                ask(
                    ours.as_fd(),
                    &Message::NewSession(SessionOptions::default()),
                )
                .unwrap();
            }
            turn_away(&theirs, Refusal::NoResources);
            drop(theirs);
            if !early {
                ask(
                    ours.as_fd(),
                    &Message::NewSession(SessionOptions::default()),
                )
                .unwrap();
            }
            let (answer, _) = receive(ours.as_fd()).unwrap();
            assert_eq!(answer, Message::Refused(Refusal::NoResources), "{early}");
        }
    }

    #[test]
    fn tokens_are_printed_and_read() {
        let token = Token(std::array::from_fn(|i| i as u8 * 11));
        assert_eq!(token.to_string().parse::<Token>().unwrap(), token);
        assert!("xyz".parse::<Token>().is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = Message::decode(&bytes);
        }
    }
}
