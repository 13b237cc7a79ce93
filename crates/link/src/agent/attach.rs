//! Programs attach to the agent as they do to an engine: the Unix socket, and what they ask
//! over it. It serves the session of one `longshore run`, whose programs are of one user, or
//! root's, who may make them others'.

use super::Agent;
use longshore_hostif::agent::Peer;
use longshore_hostif::attach::{
    AttachError, Message, Refusal, Token, receive_from_program, send, turn_away,
};
use longshore_hostif::{SocketId, Versions};
use longshore_ring::{peer_credentials, peer_pidfd, refuse_descriptors};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, socket_with,
};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// Connections at most.
const MOST_CONNECTIONS: usize = 2048;

/// The socket at which programs attach, and their connections.
#[derive(Debug)]
pub(super) struct Attach {
    pub(super) listener: OwnedFd,
    connections: HashMap<u64, OwnedFd>,
    next: u64,
    token: Token,
    /// The connection of the launcher: the session lasts at least as long. None before it has
    /// come.
    launcher: Option<u64>,
    has_ended: bool,
}

/// The connection is over.
struct Over;

impl Attach {
    pub(super) fn listen(path: &Path) -> Result<Self, Errno> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let listener = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        bind(&listener, &SocketAddrUnix::new(path)?)?;
        // Nothing but a hold-up would come of those; before Linux 6.16 they are closed unread.
        let _ = refuse_descriptors(&listener);
        listen(&listener, 128)?;
        let mut token = [0; 16];
        rustix::rand::getrandom(&mut token, rustix::rand::GetRandomFlags::empty())?;
        Ok(Self {
            listener,
            connections: HashMap::new(),
            next: 0,
            token: Token(token),
            launcher: None,
            has_ended: false,
        })
    }

    /// Whether the launcher was there and has gone.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// The process that has started the agent says that the session is open, or has ended: one that has not
    /// come before will not.
    pub(super) fn starter_speaks(&mut self) {
        self.has_ended |= self.launcher.is_none();
    }

    /// Accepts a connection; its number, by which it is to be watched.
    pub(super) fn accept(&mut self) -> Option<(u64, BorrowedFd<'_>)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = accept_with(&self.listener, flags).ok()?;
        if self.connections.len() >= MOST_CONNECTIONS {
            turn_away(&fd, Refusal::NoResources);
            return None;
        }
        let number = self.next;
        self.next += 1;
        self.connections.insert(number, fd);
        let fd = self.connections.get(&number)?;
        Some((number, fd.as_fd()))
    }

    fn answer(&self, number: u64, message: &Message, fds: &[BorrowedFd<'_>]) {
        if let Some(fd) = self.connections.get(&number) {
            // What the program has no room for is lost.
            let _ = send(fd.as_fd(), message, fds);
        }
    }

    fn peer(&self, number: u64) -> Option<Peer> {
        let fd = self.connections.get(&number)?;
        let pid = peer_credentials(fd).map_or(0, |c| c.pid);
        let by_pid = || {
            let pid = i32::try_from(pid).ok().and_then(Pid::from_raw)?;
            pidfd_open(pid, PidfdFlags::empty()).ok()
        };
        let pidfd = peer_pidfd(fd).ok().or_else(by_pid);
        Some(Peer { pid, pidfd })
    }

    /// Whether it is the agent's own user that has connected.
    fn is_own(&self, number: u64) -> bool {
        let fd = self.connections.get(&number);
        let uid = fd.and_then(|fd| peer_credentials(fd).ok()).map(|c| c.uid);
        uid == Some(rustix::process::geteuid().as_raw())
    }
}

impl Agent {
    /// Reads a message of a connection and does what it asks.
    pub(super) fn serve_connection(&mut self, number: u64) {
        let Some(fd) = self.attach.connections.get(&number) else {
            return;
        };
        let done = match receive_from_program(fd.as_fd(), &Versions::OURS) {
            Ok((message, theirs)) => self.serve_attach(number, message, &theirs),
            Err(AttachError::Broken(Errno::AGAIN)) => Ok(()),
            Err(AttachError::Refused(why)) => {
                self.attach.answer(number, &Message::Refused(why), &[]);
                Err(Over)
            }
            Err(_) => Err(Over),
        };
        if done.is_err() {
            // Closing it ends its being watched, too.
            self.attach.connections.remove(&number);
            self.attach.has_ended |= self.attach.launcher == Some(number);
        }
    }

