//! The thread that attaches programs: it accepts connections, reads what comes over them
//! with bounds on number, time and size, and makes new sessions.

use super::files::OfferedFiles;
use super::listener::{ListenError, Listener, Place};
use super::policy::{Policy, Terms};
use super::queue::{Ended, Inbox, Queue, queue};
use super::{Connection, Disposal, Dispose, Event};
use crate::reserve_fd::ReserveFd;
use crate::session::Session;
use crate::users::{Limits, Users, count, is_trusted};
use longshore_hostif::adapter::AdapterSession;
use longshore_hostif::agent::Peer;
use longshore_hostif::attach::{
    AttachError, Message, Refusal, SessionOptions, Token, receive_from_program, receive_with_files,
    turn_away,
};
use longshore_hostif::{Features, Geometry, Versions};
use longshore_ring::{Doorbell, accept_descriptors, peer_credentials, peer_pidfd};
use longshore_stack::Session as Half;
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Resource, getrlimit, pidfd_open};
use std::collections::{HashMap, VecDeque};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Connections at most.
const MOST_CONNECTIONS: u32 = 4096;
/// Of these, those that root and the engine's own user alone can have.
const FOR_TRUSTED: u32 = 512;
/// How long a connection may be open without a session.
const SILENT_FOR: Duration = Duration::from_secs(10);
/// How often the memory of users' sessions is looked at, while there are any.
const MEMORY_EVERY: Duration = Duration::from_secs(1);
/// Descriptors looked at in one call.
const READY: usize = 64;
/// Marks of what is no connection in the epoll instance.
const LISTENER: u64 = u64::MAX;
const STOP: u64 = u64::MAX - 1;

/// The socket, and a hold on the thread that serves it.
#[derive(Debug)]
pub(crate) struct Server {
    _place: Place,
    stop: Arc<OwnedFd>,
    pub(crate) inbox: Inbox,
    pub(crate) users: Arc<Users>,
    pub(crate) disposal: Disposal,
    terms: Terms,
    /// Programs cannot even send descriptors.
    pub(crate) refuses_descriptors: bool,
}

impl Drop for Server {
    fn drop(&mut self) {
        // Not waited for: a program may hold it up.
        let _ = rustix::io::write(&*self.stop, &1u64.to_ne_bytes());
    }
}

impl Server {
    /// Starts the thread that serves the socket.
    pub(crate) fn start(listener: Listener, policy: Policy) -> Result<Self, ListenError> {
        let Listener {
            place,
            fd: listener,
            refuses_descriptors,
        } = listener;
        let fail = |source| ListenError::Listen {
            path: place.0.clone(),
            source,
        };
        let of_io = |e: std::io::Error| Errno::from_io_error(&e).unwrap_or(Errno::IO);
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(fail)?;
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).map_err(fail)?);
        for (fd, mark) in [(&listener, LISTENER), (&*stop, STOP)] {
            let mark = epoll::EventData::new_u64(mark);
            epoll::add(&epoll, fd, mark, epoll::EventFlags::IN).map_err(fail)?;
        }
        let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(1 << 20);
        let users = Arc::new(Users::new(Limits::of_one(MOST_CONNECTIONS, descriptors)));
        let disposal = Disposal::start().map_err(ListenError::Threads)?;
        let (queue, inbox) = queue().map_err(of_io).map_err(fail)?;
        let terms = policy.terms.clone();
        let files = OfferedFiles::start(queue.clone()).map_err(ListenError::Threads)?;
        let mut thread = Thread {
            epoll,
            listener,
            policy,
            users: users.clone(),
            disposal: disposal.clone(),
            connections: HashMap::new(),
            without_session: VecDeque::new(),
            next: 0,
            memory_at: Instant::now(),
            reserve_fd: ReserveFd::new(),
            files,
            queue,
            _stop: stop.clone(),
        };
        std::thread::Builder::new()
            .name("attach".to_owned())
            .spawn(move || thread.run())
            .map_err(ListenError::Threads)?;
        Ok(Self {
            _place: place,
            stop,
            inbox,
            users,
            disposal,
            terms,
            refuses_descriptors,
        })
    }

    /// Whether programs of this user may attach, as far as that is set.
    pub(crate) fn is_listed(&self, uid: u32) -> bool {
        self.terms.lists(uid)
    }

    /// From now on programs of these users may attach, and new sessions have this much.
    pub(crate) fn set_terms(&self, users: Vec<u32>, geometry: Geometry) {
        self.terms
            .get(|set| (set.users, set.geometry) = (users, geometry));
    }

    /// From now on the engine speaks this with those that attach.
    pub(crate) fn set_versions(&self, versions: Versions) {
        self.terms.get(|set| set.versions = versions);
    }
}

