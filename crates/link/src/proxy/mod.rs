//! The engine's end of a link: the one process of a session of the real engine, which asks
//! for what programs elsewhere ask, writes what they write and says what they are told.
//!
//! [`Proxy`] joins the session and has the loop; `relay` has the sockets.

mod relay;

use crate::link::{Link, LinkError};
use crate::protocol::{Hello, Message, Refusal, Table, Welcome};
use longshore_hostif::attach::{self, AttachError};
use longshore_hostif::{ArenaError, HostChannel, HostSession, Route, StreamError};
use longshore_ring::{Corrupt, Doorbell, Sleep};
use relay::{Handled, Relay};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long to wait before a request is tried again that found no room.
const RETRY: Duration = Duration::from_millis(1);
/// What is to happen so soon is not slept for.
const IMMINENT: Duration = Duration::from_micros(20);
/// How often to look whether what closed sockets had sent is done with.
const CLOSING_EVERY: Duration = Duration::from_millis(10);
/// How often words are looked at that the engine changes without waking anybody, while
/// anything happens.
const WORDS_EVERY: Duration = Duration::from_millis(50);
/// How long what is still to go may take once the session is over.
const DELIVERY_LIMIT: Duration = Duration::from_secs(5);

/// Why the engine's end is over.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// The link.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The engine gives no session.
    #[error("the engine gives no session: {0}")]
    Attach(#[from] AttachError),
    /// The memory that it gave.
    #[error(transparent)]
    Memory(#[from] ArenaError),
    /// The engine has ended, or the session.
    #[error("the engine has ended the session")]
    EngineGone,
    /// The session's memory is not as it should be.
    #[error("the session's shared memory is broken")]
    Broken,
    /// The kernel.
    #[error("{0}")]
    System(#[from] Errno),
}

impl From<StreamError> for ProxyError {
    fn from(_: StreamError) -> Self {
        Self::Broken
    }
}

impl From<Corrupt> for ProxyError {
    fn from(_: Corrupt) -> Self {
        Self::Broken
    }
}

/// What the proxy has of the session.
struct Session {
    host: HostSession,
    channel: HostChannel,
    doorbell: Doorbell,
    /// Hangs up when the engine has died.
    connection: OwnedFd,
    /// The launcher's: the session ends when it is closed.
    _launcher: OwnedFd,
    /// What the proxy sleeps on.
    waiter: u32,
    wake_fd: OwnedFd,
}

/// The engine's end of a link.
pub struct Proxy {
    link: Link,
    session: Session,
    relay: Relay,
    /// What the host's end was told.
    table: Table,
    /// When words are looked at again, if anything has happened since they were.
    words_at: Instant,
    has_happened: bool,
    /// A message waits for room.
    waits: bool,
    is_over: bool,
}

impl Session {
    fn join(engine: &Path, hello: &Hello) -> Result<Self, ProxyError> {
        let (launcher, token) = attach::new_session(engine, hello.options)?;
        let joined = attach::join(engine, token)?;
        let (host, channel, connection, doorbell) = HostSession::open(joined)?;
        let name = host.name_of(channel.index());
        let waiter = host.waiters().claim(name, 0).ok_or(ProxyError::Broken)?;
        attach::send(
            connection.as_fd(),
            &attach::Message::Eventfd { waiter, ask: 1 },
            &[],
        )?;
        let (_, fds) = attach::receive(connection.as_fd())?;
        let wake_fd = fds.into_iter().next().ok_or(ProxyError::EngineGone)?;
        Ok(Self {
            host,
            channel,
            doorbell,
            connection,
            _launcher: launcher,
            waiter,
            wake_fd,
        })
    }

    fn table(&self) -> Table {
        let routes = self.host.routes();
        // The numbers of interfaces are those of another machine.
        let elsewhere = |route| Route { scope: 0, ..route };
        Table {
            routes: routes.iter().map(elsewhere).collect(),
            loopback: routes.loopback(),
            link_mtu: routes.mtu_of_link(),
            has_narrow_paths: routes.has_narrow_paths(),
            congestion: self.host.congestion(),
        }
    }
}

impl Proxy {
    /// Opens a session of the engine at this socket for the host's end of a link, which has
    /// said `hello`.
    ///
    /// # Errors
    /// [`ProxyError`]; the host's end was told.
    pub fn begin(mut link: Link, hello: &Hello, engine: &Path) -> Result<Self, ProxyError> {
        if !hello.is_understood() {
            link.refuse(Refusal::Version);
            return Err(LinkError::Refused(Refusal::Version).into());
        }
        let session = match Session::join(engine, hello) {
            Ok(session) => session,
            Err(error) => {
                link.refuse(Refusal::Engine);
                return Err(error);
            }
        };
        link.out.put(&Message::Welcome(Welcome {
            geometry: *session.host.geometry(),
            engine_alone: session.host.is_alone(),
        }));
        let table = session.table();
        link.out.put(&Message::Table(table.clone()));
        let relay = Relay::new(session.waiter);
        Ok(Self {
            link,
            session,
            relay,
            table,
            words_at: Instant::now(),
            has_happened: true,
            waits: false,
            is_over: false,
        })
    }

    /// Relays until the host's end has no programs any more. If the link breaks before that,
    /// the session's connections are reset.
    ///
    /// # Errors
    /// [`ProxyError`].
    pub fn run(mut self) -> Result<(), ProxyError> {
        let ended = loop {
            match self.turn() {
                Ok(()) if self.is_over => break Ok(()),
                Ok(()) => {}
                Err(error) => break Err(error),
            }
        };
        match &ended {
            Ok(()) | Err(ProxyError::EngineGone) => {
                if ended.is_err() {
                    self.link.refuse(Refusal::Over);
                }
                self.send_rest();
            }
            Err(error) => {
                if matches!(
                    error,
                    ProxyError::Link(LinkError::Frame(_) | LinkError::Claim(_))
                ) {
                    self.link.refuse(Refusal::Protocol);
                }
                let session = &mut self.session;
                self.relay
                    .reset_all(&session.host, &mut session.channel, &session.doorbell);
            }
        }
        ended
    }

    fn turn(&mut self) -> Result<(), ProxyError> {
        let woken = self.relay.take_completions(
            &self.session.host,
            &mut self.session.channel,
            &self.session.doorbell,
            &mut self.link.out,
        )?;
        let received = self.link.receive();
        let handled = self.handle_messages()?;
        if self.is_over {
            self.session.channel.publish(&self.session.doorbell, true);
            return Ok(());
        }
        let came = received?;
        self.relay.tell(&self.session.host, &mut self.link.out)?;
        self.look_at_words()?;
        self.session.channel.publish(&self.session.doorbell, true);
        self.link.send()?;
        if self.session.host.is_closed() {
            return Err(ProxyError::EngineGone);
        }
        if woken || came || handled {
            self.has_happened = true;
            return Ok(());
        }
        self.sleep()
    }

    /// Does what came, as far as there is room for what follows of it.
    fn handle_messages(&mut self) -> Result<bool, ProxyError> {
        let Self {
            link,
            session,
            relay,
            ..
        } = self;
        let mut any = false;
        self.waits = false;
        while !link.out.is_congested() && !self.is_over {
            let Some(message) = link.parser.peek().map_err(LinkError::from)? else {
                break;
            };
            let (host, channel) = (&session.host, &mut session.channel);
            match relay.handle(message, host, channel, &mut link.out)? {
                Handled::Done => link.parser.take(),
                Handled::NoRoom => {
                    self.waits = true;
                    break;
                }
                Handled::Over => self.is_over = true,
            }
            any = true;
        }
        Ok(any)
    }

    /// Looks at what the engine says by words, from time to time while anything happens.
    fn look_at_words(&mut self) -> Result<(), ProxyError> {
        let now = Instant::now();
        let (host, out) = (&self.session.host, &mut self.link.out);
        self.relay.look_at_closing(host, out);
        if !self.has_happened || now < self.words_at {
            return Ok(());
        }
        self.has_happened = false;
        self.words_at = now + WORDS_EVERY;
        let table = self.session.table();
        if table != self.table {
            self.link.out.put(&Message::Table(table.clone()));
            self.table = table;
        }
        self.relay.look_at_all_words(host, &mut self.link.out);
        Ok(())
    }

    fn sleep(&mut self) -> Result<(), ProxyError> {
        let until_next = self
            .link
            .next_at()
            .map(|at| at.saturating_duration_since(Instant::now()));
        if until_next.is_some_and(|left| left < IMMINENT) {
            // To sleep and to be woken takes as long.
            std::thread::yield_now();
            return Ok(());
        }
        let session = &mut self.session;
        let waiter = session.host.waiters().at(session.waiter);
        waiter.declare(Sleep::Eventfd);
        if session.channel.pending() {
            waiter.cancel();
            return Ok(());
        }
        let until_words = self.words_at.saturating_duration_since(Instant::now());
        let timeouts = [
            self.waits.then_some(RETRY),
            self.relay.is_closing_any().then_some(CLOSING_EVERY),
            self.has_happened.then_some(until_words),
            until_next.map(|left| left - IMMINENT),
        ];
        let timeout = timeouts.into_iter().flatten().min();
        let timeout = timeout.and_then(|t| Timespec::try_from(t).ok());
        let mut wants = PollFlags::empty();
        // What nothing is done with is left where it is.
        let takes = !self.waits && !self.link.out.is_congested() && self.link.wants_input();
        wants.set(PollFlags::IN, takes);
        wants.set(PollFlags::OUT, self.link.wants_room());
        let mut fds = [
            PollFd::new(&session.wake_fd, PollFlags::IN),
            PollFd::new(&session.connection, PollFlags::RDHUP),
            PollFd::from_borrowed_fd(self.link.fd(), wants),
        ];
        // A descriptor whose other end is closed is always ready.
        let watched = if wants.is_empty() && !self.waits {
            2
        } else {
            3
        };
        match poll(&mut fds[..watched], timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let rang = !fds[0].revents().is_empty();
        let hung_up = !fds[1].revents().is_empty();
        waiter.cancel();
        if rang {
            // Not to be woken again for the same; the engine's wake-up is a change by itself.
            let mut count = [0; 8];
            let _ = rustix::io::read(&session.wake_fd, &mut count);
            self.has_happened = true;
        }
        if hung_up {
            return Err(ProxyError::EngineGone);
        }
        Ok(())
    }

    /// Sends what is still to go.
    fn send_rest(&mut self) {
        let until = Instant::now() + DELIVERY_LIMIT;
        while self.link.send().is_ok() && !self.link.out.is_empty() && Instant::now() < until {
            self.link
                .wait(PollFlags::empty(), Duration::from_millis(100));
        }
    }
}