    fn serve_attach(
        &mut self,
        number: u64,
        message: Message,
        theirs: &Versions,
    ) -> Result<(), Over> {
        let answer = match message {
            Message::NewSession(_) if self.attach.is_own(number) => {
                if self.attach.launcher.is_some() {
                    Err(Refusal::NotAllowed)
                } else {
                    self.attach.launcher = Some(number);
                    Ok(Message::Session(self.attach.token))
                }
            }
            Message::NewSession(_) => Err(Refusal::NotAllowed),
            Message::Join(token) if token == self.attach.token => {
                self.join(number, theirs);
                return Ok(());
            }
            Message::Child(token, channel) if token == self.attach.token => self
                .register_child(number, channel)
                .map(|()| Message::Known),
            // A file is not over there.
            Message::File { .. } => Err(Refusal::NoResources),
            Message::Join(_) | Message::Child(..) => Err(Refusal::UnknownSession),
            Message::Eventfd { waiter, ask } => {
                let made = self.relay.session.make_eventfd(waiter, || Some(None));
                match made {
                    Some(fd) => {
                        let answer = Message::Eventfd { waiter, ask };
                        self.attach.answer(number, &answer, &[fd]);
                        return Ok(());
                    }
                    None => Err(Refusal::NoResources),
                }
            }
            Message::Owner {
                socket,
                signals,
                ask,
            } => {
                self.make_owner(number, socket, signals, ask);
                return Ok(());
            }
            // It ends with its session, and no other comes in its place.
            Message::Renew(..)
            | Message::Session(_)
            | Message::Welcome(..)
            | Message::Refused(_)
            | Message::Known => {
                return Err(Over);
            }
        };
        let answer = answer.unwrap_or_else(Message::Refused);
        self.attach.answer(number, &answer, &[]);
        Ok(())
    }

    fn make_owner(&mut self, number: u64, socket: SocketId, signals: u32, ask: u64) {
        let raises = self
            .relay
            .session
            .owners()
            .make(socket, signals, |_| Some(None));
        let answer = Message::Owner {
            socket,
            signals,
            ask,
        };
        self.attach.answer(number, &answer, &raises);
    }

    fn join(&mut self, number: u64, theirs: &Versions) {
        let refused = if !theirs.include(&self.relay.session.agreed()) {
            Some(Refusal::Version)
        } else {
            None
        };
        let joined = match refused {
            Some(why) => Err(why),
            None => self.admit(number),
        };
        match joined {
            Ok(channel) => {
                let geometry = *self.relay.session.geometry();
                let welcome = Message::Welcome(u32::from(channel), geometry);
                let fds = [self.relay.session.memory_fd(), self.doorbell.as_fd()];
                self.attach.answer(number, &welcome, &fds);
            }
            Err(why) => self.attach.answer(number, &Message::Refused(why), &[]),
        }
    }

    /// Gives a process that joins a channel. One that was there before is a new image of the
    /// same process: what the last one had said still counts.
    fn admit(&mut self, number: u64) -> Result<u16, Refusal> {
        // Its parent may have claimed a channel for it.
        self.take_claims();
        let peer = self.attach.peer(number).ok_or(Refusal::NoResources)?;
        let known = self.processes.channel_of(peer.pid);
        if let Some(channel) = known {
            self.take_last_requests(channel);
        }
        let admitted = self.processes.attach(peer).ok_or(Refusal::NoChannel)?;
        if let Some(name) = admitted.replaces {
            self.relay.session.wakeups.free_waiters_of(name);
        }
        self.relay.session.open_channel(admitted.channel);
        if known.is_none() {
            self.watch_process(admitted.channel);
        }
        Ok(admitted.channel)
    }

    fn register_child(&mut self, number: u64, channel: u32) -> Result<(), Refusal> {
        let peer = self.attach.peer(number).ok_or(Refusal::NoResources)?;
        if !self.processes.register_child(channel, peer) {
            return Err(Refusal::NoChannel);
        }
        // It may have claimed its channel before that was noticed here.
        if let Ok(channel) = u16::try_from(channel) {
            self.relay.session.pending.flag_channel(channel);
        }
        Ok(())
    }
}
