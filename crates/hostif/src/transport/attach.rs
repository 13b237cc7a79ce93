//! The handshake by which a process joins a session: fixed messages over a
//! Unix socket (SOCK_SEQPACKET), descriptors beside them.
//!
//! A launcher asks for a new session and gets its token; a program that finds the token in its
//! environment joins and gets the arena, the doorbell and a channel. The connection stays open: a
//! child of `fork` inherits it, and both ask for eventfds over it, one after the other. Descriptors
//! go from the engine to programs; from programs come those of files alone ([`Message::File`]),
//! where the engine takes them: closing one that a program had made could hold up the engine. The
//! session ends when its launcher's connection is closed and its last process gone.

#[cfg(test)]
mod tests;

pub use crate::abi::handshake::{
    AttachError, MESSAGE_BYTES, MOST_SIGNALS, Message, Refusal, SESSION_VARIABLE, SessionOptions,
    TOKEN_BYTES, Token,
};

use crate::abi::{Geometry, MAX_WORKERS, Versions};
use longshore_ring::{is_confined, peer_credentials};
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

/// Descriptors beside a message, at most: the memory, and a doorbell for each worker.
pub const MOST_FDS: usize = 1 + MAX_WORKERS as usize;
/// The environment variable that names the engine's socket.
pub const ENGINE_VARIABLE: &str = "LONGSHORE_ENGINE";

/// How long a process that joins stays awake for the answer: as long as an engine that
/// was asleep takes.
const AWAKE_FOR: Duration = Duration::from_micros(200);

/// Receives a message of a program, for an engine that speaks `ours`, and no descriptors:
/// those that come beside it are closed by the kernel, in this thread, which may take as long
/// as their owner likes. Says what the program speaks, too.
///
/// # Errors
/// As [`receive`].
pub fn receive_from_program(
    connection: BorrowedFd<'_>,
    ours: &Versions,
) -> Result<(Message, Versions), AttachError> {
    let mut bytes = [0; MESSAGE_BYTES];
    let got = rustix::io::retry_on_intr(|| {
        rustix::net::recv(connection, &mut bytes[..], RecvFlags::DONTWAIT)
    });
    match got.map_err(AttachError::Broken)?.0 {
        0 => Err(AttachError::Broken(Errno::CONNRESET)),
        len => Message::decode_as(bytes.get(..len).unwrap_or_default(), ours),
    }
}

/// As `receive_from_program`, of a program that may hand files over: with the descriptors beside
/// the message.
///
/// # Errors
/// As [`receive`].
pub fn receive_with_files(
    connection: BorrowedFd<'_>,
    ours: &Versions,
) -> Result<(Message, Versions, Vec<OwnedFd>), AttachError> {
    let (bytes, len, fds) = receive_bytes(connection, RecvFlags::DONTWAIT)?;
    let (message, theirs) = Message::decode_as(bytes.get(..len).unwrap_or_default(), ours)?;
    Ok((message, theirs, fds))
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
    send_as(&Versions::OURS, connection, message, fds)
}

/// As `send`, of one that speaks `ours`.
///
/// # Errors
/// As [`send`].
pub fn send_as(
    ours: &Versions,
    connection: BorrowedFd<'_>,
    message: &Message,
    fds: &[BorrowedFd<'_>],
) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FDS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(fds));
    }
    let bytes = message.encode_as(ours);
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

/// As `receive`, without waiting: `WOULDBLOCK` if there is none.
///
/// # Errors
/// As [`receive`].
pub fn receive_now(connection: BorrowedFd<'_>) -> Result<(Message, Vec<OwnedFd>), AttachError> {
    receive_with(connection, RecvFlags::DONTWAIT)
}

/// As `receive_now`, for what is sent at once: to be woken takes longer than the answer, so this
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
    let (bytes, len, fds) = receive_bytes(connection, flags)?;
    Ok((Message::decode(bytes.get(..len).unwrap_or_default())?, fds))
}