/// The thread's own.
struct Thread {
    epoll: OwnedFd,
    listener: OwnedFd,
    policy: Policy,
    users: Arc<Users>,
    disposal: Disposal,
    connections: HashMap<u64, Arc<Connection>>,
    /// Connections in the order in which they were made, and until when they must have a
    /// session.
    without_session: VecDeque<(Instant, u64)>,
    next: u64,
    /// When memory is looked at next.
    memory_at: Instant,
    reserve_fd: ReserveFd,
    files: OfferedFiles,
    queue: Queue,
    /// What it is told to stop by: epoll says nothing of a descriptor that is closed everywhere.
    _stop: Arc<OwnedFd>,
}

/// A connection is over.
struct Over;

/// The token of a session to be opened, and whether the launcher has it of another engine.
struct Name {
    token: Token,
    is_renewed: bool,
}

impl Thread {
    fn run(&mut self) {
        let mut events = [MaybeUninit::<epoll::Event>::uninit(); READY];
        loop {
            let (Ok(silent), Ok(memory)) = (self.close_silent(), self.look_at_memory()) else {
                return;
            };
            let timeout = silent.into_iter().chain(memory).min();
            let timeout = timeout.and_then(|t| Timespec::try_from(t).ok());
            let ready = match epoll::wait(&self.epoll, &mut events, timeout.as_ref()) {
                Ok((ready, _)) => ready,
                Err(Errno::INTR) => continue,
                Err(_) => return,
            };
            for event in ready.iter() {
                let served = match event.data.u64() {
                    STOP => return,
                    LISTENER => {
                        self.accept();
                        Ok(())
                    }
                    number => self.serve(number),
                };
                if served.is_err() {
                    return;
                }
            }
        }
    }

    /// Closes connections that have had no session for too long; says when to look again.
    fn close_silent(&mut self) -> Result<Option<Duration>, Ended> {
        let now = Instant::now();
        while let Some((until, number)) = self.without_session.front().copied() {
            let may_stay = self
                .connections
                .get(&number)
                .is_none_or(|c| c.may_be_silent());
            if !may_stay && until > now {
                return Ok(Some(until - now));
            }
            self.without_session.pop_front();
            if !may_stay {
                count(&self.users.counts.silent);
                self.connections.remove(&number);
                // It may have asked for a session that the loop has not opened yet.
                self.queue.put(Event::Gone(number))?;
            }
        }
        Ok(None)
    }

    /// Has sessions end whose users' take more memory than they may; says when to look
    /// again.
    fn look_at_memory(&mut self) -> Result<Option<Duration>, Ended> {
        let now = Instant::now();
        if self.memory_at > now {
            return Ok(Some(self.memory_at - now));
        }
        if !self.users.any_with_memory() {
            return Ok(None);
        }
        for session in self.users.overdrawn() {
            self.queue.put(Event::Overdrawn(session))?;
        }
        self.memory_at = now + MEMORY_EVERY;
        Ok(Some(MEMORY_EVERY))
    }

