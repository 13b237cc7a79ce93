//! The host's end of a link: programs attach to it by shared memory, and it has their sockets
//! done by the engine at the other end.
//!
//! | file | what it has |
//! | --- | --- |
//! | `attach` | the Unix socket at which programs join, and what they ask over it |
//! | `sockets` | what it keeps of each socket |
//! | `requests` | what programs ask |
//! | `relay` | the link and the session: what is asked is sent on, with what programs write |
//! | `deliver` | what the engine's end says: placed and told |
//! | `ends` | processes that end, and closing what nobody has any more |
//!
//! One thread does all of it, in turns: it takes what programs and the link have, sends what
//! the link takes, publishes, wakes those that sleep, and sleeps.

mod attach;
mod deliver;
mod ends;
mod relay;
mod requests;
mod sockets;

use crate::link::{Link, LinkError};
use crate::protocol::{Hello, Message};
use attach::Attach;
use longshore_hostif::adapter::{AdapterSession, UnderWay};
use longshore_hostif::agent::{InTransit, Processes};
use longshore_hostif::attach::SessionOptions;
use longshore_hostif::{ArenaError, CHUNK, Route};
use longshore_ring::{Doorbell, EventfdSignaler};
use relay::Relay;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use std::mem::MaybeUninit;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes of a chunk of a stream.
const CHUNK_BYTES: u64 = CHUNK as u64;
/// Threads that are woken in one turn.
const WOKEN_A_TURN: usize = 256;
/// How often processes are looked at that nothing tells of, while there may be some.
const CARE_EVERY: Duration = Duration::from_millis(100);
/// How long to wait before a channel is looked at again whose process takes no answers.
const STALLED_FOR: Duration = Duration::from_millis(1);
/// How long what programs had sent last may take over the link when they are gone.
const DELIVERY_LIMIT: Duration = Duration::from_secs(60);
/// Marks of what is watched: connections have their numbers.
const LINK: u64 = u64::MAX;
const LISTENER: u64 = u64::MAX - 1;
const DOORBELL: u64 = u64::MAX - 2;
const STARTER: u64 = u64::MAX - 3;
/// Above this a channel, whose process has ended.
const PROCESS: u64 = 1 << 48;

