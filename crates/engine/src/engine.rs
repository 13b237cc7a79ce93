//! The engine: one single-threaded closed loop over packets, requests, timers
//! and what comes of them.
//!
//! Owns everything that the other files of this crate work on. [`Engine::turn`]
//! is the loop's body, and its list of stages is the design of this crate;
//! [`Engine::run`] repeats it and sleeps between.

use crate::adjust::Orders;
use crate::attach::{ListenError, Policy, Server, Terms};
use crate::control::{ControlError, ControlServer};
use crate::counters::{Counters, EngineDrop};
use crate::demux::{Demux, Flow};
use crate::inlet::Inlet;
use crate::link::Link;
use crate::listeners::Listeners;
use crate::routing::AddressError;
use crate::session::Session;
use crate::slab::Slab;
use crate::sleep::Sleeper;
use crate::socket::Socket;
use crate::strangers::Strangers;
use crate::time::Clock;
use crate::timers::Wheel;
use longshore_hostif::{Geometry, Loopback};
use longshore_net::Cidr;
use longshore_net::fragment::{Limits, Reassembler};
use longshore_ports::{Port, PortError, RecvBuffer};
use longshore_ring::Ringer;
use longshore_tcp::{EcnMode, Instant};
use longshore_wire::ipv6::Ipv6Header;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How an engine is set up.
pub struct Config {
    /// Where its packets go.
    pub port: Box<dyn Port>,
    /// What the port is called, as `tap:longshore0`, for those who ask.
    pub port_name: String,
    /// Its addresses, each with the prefix it is in: at most one of IPv4, any number
    /// of IPv6 up to 15. With one of IPv6 it also has a link-local one.
    pub addresses: Vec<Cidr>,
    /// Addresses and routers that it finds itself.
    pub automatic: crate::automatic::Automatic,
    /// The routers to everywhere else, at most one for each version of IP; without one
    /// the engine reaches its own prefixes and leaves the rest to the kernel.
    pub gateways: Vec<IpAddr>,
    /// The number of its port's interface in its programs' kernel, by which they name
    /// it in link-local addresses; 0 if it has none there.
    pub scope: u32,
    /// Who has 127.0.0.0/8 and ::1.
    pub loopback: Loopback,
    /// Connections between two of its own sockets pass their bytes on without
    /// building packets.
    pub cut_through: bool,
    /// Where programs find it.
    pub socket: PathBuf,
    /// Where `stat` and `ss` find it.
    pub control: Option<PathBuf>,
    /// How much each session can have of everything.
    pub geometry: Geometry,
    /// End when the last session has ended.
    pub private: bool,
    /// Programs of other users may join the sessions of a private engine: its user is root,
    /// whose programs may become theirs.
    pub others_may_join: bool,
    /// The users whose programs may use it; empty for everybody who can open
    /// the socket.
    pub users: Vec<u32>,
    /// How long to look for work before sleeping.
    pub spin: Duration,
    /// How long connections may go on after the engine was told to stop.
    pub grace: Duration,
}