    fn accept(&mut self) {
        let turn_away = |fd: OwnedFd, why| turn_away(&fd, why);
        let full = |fd| turn_away(fd, Refusal::NoResources);
        let Some(fd) = self.reserve_fd.accept(&self.listener, full) else {
            return;
        };
        let Ok(peer) = peer_credentials(&fd) else {
            return;
        };
        let counts = &self.users.counts;
        if !self.policy.may_attach(peer.uid) {
            count(&counts.not_allowed);
            return turn_away(fd, Refusal::NotAllowed);
        }
        let most = if is_trusted(peer.uid) {
            MOST_CONNECTIONS
        } else {
            MOST_CONNECTIONS - FOR_TRUSTED
        };
        if self.connections.len() >= most as usize {
            count(&counts.all_connections);
            return turn_away(fd, Refusal::NoResources);
        }
        let user = self.users.get(peer.uid);
        let Some(share) = user.take_connection() else {
            return turn_away(fd, Refusal::NoResources);
        };
        if Policy::takes_files_of(peer.uid) {
            // Where they are not refused, they are accepted already.
            let _ = accept_descriptors(&fd);
        }
        let number = self.next;
        self.next += 1;
        let mark = epoll::EventData::new_u64(number);
        if epoll::add(&self.epoll, &fd, mark, epoll::EventFlags::IN).is_err() {
            return turn_away(fd, Refusal::NoResources);
        }
        let connection = Connection {
            fd: Dispose::new(fd, &self.disposal),
            number,
            user,
            speaks: self.policy.terms.get(|set| set.versions),
            _share: share,
            membership: std::sync::OnceLock::new(),
            may_be_silent: std::sync::atomic::AtomicBool::new(false),
        };
        self.connections.insert(number, Arc::new(connection));
        self.without_session
            .push_back((Instant::now() + SILENT_FOR, number));
        // A process that connects sends at once what it wants.
        let _ = self.serve(number);
    }

    /// Reads one message of a connection: the others come round again, after those of
    /// others.
    fn serve(&mut self, number: u64) -> Result<(), Ended> {
        let Some(connection) = self.connections.get(&number).cloned() else {
            return Ok(());
        };
        let fd = connection.fd.as_fd();
        let received = if Policy::takes_files_of(connection.user.uid) {
            receive_with_files(fd, &connection.speaks)
        } else {
            receive_from_program(fd, &connection.speaks).map(|(m, theirs)| (m, theirs, Vec::new()))
        };
        let handled = match received {
            Ok((message, theirs, fds)) => self.handle_message(&connection, message, theirs, fds)?,
            Err(AttachError::Broken(Errno::AGAIN)) => Ok(()),
            Err(AttachError::Refused(why)) => {
                connection.answer(&Message::Refused(why), &[]);
                Err(Over)
            }
            Err(_) => Err(Over),
        };
        if handled.is_err() {
            // It is closed when the loop has let go of it, too, and not looked at before.
            let _ = epoll::delete(&self.epoll, connection.fd.as_fd());
            self.connections.remove(&number);
            self.queue.put(Event::Gone(number))?;
        }
        Ok(())
    }

    fn handle_message(
        &self,
        connection: &Arc<Connection>,
        message: Message,
        theirs: Versions,
        fds: Vec<OwnedFd>,
    ) -> Result<Result<(), Over>, Ended> {
        let ours = connection.clone();
        let fds = match message {
            Message::File { .. } => fds,
            _ => {
                self.close(fds);
                Vec::new()
            }
        };
        let event = match message {
            Message::NewSession(wanted) => {
                let named = fresh_token().map(|token| Name {
                    token,
                    is_renewed: false,
                });
                return self.open(named, ours, &theirs, wanted);
            }
            Message::Renew(token, wanted) => {
                let named = Ok(Name {
                    token,
                    is_renewed: true,
                });
                return self.open(named, ours, &theirs, wanted);
            }
            Message::Join(token) => Event::Join(token, theirs, peer_of(connection), ours),
            Message::Child(token, channel) => {
                Event::Child(token, channel, peer_of(connection), ours)
            }
            Message::Eventfd { waiter, ask } => Event::Eventfd(waiter, ask, ours),
            Message::Owner {
                socket,
                signals,
                ask,
            } => Event::Owner(socket, signals, ask, ours),
            Message::File { ask } => {
                self.close(self.files.offer((fds, ask, ours)));
                return Ok(Ok(()));
            }
            Message::Session(_) | Message::Welcome(..) | Message::Refused(_) | Message::Known => {
                return Ok(Err(Over));
            }
        };
        self.queue.put(event)?;
        Ok(Ok(()))
    }