/// Why the host's end is over.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The link.
    #[error("the link to the engine is broken: {0}")]
    Link(#[from] LinkError),
    /// The session's memory.
    #[error(transparent)]
    Memory(#[from] ArenaError),
    /// The kernel.
    #[error("the host's end of the link cannot {0}: {1}")]
    System(&'static str, Errno),
}

/// The host's end of a link.
pub struct Agent {
    relay: Relay,
    epoll: OwnedFd,
    /// The link is watched for room, too.
    watches_room: bool,
    /// The process that has started this has said something, or ended.
    starter_has_ended: bool,
    attach: Attach,
    /// Programs ring it when the agent sleeps.
    doorbell: Doorbell,
    processes: Processes,
    in_transit: InTransit,
    /// Channels whose processes take no answers.
    stalled: Vec<u16>,
    care_at: Instant,
    began: Instant,
    /// What the engine reached when this began.
    routes: Vec<Route>,
}

impl Agent {
    /// Greets the engine's end of a link, and makes the session, which programs join at the
    /// Unix socket `path`.
    ///
    /// # Errors
    /// [`AgentError`].
    pub fn begin(mut link: Link, options: SessionOptions, path: &Path) -> Result<Self, AgentError> {
        link.out.put(&Message::Hello(Hello::ours(options)));
        let welcome = link.wait_for(|message| match message {
            Message::Welcome(welcome) => Some(Ok(welcome)),
            Message::Refused(why) => Some(Err(why.into())),
            _ => None,
        })?;
        let signaler = Arc::new(EventfdSignaler::for_one());
        let session = AdapterSession::create(welcome.geometry, signaler)?;
        session.header().set_engine_alone(welcome.engine_alone);
        let table = link.wait_for(|message| match message {
            Message::Table(table) => Some(Ok(table)),
            Message::Refused(why) => Some(Err(why.into())),
            _ => None,
        })?;
        let system = |what| move |errno| AgentError::System(what, errno);
        let doorbell =
            Doorbell::new().map_err(|_| AgentError::System("make a doorbell", Errno::MFILE))?;
        let attach = Attach::listen(path).map_err(system("listen for programs"))?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(system("watch"))?;
        let uid = rustix::process::geteuid().as_raw();
        let agent = Self {
            processes: Processes::of(&session, uid),
            relay: Relay::new(link, session),
            epoll,
            watches_room: false,
            starter_has_ended: false,
            attach,
            doorbell,
            in_transit: InTransit::default(),
            stalled: Vec::new(),
            care_at: Instant::now(),
            began: Instant::now(),
            routes: table.routes.clone(),
        };
        agent.relay.set_table(&table);
        for (fd, mark) in [
            (agent.relay.link.fd(), LINK),
            (agent.attach.listener.as_fd(), LISTENER),
            (agent.doorbell.as_fd(), DOORBELL),
        ] {
            agent.watch(fd, mark).map_err(system("watch"))?;
        }
        Ok(agent)
    }

    /// The engine's own addresses, with their prefixes.
    #[must_use]
    pub fn addresses(&self) -> Vec<(IpAddr, u8)> {
        let own = self.routes.iter().filter(|route| route.local);
        own.map(|route| (route.address, route.prefix_len)).collect()
    }

    fn watch(&self, fd: BorrowedFd<'_>, mark: u64) -> Result<(), Errno> {
        let mark = epoll::EventData::new_u64(mark);
        epoll::add(&self.epoll, fd, mark, epoll::EventFlags::IN)
    }

    /// Serves until no program is left, or the link breaks: then programs find their engine
    /// gone. The process that has started this hangs up on `starter` if it ends before it has
    /// opened the session, and then there is nobody to serve.
    ///
    /// # Errors
    /// [`AgentError`].
    pub fn run(mut self, starter: &OwnedFd) -> Result<(), AgentError> {
        self.watch(starter.as_fd(), STARTER)
            .map_err(|e| AgentError::System("watch", e))?;
        let ended = loop {
            match self.turn(starter) {
                Ok(()) if self.is_finished() => break self.send_bye(),
                Ok(()) => {}
                Err(error) => break Err(error),
            }
        };
        self.relay.session.header().mark_closed();
        self.relay.session.wake_everybody();
        ended
    }

    fn turn(&mut self, starter: &OwnedFd) -> Result<(), AgentError> {
        let came = self.relay.link.receive();
        let handled = self.relay.handle_messages()?;
        came?;
        let took = self.take_requests();
        self.take_care();
        self.relay.hand_over_waiting()?;
        self.publish();
        self.relay.link.send()?;
        // What was sent just now, or cared for, may have been the last of it, and then nothing wakes
        // this any more.
        if !took && !handled && !self.is_finished() {
            self.sleep()?;
        } else {
            self.take_events(Some(Duration::ZERO))?;
        }
        if std::mem::take(&mut self.starter_has_ended) {
            let _ = epoll::delete(&self.epoll, starter);
            self.attach.starter_speaks();
        }
        Ok(())
    }

    fn publish(&mut self) {
        self.relay.session.publish();
        self.relay.session.wake(WOKEN_A_TURN);
        self.relay.session.release_requests(UnderWay::Nothing);
    }

    /// Sleeps until something is to be done.
    fn sleep(&mut self) -> Result<(), AgentError> {
        let is_held_up = self.relay.link.out.is_congested();
        self.relay.session.pending.declare_asleep();
        let timeout = if self.relay.session.owes_wakeups()
            || (!is_held_up && self.relay.session.still_has_requests())
        {
            Some(Duration::ZERO)
        } else {
            let now = Instant::now();
            let left = |at: Instant| at.saturating_duration_since(now);
            let unused = self.relay.session.wakeups.unused_eventfds_at();
            let timeouts = [
                (!self.stalled.is_empty()).then_some(STALLED_FOR),
                self.relay.next_idle().map(left),
                self.wants_care().then(|| left(self.care_at)),
                unused.map(|at| left(self.began + Duration::from_micros(at))),
            ];
            timeouts.into_iter().flatten().min()
        };
        let slept = self.take_events(timeout);
        self.relay.session.pending.declare_awake();
        for channel in std::mem::take(&mut self.stalled) {
            self.relay.session.pending.flag_channel(channel);
        }
        slept
    }

    fn take_events(&mut self, timeout: Option<Duration>) -> Result<(), AgentError> {
        let wants_room = self.relay.link.wants_room();
        if wants_room != self.watches_room {
            self.watches_room = wants_room;
            let mut flags = epoll::EventFlags::IN;
            flags.set(epoll::EventFlags::OUT, wants_room);
            let mark = epoll::EventData::new_u64(LINK);
            epoll::modify(&self.epoll, self.relay.link.fd(), mark, flags)
                .map_err(|e| AgentError::System("watch", e))?;
        }
        let mut events = [MaybeUninit::<epoll::Event>::uninit(); 64];
        let timeout = timeout.and_then(|t| Timespec::try_from(t).ok());
        let ready = match epoll::wait(&self.epoll, &mut events, timeout.as_ref()) {
            Ok((ready, _)) => ready,
            Err(Errno::INTR) => return Ok(()),
            Err(errno) => return Err(AgentError::System("sleep", errno)),
        };
        for event in ready.iter() {
            match event.data.u64() {
                LINK => {}
                STARTER => self.starter_has_ended = true,
                DOORBELL => self.doorbell.clear(),
                LISTENER => self.accept_connection(),
                mark if mark >= PROCESS => self.process_ended((mark - PROCESS) as u16),
                number => self.serve_connection(number),
            }
        }
        Ok(())
    }

    fn accept_connection(&mut self) {
        let epoll = &self.epoll;
        let Some((number, fd)) = self.attach.accept() else {
            return;
        };
        let mark = epoll::EventData::new_u64(number);
        // One that cannot be watched is served as far as it has said what it wants.
        let _ = epoll::add(epoll, fd, mark, epoll::EventFlags::IN);
        self.serve_connection(number);
    }

    /// Sees to it that the death of a process is noticed.
    fn watch_process(&self, channel: u16) {
        if let Some(fd) = self.processes.pidfd(channel) {
            // Without that the kernel is asked from time to time.
            let _ = self.watch(fd, PROCESS + u64::from(channel));
        }
    }

    /// Whether no program is left, and all that they had is closed.
    fn is_finished(&self) -> bool {
        self.attach.has_ended()
            && !self.processes.are_any()
            && self.relay.has_sent_all()
            && self.relay.sockets.is_empty()
    }

    /// Says that nothing follows, and waits until that and all before it has gone.
    fn send_bye(&mut self) -> Result<(), AgentError> {
        self.relay.link.out.put(&Message::Bye);
        let until = Instant::now() + DELIVERY_LIMIT;
        loop {
            self.relay.link.send()?;
            let left = until.saturating_duration_since(Instant::now());
            if self.relay.link.out.is_empty() || left.is_zero() {
                return Ok(());
            }
            // What comes in is of no interest any more, but in the way of what goes.
            self.take_events(Some(left))?;
            self.relay.link.receive()?;
            while self
                .relay
                .link
                .parser
                .peek()
                .map_err(LinkError::from)?
                .is_some()
            {
                self.relay.link.parser.take();
            }
        }
    }
}