/// Why an engine cannot be made or go on.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// Its socket.
    #[error(transparent)]
    Attach(#[from] ListenError),
    /// Its control socket.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// Its own descriptors.
    #[error("the engine cannot set up its event loop: {0}")]
    Events(#[from] rustix::io::Errno),
    /// The port is gone.
    #[error("the engine's port failed: {0}")]
    Port(PortError),
    /// Its addresses.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// Nobody has given it an address.
    #[error("{0}")]
    NoAddress(crate::automatic::Missing),
    /// ECN is off, or in one of five modes.
    #[error("the mode {0} of ECN is not from 0 to 5")]
    Ecn(u8),
}

/// The engine.
pub struct Engine {
    pub(crate) clock: Clock,
    /// The time of this turn.
    pub(crate) now: Instant,
    pub(crate) link: Link,
    pub(crate) sockets: Slab<Socket>,
    pub(crate) sessions: Slab<Session>,
    pub(crate) demux: Demux,
    /// What servers have shown of Fast Open.
    pub(crate) fast_open: longshore_tcp::FastOpenCache,
    /// Deadlines of sockets, and of what is left of those in TIME-WAIT.
    pub(crate) wheel: Wheel<u32>,
    pub(crate) time_waits: Wheel<Flow>,
    /// Sockets to be looked at at the end of this turn.
    pub(crate) dirty: Vec<u32>,
    /// Sessions whose sockets have their turn again.
    pub(crate) waiting_sessions: std::collections::VecDeque<u32>,
    /// What ended processes held and is not yet let go of.
    pub(crate) burials: crate::burial::Burials,
    /// Connections that were denied memory for what they receive.
    pub(crate) starved: std::collections::VecDeque<u32>,
    /// Connections that wait for their next hop.
    pub(crate) unresolved: Vec<u32>,
    pub(crate) reassembler: Reassembler,
    pub(crate) reassembler6: Reassembler<Ipv6Header>,
    pub(crate) icmp_limit: longshore_net::icmp::RateLimit,
    pub(crate) counters: Counters,
    /// Attaches programs.
    pub(crate) attach: Server,
    pub(crate) sleeper: Sleeper,
    pub(crate) orders: Orders,
    /// What wakes programs that sleep in poll may be held up.
    may_wait: bool,
    pub(crate) loopback: Loopback,
    pub(crate) scope: u32,
    pub(crate) cut_through: bool,
    pub(crate) private: bool,
    pub(crate) had_session: bool,
    /// Set when no new sessions are let in.
    pub(crate) draining: bool,
    pub(crate) grace: Duration,
    pub(crate) drain_by: Instant,
    pub(crate) housekeeping_at: Instant,
    /// When channels are looked at again whose processes took no answers.
    pub(crate) stalled_until: Instant,
    /// What the session that is being served may still have of this turn.
    pub(crate) share: crate::requests::Share,
    /// A request of this turn may have taken long.
    pub(crate) slow_request: bool,
    /// Which session is served first.
    pub(crate) first_session: u32,
    pub(crate) control: Option<ControlServer>,
    /// Says something to who runs it.
    pub(crate) notice: fn(&str),
    /// What its port is called.
    pub(crate) port_name: String,
    /// Where new sockets' settings come from, if not from our defaults.
    pub(crate) host_settings: Option<crate::sysctl::HostSettings>,
    /// What the operator says of ECN, whatever the host's settings are.
    pub(crate) ecn: Option<EcnMode>,
    /// Who may reach what.
    pub(crate) access: crate::access::Access,
    /// And of the congestion control of new sockets.
    pub(crate) congestion: Option<longshore_tcp::Congestion>,
    /// Connections and their peers tell each other of user timeouts.
    pub(crate) user_timeout_option: bool,
    /// What crossed in sessions that have ended.
    pub(crate) past_meter: longshore_hostif::Meter,
    /// What keeps it from doing more than it needs, in words.
    pub(crate) sandbox: String,
    /// Out of its place while a turn receives.
    rx: Option<RecvBuffer>,
    pub(crate) inlet: Inlet,
    pub(crate) strangers: Strangers,
    due: Vec<u32>,
    /// What was asked in this turn and not yet answered.
    pub(crate) questions: Vec<crate::requests::Question>,
    /// What is to be bound at the end of this turn.
    pub(crate) late_binds: Vec<crate::requests::LateBind>,
    over: Vec<Flow>,
    /// A datagram that is put together, to be cut in another way.
    pub(crate) whole: Vec<u8>,
}

impl Engine {
    /// Makes an engine and lets programs attach.
    ///
    /// # Errors
    /// [`EngineError`]: the socket's path is taken, descriptors ran out, or the
    /// addresses cannot be.
    pub fn new(config: Config) -> Result<Self, EngineError> {
        let listeners = Listeners::bind(&config.socket, config.control.as_deref())?;
        Self::at(listeners, config)
    }

    /// The same with sockets that are bound already: what that needed may have been given
    /// up since.
    ///
    /// # Errors
    /// As [`Engine::new`].
    pub fn at(listeners: Listeners, config: Config) -> Result<Self, EngineError> {
        let clock = Clock::new();
        let now = clock.now();
        let loopback = config.loopback == Loopback::Engine;
        let link = Link::new(
            config.port,
            &config.addresses,
            &config.gateways,
            &config.automatic,
            loopback,
            now,
        )?;
        let ringer = Arc::new(if config.private {
            Ringer::for_one()
        } else {
            Ringer::for_many()
        });
        let may_wait = ringer.may_wait();
        let policy = Policy {
            terms: Terms::new(config.users, config.geometry),
            private: config.private,
            others_may_join: config.others_may_join,
            ringer,
        };
        let Listeners { attach, control } = listeners;
        let attach = Server::start(attach, policy)?;
        let orders = Orders::new()?;
        let sleeper = Sleeper::new(&link, &attach.inbox, control.as_ref(), &orders, config.spin)?;
        Ok(Self {
            clock,
            now,
            link,
            sockets: Slab::new(),
            sessions: Slab::new(),
            demux: Demux::new(),
            fast_open: longshore_tcp::FastOpenCache::new(),
            wheel: Wheel::new(now),
            time_waits: Wheel::new(now),
            dirty: Vec::new(),
            waiting_sessions: std::collections::VecDeque::new(),
            burials: crate::burial::Burials::default(),
            starved: std::collections::VecDeque::new(),
            unresolved: Vec::new(),
            reassembler: Reassembler::new(Limits::default()),
            reassembler6: Reassembler::new(Limits::for_ipv6()),
            icmp_limit: longshore_net::icmp::RateLimit::default(),
            counters: Counters::new(),
            attach,
            sleeper,
            orders,
            may_wait,
            loopback: config.loopback,
            scope: config.scope,
            cut_through: config.cut_through,
            private: config.private,
            had_session: false,
            draining: false,
            grace: config.grace,
            drain_by: Instant::NEVER,
            housekeeping_at: now,
            stalled_until: Instant::NEVER,
            share: crate::requests::Share::default(),
            slow_request: false,
            first_session: 0,
            control,
            notice: |_| (),
            port_name: config.port_name,
            host_settings: None,
            ecn: None,
            access: crate::access::Access::default(),
            congestion: None,
            user_timeout_option: false,
            past_meter: longshore_hostif::Meter::default(),
            sandbox: String::new(),
            rx: Some(RecvBuffer::new()),
            inlet: Inlet::default(),
            strangers: Strangers::default(),
            due: Vec::new(),
            questions: Vec::new(),
            late_binds: Vec::new(),
            over: Vec::new(),
            whole: Vec::new(),
        })
    }

    /// Whether a hostile program can hold it up: it serves one alone, or the kernel has no
    /// AIO.
    pub fn may_be_held_up(&self) -> bool {
        self.may_wait
    }

    /// Whether programs cannot even send it descriptors, which it would have to close.
    pub fn refuses_descriptors(&self) -> bool {
        self.attach.refuses_descriptors
    }

    /// From now on, what the operator should know is said so, each thing once for each
    /// session.
    pub fn on_notice(&mut self, notice: fn(&str)) {
        self.notice = notice;
    }

    /// A session had no memory for what has come for it.
    pub(crate) fn arena_is_full(&mut self, session: u32) {
        self.counters.drop(EngineDrop::ArenaFull);
        if let Some(s) = self.sessions.get_mut(session)
            && !std::mem::replace(&mut s.was_full, true)
        {
            (self.notice)(&format!(
                "session {session} has no memory left for what it receives: its programs have \
                 to read, or to use an engine with more (`session.receive_mib` in its \
                 configuration)"
            ));
        }
    }

    /// What its process has given up, for those who ask.
    pub fn set_sandbox(&mut self, words: &str) {
        words.clone_into(&mut self.sandbox);
    }

    /// From now on, the sessions of each ordinary user who comes may have this much together.
    pub fn limit_users(&mut self, limits: crate::attach::UserLimits) {
        self.attach.users.set_limits(limits);
    }

    /// From now on, new sockets start from the host's settings.
    pub fn follow(&mut self, settings: crate::sysctl::HostSettings) {
        self.host_settings = Some(settings);
    }

    /// From now on, new sockets use ECN as net.ipv4.tcp_ecn would say with this number,
    /// whatever the host's own says: accurate ECN is more than many kernels have.
    ///
    /// # Errors
    /// [`EngineError::Ecn`] if there is no such mode.
    pub fn set_ecn(&mut self, number: u8) -> Result<(), EngineError> {
        let mode = EcnMode::from_number(number).ok_or(EngineError::Ecn(number))?;
        self.ecn = Some(mode);
        Ok(())
    }

    /// From now on, connections of new sockets tell their peers of the time that
    /// TCP_USER_TIMEOUT sets, and go by what those tell of theirs where it is not set (RFC
    /// 5482). Off at first, as Linux does neither.
    pub fn set_user_timeout_option(&mut self, on: bool) {
        self.user_timeout_option = on;
    }

    /// Serves until it is told to stop, or, for a private engine, until its
    /// programs are gone.
    ///
    /// # Errors
    /// [`EngineError`] if the port or the event loop fails.
    pub fn run(&mut self) -> Result<(), EngineError> {
        loop {
            let worked = self.turn()?;
            // The turn may have ended the last session: nobody would wake it for that.
            if self.is_finished() {
                break;
            }
            self.rest(worked)?;
        }
        self.say_goodbye();
        self.give_back();
        Ok(())
    }

    /// One turn of the loop; says whether there was anything to do.
    ///
    /// # Errors
    /// [`EngineError::Port`] if the port is gone.
    pub fn turn(&mut self) -> Result<bool, EngineError> {
        let now = self.clock.now();
        self.turn_at(now)
    }

    /// A turn, with the time of it.
    pub(crate) fn turn_at(&mut self, now: Instant) -> Result<bool, EngineError> {
        self.now = now;
        self.counters.turns += 1;
        // What programs asked before a packet came is done before it is taken: an
        // option, say, for which the engine was not woken.
        if self.stalled_until <= self.now {
            self.retry_stalled();
        }
        let mut worked = self.take_requests();
        if self.inlet.is_due(worked) {
            worked |= self.receive()?;
        }
        worked |= self.run_timers();
        if !self.starved.is_empty() {
            self.feed_starved();
        }
        if !self.burials.is_empty() {
            worked |= self.go_on_burying();
        }
        worked |= self.settle();
        worked |= self.bind_late();
        self.answer_questions();
        self.publish();
        self.link.port.flush().map_err(EngineError::Port)?;
        Ok(worked)
    }

    fn receive(&mut self) -> Result<bool, EngineError> {
        let mut rx = self.rx.take().unwrap_or_default();
        let most = self.inlet.most();
        let mut count = 0;
        let result = loop {
            if count == most {
                break Ok(());
            }
            match self.link.port.recv_single(&mut rx) {
                Ok(Some(meta)) => {
                    count += 1;
                    self.frame_in(rx.frame(meta.len), &meta);
                }
                Ok(None) => break Ok(()),
                Err(e) => break Err(EngineError::Port(e)),
            }
        };
        self.rx = Some(rx);
        self.inlet.took(count);
        // A turn that takes one frame leaves others for the next, which is no sign.
        self.strangers.looked(count == most && most > 1);
        while let Some(own) = self.link.own.pop_front() {
            count += 1;
            self.own_packet_in(&own);
        }
        result.map(|()| count != 0)
    }

    fn run_timers(&mut self) -> bool {
        let mut due = std::mem::take(&mut self.due);
        self.wheel.advance(self.now, &mut due);
        let any = !due.is_empty();
        for key in due.drain(..) {
            self.socket_timer(key);
        }
        self.due = due;
        let mut over = std::mem::take(&mut self.over);
        self.time_waits.advance(self.now, &mut over);
        for flow in over.drain(..) {
            self.time_wait_timer(flow);
        }
        self.over = over;
        if self.link.neighbor_deadline().is_some_and(|t| t <= self.now) {
            let gave_up = self.link.poll_neighbors(self.now, &mut self.counters);
            if gave_up {
                self.neighbors_changed();
            }
        }
        if self.link.take_changed() {
            self.addresses_changed();
        }
        if self.housekeeping_at <= self.now {
            self.keep_house();
        }
        any
    }

    fn publish(&mut self) {
        let none_under_way = self.link.own.is_empty();
        let turn = self.counters.turns;
        for session in self.sessions.iter_mut() {
            self.counters.wakeup_waits += u64::from(session.publish(turn));
            session.release_taken(none_under_way);
        }
    }

    /// Puts a socket on the list of those to be looked at this turn.
    #[inline]
    pub(crate) fn touch(&mut self, key: u32) {
        if let Some(socket) = self.sockets.get_mut(key)
            && !socket.dirty
        {
            socket.dirty = true;
            self.dirty.push(key);
        }
    }

    /// Whether `ip` is an address of this engine.
    pub(crate) fn is_local(&self, ip: IpAddr) -> bool {
        self.link.is_local(ip)
    }

    /// Neighbours have answered or were given up: whoever waits tries again.
    pub(crate) fn neighbors_changed(&mut self) {
        for key in std::mem::take(&mut self.unresolved) {
            self.touch(key);
        }
    }

    /// Stops letting sessions in, and ends when those there are have ended, at
    /// the latest after `grace`.
    pub fn drain(&mut self, grace: Duration) {
        self.draining = true;
        self.drain_by = Instant(self.now.0 + grace.as_micros() as u64);
    }
}