    /// Closes what a program has sent and nobody wants.
    fn close(&self, fds: Vec<OwnedFd>) {
        if !fds.is_empty() {
            self.disposal.take(fds);
        }
    }

    /// Makes a session of this name, which the loop is to take in, or says why not.
    fn open(
        &self,
        name: Result<Name, Refusal>,
        connection: Arc<Connection>,
        theirs: &Versions,
        wanted: SessionOptions,
    ) -> Result<Result<(), Over>, Ended> {
        let made = name.and_then(|name| self.new_session(name, &connection, theirs, wanted));
        match made {
            Ok(session) => {
                let event = Event::New(Box::new(session), wanted, connection);
                self.queue.put(event)?;
            }
            Err(why) => connection.answer(&Message::Refused(why), &[]),
        }
        Ok(Ok(()))
    }

    /// Makes a session, which the loop has yet to take in.
    fn new_session(
        &self,
        name: Name,
        connection: &Arc<Connection>,
        theirs: &Versions,
        wanted: SessionOptions,
    ) -> Result<(Session, Half), Refusal> {
        static SERIAL: AtomicU64 = AtomicU64::new(1);
        let user = &connection.user;
        if !self.policy.may_open(user.uid) {
            return Err(Refusal::NotAllowed);
        }
        let share = user.take_session().ok_or(Refusal::NoResources)?;
        if user.overdrawn().is_some() {
            return Err(Refusal::NoResources);
        }
        let geometry = self.policy.terms.get(|set| set.geometry);
        let signaler = self.policy.signaler.clone();
        let mut agreed = connection.speaks.agree(theirs).ok_or(Refusal::Version)?;
        if !Policy::takes_files_of(user.uid) {
            agreed.features.remove(Features::FILES);
        }
        if wanted.without_immediate_data {
            agreed.features.remove(Features::IMMEDIATE_DATA);
        }
        let host = AdapterSession::create_for(geometry, agreed, signaler);
        let host = host.map_err(|_| Refusal::NoResources)?;
        let doorbell = Doorbell::new().map_err(|_| Refusal::NoResources)?;
        let mut session = Session::new(name.token, &host, doorbell, user.uid);
        session.is_renewed = name.is_renewed;
        session.serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        user.note_memory(session.serial, host.memory());
        session.user = Some(user.clone());
        session.share = Some(share);
        session.launcher = Some(connection.number);
        let mut half = Half::new(host, user.uid);
        half.account = Some(user.account.clone());
        Ok((session, half))
    }
}

/// A token that nobody has.
fn fresh_token() -> Result<Token, Refusal> {
    let mut token = [0; 16];
    let made = rustix::rand::getrandom(&mut token, rustix::rand::GetRandomFlags::empty());
    made.map(|_| Token(token)).map_err(|_| Refusal::NoResources)
}

/// The process that has made a connection.
fn peer_of(connection: &Connection) -> Peer {
    let pid = peer_credentials(connection.fd.as_fd()).map_or(0, |c| c.pid);
    let by_pid = || {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw)?;
        pidfd_open(pid, PidfdFlags::empty()).ok()
    };
    let pidfd = peer_pidfd(connection.fd.as_fd()).ok().or_else(by_pid);
    Peer { pid, pidfd }
}

#[cfg(test)]
mod tests;