/// The bytes of a message, how many there are, and the descriptors beside it.
fn receive_bytes(
    connection: BorrowedFd<'_>,
    flags: RecvFlags,
) -> Result<([u8; MESSAGE_BYTES], usize, Vec<OwnedFd>), AttachError> {
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
    Ok((bytes, got.bytes, fds))
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

/// The user of the engine at the other end of a connection, according to the kernel.
///
/// # Errors
/// [`AttachError::Broken`].
pub fn engine_user(connection: BorrowedFd<'_>) -> Result<u32, AttachError> {
    let engine = peer_credentials(connection).map_err(AttachError::Broken)?;
    Ok(engine.uid)
}

/// Connects to the engine that has come after one of user `predecessor`: one of the same user, or
/// root's. Any other that listens at the path by now is not told the session's token.
fn dial_successor(path: &Path, predecessor: u32) -> Result<OwnedFd, AttachError> {
    let connection = dial(path)?;
    match engine_user(connection.as_fd())? {
        uid if uid == 0 || uid == predecessor => Ok(connection),
        uid => Err(AttachError::OtherUser {
            path: path.display().to_string(),
            uid,
        }),
    }
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

/// Asks the engine that has come after the one of session `token`, which was of user `predecessor`
/// ([`engine_user`]), for that session anew, which its processes can then join. It lives as that of
/// [`new_session`].
///
/// # Errors
/// [`AttachError`]; [`AttachError::Broken`] too if the engine is of a release that knows of no such
/// request.
pub fn renew(
    path: &Path,
    token: Token,
    options: SessionOptions,
    predecessor: u32,
) -> Result<OwnedFd, AttachError> {
    let connection = dial_successor(path, predecessor)?;
    ask(connection.as_fd(), &Message::Renew(token, options))?;
    match receive(connection.as_fd())? {
        (Message::Session(theirs), _) if theirs == token => Ok(connection),
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
    /// The doorbell of the engine's first worker.
    pub doorbell: OwnedFd,
    /// Those of the others, in their order.
    pub further_doorbells: Vec<OwnedFd>,
    /// Where the engine is.
    pub engine: PathBuf,
    /// The session.
    pub token: Token,
}

impl Joined {
    /// Bytes of address space that the session's memory takes in this process.
    #[must_use]
    pub fn shared_bytes(&self) -> u64 {
        rustix::fs::fstat(&self.arena).map_or(0, |memory| memory.st_size.unsigned_abs())
    }
}

/// Joins a session.
///
/// # Errors
/// [`AttachError`].
pub fn join(path: &Path, token: Token) -> Result<Joined, AttachError> {
    join_by(dial(path)?, path, token)
}

/// As `join`, at the engine that has come after one of user `predecessor`.
///
/// # Errors
/// As [`join`]; [`AttachError::OtherUser`].
pub fn join_successor(path: &Path, token: Token, predecessor: u32) -> Result<Joined, AttachError> {
    join_by(dial_successor(path, predecessor)?, path, token)
}

fn join_by(connection: OwnedFd, path: &Path, token: Token) -> Result<Joined, AttachError> {
    ask(connection.as_fd(), &Message::Join(token))?;
    let (message, fds) = receive_soon(connection.as_fd())?;
    match message {
        Message::Welcome(channel, geometry) => {
            let mut fds = fds.into_iter();
            // The kernel leaves out those for which this process has no number.
            let (Some(arena), Some(doorbell)) = (fds.next(), fds.next()) else {
                return Err(AttachError::Broken(Errno::MFILE));
            };
            let further_doorbells: Vec<OwnedFd> = fds.collect();
            if !geometry.is_valid() || channel >= geometry.channels {
                return Err(AttachError::NotAnEngine);
            }
            let doorbells = 1 + further_doorbells.len() as u32;
            if doorbells != geometry.workers {
                let workers = geometry.workers;
                return Err(AttachError::Doorbells { doorbells, workers });
            }
            Ok(Joined {
                connection,
                channel,
                geometry,
                arena,
                doorbell,
                further_doorbells,
                engine: path.to_owned(),
                token,
            })
        }
        Message::Refused(why) => Err(AttachError::Refused(why)),
        _ => Err(AttachError::NotAnEngine),
    }
}
